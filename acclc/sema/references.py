"""From references as written (``box[b].g[0..3]``) to nodes and link classes of a machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product

from acclc.diagnostics import Label, suggest
from acclc.sema.arithmetic import evaluate, evaluate_range
from acclc.sema.machine import Entry, NodeArray, ReplicaArray, indexed, shown
from acclc.sema.report import Report
from acclc.sema.scope import Scope
from acclc.source import Span
from acclc.syntax import ast


def resolve_nodes(
    ref: ast.NodeRef, names: Mapping[str, Entry], owner: str, scope: Scope, report: Report
) -> list[int] | None:
    """Return the positions of the nodes that ``ref`` names, in order; None if it has an error.

    ``owner`` is the topology's name, for messages. A part without an index stands for the whole array.
    """
    if not ref.parts:
        report.error(
            "unknown-node",
            "`*` does not stand for nodes here",
            ref.span,
            help="`*` is for patterns of existing links: in `without`, and in `over` of a budget",
        )
        return None
    starts = [0]
    for depth, part in enumerate(ref.parts):
        entry = _entry(ref, depth, names, owner, report)
        if entry is None:
            return None
        offsets = _offsets(part, entry, owner, scope, report)
        if offsets is None:
            return None
        stride = len(entry.machine.nodes) if isinstance(entry, ReplicaArray) else 1
        starts = [start + entry.start + offset * stride for start in starts for offset in offsets]
        if isinstance(entry, ReplicaArray):
            names, owner = entry.machine.names, entry.machine.name
    return starts


def _entry(
    ref: ast.NodeRef, depth: int, names: Mapping[str, Entry], owner: str, report: Report
) -> NodeArray | ReplicaArray | None:
    """Return what part ``depth`` names; None after an error, or if the name's declaration has one."""
    part, last = ref.parts[depth], depth == len(ref.parts) - 1
    if part.name not in names:
        if not report.known("unknown-node", part.span):
            near = suggest(part.name, names)
            known = listed(f"`{name}`" for name in names)
            report.error(
                "unknown-node",
                f"no node `{part.name}` in topology `{owner}`",
                part.span,
                help=f"did you mean `{near}`?" if near else f"it has {known}" if known else "it has no nodes yet",
            )
        return None
    entry = names[part.name]
    if isinstance(entry, ReplicaArray) and last:
        inner = [f"`{part.name}.{name}`" for name in entry.machine.names]
        report.error(
            "not-a-node",
            f"`{part.name}` is a replica of topology `{entry.machine.name}`, not a node",
            ref.span,
            help=f"name nodes of it: {listed(inner)}" if inner else None,
            others=(Label(entry.span, "declared here"),),
        )
        return None
    if isinstance(entry, NodeArray) and not last:
        report.error(
            "not-a-replica",
            f"`{part.name}` is a node; it has no `{ref.parts[depth + 1].name}` inside",
            ref.span,
            others=(Label(entry.span, "declared here"),),
            help="only replicas of a topology have nodes inside",
        )
        return None
    return entry


def _offsets(
    part: ast.Part, entry: NodeArray | ReplicaArray, owner: str, scope: Scope, report: Report
) -> list[int] | None:
    """Return the positions within the array that the indices of ``part`` choose."""
    if not part.indices:
        return list(range(entry.size))
    least, most = len(shown(entry.dimensions)), len(entry.dimensions)
    if not least <= len(part.indices) <= most:
        has = least if len(part.indices) < least else most
        report.error(
            "wrong-indices",
            f"`{part.name}` takes {_indices(has)}, not {len(part.indices)}",
            part.span,
            others=(Label(entry.span, "declared here"),),
            help="leave all indices away to name the whole array" if has else f"write `{part.name}`",
        )
        return None
    single = _single(part, entry, scope, report)
    if single is not None:
        return [single]
    choices: list[range] = []
    for index in part.indices:
        chosen = _choice(index, scope, report)
        if chosen is None:
            return None
        choices.append(chosen)
    choices += [range(1)] * (most - len(choices))
    offsets = [0]
    for axis, (chosen, length) in enumerate(zip(choices, entry.dimensions, strict=True)):
        if chosen[0] < 0 or chosen[-1] >= length:
            _out_of_range(part, entry, choices, axis, owner, scope, report)
            return None
        if len(chosen) == 1:
            offsets = [offset * length + chosen[0] for offset in offsets]
        else:
            offsets = [offset * length + index for offset, index in product(offsets, chosen)]
    return offsets


