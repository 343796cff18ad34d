// Participants: who is logged on, what they serve and what they have under way.

import { button } from "./actions.js";
import { age, count, el, participant } from "./dom.js";
import { listRoom } from "./listing.js";

export function clients(state, asked) {
  return listRoom(state, asked, {
    title: "Clients and servers",
    object: "PARTICIPANT",
    empty: "Nobody is logged on.",
    key: (row) => row.physical_id ?? `${row.user_id} ${row.token}`,
    text: (row) => [row.user_id, row.token, row.client_id ?? "", ...(row.services ?? []), ...(row.topics ?? [])].join(" "),
    columns: [
      { label: "Participant", value: (row) => row.user_id, cell: (row) => el("span", { class: "name" }, participant(row.user_id, row.token)) },
      { label: "Logged on", value: (row) => (row.logged_on ? "yes" : "no"), cell: (row) => (row.logged_on ? "yes" : "no") },
      { label: "Serves", value: (row) => (row.services ?? []).join(), cell: (row) => names(row.services), isWide: true },
      { label: "Subscribes", value: (row) => (row.topics ?? []).join(), cell: (row) => names(row.topics), isWide: true },
      { label: "Conversations", isNumber: true, value: (row) => row.conversations, cell: (row) => count(row.conversations) },
      { label: "Sending", isNumber: true, value: (row) => row.sending, cell: (row) => count(row.sending) },
      { label: "Receiving", isNumber: true, value: (row) => row.delivering, cell: (row) => count(row.delivering) },
      { label: "Waits", isNumber: true, value: (row) => row.calls_waiting, cell: (row) => count(row.calls_waiting) },
      { label: "Idle", isNumber: true, value: (row) => row.idle ?? -1, cell: (row) => age(row.idle) },
      { label: "Do", cell: (row) => end(row, state), sign: (row) => `${row.user_id} ${row.token}` },
    ],
  });
}

function names(list) {
  return el("span", { class: "name" }, (list ?? []).join(", ") || "–");
}

function end(row, state) {
  const { user_id, token } = row;
  return button("Log off", { command: "SHUTDOWN", object: "PARTICIPANT", option: "IMMED", user_id, token }, {
    confirm: { what: `Log ${participant(user_id, token)} off?`, means: "What it was sending or receiving is backed out; what was committed waits. It may log on again.", does: "Log it off" },
    then: state.again,
  });
}
