/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_WEIGHTS_MAPPED_H
#define ORR_WEIGHTS_MAPPED_H

#include <stddef.h>
#include <stdint.h>

#include <orrery/status.h>

/* A file, mapped. Headers are read through the descriptor, not through the mapping: a file that is
 * cut off while it is opened is an error then, and no signal. */
typedef struct orr_mapped {
    const uint8_t *bytes; /* shape (n) */
    uint64_t       n;
    int            fd; /* -1: closed */
} orr_mapped;
/* INVALID: no regular file; IO. */
orr_status orr_mapped_open(const char *path, orr_mapped *ret, orr_error *err) ORR_MUST_CHECK;
/* Exactly n bytes at an offset. PARSE: there are fewer. */
orr_status orr_mapped_read(const orr_mapped *mapped, uint64_t offset, void *ret, size_t n,
                           orr_error *err) ORR_MUST_CHECK;
/* The mapping stays. */
void orr_mapped_done_reading(orr_mapped *mapped);
void orr_mapped_close(orr_mapped *mapped);

#endif /* ORR_WEIGHTS_MAPPED_H */
