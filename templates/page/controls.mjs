// The controls: what they show, and what they do to the state.
import { loadColour } from "./colour.mjs";
import { byId, html, setOptions } from "./dom.mjs";
import { formatTime } from "./format.mjs";
import { chunkName } from "./model.mjs";

export const MODEL_KEYS = ["collective", "variant", "size"];

/** Controls to state. @param {any} store @param {any} player @param {() => any} currentModel */
export function connect(store, player, currentModel) {
  for (const key of MODEL_KEYS) {
    byId(key).addEventListener("change", () => store.set({ [key]: Number(byId(key).value) }));
  }
  for (const key of ["rank", "chunk"]) {
    byId(key).addEventListener("change", () => store.set({ [key]: byId(key).value === "" ? null : Number(byId(key).value) }));
  }
  byId("speed").addEventListener("change", () => store.set({ speed: Number(byId("speed").value) }));
  byId("load").addEventListener("change", () => store.set({ load: byId("load").value }));
  byId("play").addEventListener("click", () => player.toggle());
  byId("back").addEventListener("click", () => player.step(-1));
  byId("forward").addEventListener("click", () => player.step(1));
  byId("clear").addEventListener("click", () => store.set({ rank: null, chunk: null }));
  byId("time").addEventListener("input", () => {
    const model = currentModel();
    if (model) player.seek((Number(byId("time").value) / 1000) * model.total);
  });
  byId("theme").addEventListener("click", () => {
    store.set({ theme: document.documentElement.dataset.theme === "dark" ? "light" : "dark" });
  });
  document.addEventListener("keydown", (event) => onKey(event, player, store));
}

/** @param {KeyboardEvent} event @param {any} player @param {any} store */
function onKey(event, player, store) {
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey || target.tagName === "SELECT" || target.closest?.(".code")) return;
  const pressable = ["BUTTON", "SUMMARY"].includes(target.tagName);
  const actions = /** @type {Record<string, () => void>} */ ({
    ArrowRight: () => (event.shiftKey ? player.nudge(0.01) : player.step(1)),
    ArrowLeft: () => (event.shiftKey ? player.nudge(-0.01) : player.step(-1)),
    Home: () => player.seek(0),
    Escape: () => store.set({ rank: null, chunk: null }),
    ...(pressable ? {} : { " ": () => player.toggle() }),
  });
  const action = actions[event.key];
  if (!action) return;
  event.preventDefault();
  action();
}

/** Fill the choices of the bar. @param {any} view @param {any} state @param {any} model */
export function drawChoices(view, state, model) {
  const collective = view.collectives[state.collective];
  const variants = collective?.variants ?? [];
  setOptions(byId("collective"), view.collectives.map((/** @type {any} */ c, /** @type {number} */ i) =>
    [String(i), c.name === c.collective ? c.name : `${c.name} (${c.collective})`]), String(state.collective));
  setOptions(byId("variant"), variants.map((/** @type {any} */ v, /** @type {number} */ i) => [String(i), `${v.id}, ${v.sizes}`]), String(state.variant));
  const sizes = variants[state.variant]?.times ?? [];
  setOptions(byId("size"), sizes.map((/** @type {any} */ t, /** @type {number} */ i) =>
    [String(i), t.measured ? `${t.size}, measured` : t.size]), String(state.size));
  byId("size").disabled = sizes.length < 2;
  const ranks = (collective?.group ?? []).map((/** @type {number} */ r) =>
    [String(r), view.topologies[collective.topology].nodes[r].name]);
  setOptions(byId("rank"), [["", "all ranks"], ...ranks], state.rank === null ? "" : String(state.rank));
  const chunks = (model?.chunks ?? []).map((/** @type {any} */ k) => [String(k.id), chunkName(model, k.id)]);
  setOptions(byId("chunk"), [["", "all chunks"], ...chunks], state.chunk === null ? "" : String(state.chunk));
  byId("load").value = state.load;
  byId("clear").hidden = state.rank === null && state.chunk === null;
}

/** @param {"light"|"dark"} theme */
export function drawLegend(theme) {
  byId("ramp").replaceChildren(...Array.from({ length: 20 }, (_, i) => {
    const cell = html("span");
    cell.style.background = loadColour(i / 19, theme);
    return cell;
  }));
}

/** @param {any} model @param {any} state @param {number} step */
export function drawTransport(model, state, step) {
  byId("time").value = String(Math.round((state.time / model.total) * 1000));
  byId("time").setAttribute("aria-valuetext", `${formatTime(state.time)}, step ${step + 1}`);
  byId("now").textContent = `${formatTime(state.time)} of ${formatTime(model.total)}`;
  byId("play").setAttribute("aria-label", state.playing ? "pause" : "play");
  byId("play").classList.toggle("playing", state.playing);
}
