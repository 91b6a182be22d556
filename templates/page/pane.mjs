// One schedule as graph and Gantt. The page has one pane, or two side by side that share the time.
import { formatTime, percent, plural, significant } from "./format.mjs";
import { GanttView } from "./gantt.mjs";
import { GraphView } from "./graph.mjs";
import { activeTransfers, buildModel, chunkName, followed, linkLoads, linkName, operandWords, stepAt } from "./model.mjs";
import { buildScene, isDrawn } from "./scene.mjs";

/**
 * @typedef {import("./model.mjs").Model} Model
 * @typedef {import("./store.mjs").State} State
 * @typedef {{collective: number, variant: number, size: number}} Choice
 * @typedef {{graph: any, gantt: any, status: any}} Elements
 * @typedef {{onRank: (rank: number) => void, onBox: (box: number) => void, onChunk: (chunk: number) => void,
 *   onSeek: (time: number) => void,
 *   onHover: (transfer: number|null, link: number|null, lines: string[], event: any) => void}} PaneEvents
 */

export class Pane {
  /** @param {Elements} elements @param {PaneEvents} events */
  constructor(elements, events) {
    this.elements = elements;
    /** @type {Model|null} */
    this.model = null;
    /** @type {any} */
    this.scene = null;
    this.announced = "";
    const hover = (/** @type {number|null} */ transfer, /** @type {number|null} */ link, /** @type {string[]} */ lines, /** @type {any} */ event) =>
      events.onHover(transfer, link, transfer === null || !this.model ? lines : transferLines(this.model, transfer), event);
    this.graph = new GraphView(elements.graph, {
      onNode: events.onRank, onBox: events.onBox, onChunk: events.onChunk, onHover: hover,
      onLink: (link) => this.gantt.revealLink(link),
    });
    this.gantt = new GanttView(elements.gantt, {
      onSeek: events.onSeek,
      onChunk: events.onChunk,
      onHover: (transfer, link, event) => hover(transfer, link, link === null || !this.model ? [] : linkLines(this.model, link), event),
    });
  }

  /** @param {any} view @param {Choice} choice */
  build(view, choice) {
    this.model = buildModel(view, choice.collective, choice.variant, choice.size);
  }

  /** @param {any} inks colours of the canvas @param {number} total length of the time axis @param {number|null} box looked into */
  draw(inks, total, box) {
    if (!this.model) return;
    const scene = buildScene(this.model.topology, box);
    this.scene = scene;
    this.graph.draw(this.model, scene);
    const whole = scene.inside === null && !scene.byBox;
    const rows = whole ? this.model.rows : this.model.rows.filter((row) => isDrawn(scene, [row.link]));
    this.gantt.draw(this.model, inks, rows, total);
  }

  /** What is followed or under the pointer, and the loads. @param {State} state of this pane @param {"light"|"dark"} theme @param {Set<number>|null} chosen */
  show(state, theme, chosen) {
    if (!this.model || !this.scene) return;
    const step = state.load === "step" ? stepAt(this.model, state.time) : null;
    this.graph.colourLinks(linkLoads(this.model, step), theme, shownLinks(this.model, state, chosen));
    this.graph.markNode(state.rank);
  }

  /** @param {any} proof or null */
  drawProof(proof) {
    if (this.model && this.scene) this.graph.drawProof(proof);
  }

  /** What changes with the time. @param {State} state of this pane @param {Set<number>|null} chosen @param {string} title what it shows, if two are shown */
  moment(state, chosen, title) {
    if (!this.model || !this.scene) return;
    const stride = this.graph.moment(state.time, chosen, state.hover);
    this.gantt.moment({ now: state.time, chosen, hover: state.hover, hoverLink: state.hoverLink });
    const words = (title ? `${title} · ` : "") + statusWords(this.model, state, chosen, stride);
    this.elements.status.setAttribute("aria-live", state.playing ? "off" : "polite"); // nobody can listen so fast
    if (words !== this.announced) this.elements.status.textContent = this.announced = words;
  }
}

/** @param {Model} model @param {number} link @returns {string[]} */
function linkLines(model, link) {
  return [linkName(model, link), `busy ${percent(model.variant.utilisation[link])} of the time`];
}

/** @param {Model} model @param {number} id @returns {string[]} */
function transferLines(model, id) {
  const t = model.transfers[id];
  const { nodes } = model.topology;
  return [`${nodes[t.src].name} → ${nodes[t.dst].name}, step ${t.step + 1}`, `chunk ${chunkName(model, t.chunk)}`,
    operandWords(model, id), `${formatTime(t.start)} to ${formatTime(t.arrived)}`];
}

/** What is said above the graph, and read aloud. Pure. @param {Model} model @param {State} state @param {Set<number>|null} chosen @param {number} stride one in how many is drawn */
export function statusWords(model, state, chosen, stride) {
  if (!model.solved) return "There is no schedule to show.";
  if (!model.transfers.length) return "Nothing moves.";
  const { times } = model;
  if (state.time >= model.total) {
    return `Done: ${times.size} in ${formatTime(times.total_ns)}, ${significant(times.algbw_GBps)} GB/s ${times.measured ? "measured" : "simulated"}`;
  }
  const step = stepAt(model, state.time);
  const active = activeTransfers(model.transfers, state.time).filter((t) => !chosen || chosen.has(t.id));
  const what = chosen ? `, following ${plural(chosen.size, "transfer")}` : "";
  const some = stride > 1 ? `, one in ${stride} drawn` : "";
  return `Step ${step + 1} of ${model.stepStarts.length}: ${plural(active.length, "chunk")} on the way${what}${some}`;
}

/** Links that stand out: under the pointer, else of what is followed. @param {Model} model @param {State} state @param {Set<number>|null} chosen */
function shownLinks(model, state, chosen) {
  if (state.hover !== null) return new Set(model.transfers[state.hover].path);
  if (state.hoverLink !== null) return new Set([state.hoverLink]);
  if (!chosen) return null;
  return new Set([...chosen].flatMap((id) => model.transfers[id].path));
}

/**
 * The same data in another schedule: followed there are the chunks that overlap with the one followed here.
 * @param {Model} here @param {Model} there @param {State} state @returns {Set<number>|null}
 */
export function followedThere(here, there, state) {
  if (state.chunk === null) return followed(there, state);
  const chunks = sameData(here, state.chunk, there);
  if (!chunks.length) return followed(there, { rank: state.rank, chunk: null });
  return new Set(chunks.flatMap((chunk) => [...(followed(there, { rank: state.rank, chunk }) ?? [])]));
}

/** @param {Model} here @param {number} chunk @param {Model} there @returns {number[]} chunks with data in common: shards of one name, parts that overlap */
export function sameData(here, chunk, there) {
  const { shard, begin, end } = here.chunks[chunk];
  const { name } = here.collective.shards[shard];
  return there.chunks.filter((k) => there.collective.shards[k.shard].name === name && k.begin < end && begin < k.end).map((k) => k.id);
}
