"""A compiled artefact: in memory, and as a folder (its files are described in ``acclc_runtime.manifest``)."""

from __future__ import annotations

import hashlib
import keyword
import os
import tempfile
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

from acclc.ir.kernel_program import KERNEL_PROGRAM_VERSION, KernelProgram, Protocol, Realisation
from acclc.ir.problem import Problem, Topology
from acclc.ir.program import PROGRAM_VERSION, Program
from acclc.ir.result import Bound, Excluded, Exclusion, Status
from acclc.ir.schedule import Schedule
from acclc.simulate.sizes import size_factor
from acclc.view import picture as _picture  # noqa: F401  gives topologies their picture in notebooks
from acclc_runtime.codec import from_json, to_json
from acclc_runtime.errors import DamagedFileError
from acclc_runtime.manifest import (
    Manifest,
    ManifestBlock,
    ManifestCollective,
    ManifestCounter,
    ManifestLink,
    ManifestShard,
    ManifestTopology,
    ManifestVariant,
    manifest_bytes,
    program_bytes,
    read_manifest,
)

T = TypeVar("T")

IR_VERSION = 1
"""Of problem.json, schedule.json and proof.json."""


class OutputError(Exception):
    """The output folder cannot be written; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Proof:
    """proof.json: what was proven of a collective, with the certificates."""

    bound: Bound
    status: Status
    excluded: tuple[Excluded, ...]
    complete: bool
    reproducible: bool
    notes: tuple[str, ...]
    exclusions: tuple[Exclusion, ...] = ()
    """What proves the excluded points of reason ``bound``, beside the bound."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One schedule, all its lower levels, and the sizes it is the best for (bytes S; None, None: none)."""

    schedule: Schedule
    program: Program
    kernel: KernelProgram
    source: str
    min_bytes: int | None
    max_bytes: int | None
    time_per_byte: Fraction
    """Seconds a byte of shard, recomputed by the verifier (0 of a schedule that it refuses)."""
    solve_seconds: float = field(default=0.0, compare=False)

    @property
    def id(self) -> str:
        """(C, S, R) in short, as ``c6s3r7``, and how it is realised, if not by simple puts: ``c1s1r1_eager_ll``."""
        words = [self.schedule.id]
        if self.kernel.realisation is not Realisation.PUT:
            words.append(self.kernel.realisation.value)
        if self.kernel.protocol is not Protocol.SIMPLE:
            words.append(self.kernel.protocol.value)
        return "_".join(words)


@dataclass(frozen=True, slots=True)
class CompiledCollective:
    """One collective: the problem, what was proven, and its variants from the fewest steps on."""

    problem: Problem
    proof: Proof
    variants: tuple[Variant, ...]
    seconds: float = field(default=0.0, compare=False)

    @property
    def name(self) -> str:
        """The name users call it by."""
        return self.problem.name

    @property
    def schedules(self) -> tuple[Variant, ...]:
        """Each schedule once, as realised by puts, with the sizes of all its realisations: for reports on schedules."""
        return tuple(self._whole(v) for v in self.variants if v.kernel.realisation is Realisation.PUT)

    def _whole(self, variant: Variant) -> Variant:
        """A variant with the sizes of all of its schedule."""
        found = [v for v in self.variants if v.schedule == variant.schedule and v.min_bytes is not None]
        least = [v.min_bytes for v in found if v.min_bytes is not None]
        most = [v.max_bytes for v in found if v.max_bytes is not None]
        limited = found and len(most) == len(found)
        return replace(variant, min_bytes=min(least, default=None), max_bytes=max(most) if limited else None)


@dataclass(frozen=True, slots=True)
class Artefact:
    """A compiled file."""

    name: str
    compiler: str
    collectives: tuple[CompiledCollective, ...]
    types: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()

    @property
    def reproducible(self) -> bool:
        """Whether the same input, options and seed give the same bytes again."""
        return all(c.proof.reproducible for c in self.collectives)

    def _repr_html_(self) -> str:
        from acclc.notebook import artefact_html

        return artefact_html(self)

    def files(self) -> dict[str, bytes]:
        """Return the folder's files: relative path -> bytes. Deterministic."""
        from acclc.codegen.module import render_module

        files: dict[str, bytes] = {}
        for collective in self.collectives:
            files[f"{collective.name}/problem.json"] = problem_bytes(collective.problem)
            files[f"{collective.name}/proof.json"] = proof_bytes(collective.proof)
            for variant in collective.variants:
                folder = f"{collective.name}/{variant.id}"
                files[f"{folder}/schedule.json"] = schedule_bytes(variant.schedule)
                files[f"{folder}/program.json"] = program_bytes(variant.program)
                files[f"{folder}/kernel.json"] = kernel_bytes(variant.kernel)
                files[f"{folder}/kernel.cu"] = variant.source.encode()
        manifest = self.manifest()
        files["manifest.json"] = manifest_bytes(manifest)
        files["__init__.py"] = render_module(manifest).encode()
        return files

    def manifest(self) -> Manifest:
        """Return what the runtime needs to know."""
        return Manifest(
            name=self.name,
            compiler=self.compiler,
            reproducible=self.reproducible,
            topologies=tuple(manifest_topology(c.problem.topology) for c in self.collectives),
            collectives=tuple(_collective(c) for c in self.collectives),
            types=self.types,
            ops=self.ops,
            architectures=self.architectures,
        )

    def save(self, folder: str | Path, *, force: bool = False) -> Path:
        """Write the artefact to ``folder``: whole or not at all. ``force`` replaces an artefact that is there.

        Raises:
            OutputError: something is there already, or the place cannot be written.
        """
        target = Path(folder)
        check_output(target, force=force)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as beside:
                fresh = Path(beside) / "new"
                for name, data in self.files().items():
                    path = fresh / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(data)
                if target.exists():
                    target.rename(Path(beside) / "old")
                fresh.rename(target)
        except OSError as error:
            raise OutputError(f"cannot write {target}: {error.strerror or error}") from None
        return target


