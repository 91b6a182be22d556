"""From lark's tree to the frozen tree of :mod:`.ast`.

What a grammar cannot say is checked here (units, whole numbers, what may stand twice); every such error is
collected, and a harmless value put in its place so that the rest of the tree is still looked at.
"""

from __future__ import annotations

from fractions import Fraction

from lark import Token

from acclc.diagnostics import suggest
from acclc.source import Source, Span
from acclc.syntax import ast, units
from acclc.syntax.branches import Branch, offset_of, tokens, trees
from acclc.syntax.numbers import NumberBuilder

GOALS = ("latency", "bandwidth", "pareto", "size", "chunks", "steps", "rounds")
PURPOSES = ("torch",)
"""What `goal ... on TOPOLOGY` compiles a set of collectives for."""
IN_BRACES = "`all_reduce on dgx1 { goal latency }`"
_POINT = ("chunks", "steps", "rounds")


class Builder(NumberBuilder):
    """Builds the tree of one source. ``errors`` is to be looked at afterwards."""

    # --- items

    def file(self, tree: Branch) -> ast.File:
        """Build the file."""
        return ast.File(self.all(tree), span=Span(self.source, 0, len(self.source.text)))

    def link_ref(self, tree: Branch) -> ast.LinkRef:
        """Build the one link reference of a command line."""
        return self._link_ref(next(trees(tree)))

    def _import_item(self, tree: Branch) -> ast.Import:
        target = tokens(tree)[1]
        if target.type == "STRING":
            return ast.Import(str(target[1:-1]), True, span=self.span(tree))
        return ast.Import(str(target), False, span=self.span(tree))

    def _topology_decl(self, tree: Branch) -> ast.TopologyDecl:
        word, name = tokens(tree)[:2]
        body = tuple(self.build(child) for child in trees(tree) if child.data not in ("parameters",))
        return ast.TopologyDecl(
            str(name),
            self.optional(tree, "parameters"),
            body,
            doc_above(self.source, offset_of(word.start_pos)),
            span=self.span(tree),
            name_span=self.span(name),
        )

    def _topology_alias(self, tree: Branch) -> ast.TopologyAlias:
        name = tokens(tree)[1]
        value = self.all(tree, "topology_call")[0]
        return ast.TopologyAlias(
            str(name),
            self.optional(tree, "parameters"),
            value,
            span=self.span(tree),
            name_span=self.span(name),
        )

    def _parameters(self, tree: Branch) -> tuple[ast.Parameter, ...]:
        return self.all(tree)

    def _parameter(self, tree: Branch) -> ast.Parameter:
        default = self.all(tree)
        return ast.Parameter(str(tokens(tree)[0]), default[0] if default else None, span=self.span(tree))

    # --- statements of a topology

    def _link_class(self, tree: Branch) -> ast.LinkClassDecl:
        rates: list[tuple[str, Branch]] = []
        nominal: ast.Quantity | None = None
        kind: str | None = None
        for entry in trees(tree):
            words = tokens(entry)
            if not words:
                rates.append(("", next(trees(entry))))
            elif words[0].type == "NOMINAL":
                self._once(nominal is not None, entry, "nominal")
                nominal = self._quantity(next(trees(entry)), units.BANDWIDTH)
            else:
                self._once(kind is not None, entry, "kind")
                kind = str(words[1])
        name = tokens(tree)[1]
        values = [
            self._quantity(rate, units.BANDWIDTH if i == 0 else units.LATENCY) for i, (_, rate) in enumerate(rates)
        ]
        if len(values) > 2:
            self.error(
                "repeated",
                values[2].span,
                "a link class has one bandwidth and one latency",
                "this is the third quantity",
            )
        if not values:
            self.error(
                "missing-bandwidth",
                self.span(name),
                f"the link class `{name}` states no bandwidth",
                help=f"the rate stands first: `link {name} {{ 25 GB/s, 0.7 us }}`",
            )
            values.append(ast.Quantity(Fraction(1), "GB/s", span=self.span(name)))
        return ast.LinkClassDecl(
            str(name), values[0], values[1] if len(values) > 1 else None, nominal, kind, span=self.span(tree)
        )

    def _once(self, again: bool, entry: Branch, word: str) -> None:
        if again:
            self.error("repeated", self.span(entry), f"`{word}` is stated twice", "the second time")

    def _nodes(self, tree: Branch) -> ast.NodesDecl:
        kind, name = tokens(tree)[:2]
        return ast.NodesDecl(
            str(kind),
            str(name),
            self.optional(tree, "dimensions"),
            self.optional(tree, "abilities"),
            span=self.span(tree),
        )

    def _dimensions(self, tree: Branch) -> tuple[ast.Expression, ...]:
        return self.all(tree)

    def _abilities(self, tree: Branch) -> tuple[str, ...]:
        return tuple(str(word) for word in tokens(tree))

    def _replica(self, tree: Branch) -> ast.ReplicaDecl:
        call = self.all(tree, "topology_call")[0]
        return ast.ReplicaDecl(call, str(tokens(tree)[0]), self.optional(tree, "dimensions"), span=self.span(tree))

    def _link_decl(self, tree: Branch) -> ast.LinkDecl:
        sources, targets = self.all(tree, "node_list")
        count = self.all(tree, "number", "parenthesised")
        return ast.LinkDecl(
            sources,
            targets,
            tokens(tree)[0].type == "BOTH",
            count[0] if count else None,
            self.all(tree, "node_ref")[0],
            span=self.span(tree),
        )

    def _budget(self, tree: Branch) -> ast.BudgetDecl:
        children = list(trees(tree))
        return ast.BudgetDecl(
            str(tokens(tree)[1][1:-1]),
            self._quantity(children[0], units.BANDWIDTH),
            any(child.data == "both_ways" for child in children),
            self.all(tree, "link_ref"),
            span=self.span(tree),
        )

    def _let(self, tree: Branch) -> ast.Let:
        return ast.Let(str(tokens(tree)[1]), self.all(tree)[0], span=self.span(tree))

    def _for_topology(self, tree: Branch) -> ast.For:
        body = tuple(self.build(child) for child in trees(tree) if child.data != "loop")
        return ast.For(self.all(tree, "loop"), body, span=self.span(tree))

    _for_custom = _for_topology

    def _loop(self, tree: Branch) -> ast.Loop:
        return ast.Loop(str(tokens(tree)[0]), self.all(tree)[0], span=self.span(tree))

    # --- references

    def _topology_call(self, tree: Branch) -> ast.TopologyCall:
        name = tokens(tree)[0]
        return ast.TopologyCall(
            str(name),
            self.optional(tree, "arguments"),
            self.optional(tree, "without"),
            span=self.span(tree),
            name_span=self.span(name),
        )

    def _arguments(self, tree: Branch) -> tuple[ast.Argument, ...]:
        return self.all(tree)

    def _argument(self, tree: Branch) -> ast.Argument:
        names = tokens(tree)
        return ast.Argument(str(names[0]) if names else None, self.all(tree)[0], span=self.span(tree))

    def _without(self, tree: Branch) -> tuple[ast.LinkRef, ...]:
        return self.all(tree)

    def _link_ref(self, tree: Branch) -> ast.LinkRef:
        *count, src, dst = self.all(tree)
        both = tokens(tree)[-1].type == "BOTH"
        return ast.LinkRef(src, dst, both, count[0] if count else None, span=self.span(tree))

    def _any_node(self, tree: Branch) -> ast.NodeRef:
        return ast.NodeRef((), span=self.span(tree))

    def _node_list(self, tree: Branch) -> tuple[ast.NodeRef, ...]:
        return self.all(tree)

    def _node_ref(self, tree: Branch) -> ast.NodeRef:
        return ast.NodeRef(self.all(tree), span=self.span(tree))

    def _part(self, tree: Branch) -> ast.Part:
        return ast.Part(str(tokens(tree)[0]), self.all(tree), span=self.span(tree))

    # --- collectives

    def _collective_use(self, tree: Branch) -> ast.CollectiveUse:
        collective = tokens(tree)[0]
        groups = [child for child in trees(tree) if child.data == "among"]
        names = [child for child in trees(tree) if child.data == "as_name"]
        for again in groups[1:] + names[1:]:
            word = "among" if again.data == "among" else "as"
            self.error("repeated", self.span(again), f"`{word}` is stated twice", "the second time")
        return ast.CollectiveUse(
            str(collective),
            self.all(tree, "topology_call")[0],
            self.all(groups[0]) if groups else (),
            self.build(names[0]) if names else None,
            self.optional(tree, "options"),
            span=self.span(tree),
            collective_span=self.span(collective),
        )

    def _as_name(self, tree: Branch) -> str:
        return str(tokens(tree)[1])

    def _custom_collective(self, tree: Branch) -> ast.CustomCollective:
        name = tokens(tree)[1]
        call = self.all(tree, "topology_call")[0]
        body = self.all(tree, "chunk", "reduce", "need", "let", "for_custom")
        return ast.CustomCollective(
            str(name),
            call,
            body,
            self.optional(tree, "options"),
            span=self.span(tree),
            name_span=self.span(name),
        )

    def _chunk(self, tree: Branch) -> ast.ChunkStatement:
        (name, indices), nodes = self.all(tree)
        return ast.ChunkStatement(name, indices, nodes, span=self.span(tree))

    def _reduce(self, tree: Branch) -> ast.ReduceStatement:
        (name, indices), nodes = self.all(tree)
        return ast.ReduceStatement(name, indices, nodes, span=self.span(tree))

    def _need(self, tree: Branch) -> ast.NeedStatement:
        (name, indices), nodes = self.all(tree)
        return ast.NeedStatement(name, indices, nodes, span=self.span(tree))

    def _chunk_name(self, tree: Branch) -> tuple[str, tuple[ast.Expression, ...]]:
        return str(tokens(tree)[0]), self.all(tree)

    def _together(self, tree: Branch) -> ast.Together:
        name = self.all(tree, "as_name")
        uses = self.all(tree, "collective_use")
        options = self.optional(tree, "options")
        return ast.Together(name[0] if name else None, uses, options, span=self.span(tree))

    def _set_use(self, tree: Branch) -> ast.SetUse:
        goal, purpose = tokens(tree)[:2]
        if purpose not in PURPOSES:
            near = suggest(purpose, PURPOSES)
            self.error(
                "unknown-goal",
                self.span(purpose),
                f"there is no set of collectives for `{purpose}`",
                help=f"did you mean `{near}`?"
                if near
                else f"there is `goal torch on ...`; the goal of one collective stands in its braces: {IN_BRACES}",
            )
        return ast.SetUse(
            str(purpose),
            self.all(tree, "topology_call")[0],
            self.optional(tree, "options"),
            span=self.span(tree),
            purpose_span=Span(self.source, self.span(goal).start, self.span(purpose).end),
        )

    # --- options

    def _options(self, tree: Branch) -> tuple[ast.Option, ...]:
        options: list[ast.Option] = []
        for child in trees(tree):
            if child.data != "exact":
                options.append(self.build(child))
                continue
            previous = options[-1] if options else None
            word = tokens(child)[0]
            value = self.all(child)[0]
            if word in ("channels", "blocks"):
                options.append(ast.LimitOption(str(word), value, span=self.span(child)))
            elif isinstance(previous, ast.GoalOption) and previous.kind == "point":
                options[-1] = self._with_coordinate(previous, str(word), value, child)
            else:
                place = self.span(child)
                text = self.source.text[place.start : place.end]
                count = text[len(word) :].strip()
                self.error(
                    "stray-count",
                    place,
                    f"`{word}` alone is neither a limit nor a goal",
                    help=f"write `{word} up to {count}` for a limit, `goal {text}` for the goal itself",
                )
        return tuple(options)

    def _with_coordinate(self, goal: ast.GoalOption, word: str, value: ast.Expression, tree: Branch) -> ast.GoalOption:
        self._once(getattr(goal, word) is not None, tree, word)
        coordinates = {axis: getattr(goal, axis) for axis in _POINT} | {word: value}
        span = Span(self.source, goal.span.start, self.span(tree).end)
        return ast.GoalOption("point", None, None, **coordinates, span=span)

    def _goal_named(self, tree: Branch) -> ast.GoalOption:
        kind = str(tokens(tree)[1])
        if kind not in ("latency", "bandwidth", "pareto"):
            self._unknown_goal(tokens(tree)[1])
        return ast.GoalOption(kind, None, None, None, None, None, span=self.span(tree))

    def _unknown_goal(self, word: Token) -> None:
        if word == "size":
            self.error(
                "missing-unit",
                self.span(word),
                "`goal size` needs a range of sizes",
                help="for example `goal size 1 KiB .. 1 GiB`",
            )
            return
        if word in PURPOSES:
            self.error(
                "unknown-goal",
                self.span(word),
                f"`goal {word}` is no goal of one collective: it stands alone, for a set of them",
                help=f"write `goal {word} on full(4)` on a line of its own",
            )
            return
        near = suggest(word, GOALS)
        self.error(
            "unknown-goal",
            self.span(word),
            f"there is no goal `{word}`",
            help=f"did you mean `{near}`?"
            if near
            else "a goal is latency, bandwidth, pareto, a range of sizes (`size 1 KiB .. 1 GiB`) or a point"
            " (`chunks 3, steps 2, rounds 4`)",
        )

    def _goal_size(self, tree: Branch) -> ast.GoalOption:
        word = tokens(tree)[1]
        if word != "size":
            self._unknown_goal(word)
        low, high = (self._quantity(child, units.SIZE) for child in trees(tree))
        return ast.GoalOption("size", low, high, None, None, None, span=self.span(tree))

    def _goal_point(self, tree: Branch) -> ast.GoalOption:
        coordinates = dict.fromkeys(_POINT) | {str(tokens(tree)[1]): self.all(tree)[0]}
        return ast.GoalOption("point", None, None, **coordinates, span=self.span(tree))

    def _limit(self, tree: Branch) -> ast.LimitOption:
        return ast.LimitOption(str(tokens(tree)[0]), self.all(tree)[0], span=self.span(tree))

    def _deadline(self, tree: Branch) -> ast.DeadlineOption:
        value = self._quantity(next(trees(tree)), units.TIME)
        return ast.DeadlineOption(value, span=self.span(tree))

    def _root(self, tree: Branch) -> ast.RootOption:
        return ast.RootOption(self.all(tree)[0], span=self.span(tree))

    def _op(self, tree: Branch) -> ast.OpOption:
        return ast.OpOption(str(tokens(tree)[1]), span=self.span(tree))

    def _weight(self, tree: Branch) -> ast.WeightOption:
        return ast.WeightOption(self.all(tree)[0], span=self.span(tree))

    def _symmetry(self, tree: Branch) -> ast.SymmetryOption:
        word = tokens(tree)[1]
        if word not in ("on", "off"):
            self.error("on-or-off", self.span(word), f"`symmetry` is `on` or `off`, not `{word}`")
        return ast.SymmetryOption(word != "off", span=self.span(tree))

    def _relays(self, tree: Branch) -> ast.RelaysOption:
        return ast.RelaysOption(self.all(tree), span=self.span(tree))

    def _pairs(self, tree: Branch) -> ast.PairsOption:
        return ast.PairsOption(self.all(tree), span=self.span(tree))

    def _pair(self, tree: Branch) -> tuple[ast.NodeRef, ast.NodeRef]:
        source, target = self.all(tree)
        return source, target

    # --- emit

    def _emit(self, tree: Branch) -> ast.Emit:
        return ast.Emit(self.all(tree), span=self.span(tree))

    def _emit_entry(self, tree: Branch) -> ast.EmitEntry:
        return ast.EmitEntry(str(tokens(tree)[0]), self.all(tree), span=self.span(tree))

    def _emit_value(self, tree: Branch) -> str:
        token = tokens(tree)[0]
        return str(self._whole(token)) if token.type == "NUMBER" else str(token)


def doc_above(source: Source, offset: int) -> str:
    """Return the comment lines directly above the line of ``offset``, without ``#``; empty if there are none."""
    number, _ = source.position(offset)
    lines: list[str] = []
    for above in range(number - 1, 0, -1):
        line = source.line(above).strip()
        if not line.startswith("#"):
            break
        lines.append(line[1:].removeprefix(" ").rstrip())
    return "\n".join(reversed(lines))
