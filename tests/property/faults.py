"""Seeded faults in the JSON of schedule.json, program.json and kernel.json: each changes one thing of the text."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

Json = Any
Fault = Callable[[random.Random, Json], bool]
"""Changes the value in place; False where there is nothing to change."""


def _pick(rng: random.Random, items: list[Any]) -> Any:
    return items[rng.randrange(len(items))] if items else None


def _shift(rng: random.Random, item: Json, key: str, by: tuple[int, ...] = (-1, 1)) -> bool:
    item[key] += rng.choice(by)
    return True


def _move_edge(rng: random.Random, extent: Json) -> bool:
    key = rng.choice(["begin", "end"])
    step = Fraction(rng.choice([-1, 1]), rng.choice([2, 3, 4, 16]))
    extent[key] = str(Fraction(extent[key]) + step)
    return True


def _swap(rng: random.Random, items: list[Any]) -> bool:
    if len(items) < 2:
        return False
    n = rng.randrange(len(items) - 1)
    items[n], items[n + 1] = items[n + 1], items[n]
    return True


# --- schedule.json


def _transfer(rng: random.Random, s: Json) -> Json:
    return _pick(rng, s["transfers"])


def drop_transfer(rng: random.Random, s: Json) -> bool:
    """Without the transfer, as its author would: later ids move up, its users lose the operand."""
    gone = _transfer(rng, s)["id"]
    s["transfers"] = [t for t in s["transfers"] if t["id"] != gone]
    for user in s["transfers"] + s["outputs"]:
        user["operands"] = [o - (o > gone) for o in user["operands"] if o != gone] or [-1]
        if "id" in user:
            user["id"] -= user["id"] > gone
    return True


def move_to_another_step(rng: random.Random, s: Json) -> bool:
    """The transfers are put in order again, so that only the step is at fault."""
    _shift(rng, _transfer(rng, s), "step", (-2, -1, 1, 2))
    order = sorted(range(len(s["transfers"])), key=lambda n: (s["transfers"][n]["step"], n))
    new = {old: n for n, old in enumerate(order)} | {-1: -1}
    s["transfers"] = [s["transfers"][n] for n in order]
    for user in s["transfers"] + s["outputs"]:
        user["operands"] = [new[o] for o in user["operands"]]
    for n, t in enumerate(s["transfers"]):
        t["id"] = n
    return True


def send_over_another_link(rng: random.Random, s: Json) -> bool:
    links = sorted({x for t in s["transfers"] for x in t["path"]})
    path = _transfer(rng, s)["path"]
    path[rng.randrange(len(path))] = _pick(rng, links)
    return True


def swap_chunk(rng: random.Random, s: Json) -> bool:
    _transfer(rng, s)["chunk"] = rng.randrange(len(s["chunks"]))
    return True


def reduce_twice(rng: random.Random, s: Json) -> bool:
    user = _pick(rng, s["transfers"] + s["outputs"])
    user["operands"].insert(rng.randrange(len(user["operands"]) + 1), _pick(rng, [-1, *user["operands"]]))
    return True


def drop_operand(rng: random.Random, s: Json) -> bool:
    user = _pick(rng, [u for u in s["transfers"] + s["outputs"] if len(u["operands"]) > 1])
    if user is not None:
        user["operands"].pop(rng.randrange(len(user["operands"])))
    return user is not None


def other_operand(rng: random.Random, s: Json) -> bool:
    user = _pick(rng, s["transfers"] + s["outputs"])
    user["operands"][rng.randrange(len(user["operands"]))] = rng.randrange(-1, len(s["transfers"]))
    return True


def change_order_of_reduction(rng: random.Random, s: Json) -> bool:
    user = _pick(rng, [u for u in s["transfers"] + s["outputs"] if len(u["operands"]) > 1])
    return user is not None and _swap(rng, user["operands"])


def drop_output(rng: random.Random, s: Json) -> bool:
    s["outputs"].pop(rng.randrange(len(s["outputs"])))
    return True


def double_output(rng: random.Random, s: Json) -> bool:
    s["outputs"].append(copy.deepcopy(_pick(rng, s["outputs"])))
    return True


def move_output(rng: random.Random, s: Json) -> bool:
    ranks = sorted({o["rank"] for o in s["outputs"]} | {t["src"] for t in s["transfers"]})
    _pick(rng, s["outputs"])["rank"] = _pick(rng, ranks)
    return True


def other_end(rng: random.Random, s: Json) -> bool:
    ranks = sorted({t[key] for t in s["transfers"] for key in ("src", "dst")})
    _transfer(rng, s)[rng.choice(["src", "dst"])] = _pick(rng, ranks)
    return True


def change_chunk_edge(rng: random.Random, s: Json) -> bool:
    return _move_edge(rng, _pick(rng, s["chunks"]))


def change_rounds(rng: random.Random, s: Json) -> bool:
    n = rng.randrange(len(s["rounds"]))
    s["rounds"][n] += rng.choice([-1, 1])
    return True


# --- program.json


def _blocks(p: Json) -> list[Json]:
    return [b for r in p["ranks"] for b in r["blocks"]]


def _operations(p: Json) -> list[Json]:
    return [o for b in _blocks(p) for o in b["operations"]]


def _extents(items: list[Json]) -> list[Json]:
    return [e for o in items for e in [*o["sources"], *([o["target"]] if o["target"] else [])]]


def drop_operation(rng: random.Random, p: Json) -> bool:
    block = _pick(rng, _blocks(p))
    if block["operations"]:
        block["operations"].pop(rng.randrange(len(block["operations"])))
    return True


def swap_operations(rng: random.Random, p: Json) -> bool:
    return _swap(rng, _pick(rng, _blocks(p))["operations"])


def drop_after(rng: random.Random, p: Json) -> bool:
    o = _pick(rng, [o for o in _operations(p) if o["after"]])
    if o is not None:
        o["after"].pop(rng.randrange(len(o["after"])))
    return o is not None


def other_after(rng: random.Random, p: Json) -> bool:
    o = _pick(rng, [o for o in _operations(p) if o["after"]])
    return o is not None and bool(o["after"].__setitem__(0, o["after"][0] + rng.choice([-1, 1])) or True)


def change_field(key: str) -> Fault:
    def fault(rng: random.Random, p: Json) -> bool:
        return _shift(rng, _pick(rng, [o for o in _operations(p) if o["kind"] != "compute"]), key)

    return fault


def change_unit(rng: random.Random, p: Json) -> bool:
    return _shift(rng, _pick(rng, _extents(_operations(p))), "unit")


def change_edge(rng: random.Random, p: Json) -> bool:
    return _move_edge(rng, _pick(rng, _extents(_operations(p))))


def change_edges_together(rng: random.Random, p: Json) -> bool:
    """All extents of one operation by the same amount: each still fits the others."""
    return _edges_of(rng, _pick(rng, _operations(p)))


def _edges_of(rng: random.Random, o: Json) -> bool:
    shift = Fraction(rng.choice([-1, 1]), rng.choice([2, 3, 4]))
    for e in _extents([o]):
        e["begin"], e["end"] = str(Fraction(e["begin"]) + shift), str(Fraction(e["end"]) + shift)
    return True


def change_buffer(rng: random.Random, p: Json) -> bool:
    _pick(rng, _extents(_operations(p)))["buffer"] = rng.choice(["in", "out", "scratch"])
    return True


def share_a_slot(rng: random.Random, p: Json) -> bool:
    """Every use of one slot becomes a use of another: it is reused early."""
    rank = _pick(rng, [r for r in p["ranks"] if r["slots"] > 1])
    if rank is None:
        return False
    gone, kept = rng.sample(range(rank["slots"]), 2)
    for e in _extents([o for b in rank["blocks"] for o in b["operations"]]):
        if e["buffer"] == "scratch" and e["unit"] == gone:
            e["unit"] = kept
    return True


def flip_final(rng: random.Random, p: Json) -> bool:
    o = _pick(rng, _operations(p))
    o["final"] = not o["final"]
    return True


def program_reduce_twice(rng: random.Random, p: Json) -> bool:
    return _double_source(rng, _operations(p))


def _double_source(rng: random.Random, items: list[Json]) -> bool:
    o = _pick(rng, [o for o in items if o["sources"]])
    o["sources"].insert(rng.randrange(len(o["sources"]) + 1), copy.deepcopy(_pick(rng, o["sources"])))
    return True


def program_drop_source(rng: random.Random, p: Json) -> bool:
    return _drop_source(rng, _operations(p))


def _drop_source(rng: random.Random, items: list[Json]) -> bool:
    o = _pick(rng, [o for o in items if len(o["sources"]) > 1])
    if o is not None:
        o["sources"].pop(rng.randrange(len(o["sources"])))
    return o is not None


def program_order_of_reduction(rng: random.Random, p: Json) -> bool:
    o = _pick(rng, [o for o in _operations(p) if len(o["sources"]) > 1])
    return o is not None and _swap(rng, o["sources"])


def change_block_link(rng: random.Random, p: Json) -> bool:
    return _shift(rng, _pick(rng, _blocks(p)), "link")


def change_header(rng: random.Random, p: Json) -> bool:
    key = rng.choice(["in_place", "positions", "contributors"])
    if key == "in_place":
        p[key] = rng.choice(["none", "same", "input_in_output", "output_in_input"])
    elif key == "positions":
        return _swap(rng, p[key])
    else:
        p[key] += 1
    return True


def change_slots(rng: random.Random, p: Json) -> bool:
    return _shift(rng, _pick(rng, p["ranks"]), "slots", (-1,))


# --- kernel.json


def _body(k: Json, *kinds: str) -> list[Json]:
    return [o for b in k["blocks"] for o in b["body"] if o["kind"] in kinds]


def _counted(k: Json, kind: str, *counters: str) -> list[tuple[Json, int]]:
    """(block list, position) of instructions of a kind on counters of the given kinds, entry included."""
    return [
        (items, n)
        for b in k["blocks"]
        for items in (b["entry"], b["body"])
        for n, o in enumerate(items)
        if o["kind"] == kind and (not counters or k["counters"][o["counter"]]["kind"] in counters)
    ]


def remove(kind: str, *counters: str) -> Fault:
    def fault(rng: random.Random, k: Json) -> bool:
        found = _pick(rng, _counted(k, kind, *counters))
        if found is not None:
            found[0].pop(found[1])
        return found is not None

    return fault


def move(kind: str, *counters: str) -> Fault:
    """Earlier or later in its block, past one to three others."""

    def fault(rng: random.Random, k: Json) -> bool:
        found = _pick(rng, _counted(k, kind, *counters))
        if found is None:
            return False
        items, n = found
        item = items.pop(n)
        items.insert(max(0, n + rng.choice([-3, -2, -1, 1, 2, 3])), item)
        return True

    return fault


def change_signal(key: str) -> Fault:
    def fault(rng: random.Random, k: Json) -> bool:
        return _shift(rng, _pick(rng, _body(k, "await", "post")), key)

    return fault


def change_lag(rng: random.Random, k: Json) -> bool:
    o = _pick(rng, [o for o in _body(k, "await") if o["lag"] > 0] or _body(k, "await"))
    return _shift(rng, o, "lag", (-2, -1, 1, 2))


def other_counter(rng: random.Random, k: Json) -> bool:
    _pick(rng, _body(k, "await", "post"))["counter"] = rng.randrange(len(k["counters"]))
    return True


def change_counter(key: str) -> Fault:
    return lambda rng, k: _shift(rng, _pick(rng, k["counters"]), key)


def change_depth(rng: random.Random, k: Json) -> bool:
    return _shift(rng, k, "slot_depth", (-1, 1, 2))


def drop_put(rng: random.Random, k: Json) -> bool:
    found = _pick(rng, _counted(k, "put"))
    found[0].pop(found[1])
    return True


def double_put(rng: random.Random, k: Json) -> bool:
    items, n = _pick(rng, _counted(k, "put"))
    items.insert(rng.randrange(len(items) + 1), copy.deepcopy(items[n]))
    return True


def change_place(key: str) -> Fault:
    def fault(rng: random.Random, k: Json) -> bool:
        extent = _pick(rng, _extents(_body(k, "put")))
        if key == "unit":
            return _shift(rng, extent, "unit")
        extent["buffer"] = rng.choice(["in", "out", "scratch"])
        return True

    return fault


def kernel_edge(rng: random.Random, k: Json) -> bool:
    return _move_edge(rng, _pick(rng, _extents(_body(k, "put"))))


def kernel_edges_together(rng: random.Random, k: Json) -> bool:
    return _edges_of(rng, _pick(rng, _body(k, "put")))


def kernel_share_a_slot(rng: random.Random, k: Json) -> bool:
    rank = _pick(rng, [r for r in k["ranks"] if r["slots"] > 1])
    if rank is None:
        return False
    gone, kept = rng.sample(range(rank["slots"]), 2)
    for b in k["blocks"]:
        for o in b["body"]:
            for e in o["sources"] if b["rank"] == rank["rank"] else []:
                if e["buffer"] == "scratch" and e["unit"] == gone:
                    e["unit"] = kept
            target = o["target"] if o["target_rank"] == rank["rank"] else None
            if target and target["buffer"] == "scratch" and target["unit"] == gone:
                target["unit"] = kept
    return True


def kernel_flip_final(rng: random.Random, k: Json) -> bool:
    o = _pick(rng, _body(k, "put"))
    o["final"] = not o["final"]
    return True


def change_target_rank(rng: random.Random, k: Json) -> bool:
    _pick(rng, _body(k, "put"))["target_rank"] = _pick(rng, k["ranks"])["rank"]
    return True


def kernel_order_of_reduction(rng: random.Random, k: Json) -> bool:
    o = _pick(rng, [o for o in _body(k, "put") if len(o["sources"]) > 1])
    return o is not None and _swap(rng, o["sources"])


FAULTS: dict[str, dict[str, Fault]] = {
    "schedule": {
        "transfer dropped": drop_transfer,
        "moved to another step": move_to_another_step,
        "sent over another link": send_over_another_link,
        "chunk swapped": swap_chunk,
        "contribution reduced twice": reduce_twice,
        "contribution dropped": drop_operand,
        "another operand": other_operand,
        "order of reduction": change_order_of_reduction,
        "output dropped": drop_output,
        "output doubled": double_output,
        "output at another rank": move_output,
        "another end": other_end,
        "chunk edge off": change_chunk_edge,
        "rounds off by one": change_rounds,
    },
    "program": {
        "operation dropped": drop_operation,
        "operations reordered": swap_operations,
        "dependency removed": drop_after,
        "dependency changed": other_after,
        "fifo off by one": change_field("fifo"),
        "peer changed": change_field("peer"),
        "channel changed": change_field("channel"),
        "transfer changed": change_field("transfer"),
        "step changed": change_field("step"),
        "unit off by one": change_unit,
        "offset off": change_edge,
        "operation's offsets off": change_edges_together,
        "buffer changed": change_buffer,
        "slot reused early": share_a_slot,
        "final flipped": flip_final,
        "contribution reduced twice": program_reduce_twice,
        "contribution dropped": program_drop_source,
        "order of reduction": program_order_of_reduction,
        "block's link changed": change_block_link,
        "header changed": change_header,
        "too few slots": change_slots,
    },
    "kernel": {
        "signal removed": remove("post", "arrival", "local"),
        "wait removed": remove("await", "arrival", "local"),
        "credit post removed": remove("post", "credit"),
        "credit wait removed": remove("await", "credit"),
        "entry post removed": remove("post", "entry"),
        "entry wait removed": remove("await", "entry"),
        "signal reordered": move("post", "arrival", "local"),
        "wait reordered": move("await", "arrival", "local"),
        "credit post reordered": move("post", "credit"),
        "credit wait reordered": move("await", "credit"),
        "put reordered": move("put"),
        "index off by one": change_signal("index"),
        "lag changed": change_lag,
        "another counter": other_counter,
        "counter's events changed": change_counter("events"),
        "counter's home changed": change_counter("home"),
        "counter's writer changed": change_counter("writer"),
        "counter's writing block changed": change_counter("writer_block"),
        "slot depth changed": change_depth,
        "slot reused early": kernel_share_a_slot,
        "unit off by one": change_place("unit"),
        "buffer changed": change_place("buffer"),
        "offset off": kernel_edge,
        "put's offsets off": kernel_edges_together,
        "put dropped": drop_put,
        "put doubled": double_put,
        "final flipped": kernel_flip_final,
        "target rank changed": change_target_rank,
        "contribution reduced twice": lambda rng, k: _double_source(rng, _body(k, "put")),
        "contribution dropped": lambda rng, k: _drop_source(rng, _body(k, "put")),
        "order of reduction": kernel_order_of_reduction,
        "block's link changed": lambda rng, k: _shift(rng, _pick(rng, k["blocks"]), "link"),
        "header changed": change_header,
        "too few slots": change_slots,
    },
}


def make_fault(fault: Fault, rng: random.Random, text: str) -> Json | None:
    """Return the changed value of a JSON text, or None where the fault finds nothing to change or changes nothing."""
    changed = json.loads(text)
    if not fault(rng, changed) or changed == json.loads(text):
        return None
    return changed
