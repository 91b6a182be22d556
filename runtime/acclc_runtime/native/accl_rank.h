// What the parts of one rank share: its state, and what lies at the begin of a segment. See accl_join.h.
#pragma once

#include "accl_fibre.h"
#include "accl_join.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <memory>
#include <vector>

namespace accl_rank {

constexpr uint32_t remembered_calls = 8;
constexpr uint32_t most_spins = 2000;  // tens of microseconds, where every rank has a core

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

struct Fibre {
    accl_comm* comm = nullptr;
    uint32_t number = 0;
    bool done = false;
    const uint64_t* counter = nullptr;  // what it waits for
    uint64_t wanted = 0;
    Context context;
};

// What a rank says of a call of ours: that it began it (what it called, and whether that is over), or a later one.
struct Heard {
    bool begun = false;
    bool ended = false;
    bool later = false;
    accl_call call = {};
    accl_call last = {};  // the last that it began
};

// accl_rank_calls.cpp
Heard hear(const Head& head, const accl_call& mine);
bool same_call(const accl_call& a, const accl_call& b);
uint64_t tag_of(const accl_call& call);

// accl_rank_memory.cpp
void copy_out(char* target, const char* source, size_t bytes, bool streaming);

inline uint64_t now_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

inline bool there(const uint64_t* counter, uint64_t wanted) { return __atomic_load_n(counter, __ATOMIC_ACQUIRE) >= wanted; }

inline void ring(Head& head) {
    __atomic_fetch_add(&head.doorbell, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &head.doorbell, FUTEX_WAKE, 1 << 30, nullptr, nullptr, 0);
}

class Locked {
public:
    explicit Locked(pthread_mutex_t& lock) : lock_(lock) { pthread_mutex_lock(&lock_); }
    ~Locked() { pthread_mutex_unlock(&lock_); }

private:
    pthread_mutex_t& lock_;
};

}  // namespace accl_rank

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
    std::vector<accl_rank::Peer> peers;
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
    bool posted_since = false;  // something, since the last look for sleepers
    bool alone = false;  // one block: it runs on the caller's stack
    std::vector<std::unique_ptr<accl_rank::Fibre>> fibres;
    accl_rank::Context scheduler;
    char* stacks = nullptr;
    size_t stacks_bytes = 0;
    size_t stack_count = 0;
    uint32_t spins = accl_rank::most_spins;  // of the next wait: fewer after each that spun for nothing
    uint64_t seen_progress = 0;
    uint64_t quiet_since = 0;  // 0: this wait has not looked at a clock yet
    uint64_t looked_at = 0;
    uint64_t parted_at = 0;

    accl_rank::Head& own() const { return *peers[rank].head; }

    // accl_join.cpp
    bool reserve_fibres(uint32_t count);
    bool run_fibres();

    // accl_rank_calls.cpp
    void publish(const accl_call& call);
    uint32_t check_call(uint32_t position);
    uint32_t check_entry(uint32_t position);
    uint32_t mismatch(uint32_t who, const accl_call& theirs);

    // accl_rank_waits.cpp
    void wake_sleepers();
    void idle();
    bool part_cores();
    void look(uint64_t now);
    void end_waits(uint32_t why, uint32_t who);
    void abort_all();
    uint64_t progress() const;
    bool all_entered() const;

    // accl_rank_memory.cpp
    void* map(uint32_t who, int segment, int process, uint64_t offset, uint64_t length);
    char* address_at(uint32_t who, uint64_t offset);
    char* buffer_at(uint32_t who, accl_rank::Kept which, uint64_t offset);
    char* shared_place(const void* buffer, uint64_t bytes, uint64_t staged_at, uint64_t* offset) const;
};
