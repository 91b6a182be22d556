// What a rank says of its calls, and hears of the others'.
#include "accl_rank.h"

#include <string.h>

using namespace accl_rank;

namespace {

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

}  // namespace

namespace accl_rank {

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

}  // namespace accl_rank

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
    const Head& head = *peers[who].head;
    accl_call call;
    bool ended;
    // Where all ranks make the same calls it is as many as this rank's: one line of the other's memory, not three.
    if (!read_call(head.said[own().latest % remembered_calls], &call, &ended) || !same_call(call, mine)) {
        const Heard heard = hear(head, mine);
        if (!heard.begun || !same_call(heard.call, mine)) return mismatch(who, heard.begun ? heard.call : heard.last);
        call = heard.call;
    }
    accl_member& member = schedule->members[position];
    if (call.input != 0) member.input = buffer_at(who, kept_input, call.input);
    if (call.output != 0) member.output = buffer_at(who, kept_output, call.output);
    if ((call.input == 0 || member.input != nullptr) && (call.output == 0 || member.output != nullptr)) return ACCL_ARRIVED;
    end_waits(ACCL_NO_MEMORY, who);
    return ACCL_NO_MEMORY;
}
