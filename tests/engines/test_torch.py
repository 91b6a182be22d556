"""torch.distributed on acclc, beside gloo in the same processes: every call, training, sub-groups, what is lacking."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install torch")
import torch_ranks as ranks  # noqa: E402

from acclc import compile_text  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")]


@pytest.fixture(scope="module")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folder = tmp_path_factory.mktemp("torch")
    return {n: compile_text(f"goal torch on full({n})", f"full{n}").save(folder / f"full{n}") for n in (2, 4)}


def run(act: Callable[..., None], world: int, artefact: Path, *more: Any) -> list[tuple[int, Any, Any]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = torch.multiprocessing.get_context("spawn")
    answers = context.SimpleQueue()
    torch.multiprocessing.spawn(act, (world, port, str(artefact), answers, *more), nprocs=world)
    return sorted(answers.get() for _ in range(world))


@pytest.mark.parametrize("world", [2, 4])
def test_every_call_is_as_gloos(artefacts: dict[int, Path], world: int) -> None:
    for _, wrong, said in run(ranks.compare_calls, world, artefacts[world]):
        assert wrong == []
        # only what the artefact lacks went elsewhere
        assert said == ["torch: broadcast goes to gloo: the artefact has no broadcast of root 1"]


@pytest.mark.parametrize("world", [2, 4])
def test_training_has_gloos_losses(artefacts: dict[int, Path], world: int) -> None:
    ours = run(ranks.train, world, artefacts[world], "acclc")
    theirs = run(ranks.train, world, artefacts[world], "gloo")
    for (_, a, said), (_, b, _) in zip(ours, theirs, strict=True):
        assert a == pytest.approx(b, rel=1e-5)
        assert said == []
    assert ours[0][1] != ours[1][1]  # each rank has data of its own


def test_the_hook_trains_alike(artefacts: dict[int, Path]) -> None:
    ours = run(ranks.train, 2, artefacts[2], "acclc", True)
    theirs = run(ranks.train, 2, artefacts[2], "gloo")
    assert [losses for _, losses, _ in ours] == [pytest.approx(losses, rel=1e-5) for _, losses, _ in theirs]


def test_fully_sharded_training(artefacts: dict[int, Path]) -> None:
    ours = run(ranks.shard_fully, 2, artefacts[2], "acclc")
    theirs = run(ranks.shard_fully, 2, artefacts[2], "gloo")
    assert [losses for _, losses, _ in ours] == [pytest.approx(losses, rel=1e-5) for _, losses, _ in theirs]


@pytest.mark.parametrize("world", [2, 4])
def test_parts_of_different_sizes_are_an_all_to_all_v(artefacts: dict[int, Path], world: int) -> None:
    for _, wrong, said in run(ranks.uneven_parts, world, artefacts[world]):
        assert wrong == []
        assert said == []


def test_a_group_of_another_size_uses_the_delegate(artefacts: dict[int, Path]) -> None:
    found = run(ranks.use_subgroups, 4, artefacts[4])
    assert [x for _, x, _ in found] == [[1.0] * 4, [1.0] * 4, [2.0] * 4, [3.0] * 4]
    assert found[0][2] == [
        "torch: allreduce goes to gloo: the artefact is for 4 ranks, this group has 2",
    ]


def test_without_a_delegate_what_is_lacking_is_an_error(artefacts: dict[int, Path]) -> None:
    for _, told, after in run(ranks.lack_a_delegate, 2, artefacts[2]):
        assert "no broadcast of root 1" in told[0]
        assert "torch.bool are not reduced" in told[1]
        assert "the operator" in told[2]
        assert after == [2.0] * 3
