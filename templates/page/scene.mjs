// What the graph draws of a machine: all its nodes; or, of a large one, its boxes; or the inside of one box with what
// it is linked to. Links that have both ends in common there are one edge. Pure functions.
import { chainOf } from "./geometry.mjs";

export const WHOLE_NODES = 160; // a machine of boxes with more nodes is first shown by box

/**
 * @typedef {{name: string, label: string, kind: string, x: number, y: number, members: number[], box: number|null}} SceneNode
 * @typedef {{src: number, dst: number, links: number[], bend: number, capacity: number}} SceneEdge
 * @typedef {{nodes: SceneNode[], edges: SceneEdge[], boxes: {name: string, nodes: number[]}[], nodeOf: Int32Array,
 *   edgeOf: Int32Array, inside: number|null, byBox: boolean, reach: number}} Scene
 */

/** @param {any} topology @returns {boolean} whether it is too large to be shown whole, and has boxes to show instead */
export function isLarge(topology) {
  return topology.boxes.length > 1 && topology.nodes.length > WHOLE_NODES;
}

/**
 * @param {any} topology of view.json @param {number|null} box the box to look into, or null
 * @returns {Scene} where `nodeOf` says which node of the scene a node is drawn as, and `edgeOf` which edge a link is
 *   part of; -1 for what is not drawn
 */
export function buildScene(topology, box) {
  if (box !== null && topology.boxes[box]) return insideBox(topology, box);
  return isLarge(topology) ? boxesOnly(topology) : everything(topology);
}

/** @param {any} topology @returns {Scene} */
function everything(topology) {
  const nodes = topology.nodes.map((/** @type {any} */ node, /** @type {number} */ id) => single(node, id));
  return assemble(topology, nodes, topology.boxes, null, false);
}

/** @param {any} node @param {number} id @returns {SceneNode} */
function single(node, id) {
  const label = node.kind === "gpu" ? String(id) : /** @type {string} */ (node.name.split(".").pop());
  return { name: node.name, label, kind: node.kind, x: node.x, y: node.y, members: [id], box: null };
}

/** @param {any} topology @param {number} number @returns {SceneNode} a box as one node, in the middle of its members */
function boxNode(topology, number) {
  const { name, nodes } = topology.boxes[number];
  const middle = (/** @type {"x"|"y"} */ axis) =>
    nodes.reduce((/** @type {number} */ sum, /** @type {number} */ n) => sum + topology.nodes[n][axis], 0) / nodes.length;
  const label = /\[(.*)\]$/.exec(name)?.[1] ?? name;
  return { name, label, kind: "box", x: middle("x"), y: middle("y"), members: nodes, box: number };
}

/** @param {any} topology @returns {Scene} */
function boxesOnly(topology) {
  const boxed = new Set(topology.boxes.flatMap((/** @type {any} */ b) => b.nodes));
  const nodes = [
    ...topology.boxes.map((/** @type {any} */ _, /** @type {number} */ i) => boxNode(topology, i)),
    ...topology.nodes.map(single).filter((/** @type {any} */ _, /** @type {number} */ id) => !boxed.has(id)),
  ];
  evenRows(nodes);
  return assemble(topology, nodes, [], null, true);
}

/** Rows at equal distances: what stood between the boxes is now as large as they are. @param {SceneNode[]} nodes */
function evenRows(nodes) {
  const columns = [...new Set(nodes.filter((n) => n.box !== null).map((n) => n.x))].sort((a, b) => a - b);
  const gaps = columns.slice(1).map((x, i) => x - columns[i]).filter((gap) => gap > 0.5);
  const pitch = gaps.length ? Math.min(...gaps) : 2;
  let [row, last] = [-1, -Infinity];
  for (const node of [...nodes].sort((a, b) => a.y - b.y)) {
    if (node.y > last + 0.5) row += 1;
    last = node.y;
    node.y = row * pitch;
  }
}

/** One box as it is, and in a row above it what it is linked to. @param {any} topology @param {number} number @returns {Scene} */
function insideBox(topology, number) {
  const members = new Set(topology.boxes[number].nodes);
  const boxOf = new Map(topology.boxes.flatMap((/** @type {any} */ b, /** @type {number} */ i) =>
    b.nodes.map((/** @type {number} */ n) => [n, i])));
  /** @type {Map<string, {node: SceneNode, from: number[]}>} */
  const outside = new Map();
  for (const { src, dst } of topology.links) {
    for (const [a, b] of [[src, dst], [dst, src]]) {
      if (!members.has(a) || members.has(b)) continue;
      const other = boxOf.get(b);
      const key = other === undefined ? `node ${b}` : `box ${other}`;
      const entry = outside.get(key) ?? { node: other === undefined ? single(topology.nodes[b], b) : boxNode(topology, other), from: [] };
      entry.from.push(topology.nodes[a].x);
      outside.set(key, entry);
    }
  }
  const inner = [...members].map((n) => single(topology.nodes[n], n));
  const top = Math.min(...inner.map((n) => n.y)) - 1.6;
  const left = Math.min(...inner.map((n) => n.x));
  const right = Math.max(...inner.map((n) => n.x));
  const mean = (/** @type {number[]} */ xs) => xs.reduce((a, b) => a + b, 0) / xs.length;
  const stubs = [...outside.values()].sort((a, b) => mean(a.from) - mean(b.from) || a.node.members[0] - b.node.members[0]);
  const gap = Math.max((right - left) / Math.max(stubs.length, 1), 0.8);
  const middle = (left + right) / 2;
  stubs.forEach((stub, i) => { [stub.node.x, stub.node.y] = [middle + (i - (stubs.length - 1) / 2) * gap, top]; });
  const nodes = [...inner, ...stubs.map((s) => s.node)];
  const name = topology.boxes[number].name;
  return assemble(topology, nodes, [{ name, nodes: inner.map((_, i) => i) }], number, false);
}

