"""Loads an artefact folder. Only data is read here: nothing is built or executed before the first call."""

from __future__ import annotations

import os
from html import escape
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Protocol

from acclc_runtime.communicator import LocalGroup
from acclc_runtime.errors import ArgumentError, DamagedFileError
from acclc_runtime.manifest import Manifest, ManifestCollective, read_manifest
from acclc_runtime.mapping import RankMap
from acclc_runtime.placement import Machine, place_on_devices, rank_map
from acclc_runtime.selection import size_range
from acclc_runtime.settings import say
from acclc_runtime.slicing import SLICE_BYTES

if TYPE_CHECKING:
    from acclc_runtime.cuda_ranks.communicator import CudaCommunicator
    from acclc_runtime.engines.mpi.communicator import MpiCommunicator
    from acclc_runtime.engines.nccl.communicator import NcclCommunicator
    from acclc_runtime.memory.communicator import Communicator


class Group(Protocol):
    """What runs a collective by name: a local group (lists of arrays), or a communicator (this rank's arrays)."""

    def collective(
        self,
        name: str,
        inputs: Any = None,
        outputs: Any = None,
        op: str | None = None,
        variant: str | None = None,
        dtype: str | None = None,
    ) -> Any:
        """Run it."""


class CollectiveFunction:
    """One collective of an artefact as a function of a group or a communicator.

    ``m.gradients(g, xs, op="sum", outs=None)``; ``m.gradients(comm, x, op="sum", out=None, async_op=False)``.
    """

    def __init__(self, collective: ManifestCollective) -> None:
        self.__name__ = collective.name
        self.__doc__ = _collective_in_words(collective)

    def __repr__(self) -> str:
        return f"<collective {self.__name__}>"

    def __call__(
        self,
        group: Group,
        inputs: Any = None,
        op: str | None = None,
        outs: Any = None,
        *,
        outputs: Any = None,
        out: Any = None,
        variant: str | None = None,
        dtype: str | None = None,
        **options: Any,
    ) -> Any:
        """Run it on ``group``. ``outputs`` and ``out`` are other names of ``outs``; a communicator has ``async_op``.

        An all_to_all_v takes ``counts``; on a communicator ``send_counts``, ``recv_counts`` and ``check`` too.
        """
        given = next((each for each in (outs, outputs, out) if each is not None), None)
        return group.collective(self.__name__, inputs, given, op=op, variant=variant, dtype=dtype, **options)


