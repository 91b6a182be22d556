"""What one rank of a communicator gives to a call: where it has no input, its output tells the size."""

from __future__ import annotations

from typing import Any

from acclc_runtime.buffers import adapt
from acclc_runtime.dtypes import DType
from acclc_runtime.errors import ArgumentError
from acclc_runtime.manifest import ManifestCollective


def without_input(
    collective: ManifestCollective, own: ManifestCollective, rank: int, x: Any, out: Any, dtype: str | None
) -> tuple[None, Any, tuple[DType, int] | None]:
    """Return the input, the output, and the type and count that the output tells.

    ``own`` is the collective as this rank sees it. A broadcast's output may be like x; where there is none either, x
    has count elements.

    Raises:
        ArgumentError: nothing tells the size.
    """
    units = own.output_units[0]
    if units == 0:
        if x is None:
            raise ArgumentError(
                f"{collective.name}: rank {rank} only passes on what others send; give it an array of count "
                "elements, which tells the size"
            )
        size = adapt(x, dtype)
        return None, out, (size.dtype, size.elements)
    if out is None and (collective.collective != "broadcast" or x is None):
        raise ArgumentError(f"{collective.name}: rank {rank} has no input that tells the size of its output; give out=")
    if out is None:
        like = adapt(x, dtype)
        out = like.empty(like.shape, None)
    buffer = adapt(out, dtype)
    count, rest = divmod(buffer.elements, units)
    if rest:
        raise ArgumentError(
            f"{collective.name}: rank {rank}'s output has {buffer.elements} elements; it must be a multiple of {units}"
        )
    return None, out, (buffer.dtype, count)
