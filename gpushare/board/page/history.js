// The whole cluster over a time: the last hour, which the board has in memory, or a longer one from Prometheus.

import { $, drawing, svg, write } from "./elements.js";
import { choose, view } from "./address.js";
import { past, ranges, rangeText } from "./past.js";
import { rangeButtons } from "./range_buttons.js";
import { clock, ratio, span } from "./texts.js";

const HOUR_S = 3600, SHORTEST_S = 300, WIDTH = 720, LINES = ["allocated", "used"], HOUR = "";
const TOO_FEW = 3;
const isKnown = (point) => LINES.some((name) => point[name] !== null);

export function chart(board, redraw) {
  const { items, note } = ranges(redraw), range = items.includes(view.range) ? view.range : HOUR;
  rangeButtons("chart-ranges", [HOUR, ...items], range, textOf, (chosen) => { choose({ range: chosen }, true); redraw(); });
  $("chart-none").hidden = !note;
  write($("chart-none"), note);
  show(range === HOUR ? lastHour(board) : earlier(range, past(`/history?range=${range}`, redraw)));
}

const textOf = (range) => (range === HOUR ? "last hour" : rangeText(range));

/** From the first sample on, at most an hour. */
function lastHour({ history: { points, intervalS }, started }) {
  const known = points.filter(isKnown);
  if (known.length < TOO_FEW) {
    return { title: "Last hour", text: `The chart begins with the first samples. This board records since ${clock(started)}.` };
  }
  const end = Math.max(Date.now() / 1000, points[points.length - 1].at);
  const length = Math.min(HOUR_S, Math.max(SHORTEST_S, end - known[0].at)), start = end - length;
  return {
    title: length < HOUR_S ? `Last ${span(length)}` : "Last hour", from: `${span(length)} ago`,
    points: points.filter((point) => point.at >= start), start, first: Math.max(start, known[0].at), end, longest: 3 * intervalS,
  };
}

/** The document of /history as points: parts of the memory of all GPUs at the end of each step. */
function earlier(range, { found, text }) {
  const title = `Last ${rangeText(range)}`;
  if (!found) return { title, text };
  const start = Date.parse(found.start) / 1000, step = found.stepSeconds;
  const part = (amount, memory) => (amount === null || !memory ? null : amount / memory);
  const points = found.memoryBytes.map((memory, index) => ({
    at: start + (index + 1) * step, allocated: part(found.allocatedBytes[index], memory), used: part(found.usedBytes[index], memory),
  }));
  if (!points.some(isKnown)) return { title, text: `Prometheus has nothing of the last ${rangeText(range)}: its recording rules were not loaded, or no exporter reported.` };
  return { title, from: `${rangeText(range)} ago`, points, start, first: start, end: Date.parse(found.end) / 1000, longest: 1.5 * step };
}

function show(shown) {
  const isDrawn = !shown.text;
  $("chart-empty").hidden = isDrawn;
  $("plot").hidden = !isDrawn;
  write($("chart-title"), `${shown.title}, whole cluster`);
  write($("chart-empty"), shown.text || "");
  if (isDrawn) draw(shown);
}

function draw({ title, from, points, start, first, end, longest }) {
  const x = (at) => (Math.max(0, at - start) / (end - start) * WIDTH).toFixed(1);
  const drawn = gaps(points, first, end, longest).map(([from, to]) =>
    svg("rect", { class: "gap", x: x(from), y: 0, width: Math.max(0, x(to) - x(from)), height: 100 }));
  drawn.push(...[0, 50, 100].map((y) => svg("line", { class: "grid", x1: 0, x2: WIDTH, y1: y, y2: y })));
  for (const name of LINES) drawn.push(svg("path", { class: name, d: line(points, name, x, longest) }));
  $("chart").replaceChildren(...drawn);
  write($("chart-from"), from);
  drawing($("chart"), `${title}, whole cluster. ${LINES.map((name) => said(name, points)).join("; ")}.`);
}

function said(name, points) {
  const known = points.map((point) => point[name]).filter((each) => each !== null);
  if (!known.length) return `${name}: no data`;
  return `${name}: ${ratio(known[known.length - 1])} last, from ${ratio(Math.min(...known))} to ${ratio(Math.max(...known))}`;
}

/** The times without any value, as pairs of seconds. */
function gaps(points, start, end, longest) {
  const known = points.filter(isKnown).map((point) => point.at);
  const edges = [start, ...known.filter((at) => at > start), end];
  return edges.slice(1).map((to, index) => [edges[index], to]).filter(([from, to]) => to - from > longest);
}

function line(points, name, x, longest) {
  let path = "", before = null;
  for (const point of points) {
    if (point[name] === null) { before = null; continue; }
    const joined = before !== null && point.at - before <= longest;
    path += `${joined ? "L" : "M"}${x(point.at)} ${(100 - 100 * Math.min(1, point[name])).toFixed(2)}${joined ? "" : "h0.1"}`;
    before = point.at;
  }
  return path;
}
