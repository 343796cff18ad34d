// Units of work by status and service, a page at a time, with what an operator may do to one.

import { button } from "./actions.js";
import { age, bytes, count, el, participant, serviceOf, when } from "./dom.js";
import { ask } from "./server.js";
import { Table } from "./table.js";

const PAGE = 100;
const STATUSES = ["RECEIVED", "ACCEPTED", "DELIVERED", "POSTPONED", "PROCESSED", "BACKEDOUT", "CANCELLED", "TIMEOUT", "DISCARDED"];

export function units(state, asked) {
  const named = Object.fromEntries(["server_class", "server_name", "service"].map((name) => [name, asked.get(name) ?? ""]));
  const service = el("input", { type: "search", id: "filter", value: serviceOf(named), placeholder: "CLASS/SERVER/SERVICE", oninput: parsed });
  const uowid = el("input", { type: "search", id: "uowid", value: asked.get("uowid") ?? "", placeholder: "16 characters", maxlength: 16 });
  const boxes = STATUSES.map((name) => el("input", { type: "checkbox", value: name, checked: asked.getAll("status").includes(name), onchange: () => submit() }));
  const held = el("input", { type: "checkbox", value: "yes", checked: asked.get("held") === "yes", onchange: () => submit() });
  const counts = STATUSES.map(() => el("span", { class: "quiet" }));
  const note = el("p", { class: "quiet" });
  const more = el("button", { type: "button", hidden: true, onclick: () => fetchMore() }, `${PAGE} more`);
  const table = unitTable(state);
  const later = { rows: [], next: null }; // pages after the first, as they were when they were asked for
  let first = { rows: [], next: null, total: null };

  /** Take what was typed; a name that has slashes itself is known by the link that led here. */
  function parsed() {
    const [server_class = "", server_name = "", ...rest] = service.value.trim().split("/");
    Object.assign(named, { server_class, server_name, service: rest.join("/") });
  }

  function selectors() {
    return {
      ...named,
      uowid: uowid.value.trim(),
      status: boxes.filter((box) => box.checked).map((box) => box.value),
      ...(held.checked ? { held: "yes" } : {}),
    };
  }

  function submit() {
    const query = new URLSearchParams(Object.entries(named).filter(([, text]) => text));
    if (uowid.value.trim()) query.set("uowid", uowid.value.trim());
    if (held.checked) query.set("held", "yes");
    for (const box of boxes) if (box.checked) query.append("status", box.value);
    history.replaceState(null, "", `#units${query.size ? `?${query}` : ""}`);
    later.rows = [];
    later.next = null;
    state.again();
  }

  async function fetchMore() {
    const answer = await ask("PSF", { ...selectors(), limit: PAGE, cursor: later.next ?? first.next });
    later.rows.push(...answer.rows);
    later.next = answer.next;
    show(answer.next);
  }

  function show(next) {
    const known = new Map([...first.rows, ...later.rows].map((row) => [row.uowid, row]));
    table.update([...known.values()]);
    note.textContent = first.total === null || first.total === undefined
      ? `${count(known.size)} shown${next ? ", there are more" : ""}`
      : `${count(known.size)} of ${count(first.total)}`;
    more.hidden = !next;
  }

  async function look() {
    first = await ask("PSF", { ...selectors(), limit: PAGE });
    const statuses = state.broker.statuses ?? {};
    counts.forEach((node, at) => {
      const number = statuses[STATUSES[at]];
      node.textContent = number === undefined ? "" : ` ${count(number)}`;
    });
    show(later.rows.length ? later.next : first.next);
  }

  const form = el(
    "form",
    { class: "filters", onsubmit: (event) => { event.preventDefault(); submit(); } },
    el("label", {}, "Service ", service),
    el("label", {}, "Unit of work ", uowid),
    el("button", {}, "Show"),
    el("fieldset", {}, el("legend", {}, "Status"), boxes.map((box, at) => el("label", { class: "chip" }, box, STATUSES[at].toLowerCase(), counts[at])), el("label", { class: "chip" }, held, "held after a restore")),
  );
  const node = el("section", {}, el("h2", {}, "Units of work"), form, note, table.node, el("p", {}, more));
  return { node, look };
}

