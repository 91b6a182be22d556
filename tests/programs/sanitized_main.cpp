// Runs a generated kernel under a sanitizer: calls of several sizes, in a row, on threads. The test writes case.h.
#include "accl_native.h"
#include "case.h"  // RANKS, BLOCKS (of all ranks, times channels), IN, OUT, SLOTS, COUNTERS, STATES, CHANNELS, DEPTH

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

extern "C" void accl_thread(const accl_launch*, const accl_host*, void*, uint64_t*, uint32_t, uint32_t, uint32_t);

typedef int Item;  // the test builds with -DACCL_TYPE=i32

static std::vector<Item> in[RANKS], out[RANKS];
static long long sums[RANKS];

// Where a rank is one thread, that is the user's, too: it writes its input before the call and reads its output after.
static void user_thread(const accl_launch* launch, const accl_host* host, void* runner, uint64_t* progress,
                        uint32_t number, uint32_t thread, uint32_t threads) {
    for (Item& item : in[number]) item = (Item)number + 1;
    accl_thread(launch, host, runner, progress, number, thread, threads);
    for (const Item item : out[number]) sums[number] += item;
}

int main(int, char** arguments) {
    const uint32_t threads = (uint32_t)atoi(arguments[1]);
    const uint32_t mode = (uint32_t)atoi(arguments[2]);
    const uint64_t counts[] = {1, 37, 4099, 16, 0, 2000};
    const uint64_t slot_items = 4128;
    std::vector<uint64_t> counters[RANKS], states[RANKS];
    std::vector<Item> scratch[RANKS];
    accl_member members[RANKS];
    for (int r = 0; r < RANKS; ++r) {
        counters[r].assign((size_t)COUNTERS[r] * CHANNELS * 8, 0);
        states[r].assign((size_t)STATES[r] * CHANNELS * 8, 0);
        scratch[r].assign((size_t)SLOTS[r] * CHANNELS * DEPTH * slot_items, 0);
    }
    std::vector<accl_report> reports(BLOCKS);
    memset(reports.data(), 0, reports.size() * sizeof(accl_report));
    accl_pool* pool = accl_pool_create();
    uint64_t checksum = 0;
    for (const uint64_t count : counts) {
        for (int r = 0; r < RANKS; ++r) {
            in[r].assign((size_t)IN[r] * count + 1, r + 1);
            out[r].assign((size_t)OUT[r] * count + 1, 0);
            members[r] = accl_member{in[r].data(), out[r].data(), scratch[r].data(), counters[r].data(), states[r].data()};
        }
        uint32_t abort_word = 0;
        const uint64_t slices = count / 600 + 1;
        const accl_launch launch = {members, reports.data(), &abort_word, count, slices, slot_items * sizeof(Item),
                                    (uint64_t)60 * 1000 * 1000 * 1000, 0, 0, 0};
        const accl_options options = {mode, BLOCKS, threads, 0, 0, 0, 0, 0};
        const int status = accl_pool_run(pool, &options, ONE_THREAD && threads == 1 ? user_thread : accl_thread, &launch);
        if (status != 0) {
            fprintf(stderr, "status %d\n", status);
            return 3;
        }
        for (int r = 0; r < RANKS; ++r) {
            for (uint64_t i = 0; i < OUT[r] * count; ++i) checksum = checksum * 31 + (uint64_t)out[r][i];
        }
    }
    accl_pool_destroy(pool);
    printf("%llu\n", (unsigned long long)checksum);
    return 0;
}
