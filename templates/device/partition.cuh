// From fractions and a count to element ranges: the formulas of acclc_runtime/partition.py, in 64 bits without overflow.
#pragma once

#include "types.cuh"

namespace accl {

enum { alignment = 16 };  // elements, ALIGN of partition.py

// A range of elements of a vector of ``count``.
struct Piece {
    u64 first;
    u64 length;
};

// The element at which begin/of (at most 1, ``of`` below 2^31) of the count lies.
ACCL_INLINE u64 boundary(u64 count, u64 begin, u64 of) {
    if (begin >= of) return count;
    const u64 exact = count / of * begin + count % of * begin / of;
    return exact / alignment * alignment;
}

// Where piece ``index`` of ``pieces`` (below 2^31) of ``length`` elements begins.
ACCL_INLINE u64 piece_begin(u64 length, u64 index, u64 pieces) {
    if (index >= pieces) return length;
    const u64 exact = length / pieces * index + length % pieces * index / pieces;
    return exact / alignment * alignment;
}

ACCL_INLINE Piece piece_of(u64 first, u64 last, u64 index, u64 pieces) {
    if (pieces == 1) return Piece{first, last - first};
    const u64 begin = piece_begin(last - first, index, pieces);
    return Piece{first + begin, piece_begin(last - first, index + 1, pieces) - begin};
}

}  // namespace accl
