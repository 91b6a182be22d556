// One rank of a group whose ranks are processes. See accl_join.h.
#include "accl_join.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#include <memory>
#include <new>
#include <vector>

namespace {

constexpr size_t fibre_stack_bytes = 256 * 1024;
constexpr uint32_t most_spins = 2000;          // tens of microseconds, where every rank has a core
constexpr uint32_t least_spins = 64;           // where others have the cores; enough to find out that it changed
constexpr uint32_t yields_before_sleep = 200;
constexpr uint32_t yields_before_look = 64;
constexpr long sleep_ns = 5 * 1000 * 1000;     // at most: whoever posts wakes the sleeper
constexpr uint64_t part_every_ns = 1000 * 1000;
constexpr uint64_t look_every_ns = 2 * 1000 * 1000;
constexpr uint32_t remembered_calls = 8;
constexpr uint64_t large_page = 2 << 20;
constexpr int collapse = 25;  // MADV_COLLAPSE, of Linux 6.1

uint64_t now_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void pause_core() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// Library copies are slow on some addresses, and choose by this copy's size whether to go past the caches. Neither
// needs to be aligned.
void copy_out(char* target, const char* source, size_t bytes, bool streaming) {
    typedef long long Wide __attribute__((vector_size(32), aligned(1), may_alias));
    size_t i = (32 - (uintptr_t)target % 32) % 32;
    if (bytes < 256) {
        memcpy(target, source, bytes);
        return;
    }
    memcpy(target, source, i);
    for (; i + 128 <= bytes; i += 128) {
        Wide values[4];
        for (int k = 0; k < 4; ++k) values[k] = *(const Wide*)(source + i + 32 * k);
        for (int k = 0; k < 4; ++k) {
            char* const at = target + i + 32 * k;
#if defined(__AVX__)
            typedef long long Aligned __attribute__((vector_size(32), may_alias));
            if (streaming) {
#if defined(__clang__)
                __builtin_nontemporal_store((Aligned)values[k], (Aligned*)at);
#else
                __builtin_ia32_movntdq256((Aligned*)at, (Aligned)values[k]);
#endif
                continue;
            }
#endif
            *(Wide*)at = values[k];
        }
    }
    memcpy(target + i, source + i, bytes - i);
#if defined(__SSE2__)
    if (streaming) __builtin_ia32_sfence();
#endif
}

// A call that a rank began. The last few stay: where nobody waits for an entry, a rank can be ahead of those that read
// what it called.
struct Said {
    accl_call call;
    uint32_t stamp;  // odd while ``call`` is being written
    uint32_t ended;  // the call is over
};
static_assert(sizeof(Said) == 64, "a call has outgrown its line");

// The begin of a segment. Lines apart: each is written by one process, but for ``abort`` and ``doorbell``.
struct Head {
    alignas(128) Said said[remembered_calls];
    uint64_t latest;  // number of calls: the last is ``said[latest % remembered_calls]``
    alignas(128) uint32_t doorbell;  // a futex: grows when somebody posted to a sleeper
    uint32_t sleeping;
    uint32_t core;  // 1 + where it last waited for longer than it spins
    alignas(128) uint64_t progress;  // posts
    alignas(128) uint32_t abort;  // 1 + the rank that gave up
    alignas(128) uint32_t closed;
    uint32_t words;  // length of the text
    char text[ACCL_WORDS_BYTES];
};
static_assert(sizeof(Head) <= ACCL_HEAD_BYTES, "the head has outgrown its pages");

struct Mapping {
    uint64_t offset;
    uint64_t length;
    char* at;
};

struct Peer {
    Head* head = nullptr;
    int segment = -1;
    int process = -1;
    std::vector<Mapping> mappings;
    uint64_t last_offset[2] = {0, 0};  // of the buffers of the last call, and where they are here
    char* last_at[2] = {nullptr, nullptr};
};
enum Kept { kept_input = 0, kept_output = 1 };

// Cheaper than swapcontext, which asks the kernel for the signal mask.
#if defined(__x86_64__)
extern "C" void accl_fibre_switch(void** save, void* load);
asm(R"(
    .text
    .hidden accl_fibre_switch
    .globl accl_fibre_switch
    .type accl_fibre_switch, @function
accl_fibre_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size accl_fibre_switch, .-accl_fibre_switch
)");

struct Context {
    void* top = nullptr;

