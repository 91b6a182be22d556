// The panel in words: asked, bound and proof, achieved, limits, variants, excluded points, steps.
import { html } from "./dom.mjs";
import { drawTimes } from "./figures.mjs";
import { percent, plural, sentence, significant } from "./format.mjs";
import { linkName } from "./model.mjs";

/**
 * @typedef {import("./model.mjs").Model} Model
 * @typedef {import("./store.mjs").State} State
 * @typedef {{onVariant: (variant: number) => void, onStep: (step: number) => void,
 *   onProof: (proof: "none"|"throughput"|"steps") => void}} PanelEvents
 */

const STATUS = {
  optimal: "optimal", feasible: "feasible", fallback: "fallback", infeasible: "infeasible", unknown: "unknown",
};

const SAID = ["cut", "partition"]; // the bound's own words say what these drawings show

/** Rows of the step table. Pure. @param {Model} model @returns {any[]} */
export function stepRows(model) {
  return model.variant.step.map((/** @type {any} */ step, /** @type {number} */ i) => {
    const most = Math.max(0, ...step.load);
    const mean = step.load.reduce((/** @type {number} */ a, /** @type {number} */ b) => a + b, 0) / model.topology.links.length;
    const fullest = step.load.filter((/** @type {number} */ l) => l >= most - 1e-9).length;
    return {
      number: i + 1, rounds: step.rounds, transfers: step.transfers, links: step.links.length, most, mean, fullest,
      share: step.share, busiest: step.links[step.load.indexOf(most)],
    };
  });
}

/**
 * @param {HTMLElement} root @param {any} collective @param {any} topology @param {Model|null} model
 * @param {State} state @param {PanelEvents} events
 */
export function drawPanel(root, collective, topology, model, state, events) {
  const parts = [
    heading(collective, topology),
    html("p", { class: "asked" }, collective.asked),
    model?.solved && figures(collective, model),
    model?.solved && timesSection(model),
    model?.solved && section("What limits it", html("p", {}, sentence(model.variant.limit))),
    section("Bound", ...boundWords(collective, state, events)),
    variantTable(collective, state, events),
    model?.solved && section("Steps", stepTable(model, events)),
    excludedTable(collective),
    collective.notes.length > 0 && section("Notes", ...collective.notes.map((/** @type {string} */ n) => html("p", {}, n))),
    machine(topology),
  ];
  root.replaceChildren(.../** @type {Node[]} */ (parts.filter(Boolean)));
}

/** @param {string} title @param {...(Node|false)} children @returns {HTMLElement} */
function section(title, ...children) {
  return html("section", {}, html("h3", {}, title), ...children);
}

/** @param {any} collective @param {any} topology @returns {HTMLElement} */
function heading(collective, topology) {
  const status = /** @type {any} */ (STATUS)[collective.status] ?? collective.status;
  const kind = collective.name === collective.collective ? "" : ` (${collective.collective})`;
  return html("header", {},
    html("h2", {}, `${collective.name}${kind} on ${topology.name}`),
    html("span", { class: `badge ${status}`, title: collective.status_words }, status));
}

/** The three figures that matter, each beside its bound. @param {any} collective @param {Model} model */
function figures(collective, model) {
  const { variant } = model;
  const { bound } = collective;
  /** @param {string} name @param {string} value @param {string} unit @param {string} beside @param {boolean} met */
  const tile = (name, value, unit, beside, met) => html("div", { class: `tile${met ? " met" : ""}` },
    html("dt", {}, name),
    html("dd", {}, value, html("small", {}, ` ${unit}`)),
    html("dd", { class: "beside" }, beside));
  const met = variant.gap !== null && variant.gap <= 0;
  return html("section", {},
    html("dl", { class: "tiles" },
      tile("Throughput", significant(variant.algbw_GBps), "GB/s", `bound ${significant(bound.algbw_GBps)}`, met),
      variant.rounds_per_chunk && tile("Rounds / chunk", variant.rounds_per_chunk, "", `bound ${bound.rounds_per_chunk ?? "–"}`, met),
      tile("Steps", String(variant.steps), "", `bound ${bound.steps}`, variant.steps <= bound.steps)),
    html("p", {}, variant.gap_words,
      variant.optimal.length > 0 && ` Proven optimal: ${variant.optimal.join(", ")}.`,
      ` Solver: ${variant.strategy}${variant.solve_seconds === null ? "" : `, ${significant(variant.solve_seconds)} s`}.`));
}

/** @param {Model} model */
function timesSection(model) {
  const times = drawTimes(model);
  return times && section(`Time at ${model.times.size}`, times);
}

