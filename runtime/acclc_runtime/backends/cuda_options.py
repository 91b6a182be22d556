"""What ``local("cuda", ...)`` takes beside the common options."""

from __future__ import annotations

from dataclasses import dataclass

from acclc_runtime.errors import ArgumentError
from acclc_runtime.slicing import SLICE_BYTES

_LAYOUTS = ("auto", "devices", "one")
_WARP, _MOST_THREADS = 32, 512
_MOST_CHANNELS = 64


@dataclass(frozen=True, slots=True)
class CudaOptions:
    """How kernels run.

    ``layout``: ``devices`` (one a rank), ``one`` (all ranks on one), ``auto`` (the first, where there are enough).
    ``devices``: device ids by rank of the group, or a single one for ``one``; default 0, 1, 2, ... ``threads`` a
    block: a multiple of 32 up to 512. ``direct_channels``: kernels with one block a rank (direct) get so many times the
    channels that they were compiled for, since one block does not fill a GPU's links (a guess, not measured).
    """

    layout: str = "auto"
    devices: tuple[int, ...] = ()
    rank_devices: tuple[int, ...] = ()
    """Device ids by global rank, where the machine of the artefact was found in this one."""
    threads: int = 256
    slice_bytes: int = SLICE_BYTES
    direct_channels: int = 16

    def __post_init__(self) -> None:
        if not isinstance(self.direct_channels, int) or not 1 <= self.direct_channels <= _MOST_CHANNELS:
            raise ArgumentError(
                f"direct_channels={self.direct_channels!r} is no whole number from 1 to {_MOST_CHANNELS}"
            )
        if self.layout not in _LAYOUTS:
            raise ArgumentError(f"layout={self.layout!r} is not known; it can be {', '.join(_LAYOUTS)}")
        if self.threads not in range(_WARP, _MOST_THREADS + 1, _WARP):
            raise ArgumentError(f"threads={self.threads!r} is no multiple of {_WARP} up to {_MOST_THREADS}")
        if not isinstance(self.slice_bytes, int) or self.slice_bytes < 64:
            raise ArgumentError(f"slice_bytes={self.slice_bytes!r} is no whole number from 64 on")