    bool start(char* stack, size_t bytes, void (*entry)()) {
        void** words = (void**)(stack + bytes);
        *--words = nullptr;  // whom the entry would return to: it does not
        *--words = (void*)entry;
        for (int saved = 0; saved < 6; ++saved) *--words = nullptr;
        top = words;
        return true;
    }

    void go(Context& from) { accl_fibre_switch(&from.top, top); }
};
#else
struct Context {
    ucontext_t context;

    bool start(char* stack, size_t bytes, void (*entry)()) {
        if (getcontext(&context) != 0) return false;
        context.uc_stack.ss_sp = stack;
        context.uc_stack.ss_size = bytes;
        context.uc_link = nullptr;
        makecontext(&context, entry, 0);
        return true;
    }

    void go(Context& from) { swapcontext(&from.context, &context); }
};
#endif

struct Fibre {
    accl_comm* comm = nullptr;
    uint32_t number = 0;
    bool done = false;
    const uint64_t* counter = nullptr;  // what it waits for
    uint64_t wanted = 0;
    Context context;
};

bool there(const uint64_t* counter, uint64_t wanted) { return __atomic_load_n(counter, __ATOMIC_ACQUIRE) >= wanted; }

}  // namespace

struct accl_schedule {
    uint32_t position = 0;
    uint32_t group = 0;
    uint32_t first_number = 0;
    uint32_t numbers = 0;
    std::vector<uint32_t> ranks;
    std::vector<uint32_t> writers;
    std::vector<accl_member> members;
    std::vector<uint64_t> state;
    std::vector<accl_report> reports;
    uint64_t* state_at = nullptr;
};

struct accl_plan {
    accl_plan_options options;
    uint64_t tag;  // of the call but for its sequence
};

struct accl_comm {
    uint32_t rank = 0;
    uint32_t world = 0;
    uint32_t cores = 0;
    uint64_t entry_timeout_ns = 0;
    uint64_t timeout_ns = 0;
    std::vector<Peer> peers;
    std::vector<uint64_t> sequences;  // a group
    std::vector<std::unique_ptr<accl_schedule>> schedules;
    std::vector<std::unique_ptr<accl_plan>> plans;
    uint64_t staging_offset = 0;
    uint64_t staging_bytes = 0;
    int (*interrupted)(void) = nullptr;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    bool broken = false;
    bool closed = false;

    // The call at work.
    accl_schedule* schedule = nullptr;
    accl_launch launch = {};
    accl_host host = {};
    accl_thread_function kernel = nullptr;
    uint32_t gave_up = 0;
    uint32_t reason = 0;  // not 0: every wait ends with it
    accl_cause cause = {};
    accl_call mine = {};
    bool alone = false;  // one block: it runs on the caller's stack
    std::vector<std::unique_ptr<Fibre>> fibres;
    Context scheduler;
    char* stacks = nullptr;
    size_t stacks_bytes = 0;
    size_t stack_count = 0;
    uint32_t spins = most_spins;  // of the next wait: fewer after each that spun for nothing
    uint64_t seen_progress = 0;
    uint64_t quiet_since = 0;  // 0: this wait has not looked at a clock yet
    uint64_t looked_at = 0;
    uint64_t parted_at = 0;

    Head& own() const { return *peers[rank].head; }
    bool reserve_fibres(uint32_t count);
    bool run_fibres();
    void idle();
    bool part_cores();
    void look(uint64_t now);
    void end_waits(uint32_t why, uint32_t who);
    void abort_all();
    uint64_t progress() const;
    bool all_entered() const;
    uint32_t check_call(uint32_t position);
    uint32_t check_entry(uint32_t position);
    uint32_t mismatch(uint32_t who, const accl_call& theirs);
    char* address_at(uint32_t who, uint64_t offset);
    char* buffer_at(uint32_t who, Kept which, uint64_t offset);
    void publish(const accl_call& call);
    char* shared_place(const void* buffer, uint64_t bytes, uint64_t staged_at, uint64_t* offset) const;
    void* map(uint32_t who, int segment, int process, uint64_t offset, uint64_t length);
};

