"""The tree of each construct, places, limits, and reading files. Error texts are in tests/errors."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from acclc.diagnostics import DiagnosticError
from acclc.source import Source, Span
from acclc.syntax import ast, parse, parse_link_ref, read_source, source_of_bytes, units
from acclc.syntax.parser import MAXIMUM_BYTES, MAXIMUM_ERRORS, MAXIMUM_NESTING

HERE = Span(Source("<none>", ""), 0, 0)


def items(text: str) -> tuple[ast.Item, ...]:
    return parse(Source("<text>", text)).items


def statement(text: str) -> ast.TopologyStatement:
    (item,) = items(f"topology t {{ {text} }}")
    assert isinstance(item, ast.TopologyDecl)
    (found,) = item.body
    return found


def expression(text: str) -> ast.Expression:
    let = statement(f"let v = {text}")
    assert isinstance(let, ast.Let)
    return let.value


def options(text: str) -> tuple[ast.Option, ...]:
    (item,) = items(f"c on t {{ {text} }}")
    assert isinstance(item, ast.CollectiveUse)
    return item.options


def codes(text: str) -> list[str]:
    with pytest.raises(DiagnosticError) as caught:
        items(text)
    return [diagnostic.code for diagnostic in caught.value.diagnostics]


def number(value: int) -> ast.Number:
    return ast.Number(value, HERE)


def node(name: str, *indices: int) -> ast.NodeRef:
    return ast.NodeRef((ast.Part(name, tuple(map(number, indices)), HERE),), HERE)


def quantity(value: Fraction | int, unit: str) -> ast.Quantity:
    return ast.Quantity(Fraction(value), unit, HERE)


def call(name: str) -> ast.TopologyCall:
    return ast.TopologyCall(name, (), (), HERE, HERE)


# --- expressions


def evaluate(node: ast.Expression) -> int:
    match node:
        case ast.Number(value):
            return value
        case ast.Negate(operand):
            return -evaluate(operand)
        case ast.Binary(op, left, right):
            a, b = evaluate(left), evaluate(right)
            if op == "**":
                return int(a**b)
            return {"+": a + b, "-": a - b, "*": a * b, "/": a // (b or 1), "%": a % (b or 1)}[op]
    raise AssertionError(node)


@pytest.mark.parametrize(
    "text",
    [
        "1 + 2 * 3 - 4",
        "10 - 4 - 3",
        "100 / 7 / 2",
        "2 ** 3 ** 2",
        "-2 ** 2",
        "(-2) ** 2",
        "2 * -3 + 1",
        "- - 3",
        "-(-3)",
        "7 % 4 * 2",
        "2 * (3 + 4) ** 2 % 5",
        "-2 ** 2 * 3",
        "1 - (2 - (3 - 4))",
        "((5))",
    ],
)
def test_precedence_is_that_of_python(text: str) -> None:
    assert evaluate(expression(text)) == eval(text.replace("/", "//"))


def test_a_sign_in_an_exponent_takes_the_rest() -> None:
    x, two = ast.Name("x", HERE), number(2)
    inner = ast.Negate(ast.Binary("**", x, two, HERE), HERE)
    assert expression("2 ** -x ** 2") == ast.Binary("**", two, inner, HERE)


# --- statements


def test_link_class() -> None:
    rate, late = quantity(25, "GB/s"), quantity(Fraction(7, 10), "us")
    full = ast.LinkClassDecl("a", rate, late, quantity(32, "GB/s"), "nvlink", HERE)
    assert statement("link a { 25 GB/s, 0.7 us, nominal 32 GB/s, kind nvlink }") == full
    assert statement("link a { kind nvlink 25 GB/s\n nominal 32GB/s\n 0.70 us, }") == full
    assert statement("link a { 25 GB/s }") == ast.LinkClassDecl("a", rate, None, None, None, HERE)


def test_nodes_and_replicas() -> None:
    assert statement("gpu g[4, 2]") == ast.NodesDecl("gpu", "g", (number(4), number(2)), (), HERE)
    assert statement("host cpu") == ast.NodesDecl("host", "cpu", (), (), HERE)
    assert statement("switch s { multicast reduce }") == ast.NodesDecl("switch", "s", (), ("multicast", "reduce"), HERE)
    replica = statement("torus(2, b = 3) without g -> g[0, 0] box[4]")
    assert isinstance(replica, ast.ReplicaDecl)
    assert (replica.name, replica.dimensions) == ("box", (number(4),))
    assert replica.topology.arguments == (ast.Argument(None, number(2), HERE), ast.Argument("b", number(3), HERE))
    assert replica.topology.without == (ast.LinkRef(node("g"), node("g", 0, 0), False, None, HERE),)


@pytest.mark.parametrize(
    ("text", "count"),
    [("nvlink", None), ("2 nvlink", number(2)), ("2nvlink", number(2)), ("(n) nvlink", ast.Name("n", HERE))],
)
def test_links_and_their_count(text: str, count: ast.Expression | None) -> None:
    expected = ast.LinkDecl((node("a"), node("b", 1)), (node("c"),), True, count, node("nvlink"), HERE)
    assert statement(f"a, b[1] <-> c : {text}") == expected


def test_link_of_a_class_of_a_replica_is_followed_by_a_replica() -> None:
    (item,) = items("topology t { a -> b : box[0].fast\n other box[2] a <-> b : x }")
    assert isinstance(item, ast.TopologyDecl)
    assert [type(s) for s in item.body] == [ast.LinkDecl, ast.ReplicaDecl, ast.LinkDecl]


def test_budget() -> None:
    links = (
        ast.LinkRef(node("cpu"), ast.NodeRef((), HERE), True, None, HERE),
        ast.LinkRef(ast.NodeRef((), HERE), node("x"), False, None, HERE),
    )
    text = 'budget "a # b {" { 60 GB/s both ways over cpu <-> *, * -> x, }'
    assert statement(text) == ast.BudgetDecl("a # b {", quantity(60, "GB/s"), True, links, HERE)


def test_loops_and_ranges() -> None:
    loop = statement("for x in 0..<4, y in 1..3 { g[x, 0..1] <-> h : a }")
    assert isinstance(loop, ast.For)
    assert [entry.range.inclusive for entry in loop.loops] == [False, True]
    (link,) = loop.body
    assert isinstance(link, ast.LinkDecl)
    name = ast.Name("x", HERE)
    assert link.sources[0].parts[0].indices == (name, ast.Range(number(0), number(1), True, HERE))


def test_words_that_are_words_only_in_their_place() -> None:
    text = "topology t(steps = 2) { switch root gpu kind[steps] root <-> kind : up link up { 1 GB/s } }"
    assert isinstance(items(text)[0], ast.TopologyDecl)
    # Behind a comma the next option goes before a node of the same name.
    root = ast.RootOption(node("root"), HERE)
    assert options("root root, relays root, op sum") == (
        root,
        ast.RelaysOption((node("root"),), HERE),
        ast.OpOption("sum", HERE),
    )
    (use,) = items("reduce on t { root root }")
    assert isinstance(use, ast.CollectiveUse)
    assert (use.collective, use.options) == ("reduce", (root,))


# --- items


def test_imports_and_aliases() -> None:
    assert items('import dgx1 import "a b.accl"') == (
        ast.Import("dgx1", False, HERE),
        ast.Import("a b.accl", True, HERE),
    )
    (alias,) = items("topology t(n, m = 2) = dgx1 without 2 of a <-> b, n - 1 of c -> d[0..<2]")
    assert isinstance(alias, ast.TopologyAlias)
    assert alias.parameters == (ast.Parameter("n", None, HERE), ast.Parameter("m", number(2), HERE))
    first, second = alias.value.without
    assert (first.count, first.both) == (number(2), True)
    assert second.count == ast.Binary("-", ast.Name("n", HERE), number(1), HERE)


def test_uses() -> None:
    text = "all_reduce on dgx1 among g[0], g[1] as tp { op sum }\nall_gather on dgx1"
    first, second = items(text)
    expected = ast.CollectiveUse(
        "all_reduce", call("dgx1"), (node("g", 0), node("g", 1)), "tp", (ast.OpOption("sum", HERE),), HERE, HERE
    )
    assert first == expected
    assert items("all_reduce on dgx1 as tp among g[0], g[1] { op sum, }") == (expected,)
    assert second == ast.CollectiveUse("all_gather", call("dgx1"), (), None, (), HERE, HERE)


def test_goal_torch() -> None:
    first, second = items("goal torch on full(4) goal torch on dgx1 without a <-> b { goal latency root root }")
    full = ast.TopologyCall("full", (ast.Argument(None, number(4), HERE),), (), HERE, HERE)
    assert first == ast.SetUse("torch", full, (), HERE, HERE)
    assert isinstance(second, ast.SetUse)
    assert (second.topology.name, len(second.topology.without), len(second.options)) == ("dgx1", 1, 2)
    place = second.purpose_span
    assert place.source.text[place.start : place.end] == "goal torch"


def test_custom_collective_and_together() -> None:
    (custom,) = items(
        "collective halo on t { let n = 2 for x in 0..<n { chunk e[x] at g[x], h } reduce s over g need s at g }"
        " with { goal latency }"
    )
    assert isinstance(custom, ast.CustomCollective)
    assert [type(s) for s in custom.body] == [ast.Let, ast.For, ast.ReduceStatement, ast.NeedStatement]
    assert len(custom.options) == 1
    (together,) = items("together as tp { a on t b on t { op sum } } with { within 3 min }")
    assert isinstance(together, ast.Together)
    assert (together.name, len(together.uses)) == ("tp", 2)
    assert together.options == (ast.DeadlineOption(quantity(3, "min"), HERE),)


def test_emit() -> None:
    (emit,) = items("emit { types f32, bf16 ops sum, arch sm_90, protocols simple channels 2 }")
    assert emit == ast.Emit(
        tuple(
            ast.EmitEntry(what, values, HERE)
            for what, values in (
                ("types", ("f32", "bf16")),
                ("ops", ("sum",)),
                ("arch", ("sm_90",)),
                ("protocols", ("simple",)),
                ("channels", ("2",)),
            )
        ),
        HERE,
    )


def goal(kind: str, **more: object) -> ast.GoalOption:
    values: dict[str, object] = dict.fromkeys(("low", "high", "chunks", "steps", "rounds"))
    return ast.GoalOption(kind, **{**values, **more}, span=HERE)  # type: ignore[arg-type]


def test_goals_and_limits() -> None:
    assert options("goal pareto, chunks up to 6") == (goal("pareto"), ast.LimitOption("chunks", number(6), HERE))
    assert options("goal size 1 KiB .. 1 GiB") == (goal("size", low=quantity(1, "KiB"), high=quantity(1, "GiB")),)
    point = goal("point", chunks=number(3), steps=number(2), rounds=number(4))
    for text in ("goal chunks 3, steps 2, rounds 4", "goal rounds 4 chunks 3\nsteps 2,"):
        assert options(text) == (point,)
    assert options("goal steps 2, steps up to 3") == (
        goal("point", steps=number(2)),
        ast.LimitOption("steps", number(3), HERE),
    )
    assert options("channels 2 blocks up to 8") == (
        ast.LimitOption("channels", number(2), HERE),
        ast.LimitOption("blocks", number(8), HERE),
    )


def test_lists_in_options_end_where_the_next_option_begins() -> None:
    expected = (
        ast.RelaysOption((node("a"), node("b", 1)), HERE),
        ast.PairsOption(((node("a"), node("b")), (node("b"), node("a"))), HERE),
        ast.SymmetryOption(False, HERE),
        goal("latency"),
    )
    for comma in (",", "\n"):
        text = f"relays a, b[1]{comma} pairs a -> b, b -> a{comma} symmetry off{comma} goal latency"
        assert options(text) == expected
    assert options("symmetry on") == (ast.SymmetryOption(True, HERE),)


# --- places


def test_places() -> None:
    text = "# doc\ntopology box(n = 2) {\n    gpu g[(n + 1) * 2]\n}\nall_gather on box among g[0]"
    source = Source("<text>", text)
    file = parse(source)
    box, use = file.items
    assert isinstance(box, ast.TopologyDecl)
    assert isinstance(use, ast.CollectiveUse)

    def at(span: Span) -> str:
        assert span.source is source
        return text[span.start : span.end]

    assert at(file.span) == text
    assert at(box.span) == text[text.index("topology") : text.index("\nall")]
    assert (at(box.name_span), box.doc) == ("box", "doc")
    (gpu,) = box.body
    assert isinstance(gpu, ast.NodesDecl)
    assert at(gpu.span) == "gpu g[(n + 1) * 2]"
    assert at(gpu.dimensions[0].span) == "(n + 1) * 2"
    assert (at(use.collective_span), at(use.topology.name_span)) == ("all_gather", "box")
    assert at(use.group[0].span) == "g[0]"
    assert repr(gpu.span) == "<<text>:3:5>"


@pytest.mark.parametrize(
    ("above", "doc"),
    [
        ("# a\n#  b\n#\n#c\n", "a\n b\n\nc"),
        ("# a\n\n", ""),
        ("# a\n\n# b\n", "b"),
        ("", ""),
        ("import x # a\n", ""),
        ("# a\r\n# b\r\n", "a\nb"),
    ],
)
def test_doc_comments(above: str, doc: str) -> None:
    item = items(f"{above}topology t {{ }}")[-1]
    assert isinstance(item, ast.TopologyDecl)
    assert item.doc == doc


# --- errors and limits


def test_an_empty_text_is_a_file() -> None:
    assert items("") == items("# nothing\n\n") == ()


def test_reading_goes_on_after_an_error() -> None:
    bad = "topology t { gpu g[2;] }\n"
    assert codes(bad * 3) == ["semicolon"] * 3
    assert codes(bad * (MAXIMUM_ERRORS + 5)) == ["semicolon"] * MAXIMUM_ERRORS
    unit = "topology u { link a { 3 GBps } }\n"
    assert codes(unit + unit + bad + unit + bad) == ["unknown-unit"] * 2 + ["semicolon", "unknown-unit", "semicolon"]


def test_errors_are_in_the_order_of_the_text() -> None:
    assert codes("a on t { goal chunks 1.5, within 3 us, op sum, goal fast }") == [
        "not-whole",
        "wrong-unit",
        "unknown-goal",
    ]


def test_nesting_is_limited() -> None:
    deep = MAXIMUM_NESTING - 1
    assert expression("(" * deep + "1" + ")" * deep) == number(1)
    assert codes("topology t { let v = " + "(" * deep + "(1)" + ")" * deep + " }") == ["too-deep"]
    loops = "for x in 0..1 { " * deep + "}" * deep
    assert isinstance(items(f"topology t {{ {loops} }}")[0], ast.TopologyDecl)
    assert codes("{" * 100_000) == ["too-deep"]


def test_expressions_are_limited_in_depth_not_in_number() -> None:
    assert codes("topology t { let v = " + "1+" * 5000 + "1 }") == ["too-deep"]
    assert codes("topology t { let v = " + "-" * 5000 + "1 }") == ["too-deep"]
    assert codes("topology t { let v = " + "2**" * 5000 + "1 }") == ["too-deep"]
    halves = "+".join("(" + "+".join(["1"] * 60) + ")" for _ in range(30))
    assert evaluate(expression(halves)) == 1800


def test_size_is_limited() -> None:
    with pytest.raises(DiagnosticError) as caught:
        source_of_bytes(b" " * (MAXIMUM_BYTES + 1), "big.accl")
    assert [d.code for d in caught.value.diagnostics] == ["file-too-large"]
    assert codes(" " * (MAXIMUM_BYTES + 1)) == ["file-too-large"]
    assert source_of_bytes(b" " * MAXIMUM_BYTES, "big.accl").text == " " * MAXIMUM_BYTES


def test_files_are_read(tmp_path: Path) -> None:
    good = tmp_path / "good.accl"
    good.write_bytes("\ufeffimport a # é\r\n".encode())
    assert read_source(good, "good.accl") == Source("good.accl", "import a # é\r\n")
    assert read_source(good).name == str(good)
    for bad in (tmp_path / "none.accl", tmp_path, Path("a\0b")):
        with pytest.raises(DiagnosticError) as caught:
            read_source(bad, "bad.accl")
        (diagnostic,) = caught.value.diagnostics
        assert diagnostic.code == "unreadable-file"
        assert diagnostic.message.startswith("cannot read `bad.accl`: ")
    text = tmp_path / "text.accl"
    text.write_bytes("é\n".encode() + b"a\xff")
    with pytest.raises(DiagnosticError) as caught:
        read_source(text, "text.accl")
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.to_dict()["line"], diagnostic.to_dict()["column"]) == ("not-text", 2, 2)


# --- link references of the command line


def test_link_references() -> None:
    a, b = node("g", 0), node("g", 1)
    assert parse_link_ref(Source("--without", "g[0] <-> g[1]")) == ast.LinkRef(a, b, True, None, HERE)
    assert parse_link_ref(Source("--without", " 2 of g[0] -> * ")) == ast.LinkRef(
        a, ast.NodeRef((), HERE), False, number(2), HERE
    )


@pytest.mark.parametrize(
    "text", ["", "a", "a <->", "a -> b c", "a - b", "1.5 of a -> b", "a -> b, c -> d", "\0", "((("]
)
def test_bad_link_references(text: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        parse_link_ref(Source("--without", text))
    assert caught.value.diagnostics[0].labels[0].span.source.name == "--without"


# --- units


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("25 GB/s", 25 * 10**9),
        ("200 Gbit/s", 25 * 10**9),
        ("1 GiB/s", 2**30),
        ("0.5 TB/s", 5 * 10**11),
        ("8 Mbit/s", 10**6),
    ],
)
def test_rates_are_exact(text: str, value: int) -> None:
    decl = statement(f"link a {{ {text} }}")
    assert isinstance(decl, ast.LinkClassDecl)
    assert units.base_value(decl.bandwidth) == value


def test_times_and_sizes_are_exact() -> None:
    assert units.base_value(quantity(Fraction("0.7"), "us")) == Fraction(7, 10**7)
    assert units.base_value(quantity(3, "min")) == 180
    assert units.base_value(quantity(1, "KiB")) == 1024
    with pytest.raises(ValueError, match="no unit"):
        units.base_value(quantity(1, "furlong"))


@pytest.mark.parametrize(
    ("unit", "kind", "expected"),
    [
        ("GBps", units.BANDWIDTH, "GB/s"),
        ("Gbps", units.BANDWIDTH, "Gbit/s"),
        ("Gb/s", units.BANDWIDTH, "Gbit/s"),
        ("gb/s", units.BANDWIDTH, "GB/s"),
        ("GB", units.BANDWIDTH, "GB/s"),
        ("GiBps", units.BANDWIDTH, "GiB/s"),
        ("µs", units.LATENCY, "us"),
        ("usec", units.LATENCY, "us"),
        ("kb", units.SIZE, "KB"),
        ("M", units.SIZE, "MiB"),
        ("mib", units.SIZE, "MiB"),
        ("minutes", units.TIME, "min"),
        ("furlong", units.TIME, None),
    ],
)
def test_other_spellings_of_units(unit: str, kind: str, expected: str | None) -> None:
    assert units.suggest_unit(unit, kind) == expected


def test_a_word_of_another_place_begins_an_item_after_a_list() -> None:
    # `reduce` is a statement's first word too; after a list the lexer must not think that a statement follows
    for before in ("all_gather on ring(4) among g[0], g[1]", "all_gather on ring(4) without g[0] <-> g[1]"):
        tree = parse(Source("t", f"{before}\nreduce on ring(4)\n"))
        assert [item.collective for item in tree.items] == ["all_gather", "reduce"]
    both = parse(Source("t", "together { reduce on full(4) among g[0..1]  reduce on full(4) among g[2..3] }"))
    assert len(both.items[0].uses) == 2
