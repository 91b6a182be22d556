"""``torch.distributed`` on acclc's schedules: importing this registers the backend ``acclc`` for CPU tensors.

    import acclc_runtime.engines.torch as acclc_torch

    dist.init_process_group("acclc", pg_options=acclc_torch.Options(artefact="build/four"))

The artefact may also be named by the variable ACCLC_ARTEFACT. Calls that it has a collective for, on all ranks of the
group, run on acclc; all others (send and recv, another group size, a type that cannot be reduced, what the artefact
lacks) go to the delegate, and a line says so once for each kind. Tested with torch 2.13.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import (
    AllgatherOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
    _create_work_from_future,
)

from acclc_runtime.dtypes import named
from acclc_runtime.engines.torch_arrays import array_of, op_of, type_name
from acclc_runtime.errors import ArgumentError, JoinError
from acclc_runtime.loader import load
from acclc_runtime.memory.bootstrap import SPAWNED
from acclc_runtime.memory.communicator import Communicator
from acclc_runtime.memory.tables import world_of
from acclc_runtime.memory.told_counts import split_counts
from acclc_runtime.settings import say

NAME = "acclc"
_DEFAULTS: dict[str, Options] = {}
"""The options given last: groups that are made without any take them."""
SMALL_BYTES = 32 << 10
"""Calls on less are made at once, on the caller's thread: to hand them over would take longer."""


@dataclass(frozen=True, slots=True)
class Options:
    """What ``init_process_group("acclc", pg_options=...)`` takes.

    ``artefact`` is the folder (default: ACCLC_ARTEFACT). ``delegate`` runs what the artefact lacks: ``gloo``; with
    None such calls are errors. ``timeout_s`` bounds a call without progress (default: the group's).
    """

    artefact: str | os.PathLike[str] | None = None
    delegate: str | None = "gloo"
    timeout_s: float | None = None


