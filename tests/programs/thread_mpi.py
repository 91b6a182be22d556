"""A double of mpi4py: the ranks are threads of this process. As much of it as the MPI engine uses, and its rules.

Messages match in the order in which they were sent and receives posted, by (communicator, source, tag); one that is
longer than its receive is an error. ``hosts`` says on which host each rank is.
"""

from __future__ import annotations

import itertools
import pickle
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

UNDEFINED = -32766
ANY_SOURCE = -2


class Truncated(Exception):  # noqa: N818  what mpi4py calls Exception
    pass


class Request:
    def __init__(self, hub: Hub, ended: Callable[[], bool] | None = None) -> None:
        self._hub, self._ended, self.null = hub, ended, False
        self.arrived = self.fault = False

    def __bool__(self) -> bool:
        return not self.null

    def Test(self) -> bool:  # noqa: N802
        with self._hub.changed:
            if self.fault:
                raise Truncated("message truncated")
            self.null = self.null or (self.arrived if self._ended is None else self._ended())
            return self.null

    def Cancel(self) -> None:  # noqa: N802
        with self._hub.changed:
            for waiting in self._hub.receives.values():
                left = [entry for entry in waiting if entry[1] is not self]
                waiting.clear()
                waiting.extend(left)
            self.arrived = True


class Hub:
    """What all threads share. Messages and receives by (communicator, destination, source, tag)."""

    def __init__(self, hosts: Sequence[int]) -> None:
        self.hosts = hosts
        self.changed = threading.Condition()
        self.told: dict[Any, dict[int, Any]] = {}
        self.messages: dict[Any, deque[bytes]] = defaultdict(deque)
        self.receives: dict[Any, deque[tuple[Any, Request]]] = defaultdict(deque)

    def arrive(self, name: Any, to: int, source: int, tag: int, data: bytes) -> None:
        """Bring a message to the first receive that it fits, or let it wait; the lock is held."""
        for place in ((name, to, source, tag), (name, to, ANY_SOURCE, tag)):
            if self.receives[place]:
                self.fill(*self.receives[place].popleft(), data)
                return
        self.messages[name, to, source, tag].append(data)

    def post(self, name: Any, to: int, source: int, tag: int, into: Any, request: Request, size: int) -> None:
        """Give a receive the first message that waits for it, or let it wait; the lock is held."""
        for one in range(size) if source == ANY_SOURCE else (source,):
            if self.messages[name, to, one, tag]:
                self.fill(into, request, self.messages[name, to, one, tag].popleft())
                return
        self.receives[name, to, source, tag].append((into, request))

    @staticmethod
    def fill(into: Any, request: Request, data: bytes) -> None:
        request.fault = len(data) > into.nbytes
        if not request.fault:
            into.view(np.uint8)[: len(data)] = np.frombuffer(data, np.uint8)
        request.arrived = True


class Comm:
    def __init__(self, hub: Hub, name: Any, members: Sequence[int], me: int) -> None:
        self._hub, self._name, self._members, self._me = hub, name, list(members), me
        self._turn = itertools.count()

    def Get_rank(self) -> int:  # noqa: N802
        return self._me

    def Get_size(self) -> int:  # noqa: N802
        return len(self._members)

    def Get_attr(self, _: Any) -> int:  # noqa: N802
        return 32767

    def Free(self) -> None:  # noqa: N802
        self._name = None

    def _tell(self, value: Any) -> tuple[Any, Callable[[], bool]]:
        key = (self._name, next(self._turn))
        with self._hub.changed:
            self._hub.told.setdefault(key, {})[self._me] = value
            self._hub.changed.notify_all()
        return key, lambda: len(self._hub.told[key]) == len(self._members)

    def _exchange(self, value: Any) -> list[Any]:
        key, all_told = self._tell(value)
        with self._hub.changed:
            if not self._hub.changed.wait_for(all_told, 60):
                raise TimeoutError(f"{key}: only {sorted(self._hub.told[key])} came")
            return [self._hub.told[key][n] for n in range(len(self._members))]

    def allgather(self, value: Any) -> list[Any]:
        return [pickle.loads(told) for told in self._exchange(pickle.dumps(value))]

    def gather(self, value: Any, root: int = 0) -> list[Any] | None:
        found = self.allgather(value)
        return found if self._me == root else None

    def Barrier(self) -> None:  # noqa: N802
        self._exchange(None)

    def Dup(self) -> Comm:  # noqa: N802
        return self.Split(0, self._me)

    def Split(self, color: int, key: int) -> Any:  # noqa: N802
        name = (self._name, "split", next(self._turn), color)
        told = self._exchange((color, key, self._members[self._me]))
        order = sorted((k, n, who) for n, (c, k, who) in enumerate(told) if c == color)
        if color == UNDEFINED:
            return None
        members = [who for _, _, who in order]
        return Comm(self._hub, name, members, members.index(self._members[self._me]))

    def Split_type(self, _: int) -> Any:  # noqa: N802
        return self.Split(self._hub.hosts[self._members[self._me]], self._me)

    def Isend(self, data: Any, dest: int, tag: int) -> Request:  # noqa: N802
        assert 0 <= tag <= 32767
        with self._hub.changed:
            self._hub.arrive(self._name, dest, self._me, tag, bytes(memoryview(data).cast("B")))
        return Request(self._hub, lambda: True)

    def Irecv(self, into: Any, source: int, tag: int) -> Request:  # noqa: N802
        request = Request(self._hub)
        with self._hub.changed:
            self._hub.post(self._name, self._me, source, tag, into, request, len(self._members))
        return request

    def Iallgather(self, mine: Any, everything: Any) -> Request:  # noqa: N802
        key, all_told = self._tell(mine.copy())

        def ended() -> bool:
            if not all_told():
                return False
            for n in range(len(self._members)):
                everything[n] = self._hub.told[key][n]
            return True

        return Request(self._hub, ended)


class Window:
    def __init__(self, parts: list[Any]) -> None:
        self._parts = parts

    @staticmethod
    def Allocate_shared(nbytes: int, _: int, comm: Comm) -> Window:  # noqa: N802
        return Window(comm._exchange(np.full(nbytes, 0xA5, np.uint8)))

    def Shared_query(self, rank: int) -> tuple[Any, int]:  # noqa: N802
        return self._parts[rank], 1

    def Lock_all(self) -> None:  # noqa: N802
        pass

    Sync = Unlock_all = Free = Lock_all


def testsome(requests: list[Request]) -> list[int]:
    return [n for n, request in enumerate(requests) if request and request.Test()]


MPI = SimpleNamespace(
    COMM_TYPE_SHARED=1,
    UNDEFINED=UNDEFINED,
    ANY_SOURCE=ANY_SOURCE,
    TAG_UB=2,
    THREAD_SERIALIZED=2,
    Query_thread=lambda: 3,
    Get_library_version=lambda: "threads",
    Request=SimpleNamespace(Testsome=testsome),
    Exception=Truncated,
    Win=Window,
)


def run(hosts: Sequence[int], do: Callable[[Comm], Any]) -> list[Any]:
    """Run ``do`` on a thread a rank; return what each gives, or the error that it raised."""
    hub = Hub(hosts)
    found: list[Any] = [None] * len(hosts)

    def work(rank: int) -> None:
        try:
            found[rank] = do(Comm(hub, "world", range(len(hosts)), rank))
        except Exception as error:
            found[rank] = error

    threads = [threading.Thread(target=work, args=(rank,), daemon=True) for rank in range(len(hosts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a rank hangs"
    return found
