// What is asked of the broker and told to it: the information and command services over HTTP.

/** The broker refused, or could not be reached; `status` is 0 then. */
export class Refusal extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/** Return the answer about an object: rows, total, next, summary. Refusal. */
export async function ask(object, selectors = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(selectors)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== "" && each !== null && each !== undefined) query.append(name, each);
    }
  }
  const text = query.toString();
  return answered(`info/${object}${text ? `?${text}` : ""}`, {});
}

/** Carry out a command; return its answer. Refusal, with the words of the broker. */
export async function tell(command) {
  return answered("command", posted(command));
}

/** Log on; the server keeps who it is with a cookie that no script reads. Refusal. */
export async function logOn(user, password) {
  return answered("login", posted({ user, password }));
}

/** End the session. Refusal. */
export async function logOff() {
  return answered("logout", posted({}));
}

/** Return who is logged on, and what it may do. Refusal, with status 401 for nobody. */
export async function whoAmI() {
  return answered("whoami", {});
}

function posted(value) {
  return { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(value) };
}

async function answered(path, options) {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", cache: "no-store", ...options });
  } catch {
    throw new Refusal(0, "the broker does not answer");
  }
  let found = {};
  try {
    found = await response.json();
  } catch {
    // The status says enough.
  }
  if (!response.ok) throw new Refusal(response.status, words(found, response));
  return found;
}

function words(found, response) {
  const text = found.error_text || found.text || found.error || response.statusText || "it was refused";
  const code = found.error_code && found.error_code !== "00000000" ? ` (${found.error_code})` : "";
  return `${text}${code}`;
}
