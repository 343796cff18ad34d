// Who looks: asked for where the server has users, and shown.

import { logOff, logOn, Refusal, whoAmI } from "./server.js";

const field = (name) => document.getElementById(`login-${name}`);

/** Ask who it is until the server knows them; returns at once when it is being asked already. */
export function askWho(then) {
  const dialog = document.getElementById("login");
  if (dialog.open) return;
  field("refused").textContent = "";
  field("password").value = "";
  dialog.oncancel = (event) => event.preventDefault(); // without a user there is nothing to see
  dialog.querySelector("form").onsubmit = async (event) => {
    event.preventDefault();
    field("yes").disabled = true;
    try {
      await logOn(field("user").value, field("password").value);
      dialog.close();
      await showWho();
      then();
    } catch (failure) {
      if (!(failure instanceof Refusal)) throw failure;
      field("refused").textContent = failure.message;
      field("password").value = "";
      field("password").focus();
    } finally {
      field("yes").disabled = false;
    }
  };
  dialog.showModal();
  field("user").focus();
}

/** Show who is logged on, where there are users. */
export async function showWho() {
  const line = document.getElementById("user");
  try {
    const found = await whoAmI();
    line.hidden = Boolean(found.is_open);
    document.getElementById("user-name").textContent = found.user;
  } catch (failure) {
    if (!(failure instanceof Refusal)) throw failure;
    line.hidden = true;
  }
}

document.getElementById("user-off").onclick = async () => {
  await logOff();
  location.reload();
};
