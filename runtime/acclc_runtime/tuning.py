"""Size ranges by measurement: which variant a call takes here, as ``acclc tune`` found it, instead of by simulation.

The file ``tuning.json`` lies in the artefact beside manifest.json, which it names by digest; deleting it undoes it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from acclc_runtime.codec import from_json, to_json
from acclc_runtime.errors import DamagedFileError
from acclc_runtime.manifest import Manifest, ManifestCollective, ManifestVariant
from acclc_runtime.selection import by_lines, by_name, choose, format_bytes

FILE = "tuning.json"
FORMAT = "acclc-tuning"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Range:
    """From S = ``min_bytes`` on, up to the next range, calls take ``variant``."""

    min_bytes: int
    variant: str


@dataclass(frozen=True, slots=True)
class TunedCollective:
    """Of one collective: its ranges, by size, the first from 0."""

    name: str
    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class Tuning:
    """What was measured on one ``transport`` (memory: a rank a process; cpu, cuda: a local group's backend)."""

    transport: str
    machine: str
    """In words, for people."""
    collectives: tuple[TunedCollective, ...]


@dataclass(frozen=True, slots=True)
class TuningFile:
    """All tunings of an artefact, one a transport."""

    manifest_sha256: str
    tunings: tuple[Tuning, ...] = ()


@dataclass(frozen=True, slots=True)
class Choices:
    """Which variant a call takes: as tuned, else as the manifest says."""

    tuning: Tuning | None = None
    ranges: dict[str, tuple[Range, ...]] = field(default_factory=dict)
    on_gpus: bool = False
    """There an eager variant that is chosen by size alone is taken by the protocol LL: it saves a fence and a flag."""

    @staticmethod
    def of(artefact: Path, manifest: Manifest, transport: str) -> Choices:
        """Read what was tuned for a transport, if anything.

        Raises:
            DamagedFileError: the file is damaged, of another artefact, or names what the manifest does not have.
        """
        found = [t for t in read_tunings(artefact).tunings if t.transport == transport]
        if not found:
            return Choices(on_gpus=transport == "cuda")
        _check(artefact / FILE, manifest, found[0])
        return Choices(found[0], {c.name: c.ranges for c in found[0].collectives})

    def take(self, collective: ManifestCollective, name: str | None, nbytes: int) -> tuple[ManifestVariant, str]:
        """Return the variant that a call names, else the one for its size, and why.

        Raises:
            ArgumentError: there is none.
        """
        return self.choose(collective, nbytes) if name is None else (by_name(collective, name), "the call names it")

    def choose(self, collective: ManifestCollective, nbytes: int) -> tuple[ManifestVariant, str]:
        """Return the variant for a call of S = ``nbytes``, and why. See :func:`acclc_runtime.selection.choose`."""
        ranges = self.ranges.get(collective.name)
        if not ranges:
            variant, reason = choose(collective, nbytes)
            lines = by_lines(collective, variant) if self.on_gpus and self.tuning is None else variant
            return (
                lines,
                reason if lines is variant else f"{reason}, as {lines.id}, which by LL has no fence to wait for",
            )
        here = max((r for r in ranges if r.min_bytes <= nbytes), key=lambda r: r.min_bytes)
        after = min((r.min_bytes for r in ranges if r.min_bytes > nbytes), default=None)
        words = f"{format_bytes(here.min_bytes)} and more" if after is None else (
            f"{format_bytes(here.min_bytes)} to less than {format_bytes(after)}")  # fmt: skip
        return by_name(collective, here.variant), f"measured best for {words} (tuning.json)"


def read_tunings(artefact: Path) -> TuningFile:
    """Read tuning.json; one without tunings if there is no file.

    Raises:
        DamagedFileError: it is damaged, or for another manifest than the one beside it.
    """
    path, digest = artefact / FILE, manifest_digest(artefact)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return TuningFile(digest)
    except OSError as error:
        raise DamagedFileError(f"{path}: {error.strerror}") from None
    found = from_json(data, TuningFile, FORMAT, VERSION, str(path))
    if found.manifest_sha256 != digest:
        raise DamagedFileError(f"{path}: measured on another version of this artefact; tune again, or delete the file")
    return found


def write_tuning(artefact: Path, tuning: Tuning) -> Path:
    """Add a tuning to the artefact, in place of an earlier one of its transport; whole or not at all."""
    try:
        earlier = read_tunings(artefact).tunings
    except DamagedFileError:
        earlier = ()  # it is being replaced
    kept = tuple(t for t in earlier if t.transport != tuning.transport)
    path = artefact / FILE
    beside = artefact / f".{FILE}.{os.getpid()}"
    try:
        beside.write_bytes(to_json(TuningFile(manifest_digest(artefact), (*kept, tuning)), FORMAT, VERSION))
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return path


def manifest_digest(artefact: Path) -> str:
    """Return the digest of manifest.json, which holds those of the kernels."""
    return hashlib.sha256((artefact / "manifest.json").read_bytes()).hexdigest()


def ranges_of(sizes: tuple[int, ...], best: Callable[[int, str | None], str]) -> tuple[Range, ...]:
    """Return ranges from measurements at ``sizes``, which grow.

    ``best`` names the variant for a size, and may keep to the one before it where both are as good. A border lies
    at the geometric mean of the sizes it parts.
    """
    chosen: list[str] = []
    for size in sizes:
        chosen.append(best(size, chosen[-1] if chosen else None))
    ranges = [Range(0, chosen[0])]
    for (small, before), (large, after) in pairwise(zip(sizes, chosen, strict=True)):
        if before != after:
            ranges.append(Range(round((small * large) ** 0.5), after))
    return tuple(ranges)


def _check(path: Path, manifest: Manifest, tuning: Tuning) -> None:
    known = {c.name: {v.id for v in c.variants} for c in manifest.collectives}
    for collective in tuning.collectives:
        borders = [r.min_bytes for r in collective.ranges]
        if collective.name not in known:
            raise DamagedFileError(f"{path}: the artefact has no collective {collective.name!r}")
        if not borders or borders[0] != 0 or borders != sorted(set(borders)):
            raise DamagedFileError(f"{path}: the ranges of {collective.name!r} do not follow each other from 0")
        for each in collective.ranges:
            if each.variant not in known[collective.name]:
                raise DamagedFileError(f"{path}: {collective.name!r} has no variant {each.variant!r}")
