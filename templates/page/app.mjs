// The page: state to views, events to state.
import { BESIDE_KEYS, MODEL_KEYS, collectiveWords, connect, drawChoices, drawLegend, drawTransport } from "./controls.mjs";
import { byId, tooltip } from "./dom.mjs";
import { drawComparison } from "./figures.mjs";
import { KernelView } from "./kernel.mjs";
import { followed, readView, stepAt } from "./model.mjs";
import { Pane, followedThere, sameData } from "./pane.mjs";
import { drawPanel, markStep } from "./panel.mjs";
import { createPlayer } from "./player.mjs";
import { ProgramView } from "./program.mjs";
import { START, bestVariant, createStore, firstBeside, lastSize, stateFromHash } from "./store.mjs";
import { drawTree } from "./tree.mjs";

const FOLLOW_KEYS = ["rank", "chunk", "hover", "hoverLink", "load"];

/**
 * @typedef {import("./model.mjs").Model} Model
 * @typedef {import("./store.mjs").State} State
 */

class App {
  /** @param {any} view */
  constructor(view) {
    this.view = view;
    const { part, ...asked } = stateFromHash(window.location.hash, view);
    const size = lastSize(view, asked.collective ?? 0, asked.variant ?? 0);
    const several = new Set(view.collectives.map((/** @type {any} */ c) => c.artefact)).size > 1;
    const beside = several ? { beside: true, ...firstBeside(view, asked.collective ?? 0, asked.variant ?? 0) } : {};
    this.store = createStore({ ...START, size, ...beside, ...asked });
    this.dark = window.matchMedia("(prefers-color-scheme: dark)");
    this.tip = tooltip();
    this.markedStep = -1;
    this.panes = [this.createPane(0), this.createPane(1)];
    this.build();
    this.player = createPlayer(this.store, () => this.timeline());
    this.createViews();
    this.store.subscribe((state, changed) => this.onChange(state, changed));
    connect(this.store, this.player, () => this.total(), () => this.compare());
    this.redraw();
    if (part !== undefined && this.model) this.store.set({ time: part * this.total() });
    new ResizeObserver(() => this.fit()).observe(byId("stage"));
    new ResizeObserver(() => this.fit()).observe(byId("bar"));
    this.dark.addEventListener("change", () => this.redraw());
    document.documentElement.dataset.ready = "true";
  }

  /** The schedule that the panel explains. @returns {Model|null} */
  get model() {
    return this.panes[0].model;
  }

  /** @param {0|1} number */
  createPane(number) {
    const suffix = number ? "1" : "";
    return new Pane({ graph: byId(`graph${suffix}`), gantt: byId(`gantt${suffix}`), status: byId(`status${suffix}`) }, {
      onRank: (rank) => this.toggle("rank", rank),
      onBox: (box) => this.store.set({ box }),
      onChunk: (chunk) => this.chooseChunk(number, chunk),
      onSeek: (time) => this.player.seek(time),
      onHover: (transfer, link, lines, event) => this.hover(number, transfer, link, lines, event),
    });
  }

  createViews() {
    const events = {
      onHover: (/** @type {number|null} */ transfer) => this.hover(0, transfer, null, [], null),
      onChoose: (/** @type {number} */ transfer) => this.toggle("chunk", /** @type {Model} */ (this.model).transfers[transfer].chunk),
    };
    this.kernel = new KernelView(byId("kernel"), { ...events, onFilled: () => this.markCode(true) });
    this.program = new ProgramView(byId("program"), {
      ...events, onRank: (rank) => this.store.set({ rank }), onFilled: () => this.markCode(false),
    });
    const widen = () => document.body.classList.toggle("wide", byId("kernel").open || byId("program").open);
    for (const id of ["kernel", "program"]) byId(id).addEventListener("toggle", widen);
  }

  /** The models of what is chosen. */
  build() {
    const { collective, variant, size, beside, collective1, variant1, size1 } = this.store.get();
    this.panes[0].build(this.view, { collective, variant, size });
    if (beside) this.panes[1].build(this.view, { collective: collective1, variant: variant1, size: size1 });
    else this.panes[1].model = null;
  }

  /** @returns {number} length of the time axis, ns: of the longer schedule */
  total() {
    return Math.max(1, ...this.panes.map((pane) => pane.model?.total ?? 0));
  }

  /** What the player moves along. */
  timeline() {
    return this.model && { total: this.total(), stepStarts: this.model.stepStarts };
  }

