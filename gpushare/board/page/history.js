// The last hour of the whole cluster. A longer history would be another source of the same points.

import { $, drawing, svg, write } from "./elements.js";
import { clock, ratio, span } from "./texts.js";

const HOUR_S = 3600, SHORTEST_S = 300, WIDTH = 720, LINES = ["allocated", "used"];

export function chart({ history: { points, intervalS }, started }) {
  const known = points.filter((point) => LINES.some((name) => point[name] !== null));
  const isDrawn = known.length > 2;
  $("chart-empty").hidden = isDrawn;
  $("plot").hidden = $("keys").hidden = !isDrawn;
  write($("chart-empty"), `The chart begins with the first samples. This board records since ${clock(started)}.`);
  if (isDrawn) draw(points, known[0].at, 3 * intervalS);
}

/** From the first sample on, at most an hour. */
function draw(points, first, longest) {
  const end = Math.max(Date.now() / 1000, points[points.length - 1].at);
  const length = Math.min(HOUR_S, Math.max(SHORTEST_S, end - first)), start = end - length;
  const x = (at) => (Math.max(0, at - start) / length * WIDTH).toFixed(1);
  const drawn = gaps(points, Math.max(start, first), end, longest).map(([from, to]) =>
    svg("rect", { class: "gap", x: x(from), y: 0, width: Math.max(0, x(to) - x(from)), height: 100 }));
  drawn.push(...[0, 50, 100].map((y) => svg("line", { class: "grid", x1: 0, x2: WIDTH, y1: y, y2: y })));
  const inside = points.filter((point) => point.at >= start);
  for (const name of LINES) drawn.push(svg("path", { class: name, d: line(inside, name, x, longest) }));
  $("chart").replaceChildren(...drawn);
  write($("chart-from"), `${span(length)} ago`);
  const title = length < HOUR_S ? `Last ${span(length)}, whole cluster` : "Last hour, whole cluster";
  write($("chart-title"), title);
  drawing($("chart"), `${title}. ${LINES.map((name) => said(name, inside)).join("; ")}.`);
}

function said(name, points) {
  const known = points.map((point) => point[name]).filter((each) => each !== null);
  if (!known.length) return `${name}: no data`;
  return `${name}: ${ratio(known[known.length - 1])} now, from ${ratio(Math.min(...known))} to ${ratio(Math.max(...known))}`;
}

/** The times without any value, as pairs of seconds. */
function gaps(points, start, end, longest) {
  const known = points.filter((point) => LINES.some((name) => point[name] !== null)).map((point) => point.at);
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
