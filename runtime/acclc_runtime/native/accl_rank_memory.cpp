// Segments: what of them is mapped where, with which pages; and copies into and out of them.
#include "accl_rank.h"

#include <string.h>
#include <sys/mman.h>

using namespace accl_rank;

namespace {

constexpr uint64_t large_page = 2 << 20;
constexpr int collapse = 25;  // MADV_COLLAPSE, of Linux 6.1

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

namespace accl_rank {

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

}  // namespace accl_rank

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
