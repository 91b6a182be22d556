"""The methods of a communicator that are named like collectives."""

from __future__ import annotations

from typing import Any

from acclc_runtime.memory.told_counts import split_counts
from acclc_runtime.one_rank import OneRank


class NamedCalls(OneRank):
    """One method a collective: the long ways (see :mod:`acclc_runtime.memory.short_ways`)."""

    def all_reduce(
        self,
        x: Any,
        op: str | None = None,
        out: Any = None,
        stream: Any = None,
        async_op: bool = False,
        *,
        variant: str | None = None,
        dtype: str | None = None,
    ) -> Any:
        """Return the reduction of all ranks' inputs. In place: out is x."""
        return self._of_kind("all_reduce", x, out, op, None, stream, async_op, variant, dtype)

    def all_gather(
        self,
        x: Any,
        out: Any = None,
        stream: Any = None,
        async_op: bool = False,
        *,
        variant: str | None = None,
        dtype: str | None = None,
    ) -> Any:
        """Return all ranks' inputs, in group order. In place: x is this rank's part of out."""
        return self._of_kind("all_gather", x, out, None, None, stream, async_op, variant, dtype)

    def reduce_scatter(
        self,
        x: Any,
        op: str | None = None,
        out: Any = None,
        stream: Any = None,
        async_op: bool = False,
        *,
        variant: str | None = None,
        dtype: str | None = None,
    ) -> Any:
        """Return this rank's part of the reduction of all inputs. In place: out is this rank's part of x."""
        return self._of_kind("reduce_scatter", x, out, op, None, stream, async_op, variant, dtype)

    def all_to_all(
        self,
        x: Any,
        out: Any = None,
        stream: Any = None,
        async_op: bool = False,
        *,
        variant: str | None = None,
        dtype: str | None = None,
    ) -> Any:
        """Part j of this rank's input becomes this rank's part of rank j's output."""
        return self._of_kind("all_to_all", x, out, None, None, stream, async_op, variant, dtype)

    def all_to_all_v(
        self,
        x: Any,
        counts: Any = None,
        out: Any = None,
        stream: Any = None,
        async_op: bool = False,
        *,
        send_counts: Any = None,
        recv_counts: Any = None,
        check: bool = True,
        variant: str | None = None,
        dtype: str | None = None,
    ) -> Any:
        """Send to each rank as many elements as ``counts`` say; return what all send to this one, in group order.

        ``counts[i][j]`` elements go from rank i to rank j (group ranks): the same matrix on all ranks. Or each rank
        gives its own row (``send_counts``), and its column if it knows it (``recv_counts``): rows are then exchanged
        first. With ``check`` they are exchanged and compared in any case; without, counts that differ between ranks are
        still found before data moves where they are neighbours, but not told one by one. ``x`` lies in order of
        destination, ``out`` in order of source.

        Raises:
            MismatchError: the ranks do not say the same; names who says what.
        """
        told = {"counts": counts, "send_counts": send_counts, "recv_counts": recv_counts, "check": check}
        return self._of_kind("all_to_all_v", x, out, None, None, stream, async_op, variant, dtype, told)

    def broadcast(
        self,
        x: Any,
        root: int | None = None,
        out: Any = None,
        stream: Any = None,
        async_op: bool = False,
        *,
        variant: str | None = None,
        dtype: str | None = None,
    ) -> Any:
        """Return the input of the root (a global rank); others' x only gives size and type. In place: out is x."""
        return self._of_kind("broadcast", x, out, None, root, stream, async_op, variant, dtype)

    def reduce(
        self,
        x: Any,
        op: str | None = None,
        root: int | None = None,
        out: Any = None,
        stream: Any = None,
        async_op: bool = False,
        *,
        variant: str | None = None,
        dtype: str | None = None,
    ) -> Any:
        """Return the reduction of all inputs at the root, None elsewhere. In place: out is x."""
        return self._of_kind("reduce", x, out, op, root, stream, async_op, variant, dtype)

    def gather(
        self,
        x: Any,
        root: int | None = None,
        out: Any = None,
        stream: Any = None,
        async_op: bool = False,
        *,
        variant: str | None = None,
        dtype: str | None = None,
    ) -> Any:
        """Return all inputs in group order at the root, None elsewhere. In place: the root's x is its part of out."""
        return self._of_kind("gather", x, out, None, root, stream, async_op, variant, dtype)

    def scatter(
        self,
        x: Any,
        root: int | None = None,
        out: Any = None,
        stream: Any = None,
        async_op: bool = False,
        *,
        variant: str | None = None,
        dtype: str | None = None,
    ) -> Any:
        """Return this rank's part of the root's input; other ranks give x=None and an ``out``."""
        return self._of_kind("scatter", x, out, None, root, stream, async_op, variant, dtype)

    def send_recv(
        self,
        x: Any,
        out: Any = None,
        stream: Any = None,
        async_op: bool = False,
        *,
        variant: str | None = None,
        dtype: str | None = None,
    ) -> Any:
        """Each pair's source sends its input to its destination's output."""
        return self._of_kind("send_recv", x, out, None, None, stream, async_op, variant, dtype)

    def all_gather_into_tensor(self, out: Any, x: Any, async_op: bool = False) -> Any:
        """all_gather, as torch names it."""
        return self.all_gather(x, out, None, async_op)

    def reduce_scatter_tensor(self, out: Any, x: Any, op: str | None = None, async_op: bool = False) -> Any:
        """reduce_scatter, as torch names it."""
        return self.reduce_scatter(x, op, out, None, async_op)

    def all_to_all_single(
        self,
        out: Any,
        x: Any,
        output_split_sizes: Any = None,
        input_split_sizes: Any = None,
        async_op: bool = False,
    ) -> Any:
        """all_to_all, as torch names it; with split sizes (of the first dimension) all_to_all_v.

        As in torch, sizes that are left out are even, and all ranks give some or none does.
        """
        if output_split_sizes is None and input_split_sizes is None:
            return self.all_to_all(x, out, None, async_op)
        sent = split_counts(x, input_split_sizes, self._ranks_of_kind("all_to_all_v"), "input_split_sizes")
        got = split_counts(out, output_split_sizes, self._ranks_of_kind("all_to_all_v"), "output_split_sizes")
        return self.all_to_all_v(x, None, out, None, async_op, send_counts=sent, recv_counts=got)
