// Pods with a GPU, and the memory that workloads were allocated and do not use.

import { $, cut, el, write } from "./elements.js";
import { view } from "./address.js";
import { openNode, stateOf } from "./detail.js";
import { cardsOf, ofNamespace } from "./filters.js";
import { show, table } from "./table.js";
import { age, bytes, clock, limit, ratio, span, sum, units, whole } from "./texts.js";

let pods, idle;

/** In the board of one namespace all pods are of that, and users look for their peaks. */
export function preparePods(redraw, isOwn) {
  const number = (name) => ({ by: (pod) => pod[name], cell: (pod) => bytes(pod[name]), kind: "num", mark: (pod) => pod[name] === null && "muted" });
  pods = table("pods", [
    !isOwn && { title: "Namespace", by: (pod) => pod.namespace, cell: (pod) => cut(pod.namespace) },
    { title: "Pod", by: (pod) => pod.name, cell: (pod) => cut(pod.name) },
    { title: "Workload", by: (pod) => pod.owner, cell: (pod) => cut(pod.owner) },
    { title: "Node", by: (pod) => pod.node, cell: (pod) => (isOwn ? cut(pod.node) : onNode(pod)) },
    { title: "GPU", cell: (pod) => Object.keys(pod.gpus).join(", ") || "unknown", mark: (pod) => pod.unplaced > 0 && "bad" },
    { title: "State", by: (pod) => stateOf(pod), cell: (pod) => stateOf(pod), mark: (pod) => (pod.runs ? "" : "bad") },
    { title: "Age", by: (pod) => -Date.parse(pod.created) || null, cell: (pod) => timed(pod.created), kind: "num" },
    { title: "Allocated", by: amountOf, cell: (pod) => units(amountOf(pod), pod.unit), kind: "num" },
    { title: "Used", ...number("usedBytes") },
    isOwn && { title: "Peak", ...number("peakBytes") },
    { title: "Limit", by: (pod) => pod.limitBytes, cell: (pod) => limit(pod.limitBytes, pod.reported), kind: "num", mark: (pod) => pod.limitBytes === null && "muted" },
    { title: "SM", by: (pod) => pod.utilization, cell: (pod) => ratio(pod.utilization), kind: "num", mark: (pod) => pod.utilization === null && "muted" },
    isOwn && { title: "Refused", by: (pod) => pod.refusals, cell: (pod) => (pod.refusals === null ? "not counted" : whole(pod.refusals)), kind: "num", mark: (pod) => pod.refusals === null && "muted" },
  ].filter(Boolean), { keyOf: (pod) => pod.uid, noun: "pod", size: 20, empty: "No pod has a GPU here.", head: isOwn ? 0 : 1, redraw });
  if (isOwn) return;
  idle = table("idle", [
    { title: "Namespace", by: (each) => each.namespace, cell: (each) => cut(each.namespace) },
    { title: "Workload", by: (each) => each.owner, cell: (each) => [cut(each.owner), waiting(each)] },
    { title: "Pods", by: (each) => each.pods, cell: (each) => whole(each.pods), kind: "num" },
    { title: "Allocated", ...amount("allocatedBytes") },
    { title: "Used", ...amount("usedBytes") },
    { title: "Idle now", ...amount("idleBytes") },
    { title: "Idle since start", by: (each) => each.gibHours, cell: (each) => (each.gibHours === null ? "no data" : `${each.gibHours.toFixed(2)} GiB·h`), kind: "num" },
    { title: "Without data", by: (each) => each.unknownHours, cell: (each) => (each.unknownHours ? `${each.unknownHours.toFixed(2)} h` : "none"), kind: "num", mark: (each) => !each.unknownHours && "muted" },
  ], { keyOf: (each) => `${each.namespace}/${each.owner}`, noun: "workload", size: 10, empty: "No workload has a GPU.", head: 1, redraw });
}

const amountOf = (pod) => pod.units || sum(Object.values(pod.gpus));
const timed = (created) => Object.assign(el("span", { className: "age" }, age(created)), { created });

function onNode(pod) {
  return el("button", { type: "button", className: "link", onclick: () => openNode(pod.node) }, cut(pod.node));
}

/** A number of a workload; the words for one whose pods do not run or are gone. */
function amount(name) {
  const text = (each) => {
    if (!each.pods) return "no pods";
    return each.running ? bytes(each[name]) : "not running";
  };
  return { by: (each) => each[name], cell: text, kind: "num", mark: (each) => each[name] === null && "muted" };
}

function waiting({ notRunning }) {
  return notRunning.length > 0 && el("span", { className: "sub bad" }, `not running: ${notRunning.join(", ")}`);
}

export function podTable(found, all) {
  show(pods, found, all);
  for (const element of pods.element.querySelectorAll(".age")) write(element, age(element.created));
}

/** The pods of the shown GPUs. */
export function podsOn(board, shownNodes) {
  const indices = new Map(shownNodes.map((node) => [node.name, new Set(cardsOf(node).map((card) => String(card.index)))]));
  const isOn = (pod) => indices.has(pod.node) && (!view.model || Object.keys(pod.gpus).some((index) => indices.get(pod.node).has(index)));
  return board.pods.filter((pod) => ofNamespace(pod) && isOn(pod));
}

export function idleTable(board) {
  show(idle, board.idle.filter(ofNamespace), board.idle.length);
  write($("idle-since"), `Memory that running pods were allocated and did not use, added up since ${clock(board.started)} (${span(Date.now() / 1000 - board.started)}). The most idle first.`);
}
