// Places in the ranks' memory, and put: n sources, reduced, into one place of any rank or into several.
#pragma once

#include "partition.cuh"
#include "run.cuh"

namespace accl {

// Which piece this slice and channel move of a part; the generated code knows the parts by their numbers.
ACCL_CALLED Piece piece(const Run& r, u32 part);

// How long shards are, and where units begin in the inputs (buffer 0) and outputs (1), in elements.
#ifdef ACCL_SHARDS
// Counts vary. ``lengths``: the count of each shard, then for both buffers, each rank, each of ACCL_UNITS units where it
// begins.
ACCL_INLINE u64 count_of(const Run& r, u32 shard) { return r.launch.lengths[shard]; }
ACCL_INLINE u64 unit_begin(const Run& r, u64 buffer, u64 rank, u64 unit) {
    return r.launch.lengths[ACCL_SHARDS + (buffer * ACCL_RANKS + rank) * ACCL_UNITS + unit];
}
#else
ACCL_INLINE u64 count_of(const Run& r, u32) { return r.launch.count; }
ACCL_INLINE u64 unit_begin(const Run& r, u64, u64, u64 unit) { return unit * r.launch.count; }
#endif

// The same for the part [begin, end) of a shard's count.
template <u64 begin, u64 begin_of, u64 end, u64 end_of> ACCL_INLINE Piece cut(const Run& r, u32 shard = 0) {
    const u64 count = count_of(r, shard);
    const u64 first = boundary(count, begin, begin_of);
    const u64 last = boundary(count, end, end_of);
    return piece_of(first, last, r.slice * r.channels + r.channel, r.launch.slices * r.channels);
}

// A unit of a rank's input or output, or one of its scratch slots. In one register, for the generated calls' sake.
struct Place { u64 code; };
enum { in_output = 1, in_scratch = 2, in_kept_output = 3 };

ACCL_INLINE constexpr Place place(u64 buffer, u64 rank, u64 number) { return Place{buffer << 62 | rank << 40 | number}; }
ACCL_INLINE constexpr Place in(u64 rank, u64 unit) { return place(0, rank, unit); }
ACCL_INLINE constexpr Place out(u64 rank, u64 unit) { return place(in_output, rank, unit); }
// The same where the rank sends on what lies there: better left in the caches.
ACCL_INLINE constexpr Place kept(u64 rank, u64 unit) { return place(in_kept_output, rank, unit); }
ACCL_INLINE constexpr Place slot(u64 rank, u64 number) { return place(in_scratch, rank, number); }

// Where a piece lies there. A slot holds just the piece, for the slices in flight and each channel.
ACCL_INLINE u8* address_of(const Run& r, Place place, Piece p) {
    const u64 buffer = place.code >> 62;
    const u64 number = place.code & 0xffffffffffull;
    const Member& member = r.launch.members[place.code >> 40 & 0x3fffff];
    if (buffer == in_scratch)
        return member.scratch + ((number * r.channels + r.channel) * r.depth + r.phase) * r.launch.slot_bytes;
    const u64 output = buffer % 2;
    const u64 first = unit_begin(r, output, place.code >> 40 & 0x3fffff, number) + p.first;
    return (output == 1 ? member.output : member.input) + first * sizeof(Item);
}

template <int n> struct Sources { const u8* at[n]; };
template <int m> struct Targets { u8* at[m]; };

// Where a put writes: one place, or several.
template <int m> struct Places { Place at[m]; };
template <class... P> ACCL_INLINE constexpr Places<sizeof...(P)> to(P... places) {
    return Places<sizeof...(P)>{{places...}};
}

template <int n, bool final> ACCL_INLINE Item reduced(const Item (&values)[n], u64 contributors) {
    auto wide = Convert<Item>::widen(values[0]);
#if defined(__clang__) || ACCL_CUDA
#pragma unroll
#else
#pragma GCC unroll 64
#endif
    for (int k = 1; k < n; ++k) wide = Operator::combine(wide, Convert<Item>::widen(values[k]));
    if (final) wide = Operator::finish(wide, contributors);
    return Convert<Item>::narrow(wide);
}

#if ACCL_CUDA
struct alignas(16) Vector { u32 words[4]; };

union Lanes {
    Vector vector;
    Item items[16 / sizeof(Item)];
};

ACCL_INLINE Vector load_vector(const u8* at) {
    Vector v;
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.words[0]), "=r"(v.words[1]), "=r"(v.words[2]), "=r"(v.words[3]) : "l"(at) : "memory");
    return v;
}