def check_output(target: Path, *, force: bool) -> None:
    """Refuse a place that must not or cannot be written, before any work is done.

    Raises:
        OutputError: with what to do instead.
    """
    name = target.resolve().name if target.name in ("", "..") else target.name
    if not name.isidentifier() or keyword.iskeyword(name):
        better = target.with_name(_python_name(name)) if name == target.name else Path(_python_name(name))
        raise OutputError(
            f"the folder's name {name!r} is no Python name, so it could not be imported; try -o {str(better)!r}"
        )
    if target.exists() or target.is_symlink():
        if not target.is_dir() or (any(target.iterdir()) and not (target / "manifest.json").is_file()):
            also = ", so --force does not replace it" if force else ""
            raise OutputError(f"{target} exists and is not an artefact{also}; choose another folder with -o")
        if not force:
            raise OutputError(f"{target} exists; choose another folder with -o, or replace it with --force")
    above = next((p for p in target.absolute().parents if p.exists()), None)
    if above is not None and not above.is_dir():
        raise OutputError(f"cannot write {target}: {above} is a file, not a folder; choose another place with -o")
    if above is not None and not os.access(above, os.W_OK | os.X_OK):
        raise OutputError(f"cannot write {target}: no permission to write in {above}; choose another place with -o")


def _python_name(name: str) -> str:
    cleaned = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
    if not cleaned or cleaned[0].isdigit():
        cleaned = f"a_{cleaned}"
    return f"{cleaned}_" if keyword.iskeyword(cleaned) else cleaned


def load_artefact(folder: str | Path) -> Artefact:
    """Read an artefact back; its problems and schedules are sound, the rest is as ``acclc verify`` finds it.

    Raises:
        DamagedFileError: a file is missing, truncated or of another version, or a schedule is none of its problem.
    """
    from acclc.verify import check_problem, check_schedule

    artefact = read_artefact(folder)
    for collective in artefact.collectives:
        findings = check_problem(collective.problem).errors
        for variant in collective.variants if not findings else ():
            findings = findings or check_schedule(collective.problem, variant.schedule).errors
        if findings:
            raise DamagedFileError(f"{Path(folder) / collective.name}: {findings[0]}")
    return artefact


def read_artefact(folder: str | Path) -> Artefact:
    """Read an artefact back, checking only each file's form: what is checked next is not known to be sound.

    Raises:
        DamagedFileError: a file is missing, truncated or of another version.
    """
    from acclc.verify import check_problem

    root = Path(folder)
    manifest = read_manifest(root)
    collectives = []
    if not manifest.collectives or not all(c.variants for c in manifest.collectives):
        raise DamagedFileError(f"{root / 'manifest.json'}: no collective, or one without a variant")
    for entry in manifest.collectives:
        home = _inside(root, entry.name)
        problem = _read(home / "problem.json", Problem, "acclc-problem", IR_VERSION)
        proof = _read(home / "proof.json", Proof, "acclc-proof", IR_VERSION)
        stated = check_problem(problem).ok
        variants = tuple(_read_variant(_inside(root, v.folder), problem, v, stated) for v in entry.variants)
        collectives.append(CompiledCollective(problem, proof, variants))
    return Artefact(
        manifest.name,
        manifest.compiler,
        tuple(collectives),
        manifest.types,
        manifest.ops,
        manifest.architectures,
    )


def _inside(root: Path, name: str) -> Path:
    if "\0" in name or root.resolve() not in (root / name).resolve().parents:
        raise DamagedFileError(f"{root / 'manifest.json'}: the folder {name!r} lies outside the artefact")
    return root / name


