"use strict";
// Sorting. A heading's button sorts by its column: first the largest of numbers, the first letters of words.
for (const button of document.querySelectorAll("table.sortable th button")) {
  button.addEventListener("click", () => {
    const heading = button.parentElement;
    const place = heading.cellIndex;
    const body = heading.closest("table").tBodies[0];
    const isNumber = heading.classList.contains("number") || heading.classList.contains("wide");
    const before = heading.getAttribute("aria-sort");
    const isDown = before ? before === "ascending" : isNumber;
    for (const other of heading.parentElement.cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", isDown ? "descending" : "ascending");
    const order = new Intl.Collator("en", {numeric: true});
    const rows = [...body.rows].map((row) => [row.cells[place].dataset.key, row]);
    rows.sort(([one], [two]) => {
      if (one === "" || two === "") return (one === "") - (two === "");  // what is unknown stands last, either way
      const difference = isNumber ? one - two : order.compare(one, two);
      return isDown ? -difference : difference;
    });
    body.append(...rows.map(([, row]) => row));
  });
}

// A long table shows its first rows; a button shows the others. Whoever has no script sees them all.
const SHORT = 12;
const unfolds = new Map();
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  if (body.rows.length <= SHORT + 3) continue;
  const button = document.createElement("button");
  const fold = (isShort) => {
    body.classList.toggle("short", isShort);
    button.setAttribute("aria-expanded", String(!isShort));
    button.textContent = isShort ? `Show ${body.rows.length - SHORT} more` : `Show the first ${SHORT} only`;
  };
  button.type = "button";
  button.className = "unfold";
  button.addEventListener("click", () => fold(!body.classList.contains("short")));
  fold(true);
  table.parentElement.after(button);
  unfolds.set(table, button);
}

// How values read: as in wording.py.
const grouped = (value, digits = 0) =>
  value.toLocaleString("en-US", {minimumFractionDigits: digits, maximumFractionDigits: digits});
const rounded = (value, digits) => String(Number(value.toPrecision(digits)));
const SIZES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const COUNTS = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

function number(value) {
  if (Number.isInteger(value) || Math.abs(value) >= 100) return grouped(value);
  return Math.abs(value) >= 1 ? grouped(value, 1) : rounded(value, 2);
}

function shortNumber(value) {
  const [scale, unit] = COUNTS.find(([scale]) => Math.abs(value) >= 0.9995 * scale) || [1, ""];
  return rounded(value / scale, 3) + unit;
}

function size(value) {
  let unit = 0;
  while (value >= 1023.95 && unit < SIZES.length - 1) { value /= 1024; unit += 1; }
  return `${!unit || value >= 100 ? grouped(value) : value.toFixed(1)} ${SIZES[unit]}`;
}

function duration(seconds) {
  if (seconds === 0) return "0 s";
  if (seconds < 59.95) {
    const [scale, unit] = [[1, "s"], [1e-3, "ms"]].find(([scale]) => seconds >= 0.9995 * scale) || [1e-6, "µs"];
    return `${rounded(seconds / scale, 3)} ${unit}`;
  }
  const whole = Math.round(seconds);
  const place = UNITS.findIndex(([span]) => whole >= span);
  const [span, unit] = UNITS[place];
  const [smaller, small] = UNITS[place + 1];
  const part = Math.floor((whole % span) / smaller);
  return `${grouped(Math.floor(whole / span))} ${unit}${part ? ` ${part} ${small}` : ""}`;
}

function shortDuration(seconds) {
  if (seconds < 59.95) return duration(seconds);
  const [span, unit] = UNITS.find(([span]) => seconds >= span);
  return `${seconds < 10 * span ? rounded(seconds / span, 3) : grouped(seconds / span)} ${unit}`;
}

const WORDS = {
  number: [number, shortNumber],
  size: [size, (value) => size(value).replace(".0 ", " ")],
  duration: [duration, shortDuration],
};

// Axes and shapes: as in scales.py, measures.py and plots.py.
const WIDTH = 1000, HEIGHT = 100, TICKS = 5;
const MARKS = [1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1, 10, 60, 600, 3600, 21600, 86400, 604800, 2592000, 31536000];
const within = (share) => Math.min(Math.max(share, 0), 1);

