// Reads the document of /data again and again, and draws it.

import { $, write } from "./elements.js";
import { read as readAddress, view } from "./address.js";
import { detail, openNode, prepareDetail } from "./detail.js";
import { fillFilters, listenToFilters, nodeMatches } from "./filters.js";
import { fleet, prepareFleet } from "./fleet.js";
import { health } from "./health.js";
import { chart } from "./history.js";
import { namespaceBoard, prepareNamespace } from "./namespace.js";
import { tiles } from "./overview.js";
import { pending, preparePending } from "./pending.js";
import { idleTable, podTable, podsOn, preparePods } from "./pods.js";
import { firstPages } from "./table.js";
import { prepareTenants, tenants } from "./tenants.js";
import { clock, plural } from "./texts.js";

const POLL_MS = 2000;
/** In a cluster, where users sign in. */
const isShared = $("sign-out") !== null;
const SILENT = isShared ? "the board does not answer." : "the process of the board does not answer. Run kubectl gpushare board again and open its new URL.";

let board = null, tag = "", answeredAt = Date.now() / 1000;

const isOwn = () => board.kind === "NamespaceBoard";

function draw() {
  if (!board) return;
  if (!document.documentElement.dataset.tag) prepare();
  write($("cluster"), isOwn() ? `namespace ${board.namespace} · ${board.cluster}` : board.cluster);
  $("cluster").title = $("cluster").textContent;
  health(board.health);
  pending(board);
  if (isOwn()) drawNamespace();
  else drawCluster();
  document.documentElement.dataset.tag = tag;
}

/** Once it is known what the document is about. */
function prepare() {
  document.body.classList.toggle("own", isOwn());
  preparePending(draw);
  preparePods(draw, isOwn());
  if (isOwn()) return prepareNamespace(draw);
  prepareFleet(draw, openNode);
  prepareDetail(draw);
  prepareTenants(draw);
}

function drawNamespace() {
  namespaceBoard(board);
  podTable(board.pods, board.pods.length);
}

function drawCluster() {
  fillFilters([...board.pods, ...board.pending.flatMap((group) => group.pods)].map((pod) => pod.namespace),
    board.nodes.flatMap((node) => node.cards.map((card) => card.model)));
  tiles(board);
  chart(board, draw);
  podTable(podsOn(board, fleet(board)), board.pods.length);
  idleTable(board);
  tenants(board, draw);
  detail(board);
}

/** The document with the pods of each GPU, and the namespaces of each node. */
function joined(found) {
  if (!found.nodes) return found;
  const nodes = new Map(found.nodes.map((node) => [node.name, node])), cards = new Map();
  for (const node of found.nodes) {
    node.namespaces = new Set();
    for (const card of node.cards) {
      card.pods = [];
      cards.set(`${card.index} ${node.name}`, card);
    }
  }
  for (const pod of found.pods) {
    nodes.get(pod.node).namespaces.add(pod.namespace);
    for (const [index, share] of Object.entries(pod.gpus)) cards.get(`${index} ${pod.node}`).pods.push({ ...pod, share });
  }
  return found;
}

/** Since when and why the API server does not answer; null if it does. Fails if the board does not answer. */
async function read() {
  const response = await fetch("/data", { headers: { "If-None-Match": tag }, cache: "no-store" });
  // The page at this address is then the login page, with the reason.
  if (isShared && (response.status === 401 || response.status === 403)) location.reload();
  if (response.status === 503) return withTime((await response.json()).lost);
  if (response.status !== 304 && response.status !== 200) throw new Error(`HTTP ${response.status}`);
  if (response.status === 200) {
    board = joined(await response.json());
    tag = response.headers.get("ETag");
    draw();
  }
  answeredAt = Date.now() / 1000;
  return board.lost;
}

/** The board may notice later than this page that the API server is silent. */
const withTime = (lost) => ({ ...lost, since: lost.since ?? board?.lost?.since ?? answeredAt });

const lostText = (lost) =>
  (lost ? `No data from the API server since ${clock(lost.since, true)}. The figures are of that time. ${lost.reason}` : "");

/** "Live", or since when not and why; the figures stay, marked as old. */
function status(problem) {
  write($("live"), problem ? "Not live" : "Live");
  write($("live-time"), problem ? "" : clock(Date.now() / 1000, true));
  document.body.classList.toggle("stale", Boolean(problem));
  $("lost").hidden = !problem;
  write($("lost"), problem);
}

async function poll() {
  status(await read().then(lostText, () => `No data since ${clock(answeredAt, true)}: ${SILENT}`));
  setTimeout(poll, POLL_MS);
}

function filtered() {
  firstPages();
  draw();
  if (board && !isOwn()) write($("matches"), `${plural(board.nodes.filter(nodeMatches).length, "node")} shown`);
}

function listen() {
  listenToFilters(filtered);
  addEventListener("hashchange", () => { readAddress(); filtered(); });
  addEventListener("popstate", () => { readAddress(); filtered(); });
  $("skip").addEventListener("click", (event) => {
    event.preventDefault();  // the fragment of the URL is the view
    $(board && isOwn() ? "pending-title" : "nodes-title").focus();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.ctrlKey && !event.metaKey && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      $("node").focus();
    }
  });
}

readAddress();
listen();
poll();
