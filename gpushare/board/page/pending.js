// Pods that wait, grouped by reason: why, and what helps.

import { cut, el, folded, write } from "./elements.js";
import { ofNamespace } from "./filters.js";
import { count, show, table } from "./table.js";
import { age, plural, sentence, units, whole } from "./texts.js";

const MOST_NAMES = 100;

let rows;

export function preparePending(redraw) {
  rows = table("pending", [
    { title: "Pods", by: (group) => group.pods.length, cell: names, kind: "names" },
    { title: "Request", by: (group) => group.units, cell: request, kind: "num" },
    { title: "Waiting", by: (group) => -Date.parse(group.pods[0].created) || null, cell: () => el("span", { className: "waiting" }), kind: "num" },
    { title: "Why", cell: why, kind: "text" },
    { title: "What helps", cell: helps, kind: "text" },
  ], { keyOf: (group) => group.pods[0].uid, noun: "reason", size: 20, empty: "No pod waits for a GPU.", head: 0, redraw });
}

export function pending(board) {
  const found = board.pending
    .map((group) => ({ ...group, all: group.pods.length, pods: group.pods.filter(ofNamespace), unit: board.unit }))
    .filter((group) => group.pods.length);
  show(rows, found, board.pending.length);
  const number = (groups) => groups.reduce((all, group) => all + group.pods.length, 0);
  count("pending", number(found), number(board.pending), "pod");
  for (const group of found) {
    const element = rows.element.kept.get(group.pods[0].uid)?.element.querySelector(".waiting");
    if (element) write(element, age(group.pods[0].created));
  }
}

function names({ pods }) {
  if (pods.length === 1) return [cut(pods[0].name), el("span", { className: "sub" }, cut(pods[0].namespace))];
  const lines = pods.slice(0, MOST_NAMES).map((pod) => [`${pod.namespace}/${pod.name}`]);
  if (pods.length > MOST_NAMES) lines.push([`and ${whole(pods.length - MOST_NAMES)} more`]);
  const namespaces = [...new Set(pods.map((pod) => pod.namespace))];
  const where = namespaces.length > 1 ? plural(namespaces.length, "namespace") : namespaces[0];
  return [folded(plural(pods.length, "pod"), lines), el("span", { className: "sub" }, cut(where))];
}

function request({ units: amount, gpus, unit }) {
  return amount === null ? "invalid" : `${units(amount, unit)}${gpus > 1 ? ` × ${gpus} GPUs` : ""}`;
}

function why(group) {
  if (group.reason === null) {
    return [group.scheduler || "The scheduler has not reported on it.", el("span", { className: "sub" }, "kubectl gpushare explain shows more.")];
  }
  const lines = [...group.details, ...group.nodes.map((node) => `${node.name}: ${[node.reason, ...node.obstacles].join("; ")}`)];
  if (group.moreNodes) lines.push(`and ${plural(group.moreNodes, "more node")}`);
  if (group.scheduler) lines.push(`scheduler: ${group.scheduler}`);
  return [sentence(group.reason), lines.length > 0 && folded(group.nodes.length ? "Node by node" : "More", lines.map((text) => [text]))];
}

function helps({ remedies }) {
  if (!remedies.length) return el("span", { className: "muted" }, "nothing that gpushare knows");
  const shown = (each) => [sentence(each.text), each.command && el("br"), each.command && el("code", {}, each.command)].filter(Boolean);
  const [first, ...others] = remedies;
  return [...shown(first), others.length > 0 && folded(others.length > 1 ? `Or one of ${others.length} others` : "Or another one", others.map(shown))];
}
