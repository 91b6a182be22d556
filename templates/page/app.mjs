// The page: state to views, events to state.
import { MODEL_KEYS, connect, drawChoices, drawLegend, drawTransport } from "./controls.mjs";
import { byId, tooltip } from "./dom.mjs";
import { formatTime, percent, plural, significant } from "./format.mjs";
import { GanttView } from "./gantt.mjs";
import { GraphView } from "./graph.mjs";
import { KernelView } from "./kernel.mjs";
import { activeTransfers, buildModel, chunkName, followed, linkLoads, linkName, operandWords, readView, stepAt } from "./model.mjs";
import { drawPanel, markStep } from "./panel.mjs";
import { createPlayer } from "./player.mjs";
import { START, createStore, stateFromHash } from "./store.mjs";

const FOLLOW_KEYS = ["rank", "chunk", "hover", "hoverLink", "load"];

/** @typedef {import("./model.mjs").Model} Model */

class App {
  /** @param {any} view */
  constructor(view) {
    this.view = view;
    const { part, ...asked } = stateFromHash(window.location.hash, view);
    const size = lastSize(view, asked.collective ?? 0, asked.variant ?? 0); // the largest, where throughput shows
    this.store = createStore({ ...START, size, ...asked });
    this.dark = window.matchMedia("(prefers-color-scheme: dark)");
    this.tip = tooltip();
    this.announced = "";
    this.build();
    this.player = createPlayer(this.store, () => this.model);
    this.createViews();
    this.store.subscribe((state, changed) => this.onChange(state, changed));
    connect(this.store, this.player, () => this.model);
    this.redraw();
    if (part !== undefined && this.model) this.store.set({ time: part * this.model.total });
    new ResizeObserver(() => this.redraw()).observe(byId("stage"));
    new ResizeObserver(() => {
      document.documentElement.style.setProperty("--bar", `${byId("bar").offsetHeight}px`);
    }).observe(byId("bar"));
    this.dark.addEventListener("change", () => this.redraw());
  }

  createViews() {
    this.graph = new GraphView(byId("graph"), {
      onNode: (rank) => this.toggle("rank", rank),
      onChunk: (chunk) => this.toggle("chunk", chunk),
      onHover: (transfer, link, lines, event) => this.hover(transfer, link, lines, event),
    });
    this.gantt = new GanttView(byId("gantt"), {
      onSeek: (time) => this.player.seek(time),
      onChunk: (chunk) => this.toggle("chunk", chunk),
      onHover: (transfer, link, event) => this.hover(transfer, link, link === null ? [] : this.linkLines(link), event),
    });
    this.kernel = new KernelView(byId("kernel"), {
      onHover: (transfer) => this.store.set({ hover: transfer }),
      onChoose: (transfer) => this.toggle("chunk", /** @type {Model} */ (this.model).transfers[transfer].chunk),
      onFilled: () => this.markKernel(true),
    });
  }

