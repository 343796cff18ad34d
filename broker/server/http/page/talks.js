// Conversations: who talks with which service, what is open in them, and their end.

import { button } from "./actions.js";
import { age, count, el, participant, serviceOf } from "./dom.js";
import { listRoom } from "./listing.js";

export function talks(state, asked) {
  return listRoom(state, asked, {
    title: "Conversations",
    object: "CONVERSATION",
    empty: "There is no conversation.",
    key: (row) => row.conv_id,
    text: (row) => [row.conv_id, serviceOf(row), row.client_user, row.server_user ?? ""].join(" "),
    columns: [
      { label: "Conversation", isCode: true, value: (row) => row.conv_id, cell: (row) => el("code", {}, row.conv_id) },
      { label: "Service", value: serviceOf, cell: (row) => el("span", { class: "name" }, serviceOf(row)), isWide: true },
      { label: "Client", value: (row) => row.client_user, cell: (row) => el("span", { class: "name" }, participant(row.client_user, row.client_token)) },
      { label: "Server", value: (row) => row.server_user ?? "", cell: (row) => el("span", { class: "name" }, row.server_user === null ? "free" : participant(row.server_user, row.server_token)) },
      { label: "Carries", value: (row) => row.type, cell: (row) => (row.type === "UOW" ? "units of work" : "messages") },
      { label: "State", value: (row) => row.state, cell: (row) => ({ OPEN: "open", EOC: "ended", EOC_CANCEL: "cancelled" })[row.state] ?? row.state },
      { label: "For the server", isNumber: true, value: (row) => row.waiting_for_server, cell: (row) => count(row.waiting_for_server) },
      { label: "For the client", isNumber: true, value: (row) => row.waiting_for_client, cell: (row) => count(row.waiting_for_client) },
      { label: "Idle", isNumber: true, value: (row) => row.idle ?? -1, cell: (row) => age(row.idle) },
      { label: "Do", cell: (row) => end(row, state), sign: (row) => row.conv_id },
    ],
  });
}

function end(row, state) {
  return button("End", { command: "SHUTDOWN", object: "CONVERSATION", option: "IMMED", conv_id: row.conv_id }, {
    confirm: { what: `End conversation ${row.conv_id}?`, means: "Both sides are told that it was ended. With units of work that are not processed it is refused.", does: "End it" },
    then: state.again,
  });
}
