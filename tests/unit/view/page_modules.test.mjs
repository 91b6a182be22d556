// The pure functions of the page's modules. PAGES is the folder of the modules, VIEW a view.json to read.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const load = (name) => import(`${process.env.PAGES}/${name}.mjs`);
const colour = await load("colour");
const figures = await load("figures");
const format = await load("format");
const gantt = await load("gantt");
const geometry = await load("geometry");
const kernel = await load("kernel");
const model = await load("model");
const pane = await load("pane");
const panel = await load("panel");
const player = await load("player");
const program = await load("program");
const scene = await load("scene");
const store = await load("store");
const tree = await load("tree");
const graph = await load("graph");

const text = readFileSync(process.env.VIEW, "utf-8");
const view = model.readView(text);
const ring = model.buildModel(view, 0, 0, 0);
const chain = model.buildModel(view, 1, 0, 0);
const star = model.buildModel(view, 2, 0, 0);
const cluster = model.buildModel(view, 3, 0, 0);

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
  assert.deepEqual([0.25, 0.5, 2].map((part) => geometry.chainOf(2, part)), [{ index: 0, part: 0.5 }, { index: 1, part: 0 }, { index: 1, part: 1 }]);
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
  assert.throws(() => model.readView('{"format": "acclc-view", "version": 99}'), /version 2, the data is acclc-view 99/);
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
  assert.deepEqual(store.stateFromHash("#collective=3&box=5&size=0", view), { collective: 3, variant: 0, box: 5, size: 0 });
  assert.deepEqual(store.stateFromHash("#beside=reduce_1", view),
    { collective: 0, variant: 0, beside: true, collective1: 1, variant1: 0, size1: 1 });
});

test("the kernel is unpacked, its lines mapped both ways", async () => {
  const data = view.collectives[0].variants[0].kernel;
  assert.equal(await kernel.unpackSource(data.zlib), "// kernel\n");
  const map = kernel.lineMap({ line: [3, 3, 9], transfer: [1, 2, 1] });
  assert.deepEqual([map.ofLine.get(3), map.ofTransfer.get(1), map.ofLine.get(4)], [[1, 2], [3, 9], undefined]);
});

test("the page begins with the variant that large calls take", () => {
  const times = [{ size_bytes: 1000, measured: false }, { size_bytes: 10 ** 9, measured: false }];
  const variant = (min_bytes, max_bytes) => ({ min_bytes, max_bytes, times });
  assert.equal(store.bestVariant({ variants: [variant(0, 5000), variant(null, null), variant(5000, null)] }), 2);
  assert.equal(store.bestVariant({ variants: [variant(0, 5000), variant(null, null)] }), 0);
  assert.equal(store.bestVariant({ variants: [] }), 0);
  const shown = { collectives: [{ variants: [{ times: [...times, { size_bytes: 10 ** 9, measured: true }] }] }] };
  assert.equal(store.lastSize(shown, 0, 0), 1);
});

test("beside a schedule: the same collective of another artefact, else another variant", () => {
  const make = (artefact, name, count) =>
    ({ artefact, name, variants: Array.from({ length: count }, () => ({ min_bytes: 0, max_bytes: null, times: [{ size_bytes: 1, measured: false }] })) });
  const two = { collectives: [make("a", "x", 2), make("a", "y", 1), make("b", "y", 3), make("b", "x", 1)] };
  assert.equal(store.firstBeside(two, 0, 0).collective1, 3);
  assert.equal(store.firstBeside(two, 1, 0).collective1, 2);
  const one = { collectives: [make("", "x", 3)] };
  assert.deepEqual([0, 1, 2].map((v) => store.firstBeside(one, 0, v).variant1), [1, 0, 1]);
});

test("a machine is drawn whole, by box, or one box with what it is linked to", () => {
  const whole = scene.buildScene(ring.topology, null);
  assert.deepEqual([whole.nodes.length, whole.edges.length, whole.byBox], [4, 8, false]);
  assert.deepEqual([...whole.edgeOf], [0, 1, 2, 3, 4, 5, 6, 7]);
  const boxes = scene.buildScene(cluster.topology, null);
  assert.ok(boxes.byBox);
  assert.deepEqual([boxes.nodes.length, boxes.edges.length], [28, 320]);
  assert.equal(boxes.nodes[5].label, "5");
  assert.equal(boxes.nodeOf[5 * 8 + 3], 5);
  for (const [id, link] of cluster.topology.links.entries()) {
    const edge = boxes.edges[boxes.edgeOf[id]];
    const [src, dst] = [boxes.nodeOf[link.src], boxes.nodeOf[link.dst]];
    if (src === dst) assert.equal(boxes.edgeOf[id], -1);
    else assert.deepEqual([edge.src, edge.dst, edge.links.includes(id)], [src, dst, true]);
  }
  const spots = new Set(boxes.nodes.map((n) => `${n.x} ${n.y}`));
  assert.equal(spots.size, boxes.nodes.length);
  const inside = scene.buildScene(cluster.topology, 5);
  assert.deepEqual([inside.nodes.length, inside.edges.length, inside.inside], [8 + 1 + 8, 32, 5]);
  assert.equal(inside.nodeOf[4 * 8], -1);
  assert.ok(inside.nodes.filter((n) => n.name.startsWith("rail")).every((n) => n.y < inside.nodes[0].y - 1));
});

