// How one chunk travels: its values as a graph. A node is a value at a rank (its own input, what arrived, or a reduction
// of several), an edge is a transfer. For a broadcast it is a tree from the origin, for a reduction a tree to the root.
import { html, svg } from "./dom.mjs";
import { plural } from "./format.mjs";

const COLUMN = 34; // between neighbours of a row
const LEVEL = 46;
const MOST = 400; // more nodes are not drawn

/**
 * @typedef {import("./model.mjs").Model} Model
 * @typedef {{rank: number, own: boolean, merges: boolean, level: number, x: number, final: boolean}} TreeNode
 * @typedef {{from: number, to: number, transfer: number}} TreeEdge
 * @typedef {{nodes: TreeNode[], edges: TreeEdge[], levels: number, width: number}} Tree
 */

/**
 * Values and transfers of a chunk; with a rank only what that rank's result is made of. Pure.
 * @param {Model} model @param {number} chunk @param {number|null} rank
 * @param {Set<number>} chosen transfers, as `followed` says @returns {Tree}
 */
export function chunkTree(model, chunk, rank, chosen) {
  /** @type {Map<string, number>} */
  const numbers = new Map();
  /** @type {TreeNode[]} */
  const nodes = [];
  /** @type {Map<number, number[]>} */
  const readers = new Map(); // transfer -> values that it is part of
  const value = (/** @type {number} */ rank, /** @type {number[]} */ operands) => {
    const key = `${rank}:${[...operands].sort((a, b) => a - b).join()}`;
    const known = numbers.get(key);
    if (known !== undefined) return known;
    const number = nodes.length;
    numbers.set(key, number);
    nodes.push({ rank, own: operands.includes(-1), merges: operands.length > 1, level: 0, x: 0, final: false });
    for (const o of operands) if (o >= 0) readers.set(o, [...(readers.get(o) ?? []), number]);
    return number;
  };
  /** @type {TreeEdge[]} */
  const edges = [];
  const ids = [...chosen].filter((id) => model.transfers[id].chunk === chunk).sort((a, b) => a - b);
  const sources = new Map(ids.map((id) => [id, value(model.transfers[id].src, model.transfers[id].operands)]));
  const asked = rank === null ? model.outputs : model.outputs.filter((o) => o.rank === rank);
  for (const output of asked) {
    const whole = output.operands.every((o) => o < 0 || sources.has(o));
    if (output.chunk !== chunk || !whole || (output.operands.every((o) => o < 0) && !numbers.has(`${output.rank}:-1`))) continue;
    nodes[value(output.rank, output.operands)].final = true;
  }
  for (const id of ids) {
    const from = /** @type {number} */ (sources.get(id));
    for (const to of readers.get(id) ?? [value(model.transfers[id].dst, [id])]) edges.push({ from, to, transfer: id });
  }
  return arrange(nodes, edges);
}

/** Levels by the longest way from a beginning; within a level near what they hang on. @param {TreeNode[]} nodes @param {TreeEdge[]} edges @returns {Tree} */
function arrange(nodes, edges) {
  for (let round = 0, moved = true; moved && round <= nodes.length; round += 1) {
    moved = false;
    for (const { from, to } of edges) {
      if (nodes[to].level > nodes[from].level) continue;
      nodes[to].level = nodes[from].level + 1;
      moved = true;
    }
  }
  // What begins late stands right above what it goes into, so that a reduction's own inputs are not all in the first row.
  const below = nodes.map(() => Infinity);
  for (const { from, to } of edges) below[from] = Math.min(below[from], nodes[to].level);
  const entered = new Set(edges.map((e) => e.to));
  nodes.forEach((node, i) => { if (!entered.has(i) && below[i] < Infinity) node.level = below[i] - 1; });
  const levels = 1 + nodes.reduce((most, n) => Math.max(most, n.level), 0);
  const rows = Array.from({ length: levels }, (_, level) => nodes.flatMap((n, i) => (n.level === level ? [i] : [])));
  const width = rows.reduce((most, row) => Math.max(most, row.length), 1);
  const beside = nodes.map(() => /** @type {number[]} */ ([]));
  for (const { from, to } of edges) { beside[from].push(to); beside[to].push(from); }
  for (const row of rows) spread(nodes, row, width);
  for (let sweep = 0; sweep < 8; sweep += 1) {
    for (const row of sweep % 2 ? [...rows].reverse() : rows) {
      const wish = new Map(row.map((i) => [i, beside[i].length ? beside[i].reduce((sum, j) => sum + nodes[j].x, 0) / beside[i].length : nodes[i].x]));
      row.sort((a, b) => (wish.get(a) ?? 0) - (wish.get(b) ?? 0) || nodes[a].rank - nodes[b].rank || a - b);
      spread(nodes, row, width);
    }
  }
  return { nodes, edges, levels, width };
}

