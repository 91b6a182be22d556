// LL: what arrives in a slot tells that it is there, word by word: no fence, no counter after it, half the bandwidth.
#pragma once

#include "put.cuh"

namespace accl {

// 8 bytes of a piece: each half beside the flag of its slice, stored and loaded in one access of 8 bytes, on whose being
// undivided all depends. The two words may come in either order.
struct Line { u64 words[2]; };
enum { line_data = 8, line_items = line_data / sizeof(Item) };
static_assert(sizeof(Line) == 16 && line_items * sizeof(Item) == line_data, "items do not fill a line");

union Filling {
    u64 data;
    Item items[line_items];
};

// Of the slice, counted over calls. Never 0, which fresh slots hold; no other slice has it among the 2^31 that follow.
ACCL_INLINE u32 flag_of(const Run& r) { return 0x80000000u | (u32)(r.base + r.slice); }

// Once in 2^30 slices a sender writes a slot to its end: nothing there is so old that its flag could come again.
ACCL_INLINE bool renews(const Run& r) { return ((r.base + r.slice) & 0x3fffffffu) < r.depth; }

#if ACCL_CUDA
// A vector access is one access for each of its words, in any order (PTX ISA, memory consistency model).
ACCL_INLINE Line load_line(const u8* at) {
    Line line;
    asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(line.words[0]), "=l"(line.words[1]) : "l"(at) : "memory");
    return line;
}

ACCL_INLINE void store_line(u8* at, Line line) {
    asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};"
                 : : "l"(at), "l"(line.words[0]), "l"(line.words[1]) : "memory");
}

ACCL_INLINE u64 load_word(const u64* word) {
    u64 value;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}

ACCL_INLINE bool claims(u64* word) { return atomicExch(word, 1ull) == 0; }

ACCL_INLINE u32 wait_word(Run& r, const u64* word, u32 flag) {
    const u64 since = nanoseconds();
    for (u32 spins = 1;; ++spins) {
        if (load_word(word) >> 32 == flag) return arrived;
        if (spins % 256 != 0) continue;
        if (*(volatile u32*)r.launch.abort != 0) return aborted;
        if (nanoseconds() - since > r.launch.timeout_ns) return timed_out;
    }
}

// At most 8 bytes of a piece, at any address.
ACCL_INLINE u64 load_data(const u8* at, u64 bytes) {
    if (bytes == 8 && (u64)at % 8 == 0) return *(const u64*)at;
    u64 data = 0;
    if (bytes % 4 == 0 && (u64)at % 4 == 0) {
        for (u32 k = 0; k < bytes; k += 4) data |= (u64) * (const u32*)(at + k) << 8 * k;
    } else {
        for (u32 k = 0; k < bytes; ++k) data |= (u64)at[k] << 8 * k;
    }
    return data;
}

ACCL_INLINE void store_data(u8* at, u64 data, u64 bytes) {
    if (bytes == 8 && (u64)at % 8 == 0) {
        *(u64*)at = data;
    } else if (bytes % 4 == 0 && (u64)at % 4 == 0) {
        for (u32 k = 0; k < bytes; k += 4) *(u32*)(at + k) = (u32)(data >> 8 * k);
    } else {
        for (u32 k = 0; k < bytes; ++k) at[k] = (u8)(data >> 8 * k);
    }
}
#else
// Acquire and release cost nothing on most processors, and make of "seen in this line" an order that tools know.
ACCL_INLINE u64 load_word(const u64* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }

ACCL_INLINE Line load_line(const u8* at) {
    const u64* const words = (const u64*)at;
    return Line{{load_word(words), load_word(words + 1)}};
}

ACCL_INLINE void store_line(u8* at, Line line) {
    u64* const words = (u64*)at;
    for (int half = 0; half < 2; ++half) __atomic_store_n(words + half, line.words[half], __ATOMIC_RELEASE);
}

ACCL_INLINE bool claims(u64* word) { return __atomic_exchange_n(word, 1ull, __ATOMIC_RELAXED) == 0; }

ACCL_INLINE u32 wait_word(Run& r, const u64* word, u32 flag) { return r.host->line(r.runner, word, flag); }

ACCL_INLINE u64 load_data(const u8* at, u64 bytes) {
    u64 data = 0;
    __builtin_memcpy(&data, at, bytes);
    return data;
}

ACCL_INLINE void store_data(u8* at, u64 data, u64 bytes) { __builtin_memcpy(at, &data, bytes); }
#endif

// A source that arrives: a slot, the counter that nobody posts but which names who writes it, and what transfer does.
struct Arrival {
    Place place;
    u32 counter;
    i32 transfer;
};
ACCL_INLINE constexpr Arrival arrival(u64 rank, u64 number, u32 counter, i32 transfer) {
    return Arrival{slot(rank, number), counter, transfer};
}

// A source of a put by lines: plain memory, or lines of the edge of a counter (no_edge: of none).
enum : u32 { no_edge = 0xffffffffu };
struct Feed {
    const u8* at;
    u32 counter;
    i32 transfer;
};
ACCL_INLINE Feed feed_of(const Run& r, Place place, Piece p) { return Feed{address_of(r, place, p), no_edge, -1}; }
ACCL_INLINE Feed feed_of(const Run& r, Arrival arrival, Piece p) {
    return Feed{address_of(r, arrival.place, p), arrival.counter, arrival.transfer};
}

