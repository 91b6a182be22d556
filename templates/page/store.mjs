// The state of the page in one place. Views subscribe; nobody keeps a copy.

/**
 * `box` is the box looked into; with `beside` a second schedule is shown: collective1, variant1, size1. `hover` is a
 * transfer and `hoverLink` a link of the pane `hoverPane`.
 * @typedef {{collective: number, variant: number, size: number, time: number, playing: boolean, speed: number,
 *   rank: number|null, chunk: number|null, hover: number|null, hoverLink: number|null, hoverPane: 0|1,
 *   load: "all"|"step", box: number|null, beside: boolean, collective1: number, variant1: number, size1: number,
 *   proof: "none"|"throughput"|"steps", theme: "auto"|"light"|"dark"}} State
 */

/** @type {State} */
export const START = {
  collective: 0, variant: 0, size: 0, time: 0, playing: false, speed: 1, rank: null, chunk: null, hover: null,
  hoverLink: null, hoverPane: 0, box: null, beside: false, collective1: 0, variant1: 0, size1: 0, load: "all", proof: "throughput", theme: "auto",
};

/**
 * @param {State} initial
 * @returns {{get: () => State, set: (patch: Partial<State>) => void,
 *   subscribe: (listener: (state: State, changed: Set<string>) => void) => void}}
 */
export function createStore(initial) {
  let state = { ...initial };
  /** @type {((state: State, changed: Set<string>) => void)[]} */
  const listeners = [];
  return {
    get: () => state,
    set(patch) {
      const changed = new Set(Object.keys(patch).filter((k) => /** @type {any} */ (state)[k] !== /** @type {any} */ (patch)[k]));
      if (!changed.size) return;
      state = { ...state, ...patch };
      for (const listener of listeners) listener(state, changed);
    },
    subscribe(listener) {
      listeners.push(listener);
    },
  };
}

/**
 * The variant to begin with: the one that calls of the largest size take. Pure.
 * @param {any} collective of view.json @returns {number}
 */
export function bestVariant(collective) {
  const variants = collective?.variants ?? [];
  const size = Math.max(0, ...variants.flatMap((/** @type {any} */ v) => v.times.map((/** @type {any} */ t) => t.size_bytes)));
  const found = variants.findIndex((/** @type {any} */ v) =>
    v.min_bytes !== null && v.min_bytes <= size && (v.max_bytes === null || size <= v.max_bytes));
  return Math.max(found, 0);
}

/** The number of the largest size, where throughput shows. Pure. @param {any} view @param {number} collective @param {number} variant @returns {number} */
export function lastSize(view, collective, variant) {
  const times = view.collectives[collective]?.variants[variant]?.times ?? [];
  const simulated = times.filter((/** @type {any} */ t) => !t.measured).length;
  return Math.max((simulated || times.length) - 1, 0);
}

/**
 * What is first shown beside a schedule: the same collective of another artefact, else another variant of it.
 * @param {any} view @param {number} collective @param {number} variant
 * @returns {{collective1: number, variant1: number, size1: number}}
 */
export function firstBeside(view, collective, variant) {
  const here = view.collectives[collective];
  const others = view.collectives.flatMap((/** @type {any} */ c, /** @type {number} */ i) => (c.artefact !== here?.artefact ? [i] : []));
  const same = others.find((/** @type {number} */ i) => view.collectives[i].name === here.name) ?? others[0];
  if (same !== undefined) {
    const best = bestVariant(view.collectives[same]);
    return { collective1: same, variant1: best, size1: lastSize(view, same, best) };
  }
  const other = variant > 0 ? variant - 1 : Math.min(1, Math.max((here?.variants.length ?? 1) - 1, 0));
  return { collective1: collective, variant1: other, size1: lastSize(view, collective, other) };
}

/**
 * The state that a link to the page asks for, as in `#collective=all_gather&variant=c6s3r7&time=0.5`.
 * Collectives and variants go by name or number, the time is a part of the whole; what is unknown is ignored.
 * @param {string} hash @param {any} view @returns {Partial<State> & {part?: number}}
 */
export function stateFromHash(hash, view) {
  const asked = new URLSearchParams(hash.replace(/^#/, ""));
  /** @param {string} key @param {string[]} names @param {number} otherwise */
  const index = (key, names, otherwise = 0) => {
    const value = asked.get(key) ?? "";
    const named = names.indexOf(value);
    const number = named >= 0 ? named : Number.parseInt(value, 10);
    return number >= 0 && number < names.length ? number : otherwise;
  };
  const collective = index("collective", view.collectives.map((/** @type {any} */ c) => c.name));
  const variants = view.collectives[collective]?.variants ?? [];
  const variant = index("variant", variants.map((/** @type {any} */ v) => v.id), bestVariant(view.collectives[collective]));
  /** @type {any} */
  const state = { collective, variant };
  for (const [key, values] of [["theme", ["auto", "light", "dark"]], ["load", ["all", "step"]],
    ["proof", ["none", "throughput", "steps"]]]) {
    const value = asked.get(/** @type {string} */ (key));
    if (value !== null && values.includes(value)) state[/** @type {string} */ (key)] = value;
  }
  const topology = view.topologies[view.collectives[collective]?.topology];
  for (const [key, limit] of [["rank", topology?.ranks ?? 0], ["box", topology?.boxes.length ?? 0],
    ["size", variants[variant]?.times.length ?? 0], ["chunk", variants[variant]?.chunks.shard.length ?? 0]]) {
    const value = Number.parseInt(asked.get(/** @type {string} */ (key)) ?? "", 10);
    if (value >= 0 && value < /** @type {number} */ (limit)) state[/** @type {string} */ (key)] = value;
  }
  if (asked.has("beside") && view.collectives.length) {
    const collective1 = index("beside", view.collectives.map((/** @type {any} */ c) => c.name), collective);
    const beside = view.collectives[collective1];
    const variant1 = index("variant1", beside.variants.map((/** @type {any} */ v) => v.id), bestVariant(beside));
    Object.assign(state, { beside: true, collective1, variant1, size1: lastSize(view, collective1, variant1) });
  }
  const part = Number.parseFloat(asked.get("time") ?? "");
  if (part >= 0 && part <= 1) state.part = part;
  return state;
}
