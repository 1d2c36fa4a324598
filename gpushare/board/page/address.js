// What the reader has chosen, in the fragment of the URL: who opens the same URL sees the same view.

const NAMES = ["node", "namespace", "model", "problems", "layout", "open", "range", "hours"];
const SORT = "sort.";

/** Texts by name, empty if not chosen; `sorts` are columns by table, with "-" for the largest first. */
export const view = { ...Object.fromEntries(NAMES.map((name) => [name, ""])), sorts: {} };

export function read() {
  const chosen = new URLSearchParams(location.hash.slice(1));
  for (const name of NAMES) view[name] = chosen.get(name) || "";
  view.sorts = {};
  for (const [name, value] of chosen) if (name.startsWith(SORT)) view.sorts[name.slice(SORT.length)] = value;
}

/** Takes the changes over. `isStep` makes them a step to which the browser's back button returns. */
export function choose(changes, isStep = false) {
  Object.assign(view, changes);
  const chosen = new URLSearchParams();
  for (const name of NAMES) if (view[name]) chosen.set(name, view[name]);
  for (const [table, column] of Object.entries(view.sorts)) if (column) chosen.set(SORT + table, column);
  const hash = chosen.toString();
  history[isStep ? "pushState" : "replaceState"](null, "", hash ? `#${hash}` : location.pathname);
}
