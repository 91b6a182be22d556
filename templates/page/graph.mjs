// The graph: nodes, links coloured by load, the proof's outline, and chunks on their way. SVG.
import { loadColour, originColour, textOn } from "./colour.mjs";
import { svg } from "./dom.mjs";
import { percent } from "./format.mjs";
import { bentMiddle, convexHull, curvePath, insideHull, linkCurve, outlinePath, pointOnChain } from "./geometry.mjs";
import { activeTransfers, linkName, progress } from "./model.mjs";

const FOCUSABLE_NODES = 64; // more would make the tab order useless
const LABEL_RADIUS = 6; // smaller chunks have no label

/**
 * @typedef {import("./model.mjs").Model} Model
 * @typedef {{onNode: (rank: number) => void, onChunk: (chunk: number) => void,
 *   onHover: (transfer: number|null, link: number|null, lines: string[], event: PointerEvent|null) => void}} GraphEvents
 */

export class GraphView {
  /** @param {SVGSVGElement} root @param {GraphEvents} events */
  constructor(root, events) {
    this.root = root;
    this.events = events;
    /** @type {Record<string, SVGElement>} */
    this.layers = {};
    for (const name of ["boxes", "proof", "links", "nodes", "chunks"]) {
      this.layers[name] = svg("g", { class: name });
      root.append(this.layers[name]);
    }
    /** @type {SVGElement[]} */
    this.pool = [];
  }

  /** Draw a model anew: after another choice or another size of the window. @param {Model} model */
  draw(model) {
    this.model = model;
    const { width, height } = this.root.getBoundingClientRect();
    this.root.setAttribute("viewBox", `0 0 ${Math.max(width, 1)} ${Math.max(height, 1)}`);
    this.place(Math.max(width, 1), Math.max(height, 1));
    this.drawBoxes();
    this.drawLinks();
    this.drawNodes();
    this.layers.proof.replaceChildren();
    this.layers.chunks.replaceChildren();
    this.pool = [];
  }

  /** Scale the layout into the window. @param {number} width @param {number} height */
  place(width, height) {
    const nodes = this.model.topology.nodes;
    const middles = this.model.topology.links.map((/** @type {any} */ link) => bentMiddle(nodes[link.src], nodes[link.dst], link.bend));
    const xs = [...nodes, ...middles].map((/** @type {any} */ n) => n.x);
    const ys = [...nodes, ...middles].map((/** @type {any} */ n) => n.y);
    const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const margin = 0.75;
    const scale = Math.min(width / (right - left + 2 * margin), height / (bottom - top + 2 * margin), 150);
    this.radius = Math.min(Math.max(0.2 * scale, 5), 21);
    this.points = nodes.map((/** @type {any} */ n) => ({
      x: width / 2 + (n.x - (left + right) / 2) * scale,
      y: height / 2 + (n.y - (top + bottom) / 2) * scale,
    }));
    const rates = this.model.topology.links.map((/** @type {any} */ x) => x.capacity_GBps);
    const least = Math.min(...rates);
    const thin = Math.min(Math.max(scale / 26, 1.2), 3.6);
    this.widths = rates.map((/** @type {number} */ r) => Math.min(thin * (1 + 0.55 * Math.log2(r / least)), thin * 3));
    this.curves = this.model.topology.links.map((/** @type {any} */ link, /** @type {number} */ i) =>
      linkCurve(this.points[link.src], this.points[link.dst], link.bend, this.widths[i] / 2 + 1.6, this.radius + 2));
  }

  drawBoxes() {
    const { boxes } = this.model.topology;
    this.layers.boxes.replaceChildren(...boxes.map((/** @type {any} */ box) => {
      const points = box.nodes.map((/** @type {number} */ n) => this.points[n]);
      const [x, y] = [Math.min(...points.map((/** @type {any} */ p) => p.x)), Math.min(...points.map((/** @type {any} */ p) => p.y))];
      const [right, bottom] = [Math.max(...points.map((/** @type {any} */ p) => p.x)), Math.max(...points.map((/** @type {any} */ p) => p.y))];
      const pad = this.radius * 1.7;
      return svg("g", {},
        svg("rect", { x: x - pad, y: y - pad, width: right - x + 2 * pad, height: bottom - y + 2 * pad, rx: pad / 2 }),
        svg("text", { x: x - pad + 6, y: y - pad - 5 }, box.name));
    }));
  }

  drawLinks() {
    const { links, classes } = this.model.topology;
    this.linkPaths = [];
    const drawn = links.map((/** @type {any} */ link, /** @type {number} */ i) => {
      const d = curvePath(this.curves[i]);
      const path = svg("path", { class: "link", d, "stroke-width": this.widths[i] });
      const hit = svg("path", {
        class: "hit", d,
        onpointermove: (/** @type {PointerEvent} */ event) => this.events.onHover(null, i, [
          linkName(this.model, i),
          `${link.capacity_GBps} GB/s, ${classes[link.cls].latency_us} µs, ${classes[link.cls].name}`,
          `busy ${percent(this.model.variant.utilisation[i])} of the time`,
        ], event),
        onpointerleave: () => this.events.onHover(null, null, [], null),
      });
      this.linkPaths.push(path);
      return svg("g", {}, path, hit);
    });
    this.layers.links.replaceChildren(...drawn);
  }

  drawNodes() {
    const { nodes } = this.model.topology;
    const ranks = nodes.filter((/** @type {any} */ n) => n.kind === "gpu").length;
    /** @type {Map<number, SVGElement>} */
    this.rings = new Map();
    /** @type {SVGElement[]} */
    this.nodeGroups = [];
    this.layers.nodes.replaceChildren(...nodes.map((/** @type {any} */ node, /** @type {number} */ id) => {
      const { x, y } = this.points[id];
      const group = node.kind === "gpu" ? this.gpu(node, id, ranks <= FOCUSABLE_NODES) : this.passive(node);
      group.setAttribute("transform", `translate(${x} ${y})`);
      group.append(svg("title", {}, `${node.name} (${node.kind})`));
      this.nodeGroups.push(group);
      return group;
    }));
  }

