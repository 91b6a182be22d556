"""From random text to bytes: greedy schedules, all verifiers, generated code, and runs compared with the definition.

``ACCLC_END_TO_END_SECONDS=600`` makes the tests go on with fresh seeds for so long (together).
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

sys.path[:0] = [str(Path(__file__).parent)]

from end_to_end import artefact_of, random_call, run_call, text  # noqa: E402

from acclc.audit import audit  # noqa: E402
from acclc_runtime import load  # noqa: E402

LONG_SECONDS = float(os.environ.get("ACCLC_END_TO_END_SECONDS", "0"))
UNSHRUNK = (Phase.explicit, Phase.generate)
"""A smaller seed is no smaller case."""
FIRST_SEED = int(os.environ.get("ACCLC_END_TO_END_SEED", "1000000"))


@pytest.fixture(scope="module", autouse=True)
def kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("kernels")
    folder.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACCLC_CACHE_DIR", str(folder))
        yield


def by_numpy(seed: int) -> None:
    """All variants of a random file, run by program.json; the artefact's audit finds nothing."""
    rng = random.Random(seed)
    source = text(rng)
    with tempfile.TemporaryDirectory() as folder:
        path = artefact_of(source, Path(folder))
        wrong = [row for row in audit(path) if not row.ok]
        assert not wrong, f"{source}\n{wrong}"
        loaded = load(path)
        (collective,) = loaded.manifest.collectives
        with loaded.local("numpy") as group:
            for _ in range(8):
                run_call(group, collective, random_call(rng, collective))


def by_kernels(seed: int) -> None:
    """A sequence of calls on one group that mixes variants, counts and in place, with many small slices in flight."""
    rng = random.Random(seed)
    source = text(rng)
    with tempfile.TemporaryDirectory() as folder:
        path = artefact_of(source, Path(folder), slot_depth=rng.choice((None, 1, 3)))
        loaded = load(path)
        (collective,) = loaded.manifest.collectives
        dtype = rng.choice(("f32", "i64", "i8", "bf16", "f16", "f64"))
        # few instances, since each is compiled; the calls on them vary
        calls = [random_call(rng, collective, dtype) for _ in range(10)]
        ops = [calls[0].op, calls[-1].op]
        calls = [c if c.op in ops else replace(c, op=rng.choice(ops)) for c in calls]
        for mode in ("fibres", "fibres", "threads"):
            with loaded.local(
                "cpu",
                timeout_s=120,
                mode=mode,
                seed=rng.randrange(1000) if mode == "fibres" else 0,
                block_threads=rng.choice((1, 4)),
                slice_bytes=rng.choice((64, 192, 1024, 65536)),
            ) as group:
                for case in calls:
                    run_call(group, collective, case)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), phases=UNSHRUNK)
def test_random_files_run_as_defined(seed: int) -> None:
    by_numpy(seed)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=4, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), phases=UNSHRUNK)
def test_random_files_run_as_defined_when_compiled(seed: int) -> None:
    by_kernels(seed)


def long_run(check: Callable[[int], None], seconds: float) -> None:
    end, seed = time.monotonic() + seconds, FIRST_SEED
    while time.monotonic() < end:
        try:
            check(seed)
        except Exception as error:
            raise AssertionError(f"ACCLC_END_TO_END_SEED={seed}: {error}") from error
        seed += 1


def test_more_random_files_where_asked() -> None:
    """Nothing without ACCLC_END_TO_END_SECONDS but the first seed."""
    long_run(by_numpy, max(LONG_SECONDS * 0.4, 1e-6))
    long_run(by_kernels, LONG_SECONDS * 0.6)
