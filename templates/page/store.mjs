// The state of the page in one place. Views subscribe; nobody keeps a copy.

/**
 * @typedef {{collective: number, variant: number, size: number, time: number, playing: boolean, speed: number,
 *   rank: number|null, chunk: number|null, hover: number|null, hoverLink: number|null, load: "all"|"step",
 *   proof: "none"|"throughput"|"steps", theme: "auto"|"light"|"dark"}} State
 */

/** @type {State} */
export const START = {
  collective: 0, variant: 0, size: 0, time: 0, playing: false, speed: 1, rank: null, chunk: null, hover: null,
  hoverLink: null, load: "all", proof: "throughput", theme: "auto",
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
 * The state that a link to the page asks for, as in `#collective=all_gather&variant=c6s3r7&time=0.5`.
 * Collectives and variants go by name or number, the time is a part of the whole; what is unknown is ignored.
 * @param {string} hash @param {any} view @returns {Partial<State> & {part?: number}}
 */
export function stateFromHash(hash, view) {
  const asked = new URLSearchParams(hash.replace(/^#/, ""));
  /** @param {string} key @param {string[]} names */
  const index = (key, names) => {
    const value = asked.get(key) ?? "";
    const named = names.indexOf(value);
    const number = named >= 0 ? named : Number.parseInt(value, 10);
    return number >= 0 && number < names.length ? number : 0;
  };
  const collective = index("collective", view.collectives.map((/** @type {any} */ c) => c.name));
  const variants = view.collectives[collective]?.variants ?? [];
  const variant = index("variant", variants.map((/** @type {any} */ v) => v.id));
  /** @type {any} */
  const state = { collective, variant };
  for (const [key, values] of [["theme", ["auto", "light", "dark"]], ["load", ["all", "step"]],
    ["proof", ["none", "throughput", "steps"]]]) {
    const value = asked.get(/** @type {string} */ (key));
    if (value !== null && values.includes(value)) state[/** @type {string} */ (key)] = value;
  }
  for (const [key, limit] of [["rank", view.topologies[view.collectives[collective]?.topology]?.ranks ?? 0],
    ["chunk", variants[variant]?.chunks.shard.length ?? 0]]) {
    const value = Number.parseInt(asked.get(/** @type {string} */ (key)) ?? "", 10);
    if (value >= 0 && value < /** @type {number} */ (limit)) state[/** @type {string} */ (key)] = value;
  }
  const part = Number.parseFloat(asked.get("time") ?? "");
  if (part >= 0 && part <= 1) state.part = part;
  return state;
}
