// One rank of a group whose ranks are processes: its blocks as fibres, and the C ABI. See accl_join.h.
#include "accl_rank.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

using namespace accl_rank;

namespace {

constexpr size_t fibre_stack_bytes = 256 * 1024;

thread_local Fibre* starting = nullptr;

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
    if (__atomic_load_n(&head.sleeping, __ATOMIC_RELAXED) != 0) ring(head);
    comm.posted_since = true;
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
            break;
        }
        if (!f.context.start(stacks + i * each + (each - fibre_stack_bytes), fibre_stack_bytes, fibre_main)) return false;
    }
    for (uint32_t live = alone ? 0 : count; live != 0;) {
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
    wake_sleepers();
    return true;
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
        comm->host = accl_host{wait_fibre, vote_alone, nullptr, entered, posted, differs, nullptr};
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
