"""Measuring a machine: exact where the engine is exact, robust where it is not, and the engines move what they say."""

from __future__ import annotations

import queue
import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from acclc.importers import text_of
from acclc.machines import engine_cpu, engine_mpi
from acclc.machines.engine_cpu import CpuEngine
from acclc.machines.engine_cupy import CupyEngine
from acclc.machines.engine_mpi import ANSWER, COMMAND, MpiEngine, serve
from acclc.machines.probe import Edge, ProbeError, fit, machine, measure, outliers, rounded
from acclc.sema import analyse_text


@dataclass
class Modelled:
    """An engine that computes: alpha + n / rate, budgets out of ranks, and now and then a message that comes late."""

    rates: dict[Edge, float]
    alpha: float = 2e-6
    out: dict[int, float] = field(default_factory=dict)
    whole: float = float("inf")
    late: random.Random | None = None
    name: str = "a model"
    kind: str = "shm"
    notes: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(f"rank {n}" for n in range(1 + max(max(e) for e in self.rates)))

    def alone(self, edge: Edge, nbytes: int, repeats: int) -> Sequence[float]:
        time = self.alpha + nbytes / self.rates[edge]
        if self.late is None:
            return [time] * repeats
        return [time * (1 + self.late.choice([0.0, 0.0, 0.01, 0.02, 8.0])) for _ in range(repeats)]

    def together(self, edges: Sequence[Edge], nbytes: int, repeats: int) -> Sequence[float]:
        leaving = {src: sum(self.rates[e] for e in edges if e[0] == src) for src, _ in edges}
        share = {src: min(1.0, self.out.get(src, float("inf")) / total) for src, total in leaving.items()}
        total = sum(self.rates[e] * share[e[0]] for e in edges)
        return [nbytes / (self.rates[e] * share[e[0]] * min(1.0, self.whole / total)) for e in edges]


def full(count: int, rate: float) -> dict[Edge, float]:
    return {(a, b): rate for a in range(count) for b in range(count) if a != b}


def text(engine: Modelled) -> str:
    made = text_of(machine(engine, measure(engine)), "here", "a measurement")
    assert analyse_text(made, "here.accl").topologies
    return made


def test_a_line_is_found_exactly() -> None:
    line = fit((0, 1), [(n, [3e-6 + n / 10e9] * 4) for n in (8, 1 << 16, 1 << 20, 1 << 22)])
    assert line.alpha == pytest.approx(3e-6)
    assert line.rate == pytest.approx(10e9)
    assert line.spread == 0


def test_late_messages_count_little() -> None:
    for seed in range(20):
        engine = Modelled(full(3, 10e9), late=random.Random(seed))
        for line in measure(engine, repeats=24).lines:
            assert line.rate == pytest.approx(10e9, rel=0.03)


def test_noise_alone_is_still_a_rate() -> None:
    line = fit((0, 1), [(8, [5e-3]), (1 << 20, [1e-3])])
    assert line.rate == pytest.approx((1 << 20) / 1e-3)
    assert line.alpha >= 0


def test_alike_edges_are_one_class_without_budgets() -> None:
    made = text(Modelled({e: 10e9 * (1 + 0.01 * sum(e)) for e in full(4, 1)}))
    assert made.count("link edge") == 1
    assert "budget" not in made.replace("no budgets", "")
    assert "# Concluded: edges that move at the same time carry what each carries alone: no budgets." in made


def test_what_limits_edges_together_becomes_a_budget() -> None:
    measured = measure(Modelled(full(4, 10e9), out={0: 12e9}))
    assert [(b.what, round(b.total / 1e9)) for b in measured.budgets] == [("out of 0", 12)]
    made = text(Modelled(full(4, 10e9), out={0: 12e9}))
    assert 'budget "out of 0" { 12 GB/s over g[0] -> g[1], g[0] -> g[2], g[0] -> g[3] }' in made
    assert "the sum of each alone is 30 GB/s" in made
    everything = measure(Modelled(full(4, 10e9), whole=18e9))
    names = [b.what for b in everything.budgets]
    assert "all ranks" in names
    assert rounded(everything.budgets[-1].total) == 18 * 10**9