namespace {

thread_local Fibre* starting = nullptr;

class Locked {
public:
    explicit Locked(pthread_mutex_t& lock) : lock_(lock) { pthread_mutex_lock(&lock_); }
    ~Locked() { pthread_mutex_unlock(&lock_); }

private:
    pthread_mutex_t& lock_;
};

void ring(Head& head) {
    __atomic_fetch_add(&head.doorbell, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &head.doorbell, FUTEX_WAKE, 1 << 30, nullptr, nullptr, 0);
}

// A call as its rank wrote it; false while that is being done.
bool read_call(const Said& said, accl_call* call, bool* ended) {
    const uint32_t before = __atomic_load_n(&said.stamp, __ATOMIC_ACQUIRE);
    const volatile uint64_t* const from = (const volatile uint64_t*)&said.call;
    uint64_t words[sizeof(accl_call) / 8];
    for (size_t i = 0; i < sizeof(accl_call) / 8; ++i) words[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
    *ended = __atomic_load_n(&said.ended, __ATOMIC_RELAXED) != 0;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    memcpy(call, words, sizeof words);
    return before % 2 == 0 && before == __atomic_load_n(&said.stamp, __ATOMIC_RELAXED);
}

// What a rank says of a call of ours: that it began it (what it called, and whether that is over), or a later one.
struct Heard {
    bool begun = false;
    bool ended = false;
    bool later = false;
    accl_call call = {};
    accl_call last = {};  // the last that it began
};

Heard hear(const Head& head, const accl_call& mine) {
    Heard heard;
    const uint64_t latest = __atomic_load_n(&head.latest, __ATOMIC_ACQUIRE);
    for (uint32_t back = 0; back < remembered_calls && back < latest; ++back) {
        accl_call call;
        bool ended;
        if (!read_call(head.said[(latest - back) % remembered_calls], &call, &ended)) continue;
        if (back == 0) heard.last = call;
        if (call.group != mine.group) continue;
        if (call.sequence > mine.sequence) heard.later = true;
        if (call.sequence != mine.sequence) continue;
        heard.begun = true;
        heard.ended = ended;
        heard.call = call;
        break;
    }
    return heard;
}

bool same_call(const accl_call& a, const accl_call& b) {
    return a.sequence == b.sequence && a.group == b.group && a.collective == b.collective && a.variant == b.variant &&
           a.dtype == b.dtype && a.op == b.op && a.count == b.count &&
           (a.in_place == b.in_place || a.in_place == ACCL_EITHER || b.in_place == ACCL_EITHER);
}

// The same for calls that fit together, as far as that can be; ``in_place`` of ranks without both buffers is another.
uint64_t tag_of(const accl_call& call) {
    uint64_t tag = call.count;
    for (const uint64_t word : {call.collective, call.variant, call.dtype, call.op, call.in_place}) {
        tag = (tag ^ word) * 0xff51afd7ed558ccdull;
        tag ^= tag >> 29;
    }
    return tag;
}

void give_way(Fibre& f) { f.comm->scheduler.go(f.context); }

uint32_t wait_fibre(void* runner, const uint64_t* counter, uint64_t wanted) {
    Fibre& f = *(Fibre*)runner;
    f.counter = counter;
    f.wanted = wanted;
    while (!there(counter, wanted)) {
        if (f.comm->reason != 0) return f.comm->reason;
        if (f.comm->alone) {
            f.comm->idle();
        } else {
            give_way(f);
        }
    }
    f.counter = nullptr;
    return ACCL_ARRIVED;
}

uint32_t vote_alone(void*, uint32_t mine) { return mine; }

void posted(void* runner, uint32_t home) {
    accl_comm& comm = *((Fibre*)runner)->comm;
    const uint32_t who = comm.schedule->ranks[home];
    if (who == comm.rank) return;
    Head& head = *comm.peers[who].head;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);  // the counter before the look, as a sleeper says so before its look
    if (__atomic_load_n(&head.sleeping, __ATOMIC_RELAXED) != 0) ring(head);
}

uint32_t entered(void* runner, uint32_t slot) {
    accl_comm& comm = *((Fibre*)runner)->comm;
    return comm.check_entry(comm.schedule->writers[slot]);
}

uint32_t differs(void* runner, uint32_t slot) {
    accl_comm& comm = *((Fibre*)runner)->comm;
    return comm.check_call(comm.schedule->writers[slot]);
}

// A kernel of one block a rank: every rank gets every rank's row of ``count`` words, in order of position. A rank's
// board, at its counters, has two halves, each a number on a line of its own and a row. Who writes a half again has seen
// the rows after it of all ranks, so all have read it.
void exchange_rows(const accl_launch* launch, const accl_host* host, void* runner, uint64_t* progress, uint32_t, uint32_t,
                   uint32_t) {
    accl_schedule& schedule = *((Fibre*)runner)->comm->schedule;
    const uint64_t words = launch->count;
    const uint64_t number = ++schedule.state_at[0];
    const uint64_t half = number % 2 * (8 + (words + 7) / 8 * 8);
    const accl_member& mine = launch->members[schedule.position];
    uint64_t* const output = (uint64_t*)mine.output;
    memcpy(mine.counters + half + 8, mine.input, words * 8);
    __atomic_store_n(mine.counters + half, number, __ATOMIC_RELEASE);
    __atomic_store_n(progress, *progress + 1, __ATOMIC_RELAXED);
    for (uint32_t n = 0; n < schedule.ranks.size(); ++n) host->posted(runner, n);
    for (uint32_t n = 0; n < schedule.ranks.size(); ++n) {
        const uint64_t* const at = launch->members[n].counters + half;
        if (host->wait(runner, at, number) != ACCL_ARRIVED) return;
        memcpy(output + n * words, at + 8, words * 8);
    }
}

void fibre_main() {
    Fibre& f = *starting;
    accl_comm& comm = *f.comm;
    comm.kernel(&comm.launch, &comm.host, &f, &comm.own().progress, f.number, 0, 1);
    f.done = true;
    give_way(f);
}

}  // namespace