/** @param {TreeNode[]} nodes @param {number[]} row @param {number} width */
function spread(nodes, row, width) {
  row.forEach((i, place) => { nodes[i].x = ((place + 0.5) * width) / row.length; });
}

/**
 * @param {Model} model @param {number} chunk @param {number|null} rank @param {Set<number>} chosen
 * @param {(transfer: number|null) => void} onHover @returns {HTMLElement}
 */
export function drawTree(model, chunk, rank, chosen, onHover) {
  const tree = chunkTree(model, chunk, rank, chosen);
  const name = model.chunks[chunk].label + (rank === null ? "" : ` to ${model.topology.nodes[rank].name}`);
  const heading = html("h3", {}, `How chunk ${name} travels`);
  const { merging, words } = treeWords(tree);
  const caption = html("p", { class: "caption" }, words);
  if (tree.nodes.length > MOST) return html("section", { id: "tree" }, heading, caption);
  const column = Math.max(COLUMN, Math.min(64, 360 / tree.width));
  const [width, height] = [tree.width * column, tree.levels * LEVEL - 10];
  const place = (/** @type {TreeNode} */ n) => ({ x: n.x * column, y: n.level * LEVEL + 16 });
  const edges = tree.edges.map(({ from, to, transfer }) => {
    const [a, b] = [place(tree.nodes[from]), place(tree.nodes[to])];
    const step = model.transfers[transfer].step + 1;
    return svg("g", {
      class: "tree-edge", "data-transfer": transfer,
      onpointerenter: () => onHover(transfer), onpointerleave: () => onHover(null),
    },
    svg("path", { d: `M${a.x} ${a.y + 11}L${b.x} ${b.y - 11}` }), svg("path", { class: "wide", d: `M${a.x} ${a.y}L${b.x} ${b.y}` }),
    svg("text", { x: a.x + (b.x - a.x) * 0.5 + 7, y: a.y + (b.y - a.y) * 0.5 + 3 }, String(step)));
  });
  const nodes = tree.nodes.map((n) => {
    const { x, y } = place(n);
    return svg("g", { class: `tree-node${n.merges ? " merges" : ""}${n.final ? " final" : ""}`, transform: `translate(${x} ${y})` },
      n.merges ? svg("rect", { x: -11, y: -11, width: 22, height: 22, rx: 4 }) : svg("circle", { r: 11 }),
      svg("text", {}, String(n.rank)), svg("title", {}, nodeWords(model, n)));
  });
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": words }, ...edges, ...nodes);
  return html("section", { id: "tree" }, heading, html("div", { class: "scroll" }, drawing), caption,
    html("p", { class: "caption" }, merging ? "Squares reduce, a double border has the result; numbers on the lines are steps."
      : "A double border needs it; numbers on the lines are steps."));
}

/** @param {Tree} tree @returns {{merging: number, words: string}} */
function treeWords(tree) {
  const merging = tree.nodes.filter((n) => n.merges).length;
  const final = new Set(tree.nodes.filter((n) => n.final).map((n) => n.rank)).size;
  const reduced = merging ? `${plural(merging, "reduction")}, ` : "";
  return { merging, words: `${plural(tree.edges.length, "transfer")}, ${reduced}${tree.levels - 1} deep; ends at ${plural(final, "rank")}.` };
}

/** @param {Model} model @param {TreeNode} node */
function nodeWords(model, node) {
  const name = model.topology.nodes[node.rank].name;
  if (node.merges) return `${name} reduces what comes in${node.own ? " with its own" : ""}`;
  return node.own ? `${name} has it from the start` : `${name} receives it`;
}
