// Elements and words: the only place that makes markup, and it makes it of nodes and text, never of strings.

const SVG = "http://www.w3.org/2000/svg";

/** Return an element: attributes as they are, `on…` as listeners, `--…` as CSS variables, children as nodes or text. */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** Return an element of SVG. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) made.style.setProperty(name, value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

const WHOLE = new Intl.NumberFormat("en");
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

/** Return a whole number for people; what is not known is a dash. */
export function count(number) {
  return number === null || number === undefined ? "–" : WHOLE.format(number);
}

/** Return "1 unit", "2 units". */
export function counted(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** Return a size in bytes for people. */
export function bytes(number) {
  if (number === null || number === undefined) return "–";
  let unit = 0;
  let left = number;
  while (left >= 1024 && unit < UNITS.length - 1) {
    left /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? count(left) : left.toFixed(left < 10 ? 1 : 0)} ${UNITS[unit]}`;
}

/** Return a length of time, given in seconds, for people. */
export function age(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds === 0) return "0 s";
  if (seconds < 0.001) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${seconds < 0.01 ? (seconds * 1e3).toFixed(1) : Math.floor(seconds * 1e3)} ms`;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.floor(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** Return how many a second. */
export function rate(number) {
  if (number === null || number === undefined) return "–";
  if (number === 0) return "0";
  return number < 10 ? number.toFixed(1) : count(Math.round(number));
}

/** Return a moment as the operator's clock shows it. */
export function when(text) {
  if (!text) return "–";
  const moment = new Date(text);
  const day = moment.toLocaleDateString("sv");
  const time = moment.toLocaleTimeString("sv");
  return day === new Date().toLocaleDateString("sv") ? time : `${day} ${time}`;
}

/** Return the name of a row's service. */
export function serviceOf(row) {
  return [row.server_class, row.server_name, row.service].filter((part) => part !== "").join("/");
}

/** Return the address of a service's units of work. */
export function unitsOf({ server_class, server_name, service }, status = "") {
  return `#units?${new URLSearchParams({ server_class, server_name, service, ...(status && { status }) })}`;
}

/** Return a participant's name: user and token. */
export function participant(user, token) {
  if (!user && !token) return "–";
  return token ? `${user} · ${token}` : user;
}