test("several links between two boxes are one edge, with their load weighed by capacity", () => {
  const topology = {
    nodes: ["a.g[0]", "a.g[1]", "b.g[0]", "b.g[1]"].map((name, i) => ({ name, kind: "gpu", x: i, y: 0 })),
    links: [{ src: 0, dst: 2, capacity_GBps: 10, bend: 0.2 }, { src: 1, dst: 3, capacity_GBps: 30, bend: 0 }, { src: 0, dst: 1, capacity_GBps: 50, bend: 0 }],
    boxes: [{ name: "a", nodes: [0, 1] }, { name: "b", nodes: [2, 3] }],
  };
  const inside = scene.buildScene(topology, 0);
  assert.deepEqual(inside.nodes.map((n) => n.name), ["a.g[0]", "a.g[1]", "b"]);
  assert.equal(inside.edges.length, 3);
  topology.nodes.push(...Array.from({ length: 200 }, (_, i) => ({ name: `s${i}`, kind: "switch", x: i, y: 5 })));
  const boxes = scene.buildScene(topology, null);
  assert.deepEqual(boxes.edges.map((e) => [e.links, e.capacity]), [[[0, 1], 40]]);
  assert.deepEqual(scene.edgeLoads(boxes, topology, [1, 0, 0.7]), [0.25]);
  assert.deepEqual([...scene.edgesOf(boxes, [1, 2])], [0]);
  assert.deepEqual(scene.nodesWithin(boxes, [0, 1, 2]), [0]);
  assert.deepEqual(scene.placeOnPath(boxes, [2, 1], 0.75), { edge: 0, part: 0.5 });
  assert.equal(scene.placeOnPath(boxes, [2, 1], 0.25), null);
  assert.deepEqual([scene.isDrawn(boxes, [2]), scene.isDrawn(boxes, [2, 0])], [false, true]);
});

test("of very many moving chunks some are drawn, and of more than that a part of the same", () => {
  assert.deepEqual([1, 360, 361, 5000].map(graph.dotStride), [1, 1, 2, 16]);
  const sampled = (stride) => Array.from({ length: 20000 }, (_, i) => i).filter((id) => graph.isSampled(id, stride));
  assert.equal(sampled(1).length, 20000);
  for (const stride of [2, 8, 64]) {
    const found = sampled(stride);
    assert.ok(Math.abs(found.length * stride / 20000 - 1) < 0.2, `${stride}: ${found.length}`);
    const fewer = new Set(sampled(stride * 2));
    assert.ok([...fewer].every((id) => graph.isSampled(id, stride)));
  }
});

test("a chunk's tree: from the origin, or for a reduction to the root", () => {
  const down = tree.chunkTree(ring, 2, null, model.followed(ring, { rank: null, chunk: 2 }));
  assert.deepEqual(down.nodes.map((n) => [n.rank, n.level, n.own, n.final]), [[2, 0, true, true], [3, 1, false, true], [0, 2, false, true], [1, 3, false, true]]);
  assert.deepEqual(down.edges.map((e) => [e.from, e.to]), [[0, 1], [1, 2], [2, 3]]);
  const up = tree.chunkTree(chain, 1, null, model.followed(chain, { rank: null, chunk: 1 }));
  assert.deepEqual(up.nodes.filter((n) => n.merges).map((n) => n.rank).sort(), [0, 1, 2]);
  assert.deepEqual(up.nodes.filter((n) => n.final).map((n) => [n.rank, n.level]), [[0, 3]]);
  const part = tree.chunkTree(ring, 2, 0, model.followed(ring, { rank: 0, chunk: 2 }));
  assert.deepEqual(part.nodes.map((n) => [n.rank, n.final]), [[2, false], [3, false], [0, true]]);
  const both = tree.chunkTree(cluster, 3, null, model.followed(cluster, { rank: null, chunk: 3 }));
  assert.equal(both.edges.length, cluster.transfers.filter((t) => t.chunk === 3).length);
  assert.equal(new Set(both.nodes.filter((n) => n.final).map((n) => n.rank)).size, 160);
  for (const { from, to } of both.edges) assert.ok(both.nodes[from].level < both.nodes[to].level);
  for (const [level, xs] of Object.entries(Object.groupBy ? Object.groupBy(both.nodes, (n) => n.level) : {})) {
    assert.equal(new Set(xs.map((n) => n.x)).size, xs.length, level);
  }
});