/** @param {any} collective @param {State} state @param {PanelEvents} events @returns {HTMLElement[]} */
function boundWords(collective, state, events) {
  const { bound } = collective;
  /** @param {"throughput"|"steps"} which @param {any} proof @param {string} words */
  const entry = (which, proof, words) => html("div", { class: "bound" },
    html("p", {}, sentence(words)),
    proof && !SAID.includes(proof.kind) && html("p", { class: "caption" }, proof.caption),
    proof && (proof.sets.length > 0 || proof.links.length > 0) && html("button", {
      type: "button", class: "toggle", "data-proof": which, "aria-pressed": String(state.proof === which),
      onclick: () => events.onProof(state.proof === which ? "none" : which),
    }, state.proof === which ? "Shown on the graph" : "Show on the graph"));
  return [
    entry("throughput", bound.proof, bound.words),
    entry("steps", bound.latency_proof, bound.latency_words),
  ];
}

/**
 * @param {string[]} names of the columns @param {(string|Node)[][]} rows
 * @param {((row: number) => Record<string, any>)|null} [attributes] of each row
 */
function table(names, rows, attributes = null) {
  return html("div", { class: "scroll" }, html("table", {},
    html("thead", {}, html("tr", {}, ...names.map((n) => html("th", { scope: "col" }, n)))),
    html("tbody", {}, ...rows.map((row, i) =>
      html("tr", attributes ? attributes(i) : {}, ...row.map((cell) => html("td", {}, cell)))))));
}

/** @param {any} collective @param {State} state @param {PanelEvents} events */
function variantTable(collective, state, events) {
  const { variants } = collective;
  if (!variants.length) return section("Variants", html("p", {}, collective.status_words));
  const rows = variants.map((/** @type {any} */ v, /** @type {number} */ i) => [
    html("button", { type: "button", class: "link", onclick: () => events.onVariant(i) }, v.id),
    String(v.chunks_per_shard), String(v.steps), v.rounds ? String(v.rounds) : "–", significant(v.algbw_GBps),
    v.gap === null ? "–" : v.gap <= 0 ? "0" : `+${percent(v.gap)}`, v.sizes,
  ]);
  return section("Variants",
    table(["Id", "C", "S", "R", "GB/s", "Gap", "Sizes"], rows, (i) => (i === state.variant ? { class: "current" } : {})),
    html("p", { class: "caption" }, "C chunks a shard, S steps, R rounds. ", collective.status_words));
}

/** @param {Model} model @param {PanelEvents} events */
function stepTable(model, events) {
  const rows = stepRows(model).map((row) => [
    html("button", { type: "button", class: "link", onclick: () => events.onStep(row.number - 1) }, String(row.number)),
    row.rounds ? String(row.rounds) : "–", String(row.transfers), `${row.links}/${model.topology.links.length}`, percent(row.mean),
    fullestWords(model, row),
  ]);
  return table(["Step", "Rounds", "Transfers", "Links", "Load", "Fullest"], rows, (i) => ({ "data-step": i }));
}

/** @param {Model} model @param {any} row of the step table @returns {string} */
function fullestWords(model, row) {
  if (row.busiest === undefined) return "–";
  const who = row.fullest > 1 ? plural(row.fullest, "link") : linkName(model, row.busiest);
  return row.most > 0.9999 ? `${who}, full` : `${who}, ${percent(row.most)}`;
}

/** @param {any} collective */
function excludedTable(collective) {
  if (!collective.excluded.length) return null;
  const rows = collective.excluded.map((/** @type {any} */ e) => [String(e.chunks), String(e.steps), `≤ ${e.rounds}`, e.reason]);
  return section("Excluded points",
    html("p", { class: "caption" }, "No schedule exists with these numbers of chunks, steps and rounds."),
    table(["C", "S", "R", "Why"], rows));
}

/** @param {any} topology */
function machine(topology) {
  const switches = topology.nodes.filter((/** @type {any} */ n) => n.kind === "switch").length;
  const facts = [plural(topology.ranks, "rank"), ...(switches ? [switches === 1 ? "1 switch" : `${switches} switches`] : []),
    plural(topology.links.length, "link direction")];
  const rows = topology.classes.map((/** @type {any} */ c) => [c.name, significant(c.bandwidth_GBps), significant(c.latency_us),
    c.nominal_GBps === null ? "–" : significant(c.nominal_GBps)]);
  const budgets = topology.budgets.map((/** @type {any} */ b) =>
    html("p", { class: "caption" }, `${plural(b.links.length, "link direction")} share ${significant(b.capacity_GBps)} GB/s: ${b.name}.`));
  return section("Machine",
    html("p", {}, `${topology.name}: ${facts.join(", ")}.`),
    topology.doc && html("p", { class: "caption" }, topology.doc),
    table(["Class", "GB/s", "µs", "Nominal GB/s"], rows), ...budgets);
}

/** Mark the row of the step that plays. @param {HTMLElement} root @param {number} step */
export function markStep(root, step) {
  for (const row of root.querySelectorAll("tr[data-step]")) {
    row.classList.toggle("current", Number(row.getAttribute("data-step")) === step);
  }
}
