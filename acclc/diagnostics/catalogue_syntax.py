"""The codes of the parser."""

from __future__ import annotations

from acclc.diagnostics.entry import CatalogueEntry

_BOX = "topology box {{\n    link nvlink {{ 25 GB/s, 0.7 us }}\n    gpu g[2]\n{}}}"


def _topology(code: str, title: str, explanation: str, wrong: str, right: str) -> CatalogueEntry:
    """Return an entry whose examples are statements of a topology."""
    bad, good = (_BOX.format(f"    {text}\n") for text in (wrong, right))
    return CatalogueEntry(code, title, explanation, bad, good)


def _options(code: str, title: str, explanation: str, wrong: str, right: str) -> CatalogueEntry:
    """Return an entry whose examples are options of a collective."""
    bad, good = (f"all_gather on dgx1 {{ {text} }}" for text in (wrong, right))
    return CatalogueEntry(code, title, explanation, bad, good)


SYNTAX_CODES: tuple[CatalogueEntry, ...] = (
    _topology(
        "arrow",
        "a link is written `<->` or `->`",
        "`a <-> b` is a link in both directions, `a -> b` is one from a to b only. No other sign joins two nodes;"
        " a link from b to a is written with b first. In `pairs`, data goes one way, so only `->` is possible.",
        "g[0] -- g[1] : nvlink",
        "g[0] <-> g[1] : nvlink",
    ),
    _topology(
        "count-order",
        "the number of links stands before their class",
        "Parallel links are written as a number and the class, `2 nvlink`. A number that is calculated, or is the"
        " value of a parameter, stands in parentheses, because two names in a row would read as a new statement.",
        "g[0] <-> g[1] : nvlink 2",
        "g[0] <-> g[1] : 2 nvlink",
    ),
    CatalogueEntry(
        "file-too-large",
        "a file is too large to read",
        "A source file may have at most 1 MiB. Machines with many links are said shorter with `for` loops,"
        " parameters and replicas of a topology (`dgx1 box[16]`).",
    ),
    _topology(
        "foreign-comment",
        "a comment begins with `#`",
        "Everything from `#` to the end of the line is a comment. There is no other kind.",
        "// two of them",
        "# two of them",
    ),
    _topology(
        "inline-rate",
        "a link names its class",
        "The rate and latency of links are stated once, in a link class, and each link names its class.",
        "g[0] <-> g[1] : 25 GB/s",
        "g[0] <-> g[1] : nvlink",
    ),
    _options(
        "limit",
        "a limit is written with `up to`",
        "The most chunks, steps, rounds, channels or blocks that a schedule may use are limited by `chunks up to 6`"
        " and so on. (`channels 2` may be written without `up to`.)",
        "chunks <= 6",
        "chunks up to 6",
    ),
    CatalogueEntry(
        "mismatched-bracket",
        "a closing bracket does not fit",
        "Every `)`, `]` and `}` closes the innermost open bracket of its own kind. This one closes nothing, or"
        " another bracket has to be closed first.",
        "topology box { gpu g[2] ) }",
        "topology box { gpu g[2] }",
    ),
    CatalogueEntry(
        "missing-bandwidth",
        "a link class states no bandwidth",
        "A link class needs the rate that schedules are optimised for; it stands first. Latency, the nominal rate"
        " and the kind may follow.",
        "topology box { link nvlink { kind nvlink } }",
        "topology box { link nvlink { 25 GB/s, kind nvlink } }",
    ),
    _topology(
        "missing-comma",
        "a comma is missing",
        "The indices of a reference, the parameters of a topology and the names of a list are separated by commas."
        " Only between options and statements may the comma be left out.",
        "gpu h[4 4]",
        "gpu h[4, 4]",
    ),
    CatalogueEntry(
        "missing-unit",
        "a number needs its unit",
        "Rates, latencies, sizes and times are always written with a unit, so that nobody has to guess whether 25"
        " meant bytes or bits. Rates: GB/s, GiB/s, Gbit/s, ...; latencies: ns, us, ms, s; sizes: B, KiB, MB, ...;"
        " times: s, ms, min, h.",
        "topology box { link nvlink { 25, 0.7 us } }",
        "topology box { link nvlink { 25 GB/s, 0.7 us } }",
    ),
    CatalogueEntry(
        "not-text",
        "the file is not text",
        "Source files are UTF-8 text. The place shown is the first byte that is not.",
    ),
    _topology(
        "not-whole",
        "a whole number is needed",
        "Counts, indices and parameters are whole numbers. Only quantities with a unit may have a decimal point.",
        "gpu h[1.5]",
        "gpu h[2]",
    ),
    _topology(
        "number-too-long",
        "a number has too many digits",
        "A number has at most 18 digits before and 18 after its decimal point.",
        "gpu h[1234567890123456789]",
        "gpu h[4]",
    ),
    _options(
        "on-or-off",
        "`symmetry` is on or off",
        "The symmetry of the graph is used to find schedules faster; `symmetry off` is for comparing. There is"
        " nothing in between.",
        "symmetry maybe",
        "symmetry off",
    ),
    _topology(
        "range",
        "a range is written `..` or `..<`",
        "`0..7` runs from 0 to 7 and includes both; `0..<8` excludes the last. A loop always runs over a range. A"
        " range of sizes, `1 KiB .. 1 GiB`, includes both ends.",
        "for i in range(2) { gpu h[i] }",
        "for i in 0..<2 { gpu h[i] }",
    ),
    _options(
        "repeated",
        "something is stated twice",
        "Each of these may be stated once: the rates and the kind of a link class, `among` and `as` of a collective,"
        " each of chunks, steps and rounds of a goal.",
        "goal chunks 2, steps 2, chunks 4",
        "goal chunks 2, steps 2",
    ),
    _topology(
        "reserved-word",
        "a word of the language cannot be a name",
        "Some words begin statements or join their parts and can therefore not be names: "
        "among, as, at, budget, chunk, collective, emit, for, goal, gpu, host, import, in, let, link, need, nic, of,"
        " on, over, switch, together, topology, with, without.",
        "switch switch",
        "switch sw",
    ),
    _topology(
        "semicolon",
        "`;` is not a sign of the language",
        "A statement ends where the next one begins, which is usually the next line. Nothing stands between them.",
        "gpu h[2];",
        "gpu h[2]",
    ),
    _options(
        "stray-count",
        "a number of chunks, steps or rounds is neither limit nor goal",
        "`chunks up to 6` limits; `goal chunks 3, steps 2, rounds 4` asks for exactly that point. `chunks 6` alone,"
        " not directly behind such a goal, says neither.",
        "goal pareto, chunks 6",
        "goal pareto, chunks up to 6",
    ),
    CatalogueEntry(
        "too-deep",
        "brackets or operators are nested too deep",
        "Brackets may be nested 64 deep, and an expression may have 100 operators that depend on each other. Give"
        " parts of a long expression names with `let`.",
        "topology box { let n = " + "(" * 64 + "1" + ")" * 64 + " }",
        "topology box { let n = 1 }",
    ),
    CatalogueEntry(
        "unclosed-bracket",
        "a bracket is never closed",
        "The bracket shown is still open at the end of the text, at the end of its line, or where the next topology"
        " or collective begins.",
        "topology box { gpu g[2]\n\nall_gather on box",
        "topology box { gpu g[2] }\n\nall_gather on box",
    ),
    CatalogueEntry(
        "unexpected",
        "something cannot stand here",
        "The text up to this place is right, but it cannot go on with what follows. The message lists what could"
        " stand here instead.",
        "all_gather dgx1",
        "all_gather on dgx1",
    ),
    CatalogueEntry(
        "unexpected-character",
        "a sign that the language does not have",
        "Names are made of the letters A to Z and a to z, digits and `_`. Texts stand in double quotes and hold no"
        " control characters. Typographic quotes, no-break spaces and invisible signs, which come along when text is"
        " copied from a page, are not taken.",
        "import 'mine.accl'",
        'import "mine.accl"',
    ),
    CatalogueEntry(
        "unexpected-end",
        "the text ends too early",
        "The last item is not complete. The message lists what could follow.",
        "all_gather on",
        "all_gather on dgx1",
    ),
    _options(
        "unknown-goal",
        "there is no such goal",
        "A goal is `latency`, `bandwidth`, `pareto` (the whole frontier between them), a range of sizes"
        " (`size 1 KiB .. 1 GiB`) or a point (`chunks 3, steps 2, rounds 4`; any of the three may be left out)."
        " It stands in the braces of a collective. `goal torch on dgx1`, on a line of its own, compiles all that"
        " torch.distributed needs.",
        "goal bandwith",
        "goal bandwidth",
    ),
    CatalogueEntry(
        "unknown-item",
        "an item begins with an unknown word",
        "A file is made of `import`, `topology`, `collective`, `together`, `emit` and uses of collectives such as"
        " `all_gather on dgx1`.",
        "toplogy box { gpu g[2] }",
        "topology box { gpu g[2] }",
    ),
    _options(
        "unknown-option",
        "there is no such option",
        "Options of a collective are goal, chunks, steps, rounds, channels, blocks, within, root, op, relays,"
        " symmetry and pairs; entries of `emit` are types, ops, arch, protocols and channels.",
        "gaol pareto",
        "goal pareto",
    ),
    _topology(
        "unknown-statement",
        "a statement begins with an unknown word",
        "Statements of a topology begin with link, gpu, switch, host, nic, budget, let, for, with the name of another"
        " topology (a replica of it), or are links `a <-> b : class`. Statements of a collective begin with chunk,"
        " reduce, need, let or for.",
        "swich sw { multicast }",
        "switch sw { multicast }",
    ),
    CatalogueEntry(
        "unknown-unit",
        "there is no such unit",
        "Rates: GB/s, MB/s, KB/s, B/s, TB/s, GiB/s, MiB/s (bytes), Gbit/s, Mbit/s, Tbit/s (bits). Latencies: ns, us,"
        " ms, s. Sizes: B, KB, KiB, MB, MiB, GB, GiB, TB, TiB. Times: s, ms, min, h. Bits and bytes are always spelt"
        " out, because Gb and GB are too easily taken for each other.",
        "topology box { link nvlink { 25 GBps } }",
        "topology box { link nvlink { 25 GB/s } }",
    ),
    CatalogueEntry(
        "unreadable-file",
        "a file cannot be read",
        "The file is not there, is a folder, or may not be read. The message gives the system's reason.",
    ),
    CatalogueEntry(
        "unterminated-text",
        "a text is not closed on its line",
        "A text begins and ends with a double quote on the same line.",
        'import "mine.accl',
        'import "mine.accl"',
    ),
    CatalogueEntry(
        "wrong-unit",
        "a unit of another kind",
        "The unit exists but measures something else than what is needed here: a time where a rate stands, say.",
        "topology box { link nvlink { 0.7 us, 25 GB/s } }",
        "topology box { link nvlink { 25 GB/s, 0.7 us } }",
    ),
)
