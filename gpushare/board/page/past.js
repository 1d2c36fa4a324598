// Answers about earlier days, from Prometheus: /ranges, /history and /tenants. The board keeps each for a minute.

const KEPT_MS = 60_000;
const SILENT = "The board does not answer.";
const answers = new Map();

/**
 * The last answer: its `found` document, or null with the `text` that says why. Asks if there is none, or an old one, and
 * calls `redraw` when another has come and when that is old. A board that has ended leaves the last document.
 */
export function past(path, redraw) {
  const answer = answers.get(path) || { found: null, text: "Loading …", at: 0, isAsked: false };
  answers.set(path, answer);
  if (!answer.isAsked && Date.now() - answer.at >= KEPT_MS) {
    answer.isAsked = true;
    ask(path, answer).then((given) => {
      answers.set(path, { ...given, at: Date.now(), isAsked: false });
      setTimeout(redraw, KEPT_MS);
      redraw();
    });
  }
  return answer;
}

async function ask(path, before) {
  try {
    const response = await fetch(path, { cache: "no-store" });
    return response.ok ? { found: await response.json(), text: "" } : { found: null, text: (await response.text()).trim() };
  } catch {
    return { found: before.found, text: SILENT };
  }
}

/** The ranges that the board can answer for; none before it is known, and `note` says why it has none. */
export function ranges(redraw) {
  return past("/ranges", redraw).found || { items: [], note: "" };
}

/** A range in words: the last "6 h". */
export const rangeText = (name) => name.replace(/(?=[a-z])/, " ");
