// Time: play, pause, step, seek. One animation frame loop, only while playing.
import { nextStop } from "./model.mjs";

const WHOLE = 9000; // milliseconds of real time for a schedule at speed 1

/**
 * The moment after a frame. Pure.
 * @param {number} time ns @param {number} elapsed ms @param {number} total ns @param {number} speed
 * @returns {{time: number, playing: boolean}}
 */
export function advance(time, elapsed, total, speed) {
  const next = time + (elapsed / WHOLE) * total * speed;
  return next >= total ? { time: total, playing: false } : { time: next, playing: true };
}

/** @param {ReturnType<typeof import("./store.mjs").createStore>} store @param {() => any} currentModel */
export function createPlayer(store, currentModel) {
  let last = 0;
  /** @param {number} stamp */
  const frame = (stamp) => {
    const state = store.get();
    const model = currentModel();
    if (!state.playing || !model) return;
    // The first frame may be stamped before the press; after a pause of the browser's the picture does not jump.
    const elapsed = Math.min(Math.max(stamp - last, 0), 100);
    store.set(advance(state.time, elapsed, model.total, state.speed));
    last = stamp;
    if (store.get().playing) requestAnimationFrame(frame);
  };
  return {
    toggle() {
      const state = store.get();
      const model = currentModel();
      if (!model) return;
      if (state.playing) {
        store.set({ playing: false });
        return;
      }
      store.set({ playing: true, time: state.time >= model.total ? 0 : state.time });
      last = performance.now();
      requestAnimationFrame(frame);
    },
    /** @param {1|-1} way */
    step(way) {
      const model = currentModel();
      if (model) store.set({ playing: false, time: nextStop(model, store.get().time, way) });
    },
    /** @param {number} part of the whole to move by */
    nudge(part) {
      const model = currentModel();
      if (!model) return;
      const time = store.get().time + part * model.total;
      store.set({ playing: false, time: Math.min(Math.max(time, 0), model.total) });
    },
    /** @param {number} time */
    seek(time) {
      store.set({ playing: false, time });
    },
  };
}