bool accl_comm::reserve_fibres(uint32_t count) {
    while (fibres.size() < count) {
        fibres.push_back(std::make_unique<Fibre>());
        fibres.back()->comm = this;
    }
    if (count <= stack_count) return true;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t each = fibre_stack_bytes + page;
    void* got = mmap(nullptr, count * each, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got == MAP_FAILED) return false;
    if (stacks != nullptr) munmap(stacks, stacks_bytes);
    stacks = (char*)got;
    stacks_bytes = count * each;
    stack_count = count;
    for (size_t i = 0; i < count; ++i) {  // a guard page below each stack
        if (mprotect(stacks + i * each, page, PROT_NONE) != 0) return false;
    }
    return true;
}

bool accl_comm::run_fibres() {
    const size_t each = stacks_bytes / stack_count;
    const uint32_t count = schedule->numbers;
    for (uint32_t i = 0; i < count; ++i) {
        Fibre& f = *fibres[i];
        f.number = schedule->first_number + i;
        f.done = false;
        f.counter = nullptr;
        if (alone) {
            kernel(&launch, &host, &f, &own().progress, f.number, 0, 1);
            return true;
        }
        if (!f.context.start(stacks + i * each + (each - fibre_stack_bytes), fibre_stack_bytes, fibre_main)) return false;
    }
    for (uint32_t live = count; live != 0;) {
        bool any = false;
        for (uint32_t i = 0; i < count; ++i) {
            Fibre& f = *fibres[i];
            if (f.done || (f.counter != nullptr && reason == 0 && !there(f.counter, f.wanted))) continue;
            any = true;
            starting = &f;
            f.context.go(scheduler);
            if (f.done) --live;
        }
        if (!any) idle();
    }
    return true;
}

