// The Gantt: one row a link, time to the right, a bar a transfer. A canvas that draws only the rows in view.
import { originColour, textOn } from "./colour.mjs";
import { formatTime, tickDistance } from "./format.mjs";
import { linkName } from "./model.mjs";

const TICKS = 22; // height of the time axis
const AXIS = 38; // with the names of the steps
const LANE = 15; // height of a lane
const GAP = 4; // between rows

/**
 * @typedef {import("./model.mjs").Model} Model
 * @typedef {{onSeek: (time: number) => void, onChunk: (chunk: number) => void,
 *   onHover: (transfer: number|null, link: number|null, event: PointerEvent|null) => void}} GanttEvents
 * @typedef {{background: string, text: string, faint: string, line: string, accent: string, band: string}} Inks
 */

/**
 * Top and height of each row. Pure.
 * @param {{lanes: number}[]} rows @returns {{tops: number[], height: number}}
 */
export function rowPlaces(rows) {
  let y = 0;
  const tops = rows.map((row) => {
    const top = y;
    y += row.lanes * LANE + GAP;
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
  let row = tops.length - 1;
  while (row >= 0 && tops[row] > y) row -= 1;
  if (row < 0 || y >= tops[row] + rows[row].lanes * LANE + GAP) return null;
  const lane = Math.floor((y - tops[row]) / LANE);
  const { link, bars } = rows[row];
  const bar = bars.find((t) =>
    t.lanes[t.path.indexOf(link)] === lane && t.start - slack <= time && time < Math.max(t.sent, t.start + slack) + slack);
  return { row, transfer: bar ? bar.id : null };
}

export class GanttView {
  /** @param {HTMLElement} scroller with a canvas and a spacer inside @param {GanttEvents} events */
  constructor(scroller, events) {
    this.scroller = scroller;
    this.canvas = /** @type {HTMLCanvasElement} */ (scroller.querySelector("canvas"));
    this.spacer = /** @type {HTMLElement} */ (scroller.querySelector(".spacer"));
    this.events = events;
    this.zoom = 1;
    this.left = 0; // first visible moment, ns
    this.dragging = false;
    scroller.addEventListener("scroll", () => this.paint());
    this.canvas.addEventListener("pointerdown", (event) => this.press(event));
    this.canvas.addEventListener("pointermove", (event) => this.move(event));
    this.canvas.addEventListener("pointerup", () => { this.dragging = false; });
    this.canvas.addEventListener("pointerleave", () => { if (!this.dragging) this.events.onHover(null, null, null); });
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
  }

  /** @param {Model} model @param {Inks} inks */
  draw(model, inks) {
    if (model !== this.model) [this.zoom, this.left] = [1, 0];
    this.model = model;
    this.inks = inks;
    const { tops, height } = rowPlaces(model.rows);
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
    const widest = Math.max(0, ...model.rows.map((row) => this.pen.measureText(linkName(model, row.link)).width));
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
    return Math.min(Math.max(time, 0), this.model.total);
  }

  /** @returns {number} how many ns are in view */
  span() {
    return this.model.total / this.zoom;
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
    this.model.rows.forEach((row, i) => {
      const y = this.tops[i] - scrolled + AXIS;
      if (y < this.height && y + row.lanes * LANE + GAP > AXIS) this.paintRow(row, y);
    });
    pen.restore();
    this.paintAxis();
    this.paintPlayhead();
  }

  /** Shade every other step, and name each where it begins. */
  paintSteps() {
    const { stepStarts, total } = this.model;
    const pen = this.pen;
    stepStarts.forEach((start, i) => {
      const from = Math.max(this.x(start), this.labels);
      const to = Math.min(this.x(stepStarts[i + 1] ?? total), this.width);
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
    pen.fillText(linkName(this.model, row.link), this.labels - 8, y + (row.lanes * LANE) / 2, this.labels - 12);
    pen.strokeStyle = this.inks.line;
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(this.labels, Math.round(y + row.lanes * LANE + GAP / 2) + 0.5);
    pen.lineTo(this.width, Math.round(y + row.lanes * LANE + GAP / 2) + 0.5);
    pen.stroke();
    pen.save();
    pen.beginPath();
    pen.rect(this.labels, 0, this.width - this.labels, this.height);
    pen.clip();
    for (const transfer of row.bars) this.paintBar(transfer, row.link, y);
    pen.restore();
  }

  /** @param {import("./model.mjs").Transfer} transfer @param {number} link @param {number} y */
  paintBar(transfer, link, y) {
    const left = this.x(transfer.start);
    const width = Math.max(this.x(transfer.sent) - left - 1, 1.5);
    if (left > this.width || left + width < this.labels) return;
    const pen = this.pen;
    const top = y + transfer.lanes[transfer.path.indexOf(link)] * LANE + 1;
    const chunk = this.model.chunks[transfer.chunk];
    const colour = originColour(chunk.origin, this.model.origins);
    const hover = transfer.id === this.state.hover;
    pen.globalAlpha = this.state.chosen && !this.state.chosen.has(transfer.id) && !hover ? 0.13 : 1;
    pen.fillStyle = colour;
    pen.beginPath();
    pen.roundRect(left, top, width, LANE - 2, Math.min(3, width / 2));
    pen.fill();
    if (transfer.operands.length > 1 && width > 6) this.hatch(left, top, width, textOn(colour));
    if (hover) {
      pen.strokeStyle = this.inks.text;
      pen.lineWidth = 2;
      pen.stroke();
    }
    pen.font = "10px system-ui, sans-serif";
    if (width > pen.measureText(chunk.label).width + 5) {
      pen.fillStyle = textOn(colour);
      pen.textAlign = "center";
      pen.fillText(chunk.label, left + width / 2, top + (LANE - 2) / 2 + 0.5);
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
    return hitTest(this.model.rows, this.tops, y - AXIS + this.scroller.scrollTop, time, slack);
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
    this.events.onHover(hit ? hit.transfer : null, hit ? this.model.rows[hit.row].link : null, event);
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
    this.left = Math.min(Math.max(this.left, 0), this.model.total - this.span());
    this.paint();
  }
}