// One thread of a block tells; the word is zeroed with the state, after a call that gave up.
ACCL_CALLED void give_up_line(Run& r, const Feed& feed, const u64* word, u32 reason, i32 step) {
    r.failed = reason;
    if (!claims(state_of(r) + 2)) return;
    give_up(r, Counter{r.rank, feed.counter, 1}, flag_of(r), reason, step, feed.transfer, load_word(word) >> 32);
}

ACCL_INLINE bool has_come(Line line, u32 flag) {
#ifdef ACCL_BUG_HALF  // a seeded fault: tests show that they find it
    return line.words[1] >> 32 == flag;
#else
    return line.words[0] >> 32 == flag && line.words[1] >> 32 == flag;
#endif
}

// The line at ``at`` once it has come; whatever lies there, if it does not.
ACCL_CALLED Line wait_line(Run& r, const Feed& feed, const u8* at, u32 flag, i32 step) {
    for (int half = 0; half < 2; ++half) {
        const u64* const word = (const u64*)at + half;
        const u32 reason = r.failed != arrived ? (u32)arrived : wait_word(r, word, flag);
        if (reason != arrived) give_up_line(r, feed, word, reason, step);
    }
    return load_line(at);
}

// Of all sources first a look, then the waits: what is there already is not waited for in turn.
template <bool final, int n>
ACCL_INLINE Filling filling_of(Run& r, const Feed (&feeds)[n], u64 line, u64 bytes, u32 flag, i32 step) {
    Line lines[n];
    Filling values[n];
#if defined(__clang__) || ACCL_CUDA
#pragma unroll
#endif
    for (int k = 0; k < n; ++k) {
        if (feeds[k].counter == no_edge) {
            values[k].data = load_data(feeds[k].at + line * line_data, bytes);
        } else {
            lines[k] = load_line(feeds[k].at + line * sizeof(Line));
        }
    }
#if defined(__clang__) || ACCL_CUDA
#pragma unroll
#endif
    for (int k = 0; k < n; ++k) {
        if (feeds[k].counter == no_edge) continue;
        const u8* const at = feeds[k].at + line * sizeof(Line);
        if (!has_come(lines[k], flag)) lines[k] = wait_line(r, feeds[k], at, flag, step);
        values[k].data = (lines[k].words[0] & 0xffffffffu) | lines[k].words[1] << 32;
    }
    Filling result = values[0];
    if (n > 1 || final) {
        for (int e = 0; e < (int)line_items; ++e) {
            Item items[n];
            for (int k = 0; k < n; ++k) items[k] = values[k].items[e];
            result.items[e] = reduced<n, final>(items, r.contributors);
        }
    }
    return result;
}

// A piece of no items has a line, too: that it came is what tells of the slots of earlier slices.
template <bool final, class... S>
ACCL_INLINE void put_lines(Run& r, i32 step, i32 transfer, u32 part, Place target, S... sources) {
    static_assert(sizeof...(S) == 1 || Operator::reduces, "this kernel reduces: build it with an operator");
    if (r.stopped || r.failed != arrived) return;
    const Piece p = piece(r, part);
    const Feed feeds[sizeof...(S)] = {feed_of(r, sources, p)...};
    u8* const into = address_of(r, target, p);
    const bool sends = target.code >> 62 == in_scratch;
    const u64 size = p.length * sizeof(Item);
    const u64 lines = size == 0 ? 1 : (size + line_data - 1) / line_data;
    const u32 flag = flag_of(r);
    const u64 above = (u64)flag << 32;
    if (size != 0) trace(r, 0, step, transfer, size);
    for (u64 i = r.thread; i < lines && r.failed == arrived; i += r.threads) {
        const u64 left = size - i * line_data;
        const u64 bytes = left < line_data ? left : (u64)line_data;
        const u64 data = filling_of<final>(r, feeds, i, bytes, flag, step).data;
        if (r.failed != arrived) break;
        if (sends) {
            store_line(into + i * sizeof(Line), Line{{above | (data & 0xffffffffu), above | data >> 32}});
        } else {
            store_data(into + i * line_data, data, bytes);
        }
    }
    if (sends && renews(r)) {
        for (u64 i = lines + r.thread; i < r.launch.slot_bytes / sizeof(Line); i += r.threads)
            store_line(into + i * sizeof(Line), Line{{above, above}});
    }
    if (sends) count_progress(r);
    if (size != 0) trace(r, 1, step, transfer, size);
}

// As put and put_final, where the target is a slot or sources arrive in slots.
template <class... S> ACCL_CALLED void lines(Run& r, i32 step, i32 transfer, u32 part, Place target, S... sources) {
    put_lines<false>(r, step, transfer, part, target, sources...);
}

template <class... S>
ACCL_CALLED void lines_final(Run& r, i32 step, i32 transfer, u32 part, Place target, S... sources) {
    put_lines<Operator::finishes>(r, step, transfer, part, target, sources...);
}

}  // namespace accl
