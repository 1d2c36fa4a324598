// The first lines of the page: the state of the control plane and of the GPUs, a sentence and a command each.

import { $, el, folded, keep } from "./elements.js";

const WORDS = { failed: "Failed", warning: "Warning", unknown: "Unknown", ok: "Good" };

export function health(statements) {
  $("health-section").hidden = !statements.length;
  keep($("health"), statements, (each) => each.text, line);
}

function line({ level, text, command, details }) {
  return el("li", { className: level },
    el("div", { className: "said" }, el("span", { className: "hidden" }, `${WORDS[level]}: `), text, details.length > 0 && folded("Details", details)),
    command && el("code", {}, command));
}
