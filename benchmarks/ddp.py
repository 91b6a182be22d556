"""A step of DistributedDataParallel on CPU processes of one machine: the backend acclc beside gloo.

    python benchmarks/ddp.py [--quick] [--json FILE] [--ranks 2,4] [--rounds R]

It needs torch. The model is a chain of square linear layers; every process trains two copies of it, one on a group of
each backend, in alternating rounds of whole steps (forward, backward with the all_reduce of its buckets, SGD), torch on
one thread a process. Milliseconds a step: of the slowest rank in a round, the median of rounds. ``alone`` is the step
without communication (``no_sync``). ``ratio`` is acclc's step by gloo's, the median over pairs of neighbouring rounds.
``verified``: both copies have the same parameters after the same steps, on all ranks.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import acclc_runtime.engines.torch as acclc_torch

BATCH = 16
BUDGET_S = 0.25
"""Of one round."""


@dataclass(frozen=True, slots=True)
class Model:
    """``layers`` square layers of ``width``: their gradients are layers * (width + 1) * width * 4 bytes."""

    width: int
    layers: int

    @property
    def nbytes(self) -> int:
        """Of its gradients, float32."""
        return self.layers * (self.width + 1) * self.width * 4


MODELS = (Model(64, 4), Model(256, 4), Model(512, 6), Model(1024, 6))
QUICK = (Model(256, 4),)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    case: str
    verified: bool
    ranks: int
    gradient_bytes: int
    alone_seconds: float
    seconds: float
    peer: str
    peer_seconds: float
    ratio: float


class Training:
    """One copy of a model, its optimizer and its data."""

    def __init__(self, model: Model, rank: int, group: Any) -> None:
        torch.manual_seed(0)
        layers = [torch.nn.Linear(model.width, model.width) for _ in range(model.layers)]
        self.model = DistributedDataParallel(torch.nn.Sequential(*layers), process_group=group)
        self._optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self._data = torch.randn(BATCH, model.width, generator=torch.Generator().manual_seed(rank))

    def steps(self, count: int, alone: bool = False) -> None:
        """Train so many steps; ``alone``: each rank for itself."""
        for _ in range(count):
            self._optimizer.zero_grad()
            with self.model.no_sync() if alone else nullcontext():
                self.model(self._data).square().mean().backward()
            self._optimizer.step()

    def parameters(self) -> torch.Tensor:
        """Return all of them, flat."""
        return torch.cat([p.detach().reshape(-1) for p in self.model.parameters()])


def measure(
    rank: int, world: int, port: int, artefact: str, models: tuple[Model, ...], rounds: int, answers: Any
) -> None:
    """What one process does; rank 0 answers with the figures of every model."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    ours = dist.new_group(backend="acclc", pg_options=acclc_torch.Options(artefact, delegate=None))
    found = [_of_model(model, rank, world, ours, rounds) for model in models]
    if rank == 0:
        answers.put(found)
    dist.barrier()
    dist.destroy_process_group()


def _of_model(
    model: Model, rank: int, world: int, ours: Any, rounds: int
) -> tuple[bool, list[float], list[float], float]:
    """Return whether the results are right, the seconds a step of each round on acclc and on gloo, and alone."""
    here, there = Training(model, rank, ours), Training(model, rank, dist.group.WORLD)
    for training in (here, there):
        training.steps(5)
    right = _alike(here, there)
    count = max(2, min(200, int(BUDGET_S / _seconds(there.steps, 3))))
    count = int(_agreed(float(count)))
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        for which in (0, 1) if number % 2 else (1, 0):
            times[which].append(_seconds((here, there)[which].steps, count))
    alone = statistics.median(_seconds(lambda n: there.steps(n, alone=True), count) for _ in range(max(3, rounds // 4)))
    return right, times[0], times[1], alone


def _seconds(steps: Callable[[int], None], count: int) -> float:
    """Return what a step takes the slowest rank."""
    dist.barrier()
    begin = time.perf_counter()
    steps(count)
    return _agreed(time.perf_counter() - begin) / count


def _agreed(value: float) -> float:
    largest = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    return float(largest.item())


def _alike(here: Training, there: Training) -> bool:
    """Say whether both copies are the same on all ranks, but for the order of sums."""
    mine = here.parameters()
    first = mine.clone()
    dist.broadcast(first, 0)
    same = torch.equal(mine, first) and torch.allclose(mine, there.parameters(), rtol=1e-4, atol=1e-6)
    return _agreed(0.0 if same else 1.0) == 0.0


def rows_of(world: int, models: tuple[Model, ...], rounds: int, folder: Path) -> list[Row]:
    """Compile what torch needs and measure all models on so many processes."""
    from acclc import compile_text

    artefact = compile_text(f"goal torch on full({world})", f"full{world}").save(folder / f"full{world}")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = torch.multiprocessing.get_context("spawn")
    answers = context.SimpleQueue()
    arguments = (world, port, str(artefact), models, rounds, answers)
    running = torch.multiprocessing.start_processes(measure, arguments, nprocs=world, join=False, start_method="spawn")
    found = answers.get()
    while not running.join():
        pass
    return [_row(world, model, *figures) for model, figures in zip(models, found, strict=True)]


def _row(world: int, model: Model, right: bool, ours: list[float], theirs: list[float], alone: float) -> Row:
    return Row(
        f"{model.layers} layers of {model.width}",
        right,
        world,
        model.nbytes,
        alone,
        statistics.median(ours),
        f"gloo, torch {torch.__version__}",
        statistics.median(theirs),
        statistics.median(a / b for a, b in zip(ours, theirs, strict=True)),
    )


HEAD = (
    f"{'ranks':>5}  {'gradients':>10}  {'model':<18} {'verified':<8} {'alone':>8} {'gloo':>8} {'acclc':>8} {'ratio':>6}"
)


def line(row: Row) -> str:
    """Return a row as text; times in milliseconds."""
    milliseconds = " ".join(f"{1e3 * s:8.2f}" for s in (row.alone_seconds, row.peer_seconds, row.seconds))
    verified = "yes" if row.verified else "NO"
    size = f"{row.gradient_bytes / 2**20:.2f} MiB"
    return f"{row.ranks:>5}  {size:>10}  {row.case:<18} {verified:<8} {milliseconds} {row.ratio:6.2f}"


def main() -> int:
    """Print the table, and write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one model, few rounds")
    parser.add_argument("--json", type=Path, help="write the rows here")
    parser.add_argument("--ranks", default="2,4", help="numbers of processes")
    parser.add_argument("--rounds", type=int, help="of each backend (default 11; quick: 3)")
    parser.add_argument("--model", type=int, help="only the model of this number")
    arguments = parser.parse_args()
    models = QUICK if arguments.quick else MODELS
    if arguments.model is not None:
        models = (models[arguments.model],)
    rounds = arguments.rounds or (3 if arguments.quick else 11)
    print(HEAD)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for world in map(int, arguments.ranks.split(",")):
            for row in rows_of(world, models, rounds, Path(folder)):
                print(line(row), flush=True)
                rows.append(row)
    print(f"{len(os.sched_getaffinity(0))} cores, {platform.machine()}, torch {torch.__version__}")
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return 0 if all(row.verified for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
