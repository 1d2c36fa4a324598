// Buttons of which one is pressed: the times that a reader can choose.

import { $, el, keep } from "./elements.js";

/** In the element `id`, hidden with nothing to choose from; `chosen` is the pressed one. */
export function rangeButtons(id, names, chosen, textOf, choose) {
  const group = $(id);
  group.hidden = names.length < 2;
  keep(group, names, (name) => name, (name) => el("button", { type: "button", onclick: () => choose(name) }, textOf(name)));
  names.forEach((name, index) => group.children[index].setAttribute("aria-pressed", String(name === chosen)));
}
