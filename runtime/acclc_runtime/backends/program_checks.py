"""Whether a Program that was read from a file can be executed: references in range, buffers as the manifest says.

What it does to the data is `acclc verify`'s business; this keeps a damaged file from touching foreign memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from acclc_runtime.errors import DamagedFileError
from acclc_runtime.manifest import ManifestCollective
from acclc_runtime.program import Buffer, Extent, Operation, OperationKind, Program, RankProgram


def check_program(program: Program, collective: ManifestCollective, name: str) -> None:
    """Check the program against the manifest's collective; ``name`` says which file it came from.

    Raises:
        DamagedFileError: with the first fault, naming rank and operation.
    """
    for fault in _faults(program, collective):
        raise DamagedFileError(f"{name}: {fault}")


def _faults(program: Program, collective: ManifestCollective) -> Iterator[str]:
    expected = {
        "ranks": (tuple(r.rank for r in program.ranks), collective.ranks),
        "positions": (program.positions, collective.positions),
        "in_place": (program.in_place, collective.in_place),
        "contributors": (program.contributors, collective.contributors),
        "input units": (tuple(r.input_units for r in program.ranks), collective.input_units),
        "output units": (tuple(r.output_units for r in program.ranks), collective.output_units),
    }
    for what, (found, wanted) in expected.items():
        if found != wanted:
            yield f"its {what} are {found}, the manifest's are {wanted}"
    group = set(collective.ranks)
    shards = len(collective.shards) if collective.varying else 0
    for rank in program.ranks:
        operations = [o for b in rank.blocks for o in b.operations]
        ids = {o.id for o in operations}
        if len(ids) != len(operations):
            yield f"rank {rank.rank}: several operations have the same id"
        for operation in operations:
            for fault in _operation_faults(operation, rank, ids, group, shards):
                yield f"rank {rank.rank}, operation {operation.id}: {fault}"


def _operation_faults(
    operation: Operation, rank: RankProgram, ids: set[int], group: set[int], shards: int
) -> Iterator[str]:
    kind = operation.kind
    if (kind is OperationKind.RECEIVE) == bool(operation.sources):
        yield f"a {kind} with {len(operation.sources)} sources"
    if (kind is OperationKind.SEND) == (operation.target is not None):
        yield f"a {kind} {'with' if operation.target else 'without'} a target"
    if kind is not OperationKind.COMPUTE and (operation.peer not in group or operation.peer == rank.rank):
        yield f"no peer {operation.peer} in the group"
    missing = [i for i in operation.after if i not in ids]
    if missing:
        yield f"waits for operation {missing[0]}, which does not exist"
    for place in (*operation.sources, *(() if operation.target is None else (operation.target,))):
        if not _in_range(place, rank):
            yield f"{place.buffer} unit {place.unit}, [{place.begin}, {place.end}) is out of range"
        if (not 0 <= place.shard < shards) if shards else place.shard != -1:
            yield f"{place.buffer} unit {place.unit} is counted by shard {place.shard}, which has no count"
    if operation.target is not None and operation.target.buffer is Buffer.INPUT:
        yield "writes into the input"


def _in_range(place: Extent, rank: RankProgram) -> bool:
    units = {Buffer.INPUT: rank.input_units, Buffer.OUTPUT: rank.output_units, Buffer.SCRATCH: rank.slots}
    return 0 <= place.unit < units[place.buffer] and 0 <= place.begin <= place.end <= 1
