"""Random syntax trees, for hypothesis. They hold what a text can say, whether or not it means anything."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import strategies as st

from acclc.source import Source, Span
from acclc.syntax import ast, units

NOWHERE = Span(Source("<none>", ""), 0, 0)

names = st.sampled_from(
    ["g", "h", "sw", "box", "cpu", "n", "x", "_y", "Rail7", "all_gather", "nvlink", "dgx1", "s", "min"]
)
texts = st.text("abc #{}[]()<->,é帯\\'", max_size=8)
numbers = st.integers(0, 10**18 - 1).map(lambda value: ast.Number(value, NOWHERE))


def _expressions() -> st.SearchStrategy[ast.Expression]:
    leaves = st.one_of(numbers, st.builds(ast.Name, names, st.just(NOWHERE)))
    operators = st.sampled_from(["+", "-", "*", "/", "%", "**"])
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(ast.Binary, operators, inner, inner, st.just(NOWHERE)),
            st.builds(ast.Negate, inner, st.just(NOWHERE)),
        ),
        max_leaves=8,
    )


def tuples(strategy: st.SearchStrategy, least: int = 0, most: int = 3) -> st.SearchStrategy:
    return st.lists(strategy, min_size=least, max_size=most).map(tuple)


expressions = _expressions()
here = st.just(NOWHERE)
ranges = st.builds(ast.Range, expressions, expressions, st.booleans(), here)
parts = st.builds(ast.Part, names, tuples(st.one_of(expressions, ranges)), here)
node_refs = st.builds(ast.NodeRef, tuples(parts, 1), here)
link_ends = st.one_of(node_refs, st.just(ast.NodeRef((), NOWHERE)))
link_refs = st.builds(ast.LinkRef, link_ends, link_ends, st.booleans(), st.none() | expressions, here)
arguments = st.builds(ast.Argument, st.none() | names, expressions, here)
calls = st.builds(ast.TopologyCall, names, tuples(arguments), tuples(link_refs, most=2), here, here)
parameters = tuples(st.builds(ast.Parameter, names, st.none() | expressions, here))


def quantities(kind: str) -> st.SearchStrategy[ast.Quantity]:
    values = st.builds(Fraction, st.integers(0, 10**12), st.sampled_from([1, 2, 5, 10, 1000, 10**9]))
    return st.builds(ast.Quantity, values, st.sampled_from(sorted(units.UNITS[kind])), here)


rates, latencies = quantities(units.BANDWIDTH), quantities(units.LATENCY)
sizes, times = quantities(units.SIZE), quantities(units.TIME)

link_classes = st.builds(
    ast.LinkClassDecl, names, rates, st.none() | latencies, st.none() | rates, st.none() | names, here
)
kinds = st.sampled_from(["gpu", "switch", "host", "nic"])
nodes = st.builds(ast.NodesDecl, kinds, names, tuples(expressions), tuples(names), here)
replicas = st.builds(ast.ReplicaDecl, calls, names, tuples(expressions), here)
links = st.builds(
    ast.LinkDecl, tuples(node_refs, 1), tuples(node_refs, 1), st.booleans(), st.none() | expressions, node_refs, here
)
budgets = st.builds(
    ast.BudgetDecl, texts.filter(lambda t: '"' not in t), rates, st.booleans(), tuples(link_refs, 1), here
)
lets = st.builds(ast.Let, names, expressions, here)
loops = tuples(st.builds(ast.Loop, names, ranges, here), 1)


def bodies(simple: st.SearchStrategy, most: int = 4) -> st.SearchStrategy:
    statement = st.recursive(simple, lambda inner: st.builds(ast.For, loops, tuples(inner), here), max_leaves=4)
    return tuples(statement, most=most)


topology_statements = st.one_of(link_classes, nodes, replicas, links, budgets, lets)
topologies = st.builds(
    ast.TopologyDecl,
    names,
    parameters,
    bodies(topology_statements),
    st.sampled_from(["", "one", "one\n\ntwo"]),
    here,
    here,
)
aliases = st.builds(ast.TopologyAlias, names, parameters, calls, here, here)


@st.composite
def goals(draw: st.DrawFn) -> ast.GoalOption:
    kind = draw(st.sampled_from(["latency", "bandwidth", "pareto", "size", "point"]))
    if kind == "size":
        return ast.GoalOption(kind, draw(sizes), draw(sizes), None, None, None, NOWHERE)
    if kind != "point":
        return ast.GoalOption(kind, None, None, None, None, None, NOWHERE)
    present = draw(st.sets(st.sampled_from([0, 1, 2]), min_size=1))
    values = [draw(expressions) if axis in present else None for axis in range(3)]
    return ast.GoalOption(kind, None, None, *values, span=NOWHERE)


limited = st.sampled_from(["chunks", "steps", "rounds", "channels", "blocks"])
options = tuples(
    st.one_of(
        goals(),
        st.builds(ast.LimitOption, limited, expressions, here),
        st.builds(ast.DeadlineOption, times, here),
        st.builds(ast.RootOption, node_refs, here),
        st.builds(ast.OpOption, names, here),
        st.builds(ast.RelaysOption, tuples(node_refs, 1), here),
        st.builds(ast.SymmetryOption, st.booleans(), here),
        st.builds(ast.PairsOption, tuples(st.tuples(node_refs, node_refs), 1), here),
    ),
    most=4,
)
uses = st.builds(ast.CollectiveUse, names, calls, tuples(node_refs), st.none() | names, options, here, here)
custom_statements = st.one_of(
    *(
        st.builds(statement, names, tuples(expressions), tuples(node_refs, 1), here)
        for statement in (ast.ChunkStatement, ast.ReduceStatement, ast.NeedStatement)
    ),
    lets,
)
customs = st.builds(ast.CustomCollective, names, calls, bodies(custom_statements), options, here, here)
togethers = st.builds(ast.Together, st.none() | names, tuples(uses), options, here)
sets = st.builds(ast.SetUse, st.just("torch"), calls, options, here, here)
emit_words = st.sampled_from(["types", "ops", "arch", "protocols", "channels"])
emits = st.builds(
    ast.Emit,
    tuples(st.builds(ast.EmitEntry, emit_words, tuples(st.sampled_from(["f32", "sm_90", "2", "sum"]), 1), here)),
    here,
)
imports = st.one_of(
    st.builds(ast.Import, names, st.just(False), here),
    st.builds(ast.Import, texts.filter(lambda t: '"' not in t), st.just(True), here),
)
items = st.one_of(imports, topologies, aliases, uses, customs, togethers, sets, emits)
files = st.builds(ast.File, tuples(items), here)
