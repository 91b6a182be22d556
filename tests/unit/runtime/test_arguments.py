"""Everything that is refused before anything moves, with its exact text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import collective, custom, direct_artefact

import acclc_runtime as rt
from acclc_runtime.errors import ArgumentError
from acclc_runtime.manifest import Manifest, ManifestShard, manifest_bytes


@pytest.fixture
def group(everything: Path) -> Iterator[rt.LocalGroup]:
    """Every named collective on the ranks 0, 2, 5, rooted ones at 2."""
    with rt.load(everything).local("numpy") as g:
        yield g


def arrays(*lengths: int, dtype: Any = np.float32) -> list[Any]:
    return [np.zeros(n, dtype) for n in lengths]


def refused(call: Any) -> str:
    with pytest.raises(ArgumentError) as caught:
        call()
    return str(caught.value)


def test_wrong_number_of_arrays(group: rt.LocalGroup) -> None:
    assert refused(lambda: group.all_reduce(arrays(4, 4))) == (
        "all_reduce is on 3 ranks, but 2 inputs were given; give one array a rank"
    )
    assert refused(lambda: group.all_reduce(arrays(4, 4, 4), outs=arrays(4))) == (
        "all_reduce is on 3 ranks, but 1 outputs were given; give one array a rank"
    )
    assert refused(lambda: group.all_reduce(7)) == (  # type: ignore[arg-type]
        "all_reduce: the inputs are a int; give a list of 3 arrays, one a rank"
    )


def test_one_array_instead_of_a_list(group: rt.LocalGroup) -> None:
    assert refused(lambda: group.all_reduce(np.zeros(3))) == (
        "all_reduce: rank 0's input is a scalar (float64); an array is needed"
    )


def test_sizes(group: rt.LocalGroup) -> None:
    assert refused(lambda: group.reduce_scatter(arrays(6, 7, 6))) == (
        "reduce_scatter: rank 2's input has 7 elements; it must be a multiple of 3"
    )
    assert refused(lambda: group.all_to_all(arrays(6, 6, 9))) == (
        "all_to_all: rank 5's input has 9 elements, but rank 0's says that count is 2, so it must have 6; "
        "sizes must agree on all ranks"
    )
    assert refused(lambda: group.all_gather(arrays(4, 4, 4), outs=arrays(12, 12, 11))) == (
        "all_gather: rank 5's output has 11 elements; it must have 12"
    )


def test_types(group: rt.LocalGroup) -> None:
    mixed = [np.zeros(4, np.float32), np.zeros(4, np.float64), np.zeros(4, np.float32)]
    assert refused(lambda: group.all_reduce(mixed)) == (
        "all_reduce: rank 2's input is of type f64, rank 0's of type f32; all ranks need one type"
    )
    assert refused(lambda: group.all_reduce(arrays(4, 4, 4), outs=arrays(4, 4, 4, dtype=np.int32))) == (
        "all_reduce: rank 0's output is of type i32, the inputs are of type f32"
    )
    assert refused(lambda: group.all_reduce(arrays(4, 4, 4, dtype=np.uint32))) == (
        "all_reduce: elements of type u32 can be moved, but not reduced; f64, f32, f16, bf16, i64, i32, i8, u8 can"
    )
    assert refused(lambda: group.all_gather(arrays(4, 4, 4, dtype=np.complex128))).startswith(
        "all_gather: rank 0's input elements of type complex128 are 16 bytes long"
    )


def test_operators(group: rt.LocalGroup) -> None:
    assert refused(lambda: group.all_reduce(arrays(4, 4, 4), op="xor")) == (
        "all_reduce: no operator 'xor'; there are sum, prod, min, max, avg"
    )
    assert refused(lambda: group.collective("all_gather", arrays(4, 4, 4), op="sum")) == (
        "all_gather reduces nothing; leave op='sum' out"
    )


def test_memory(group: rt.LocalGroup) -> None:
    xs = [*arrays(4, 4), np.zeros((4, 2), np.float32)[:, 0]]
    assert refused(lambda: group.all_reduce(xs)) == (
        "all_reduce: rank 5's input is not contiguous; pass numpy.ascontiguousarray(...) of it, or .contiguous()"
    )
    outs = arrays(4, 4, 4)
    outs[1].flags.writeable = False
    assert refused(lambda: group.all_reduce(arrays(4, 4, 4), outs=outs)) == (
        "all_reduce: rank 2's output is not writable"
    )


def test_missing_buffers(group: rt.LocalGroup) -> None:
    assert refused(lambda: group.broadcast([np.zeros(4), None, None])) == (
        "broadcast: rank 2 needs an input, but None was given"
    )
    assert refused(lambda: group.collective("all_gather")) == "all_gather: rank 0 needs an input, but None was given"
    assert refused(lambda: group.all_gather(arrays(4, 4, 4), outs=[np.zeros(12, np.float32), None, None])) == (
        "all_gather: rank 2 needs an output, but None was given"
    )


def test_two_ranks_never_share_memory(group: rt.LocalGroup) -> None:
    x = np.zeros(8, np.float32)
    assert refused(lambda: group.all_reduce([x, x, np.zeros(8, np.float32)])) == (
        "all_reduce: rank 0's input and rank 2's input share memory; every rank needs buffers of its own"
    )
    outs = [np.zeros(8, np.float32), x[:4], x[2:6]]
    assert "share memory" in refused(
        lambda: group.all_reduce(arrays(4, 4, 4), outs=[np.zeros(4, np.float32), *outs[1:]])
    )
    # Rank 0's input is rank 2's output.
    xs, others = arrays(4, 4, 4), arrays(4, 4, 4)
    assert "share memory" in refused(lambda: group.all_reduce(xs, outs=[others[0], xs[0], others[2]]))


@pytest.mark.parametrize(
    ("kind", "make", "words"),
    [
        ("all_reduce", lambda b: (b[0:4], b[2:6]), "the input and the output must be the same buffer"),
        (
            "all_gather",
            lambda b: (b[0:4], b[0:12]),
            "the input must be the output's part [rank * count, (rank + 1) * count)",
        ),
        (
            "reduce_scatter",
            lambda b: (b[0:12], b[3:7]),
            "the output must be the input's part [rank * count, (rank + 1) * count)",
        ),
        ("all_to_all", lambda b: (b[0:12], b[0:12]), "this collective offers no in-place form"),
        ("send_recv", lambda b: (b[0:4], b[0:4]), "this collective offers no in-place form"),
    ],
)
def test_overlap_other_than_in_place(group: rt.LocalGroup, kind: str, make: Any, words: str) -> None:
    pairs = [make(np.zeros(32, np.float32)) for _ in range(3)]
    text = refused(lambda: group.collective(kind, [p[0] for p in pairs], [p[1] for p in pairs]))
    assert words in text
    assert "overlap, but are not in place" in text
    assert text.startswith(f"{kind}: rank ")


def test_in_place_on_some_ranks_only(group: rt.LocalGroup) -> None:
    xs = arrays(4, 4, 4)
    assert refused(lambda: group.all_reduce(xs, outs=[xs[0], np.zeros(4, np.float32), xs[2]])) == (
        "all_reduce: rank 0 is in place and rank 2 is not; all ranks must do the same"
    )


def test_arrays_of_a_gpu_are_refused_on_the_host(group: rt.LocalGroup) -> None:
    class OnGpu:
        __cuda_array_interface__ = {"shape": (4,), "typestr": "<f4", "data": (4096, False), "version": 3}  # noqa: RUF012

    expected = "all_reduce: rank 0's input lies on cuda 0; this backend needs arrays in host memory"
    assert refused(lambda: group.all_reduce([OnGpu(), OnGpu(), OnGpu()])) == expected
    assert refused(lambda: group.all_reduce([OnGpu(), *arrays(4, 4)], outs=arrays(4, 4, 4))) == expected


def test_unknown_names(group: rt.LocalGroup) -> None:
    assert refused(lambda: group.collective("halo", arrays(4, 4, 4))) == (
        "everything has no collective 'halo'; it has: all_reduce, broadcast, reduce, all_gather, gather, "
        "reduce_scatter, scatter, all_to_all, send_recv"
    )
    assert refused(lambda: group.all_reduce(arrays(4, 4, 4), variant="c9s9r9")) == (
        "all_reduce has no variant 'c9s9r9'; it has: direct"
    )
    assert refused(lambda: group.broadcast(arrays(4, 4, 4), root=0)) == (
        "everything has no broadcast from or to root 0; it has: broadcast (root 2)"
    )


def test_nothing_moves_when_a_call_is_refused(group: rt.LocalGroup) -> None:
    xs = [np.ones(4, np.float32) for _ in range(3)]
    outs = [np.full(4, 7, np.float32) for _ in range(3)]
    refused(lambda: group.all_reduce(xs, op="xor", outs=outs))
    outs[2].flags.writeable = False
    refused(lambda: group.all_reduce(xs, outs=outs))
    assert all((out == 7).all() for out in outs)


def test_a_closed_group_says_so(everything: Path) -> None:
    g = rt.load(everything).local("numpy")
    g.close()
    g.close()
    assert refused(lambda: g.all_reduce(arrays(4, 4, 4))) == "this group is closed; make another by local()"


def test_what_the_source_emits_limits_types_and_operators(tmp_path: Path) -> None:
    path = direct_artefact(tmp_path / "narrow", collective("all_reduce"))
    manifest: Manifest = replace(rt.load(path).manifest, types=("float",), ops=("sum", "max"))
    (path / "manifest.json").write_bytes(manifest_bytes(manifest))
    with rt.load(path).local("numpy") as g:
        g.all_reduce(arrays(4, 4, 4), op="max")
        assert refused(lambda: g.all_reduce(arrays(4, 4, 4), op="min")) == (
            "all_reduce: the artefact was compiled for the operators sum, max (`emit`), not for min"
        )
        assert refused(lambda: g.all_reduce(arrays(4, 4, 4, dtype=np.int32))) == (
            "all_reduce: the artefact was compiled for the types float (`emit`), not for i32"
        )


def test_avg_over_groups_of_different_sizes_is_refused(tmp_path: Path) -> None:
    shards = (
        ManifestShard(((0, 0), (1, 0)), ((0, 0), (1, 0)), True),
        ManifestShard(((2, 0), (3, 0), (4, 0)), ((2, 0), (3, 0), (4, 0)), True),
    )
    path = direct_artefact(tmp_path / "uneven", custom("both", shards, range(5)))
    with rt.load(path).local("numpy") as g:
        out = g.collective("both", [np.full(4, r, np.int32) for r in range(5)], op="sum")
        assert [int(x[0]) for x in out] == [1, 1, 9, 9, 9]
        assert refused(lambda: g.collective("both", arrays(4, 4, 4, 4, 4), op="avg")) == (
            "both reduces over groups of different sizes, so avg has no one divisor; use sum and divide"
        )
