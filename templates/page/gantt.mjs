// The Gantt: one row a link, time to the right, a bar a transfer. A canvas that draws only the rows in view.
import { originColour, textOn } from "./colour.mjs";
import { formatTime, tickDistance } from "./format.mjs";
import { linkName } from "./model.mjs";

const TICKS = 22; // height of the time axis
const AXIS = 38; // with the names of the steps
const LANE = 15; // height of a lane, where a link has few
const LABELLED = 12; // lower lanes have no words
const GAP = 4; // between rows

/**
 * @typedef {import("./model.mjs").Model} Model
 * @typedef {{onSeek: (time: number) => void, onChunk: (chunk: number) => void,
 *   onHover: (transfer: number|null, link: number|null, event: PointerEvent|null) => void}} GanttEvents
 * @typedef {{background: string, text: string, faint: string, line: string, accent: string, band: string}} Inks
 */

/** Height of a lane: many on one link are drawn lower. Pure. @param {number} lanes @returns {number} */
export function laneHeight(lanes) {
  return lanes <= 4 ? LANE : Math.max(4, Math.round((4 * LANE) / lanes));
}

/** @param {{lanes: number}} row @returns {number} */
function rowHeight(row) {
  return row.lanes * laneHeight(row.lanes);
}

/**
 * Top and height of each row. Pure.
 * @param {{lanes: number}[]} rows @returns {{tops: number[], height: number}}
 */
export function rowPlaces(rows) {
  let y = 0;
  const tops = rows.map((row) => {
    const top = y;
    y += rowHeight(row) + GAP;
    return top;
  });
  return { tops, height: y };
}

/**
 * What lies at a place: the row, and the bar if there is one. Pure.
 * @param {import("./model.mjs").Row[]} rows @param {number[]} tops @param {number} y @param {number} time
 * @param {number} slack so near a bar counts as on it (ns)
 * @returns {{row: number, transfer: number|null}|null}
 */
export function hitTest(rows, tops, y, time, slack) {
  const row = rowAt(tops, y);
  if (row < 0 || y >= tops[row] + rowHeight(rows[row]) + GAP) return null;
  const lane = Math.floor((y - tops[row]) / laneHeight(rows[row].lanes));
  const { link, bars } = rows[row];
  const bar = bars.find((t) =>
    t.lanes[t.path.indexOf(link)] === lane && t.start - slack <= time && time < Math.max(t.sent, t.start + slack) + slack);
  return { row, transfer: bar ? bar.id : null };
}

/** The last row that begins at or above a place. Pure. @param {number[]} tops @param {number} y @returns {number} -1: none */
export function rowAt(tops, y) {
  let [low, high] = [-1, tops.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (tops[middle] <= y) low = middle;
    else high = middle - 1;
  }
  return low;
}

export class GanttView {
  /** @param {HTMLElement} scroller with a canvas and a spacer inside @param {GanttEvents} events */
  constructor(scroller, events) {
    this.scroller = scroller;
    this.canvas = /** @type {HTMLCanvasElement} */ (scroller.querySelector("canvas"));
    this.spacer = /** @type {HTMLElement} */ (scroller.querySelector(".spacer"));
    this.events = events;
    /** @type {Model|null} */
    this.model = null;
    this.zoom = 1;
    this.left = 0; // first visible moment, ns
    this.dragging = false;
    scroller.addEventListener("scroll", () => this.paint());
    scroller.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("pointerdown", (event) => this.press(event));
    this.canvas.addEventListener("pointermove", (event) => this.move(event));
    this.canvas.addEventListener("pointerup", () => { this.dragging = false; });
    this.canvas.addEventListener("pointerleave", () => { if (!this.dragging) this.events.onHover(null, null, null); });
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
  }