class Artefact:
    """A loaded artefact: ``local`` makes a group, ``describe`` says what it holds, each collective is an attribute."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest
        self.functions: dict[str, CollectiveFunction] = {c.name: CollectiveFunction(c) for c in manifest.collectives}
        """The collectives by name. One that is named like a method of this class is reached only here."""

    def _repr_html_(self) -> str:
        return _artefact_in_html(self.manifest)

    def __repr__(self) -> str:
        return f"<acclc artefact {self.manifest.name}: {', '.join(self.functions)}>"

    def __getattr__(self, name: str) -> CollectiveFunction:
        functions: dict[str, CollectiveFunction] = self.__dict__.get("functions", {})
        if name in functions:
            return functions[name]
        raise AttributeError(f"artefact has no {name!r}; its collectives are: {', '.join(functions)}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.functions})

    def local(
        self,
        backend: str = "cpu",
        *,
        timeout_s: float | None = None,
        fallback: bool | None = None,
        machine: Machine | None = None,
        **options: object,
    ) -> LocalGroup:
        """Return a group of all ranks in this process, on ``backend``: cpu, cuda or numpy.

        Where cpu cannot run (no C++ compiler), numpy takes its place with a warning; ``fallback=False``, or any
        option of the cpu backend, makes that an error. ``timeout_s`` bounds a wait without progress (seconds;
        default ACCLC_TIMEOUT, else 60). Other options are the backend's.

        On GPUs each rank runs on the one that has its links: the machine that the artefact was compiled for is looked
        for among the devices (by NVML, where that is installed; ``devices`` or ``layout="one"`` leave it out), and
        the map is printed unless it is the identity. ``machine`` says what the machine is instead, see ``rank_map``;
        then it is an error if it is another one.

        Raises:
            BackendUnavailableError: the backend cannot run here; says what is missing.
            MachineMismatchError: ``machine`` has not the links that the artefact was compiled for.
        """
        found = None
        if machine is not None:
            found = self.rank_map(machine)
            say(found.words())
        elif backend == "cuda" and not options.get("devices") and options.get("layout") != "one":
            found = place_on_devices(self.manifest, _device_addresses)
        if found is not None and backend == "cuda":
            options = {**options, "rank_devices": found.devices}
        return LocalGroup(self.folder, self.manifest, backend, timeout_s=timeout_s, fallback=fallback, **options)

    def rank_map(self, machine: Machine = "nvml") -> RankMap:
        """Return which GPU of ``machine`` plays each rank: the machine compiled for is found within it.

        ``machine``: ``nvml`` for the GPUs that this process sees (CUDA_VISIBLE_DEVICES by index, UUID or PCI address
        is respected), the path of a machine file (``acclc topo show BOX --machine FILE`` writes it), or a topology of
        a manifest.

        Raises:
            MachineMismatchError: it has not these links, under any numbering; says which.
            BackendUnavailableError: NVML cannot be read here.
        """
        return rank_map(self.manifest, machine)

    def join(
        self,
        bootstrap: str = "env://",
        transport: str = "auto",
        *,
        rank: int | None = None,
        world: int | None = None,
        name: str = "",
        timeout_s: float | None = None,
        entry_timeout_s: float | None = None,
        join_timeout_s: float = 300.0,
        slice_bytes: int | None = None,
        device: int | None = None,
        heap_bytes: int | None = None,
        staging_bytes: int | None = None,
    ) -> Communicator | MpiCommunicator | NcclCommunicator | CudaCommunicator:
        """Return this process's rank of a communicator; every rank is a process, and all call this.

        ``bootstrap`` is how they meet: ``env://`` takes RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torchrun
        sets them; ``file:///path`` a path that all can reach (``rank`` and ``world`` are given, or in the
        environment); ``mpi`` asks mpi4py. ``transport``: ``memory`` is shared memory of one machine; ``mpi`` the MPI
        engine, on one machine or many (docs/mpi.md); ``nccl`` the one for GPUs, which knows no time-out of a call
        (docs/nccl.md); ``cuda`` a GPU a rank of one machine (docs/gpus.md), which is ``device``, else LOCAL_RANK, else
        the rank's number; ``auto`` is cuda where ``device`` is given, else memory, unless MPI started ranks on several.
        ``heap_bytes`` and ``staging_bytes`` of a rank are for cuda. ``slice_bytes`` is what a channel moves of a chunk
        at a time, at most (memory, cuda and mpi; all ranks alike): smaller ones fill a pipeline sooner and cost more.
        ``name`` keeps apart communicators that one job makes at the same time. A call ends with an error after
        ``timeout_s`` seconds without progress (default: ACCLC_TIMEOUT, else 60), or if some rank has not begun it
        within ``entry_timeout_s`` (default: ACCLC_ENTRY_TIMEOUT, else as timeout_s where that is set, else 600).
        The ranks have ``join_timeout_s`` to come.

        Raises:
            JoinError: a rank is missing or there twice, or the world size or the artefact is not the same.
            ArgumentError: an option that the transport does not have, or no positive number of bytes.
            BackendUnavailableError: no C++ compiler here, or no mpi4py.
        """
        from acclc_runtime.memory.join import join, takes_mpi

        on_gpus: dict[str, Any] = {"device": device, "heap_bytes": heap_bytes, "staging_bytes": staging_bytes}
        if slice_bytes is not None and slice_bytes < 1:
            raise ArgumentError(f"slice_bytes={slice_bytes}: a slice holds at least one byte")
        meeting: dict[str, Any] = {
            "bootstrap": bootstrap,
            "rank": rank,
            "world": world,
            "name": name,
            "timeout_s": timeout_s,
            "entry_timeout_s": entry_timeout_s,
            "join_timeout_s": join_timeout_s,
            "slice_bytes": SLICE_BYTES if slice_bytes is None else slice_bytes,
        }
        if transport == "cuda" or (transport == "auto" and device is not None):
            from acclc_runtime.cuda_ranks.join import join_cuda

            return join_cuda(self.folder, self.manifest, **meeting, **on_gpus)
        if given := [word for word, value in on_gpus.items() if value is not None]:
            raise ArgumentError(f"{given[0]}= goes with transport='cuda'; leave it out, or name that")
        if transport == "nccl":
            if slice_bytes is not None:
                raise ArgumentError("slice_bytes= is not for transport='nccl', which chooses by itself; leave it out")
            from acclc_runtime.engines.nccl.join import join_nccl

            return join_nccl(self.folder, self.manifest, bootstrap, rank, world, join_timeout_s)
        if takes_mpi(bootstrap, transport, rank, world):
            from acclc_runtime.engines.mpi.join import join_mpi

            return join_mpi(
                self.folder,
                self.manifest,
                timeout_s=timeout_s,
                entry_timeout_s=entry_timeout_s,
                slice_bytes=slice_bytes,
            )
        return join(self.folder, self.manifest, transport=transport, **meeting)

    def describe(self) -> str:
        """Return in words what the artefact holds: collectives, variants with their size ranges, bounds."""
        manifest = self.manifest
        mark = "" if manifest.reproducible else " (not reproducible)"
        lines = [f"{manifest.name}, compiled by {manifest.compiler}{mark}"]
        firsts: dict[str, str] = {}
        for topology, collective in zip(manifest.topologies, manifest.collectives, strict=True):
            lines.append(f"{_collective_in_words(collective)} on {topology.name}")
            first = firsts.setdefault(collective.collective, collective.name)
            if first != collective.name and collective.collective not in ("custom", "together"):
                lines.append(
                    f"  g.{collective.collective} runs {first}; run this one by g.collective({collective.name!r}, ...)"
                )
            if collective.bound:
                lines.append(f"  bound: {collective.bound}")
            for variant in collective.variants:
                lines.append(
                    f"  {variant.id}: {variant.strategy}, chunks {variant.chunks}, steps {variant.steps}, "
                    f"rounds {variant.rounds}, channels {variant.channels}: for {size_range(variant)}"
                )
        return "\n".join(lines)


def _device_addresses() -> tuple[str, ...]:
    from acclc_runtime.backends.cuda_memory import device_addresses

    return device_addresses()


def load(path: str | os.PathLike[str]) -> Artefact:
    """Load the artefact in folder ``path``.

    Raises:
        DamagedFileError: no artefact there, or a damaged one.
    """
    folder = Path(path).resolve()
    manifest = read_manifest(folder)
    fault = _fault(manifest)
    if fault:
        raise DamagedFileError(f"{folder / 'manifest.json'}: {fault}")
    return Artefact(folder, manifest)


def _fault(manifest: Manifest) -> str:
    """Return what is inconsistent in the manifest; "" if nothing."""
    names = [c.name for c in manifest.collectives]
    if len(set(names)) != len(names):
        return "two collectives have the same name"
    if len(manifest.topologies) != len(names):
        return f"{len(manifest.topologies)} topologies for {len(names)} collectives"
    folders = [v.folder for c in manifest.collectives for v in c.variants]
    if len(set(folders)) != len(folders):
        return "two variants lie in the same folder"
    for collective in manifest.collectives:
        fault = _collective_fault(collective)
        if fault:
            return f"collective {collective.name!r}: {fault}"
    return ""


def _collective_fault(collective: ManifestCollective) -> str:
    ranks = set(collective.ranks)
    if not ranks or len(ranks) != len(collective.ranks):
        return "its ranks are none, or listed twice"
    for name in ("positions", "input_units", "output_units"):
        if len(getattr(collective, name)) != len(ranks):
            return f"{name} has {len(getattr(collective, name))} entries for {len(ranks)} ranks"
    if min((*collective.input_units, *collective.output_units, collective.contributors, collective.size_units)) < 0:
        return "a negative number of units, contributors or counts of the size"
    units_in = dict(zip(collective.ranks, collective.input_units, strict=True))
    units_out = dict(zip(collective.ranks, collective.output_units, strict=True))
    for shard in collective.shards:
        for places, units in ((shard.inputs, units_in), (shard.outputs, units_out)):
            if any(not 0 <= unit < units.get(rank, 0) for rank, unit in places):
                return "a shard lies outside the buffers"
    if collective.varying:
        pairs = [(s.inputs, s.outputs) for s in collective.shards]
        if any(len(a) != 1 or len(b) != 1 for a, b in pairs) or any(s.reduced for s in collective.shards):
            return "counts vary, but a shard does not go from one rank to one rank"
        if len({(a[0][0], b[0][0]) for a, b in pairs}) != len(pairs):
            return "counts vary, but two shards go between the same ranks"
        if sorted(collective.positions) != list(range(len(ranks))):
            return "counts vary, but the positions of its ranks are not 0, 1, 2, ..."
    if collective.shards:
        used = {("in", *place) for s in collective.shards for place in s.inputs}
        used |= {("out", *place) for s in collective.shards for place in s.outputs}
        for word, units in (("in", units_in), ("out", units_out)):
            if any(n > 0 and (word, rank, n - 1) not in used for rank, n in units.items()):
                return "a buffer is longer than what lies in it"
    ids = [v.id for v in collective.variants]
    if not ids or len(set(ids)) != len(ids):
        return "its variants are none, or two have the same id"
    for variant in collective.variants:
        parts = PurePosixPath(variant.folder).parts
        if not parts or ".." in parts or parts[0] == "/" or {"\\", "\0"} & set(variant.folder):
            return f"variant {variant.id!r}: its folder {variant.folder!r} is not inside the artefact"
        if len(variant.slots) != len(ranks):
            return f"variant {variant.id!r}: slots has {len(variant.slots)} entries for {len(ranks)} ranks"
    return ""


def _collective_in_words(collective: ManifestCollective) -> str:
    root = "" if collective.root is None else f", root {collective.root}"
    op = f", {collective.op}" if collective.op else ""
    return f"{collective.name}: {collective.collective} of {len(collective.ranks)} ranks{root}{op}"


def _artefact_in_html(manifest: Manifest) -> str:
    rows = "".join(
        "<tr>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in (_collective_in_words(c), v.id, size_range(v)))
        + "</tr>"
        for c in manifest.collectives
        for v in c.variants
    )
    head = "<tr><th>collective</th><th>variant</th><th>for sizes</th></tr>"
    return f"<div><b>{escape(manifest.name)}</b><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>"
