// Runs the threads of all blocks of a group: as OS threads, or as fibres on the calling thread. See accl_native.h.
//
// Threads give true concurrency. Fibres give one order, the same every time, and know at once when nobody can go
// on. Neither knows anything of kernels beside their entry: waits and barriers come back here through accl_host.
#include "accl_native.h"

#include <sched.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace {

constexpr size_t fibre_stack_bytes = 256 * 1024;
constexpr uint32_t spins_before_yield = 2000;  // tens of microseconds, where every runner has a core
constexpr uint32_t yields_before_sleep = 200;
constexpr uint64_t longest_sleep_ns = 500 * 1000;
constexpr uint64_t progress_checks = 16;  // a time-out

uint64_t now_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void sleep_ns(uint64_t ns) {
    timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    while (nanosleep(&t, &t) != 0) {
    }
}

uint32_t usable_cores() {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return (uint32_t)CPU_COUNT(&set);
    return std::thread::hardware_concurrency();
}

void pause_core() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// The barrier of one block's threads, which also finds the largest of their votes.
struct alignas(64) Barrier {
    std::atomic<uint32_t> arrived{0};
    std::atomic<uint32_t> generation{0};
    std::atomic<uint32_t> largest{0};
    uint32_t result = 0;  // written by the last to arrive, before the generation moves
};

struct Fibre {
    ucontext_t context;
    bool done = false;
    const uint64_t* counter = nullptr;  // what it waits for; null: the barrier's generation, or nothing
    uint64_t wanted = 0;
    bool line = false;  // what it waits for is a flag in the upper half
    bool at_barrier = false;
    uint32_t generation = 0;
};

// One thread of one block.
struct alignas(64) Runner {
    uint64_t progress = 0;  // posts so far in this call; read by those who wait
    alignas(64) accl_pool* pool = nullptr;
    uint32_t number = 0;
    uint32_t thread = 0;
    Barrier* barrier = nullptr;
    Fibre fibre;
    accl_event open = {};
    std::vector<accl_event> events;
};

struct Stacks {
    char* memory = nullptr;
    size_t count = 0;
    size_t each = 0;

    bool reserve(size_t wanted) {
        if (wanted <= count) return true;
        release();
        const size_t page = (size_t)sysconf(_SC_PAGESIZE);
        each = fibre_stack_bytes + page;
        void* got = mmap(nullptr, wanted * each, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (got == MAP_FAILED) return false;
        memory = (char*)got;
        count = wanted;
        for (size_t i = 0; i < count; ++i) {  // a guard page below each stack
            if (mprotect(memory + i * each, page, PROT_NONE) != 0) return false;
        }
        return true;
    }

    char* begin(size_t i) const { return memory + i * each + (each - fibre_stack_bytes); }

    void release() {
        if (memory != nullptr) munmap(memory, count * each);
        memory = nullptr;
        count = 0;
    }

    ~Stacks() { release(); }
};

uint64_t next_random(uint64_t& state) {  // xorshift64*
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545f4914f6cdd1dull;
}

}  // namespace

struct accl_pool {
    // The call at work.
    accl_options options = {};
    accl_thread_function kernel = nullptr;
    const accl_launch* launch = nullptr;
    accl_host host = {};
    uint32_t count = 0;  // runners of the call
    bool spins = false;
    uint64_t began_ns = 0;
    std::atomic<uint64_t> order{0};
    uint64_t delay_end_order = 0;
    uint64_t delay_end_ns = 0;

    std::vector<std::unique_ptr<Runner>> runners;
    std::vector<std::unique_ptr<Barrier>> barriers;

    // OS threads, kept; they wait for the generation to move.
    std::vector<std::thread> threads;
    std::atomic<uint32_t> generation{0};
    std::atomic<uint32_t> working{0};
    std::atomic<bool> closing{false};

    // Fibres.
    Stacks stacks;
    ucontext_t scheduler;
    bool deadlocked = false;

    void prepare(const accl_options& wanted, accl_thread_function entry, const accl_launch* what);
    void run_one(Runner& r);
    bool run_threads();
    bool run_fibres();
    bool pass_over_fibres(const std::vector<uint32_t>& turns, bool held, uint32_t& live);
    uint64_t progress() const;
    void end_delay();
};

