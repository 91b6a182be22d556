"""The codes of topologies: nodes, links, classes, budgets, and what is taken away."""

from __future__ import annotations

from acclc.diagnostics.entry import CatalogueEntry


def _pair(statements: str, *, nodes: str = "gpu g[2]", link: str = "link l { 1 GB/s }") -> str:
    """Return a topology of two GPUs with further statements."""
    lines = [link, nodes, "g[0] <-> g[1] : l", *filter(None, [statements])]
    return "topology x {\n" + "".join(f"    {line}\n" for line in lines) + "}\n"


_RIGHT = _pair("")

TOPOLOGY_CODES: tuple[CatalogueEntry, ...] = (
    CatalogueEntry(
        "unknown-node",
        "no node of that name or number",
        "A node is declared before it is used. `gpu g[8]` declares g[0] to g[7]; nodes of a replica are named"
        " through it: `box[1].g[0]`. Trailing dimensions of length 1 may be left out: `torus(4, 4)` has g[x, y].",
        _pair("g[8] <-> g[1] : l"),
        _RIGHT,
    ),
    CatalogueEntry(
        "unknown-link-class",
        "no link class of that name",
        "A link class is declared in the topology before its first use (`link nvlink { 25 GB/s, 0.7 us }`), or"
        " belongs to a replica: `box.nvlink`.",
        _pair("g[0] <-> g[1] : ll"),
        _RIGHT,
    ),
    CatalogueEntry(
        "unknown-link-kind",
        "no kind of link of that name",
        "The kind of a link class is nvlink, xgmi, pcie, net, shm or host. It is optional and only informs.",
        _pair("", link="link l { 1 GB/s, kind nvlnk }"),
        _pair("", link="link l { 1 GB/s, kind nvlink }"),
    ),
    CatalogueEntry(
        "unknown-link",
        "no such link",
        "`without` and `budget` choose links that exist. Each node that a pattern names must have at least one"
        " link of the pattern; `*` stands for any node.",
        "all_gather on dgx1 without g[0] <-> g[7]\n",
        "all_gather on dgx1 without g[0] <-> g[4]\n",
    ),
    CatalogueEntry(
        "unknown-ability",
        "no ability of that name",
        "A switch may `multicast` (send one input to several outputs) and `reduce`.",
        _pair("switch s { multicats }\n    g <-> s : l"),
        _pair("switch s { multicast }\n    g <-> s : l"),
    ),
    CatalogueEntry(
        "misplaced-ability",
        "abilities of something that is no switch",
        "Only switches have abilities to declare. GPUs can always reduce and copy; hosts and NICs never reduce.",
        _pair("", nodes="gpu g[2] { reduce }"),
        _RIGHT,
    ),
    CatalogueEntry(
        "bad-dimension",
        "an array of no elements",
        "An array of nodes or replicas has one element or more in every dimension.",
        "topology x { gpu g[0] }\n",
        _RIGHT,
    ),
    CatalogueEntry(
        "bad-count",
        "a number of links below one",
        "Between two nodes lie one or more links (`: 2 nvlink`); a link that does not exist is not written.",
        _pair("g[0] <-> g[1] : 0 l"),
        _pair("g[0] <-> g[1] : 2 l"),
    ),
    CatalogueEntry(
        "bad-rate",
        "a bandwidth that cannot be",
        "A bandwidth is more than 0 and at most 10^18 B/s.",
        _pair("", link="link l { 0 GB/s }"),
        _RIGHT,
    ),
    CatalogueEntry(
        "bad-time",
        "a time that cannot be",
        "A latency is 0 or more, a deadline more than 0; both are at most 10^6 s.",
        "all_gather on dgx1 { within 0 s }\n",
        "all_gather on dgx1 { within 10 s }\n",
    ),
    CatalogueEntry(
        "bad-size",
        "a size that is no whole number of bytes",
        "A size is a whole number of bytes, from 1 B to 2^60 B.",
        "all_gather on dgx1 { goal size 0.5 B .. 1 MB }\n",
        "all_gather on dgx1 { goal size 1 B .. 1 MB }\n",
    ),
    CatalogueEntry(
        "wrong-indices",
        "too few or too many indices",
        "A reference gives as many indices as the array has dimensions, or none at all for the whole array."
        " Trailing dimensions of length 1 may be left out.",
        "broadcast on mesh(2, 2) { root g[0] }\n",
        "broadcast on mesh(2, 2) { root g[0, 0] }\n",
    ),
    CatalogueEntry(
        "empty-choice",
        "a range that chooses no node",
        "`a..b` includes b, `a..<b` does not; a reference names at least one node.",
        "broadcast on dgx1 among g[0], g[2..<2]\n",
        "broadcast on dgx1 among g[0], g[2..<3]\n",
    ),
    CatalogueEntry(
        "not-a-node",
        "a replica where a node belongs",
        "A replica of a topology holds nodes and is none: name nodes of it, `box[0].g` for all of an array.",
        "topology x {\n    dgx1 box[2]\n    link l { 1 GB/s }\n    box[0] <-> box[1].g[0] : l\n}\n",
        "topology x {\n    dgx1 box[2]\n    link l { 1 GB/s }\n    box[0].g[0] <-> box[1].g[0] : l\n}\n",
    ),
    CatalogueEntry(
        "not-a-replica",
        "a node has nothing inside",
        "Only a replica of a topology has nodes inside: `box[1].g[0]`.",
        "broadcast on dgx1 { root g[0].g }\n",
        "broadcast on dgx1 { root g[0] }\n",
    ),
    CatalogueEntry(
        "misplaced-count",
        "a number of links in a budget",
        "A budget is shared by all lanes of the links it is over.",
        _pair('budget "b" { 1 GB/s over 1 of g[0] -> g[1] }'),
        _pair('budget "b" { 1 GB/s over g[0] -> g[1] }'),
    ),
    CatalogueEntry(
        "self-link",
        "a link from a node to itself",
        "A link joins two different nodes. `g <-> g` would join each node also with itself: use loops,"
        " `for a in 0..<n, b in a + 1..<n { g[a] <-> g[b] : l }`.",
        _pair("g[0] <-> g[0] : l"),
        _RIGHT,
    ),
    CatalogueEntry(
        "too-many-lanes",
        "more links taken away than there are",
        "`without 2 of a <-> b` takes two links in each direction between each pair of nodes that it names.",
        "all_gather on dgx1 without 3 of g[0] <-> g[1]\n",
        "all_gather on dgx1 without 2 of g[0] <-> g[1]\n",
    ),
    CatalogueEntry(
        "budget-without-direction",
        "a budget per direction whose links have no common direction",
        "A budget over `a <-> b` holds for the links from a to b, and once more for those from b to a. Where a link"
        " is in both sets, say `both ways` for the sum of all, or `->`.",
        _pair('budget "b" { 1 GB/s over g <-> g }'),
        _pair('budget "b" { 1 GB/s both ways over g <-> g }'),
    ),
    CatalogueEntry(
        "recursive-topology",
        "a topology that contains itself",
        "There is no condition in the language, so a topology within itself would have no end.",
        "topology x { x inner }\n",
        "topology x { dgx1 inner }\n",
    ),
    CatalogueEntry(
        "unused-link-class",
        "a link class that no link has",
        "A warning: the class is declared, and nothing in the file uses it.",
        _pair("link m { 2 GB/s }"),
        _RIGHT,
    ),
    CatalogueEntry(
        "unused-node",
        "a node that no link touches",
        "A warning: nothing can come from such a node or go there.",
        _pair("", nodes="gpu g[3]"),
        _RIGHT,
    ),
)
