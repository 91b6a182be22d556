from __future__ import annotations

from dataclasses import replace

import pytest
from handmade import Made, collective, direct_program, with_variants

from acclc_runtime.errors import ArgumentError
from acclc_runtime.manifest import ManifestCollective
from acclc_runtime.selection import by_name, choose, format_bytes, size_bytes, units_of_size


def ranged(*ranges: tuple[int | None, int | None]) -> ManifestCollective:
    c = collective("all_reduce")
    program = direct_program(c)
    return with_variants(c, [Made(f"v{i}", program, low, high) for i, (low, high) in enumerate(ranges)])


@pytest.mark.parametrize(
    ("kind", "units"),
    [
        ("all_gather", 3),
        ("reduce_scatter", 3),
        ("all_reduce", 1),
        ("broadcast", 1),
        ("reduce", 1),
        ("gather", 3),
        ("scatter", 3),
        ("all_to_all", 3),
        ("send_recv", 1),
    ],
)
def test_the_size_is_that_of_the_definitions(kind: str, units: int) -> None:
    c = collective(kind)
    assert units_of_size(c) == units
    assert size_bytes(c, 10, 4) == units * 40


def test_the_manifest_may_state_the_size() -> None:
    assert size_bytes(replace(collective("all_to_all"), size_units=7), 10, 4) == 280


@pytest.mark.parametrize(
    ("nbytes", "chosen"), [(0, "v0"), (99, "v0"), (100, "v1"), (999, "v1"), (1000, "v2"), (2**50, "v2")]
)
def test_ranges_are_half_open(nbytes: int, chosen: str) -> None:
    variant, _ = choose(ranged((0, 100), (100, 1000), (1000, None), (None, None)), nbytes)
    assert variant.id == chosen


def test_outside_all_ranges_the_nearest_is_taken_and_said() -> None:
    c = ranged((100, 200), (1000, 2000))
    assert choose(c, 10)[0].id == "v0"
    assert choose(c, 300)[0].id == "v0"
    assert choose(c, 950)[0].id == "v1"
    variant, reason = choose(c, 2000)
    assert variant.id == "v1"
    assert reason == "no variant is for this size; the nearest is best for 1000 B to less than 2000 B"
    assert choose(c, 1500)[1] == "best for 1000 B to less than 2000 B"


def test_variants_without_a_range_are_chosen_by_name_only() -> None:
    c = ranged((None, None))
    with pytest.raises(ArgumentError, match=r"all_reduce has no variant that is chosen by size; name one .*: v0"):
        choose(c, 1)
    assert by_name(c, "v0").id == "v0"
    with pytest.raises(ArgumentError, match=r"^all_reduce has no variant 'c6s3r7'; it has: v0$"):
        by_name(c, "c6s3r7")


def test_format_bytes() -> None:
    assert [format_bytes(n) for n in (0, 5, 1024, 1536, 3 << 20, 1 << 30)] == [
        "0 B",
        "5 B",
        "1 KiB",
        "1536 B",
        "3 MiB",
        "1 GiB",
    ]