namespace {

thread_local Runner* starting = nullptr;  // the fibre that is switched to for the first time

bool aborted(const accl_pool& pool) { return __atomic_load_n(pool.launch->abort, __ATOMIC_RELAXED) != 0; }

bool there(const uint64_t* counter, uint64_t wanted, bool line) {
    const uint64_t present = __atomic_load_n(counter, __ATOMIC_ACQUIRE);
    return line ? present >> 32 == wanted : present >= wanted;
}

// Bounds one wait: the time since anything in the group made progress.
class Patience {
public:
    explicit Patience(const accl_pool& pool) : pool_(pool), seen_(pool.progress()), since_(now_ns()), next_(since_) {}

    bool ended() {
        const uint64_t now = now_ns();
        if (now < next_) return false;
        next_ = now + pool_.launch->timeout_ns / progress_checks;
        const uint64_t present = pool_.progress();
        if (present != seen_) {
            seen_ = present;
            since_ = now;
        }
        return now - since_ >= pool_.launch->timeout_ns;
    }

private:
    const accl_pool& pool_;
    uint64_t seen_;
    uint64_t since_;
    uint64_t next_;
};

// Gives way to other runners, for longer and longer.
class BackOff {
public:
    explicit BackOff(bool spins) : spins_(spins ? spins_before_yield : 0) {}