function linear(largest, said) {
  largest = largest > 0 ? largest : 1;
  const scale = said.form === "size" && largest >= 1 ? 1024 ** Math.floor(Math.log(largest) / Math.log(1024)) : 1;
  const wanted = largest / scale / (TICKS - 1);
  const decade = 10 ** Math.floor(Math.log10(wanted));
  const found = scale * [1, 2, 5, 10].map((digit) => digit * decade).find((step) => step >= wanted * (1 - 1e-9));
  const step = said.whole ? Math.max(found, 1) : found;
  const count = Math.ceil((largest / step) * (1 - 1e-9));
  const ticks = Array.from({length: count + 1}, (_, place) => [place / count, WORDS[said.form][1](place * step)]);
  return {at: (value) => within(value / (step * count)), ticks};
}

function decades(values) {
  const known = values.length ? values.map((value) => Math.max(value, 1e-6)) : [1];
  const first = Math.floor(Math.log10(Math.min(...known)) + 1e-9);
  const last = Math.max(Math.ceil(Math.log10(Math.max(...known)) - 1e-9), first + 1);
  const at = (value) => (value > 10 ** first ? within((Math.log10(value) - first) / (last - first)) : 0);
  const marks = MARKS.filter((mark) => mark >= 0.999 * 10 ** first && mark <= 1.001 * 10 ** last);
  const every = Math.ceil(marks.length / TICKS) || 1;
  return {at, ticks: marks.filter((_, place) => place % every === 0).map((mark) => [at(mark), duration(mark)])};
}

const high = (axis, value) => (HEIGHT * (1 - axis.at(value))).toFixed(2);

function steps(axis, values) {
  const step = WIDTH / values.length;
  let path = "", before = null;
  values.forEach((value, place) => {
    if (value !== null) {
      path += before === null ? `M${(place * step).toFixed(1)} ${high(axis, value)}` : `V${high(axis, value)}`;
      path += `H${((place + 1) * step).toFixed(1)}`;
    }
    before = value;
  });
  return path;
}

function area(axis, below, above) {
  const step = WIDTH / above.length;
  let back = "";
  for (let place = below.length - 1; place >= 0; place -= 1) {
    back += `V${high(axis, below[place])}H${(place * step).toFixed(1)}`;
  }
  return `${steps(axis, above)}${back}z`;
}

