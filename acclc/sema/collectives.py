"""From a named collective, or several together, to demands, shards and a goal."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from acclc.diagnostics import Label, suggest
from acclc.ir.problem import Collective, Demand, Goal, InPlace, Op, Problem, Rank, Shard
from acclc.sema.checks import Reachability, explain, outside_way
from acclc.sema.context import Context, Site
from acclc.sema.limits import MAX_PLACES
from acclc.sema.names import said_name
from acclc.sema.options import GOAL_OPTIONS, Choices, read_options
from acclc.sema.references import listed
from acclc.sema.scope import Scope
from acclc.sema.shards import IN_PLACE, REDUCING, ROOTED, number_shards, places_needed, sketch
from acclc.source import Span
from acclc.syntax import ast

_NAMED = tuple(c.value for c in Collective if c not in (Collective.CUSTOM, Collective.TOGETHER))


def analyse_use(use: ast.CollectiveUse, name: str, context: Context) -> Problem | None:
    """Return the problem of one collective; None after an error."""
    before = context.report.attempts
    collective = _collective(use, context)
    choices = _choices(use, collective, GOAL_OPTIONS, context)
    site = context.site(use.topology)
    demand = None if site is None else _demand(use, collective, choices, site, context)
    if site is None or demand is None or collective is None:
        return None
    site = site.within(demand.group)
    goal = with_relays(choices, demand.group, site, context)
    shards = _shards([demand], site, use.span, context)
    check_reachability(shards, site, goal, use.collective_span, context)
    if context.report.attempts > before or site.machine.broken:
        return None
    return Problem(name, site.topology, collective, (demand,), shards, goal, use.span)


def analyse_together(group: ast.Together, name: str, context: Context) -> Problem | None:
    """Return the problem of several collectives on disjoint groups at the same time; None after an error."""
    report = context.report
    before = report.attempts
    outer = read_options(group.options, GOAL_OPTIONS, "`together`", context.default_goal, report)
    if not group.uses:
        report.error(
            "nothing-together", "`together` holds no collective", group.span, help="put collectives between the braces"
        )
        return None
    demands: list[Demand] = []
    spans: list[Span] = []
    site: Site | None = None
    for use in group.uses:
        collective = _collective(use, context)
        if collective is Collective.ALL_TO_ALL_V:
            report.error(
                "uneven-counts",
                "`all_to_all_v` runs alone: its counts go with each call, and of several calls at once there is one",
                use.collective_span,
                help="take it out of `together`, or use `all_to_all` with the largest block as its count",
            )
        choices = _choices(use, collective, frozenset(), context)
        if use.name is not None:
            report.error(
                "misplaced-name",
                f"`as {use.name}` has no meaning inside `together`",
                said_name(use)[1],
                help="the whole has one name: `together as NAME { ... }`",
            )
        own = context.site(use.topology)
        if own is None:
            continue
        if site is not None and own.topology.name != site.topology.name:
            report.error(
                "different-topologies",
                f"this collective stands on `{own.topology.name}`, the first one on `{site.topology.name}`",
                use.topology.span,
                others=(Label(group.uses[0].topology.span, "the first one"),),
                help="what runs together runs on one topology",
            )
            continue
        site = site or own
        demand = _demand(use, collective, choices, own, context)
        if demand is not None:
            demands.append(demand)
            spans.append(use.span)
    if site is None:
        return None
    _check_disjoint(demands, spans, site, context)
    members = [rank for demand in demands for rank in demand.group]
    goal = with_relays(outer, members, site, context)
    if report.attempts > before or site.machine.broken:
        return None
    site = site.within(members)
    shards = _shards(demands, site, group.span, context)
    check_reachability(shards, site, goal, group.span, context)
    if report.attempts > before:
        return None
    return Problem(name, site.topology, Collective.TOGETHER, tuple(demands), shards, goal, group.span)


def _collective(use: ast.CollectiveUse, context: Context) -> Collective | None:
    if use.collective in _NAMED:
        return Collective(use.collective)
    near = suggest(use.collective, _NAMED)
    context.report.error(
        "unknown-collective",
        f"no collective is called `{use.collective}`",
        use.collective_span,
        help=f"did you mean `{near}`?" if near else f"there are {listed(_NAMED, 16)}; others: `collective NAME on ...`",
    )
    return None


def _choices(
    use: ast.CollectiveUse, collective: Collective | None, common: frozenset[str], context: Context
) -> Choices:
    allowed = set(common)
    if collective is None:
        allowed |= {"root", "op", "pairs"}
    elif collective in ROOTED:
        allowed.add("root")
    elif collective is Collective.SEND_RECV:
        allowed.add("pairs")
    if collective in REDUCING:
        allowed.add("op")
    if not common:
        allowed.add("weight")
    where = f"`{use.collective}`" if common else f"`{use.collective}` inside `together`"
    return read_options(use.options, allowed, where, context.default_goal, context.report)


def _demand(
    use: ast.CollectiveUse, collective: Collective | None, choices: Choices, site: Site, context: Context
) -> Demand | None:
    """Return the demand with its group, root, operator and pairs; None after an error."""
    chosen = context.ranks(use.group, site, Scope()) if use.group else [(r, use.span) for r in site.topology.ranks]
    if chosen is None or not context.distinct(chosen, site, "the group"):
        return None
    group = tuple(rank for rank, _ in chosen)
    if len(group) < 2 and not site.machine.broken:
        of = "the group" if use.group else f"topology `{site.topology.name}`"
        context.report.error(
            "too-few-ranks",
            f"{of} has {'no GPU' if not group else 'one GPU'}: there is nobody to talk to",
            use.group[0].span if use.group else use.topology.span,
            help="a collective needs two or more",
        )
        return None
    if collective is None or not group:
        return None
    root = _root(choices, group, site, context) if collective in ROOTED else None
    op = (choices.op or Op.SUM) if collective in REDUCING else None
    pairs = _pairs(choices, group, site, context) if collective is Collective.SEND_RECV else ()
    if pairs is None or (collective in ROOTED and root is None):
        return None
    in_place = IN_PLACE.get(collective, InPlace.NONE)
    if choices.weight > 1 and in_place is not InPlace.SAME:
        in_place = InPlace.NONE  # the part of a rank would not begin at its position times the count
    return Demand(collective, group, root, op, in_place, pairs, choices.weight)


def _root(choices: Choices, group: Sequence[Rank], site: Site, context: Context) -> Rank | None:
    """Return the root: the one that is said, or the first of the group; None after an error."""
    if choices.root is None:
        return group[0]
    chosen = context.ranks([choices.root], site, Scope())
    if chosen is None:
        return None
    if len(chosen) != 1:
        context.report.error(
            "many-roots",
            f"this names {len(chosen)} GPUs, and there is one root",
            choices.root.span,
            help="add an index",
        )
        return None
    root = chosen[0][0]
    if root not in group:
        context.report.error(
            "root-outside-group",
            f"the root `{site.name(root)}` is not in the group",
            choices.root.span,
            help=f"the group is {listed(site.name(r) for r in group)}",
        )
        return None
    return root


def _pairs(
    choices: Choices, group: Sequence[Rank], site: Site, context: Context
) -> tuple[tuple[Rank, Rank], ...] | None:
    """Return who sends to whom: as said, or each to the next one of the group; None after an error."""
    if choices.pairs is None:
        return tuple(zip(group, (*group[1:], group[0]), strict=True))
    report = context.report
    pairs: dict[tuple[Rank, Rank], Span] = {}
    failed = False
    for refs in choices.pairs.pairs:
        ends = [context.ranks([ref], site, Scope()) for ref in refs]
        if ends[0] is None or ends[1] is None:
            failed = True
            continue
        sources, targets = ([rank for rank, _ in end] for end in ends if end is not None)
        outside = next((rank for rank in (*sources, *targets) if rank not in group), None)
        if outside is not None:
            report.error(
                "pair-outside-group",
                f"`{site.name(outside)}` is not in the group",
                refs[0].span if outside in sources else refs[1].span,
                help=f"the group is {listed(site.name(r) for r in group)}",
            )
            failed = True
        if len(sources) != len(targets):
            report.error(
                "uneven-pair",
                f"{len(sources)} senders and {len(targets)} receivers do not make pairs",
                refs[1].span,
                help="both sides of `->` name equally many GPUs, joined in order",
            )
            failed = True
            continue
        for pair in zip(sources, targets, strict=True):
            if pair in pairs:
                report.error(
                    "duplicate-pair",
                    f"the pair `{site.name(pair[0])} -> {site.name(pair[1])}` is there twice",
                    refs[0].span,
                    help="take one away",
                )
                failed = True
            pairs[pair] = refs[0].span
    return None if failed else tuple(pairs)


def _check_disjoint(demands: Sequence[Demand], spans: Sequence[Span], site: Site, context: Context) -> None:
    taken: dict[Rank, Span] = {}
    for demand, span in zip(demands, spans, strict=True):
        shared = [rank for rank in demand.group if rank in taken]
        if shared:
            context.report.error(
                "overlapping-groups",
                f"{listed(f'`{site.name(r)}`' for r in shared)} {'is' if len(shared) == 1 else 'are'} in two groups",
                span,
                others=(Label(taken[shared[0]], "the other group"),),
                help="groups that run together share no GPU: choose them with `among`",
            )
        taken |= {rank: span for rank in demand.group if rank not in taken}


def _shards(demands: Sequence[Demand], site: Site, span: Span, context: Context) -> tuple[Shard, ...]:
    """Return the shards of all demands, or none after an error."""
    if not has_room(sum(places_needed(d) for d in demands), span, context):
        return ()
    return number_shards([(number, s) for number, demand in enumerate(demands) for s in sketch(demand, site.name)])


def has_room(places: int, span: Span, context: Context) -> bool:
    """Say whether a problem of so many inputs and outputs is within the limits; if not, report it."""
    if places <= MAX_PLACES:
        return True
    context.report.error(
        "too-large",
        f"the shards of this collective have {places:,} inputs and outputs",
        span,
        help=f"the limit is {MAX_PLACES:,}: 2,048 ranks of an all_gather",
    )
    return False


def with_relays(choices: Choices, group: Collection[Rank], site: Site, context: Context) -> Goal:
    """Return the goal with the ranks of the ``relays`` hint looked up; errors are reported."""
    if choices.relays is None:
        return choices.goal
    chosen = context.ranks(choices.relays.nodes, site, Scope())
    if chosen is None or not context.distinct(chosen, site, "`relays`"):
        return choices.goal
    for rank, span in chosen:
        if rank not in group:
            context.report.error(
                "relay-outside-group",
                f"the relay `{site.name(rank)}` is not in the group",
                span,
                help="GPUs outside the group run nothing and pass nothing on: take it into the group, or leave it out",
            )
    hints = replace(choices.goal.hints, relays=tuple(rank for rank, _ in chosen))
    return replace(choices.goal, hints=hints)


def check_reachability(shards: Sequence[Shard], site: Site, goal: Goal, span: Span, context: Context) -> None:
    """Report it if some data has no way to where it is needed, at all or within the ``relays``."""
    if site.machine.broken:
        return
    lost = Reachability(site.topology).missing(shards)
    if lost is not None:
        _report_lost(*lost, site, span, context)
        return
    if goal.hints.relays is None:
        return
    lost = Reachability(site.topology, goal.hints.relays).missing(shards)
    if lost is not None:
        context.report.error(
            "relays-too-few",
            f"with these relays, data of `{site.name(lost[0])}` cannot reach `{site.name(lost[1])}`",
            span,
            help="allow more GPUs to pass data on",
        )


def _report_lost(source: Rank, target: Rank, site: Site, span: Span, context: Context) -> None:
    """Report that data of ``source`` does not reach ``target``: for want of links, or of the GPUs between them."""
    whole = context.frozen(site.machine).topology
    between = outside_way(whole, site.group if site.group is not None else whole.ranks, source, target)
    if between:
        missing = listed(f"`{site.name(rank)}`" for rank in between)
        notes: tuple[str, ...] = ("GPUs outside the group run nothing, so they pass nothing on",)
        help = f"take {missing} into the group, or choose a group that is connected"
    else:
        notes = explain(whole, Reachability(whole).from_rank(source), source, target)
        help = "add the missing links, or choose a group that is connected"
    within = "within the group, " if between else ""
    context.report.error(
        "not-connected",
        f"{within}data of `{site.name(source)}` cannot reach `{site.name(target)}` in topology `{site.topology.name}`",
        span,
        notes=notes,
        help=help,
    )
