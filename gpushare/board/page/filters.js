// Which nodes, pods and workloads are shown.

import { $, el } from "./elements.js";
import { choose, view } from "./address.js";

const BAD = new Set(["over-committed", "unhealthy", "cordoned"]);
const FIELDS = ["node", "namespace", "model"];

export const hasProblem = (node) =>
  !node.ready || node.cordoned || node.pending.used > 0 || node.cards.some((card) => BAD.has(card.state));

export const cardsOf = (node) => (view.model ? node.cards.filter((card) => card.model === view.model) : node.cards);
export const ofNamespace = (each) => !view.namespace || each.namespace === view.namespace;

export function nodeMatches(node) {
  return (
    node.name.includes(view.node) && cardsOf(node).length > 0 && (!view.problems || hasProblem(node)) &&
    (!view.namespace || node.namespaces.has(view.namespace))
  );
}

/** Shows the choices of the URL, also of names that do not exist (any more). */
export function fillFilters(namespaces, models) {
  options($("namespace"), namespaces, view.namespace);
  options($("model"), models, view.model);
  if ($("node").value.trim() !== view.node) $("node").value = view.node;
  $("only").checked = Boolean(view.problems);
}

function options(select, values, chosen) {
  const names = [...new Set([...values, chosen])].filter(Boolean).sort();
  if (select.names !== JSON.stringify(names)) {
    select.names = JSON.stringify(names);
    select.replaceChildren(el("option", { value: "" }, "all"), ...names.map((name) => el("option", { value: name }, name)));
  }
  select.value = chosen;
}

export function listenToFilters(changed) {
  const form = $("filters");
  const take = () => {
    choose({ ...Object.fromEntries(FIELDS.map((name) => [name, $(name).value.trim()])), problems: $("only").checked ? "1" : "" });
    changed();
  };
  form.addEventListener("input", take);
  form.addEventListener("reset", () => setTimeout(take));
  form.addEventListener("submit", (event) => event.preventDefault());
}
