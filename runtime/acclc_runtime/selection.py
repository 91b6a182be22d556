"""Which variant a call takes: a function of rank-uniform arguments only, so all ranks choose alike."""

from __future__ import annotations

from acclc_runtime.errors import ArgumentError
from acclc_runtime.manifest import Manifest, ManifestCollective, ManifestVariant


def of_kind(manifest: Manifest, kind: str, root: int | None = None, group: str = "g") -> ManifestCollective:
    """Return the first collective of a kind (with that root, if one is asked for); ``group`` is for the message.

    Raises:
        ArgumentError: there is none; the message lists what there is.
    """
    found = [c for c in manifest.collectives if c.collective == kind]
    if not found:
        known = ", ".join(f"{c.name} ({c.collective})" for c in manifest.collectives)
        raise ArgumentError(
            f"{manifest.name} has no {kind}; it has: {known}; call another by {group}.collective(name, ...)"
        )
    for collective in found:
        if root is None or collective.root == root:
            return collective
    roots = ", ".join(f"{c.name} (root {c.root})" for c in found)
    raise ArgumentError(f"{manifest.name} has no {kind} from or to root {root}; it has: {roots}")


def of_name(manifest: Manifest, name: str) -> ManifestCollective:
    """Return the collective of that name.

    Raises:
        ArgumentError: there is none; the message lists what there is.
    """
    for collective in manifest.collectives:
        if collective.name == name:
            return collective
    known = ", ".join(c.name for c in manifest.collectives)
    raise ArgumentError(f"{manifest.name} has no collective {name!r}; it has: {known}")


def units_of_size(collective: ManifestCollective) -> int:
    """Return how many counts the size S of a call has, as nccl-tests count it: the largest buffer of a rank.

    N for all_gather, reduce_scatter, gather, scatter, all_to_all; 1 for all_reduce, broadcast, reduce and
    send_recv (a pair). The manifest may state it, for custom collectives and several together.
    """
    if collective.size_units:
        return collective.size_units
    if collective.collective == "send_recv":
        return 1
    return max((*collective.input_units, *collective.output_units), default=0)


def size_bytes(collective: ManifestCollective, count: int, item_bytes: int) -> int:
    """Return S in bytes: what ``min_bytes``, ``max_bytes``, bench and algbw mean."""
    return units_of_size(collective) * count * item_bytes


def choose(collective: ManifestCollective, nbytes: int) -> tuple[ManifestVariant, str]:
    """Return the variant for a call of S = ``nbytes``, and why.

    Outside all ranges the variant with the nearest range is taken.

    Raises:
        ArgumentError: no variant has a range; one must be named.
    """
    nearest: tuple[int, ManifestVariant] | None = None
    for variant in collective.variants:
        if variant.min_bytes is None and variant.max_bytes is None:
            continue
        low = variant.min_bytes or 0
        if nbytes < low:
            distance = low - nbytes
        elif variant.max_bytes is not None and nbytes >= variant.max_bytes:
            distance = nbytes - variant.max_bytes + 1
        else:
            return variant, f"best for {size_range(variant)}"
        if nearest is None or distance < nearest[0]:
            nearest = (distance, variant)
    if nearest is None:
        names = ", ".join(v.id for v in collective.variants) or "none"
        raise ArgumentError(f"{collective.name} has no variant that is chosen by size; name one (variant=...): {names}")
    return nearest[1], f"no variant is for this size; the nearest is best for {size_range(nearest[1])}"


def by_lines(collective: ManifestCollective, variant: ManifestVariant) -> ManifestVariant:
    """Return the same variant by the protocol LL, if the collective has it; else the variant itself."""
    return next((v for v in collective.variants if v.id == f"{variant.id}_ll" and v.protocol == "ll"), variant)


def default_type(manifest: Manifest) -> str:
    """Return the type that is run where none is named: f32, or the first one of an artefact that does not have it."""
    return "f32" if not manifest.types or "f32" in manifest.types else manifest.types[0]


def by_name(collective: ManifestCollective, name: str) -> ManifestVariant:
    """Return the variant of that name.

    Raises:
        ArgumentError: there is none; the message lists them.
    """
    for variant in collective.variants:
        if variant.id == name:
            return variant
    names = ", ".join(v.id for v in collective.variants) or "none"
    raise ArgumentError(f"{collective.name} has no variant {name!r}; it has: {names}")


def size_range(variant: ManifestVariant) -> str:
    """Return the variant's size range in words."""
    if variant.min_bytes is None and variant.max_bytes is None:
        return "calls that name it"
    low = variant.min_bytes or 0
    if variant.max_bytes is None:
        return f"{format_bytes(low)} and more" if low else "all sizes"
    return f"{format_bytes(low)} to less than {format_bytes(variant.max_bytes)}"


def format_bytes(nbytes: int) -> str:
    """Return a size as people write it: exact multiples in KiB, MiB, GiB, the rest in bytes."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if nbytes and nbytes % size == 0:
            return f"{nbytes // size} {unit}"
    return f"{nbytes} B"
