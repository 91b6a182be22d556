// view.json made easy to ask: transfers as objects, and the questions the page asks of them. Pure functions.
import { fractionValue } from "./format.mjs";

/**
 * @typedef {{id: number, chunk: number, src: number, dst: number, path: number[], step: number,
 *   operands: number[], start: number, sent: number, arrived: number, lanes: number[]}} Transfer
 * @typedef {{rank: number, chunk: number, operands: number[], ready: number}} Output
 * @typedef {{id: number, shard: number, index: number, begin: number, end: number, weight: number, origin: number, label: string, short: string}} Chunk
 * @typedef {{solved: boolean, collective: any, variant: any, times: any, topology: any, transfers: Transfer[], outputs: Output[],
 *   chunks: Chunk[], total: number, stepStarts: number[], rows: Row[], origins: number,
 *   needs: Need[]}} Model
 * @typedef {{rank: number, all: number, outputs: {ready: number, weight: number}[]}} Need  what a rank needs in all
 * @typedef {{link: number, lanes: number, bars: Transfer[]}} Row
 * @typedef {{rank: number|null, chunk: number|null}} Follow
 */

export const VIEW_FORMAT = "acclc-view";
export const VIEW_VERSION = 2;

/** @param {string} text @returns {any} the parsed view @throws when it is of another format or version */
export function readView(text) {
  const view = JSON.parse(text);
  if (view.format !== VIEW_FORMAT || view.version !== VIEW_VERSION) {
    throw new Error(`this page reads ${VIEW_FORMAT} version ${VIEW_VERSION}, the data is ${view.format} ${view.version}`);
  }
  return view;
}

/** What stands for a schedule where there is none: the machine and the bound are shown all the same. */
/** @type {any} */
const NO_TIMES = { total_ns: 0, start_ns: [], sent_ns: [], arrived_ns: [], lanes: [] };
/** @type {any} */
const NO_VARIANT = {
  chunks: { shard: [], index: [], begin: [], end: [], origin: [] }, transfers: { chunk: [] }, outputs: { rank: [] }, step: [],
  kernel: null, program: null,
};

/**
 * One variant at one size.
 * @param {any} view @param {number} c collective @param {number} v variant @param {number} s size
 * @returns {Model|null} null when there is no such collective; `solved` is false where it has no such variant
 */
export function buildModel(view, c, v, s) {
  const collective = view.collectives[c];
  if (!collective) return null;
  const topology = view.topologies[collective.topology];
  const solved = Boolean(collective.variants[v]?.times[s]);
  const variant = solved ? collective.variants[v] : { ...NO_VARIANT, utilisation: topology.links.map(() => 0) };
  const times = solved ? variant.times[s] : NO_TIMES;
  const columns = variant.transfers;
  /** @type {Transfer[]} */
  const transfers = columns.chunk.map((/** @type {number} */ chunk, /** @type {number} */ id) => ({
    id, chunk, src: columns.src[id], dst: columns.dst[id], path: columns.path[id], step: columns.step[id],
    operands: columns.operands[id], start: times.start_ns[id], sent: times.sent_ns[id],
    arrived: times.arrived_ns[id],
    lanes: times.lanes.length ? times.lanes[id] : columns.path[id].map(() => 0),
  }));
  const outputs = variant.outputs.rank.map((/** @type {number} */ rank, /** @type {number} */ i) => ({
    rank, chunk: variant.outputs.chunk[i], operands: variant.outputs.operands[i],
    ready: variant.outputs.operands[i].reduce((/** @type {number} */ most, /** @type {number} */ o) =>
      (o < 0 ? most : Math.max(most, transfers[o].arrived)), 0),
  }));
  const chunks = readChunks(variant.chunks, collective.shards);
  const stepStarts = variant.step.map(() => times.total_ns);
  for (const t of transfers) stepStarts[t.step] = Math.min(stepStarts[t.step], t.start);
  return {
    solved, collective, variant, times, topology, transfers, outputs, chunks, total: Math.max(times.total_ns, 1),
    stepStarts, rows: ganttRows(transfers, topology), origins: 1 + chunks.reduce((most, k) => Math.max(most, k.origin), 0),
    needs: needsOf(outputs, chunks),
  };
}

/** @param {Output[]} outputs @param {Chunk[]} chunks @returns {Need[]} */
function needsOf(outputs, chunks) {
  /** @type {Map<number, Need>} */
  const needs = new Map();
  for (const { rank, chunk, ready } of outputs) {
    const need = needs.get(rank) ?? { rank, all: 0, outputs: [] };
    const { weight } = chunks[chunk];
    need.all += weight;
    need.outputs.push({ ready, weight });
    needs.set(rank, need);
  }
  return [...needs.values()];
}

/**
 * Chunks, labelled by their shard ("3", or "1→5" where each shard goes from one rank to one other) and, where
 * shards are cut, by their number in it ("3.0"). `short` is what fits into a dot: of a pair, where it goes, since
 * the colour says where it comes from.
 * @param {any} columns @param {any[]} shards @returns {Chunk[]}
 */
