// Topics, and how far each subscriber is behind.

import { button } from "./actions.js";
import { age, count, el, participant, when } from "./dom.js";
import { ask } from "./server.js";
import { Table } from "./table.js";

const LIMIT = 500;

export function topics(state) {
  const known = new Table({
    caption: "Topics",
    empty: "No topic has been used yet.",
    key: (row) => row.topic,
    columns: [
      { label: "Topic", value: (row) => row.topic, cell: (row) => el("span", { class: "name" }, row.topic), isWide: true },
      { label: "Publications", isNumber: true, value: (row) => row.publications, cell: (row) => count(row.publications) },
      { label: "Oldest", isNumber: true, value: (row) => row.oldest_age ?? -1, cell: (row) => age(row.oldest_age) },
      { label: "Subscribers", isNumber: true, value: (row) => row.subscribers, cell: (row) => count(row.subscribers) },
      { label: "Durable", isNumber: true, value: (row) => row.durable_subscribers, cell: (row) => count(row.durable_subscribers) },
      { label: "Furthest behind", isNumber: true, value: (row) => row.largest_lag ?? 0, cell: (row) => count(row.largest_lag) },
      { label: "Published", isNumber: true, value: (row) => row.published, cell: (row) => count(row.published) },
    ],
  });
  let longest = 1;
  const behind = new Table({
    caption: "Subscribers",
    empty: "Nobody subscribes.",
    key: (row) => `${row.topic} ${row.user_id} ${row.token} ${row.subscription_id ?? ""}`,
    order: 3,
    isDescending: true,
    columns: [
      { label: "Topic", value: (row) => row.topic, cell: (row) => el("span", { class: "name" }, row.topic) },
      { label: "Subscriber", value: (row) => row.user_id, cell: (row) => el("span", { class: "name" }, participant(row.user_id, row.token)) },
      { label: "Durable", value: (row) => row.durable, cell: (row) => (row.durable ? "durable" : "while it is here") },
      { label: "Behind", isNumber: true, value: (row) => row.lag, cell: (row) => count(row.lag) },
      { label: "", cell: (row) => el("span", { class: "bar", "aria-hidden": "true" }, el("i", { "--share": (row.lag ?? 0) / longest })), sign: (row) => `${row.lag} ${longest}` },
      { label: "Held", isNumber: true, value: (row) => row.held ?? 0, cell: (row) => count(row.held) },
      { label: "Being read", isNumber: true, value: (row) => row.outstanding, cell: (row) => count(row.outstanding) },
      { label: "Since", value: (row) => row.subscribed, cell: (row) => when(row.subscribed) },
      { label: "Ends in", isNumber: true, value: (row) => row.ends_in ?? Infinity, cell: (row) => age(row.ends_in) },
      { label: "Do", cell: (row) => end(row, state), sign: (row) => `${row.user_id} ${row.held}` },
    ],
  });
  const note = el("p", { class: "quiet" });

  async function look() {
    const [found, subscribers] = await Promise.all([ask("TOPIC", { limit: LIMIT }), ask("SUBSCRIBER", { limit: LIMIT })]);
    longest = Math.max(1, ...subscribers.rows.map((row) => row.lag ?? 0));
    known.update(found.rows);
    behind.update(subscribers.rows);
    note.textContent = subscribers.next ? `The first ${count(LIMIT)} subscribers.` : "";
  }

  const node = el(
    "div",
    {},
    el("section", {}, el("h2", {}, "Topics"), known.node),
    el("section", {}, el("h2", {}, "How far each subscriber is behind"), note, behind.node),
  );
  return { node, look };
}

function end(row, state) {
  const { topic, user_id, token } = row;
  const then = state.again;
  const about = { object: "SUBSCRIBER", topic, user_id, token };
  const held = row.held ? [
    button("Release", { command: "RELEASE", ...about }, {
      confirm: { what: `Release what is held for ${participant(user_id, token)}?`, means: `It gets ${count(row.held)} publication(s) of ${topic}, perhaps a second time.`, does: "Release them" },
      then,
    }),
    button("Discard", { command: "DISCARD", option: "PROCESSED", ...about }, {
      confirm: { what: `Discard what is held for ${participant(user_id, token)}?`, means: `It never gets the ${count(row.held)} publication(s) of ${topic} that are held.`, does: "Discard them" },
      then,
    }),
  ] : [];
  return el("span", { class: "deeds" }, ...held, button("Unsubscribe", { command: "UNSUBSCRIBE", topic, user_id, token }, {
    confirm: { what: `Unsubscribe ${participant(user_id, token)} from ${topic}?`, means: `It never gets the ${count(row.lag)} publication(s) that it has not read.`, does: "Unsubscribe it" },
    then,
  }));
}