class AcclcProcessGroup(dist.ProcessGroup):  # type: ignore[misc]  # torch is not among what is type-checked
    """A process group on a communicator of acclc, with a delegate for what it lacks.

    Raises, from its calls: the communicator's errors; RuntimeError where there is no delegate for a call.
    """

    def __init__(self, rank: int, size: int, comm: Communicator | None, why_none: str, delegate: Any) -> None:
        super().__init__(rank, size)
        self._rank, self._size = rank, size
        self._comm = comm
        self._why_none = why_none
        self._delegate = delegate
        self._said: set[str] = set()
        self._names = {} if comm is None else _names(comm)

    def size(self) -> int:
        """The number of ranks."""
        return self._size

    def getBackendName(self) -> str:  # noqa: N802  torch's name
        """acclc."""
        return NAME

    @property
    def pg_name(self) -> str:
        """The group's name, as torch knows it."""
        return str(dist.distributed_c10d._world.pg_names[self])

    @property
    def group_name(self) -> str:
        """The same; newer versions of torch ask for it by this name."""
        return self.pg_name

    @property
    def communicator(self) -> Communicator | None:
        """The communicator; None where this group's size is not the artefact's."""
        return self._comm

    def shutdown(self) -> None:
        """End the communicator."""
        if self._comm is not None:
            self._comm.close()

    def abort(self) -> None:
        """Make the calls of all ranks end with an error."""
        if self._comm is not None:
            self._comm.abort()

    def allreduce(self, tensors: list[Any], opts: Any = None) -> Any:
        opts = opts or AllreduceOptions()
        (x,) = tensors
        return self._do("allreduce", (tensors, opts), _Call("all_reduce", x, x, tensors, opts.reduceOp))

    def allreduce_coalesced(self, tensors: list[Any], opts: Any = None) -> Any:
        flat = torch.cat([t.reshape(-1) for t in tensors])
        self.allreduce([flat], opts or AllreduceOptions()).wait()
        for t, part in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):
            t.copy_(part.view_as(t))
        return _done(tensors)

    def broadcast(self, tensors: list[Any], opts: Any = None) -> Any:
        opts = opts or BroadcastOptions()
        (x,) = tensors
        return self._do("broadcast", (tensors, opts), _Call("broadcast", x, x, tensors, root=opts.rootRank))

    def reduce(self, tensors: list[Any], opts: Any = None) -> Any:
        opts = opts or ReduceOptions()
        (x,) = tensors
        out = x if opts.rootRank == self._rank else None
        return self._do("reduce", (tensors, opts), _Call("reduce", x, out, tensors, opts.reduceOp, opts.rootRank))

    def _allgather_base(self, out: Any, x: Any, opts: Any = None) -> Any:
        opts = opts or AllgatherOptions()
        return self._do("_allgather_base", (out, x, opts), _Call("all_gather", x, out, [out]))

    all_gather_single = _allgather_base

    def allgather(self, outs: list[list[Any]], xs: list[Any], opts: Any = None) -> Any:
        opts, x = opts or AllgatherOptions(), xs[0]
        flat = _room(outs[0], x)
        call = None if flat is None else _Call("all_gather", x, flat, outs, after=_spread(flat, outs[0]))
        return self._do("allgather", (outs, xs, opts), call)

    def allgather_into_tensor_coalesced(self, outs: list[Any], xs: list[Any], opts: Any = None) -> Any:
        for out, x in zip(outs, xs, strict=True):
            self._allgather_base(out, x, opts).wait()
        return _done(outs)

    all_gather_single_coalesced = allgather_into_tensor_coalesced

    def _reduce_scatter_base(self, out: Any, x: Any, opts: Any = None) -> Any:
        opts = opts or ReduceScatterOptions()
        call = _Call("reduce_scatter", x, out, [out], opts.reduceOp)
        return self._do("_reduce_scatter_base", (out, x, opts), call)

    reduce_scatter_single = _reduce_scatter_base

    def reduce_scatter(self, outs: list[Any], xs: list[list[Any]], opts: Any = None) -> Any:
        opts = opts or ReduceScatterOptions()
        call = None
        if _alike(xs[0], outs[0]):
            call = _Call("reduce_scatter", torch.stack(xs[0]), outs[0], outs, opts.reduceOp)
        return self._do("reduce_scatter", (outs, xs, opts), call)

    def reduce_scatter_tensor_coalesced(self, outs: list[Any], xs: list[Any], opts: Any = None) -> Any:
        for out, x in zip(outs, xs, strict=True):
            self._reduce_scatter_base(out, x, opts).wait()
        return _done(outs)

    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    def alltoall_base(self, out: Any, x: Any, out_sizes: list[int], in_sizes: list[int], opts: Any = None) -> Any:
        opts = opts or AllToAllOptions()
        arguments = (out, x, out_sizes, in_sizes, opts)
        if out_sizes or in_sizes:  # on all ranks, or on none: whether they are even here says nothing of other ranks
            return self._do("alltoall_base", arguments, self._uneven(out, x, out_sizes, in_sizes))
        even = out.numel() == x.numel() and x.shape[0] % self._size == 0
        return self._do("alltoall_base", arguments, _Call("all_to_all", x, out, [out]) if even else None)

    all_to_all_single = alltoall_base

    def _uneven(self, out: Any, x: Any, out_sizes: list[int], in_sizes: list[int]) -> _Call | None:
        """Return an all_to_all of parts whose sizes are told; None if the artefact has no all_to_all_v."""
        if ("all_to_all_v", None) not in self._names:
            return None
        told = {
            "send_counts": split_counts(x, in_sizes or None, self._size, "input_split_sizes"),
            "recv_counts": split_counts(out, out_sizes or None, self._size, "output_split_sizes"),
        }
        return _Call("all_to_all_v", x, out, [out], told=told)

    def alltoall(self, outs: list[Any], xs: list[Any], opts: Any = None) -> Any:
        opts = opts or AllToAllOptions()
        if ("all_to_all_v", None) in self._names:
            counts = [[part.numel() for part in parts] for parts in (outs, xs)]
            flat = xs[0].new_empty(sum(counts[0]))
            packed = _Call(
                "all_to_all_v",
                torch.cat([part.reshape(-1) for part in xs]),
                flat,
                outs,
                after=_spread(flat.split(counts[0]), [part.view(-1) for part in outs]),
                told={"send_counts": counts[1], "recv_counts": counts[0]},
            )
            return self._do("alltoall", (outs, xs, opts), packed)
        flat = _room(outs, xs[0]) if _alike(xs, xs[0]) else None
        call = None if flat is None else _Call("all_to_all", torch.stack(xs), flat, outs, after=_spread(flat, outs))
        return self._do("alltoall", (outs, xs, opts), call)

    def gather(self, outs: list[list[Any]], xs: list[Any], opts: Any = None) -> Any:
        opts, x = opts or GatherOptions(), xs[0]
        flat = _room(outs[0], x) if outs else None
        call = None
        if not outs or flat is not None:
            after = None if flat is None else _spread(flat, outs[0])
            call = _Call("gather", x, flat, outs, root=opts.rootRank, after=after)
        return self._do("gather", (outs, xs, opts), call)

    def scatter(self, outs: list[Any], xs: list[list[Any]], opts: Any = None) -> Any:
        opts = opts or ScatterOptions()
        call = None
        if not xs or _alike(xs[0], outs[0]):
            call = _Call("scatter", torch.stack(xs[0]) if xs else None, outs[0], outs, root=opts.rootRank)
        return self._do("scatter", (outs, xs, opts), call)

    def barrier(self, opts: Any = None) -> Any:
        token = torch.zeros(1, dtype=torch.int32)
        call = _Call("all_reduce", token, token, [token], dist.ReduceOp.SUM)
        return self._do("barrier", (opts or BarrierOptions(),), call)

    def send(self, tensors: list[Any], rank: int, tag: int = 0) -> Any:
        return self._delegated("send", (tensors, rank, tag), "point to point")

    def recv(self, tensors: list[Any], rank: int, tag: int = 0) -> Any:
        return self._delegated("recv", (tensors, rank, tag), "point to point")

    def recv_anysource(self, tensors: list[Any], tag: int = 0) -> Any:
        return self._delegated("recv_anysource", (tensors, tag), "point to point")

    def _do(self, method: str, arguments: tuple[Any, ...], call: _Call | None) -> Any:
        """Run a call here if it can be, else by the delegate's method; ``call`` is None for uneven parts."""
        if call is None:
            return self._delegated(method, arguments, "parts of different sizes")
        refusal = self._refusal(call)
        if refusal:
            return self._delegated(method, arguments, refusal)
        opts = arguments[-1]
        return self._run(call, wait=not getattr(opts, "asyncOp", True))

    def _run(self, call: _Call, wait: bool) -> Any:
        """Run a call; return its work. Tensors that are not contiguous are copied there and back."""
        assert self._comm is not None
        given = None if call.out is None else call.out.contiguous()
        source = given if call.x is call.out else None if call.x is None else call.x.contiguous()

        def finish() -> None:
            if given is not None and given is not call.out:
                call.out.copy_(given)
            if call.after is not None:
                call.after()

        wait = wait or call.nbytes < SMALL_BYTES
        handle = self._comm.collective(
            self._names[call.kind, call.root],
            None if source is None else array_of(source),
            None if given is None else array_of(given),
            op=None if call.op is None else op_of(call.op),
            dtype=type_name(call.like.dtype),
            async_op=not wait,
            **call.told,
        )
        if wait:
            finish()
            return _done(call.result)
        future: Any = torch.futures.Future()

        def ended(error: BaseException | None) -> None:
            if error is not None:
                future.set_exception(error)
                return
            finish()
            future.set_result(call.result)

        handle.then(ended)
        return _create_work_from_future(future)

    def _refusal(self, call: _Call) -> str:
        """Return why a call cannot run here; "" if it can."""
        if self._comm is None:
            return self._why_none
        if (call.kind, call.root) not in self._names:
            return f"the artefact has no {call.kind}" + ("" if call.root is None else f" of root {call.root}")
        if call.nbytes == 0 and not call.told:  # where parts differ, others may have some
            return "no elements"
        if call.like.device.type != "cpu":
            return f"a tensor on {call.like.device.type}"
        if call.op is not None and op_of(call.op) is None:
            return f"the operator {call.op}"
        try:
            kind = named(type_name(call.like.dtype, exact=True) or "")
        except ArgumentError:
            return f"elements of type {call.like.dtype}"
        if call.op is not None and not kind.reducible:
            return f"elements of type {call.like.dtype} are not reduced"
        return ""

    def _delegated(self, method: str, arguments: Sequence[Any], reason: str) -> Any:
        """Give a call to the delegate, and say so once."""
        if self._delegate is None:
            raise RuntimeError(f"acclc: no {method} here ({reason}), and no delegate is set; see Options(delegate=...)")
        line = f"torch: {method} goes to {self._delegate.name()}: {reason}"
        if line not in self._said:
            self._said.add(line)
            if self._rank == 0:
                say(line)
        return getattr(self._delegate, method)(*arguments)


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of torch in acclc's words: tensors of this rank (None: it has none), the operator, the root.

    ``result`` is what the work gives; ``after`` runs when the call has ended. ``told``: counts of an all_to_all_v.
    """

    kind: str
    x: Any
    out: Any
    result: Any
    op: Any = None
    root: int | None = None
    after: Callable[[], None] | None = None
    told: Mapping[str, Any] = field(default_factory=dict)

    @property
    def like(self) -> Any:
        """A tensor of the call's type."""
        return self.out if self.x is None else self.x

    @property
    def nbytes(self) -> int:
        """Bytes of that tensor."""
        return int(self.like.numel() * self.like.element_size())


