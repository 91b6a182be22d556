"""ASTRA-sim's analytical network YAML: a product of dimensions, each a ring, a switch or fully connected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import prod

from acclc.diagnostics import suggest
from acclc.importers import classes, yaml_reader
from acclc.importers.model import MAX_LINKS, MAX_NODES, Draft, Imported
from acclc.importers.settings import Settings
from acclc.importers.yaml_reader import Entry, Scalar
from acclc.ir.problem import NodeKind
from acclc.source import Source

SHAPES = ("Ring", "Switch", "FullyConnected")
KEYS = ("topology", "npus_count", "bandwidth", "latency")
MAX_DIGITS = 24


@dataclass(frozen=True, slots=True)
class Dimension:
    """One dimension; ``rate`` in GB/s a link and direction, ``latency`` in ns a link."""

    shape: str
    size: int
    rate: Fraction
    latency: Fraction


def import_yaml(source: Source, settings: Settings) -> Imported:
    """Return the machine of a network file. Raises DiagnosticError."""
    draft = Draft(source)
    entries = yaml_reader.read(draft)
    for key in KEYS:
        if key not in entries or not entries[key].values:
            place = entries[key].key.span if key in entries else next((e.key.span for e in entries.values()), None)
            draft.fail("import-missing", f"`{key}` is missing: a value for each dimension", place)
    for key, entry in entries.items():
        if key not in KEYS:
            draft.warn("import-ignored", f"`{key}` is no key of ASTRA-sim's analytical network", entry.key.span)
    dimensions = _dimensions(draft, entries)
    _build(draft, settings, dimensions)
    return draft.finish("ASTRA-sim's analytical network")


def _dimensions(draft: Draft, entries: dict[str, Entry]) -> list[Dimension]:
    count = len(entries["topology"].values)
    for key in KEYS[1:]:
        values = entries[key].values
        if len(values) != count:
            draft.error(
                "import-contradiction",
                f"{len(values)} values of `{key}` for {count} dimensions",
                values[-1].span,
                entries["topology"].key.span,
            )
    draft.check()
    found = []
    for i in range(count):
        shape = _shape(draft, entries["topology"].values[i])
        size = _number(draft, entries["npus_count"].values[i], "a number of NPUs", whole=True)
        rate = _number(draft, entries["bandwidth"].values[i], "a bandwidth in GB/s")
        latency = _number(draft, entries["latency"].values[i], "a latency in ns", zero=True)
        found.append(Dimension(shape, int(size), rate, latency))
    draft.check()
    if prod(d.size for d in found) > MAX_NODES or sum(_links(d, found) for d in found) > MAX_LINKS:
        draft.fail("import-too-large", "too many NPUs or links", entries["npus_count"].values[0].span)
    return found


def _links(dimension: Dimension, others: list[Dimension]) -> int:
    total = prod(d.size for d in others)
    return total * (dimension.size - 1) // 2 if dimension.shape == "FullyConnected" else total


def _shape(draft: Draft, word: Scalar) -> str:
    found = next((s for s in SHAPES if s.lower() == word.text.lower()), None)
    if found is None:
        near = suggest(word.text, SHAPES)
        draft.error(
            "import-value",
            f"`{word.text}` is no dimension",
            word.span,
            help=f"did you mean `{near}`?" if near else f"there are {', '.join(SHAPES)}",
        )
    return found or "Ring"


def _number(draft: Draft, word: Scalar, what: str, *, whole: bool = False, zero: bool = False) -> Fraction:
    try:
        if len(word.text) > MAX_DIGITS or "/" in word.text or "_" in word.text:
            raise ValueError
        mantissa, _, exponent = word.text.lower().partition("e")
        if exponent and abs(int(exponent)) > 15:
            raise ValueError
        value = Fraction(word.text)
        if value < 0 or (value == 0 and not zero) or (whole and value.denominator != 1) or value > 10**12:
            raise ValueError
        assert mantissa is not None
        return value
    except (ValueError, ZeroDivisionError):
        help = "the author of the file had not measured it yet: write a number" if word.text.lower() == "tbd" else None
        draft.error("import-value", f"`{word.text}` is not {what}", word.span, help=help)
        return Fraction(1)


def _build(draft: Draft, settings: Settings, dimensions: list[Dimension]) -> None:
    total = prod(d.size for d in dimensions)
    words = " x ".join(f"{d.shape}({d.size})" for d in dimensions)
    draft.read(f"{total} NPUs, {words}; bandwidth is for each link and direction, latency for each link")
    gpus = [draft.node(NodeKind.GPU, "g") for _ in range(total)]
    stride = 1
    for number, dimension in enumerate(dimensions):
        cls = classes.make(
            draft,
            settings,
            f"dim{number}",
            "",
            dimension.rate,
            dimension.latency / 1000,
            f"dimension {number}: {dimension.shape} of {dimension.size}",
            setting="lane",
        )
        for line in _lines(total, stride, dimension.size):
            _join(draft, dimension, [gpus[i] for i in line], cls, number)
        stride *= dimension.size
    if any(d.shape == "Ring" and d.size == 2 for d in dimensions):
        draft.assume("a ring of two NPUs is one link each way, not two")


def _lines(total: int, stride: int, size: int) -> Iterator[list[int]]:
    """Yield the NPUs that differ in one coordinate only."""
    for start in range(total):
        if (start // stride) % size == 0:
            yield [start + k * stride for k in range(size)]


def _join(draft: Draft, dimension: Dimension, line: list[int], cls: str, number: int) -> None:
    size = len(line)
    if size == 1:
        return
    if dimension.shape == "Switch":
        switch = draft.node(NodeKind.SWITCH, f"sw{number}")
        for gpu in line:
            draft.link(gpu, switch, 1, cls)
    elif dimension.shape == "FullyConnected":
        for i, a in enumerate(line):
            for b in line[i + 1 :]:
                draft.link(a, b, 1, cls)
    else:
        for i in range(size if size > 2 else 1):
            draft.link(line[i], line[(i + 1) % size], 1, cls)
