"""The codes of names and numbers: what is called how, arguments, arithmetic, imports."""

from __future__ import annotations

from acclc.diagnostics.entry import CatalogueEntry

NAME_CODES: tuple[CatalogueEntry, ...] = (
    CatalogueEntry(
        "unknown-topology",
        "no topology of that name",
        "A topology is declared in the file, in a file that it imports, or in the library (`acclc topo list`).",
        "all_gather on dgx_1\n",
        "all_gather on dgx1\n",
    ),
    CatalogueEntry(
        "unknown-parameter",
        "an argument for a parameter that the topology does not have",
        "Arguments fill the parameters in order, or by name: `mesh(2, b = 3)`.",
        "all_gather on ring(m = 4)\n",
        "all_gather on ring(n = 4)\n",
    ),
    CatalogueEntry(
        "unknown-setting",
        "--set names a parameter that no topology of the file has",
        "`--set n=4` replaces the default of the parameter `n` of every topology that the file itself declares."
        " It does not reach topologies of imported files or of the library: give those an argument.",
    ),
    CatalogueEntry(
        "unknown-name",
        "a name without a value",
        "In an expression, a name is a parameter of the topology, a `let`, or the variable of a loop around it."
        " It is known from its declaration to the end of the block that holds it.",
        "topology x {\n    link l { 1 GB/s }\n    gpu g[n]\n    g[0] <-> g[1] : l\n}\n",
        "topology x(n = 2) {\n    link l { 1 GB/s }\n    gpu g[n]\n    g[0] <-> g[1] : l\n}\n",
    ),
    CatalogueEntry(
        "duplicate-name",
        "two things of one name",
        "Topologies of a file, nodes and replicas of a topology, its link classes, the names of collectives and"
        " the chunks of a collective are each unique. Values never change: a loop variable or `let` takes a name"
        " that has no value yet.",
        "all_gather on dgx1 as a\nbroadcast on dgx1 as a\n",
        "all_gather on dgx1 as a\nbroadcast on dgx1 as b\n",
    ),
    CatalogueEntry(
        "missing-argument",
        "a parameter without a value",
        "A parameter without a default needs an argument wherever the topology is used.",
        "topology x(n) = ring(n)\nall_gather on x\n",
        "topology x(n) = ring(n)\nall_gather on x(4)\n",
    ),
    CatalogueEntry(
        "too-many-arguments",
        "more arguments than parameters",
        "A topology takes at most one argument for each of its parameters.",
        "all_gather on ring(4, 4)\n",
        "all_gather on torus(4, 4)\n",
    ),
    CatalogueEntry(
        "duplicate-argument",
        "a parameter is given two values",
        "Arguments without a name fill the parameters in order; one by name is for a parameter that has none yet.",
        "all_gather on ring(4, n = 4)\n",
        "all_gather on ring(n = 4)\n",
    ),
    CatalogueEntry(
        "division-by-zero",
        "a division by zero",
        "`/` divides whole numbers and rounds down; `%` is the remainder, with the sign of the right side. The"
        " right side of neither may be 0.",
        "all_gather on ring(8 / 0)\n",
        "all_gather on ring(8 / 2)\n",
    ),
    CatalogueEntry(
        "negative-exponent",
        "a power that is no whole number",
        "All numbers of expressions are whole, so the exponent of `**` is 0 or more.",
        "all_gather on ring(2 ** -1)\n",
        "all_gather on ring(2 ** 1)\n",
    ),
    CatalogueEntry(
        "number-too-large",
        "a number beyond 10^12",
        "No value of an expression, and none on the way to it, may be larger than 10^12 or smaller than -10^12.",
        "all_gather on ring(10 ** 15)\n",
        "all_gather on ring(10 ** 1)\n",
    ),
    CatalogueEntry(
        "reversed-range",
        "a range that runs backwards",
        "`a..b` holds a and b and all between, `a..<b` leaves b out. A range may be empty (`0..<0`, `1..0`), but"
        " its end does not lie further before its start: that is most likely a slip.",
        "broadcast on dgx1 among g[3..0]\n",
        "broadcast on dgx1 among g[0..3]\n",
    ),
    CatalogueEntry(
        "import-failed",
        "an import that cannot be read",
        '`import NAME` names a topology of the library; `import "other.accl"` names a file, relative to the'
        " folder of the importing file.",
        'import "missing.accl"\nall_gather on dgx1\n',
        "import dgx1\nall_gather on dgx1\n",
    ),
    CatalogueEntry(
        "import-cycle",
        "files that import each other",
        "Imports lead from a file to others, never back. Move what both need into a third file.",
        'import "example.accl"\nall_gather on dgx1\n',
        "all_gather on dgx1\n",
    ),
    CatalogueEntry(
        "nested-too-deep",
        "things within things without end",
        "Loops within loops, topologies within topologies and imports within imports end at a depth of 32.",
        "topology x {\n    link l { 1 GB/s }\n    gpu g[2]\n    g[0] <-> g[1] : l\n    for "
        + ", ".join(f"i{n} in 0..0" for n in range(33))
        + " { }\n}\n",
        "topology x {\n    link l { 1 GB/s }\n    gpu g[2]\n    g[0] <-> g[1] : l\n}\n",
    ),
    CatalogueEntry(
        "too-large",
        "more than acclc can hold",
        "A topology has at most 65,536 nodes and 4,000,000 links; its loops run at most 2,500,000 times; the"
        " shards of a problem have at most 4,194,304 inputs and outputs together.",
        "topology x { gpu g[999999999] }\n",
        "all_gather on ring(9)\n",
    ),
    CatalogueEntry(
        "nothing-to-do",
        "a file without topology and collective",
        "A file declares topologies, states collectives, or both.",
        "import dgx1\n",
        "import dgx1\nall_gather on dgx1\n",
    ),
    CatalogueEntry(
        "unused-parameter",
        "a parameter that nothing uses",
        "A warning: the topology is the same for every value of the parameter.",
        "topology x(n = 4) = ring(3)\nall_gather on x\n",
        "topology x(n = 4) = ring(n)\nall_gather on x\n",
    ),
    CatalogueEntry(
        "unchecked-topology",
        "a topology that was not looked at",
        "A warning: a parameter without a default has no value here, and so the topology is only checked where a"
        " collective uses it.",
        "topology x(n) = ring(n)\nall_gather on dgx1\n",
        "topology x(n = 4) = ring(n)\nall_gather on dgx1\n",
    ),
)
