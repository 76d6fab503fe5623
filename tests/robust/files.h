/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TESTS_ROBUST_FILES_H
#define ORR_TESTS_ROBUST_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A data file, as it lies there and as it is when decompressed. Members of a .tar.gz are
 * files of their own, which only lie there decompressed. */
typedef struct data_file {
    char name[256]; /* for people */
    uint8_t *packed, *plain;
    size_t packed_len, plain_len; /* packed_len is 0 where nothing is compressed */
} data_file;

typedef struct data_files {
    data_file *at;
    size_t n, room;
} data_files;

/* Every recording below $ORRERY_SOURCE/examples/traces and $ORRERY_SHARED/data/traces, by name.
 * What cannot be read is left out, which the caller notices by the count. */
void data_files_find(data_files *files);
void data_files_done(data_files *files);

#endif /* ORR_TESTS_ROBUST_FILES_H */
