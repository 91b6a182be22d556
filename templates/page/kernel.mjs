// The generated kernel: unpacked when it is opened, with the lines of a transfer marked.
import { html } from "./dom.mjs";

/** @param {string} packed base64 of a zlib stream @returns {Promise<string>} the text */
export async function unpackSource(packed) {
  const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).text();
}

/**
 * Which lines perform which transfers. Pure.
 * @param {{line: number[], transfer: number[]}} kernel
 * @returns {{ofLine: Map<number, number[]>, ofTransfer: Map<number, number[]>}}
 */
export function lineMap(kernel) {
  /** @type {Map<number, number[]>} */
  const ofLine = new Map();
  /** @type {Map<number, number[]>} */
  const ofTransfer = new Map();
  kernel.line.forEach((line, i) => {
    const transfer = kernel.transfer[i];
    ofLine.set(line, [...(ofLine.get(line) ?? []), transfer]);
    ofTransfer.set(transfer, [...(ofTransfer.get(transfer) ?? []), line]);
  });
  return { ofLine, ofTransfer };
}

export class KernelView {
  /**
   * @param {HTMLDetailsElement} pane
   * @param {{onHover: (transfer: number|null) => void, onChoose: (transfer: number) => void, onFilled: () => void}} events
   */
  constructor(pane, events) {
    this.pane = pane;
    this.summary = /** @type {HTMLElement} */ (pane.querySelector("summary"));
    this.code = /** @type {HTMLElement} */ (pane.querySelector(".code"));
    this.events = events;
    this.drawn = null;
    /** @type {Element[]} */
    this.marked = [];
    /** @type {HTMLElement[]} */
    this.lines = [];
    pane.addEventListener("toggle", () => this.fill());
  }

  /** @param {any} kernel of the chosen variant, or null */
  draw(kernel) {
    this.kernel = kernel;
    this.pane.hidden = !kernel;
    if (!kernel) return;
    this.map = lineMap(kernel);
    this.summary.textContent = `Generated kernel: ${kernel.lines} lines, ${Math.ceil(kernel.bytes / 1000)} kB`;
    this.fill();
  }

  async fill() {
    const kernel = this.kernel;
    if (!this.pane.open || !kernel || this.drawn === kernel) return;
    this.drawn = kernel;
    this.lines = [];
    if (typeof DecompressionStream === "undefined") {
      this.code.replaceChildren("This browser cannot unpack the source; the artefact's kernel.cu holds it.");
      return;
    }
    const source = await unpackSource(kernel.zlib);
    if (this.drawn !== kernel) return; // another variant was chosen meanwhile
    const texts = source.replace(/\n$/, "").split("\n");
    this.lines = texts.map((text, i) => this.line(text, i + 1));
    this.code.replaceChildren(...this.lines);
    this.events.onFilled();
  }

  /** @param {string} text @param {number} number @returns {HTMLElement} */
  line(text, number) {
    const transfers = this.map.ofLine.get(number);
    return html("div", transfers
      ? {
        class: "line mapped",
        onpointerenter: () => this.events.onHover(transfers[0]),
        onpointerleave: () => this.events.onHover(null),
        onclick: () => this.events.onChoose(transfers[0]),
      }
      : { class: "line" }, html("span", { class: "number" }, String(number)), text || " ");
  }

  /** Mark the lines of transfers, and bring the first into view. @param {number[]} transfers @param {boolean} scroll */
  mark(transfers, scroll) {
    for (const line of this.marked) line.classList.remove("marked");
    this.marked = [];
    if (!this.pane.open || !this.lines?.length) return;
    const numbers = transfers.flatMap((t) => this.map.ofTransfer.get(t) ?? []).sort((a, b) => a - b);
    for (const number of numbers) {
      const line = this.lines[number - 1];
      if (!line) continue;
      line.classList.add("marked");
      this.marked.push(line);
    }
    if (scroll && this.marked.length) {
      this.code.scrollTop = /** @type {HTMLElement} */ (this.marked[0]).offsetTop - this.code.clientHeight / 2;
    }
  }
}
