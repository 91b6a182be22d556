from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acclc_runtime.partition import ALIGN, boundary, extent, longest_piece, piece
from acclc_runtime.slicing import SLICE_BYTES, plan_slices

counts = st.one_of(st.integers(0, 300), st.integers(0, 2**40))
weights = st.lists(st.integers(1, 50), min_size=1, max_size=12)


def fractions_of(parts: list[int]) -> list[Fraction]:
    """Boundaries 0 = f_0 < f_1 < ... < f_n = 1 of chunks with these weights."""
    total = sum(parts)
    return [Fraction(sum(parts[:i]), total) for i in range(len(parts) + 1)]


@settings(max_examples=300, deadline=None)
@given(counts, weights)
def test_chunks_tile_the_vector_in_order(count: int, parts: list[int]) -> None:
    edges = fractions_of(parts)
    end = 0
    for begin_at, end_at in pairwise(edges):
        first, last = extent(count, begin_at, end_at)
        assert first == end
        assert last >= first
        end = last
    assert end == count


@settings(max_examples=300, deadline=None)
@given(counts, st.fractions(0, 1), st.fractions(0, 1))
def test_boundaries_grow_with_their_fraction_and_are_aligned_inside(count: int, one: Fraction, other: Fraction) -> None:
    low, high = sorted((one, other))
    assert 0 <= boundary(count, low) <= boundary(count, high) <= count
    assert high == 1 or boundary(count, high) % ALIGN == 0
    assert abs(boundary(count, high) - count * high) < ALIGN


def test_boundary_values() -> None:
    assert boundary(100, Fraction(1, 3)) == 32
    assert boundary(100, Fraction(2, 3)) == 64
    assert boundary(100, Fraction(1)) == 100
    assert boundary(15, Fraction(1, 2)) == 0
    assert boundary(2**40, Fraction(1, 2)) == 2**39


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**40), counts, st.integers(1, 40))
def test_pieces_tile_their_range_and_none_is_longer_than_promised(first: int, length: int, pieces: int) -> None:
    end = first
    bound = longest_piece(length, pieces)
    for index in range(pieces):
        begin, last = piece(first, first + length, index, pieces)
        assert begin == end
        assert begin <= last
        assert last - begin <= bound
        end = last
    assert end == first + length


@pytest.mark.parametrize(("length", "pieces", "lengths"), [(100, 3, [32, 32, 36]), (10, 3, [0, 0, 10]), (0, 2, [0, 0])])
def test_piece_values(length: int, pieces: int, lengths: list[int]) -> None:
    assert [b - a for a, b in (piece(7, 7 + length, i, pieces) for i in range(pieces))] == lengths


@settings(max_examples=300, deadline=None)
@given(counts, st.sampled_from([1, 2, 4, 8]), weights, st.integers(1, 8))
def test_no_piece_of_any_chunk_overflows_a_slot(count: int, item_bytes: int, parts: list[int], channels: int) -> None:
    edges = fractions_of(parts)
    longest = max(b - a for a, b in pairwise(edges))
    slicing = plan_slices(count, item_bytes, longest, channels)
    pieces = slicing.slices * channels
    assert slicing.slices >= 1
    for begin_at, end_at in pairwise(edges):
        first, last = extent(count, begin_at, end_at)
        for index in {0, pieces // 2, pieces - 1}:
            begin, end = piece(first, last, index, pieces)
            assert end - begin <= slicing.piece_elements
    assert slicing.piece_elements * item_bytes <= SLICE_BYTES + ALIGN * item_bytes


def test_small_calls_have_one_slice_and_large_ones_many() -> None:
    assert plan_slices(10, 4, Fraction(1), 1).slices == 1
    assert plan_slices(1 << 20, 4, Fraction(1), 1).slices == 64
    assert plan_slices(1 << 20, 4, Fraction(1), 2).slices == 32
    assert plan_slices(1 << 20, 4, Fraction(1, 4), 1).slices == 17
    assert plan_slices(0, 8, Fraction(1), 1) == plan_slices(0, 8, Fraction(1, 3), 1)