    // Whether this was long enough to look at clocks.
    bool once() {
        if (spins_ > 0) {
            --spins_;
            pause_core();
            return false;
        }
        if (yields_ < yields_before_sleep) {
            sched_yield();
            return ++yields_ % 16 == 0;
        }
        sleep_ns(sleep_);
        if (sleep_ < longest_sleep_ns) sleep_ *= 2;
        return true;
    }

private:
    uint32_t spins_;
    uint32_t yields_ = 0;
    uint64_t sleep_ = 20 * 1000;
};

uint32_t wait_thread(void* runner, const uint64_t* counter, uint64_t wanted, bool line) {
    accl_pool& pool = *((Runner*)runner)->pool;
    BackOff back_off(pool.spins);
    Patience patience(pool);
    for (;;) {
        if (there(counter, wanted, line)) return ACCL_ARRIVED;
        if (!back_off.once()) continue;
        if (aborted(pool)) return ACCL_ABORTED;
        if (patience.ended()) return there(counter, wanted, line) ? ACCL_ARRIVED : ACCL_TIMED_OUT;
    }
}

uint32_t counter_thread(void* runner, const uint64_t* counter, uint64_t wanted) {
    return wait_thread(runner, counter, wanted, false);
}

uint32_t line_thread(void* runner, const uint64_t* word, uint32_t flag) { return wait_thread(runner, word, flag, true); }

// Counts an arrival; whether it was the last, which opens the barrier.
bool arrive(Barrier& b, uint32_t threads, uint32_t mine) {
    uint32_t largest = b.largest.load(std::memory_order_relaxed);
    while (largest < mine && !b.largest.compare_exchange_weak(largest, mine, std::memory_order_relaxed)) {
    }
    if (b.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 < threads) return false;
    b.result = b.largest.load(std::memory_order_relaxed);
    b.largest.store(0, std::memory_order_relaxed);
    b.arrived.store(0, std::memory_order_relaxed);
    b.generation.fetch_add(1, std::memory_order_release);
    return true;
}

// Not bounded: each wait for another block is, and whoever waited comes here in any case.
uint32_t vote_thread(void* runner, uint32_t mine) {
    Runner& r = *(Runner*)runner;
    Barrier& b = *r.barrier;
    const uint32_t before = b.generation.load(std::memory_order_acquire);
    if (!arrive(b, r.pool->options.block_threads, mine)) {
        BackOff back_off(r.pool->spins);
        while (b.generation.load(std::memory_order_acquire) == before) back_off.once();
    }
    return b.result;
}

void give_way(Runner& r) { swapcontext(&r.fibre.context, &r.pool->scheduler); }

uint32_t wait_fibre(void* runner, const uint64_t* counter, uint64_t wanted, bool line) {
    Runner& r = *(Runner*)runner;
    r.fibre.counter = counter;
    r.fibre.wanted = wanted;
    r.fibre.line = line;
    while (!there(counter, wanted, line)) {
        if (r.pool->deadlocked) return ACCL_DEADLOCKED;
        give_way(r);
    }
    r.fibre.counter = nullptr;
    return ACCL_ARRIVED;
}

uint32_t counter_fibre(void* runner, const uint64_t* counter, uint64_t wanted) {
    return wait_fibre(runner, counter, wanted, false);
}

uint32_t line_fibre(void* runner, const uint64_t* word, uint32_t flag) { return wait_fibre(runner, word, flag, true); }

uint32_t vote_fibre(void* runner, uint32_t mine) {
    Runner& r = *(Runner*)runner;
    Barrier& b = *r.barrier;
    r.fibre.generation = b.generation.load(std::memory_order_relaxed);
    if (!arrive(b, r.pool->options.block_threads, mine)) {
        r.fibre.at_barrier = true;
        while (b.generation.load(std::memory_order_relaxed) == r.fibre.generation) give_way(r);
        r.fibre.at_barrier = false;
    }
    return b.result;
}

bool can_go_on(const Runner& r) {
    const Fibre& f = r.fibre;
    if (f.at_barrier) return r.barrier->generation.load(std::memory_order_relaxed) != f.generation;
    return f.counter == nullptr || there(f.counter, f.wanted, f.line) || r.pool->deadlocked;
}

void record(void* runner, uint32_t end, int32_t step, int32_t transfer, uint64_t slice, uint64_t bytes) {
    Runner& r = *(Runner*)runner;
    if (r.pool->options.trace == 0) return;
    const uint64_t order = r.pool->order.fetch_add(1, std::memory_order_relaxed) + 1;
    const uint64_t time = now_ns() - r.pool->began_ns;
    if (end == 0) {
        r.open = accl_event{r.number, step, transfer, 0, slice, bytes, time, 0, order, 0};
        return;
    }
    r.open.end_ns = time;
    r.open.end_order = order;
    r.events.push_back(r.open);
}

void fibre_main() {
    Runner& r = *starting;
    r.pool->run_one(r);
    r.fibre.done = true;
    give_way(r);
}

void thread_main(accl_pool* pool, uint32_t index, uint32_t seen) {
    for (;;) {
        pool->generation.wait(seen, std::memory_order_acquire);
        seen = pool->generation.load(std::memory_order_acquire);
        if (pool->closing.load(std::memory_order_relaxed)) return;
        if (index < pool->count) {
            Runner& r = *pool->runners[index];
            if (pool->options.delay_ns != 0 && r.number == pool->options.delayed && r.thread == 0) {
                sleep_ns(pool->options.delay_ns);
                pool->end_delay();
            }
            pool->run_one(r);
        }
        // Every thread answers, so that none can miss a generation.
        if (pool->working.fetch_sub(1, std::memory_order_acq_rel) == 1) pool->working.notify_all();
    }
}

}  // namespace

uint64_t accl_pool::progress() const {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; ++i) sum += __atomic_load_n(&runners[i]->progress, __ATOMIC_RELAXED);
    return sum;
}

void accl_pool::end_delay() {
    delay_end_order = order.fetch_add(1, std::memory_order_relaxed) + 1;
    delay_end_ns = now_ns() - began_ns;
}

void accl_pool::prepare(const accl_options& wanted, accl_thread_function entry, const accl_launch* what) {
    options = wanted;
    kernel = entry;
    launch = what;
    count = options.blocks * options.block_threads;
    const bool fibres = options.mode == ACCL_MODE_FIBRES;
    host = accl_host{fibres ? counter_fibre : counter_thread, fibres ? vote_fibre : vote_thread, record, nullptr, nullptr,
                     nullptr, fibres ? line_fibre : line_thread};
    spins = count <= usable_cores();
    while (barriers.size() < options.blocks) barriers.push_back(std::make_unique<Barrier>());
    while (runners.size() < count) runners.push_back(std::make_unique<Runner>());
    for (uint32_t i = 0; i < count; ++i) {
        Runner& r = *runners[i];
        r.progress = 0;
        r.pool = this;
        r.number = i / options.block_threads;
        r.thread = i % options.block_threads;
        r.barrier = barriers[r.number].get();
        r.fibre.done = false;
        r.fibre.counter = nullptr;
        r.fibre.at_barrier = false;
        r.events.clear();
    }
    deadlocked = false;
    delay_end_order = 0;
    delay_end_ns = 0;
    order.store(0, std::memory_order_relaxed);
    began_ns = now_ns();
}

