// The sums of the cluster.

import { $, el } from "./elements.js";
import { age, bytes, known, plural, sum, units, whole } from "./texts.js";

const STATES = ["over-committed", "unhealthy", "cordoned"];

export function tiles(board) {
  $("tiles").replaceChildren(allocated(board), used(board), idle(board), gpus(board), pods(board), pending(board));
}

export function tile(name, value, note = "", className = "") {
  return el("div", { className }, el("dt", {}, name), el("dd", {}, value, el("small", {}, note)));
}

function allocated({ totals }) {
  const amounts = totals.map((each) => `${whole(each.used)} / ${units(each.total, each.unit)}`);
  return tile("Allocated", amounts.join(" + "), totals.map((each) => `${each.percent} %`).join(" + "));
}

/** A part of the memory of the measured GPUs, which is a little more than can be allocated in whole units. */
function used({ used: { usedBytes, memoryBytes }, nodes, measured }) {
  const part = memoryBytes ? `${Math.round(100 * usedBytes / memoryBytes)} % of the memory` : "";
  const silent = nodes.length - measured;
  return tile("Used", bytes(usedBytes), [part, silent && `${plural(silent, "node")} without data`].filter(Boolean).join(", "));
}

function idle({ idle: workloads, pods: all, unit }) {
  const amounts = known(workloads.map((each) => each.idleBytes));
  const waiting = all.filter((pod) => !pod.runs);
  const note = waiting.length ? `without ${units(sum(waiting.map((pod) => pod.units)), unit)} of pods that do not run` : "by pods that run";
  return tile("Allocated and idle", amounts.length ? bytes(sum(amounts)) : all.length ? "no data" : bytes(0), note);
}

function gpus({ nodes }) {
  const cards = nodes.flatMap((node) => node.cards);
  const counts = STATES.map((state) => cards.filter((card) => card.state === state).length);
  const wrong = STATES.map((state, index) => counts[index] && `${counts[index]} ${state}`).filter(Boolean);
  return tile("GPUs", whole(cards.length), wrong.join(", ") || `on ${plural(nodes.length, "node")}`, counts[0] || counts[1] ? "bad" : "");
}

function pods({ pods: all }) {
  const waiting = all.filter((pod) => !pod.runs).length;
  return tile("Pods with a GPU", whole(all.length), waiting ? `${whole(waiting)} not running` : "");
}

function pending({ pending: groups }) {
  const waiting = groups.flatMap((group) => group.pods);
  const oldest = waiting.map((pod) => pod.created).filter(Boolean).sort()[0];
  return tile("Pending pods", whole(waiting.length), oldest ? `oldest ${age(oldest)}` : "");
}
