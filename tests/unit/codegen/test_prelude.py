"""The prelude against Python: partition, 16-bit floats, the shared layouts; and that each file compiles alone."""

from __future__ import annotations

import ctypes
import random
import subprocess
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from codegen_tools import DEVICE, GXX, compiled

from acclc.codegen.generate import PRELUDE
from acclc_runtime.backends.cpu import _Launch, _Member, _Report
from acclc_runtime.backends.cuda import _MEMBER, REPORT
from acclc_runtime.dtypes import f32_to_bf16
from acclc_runtime.partition import boundary, piece

pytestmark = pytest.mark.skipif(GXX is None, reason="needs g++")


@pytest.mark.parametrize("name", PRELUDE["ll"])
@pytest.mark.parametrize("instance", [("f32", "sum"), ("bf16", "avg"), ("b2", "none")])
def test_each_file_compiles_alone(name: str, instance: tuple[str, str]) -> None:
    assert GXX is not None
    flags = [f"-DACCL_TYPE={instance[0]}", f"-DACCL_OP={instance[1]}", "-Wall", "-Wextra", "-Werror"]
    quiet = ["-Wno-unused-function"]  # nobody uses it here
    done = subprocess.run(
        [GXX, "-std=c++17", "-fsyntax-only", "-x", "c++", *flags, *quiet, "-include", str(DEVICE / name), "/dev/null"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


PARTITION = """
#include "partition.cuh"
using namespace accl;
extern "C" u64 boundary_at(u64 count, u64 begin, u64 of) { return boundary(count, begin, of); }
extern "C" void piece_at(u64 first, u64 last, u64 index, u64 pieces, u64* range) {
    const Piece p = piece_of(first, last, index, pieces);
    range[0] = p.first;
    range[1] = p.first + p.length;
}
"""


@pytest.fixture(scope="module")
def partition(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    library = compiled(tmp_path_factory.mktemp("partition"), PARTITION)
    library.boundary_at.argtypes = (ctypes.c_uint64,) * 3
    library.boundary_at.restype = ctypes.c_uint64
    library.piece_at.argtypes = (*(ctypes.c_uint64,) * 4, ctypes.c_void_p)
    return library


def counts(rng: random.Random) -> int:
    """Counts of every size up to 2^40, many of them near something."""
    return rng.choice(
        [rng.randrange(40), rng.randrange(10**5), 2 ** rng.randrange(41) + rng.randrange(-2, 3), rng.randrange(2**40)]
    )


def test_boundaries_are_those_of_the_runtime(partition: ctypes.CDLL) -> None:
    rng = random.Random(1)
    for _ in range(20_000):
        count = max(0, counts(rng))
        of = rng.choice([rng.randrange(1, 50), rng.randrange(1, 2**31)])
        fraction = Fraction(rng.randrange(of + 1), of)
        found = partition.boundary_at(count, fraction.numerator, fraction.denominator)
        assert found == boundary(count, fraction), (count, fraction)


def test_pieces_are_those_of_the_runtime(partition: ctypes.CDLL) -> None:
    rng = random.Random(2)
    range_ = np.zeros(2, np.uint64)
    for _ in range(20_000):
        first = max(0, counts(rng))
        last = first + max(0, counts(rng))
        pieces = rng.choice([1, rng.randrange(1, 20), rng.randrange(1, 2**31)])
        index = rng.choice([0, pieces - 1, rng.randrange(pieces)])
        partition.piece_at(first, last, index, pieces, range_.ctypes.data)
        assert tuple(map(int, range_)) == piece(first, last, index, pieces), (first, last, index, pieces)


FLOATS = """
#include "types.cuh"
using namespace accl;
extern "C" void f16_to_f32(const f16* in, float* out, u64 n) { for (u64 i = 0; i < n; ++i) out[i] = to_float(in[i]); }
extern "C" void f32_to_f16(const float* in, f16* out, u64 n) { for (u64 i = 0; i < n; ++i) out[i] = to_f16(in[i]); }
extern "C" void bf16_to_f32(const bf16* in, float* out, u64 n) { for (u64 i = 0; i < n; ++i) out[i] = to_float(in[i]); }
extern "C" void f32_to_bf16(const float* in, bf16* out, u64 n) { for (u64 i = 0; i < n; ++i) out[i] = to_bf16(in[i]); }
"""


@pytest.fixture(scope="module")
def convert(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., np.ndarray]:
    library = compiled(tmp_path_factory.mktemp("floats"), FLOATS, "-O3")

    def call(name: str, values: np.ndarray, to: type) -> np.ndarray:
        result = np.zeros(len(values), to)
        function = getattr(library, name)
        function.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64)
        function(values.ctypes.data, result.ctypes.data, len(values))
        return result

    return call


def interesting_floats() -> np.ndarray:
    """Every exponent with mantissas near every rounding decision of 16-bit types, and random bits."""
    rng = np.random.default_rng(3)
    edges = [base + d for base in (0, 0x1000, 0x2000, 0x8000, 0x10000, 0x18000, 0x7FF000) for d in (-1, 0, 1)]
    exponents = np.arange(256, dtype=np.int64)[:, None] << 23
    bits = (exponents + np.array(edges)[None, :]).ravel() % 2**31
    both = np.concatenate([bits, bits + 2**31, rng.integers(0, 2**32, 400_000)])
    return both.astype(np.uint32).view(np.float32)


def test_half_to_float_for_every_half(convert: Callable[..., np.ndarray]) -> None:
    halves = np.arange(65536, dtype=np.uint16)
    found = convert("f16_to_f32", halves, np.float32)
    wanted = halves.view(np.float16).astype(np.float32)
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(found[numbers].view(np.uint32), wanted[numbers].view(np.uint32))
    assert np.isnan(found[~numbers]).all()


def test_float_to_half_rounds_to_nearest_even(convert: Callable[..., np.ndarray]) -> None:
    floats = interesting_floats()
    found = convert("f32_to_f16", floats, np.uint16)
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = floats.astype(np.float16)
    numbers = ~np.isnan(floats)
    np.testing.assert_array_equal(found[numbers], wanted[numbers].view(np.uint16))
    assert np.isnan(found[~numbers].view(np.float16)).all()


def test_float_to_bfloat_rounds_to_nearest_even(convert: Callable[..., np.ndarray]) -> None:
    floats = interesting_floats()
    np.testing.assert_array_equal(convert("f32_to_bf16", floats, np.uint16), f32_to_bf16(floats))
    every = np.arange(65536, dtype=np.uint16)
    wanted = every.astype(np.uint32) << 16
    np.testing.assert_array_equal(convert("bf16_to_f32", every, np.float32).view(np.uint32), wanted)


ABI = """
#include "accl_native.h"
#include "run.cuh"
#include <cstddef>
#define SAME(ours, theirs, field) \\
    static_assert(offsetof(accl::ours, field) == offsetof(theirs, field) && \\
                  sizeof(accl::ours::field) == sizeof(theirs::field), #field)
SAME(Member, accl_member, input); SAME(Member, accl_member, output); SAME(Member, accl_member, scratch);
SAME(Member, accl_member, counters); SAME(Member, accl_member, state);
SAME(Report, accl_report, reason); SAME(Report, accl_report, step); SAME(Report, accl_report, transfer);
SAME(Report, accl_report, home); SAME(Report, accl_report, slot); SAME(Report, accl_report, wanted);
SAME(Report, accl_report, present); SAME(Report, accl_report, slice);
SAME(Launch, accl_launch, members); SAME(Launch, accl_launch, reports); SAME(Launch, accl_launch, abort);
SAME(Launch, accl_launch, count); SAME(Launch, accl_launch, slices); SAME(Launch, accl_launch, slot_bytes);
SAME(Launch, accl_launch, timeout_ns); SAME(Launch, accl_launch, streaming);
SAME(Launch, accl_launch, lengths);
SAME(Host, accl_host, wait); SAME(Host, accl_host, vote); SAME(Host, accl_host, trace);
SAME(Host, accl_host, entered); SAME(Host, accl_host, posted);
SAME(Host, accl_host, differs); SAME(Host, accl_host, line);
static_assert(sizeof(accl::Member) == sizeof(accl_member) && sizeof(accl::Report) == sizeof(accl_report) &&
              sizeof(accl::Launch) == sizeof(accl_launch) && sizeof(accl::Host) == sizeof(accl_host), "sizes");
static_assert((int)accl::timed_out == ACCL_TIMED_OUT && (int)accl::aborted == ACCL_ABORTED &&
              (int)accl::deadlocked == ACCL_DEADLOCKED && (int)accl::arrived == ACCL_ARRIVED, "reasons");
extern "C" void sizes(uint64_t* out) {
    out[0] = sizeof(accl::Member); out[1] = sizeof(accl::Report); out[2] = sizeof(accl::Launch);
    out[3] = offsetof(accl::Report, wanted); out[4] = offsetof(accl::Member, state); out[5] = accl::counter_stride;
}
"""


def test_kernels_and_runtime_agree_on_layouts(tmp_path: Path) -> None:
    found = np.zeros(6, np.uint64)
    compiled(tmp_path, ABI).sizes(ctypes.c_void_p(found.ctypes.data))
    member, report, launch, wanted, state, stride = map(int, found)
    assert (ctypes.sizeof(_Member), ctypes.sizeof(_Report), ctypes.sizeof(_Launch)) == (member, report, launch)
    assert (_MEMBER.itemsize, REPORT.itemsize) == (member, report)
    assert (_Report.wanted.offset, _Member.state.offset) == (wanted, state)
    fields = REPORT.fields
    assert fields is not None
    assert fields["wanted"][1] == wanted
    assert stride == 8
