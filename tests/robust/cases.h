/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TESTS_ROBUST_CASES_H
#define ORR_TESTS_ROBUST_CASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <orrery/trace.h>

enum { TRUNCATIONS = 200, CORRUPTIONS = 1000 };

/* One broken form of a file: its first `len` bytes, and byte `at` of them xored with `flip`
 * (0: none). */
typedef struct broken {
    const char *name; /* of the file */
    const char *form; /* "compressed" or "plain" */
    bool tolerant;
    bool use; /* also analyse and write what could be read */
    size_t len, at;
    uint8_t flip;
} broken;

/* What became of the cases of a file. */
typedef struct tally {
    uint64_t tried, read, refused, used;
    uint64_t by_status[16];
    char fault[1024]; /* the first that is a fault of ours; "" none */
} tally;

/* Must be called first: what is printed should the process die, and limits per case. */
void cases_begin(void);

/* Read `bytes` broken in that way; bytes are as they were afterwards. */
void try_broken(uint8_t *bytes, const broken *how, tally *result);

#endif /* ORR_TESTS_ROBUST_CASES_H */