ACCL_INLINE void store_vector(u8* at, Vector v) {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
                 : : "l"(at), "r"(v.words[0]), "r"(v.words[1]), "r"(v.words[2]), "r"(v.words[3]) : "memory");
}

// ``aligned``: on the item's own size; otherwise byte by byte.
template <bool aligned> ACCL_INLINE Item load_item(const u8* at) {
    Item item;
    if (aligned) {
        item = *(const Item*)at;
    } else {
        for (u32 k = 0; k < sizeof(Item); ++k) ((u8*)&item)[k] = at[k];
    }
    return item;
}

template <bool aligned> ACCL_INLINE void store_item(u8* at, Item item) {
    if (aligned) {
        *(Item*)at = item;
    } else {
        for (u32 k = 0; k < sizeof(Item); ++k) at[k] = ((const u8*)&item)[k];
    }
}

template <int n, int m, bool final, bool aligned>
ACCL_INLINE void move_items(const Run& r, u64 from, u64 to, const Targets<m>& targets, const Sources<n>& sources,
                            u64 contributors) {
    for (u64 i = from + r.thread; i < to; i += r.threads) {
        Item values[n];
#pragma unroll
        for (int k = 0; k < n; ++k) values[k] = load_item<aligned>(sources.at[k] + i * sizeof(Item));
        const Item result = reduced<n, final>(values, contributors);
#pragma unroll
        for (int k = 0; k < m; ++k) store_item<aligned>(targets.at[k] + i * sizeof(Item), result);
    }
}

// ``batch`` vectors a thread are loaded before the first is stored, to keep the memory system busy.
template <int n, int m, bool final, int batch>
ACCL_INLINE void move_vectors(const Run& r, u64 vectors, const Targets<m>& targets, const Sources<n>& sources,
                              u64 contributors) {
    for (u64 i = r.thread; i < vectors; i += (u64)r.threads * batch) {
        Lanes lanes[batch][n];
#pragma unroll
        for (int b = 0; b < batch; ++b) {
            const u64 at = i + (u64)b * r.threads;
#pragma unroll
            for (int k = 0; k < n; ++k) {
                if (at < vectors) lanes[b][k].vector = load_vector(sources.at[k] + at * 16);
            }
        }
#pragma unroll
        for (int b = 0; b < batch; ++b) {
            const u64 at = i + (u64)b * r.threads;
            Lanes result = lanes[b][0];
            if (n > 1 || final) {
#pragma unroll
                for (int e = 0; e < (int)(16 / sizeof(Item)); ++e) {
                    Item values[n];
#pragma unroll
                    for (int k = 0; k < n; ++k) values[k] = lanes[b][k].items[e];
                    result.items[e] = reduced<n, final>(values, contributors);
                }
            }
#pragma unroll
            for (int k = 0; k < m; ++k) {
                if (at < vectors) store_vector(targets.at[k] + at * 16, result.vector);
            }
        }
    }
}