def allreduce_hook(state: AcclcProcessGroup, bucket: Any) -> Any:
    """A communication hook of DistributedDataParallel: gradients are averaged by acclc, whatever the model's group is.

    ``model.register_comm_hook(group, allreduce_hook)``; ``state`` is a group of this backend.
    """
    opts = AllreduceOptions()
    opts.reduceOp = dist.ReduceOp.SUM
    buffer = bucket.buffer().div_(state.size())
    return state.allreduce([buffer], opts).get_future().then(lambda future: future.value()[0])


# torch compares the annotations themselves, not their text
allreduce_hook.__annotations__ = {"bucket": dist.GradBucket, "return": torch.futures.Future[torch.Tensor]}


def _names(comm: Communicator) -> dict[tuple[str, int | None], str]:
    """Return the collectives on all ranks in order, by kind and root."""
    everyone = tuple(range(comm.world))
    found: dict[tuple[str, int | None], str] = {}
    for c in comm.manifest.collectives:
        if c.ranks == everyone and c.positions == everyone:
            found.setdefault((c.collective, c.root), c.name)
    return found


def _alike(tensors: Sequence[Any], like: Any) -> bool:
    return all(t.shape == like.shape and t.dtype == like.dtype for t in tensors)


def _room(parts: Sequence[Any], like: Any) -> Any:
    """Return one tensor for all parts; None if they are not like each other."""
    return like.new_empty((len(parts), *like.shape)) if _alike(parts, like) else None