  /** @param {Model} model @param {Inks} inks @param {import("./model.mjs").Row[]} rows to show @param {number} total length of the axis, ns */
  draw(model, inks, rows, total) {
    if (model !== this.model) [this.zoom, this.left] = [1, 0];
    this.model = model;
    this.inks = inks;
    this.rows = rows;
    this.total = total;
    const { tops, height } = rowPlaces(rows);
    this.tops = tops;
    this.spacer.style.height = `${height + AXIS}px`;
    const ratio = window.devicePixelRatio || 1;
    this.width = this.scroller.clientWidth;
    this.height = this.scroller.clientHeight;
    this.canvas.width = Math.max(1, Math.round(this.width * ratio));
    this.canvas.height = Math.max(1, Math.round(this.height * ratio));
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${this.height}px`;
    this.pen = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.pen.font = "11px system-ui, sans-serif";
    const longest = rows.map((row) => linkName(model, row.link)).reduce((a, b) => (b.length > a.length ? b : a), "");
    const widest = this.pen.measureText(longest).width;
    this.labels = Math.min(Math.ceil(widest) + 18, this.width * 0.3);
    this.paint();
  }

  /** @param {{now: number, chosen: Set<number>|null, hover: number|null, hoverLink: number|null}} moment */
  moment(moment) {
    this.state = moment;
    this.paint();
  }

  /** @param {number} time @returns {number} */
  x(time) {
    return this.labels + ((time - this.left) / this.span()) * (this.width - this.labels - 10);
  }

  /** @param {number} x @returns {number} */
  time(x) {
    const time = this.left + ((x - this.labels) / (this.width - this.labels - 10)) * this.span();
    return Math.min(Math.max(time, 0), this.total);
  }

  /** @returns {number} how many ns are in view */
  span() {
    return this.total / this.zoom;
  }

  paint() {
    if (!this.model || !this.pen || !this.state) return;
    const pen = this.pen;
    pen.clearRect(0, 0, this.width, this.height);
    this.paintSteps();
    const scrolled = this.scroller.scrollTop;
    pen.save();
    pen.beginPath();
    pen.rect(0, AXIS, this.width, this.height - AXIS);
    pen.clip();
    for (let i = Math.max(rowAt(this.tops, scrolled), 0); i < this.rows.length; i += 1) {
      const y = this.tops[i] - scrolled + AXIS;
      if (y >= this.height) break;
      this.paintRow(this.rows[i], y);
    }
    pen.restore();
    this.paintAxis();
    this.paintPlayhead();
  }

  /** Shade every other step, and name each where it begins. */
  paintSteps() {
    const { stepStarts } = this.model;
    const pen = this.pen;
    stepStarts.forEach((start, i) => {
      const from = Math.max(this.x(start), this.labels);
      const to = Math.min(this.x(stepStarts[i + 1] ?? this.model.total), this.width);
      if (i % 2 === 1 && to > from) {
        pen.fillStyle = this.inks.band;
        pen.fillRect(from, TICKS, to - from, this.height - TICKS);
      }
    });
  }

  /** @param {import("./model.mjs").Row} row @param {number} y */
  paintRow(row, y) {
    const pen = this.pen;
    const bright = this.state.hoverLink === row.link || row.bars.some((t) => t.id === this.state.hover);
    pen.fillStyle = bright ? this.inks.text : this.inks.faint;
    pen.font = `${bright ? "600 " : ""}11px system-ui, sans-serif`;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    pen.fillText(linkName(this.model, row.link), this.labels - 8, y + rowHeight(row) / 2, this.labels - 12);
    pen.strokeStyle = this.inks.line;
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(this.labels, Math.round(y + rowHeight(row) + GAP / 2) + 0.5);
    pen.lineTo(this.width, Math.round(y + rowHeight(row) + GAP / 2) + 0.5);
    pen.stroke();
    pen.save();
    pen.beginPath();
    pen.rect(this.labels, 0, this.width - this.labels, this.height);
    pen.clip();
    for (const transfer of row.bars) this.paintBar(transfer, row, y);
    pen.restore();
  }

  /** @param {import("./model.mjs").Transfer} transfer @param {import("./model.mjs").Row} row @param {number} y */
  paintBar(transfer, row, y) {
    const left = this.x(transfer.start);
    const width = Math.max(this.x(transfer.sent) - left - 1, 1.5);
    if (left > this.width || left + width < this.labels) return;
    const pen = this.pen;
    const lane = laneHeight(row.lanes);
    const top = y + transfer.lanes[transfer.path.indexOf(row.link)] * lane + 1;
    const height = lane - (lane < LABELLED ? 1 : 2);
    const chunk = this.model.chunks[transfer.chunk];
    const colour = originColour(chunk.origin, this.model.origins);
    const hover = transfer.id === this.state.hover;
    pen.globalAlpha = this.state.chosen && !this.state.chosen.has(transfer.id) && !hover ? 0.13 : 1;
    pen.fillStyle = colour;
    pen.beginPath();
    pen.roundRect(left, top, width, height, Math.min(lane < LABELLED ? 1 : 3, width / 2));
    pen.fill();
    if (transfer.operands.length > 1 && width > 6 && lane >= LABELLED) this.hatch(left, top, width, textOn(colour));
    if (hover) {
      pen.strokeStyle = this.inks.text;
      pen.lineWidth = 2;
      pen.stroke();
    }
    pen.font = "10px system-ui, sans-serif";
    if (lane >= LABELLED && width > pen.measureText(chunk.label).width + 5) {
      pen.fillStyle = textOn(colour);
      pen.textAlign = "center";
      pen.fillText(chunk.label, left + width / 2, top + height / 2 + 0.5);
    }
    pen.globalAlpha = 1;
  }

  /** A mark at the left end of a bar that carries a reduction. @param {number} x @param {number} y @param {number} width @param {string} ink */
  hatch(x, y, width, ink) {
    const pen = this.pen;
    pen.fillStyle = ink;
    pen.beginPath();
    pen.moveTo(x, y);
    pen.lineTo(x + Math.min(6, width), y);
    pen.lineTo(x, y + 6);
    pen.fill();
  }

  paintAxis() {
    const pen = this.pen;
    const distance = tickDistance(this.span(), (this.width - this.labels) / 90);
    pen.textBaseline = "middle";
    pen.textAlign = "center";
    pen.font = "10px system-ui, sans-serif";
    pen.strokeStyle = this.inks.line;
    pen.lineWidth = 1;
    for (let tick = Math.ceil(this.left / distance) * distance; tick <= this.left + this.span() + 1e-6; tick += distance) {
      const x = Math.round(this.x(tick)) + 0.5;
      pen.beginPath();
      pen.moveTo(x, TICKS - 5);
      pen.lineTo(x, TICKS);
      pen.stroke();
      pen.fillStyle = this.inks.faint;
      const label = formatTime(tick);
      const half = pen.measureText(label).width / 2;
      pen.fillText(label, Math.min(Math.max(x, half), this.width - half - 2), TICKS / 2 - 3);
    }
    pen.beginPath();
    pen.moveTo(this.labels, TICKS - 0.5);
    pen.lineTo(this.width, TICKS - 0.5);
    pen.stroke();
    this.paintStepNames();
  }

  /** A dashed line where each step begins (steps overlap: nothing waits for the slowest), and its name above. */
  paintStepNames() {
    const pen = this.pen;
    let free = this.labels; // names that would overlap are left out
    this.model.stepStarts.forEach((start, i) => {
      const x = this.x(start);
      if (x < this.labels - 1 || x > this.width - 30) return;
      pen.strokeStyle = this.inks.faint;
      pen.setLineDash([2, 3]);
      pen.beginPath();
      pen.moveTo(Math.round(x) + 0.5, TICKS);
      pen.lineTo(Math.round(x) + 0.5, this.height);
      pen.stroke();
      pen.setLineDash([]);
      if (x < free) return;
      pen.fillStyle = this.inks.faint;
      pen.textAlign = "left";
      pen.fillText(`step ${i + 1}`, x + 4, TICKS + 8);
      free = x + pen.measureText(`step ${i + 1}`).width + 8;
    });
  }

  paintPlayhead() {
    const x = this.x(this.state.now);
    if (x < this.labels - 1 || x > this.width) return;
    const pen = this.pen;
    pen.strokeStyle = this.inks.accent;
    pen.fillStyle = this.inks.accent;
    pen.lineWidth = 1.5;
    pen.beginPath();
    pen.moveTo(x, TICKS - 6);
    pen.lineTo(x, this.height);
    pen.stroke();
    pen.beginPath();
    pen.moveTo(x - 5, TICKS - 9);
    pen.lineTo(x + 5, TICKS - 9);
    pen.lineTo(x, TICKS - 2);
    pen.fill();
  }

  /** @param {PointerEvent|MouseEvent} event */
  under(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    if (y < AXIS || !this.model) return null;
    const slack = (2 / (this.width - this.labels - 10)) * this.span();
    const time = x < this.labels ? -Infinity : this.time(x);
    return hitTest(this.rows, this.tops, y - AXIS + this.scroller.scrollTop, time, slack);
  }

  /** @param {PointerEvent} event */
  press(event) {
    const hit = this.under(event);
    if (hit && hit.transfer !== null) {
      this.events.onChunk(this.model.transfers[hit.transfer].chunk);
      return;
    }
    const x = event.clientX - this.canvas.getBoundingClientRect().left;
    if (x < this.labels - 6) return;
    this.dragging = true;
    this.canvas.setPointerCapture(event.pointerId);
    this.events.onSeek(this.time(x));
  }

  /** @param {PointerEvent} event */
  move(event) {
    if (this.dragging) {
      this.events.onSeek(this.time(event.clientX - this.canvas.getBoundingClientRect().left));
      return;
    }
    const hit = this.under(event);
    this.canvas.style.cursor = hit && hit.transfer !== null ? "pointer" : "default";
    this.events.onHover(hit ? hit.transfer : null, hit ? this.rows[hit.row].link : null, event);
  }

  /** Up and down choose a link, Enter follows what is on it now. @param {KeyboardEvent} event */
  key(event) {
    const way = /** @type {Record<string, number>} */ ({ ArrowUp: -1, ArrowDown: 1 })[event.key];
    if (!this.model || !this.rows.length || !(way || event.key === "Enter")) return;
    event.preventDefault();
    event.stopPropagation();
    const current = this.rows.findIndex((row) => row.link === this.state.hoverLink);
    if (way) {
      const next = Math.min(Math.max(current + way, 0), this.rows.length - 1);
      this.reveal(next);
      this.events.onHover(null, this.rows[next].link, null);
      return;
    }
    const bar = this.rows[current]?.bars.find((t) => t.start <= this.state.now && this.state.now < t.sent);
    if (bar) this.events.onChunk(bar.chunk);
  }

  /** Bring a link's row into view, if it carries anything. @param {number} link */
  revealLink(link) {
    const row = this.rows.findIndex((r) => r.link === link);
    if (row >= 0) this.reveal(row);
  }

  /** Bring a row into view. @param {number} row */
  reveal(row) {
    const [top, bottom] = [this.tops[row], this.tops[row] + rowHeight(this.rows[row])];
    const { scrollTop } = this.scroller;
    if (top < scrollTop) this.scroller.scrollTop = top;
    else if (bottom > scrollTop + this.height - AXIS) this.scroller.scrollTop = bottom - this.height + AXIS + GAP;
  }

  /** Zoom around the pointer with the control key; sideways wheels move. @param {WheelEvent} event */
  wheel(event) {
    if (!this.model || (!event.ctrlKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY))) return;
    event.preventDefault();
    const before = this.time(event.clientX - this.canvas.getBoundingClientRect().left);
    if (event.ctrlKey) {
      const place = (before - this.left) / this.span();
      this.zoom = Math.min(Math.max(this.zoom * Math.exp(-event.deltaY / 300), 1), 200);
      this.left = before - place * this.span();
    } else {
      this.left += (event.deltaX / this.width) * this.span();
    }
    this.left = Math.min(Math.max(this.left, 0), this.total - this.span());
    this.paint();
  }
}
