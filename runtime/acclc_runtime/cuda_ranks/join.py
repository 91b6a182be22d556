"""Makes a communicator of processes with a GPU each: they meet, and map the slabs of those they exchange data with."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from acclc_runtime.backends.cuda import import_cupy
from acclc_runtime.backends.cuda_options import CudaOptions
from acclc_runtime.cuda_ranks.board import Board
from acclc_runtime.cuda_ranks.calls import CudaWorld
from acclc_runtime.cuda_ranks.communicator import CudaCommunicator
from acclc_runtime.cuda_ranks.slab import Slab, SlabLayout
from acclc_runtime.devices import pci_address
from acclc_runtime.errors import AcclcRuntimeError, ArgumentError, BackendUnavailableError, JoinError
from acclc_runtime.manifest import Manifest
from acclc_runtime.memory.bootstrap import Place, find_place
from acclc_runtime.memory.join import close_files, facts_of_rank, make_segment, misfit_of, process_file
from acclc_runtime.memory.rendezvous import Card, Meeting, meet
from acclc_runtime.memory.tables import Tables, lay_out
from acclc_runtime.settings import entry_timeout_seconds, timeout_seconds
from acclc_runtime.slicing import SLICE_BYTES
from acclc_runtime.tuning import Choices

HEAP_BYTES = 256 << 20
STAGING_BYTES = 256 << 20
_REGISTER_FLAGS = 1 | 2
"""cudaHostRegisterPortable and Mapped."""


def join_cuda(
    artefact: Path,
    manifest: Manifest,
    *,
    bootstrap: str,
    rank: int | None,
    world: int | None,
    name: str,
    timeout_s: float | None,
    entry_timeout_s: float | None,
    join_timeout_s: float,
    device: int | None = None,
    heap_bytes: int | None = None,
    staging_bytes: int | None = None,
    slice_bytes: int = SLICE_BYTES,
) -> CudaCommunicator:
    """See :meth:`acclc_runtime.Artefact.join`.

    Raises:
        JoinError: a rank is missing or does not fit, or an edge of the schedule has no way from GPU to GPU.
        BackendUnavailableError: no cupy, or no GPU.
    """
    cupy = import_cupy()
    limit, origin = timeout_seconds(timeout_s)
    limit = max(limit, entry_timeout_seconds(entry_timeout_s, limit, origin))  # kernels know of one bound
    place = find_place(bootstrap, rank, world, name)
    wide = _with_channels(manifest)
    tables = lay_out(wide, slice_bytes, lines=True)
    if place.world != tables.world:
        raise JoinError(
            f"rank {place.rank}: {manifest.name} was compiled for {tables.world} ranks, but {place.world} join; start "
            f"{tables.world} processes, or compile it for {place.world}"
        )
    mine = _device(cupy, device, place.rank)
    sizes = _bytes("staging_bytes", staging_bytes, STAGING_BYTES), _bytes("heap_bytes", heap_bytes, HEAP_BYTES)
    layout = SlabLayout.of(wide, tables, *sizes)
    board = Board(wide, tables)
    files = (*((make_segment(0, board.nbytes),) if place.rank == 0 else ()), *process_file())
    facts = {
        **facts_of_rank(artefact, slice_bytes),
        "slab": [layout.heap_bytes, layout.staging_bytes],
        "gpu": pci_address(cupy.cuda.runtime.deviceGetPCIBusId(mine)),
    }
    try:
        meeting = meet(place, facts, files, _misfit, join_timeout_s)
    except BaseException:
        close_files(files)
        raise
    choices = Choices.of(artefact, manifest, "cuda")
    return _attach(
        artefact, manifest, wide, place, tables, layout, meeting, cupy, mine, board, limit, slice_bytes, choices
    )


def _bytes(name: str, option: int | None, default: int) -> int:
    """Return an option in bytes: as given, else ACCLC_CUDA_<NAME>, else the default."""
    value = os.environ.get(f"ACCLC_CUDA_{name.upper()}", default) if option is None else option
    if not str(value).isascii() or not str(value).isdigit():
        raise ArgumentError(f"{name}={value!r} is no whole number of bytes")
    return int(value)


def _with_channels(manifest: Manifest) -> Manifest:
    """Give direct variants, which have one block a rank, the channels that fill a GPU's links."""
    more = CudaOptions().direct_channels
    return replace(
        manifest,
        collectives=tuple(
            replace(
                c,
                variants=tuple(
                    replace(v, channels=v.channels * (more if v.realisation == "direct" else 1)) for v in c.variants
                ),
            )
            for c in manifest.collectives
        ),
    )


def _device(cupy: Any, wanted: int | None, rank: int) -> int:
    present = cupy.cuda.runtime.getDeviceCount()
    if wanted is None:
        text = os.environ.get("LOCAL_RANK", "")
        local = int(text) if text.isascii() and text.isdigit() else rank
        return int(local % present)  # several ranks on one, where there are fewer; describe() says so
    if isinstance(wanted, bool) or not isinstance(wanted, int) or not 0 <= wanted < present:
        raise ArgumentError(f"device={wanted!r}: this process sees the devices 0 to {present - 1}")
    return wanted


