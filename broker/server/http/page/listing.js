// A room that is one table with a filter: conversations, participants.

import { count, el } from "./dom.js";
import { ask } from "./server.js";
import { Table } from "./table.js";

const LIMIT = 500;

/** Return a room of one object's rows. `text(row)` is what the filter looks in. */
export function listRoom(state, asked, { title, object, empty, key, text, columns }) {
  const filter = el("input", { type: "search", id: "filter", value: asked.get("filter") ?? "", placeholder: "part of a name", oninput: () => show() });
  const note = el("p", { class: "quiet" });
  const table = new Table({ caption: title, empty, key, columns });
  let rows = [];

  function show() {
    const wanted = filter.value.toLowerCase();
    table.update(rows.filter((row) => text(row).toLowerCase().includes(wanted)));
  }

  async function look() {
    const answer = await ask(object, { limit: LIMIT });
    rows = answer.rows;
    note.textContent = answer.next ? `The first ${count(LIMIT)}${answer.total ? ` of ${count(answer.total)}` : "; there are more"}.` : count(rows.length);
    show();
  }

  const node = el("section", {}, el("h2", {}, title), el("p", { class: "filters" }, el("label", { for: "filter" }, "Show "), filter), note, table.node);
  return { node, look };
}
