// The graph: nodes, links coloured by load, the proof's outline, and chunks on their way. SVG.
import { loadColour, originColour, textOn } from "./colour.mjs";
import { svg } from "./dom.mjs";
import { percent, plural, significant } from "./format.mjs";
import { bentMiddle, convexHull, curvePath, insideHull, linkCurve, outlinePath, pointOn } from "./geometry.mjs";
import { activeTransfers, linkName, progress } from "./model.mjs";
import { edgeLoads, edgesOf, isDrawn, nodesWithin, placeOnPath } from "./scene.mjs";

const FOCUSABLE_NODES = 64; // more would make the tab order useless
const LABEL_RADIUS = 6; // smaller chunks have no label
const LABELLED_RADIUS = 5; // nor have smaller nodes
const PIE_RADIUS = 8; // and what they have is a sector, not a ring
const MANY_LINKS = 600; // so many are drawn fainter
const DOTS = 360; // of more chunks on the way at the same time some are drawn, always the same ones

/**
 * @typedef {import("./model.mjs").Model} Model
 * @typedef {import("./scene.mjs").Scene} Scene
 * @typedef {import("./scene.mjs").SceneNode} SceneNode
 * @typedef {import("./geometry.mjs").Point} Point
 * @typedef {{onNode: (rank: number) => void, onBox: (box: number) => void, onChunk: (chunk: number) => void,
 *   onLink: (link: number) => void,
 *   onHover: (transfer: number|null, link: number|null, lines: string[], event: PointerEvent|null) => void}} GraphEvents
 */

/**
 * One in how many transfers is drawn while it moves: a power of two. Pure.
 * @param {number} moving how many are on their way @returns {number}
 */
export function dotStride(moving) {
  return moving <= DOTS ? 1 : 2 ** Math.ceil(Math.log2(moving / DOTS));
}

/** Whether a transfer is among those drawn. Pure; numbers in a row are spread by a hash. @param {number} id @param {number} stride */
export function isSampled(id, stride) {
  return stride === 1 || (Math.imul(id, 2654435761) >>> 8) % stride === 0;
}

export class GraphView {
  /**
   * What moves is drawn in front, in a picture of its own: the browser then need not draw thousands of links anew.
   * @param {HTMLElement} root @param {GraphEvents} events
   */
  constructor(root, events) {
    this.root = root;
    this.events = events;
    /** @type {Record<string, SVGElement>} */
    this.layers = {};
    const layer = (/** @type {string} */ name) => (this.layers[name] = svg("g", { class: name }));
    this.pictures = [["boxes", "proof", "links"], ["nodes", "chunks"]].map((names, front) =>
      svg("svg", { class: front ? "front" : "back" }, ...names.map(layer)));
    root.append(...this.pictures);
    this.layers.links.addEventListener("pointermove", (event) => this.overLink(/** @type {PointerEvent} */ (event)));
    this.layers.links.addEventListener("click", (event) => {
      const edge = this.edgeUnder(event);
      if (edge) this.events.onLink(edge.links[0]);
    });
    this.layers.links.addEventListener("pointerleave", () => this.events.onHover(null, null, [], null));
    /** @type {SVGElement[]} */
    this.pool = [];
  }

  /** Draw a model anew: after another choice or another size of the window. @param {Model} model @param {Scene} scene */
  draw(model, scene) {
    this.model = model;
    this.scene = scene;
    const { width, height } = this.root.getBoundingClientRect();
    for (const picture of this.pictures) picture.setAttribute("viewBox", `0 0 ${Math.max(width, 1)} ${Math.max(height, 1)}`);
    this.place(Math.max(width, 1), Math.max(height, 1));
    this.drawn = model.transfers.filter((t) => isDrawn(scene, t.path));
    this.root.classList.toggle("many", scene.edges.length > MANY_LINKS);
    this.drawBoxes();
    this.drawLinks();
    this.drawNodes();
    this.layers.proof.replaceChildren();
    this.layers.chunks.replaceChildren();
    this.pool = [];
  }