  /** The model of what is chosen. */
  build() {
    const { collective, variant, size } = this.store.get();
    /** @type {Model|null} */
    this.model = buildModel(this.view, collective, variant, size);
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

  /** @param {number|null} hover @param {number|null} hoverLink @param {string[]} lines @param {PointerEvent|null} event */
  hover(hover, hoverLink, lines, event) {
    this.store.set({ hover, hoverLink });
    const text = hover === null ? lines : this.transferLines(hover);
    if (event && text.length) this.tip.show(text, event.clientX, event.clientY);
    else this.tip.hide();
  }

  /** @param {number} link @returns {string[]} */
  linkLines(link) {
    const model = /** @type {Model} */ (this.model);
    return [linkName(model, link), `busy ${percent(model.variant.utilisation[link])} of the time`];
  }

  /** @param {number} id @returns {string[]} */
  transferLines(id) {
    const model = /** @type {Model} */ (this.model);
    const t = model.transfers[id];
    const { nodes } = model.topology;
    return [`${nodes[t.src].name} → ${nodes[t.dst].name}, step ${t.step + 1}`, `chunk ${chunkName(model, t.chunk)}`,
      operandWords(model, id), `${formatTime(t.start)} to ${formatTime(t.arrived)}`];
  }

  /** @param {import("./store.mjs").State} state @param {Set<string>} changed */
  onChange(state, changed) {
    if (MODEL_KEYS.some((key) => changed.has(key))) this.choose(changed);
    else if (changed.has("theme")) this.redraw();
    else if (changed.has("proof")) {
      this.drawPanel();
      if (this.model) this.graph.drawProof(proofOf(this.model, state));
    } else if (FOLLOW_KEYS.some((key) => changed.has(key))) {
      if (!changed.has("hover") && !changed.has("hoverLink")) drawChoices(this.view, state, this.model);
      this.markKernel(changed.has("chunk"));
      this.show();
    } else if (state.load === "step") this.show();
    else this.moment();
  }

  /** Another collective, variant or size: what no longer has a meaning begins anew. @param {Set<string>} changed */
  choose(changed) {
    /** @type {any} */
    const fresh = { time: 0, playing: false, hover: null, hoverLink: null, chunk: null };
    if (changed.has("collective")) Object.assign(fresh, { variant: 0, rank: null });
    const { collective, variant, size } = { ...this.store.get(), ...fresh };
    fresh.size = Math.min(size, lastSize(this.view, collective, variant));
    this.model = null; // no view draws between the two states
    this.store.set(fresh);
    this.build();
    this.redraw();
  }

  /** Everything: after another choice, size of the window or theme. */
  redraw() {
    const state = this.store.get();
    document.documentElement.dataset.theme = this.theme();
    drawChoices(this.view, state, this.model);
    drawLegend(this.theme());
    byId("stage").classList.toggle("empty", !this.model?.solved);
    this.drawPanel();
    if (!this.model) return;
    this.graph.draw(this.model);
    this.gantt.draw(this.model, inks());
    this.kernel.draw(this.model.variant.kernel);
    this.graph.drawProof(proofOf(this.model, state));
    this.show();
  }

  drawPanel() {
    const state = this.store.get();
    const collective = this.view.collectives[state.collective];
    if (!collective) return;
    drawPanel(byId("panel"), collective, this.view.topologies[collective.topology], this.model, state, {
      onVariant: (variant) => this.store.set({ variant }),
      onStep: (step) => { if (this.model) this.player.seek(this.model.stepStarts[step]); },
      onProof: (proof) => this.store.set({ proof }),
    });
  }

  /** What is followed or under the pointer, and the loads. */
  show() {
    if (!this.model) return;
    const state = this.store.get();
    const step = state.load === "step" ? stepAt(this.model, state.time) : null;
    const chosen = followed(this.model, state);
    this.graph.colourLinks(linkLoads(this.model, step), this.theme(), shownLinks(this.model, state, chosen));
    this.graph.markNode(state.rank);
    this.moment();
  }

  /** What changes with the time. */
  moment() {
    if (!this.model) return;
    const state = this.store.get();
    const chosen = followed(this.model, state);
    const step = stepAt(this.model, state.time);
    this.graph.moment(state.time, chosen, state.hover);
    this.gantt.moment({ now: state.time, chosen, hover: state.hover, hoverLink: state.hoverLink });
    drawTransport(this.model, state, step);
    markStep(byId("panel"), step);
    const status = statusWords(this.model, state, step);
    if (status !== this.announced) byId("status").textContent = this.announced = status;
  }

  /** Lines of what the pointer is on, else of what is followed. @param {boolean} scroll */
  markKernel(scroll) {
    if (!this.model) return;
    const { hover, chunk } = this.store.get();
    const chosen = chunk === null ? null : followed(this.model, this.store.get());
    this.kernel.mark(hover !== null ? [hover] : [...(chosen ?? [])], scroll);
  }
}

/** @param {any} view @param {number} collective @param {number} variant @returns {number} the last size's number */
function lastSize(view, collective, variant) {
  return Math.max((view.collectives[collective]?.variants[variant]?.times.length ?? 0) - 1, 0);
}

/** What is said below the graph, and read aloud. @param {any} model @param {any} state @param {number} step */
function statusWords(model, state, step) {
  if (!model.solved) return "There is no schedule to show.";
  if (!model.transfers.length) return "Nothing moves.";
  if (state.time >= model.total) {
    return `Done: ${model.times.size} in ${formatTime(model.times.total_ns)}, ${significant(model.times.algbw_GBps)} GB/s ${model.times.measured ? "measured" : "simulated"}`;
  }
  const chosen = followed(model, state);
  const active = activeTransfers(model.transfers, state.time).filter((t) => !chosen || chosen.has(t.id));
  const what = chosen ? `, following ${plural(chosen.size, "transfer")}` : "";
  return `Step ${step + 1} of ${model.stepStarts.length}: ${plural(active.length, "chunk")} on the way${what}`;
}

/** Links that stand out: under the pointer, else of what is followed. @param {any} model @param {any} state @param {Set<number>|null} chosen */
function shownLinks(model, state, chosen) {
  if (state.hover !== null) return new Set(model.transfers[state.hover].path);
  if (state.hoverLink !== null) return new Set([state.hoverLink]);
  if (!chosen) return null;
  return new Set([...chosen].flatMap((id) => model.transfers[id].path));
}

/** @param {any} model @param {any} state */
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
