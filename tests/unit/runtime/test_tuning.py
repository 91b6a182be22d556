"""Ranges by measurement: the file, what is chosen, and that damaged or foreign files are refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import acclc_runtime as rt
from acclc_runtime.errors import DamagedFileError
from acclc_runtime.measure import default_sizes, measure, tuned
from acclc_runtime.memory.tables import artefact_digest
from acclc_runtime.tuning import Range, TunedCollective, Tuning, ranges_of, read_tunings, write_tuning


def of_ranges(*ranges: Range, transport: str = "numpy", name: str = "all_reduce") -> Tuning:
    return Tuning(transport, "a machine", (TunedCollective(name, ranges),))


def chosen(artefact: Path, nbytes: int) -> tuple[str, str]:
    with rt.load(artefact).local("numpy") as group:
        variant, reason = group.choice("all_reduce", nbytes)
        assert f"variant {variant.id}" in group.describe(nbytes)
        return variant.id, reason


def test_calls_take_what_was_measured(ring: Path) -> None:
    assert chosen(ring, 8)[0] == "direct"
    write_tuning(ring, of_ranges(Range(0, "ring"), Range(64, "direct"), Range(4096, "ring")))
    assert [chosen(ring, n)[0] for n in (0, 63, 64, 4095, 4096, 1 << 30)] == [
        "ring", "ring", "direct", "direct", "ring", "ring",
    ]  # fmt: skip
    assert "measured best for 64 B to less than 4 KiB" in chosen(ring, 100)[1]
    (ring / "tuning.json").unlink()
    assert chosen(ring, 8)[0] == "direct"


def test_other_transports_keep_theirs(ring: Path) -> None:
    write_tuning(ring, of_ranges(Range(0, "ring"), transport="memory"))
    assert chosen(ring, 8)[0] == "direct"
    write_tuning(ring, of_ranges(Range(0, "direct")))
    write_tuning(ring, of_ranges(Range(0, "ring")))  # in place of the one before
    assert [t.transport for t in read_tunings(ring).tunings] == ["memory", "numpy"]
    assert chosen(ring, 8)[0] == "ring"


def test_results_stay_right(ring: Path) -> None:
    write_tuning(ring, of_ranges(Range(0, "ring")))
    xs = [np.arange(10, dtype=np.int32) * (rank + 1) for rank in range(3)]
    with rt.load(ring).local("numpy") as group:
        for out in group.all_reduce(xs):
            assert (out == sum(xs)).all()


@pytest.mark.parametrize(
    ("ranges", "words"),
    [
        ((), "do not follow each other from 0"),
        ((Range(1, "ring"),), "do not follow each other from 0"),
        ((Range(0, "ring"), Range(9, "direct"), Range(9, "ring")), "do not follow each other"),
        ((Range(0, "ring"), Range(9, "direct"), Range(4, "ring")), "do not follow each other"),
        ((Range(0, "tree"),), "has no variant 'tree'"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(ring: Path, ranges: tuple[Range, ...], words: str) -> None:
    write_tuning(ring, of_ranges(*ranges))
    with pytest.raises(DamagedFileError, match=words):
        rt.load(ring).local("numpy")


def test_another_collective_is_refused(ring: Path) -> None:
    write_tuning(ring, of_ranges(Range(0, "ring"), name="all_gather"))
    with pytest.raises(DamagedFileError, match="no collective 'all_gather'"):
        rt.load(ring).local("numpy")


def test_a_file_of_an_older_artefact_is_refused(ring: Path) -> None:
    write_tuning(ring, of_ranges(Range(0, "ring")))
    manifest = ring / "manifest.json"
    manifest.write_bytes(manifest.read_bytes() + b"\n")
    with pytest.raises(DamagedFileError, match="measured on another version of this artefact; tune again"):
        rt.load(ring).local("numpy")
    write_tuning(ring, of_ranges(Range(0, "ring")))  # is replaced as a whole
    assert chosen(ring, 8)[0] == "ring"


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b'{"format": "acclc-tuning", "version": 99, "value": {}}'])
def test_a_damaged_file_is_refused(ring: Path, data: bytes) -> None:
    (ring / "tuning.json").write_bytes(data)
    with pytest.raises(DamagedFileError, match=r"tuning\.json"):
        rt.load(ring).local("numpy")


def test_ranks_must_have_the_same_tuning(ring: Path) -> None:
    before = artefact_digest(ring)
    write_tuning(ring, of_ranges(Range(0, "ring"), transport="memory"))
    assert artefact_digest(ring) != before


def test_borders_lie_between_the_sizes() -> None:
    best = {8: "a", 32: "a", 128: "b", 512: "a"}
    assert ranges_of((8, 32, 128, 512), lambda size, before: best[size]) == (
        Range(0, "a"), Range(64, "b"), Range(256, "a"),
    )  # fmt: skip


def test_noise_makes_no_borders() -> None:
    times = {("c", 8): {"a": 1.0, "b": 1.1}, ("c", 32): {"a": 1.01, "b": 1.0}, ("c", 128): {"a": 3.0, "b": 2.0}}
    assert tuned("cpu", times).collectives[0].ranges == (Range(0, "a"), Range(64, "b"))


def test_sizes_go_up_to_the_largest() -> None:
    assert default_sizes(8, 512) == (8, 32, 128, 512)
    assert default_sizes(8, 511) == (8, 32, 128)
    assert default_sizes(8, 8) == (8,)


def test_measured_in_one_process(ring: Path) -> None:
    times = measure(ring, "numpy", (64, 4096), rounds=1)
    assert {key: sorted(by_variant) for key, by_variant in times.items()} == {
        ("all_reduce", 64): ["direct", "ring"], ("all_reduce", 4096): ["direct", "ring"],
    }  # fmt: skip
    assert all(seconds > 0 for by_variant in times.values() for seconds in by_variant.values())


def test_nothing_to_choose_from(everything: Path) -> None:
    with pytest.raises(rt.ArgumentError, match="nothing to tune"):
        measure(everything, "numpy", (64,), rounds=1)


def test_the_file_is_json_for_people(ring: Path) -> None:
    write_tuning(ring, of_ranges(Range(0, "ring")))
    assert json.loads((ring / "tuning.json").read_text())["value"]["tunings"][0]["machine"] == "a machine"
    assert [p.name for p in ring.iterdir() if p.name.startswith(".")] == []
