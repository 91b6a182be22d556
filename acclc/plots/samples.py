"""What is drawn, and where it is read from: artefacts, ``acclc bench -J``, benchmarks' JSON, logs of nccl-tests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from acclc.ir.problem import Collective
from acclc.nccl_tests import read_log
from acclc_runtime.bench import bus_factor

if TYPE_CHECKING:
    from acclc.artefact import Artefact

OURS, BOUND = "acclc", "bound"


class PlotError(Exception):
    """An input that has nothing of what is to be drawn; the message says what is missing and what to do."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One call: S in bytes, seconds, of a series (``acclc``, ``bound``, or the name of a peer)."""

    collective: str
    """The name of the collective, or "" of a log that does not say it."""
    kind: str
    """all_reduce, ...: what the factor of busbw follows from."""
    ranks: int
    size: int
    series: str
    seconds: float
    measured: bool

    @property
    def busbw(self) -> float:
        """Bytes a second, by nccl-tests' factor."""
        return self.size / self.seconds * bus_factor(self.kind, self.ranks)


@dataclass(frozen=True, slots=True)
class Synthesis:
    """How long a schedule was searched for."""

    case: str
    series: str
    ranks: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Inputs:
    """All that was read."""

    samples: tuple[Sample, ...] = ()
    syntheses: tuple[Synthesis, ...] = ()
    artefacts: tuple[Artefact, ...] = ()


def read_inputs(words: Sequence[str], sizes: Sequence[int], only: str | None = None) -> Inputs:
    """Read each of ``words``: a folder or file, or ``NAME=PATH`` to name the series in it that is ours.

    Artefacts are simulated at ``sizes`` (S in bytes). ``only`` is NAME or NAME/VARIANT of a collective. Where several
    inputs have series of ours without a name, these are named by their files.

    Raises:
        PlotError, OSError: with what is wrong.
    """
    read = [_read(*_split(word), sizes, only) for word in words]
    ours = [any(s.series == OURS for s in found.samples) for _, found in read]
    named = [
        _rename(found, _split(w)[0] or (label if sum(ours) > 1 else ""))
        for w, (label, found) in zip(words, read, strict=True)
    ]
    samples = _adopt([s for found in named for s in found.samples])
    return Inputs(
        tuple(dict.fromkeys(samples)),
        tuple(s for found in named for s in found.syntheses),
        tuple(a for found in named for a in found.artefacts),
    )


def _split(word: str) -> tuple[str, Path]:
    name, equals, path = word.partition("=")
    if not equals or Path(word).exists():
        return "", Path(word)
    return name, Path(path)


def _rename(found: Inputs, name: str) -> Inputs:
    if not name:
        return found
    return replace(
        found,
        samples=tuple(replace(s, series=name) if s.series == OURS else s for s in found.samples),
        syntheses=tuple(replace(s, series=f"{name}: {s.series}") for s in found.syntheses),
    )


def _adopt(samples: list[Sample]) -> list[Sample]:
    """Give samples of logs that name no collective the one that there is."""
    known = {(s.collective, s.kind, s.ranks) for s in samples if s.collective}
    if all(s.collective for s in samples):
        return samples
    if len(known) != 1:
        raise PlotError(
            "a log of nccl-tests does not say which collective it is of: give one more input with one collective "
            "(--only NAME), whose name and ranks it then takes"
        )
    collective, kind, ranks = known.pop()
    found = []
    for s in samples:
        # what a log tells is busbw: its seconds are those of a factor of 1
        factor = 1.0 if s.collective else bus_factor(kind, ranks)
        found.append(replace(s, collective=collective, kind=kind, ranks=ranks, seconds=s.seconds * factor))
    return found


def _read(name: str, path: Path, sizes: Sequence[int], only: str | None) -> tuple[str, Inputs]:
    if path.is_dir():
        from acclc.artefact import load_artefact

        artefact = load_artefact(path)
        return path.name, Inputs(tuple(_simulated(artefact, sizes, only)), artefacts=(artefact,))
    text = path.read_text(encoding="utf-8", errors="replace")
    if text.lstrip()[:1] in ("{", "["):
        try:
            content = json.loads(text)
        except ValueError as error:
            raise PlotError(f"{path}: no valid JSON: {error}") from None
        found = _of_json(content, only, path.stem)
        if not found.samples and not found.syntheses:
            raise PlotError(f"{path}: neither rows of acclc bench, nor of a benchmark, nor of acclc compile --json")
        return path.stem, found
    try:
        rows = read_log(text, str(path))
    except ValueError as error:
        raise PlotError(str(error)) from None
    rates = ((m.size, m.out_of_place or m.in_place) for m in rows)
    return path.stem, Inputs(
        tuple(Sample("", "", 1, size, name or path.stem, size / rate / 1e9, True) for size, rate in rates if rate)
    )


