// Pictures of numbers as SVG: lines over time, a small line in a table, bars of a histogram.

import { age, count, el, rate, svg } from "./dom.js";

const WIDTH = 600;
const HEIGHT = 100;
const SPANS = [60, 120, 300, 600]; // seconds
const STEPS = [1, 2, 2.5, 5, 10];

/** Return a round number that is not below. */
export function ceiling(number) {
  if (!(number > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(number));
  return power * STEPS.find((step) => step * power >= number * 0.999999);
}

/** Return a figure of lines up to now: lines are {name, colour, points}, points [seconds, number]. */
export function overTime(title, unit, now, lines) {
  const span = spanOf(lines, now);
  const from = now - span;
  const known = lines.flatMap((line) => line.points.filter(([time, number]) => number !== null && time >= from));
  const top = ceiling(Math.max(0, ...known.map(([, number]) => number)));
  const x = (time) => ((time - from) / span) * WIDTH;
  const y = (number) => HEIGHT - (number / top) * HEIGHT;
  const picture = svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": spoken(title, unit, lines) },
    [0.25, 0.5, 0.75, 1].map((part) => svg("path", { class: "grid", d: `M0 ${HEIGHT * (1 - part)}H${WIDTH}` })),
    lines.map((line) => svg("path", { class: `line ${line.colour}`, d: pathOf(line.points, from, x, y) })),
  );
  const legend = el(
    "ul",
    { class: "legend" },
    lines.map((line) => el("li", {}, el("i", { class: `swatch ${line.colour}` }), `${line.name} `, el("b", {}, latest(line)))),
  );
  return el(
    "figure",
    {},
    el("figcaption", {}, `${title} `, el("span", { class: "quiet" }, unit)),
    legend,
    el(
      "div",
      { class: "frame" },
      el("div", { class: "ups" }, el("span", {}, rate(top)), el("span", {}, rate(top / 2)), el("span", {}, "0")),
      el("div", { class: "plot" }, picture),
      el("div", { class: "alongs" }, el("span", {}, `${age(span)} ago`), el("span", {}, `${age(span / 2)} ago`), el("span", {}, "now")),
    ),
  );
}

/** Return the seconds that are shown: as few as hold all that is known. */
function spanOf(lines, now) {
  const begins = Math.min(now, ...lines.flatMap((line) => line.points.slice(0, 1).map(([time]) => time)));
  return SPANS.find((span) => now - begins <= span) ?? SPANS[SPANS.length - 1];
}

function latest(line) {
  const known = line.points.filter(([, number]) => number !== null);
  return known.length ? rate(known[known.length - 1][1]) : "–";
}

function spoken(title, unit, lines) {
  return `${title}, ${unit}: ${lines.map((line) => `${line.name} ${latest(line)}`).join(", ")}`;
}

function pathOf(points, from, x, y) {
  let text = "";
  let isBroken = true;
  for (const [time, number] of points) {
    if (number === null || time < from) {
      isBroken = true;
      continue;
    }
    text += `${isBroken ? "M" : "L"}${x(time).toFixed(1)} ${y(number).toFixed(1)}`;
    isBroken = false;
  }
  return text;
}

/** Return a small line of what was, for a cell of a table. */
export function spark(points) {
  const known = points.filter(([, number]) => number !== null);
  if (known.length < 2) return el("span", { class: "quiet" }, "…");
  const [first, last] = [known[0][0], known[known.length - 1][0]];
  const top = Math.max(1, ...known.map(([, number]) => number));
  const x = (time) => ((time - first) / (last - first)) * 100;
  const y = (number) => 19 - (number / top) * 18;
  return svg(
    "svg",
    { class: "spark", viewBox: "0 0 100 20", preserveAspectRatio: "none", role: "img", "aria-label": `at most ${count(top)} in the last minutes` },
    svg("path", { class: "line c0", d: pathOf(known, first, x, y) }),
  );
}

/** Return a histogram of lengths of time: rows are {from, to, count} in seconds. */
export function histogram(title, rows, marks) {
  const filled = rows.map((row, at) => (row.count ? at : -1)).filter((at) => at >= 0);
  if (!filled.length) return el("p", { class: "quiet" }, "Nothing was committed yet.");
  const shown = rows.slice(filled[0], filled[filled.length - 1] + 1);
  const all = shown.reduce((sum, row) => sum + row.count, 0);
  const top = Math.max(...shown.map((row) => row.count));
  return el(
    "figure",
    {},
    el("figcaption", {}, `${title} `, el("span", { class: "quiet" }, marks.join(", "))),
    el(
      "ol",
      { class: "histogram" },
      shown.map((row) =>
        el(
          "li",
          { title: `${span(row)}: ${count(row.count)}` },
          el("span", { class: "bucket" }, span(row)),
          el("span", { class: "bar" }, el("i", { "--share": row.count / top })),
          el("span", { class: "number" }, `${((100 * row.count) / all).toFixed(1)} %`),
        ),
      ),
    ),
  );
}

function span(row) {
  return row.to === null ? `over ${age(row.from)}` : `up to ${age(row.to)}`;
}
