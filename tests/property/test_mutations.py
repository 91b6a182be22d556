"""Seeded faults in the files on disk: every one that changes the outcome or safety is caught.

What is not caught must be shown harmless: the mutated schedule, program or kernel program is executed on
numbers, over every interleaving, by code that knows nothing of the verifiers (``exhaustive.py``).
``ACCLC_MUTATIONS`` says how many faults are made (default 2400).
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from acclc.ir.kernel_program import KernelProgram
from acclc.ir.problem import Problem
from acclc.ir.program import Program
from acclc.ir.schedule import Schedule
from acclc.lower import lower_kernel, lower_program
from acclc_runtime.codec import from_json, to_json

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "unit" / "verify")]

from exhaustive import UnexploredError, WrongError, explore_kernel, explore_program, run_schedule  # noqa: E402
from faults import FAULTS, make_fault  # noqa: E402
from helpers import cases  # noqa: E402
from plain_lowering import plain_kernel, plain_program  # noqa: E402

COUNT = int(os.environ.get("ACCLC_MUTATIONS", "2400"))
SEED = 20
SHARE = {"schedule": 0.25, "program": 0.25, "kernel": 0.5}
INSTANCES = (
    "all_gather_ring2",
    "all_gather_ring3",
    "all_reduce_ring2",
    "all_reduce_ring3",
    "all_reduce_full3",
    "all_gather_star3",
    "reduce_scatter_ring3",
    "broadcast_ring3",
)


class Case:
    """One instance with its four levels."""

    def __init__(
        self, name: str, problem: Problem, schedule: Schedule, program: Program, kernel: KernelProgram
    ) -> None:
        self.name, self.problem, self.schedule, self.program, self.kernel = name, problem, schedule, program, kernel

    def write(self, folder: Path) -> None:
        (folder / "faults").mkdir(parents=True)
        for level in ("problem", "schedule", "program", "kernel"):
            (folder / f"{level}.json").write_bytes(to_json(getattr(self, level), f"acclc-{level}", 1))


def make_cases() -> list[Case]:
    made = []
    for name, (problem, schedule) in cases().items():
        if name in INSTANCES:
            program = lower_program(problem, schedule)
            made.append(Case(name, problem, schedule, program, lower_kernel(problem, program)))
    for name in ("reduce_scatter_ring3", "all_reduce_ring2"):
        problem, schedule = cases()[name]
        program = plain_program(problem, schedule)
        made.append(Case(f"plain_{name}", problem, schedule, program, plain_kernel(problem, program)))
    return made


def write_faults(root: Path, made: list[Case]) -> dict[str, str]:
    """Write the files; return for each its kind of fault."""
    rng, kinds, seen = random.Random(SEED), {}, set()
    for case in made:
        case.write(root / case.name)
    for level, share in SHARE.items():
        number, turn = 0, 0
        outers = [json.loads((root / case.name / f"{level}.json").read_bytes()) for case in made]
        texts = [json.dumps(outer["value"]) for outer in outers]
        while number < COUNT * share and turn < 40 * COUNT:
            kind = list(FAULTS[level])[turn % len(FAULTS[level])]
            which = rng.randrange(len(made))
            turn += 1
            value = make_fault(FAULTS[level][kind], rng, texts[which])
            data = json.dumps(outers[which] | {"value": value})
            if value is None or (which, data) in seen:
                continue
            seen.add((which, data))
            name = f"{level}-{number:05}.json"
            (root / made[which].name / "faults" / name).write_text(data)
            kinds[f"{made[which].name}/{name}"] = f"{level}: {kind}"
            number += 1
    return kinds


def verify(root: Path) -> dict[str, list[str]]:
    """Verify all files in a process of its own that can import neither solve nor lower."""
    repository = HERE.parent.parent
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(repository), str(repository / "runtime")])}
    command = [sys.executable, str(HERE / "verify_files.py"), str(root)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["loaded"] == []
    return answer["results"]


def show_harmless(case: Case, level: str, path: Path) -> str | None:
    """Execute what the verifier let pass; return what is wrong with it, or None."""
    data = path.read_bytes()
    try:
        if level == "schedule":
            run_schedule(case.problem, from_json(data, Schedule, "acclc-schedule", 1, path.name))
        elif level == "program":
            program = from_json(data, Program, "acclc-program", 1, path.name)
            for aliased in (False, True) if program.in_place != "none" else (False,):
                explore_program(case.problem, case.schedule, program, aliased)
        else:
            kernel = from_json(data, KernelProgram, "acclc-kernel", 1, path.name)
            aliased = kernel.in_place != "none"
            calls = [(2 * kernel.slot_depth + 1, False), (2, aliased), (kernel.slot_depth + 1, aliased)]
            explore_kernel(case.problem, case.schedule, kernel, calls)
    except (WrongError, UnexploredError) as error:
        return f"{type(error).__name__}: {error}"
    return None


@dataclass
class Verified:
    """The faults of one run: what they are, and what the verifiers found."""

    root: Path
    cases: dict[str, Case]
    kinds: dict[str, str]
    results: dict[str, list[str]]

    def execute(self, name: str) -> str | None:
        case, file = name.split("/")
        return show_harmless(self.cases[case], self.kinds[name].split(":")[0], self.root / case / "faults" / file)


@pytest.fixture(scope="module")
def verified(tmp_path_factory: pytest.TempPathFactory) -> Verified:
    root = tmp_path_factory.mktemp("faults")
    made = make_cases()
    kinds = write_faults(root, made)
    return Verified(root, {case.name: case for case in made}, kinds, verify(root))


def test_the_cases_themselves_verify(verified: Verified) -> None:
    assert {name: verified.results[name] for name in verified.cases} == {name: [] for name in verified.cases}


def test_every_fault_is_caught_or_shown_harmless(verified: Verified, capsys: pytest.CaptureFixture[str]) -> None:
    caught: Counter[str] = Counter()
    harmless: Counter[str] = Counter()
    missed = []
    for name, kind in verified.kinds.items():
        if verified.results[name]:
            caught[kind] += 1
            continue
        wrong = verified.execute(name)
        if wrong is None:
            harmless[kind] += 1
        else:
            missed.append(f"{name} ({kind}): {wrong}")
    with capsys.disabled():
        print(f"\n{'fault':45} caught harmless")
        for kind in dict.fromkeys(verified.kinds.values()):
            print(f"{kind:45} {caught[kind]:6} {harmless[kind]:8}")
        print(f"{'all':45} {caught.total():6} {harmless.total():8}")
    assert missed == []
    assert len(verified.kinds) >= 0.95 * COUNT
    assert caught.total() > 0.8 * len(verified.kinds)


ORDERING = {"kernel.race", "kernel.return", "kernel.stale", "kernel.deadlock", "program.hazard", "program.deadlock"}
"""Findings that say that some interleaving goes wrong, and nothing else."""


def test_what_the_verifiers_call_unordered_does_go_wrong(verified: Verified) -> None:
    """The other way round: a fault that is caught only because of its order fails in some interleaving.

    It tests the exploration, which thus sees the faults that it must not miss. Left out: a put done twice
    without a barrier between, which only a torn copy by the threads of one block would show.
    """
    names = [
        name
        for name, kind in verified.kinds.items()
        if verified.results[name] and set(verified.results[name]) <= ORDERING and kind != "kernel: put doubled"
    ][:150]
    assert len(names) >= min(150, 0.02 * COUNT)
    assert [name for name in names if verified.execute(name) is None] == []
