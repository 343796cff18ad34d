// The first room: what needs attention, in words; how it goes, in pictures; what may be done with the whole broker.

import { button } from "./actions.js";
import { age, bytes, count, counted, el, rate, serviceOf, unitsOf } from "./dom.js";
import { histogram, overTime } from "./plots.js";
import { ask } from "./server.js";

const LONG = 600; // seconds that the oldest has waited, from which on it is told
const LAG = 1000; // publications that a durable subscriber is behind, from which on it is told
const SHOWN = 5; // of one kind of trouble
const ROUNDS_BETWEEN = 5; // looks at the broker between two at what changes slowly

export function overview() {
  const verdict = el("ul", { class: "verdict", "aria-label": "What needs attention" });
  const tiles = el("ul", { class: "tiles" });
  const plots = el("div", { class: "figures" });
  const latency = el("div");
  const deeds = el("p", { class: "buttons" });
  const held = el("p", { class: "buttons held", hidden: true });
  const node = el(
    "div",
    {},
    el("section", {}, el("h2", {}, "What needs attention"), verdict, held, tiles),
    el("section", {}, el("h2", {}, "The last minutes"), el("p", { class: "quiet" }, "Since this page was opened."), plots),
    el("section", {}, el("h2", {}, "How long a commit takes"), latency),
    el("section", {}, el("h2", {}, "The broker"), deeds),
  );
  const known = { services: [], subscribers: [], summary: null, round: 0, deeds: "", held: "" };

  async function look(state) {
    if (known.round % ROUNDS_BETWEEN === 0) {
      const [services, subscribers, buckets, store] = await Promise.all([
        ask("SERVICE", { limit: 1000 }),
        ask("SUBSCRIBER", { durable: "true", limit: 1000 }),
        ask("LATENCY"),
        state.broker.pstore === "NO" ? { summary: null } : ask("FILES", { limit: 1 }),
      ]);
      known.services = services.rows;
      known.subscribers = subscribers.rows;
      known.summary = store.summary;
      latency.replaceChildren(histogram("One group of commits, written and synced", buckets.rows, marks(buckets.summary)));
    }
    known.round += 1;
    verdict.replaceChildren(...lines(troubles(state.broker, known)));
    tiles.replaceChildren(...tilesOf(state, known));
    draw(state, plots);
    offer(state, deeds, known);
    offerHeld(state, held, known);
  }

  return { node, look };
}

/** Return what is wrong, worst first, as [kind, text, address of the room that tells more]. */
export function troubles(broker, { services, subscribers, summary }) {
  const found = [];
  if (broker.refusal) found.push(["bad", `Nobody can call now: ${broker.refusal}`, null]);
  if (broker.pstore !== "NO" && broker.store_connected === false && !broker.refusal) {
    found.push(["bad", "The persistent store is disconnected: persistent work is refused (00780388).", null]);
  }
  if (broker.new_uow_messages === false) {
    found.push(["warn", "New persistent units of work are refused (00370445), until they are allowed again.", null]);
  }
  if (broker.held_uows > 0) {
    found.push(["warn", `${counted(broker.held_uows, "unit of work is", "units of work are")} held after a restore: nobody receives them until they are released.`, "#units?held=yes"]);
  }
  if (broker.held_publications > 0) {
    found.push(["warn", `${counted(broker.held_publications, "publication is", "publications are")} held for their subscribers after a restore.`, "#topics"]);
  }
  const free = summary?.free_bytes ?? broker.free_bytes;
  if (free !== null && free !== undefined && free < Math.max(2 * (broker.min_free_space ?? 0), 256 * 2 ** 20)) {
    found.push(["bad", `The disk of the store has ${bytes(free)} left.`, "#files"]);
  }
  found.push(...few(services.filter((row) => row.waiting > 0 && row.servers === 0 && row.oldest_age > LONG).map((row) => [
    "warn",
    `${serviceOf(row)}: ${counted(row.waiting, "unit of work waits", "units of work wait")}, the oldest since ${age(row.oldest_age)}, and nobody serves it.`,
    unitsOf(row, "ACCEPTED"),
  ])));
  found.push(...few(services.filter((row) => row.waiting > 0 && row.servers > 0 && row.oldest_age > LONG).map((row) => [
    "warn",
    `${serviceOf(row)}: the oldest of ${count(row.waiting)} waits since ${age(row.oldest_age)}, with ${counted(row.servers, "server")}.`,
    unitsOf(row, "ACCEPTED"),
  ])));
  found.push(...few(subscribers.filter((row) => row.lag > LAG).map((row) => [
    "warn",
    `${row.user_id} is ${counted(row.lag, "publication")} of ${row.topic} behind.`,
    "#topics",
  ])));
  return found;
}

function few(found) {
  if (found.length <= SHOWN) return found;
  return [...found.slice(0, SHOWN), ["warn", `And ${count(found.length - SHOWN)} more like these.`, "#services"]];
}

function lines(found) {
  if (!found.length) return [el("li", { class: "good" }, "Nothing: the store is well, and nothing has waited for long.")];
  return found.map(([kind, text, address]) => el("li", { class: kind }, text, address && [" ", el("a", { href: address }, "Look")]));
}

