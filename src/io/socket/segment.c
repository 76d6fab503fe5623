/* SPDX-License-Identifier: Apache-2.0 */
#include "io/socket/segment.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW, NON_TEMPORAL_BYTES = 2 << 10 };

void *orr_segment_map_inherited(size_t bytes)
{
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return map == MAP_FAILED ? NULL : map;
}

int orr_segment_new_sealed(size_t bytes)
{
    const int segment = memfd_create("orrery", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (segment < 0)
        return -1;
    if (fallocate(segment, 0, 0, (off_t)bytes) == 0 && fcntl(segment, F_ADD_SEALS, SEALS) == 0)
        return segment;
    close(segment);
    return -1;
}

bool orr_segment_is_sealed(int segment, size_t bytes)
{
    struct stat about;
    return fstat(segment, &about) == 0 && (uint64_t)about.st_size == bytes &&
           (fcntl(segment, F_GET_SEALS) & SEALS) == SEALS;
}

void orr_byte_ring_copy(uint8_t *to, const uint8_t *from, size_t n)
{
#ifdef __SSE2__
    if (n >= NON_TEMPORAL_BYTES) {
        const size_t head = (ORR_CACHE_LINE - (uintptr_t)to % ORR_CACHE_LINE) % ORR_CACHE_LINE;
        memcpy(to, from, head);
        to += head, from += head, n -= head;
        for (; n >= ORR_CACHE_LINE;
             n -= ORR_CACHE_LINE, to += ORR_CACHE_LINE, from += ORR_CACHE_LINE)
            for (size_t i = 0; i < ORR_CACHE_LINE; i += sizeof(__m128i))
                _mm_stream_si128((void *)(to + i), _mm_loadu_si128((const void *)(from + i)));
        _mm_sfence();
    }
#endif
    memcpy(to, from, n);
}
