"""all_to_all_v between processes: counts are told in every way, exchanged, and compared."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import varying_ranks as ranks

import acclc_runtime as rt
from acclc import compile_text

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")

PATIENT_S = 120.0
TEXT = "all_to_all_v on {}(4) {{ goal pareto, within 3 s }}\nall_reduce on {}(4) {{ goal latency }}\n"


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """On a ring ranks opposite each other exchange counts, but no data."""
    return compile_text(TEXT.format("ring", "ring"), "four").save(tmp_path_factory.mktemp("varying") / "four")


@pytest.mark.parametrize("machine", ["full", "ring"])
def test_right_in_every_way_of_telling(machine: str, tmp_path: Path) -> None:
    folder = compile_text(TEXT.format(machine, machine), "four").save(tmp_path / "four")
    assert rt.spawn(ranks.many_matrices, 4, folder, (40,), timeout_s=PATIENT_S) == [[], [], [], []]


def test_torch_names(four: Path) -> None:
    outs = [[0, 20, 21, 30, 31, 32], [1, 2, 22, 23, 33], [3, 4, 5, 10, 11, 12, 13, 14, 15, 24, 34], [25, 35]]
    assert rt.spawn(ranks.rows_of_tokens, 4, four, timeout_s=PATIENT_S) == [[out, [0, 1, 2, 3]] for out in outs]


def test_mistakes_of_one_rank_move_nothing(four: Path) -> None:
    for n, said in enumerate(rt.spawn(ranks.mistakes, 4, four, timeout_s=PATIENT_S)):
        assert all(map(ranks.is_argument, said)), said
        words = (
            "needs counts= (the matrix: row i says what rank i sends to each) or send_counts=",
            "one of them",
            f"rank {n}'s input has {sum(ranks.MATRIX[n]) + 1} elements; row {n} of counts sums to",
            "send_counts has one count for each of 4 ranks; got 2",
            "recv_counts, entry 0 is 7; counts say",
            f"rank {n}'s output has 1 elements; column {n} of counts sums to",
            "nothing tells the type",
            "leave counts= out",
            "input_split_sizes [1, 1, 1, 90] add up to 93",
        )
        for text, error in zip(words, said, strict=True):
            assert text in error


@pytest.mark.parametrize(
    ("how", "detected", "words"),
    [
        ("matrix", {3}, "by rank 3, rank 0 sends 9 elements to rank 2; by rank 0 itself it sends 0"),
        ("column", {1}, "rank 1 expects 1 elements of rank 2, which sends it 0"),
        ("output", {2}, "rank 2's output has 7 elements; column 2 of counts sums to 6"),
    ],
)
def test_disagreement_is_an_error_everywhere(four: Path, how: str, detected: set[int], words: str) -> None:
    said = rt.spawn(ranks.disagree, 4, four, (how,), timeout_s=PATIENT_S)
    for n, error in enumerate(said):
        assert error.startswith("MismatchError"), error
        assert words in error
        assert (f"rank {min(detected)} gave up" in error) == (n not in detected), error


@pytest.mark.parametrize(
    ("how", "pattern"),
    [
        ("type", r"rank 1 (calls|in) all_to_all_v\(counts .* i16\)"),
        ("other", r"rank \d (calls|in) all_reduce"),
        ("unchecked", r"rank \d calls all_to_all_v\(counts #[0-9a-f]+ of f32\)"),
    ],
)
def test_other_calls_are_found(four: Path, how: str, pattern: str) -> None:
    said = rt.spawn(ranks.disagree, 4, four, (how,), timeout_s=PATIENT_S)
    assert all(error.startswith("MismatchError") for error in said), said
    assert any(re.search(pattern, error) for error in said), said


def test_a_rank_that_dies_before_it_tells(four: Path) -> None:
    with pytest.raises(rt.AcclcRuntimeError, match="rank 1"):
        rt.spawn(ranks.disagree, 4, four, ("dies",), timeout_s=PATIENT_S)