def _spread(flat: Any, parts: Sequence[Any]) -> Callable[[], None]:
    def copy() -> None:
        for part, row in zip(parts, flat, strict=True):
            part.copy_(row)

    return copy


def _done(result: Any) -> Any:
    future: Any = torch.futures.Future()
    future.set_result(result)
    return _create_work_from_future(future)


def _create(opts: Any, options: Any) -> AcclcProcessGroup:
    """Make the group of this process: what ``init_process_group`` and ``new_group`` call."""
    wanted = options if isinstance(options, Options) else _DEFAULTS.get("last", Options())
    _DEFAULTS["last"] = wanted
    folder = wanted.artefact or os.environ.get("ACCLC_ARTEFACT")
    if not folder:
        raise ArgumentError(
            "the backend acclc needs an artefact: pg_options=Options(artefact=...), or the variable ACCLC_ARTEFACT"
        )
    limit = opts.timeout if isinstance(opts.timeout, timedelta) else timedelta(seconds=1800)
    delegate = _delegate(wanted.delegate, opts, limit)
    artefact = load(Path(folder))
    world, comm, why = world_of(artefact.manifest), None, ""
    if world == opts.group_size:
        seconds = wanted.timeout_s or limit.total_seconds()
        joined = artefact.join(
            _place(opts), "memory", rank=opts.group_rank, world=world, timeout_s=seconds, entry_timeout_s=seconds
        )
        assert isinstance(joined, Communicator)
        comm = joined
    else:
        why = f"the artefact is for {world} ranks, this group has {opts.group_size}"
        if delegate is None:
            raise JoinError(f"{why}, and no delegate is set; see Options(delegate=...)")
    return AcclcProcessGroup(opts.group_rank, opts.group_size, comm, why, delegate)


def _place(opts: Any) -> str:
    """Agree on a secret name to meet at, through the store of the group."""
    key = "acclc/place"
    if opts.group_rank == 0:
        opts.store.set(key, secrets.token_hex(16))
    token: str = opts.store.get(key).decode()
    return SPAWNED + token


def _delegate(name: str | None, opts: Any, limit: timedelta) -> Any:
    if name is None:
        return None
    if name != "gloo":
        raise ArgumentError(f"delegate={name!r} is not known; it can be gloo or None")
    store = dist.PrefixStore("acclc/delegate", opts.store)
    return dist.ProcessGroupGloo(store, opts.group_rank, opts.group_size, limit)


if not hasattr(dist.Backend, NAME.upper()):
    dist.Backend.register_backend(NAME, _create, extended_api=True, devices=["cpu"])
