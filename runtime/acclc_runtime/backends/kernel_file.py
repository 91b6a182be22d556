"""What both kernel backends share: the checked text of kernel.cu, what to build of it, and what a report says."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from acclc_runtime.backends.base import Call
from acclc_runtime.dtypes import named
from acclc_runtime.errors import (
    AcclcRuntimeError,
    ArgumentError,
    CollectiveTimeoutError,
    DamagedFileError,
    DeadlockError,
)
from acclc_runtime.layout import layout_in, layout_of
from acclc_runtime.manifest import ManifestCollective, ManifestCounter, ManifestVariant

ABI = 4
"""Of the kernels' arguments: the ACCL_ABI that this runtime speaks."""

COUNTER_STRIDE = 8
"""64-bit words from a counter, or a block's state, to the next."""

DEADLOCKED = 3
"""The reason in a report of a block that waits for ever; 1 is a time-out, 2 that another block gave up."""


@dataclass(frozen=True, slots=True)
class Instance:
    """What a kernel is instantiated for: an element type and an operator, or (b1, none) .. (b8, none) to move."""

    type: str
    op: str

    @staticmethod
    def of(call: Call) -> Instance:
        """Return the instance of a call.

        Raises:
            ArgumentError: a type that cannot be reduced, with an operator.
        """
        return Instance.for_type(call.collective.name, call.dtype, call.op)

    @staticmethod
    def for_type(name: str, dtype_name: str, op: str | None) -> Instance:
        """Return the instance for a type and an operator; ``name`` is the collective's, for the message.

        Raises:
            ArgumentError: a type that cannot be reduced, with an operator.
        """
        dtype = named(dtype_name)
        if op is None:
            return Instance(f"b{dtype.item_bytes}", "none")
        if not dtype.reducible:
            raise ArgumentError(f"{name}: elements of type {dtype.name} can be moved, not reduced")
        return Instance(dtype.name, op)

    @property
    def flags(self) -> tuple[str, ...]:
        """The compiler's definitions."""
        return (f"-DACCL_TYPE={self.type}", f"-DACCL_OP={self.op}", f"-DACCL_RUNTIME_ABI={ABI}")


def kernel_path(artefact: Path, variant: ManifestVariant) -> Path:
    """Return where the variant's kernel.cu lies.

    Raises:
        DamagedFileError: outside the artefact.
    """
    path = artefact / variant.folder / "kernel.cu"
    if artefact.resolve() not in path.resolve().parents:
        raise DamagedFileError(f"{artefact / 'manifest.json'}: folder {variant.folder!r} lies outside the artefact")
    return path


def kernel_text(path: Path, collective: ManifestCollective, variant: ManifestVariant) -> bytes:
    """Return kernel.cu, which must be the file that the manifest was written with, for the memory that it describes.

    Raises:
        DamagedFileError: it is missing, or it or the manifest was changed.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise DamagedFileError(f"{path}: {error.strerror}; compile the artefact again") from None
    if hashlib.sha256(text).hexdigest() != variant.kernel_sha256:
        raise DamagedFileError(
            f"{path} is not the file that manifest.json was written with (its SHA-256 differs); "
            "it was not compiled: compile the artefact again"
        )
    if layout_in(text.decode(errors="replace")) != layout_of(collective, variant):
        raise DamagedFileError(
            f"manifest.json describes other memory for {collective.name}/{variant.id} than {path} was generated for; "
            "nothing was run: compile the artefact again"
        )
    return text


@dataclass(frozen=True, slots=True)
class Report:
    """What a block said whose wait failed; ``number`` is (block of all ranks) * channels + channel."""

    number: int
    reason: int
    step: int
    transfer: int
    home: int
    slot: int
    wanted: int
    present: int
    slice: int


def counters_at(collective: ManifestCollective, variant: ManifestVariant) -> tuple[tuple[ManifestCounter, ...], ...]:
    """Return, for each rank of the group, the counters in its memory, in order of their place there."""
    return tuple(tuple(c for c in variant.counters if c.home == rank) for rank in collective.ranks)


def failure(
    collective: ManifestCollective, variant: ManifestVariant, reports: list[Report], timeout_s: float
) -> AcclcRuntimeError:
    """Return the error that names who waited for whom, the earliest in the schedule first: the cause is among them.

    ``reports`` are those with a reason; a block that was made to give up tells what it waited for, too.
    """
    name = f"{collective.name}/{variant.id}"
    told = sorted(reports, key=lambda r: (r.slice, r.step, r.transfer, r.number))
    lines = [_sentence(collective, variant, report) for report in told]
    shown = lines[:20] + ([f"... and {len(lines) - 20} more"] if len(lines) > 20 else [])
    text = "\n  ".join(shown)
    if any(r.reason == DEADLOCKED for r in told):
        return DeadlockError(f"{name}: deadlock, every block waits or has ended:\n  {text}")
    if not told:
        return CollectiveTimeoutError(f"{name}: the call was given up, but no block said why")
    return CollectiveTimeoutError(
        f"{name}: no progress for {timeout_s:g} s (timeout_s or ACCLC_TIMEOUT sets the limit):\n  {text}"
    )


def _sentence(collective: ManifestCollective, variant: ManifestVariant, report: Report) -> str:
    block = variant.blocks[report.number // variant.channels]
    channel = f", channel {report.number % variant.channels}" if variant.channels > 1 else ""
    counter = counters_at(collective, variant)[report.home][report.slot]
    awaited = {
        "arrival": f"its arrival from rank {counter.src}",
        "entry": f"rank {counter.dst} to enter the call",
        "credit": f"rank {counter.dst} to free its slot",
        "local": "another block of its own rank",
        "done": f"rank {counter.src} to be done with its memory",
    }.get(counter.kind, counter.kind)
    what = f", transfer {report.transfer}" if report.transfer >= 0 else ""
    step = f", step {report.step}" if report.step >= 0 else ""
    return (
        f"rank {block.rank}, block {block.index} ({block.link}){channel}, slice {report.slice}{step}{what}: "
        f"waits for {awaited} (counter {counter.kind} {counter.src} -> {counter.dst}: wants {report.wanted}, "
        f"has {report.present})"
    )
