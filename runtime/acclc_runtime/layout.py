"""What a kernel and its manifest must agree on, so that no kernel runs on memory laid out for another.

The generator prints the digest of this into kernel.cu; the runtime computes it again from the manifest before it
allocates anything. A manifest that was changed is refused, whatever was changed in it: sizes of buffers, slots,
counters, blocks, channels.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from acclc_runtime.manifest import ManifestCollective, ManifestVariant

_LINE = re.compile(r"^// Layout: ([0-9a-f]{64})$", re.MULTILINE)
_HEAD = 2000
"""Characters of kernel.cu among which the line is."""


@dataclass(frozen=True, slots=True)
class RankLayout:
    """One rank: units of its buffers, scratch slots, blocks, and its position in the group."""

    rank: int
    position: int
    input_units: int
    output_units: int
    slots: int
    blocks: int


def layout_digest(
    ranks: Iterable[RankLayout],
    counters: Sequence[tuple[str, int, int, int]],
    written: Sequence[int],
    in_place: str,
    contributors: int,
    channels: int,
    slot_depth: int,
    longest_part: Fraction,
    realisation: str,
    read: Sequence[int],
    protocol: str = "simple",
    shards: int = 0,
) -> str:
    """Return the digest of a layout. ``counters``, by id: kind, home (whose memory), source, destination.

    ``written``: the global ranks whose outputs other ranks write, in order of the group; ``read``: whose inputs
    they read. ``longest_part`` is the largest part of a count that a put moves: scratch slots are as long.
    ``protocol`` says how long a slot is. ``shards``: how many have a count of their own; 0: there is one count.
    """
    words = [
        *(f"rank {r.rank} {r.position} {r.input_units} {r.output_units} {r.slots} {r.blocks}" for r in ranks),
        *(f"counter {kind} {home} {src} {dst}" for kind, home, src, dst in counters),
        "written " + " ".join(map(str, written)),
        "read " + " ".join(map(str, read)),
        f"{in_place} {contributors} {channels} {slot_depth} {longest_part} {realisation}",
        *([] if protocol == "simple" else [f"protocol {protocol}"]),
        *([f"counts of {shards} shards"] if shards else []),
    ]
    return hashlib.sha256("\n".join(words).encode()).hexdigest()


def layout_of(collective: ManifestCollective, variant: ManifestVariant) -> str:
    """Return the digest of the layout that a manifest describes."""
    owners = [b.rank for b in variant.blocks]
    ranks = [
        RankLayout(*fields, blocks=owners.count(fields[0]))
        for fields in zip(
            collective.ranks,
            collective.positions,
            collective.input_units,
            collective.output_units,
            variant.slots,
            strict=True,
        )
    ]
    return layout_digest(
        ranks,
        [(c.kind, c.home, c.src, c.dst) for c in variant.counters],
        variant.written,
        collective.in_place,
        collective.contributors,
        variant.channels,
        variant.slot_depth,
        variant.longest_chunk,
        variant.realisation,
        variant.read,
        protocol=variant.protocol,
        shards=len(collective.shards) if collective.varying else 0,
    )


def layout_in(source: str) -> str | None:
    """Return the digest that a kernel.cu states, or None."""
    found = _LINE.search(source[:_HEAD])
    return None if found is None else found[1]
