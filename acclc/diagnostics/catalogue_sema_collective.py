"""The codes of collectives: groups, options, chunks, and what to emit."""

from __future__ import annotations

from acclc.diagnostics.entry import CatalogueEntry


def _custom(body: str) -> str:
    return "collective c on line(2) {\n" + "".join(f"    {line}\n" for line in body.split("; ")) + "}\n"


COLLECTIVE_CODES: tuple[CatalogueEntry, ...] = (
    CatalogueEntry(
        "unknown-collective",
        "no collective of that name",
        "There are all_gather, reduce_scatter, all_reduce, broadcast, reduce, gather, scatter, all_to_all,"
        " all_to_all_v and send_recv; anything else is stated by chunks: `collective NAME on TOPOLOGY { ... }`.",
        "allgather on dgx1\n",
        "all_gather on dgx1\n",
    ),
    CatalogueEntry(
        "uneven-counts",
        "all_to_all_v inside `together`",
        "The counts of an all_to_all_v go with each call; several collectives at the same time are one call with one"
        " count.",
        "together { all_to_all_v on dgx1 }\n",
        "all_to_all_v on dgx1\n",
    ),
    CatalogueEntry(
        "unknown-operator",
        "no operator of that name",
        "Reductions are sum, prod, min, max and avg.",
        "all_reduce on dgx1 { op add }\n",
        "all_reduce on dgx1 { op sum }\n",
    ),
    CatalogueEntry(
        "misplaced-option",
        "an option without a meaning here",
        "`root` is for broadcast, reduce, gather and scatter; `op` for what reduces; `pairs` for send_recv. Goals,"
        " limits, the deadline and hints are for a whole problem: behind `together { ... }`, in `with { ... }`.",
        "all_gather on dgx1 { op sum }\n",
        "all_reduce on dgx1 { op sum }\n",
    ),
    CatalogueEntry(
        "duplicate-option",
        "an option that is said twice",
        "Each option is said once.",
        "all_gather on dgx1 { goal latency, goal bandwidth }\n",
        "all_gather on dgx1 { goal pareto }\n",
    ),
    CatalogueEntry(
        "goal-and-limit",
        "a point and a limit at the same time",
        "A goal that is a point (`goal chunks 2, steps 2, rounds 3`) says these numbers exactly. Limits"
        " (`chunks up to 6`) are for the other goals.",
        "all_gather on dgx1 { goal chunks 2, steps 2, rounds 3, chunks up to 6 }\n",
        "all_gather on dgx1 { goal chunks 2, steps 2, rounds 3 }\n",
    ),
    CatalogueEntry(
        "bad-limit",
        "a limit out of its range",
        "Chunks, steps and rounds are from 1 to 1,000,000, channels from 1 to 64, blocks from 2 to 1,000,000: one"
        " block of a GPU does its local work, the others serve its links.",
        "all_gather on dgx1 { chunks up to 0 }\n",
        "all_gather on dgx1 { chunks up to 6 }\n",
    ),
    CatalogueEntry(
        "reversed-sizes",
        "a range of sizes that runs backwards",
        "The smaller size comes first.",
        "all_gather on dgx1 { goal size 1 GiB .. 1 KiB }\n",
        "all_gather on dgx1 { goal size 1 KiB .. 1 GiB }\n",
    ),
    CatalogueEntry(
        "bad-name",
        "a name that cannot be a function",
        "The name of a collective becomes a function of the compiled module: no word of Python's, none of the"
        " module's own functions (describe, join, load, local), and no other collective's name.",
        "all_reduce on dgx1 as lambda\n",
        "all_reduce on dgx1 as gradients\n",
    ),
    CatalogueEntry(
        "not-a-gpu",
        "something that is no GPU where ranks are named",
        "Ranks are GPUs: groups, roots, pairs, relays and chunks name GPUs only.",
        "broadcast on star { root hub }\n",
        "broadcast on star { root g[0] }\n",
    ),
    CatalogueEntry(
        "duplicate-rank",
        "a rank that is named twice",
        "A list of ranks names each one once; its order gives the group ranks.",
        "all_gather on dgx1 among g[0..3], g[3]\n",
        "all_gather on dgx1 among g[0..3], g[4]\n",
    ),
    CatalogueEntry(
        "too-few-ranks",
        "fewer than two ranks",
        "A collective is among two GPUs or more.",
        "all_gather on dgx1 among g[0]\n",
        "all_gather on dgx1 among g[0..1]\n",
    ),
    CatalogueEntry(
        "root-outside-group",
        "a root that is not in the group",
        "The root is one of the ranks of the group; without `root` it is the first of them.",
        "broadcast on dgx1 among g[0..3] { root g[4] }\n",
        "broadcast on dgx1 among g[0..3] { root g[3] }\n",
    ),
    CatalogueEntry(
        "relay-outside-group",
        "a relay that is not in the group",
        "A collective runs on the GPUs of its group alone: the others run nothing, so they cannot pass data on.\n"
        "Switches, hosts and NICs need not be named.",
        "broadcast on dgx1 among g[0..3] { relays g[4] }\n",
        "broadcast on dgx1 among g[0..3] { relays g[3] }\n",
    ),
    CatalogueEntry(
        "many-roots",
        "more than one root",
        "There is one root. An array without an index names all its nodes.",
        "broadcast on dgx1 { root g }\n",
        "broadcast on dgx1 { root g[0] }\n",
    ),
    CatalogueEntry(
        "pair-outside-group",
        "a pair with a rank that is not in the group",
        "send_recv moves data between ranks of its group.",
        "send_recv on dgx1 among g[0..3] { pairs g[0] -> g[4] }\n",
        "send_recv on dgx1 among g[0..3] { pairs g[0] -> g[3] }\n",
    ),
    CatalogueEntry(
        "uneven-pair",
        "senders and receivers that do not make pairs",
        "Both sides of `->` name equally many GPUs, which are joined in order.",
        "send_recv on dgx1 { pairs g[0..3] -> g[4..6] }\n",
        "send_recv on dgx1 { pairs g[0..3] -> g[4..7] }\n",
    ),
    CatalogueEntry(
        "duplicate-pair",
        "a pair that is there twice",
        "send_recv moves one vector for each pair.",
        "send_recv on dgx1 { pairs g[0] -> g[1], g[0] -> g[1] }\n",
        "send_recv on dgx1 { pairs g[0] -> g[1], g[1] -> g[0] }\n",
    ),
    CatalogueEntry(
        "not-connected",
        "data has no way to where it is needed",
        "From every rank that holds data, links must lead to every rank that needs it. Links written `->` lead in"
        " one direction only. GPUs outside the group of `among` run nothing, so they pass nothing on.",
        "topology x {\n    link l { 1 GB/s }\n    gpu g[2]\n    g[0] -> g[1] : l\n}\nall_gather on x\n",
        "topology x {\n    link l { 1 GB/s }\n    gpu g[2]\n    g[0] <-> g[1] : l\n}\nall_gather on x\n",
    ),
    CatalogueEntry(
        "relays-too-few",
        "the relays leave data no way",
        "`relays` names the only GPUs that may pass on data that is not their own. Switches, hosts and NICs always"
        " may.",
        "broadcast on line(4) { relays g[1] }\n",
        "broadcast on line(4) { relays g[1], g[2] }\n",
    ),
    CatalogueEntry(
        "goal-of-set",
        "a point for several collectives",
        "`goal torch` compiles several collectives, and each has schedules of other numbers of chunks, steps and"
        " rounds. A collective that the file says itself, on the same topology, takes the place of that of the set.",
        "goal torch on full(4) { goal chunks 1, steps 1, rounds 1 }\n",
        "goal torch on full(4)\nall_gather on full(4) { goal chunks 1, steps 1, rounds 1 }\n",
    ),
    CatalogueEntry(
        "nothing-added",
        "a set whose collectives are all there",
        "A warning: `goal torch` leaves out what the file says itself, or an earlier `goal torch` on this topology.",
        "goal torch on full(4)\ngoal torch on full(4)\n",
        "goal torch on full(4)\n",
    ),
    CatalogueEntry(
        "nothing-together",
        "`together` without a collective",
        "`together` holds the collectives that run at the same time.",
        "together { }\n",
        "together { all_reduce on dgx1 }\n",
    ),
    CatalogueEntry(
        "different-topologies",
        "collectives together on different topologies",
        "What runs at the same time shares the links of one topology.",
        "together {\n    all_reduce on dgx1 among g[0..3]\n    all_reduce on ndv2 among g[4..7]\n}\n",
        "together {\n    all_reduce on dgx1 among g[0..3]\n    all_reduce on dgx1 among g[4..7]\n}\n",
    ),
    CatalogueEntry(
        "overlapping-groups",
        "groups together that share a rank",
        "A rank has one input and one output buffer in a launch: groups that run together are disjoint.",
        "together {\n    all_reduce on dgx1 among g[0..4]\n    all_reduce on dgx1 among g[4..7]\n}\n",
        "together {\n    all_reduce on dgx1 among g[0..3]\n    all_reduce on dgx1 among g[4..7]\n}\n",
    ),
    CatalogueEntry(
        "misplaced-name",
        "a name inside `together`",
        "The collectives of a `together` are one function; its name stands outside: `together as NAME { ... }`.",
        "together {\n    all_reduce on dgx1 as a\n}\n",
        "together as a {\n    all_reduce on dgx1\n}\n",
    ),
    CatalogueEntry(
        "unknown-chunk",
        "a need of what nobody has",
        "Every chunk that is needed is declared by `chunk` or `reduce` in the same collective.",
        _custom("chunk a at g[0]; need a at g[1]; need b at g[1]"),
        _custom("chunk a at g[0]; need a at g[1]"),
    ),
    CatalogueEntry(
        "unneeded-chunk",
        "a chunk that nobody needs",
        "A chunk without a `need` would be a buffer that nothing reads.",
        _custom("chunk a at g[0]; chunk b at g[1]; need a at g[1]"),
        _custom("chunk a at g[0]; chunk b at g[1]; need a at g[1]; need b at g[0]"),
    ),
    CatalogueEntry(
        "duplicate-need",
        "a chunk that one rank needs twice",
        "A rank needs a chunk once; it has one place in the rank's output.",
        _custom("chunk a at g[0]; need a at g[1]; need a at g[0], g[1]"),
        _custom("chunk a at g[0]; need a at g[0], g[1]"),
    ),
    CatalogueEntry(
        "empty-collective",
        "a collective that moves nothing",
        "A custom collective says what there is (`chunk`, `reduce`) and who needs it (`need`).",
        "collective c on dgx1 { }\n",
        _custom("chunk a at g[0]; need a at g[1]"),
    ),
    CatalogueEntry(
        "unknown-emit-value",
        "nothing of that name can be emitted",
        "Types are f64, f32, f16, bf16, i64, i32, i8, u8, f8e4m3 and f8e5m2; ops sum, prod, min, max and avg;"
        " the protocol is simple, so far; arch is written like sm_90.",
        "emit { types float32 }\nall_gather on dgx1\n",
        "emit { types f32 }\nall_gather on dgx1\n",
    ),
)
