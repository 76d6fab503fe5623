/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_WEIGHTS_MAPPED_FILE_H
#define ORR_WEIGHTS_MAPPED_FILE_H

#include <stddef.h>
#include <stdint.h>

#include <orrery/status.h>

/* A mapped file. Headers are read through the descriptor instead of the mapping: a file that is
 * truncated while it is opened is then an error, not a SIGBUS. */
typedef struct orr_mapped_file {
    const uint8_t *bytes; /* shape (n) */
    uint64_t n;
    int fd; /* -1: closed */
} orr_mapped_file;
/* INVALID: no regular file; IO. */
orr_status orr_mapped_file_open(const char *path, orr_mapped_file *ret,
                                orr_error *err) ORR_MUST_CHECK;
/* Exactly n bytes at an offset. PARSE: there are fewer. */
orr_status orr_mapped_file_read(const orr_mapped_file *mapped, uint64_t offset, void *ret, size_t n,
                                orr_error *err) ORR_MUST_CHECK;
/* The mapping stays. */
void orr_mapped_file_close_descriptor(orr_mapped_file *mapped);
void orr_mapped_file_close(orr_mapped_file *mapped);

#endif /* ORR_WEIGHTS_MAPPED_FILE_H */
