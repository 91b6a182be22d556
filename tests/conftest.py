"""What all tests share: the check that no test is skipped in silence."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_skipped: set[str] = set()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        _skipped.add(report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.skipped:
        _skipped.add(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With ACCLC_EXPECTED_SKIPS=FILE the run fails when the skipped tests are not exactly those listed there."""
    name = os.environ.get("ACCLC_EXPECTED_SKIPS")
    if not name or hasattr(session.config, "workerinput"):
        return
    lines = (line.partition("#")[0].strip() for line in Path(name).read_text().splitlines())
    expected = {line for line in lines if line}
    for test in sorted(_skipped - expected):
        print(f"\nskipped, but not listed in {name}: {test}")
    for test in sorted(expected - _skipped):
        print(f"\nlisted in {name}, but not skipped: {test}")
    if _skipped != expected and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
