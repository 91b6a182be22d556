// The host side of CPU kernels where every rank is a process: runs the blocks of one rank as fibres on the calling
// thread, in memory that the processes of a group share. C ABI.
//
// Each rank owns a segment (a memfd), which the others map: its head, then counters, scratch and a heap. Whoever
// waits looks, now and then, at what the others' heads say: a call that does not fit, an abort, no progress; and at
// their processes.
#pragma once

#include "accl_native.h"

#define ACCL_JOIN_ABI 3

#ifdef __cplusplus
extern "C" {
#endif

// What a rank is calling. All but where its buffers lie must be the same on all ranks of the group.
typedef struct {
    uint64_t sequence;  // calls on this group of ranks, from 1
    uint32_t group;
    uint32_t collective;
    uint32_t variant;
    uint32_t dtype;
    uint32_t op;
    uint32_t in_place;  // 0, 1, or ACCL_EITHER: this rank has not both buffers
    uint64_t count;
    uint64_t output;  // where the output lies in the caller's segment; 0: nobody writes it
    uint64_t input;   // the same of the input; 0: nobody reads it
} accl_call;

enum { ACCL_HEAD_BYTES = 4096, ACCL_WORDS_BYTES = 2048 };
enum { ACCL_EITHER = 2 };

// Reasons of failed waits beside those of accl_native.h.
enum {
    ACCL_ENTRY_TIMED_OUT = 4,
    ACCL_MISMATCH = 5,
    ACCL_DIED = 6,
    ACCL_CLOSED = 7,
    ACCL_INTERRUPTED = 8,
};

// Status of a call.
enum {
    ACCL_DONE = 0,
    ACCL_FAILED = 1,       // see accl_comm_cause
    ACCL_BROKEN = 2,       // an earlier call failed, or the communicator is closed
    ACCL_NO_STAGING = 3,   // a buffer is private and the staging memory is too small
    ACCL_BUSY = 4,         // another thread is in a call (only where it was asked not to wait)
    ACCL_NO_MEMORY = 5,
    ACCL_UNKNOWN = 6,      // no such call was prepared
};

// Why a call failed. ``rank`` is global; ``theirs`` is set for ACCL_MISMATCH.
typedef struct {
    uint32_t reason;
    uint32_t rank;
    accl_call mine;
    accl_call theirs;
    uint64_t waited_ns;
} accl_cause;

typedef struct accl_comm accl_comm;
typedef struct accl_schedule accl_schedule;
typedef struct accl_plan accl_plan;

// A schedule of a group of ranks. Arrays a member are in the order of positions; offsets are into their segments.
typedef struct {
    uint32_t members;
    uint32_t position;
    uint32_t group;
    uint32_t first_number;  // (block, channel) of all ranks
    uint32_t numbers;       // of this rank
    uint32_t all_numbers;
    uint32_t counters;      // in this rank's memory
    uint32_t spare;
    const uint32_t* ranks;
    const uint64_t* counters_at;
    const uint64_t* scratch_at;
    const uint32_t* writers;  // of each counter in this rank's memory: the position of who posts it
} accl_schedule_options;

typedef struct {
    accl_schedule* schedule;
    accl_thread_function kernel;
    accl_call call;  // without sequence and buffers
    uint64_t slices;
    uint64_t slot_bytes;
    uint64_t input_bytes;
    uint64_t output_bytes;
    uint32_t streaming;
    uint32_t shared_input;   // others read it
    uint32_t shared_output;  // others write it
    uint32_t holes;          // parts of the output are nobody's: keep what is there
    uint32_t tagged;         // nobody waits for an entry: what arrives says what call it is of
    uint32_t spare;
    const uint64_t* lengths;  // where counts vary: kept by the caller as long as the plan
} accl_plan_options;

uint32_t accl_join_abi(void);
// For a plan of a schedule of one block a rank, whose counters are a board of 2 * (8 + count rounded up to 8) words: the
// output gets the inputs of all ranks, ``count`` words each.
accl_thread_function accl_rows_kernel(void);
uint64_t accl_head_bytes(void);

// ``cores``: that the ranks of the machine may use together. NULL: out of memory.
accl_comm* accl_comm_create(uint32_t rank, uint32_t world, uint32_t cores, uint64_t entry_timeout_ns, uint64_t timeout_ns);

// Maps a rank's segment from ``offset`` on, or only its head (offset 0, length ACCL_HEAD_BYTES). The descriptors stay
// the caller's and open. Returns the address; NULL: see errno.
void* accl_comm_map(accl_comm* comm, uint32_t rank, int segment, int process, uint64_t offset, uint64_t length);

void accl_comm_staging(accl_comm* comm, uint64_t offset, uint64_t bytes);
void accl_comm_interrupts(accl_comm* comm, int (*pending)(void));

// NULL: out of memory. Schedules live as long as the communicator, plans until they are forgotten, all together.
accl_schedule* accl_schedule_create(accl_comm* comm, const accl_schedule_options* options);
accl_plan* accl_plan_create(accl_comm* comm, const accl_plan_options* options);
uint64_t accl_comm_forget_plans(accl_comm* comm);

// One call, to its end. ``wait``: for a call of another thread.
int accl_comm_run(accl_comm* comm, accl_plan* plan, const void* input, void* output, int wait);

void accl_comm_cause(const accl_comm* comm, accl_cause* cause);
// Reports of the last call, which failed: their number; one a (block of all ranks, channel).
uint32_t accl_comm_reports(const accl_comm* comm, const accl_report** reports);

// Makes the calls of all ranks end, on whatever thread they are. ``say`` tells them why: a text, ended by a zero.
void accl_comm_abort(accl_comm* comm);
void accl_comm_say(accl_comm* comm, const char* text);
// What ``rank`` said: the length, 0 if nothing yet.
uint32_t accl_comm_heard(const accl_comm* comm, uint32_t rank, char* text);

// Tells the others, and unmaps everything. No call may be running.
void accl_comm_close(accl_comm* comm);
void accl_comm_destroy(accl_comm* comm);

#ifdef __cplusplus
}
#endif
