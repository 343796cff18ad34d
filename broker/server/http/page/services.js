// Services: how much waits, how old it is, how fast it comes and goes.

import { button } from "./actions.js";
import { age, count, counted, el, rate, serviceOf, unitsOf } from "./dom.js";
import { spark } from "./plots.js";
import { ask } from "./server.js";
import { Table } from "./table.js";

const LIMIT = 1000;

export function services(state, asked) {
  const filter = el("input", { type: "search", id: "filter", value: asked.get("filter") ?? "", placeholder: "part of a name", oninput: () => show() });
  const note = el("p", { class: "quiet" });
  const past = (row) => state.past.service(serviceOf(row));
  const table = new Table({
    caption: "Services",
    empty: "No service has been used or registered yet.",
    key: serviceOf,
    order: 2,
    isDescending: true,
    columns: [
      { label: "Service", value: serviceOf, cell: (row) => el("a", { class: "name", href: unitsOf(row) }, serviceOf(row)), isWide: true },
      { label: "Servers", isNumber: true, value: (row) => row.servers, cell: (row) => count(row.servers) },
      { label: "Waiting", isNumber: true, value: (row) => row.waiting, cell: (row) => count(row.waiting) },
      { label: "Last minutes", cell: (row) => spark(past(row).points("waiting")), sign: () => String(state.now) },
      { label: "Oldest", isNumber: true, value: (row) => row.oldest_age ?? -1, cell: (row) => (row.waiting ? age(row.oldest_age) : "–") },
      { label: "Sent/s", isNumber: true, value: (row) => past(row).rate("accepted") ?? 0, cell: (row) => rate(past(row).rate("accepted")) },
      { label: "Received/s", isNumber: true, value: (row) => past(row).rate("processed") ?? 0, cell: (row) => rate(past(row).rate("processed")) },
      { label: "Being received", isNumber: true, value: (row) => row.delivering, cell: (row) => count(row.delivering) },
      { label: "Given back", isNumber: true, value: (row) => row.given_back, cell: (row) => count(row.given_back) },
      { label: "Timed out", isNumber: true, value: (row) => row.timed_out, cell: (row) => count(row.timed_out) },
      { label: "Conversations", isNumber: true, value: (row) => row.conversations, cell: (row) => count(row.conversations) },
      { label: "Do", cell: (row) => deeds(row, state), sign: (row) => String(row.servers > 0) },
    ],
  });
  let rows = [];

  function show() {
    const text = filter.value.toLowerCase();
    table.update(rows.filter((row) => serviceOf(row).toLowerCase().includes(text)));
  }

  async function look() {
    const answer = await ask("SERVICE", { limit: LIMIT });
    rows = answer.rows;
    for (const row of rows) past(row).add(state.now, { waiting: row.waiting, accepted: row.accepted, processed: row.processed });
    note.textContent = answer.next ? `The first ${count(LIMIT)} of ${count(answer.total)} services.` : counted(rows.length, "service");
    show();
  }

  const node = el(
    "section",
    {},
    el("h2", {}, "Services"),
    el("p", { class: "filters" }, el("label", { for: "filter" }, "Show "), filter),
    note,
    table.node,
  );
  return { node, look };
}

function deeds(row, state) {
  if (!row.servers) return "";
  const { server_class, server_name, service } = row;
  return button("Shut down servers", { command: "SHUTDOWN", object: "SERVICE", option: "QUIESCE", server_class, server_name, service }, {
    confirm: { what: `Shut down the servers of ${serviceOf(row)}?`, means: "They finish the conversations they have, and get no new ones. What waits goes on waiting.", does: "Shut them down" },
    then: state.again,
  });
}