/**
 * @param {any} topology @param {SceneNode[]} nodes @param {{name: string, nodes: number[]}[]} boxes of scene nodes
 * @param {number|null} inside @param {boolean} byBox @returns {Scene}
 */
function assemble(topology, nodes, boxes, inside, byBox) {
  const nodeOf = new Int32Array(topology.nodes.length).fill(-1);
  nodes.forEach((node, i) => { for (const n of node.members) nodeOf[n] = i; });
  const edgeOf = new Int32Array(topology.links.length).fill(-1);
  /** @type {Map<string, number>} */
  const numbers = new Map();
  /** @type {SceneEdge[]} */
  const edges = [];
  const single = inside === null && !byBox; // links side by side that the file tells apart stay apart
  topology.links.forEach((/** @type {any} */ link, /** @type {number} */ id) => {
    const [src, dst] = [nodeOf[link.src], nodeOf[link.dst]];
    if (src < 0 || dst < 0 || src === dst) return;
    if (inside !== null && !boxes[0].nodes.includes(src) && !boxes[0].nodes.includes(dst)) return;
    const key = single ? String(id) : `${src} ${dst}`;
    let number = numbers.get(key);
    if (number === undefined) {
      number = edges.length;
      numbers.set(key, number);
      const whole = nodes[src].members.length === 1 && nodes[dst].members.length === 1;
      edges.push({ src, dst, links: [], bend: whole ? link.bend : 0, capacity: 0 });
    }
    edges[number].links.push(id);
    edges[number].capacity += link.capacity_GBps;
    edgeOf[id] = number;
  });
  return { nodes, edges, boxes, nodeOf, edgeOf, inside, byBox, reach: reachOf(nodes) };
}

/** @param {SceneNode[]} nodes @returns {number} distance of the nearest two: what bounds the size of a node */
function reachOf(nodes) {
  const sorted = [...nodes].sort((a, b) => a.y - b.y || a.x - b.x);
  let least = 1e4;
  for (let i = 0; i < sorted.length; i += 1) {
    for (let j = i + 1; j < sorted.length && (sorted[j].y - sorted[i].y) ** 2 < least; j += 1) {
      const distance = (sorted[i].x - sorted[j].x) ** 2 + (sorted[i].y - sorted[j].y) ** 2;
      if (distance > 1e-6) least = Math.min(least, distance);
    }
  }
  return Math.sqrt(least);
}

/**
 * The load of each edge: that of its links, weighed by their capacity.
 * @param {Scene} scene @param {any} topology @param {number[]} loads of links, 0 to 1 @returns {number[]}
 */
export function edgeLoads(scene, topology, loads) {
  return scene.edges.map((edge) =>
    edge.links.reduce((sum, id) => sum + loads[id] * topology.links[id].capacity_GBps, 0) / edge.capacity);
}

/** @param {Scene} scene @param {Iterable<number>} links @returns {Set<number>} the edges that they are part of */
export function edgesOf(scene, links) {
  const found = new Set(/** @type {number[]} */ ([]));
  for (const link of links) if (scene.edgeOf[link] >= 0) found.add(scene.edgeOf[link]);
  return found;
}

/** Nodes of the scene all of whose members are in a set. @param {Scene} scene @param {number[]} members @returns {number[]} */
export function nodesWithin(scene, members) {
  const set = new Set(members);
  return scene.nodes.flatMap((node, i) => (node.members.every((n) => set.has(n)) ? [i] : []));
}

/**
 * Where on its way a chunk is: on which edge, and how far along it.
 * @param {Scene} scene @param {number[]} path links @param {number} part of the whole way, 0 to 1
 * @returns {{edge: number, part: number}|null} null while it is on a link that is not drawn
 */
export function placeOnPath(scene, path, part) {
  const place = chainOf(path.length, part);
  const edge = scene.edgeOf[path[place.index]];
  return edge < 0 ? null : { edge, part: place.part };
}

/** @param {Scene} scene @param {number[]} path @returns {boolean} whether any of a path is drawn */
export function isDrawn(scene, path) {
  return path.some((link) => scene.edgeOf[link] >= 0);
}