def _single(part: ast.Part, entry: NodeArray | ReplicaArray, scope: Scope, report: Report) -> int | None:
    """Return the position of one element: the common case, fast. None: look closer."""
    offset = 0
    for index, length in zip(part.indices, entry.dimensions, strict=False):  # left-out indices have length 1
        if isinstance(index, ast.Range):
            return None
        value = evaluate(index, scope, report)
        if value is None or not 0 <= value < length:
            return None
        offset = offset * length + value
    return offset


def _choice(index: ast.Expression | ast.Range, scope: Scope, report: Report) -> range | None:
    """Return the numbers that an index stands for, one at least; None after an error."""
    if not isinstance(index, ast.Range):
        value = evaluate(index, scope, report)
        return None if value is None else range(value, value + 1)
    chosen = evaluate_range(index, scope, report)
    if chosen is not None and not chosen:
        report.error(
            "empty-choice",
            "this range chooses no node",
            index.span,
            notes=scope.loop_note(),
            help="`a..b` includes b, `a..<b` does not",
        )
        return None
    return chosen


def _out_of_range(
    part: ast.Part,
    entry: NodeArray | ReplicaArray,
    choices: list[range],
    axis: int,
    owner: str,
    scope: Scope,
    report: Report,
) -> None:
    if report.known("unknown-node", part.span):
        return
    bad = choices[axis][0] if choices[axis][0] < 0 else choices[axis][-1]
    indices = tuple(bad if i == axis else chosen[0] for i, chosen in enumerate(choices))
    if axis < len(shown(entry.dimensions)):
        indices = indices[: len(shown(entry.dimensions))]
    last = tuple(length - 1 for length in shown(entry.dimensions))
    first = indexed(entry.name, (0,) * len(last))
    what = f"{entry.kind} " if isinstance(entry, NodeArray) else f"{entry.machine.name} "
    report.error(
        "unknown-node",
        f"no node `{indexed(part.name, indices)}` in topology `{owner}`",
        part.span,
        f"`{what}{indexed(entry.name, shown(entry.dimensions))}` declares {first} to {indexed(entry.name, last)}",
        notes=scope.loop_note(),
        help=f"the {'last' if bad >= 0 else 'first'} one is {indexed(entry.name, last) if bad >= 0 else first}",
    )


def _indices(number: int) -> str:
    return "no index" if number == 0 else "1 index" if number == 1 else f"{number} indices"


def resolve_class(
    ref: ast.NodeRef,
    classes: Mapping[tuple[str, ...], object],
    names: Mapping[str, Entry],
    owner: str,
    report: Report,
) -> tuple[str, ...] | None:
    """Return the path of a link class (``box.nvlink``: the class of a replica), or None after an error."""
    path = tuple(part.name for part in ref.parts)
    if path in classes:
        return path
    if len(path) > 1 and path[0] in names and names[path[0]] is None:  # the replica's error is reported
        report.attempts += 1
        return None
    if not report.known("unknown-link-class", ref.span):
        known = {".".join(p): None for p in classes}
        near = suggest(".".join(path), known)
        candidates = listed(f"`{name}`" for name in known)
        report.error(
            "unknown-link-class",
            f"no link class `{'.'.join(path) or '*'}` in topology `{owner}`",
            ref.span,
            help=f"did you mean `{near}`?"
            if near
            else f"it has {candidates}"
            if known
            else "declare one above: `link nvlink { 25 GB/s, 0.7 us }`",
        )
    return None


def listed(names: Iterable[str], limit: int = 8) -> str:
    """Return ``a, b and c``, cut after ``limit`` names."""
    found = list(names)
    if len(found) > limit:
        return f"{', '.join(found[:limit])} and {len(found) - limit} more"
    if len(found) < 2:
        return "".join(found)
    return f"{', '.join(found[:-1])} and {found[-1]}"


def text_of(span: Span) -> str:
    """Return what the user wrote there, in one line."""
    return " ".join(span.source.text[span.start : span.end].split())