template <int n, int m, bool final>
ACCL_INLINE void move(const Run& r, u64 length, Targets<m> targets, Sources<n> sources, u64 contributors) {
    const u64 mine = (u64)targets.at[0];
    u64 misfit = 0;  // against the first target, in the lowest 4 bits
#pragma unroll
    for (int k = 0; k < n; ++k) misfit |= ((u64)sources.at[k] ^ mine) & 15;
#pragma unroll
    for (int k = 1; k < m; ++k) misfit |= ((u64)targets.at[k] ^ mine) & 15;
    if ((misfit | mine) % sizeof(Item) != 0) {
        move_items<n, m, final, false>(r, 0, length, targets, sources, contributors);
        return;
    }
    if (misfit != 0) {
        move_items<n, m, final, true>(r, 0, length, targets, sources, contributors);
        return;
    }
    const u64 lanes = 16 / sizeof(Item);
    const u64 to_boundary = (16 - mine % 16) % 16 / sizeof(Item);
    const u64 head = to_boundary < length ? to_boundary : length;
    const u64 vectors = (length - head) / lanes;
    Sources<n> from;
    Targets<m> into;
#pragma unroll
    for (int k = 0; k < n; ++k) from.at[k] = sources.at[k] + head * sizeof(Item);
#pragma unroll
    for (int k = 0; k < m; ++k) into.at[k] = targets.at[k] + head * sizeof(Item);
    move_items<n, m, final, true>(r, 0, head, targets, sources, contributors);
    move_vectors<n, m, final, (n <= 2 ? 4 : n <= 4 ? 2 : 1)>(r, vectors, into, from, contributors);
    move_items<n, m, final, true>(r, head + vectors * lanes, length, targets, sources, contributors);
}
#else
// What one instruction moves here, at any address.
#if defined(__AVX__)
enum { wide_bytes = 32 };
#else
enum { wide_bytes = 16 };
#endif
typedef i64 Wide __attribute__((vector_size(wide_bytes), aligned(1), may_alias));
typedef i64 AlignedWide __attribute__((vector_size(wide_bytes), may_alias));

// Past the caches; ``at`` is aligned. The block's next post fences it.
ACCL_INLINE void stream(u8* at, Wide value) {
#if defined(__clang__)
    __builtin_nontemporal_store((AlignedWide)value, (AlignedWide*)at);
#elif defined(__AVX__)
    __builtin_ia32_movntdq256((AlignedWide*)at, (AlignedWide)value);
#elif defined(__SSE2__)
    __builtin_ia32_movntdq((AlignedWide*)at, (AlignedWide)value);
#else
    *(Wide*)at = value;
#endif
}

// Library copies are slow on some addresses, and choose by this copy's size whether to go past the caches.
template <bool streaming> ACCL_INLINE void copy_bytes(u8* target, const u8* source, u64 bytes) {
    const u64 misfit = (u64)target % wide_bytes;
    const u64 head = misfit == 0 ? 0 : wide_bytes - misfit;
    if (bytes < 4 * wide_bytes + head) {
        __builtin_memcpy(target, source, bytes);
        return;
    }
    if (head != 0) *(Wide*)target = *(const Wide*)source;  // and more that is written again
    u64 i = head;
    for (; i + 4 * wide_bytes <= bytes; i += 4 * wide_bytes) {
        Wide values[4];
        for (int k = 0; k < 4; ++k) values[k] = *(const Wide*)(source + i + k * wide_bytes);
        for (int k = 0; k < 4; ++k) {
            u8* const at = target + i + k * wide_bytes;
            if (streaming) {
                stream(at, values[k]);
            } else {
                *(Wide*)at = values[k];
            }
        }
    }
    for (; i + wide_bytes <= bytes; i += wide_bytes) *(Wide*)(target + i) = *(const Wide*)(source + i);
    __builtin_memcpy(target + i, source + i, bytes - i);
}

// Sources and target are equal or apart, so that the loop has no dependency between its rounds, which the compiler is
// told in order to vectorise it.
template <int n, bool final>
ACCL_INLINE void reduce_items(u8* target, const Sources<n>& sources, u64 begin, u64 end, u64 contributors) {
#if defined(__clang__)
#pragma clang loop vectorize(assume_safety)
#else
#pragma GCC ivdep
#endif
    for (u64 i = begin; i < end; ++i) {
        Item values[n];
#if defined(__clang__)
#pragma unroll
#else
#pragma GCC unroll 64
#endif
        for (int k = 0; k < n; ++k) __builtin_memcpy(&values[k], sources.at[k] + i * sizeof(Item), sizeof(Item));
        const Item result = reduced<n, final>(values, contributors);
        __builtin_memcpy(target + (i - begin) * sizeof(Item), &result, sizeof(Item));
    }
}

