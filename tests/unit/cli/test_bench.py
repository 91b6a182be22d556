"""``acclc bench``: nccl-tests' table, its JSON, what it says of failures, and comparing logs."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from conftest import Invoke

from acclc import compile_text
from acclc.nccl_tests import Measured, compare, footer, header, line, read_log
from acclc_runtime.bench import BenchRow, Case, Side, bus_factor

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
OF_NCCL_TESTS = """
# nThread 1 nGpus 8 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    36.18    0.00    0.00      0    35.90    0.00    0.00      0
     1048576        262144     float     sum      -1    61.42   17.07   29.88      0    60.80   17.25   30.18      3
   134217728      33554432     float     sum      -1   1128.4  118.95  208.16    N/A   1127.6  119.03  208.30    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 79.4203
"""


@pytest.fixture(scope="module")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    text = "all_reduce on full(2)\nbroadcast on full(2) { root g[1] }\nall_to_all on full(2)"
    return compile_text(text, "benched").save(tmp_path_factory.mktemp("bench") / "benched")


def a_row(seconds: float = 1e-3, wrong: int | None = 0, in_place: Side | None = None) -> BenchRow:
    case = Case("sums", "", "f32", "sum", 250_000, 1_000_000, -1)
    return BenchRow(case, 8, "all_reduce", Side(seconds, wrong), in_place)


@needs_compiler
@pytest.mark.parametrize("transport", ["memory", "cpu", "numpy"])
def test_rows_are_checked_and_complete(acclc: Invoke, artefact: Path, transport: str) -> None:
    options = ("-b", 8, "-e", "4K", "-f", 8, "-n", 2, "--transport", transport)
    done = acclc("bench", artefact, *options, "--json")
    assert done.code == 0, done.err
    rows = json.loads(done.out)["rows"]
    assert [(r["collective"], r["size"], r["count"], r["root"]) for r in rows] == [
        (name, size, size // 4 // parts, root)
        for name, parts, root in (("all_reduce", 1, -1), ("broadcast", 1, 1), ("all_to_all", 2, -1))
        for size in (8, 64, 512, 4096)
    ]
    for r in rows:
        assert r["out_of_place"]["wrong"] == 0
        assert r["out_of_place"]["algbw"] == pytest.approx(r["size"] / r["out_of_place"]["seconds"])
        assert r["out_of_place"]["busbw"] == pytest.approx(
            r["out_of_place"]["algbw"] * (0.5 if r["collective"] == "all_to_all" else 1)
        )
        assert (r["in_place"] is None) == (r["collective"] == "all_to_all")
        assert r["bound_seconds"] > 0


@needs_compiler
def test_the_table_is_read_again(acclc: Invoke, artefact: Path, tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    done = acclc("bench", artefact, "-b", 8, "-e", 64, "-n", 1, "-d", "half", "-o", "max", "-J", file,
                 "--transport", "numpy", "--only", "all_reduce")  # fmt: skip
    assert done.code == 0, done.err
    rows = [each for each in done.out.splitlines() if not each.startswith("#")]
    assert all(re.match(r"( {11}8| {10}\d\d)  ( {11}\d| {10}\d\d)      half     max      -1  ", each) for each in rows)
    assert len(rows) == 4
    assert done.out.splitlines()[-3] == "# Out of bounds values : 0 OK"
    log = tmp_path / "rows.log"
    log.write_text(done.out)
    compared = acclc("bench", "--compare", log, file)
    assert compared.code == 0, compared.err
    assert len(compared.out.splitlines()) == 2 + 1 + 4


@needs_compiler
def test_types_operators_and_steps(acclc: Invoke, artefact: Path) -> None:
    done = acclc("bench", artefact, "-b", 100, "-e", 300, "-i", 100, "-d", "bfloat16", "--transport", "cpu", "--json")
    assert done.code == 0, done.err
    assert [r["size"] for r in json.loads(done.out)["rows"]][:3] == [100, 200, 300]
    unchecked = acclc("bench", artefact, "-e", 8, "-c", 0, "--transport", "cpu", "--only", "all_reduce")
    assert unchecked.out.splitlines()[-4].split()[8] == "N/A"


def test_mistakes_are_said(acclc: Invoke, artefact: Path, tmp_path: Path) -> None:
    assert acclc("bench").code == 2
    assert acclc("bench", artefact, "-b", "1M", "-e", 8).code == 2
    assert acclc("bench", artefact, "-f", 2, "-i", 8).code == 2
    assert acclc("bench", tmp_path).code == 1
    done = acclc("bench", artefact, "-d", "bool", "--only", "all_reduce", "-e", 8)
    assert (done.code, "but not reduced" in done.err) == (1, True)
    done = acclc("bench", artefact, "--only", "none", "-e", 8)
    assert (done.code, "no collective 'none'" in done.err) == (1, True)
    empty = tmp_path / "empty.log"
    empty.write_text("nothing")
    done = acclc("bench", "--compare", empty, empty)
    assert (done.code, "no row" in done.err) == (1, True)


def test_a_failed_row_has_no_bandwidth() -> None:
    row = a_row(wrong=3, in_place=Side(2e-3, 0))
    assert row.algbw(row.out_of_place) is None
    assert row.busbw(row.out_of_place) is None
    words = line(row).split()
    assert words[5:9] == ["1000.0", "N/A", "N/A", "3"]
    assert words[9:] == ["2000.0", "0.50", "0.88", "0"]
    assert footer([row])[0] == "# Out of bounds values : 3 FAILED"
    assert footer([row])[1] == "# Avg bus bandwidth    : 0.875"
    assert row.to_dict()["out_of_place"]["busbw"] is None


def test_columns_lie_under_their_titles() -> None:
    titles, row = header("t", ["bound"])[2], line(a_row(in_place=Side(1e-5, None)), [1e-6])
    for title in ("size", "count", "type", "redop", "root", "bound"):
        at = titles.index(title) + len(title)
        assert row[at - 1] != " "
        assert row[at : at + 1] in (" ", "")


@pytest.mark.parametrize(
    ("kind", "ranks", "factor"),
    [
        ("all_reduce", 8, 1.75),
        ("all_gather", 8, 0.875),
        ("broadcast", 8, 1.0),
        ("send_recv", 4, 1.0),
        ("scatter", 2, 0.5),
    ],
)
def test_factors_of_busbw(kind: str, ranks: int, factor: float) -> None:
    assert bus_factor(kind, ranks) == factor


def test_logs_of_nccl_tests_are_read() -> None:
    rows = read_log(OF_NCCL_TESTS, "log")
    assert [(m.size, m.out_of_place, m.in_place) for m in rows] == [
        (8, 0.0, 0.0),
        (1 << 20, 29.88, None),  # a failed check has no bandwidth
        (134217728, 208.16, 208.30),
    ]


def test_logs_without_names_are_compared_by_size() -> None:
    ours = [Measured("sums", 1 << 20, 59.76, 10.0), Measured("sums", 64, 1.0, 1.0)]
    lines = compare(read_log(OF_NCCL_TESTS, "log"), ours)
    assert len(lines) == 2
    assert lines[1].split() == ["1048576", "29.88", "59.76", "2.00", "-", "10.00", "-", "sums"]
