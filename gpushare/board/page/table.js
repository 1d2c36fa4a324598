// Tables whose columns are declared once: titles, cells, order, and labels on narrow screens, where each row is a card.

import { $, el, keep, write } from "./elements.js";
import { choose, view } from "./address.js";
import { plural, whole } from "./texts.js";

const NARROW = matchMedia("(max-width: 640px)"), ON_NARROW = 10;
const made = new Map();

/**
 * A table in the element `id`. A column has a `title`, a `cell` (a text or nodes of an item) and optionally `by`, the
 * value to sort by, and `kind`, a class. Options: `keyOf` an item, `noun`, `size` of a page, `empty` text, `redraw`.
 */
export function table(id, columns, options) {
  const element = $(id), head = element.createTHead().insertRow();
  const self = { id, element, columns, options, size: NARROW.matches ? ON_NARROW : options.size };
  self.shown = self.size;
  element.setAttribute("role", "table");
  for (const column of columns) {
    const title = column.by ? el("button", { type: "button", onclick: () => sort(self, column) }, column.title) : column.title;
    const th = el("th", { scope: "col", className: column.kind || "" }, title);
    th.setAttribute("role", "columnheader");
    head.append(th);
  }
  self.more = el("button", { type: "button", className: "more", hidden: true });
  self.more.addEventListener("click", () => { self.shown += 2 * self.size; options.redraw(); });
  element.parentElement.after(self.more);
  made.set(id, self);
  return self;
}

function sort(self, column) {
  const name = column.title.toLowerCase(), numeric = (column.kind || "").includes("num");
  const order = numeric ? [`-${name}`, name, ""] : [name, `-${name}`, ""];
  const next = order[(order.indexOf(view.sorts[self.id] || "") + 1) % 3];
  choose({ sorts: { ...view.sorts, [self.id]: next } });
  self.options.redraw();
}

/** The items in the chosen order; unknown values are last. */
export function sorted(self, items) {
  const chosen = view.sorts[self.id] || "", name = chosen.replace("-", "");
  const column = self.columns.find((each) => each.by && each.title.toLowerCase() === name);
  self.columns.forEach((each, index) => {
    const th = self.element.tHead.rows[0].cells[index];
    if (each === column) th.setAttribute("aria-sort", chosen.startsWith("-") ? "descending" : "ascending");
    else th.removeAttribute("aria-sort");
  });
  if (!column) return items;
  const sign = chosen.startsWith("-") ? -1 : 1;
  return [...items].sort((one, other) => compared(column.by(one), column.by(other), sign));
}

function compared(one, other, sign) {
  if (one === null || other === null) return (one === null) - (other === null);
  return sign * (typeof one === "number" ? one - other : String(one).localeCompare(String(other), "en", { numeric: true }));
}

export function show(self, items, all = items.length) {
  const { noun, empty, keyOf } = self.options;
  count(self.id, items.length, all, noun);
  const page = sorted(self, items).slice(0, self.shown);
  const rows = page.length ? page : [null];
  keep(self.element, rows, (item) => (item ? keyOf(item) : ""), (item) => (item ? body(self, item) : none(self, empty)), 1);
  const left = items.length - self.shown;
  self.more.hidden = left <= 0;
  write(self.more, `Show ${whole(Math.min(left, 2 * self.size))} more of ${plural(items.length, noun)}`);
}

export function firstPages() {
  for (const self of made.values()) self.shown = self.size;
}

function body(self, item) {
  const row = el("tr", {}, self.columns.map((column, index) => {
    const content = column.cell(item);
    const cell = el(index === self.options.head ? "th" : "td", { className: [column.kind, column.mark?.(item)].filter(Boolean).join(" ") }, content);
    if (cell.tagName === "TH") cell.scope = "row";
    cell.setAttribute("role", cell.tagName === "TH" ? "rowheader" : "cell");
    cell.dataset.label = column.title;
    return cell;
  }));
  row.setAttribute("role", "row");
  return el("tbody", {}, row);
}

function none(self, text) {
  return el("tbody", {}, el("tr", {}, el("td", { className: "empty", colSpan: self.columns.length }, text)));
}

/** The number beside the title of a section. */
export function count(id, shown, all, noun) {
  write(document.querySelector(`#${id}-title .count`), shown === all ? whole(all) : `${whole(shown)} of ${plural(all, noun)}`);
}
