// The controls: what they show, and what they do to the state.
import { loadColour } from "./colour.mjs";
import { byId, html, setOptions } from "./dom.mjs";
import { formatTime } from "./format.mjs";
import { chunkName } from "./model.mjs";
import { isLarge } from "./scene.mjs";

export const MODEL_KEYS = ["collective", "variant", "size"];
export const BESIDE_KEYS = ["collective1", "variant1", "size1", "beside"];

/**
 * Controls to state.
 * @param {any} store @param {any} player @param {() => number} total of the time axis, ns @param {() => void} compare begin or end it
 */
export function connect(store, player, total, compare) {
  for (const key of [...MODEL_KEYS, "collective1", "variant1", "size1"]) {
    byId(key).addEventListener("change", () => store.set({ [key]: Number(byId(key).value) }));
  }
  for (const key of ["rank", "chunk", "box"]) {
    byId(key).addEventListener("change", () => store.set({ [key]: byId(key).value === "" ? null : Number(byId(key).value) }));
  }
  byId("speed").addEventListener("change", () => store.set({ speed: Number(byId("speed").value) }));
  byId("load").addEventListener("change", () => store.set({ load: byId("load").value }));
  byId("play").addEventListener("click", () => player.toggle());
  byId("back").addEventListener("click", () => player.step(-1));
  byId("forward").addEventListener("click", () => player.step(1));
  byId("clear").addEventListener("click", () => store.set({ rank: null, chunk: null }));
  byId("compare").addEventListener("click", compare);
  byId("out").addEventListener("click", () => store.set({ box: null }));
  byId("time").addEventListener("input", () => player.seek((Number(byId("time").value) / 1000) * total()));
  byId("theme").addEventListener("click", () => switchTheme(store));
  document.addEventListener("keydown", (event) => onKey(event, player, store, compare));
}

/** @param {any} store */
function switchTheme(store) {
  store.set({ theme: document.documentElement.dataset.theme === "dark" ? "light" : "dark" });
}

/** The next choice of a list, after the last the first. @param {string} id of a select @param {number} way 1 or -1 */
function cycle(id, way) {
  const select = byId(id);
  if (select.disabled || select.options.length < 2) return;
  select.selectedIndex = (select.selectedIndex + way + select.options.length) % select.options.length;
  select.dispatchEvent(new Event("change"));
}

/** @param {KeyboardEvent} event @param {any} player @param {any} store @param {() => void} compare */
function onKey(event, player, store, compare) {
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey || target.tagName === "SELECT" || target.closest?.(".code")) return;
  const pressable = ["BUTTON", "SUMMARY"].includes(target.tagName);
  const way = event.shiftKey ? -1 : 1;
  const actions = /** @type {Record<string, () => void>} */ ({
    ArrowRight: () => (event.shiftKey ? player.nudge(0.01) : player.step(1)),
    ArrowLeft: () => (event.shiftKey ? player.nudge(-0.01) : player.step(-1)),
    Home: () => player.seek(0),
    Escape: () => escape(store),
    c: () => cycle("chunk", way),
    r: () => cycle("rank", way),
    v: () => cycle("variant", way),
    s: () => cycle("size", way),
    d: () => switchTheme(store),
    b: compare,
    ...(pressable ? {} : { " ": () => player.toggle() }),
  });
  const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!action) return;
  event.preventDefault();
  action();
}

/** Follow nothing; where nothing is followed, out of the box. @param {any} store */
function escape(store) {
  const { rank, chunk, hover, hoverLink } = store.get();
  const followed = [rank, chunk, hover, hoverLink].some((x) => x !== null);
  store.set(followed ? { rank: null, chunk: null, hover: null, hoverLink: null } : { box: null });
}

/** Fill the choices of the bar. @param {any} view @param {any} state @param {any} model */
export function drawChoices(view, state, model) {
  drawSchedule(view, state, "");
  byId("beside").hidden = !state.beside;
  byId("compare").setAttribute("aria-pressed", String(state.beside));
  if (state.beside) drawSchedule(view, state, "1");
  const collective = view.collectives[state.collective];
  const topology = view.topologies[collective?.topology];
  const ranks = (collective?.group ?? []).map((/** @type {number} */ r) => [String(r), topology.nodes[r].name]);
  setOptions(byId("rank"), [["", "all ranks"], ...ranks], text(state.rank));
  const chunks = (model?.chunks ?? []).map((/** @type {any} */ k) => [String(k.id), chunkName(model, k.id)]);
  setOptions(byId("chunk"), [["", "all chunks"], ...chunks], text(state.chunk));
  const boxes = (topology?.boxes ?? []).map((/** @type {any} */ b, /** @type {number} */ i) => [String(i), b.name]);
  setOptions(byId("box"), [["", topology && isLarge(topology) ? "by box" : "all boxes"], ...boxes], text(state.box));
  byId("box").closest("label").hidden = boxes.length < 2;
  byId("out").hidden = state.box === null;
  byId("load").value = state.load;
  byId("clear").hidden = state.rank === null && state.chunk === null;
}

/** @param {number|null} value @returns {string} */
function text(value) {
  return value === null ? "" : String(value);
}

/** Collective, variant and size of a pane. @param {any} view @param {any} state @param {string} suffix of the names */
function drawSchedule(view, state, suffix) {
  const variants = view.collectives[state[`collective${suffix}`]]?.variants ?? [];
  const sizes = variants[state[`variant${suffix}`]]?.times ?? [];
  setOptions(byId(`collective${suffix}`), view.collectives.map((/** @type {any} */ c, /** @type {number} */ i) =>
    [String(i), collectiveWords(c)]), String(state[`collective${suffix}`]));
  setOptions(byId(`variant${suffix}`), variants.map((/** @type {any} */ v, /** @type {number} */ i) =>
    [String(i), `${v.id}, ${v.sizes}`]), String(state[`variant${suffix}`]));
  setOptions(byId(`size${suffix}`), sizes.map((/** @type {any} */ t, /** @type {number} */ i) =>
    [String(i), t.measured ? `${t.size}, measured` : t.size]), String(state[`size${suffix}`]));
  byId(`size${suffix}`).disabled = sizes.length < 2;
}

/** @param {any} c a collective of view.json @returns {string} */
export function collectiveWords(c) {
  const name = c.name === c.collective ? c.name : `${c.name} (${c.collective})`;
  return c.artefact ? `${c.artefact}: ${name}` : name;
}

/** @param {"light"|"dark"} theme */
export function drawLegend(theme) {
  byId("ramp").replaceChildren(...Array.from({ length: 20 }, (_, i) => {
    const cell = html("span");
    cell.style.background = loadColour(i / 19, theme);
    return cell;
  }));
}

/** @param {number} total ns @param {any} state @param {number} step */
export function drawTransport(total, state, step) {
  byId("time").value = String(Math.round((state.time / total) * 1000));
  byId("time").setAttribute("aria-valuetext", `${formatTime(state.time)}, step ${step + 1}`);
  byId("now").textContent = `${formatTime(state.time)} of ${formatTime(total)}`;
  byId("play").setAttribute("aria-label", state.playing ? "pause" : "play");
  byId("play").classList.toggle("playing", state.playing);
}