function element(kind, text, className) {
  const made = document.createElement(kind);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function drawn(kind, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function swatch(row, kind) {
  if (kind !== "lines") return element("span", "", `swatch ${row.colour || "blank"}`);
  const sample = drawn("svg", {class: "sample", viewBox: "0 0 28 8", "aria-hidden": "true"});
  sample.append(drawn("path", {class: `line ${row.colour}`, d: "M0 4H28"}));
  return sample;
}

// The time of each interval, as the page writes it. Years that no Date can write are as far as one can.
function moments(said) {
  const isFine = said.width % 60 || said.start % 60;
  return Array.from({length: said.count + 1}, (_, place) => {
    const seconds = Math.min(Math.max(said.start + place * said.width, -62135596800), 253402300799);
    return new Date(1000 * seconds).toISOString().replace("T", " ").slice(0, isFine ? 19 : 16);
  });
}

// What is shown: all queues or one, and the intervals from one to another, on every drawing with the same ones.
const chosen = {queue: "", axis: "", from: 0, to: 0};
const figures = [...document.querySelectorAll("figure.chart")].map((figure) => {
  const said = JSON.parse(figure.querySelector("script").textContent);
  const isTimed = said.kind !== undefined;
  const heads = isTimed ? moments(said) : said.heads;
  const axis = isTimed ? `${said.start} ${said.width} ${said.count}` : "";
  return {figure, said, isTimed, heads, axis, off: new Set(), marks: [...figure.querySelector(".alongs").children]};
});

function rowsOf({said, isTimed}) {
  if (!isTimed) return said.rows;
  const isByQueue = said.rows.some((row) => row.queue !== null);
  if (chosen.queue && isByQueue) return said.rows.filter((row) => row.queue === chosen.queue);
  return said.rows.filter((row) => !row.waits);
}

const shownOf = (one) => rowsOf(one).filter((row) => !one.off.has(row));
const rangeOf = ({axis, heads, said, isTimed}) =>
  !isTimed ? [0, heads.length] : axis === chosen.axis ? [chosen.from, chosen.to + 1] : [0, said.count];

function draw(one) {
  const {figure, said, marks, heads} = one;
  const rows = shownOf(one), [from, to] = rangeOf(one);
  const values = rows.map((row) => row.values.slice(from, to));
  const isStack = said.kind === "stack";
  const sums = [values.reduce((below, own) => below.map((low, place) => low + own[place]), Array(to - from).fill(0))];
  const known = (isStack ? sums : values).flat().filter((value) => value !== null);
  const axis = said.log ? decades(known) : linear(known.reduce((most, value) => Math.max(most, value), 0), said);
  let below = Array(to - from).fill(0);
  const paths = rows.map((row, place) => {
    const look = rows.length > 1 ? row.colour : row.colour.split(" ")[0];  // one line alone needs no dashes
    if (!isStack) return drawn("path", {class: `line ${look}`, d: steps(axis, values[place])});
    const above = below.map((low, at) => low + values[place][at]);
    const made = drawn("path", {class: `area ${row.colour}`, d: area(axis, below, above)});
    below = above;
    return made;
  });
  const grid = axis.ticks.map(([at]) => `M0 ${(HEIGHT * (1 - at)).toFixed(2)}H${WIDTH}`).join("");
  figure.querySelector(".plot svg").replaceChildren(drawn("path", {class: "grid", d: grid}), ...paths);
  figure.querySelector(".ups").replaceChildren(...axis.ticks.map(([at, text]) => {
    const made = element("span", text);
    made.style.bottom = `${100 * at}%`;
    return made;
  }));
  figure.querySelector(".alongs").replaceChildren(...(to - from === said.count ? marks : times(heads, from, to)));
  figure.classList.toggle("without", rowsOf(one).length === 0);
}

function times(heads, from, to) {
  const every = [1, 2, 5, 10, 20, 30, 60].find((step) => (to - from) / step <= 6) || Math.ceil((to - from) / 6);
  let day = "";
  const found = [];
  for (let place = from; place < to; place += every) {
    const isNew = heads[place].slice(0, 10) !== day;
    day = heads[place].slice(0, 10);
    const made = element("span", heads[place].slice(isNew ? 5 : 11), found.length % 2 ? "minor" : "");
    made.style.left = `${(100 * (place - from)) / (to - from)}%`;
    found.push(made);
  }
  return found;
}

// A legend switches what it names off and on, by a click or by keyboard.
function legend(one) {
  const {figure, said, off} = one;
  const rows = rowsOf(one);
  figure.querySelector(".legend")?.remove();
  if (rows.length < 2) return;
  const list = element("ul", "", "legend");
  for (const row of rows) {
    const button = element("button", "");
    button.type = "button";
    button.title = "show or hide";
    button.setAttribute("aria-pressed", String(!off.has(row)));
    button.append(swatch(row, said.kind), element("bdi", row.label));
    button.addEventListener("click", () => {
      if (!off.delete(row)) off.add(row);
      button.setAttribute("aria-pressed", String(!off.has(row)));
      draw(one);
    });
    const item = document.createElement("li");
    item.append(button);
    list.append(item);
  }
  figure.querySelector("figcaption").after(list);
}

const timed = figures.filter((one) => one.isTimed);
for (const one of timed) legend(one);

// The choice of a queue, and of a time.
const named = new Set(timed.flatMap((one) => one.said.rows.map((row) => row.queue)).filter((queue) => queue !== null));
const rows = [...document.querySelectorAll("tr[data-queue]")];
for (const row of rows) named.add(row.dataset.queue);
const longest = timed.find((one) => one.said.count > 1);

function pick(queue) {
  chosen.queue = queue;
  for (const one of timed) { one.off.clear(); legend(one); draw(one); }
  for (const row of rows) row.hidden = queue !== "" && row.dataset.queue !== queue;
  for (const table of new Set(rows.map((row) => row.closest("table")))) {
    table.classList.toggle("picked", queue !== "");
    if (unfolds.has(table)) unfolds.get(table).hidden = queue !== "";
  }
}

function labelled(text, control) {
  const label = element("label", "");
  label.append(element("span", text), control);
  return label;
}

if (named.size > 1 || longest) {
  const bar = element("div", "", "choose");
  bar.setAttribute("role", "group");
  bar.setAttribute("aria-label", "What the drawings and tables show");
  const again = element("button", "Show all");
  again.type = "button";
  again.disabled = true;
  const select = document.createElement("select");
  const order = new Intl.Collator("en", {numeric: true});
  select.append(new Option("all queues", ""));
  for (const queue of [...named].sort(order.compare)) {
    select.append(new Option(queue.length > 48 ? `${queue.slice(0, 32)}…${queue.slice(-15)}` : queue, queue));
  }
  select.addEventListener("change", () => { pick(select.value); settle(); });
  if (named.size > 1) bar.append(labelled("Queue", select));
  const ends = ["from", "to"].map((end) => {
    const input = document.createElement("input"), output = document.createElement("output");
    Object.assign(input, {type: "range", min: 0, max: longest ? longest.said.count - 1 : 0, step: 1});
    input.value = end === "to" ? input.max : 0;
    input.addEventListener("input", () => {
      chosen[end] = Number(input.value);
      if (chosen.from > chosen.to) chosen[end === "from" ? "to" : "from"] = chosen[end];
      settle();
      for (const one of timed) if (one.axis === chosen.axis) draw(one);
    });
    return {end, input, output};
  });
  const settle = () => {
    for (const {end, input, output} of ends) {
      input.value = chosen[end];
      output.textContent = longest ? longest.heads[chosen[end] + (end === "to" ? 1 : 0)] : "";
      input.setAttribute("aria-valuetext", output.textContent);
    }
    again.disabled = !chosen.queue && !chosen.from && (!longest || chosen.to === longest.said.count - 1);
  };
  if (longest) {
    Object.assign(chosen, {axis: longest.axis, to: longest.said.count - 1});
    for (const {end, input, output} of ends) {
      const label = labelled(end === "from" ? "From" : "To", input);
      label.append(output);
      bar.append(label);
    }
  }
  again.addEventListener("click", () => {
    Object.assign(chosen, {from: 0, to: longest ? longest.said.count - 1 : 0});
    select.value = "";
    pick("");
    settle();
  });
  bar.append(again, element("p", "Drawings over time and rows of queues show what you choose; sentences tell of everything.", "quiet"));
  settle();
  document.querySelector(".tiles").after(bar);
}

// What a pointer, a finger or the arrow keys show of a plot. Texts are only ever set as text.
const tip = document.createElement("div");
tip.id = "tip";
tip.hidden = true;
tip.setAttribute("role", "status");
document.body.append(tip);

function fill(one, place) {
  const {said, isTimed, heads} = one;
  const word = isTimed ? (value) => (value ? WORDS[said.form][0](value) + said.per : "") : null;
  const told = shownOf(one).map((row) => [row, isTimed ? word(row.values[place]) : row.texts[place]]);
  if (said.total && said.kind === "stack" && told.length > 1) {
    told.push([{label: said.total}, word(shownOf(one).reduce((sum, row) => sum + row.values[place], 0))]);
  }
  tip.replaceChildren(element("b", heads[place]));
  for (const [row, text] of told) {
    if (!text) continue;
    const line = document.createElement("div");
    line.append(swatch(row, row.colour ? said.kind : ""), element("span", row.label), element("span", text));
    tip.append(line);
  }
  if (tip.childElementCount === 1) tip.append(element("div", "nothing"));
}

for (const one of figures) {
  const plot = one.figure.querySelector(".plot");
  const cursor = element("div", "", "cursor");
  const count = () => { const [from, to] = rangeOf(one); return to - from; };
  const places = () => one.said.places || count();
  let current = -1;

  const hide = () => { tip.hidden = true; cursor.remove(); };
  const show = (place) => {
    current = Math.max(0, Math.min(count() - 1, place));
    fill(one, current + rangeOf(one)[0]);
    cursor.style.left = `${(100 * current) / places()}%`;
    cursor.style.width = `max(1px, ${100 / places()}%)`;
    plot.append(cursor);
    tip.hidden = false;
    const box = plot.getBoundingClientRect();
    const right = box.left + (box.width * (current + 1)) / places() + 10;
    const left = box.left + (box.width * current) / places() - 10 - tip.offsetWidth;
    const room = document.documentElement.clientWidth;
    const x = right + tip.offsetWidth < room ? right : Math.max(left, 4);
    tip.style.left = `${Math.max(4, Math.min(x, room - tip.offsetWidth - 4)) + window.scrollX}px`;
    tip.style.top = `${box.top + window.scrollY + 8}px`;
  };
  const point = (event) => {
    const box = plot.getBoundingClientRect();
    const place = Math.floor(((event.clientX - box.left) / box.width) * places());
    if (place < 0 || place >= count()) hide();
    else show(place);
  };
  plot.addEventListener("pointermove", point);
  plot.addEventListener("pointerdown", point);
  plot.addEventListener("pointerleave", hide);
  plot.addEventListener("blur", hide);
  plot.addEventListener("keydown", (event) => {
    const last = count() - 1, [back, on] = current < 0 ? [last + 1, -1] : [current, current];
    const places = {ArrowLeft: back - 1, ArrowRight: on + 1, PageUp: back - 10, PageDown: on + 10, Home: 0, End: last};
    if (event.key === "Escape") hide();
    if (!(event.key in places)) return;
    event.preventDefault();
    show(places[event.key]);
  });
}
