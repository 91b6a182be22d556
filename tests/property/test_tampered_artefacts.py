"""Artefacts with a flipped byte or an edited value: `acclc verify` refuses each, or it means the same; runs end clean.

``ACCLC_TAMPER_ROUNDS=5000`` makes more of them.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path[:0] = [str(Path(__file__).parent)]

from end_to_end import artefact_of  # noqa: E402

from acclc.artefact import load_artefact, read_artefact  # noqa: E402
from acclc.audit import audit  # noqa: E402
from acclc_runtime import load  # noqa: E402
from acclc_runtime.errors import AcclcRuntimeError, DamagedFileError  # noqa: E402

ROUNDS = int(os.environ.get("ACCLC_TAMPER_ROUNDS", "40"))
SEED = int(os.environ.get("ACCLC_TAMPER_SEED", "1"))

SOURCES = {
    "reduction": """
        # a line
        topology t { link l { 10 GB/s, 1 us, nominal 12 GB/s, kind nvlink } gpu g[3] switch s
            g <-> s : l
            g[0] -> g[1] : 2 l
            budget "b" { 30 GB/s both ways over s <-> * }
        }
        all_reduce on t { channels 2, op avg }
        """,
    "gather": "all_gather on line(2) as small { chunks up to 2 }",
}


@pytest.fixture(scope="module", params=list(SOURCES))
def pristine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pristine")
    path = artefact_of(SOURCES[request.param], folder, types=("f32",) if request.param == "gather" else ())
    assert all(row.ok for row in audit(path))
    return path


@pytest.fixture(scope="module", autouse=True)
def kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("kernels")
    folder.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACCLC_CACHE_DIR", str(folder))
        yield


@pytest.fixture
def copy(pristine: Path, tmp_path: Path) -> Path:
    path = tmp_path / pristine.name
    shutil.copytree(pristine, path)
    return path


def refused(path: Path) -> bool:
    """Whether verifying refuses it. Anything but a finding or a DamagedFileError fails the test."""
    try:
        return not all(row.ok for row in audit(path))
    except DamagedFileError:
        return True


def files(path: Path) -> list[str]:
    return sorted(str(p.relative_to(path)) for p in path.rglob("*") if p.is_file())


def flip(rng: random.Random, data: bytes) -> bytes:
    """One byte changed, dropped, doubled, or the end cut off."""
    at = rng.randrange(len(data))
    match rng.randrange(6):
        case 0:
            return data[:at] + data[at + 1 :]
        case 1:
            return data[: at + 1] + data[at:]
        case 2:
            return data[:at]
        case 3:
            return data[:at] + bytes([rng.choice(b'0123456789-/"[]{},:')]) + data[at + 1 :]
        case _:
            return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def test_every_flipped_byte_is_refused_or_means_the_same(pristine: Path, copy: Path) -> None:
    rng = random.Random(SEED)
    meaning = read_artefact(pristine)
    for _ in range(ROUNDS):
        name = rng.choice(files(pristine))
        before = (pristine / name).read_bytes()
        after = flip(rng, before)
        if after == before:
            continue
        (copy / name).write_bytes(after)
        if not refused(copy):
            assert name.endswith(".json"), f"{name}: {after!r}"
            assert read_artefact(copy) == meaning, f"{name}: {_difference(before, after)}"
        (copy / name).write_bytes(before)
    assert not refused(copy)


def _difference(before: bytes, after: bytes) -> str:
    at = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), 0)
    return f"{before[max(0, at - 60) : at + 30]!r} became {after[max(0, at - 60) : at + 30]!r}"


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values inside a JSON value."""
    if at:
        yield at
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield from places(part, (*at, key))


def edit(rng: random.Random, root: Any) -> str:
    """Change one value (or a list's order, or a field's name); return what was done."""
    path = rng.choice(list(places(root)))
    holder = root
    for key in path[:-1]:
        holder = holder[key]
    key, old = path[-1], holder[path[-1]]
    if isinstance(holder, list) and rng.random() < 0.3:
        if rng.random() < 0.5:
            del holder[key]
        else:
            holder.insert(key, json.loads(json.dumps(rng.choice(holder))))
    elif isinstance(holder, dict) and rng.random() < 0.2:
        holder[f"{key}_"] = holder.pop(key)
    else:
        holder[key] = _another(rng, old)
    return f"{'.'.join(map(str, path))}: {str(old)[:80]}"