function tilesOf(state, { services, summary }) {
  const { broker, past } = state;
  const waiting = services.reduce((sum, row) => sum + row.waiting, 0);
  const oldest = Math.max(-1, ...services.filter((row) => row.waiting > 0).map((row) => row.oldest_age ?? -1));
  const commits = past.broker.rate("commits");
  const groups = past.broker.rate("groups");
  return [
    tile("Waiting", count(waiting), oldest < 0 ? "units of work" : `the oldest ${age(oldest)}`, "#units?status=ACCEPTED"),
    tile("Sent", `${rate(past.broker.rate("accepted"))}/s`, "units of work", "#services"),
    tile("Received", `${rate(past.broker.rate("processed"))}/s`, "committed by a receiver", "#services"),
    tile("Commits", `${rate(commits)}/s`, commits && groups ? `${rate(commits / groups)} to a sync` : "durable", "#overview"),
    tile("Conversations", count(broker.conversations), counted(broker.participants, "participant"), "#conversations"),
    tile("On disk", bytes(summary?.bytes), summary ? `${bytes(summary.free_bytes)} free` : "", "#files"),
  ];
}

function tile(what, value, more, address) {
  return el(
    "li",
    {},
    el("a", { href: address }, el("span", { class: "what" }, what), el("span", { class: "value" }, value), el("span", { class: "more" }, more)),
  );
}

function draw(state, plots) {
  const past = state.past.broker;
  plots.replaceChildren(
    overTime("Units of work", "a second", state.now, [
      { name: "sent", colour: "c0", points: past.rates("accepted") },
      { name: "received", colour: "c1", points: past.rates("processed") },
    ]),
    overTime("Not complete", "units of work", state.now, [{ name: "active", colour: "c2", points: past.points("active") }]),
  );
}

function marks(summary) {
  if (!summary || !summary.commits) return [];
  const { p50, p99, longest } = summary;
  return [`half within ${age(p50)}`, `99 of 100 within ${age(p99)}`, `the longest ${age(longest)}`];
}

/** Offer what may be done with all that is held since a restore. */
function offerHeld(state, node, known) {
  const { held_uows: uows, held_publications: publications } = state.broker;
  const sign = [uows, publications].join();
  if (sign === known.held) return;
  known.held = sign;
  node.hidden = !uows && !publications;
  const made = [];
  const kinds = [
    [uows, "PSF", counted(uows ?? 0, "unit of work", "units of work")],
    [publications, "SUBSCRIBER", counted(publications ?? 0, "publication")],
  ];
  for (const [number, object, what] of kinds) {
    if (!number) continue;
    made.push(
      button(`Release ${what}`, { command: "RELEASE", object, all: true }, {
        confirm: { what: `Release all ${what} that are held?`, means: "They can be received again. What a receiver had before the restore, after the backup, it then gets twice.", does: "Release them" },
        then: state.again,
      }),
      button(`Discard ${what}`, { command: "DISCARD", object, option: "PROCESSED", all: true }, {
        confirm: { what: `Discard all ${what} that are held?`, means: "They end as processed, and are never received again. What no receiver had is lost.", does: "Discard them", typed: state.broker.broker_id },
        then: state.again,
      }),
    );
  }
  node.replaceChildren(...made);
}

function offer(state, deeds, known) {
  const { broker } = state;
  const sign = [broker.new_uow_messages, broker.store_connected, broker.pstore, broker.store_type].join();
  if (sign === known.deeds) return;
  known.deeds = sign;
  const then = state.again;
  const store = [];
  if (broker.pstore !== "NO") {
    store.push(
      broker.new_uow_messages
        ? button("Refuse new units of work", { command: "FORBID-NEWUOWMSGS", object: "BROKER" }, {
            confirm: { what: "Refuse new persistent units of work?", means: "Senders are told 00370445; what is there can be received. This empties a store before it is moved.", does: "Refuse them" },
            then,
          })
        : button("Allow new units of work", { command: "ALLOW-NEWUOWMSGS", object: "BROKER" }, { then }),
      broker.store_connected
        ? button("Disconnect the store", { command: "DISCONNECT-PSTORE", object: "BROKER" }, {
            confirm: { what: "Disconnect the persistent store?", means: "Persistent units of work under way are backed out, and refused (00780388) until it is connected again. Nothing that was committed is lost.", does: "Disconnect it" },
            then,
          })
        : button("Connect the store", { command: "CONNECT-PSTORE", object: "BROKER" }, { then }),
    );
    if (broker.store_type === "JOURNAL") {
      store.push(
        button("Clean up", { command: "CLEANUP", object: "PSF" }, {
          confirm: { what: "Clean up the data files?", means: "Those that nothing needs are deleted, or moved into the retention directory, once the little that some still hold is written again. No message is lost; the disk has more to do meanwhile.", does: "Clean them up" },
          outcome: freed,
          then,
        }),
      );
    }
  }
  deeds.replaceChildren(
    ...store,
    button("Shut down", { command: "SHUTDOWN", object: "BROKER", option: "IMMED" }, {
      confirm: { what: `Shut down ${broker.broker_id}?`, means: "All connections end. What was acknowledged is durable and is there at the next start.", does: "Shut it down", typed: broker.broker_id },
      then,
    }),
  );
}

/** Return what a clean-up has come to, as its answer tells it. */
function freed({ rows: [row] }) {
  return row.cleanup ?? `${counted(row.files, "file")} gone, ${bytes(row.freed_bytes)} freed`;
}