def _misfit(cards: list[Card]) -> str:
    other = [c.rank for c in cards if c.facts.get("slab") != cards[0].facts["slab"]]
    if other:
        return f"rank {other[0]} joins with another heap_bytes or staging_bytes than rank 0; all ranks need the same"
    return misfit_of(cards)


def _attach(
    artefact: Path,
    compiled: Manifest,
    manifest: Manifest,
    place: Place,
    tables: Tables,
    layout: SlabLayout,
    meeting: Meeting,
    cupy: Any,
    device: int,
    board: Board,
    limit: float,
    slice_bytes: int,
    choices: Choices,
) -> CudaCommunicator:
    """Make the slab, and map the neighbours'; every rank learns of a failure of any, and nothing is left then."""
    rank, cards, runtime = place.rank, meeting.cards, cupy.cuda.runtime
    board.map(cards[0].files[0])
    os.close(cards[0].files[0])
    slabs = [0] * place.world
    registered = False
    try:
        fault, slab = "", None
        try:
            runtime.hostRegister(board.address, board.nbytes, _REGISTER_FLAGS)
            registered = True
            slab = Slab(cupy, device, layout)
            board.tell_handle(rank, runtime.ipcGetMemHandle(slab.base))
        except (AcclcRuntimeError, runtime.CUDARuntimeError) as error:
            fault = str(error)
        meeting.agree(fault)
        assert slab is not None
        slabs[rank] = slab.base
        try:
            with cupy.cuda.Device(device):
                for peer in sorted(tables.neighbours[rank]):
                    slabs[peer] = _open(cupy, board, device, cards, rank, peer)
                    _probe(cupy, slab, slabs[peer], layout, rank)
        except AcclcRuntimeError as error:
            fault = str(error)
        meeting.agree(fault)
        meeting.agree(_arrived(cupy, slab, tables, layout, rank))
    except BaseException:
        for peer, base in enumerate(slabs):
            if base and peer != rank:
                runtime.ipcCloseMemHandle(base)
        if registered:
            runtime.hostUnregister(board.address)
        raise
    finally:
        meeting.close()
    world = CudaWorld(
        artefact=artefact,
        compiled=compiled,
        manifest=manifest,
        rank=rank,
        cupy=cupy,
        device=device,
        slab=slab,
        slabs=tuple(slabs),
        board=board,
        board_address=int(runtime.pointerGetAttributes(board.address).devicePointer),
        tables=tables,
        slice_bytes=slice_bytes,
        pids=tuple(int(c.facts["pid"]) for c in cards),
        processes=tuple(c.files[-1] if len(c.files) > (c.rank == 0) else -1 for c in cards),
        on_device=tuple(c.rank for c in cards if c.facts["gpu"] == cards[rank].facts["gpu"]),
        timeout_s=limit,
    )
    return CudaCommunicator(world, choices)


def _open(cupy: Any, board: Board, device: int, cards: list[Card], rank: int, peer: int) -> int:
    """Map the slab of a neighbour.

    Raises:
        BackendUnavailableError: the GPUs cannot reach each other.
    """
    runtime = cupy.cuda.runtime
    mine, theirs = cards[rank].facts["gpu"], cards[peer].facts["gpu"]
    told = (
        f"the schedule moves data between rank {rank} (GPU {mine}) and rank {peer} (GPU {theirs}), and {mine} cannot "
        "reach the memory of {0}{1}; compile for a topology without this link, or use transport='memory' with arrays "
        "of the host (nothing is staged through the host here)"
    )
    near = {pci_address(runtime.deviceGetPCIBusId(d)): d for d in range(runtime.getDeviceCount())}
    # a device that this process does not see cannot be asked about, and yet be reached
    if theirs != mine and theirs in near and not runtime.deviceCanAccessPeer(device, near[theirs]):
        raise BackendUnavailableError(told.format(theirs, ": there is no peer access between them"))
    try:
        return int(runtime.ipcOpenMemHandle(board.handle(peer)))
    except runtime.CUDARuntimeError as error:
        raise BackendUnavailableError(told.format(theirs, f": {error}")) from None


def _probe(cupy: Any, slab: Slab, there: int, layout: SlabLayout, rank: int) -> None:
    """Write this rank's number to its place in a neighbour's slab, from this GPU."""
    runtime = cupy.cuda.runtime
    word = np.array([rank + 1], np.uint64)
    here = slab.base + layout.table
    runtime.memcpy(here, word.ctypes.data, 8, runtime.memcpyHostToDevice)
    runtime.memcpy(there + layout.staging + 8 * rank, here, 8, runtime.memcpyDeviceToDevice)
    runtime.deviceSynchronize()


def _arrived(cupy: Any, slab: Slab, tables: Tables, layout: SlabLayout, rank: int) -> str:
    runtime = cupy.cuda.runtime
    words = np.zeros(tables.world, np.uint64)
    with cupy.cuda.Device(slab.device):
        runtime.memcpy(words.ctypes.data, slab.base + layout.staging, words.nbytes, runtime.memcpyDeviceToHost)
    lost = [peer for peer in sorted(tables.neighbours[rank]) if words[peer] != peer + 1]
    if not lost:
        return ""
    return f"what rank {lost[0]} wrote to the GPU of rank {rank} arrived changed (an IOMMU or ACS setting, as a rule)"
