// Figures to compare: one schedule with the bound, ring and tree at its size; and two schedules with each other.
import { html } from "./dom.mjs";
import { formatTime, percent, significant } from "./format.mjs";

/**
 * @typedef {import("./model.mjs").Model} Model
 * @typedef {{name: string, ns: number, kind: "bound"|"here"|"measured"|"other"}} TimeRow
 */

/**
 * Times at the size that is shown: the bound, this schedule (simulated, and measured where it was), and other shapes.
 * Pure.
 * @param {Model} model @returns {TimeRow[]} none where there is nothing to compare with
 */
export function timeRows(model) {
  const { collective, variant, times } = model;
  const known = collective.headroom.find((/** @type {any} */ h) => h.shard_bytes === times.shard_bytes);
  const here = variant.times.filter((/** @type {any} */ t) => t.shard_bytes === times.shard_bytes && t.total_ns > 0);
  /** @type {TimeRow[]} */
  const rows = here.map((/** @type {any} */ t) => ({
    name: t.measured ? `${variant.id}, measured` : variant.id, ns: t.total_ns, kind: t.measured ? "measured" : "here",
  }));
  if (known) {
    rows.unshift({ name: "bound", ns: known.bound_ns, kind: "bound" });
    known.names.forEach((/** @type {string} */ name, /** @type {number} */ i) => rows.push({ name, ns: known.ns[i], kind: "other" }));
  }
  return rows.length > 1 ? rows : [];
}

/** Those times as bars. @param {Model} model @returns {HTMLElement|null} */
export function drawTimes(model) {
  const rows = timeRows(model);
  if (!rows.length) return null;
  const most = rows.reduce((a, r) => Math.max(a, r.ns), 0);
  const here = rows.find((r) => r.kind === "here")?.ns ?? 0;
  const beside = (/** @type {TimeRow} */ row) => (row.kind === "other" && here > 0 ? `${significant(row.ns / here)}×` : "");
  return html("div", { class: "times", role: "table", "aria-label": `times at ${model.times.size}` }, ...rows.map((row) =>
    html("div", { class: `time ${row.kind}`, role: "row" },
      html("span", { role: "rowheader", class: "name" }, row.name),
      html("span", { class: "track", "aria-hidden": "true" }, bar(row.ns / most)),
      html("span", { role: "cell", class: "ns" }, formatTime(row.ns)),
      html("span", { role: "cell", class: "factor" }, beside(row)))));
}

/** @param {number} part @returns {HTMLElement} */
function bar(part) {
  const element = html("span", { class: "fill" });
  element.style.width = `${Math.max(part * 100, 0.5)}%`;
  return element;
}

/**
 * What two schedules have in common to compare, as words. Pure.
 * @param {Model} a @param {Model} b @returns {[string, string, string][]} name, first, second
 */
export function comparisonRows(a, b) {
  /** @param {string} name @param {(m: Model) => string} value @returns {[string, string, string]} */
  const row = (name, value) => [name, value(a), value(b)];
  const used = (/** @type {Model} */ m) => m.variant.utilisation.filter((/** @type {number} */ u) => u > 0).length;
  return [
    row("Machine", (m) => m.topology.name),
    row("Collective", (m) => m.collective.name),
    row("Variant", (m) => m.variant.id),
    row(a.times.size === b.times.size ? `Time at ${a.times.size}` : "Time", (m) =>
      formatTime(m.times.total_ns) + (m.times.measured ? ", measured" : "") + (a.times.size === b.times.size ? "" : ` at ${m.times.size}`)),
    row("GB/s then", (m) => significant(m.times.algbw_GBps)),
    row("Most GB/s", (m) => significant(m.variant.algbw_GBps)),
    row("Bound, GB/s", (m) => significant(m.collective.bound.algbw_GBps)),
    row("Gap", (m) => (m.variant.gap === null ? "–" : m.variant.gap <= 0 ? "0" : `+${percent(m.variant.gap)}`)),
    row("Steps", (m) => String(m.variant.steps)),
    row("Transfers", (m) => String(m.transfers.length)),
    row("Links used", (m) => `${used(m)} of ${m.topology.links.length}`),
  ];
}

/** @param {Model} a @param {Model} b @returns {HTMLElement} */
export function drawComparison(a, b) {
  const faster = a.times.shard_bytes === b.times.shard_bytes && a.total !== b.total
    ? `${a.total < b.total ? "The left one" : "The right one"} is ${significant(Math.max(a.total, b.total) / Math.min(a.total, b.total))} times as fast.`
    : "";
  return html("section", { id: "comparison" },
    html("h3", {}, "Side by side"),
    html("table", {},
      html("thead", {}, html("tr", {}, html("th", {}), html("th", { scope: "col" }, "left"), html("th", { scope: "col" }, "right"))),
      html("tbody", {}, ...comparisonRows(a, b).map(([name, left, right]) =>
        html("tr", { class: left === right ? "same" : null }, html("th", { scope: "row" }, name), html("td", {}, left), html("td", {}, right))))),
    faster ? html("p", { class: "caption" }, faster) : null);
}
