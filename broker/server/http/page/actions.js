// What an operator does: asked once more before it destroys something, told in words what came of it.

import { el } from "./dom.js";
import { Refusal, tell } from "./server.js";

const SAID_MILLISECONDS = 8000;

/**
 * Return a button that carries out a command. `confirm` is {what, means, does, typed}: asked first; with `typed` the
 * operator has to type that word. `outcome` makes of the answer what is said of it.
 */
export function button(label, command, { confirm = null, outcome = textOf, then = () => {} } = {}) {
  return el("button", { type: "button", class: confirm ? "destroys" : null, onclick: () => carryOut(label, command, { confirm, outcome, then }) }, label);
}

function textOf(answer) {
  return answer.text || "done";
}

async function carryOut(label, command, { confirm, outcome, then }) {
  if (confirm && !(await confirmed(confirm))) return;
  try {
    const answer = await tell(typeof command === "function" ? command() : command);
    say(`${label}: ${outcome(answer)}`);
  } catch (failure) {
    if (!(failure instanceof Refusal)) throw failure;
    say(`${label}: ${failure.message}`, true);
  }
  then();
}

let asked = Promise.resolve(); // the question before: a dialog tells a moment after it has closed what was answered

/** Ask whether it is meant; false when the operator leaves it. */
function confirmed(question) {
  asked = asked.then(() => answered(question));
  return asked;
}

function answered({ what, means, does, typed = "" }) {
  const dialog = document.getElementById("confirm");
  const yes = document.getElementById("confirm-yes");
  const input = document.getElementById("confirm-input");
  document.getElementById("confirm-what").textContent = what;
  document.getElementById("confirm-means").textContent = means;
  document.getElementById("confirm-typed").hidden = !typed;
  document.getElementById("confirm-word").textContent = typed;
  yes.textContent = does;
  yes.disabled = Boolean(typed);
  input.value = "";
  input.oninput = () => {
    yes.disabled = input.value !== typed;
  };
  dialog.returnValue = "no";
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
    dialog.showModal();
    document.getElementById(typed ? "confirm-input" : "confirm-no").focus();
    // Enter in the field is no more than what the button allows.
    input.onkeydown = (event) => {
      if (event.key === "Enter") {
        event.preventDefault();
        if (!yes.disabled) dialog.close("yes");
      }
    };
  });
}

/** Say what came of it; a refusal stays until it is read. */
export function say(text, isRefusal = false) {
  const said = document.getElementById("said");
  const line = el("p", { class: isRefusal ? "refused" : "done" }, text, " ");
  line.append(el("button", { type: "button", "aria-label": "Close", onclick: () => line.remove() }, "×"));
  said.append(line);
  while (said.children.length > 4) said.firstChild.remove();
  if (!isRefusal) setTimeout(() => line.remove(), SAID_MILLISECONDS);
}