function unitTable(state) {
  return new Table({
    caption: "Units of work",
    empty: "None like these.",
    key: (row) => row.uowid,
    columns: [
      { label: "Unit of work", isCode: true, value: (row) => row.uowid, cell: (row) => el("code", {}, row.uowid) },
      { label: "Status", value: (row) => row.status, cell: (row) => status(row) },
      { label: "Service", value: serviceOf, cell: (row) => el("span", { class: "name" }, serviceOf(row), row.from_server && " (answer)"), isWide: true },
      { label: "Sender", value: (row) => row.sender_user, cell: (row) => el("span", { class: "name" }, participant(row.sender_user, row.sender_token)) },
      { label: "Receiver", value: (row) => row.receiver_user ?? "", cell: (row) => el("span", { class: "name" }, participant(row.receiver_user, row.receiver_token)) },
      { label: "Sent", value: (row) => row.committed ?? row.created, cell: (row) => when(row.committed ?? row.created) },
      { label: "Messages", isNumber: true, value: (row) => row.messages, cell: (row) => count(row.messages) },
      { label: "Size", isNumber: true, value: (row) => row.size, cell: (row) => bytes(row.size) },
      { label: "Tried", isNumber: true, value: (row) => row.delivery_count, cell: (row) => count(row.delivery_count) },
      { label: "Ends in", isNumber: true, value: (row) => row.ends_in ?? Infinity, cell: (row) => age(row.ends_in) },
      { label: "User status", value: (row) => row.ustatus ?? "", cell: (row) => el("span", { class: "name" }, row.ustatus ?? "") },
      { label: "Do", cell: (row) => deeds(row, state), sign: (row) => `${row.status} ${row.held}` },
    ],
  });
}

function status(row) {
  const kind = { TIMEOUT: "bad", CANCELLED: "bad", DISCARDED: "bad", BACKEDOUT: "warn", POSTPONED: "warn", PROCESSED: "good" }[row.status] ?? "";
  const back = row.status === "POSTPONED" && row.back_in !== null ? `, back in ${age(row.back_in)}` : "";
  return el("span", { class: `status ${row.held ? "warn" : kind}` }, row.status.toLowerCase(), back, row.held && ", held");
}

function deeds(row, state) {
  const { uowid } = row;
  const then = state.again;
  const made = [];
  if (row.held) {
    made.push(
      button("Release", { command: "RELEASE", object: "PSF", uowid }, {
        confirm: { what: `Release ${uowid}?`, means: "It can be received again. If its receiver had it before the restore, after the backup, it gets it twice.", does: "Release it" },
        then,
      }),
      button("Discard", { command: "DISCARD", object: "PSF", option: "PROCESSED", uowid }, {
        confirm: { what: `Discard ${uowid}?`, means: "Its receiver has had it: it ends as processed, and is never received again.", does: "Discard it" },
        then,
      }),
    );
  }
  if (row.status === "POSTPONED" && !row.held) {
    made.push(button("Accept", { command: "SET-UOW-STATUS", object: "PSF", option: "ACCEPTED", uowid }, { then }));
  }
  if (row.status === "ACCEPTED" || row.status === "POSTPONED") {
    made.push(button("Cancel", { command: "SET-UOW-STATUS", object: "PSF", option: "CANCELLED", uowid }, {
      confirm: { what: `Cancel ${uowid}?`, means: `Its ${count(row.messages)} message(s) from ${participant(row.sender_user, row.sender_token)} are deleted and never received.`, does: "Cancel it" },
      then,
    }));
  }
  made.push(button("Purge", { command: "PURGE", object: "PSF", uowid }, {
    confirm: { what: `Purge ${uowid}?`, means: "The unit of work and its status are removed, and nothing tells its sender or its receiver.", does: "Purge it" },
    then,
  }));
  return el("span", { class: "deeds" }, made);
}