test("a rank's program, block by block, and what runs now", async () => {
  const text = await kernel.unpackSource(chain.variant.program.zlib);
  const packed = JSON.parse(text);
  const words = (rank) => program.rankBlocks(packed, rank, chain).map((b) => [b.title, b.lines.map((x) => `${x.kind} ${x.words}`)]);
  const middle = words(2).flatMap(([, lines]) => lines);
  assert.deepEqual(middle.filter((x) => x.startsWith("send")).length, 2);
  assert.ok(middle.some((x) => /^receive g\[3\] → slot \d+$/.test(x)), middle.join("; "));
  assert.ok(middle.some((x) => /^send slot \d+ \+ in 0, 0 to 1\/3 → g\[1\]$/.test(x)), middle.join("; "));
  assert.ok(words(3).some(([title]) => title.includes("g[3] → g[2]")));
  assert.deepEqual(program.rankBlocks(packed, 9, chain), []);
  const [transfer] = chain.transfers;
  const line = { kind: "send", transfer: transfer.id };
  assert.ok(program.runs(line, chain, transfer.start));
  assert.ok(!program.runs(line, chain, transfer.sent));
  assert.ok(program.runs({ ...line, kind: "receive" }, chain, transfer.sent));
  assert.ok(!program.runs({ kind: "compute", transfer: -1 }, chain, 0));
});

test("times beside the bound, ring and tree; measured beside simulated", () => {
  assert.deepEqual(figures.timeRows(ring).map((r) => [r.name, r.ns, r.kind]),
    [["bound", 50000, "bound"], [ring.variant.id, 303000, "here"], ["ring", 700000, "other"], ["tree", 900000, "other"]]);
  assert.deepEqual(figures.timeRows(cluster), []);
  const measured = structuredClone(view);
  const { times } = measured.collectives[0].variants[0];
  times.push({ ...times[0], measured: true, total_ns: 400000 });
  const rows = figures.timeRows(model.buildModel(measured, 0, 0, 0));
  assert.deepEqual(rows.map((r) => r.kind), ["bound", "here", "measured", "other", "other"]);
  assert.equal(rows[2].ns, 400000);
});

test("two schedules compared, and one chunk's data found in the other", () => {
  const rows = new Map(figures.comparisonRows(ring, star).map(([name, ...values]) => [name, values]));
  assert.deepEqual(rows.get("Machine"), ["ring", "star"]);
  assert.deepEqual(rows.get("Transfers"), ["12", "6"]);
  assert.deepEqual(rows.get("Steps"), ["3", "1"]);
  assert.deepEqual(rows.get("Links used"), ["4 of 8", "6 of 6"]);
  assert.deepEqual(pane.sameData(ring, 1, star), [1]);
  assert.deepEqual(pane.sameData(ring, 3, star), []);
  assert.deepEqual([...pane.followedThere(ring, star, { rank: 0, chunk: 1 })].map((id) => star.transfers[id].chunk), [1]);
  assert.equal(pane.followedThere(ring, star, { rank: null, chunk: 3 }), null);
});

test("what is said of a moment", () => {
  assert.equal(pane.statusWords(ring, { time: 0 }, null, 1), "Step 1 of 3: 4 chunks on the way");
  assert.equal(pane.statusWords(ring, { time: 0 }, new Set([0]), 4), "Step 1 of 3: 1 chunk on the way, following 1 transfer, one in 4 drawn");
  assert.match(pane.statusWords(ring, { time: 303000 }, null, 1), /^Done: .* in 303 µs, .* GB\/s simulated$/);
});

test("rows of many lanes are lower, and found where they are", () => {
  assert.deepEqual([1, 4, 5, 60].map(gantt.laneHeight), [15, 15, 12, 4]);
  assert.deepEqual([-1, 0, 9, 10, 25, 99].map((y) => gantt.rowAt([0, 10, 20], y)), [-1, 0, 0, 1, 2, 2]);
  assert.equal(gantt.rowAt([], 3), -1);
});
