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
}

// What a pointer, a finger or the arrow keys show of a plot. Texts are only ever set as text.
const tip = document.createElement("div");
tip.id = "tip";
tip.hidden = true;
tip.setAttribute("role", "status");
document.body.append(tip);

function element(kind, text, className) {
  const made = document.createElement(kind);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function fill(said, place) {
  tip.replaceChildren(element("b", said.heads[place]));
  const rows = said.total ? [...said.rows, said.total] : said.rows;
  for (const row of rows) {
    if (!row.texts[place]) continue;
    const line = document.createElement("div");
    line.append(element("span", "", "swatch " + (row.colour || "blank")));
    line.append(element("span", row.label), element("span", row.texts[place]));
    tip.append(line);
  }
  if (tip.childElementCount === 1) tip.append(element("div", "nothing"));
}

for (const figure of document.querySelectorAll("figure.chart")) {
  const plot = figure.querySelector(".plot");
  const said = JSON.parse(figure.querySelector("script").textContent);
  const count = said.heads.length;
  const places = said.places || count;
  const cursor = element("div", "", "cursor");
  let current = -1;

  const hide = () => { tip.hidden = true; cursor.remove(); };
  const show = (place) => {
    current = Math.max(0, Math.min(count - 1, place));
    fill(said, current);
    cursor.style.left = `${(100 * current) / places}%`;
    cursor.style.width = `max(1px, ${100 / places}%)`;
    plot.append(cursor);
    tip.hidden = false;
    const box = plot.getBoundingClientRect();
    const right = box.left + (box.width * (current + 1)) / places + 10;
    const left = box.left + (box.width * current) / places - 10 - tip.offsetWidth;
    const room = document.documentElement.clientWidth;
    const x = right + tip.offsetWidth < room ? right : Math.max(left, 4);
    tip.style.left = `${Math.max(4, Math.min(x, room - tip.offsetWidth - 4)) + window.scrollX}px`;
    tip.style.top = `${box.top + window.scrollY + 8}px`;
  };
  const point = (event) => {
    const box = plot.getBoundingClientRect();
    const place = Math.floor(((event.clientX - box.left) / box.width) * places);
    if (place < 0 || place >= count) hide();
    else show(place);
  };
  plot.addEventListener("pointermove", point);
  plot.addEventListener("pointerdown", point);
  plot.addEventListener("pointerleave", hide);
  plot.addEventListener("blur", hide);
  plot.addEventListener("keydown", (event) => {
    const step = {ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -count, End: count}[event.key];
    if (event.key === "Escape") hide();
    if (!step) return;
    event.preventDefault();
    show(current < 0 ? (step < 0 ? count - 1 : 0) : current + step);
  });
}
