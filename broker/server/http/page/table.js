// Tables that are told of new rows every few seconds, and keep what the reader has: the order, the place, the focus.

import { el } from "./dom.js";

/**
 * A table. `columns` are {label, value(row) to sort by, cell(row, before) for what is shown, isNumber, isWide,
 * isCode for identifiers};
 * `key(row)` tells rows apart. `before` is the node that the cell shows now.
 */
export class Table {
  constructor({ columns, key, caption, empty, order = 0, isDescending = false }) {
    this.columns = columns;
    this.key = key;
    this.empty = empty;
    this.order = order;
    this.isDescending = isDescending;
    this.rows = [];
    this.lines = new Map(); // by key: the line and what its cells showed
    this.heads = columns.map((column, at) => this.head(column, at));
    this.body = el("tbody");
    this.nothing = el("p", { class: "quiet", hidden: true }, empty);
    this.table = el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, this.heads)), this.body);
    this.node = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, this.table, this.nothing);
    this.mark();
  }

  head(column, at) {
    const kind = kindOf(column);
    if (!column.value) return el("th", { scope: "col", class: kind }, el("span", { class: "unseen" }, column.label));
    return el("th", { scope: "col", class: kind }, el("button", { type: "button", onclick: () => this.sortBy(at) }, column.label));
  }

  sortBy(at) {
    this.isDescending = this.order === at ? !this.isDescending : Boolean(this.columns[at].isNumber);
    this.order = at;
    this.mark();
    this.update(this.rows);
  }

  mark() {
    this.heads.forEach((head, at) => {
      if (at === this.order) head.setAttribute("aria-sort", this.isDescending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
  }

  /** Show these rows. */
  update(rows) {
    this.rows = rows;
    const wanted = this.sorted(rows).map((row) => [String(this.key(row)), row]);
    const keys = new Set(wanted.map(([key]) => key));
    for (const [key, line] of this.lines) {
      if (!keys.has(key)) {
        line.node.remove();
        this.lines.delete(key);
      }
    }
    let place = this.body.firstChild;
    for (const [key, row] of wanted) {
      const line = this.lineOf(key);
      this.columns.forEach((column, at) => show(line, column, at, row));
      if (line.node === place) place = place.nextSibling;
      else this.body.insertBefore(line.node, place);
    }
    this.nothing.hidden = rows.length > 0;
    this.table.hidden = rows.length === 0;
  }

  lineOf(key) {
    if (!this.lines.has(key)) {
      const cells = this.columns.map((column) => el("td", { class: kindOf(column) }));
      this.lines.set(key, { node: el("tr", {}, cells), cells, shown: [] });
    }
    return this.lines.get(key);
  }

  sorted(rows) {
    const { value, isCode } = this.columns[this.order];
    const sign = this.isDescending ? -1 : 1;
    return [...rows].sort((one, other) => sign * compared(value(one), value(other), isCode));
  }
}

function kindOf(column) {
  return [column.isNumber && "number", column.isWide && "wide", !column.value && "deed"].filter(Boolean).join(" ") || null;
}

function show(line, column, at, row) {
  const content = column.cell(row);
  const sign = typeof content === "string" ? content : column.sign ? column.sign(row) : content.textContent;
  if (line.shown[at] === sign) return;
  line.shown[at] = sign;
  line.cells[at].replaceChildren(content);
}

/** Compare for sorting; what is not known comes first. */
function compared(one, other, isCode) {
  if (one === other) return 0;
  if (one === null || one === undefined) return -1;
  if (other === null || other === undefined) return 1;
  if (typeof one === "string" && !isCode) return one.localeCompare(other, "en", { numeric: true });
  return one < other ? -1 : 1;
}
