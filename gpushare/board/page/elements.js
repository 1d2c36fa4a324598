// Elements of the page. Names and annotations of the cluster are hostile input: they reach the page only as text
// (textContent, title), never as markup; the policy of the server forbids anything else.

export const $ = (id) => document.getElementById(id);

/** An element: `properties` are DOM properties, children are nodes or texts; null and false are left out. */
export function el(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children.flat().filter((each) => each !== null && each !== false && each !== undefined));
  return made;
}

export function svg(tag, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

export const cut = (text) => el("span", { className: "cut", title: text }, text);

/** A drawing with a description for a screen reader. */
export function drawing(element, text) {
  element.setAttribute("role", "img");
  element.setAttribute("aria-label", text);
  return element;
}

/** A folded list; each line is a text or a list of nodes. */
export function folded(title, lines) {
  return el("details", {}, el("summary", {}, title), el("ul", {}, lines.map((parts) => el("li", {}, parts))));
}

/** Text that a reader sees only after a change. */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** The children, one for each item; those whose item has not changed stay, with focus and selection. */
export function keep(parent, items, keyOf, make, fixed = 0) {
  const before = parent.kept || new Map(), kept = new Map();
  items.forEach((item, index) => {
    const key = keyOf(item), text = JSON.stringify(item);
    let entry = before.get(key);
    if (!entry || entry.text !== text) {
      const element = make(item);
      if (entry) entry.element.replaceWith(element);
      entry = { text, element };
    }
    const place = parent.children[index + fixed] || null;
    if (place !== entry.element) parent.insertBefore(entry.element, place);
    kept.set(key, entry);
  });
  while (parent.children.length > items.length + fixed) parent.lastElementChild.remove();
  parent.kept = kept;
}
