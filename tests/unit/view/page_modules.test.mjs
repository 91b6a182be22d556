// The pure functions of the page's modules. PAGES is the folder of the modules, VIEW a view.json to read.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const load = (name) => import(`${process.env.PAGES}/${name}.mjs`);
const colour = await load("colour");
const format = await load("format");
const gantt = await load("gantt");
const geometry = await load("geometry");
const kernel = await load("kernel");
const model = await load("model");
const panel = await load("panel");
const player = await load("player");
const store = await load("store");

const text = readFileSync(process.env.VIEW, "utf-8");
const view = model.readView(text);
const ring = model.buildModel(view, 0, 0, 0);
const chain = model.buildModel(view, 1, 0, 0);
const star = model.buildModel(view, 2, 0, 0);

test("times and numbers as people read them", () => {
  assert.deepEqual([0, 850, 12400, 3.5e6, 12345678].map(format.formatTime), ["0 ns", "850 ns", "12.4 µs", "3.5 ms", "12.3 ms"]);
  assert.deepEqual([0, 171.43, 1234.4, 0.0123456, 100].map(format.significant), ["0", "171", "1234", "0.0123", "100"]);
  assert.equal(format.fractionValue("7/6"), 7 / 6);
  assert.equal(format.fractionValue("2"), 2);
  assert.equal(format.percent(0.125), "12.5 %");
  assert.deepEqual([1, 2].map((n) => format.plural(n, "link")), ["1 link", "2 links"]);
  assert.equal(format.sentence("from g[0] to g[5]: 2 steps"), "From g[0] to g[5]: 2 steps.");
  assert.equal(format.sentence("g[0] has all."), "g[0] has all.");
});

test("ticks are 1, 2 or 5 times a power of ten and no more than wanted", () => {
  for (const total of [1, 7, 950, 12345, 8.1e6]) {
    for (const most of [2, 5, 9]) {
      const distance = format.tickDistance(total, most);
      assert.ok(total / distance <= most * (1 + 1e-6), `${total} ${most}`);
      assert.ok([1, 2, 5].includes(Math.round(distance / 10 ** Math.floor(Math.log10(distance) + 1e-9))), `${distance}`);
    }
  }
});

test("the load scale gets darker (on dark: lighter) all the way", () => {
  for (const [theme, way] of [["light", -1], ["dark", 1]]) {
    const values = Array.from({ length: 21 }, (_, i) => colour.luminance(colour.loadColour(i / 20, theme)));
    values.slice(1).forEach((v, i) => assert.ok((v - values[i]) * way > 0, `${theme} ${i}`));
  }
  assert.equal(colour.loadColour(2, "light"), colour.loadColour(1, "light"));
});

