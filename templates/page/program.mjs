// The Program of one rank, block by block: unpacked when it is opened, linked with transfers and the time.
import { html, setOptions } from "./dom.mjs";
import { unpackSource } from "./kernel.mjs";
import { chunkName, linkName } from "./model.mjs";

/**
 * @typedef {import("./model.mjs").Model} Model
 * @typedef {{id: number, kind: string, transfer: number, step: number, words: string, after: number[]}} Line
 * @typedef {{title: string, lines: Line[]}} Block
 */

/**
 * The blocks of a rank in words. Pure.
 * @param {any} program unpacked @param {number} rank @param {Model} model @returns {Block[]}
 */
export function rankBlocks(program, rank, model) {
  const found = program.ranks.find((/** @type {any} */ r) => r.rank === rank);
  const name = (/** @type {number} */ peer) => model.topology.nodes[peer].name;
  const text = (/** @type {number} */ extent) => program.extents[extent];
  return (found?.blocks ?? []).map((/** @type {any} */ block, /** @type {number} */ number) => {
    const o = block.operations;
    const lines = o.id.map((/** @type {number} */ id, /** @type {number} */ i) => {
      const sources = o.sources[i].map(text).join(" + ");
      const words = {
        send: () => `${sources} → ${name(o.peer[i])}`,
        receive: () => `${name(o.peer[i])} → ${text(o.target[i])}`,
        compute: () => `${text(o.target[i])} = ${sources}`,
      }[/** @type {"send"|"receive"|"compute"} */ (o.kind[i])]();
      return { id, kind: o.kind[i], transfer: o.transfer[i], step: o.step[i], words, after: o.after[i] };
    });
    const peers = [...new Set(lines.filter((/** @type {Line} */ x) => x.kind === "receive").map((/** @type {any} */ _, /** @type {number} */ i) => o.peer[i]))];
    const what = block.link >= 0 ? linkName(model, block.link)
      : peers.length ? `receives${peers.length === 1 ? ` from ${name(peers[0])}` : ""}` : "local work";
    return { title: `Block ${number}: ${what}`, lines };
  });
}

/** What an operation does with a transfer that moves just now. Pure. @param {Line} line @param {Model} model @param {number} now */
export function runs(line, model, now) {
  const transfer = model.transfers[line.transfer];
  return Boolean(transfer) && transfer.start <= now && now < (line.kind === "send" ? transfer.sent : transfer.arrived);
}

export class ProgramView {
  /**
   * @param {HTMLDetailsElement} pane
   * @param {{onHover: (transfer: number|null) => void, onChoose: (transfer: number) => void, onRank: (rank: number) => void,
   *   onFilled: () => void}} events
   */
  constructor(pane, events) {
    this.pane = pane;
    this.summary = /** @type {HTMLElement} */ (pane.querySelector("summary"));
    this.body = /** @type {HTMLElement} */ (pane.querySelector(".blocks"));
    this.select = /** @type {HTMLSelectElement} */ (pane.querySelector("select"));
    this.events = events;
    /** @type {{line: Line, element: HTMLElement}[]} */
    this.lines = [];
    this.rank = -1;
    pane.addEventListener("toggle", () => this.fill());
    this.select.addEventListener("change", () => events.onRank(Number(this.select.value)));
  }

  /** @param {Model} model @param {number|null} rank that is followed */
  draw(model, rank) {
    const changed = this.model !== model;
    this.model = model;
    const packed = model.variant.program;
    this.pane.hidden = !packed;
    if (!packed) return;
    const shown = rank ?? model.collective.group[0];
    if (changed) {
      this.summary.textContent = `Program: ${packed.blocks} blocks, ${packed.operations} operations`;
      this.program = null;
    }
    if (!changed && shown === this.rank) return;
    this.rank = shown;
    this.fill();
  }

  async fill() {
    const { model } = this;
    if (!this.pane.open || !model?.variant.program) return;
    if (!this.program) {
      const program = JSON.parse(await unpackSource(model.variant.program.zlib));
      if (this.model !== model) return; // another variant was chosen meanwhile
      this.program = program;
    }
    setOptions(this.select, model.collective.group.map((/** @type {number} */ r) => [String(r), model.topology.nodes[r].name]), String(this.rank));
    this.lines = [];
    this.body.replaceChildren(...rankBlocks(this.program, this.rank, model).map((block) => this.block(block, model)));
    this.events.onFilled();
  }

  /** @param {Block} block @param {Model} model */
  block(block, model) {
    return html("section", { class: "block" }, html("h4", {}, block.title), html("ol", {}, ...block.lines.map((line) => {
      const transfer = line.transfer >= 0 ? line.transfer : null;
      const element = html("li", {
        class: `operation ${line.kind}`, tabindex: transfer === null ? null : 0,
        title: transfer === null ? null : `chunk ${chunkName(model, model.transfers[transfer].chunk)}`,
        onpointerenter: () => this.events.onHover(transfer), onpointerleave: () => this.events.onHover(null),
        onclick: () => transfer !== null && this.events.onChoose(transfer),
        onkeydown: (/** @type {KeyboardEvent} */ event) => { if (event.key === "Enter" && transfer !== null) this.events.onChoose(transfer); },
      },
      html("span", { class: "number" }, String(line.id)), html("b", {}, line.kind), ` ${line.words}`,
      line.after.length > 0 && html("small", {}, ` after ${line.after.join(", ")}`));
      this.lines.push({ line, element });
      return element;
    })));
  }

  /** Mark what runs now, and what belongs to the transfers. @param {number} now @param {Set<number>|null} transfers */
  mark(now, transfers) {
    if (!this.pane.open || !this.model) return;
    for (const { line, element } of this.lines) {
      element.classList.toggle("running", runs(line, this.model, now));
      element.classList.toggle("marked", transfers !== null && transfers.has(line.transfer));
    }
  }
}