// Any alignment; the range is shared out among the block's threads.
template <int n, int m, bool final, bool streaming>
ACCL_INLINE void move(const Run& r, u64 length, const Targets<m>& targets, const Sources<n>& sources, u64 contributors) {
    const u64 begin = r.threads == 1 ? 0 : length / r.threads * r.thread + length % r.threads * r.thread / r.threads;
    const u64 next = (u64)r.thread + 1;
    const u64 end = r.threads == 1 ? length : length / r.threads * next + length % r.threads * next / r.threads;
    if (begin == end) return;
    if (n > 1 && m == 1 && !streaming) {
        reduce_items<n, final>(targets.at[0] + begin * sizeof(Item), sources, begin, end, contributors);
        return;
    }
    // From a near cache to where it is wanted: a part at a time, unless it is a copy to one place. What is copied as it
    // is needs no place on the stack, and writing longer parts in turn to several places is twice as fast.
    enum : bool { copies = n == 1 && !final };
    enum : u64 { part_bytes = 4096, most = (copies ? 16 * part_bytes : part_bytes) / sizeof(Item) };
    alignas(64) u8 part[part_bytes];
    for (u64 i = begin; i < end;) {
        const u64 stop = (copies && m == 1) || end - i < most ? end : i + most;
        const u8* from = sources.at[0] + i * sizeof(Item);
        if (!copies) {
            reduce_items<n, final>(part, sources, i, stop, contributors);
            from = part;
        }
        for (int k = 0; k < m; ++k) {
            u8* const target = targets.at[k] + i * sizeof(Item);
            if (target != from) copy_bytes<streaming>(target, from, (stop - i) * sizeof(Item));  // in place: it is there
        }
        i = stop;
    }
}
#endif

template <bool final, int n, int m>
ACCL_INLINE void put_sources(Run& r, i32 step, i32 transfer, Piece p, const Places<m>& places, const Sources<n>& sources) {
    if (r.stopped || p.length == 0) return;
    Targets<m> targets;
    for (int k = 0; k < m; ++k) targets.at[k] = address_of(r, places.at[k], p);
    if (m == 1 && n == 1 && !final && sources.at[0] == targets.at[0]) return;  // in place: it is there already
    trace(r, 0, step, transfer, p.length * sizeof(Item));
#if ACCL_CUDA
    move<n, m, final>(r, p.length, targets, sources, r.contributors);
#else
    if (r.launch.streaming != 0 && places.at[0].code >> 62 == in_output) {
        move<n, m, final, true>(r, p.length, targets, sources, r.contributors);
    } else {
        move<n, m, final, false>(r, p.length, targets, sources, r.contributors);
    }
#endif
    trace(r, 1, step, transfer, p.length * sizeof(Item));
}

template <bool final, int m, class... S>
ACCL_INLINE void put_places(Run& r, i32 step, i32 transfer, u32 part, const Places<m>& targets, S... sources) {
    static_assert(sizeof...(S) == 1 || Operator::reduces, "this kernel reduces: build it with an operator");
    const Piece p = piece(r, part);
    put_sources<final>(r, step, transfer, p, targets, Sources<sizeof...(S)>{{address_of(r, sources, p)...}});
}

// Reduces the sources left to right into the target, of each the same part; a single one is copied. Step and transfer
// are for traces.
template <class... S> ACCL_CALLED void put(Run& r, i32 step, i32 transfer, u32 part, Place target, S... sources) {
    put_places<false>(r, step, transfer, part, to(target), sources...);
}

// The same where the reduction is complete with it: avg divides by the number of contributions.
template <class... S> ACCL_CALLED void put_final(Run& r, i32 step, i32 transfer, u32 part, Place target, S... sources) {
    put_places<Operator::finishes>(r, step, transfer, part, to(target), sources...);
}

// Both with several targets: what is reduced once is written to all.
template <int m, class... S>
ACCL_CALLED void put(Run& r, i32 step, i32 transfer, u32 part, Places<m> targets, S... sources) {
    put_places<false>(r, step, transfer, part, targets, sources...);
}

template <int m, class... S>
ACCL_CALLED void put_final(Run& r, i32 step, i32 transfer, u32 part, Places<m> targets, S... sources) {
    put_places<Operator::finishes>(r, step, transfer, part, targets, sources...);
}

}  // namespace accl