void accl_pool::run_one(Runner& r) {
    kernel(launch, &host, &r, &r.progress, r.number, r.thread, options.block_threads);
}

bool accl_pool::run_threads() {
    try {
        while (threads.size() < count) {
            threads.emplace_back(thread_main, this, (uint32_t)threads.size(), generation.load(std::memory_order_relaxed));
        }
    } catch (const std::system_error&) {
        return false;
    }
    working.store((uint32_t)threads.size(), std::memory_order_relaxed);
    generation.fetch_add(1, std::memory_order_release);
    generation.notify_all();
    for (uint32_t left; (left = working.load(std::memory_order_acquire)) != 0;) working.wait(left);
    return true;
}

// Runs every fibre that can go on, once; whether there was one. ``held``: the delayed block does not run.
bool accl_pool::pass_over_fibres(const std::vector<uint32_t>& turns, bool held, uint32_t& live) {
    bool any = false;
    for (const uint32_t i : turns) {
        Runner& r = *runners[i];
        if (r.fibre.done || !can_go_on(r) || (held && r.number == options.delayed)) continue;
        starting = &r;
        swapcontext(&scheduler, &r.fibre.context);
        any = true;
        if (r.fibre.done) --live;
    }
    return any;
}

bool accl_pool::run_fibres() {
    if (!stacks.reserve(count)) return false;
    std::vector<uint32_t> turns(count);
    for (uint32_t i = 0; i < count; ++i) {
        turns[i] = i;
        ucontext_t& context = runners[i]->fibre.context;
        if (getcontext(&context) != 0) return false;
        context.uc_stack.ss_sp = stacks.begin(i);
        context.uc_stack.ss_size = fibre_stack_bytes;
        context.uc_link = nullptr;
        makecontext(&context, fibre_main, 0);
    }
    uint64_t random = options.seed;
    bool held = options.delay_ns != 0;
    for (uint32_t live = count; live != 0;) {
        for (uint32_t i = count - 1; options.seed != 0 && i > 0; --i) {
            std::swap(turns[i], turns[next_random(random) % (i + 1)]);
        }
        if (pass_over_fibres(turns, held, live)) continue;
        if (held) {
            held = false;
            end_delay();
        } else {
            deadlocked = true;  // every wait ends with it, and the kernels report and return
        }
    }
    return true;
}

extern "C" {

uint32_t accl_native_abi(void) { return ACCL_NATIVE_ABI; }

accl_pool* accl_pool_create(void) { return new (std::nothrow) accl_pool; }

void accl_pool_destroy(accl_pool* pool) {
    pool->closing.store(true, std::memory_order_relaxed);
    pool->generation.fetch_add(1, std::memory_order_release);
    pool->generation.notify_all();
    for (std::thread& t : pool->threads) t.join();
    delete pool;
}

int accl_pool_run(accl_pool* pool, const accl_options* options, accl_thread_function kernel, const accl_launch* launch) {
    try {
        pool->prepare(*options, kernel, launch);
        const bool ran = options->mode == ACCL_MODE_FIBRES ? pool->run_fibres() : pool->run_threads();
        if (!ran) return 2;
    } catch (const std::bad_alloc&) {
        return 2;
    }
    return __atomic_load_n(launch->abort, __ATOMIC_ACQUIRE) != 0 ? 1 : 0;
}

void accl_pool_delay_end(const accl_pool* pool, uint64_t* order, uint64_t* ns) {
    *order = pool->delay_end_order;
    *ns = pool->delay_end_ns;
}

uint64_t accl_pool_events(const accl_pool* pool, accl_event* events, uint64_t most) {
    uint64_t number = 0;
    for (uint32_t i = 0; i < pool->count; ++i) {
        for (const accl_event& event : pool->runners[i]->events) {
            if (number < most) events[number] = event;
            ++number;
        }
    }
    return number;
}

}  // extern "C"