def test_a_budget_that_others_explain_is_not_said_again() -> None:
    """Every rank writes 10 GB/s at most: a shift of one message each shows no more than that."""
    measured = measure(Modelled(full(4, 10e9), out=dict.fromkeys(range(4), 10e9)))
    assert [b.what for b in measured.budgets] == [f"out of {n}" for n in range(4)]


def test_outliers_are_named() -> None:
    rates = full(4, 10e9) | {(2, 1): 3e9}
    engine = Modelled(rates)
    measured = measure(engine)
    assert outliers(measured) == ["g[2] -> g[1] carries 3 GB/s; half of the edges carry 10 GB/s or more"]
    made = text(engine)
    assert "g[1] -> g[2] : edge0" in made
    assert "g[2] -> g[1] : edge1" in made
    shaky = fit((0, 1), [(8, [1e-6] * 8), (1 << 20, [1e-4, 3e-4] * 4)])
    assert any("unsteady" in w for w in outliers(SimpleNamespace(lines=(shaky,))))  # type: ignore[arg-type]


def test_rates_have_two_digits() -> None:
    assert [int(rounded(r)) for r in (12_345_678_901.0, 996e6, 1.4, 104.0)] == [12 * 10**9, 10**9, 1, 100]


def test_processes_in_shared_memory_move_and_end() -> None:
    with CpuEngine([0, 0], 1 << 16) as engine:
        assert all(t > 0 for t in engine.alone((0, 1), 1 << 16, 3))
        assert len(engine.alone((1, 0), 8, 3)) == 3
        assert all(t > 0 for t in engine.together([(0, 1), (1, 0)], 1 << 16, 3))
        assert "share 1 cores" in engine.notes[1]
    assert not any(p.is_alive() for p in engine._processes)


def test_a_machine_that_cannot_be_probed_says_why() -> None:
    with pytest.raises(ProbeError, match="only one core"):
        CpuEngine([0], 8)
    with pytest.raises(ProbeError, match="take fewer ranks"):
        CpuEngine(range(64), 4 << 20)
    with pytest.raises(ProbeError, match="core 100000 cannot be used"):
        CpuEngine([0, 100_000], 1 << 10)


class Threads:
    """A double of MPI's communicator: ranks are threads of this process."""

    def __init__(self, rank: int, size: int, shared: dict[str, Any]) -> None:
        self._rank, self._size, self._shared = rank, size, shared

    @classmethod
    def world(cls, size: int) -> list[Threads]:
        boxes = {(a, b): queue.Queue() for a in range(size) for b in range(size)}
        tagged = {(*pair, tag): queue.Queue() for pair in boxes for tag in (COMMAND, ANSWER)}
        shared = {
            "boxes": boxes,
            "tagged": tagged,
            "barrier": threading.Barrier(size, timeout=20),
            "slots": [None] * size,
        }
        return [cls(n, size, shared) for n in range(size)]

    def Get_rank(self) -> int:  # noqa: N802
        return self._rank

    def Barrier(self) -> None:  # noqa: N802
        self._shared["barrier"].wait()

    def gather(self, value: object, root: int) -> list[object] | None:
        self._shared["slots"][self._rank] = value
        self.Barrier()
        found = list(self._shared["slots"]) if self._rank == root else None
        self.Barrier()
        return found

    def Get_size(self) -> int:  # noqa: N802
        return self._size

    def send(self, value: object, dest: int, tag: int) -> None:
        self._shared["tagged"][self._rank, dest, tag].put(value)

    def iprobe(self, source: int, tag: int) -> bool:
        return not self._shared["tagged"][source, self._rank, tag].empty()

    def recv(self, source: int, tag: int) -> object:
        return self._shared["tagged"][source, self._rank, tag].get(timeout=20)

    def Send(self, data: Any, dest: int) -> None:  # noqa: N802
        self._shared["boxes"][self._rank, dest].put(data.copy())

    def Recv(self, place: Any, source: int) -> None:  # noqa: N802
        place[:] = self._shared["boxes"][source, self._rank].get(timeout=20)

    def Isend(self, data: Any, dest: int) -> Any:  # noqa: N802
        self.Send(data, dest)
        return SimpleNamespace(Wait=lambda: None)

    def Irecv(self, place: Any, source: int) -> Any:  # noqa: N802
        return SimpleNamespace(Wait=lambda: self.Recv(place, source))