def _read_variant(folder: Path, problem: Problem, entry: ManifestVariant, stated: bool) -> Variant:
    from acclc.verify import check_schedule
    from acclc.verify.schedule import time_per_shard_byte

    schedule = _read(folder / "schedule.json", Schedule, "acclc-schedule", IR_VERSION)
    sound = stated and check_schedule(problem, schedule).ok
    return Variant(
        schedule=schedule,
        program=_read(folder / "program.json", Program, "acclc-program", PROGRAM_VERSION),
        kernel=_read(folder / "kernel.json", KernelProgram, "acclc-kernel", KERNEL_PROGRAM_VERSION),
        source=_bytes(folder / "kernel.cu").decode(errors="replace"),
        min_bytes=entry.min_bytes,
        max_bytes=entry.max_bytes,
        time_per_byte=time_per_shard_byte(problem, schedule) if sound else Fraction(0),
    )


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DamagedFileError(f"{path}: {error.strerror}") from None


def _read(path: Path, kind: type[T], format: str, version: int) -> T:
    return from_json(_bytes(path), kind, format, version, str(path))


def problem_bytes(problem: Problem) -> bytes:
    """The bytes of problem.json."""
    return to_json(problem.without_spans(), "acclc-problem", IR_VERSION)


def proof_bytes(proof: Proof) -> bytes:
    """The bytes of proof.json."""
    return to_json(proof, "acclc-proof", IR_VERSION)


def schedule_bytes(schedule: Schedule) -> bytes:
    """The bytes of schedule.json."""
    return to_json(schedule, "acclc-schedule", IR_VERSION)


def kernel_bytes(kernel: KernelProgram) -> bytes:
    """The bytes of kernel.json."""
    return to_json(kernel, "acclc-kernel", KERNEL_PROGRAM_VERSION)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def manifest_topology(topology: Topology) -> ManifestTopology:
    """Return a machine as the runtime knows it."""
    return ManifestTopology(
        name=topology.name,
        nodes=tuple(n.name for n in topology.nodes),
        kinds=tuple(n.kind.value for n in topology.nodes),
        links=tuple(
            ManifestLink(x.src, x.dst, x.count, x.cls.name, x.cls.bandwidth, x.cls.latency, x.cls.kind)
            for x in topology.links
        ),
    )


def _collective(compiled: CompiledCollective) -> ManifestCollective:
    problem = compiled.problem
    ranks = problem.group
    demand = problem.demands[0]
    first = compiled.variants[0].program
    return ManifestCollective(
        name=problem.name,
        collective=problem.collective.value,
        ranks=tuple(ranks),
        root=demand.root,
        op=demand.op.value if demand.op else None,
        in_place=first.in_place,
        positions=first.positions,
        input_units=tuple(problem.input_units(r) for r in ranks),
        output_units=tuple(problem.output_units(r) for r in ranks),
        size_units=size_factor(problem),
        varying=problem.varying,
        reduces=problem.reduces,
        contributors=first.contributors,
        shards=tuple(
            ManifestShard(
                tuple((p.rank, p.unit) for p in s.inputs), tuple((p.rank, p.unit) for p in s.outputs), s.reduced
            )
            for s in problem.shards
        ),
        bound=compiled.proof.bound.throughput.words,
        variants=tuple(_variant(compiled, v) for v in compiled.variants),
        problem_digest=_digest(problem_bytes(problem)),
        proof_digest=_digest(proof_bytes(compiled.proof)),
    )


def _variant(compiled: CompiledCollective, variant: Variant) -> ManifestVariant:
    topology, kernel = compiled.problem.topology, variant.kernel

    def link_words(link: int) -> str:
        if link < 0:
            return "local"
        return f"{topology.nodes[topology.links[link].src].name} -> {topology.nodes[topology.links[link].dst].name}"

    return ManifestVariant(
        id=variant.id,
        folder=f"{compiled.name}/{variant.id}",
        strategy=variant.schedule.strategy,
        chunks=variant.schedule.chunks_per_shard,
        steps=variant.schedule.steps,
        rounds=variant.schedule.total_rounds,
        min_bytes=variant.min_bytes,
        max_bytes=variant.max_bytes,
        longest_chunk=max((c.weight for c in variant.schedule.chunks), default=Fraction(1)),
        slot_depth=kernel.slot_depth,
        channels=kernel.channels,
        slots=tuple(r.slots for r in kernel.ranks),
        blocks=tuple(ManifestBlock(b.rank, b.index, link_words(b.link)) for b in kernel.blocks),
        counters=tuple(ManifestCounter(c.kind.value, c.home, c.src, c.dst) for c in kernel.counters),
        kernel_sha256=_digest(variant.source.encode()),
        kernel_digest=_digest(kernel_bytes(kernel)),
        schedule_digest=_digest(schedule_bytes(variant.schedule)),
        program_digest=_digest(program_bytes(variant.program)),
        written=kernel.written,
        read=kernel.read,
        realisation=kernel.realisation.value,
        protocol=kernel.protocol.value,
    )
