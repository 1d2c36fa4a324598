// All nodes: a map with a tile for each, or a table with a row for each. A click opens the node.

import { $, cut, drawing, el, keep } from "./elements.js";
import { choose, view } from "./address.js";
import { cardsOf, hasProblem, nodeMatches } from "./filters.js";
import { count, show, sorted, table } from "./table.js";
import { bytes, clock, distinct, known, plural, ratio, sum, units, whole } from "./texts.js";

const MOST_ROWS = 30, MANY = 60, MASSES = 300, SHORT = 12;
const HATCHED = { unhealthy: "--red-fill", cordoned: "--amber", whole: "--allocated" };

let rows, redraw, open;

export function prepareFleet(draw, openNode) {
  redraw = draw;
  open = openNode;
  rows = table("nodes", [
    { title: "Node", by: (node) => node.name, cell: (node) => [opener(node, cut(node.name)), el("span", { className: "sub" }, cut(kindOf(node)))] },
    { title: "GPUs", by: (node) => node.cards.length, cell: (node) => drawing(bars(cardsOf(node)), described(node)), kind: "gpus" },
    { title: "Allocated", by: (node) => node.percent, cell: (node) => `${whole(node.used)} / ${units(node.total, node.unit)}`, kind: "num" },
    { title: "Used", by: usedOf, cell: (node) => (node.current ? bytes(usedOf(node)) : silent(node)), kind: "num", mark: (node) => !node.current && "muted" },
    { title: "SM", by: busyOf, cell: (node) => ratio(busyOf(node)), kind: "num", mark: (node) => busyOf(node) === null && "muted" },
    { title: "Pods", by: podsOf, cell: (node) => whole(podsOf(node)), kind: "num" },
    { title: "State", by: (node) => wrongOf(node).join(", "), cell: (node) => wrongOf(node).join(", ") || "healthy", mark: (node) => (isBad(node) ? "bad" : "muted") },
  ], { keyOf: (node) => node.name, noun: "node", size: 50, empty: "No node matches the filter.", head: 0, redraw });
  for (const layout of ["map", "table"]) {
    $(`as-${layout}`).addEventListener("click", () => { choose({ layout }); redraw(); });
  }
}

/** Draws the nodes that the filters select, and returns them. */
export function fleet(board) {
  const found = board.nodes.filter(nodeMatches).sort((one, other) => hasProblem(other) - hasProblem(one));
  const layout = view.layout || (board.nodes.length > MOST_ROWS ? "map" : "table");
  for (const each of ["map", "table"]) $(`as-${each}`).setAttribute("aria-pressed", String(each === layout));
  $("map").hidden = layout !== "map";
  $("nodes-table").hidden = layout === "map";
  rows.options.empty = board.nodes.length ? "No node matches the filter." : "No node shares its GPUs.";
  if (layout === "map") map(found, board.nodes);
  else show(rows, found, board.nodes.length);
  rows.more.hidden ||= layout === "map";
  return found;
}

function map(found, all) {
  count("nodes", found.length, all.length, "node");
  $("map").className = `map ${all.length > MASSES ? "masses" : all.length > MANY ? "many" : ""}`;
  const short = distinct(all.map((node) => node.name), SHORT);
  const tiles = sorted(rows, found).map((node) => ({ name: node.name, short: short(node.name), label: described(node), isBad: isBad(node), columns: columns(cardsOf(node)) }));
  keep($("map"), tiles, (each) => each.name, tile);
}

function tile({ name, short, label, isBad: marked, columns: drawn }) {
  const button = el("button", { type: "button", className: `node ${marked ? "marked" : ""}`, title: label, onclick: () => open(name) },
    el("span", { className: "name" }, short), painted(drawn));
  button.dataset.node = name;
  button.setAttribute("aria-label", label);
  return el("li", {}, button);
}

function opener(node, content) {
  const button = el("button", { type: "button", className: "link", onclick: () => open(node.name) }, content);
  button.dataset.node = node.name;
  return button;
}

// --- bars: one element for all GPUs of a node, so that a thousand nodes are a few thousand elements ----------------

function bars(cards) {
  const made = painted(columns(cards));
  made.style.width = `${Math.max(2, cards.length) * 24}px`;
  return made;
}

const columns = (cards) => cards.map(column);

/** A gradient from the bottom: used, allocated, free. */
function column(card) {
  const colour = HATCHED[card.state];
  if (card.state === "over-committed") return "linear-gradient(var(--red-fill) 0 0)";
  if (colour) return `repeating-linear-gradient(135deg, var(${colour}) 0 2px, var(--track) 2px 5px)`;
  const part = (amount, all) => (all && amount ? Math.round(Math.min(100, 100 * amount / all)) : 0);
  const used = part(card.usedBytes, card.memoryBytes), allocated = part(card.used, card.total);
  return `linear-gradient(to top, var(--used) ${used}%, var(--allocated) ${used}% ${Math.max(used, allocated)}%, var(--track) 0)`;
}

function painted(images) {
  const made = el("span", { className: "bars" }), last = Math.max(1, images.length - 1);
  made.style.backgroundImage = images.join(",");
  made.style.backgroundPosition = images.map((_, index) => `${100 * index / last}% 0`).join(",");
  made.style.backgroundSize = `calc((100% - ${images.length - 1}px) / ${images.length}) 100%`;
  return made;
}

// --- texts --------------------------------------------------------------------------------------------------------

const usedOf = (node) => (node.current ? sum(known(node.cards.map((card) => card.usedBytes))) : null);
const podsOf = (node) => new Set(node.cards.flatMap((card) => card.pods.map((pod) => pod.uid))).size;
const silent = (node) => (node.reported ? `no data since ${clock(node.reported)}` : "no data");

function busyOf(node) {
  const busy = known(node.cards.map((card) => card.utilization));
  return busy.length ? sum(busy) / busy.length : null;
}

function kindOf(node) {
  const models = [...new Set(node.cards.map((card) => card.model).filter(Boolean))].join(", ");
  return [models, node.mode].filter(Boolean).join(" · ");
}

const isBad = (node) => !node.ready || node.cards.some((card) => card.state === "over-committed" || card.state === "unhealthy");

export function wrongOf(node) {
  const counts = ["over-committed", "unhealthy", "cordoned"].map((state) => [state, node.cards.filter((card) => card.state === state).length]);
  return [
    !node.ready && "not ready", node.cordoned && "node cordoned",
    ...counts.map(([state, number]) => number > 0 && `${plural(number, "GPU")} ${state}`),
    node.pending.used > 0 && `${units(node.pending.used, node.unit)} on an unknown GPU`,
  ].filter(Boolean);
}

function described(node) {
  const used = node.current ? `${bytes(usedOf(node))} used` : silent(node);
  return [`${node.name}: ${whole(node.used)} of ${units(node.total, node.unit)} allocated`, used, plural(node.cards.length, "GPU"), ...wrongOf(node)].join(", ");
}
