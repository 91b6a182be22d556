"""One rank's calls, however the bytes move: which collective is meant, what its counts are, and what tells its size."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Any, Self

from acclc_runtime.arguments import CheckedCall, check_call
from acclc_runtime.buffers import adapt
from acclc_runtime.counts import Lengths, Matrix, lengths_of
from acclc_runtime.dtypes import DType
from acclc_runtime.errors import ArgumentError
from acclc_runtime.manifest import Manifest, ManifestCollective, ManifestVariant
from acclc_runtime.memory.told_counts import ToldCounts
from acclc_runtime.selection import of_kind, of_name
from acclc_runtime.tuning import Choices


class OneRank(ABC):
    """What all communicators have alike. What is declared here is the communicator's."""

    _manifest: Manifest
    _own: dict[str, ManifestCollective]
    """The collectives that this rank is in, as it sees them."""
    _choices: Choices

    @property
    @abstractmethod
    def rank(self) -> int:
        """This rank."""

    @property
    def manifest(self) -> Manifest:
        """The artefact's manifest."""
        return self._manifest

    @abstractmethod
    def close(self) -> None:
        """End the communicator."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave(error)

    def _leave(self, error: BaseException | None) -> None:
        """End it where a ``with`` ends, by ``error`` or None."""
        self.close()

    @abstractmethod
    def _begin(
        self,
        collective: ManifestCollective,
        x: Any,
        out: Any,
        op: str | None,
        async_op: bool,
        variant: str | None,
        dtype: str | None,
        told: Mapping[str, Any],
        way: Any,
    ) -> Any:
        """Check everything, then run; ``way`` is what :meth:`_way` gave."""

    def _way(self, method: str, **words: Any) -> Any:
        """Return by what later calls that say the same are known; None: each is looked at anew."""
        return None

    def _check_stream(self, stream: Any) -> None:
        """Refuse a stream where calls run on none. A stream takes the place of the way (see :meth:`_begin`)."""
        if stream is not None:
            raise ArgumentError("stream= is for arrays on a GPU; this communicator works on host memory")

    def collective(
        self,
        name: str,
        inputs: Any = None,
        outputs: Any = None,
        op: str | None = None,
        variant: str | None = None,
        dtype: str | None = None,
        async_op: bool = False,
        stream: Any = None,
        **told: Any,
    ) -> Any:
        """Run the collective of that name with this rank's input and output: any, custom ones included.

        ``counts``, ``send_counts``, ``recv_counts``, ``check``: see :meth:`all_to_all_v`.
        """
        self._check_stream(stream)
        collective = of_name(self._manifest, name)
        way = self._way("collective", name=name, op=op, variant=variant, dtype=dtype) if stream is None else stream
        return self._begin(collective, inputs, outputs, op, async_op, variant, dtype, told, way)

    def choice(self, name: str, nbytes: int) -> tuple[ManifestVariant, str]:
        """Return the variant that a call of S = ``nbytes`` takes, and why."""
        return self._choices.choose(of_name(self._manifest, name), nbytes)

    def _of_kind(
        self,
        kind: str,
        x: Any,
        out: Any,
        op: str | None,
        root: int | None,
        stream: Any,
        async_op: bool,
        variant: str | None,
        dtype: str | None,
        told: Mapping[str, Any] = MappingProxyType({}),
    ) -> Any:
        """Run the collective of a kind. ``told``: what an all_to_all_v says of its counts."""
        self._check_stream(stream)
        collective = of_kind(self._manifest, kind, root, "comm")
        way = self._way(kind, op=op, root=root, variant=variant, dtype=dtype) if stream is None else stream
        return self._begin(collective, x, out, op, async_op, variant, dtype, told, way)

    def _ranks_of_kind(self, kind: str) -> int:
        """Return how many ranks the collective of a kind has."""
        return len(of_kind(self._manifest, kind, None, "comm").ranks)

    def _check_member(self, collective: ManifestCollective) -> None:
        if collective.name not in self._own:
            members = ", ".join(map(str, collective.ranks))
            raise ArgumentError(f"{collective.name} is on the ranks {members}; rank {self.rank} takes no part in it")

    def _told(self, collective: ManifestCollective, told: Mapping[str, Any]) -> ToldCounts | None:
        """Return what the call says of its counts; None where there is one count.

        Raises:
            ArgumentError: see :meth:`ToldCounts.of`; or there is one count, which the arrays tell.
        """
        names = ("counts", "send_counts", "recv_counts")
        unknown = [name for name in told if name not in (*names, "check")]
        if unknown:
            raise TypeError(f"collective() got an unexpected keyword argument {unknown[0]!r}")
        if collective.varying:
            position = self._own[collective.name].positions[0]
            counts, sent, got = map(told.get, names)
            return ToldCounts.of(collective, position, counts, sent, got, bool(told.get("check", True)))
        given = [name for name in names if told.get(name) is not None]
        if given:
            raise ArgumentError(f"{collective.name} has one count, which the arrays tell; leave {given[0]}= out")
        return None

    def _checked(
        self,
        collective: ManifestCollective,
        x: Any,
        out: Any,
        op: str | None,
        dtype: str | None,
        gpu: bool = False,
        devices: Sequence[int] | None = None,
    ) -> CheckedCall:
        """Check a call of one count, as this rank sees it. See :func:`acclc_runtime.arguments.check_call`."""
        own, sized_by = self._own[collective.name], None
        if own.input_units[0] == 0:
            x, out, sized_by = without_input(collective, own, self.rank, x, out, dtype)
        outs = None if out is None else [out]
        return check_call(self._manifest, own, [x], outs, op, dtype, gpu, devices, sized_by)

    def _lengths(self, collective: ManifestCollective, matrix: Matrix) -> Lengths:
        """Return the lengths of this rank's buffers."""
        n = collective.ranks.index(self.rank)
        whole = lengths_of(collective, matrix)
        return Lengths(whole.shards, (whole.inputs[n],), (whole.outputs[n],))


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