def _simulated(artefact: Artefact, sizes: Sequence[int], only: str | None) -> Iterator[Sample]:
    """The variant that each size takes (or the one that is named), ring, tree and the bound."""
    from acclc.forecast import forecast

    name, _, wanted = (only or "").partition("/")
    collectives = [c for c in artefact.collectives if name in ("", c.name)]
    if not collectives:
        raise PlotError(
            f"{artefact.name} has no collective {name!r}; it has {', '.join(c.name for c in artefact.collectives)}"
        )
    for c in collectives:
        variants = [v for v in c.schedules if wanted in ("", v.id)]
        if not variants:
            raise PlotError(f"{c.name} has no schedule {wanted!r}; it has {', '.join(v.id for v in c.schedules)}")
        kind, ranks = c.problem.collective.value, len(c.problem.group)
        for size in sizes:
            chosen = [v for v in variants if wanted or _takes(v.min_bytes, v.max_bytes, size)] or variants
            rows = list(forecast(c, chosen, (size,)))
            ours = min((r for r in rows if r.variant in {v.id for v in chosen}), key=lambda r: r.seconds)
            peers = [(r.variant, r.seconds) for r in rows if r.variant not in {v.id for v in chosen}]
            for series, seconds in ((OURS, ours.seconds), (BOUND, ours.bound_seconds), *peers):
                if seconds > 0:
                    yield Sample(c.name, kind, ranks, size, series, float(seconds), False)


def _takes(least: int | None, most: int | None, size: int) -> bool:
    return least is not None and least <= size and (most is None or size < most)


def _of_json(content: Any, only: str | None, stem: str) -> Inputs:
    name = (only or "").partition("/")[0]
    if isinstance(content, dict) and isinstance(content.get("collectives"), list):
        return Inputs(syntheses=tuple(_compiled(content["collectives"])))
    rows = [row for row in _rows(content) if isinstance(row, dict)]
    samples = [s for row in rows for s in _row_samples(row) if name in ("", s.collective)]
    syntheses = [s for row in rows if "size" not in row for s in _row_synthesis(row, stem)]
    return Inputs(tuple(samples), tuple(syntheses))


def _compiled(collectives: list[Any]) -> Iterator[Synthesis]:
    """The entries of ``acclc compile --json``."""
    for c in collectives:
        if isinstance(c, dict) and isinstance(c.get("ranks"), int) and _number(c.get("seconds")):
            yield Synthesis(
                f"{c.get('name')} on {c.get('topology')}", str(c.get("collective")), c["ranks"], c["seconds"]
            )


def _rows(content: Any) -> Iterator[Any]:
    """The rows of a list, or of all lists of an object."""
    if isinstance(content, list):
        yield from content
    elif isinstance(content, dict):
        for value in content.values():
            if isinstance(value, list):
                yield from value


def _row_samples(row: dict[str, Any]) -> Iterator[Sample]:
    """A row of ``acclc bench -J``, or of a benchmark that has ``operation``, ``size``, ``ranks`` and ``seconds``."""
    kind = row.get("collective_kind", row.get("operation"))
    if not isinstance(kind, str) or not _number(row.get("size")) or not isinstance(row.get("ranks"), int):
        return
    name, ranks, size = str(row.get("collective", kind)), int(row["ranks"]), int(row["size"])
    side = row.get("out_of_place")
    if isinstance(side, dict) and side.get("busbw") is None:
        return  # its check failed
    seconds: dict[str, Any] = {OURS: side.get("seconds") if isinstance(side, dict) else row.get("seconds")}
    seconds[BOUND] = row.get("bound_seconds")
    peers = row.get("peers")
    seconds |= {_short(peer): value for peer, value in (peers.items() if isinstance(peers, dict) else ())}
    for series, value in seconds.items():
        if _number(value) and value > 0:
            yield Sample(name, kind, ranks, size, series, float(value), True)


def _row_synthesis(row: dict[str, Any], stem: str) -> Iterator[Synthesis]:
    took: Any = row.get("solve_seconds", row.get("seconds"))
    ranks, case = row.get("ranks"), str(row.get("case", ""))
    if not _number(took) or not isinstance(ranks, int):
        return
    kinds = [word for word in case.replace(":", " ").split() if word in set(Collective)]
    series = kinds[0] if kinds else stem
    yield Synthesis(case, series, ranks, float(took))
    peer: Any = row.get("peer_seconds", row.get("peer_s"))
    if _number(peer):
        yield Synthesis(case, f"{series}, peer", ranks, float(peer))


def _number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _short(peer: str) -> str:
    """``Open MPI v4.1.4, package: ...`` -> ``Open MPI v4.1.4``."""
    return " ".join(peer.partition(",")[0].replace("Version:", "").split())


def series_of(samples: Iterable[Sample]) -> list[str]:
    """The series in the order in which they are drawn: ours, peers, the bound."""
    found = list(dict.fromkeys(s.series for s in samples))
    return sorted(found, key=lambda name: (name == BOUND, name != OURS, found.index(name)))
