"use strict";
// Draws the document of /data. Names and annotations of the cluster are hostile input: they reach the page only as
// text (textContent, title), never as markup; the policy of the server forbids anything else.

const POLL_MS = 2000;
const PAGE = { pending: 20, nodes: 50, idle: 20, pods: 50 };
const GIB = 2 ** 30, MIB = 2 ** 20, HOUR_S = 3600;
const BAD = new Set(["over-committed", "unhealthy"]);

const view = { board: null, tag: "", isNew: false, filter: { node: "", namespace: "", model: "", only: false }, shown: { ...PAGE } };
const $ = (id) => document.getElementById(id);

// --- elements ------------------------------------------------------------------------------------

/** An element: `properties` are DOM properties, children are nodes or texts; null and false are left out. */
function el(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children.flat().filter((each) => each !== null && each !== false));
  return made;
}

function svg(tag, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function labelled(element, text) {
  element.setAttribute("role", "img");
  element.setAttribute("aria-label", text);
  return element;
}

/** One <tbody> for each item; those whose item has not changed stay, with focus and selection. */
function fill(table, items, keyOf, rowsOf, emptyText) {
  const before = table.bodies || new Map();
  const bodies = new Map();
  let last = table.tHead;
  for (const item of items) {
    const text = JSON.stringify(item);
    let entry = before.get(keyOf(item));
    if (!entry || entry.text !== text) {
      const body = el("tbody", {}, rowsOf(item));
      if (entry) entry.body.replaceWith(body);
      entry = { text, body };
    }
    if (last.nextElementSibling !== entry.body) last.after(entry.body);
    last = entry.body;
    bodies.set(keyOf(item), entry);
  }
  while (last.nextElementSibling) last.nextElementSibling.remove();
  if (!items.length) {
    const columns = table.tHead.rows[0].cells.length;
    last.after(el("tbody", {}, el("tr", {}, el("td", { className: "empty", colSpan: columns }, emptyText))));
  }
  table.bodies = bodies;
}

const cell = (content, className = "") => el("td", { className }, content);
const cut = (text) => el("span", { className: "cut", title: text }, text);

// --- texts ---------------------------------------------------------------------------------------

const whole = (number) => number.toLocaleString("en-US");

function bytes(amount) {
  if (amount === null) return "no data";
  if (amount > 0 && amount < GIB) return `${Math.round(amount / MIB)} MiB`;
  return `${(amount / GIB).toLocaleString("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 })} GiB`;
}

const units = (amount, unit) => `${whole(amount)} ${unit || (amount === 1 ? "unit" : "units")}`;
const ratio = (number) => (number === null ? "no data" : `${Math.round(100 * number)} %`);
const plural = (count, noun) => `${whole(count)} ${noun}${count === 1 ? "" : "s"}`;

function clock(seconds, withSeconds = false) {
  const at = new Date(1000 * seconds), two = (number) => String(number).padStart(2, "0");
  const day = at.toDateString() === new Date().toDateString() ? "" : `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} `;
  return `${day}${two(at.getHours())}:${two(at.getMinutes())}${withSeconds ? `:${two(at.getSeconds())}` : ""}`;
}

function span(seconds) {
  if (seconds < 60) return `${Math.max(0, Math.floor(seconds))} s`;
  if (seconds < HOUR_S) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 48 * HOUR_S) return `${Math.floor(seconds / HOUR_S)} h ${Math.floor((seconds % HOUR_S) / 60)} min`;
  return `${Math.floor(seconds / (24 * HOUR_S))} d`;
}

const age = (created) => (Date.parse(created) ? span((Date.now() - Date.parse(created)) / 1000) : "");
const noData = (node) => (node.reported ? `no data since ${clock(node.reported)}` : "no data");
const count = (section, shown, all, noun) => {
  $(`${section}-title`).querySelector(".count").textContent = shown === all ? whole(all) : `${whole(shown)} of ${plural(all, noun)}`;
};

// --- filters -------------------------------------------------------------------------------------

const hasProblem = (node) =>
  !node.ready || node.cordoned || node.pending.used > 0 || node.cards.some((card) => BAD.has(card.state) || card.state === "cordoned");

function cardsOf(node) {
  return view.filter.model ? node.cards.filter((card) => card.model === view.filter.model) : node.cards;
}

function nodeMatches(node) {
  const { node: text, namespace, only } = view.filter;
  return (
    node.name.includes(text) && cardsOf(node).length > 0 && (!only || hasProblem(node)) &&
    (!namespace || node.namespaces.includes(namespace))
  );
}