  /** Scale the scene into the window. @param {number} width @param {number} height */
  place(width, height) {
    const { nodes, edges, byBox, reach } = this.scene;
    const middles = edges.map((edge) => bentMiddle(nodes[edge.src], nodes[edge.dst], edge.bend));
    const all = [...nodes, ...middles];
    const [left, right] = extent(all.map((n) => n.x));
    const [top, bottom] = extent(all.map((n) => n.y));
    const margin = byBox ? reach * 0.55 : 0.75;
    const scale = Math.min(width / (right - left + 2 * margin), height / (bottom - top + 2 * margin), 150);
    this.radius = Math.min(Math.max((byBox ? 0.3 * reach : 0.2) * scale, 2.5), 21);
    this.ringRadius = this.radius < PIE_RADIUS ? this.radius / 2 : this.radius - 1.5;
    this.points = nodes.map((n) => ({
      x: width / 2 + (n.x - (left + right) / 2) * scale,
      y: height / 2 + (n.y - (top + bottom) / 2) * scale,
    }));
    const rates = edges.map((edge) => edge.capacity);
    const least = rates.reduce((a, b) => Math.min(a, b), Infinity);
    const thin = byBox ? Math.min(Math.max(400 / edges.length, 0.5), 2.4) : Math.min(Math.max(scale / 26, 1.2), 3.6);
    this.widths = rates.map((r) => Math.min(thin * (1 + 0.55 * Math.log2(r / least)), thin * 3));
    this.curves = edges.map((edge, i) =>
      linkCurve(this.points[edge.src], this.points[edge.dst], edge.bend, this.widths[i] / 2 + (byBox ? 0.4 : Math.min(1.6, scale / 20)), this.radius + Math.min(2, this.radius / 4)));
  }

  drawBoxes() {
    this.layers.boxes.replaceChildren(...this.scene.boxes.map((box, i) => {
      const [x, right] = extent(box.nodes.map((n) => this.points[n].x));
      const [y, bottom] = extent(box.nodes.map((n) => this.points[n].y));
      const pad = this.radius * 1.7;
      const open = this.scene.inside === null ? () => this.events.onBox(i) : null;
      return svg("g", { class: open ? "open" : null, onclick: open },
        svg("rect", { x: x - pad, y: y - pad, width: right - x + 2 * pad, height: bottom - y + 2 * pad, rx: pad / 2 }),
        svg("text", { x: x - pad + 6, y: y - pad - 5 }, box.name),
        open && svg("title", {}, `look into ${box.name}`));
    }));
  }

  drawLinks() {
    const many = this.scene.edges.length > MANY_LINKS;
    this.linkPaths = this.scene.edges.map((_, i) =>
      svg("path", { class: "link", d: curvePath(this.curves[i]), "stroke-width": this.widths[i], "data-edge": i }));
    // A wider invisible one below is easier to hit.
    const hits = many ? [] : this.scene.edges.map((_, i) => svg("path", { class: "hit", d: curvePath(this.curves[i]), "data-edge": i }));
    this.layers.links.replaceChildren(...this.linkPaths, ...hits);
  }

  /** @param {Event} event @returns {import("./scene.mjs").SceneEdge|null} */
  edgeUnder(event) {
    const number = /** @type {Element} */ (event.target).getAttribute("data-edge");
    return number === null ? null : this.scene.edges[Number(number)];
  }

  /** @param {PointerEvent} event */
  overLink(event) {
    const edge = this.edgeUnder(event);
    if (edge) this.events.onHover(null, edge.links[0], this.edgeLines(edge), event);
  }

  /** @param {import("./scene.mjs").SceneEdge} edge @returns {string[]} */
  edgeLines(edge) {
    const { topology, variant } = this.model;
    if (edge.links.length > 1) {
      const ends = `${this.scene.nodes[edge.src].name} → ${this.scene.nodes[edge.dst].name}`;
      const busy = edge.links.map((id) => variant.utilisation[id]);
      return [ends, `${plural(edge.links.length, "link")}, ${significant(edge.capacity)} GB/s`,
        `busy ${percent(extent(busy)[0])} to ${percent(extent(busy)[1])} of the time`];
    }
    const link = topology.links[edge.links[0]];
    const kind = topology.classes[link.cls];
    return [linkName(this.model, edge.links[0]), `${link.capacity_GBps} GB/s, ${kind.latency_us} µs, ${kind.name}`,
      `busy ${percent(variant.utilisation[edge.links[0]])} of the time`];
  }

  drawNodes() {
    const { nodes } = this.scene;
    const focusable = nodes.filter((n) => n.kind === "gpu" || n.kind === "box").length <= FOCUSABLE_NODES;
    /** @type {Map<number, SVGElement>} */
    this.rings = new Map();
    /** @type {Map<number, number>} */
    this.ringParts = new Map();
    /** @type {SVGElement[]} */
    this.nodeGroups = [];
    this.layers.nodes.replaceChildren(...nodes.map((node, id) => {
      const { x, y } = this.points[id];
      const group = node.kind === "gpu" || node.kind === "box" ? this.active(node, id, focusable) : this.passive(node);
      group.setAttribute("transform", `translate(${x} ${y})`);
      group.append(svg("title", {}, node.box === null ? `${node.name} (${node.kind})` : `look into ${node.name}`));
      this.nodeGroups.push(group);
      return group;
    }));
  }

