// Waits: first on the core, then giving way to others, then asleep; and what ends one without what it waits for.
#include "accl_rank.h"

#include <poll.h>
#include <sched.h>

using namespace accl_rank;

namespace {

constexpr uint32_t least_spins = 64;           // where others have the cores; enough to find out that it changed
constexpr uint32_t yields_before_sleep = 200;
constexpr uint32_t yields_before_look = 64;
constexpr long sleep_ns = 5 * 1000 * 1000;     // at most: whoever posts wakes the sleeper
constexpr uint64_t part_every_ns = 1000 * 1000;
constexpr uint64_t look_every_ns = 2 * 1000 * 1000;

void pause_core() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace

// Whoever posts looks at once whether the other sleeps, but does not wait until the post is to be seen: the other may
// have looked before, and sleep since. So it looks again, for all posts together, before it waits or returns.
void accl_comm::wake_sleepers() {
    if (!posted_since) return;
    posted_since = false;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);  // the counters before the look, as a sleeper says so before its look
    for (const uint32_t who : schedule->ranks) {
        Head& head = *peers[who].head;
        if (who != rank && __atomic_load_n(&head.sleeping, __ATOMIC_RELAXED) != 0) ring(head);
    }
}

// Until some fibre can go on, or all must end.
void accl_comm::idle() {
    wake_sleepers();
    const uint32_t count = schedule->numbers;
    const auto ready = [&] {
        for (uint32_t i = 0; i < count; ++i) {
            const Fibre& f = *fibres[i];
            if (!f.done && there(f.counter, f.wanted)) return true;
        }
        return false;
    };
    Head& head = own();
    if (schedule->ranks.size() <= cores) {
        for (uint32_t i = 0; i < spins; ++i) {
            if (ready()) return;
            pause_core();
        }
        spins = part_cores() ? least_spins : most_spins;
    }
    quiet_since = 0;
    for (uint32_t i = 1; i <= yields_before_sleep; ++i) {
        if (ready()) return;
        sched_yield();
        if (i % yields_before_look == 0) {
            look(now_ns());
            if (reason != 0) return;
        }
    }
    for (;;) {
        __atomic_store_n(&head.sleeping, 1, __ATOMIC_SEQ_CST);
        const uint32_t bell = __atomic_load_n(&head.doorbell, __ATOMIC_SEQ_CST);
        const bool found = ready();
        if (!found && __atomic_load_n(&head.abort, __ATOMIC_SEQ_CST) == 0) {
            const timespec most = {0, sleep_ns};
            syscall(SYS_futex, &head.doorbell, FUTEX_WAIT, bell, &most, nullptr, 0);
        }
        __atomic_store_n(&head.sleeping, 0, __ATOMIC_RELAXED);
        if (found || ready()) return;
        look(now_ns());
        if (reason != 0) return;
    }
}

// Ranks that yield to each other on one core stay there, though another is free: the scheduler sees no need to move
// them. The one of the larger number goes to a core where no rank of the group is; it is not bound to it. Gives
// whether some rank was on this core, so that to spin is to keep it from running.
bool accl_comm::part_cores() {
    const int here = sched_getcpu();
    if (here < 0) return false;
    __atomic_store_n(&own().core, (uint32_t)here + 1, __ATOMIC_RELAXED);
    bool shared = false, goes = false;
    cpu_set_t allowed, others;
    CPU_ZERO(&others);
    for (const uint32_t who : schedule->ranks) {
        const uint32_t core = __atomic_load_n(&peers[who].head->core, __ATOMIC_RELAXED);
        if (who == rank || core == 0 || core > CPU_SETSIZE) continue;
        const bool same = core == (uint32_t)here + 1;
        shared = shared || same;
        goes = goes || (same && who < rank);
        CPU_SET(core - 1, &others);
    }
    if (!goes) return shared;
    const uint64_t now = now_ns();
    if (now - parted_at < part_every_ns) return shared;
    parted_at = now;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return shared;
    cpu_set_t wanted;
    CPU_ZERO(&wanted);
    for (int core = 0; core < CPU_SETSIZE; ++core) {
        if (CPU_ISSET(core, &allowed) && !CPU_ISSET(core, &others)) CPU_SET(core, &wanted);
    }
    if (CPU_COUNT(&wanted) == 0 || sched_setaffinity(0, sizeof wanted, &wanted) != 0) return shared;
    sched_setaffinity(0, sizeof allowed, &allowed);
    return false;
}

uint64_t accl_comm::progress() const {
    uint64_t sum = 0;
    for (const uint32_t who : schedule->ranks) sum += __atomic_load_n(&peers[who].head->progress, __ATOMIC_RELAXED);
    return sum;
}

bool accl_comm::all_entered() const {
    for (const uint32_t who : schedule->ranks) {
        if (who == rank) continue;
        const Heard heard = hear(*peers[who].head, mine);
        if (!heard.begun && !heard.later) return false;
    }
    return true;
}

// Why nothing happens, if there is a reason for it.
void accl_comm::look(uint64_t now) {
    const uint32_t told = __atomic_load_n(&own().abort, __ATOMIC_ACQUIRE);
    if (told != 0) return end_waits(ACCL_ABORTED, told - 1);
    if (quiet_since == 0) {
        quiet_since = now;
        seen_progress = progress();
    }
    if (now - looked_at < look_every_ns) return;
    looked_at = now;
    for (const uint32_t who : schedule->ranks) {
        if (who == rank) continue;
        const Peer& peer = peers[who];
        // in this order: whoever ends a call and goes away did all its part
        pollfd process = {peer.process, POLLIN, 0};
        const bool died = peer.process >= 0 && poll(&process, 1, 0) > 0;
        const bool closed = __atomic_load_n(&peer.head->closed, __ATOMIC_ACQUIRE) != 0;
        const Heard heard = hear(*peer.head, mine);
        if (heard.begun && !same_call(heard.call, mine)) {
            mismatch(who, heard.call);
            return;
        }
        const bool finished = heard.later || (heard.begun && heard.ended);
        if ((died || closed) && !finished) return end_waits(died ? ACCL_DIED : ACCL_CLOSED, who);
    }
    const uint64_t present = progress();
    if (present != seen_progress) {
        seen_progress = present;
        quiet_since = now;
    }
    const bool entered = all_entered();
    if (now - quiet_since >= (entered ? timeout_ns : entry_timeout_ns)) {
        cause.waited_ns = now - quiet_since;
        return end_waits(entered ? (uint32_t)ACCL_TIMED_OUT : (uint32_t)ACCL_ENTRY_TIMED_OUT, rank);
    }
    if (interrupted != nullptr && interrupted() != 0) end_waits(ACCL_INTERRUPTED, rank);
}

void accl_comm::end_waits(uint32_t why, uint32_t who) {
    reason = why;
    cause.reason = why;
    cause.rank = who;
}

// Peers that finished this call learn it in their next one.
void accl_comm::abort_all() {
    for (Peer& peer : peers) {
        if (peer.head == nullptr) continue;
        uint32_t none = 0;
        __atomic_compare_exchange_n(&peer.head->abort, &none, 1 + rank, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        ring(*peer.head);
    }
}