const ofNamespace = (each) => !view.filter.namespace || each.namespace === view.filter.namespace;

function options(select, values) {
  const names = [...new Set(values)].sort();
  if (select.names === JSON.stringify(names)) return;
  select.names = JSON.stringify(names);
  const chosen = select.value;
  select.replaceChildren(el("option", { value: "" }, "all"), ...names.map((name) => el("option", { value: name }, name)));
  select.value = chosen;
  if (select.selectedIndex < 0) select.value = "";
}

// --- overview ------------------------------------------------------------------------------------

function tile(name, value, note, className = "") {
  return el("div", { className }, el("dt", {}, name), el("dd", {}, value, el("small", {}, note)));
}

function tiles(board) {
  const cards = board.nodes.flatMap((node) => node.cards);
  const states = ["over-committed", "unhealthy", "cordoned"].map((state) => [state, cards.filter((card) => card.state === state).length]);
  const wrong = states.filter(([, number]) => number).map(([state, number]) => `${number} ${state}`);
  const idle = board.idle.map((each) => each.idleBytes).filter((each) => each !== null);
  const unplaced = board.pods.filter((pod) => pod.unplaced).length;
  const oldest = board.pending.find((pod) => pod.created);
  const sum = (list) => list.reduce((one, other) => one + other, 0);
  const amounts = board.totals.map((each) => `${whole(each.used)} / ${units(each.total, each.unit)}`);
  $("tiles").replaceChildren(
    tile("Allocated", amounts.join(" + "), board.totals.map((each) => `${each.percent} %`).join(" + ")),
    tile("Used", bytes(board.used.usedBytes), measured(board)),
    tile("Allocated and idle", idle.length ? bytes(sum(idle)) : board.pods.length ? "no data" : bytes(0), "now"),
    tile("GPUs", whole(cards.length), wrong.join(", ") || `on ${plural(board.nodes.length, "node")}, none unhealthy`, states[0][1] || states[1][1] ? "bad" : ""),
    tile("Pods with a GPU", whole(board.pods.length), unplaced ? `${unplaced} on an unknown GPU` : ""),
    tile("Pending pods", whole(board.pending.length), oldest ? `oldest ${age(oldest.created)}` : ""),
  );
}

function measured(board) {
  const silent = board.nodes.length - board.measured;
  const of = board.used.memoryBytes === null ? "" : `of ${bytes(board.used.memoryBytes)}`;
  return [of, silent && `${plural(silent, "node")} without data`].filter(Boolean).join(", ");
}

function chart(board) {
  const { points, intervalS } = board.history;
  const end = Math.max(Date.now() / 1000, points.length ? points[points.length - 1].at : 0), start = end - HOUR_S;
  const x = (at) => ((at - start) / HOUR_S * 720).toFixed(1);
  const drawn = [0, 50, 100].map((y) => svg("line", { class: "grid", x1: 0, x2: 720, y1: y, y2: y }));
  drawn.unshift(...gaps(points, start, end, 3 * intervalS).map(([from, to]) =>
    svg("rect", { class: "gap", x: x(from), y: 0, width: Math.max(0, x(to) - x(from)), height: 100 })));
  for (const name of ["allocated", "used"]) drawn.push(svg("path", { class: name, d: line(points, name, x, 3 * intervalS) }));
  $("chart").replaceChildren(...drawn);
  const said = ["allocated", "used"].map((name) => {
    const known = points.map((point) => point[name]).filter((each) => each !== null);
    if (!known.length) return `${name}: no data`;
    return `${name}: ${ratio(known[known.length - 1])} now, from ${ratio(Math.min(...known))} to ${ratio(Math.max(...known))}`;
  });
  $("chart").setAttribute("aria-label", `Last hour of the whole cluster. ${said.join("; ")}.`);
}

