// The board of one namespace: its sums, and what would fit now.

import { $, cut, el, write } from "./elements.js";
import { tile } from "./overview.js";
import { show, table } from "./table.js";
import { age, bytes, known, plural, sum, units, whole } from "./texts.js";

let rows;

export function prepareNamespace(redraw) {
  rows = table("fits", [
    { title: "GPU", by: (kind) => kind.model, cell: kindOf },
    { title: "Nodes", by: (kind) => kind.openNodes, cell: (kind) => `${whole(kind.openNodes)} of ${whole(kind.nodes)} take pods`, kind: "num" },
    { title: "One GPU", by: (kind) => kind.gpuUnits, cell: (kind) => (kind.gpuUnits === null ? "unknown" : units(kind.gpuUnits, kind.unit)), kind: "num" },
    { title: "Largest free block", by: (kind) => kind.largestFreeUnits, cell: (kind) => units(kind.largestFreeUnits, kind.unit), kind: "num" },
    { title: "Mode", by: (kind) => kind.mode, cell: (kind) => kind.mode || "unknown" },
    { title: "Pods must tolerate", cell: (kind) => kind.taints.join(", ") || "nothing", kind: "text" },
  ], { keyOf: (kind) => JSON.stringify([kind.model, kind.gpuMemoryMib, kind.mode, kind.labels, kind.taints]), noun: "kind of node", size: 20, empty: "No node shares GPUs.", head: 0, redraw });
}

export function namespaceBoard(board) {
  $("tiles").replaceChildren(...tilesOf(board));
  const { items, largestFreeUnits } = board.fits;
  show(rows, items);
  write($("fits-note"), largestFreeUnits
    ? `A pod can request up to ${units(largestFreeUnits, board.unit)} on one GPU now. How many pods of a size fit: kubectl gpushare fit ${largestFreeUnits} -n ${board.namespace}`
    : "No GPU has free memory now.");
}

function kindOf({ model, gpuMemoryMib, labels }) {
  const memory = gpuMemoryMib ? `, ${whole(Math.round(gpuMemoryMib / 1024))} GiB` : "";
  const pool = Object.entries(labels).map(([key, value]) => `${key}=${value}`).join(", ");
  return [cut(`${model || "unknown model"}${memory}`), pool && el("span", { className: "sub" }, cut(pool))];
}

function tilesOf({ pods, pending, fits, unit }) {
  const allocated = sum(pods.map((pod) => pod.units)), used = known(pods.map((pod) => pod.usedBytes));
  const stopped = pods.filter((pod) => !pod.runs).length, refusals = sum(known(pods.map((pod) => pod.refusals)));
  const waiting = pending.flatMap((group) => group.pods), oldest = waiting.map((pod) => pod.created).filter(Boolean).sort()[0];
  const silent = pods.length - used.length;
  return [
    tile("Allocated", units(allocated, unit), `to ${plural(pods.length, "pod")}`),
    tile("Used", used.length ? bytes(sum(used)) : pods.length ? "no data" : bytes(0), silent ? `${plural(silent, "pod")} without data` : ""),
    tile("Refused allocations", whole(refusals), refusals ? "pods that reached their limit" : ""),
    tile("Pods with a GPU", whole(pods.length), stopped ? `${whole(stopped)} not running` : ""),
    tile("Pending pods", whole(waiting.length), oldest ? `oldest ${age(oldest)}` : ""),
    tile("Largest free block", units(fits.largestFreeUnits, unit), "on one GPU, now"),
  ];
}