function readChunks(columns, shards) {
  const cut = columns.index.some((/** @type {number} */ i) => i > 0);
  const several = (/** @type {(s: any) => number} */ end) => shards.some((s) => end(s) !== end(shards[0]));
  const pairs = shards.every((s) => s.sources.length === 1 && s.targets.length === 1)
    && several((s) => s.sources[0]) && several((s) => s.targets[0]);
  return columns.shard.map((/** @type {number} */ shard, /** @type {number} */ id) => {
    const { sources, targets } = shards[shard];
    const name = pairs ? `${sources[0]}→${targets[0]}` : String(shard);
    const index = columns.index[id];
    const parts = [...(shards.length > 1 ? [name] : []), ...(cut || shards.length === 1 ? [index] : [])];
    const [begin, end] = [fractionValue(columns.begin[id]), fractionValue(columns.end[id])];
    return {
      id, shard, index, begin, end, weight: end - begin, origin: columns.origin[id], label: parts.join("."), short: String(pairs ? targets[0] : parts[0]),
    };
  });
}

/**
 * The rows of the Gantt: links that carry something, by where they start and end.
 * @param {Transfer[]} transfers @param {any} topology @returns {Row[]}
 */
export function ganttRows(transfers, topology) {
  /** @type {Map<number, Row>} */
  const rows = new Map();
  for (const transfer of transfers) {
    transfer.path.forEach((link, i) => {
      const row = rows.get(link) ?? { link, lanes: 1, bars: [] };
      row.lanes = Math.max(row.lanes, transfer.lanes[i] + 1);
      row.bars.push(transfer);
      rows.set(link, row);
    });
  }
  const ends = topology.links;
  return [...rows.values()].sort((a, b) =>
    ends[a.link].src - ends[b.link].src || ends[a.link].dst - ends[b.link].dst || a.link - b.link);
}

/** @param {Transfer[]} transfers @param {number} now @returns {Transfer[]} those on their way at this moment */
export function activeTransfers(transfers, now) {
  return transfers.filter((t) => t.start <= now && now < t.arrived);
}

/** @param {Model} model @param {number} now @returns {number} the last step that has begun */
export function stepAt(model, now) {
  let step = 0;
  model.stepStarts.forEach((start, i) => { if (start <= now) step = i; });
  return step;
}

/** @param {Model} model @param {number} now @param {1|-1} way @returns {number} the next moment at which a step begins */
export function nextStop(model, now, way) {
  const stops = [...new Set([0, ...model.stepStarts, model.total])].sort((a, b) => a - b);
  if (way > 0) return stops.find((s) => s > now) ?? model.total;
  return [...stops].reverse().find((s) => s < now) ?? 0;
}

/** How much of what it needs each rank has. @param {Model} model @param {number} now @returns {Map<number, number>} */
export function progress(model, now) {
  return new Map(model.needs.map(({ rank, all, outputs }) => {
    const done = outputs.reduce((sum, o) => (o.ready <= now ? sum + o.weight : sum), 0);
    return [rank, all ? done / all : 1];
  }));
}

/**
 * The transfers that are followed: of a chunk; to or from a rank; or, of a chunk to a rank, exactly those
 * whose data ends there (for a reduction, its tree).
 * @param {Model} model @param {Follow} follow @returns {Set<number>|null} null when nothing is followed
 */
export function followed(model, follow) {
  const { rank, chunk } = follow;
  if (rank === null && chunk === null) return null;
  if (rank === null) return new Set(model.transfers.filter((t) => t.chunk === chunk).map((t) => t.id));
  if (chunk === null) {
    return new Set(model.transfers.filter((t) => t.src === rank || t.dst === rank).map((t) => t.id));
  }
  const roots = model.outputs.filter((o) => o.rank === rank && o.chunk === chunk).flatMap((o) => o.operands);
  const found = new Set(/** @type {number[]} */ ([]));
  while (roots.length) {
    const id = /** @type {number} */ (roots.pop());
    if (id < 0 || found.has(id)) continue;
    found.add(id);
    roots.push(...model.transfers[id].operands);
  }
  return found;
}

/** Load of each link, 0 to 1: of the whole schedule, or of one step. @param {Model} model @param {number|null} step */
export function linkLoads(model, step) {
  if (step === null) return model.variant.utilisation;
  const loads = model.topology.links.map(() => 0);
  const data = model.variant.step[step];
  data?.links.forEach((/** @type {number} */ link, /** @type {number} */ i) => { loads[link] = data.load[i]; });
  return loads;
}

/** @param {Model} model @param {number} link @returns {string} */
export function linkName(model, link) {
  const { src, dst, count } = model.topology.links[link];
  const nodes = model.topology.nodes;
  return `${nodes[src].name} → ${nodes[dst].name}${count > 1 ? ` ×${count}` : ""}`;
}

/** @param {Model} model @param {number} chunk @returns {string} which part of which shard it is */
export function chunkName(model, chunk) {
  const { shard, label } = model.chunks[chunk];
  const columns = model.variant.chunks;
  const whole = columns.begin[chunk] === "0" && columns.end[chunk] === "1";
  const part = whole ? "all" : `${columns.begin[chunk]} to ${columns.end[chunk]}`;
  return `${label}: ${part} of ${model.collective.shards[shard].name}`;
}

/** @param {Model} model @param {number} id @returns {string} what a transfer reads at its source */
export function operandWords(model, id) {
  const { operands } = model.transfers[id];
  const words = operands.map((o) =>
    o < 0 ? "its own" : `what came from ${model.topology.nodes[model.transfers[o].src].name} in step ${model.transfers[o].step + 1}`);
  return operands.length > 1 ? `reduces ${words.join(" with ")}` : `sends ${words[0]}`;
}