def _another(rng: random.Random, old: Any) -> Any:
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return rng.choice([old + 1, old - 1, -old, 0, 1, 2**31, 2**40, 2**63, 2**64, -(2**63), 10**30])
    if isinstance(old, str):
        fractions = ["0", "1", "-1", "1/2", "1/3", "7/5", f"1/{2**31}", f"{10**40}", f"1/{10**50}"]
        paths = ["", "..", "../..", "/etc", "a/../../b", "x\0y", "é", "a" * 300]
        return rng.choice([*fractions, *paths, old + "x", old[:-1], old.upper()])
    if isinstance(old, list):
        return rng.choice([[], old[::-1], old + old])
    return rng.choice([None, 0, -1, "x", {}, []])


def test_every_edited_value_is_refused_or_means_the_same(pristine: Path, copy: Path) -> None:
    rng = random.Random(SEED + 1)
    meaning = read_artefact(pristine)
    names = [n for n in files(pristine) if n.endswith(".json")]
    for _ in range(ROUNDS):
        name = rng.choice(names)
        before = (pristine / name).read_bytes()
        value = json.loads(before)
        what = edit(rng, value)
        (copy / name).write_text(json.dumps(value))
        if not refused(copy):
            assert read_artefact(copy) == meaning, f"{name}, {what}"
        _show(copy)
        (copy / name).write_bytes(before)
    assert not refused(copy)


def _show(path: Path) -> None:
    """Other commands read it by load_artefact: it works or is refused."""
    with suppress(DamagedFileError):
        load_artefact(path)


def call_everything(path: Path, backend: str) -> None:
    """Call each variant in place and not; anything but an AcclcRuntimeError fails the test."""
    try:
        loaded = load(path)
    except AcclcRuntimeError:
        return
    options = {"slice_bytes": 64} if backend == "cpu" else {}
    with loaded.local(backend, timeout_s=20, **options) as group:
        for collective in loaded.manifest.collectives:
            for variant in collective.variants:
                xs = [np.ones(48 * min(n, 1000), np.float32) for n in collective.input_units]
                for outs in (None, xs):
                    try:
                        group.collective(collective.name, xs, outs, variant=variant.id)
                    except AcclcRuntimeError:
                        continue


def test_an_edited_manifest_is_refused_by_the_runtime_or_runs(pristine: Path, copy: Path) -> None:
    """Of the cpu backend a wrong size would be a write outside of memory: it must not get so far."""
    rng = random.Random(SEED + 2)
    before = (pristine / "manifest.json").read_bytes()
    for _ in range(ROUNDS):
        value = json.loads(before)
        for _ in range(rng.choice((1, 1, 2))):
            edit(rng, value["value"]["collectives"])
        (copy / "manifest.json").write_text(json.dumps(value))
        call_everything(copy, "cpu")
        call_everything(copy, "numpy")
    (copy / "manifest.json").write_bytes(before)


def test_an_edited_program_is_refused_by_the_numpy_backend_or_ends(pristine: Path, copy: Path) -> None:
    rng = random.Random(SEED + 3)
    name = next(n for n in files(pristine) if n.endswith("program.json"))
    before = (pristine / name).read_bytes()
    for _ in range(ROUNDS):
        value = json.loads(before)
        for _ in range(rng.choice((1, 1, 2))):
            edit(rng, value["value"]["ranks"])
        (copy / name).write_text(json.dumps(value))
        call_everything(copy, "numpy")


def test_a_kernel_of_other_memory_does_not_run(pristine: Path, copy: Path) -> None:
    """kernel.cu and manifest.json fit by their digest, but were made for different numbers of slots."""
    value = json.loads((copy / "manifest.json").read_bytes())
    variant = value["value"]["collectives"][0]["variants"][0]
    variant["counters"] = variant["counters"][:-1]
    (copy / "manifest.json").write_text(json.dumps(value))
    loaded = load(copy)
    (collective,) = loaded.manifest.collectives
    xs = [np.ones(48 * n, np.float32) for n in collective.input_units]
    with loaded.local("cpu") as group, pytest.raises(DamagedFileError, match="describes other memory"):
        group.collective(collective.name, xs, variant=collective.variants[0].id)
