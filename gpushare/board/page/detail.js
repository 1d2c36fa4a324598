// One node: its GPUs with their pods, limits, use and peaks. The URL names it.

import { $, drawing, el, keep, write } from "./elements.js";
import { choose, view } from "./address.js";
import { wrongOf } from "./fleet.js";
import { age, bytes, clock, limit, ratio, units, whole } from "./texts.js";

const STATES = { ok: "healthy", unknown: "health not reported", whole: "in use as a whole GPU" };

let redraw;

export function prepareDetail(draw) {
  redraw = draw;
  $("detail-close").addEventListener("click", close);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape" && view.open) close(); });
}

export function openNode(name) {
  choose({ open: name }, true);
  redraw();
  $("detail-title").focus();
}

function close() {
  const name = view.open;
  choose({ open: "" }, true);
  redraw();
  [...document.querySelectorAll("[data-node]")].find((each) => each.dataset.node === name && each.checkVisibility())?.focus();
}

export function detail(board) {
  $("detail").hidden = !view.open;
  document.body.classList.toggle("opened", Boolean(view.open));
  if (!view.open) return;
  write($("detail-title"), view.open);
  const node = board.nodes.find((each) => each.name === view.open);
  const items = node ? [facts(node), ...node.cards.map((card) => ({ card, unit: node.unit, isCurrent: node.current }))] : [{ missing: view.open }];
  if (node) items.push(...unplaced(board, node));
  keep($("detail-body"), items, (item) => (item.card ? `gpu ${item.card.index}` : Object.keys(item)[0]), part);
}

function facts(node) {
  const free = node.cards.filter((card) => card.state === "ok" || card.state === "unknown").map((card) => card.total - card.used);
  return { facts: [
    ["Allocated", `${whole(node.used)} of ${units(node.total, node.unit)} (${node.percent} %)`],
    ["Largest free block", free.length ? units(Math.max(0, ...free), node.unit) : "none"],
    ["Mode", node.mode],
    ["Placement", node.placement],
    ["Usage", node.current ? "reported" : node.reported ? `no data since ${clock(node.reported)}` : "no data"],
    ["State", wrongOf(node).join(", ") || "healthy"],
  ].filter(([, text]) => text) };
}

function unplaced(board, node) {
  const found = board.pods.filter((pod) => pod.node === node.name && pod.unplaced);
  return found.length ? [{ unknown: found, unit: node.unit }] : [];
}

function part(item) {
  if (item.missing) return el("p", { className: "muted" }, "No node of this name shares its GPUs.");
  if (item.facts) return el("dl", { className: "facts" }, item.facts.map(([name, text]) => el("div", {}, el("dt", {}, name), el("dd", {}, text))));
  if (item.unknown) return el("section", { className: "gpu" }, el("h3", {}, "On an unknown GPU"), list(item.unknown, item.unit));
  return gpu(item);
}

function gpu({ card, unit, isCurrent }) {
  const state = STATES[card.state] || card.state;
  const numbers = isCurrent
    ? `${bytes(card.usedBytes)} used · SM ${ratio(card.utilization)} · ${card.limitBytes === null ? "no limits" : `limits ${bytes(card.limitBytes)}`}`
    : "no data";
  return el("section", { className: "gpu" },
    el("h3", {}, `GPU ${card.index} `, el("span", { className: `state-${card.state}` }, state)),
    bar(card, unit, isCurrent),
    el("p", { className: "sub" }, `${whole(card.used)} of ${units(card.total, unit)} allocated · ${numbers}`),
    el("p", { className: "sub" }, [card.model, card.uuid].filter(Boolean).join(" · ")),
    card.pods.length > 0 && list(card.pods, unit));
}

/** Pods as parts, use as a line over them, and the sum of the limits as a mark. */
function bar(card, unit, isCurrent) {
  const made = el("div", { className: `bar ${card.state}` }), full = Math.max(card.total, card.used) || 1;
  const add = (className, property, part) => {
    const element = el("span", { className });
    element.style[property] = `${Math.min(100, 100 * part)}%`;
    made.append(element);
  };
  for (const pod of card.state === "whole" ? [{ share: card.used }] : card.pods) add("part", "width", pod.share / full);
  if (card.memoryBytes && card.usedBytes !== null) add("usage", "width", card.usedBytes / card.memoryBytes);
  if (card.memoryBytes && card.limitBytes !== null) add("tick", "left", card.limitBytes / card.memoryBytes);
  const text = `${card.used} of ${units(card.total, unit)} allocated, used ${bytes(card.usedBytes)}, ${limited(card.limitBytes, isCurrent)}`;
  return drawing(made, text);
}

function list(pods, unit) {
  return el("ul", { className: "pods" }, pods.map((pod) => el("li", {},
    el("div", {}, el("span", { className: "wrap" }, `${pod.namespace}/${pod.name}`), " ", el("span", { className: pod.runs ? "muted" : "bad" }, stateOf(pod))),
    el("div", { className: "sub" }, numbersOf(pod, unit)))));
}

export const stateOf = (pod) => (pod.runs ? pod.state : `not running: ${pod.state}`);

const limited = (amount, isReported) => (amount === null && isReported ? "no limit" : `limit ${limit(amount, isReported)}`);

function numbersOf(pod, unit) {
  const gpus = Object.keys(pod.gpus).length;
  const measured = pod.reported ? [
    `used ${bytes(pod.usedBytes)}`, pod.peakBytes !== null && `peak ${bytes(pod.peakBytes)}`, limited(pod.limitBytes, true),
    pod.refusals > 0 && `${whole(pod.refusals)} refused`, `SM ${ratio(pod.utilization)}`, gpus > 1 && `on ${gpus} GPUs together`,
  ] : ["no data"];
  return [units(pod.share ?? pod.unplaced, unit), ...measured.filter(Boolean), `age ${age(pod.created)}`].join(" · ");
}
