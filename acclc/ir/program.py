"""Program: *who*. Defined in the runtime, whose engines execute it; see :mod:`acclc_runtime.program`."""

from acclc_runtime.program import (
    PROGRAM_VERSION,
    Buffer,
    Extent,
    Operation,
    OperationKind,
    Program,
    ProgramBlock,
    RankProgram,
)

__all__ = [
    "PROGRAM_VERSION",
    "Buffer",
    "Extent",
    "Operation",
    "OperationKind",
    "Program",
    "ProgramBlock",
    "RankProgram",
]
