"""What the processes of test_torch.py do: top-level functions, so that they can be started by name."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import acclc_runtime.engines.torch as engine

TYPES = (torch.float32, torch.float64, torch.int32, torch.bfloat16, torch.float16, torch.uint8)


def start(backend: str, rank: int, world: int, port: int, artefact: str, delegate: str | None = "gloo") -> Any:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    options = engine.Options(artefact, delegate, timeout_s=60) if backend == "acclc" else None
    dist.init_process_group(backend, rank=rank, world_size=world, timeout=timedelta(seconds=60), pg_options=options)
    return dist.distributed_c10d._get_default_group()


def values(rank: int, length: int, dtype: torch.dtype) -> torch.Tensor:
    """Small whole numbers: sums are exact in every type."""
    return ((torch.arange(length) * 7 + rank * 3) % 11).to(dtype)


def all_calls(world: int, rank: int, dtype: torch.dtype, length: int) -> dict[str, torch.Tensor]:
    """Make every call of torch once; return the outputs by name."""
    mine, many = values(rank, length, dtype), values(rank, length * world, dtype)
    found: dict[str, torch.Tensor] = {}
    for name, op in (("sum", dist.ReduceOp.SUM), ("max", dist.ReduceOp.MAX), ("min", dist.ReduceOp.MIN)):
        found[f"all_reduce {name}"] = mine.clone()
        work = dist.all_reduce(found[f"all_reduce {name}"], op, async_op=name == "max")
        if work is not None:
            work.wait()
    found["all_gather"] = torch.empty(length * world, dtype=dtype)
    dist.all_gather_into_tensor(found["all_gather"], mine)
    parts = [torch.empty(length, dtype=dtype) for _ in range(world)]
    dist.all_gather(parts, mine)
    found["all_gather list"] = torch.stack(parts)
    found["reduce_scatter"] = torch.empty(length, dtype=dtype)
    dist.reduce_scatter_tensor(found["reduce_scatter"], many)
    found["all_to_all"] = torch.empty(length * world, dtype=dtype)
    dist.all_to_all_single(found["all_to_all"], many)
    found["broadcast 0"], found["broadcast 1"] = mine.clone(), mine.clone()
    dist.broadcast(found["broadcast 0"], 0)
    dist.broadcast(found["broadcast 1"], 1)
    found["reduce"] = mine.clone()
    dist.reduce(found["reduce"], 0)
    if rank != 0:
        del found["reduce"]  # undefined elsewhere
    got = [torch.empty(length, dtype=dtype) for _ in range(world)] if rank == 0 else None
    dist.gather(mine, got, 0)
    if got is not None:
        found["gather"] = torch.stack(got)
    found["scatter"] = torch.empty(length, dtype=dtype)
    dist.scatter(found["scatter"], list(many.split(length)) if rank == 0 else None, 0)
    dist.barrier()
    return found


def not_contiguous(world: int, rank: int, dtype: torch.dtype, length: int) -> list[str]:
    """Reduce every other element; gloo would take those between, so the definition is compared."""
    storage = values(rank, 2 * length, dtype)
    wanted = storage.clone()
    wanted[::2] = torch.stack([values(r, 2 * length, dtype)[::2] for r in range(world)]).sum(0).to(dtype)
    dist.all_reduce(storage[::2])
    return [] if torch.equal(storage, wanted) else [f"not contiguous {dtype} {length}"]


def compare_calls(rank: int, world: int, port: int, artefact: str, answers: Any) -> None:
    group = start("acclc", rank, world, port, artefact)
    gloo = dist.new_group(backend="gloo")
    wrong = []
    for dtype in TYPES:
        for length in (1, 7, 20_000):
            ours = all_calls(world, rank, dtype, length)
            dist.distributed_c10d._update_default_pg(gloo)
            theirs = all_calls(world, rank, dtype, length)
            dist.distributed_c10d._update_default_pg(group)
            wrong += [f"{k} {dtype} {length}" for k in theirs if not torch.equal(ours[k], theirs[k])]
            wrong += not_contiguous(world, rank, dtype, length)
    answers.put((rank, wrong, sorted(group._said)))
    dist.destroy_process_group()


def train(rank: int, world: int, port: int, artefact: str, answers: Any, backend: str, hook: bool = False) -> None:
    group = start(backend, rank, world, port, artefact)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(32, 300), torch.nn.Tanh(), torch.nn.Linear(300, 8))
    parallel = DistributedDataParallel(model)
    if hook:
        parallel.register_comm_hook(group, engine.allreduce_hook)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(rank)
    losses = []
    for _ in range(8):
        x = torch.randn(16, 32, generator=generator)
        optimizer.zero_grad()
        loss = parallel(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    said = sorted(group._said) if backend == "acclc" else []
    answers.put((rank, losses, said))
    dist.destroy_process_group()


def shard_fully(rank: int, world: int, port: int, artefact: str, answers: Any, backend: str) -> None:
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import init_device_mesh

    start(backend, rank, world, port, artefact)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
    mesh = init_device_mesh("cpu", (world,))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(rank)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 16, generator=generator)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    answers.put((rank, losses, []))
    dist.destroy_process_group()


def use_subgroups(rank: int, world: int, port: int, artefact: str, answers: Any) -> None:
    start("acclc", rank, world, port, artefact)
    pair = dist.new_group([0, 1])
    x = torch.full((4,), float(rank))
    if rank < 2:
        dist.all_reduce(x, group=pair)
    answers.put((rank, x.tolist(), sorted(pair._said) if rank < 2 else []))
    dist.destroy_process_group()


def lack_a_delegate(rank: int, world: int, port: int, artefact: str, answers: Any) -> None:
    start("acclc", rank, world, port, artefact, delegate=None)
    told = []
    for act in (
        lambda: dist.broadcast(torch.zeros(3), 1),
        lambda: dist.all_reduce(torch.zeros(3, dtype=torch.bool)),
        lambda: dist.all_reduce(torch.zeros(3, dtype=torch.int32), dist.ReduceOp.BAND),
    ):
        try:
            act()
            told.append("no error")
        except RuntimeError as error:
            told.append(str(error))
    x = torch.ones(3)
    dist.all_reduce(x)
    answers.put((rank, told, x.tolist()))
    dist.destroy_process_group()


def uneven_parts(rank: int, world: int, port: int, artefact: str, answers: Any) -> None:
    """all_to_all with sizes: rank 0's own are even, though others' are not; some are nothing; and as a list."""
    group = start("acclc", rank, world, port, artefact, None)
    sizes = [[2] * world, [0, 1, 2, 5][:world], [0] * world, [3, 0, 2, 1]][:world]
    got = [row[rank] for row in sizes]
    wrong = []
    for inner, dtype in ((1, torch.float32), (3, torch.bfloat16)):
        shards = [
            [torch.full((n, inner), 10 * i + j, dtype=dtype) for j, n in enumerate(sizes[i])] for i in range(world)
        ]
        wanted = torch.cat([shards[i][rank] for i in range(world)])
        out = torch.full((sum(got), inner), -1, dtype=dtype)
        dist.all_to_all_single(out, torch.cat(shards[rank]), got, sizes[rank])
        if not torch.equal(out, wanted):
            wrong.append(f"single, {dtype}: {out.tolist()}")
        parts = [torch.full((n, inner), -1, dtype=dtype) for n in got]
        dist.all_to_all(parts, shards[rank])
        if not torch.equal(torch.cat(parts), wanted):
            wrong.append(f"list, {dtype}: {[part.tolist() for part in parts]}")
    answers.put((rank, wrong, sorted(group._said)))
    dist.destroy_process_group()
