/* SPDX-License-Identifier: Apache-2.0 */
/* Every data file, truncated at 200 points and with 1,000 of its bytes changed one at a time,
 * compressed and plain, strict and tolerant: never a crash, a hang, a leak or an error without a
 * text. What can be read of a small file all the same goes through every analysis and writer.
 *
 *   test_robust [PART_OF_A_NAME...]
 *
 * ORRERY_SEED=n draws other bytes. Large files are sampled, so that the run takes a
 * minute; ORRERY_SLOW=1 tries all of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/philox.h"
#include "cases.h"
#include "files.h"
#include "leaks.h"

/* Bytes to be read of one file, in one form and mode, for truncations and for corruptions each. */
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
enum { USE_UP_TO_BYTES = 800 * 1000 };
#ifdef SANITIZED
enum { BUDGET_BYTES = 4 * 1000 * 1000, AT_LEAST = 2 };
#else
enum { BUDGET_BYTES = 15 * 1000 * 1000, AT_LEAST = 4 };
#endif

typedef struct plan {
    uint64_t seed;
    bool slow;
} plan;

static size_t count_for(const plan *p, size_t wanted, size_t plain_len)
{
    const size_t affordable = plain_len ? BUDGET_BYTES / plain_len : wanted;
    if (p->slow || affordable >= wanted)
        return wanted;
    return affordable > AT_LEAST ? affordable : AT_LEAST;
}

static void truncate_all(uint8_t *bytes, broken how, size_t len, size_t n, tally *result)
{
    how.flip = 0;
    for (size_t i = 0; i < n; i++) {
        how.len = (size_t)((unsigned __int128)len * i / n);
        /* Half of the cuts right behind a record, where they are hardest to notice. */
        if (i % 2 && how.form[0] == 'p') {
            const uint8_t *end = memchr(bytes + how.len, '}', len - how.len);
            how.len = end ? (size_t)(end - bytes) + 1 : how.len;
        }
        try_broken(bytes, &how, result);
    }
}

static void corrupt_all(uint8_t *bytes, broken how, size_t len, size_t n, orr_random random,
                        tally *result)
{
    how.len = len;
    for (size_t i = 0; i < n; i++) {
        how.at = (size_t)orr_random_below(&random, len);
        how.flip = (uint8_t)(1 + orr_random_below(&random, 255));
        try_broken(bytes, &how, result);
    }
}

static void try_form(const plan *p, const data_file *file, const char *form, uint8_t *bytes,
                     size_t len, uint64_t stream, tally *result)
{
    if (!len)
        return;
    for (int tolerant = 0; tolerant < 2; tolerant++) {
        const broken how = {.name = file->name,
                            .form = form,
                            .tolerant = tolerant,
                            .use = file->plain_len < USE_UP_TO_BYTES};
        truncate_all(bytes, how, len, count_for(p, TRUNCATIONS, file->plain_len / 2), result);
        corrupt_all(bytes, how, len, count_for(p, CORRUPTIONS, file->plain_len),
                    orr_random_of(p->seed, stream), result);
    }
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void print_outcome(const tally *t, const char *name, size_t number, double seconds)
{
    printf("%sok %zu - %s: %llu tried, %llu read, %llu of them used, %llu refused",
           *t->fault ? "not " : "", number, name, (unsigned long long)t->tried,
           (unsigned long long)t->read, (unsigned long long)t->used,
           (unsigned long long)t->refused);
    for (unsigned i = 0; i < 16; i++)
        if (t->by_status[i])
            printf(" %s=%llu", orr_status_name((orr_status)i), (unsigned long long)t->by_status[i]);
    printf(" (%.1f s)\n", seconds);
    if (*t->fault)
        printf("# %s", t->fault);
    fflush(stdout);
}

static bool is_chosen(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strstr(name, argv[i]))
            return true;
    return argc < 2;
}

static bool try_file(const plan *p, data_file *file, size_t number)
{
    tally result = {0};
    const double began = now_s();
    uint64_t stream = 14695981039346656037u; /* of its own, whichever other files there are */

    for (const char *c = file->name; *c; c++)
        stream = (stream ^ (uint8_t)*c) * 1099511628211u;
    /* Once as it is, for what is allocated once and kept. */
    broken whole = {.name = file->name, .form = "plain", .len = file->plain_len, .tolerant = true};
    tally ignored = {0};
    try_broken(file->plain, &whole, &ignored);
    try_form(p, file, "compressed", file->packed, file->packed_len, stream, &result);
    try_form(p, file, "plain", file->plain, file->plain_len, stream + 1, &result);
    if (!ignored.read)
        snprintf(result.fault, sizeof result.fault, "the file itself is refused\n");
    if (!nothing_leaked())
        snprintf(result.fault, sizeof result.fault, "memory leaked; the sanitizer says where\n");
    print_outcome(&result, file->name, number, now_s() - began);
    return !*result.fault;
}

int main(int argc, char **argv)
{
    const char *seed = getenv("ORRERY_SEED"), *slow = getenv("ORRERY_SLOW");
    const plan p = {.seed = seed ? strtoull(seed, NULL, 10) : 20261121,
                    .slow = slow && *slow && strcmp(slow, "0") != 0};
    data_files files;
    size_t number = 0, failed = 0;

    restart_without_caches(argv);
    cases_begin();
    data_files_find(&files);
    printf("# seed %llu; %s\n", (unsigned long long)p.seed,
           p.slow ? "every file in full"
                  : "small files in full, large ones sampled; ORRERY_SLOW=1 tries all");
    for (size_t i = 0; i < files.n; i++)
        if (is_chosen(files.at[i].name, argc, argv))
            failed += !try_file(&p, &files.at[i], ++number);
    if (!getenv("ORRERY_SHARED"))
        printf("ok %zu - the shared traces # SKIP ORRERY_SHARED is not set\n", ++number);
    if (!number)
        printf("not ok 1 - there is no data file\n");
    printf("1..%zu\n", number ? number : 1);
    data_files_done(&files);
    return failed || !number;
}
