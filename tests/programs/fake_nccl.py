"""A stand-in for cupy and its NCCL: all ranks in one process, streams that only note, and a run that checks everything.

Nothing runs when it is queued. ``run`` plays the streams as devices would: a group of messages ends when each of its
messages has met its other end in a group that has begun, so an order that NCCL could not end is found.
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from acclc_runtime.backends import cpu


class NcclError(RuntimeError):
    pass


@dataclass
class Group:
    """Messages as (sends, address, count, type, peer)."""

    messages: list[tuple[bool, int, int, int, int]] = field(default_factory=list)
    open: list[int] = field(default_factory=list)
    """Numbers of those that have not met their other end."""


class Array:
    """What the runtime sees of a cupy array."""

    def __init__(self, content: np.ndarray, device: int) -> None:
        self.content, self.dtype, self.shape, self.nbytes = content, content.dtype, content.shape, content.nbytes
        self.device = SimpleNamespace(id=device)
        self.data = SimpleNamespace(ptr=content.ctypes.data)
        self.__cuda_array_interface__ = content.__array_interface__

    def __getitem__(self, part: slice) -> Array:
        return Array(self.content[part], self.device.id)


class FakeNccl:
    """``modules()`` go into sys.modules; ``device`` is the rank that queues; ``run`` ends all that was queued."""

    def __init__(self, world: int) -> None:
        self.world, self.device = world, 0
        self.queues: list[list[Any]] = [[] for _ in range(world)]
        self.group: Group | None = None
        self.groups = 0
        self.kept: list[Any] = []
        """Everything that was allocated, so that no address is given twice."""
        fake = self

        class Device:
            def __init__(self, id: int) -> None:
                self.id, self.before = id, 0

            def __enter__(self) -> Device:
                self.before, fake.device = fake.device, self.id
                return self

            def __exit__(self, *_: object) -> None:
                fake.device = self.before

        class Stream:
            ptr = 7

            def __enter__(self) -> Stream:
                return self

            def __exit__(self, *_: object) -> None:
                pass

            def wait_event(self, event: Event) -> None:
                fake.queue(lambda: None, event.at == len(fake.queues[fake.device]))

        class Event:
            def record(self, stream: Stream) -> None:
                self.rank, self.at = fake.device, len(fake.queues[fake.device])

            @property
            def done(self) -> bool:
                return not fake.queues[self.rank]

        class NcclCommunicator:
            def __init__(self, ndev: int, id: tuple[int, ...], rank: int) -> None:
                assert (ndev, id) == (world, tuple(range(128)))
                self.rank, self.ended = rank, ""

            def send(self, *arguments: int) -> None:
                fake.message(self, True, *arguments)

            def recv(self, *arguments: int) -> None:
                fake.message(self, False, *arguments)

            def destroy(self) -> None:
                self.ended = "destroyed"

            def abort(self) -> None:
                self.ended = "aborted"

        runtime = SimpleNamespace(
            CUDARuntimeError=RuntimeError,
            getDeviceCount=lambda: world,
            getDevice=lambda: self.device,
            memcpyDeviceToDevice=3,
            memcpyAsync=lambda to, source, size, kind, stream: self.queue(
                lambda: ctypes.memmove(to, source, size), kind == 3 and stream == 7
            ),
        )
        self.nccl = SimpleNamespace(
            available=True,
            NCCL_UINT8=1,
            NcclError=NcclError,
            NcclCommunicator=NcclCommunicator,
            get_unique_id=lambda: tuple(range(128)),
            groupStart=self.start,
            groupEnd=self.end,
        )
        self.cuda = SimpleNamespace(
            runtime=runtime,
            nccl=self.nccl,
            Device=Device,
            Event=Event,
            get_current_stream=Stream,
            ExternalStream={7: Stream()}.get,
            compiler=SimpleNamespace(CompileException=ArithmeticError),
        )
        self.cupy = SimpleNamespace(cuda=self.cuda, empty=self.empty, RawModule=self.compile)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, module in (("cupy", self.cupy), ("cupy.cuda", self.cuda), ("cupy.cuda.nccl", self.nccl)):
            monkeypatch.setitem(sys.modules, name, module)

    def empty(self, shape: Any, dtype: Any) -> Array:
        content = np.empty(shape, dtype)
        content.view(np.uint8)[...] = 0xCD
        self.kept.append(content)
        return Array(content, self.device)

    def array(self, content: np.ndarray, device: int) -> Array:
        self.kept.append(content)
        return Array(content, device)

    def compile(self, *, code: str, options: tuple[str, ...]) -> SimpleNamespace:
        flags = tuple(o for o in options if o.startswith("-D"))
        library = cpu.load_library(Path("reduce.cu"), code.encode(), (*cpu.KERNEL_FLAGS, *flags))

        def launch(grid: tuple[int], block: tuple[int], arguments: tuple[np.uint64, ...]) -> None:
            assert block == (256,)
            assert 1 <= grid[0] <= 1024
            values = [ctypes.c_uint64(int(a)) for a in arguments]
            self.queue(lambda: library.accl_reduce(*values), True)

        return SimpleNamespace(get_function=lambda name: {"accl_reduce": launch}[name])

    def queue(self, act: Any, fits: bool) -> None:
        assert fits
        assert self.group is None, "local work inside a group"
        self.queues[self.device].append(act)

    def start(self) -> None:
        assert self.group is None, "a group inside a group"
        self.group = Group()

    def message(self, comm: Any, sends: bool, address: int, count: int, kind: int, peer: int, stream: int) -> None:
        assert self.group is not None, "a message outside of a group"
        assert comm.rank == self.device
        assert peer != comm.rank
        assert (stream, comm.ended) == (7, "")
        assert count > 0
        self.group.messages.append((sends, address, count, kind, peer))

    def end(self) -> None:
        group, self.group = self.group, None
        assert group is not None
        assert group.messages, "an empty group"
        group.open = list(range(len(group.messages)))
        for n, (sends, begin, size, _, _) in enumerate(group.messages):
            for m, (_, other, length, _, _) in enumerate(group.messages):
                apart = sends or m == n or begin + size <= other or other + length <= begin
                assert apart, "what a group receives is touched by another of its messages"
        self.queues[self.device].append(group)
        self.groups += 1

    def run(self) -> None:
        """Play all streams to their end."""
        while any(self.queues):
            moved = False
            for queue in self.queues:
                while queue and not isinstance(queue[0], Group):
                    queue.pop(0)()
                    moved = True
            heads = {rank: queue[0] for rank, queue in enumerate(self.queues) if queue}
            for rank, group in heads.items():
                for peer in range(self.world):
                    moved |= self._meets(rank, group, heads.get(peer), peer)
            for rank, group in heads.items():
                if not group.open:
                    self.queues[rank].pop(0)
            assert moved, f"the ranks wait for each other: {[(r, g.messages) for r, g in heads.items()]}"

    def _meets(self, rank: int, group: Group, other: Group | None, peer: int) -> bool:
        """Move what ``rank`` sends to ``peer``: in order, as NCCL matches."""
        if other is None:
            return False
        sends = [n for n in group.open if group.messages[n][0] and group.messages[n][4] == peer]
        receives = [n for n in other.open if not other.messages[n][0] and other.messages[n][4] == rank]
        for n, m in zip(sends, receives, strict=False):
            _, source, count, kind, _ = group.messages[n]
            _, target, wanted, of, _ = other.messages[m]
            assert (count, kind) == (wanted, of), "a send and its receive differ"
            ctypes.memmove(target, source, count)
            group.open.remove(n)
            other.open.remove(m)
        return bool(sends and receives)
