"""Groups of one process side by side: in threads, after failures, after closing, at the interpreter's end."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import acclc
from acclc_runtime import load
from acclc_runtime.communicator import LocalGroup
from acclc_runtime.errors import ArgumentError
from acclc_runtime.loader import Artefact

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")

TEXT = "all_reduce on ring(3) { goal latency }\nall_gather on ring(3) { goal latency }\n"


@pytest.fixture(scope="module")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> Artefact:
    return load(acclc.compile_text(TEXT, "groups").save(tmp_path_factory.mktemp("artefact") / "groups"))


def calls(group: LocalGroup, seed: int, number: int) -> None:
    """Calls of both collectives, in place and not, of sizes that make scratch grow; each compared."""
    rng = random.Random(seed)
    for _ in range(number):
        count = rng.choice((1, 7, 100, 5000))
        xs = [np.full(count, rng.randrange(1000), np.int64) for _ in range(3)]
        total, parts = sum(xs), np.concatenate(xs)
        if rng.random() < 0.5:
            results, expected = group.all_gather(xs), parts
        else:
            results, expected = group.all_reduce(xs, outs=rng.choice((None, xs))), total
        assert all(np.array_equal(r, expected) for r in results)


def in_threads(work: Callable[[int], None], number: int) -> None:
    failed: list[BaseException] = []

    def run(index: int) -> None:
        try:
            work(index)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


@pytest.mark.parametrize("mode", ["fibres", "threads"])
def test_groups_side_by_side_and_one_that_is_shared(artefact: Artefact, mode: str) -> None:
    with artefact.local("cpu", mode=mode, slice_bytes=1024) as shared:

        def work(index: int) -> None:
            with artefact.local("cpu", mode=mode, slice_bytes=256) as own:
                for n in range(3):
                    calls(own, 10 * index + n, 4)
                    calls(shared, 20 * index + n, 4)

        in_threads(work, 3)


def test_closing_while_others_call_ends_their_next_call(artefact: Artefact) -> None:
    group = artefact.local("cpu", mode="threads")
    calls(group, 1, 2)
    begun = threading.Event()

    def until_closed() -> None:
        for n in range(10_000):
            calls(group, n, 1)
            begun.set()

    def work(index: int) -> None:
        if index == 0:
            begun.wait()
            group.close()
            group.close()
            return
        with pytest.raises(ArgumentError, match="this group is closed"):
            until_closed()

    in_threads(work, 3)


SCRIPT = """
import sys
import numpy as np
from acclc_runtime import load
group = load(sys.argv[1]).local("cpu", mode=sys.argv[2])
xs = [np.full(1000, r) for r in range(3)]
assert all((x == 3).all() for x in group.all_reduce(xs, outs=xs))
{ending}
"""


@pytest.mark.parametrize("mode", ["fibres", "threads"])
@pytest.mark.parametrize(
    "ending",
    [
        "",
        "group.cycle = group",
        "del group",
        "raise SystemExit(0)",
        "import threading; threading.Thread(target=lambda: group.all_reduce(xs)).start()",
        "import threading; threading.Thread(target=lambda: [group.all_reduce(xs) for _ in range(10**6)],"
        " daemon=True).start()",
    ],
)
def test_the_interpreter_ends_with_groups_open(artefact: Artefact, mode: str, ending: str) -> None:
    path = os.pathsep.join(p for p in sys.path if p)
    command = [sys.executable, "-c", SCRIPT.format(ending=ending), str(artefact.folder), mode]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_folder_may_go_once_a_kernel_is_built(artefact: Artefact, tmp_path: Path) -> None:
    copy = tmp_path / "groups"
    shutil.copytree(artefact.folder, copy)
    with load(copy).local("cpu") as group:
        xs = [np.ones(10) for _ in range(3)]
        group.all_reduce(xs)
        shutil.rmtree(copy)
        assert all((x == 3).all() for x in group.all_reduce(xs))
