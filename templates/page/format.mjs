// Numbers and sizes as people read them. Pure functions.

/** @param {number} ns @returns {string} a time with three significant digits: "850 ns", "12.4 µs" */
export function formatTime(ns) {
  for (const [unit, size] of [["ns", 1], ["µs", 1e3], ["ms", 1e6]]) {
    if (ns < 1000 * Number(size) || unit === "ms") return `${significant(ns / Number(size))} ${unit}`;
  }
  return "";
}

/** @param {number} value @returns {string} three significant digits, without exponent or trailing zeros */
export function significant(value) {
  if (value === 0) return "0";
  if (Math.abs(value) >= 1000) return String(Math.round(value));
  return String(Number(value.toPrecision(3)));
}

/** @param {string} text a fraction such as "7/6" or "2" @returns {number} */
export function fractionValue(text) {
  const [top, bottom = "1"] = text.split("/");
  return Number(top) / Number(bottom);
}

/** @param {number} part of 1 @returns {string} */
export function percent(part) {
  return `${significant(part * 100)} %`;
}

/** @param {number} count @param {string} noun @returns {string} */
export function plural(count, noun) {
  return count === 1 ? `1 ${noun}` : `${count} ${noun}s`;
}

/**
 * Round distances for the ticks of an axis.
 * @param {number} total length of the axis @param {number} most ticks wanted at most
 * @returns {number} 1, 2 or 5 times a power of ten
 */
export function tickDistance(total, most) {
  const raw = Math.max(total / Math.max(most, 1), 1e-9);
  const power = 10 ** Math.floor(Math.log10(raw));
  for (const factor of [1, 2, 5, 10]) if (factor * power >= raw * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

/** @param {string} words @returns {string} with a capital and a full stop; a name such as g[0] keeps its letter */
export function sentence(words) {
  const start = /^[a-z]+(?=[\s:,])/.test(words) ? words[0].toUpperCase() + words.slice(1) : words;
  return /[.!?]$/.test(start) ? start : `${start}.`;
}
