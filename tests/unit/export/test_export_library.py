"""A sample of the library: what benchmarks/export.py does for all of it."""

from __future__ import annotations

import pytest

from acclc.export.errors import ExportError
from acclc.exports import ExportOptions, export_text
from acclc.sema import analyse_text
from acclc.solve import greedy

COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce", "broadcast", "gather", "all_to_all")


@pytest.mark.parametrize("topology", ["dgx1", "mi300x", "hgx_h100"])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_machines_of_eight(topology: str, collective: str) -> None:
    """``export_text`` raises where what it wrote does not verify."""
    (problem,) = analyse_text(f"{collective} on {topology}").problems
    schedule = greedy.schedules_of(problem)[0]
    for options in (ExportOptions("msccl-xml", "rccl"), ExportOptions("mscclpp", blocks=2)):
        assert export_text(problem, schedule, "x", (0, None), options)


def test_sixteen_ranks_of_which_each_has_fifteen_peers() -> None:
    """A peer in each direction is a block: 30 of the 64 that RCCL has, but 15 of the 16 channels of MSCCL++."""
    (problem,) = analyse_text("all_to_all on full(16)").problems
    schedule = greedy.schedules_of(problem)[0]
    for options in (ExportOptions("msccl-xml", "rccl"), ExportOptions("mscclpp", blocks=1)):
        assert export_text(problem, schedule, "x", (0, None), options)


def test_bytes_are_those_of_the_engine() -> None:
    """Of gather an engine counts one rank's part, S counts all."""
    for collective, expected in (("gather", (32, 64)), ("all_gather", (128, 256))):
        (problem,) = analyse_text(f"{collective} on full(4)").problems
        schedule = greedy.schedules_of(problem)[0]
        text = export_text(problem, schedule, "x", (128, 256), ExportOptions("msccl-xml"))
        assert f'minBytes="{expected[0]}" maxBytes="{expected[1]}"' in text


def test_a_case_that_does_not_fit_is_refused() -> None:
    (problem,) = analyse_text("all_gather on full(20)").problems
    with pytest.raises(ExportError):
        export_text(problem, greedy.schedules_of(problem)[0], "x", (0, None), ExportOptions("mscclpp"))