// Until some fibre can go on, or all must end.
void accl_comm::idle() {
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

uint32_t accl_comm::mismatch(uint32_t who, const accl_call& theirs) {
    cause.theirs = theirs;
    end_waits(ACCL_MISMATCH, who);
    return ACCL_MISMATCH;
}

// Something of another rank is there: does it call what this rank calls?
uint32_t accl_comm::check_call(uint32_t position) {
    const uint32_t who = schedule->ranks[position];
    const Heard heard = hear(*peers[who].head, mine);
    if (heard.begun && same_call(heard.call, mine)) return ACCL_ARRIVED;
    return mismatch(who, heard.begun ? heard.call : heard.last);
}

// Another rank has entered: does it call what this rank calls, and where do its buffers lie?
uint32_t accl_comm::check_entry(uint32_t position) {
    const uint32_t who = schedule->ranks[position];
    const Heard heard = hear(*peers[who].head, mine);
    if (!heard.begun || !same_call(heard.call, mine)) return mismatch(who, heard.begun ? heard.call : heard.last);
    accl_member& member = schedule->members[position];
    if (heard.call.input != 0) member.input = buffer_at(who, kept_input, heard.call.input);
    if (heard.call.output != 0) member.output = buffer_at(who, kept_output, heard.call.output);
    if ((heard.call.input == 0 || member.input != nullptr) && (heard.call.output == 0 || member.output != nullptr)) {
        return ACCL_ARRIVED;
    }
    end_waits(ACCL_NO_MEMORY, who);
    return ACCL_NO_MEMORY;
}

char* accl_comm::buffer_at(uint32_t who, Kept which, uint64_t offset) {
    Peer& peer = peers[who];
    if (peer.last_offset[which] != offset) {
        peer.last_at[which] = address_at(who, offset);
        peer.last_offset[which] = offset;
    }
    return peer.last_at[which];
}

// Where an offset of a segment is here; maps what the segment has grown by.
char* accl_comm::address_at(uint32_t who, uint64_t offset) {
    Peer& peer = peers[who];
    for (int attempt = 0; attempt < 2; ++attempt) {
        uint64_t mapped = 0;
        for (const Mapping& m : peer.mappings) {
            if (m.offset + m.length > mapped) mapped = m.offset + m.length;
            if (offset < m.offset || offset >= m.offset + m.length) continue;
            return m.at + (offset - m.offset);
        }
        const off_t size = lseek(peer.segment, 0, SEEK_END);
        if (size < 0 || (uint64_t)size <= mapped) return nullptr;
        if (map(who, peer.segment, peer.process, mapped, (uint64_t)size - mapped) == nullptr) return nullptr;
    }
    return nullptr;
}

namespace {

// Maps a part of a file so that it can have large pages, if it is that long: the address fits to the offset.
void* map_file(int file, uint64_t offset, uint64_t length) {
    const int protection = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_POPULATE;
    if (length < large_page) return mmap(nullptr, length, protection, flags, file, (off_t)offset);
    void* const got = mmap(nullptr, length + large_page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got == MAP_FAILED) return got;
    char* const first = (char*)got;
    const uint64_t before = (offset - (uint64_t)(uintptr_t)first) % large_page;
    void* const at = mmap(first + before, length, protection, flags | MAP_FIXED, file, (off_t)offset);
    if (at == MAP_FAILED) {
        munmap(got, length + large_page);
        return at;
    }
    if (before != 0) munmap(first, before);
    munmap(first + before + length, large_page - before);
    return at;
}

// Puts memory into large pages, where the system can: the copies of large arrays are faster by a third. All who map it
// later have them too.
void enlarge_pages(char* at, uint64_t length) {
    const uint64_t before = (0 - (uint64_t)(uintptr_t)at) % large_page;
    if (length < before + large_page) return;
    (void)madvise(at + before, (length - before) / large_page * large_page, collapse);
}

}  // namespace

void* accl_comm::map(uint32_t who, int segment, int process, uint64_t offset, uint64_t length) {
    void* const at = map_file(segment, offset, length);
    if (at == MAP_FAILED) return nullptr;
    if (who == rank) enlarge_pages((char*)at, length);
    Peer& peer = peers[who];
    peer.segment = segment;
    peer.process = process;
    if (offset == 0) peer.head = (Head*)at;
    peer.mappings.push_back(Mapping{offset, length, (char*)at});
    return at;
}

void accl_comm::publish(const accl_call& call) {
    const uint64_t number = own().latest + 1;
    Said& said = own().said[number % remembered_calls];
    const uint32_t stamp = said.stamp;
    __atomic_store_n(&said.stamp, stamp + 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    uint64_t words[sizeof(accl_call) / 8];
    memcpy(words, &call, sizeof words);
    uint64_t* const to = (uint64_t*)&said.call;
    for (size_t i = 0; i < sizeof(accl_call) / 8; ++i) __atomic_store_n(&to[i], words[i], __ATOMIC_RELAXED);
    __atomic_store_n(&said.ended, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&said.stamp, stamp + 2, __ATOMIC_RELEASE);
    __atomic_store_n(&own().latest, number, __ATOMIC_RELEASE);
}

// A buffer where the others reach it: itself, if it lies in this rank's segment, else in the staging memory.
char* accl_comm::shared_place(const void* buffer, uint64_t bytes, uint64_t staged_at, uint64_t* offset) const {
    const char* const at = (const char*)buffer;
    for (const Mapping& m : peers[rank].mappings) {
        if (at < m.at || at + bytes > m.at + m.length) continue;
        *offset = m.offset + (uint64_t)(at - m.at);
        return (char*)buffer;
    }
    if (staged_at + bytes > staging_bytes) return nullptr;
    *offset = staging_offset + staged_at;
    for (const Mapping& m : peers[rank].mappings) {
        if (*offset >= m.offset && *offset < m.offset + m.length) return m.at + (*offset - m.offset);
    }
    return nullptr;
}

extern "C" {

uint32_t accl_join_abi(void) { return ACCL_JOIN_ABI; }

accl_thread_function accl_rows_kernel(void) { return exchange_rows; }

uint64_t accl_head_bytes(void) { return ACCL_HEAD_BYTES; }

accl_comm* accl_comm_create(uint32_t rank, uint32_t world, uint32_t cores, uint64_t entry_timeout_ns, uint64_t timeout_ns) {
    try {
        auto comm = std::make_unique<accl_comm>();
        comm->rank = rank;
        comm->world = world;
        comm->cores = cores;
        comm->entry_timeout_ns = entry_timeout_ns;
        comm->timeout_ns = timeout_ns;
        comm->peers.resize(world);
        comm->host = accl_host{wait_fibre, vote_alone, nullptr, entered, posted, differs};
        return comm.release();
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

void* accl_comm_map(accl_comm* comm, uint32_t rank, int segment, int process, uint64_t offset, uint64_t length) {
    const Locked locked(comm->lock);
    return comm->map(rank, segment, process, offset, length);
}

void accl_comm_staging(accl_comm* comm, uint64_t offset, uint64_t bytes) {
    const Locked locked(comm->lock);
    comm->staging_offset = offset;
    comm->staging_bytes = bytes;
}

void accl_comm_interrupts(accl_comm* comm, int (*pending)(void)) { comm->interrupted = pending; }

accl_schedule* accl_schedule_create(accl_comm* comm, const accl_schedule_options* o) {
    const Locked locked(comm->lock);
    try {
        auto made = std::make_unique<accl_schedule>();
        made->position = o->position;
        made->group = o->group;
        made->first_number = o->first_number;
        made->numbers = o->numbers;
        made->ranks.assign(o->ranks, o->ranks + o->members);
        made->writers.assign(o->writers, o->writers + o->counters);
        made->reports.assign(o->all_numbers, accl_report{});
        made->state.assign(((size_t)o->numbers + 1) * 8, 0);
        made->state_at = (uint64_t*)(((uintptr_t)made->state.data() + 63) / 64 * 64);
        made->members.assign(o->members, accl_member{});
        for (uint32_t n = 0; n < o->members; ++n) {
            const uint32_t who = o->ranks[n];
            accl_member& m = made->members[n];
            m.counters = (uint64_t*)comm->address_at(who, o->counters_at[n]);
            m.scratch = comm->address_at(who, o->scratch_at[n]);
        }
        made->members[o->position].state = made->state_at;
        if (comm->sequences.size() <= o->group) comm->sequences.resize(o->group + 1, 0);
        if (!comm->reserve_fibres(o->numbers)) return nullptr;
        comm->schedules.push_back(std::move(made));
        return comm->schedules.back().get();
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

accl_plan* accl_plan_create(accl_comm* comm, const accl_plan_options* options) {
    const Locked locked(comm->lock);
    try {
        comm->plans.push_back(std::make_unique<accl_plan>(accl_plan{*options, tag_of(options->call)}));
        return comm->plans.back().get();
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

uint64_t accl_comm_forget_plans(accl_comm* comm) {
    const Locked locked(comm->lock);
    const uint64_t number = comm->plans.size();
    comm->plans.clear();
    return number;
}

static int run_locked(accl_comm& comm, const accl_plan& made, const void* input, void* output) {
    if (comm.broken || comm.closed) return ACCL_BROKEN;
    const accl_plan_options& plan = made.options;
    accl_schedule& schedule = *plan.schedule;
    accl_call call = plan.call;
    char* target = (char*)output;
    uint64_t staged = 0;
    if (plan.shared_output != 0) {
        target = comm.shared_place(output, plan.output_bytes, 0, &call.output);
        if (target == nullptr) return ACCL_NO_STAGING;
        if (target != output) staged = (plan.output_bytes + 63) / 64 * 64;
    }
    if (plan.shared_input != 0) {
        char* const source = comm.shared_place(input, plan.input_bytes, staged, &call.input);
        if (source == nullptr) return ACCL_NO_STAGING;
        if (source != input) copy_out(source, (const char*)input, plan.input_bytes, plan.streaming != 0);
    }
    if (plan.holes != 0 && target != output) memcpy(target, output, plan.output_bytes);
    call.sequence = ++comm.sequences[schedule.group];
    call.group = schedule.group;
    comm.mine = call;
    comm.alone = schedule.numbers == 1;
    comm.schedule = &schedule;
    comm.kernel = plan.kernel;
    comm.reason = 0;
    comm.gave_up = 0;
    const uint32_t told = __atomic_load_n(&comm.own().abort, __ATOMIC_ACQUIRE);
    if (told != 0) {  // by a rank that gave up, or abort(); this call might not wait, and so not look
        comm.broken = true;
        comm.end_waits(ACCL_ABORTED, told - 1);
        comm.cause.mine = call;
        return ACCL_FAILED;
    }
    comm.publish(call);
    schedule.members[schedule.position].input = (void*)input;
    schedule.members[schedule.position].output = target;
    comm.launch = accl_launch{schedule.members.data(), schedule.reports.data(), &comm.gave_up, call.count, plan.slices,
                              plan.slot_bytes, comm.timeout_ns, plan.streaming, plan.lengths,
                              plan.tagged != 0 ? (made.tag + call.sequence * 0x9e3779b97f4a7c15ull) | 1 : 0};
    if (!comm.run_fibres()) return ACCL_NO_MEMORY;
    if (comm.reason != 0 || comm.gave_up != 0) {
        comm.broken = true;
        comm.cause.mine = call;
        if (comm.reason == ACCL_INTERRUPTED) {
            char words[64];
            snprintf(words, sizeof words, "failed:rank %u was interrupted", comm.rank);
            accl_comm_say(&comm, words);
        }
        if (comm.reason != ACCL_ABORTED) comm.abort_all();  // else whoever gave up has told all
        return ACCL_FAILED;
    }
    if (target != output) copy_out((char*)output, target, plan.output_bytes, plan.streaming != 0);
    Head& head = comm.own();
    __atomic_store_n(&head.said[head.latest % remembered_calls].ended, 1, __ATOMIC_RELEASE);
    return ACCL_DONE;
}

int accl_comm_run(accl_comm* comm, accl_plan* plan, const void* input, void* output, int wait) {
    if (pthread_mutex_trylock(&comm->lock) != 0) {
        if (wait == 0) return ACCL_BUSY;
        pthread_mutex_lock(&comm->lock);
    }
    const int status = run_locked(*comm, *plan, input, output);
    pthread_mutex_unlock(&comm->lock);
    return status;
}

void accl_comm_cause(const accl_comm* comm, accl_cause* cause) { *cause = comm->cause; }

uint32_t accl_comm_reports(const accl_comm* comm, const accl_report** reports) {
    if (comm->schedule == nullptr) return 0;
    *reports = comm->schedule->reports.data();
    return (uint32_t)comm->schedule->reports.size();
}

void accl_comm_abort(accl_comm* comm) { comm->abort_all(); }

void accl_comm_say(accl_comm* comm, const char* text) {
    Head& head = comm->own();
    const size_t length = strnlen(text, ACCL_WORDS_BYTES);
    memcpy(head.text, text, length);
    __atomic_store_n(&head.words, (uint32_t)length, __ATOMIC_RELEASE);
}

uint32_t accl_comm_heard(const accl_comm* comm, uint32_t rank, char* text) {
    const Head& head = *comm->peers[rank].head;
    const uint32_t length = __atomic_load_n(&head.words, __ATOMIC_ACQUIRE);
    if (length > ACCL_WORDS_BYTES) return 0;
    memcpy(text, head.text, length);
    return length;
}

void accl_comm_close(accl_comm* comm) {
    const Locked locked(comm->lock);
    if (comm->closed) return;
    comm->closed = true;
    if (comm->peers[comm->rank].head != nullptr) __atomic_store_n(&comm->own().closed, 1, __ATOMIC_RELEASE);
}

void accl_comm_destroy(accl_comm* comm) {
    for (const Peer& peer : comm->peers) {
        for (const Mapping& m : peer.mappings) munmap(m.at, m.length);
    }
    if (comm->stacks != nullptr) munmap(comm->stacks, comm->stacks_bytes);
    delete comm;
}

}  // extern "C"
