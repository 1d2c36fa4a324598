// Numbers, amounts and times as the page writes them. Unknown values are null, and never 0.

const GIB = 2 ** 30, MIB = 2 ** 20, HOUR_S = 3600;

export const whole = (number) => number.toLocaleString("en-US");

export function bytes(amount) {
  if (amount === null || amount === undefined) return "no data";
  if (amount > 0 && amount < GIB) return `${Math.round(amount / MIB)} MiB`;
  return `${(amount / GIB).toLocaleString("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 })} GiB`;
}

export const units = (amount, unit) => `${whole(amount)} ${unit || (amount === 1 ? "unit" : "units")}`;
export const ratio = (number) => (number === null || number === undefined ? "no data" : `${Math.round(100 * number)} %`);
export const plural = (count, noun) => `${whole(count)} ${noun}${count === 1 ? "" : "s"}`;
export const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
export const sum = (numbers) => numbers.reduce((one, other) => one + other, 0);
export const known = (numbers) => numbers.filter((each) => each !== null && each !== undefined);

/** A limit in bytes, the words for a container without one, or that it is not known. */
export function limit(amount, isReported) {
  if (amount !== null && amount !== undefined) return bytes(amount);
  return isReported ? "no limit" : "no data";
}

export function clock(seconds, withSeconds = false) {
  const at = new Date(1000 * seconds), two = (number) => String(number).padStart(2, "0");
  const day = at.toDateString() === new Date().toDateString() ? "" : `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} `;
  return `${day}${two(at.getHours())}:${two(at.getMinutes())}${withSeconds ? `:${two(at.getSeconds())}` : ""}`;
}

export function span(seconds) {
  if (seconds < 60) return `${Math.max(0, Math.floor(seconds))} s`;
  if (seconds < HOUR_S) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 10 * HOUR_S) return `${Math.floor(seconds / HOUR_S)} h ${Math.floor((seconds % HOUR_S) / 60)} min`;
  if (seconds < 48 * HOUR_S) return `${Math.floor(seconds / HOUR_S)} h`;
  return `${Math.floor(seconds / (24 * HOUR_S))} d`;
}

export const age = (created) => (Date.parse(created) ? span((Date.now() - Date.parse(created)) / 1000) : "unknown");

/** Shortens names for small places: what all of them begin and end with tells none apart. */
export function distinct(names, length) {
  if (names.length < 2 || names.every((name) => name.length <= length)) return (name) => name;
  const start = common(names).match(/^.*[-.]/)?.[0].length || 0;
  const end = common(names.map(reversed)).match(/^.*[-.]/)?.[0].length || 0;
  return (name) => name.slice(start, name.length - end) || name;
}

const reversed = (text) => [...text].reverse().join("");

function common(texts) {
  const [first, last] = [texts.reduce((one, other) => (one < other ? one : other)), texts.reduce((one, other) => (one > other ? one : other))];
  let length = 0;
  while (length < first.length && first[length] === last[length]) length += 1;
  return first.slice(0, length);
}