test("origins have colours of their own, with text that can be read on them", () => {
  for (const count of [2, 8, 9, 16]) {
    const colours = Array.from({ length: count }, (_, i) => colour.originColour(i, count));
    assert.equal(new Set(colours).size, count);
    for (const c of colours) {
      assert.match(c, /^#[0-9a-f]{6}$/);
      const [low, high] = [colour.luminance(c), colour.luminance(colour.textOn(c))].sort((a, b) => a - b);
      assert.ok((high + 0.05) / (low + 0.05) > 4.4, c);
    }
  }
});

test("both directions of a link keep to their right and do not touch", () => {
  const [a, b] = [{ x: 0, y: 0 }, { x: 100, y: 0 }];
  const there = geometry.linkCurve(a, b, 0, 3, 10);
  const back = geometry.linkCurve(b, a, 0, 3, 10);
  assert.deepEqual([there.from.y, there.to.y, back.from.y, back.to.y], [3, 3, -3, -3]);
  assert.deepEqual([there.from.x, there.to.x], [10, 90]);
  const bent = geometry.linkCurve(a, b, 0.2, 0, 0);
  assert.deepEqual(geometry.pointOn(bent, 0.5), geometry.bentMiddle(a, b, 0.2));
  assert.deepEqual(geometry.pointOn(bent, 0), a);
  assert.deepEqual(geometry.pointOnChain([there, there], 0.5), there.from);
  assert.deepEqual(geometry.pointOnChain([there, there], 2), there.to);
  assert.match(geometry.curvePath(there), /^M10 3Q50 3 90 3$/);
});

test("hulls", () => {
  const square = [{ x: 0, y: 0 }, { x: 4, y: 0 }, { x: 4, y: 4 }, { x: 0, y: 4 }, { x: 2, y: 2 }, { x: 2, y: 0 }];
  const hull = geometry.convexHull(square);
  assert.equal(hull.length, 4);
  assert.ok(geometry.insideHull(hull, { x: 1, y: 3 }));
  assert.ok(!geometry.insideHull(hull, { x: 5, y: 3 }));
  assert.ok(!geometry.insideHull([{ x: 0, y: 0 }, { x: 1, y: 1 }], { x: 0, y: 0 }));
  assert.match(geometry.outlinePath([{ x: 0, y: 0 }], 5), /^M.*Z$/);
});

test("other data is refused", () => {
  assert.throws(() => model.readView('{"format": "acclc-view", "version": 99}'), /version 1, the data is acclc-view 99/);
  assert.throws(() => model.readView("{}"), /acclc-view/);
  assert.equal(model.buildModel(view, 9, 0, 0), null);
});

test("a collective without a schedule has a model all the same", () => {
  const made = model.buildModel(view, 0, 7, 0);
  assert.deepEqual([made.solved, made.transfers.length, made.rows.length, model.stepAt(made, 0)], [false, 0, 0, 0]);
  assert.ok(model.linkLoads(made, null).every((l) => l === 0));
  assert.equal(model.progress(made, 0).size, 0);
  assert.ok(ring.solved);
});

test("a model has the transfers with their times, and chunks with labels", () => {
  assert.equal(ring.transfers.length, 12);
  assert.equal(ring.total, 303000);
  assert.deepEqual(ring.stepStarts, [0, 101000, 202000]);
  assert.deepEqual(ring.chunks.map((k) => k.label), ["0", "1", "2", "3"]);
  assert.deepEqual(chain.chunks.map((k) => k.label), ["0", "1"]);
  assert.equal(model.chunkName(chain, 1), "1: 1/3 to 1 of x[0]");
  assert.equal(model.chunkName(ring, 2), "2: all of x[2]");
  assert.equal(model.linkName(ring, 0), "g[0] → g[1]");
});

test("what is on the way, which step it is, and how much each rank has", () => {
  assert.equal(model.activeTransfers(ring.transfers, 0).length, 4);
  assert.equal(model.activeTransfers(ring.transfers, 303000).length, 0);
  assert.deepEqual([0, 100999, 101000, 303000].map((t) => model.stepAt(ring, t)), [0, 0, 1, 2]);
  assert.deepEqual([...model.progress(ring, 0).values()], [0.25, 0.25, 0.25, 0.25]);
  assert.deepEqual([...model.progress(ring, 101000).values()], [0.5, 0.5, 0.5, 0.5]);
  assert.deepEqual([...model.progress(ring, 303000).values()], [1, 1, 1, 1]);
  assert.deepEqual([model.nextStop(ring, 0, 1), model.nextStop(ring, 150000, 1), model.nextStop(ring, 303000, 1)], [101000, 202000, 303000]);
  assert.deepEqual([model.nextStop(ring, 303000, -1), model.nextStop(ring, 150000, -1), model.nextStop(ring, 0, -1)], [202000, 101000, 0]);
});

test("following a chunk, a rank, or a chunk to a rank: its tree", () => {
  assert.equal(model.followed(ring, { rank: null, chunk: null }), null);
  assert.equal(model.followed(ring, { rank: null, chunk: 2 }).size, 3);
  const touching = model.followed(ring, { rank: 1, chunk: null });
  assert.equal(touching.size, 6);
  for (const id of touching) assert.ok([ring.transfers[id].src, ring.transfers[id].dst].includes(1));
  assert.equal(model.followed(ring, { rank: 2, chunk: 0 }).size, 2);
  assert.equal(model.followed(ring, { rank: 0, chunk: 0 }).size, 0);
  const tree = model.followed(chain, { rank: 0, chunk: 1 });
  assert.equal(tree.size, 3);
  for (const id of tree) assert.equal(chain.transfers[id].chunk, 1);
});

test("loads of the whole and of a step", () => {
  assert.deepEqual([...model.linkLoads(ring, null)].sort(), [0, 0, 0, 0, 1, 1, 1, 1]);
  assert.equal(model.linkLoads(chain, 0).filter((l) => l > 0).length, 1);
  assert.equal(model.linkLoads(chain, 1).filter((l) => l > 0).length, 2);
});

test("a reduction is said", () => {
  const reducing = chain.transfers.find((t) => t.operands.length > 1);
  assert.equal(model.operandWords(chain, reducing.id), "reduces what came from g[3] in step 1 with its own");
  assert.equal(model.operandWords(ring, 0), "sends its own");
});

test("rows of the Gantt: links in order, as high as their lanes, hit where they are drawn", () => {
  assert.equal(ring.rows.length, 4);
  assert.deepEqual(ring.rows.map((r) => r.lanes), [1, 1, 1, 1]);
  assert.deepEqual(star.rows.map((r) => r.lanes), [2, 2, 2, 2, 2, 2]);
  const ends = star.rows.map((r) => star.topology.links[r.link]);
  ends.slice(1).forEach((e, i) => assert.ok(ends[i].src < e.src || (ends[i].src === e.src && ends[i].dst < e.dst)));
  const { tops, height } = gantt.rowPlaces(star.rows);
  assert.equal(tops[0], 0);
  assert.ok(height > tops[5]);
  for (const [i, row] of star.rows.entries()) {
    for (const bar of row.bars) {
      const lane = bar.lanes[bar.path.indexOf(row.link)];
      const hit = gantt.hitTest(star.rows, tops, tops[i] + lane * 15 + 5, (bar.start + bar.sent) / 2, 0);
      assert.deepEqual(hit, { row: i, transfer: bar.id });
    }
  }
  assert.equal(gantt.hitTest(star.rows, tops, height + 1, 0, 0), null);
  assert.deepEqual(gantt.hitTest(star.rows, tops, 5, -Infinity, 0), { row: 0, transfer: null });
});

test("pairs of ranks are labelled by both, and short by where they go", () => {
  const pairs = structuredClone(view);
  pairs.collectives[0].shards.forEach((s, i) => { s.sources = [i]; s.targets = [(i + 1) % 4]; });
  const made = model.buildModel(pairs, 0, 0, 0);
  assert.deepEqual(made.chunks.map((k) => k.label), ["0→1", "1→2", "2→3", "3→0"]);
  assert.deepEqual(made.chunks.map((k) => k.short), ["1", "2", "3", "0"]);
});

test("the step table", () => {
  const rows = panel.stepRows(ring);
  assert.deepEqual(rows.map((r) => [r.number, r.rounds, r.transfers, r.links, r.most, r.mean, r.fullest]),
    [1, 2, 3].map((n) => [n, 1, 4, 4, 1, 0.5, 4]));
});

test("playing moves the time and ends at the end", () => {
  assert.deepEqual(player.advance(0, 90, 9000, 1), { time: 90, playing: true });
  assert.deepEqual(player.advance(0, 90, 9000, 4), { time: 360, playing: true });
  assert.deepEqual(player.advance(8990, 90, 9000, 1), { time: 9000, playing: false });
});

test("the store tells what changed, and only then", () => {
  const kept = store.createStore({ ...store.START });
  const seen = [];
  kept.subscribe((state, changed) => seen.push([state.rank, [...changed]]));
  kept.set({ rank: null });
  kept.set({ rank: 3, time: 0 });
  assert.deepEqual(seen, [[3, ["rank"]]]);
});

test("a link to the page chooses by name or number and ignores what is unknown", () => {
  assert.deepEqual(store.stateFromHash("#collective=reduce_1&variant=c2s4r4&time=0.5&chunk=1&theme=dark", view),
    { collective: 1, variant: 0, theme: "dark", chunk: 1, part: 0.5 });
  assert.deepEqual(store.stateFromHash("#collective=2&rank=2&load=step", view), { collective: 2, variant: 0, load: "step", rank: 2 });
  assert.deepEqual(store.stateFromHash("#collective=none&variant=9&time=7&chunk=99&rank=-1&theme=pink", view), { collective: 0, variant: 0 });
  assert.deepEqual(store.stateFromHash("", view), { collective: 0, variant: 0 });
});

test("the kernel is unpacked, its lines mapped both ways", async () => {
  const data = view.collectives[0].variants[0].kernel;
  assert.equal(await kernel.unpackSource(data.zlib), "// kernel\n");
  const map = kernel.lineMap({ line: [3, 3, 9], transfer: [1, 2, 1] });
  assert.deepEqual([map.ofLine.get(3), map.ofTransfer.get(1), map.ofLine.get(4)], [[1, 2], [3, 9], undefined]);
});
