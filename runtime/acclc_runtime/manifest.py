"""The manifest of an artefact: all that a CPU or CUDA run needs beside kernel.cu.

The compiler imports this, never the reverse.

Folder of an artefact::

    manifest.json                      this
    __init__.py                        the importable module
    COLLECTIVE/problem.json            one folder a collective
    COLLECTIVE/VARIANT/schedule.json   one folder a variant: what moves
    COLLECTIVE/VARIANT/program.json    who does what (the numpy backend executes it)
    COLLECTIVE/VARIANT/kernel.json     the one-sided realisation
    COLLECTIVE/VARIANT/kernel.cu       generated from kernel.json; compiled at first use
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from acclc_runtime.codec import from_json, to_json
from acclc_runtime.errors import DamagedFileError
from acclc_runtime.program import PROGRAM_VERSION, Program

MANIFEST_VERSION = 2
FORMAT = "acclc-manifest"
PROGRAM_FORMAT = "acclc-program"


@dataclass(frozen=True, slots=True)
class ManifestLink:
    """``count`` links of class ``link_class`` from node ``src`` to node ``dst``; bytes/s and seconds."""

    src: int
    dst: int
    count: int
    link_class: str
    bandwidth: Fraction
    latency: Fraction
    kind: str = ""
    """nvlink, xgmi, pcie, net, shm, host, or empty."""


@dataclass(frozen=True, slots=True)
class ManifestTopology:
    """The machine it was compiled for: node names and kinds (GPUs first), links."""

    name: str
    nodes: tuple[str, ...]
    kinds: tuple[str, ...]
    links: tuple[ManifestLink, ...]


@dataclass(frozen=True, slots=True)
class ManifestCounter:
    """A counter, for layout and for messages: it lies in the memory of global rank ``home`` and tells of src -> dst."""

    kind: str
    home: int
    src: int
    dst: int


@dataclass(frozen=True, slots=True)
class ManifestBlock:
    """Block ``index`` of a global rank and the link it owns, in words (``g[0] -> g[1]``, ``local``)."""

    rank: int
    index: int
    link: str


@dataclass(frozen=True, slots=True)
class ManifestVariant:
    """One schedule of a collective, and what its kernel needs."""

    id: str
    folder: str
    """Relative to the artefact, with ``/``."""
    strategy: str
    chunks: int
    steps: int
    rounds: int
    min_bytes: int | None
    """S of the definitions; None, None: never the best by simulation, chosen only by name."""
    max_bytes: int | None
    """Exclusive; None with a ``min_bytes``: no limit."""
    longest_chunk: Fraction
    slot_depth: int
    channels: int
    slots: tuple[int, ...]
    """A rank of the group, in the order of ``ManifestCollective.ranks``."""
    blocks: tuple[ManifestBlock, ...]
    """In order of (rank's position in the group, index); one channel's."""
    counters: tuple[ManifestCounter, ...]
    """By counter id; one channel's."""
    kernel_sha256: str
    kernel_digest: str
    """Digest of kernel.json, from which kernel.cu was generated."""
    schedule_digest: str = ""
    program_digest: str = ""
    """Of schedule.json and program.json: for ``acclc verify``, which notices when they are another artefact's."""
    written: tuple[int, ...] = ()
    """The global ranks whose outputs other ranks write, in order of the group."""
    read: tuple[int, ...] = ()
    """The global ranks whose inputs other ranks read, in order of the group."""
    realisation: str = "put"
    """``put``, ``eager`` or ``direct``: how the schedule is brought into memory (see the compiler's kernel_program)."""
    protocol: str = "simple"
    """``simple`` or ``ll``: how data come to a slot."""


@dataclass(frozen=True, slots=True)
class ManifestShard:
    """A count-long vector: (rank, unit) places where it is at the start and where it is needed."""

    inputs: tuple[tuple[int, int], ...]
    outputs: tuple[tuple[int, int], ...]
    reduced: bool


@dataclass(frozen=True, slots=True)
class ManifestCollective:
    """One collective of the artefact. Lists a rank are in the order of ``ranks`` (global ranks)."""

    name: str
    collective: str
    ranks: tuple[int, ...]
    root: int | None
    """Global rank."""
    op: str | None
    """The operator named in the source, if any: the default of calls."""
    in_place: str
    positions: tuple[int, ...]
    input_units: tuple[int, ...]
    output_units: tuple[int, ...]
    reduces: bool
    contributors: int
    """By how many contributions avg divides; 0: not the same everywhere, so avg is refused."""
    shards: tuple[ManifestShard, ...]
    bound: str
    """The bound in words."""
    variants: tuple[ManifestVariant, ...]
    size_units: int = 0
    """Counts that the size S has (see the definitions); 0: those of the largest buffer."""
    varying: bool = False
    """Whether each of ``shards`` has a count of its own, which goes with the call (all_to_all_v). The units of a buffer
    then lie one behind the other, each as long as its shard's count."""
    problem_digest: str = ""
    proof_digest: str = ""
    """Of problem.json and proof.json."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A whole artefact. ``types``, ``ops``, ``architectures``: what the source's ``emit`` asked for (empty: all)."""

    name: str
    compiler: str
    reproducible: bool
    topologies: tuple[ManifestTopology, ...]
    """One a collective, in the same order."""
    collectives: tuple[ManifestCollective, ...]
    types: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()


def read_manifest(folder: Path) -> Manifest:
    """Read ``folder/manifest.json``.

    Raises:
        DamagedFileError: no artefact there, or a damaged one.
    """
    path = folder / "manifest.json"
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise DamagedFileError(f"{folder} is no artefact: it has no manifest.json") from None
    except OSError as error:
        raise DamagedFileError(f"{path}: {error.strerror}") from None
    return from_json(data, Manifest, FORMAT, MANIFEST_VERSION, str(path))


def manifest_bytes(manifest: Manifest) -> bytes:
    """Return the bytes of manifest.json."""
    return to_json(manifest, FORMAT, MANIFEST_VERSION)


def read_program(artefact: Path, variant: ManifestVariant) -> Program:
    """Read the Program of a variant: what the numpy backend executes.

    Raises:
        DamagedFileError: it is missing, damaged, or not a Program.
    """
    path = artefact / variant.folder / "program.json"
    if artefact.resolve() not in path.resolve().parents:
        raise DamagedFileError(f"{artefact / 'manifest.json'}: folder {variant.folder!r} lies outside the artefact")
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise DamagedFileError(
            f"{path} is missing: the numpy backend executes it; compile the artefact again, or use another backend"
        ) from None
    except OSError as error:
        raise DamagedFileError(f"{path}: {error.strerror}") from None
    return from_json(data, Program, PROGRAM_FORMAT, PROGRAM_VERSION, str(path))


def program_bytes(program: Program) -> bytes:
    """Return the bytes of program.json."""
    return to_json(program, PROGRAM_FORMAT, PROGRAM_VERSION)