/** The times without any value, as pairs of seconds. */
function gaps(points, start, end, longest) {
  const known = points.filter((point) => point.allocated !== null || point.used !== null).map((point) => point.at);
  const edges = [start, ...known.filter((at) => at > start), end];
  return edges.slice(1).map((to, index) => [edges[index], to]).filter(([from, to], index) => to - from > (index ? longest : 1));
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

// --- tables --------------------------------------------------------------------------------------

function gpuBar(card, unit) {
  const bar = el("div", { className: `bar ${card.state === "over-committed" ? "over" : card.state}` });
  const full = Math.max(card.total, card.used) || 1;
  const parts = card.state === "whole" ? [{ used: card.used }] : card.pods;
  for (const pod of parts) {
    const part = el("span", { className: "part" });
    part.style.width = `${100 * pod.used / full}%`;
    bar.append(part);
  }
  const memory = card.memoryBytes;
  if (memory && card.usedBytes !== null) {
    const usage = el("span", { className: "usage" });
    usage.style.width = `${Math.min(100, 100 * card.usedBytes / memory)}%`;
    bar.append(usage);
  }
  if (memory && card.limitBytes !== null) {
    const tick = el("span", { className: "tick" });
    tick.style.left = `${Math.min(100, 100 * card.limitBytes / memory)}%`;
    bar.append(tick);
  }
  const limit = card.limitBytes === null ? "no limit" : `limit ${bytes(card.limitBytes)}`;
  return labelled(bar, `${card.used} of ${units(card.total, unit)} allocated, used ${bytes(card.usedBytes)}, ${limit}`);
}

const STATES = { ok: "healthy", unknown: "not reported", whole: "whole GPU" };

function podNames(pods) {
  const names = pods.slice(0, 3).map((pod) => pod.name).join(", ");
  return el("span", { className: "cut", title: pods.map((pod) => `${pod.namespace}/${pod.name}`).join(", ") },
    pods.length > 3 ? `${names} + ${pods.length - 3}` : names);
}

function nodeRows({ node, cards }) {
  return cards.map((card, index) => el("tr", {},
    index === 0 && nodeHead(node, cards.length),
    el("td", { className: "num", title: card.uuid || "" }, String(card.index)),
    cell(gpuBar(card, node.unit), "wide"),
    cell(`${whole(card.used)} / ${units(card.total, node.unit)}`, `num ${card.state === "over-committed" ? "bad" : ""}`),
    cell(card.usedBytes === null ? noData(node.current ? {} : node) : bytes(card.usedBytes), `num ${card.usedBytes === null ? "muted" : ""}`),
    cell(card.limitBytes === null ? "–" : bytes(card.limitBytes), "num"),
    cell(card.utilization === null ? "–" : ratio(card.utilization), "num"),
    cell(STATES[card.state] || card.state, `state-${card.state}`),
    cell(podNames(card.pods)),
  ));
}

function nodeHead(node, rows) {
  const models = [...new Set(node.cards.map((card) => card.model).filter(Boolean))].join(", ");
  const facts = [node.mode, models].filter(Boolean).join(" · ");
  const wrong = [!node.ready && "not ready", node.cordoned && "cordoned", node.pending.used > 0 && `${units(node.pending.used, node.unit)} on an unknown GPU`];
  const head = el("th", { scope: "rowgroup", rowSpan: rows }, cut(node.name),
    el("span", { className: "sub" }, `${whole(node.used)} / ${units(node.total, node.unit)} (${node.percent} %)`),
    el("span", { className: "sub" }, cut(facts)));
  for (const text of wrong.filter(Boolean)) head.append(el("span", { className: "sub bad" }, text));
  return head;
}

function nodes(board) {
  const found = board.nodes.filter(nodeMatches);
  found.sort((one, other) => hasProblem(other) - hasProblem(one));
  count("nodes", found.length, board.nodes.length, "node");
  const items = page("nodes", found, "nodes").map((node) => ({ node, cards: cardsOf(node) }));
  fill($("gpus"), items, (item) => item.node.name, nodeRows, board.nodes.length ? "No node matches the filter." : "No node shares its GPUs.");
  return found;
}

function pendingRow({ pod, unit }) {
  const many = pod.gpus > 1 ? ` × ${pod.gpus} GPUs` : "";
  return el("tr", {}, cell(cut(pod.namespace)), el("th", { scope: "row" }, cut(pod.name)),
    cell(pod.units === null ? "invalid" : units(pod.units, unit) + many, "num"),
    el("td", { className: "num waiting" }), cell(why(pod), "why"), cell(helps(pod), "helps"));
}

function why(pod) {
  if (pod.reason === null) {
    return el("span", {}, pod.scheduler || "The scheduler has not reported on it.", el("span", { className: "sub" }, "kubectl gpushare explain shows more."));
  }
  const lines = [...pod.details, ...pod.nodes.map((node) => `${node.name}: ${[node.reason, ...node.obstacles].join("; ")}`)];
  if (pod.moreNodes) lines.push(`and ${plural(pod.moreNodes, "more node")}`);
  if (pod.scheduler) lines.push(`scheduler: ${pod.scheduler}`);
  return el("span", {}, sentence(pod.reason), lines.length > 0 && more("Node by node", lines.map((text) => [text])));
}

const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;

function helps(pod) {
  if (!pod.remedies.length) return "–";
  const shown = (each) => [sentence(each.text), each.command && el("br"), each.command && el("code", {}, each.command)].filter(Boolean);
  const [first, ...others] = pod.remedies;
  return el("span", {}, shown(first), others.length > 0 && more(others.length > 1 ? `Or one of ${others.length} others` : "Or another one", others.map(shown)));
}

function more(title, lines) {
  return el("details", {}, el("summary", {}, title), el("ul", {}, lines.map((parts) => el("li", {}, parts))));
}

function pendingPods(board) {
  const found = board.pending.filter(ofNamespace);
  count("pending", found.length, board.pending.length, "pod");
  const items = page("pending", found, "pods").map((pod) => ({ pod, unit: board.unit }));
  fill($("pending"), items, (item) => item.pod.uid, pendingRow, "No pod waits for a GPU.");
  for (const { pod } of items) {
    const waiting = $("pending").bodies.get(pod.uid).body.querySelector(".waiting");
    if (waiting.textContent !== age(pod.created)) waiting.textContent = age(pod.created);
  }
}

function podRow(pod) {
  const gpus = Object.keys(pod.gpus);
  const unknown = (value) => (value === null ? "no data" : bytes(value));
  return el("tr", {}, cell(cut(pod.namespace)), el("th", { scope: "row" }, cut(pod.name)), cell(cut(pod.owner || "")), cell(cut(pod.node)),
    cell(gpus.length ? gpus.join(", ") : "unknown", pod.unplaced ? "bad" : ""), cell(units(pod.units || Object.values(pod.gpus).reduce((a, b) => a + b, 0), pod.unit), "num"),
    cell(unknown(pod.usedBytes), `num ${pod.usedBytes === null ? "muted" : ""}`), cell(pod.limitBytes === null ? "–" : bytes(pod.limitBytes), "num"));
}

function pods(board, shownNodes) {
  const names = new Map(shownNodes.map((node) => [node.name, new Set(cardsOf(node).map((card) => String(card.index)))]));
  const on = (pod) => names.has(pod.node) && (!view.filter.model || Object.keys(pod.gpus).some((index) => names.get(pod.node).has(index)));
  const found = board.pods.filter((pod) => ofNamespace(pod) && on(pod));
  count("pods", found.length, board.pods.length, "pod");
  fill($("pods"), page("pods", found, "pods"), (pod) => pod.uid, podRow, "No pod has a GPU here.");
}

function idleRow(each) {
  const hours = each.gibHours === null ? "no data" : `${each.gibHours.toFixed(2)} GiB·h`;
  return el("tr", {}, cell(cut(each.namespace)), el("th", { scope: "row" }, cut(each.owner)), cell(whole(each.pods), "num"),
    ...[each.allocatedBytes, each.usedBytes, each.idleBytes].map((value) => cell(each.pods ? bytes(value) : "–", `num ${value === null ? "muted" : ""}`)),
    cell(hours, "num"), cell(each.unknownHours ? `${each.unknownHours.toFixed(2)} h` : "–", "num"));
}

function idle(board) {
  const found = board.idle.filter(ofNamespace);
  count("idle", found.length, board.idle.length, "workload");
  $("idle-since").textContent = `Memory that containers were allocated and did not use, added up since ${clock(board.started)} (${span(Date.now() / 1000 - board.started)}). The most idle first.`;
  fill($("idle"), page("idle", found, "workloads"), (each) => `${each.namespace}/${each.owner}`, idleRow, "No workload has a GPU.");
}

/** The items up to the page; the button below the table shows more. */
function page(name, items, noun) {
  const button = document.querySelector(`[data-more="${name}"]`);
  const left = items.length - view.shown[name];
  button.hidden = left <= 0;
  button.textContent = `Show ${whole(Math.min(left, PAGE[name] * 2))} more of ${whole(items.length)} ${noun}`;
  return items.slice(0, view.shown[name]);
}

function nodeProblems(node) {
  const of = (card) => (card.state === "over-committed" ? `: ${whole(card.used)} of ${units(card.total, node.unit)} allocated` : "");
  const cards = node.cards.filter((card) => BAD.has(card.state)).map((card) => `GPU ${card.index} is ${card.state}${of(card)}`);
  return [!node.ready && "it is not ready", ...cards].filter(Boolean).map((text) => `node ${node.name}: ${text}`);
}

function problems(board) {
  const texts = [...board.nodes.flatMap(nodeProblems), ...board.problems, ...board.notes];
  const shown = texts.slice(0, 8);
  if (texts.length > 8) shown.push(`and ${texts.length - 8} more`);
  $("problems-section").hidden = !texts.length;
  $("problems").replaceChildren(...shown.map((text) => el("li", { className: "wrap" }, text)));
}

// --- state ---------------------------------------------------------------------------------------

function draw() {
  const board = view.board;
  if (!board) return;
  $("cluster").textContent = board.cluster;
  $("cluster").title = board.cluster;
  options($("namespace"), [...board.pods, ...board.pending].map((pod) => pod.namespace));
  options($("model"), board.nodes.flatMap((node) => node.cards.map((card) => card.model)).filter(Boolean));
  tiles(board);
  chart(board);
  problems(board);
  pendingPods(board);
  const shown = nodes(board);
  idle(board);
  pods(board, shown);
}

/** "Live", or since when not and why; the figures stay, marked as old. */
function status(problem) {
  const text = problem ? "Not live" : "Live";
  if ($("live").textContent !== text) $("live").textContent = text;
  $("live-time").textContent = problem ? "" : clock(Date.now() / 1000, true);
  document.body.classList.toggle("stale", Boolean(problem));
  $("lost").hidden = !problem;
  if ($("lost").textContent !== problem) $("lost").textContent = problem;
}

function lostText(lost) {
  return lost ? `No data from the API server since ${clock(lost.since, true)}. The figures are of that time. ${lost.reason}` : "";
}

/** The document with the pods of each GPU, and the namespaces of each node. */
function joined(board) {
  const cards = new Map();
  const nodes = new Map(board.nodes.map((node) => [node.name, node]));
  for (const node of board.nodes) {
    node.namespaces = [];
    for (const card of node.cards) {
      card.pods = [];
      cards.set(`${card.index} ${node.name}`, card);
    }
  }
  for (const { namespace, name, node, gpus } of board.pods) {
    nodes.get(node).namespaces.push(namespace);
    for (const [index, used] of Object.entries(gpus)) cards.get(`${index} ${node}`).pods.push({ namespace, name, used });
  }
  return board;
}

let answeredAt = Date.now() / 1000;

/** In a cluster, where users sign in. */
const isShared = $("sign-out") !== null;
const SILENT = isShared ? "the board does not answer." : "the process of the board does not answer. Run kubectl gpushare board again and open its new URL.";

/** Since when and why the API server does not answer; null if it does. Fails if the board does not answer. */
async function read() {
  const response = await fetch("/data", { headers: { "If-None-Match": view.tag }, cache: "no-store" });
  // The page at this address is then the login page, with the reason.
  if (isShared && (response.status === 401 || response.status === 403)) location.reload();
  if (response.status === 503) return withTime((await response.json()).lost);
  if (response.status !== 304 && response.status !== 200) throw new Error(`HTTP ${response.status}`);
  if (response.status === 200) {
    view.board = joined(await response.json());
    view.tag = response.headers.get("ETag");
    view.isNew = true;
  }
  answeredAt = Date.now() / 1000;
  return view.board.lost;
}

/** The board may notice later than this page that the API server is silent. */
function withTime(lost) {
  return { ...lost, since: lost.since ?? view.board?.lost?.since ?? answeredAt };
}

async function poll() {
  status(await read().then(lostText, () => `No data since ${clock(answeredAt, true)}: ${SILENT}`));
  setTimeout(poll, POLL_MS);
  if (view.isNew) draw();
  view.isNew = false;
}

function filtered() {
  view.filter = { node: $("node").value.trim(), namespace: $("namespace").value, model: $("model").value, only: $("only").checked };
  view.shown = { ...PAGE };
  draw();
  if (view.board) $("matches").textContent = `${plural(view.board.nodes.filter(nodeMatches).length, "node")} shown`;
}

$("filters").addEventListener("input", filtered);
$("filters").addEventListener("reset", () => setTimeout(filtered));
$("filters").addEventListener("submit", (event) => event.preventDefault());
for (const button of document.querySelectorAll("[data-more]")) {
  button.addEventListener("click", () => {
    view.shown[button.dataset.more] += PAGE[button.dataset.more] * 2;
    draw();
  });
}
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.ctrlKey && !event.metaKey && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) {
    event.preventDefault();
    $("node").focus();
  }
});
poll();
