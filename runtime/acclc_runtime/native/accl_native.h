// The host side of CPU kernels: runs every thread of every block of all ranks of a group. C ABI.
//
// The structs below are those of the kernels' prelude (ACCL_ABI); a test compiles both in one unit and compares them.
#pragma once

#include <stdint.h>

#define ACCL_NATIVE_ABI 4

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    void* input;
    void* output;
    void* scratch;
    uint64_t* counters;
    uint64_t* state;
} accl_member;

enum { ACCL_ARRIVED = 0, ACCL_TIMED_OUT = 1, ACCL_ABORTED = 2, ACCL_DEADLOCKED = 3 };

typedef struct {
    uint32_t reason;
    int32_t step;
    int32_t transfer;
    uint32_t home;
    uint32_t slot;
    uint32_t unused;
    uint64_t wanted;
    uint64_t present;
    uint64_t slice;
} accl_report;

typedef struct {
    const accl_member* members;
    accl_report* reports;
    uint32_t* abort;
    uint64_t count;
    uint64_t slices;
    uint64_t slot_bytes;
    uint64_t timeout_ns;
    uint64_t streaming;  // not 0: stores may go past the caches
    const uint64_t* lengths;  // where counts vary: of each shard, and where units begin
    uint64_t tag;        // not 0: what this call is, where ranks are processes
} accl_launch;

typedef struct {
    uint32_t (*wait)(void* runner, const uint64_t* counter, uint64_t wanted);
    uint32_t (*vote)(void* runner, uint32_t mine);
    void (*trace)(void* runner, uint32_t end, int32_t step, int32_t transfer, uint64_t slice, uint64_t bytes);
    uint32_t (*entered)(void* runner, uint32_t slot);  // null: ranks are no processes
    void (*posted)(void* runner, uint32_t home);
    uint32_t (*differs)(void* runner, uint32_t slot);
    uint32_t (*line)(void* runner, const uint64_t* word, uint32_t flag);  // null: no kernels with lines
} accl_host;

// A kernel's entry: thread ``thread`` of block-and-channel ``number``.
typedef void (*accl_thread_function)(const accl_launch* launch, const accl_host* host, void* runner,
                                     uint64_t* progress, uint32_t number, uint32_t thread, uint32_t threads);

enum { ACCL_MODE_THREADS = 0, ACCL_MODE_FIBRES = 1 };

// How to run. ``number`` counts (block of all ranks, channel).
typedef struct {
    uint32_t mode;
    uint32_t blocks;         // how many numbers
    uint32_t block_threads;  // threads a block
    uint32_t trace;          // record every put of a kernel built with ACCL_TRACE
    uint64_t seed;           // fibres: 0 runs them in turn, another seed in a random order
    uint64_t delay_ns;       // 0: none. Threads: ``delayed`` sleeps so long at its start, each call.
    uint32_t delayed;        // Fibres: it runs only when nothing else can.
    uint32_t spare;
} accl_options;

// One put of one slice, as thread 0 of the block saw it. ``begin_order``, ``end_order``: among all events of the call.
typedef struct {
    uint32_t number;
    int32_t step;
    int32_t transfer;
    uint32_t spare;
    uint64_t slice;
    uint64_t bytes;
    uint64_t begin_ns;  // since the call began
    uint64_t end_ns;
    uint64_t begin_order;
    uint64_t end_order;
} accl_event;

typedef struct accl_pool accl_pool;

uint32_t accl_native_abi(void);

// A pool keeps its OS threads between calls. One call at a time. NULL: out of memory.
accl_pool* accl_pool_create(void);
void accl_pool_destroy(accl_pool* pool);

// Runs one call to its end: 0; 1: some wait failed (see the reports); 2: no thread or memory could be had.
int accl_pool_run(accl_pool* pool, const accl_options* options, accl_thread_function kernel, const accl_launch* launch);

// When the delay of the last call ended, as an order among its events and in ns since it began (0: none or not yet).
void accl_pool_delay_end(const accl_pool* pool, uint64_t* order, uint64_t* ns);

// The events of the last traced call: their number, and a copy of the first ``most``.
uint64_t accl_pool_events(const accl_pool* pool, accl_event* events, uint64_t most);

#ifdef __cplusplus
}
#endif
