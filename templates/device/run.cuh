// One block's run of one call: its memory, its counters, await and post. Layouts are shared with the runtime (ABI).
#pragma once

#include "types.cuh"

// The layout of Member, Launch, Report and Host below. The runtime says which one it speaks.
#define ACCL_ABI 4
#if defined(ACCL_RUNTIME_ABI) && ACCL_RUNTIME_ABI != ACCL_ABI
#error "this kernel was generated for another version of acclc_runtime: compile the artefact again"
#endif

namespace accl {

enum { counter_stride = 8 };  // u64: counters lie 64 bytes apart, each has one writer

// The memory of one rank, as this device addresses it.
struct Member {
    u8* input;
    u8* output;
    u8* scratch;
    u64* counters;
    u64* state;  // a (block, channel): calls, slices run before this call; 8 u64 apart
};

// Why a wait ended.
enum Reason { arrived = 0, timed_out = 1, aborted = 2, deadlocked = 3 };

// Written by a block whose wait failed, ``reason`` last; all zero otherwise.
struct Report {
    u32 reason;
    i32 step;
    i32 transfer;
    u32 home;  // position of the rank in whose memory the counter lies
    u32 slot;  // the counter's number there
    u32 unused;
    u64 wanted;
    u64 present;
    u64 slice;
};

// One call, the same for all ranks. ``slot_bytes``: of one piece in scratch.
struct Launch {
    const Member* members;
    Report* reports;  // a (block of all ranks, channel)
    u32* abort;       // not 0: some block gave up
    u64 count;
    u64 slices;
    u64 slot_bytes;
    u64 timeout_ns;
    u64 streaming;  // not 0: more memory is moved than caches hold, so stores may go past them (CPU)
    const u64* lengths;  // where counts vary (see put.cuh); else null
    u64 tag;        // not 0: what this call is, to be compared with the others' where nobody waits for an entry (CPU)
};

// What a CPU run asks of the runtime; each takes the runner it is called from.
struct Host {
    u32 (*wait)(void* runner, const u64* counter, u64 wanted);  // gives a Reason
    u32 (*vote)(void* runner, u32 mine);                        // barrier of the block's threads; gives the largest
    void (*trace)(void* runner, u32 end, i32 step, i32 transfer, u64 slice, u64 bytes);
    // Where ranks are processes; null otherwise. Whoever posts entry counter ``slot`` of this rank has entered: gives a
    // Reason. And: a counter in the memory of rank ``home`` (a position) has grown.
    u32 (*entered)(void* runner, u32 slot);
    void (*posted)(void* runner, u32 home);
    u32 (*differs)(void* runner, u32 slot);  // whoever posts this counter says that it is in another call: gives a Reason
    u32 (*line)(void* runner, const u64* word, u32 flag);  // waits for a flag in the upper half; gives a Reason. Or null
};

// A counter in the memory of rank ``home`` (a position), with its posts a slice.
struct Counter {
    u32 home;
    u32 slot;
    u32 events;
};

// The state of one block (and channel) in one call; every thread has its own copy, all alike but for ``thread``.
struct Run {
    Launch launch;
    u32 rank;  // position in the group
    u32 block;
    u32 channel;
    u32 channels;
    u32 depth;  // slices a scratch slot holds
    u32 contributors;
    u32 thread;
    u32 threads;
    u32 number;  // among the (block, channel) of all ranks
    u64 calls;   // before this call
    u64 base;    // slices before this call
    u64 slice;   // of this call
    u64 phase;   // slice modulo depth, counted over calls where slots are carried over
    bool carried;
    bool by_lines;  // slots hold lines with flags (see lines.cuh)
    u32 failed;     // why this thread did not get a line: a Reason. The block learns it at its next barrier
    bool started;
    bool stopped;  // a wait failed: nothing is done any more
#if !ACCL_CUDA
    const Host* host;
    void* runner;
    u64* progress;  // grows with every post
#endif
};

#if ACCL_CUDA
ACCL_INLINE u64 load_acquire(const u64* address) {
    u64 value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
    return value;
}

ACCL_INLINE void store_release(u64* address, u64 value) {
    asm volatile("st.release.sys.global.u64 [%0], %1;" : : "l"(address), "l"(value) : "memory");
}

ACCL_INLINE u64 nanoseconds() {
    u64 time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    return time;
}

// Barrier of the block's threads; gives whether any thread said so.
ACCL_INLINE u32 vote(const Run&, u32 mine) { return (u32)__syncthreads_or((int)mine); }

ACCL_INLINE void barrier(const Run&) { __syncthreads(); }

// Spins until the counter is there, somebody gave up, or it has not moved for the time-out.
ACCL_CALLED u32 wait_long(Run& r, const u64* counter, u64 wanted) {
    u64 seen = 0;
    u64 since = nanoseconds();
    for (u32 spins = 1;; ++spins) {
        const u64 present = load_acquire(counter);
        if (present >= wanted) return arrived;
        if (spins % 256 != 0) continue;
        if (*(volatile u32*)r.launch.abort != 0) return aborted;
        const u64 now = nanoseconds();
        if (present != seen) {
            seen = present;
            since = now;
        } else if (now - since > r.launch.timeout_ns) {
            return timed_out;
        }
    }
}

ACCL_INLINE void count_progress(Run&) {}
ACCL_INLINE void fence_streams(const Run&) {}
ACCL_INLINE void tell_posted(const Run&, Counter) {}
ACCL_INLINE void trace(Run&, u32, i32, i32, u64) {}
#else
ACCL_INLINE u64 load_acquire(const u64* address) { return __atomic_load_n(address, __ATOMIC_ACQUIRE); }

ACCL_INLINE void store_release(u64* address, u64 value) {
#ifdef ACCL_BUG_RELAXED  // a seeded fault: tests show that ThreadSanitizer finds it
    __atomic_store_n(address, value, __ATOMIC_RELAXED);
#else
    __atomic_store_n(address, value, __ATOMIC_RELEASE);
#endif
}

ACCL_INLINE u32 vote(const Run& r, u32 mine) { return r.threads == 1 ? mine : r.host->vote(r.runner, mine); }

ACCL_INLINE void barrier(const Run& r) { vote(r, 0); }

ACCL_INLINE u32 wait_long(Run& r, const u64* counter, u64 wanted) {
    return r.host->wait(r.runner, counter, wanted);
}

ACCL_INLINE void count_progress(Run& r) {
    __atomic_store_n(r.progress, *r.progress + 1, __ATOMIC_RELAXED);
}

// Stores past the caches are not ordered by a release.
ACCL_INLINE void fence_streams(const Run& r) {
#if defined(__SSE2__)
    if (r.launch.streaming != 0) __builtin_ia32_sfence();
#else
    (void)r;
#endif
}

ACCL_INLINE void tell_posted(const Run& r, Counter c) {
    if (r.host->posted != nullptr) r.host->posted(r.runner, c.home);
}

ACCL_INLINE void trace(Run& r, u32 end, i32 step, i32 transfer, u64 bytes) {
#ifdef ACCL_TRACE
    if (r.thread == 0) r.host->trace(r.runner, end, step, transfer, r.slice, bytes);
#else
    (void)r, (void)end, (void)step, (void)transfer, (void)bytes;
#endif
}
#endif

ACCL_INLINE u64* address_of(const Run& r, Counter c) {
    return r.launch.members[c.home].counters + (u64)c.slot * r.channels * counter_stride +
           (u64)r.channel * counter_stride;
}

// Says who waited for what. The first to give up makes all others do so.
ACCL_CALLED void give_up(Run& r, Counter c, u64 wanted, u32 reason, i32 step, i32 transfer, u64 present) {
    Report& report = r.launch.reports[r.number];
    report.step = step;
    report.transfer = transfer;
    report.home = c.home;
    report.slot = c.slot;
    report.wanted = wanted;
    report.present = present;
    report.slice = r.slice;
    report.reason = reason;
#if ACCL_CUDA
    *(volatile u32*)r.launch.abort = 1;
    __threadfence_system();
#else
    __atomic_store_n(r.launch.abort, 1u, __ATOMIC_RELEASE);
#endif
}

#if ACCL_CUDA
ACCL_INLINE void tag_post(const Run&, Counter) {}
ACCL_INLINE u32 compare_tag(Run&, Counter) { return arrived; }
#else
// What call a slice belongs to lies beside the counter, a word for each slice in flight: it is as safe as the slots are.
ACCL_INLINE u64* tag_of(const Run& r, Counter c) { return address_of(r, c) + 1 + r.phase; }

ACCL_INLINE void tag_post(const Run& r, Counter c) {
    if (r.carried && r.launch.tag != 0) __atomic_store_n(tag_of(r, c), r.launch.tag, __ATOMIC_RELAXED);
}

ACCL_INLINE u32 compare_tag(Run& r, Counter c) {
    if (!r.carried || r.launch.tag == 0) return arrived;
    const bool same = __atomic_load_n(tag_of(r, c), __ATOMIC_RELAXED) == r.launch.tag;
    return same ? (u32)arrived : r.host->differs(r.runner, c.slot);
}
#endif

// After it every thread of the block sees what the counter's writer wrote before its post.
ACCL_INLINE void wait_for(Run& r, Counter c, u64 wanted, i32 step, i32 transfer, bool tagged = false) {
    if (r.stopped) return;
    u32 reason = arrived;
    const u64* const counter = address_of(r, c);
    if (r.thread == 0) {
        if (load_acquire(counter) < wanted) reason = wait_long(r, counter, wanted);
        if (tagged && reason == arrived) reason = compare_tag(r, c);
    }
    if (vote(r, reason) == arrived) return;
    if (r.thread == 0) give_up(r, c, wanted, reason, step, transfer, load_acquire(counter));
    r.stopped = true;
}

// Barrier of the block's threads, after which all know whether one of them did not get a line.
ACCL_CALLED void settle(Run& r) {
    if (!r.stopped) r.stopped = vote(r, r.failed) != arrived;
}

ACCL_INLINE void signal(Run& r, Counter c, u64 value) {
    if (r.by_lines) settle(r);
    if (r.stopped) return;
    fence_streams(r);
#ifndef ACCL_BUG_NOSYNC  // a seeded fault: tests show that ThreadSanitizer finds it
    barrier(r);
#endif
    if (r.thread != 0) return;
    tag_post(r, c);
    store_release(address_of(r, c), value);
    count_progress(r);
    tell_posted(r, c);
}

// Once a call: the counter grows by one a call.
ACCL_CALLED void await_entry(Run& r, Counter c, i32 step, i32 transfer) {
    wait_for(r, c, r.calls + 1, step, transfer);
#if !ACCL_CUDA
    if (r.stopped || r.host->entered == nullptr) return;
    const u32 reason = r.thread == 0 ? r.host->entered(r.runner, c.slot) : (u32)arrived;
    if (vote(r, reason) == arrived) return;
    if (r.thread == 0) give_up(r, c, r.calls + 1, reason, step, transfer, load_acquire(address_of(r, c)));
    r.stopped = true;
#endif
}
ACCL_CALLED void post_entry(Run& r, Counter c) { signal(r, c, r.calls + 1); }

// Once a slice: event ``index`` of the slice ``lag`` before this one (carried: also of a call before). Step and transfer
// are for messages.
ACCL_CALLED void await(Run& r, Counter c, u32 index, u32 lag, i32 step, i32 transfer) {
    if ((r.carried ? r.base : 0) + r.slice < lag) return;
    wait_for(r, c, c.events * (r.base + r.slice - lag) + index, step, transfer, lag == 0);
}

ACCL_CALLED void post(Run& r, Counter c, u32 index) { signal(r, c, c.events * (r.base + r.slice) + index); }

// Reads how far earlier calls came.
ACCL_INLINE u64* state_of(const Run& r) {
    return r.launch.members[r.rank].state + ((u64)r.block * r.channels + r.channel) * counter_stride;
}

ACCL_CALLED void begin(Run& r, u32 rank, u32 block) {
    r.rank = rank;
    r.block = block;
    const u64* const state = state_of(r);
    r.calls = state[0];
    r.base = state[1];
    r.slice = 0;
    r.phase = r.carried ? r.base % r.depth : 0;
    r.started = false;
    r.failed = arrived;
    r.stopped = false;
}

ACCL_CALLED bool next_slice(Run& r) {
    if (r.started) {
        if (r.by_lines) settle(r);
        ++r.slice;
        r.phase = r.phase + 1 == r.depth ? 0 : r.phase + 1;
    }
    r.started = true;
    return !r.stopped && r.slice < r.launch.slices;
}

// The next call goes on from here. After a call that gave up the runtime zeroes counters and state.
ACCL_CALLED void end(Run& r) {
    barrier(r);
    if (r.thread != 0 || r.stopped) return;
    u64* const state = state_of(r);
    state[0] = r.calls + 1;
    state[1] = r.base + r.launch.slices;
}

}  // namespace accl