  /** @param {any} node @param {number} id @param {boolean} focusable @returns {SVGElement} */
  gpu(node, id, focusable) {
    const r = this.radius;
    const around = 2 * Math.PI * (r - 1.5);
    const ring = svg("circle", {
      class: "ring", r: r - 1.5, "stroke-dasharray": `0 ${around}`, transform: "rotate(-90)",
      stroke: this.colourOfRank(id),
    });
    this.rings.set(id, ring);
    const choose = () => this.events.onNode(id);
    return svg("g", {
      class: "node gpu", role: "button", tabindex: focusable ? 0 : null, "aria-label": `follow ${node.name}`,
      onclick: choose,
      onkeydown: (/** @type {KeyboardEvent} */ event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        event.stopPropagation();
        choose();
      },
    }, svg("circle", { class: "body", r }), ring, svg("text", { "font-size": Math.max(r * 0.8, 7) }, String(id)));
  }

  /** A switch, host or NIC. @param {any} node @returns {SVGElement} */
  passive(node) {
    const r = this.radius * 0.82;
    const corner = node.kind === "switch" ? r * 0.35 : 0;
    return svg("g", { class: `node ${node.kind}` },
      svg("rect", { class: "body", x: -r, y: -r * 0.72, width: 2 * r, height: 1.44 * r, rx: corner }),
      r > 8 && svg("text", { "font-size": 10, y: r * 0.72 + 9 }, node.name.split(".").pop()));
  }

  /** The colour of a rank's own data, if any has it. @param {number} rank @returns {string} */
  colourOfRank(rank) {
    const owns = this.model.chunks.some((k) => k.origin === rank) && this.model.collective.shards.length > 1;
    return owns ? originColour(rank, this.model.origins) : "var(--accent)";
  }

  /** @param {number[]} loads @param {"light"|"dark"} theme @param {Set<number>|null} chosen links that stand out */
  colourLinks(loads, theme, chosen) {
    this.linkPaths.forEach((path, i) => {
      path.setAttribute("stroke", loadColour(loads[i], theme));
      path.classList.toggle("idle", loads[i] === 0);
      path.classList.toggle("dim", chosen !== null && !chosen.has(i));
      path.classList.toggle("chosen", chosen !== null && chosen.has(i));
    });
  }

  /** @param {number|null} rank */
  markNode(rank) {
    this.nodeGroups.forEach((group, id) => group.classList.toggle("chosen", id === rank));
  }

  /** Outline the node sets of a proof and mark its links. @param {any} proof or null */
  drawProof(proof) {
    this.layers.proof.replaceChildren();
    if (!proof) return;
    for (const link of proof.links) {
      this.layers.proof.append(svg("path", {
        class: "crossing", d: curvePath(this.curves[link]), "stroke-width": this.widths[link] + 5,
      }));
    }
    for (const set of proof.sets) {
      const inside = set.nodes.map((/** @type {number} */ n) => this.points[n]);
      const hull = convexHull(inside);
      const members = new Set(set.nodes);
      const clean = this.points.every((/** @type {any} */ p, /** @type {number} */ n) => members.has(n) || !insideHull(hull, p));
      // A hull that would swallow other nodes lies: then each member has its own outline.
      for (const points of clean ? [inside] : inside.map((/** @type {any} */ p) => [p])) {
        this.layers.proof.append(svg("path", { class: "outline", d: outlinePath(points, this.radius + 9) },
          svg("title", {}, set.caption)));
      }
    }
  }

  /**
   * Show the moment: chunks on their way, and how much each rank has.
   * @param {number} now ns @param {Set<number>|null} chosen transfers that are followed @param {number|null} hover
   */
  moment(now, chosen, hover) {
    const done = progress(this.model, now);
    for (const [rank, ring] of this.rings) {
      const around = 2 * Math.PI * (this.radius - 1.5);
      const part = done.get(rank) ?? 0;
      ring.setAttribute("stroke-dasharray", `${part * around} ${around}`);
    }
    const active = activeTransfers(this.model.transfers, now).filter((t) => !chosen || chosen.has(t.id) || t.id === hover);
    active.forEach((transfer, i) => this.showChunk(i, transfer, now, hover));
    for (let i = active.length; i < this.pool.length; i += 1) this.pool[i].setAttribute("visibility", "hidden");
  }

  /** @param {number} place @param {any} transfer @param {number} now @param {number|null} hover */
  showChunk(place, transfer, now, hover) {
    const chunk = this.model.chunks[transfer.chunk];
    const r = Math.min(Math.max(this.radius * 0.5, 3), 10);
    const dot = this.pool[place] ?? this.addDot(place, r);
    const part = (now - transfer.start) / Math.max(transfer.arrived - transfer.start, 1);
    const at = pointOnChain(transfer.path.map((/** @type {number} */ link) => this.curves[link]), part);
    const colour = originColour(chunk.origin, this.model.origins);
    dot.setAttribute("transform", `translate(${at.x} ${at.y})`);
    dot.setAttribute("visibility", "visible");
    dot.setAttribute("class", `dot${transfer.operands.length > 1 ? " reduced" : ""}${transfer.id === hover ? " hover" : ""}`);
    dot.setAttribute("data-transfer", String(transfer.id));
    dot.children[0].setAttribute("fill", colour);
    const label = dot.children[1];
    label.textContent = r >= LABEL_RADIUS ? chunk.short : "";
    label.setAttribute("fill", textOn(colour));
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