  /** A GPU, or a box as a whole: what can be chosen, and has data. @param {SceneNode} node @param {number} id @param {boolean} focusable */
  active(node, id, focusable) {
    const r = this.radius;
    const { box } = node;
    const rank = node.members[0];
    const ring = svg("circle", {
      class: "ring", r: this.ringRadius, "stroke-dasharray": `0 ${2 * Math.PI * this.ringRadius}`, transform: "rotate(-90)",
      style: r < PIE_RADIUS ? `stroke-width: ${r}px` : null,
      stroke: box === null ? this.colourOfRank(rank) : "var(--accent)",
    });
    this.rings.set(id, ring);
    const choose = () => (box === null ? this.events.onNode(rank) : this.events.onBox(box));
    const side = 2.3 * r;
    return svg("g", {
      class: `node ${node.kind}`, role: "button", tabindex: focusable ? 0 : null,
      "aria-label": box === null ? `follow ${node.name}` : `look into ${node.name}`,
      onclick: choose,
      onkeydown: (/** @type {KeyboardEvent} */ event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        event.stopPropagation();
        choose();
      },
    },
    box === null ? svg("circle", { class: "body", r }) : svg("rect", { class: "body", x: -side / 2, y: -side / 2, width: side, height: side, rx: r * 0.4 }),
    ring, r >= LABELLED_RADIUS && svg("text", { "font-size": Math.max(r * (node.label.length > 2 ? 0.62 : 0.8), 6) }, node.label));
  }

  /** A switch, host or NIC. @param {SceneNode} node @returns {SVGElement} */
  passive(node) {
    const r = this.radius * 0.82;
    const corner = node.kind === "switch" ? r * 0.35 : 0;
    return svg("g", { class: `node ${node.kind}` },
      svg("rect", { class: "body", x: -r, y: -r * 0.72, width: 2 * r, height: 1.44 * r, rx: corner }),
      r > 5 && svg("text", { "font-size": 10, y: r * 0.72 + 9 }, node.label));
  }

  /** The colour of a rank's own data, if any has it. @param {number} rank @returns {string} */
  colourOfRank(rank) {
    const owns = this.model.chunks.some((k) => k.origin === rank) && this.model.collective.shards.length > 1;
    return owns ? originColour(rank, this.model.origins) : "var(--accent)";
  }

  /** @param {number[]} loads of links @param {"light"|"dark"} theme @param {Set<number>|null} chosen links that stand out */
  colourLinks(loads, theme, chosen) {
    const byEdge = edgeLoads(this.scene, this.model.topology, loads);
    const standing = chosen === null ? null : edgesOf(this.scene, chosen);
    this.linkPaths.forEach((path, i) => {
      const shown = standing?.has(i);
      path.setAttribute("stroke", loadColour(byEdge[i], theme));
      path.setAttribute("class", `link${byEdge[i] === 0 ? " idle" : ""}${standing === null ? "" : shown ? " chosen" : " dim"}`);
    });
  }

  /** @param {number|null} rank */
  markNode(rank) {
    const chosen = rank === null ? -1 : this.scene.nodeOf[rank];
    this.nodeGroups.forEach((group, id) => group.classList.toggle("chosen", id === chosen));
  }

  /** Outline the node sets of a proof and mark its links. @param {any} proof or null */
  drawProof(proof) {
    this.layers.proof.replaceChildren();
    if (!proof) return;
    for (const edge of edgesOf(this.scene, proof.links)) {
      this.layers.proof.append(svg("path", {
        class: "crossing", d: curvePath(this.curves[edge]), "stroke-width": this.widths[edge] + (this.scene.byBox ? 2 : 5),
      }));
    }
    for (const set of proof.sets) {
      const within = nodesWithin(this.scene, set.nodes);
      for (const group of this.outlines(within)) {
        this.layers.proof.append(svg("path", { class: "outline", d: outlinePath(group, this.radius + 9) },
          svg("title", {}, set.caption)));
      }
    }
  }