  /** @returns {"light"|"dark"} */
  theme() {
    const chosen = this.store.get().theme;
    return chosen === "auto" ? (this.dark.matches ? "dark" : "light") : chosen;
  }

  /** Follow a rank or a chunk, or no more. @param {"rank"|"chunk"} key @param {number} value */
  toggle(key, value) {
    this.store.set({ [key]: this.store.get()[key] === value ? null : value });
  }

  /** A chunk of the second pane is followed by the data that it has in common. @param {0|1} pane @param {number} chunk */
  chooseChunk(pane, chunk) {
    const [here, there] = [this.panes[0].model, this.panes[1].model];
    if (pane === 0 || !here || !there) {
      this.toggle("chunk", chunk);
      return;
    }
    const same = sameData(there, chunk, here);
    if (same.length) this.toggle("chunk", same[0]);
  }

  /** @param {0|1} hoverPane @param {number|null} hover @param {number|null} hoverLink @param {string[]} lines @param {any} event */
  hover(hoverPane, hover, hoverLink, lines, event) {
    this.store.set({ hover, hoverLink, hoverPane });
    if (event && lines.length) this.tip.show(lines, event.clientX, event.clientY);
    else this.tip.hide();
  }

  /** Begin or end to show two schedules. */
  compare() {
    const { beside, collective, variant } = this.store.get();
    this.store.set(beside ? { beside: false } : { beside: true, ...firstBeside(this.view, collective, variant) });
  }

  /** @param {State} state @param {Set<string>} changed */
  onChange(state, changed) {
    if ([...MODEL_KEYS, ...BESIDE_KEYS].some((key) => changed.has(key))) this.choose(changed);
    else if (changed.has("theme") || changed.has("box")) this.redraw();
    else if (changed.has("proof")) {
      this.drawPanel();
      this.drawProofs();
    } else if (FOLLOW_KEYS.some((key) => changed.has(key))) {
      if (["rank", "chunk", "load"].some((key) => changed.has(key))) drawChoices(this.view, state, this.model);
      if (changed.has("rank") || changed.has("chunk")) this.drawFollowed();
      this.show();
      this.markCode(changed.has("chunk"));
    } else if (state.load === "step") this.show();
    else this.moment();
  }

  /** Another collective, variant or size: what no longer has a meaning begins anew. @param {Set<string>} changed */
  choose(changed) {
    /** @type {any} */
    const fresh = { playing: false, hover: null, hoverLink: null };
    const state = this.store.get();
    if (MODEL_KEYS.some((key) => changed.has(key))) Object.assign(fresh, { time: 0, chunk: null });
    if (changed.has("collective")) {
      Object.assign(fresh, { variant: bestVariant(this.view.collectives[state.collective]), rank: null, box: null });
    }
    if (changed.has("collective1") && !changed.has("variant1")) fresh.variant1 = bestVariant(this.view.collectives[state.collective1]);
    const { collective, variant, size, collective1, variant1, size1 } = { ...state, ...fresh };
    fresh.size = Math.min(size, this.sizes(collective, variant));
    fresh.size1 = Math.min(size1, this.sizes(collective1, variant1));
    for (const pane of this.panes) pane.model = null; // no view draws between the two states
    this.store.set(fresh);
    this.build();
    this.redraw();
  }

  /** @param {number} collective @param {number} variant @returns {number} number of the last size */
  sizes(collective, variant) {
    return Math.max((this.view.collectives[collective]?.variants[variant]?.times.length ?? 0) - 1, 0);
  }

  /** Draw again where the window, or what the choices take of it, has another size. */
  fit() {
    document.documentElement.style.setProperty("--bar", `${byId("bar").offsetHeight}px`);
    const { offsetWidth, offsetHeight } = byId("stage");
    if (this.fitted !== `${offsetWidth} ${offsetHeight}`) this.redraw();
  }

  /** Everything: after another choice, size of the window or theme. */
  redraw() {
    const state = this.store.get();
    document.documentElement.dataset.theme = this.theme();
    drawChoices(this.view, state, this.model);
    drawLegend(this.theme());
    const stage = byId("stage").classList;
    stage.toggle("empty", !this.model?.solved);
    stage.toggle("two", state.beside);
    document.body.classList.toggle("comparing", state.beside);
    this.drawPanel();
    document.documentElement.style.setProperty("--bar", `${byId("bar").offsetHeight}px`);
    this.fitted = `${byId("stage").offsetWidth} ${byId("stage").offsetHeight}`;
    if (!this.model) return;
    const ink = inks();
    this.panes.forEach((pane, i) => pane.draw(ink, this.total(), this.boxOf(i, state)));
    this.kernel.draw(this.model.variant.kernel);
    this.drawProofs();
    this.drawFollowed();
    this.show();
  }

