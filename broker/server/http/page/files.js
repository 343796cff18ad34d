// The data files as a picture: what in them is still needed, and what keeps the disk from getting free.

import { age, bytes, count, counted, el } from "./dom.js";
import { ask } from "./server.js";

const LIMIT = 1000;

export function files() {
  const words = el("p");
  const list = el("ol", { class: "data-files" });
  let drawn = "";

  async function look(state) {
    const answer = state.broker.pstore === "NO" ? { rows: [] } : await ask("FILES", { limit: LIMIT });
    const sign = JSON.stringify(answer.rows);
    if (sign === drawn) return;
    drawn = sign;
    words.textContent = verdict(answer, state.broker);
    const largest = Math.max(1, ...answer.rows.map((row) => row.bytes));
    list.replaceChildren(...answer.rows.map((row) => line(row, largest)));
  }

  const legend = el(
    "ul",
    { class: "legend" },
    el("li", {}, el("i", { class: "swatch live" }), "still needed"),
    el("li", {}, el("i", { class: "swatch dead" }), "done with"),
    el("li", {}, el("i", { class: "swatch pins" }), "keeps later files"),
  );
  const node = el("section", {}, el("h2", {}, "Data files"), words, legend, list);
  return { node, look };
}

/** Return in a sentence or two how the disk stands. */
function verdict(answer, broker) {
  const { rows, summary } = answer;
  if (broker.pstore === "NO") return "This broker has no persistent store.";
  if (!rows.length) return answer.text && answer.code !== 0 ? answer.text : "This store has no data files.";
  const share = summary.bytes ? Math.round((100 * summary.live_bytes) / summary.bytes) : 0;
  const pin = rows.find((row) => row.pinned_by && row.pins_files);
  const held = pin ? ` ${pin.name} keeps ${counted(pin.pins_files, "later file")} from going: ${pinText(pin.pinned_by)}.` : "";
  return `${counted(rows.length, "file")}, ${bytes(summary.bytes)}, of which ${share} % is still needed; ${bytes(summary.free_bytes)} free on the disk.${held}`;
}

function pinText(pin) {
  if (pin.kind === "key") return `the record ${pin.key}`;
  return `message ${count(pin.number)} of ${pin.queue}, which waits since ${age(pin.age)}`;
}

function line(row, largest) {
  const facts = [
    bytes(row.bytes),
    `${row.bytes ? Math.round((100 * row.live_bytes) / row.bytes) : 0} % needed`,
    row.live_messages ? counted(row.live_messages, "message") : "",
    row.live_keys ? counted(row.live_keys, "record") : "",
    row.active ? "being written" : "",
    !row.active && !row.needed ? "goes with the next clean-up" : "",
  ].filter(Boolean);
  const pins = row.pinned_by && row.pins_files > 0;
  return el(
    "li",
    { class: pins ? "pins" : null },
    el("span", { class: "name" }, row.name),
    el(
      "span",
      { class: "fill", "--size": row.bytes / largest, role: "img", "aria-label": facts.join(", ") },
      el("i", { class: "live", "--share": row.bytes ? row.live_bytes / row.bytes : 0 }),
    ),
    el("span", { class: "quiet" }, facts.join(" · "), pins && ` · kept by ${pinText(row.pinned_by)}`),
  );
}