  /**
   * The points that one outline each goes around: all, if nothing else lies among them; else box by box; else each.
   * A hull that swallows other nodes would lie.
   * @param {number[]} within nodes of the scene @returns {Point[][]}
   */
  outlines(within) {
    if (!within.length) return [];
    const members = new Set(within);
    const clean = (/** @type {number[]} */ group) => {
      const hull = convexHull(group.map((n) => this.points[n]));
      return this.points.every((p, n) => members.has(n) || !insideHull(hull, p));
    };
    const points = (/** @type {number[]} */ group) => group.map((n) => this.points[n]);
    if (clean(within)) return [points(within)];
    const boxed = this.scene.boxes.map((box) => box.nodes.filter((n) => members.has(n))).filter((g) => g.length > 1 && clean(g));
    const done = new Set(boxed.flat());
    return [...boxed.map(points), ...within.filter((n) => !done.has(n)).map((n) => points([n]))];
  }

  /**
   * Show the moment: chunks on their way, and how much each rank has.
   * @param {number} now ns @param {Set<number>|null} chosen transfers that are followed @param {number|null} hover
   * @returns {number} one in how many chunks is drawn
   */
  moment(now, chosen, hover) {
    this.showProgress(progress(this.model, now));
    const moving = activeTransfers(this.drawn, now).filter((t) => t.id === hover || !chosen || chosen.has(t.id));
    const stride = dotStride(moving.length);
    const active = moving.filter((t) => t.id === hover || isSampled(t.id, stride));
    let shown = 0;
    for (const transfer of active) if (this.showChunk(shown, transfer, now, hover)) shown += 1;
    for (let i = shown; i < this.pool.length; i += 1) this.pool[i].setAttribute("visibility", "hidden");
    return stride;
  }

  /** @param {Map<number, number>} done the part that each rank has */
  showProgress(done) {
    const around = 2 * Math.PI * this.ringRadius;
    for (const [id, ring] of this.rings) {
      const parts = this.scene.nodes[id].members.filter((n) => done.has(n)).map((n) => done.get(n) ?? 0);
      const part = parts.length ? parts.reduce((a, b) => a + b, 0) / parts.length : 0;
      if (Math.abs(part - (this.ringParts.get(id) ?? 0)) < 1e-9) continue;
      this.ringParts.set(id, part);
      ring.setAttribute("stroke-dasharray", `${part * around} ${around}`);
    }
  }

  /** @param {number} place @param {any} transfer @param {number} now @param {number|null} hover @returns {boolean} whether it is in the picture */
  showChunk(place, transfer, now, hover) {
    const part = (now - transfer.start) / Math.max(transfer.arrived - transfer.start, 1);
    const on = placeOnPath(this.scene, transfer.path, part);
    if (!on) return false;
    const chunk = this.model.chunks[transfer.chunk];
    const r = Math.min(Math.max(this.radius * (this.scene.byBox ? 0.36 : 0.5), 3), 10);
    const dot = this.pool[place] ?? this.addDot(place, r);
    const at = pointOn(this.curves[on.edge], on.part);
    const colour = originColour(chunk.origin, this.model.origins);
    dot.setAttribute("transform", `translate(${at.x.toFixed(1)} ${at.y.toFixed(1)})`);
    dot.setAttribute("visibility", "visible");
    dot.setAttribute("class", `dot${transfer.operands.length > 1 ? " reduced" : ""}${transfer.id === hover ? " hover" : ""}`);
    if (dot.getAttribute("data-transfer") === String(transfer.id)) return true;
    dot.setAttribute("data-transfer", String(transfer.id));
    dot.children[0].setAttribute("fill", colour);
    const label = dot.children[1];
    label.textContent = r >= LABEL_RADIUS ? chunk.short : "";
    label.setAttribute("fill", textOn(colour));
    return true;
  }

  /** @param {number} place @param {number} r @returns {SVGElement} */
  addDot(place, r) {
    const transfer = () => Number(dot.getAttribute("data-transfer"));
    const dot = svg("g", {
      onclick: () => this.events.onChunk(this.model.transfers[transfer()].chunk),
      onpointerenter: (/** @type {PointerEvent} */ event) => this.events.onHover(transfer(), null, [], event),
      onpointerleave: () => this.events.onHover(null, null, [], null),
    }, svg("circle", { r }), svg("text", { "font-size": r * 1.15 }));
    this.pool[place] = dot;
    this.layers.chunks.append(dot);
    return dot;
  }
}

/** @param {number[]} values @returns {[number, number]} the least and the greatest */
function extent(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) [low, high] = [Math.min(low, value), Math.max(high, value)];
  return [low, high];
}
