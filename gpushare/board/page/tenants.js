// GPU-hours and GiB-hours of namespaces over a time, from Prometheus, with their quotas.

import { $, cut, write } from "./elements.js";
import { choose, view } from "./address.js";
import { ofNamespace } from "./filters.js";
import { past, ranges, rangeText } from "./past.js";
import { rangeButtons } from "./range_buttons.js";
import { show, table } from "./table.js";
import { ratio, units, whole } from "./texts.js";

const USUAL = "30d";
let rows;

export function prepareTenants(redraw) {
  rows = table("tenants", [
    { title: "Namespace", by: (each) => each.namespace, cell: (each) => cut(each.namespace) },
    amount("GPU-hours", "allocatedGpuHours"),
    amount("Used GPU-hours", "usedGpuHours", "allocatedGpuHours"),
    amount("GiB-hours", "allocatedGibHours"),
    amount("Used GiB-hours", "usedGibHours", "allocatedGibHours"),
    { title: "Idle memory", by: (each) => each.idleRatio, cell: (each) => (each.idleRatio === null ? "nothing allocated" : ratio(each.idleRatio)), kind: "num", mark: (each) => each.idleRatio === null && "muted" },
    { title: "Quota", by: partOfQuota, cell: quota, kind: "num", mark: (each) => (each.quota ? "" : "muted") },
  ], { keyOf: (each) => each.namespace, noun: "namespace", size: 20, empty: "No namespace was allocated GPUs in this time.", head: 0, redraw });
}

export function tenants({ unit }, redraw) {
  const { items } = ranges(redraw), range = items.includes(view.hours) ? view.hours : USUAL;
  $("tenants-section").hidden = !items.length;
  if (!items.length) return;
  rangeButtons("tenants-ranges", items, range, rangeText, (chosen) => { choose({ hours: chosen }, true); redraw(); });
  const { found, text } = past(`/tenants?range=${range}`, redraw);
  $("tenants-table").hidden = !found;
  write($("tenants-note"), found ? summary(found, range) : text);
  if (!found) return write(document.querySelector("#tenants-title .count"), "");
  show(rows, found.items.filter(ofNamespace).map((each) => ({ ...each, unit, isKnown: found.quotasKnown })), found.items.length);
}

function summary({ total, notes }, range) {
  const sums = `In the last ${rangeText(range)}, pods of all namespaces were allocated ${hours(total.allocatedGpuHours)} GPU-hours and ${hours(total.allocatedGibHours)} GiB-hours.`;
  return [sums, ...notes].join(" ");
}

const hours = (number) => number.toLocaleString("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

/** A column of hours; with `all`, also their part of those. */
function amount(title, name, all = "") {
  const part = (each) => (all && each[all] ? ` (${ratio(each[name] / each[all])})` : "");
  return { title, by: (each) => each[name], cell: (each) => `${hours(each[name])}${part(each)}`, kind: "num" };
}

const partOfQuota = (each) => (each.quota ? each.quota.usedUnits / (each.quota.hardUnits || 1) : null);

function quota(each) {
  if (!each.isKnown) return "unknown";
  return each.quota ? `${whole(each.quota.usedUnits)} of ${units(each.quota.hardUnits, each.unit)}` : "no quota";
}
