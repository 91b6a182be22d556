"""Collectives by precondition and postcondition: chunks, where they are, and where they are needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from acclc.diagnostics import Label, suggest
from acclc.ir.problem import Collective, Demand, InPlace, Op, Place, Problem, Rank
from acclc.sema.arithmetic import evaluate
from acclc.sema.collectives import check_reachability, has_room, with_relays
from acclc.sema.context import Context, Site
from acclc.sema.loops import LoopRunner, Statement
from acclc.sema.machine import indexed
from acclc.sema.options import GOAL_OPTIONS, read_options
from acclc.sema.references import listed
from acclc.sema.scope import Scope
from acclc.sema.shards import ShardSketch, number_shards
from acclc.source import Span
from acclc.syntax import ast

_Key = tuple[str, tuple[int, ...]]


@dataclass(slots=True)
class _Chunk:
    inputs: tuple[Place, ...]
    is_reduced: bool
    span: Span
    outputs: list[Place] = field(default_factory=list)
    needed_at: dict[Rank, Span] = field(default_factory=dict)


@dataclass(slots=True)
class _Need:
    key: _Key
    ranks: list[tuple[Rank, Span]]
    span: Span
    notes: tuple[str, ...]


def analyse_custom(custom: ast.CustomCollective, name: str, context: Context) -> Problem | None:
    """Return the problem of a custom collective on all ranks of its topology; None after an error.

    Units count a rank's chunks in the order of the statements: inputs by ``chunk`` and ``reduce``, outputs by
    ``need``.
    """
    report = context.report
    before = report.attempts
    site = context.site(custom.topology)
    chunks: dict[_Key, _Chunk] | None = None
    if site is not None:
        body = _Body(site, context)
        body.run(custom.body, Scope())
        chunks = body.finish(custom)
    is_reducing = chunks is not None and any(c.is_reduced for c in chunks.values())
    allowed = GOAL_OPTIONS | {"op"} if is_reducing or chunks is None else GOAL_OPTIONS
    choices = read_options(
        custom.options, allowed, f"`{custom.name}`, which reduces nothing", context.default_goal, report
    )
    if site is None or chunks is None:
        return None
    if len(site.topology.ranks) < 2 and not site.machine.broken:
        report.error(
            "too-few-ranks",
            f"topology `{site.topology.name}` has fewer than two GPUs: there is nobody to talk to",
            custom.topology.span,
            help="a collective needs two or more",
        )
    goal = with_relays(choices, site.topology.ranks, site, context)
    if report.attempts > before or site.machine.broken:
        return None
    sketches = [
        ShardSketch(indexed(*key), chunk.inputs, tuple(chunk.outputs), chunk.is_reduced)
        for key, chunk in chunks.items()
    ]
    shards = number_shards([(0, s) for s in sketches])
    check_reachability(shards, site, goal, custom.name_span, context)
    if report.attempts > before:
        return None
    op = (choices.op or Op.SUM) if is_reducing else None
    demand = Demand(Collective.CUSTOM, site.topology.ranks, None, op, InPlace.NONE)
    return Problem(name, site.topology, Collective.CUSTOM, (demand,), shards, goal, custom.span)


class _Body:
    def __init__(self, site: Site, context: Context) -> None:
        self._site = site
        self._context = context
        self._report = context.report
        self._loops = LoopRunner(context.report)
        self._chunks: dict[_Key, _Chunk | None] = {}
        self._needs: list[_Need] = []
        self._input_units: dict[Rank, int] = {}
        self._places = 0
        self._knows_chunks = True
        """False if a chunk's name could not be told: a need may be for it."""
        self._knows_needs = True
        """False if it could not be told what is needed, or where."""

    def run(self, statements: Sequence[Statement], scope: Scope) -> None:
        self._loops.block(statements, scope, self._run)

    def _run(self, statement: Statement, scope: Scope) -> None:
        match statement:
            case ast.ChunkStatement() | ast.ReduceStatement():
                self._chunk(statement, scope)
            case ast.NeedStatement():
                self._need(statement, scope)
            case _:
                raise TypeError(f"{type(statement).__name__} is no statement of a collective")

    def _key(self, name: str, indices: Sequence[ast.Expression], scope: Scope) -> _Key | None:
        values = [evaluate(index, scope, self._report) for index in indices]
        whole = tuple(value for value in values if value is not None)
        return (name, whole) if len(whole) == len(values) else None

    def _chosen(
        self, statement: ast.ChunkStatement | ast.ReduceStatement | ast.NeedStatement, scope: Scope
    ) -> list[tuple[Rank, Span]] | None:
        chosen = self._context.ranks(statement.nodes, self._site, scope)
        if chosen is None or not self._context.distinct(chosen, self._site, "this list"):
            return None
        self._places += len(chosen)
        return chosen if has_room(self._places, statement.span, self._context) else None

    def _chunk(self, statement: ast.ChunkStatement | ast.ReduceStatement, scope: Scope) -> None:
        key = self._key(statement.name, statement.indices, scope)
        chosen = self._chosen(statement, scope)
        if key is None:
            self._knows_chunks = False
            return
        if key in self._chunks:
            first = self._chunks[key]
            self._report.error(
                "duplicate-name",
                f"chunk `{indexed(*key)}` is declared twice",
                statement.span,
                others=(Label(first.span, "the first one"),) if first and first.span != statement.span else (),
                notes=scope.loop_note(),
                help="give one of them another name; `chunk c at g[0], g[1]` puts the same data at both",
            )
            return
        if chosen is None:
            self._chunks[key] = None
            return
        places: list[Place] = []
        for rank, _ in chosen:
            unit = self._input_units.get(rank, 0)
            self._input_units[rank] = unit + 1
            places.append(Place(rank, unit))
        self._chunks[key] = _Chunk(tuple(places), isinstance(statement, ast.ReduceStatement), statement.span)

    def _need(self, statement: ast.NeedStatement, scope: Scope) -> None:
        key = self._key(statement.name, statement.indices, scope)
        chosen = self._chosen(statement, scope)
        if key is not None:
            self._needs.append(_Need(key, chosen or [], statement.span, scope.loop_note()))
            self._knows_needs &= chosen is not None
        else:
            self._knows_needs = False

    def finish(self, custom: ast.CustomCollective) -> dict[_Key, _Chunk]:
        """Join needs with chunks, and check that each has the other."""
        units: dict[Rank, int] = {}
        for need in self._needs:
            chunk = self._chunks.get(need.key)
            if chunk is None:
                if need.key not in self._chunks:
                    self._unknown(need)
                continue
            for rank, span in need.ranks:
                if rank in chunk.needed_at:
                    self._needed_twice(need, rank, span, chunk)
                    continue
                chunk.needed_at[rank] = span
                chunk.outputs.append(Place(rank, units.get(rank, 0)))
                units[rank] = units.get(rank, 0) + 1
        if self._knows_needs:
            self._check_all_needed()
        if not self._chunks and not self._needs and self._knows_chunks and self._knows_needs:
            self._report.error(
                "empty-collective",
                f"collective `{custom.name}` moves nothing",
                custom.name_span,
                help="say what there is (`chunk c at g[0]`) and who needs it (`need c at g[1]`)",
            )
        return {key: chunk for key, chunk in self._chunks.items() if chunk is not None}

    def _unknown(self, need: _Need) -> None:
        if not self._knows_chunks or self._report.known("unknown-chunk", need.span):
            return
        name, _ = need.key
        names = dict.fromkeys(key[0] for key in self._chunks)
        if name in names:
            indices = [indexed(*key) for key in self._chunks if key[0] == name]
            advice = f"there are {listed(f'`{i}`' for i in indices)}"
        else:
            near = suggest(name, names)
            advice = f"did you mean `{near}`?" if near else f"there are {listed(f'`{n}`' for n in names)}"
        self._report.error(
            "unknown-chunk",
            f"nobody has a chunk `{indexed(*need.key)}`",
            need.span,
            notes=need.notes,
            help=advice if names else "declare it: `chunk c at g[0]`",
        )

    def _needed_twice(self, need: _Need, rank: Rank, span: Span, chunk: _Chunk) -> None:
        self._report.error(
            "duplicate-need",
            f"`{self._site.name(rank)}` needs chunk `{indexed(*need.key)}` twice",
            span,
            others=(Label(chunk.needed_at[rank], "the first time"),) if chunk.needed_at[rank] != span else (),
            notes=need.notes,
            help="once is enough",
        )

    def _check_all_needed(self) -> None:
        for key, chunk in self._chunks.items():
            if chunk is not None and not chunk.outputs:
                self._report.error(
                    "unneeded-chunk",
                    f"nobody needs chunk `{indexed(*key)}`",
                    chunk.span,
                    help="add `need`, or take the chunk away",
                )
