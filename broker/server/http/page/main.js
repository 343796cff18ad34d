// The console: which room is open, a look at the broker every two seconds, and what the head of the page says.

import { clients } from "./clients.js";
import { age, el, when } from "./dom.js";
import { files } from "./files.js";
import { Past } from "./history.js";
import { askWho, showWho } from "./login.js";
import { overview } from "./overview.js";
import { ask, Refusal } from "./server.js";
import { services } from "./services.js";
import { talks } from "./talks.js";
import { topics } from "./topics.js";
import { units } from "./units.js";

const LOOK_MILLISECONDS = 2000;
const HIDDEN_MILLISECONDS = 10000; // while nobody sees the page
const ROOMS = [
  ["overview", "Overview", overview],
  ["services", "Services", services],
  ["units", "Units of work", units],
  ["conversations", "Conversations", talks],
  ["topics", "Topics", topics],
  ["clients", "Clients", clients],
  ["files", "Data files", files],
];

const content = document.getElementById("content");
const state = { past: new Past(), broker: null, started: null, again: () => look(), seen: 0 };
let open = null; // the room that is shown
let timer = 0;
let looking = 0; // counts looks: an answer that a later look has overtaken is let go

/** Return the room's name and what is asked for in it, of an address like #units?service=A/B/C. */
function wanted() {
  const [name, query = ""] = location.hash.slice(1).split("?");
  const known = ROOMS.some(([room]) => room === name);
  return [known ? name : "overview", new URLSearchParams(query)];
}

function enter() {
  const [name, asked] = wanted();
  const [, title, make] = ROOMS.find(([room]) => room === name);
  open = make(state, asked);
  content.replaceChildren(open.node);
  document.title = `${title} – ${state.broker?.broker_id ?? "Broker"}`;
  for (const link of document.querySelectorAll("#rooms a")) {
    if (link.getAttribute("href") === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  look();
}

async function look() {
  clearTimeout(timer);
  looking += 1;
  const mine = looking;
  const room = open;
  try {
    const [broker, totals] = await Promise.all([ask("BROKER"), ask("STATISTICS")]);
    if (mine !== looking) return;
    note(broker, totals.rows[0] ?? {});
    await room.look(state);
    if (mine !== looking) return;
    trouble("");
    fresh(broker.time);
  } catch (failure) {
    if (!(failure instanceof Refusal)) throw failure;
    if (mine !== looking) return;
    if (failure.status === 401) askWho(look);
    else trouble(explained(failure));
  } finally {
    if (mine === looking) timer = setTimeout(look, document.hidden ? HIDDEN_MILLISECONDS : LOOK_MILLISECONDS);
  }
}

function note(answer, totals) {
  const broker = answer.rows[0] ?? {};
  if (state.started !== broker.started) state.past.clear(); // totals begin anew with the broker
  state.started = broker.started;
  state.broker = broker;
  state.totals = totals;
  state.now = Date.parse(answer.time) / 1000;
  const { accepted, processed, commits, groups, published } = totals;
  state.past.broker.add(state.now, { accepted, processed, commits, groups, published, active: broker.active_uows });
  head(broker);
}

function head(broker) {
  document.getElementById("name").textContent = `${broker.broker_id ?? "Broker"}`;
  const states = [
    ["", broker.run_mode],
    ...(broker.pstore === "NO"
      ? [["", "no store"]]
      : [[broker.store_connected ? "good" : "bad", broker.store_connected ? `store ${broker.store_type}` : "store disconnected"]]),
    ...(broker.new_uow_messages === false ? [["warn", "no new units of work"]] : []),
    ...(broker.partner ? [["", `partner: ${broker.partner}`]] : []),
    ["", `version ${broker.version ?? "?"}, up ${age(broker.uptime)}`],
  ];
  const sign = JSON.stringify(states);
  const list = document.getElementById("states");
  if (list.dataset.sign === sign) return;
  list.dataset.sign = sign;
  list.replaceChildren(...states.filter(([, text]) => text).map(([kind, text]) => el("li", { class: kind || null }, text)));
}

function fresh(time) {
  state.seen = Date.now();
  document.getElementById("fresh").textContent = `As of ${when(time)}.`;
}

function trouble(text) {
  const line = document.getElementById("trouble");
  if (line.textContent !== text) line.textContent = text;
  line.hidden = !text;
}

function explained(failure) {
  if (failure.status === 0) {
    const since = state.seen ? ` What is shown is ${age((Date.now() - state.seen) / 1000)} old.` : "";
    return `The broker does not answer: it was stopped, or cannot be reached.${since} Asking again.`;
  }
  if (failure.status === 403) return `You may not look at this: ${failure.message}`;
  return failure.message;
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest?.("input, select, textarea, dialog")) return;
  const at = Number(event.key) - 1;
  if (at >= 0 && at < ROOMS.length) {
    location.hash = `#${ROOMS[at][0]}`;
  } else if (event.key === "/") {
    const filter = content.querySelector("input");
    if (filter) {
      event.preventDefault();
      filter.focus();
    }
  }
}

document.getElementById("rooms").append(...ROOMS.map(([name, title]) => el("a", { href: `#${name}` }, title)));
addEventListener("hashchange", enter);
addEventListener("keydown", keys);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) look();
});
showWho();
enter();