  /** The box looked into; in the second pane only on the same machine. @param {number} pane @param {State} state @returns {number|null} */
  boxOf(pane, state) {
    return pane === 0 || this.panes[1].model?.topology === this.model?.topology ? state.box : null;
  }

  drawProofs() {
    for (const pane of this.panes) pane.drawProof(pane.model && proofOf(pane.model, this.store.get()));
  }

  drawPanel() {
    const state = this.store.get();
    const collective = this.view.collectives[state.collective];
    if (!collective) return;
    const beside = state.beside && this.model?.solved && this.panes[1].model?.solved;
    this.markedStep = -1;
    byId("compared").replaceChildren(...(beside ? [drawComparison(/** @type {Model} */ (this.model), /** @type {Model} */ (this.panes[1].model))] : []));
    drawPanel(byId("panel"), collective, this.view.topologies[collective.topology], this.model, state, {
      onVariant: (variant) => this.store.set({ variant }),
      onStep: (step) => { if (this.model) this.player.seek(this.model.stepStarts[step]); },
      onProof: (proof) => this.store.set({ proof }),
    });
  }

  /** What depends on the rank or the chunk that is followed: the chunk's tree and the rank's program. */
  drawFollowed() {
    const { model } = this;
    if (!model) return;
    const { rank, chunk } = this.store.get();
    const chosen = chunk === null ? null : followed(model, { rank, chunk });
    const tree = chunk !== null && chosen ? [drawTree(model, chunk, rank, chosen, (t) => this.hover(0, t, null, [], null))] : [];
    byId("followed").replaceChildren(...tree);
    this.program.draw(model, rank);
  }

  /** The state as a pane sees it: what is under the pointer is in one of them. @param {number} pane @returns {State} */
  stateOf(pane) {
    const state = this.store.get();
    return state.hoverPane === pane ? state : { ...state, hover: null, hoverLink: null };
  }

  /** @param {number} pane @returns {Set<number>|null} transfers that are followed there */
  chosenIn(pane) {
    const { model } = this.panes[pane];
    if (!model || !this.model) return null;
    const state = this.store.get();
    return pane === 0 ? followed(model, state) : followedThere(this.model, model, state);
  }

  /** What is followed or under the pointer, and the loads. */
  show() {
    this.chosen = this.panes.map((_, i) => this.chosenIn(i));
    this.panes.forEach((pane, i) => pane.show(this.stateOf(i), this.theme(), /** @type {any} */ (this.chosen)[i]));
    this.moment();
  }

  /** What changes with the time. */
  moment() {
    if (!this.model) return;
    const state = this.store.get();
    const step = stepAt(this.model, state.time);
    this.panes.forEach((pane, i) =>
      pane.moment(this.stateOf(i), this.chosen?.[i] ?? null, state.beside && pane.model ? titleOf(pane.model) : ""));
    this.program.mark(state.time, this.markedTransfers());
    drawTransport(this.total(), state, step);
    if (step === this.markedStep) return;
    this.markedStep = step;
    markStep(byId("panel"), step);
  }

  /** Transfers of the first pane under the pointer, else of the chunk that is followed. @returns {Set<number>|null} */
  markedTransfers() {
    const { hover, chunk } = this.stateOf(0);
    if (hover !== null) return new Set([hover]);
    return chunk === null ? null : this.chosen?.[0] ?? null;
  }

  /** Lines of what the pointer is on, else of what is followed. @param {boolean} scroll */
  markCode(scroll) {
    if (this.model) this.kernel.mark([...(this.markedTransfers() ?? [])], scroll);
  }
}

/** What a pane shows, in a few words. @param {Model} model */
function titleOf(model) {
  return `${collectiveWords(model.collective)} ${model.variant.id ?? ""}`;
}

/** @param {Model} model @param {State} state */
function proofOf(model, state) {
  if (state.proof === "none") return null;
  return state.proof === "steps" ? model.collective.bound.latency_proof : model.collective.bound.proof;
}

/** The canvas's colours, from the style sheet. */
function inks() {
  const style = getComputedStyle(document.documentElement);
  const ink = (/** @type {string} */ name) => style.getPropertyValue(`--${name}`).trim();
  return { background: ink("surface"), text: ink("text"), faint: ink("muted"), line: ink("line"), accent: ink("accent"), band: ink("band") };
}

new App(readView(byId("view").textContent));