def test_ranks_of_mpi_obey_rank_0_and_end_with_it() -> None:
    first, *others = Threads.world(3)
    threads = [threading.Thread(target=serve, args=(comm,), daemon=True) for comm in others]
    for thread in threads:
        thread.start()
    with MpiEngine(first) as engine:
        assert engine.labels == ("rank 0", "rank 1", "rank 2")
        assert engine.kind == "shm"
        measured = measure(engine, sizes=(8, 1 << 12, 1 << 14), repeats=3)
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert len(measured.lines) == 6
    assert all(x.rate > 0 for x in measured.lines)
    left = [*first._shared["boxes"].values(), *first._shared["tagged"].values()]
    assert all(not box.qsize() for box in left)


def test_ranks_of_mpi_that_outnumber_the_cores_of_their_host_are_said() -> None:
    places = [("a", (0, 1)), ("a", (0, 1)), ("b", (0,)), ("a", (2,)), ("b", (0,))]
    (note,) = engine_mpi._crowded(places)
    assert note.startswith("2 ranks share 1 cores of b,")


class Cupy:
    """A double of cupy: copies take alpha + n / rate by their own clock, and are recorded."""

    def __init__(self, count: int, rate: float) -> None:
        self.copies: list[tuple[int, int, int]] = []
        self.enabled: list[tuple[int, int]] = []
        self.now = 0.0
        self.device = 0
        outer = self

        class Device:
            def __init__(self, number: int) -> None:
                self.number = number

            def __enter__(self) -> None:
                self.before, outer.device = outer.device, self.number

            def __exit__(self, *_: object) -> None:
                outer.device = self.before

        class Event:
            def record(self, stream: Any) -> None:
                self.at = stream.at

            def synchronize(self) -> None:
                pass

        class CudaError(Exception):
            pass

        streams: dict[int, Any] = {}

        def stream(non_blocking: bool) -> Any:
            made = SimpleNamespace(ptr=len(streams) + 1, at=0.0)
            streams[made.ptr] = made
            return made

        def copy(_to: int, dst: int, _from: int, src: int, nbytes: int, pointer: int) -> None:
            outer.copies.append((src, dst, nbytes))
            streams[pointer].at += 5e-6 + nbytes / rate

        def enable(peer: int) -> None:
            if (outer.device, peer) in outer.enabled:
                raise CudaError("cudaErrorPeerAccessAlreadyEnabled")
            outer.enabled.append((outer.device, peer))

        self.cuda = SimpleNamespace(
            Device=Device,
            Event=Event,
            Stream=stream,
            Memory=lambda nbytes: SimpleNamespace(ptr=id(object()), nbytes=nbytes),
            get_elapsed_time=lambda a, b: (b.at - a.at) * 1e3,
            runtime=SimpleNamespace(
                getDeviceCount=lambda: count,
                deviceGetPCIBusId=lambda n: f"0000:0{n}:00.0",
                deviceCanAccessPeer=lambda a, b: int(a != b),
                deviceEnablePeerAccess=enable,
                memcpyPeerAsync=copy,
                CUDARuntimeError=CudaError,
            ),
        )


def test_copies_between_gpus_are_timed_by_events() -> None:
    double = Cupy(3, 20e9)
    with CupyEngine(double, 4 << 20) as engine:
        measured = measure(engine, repeats=3)
    assert sorted(double.enabled) == sorted(full(3, 1))
    assert {(a, b) for a, b, _ in double.copies} == set(full(3, 1))
    for line in measured.lines:
        assert line.rate == pytest.approx(20e9)
        assert line.alpha == pytest.approx(5e-6)
    assert measured.budgets == ()
    assert engine.labels[1] == "GPU 1 at 0000:01:00.0"


def test_engines_that_cannot_start_say_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    from acclc.machines import engine_cupy

    monkeypatch.setitem(__import__("sys").modules, "cupy", None)
    with pytest.raises(ProbeError, match="install acclc"):
        engine_cupy.import_cupy()
    monkeypatch.setitem(__import__("sys").modules, "mpi4py", None)
    with pytest.raises(ProbeError, match="install acclc"):
        engine_mpi.world()
    assert engine_cpu.LIMIT_S > 0
