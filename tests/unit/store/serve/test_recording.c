/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "store/serve/recording.h"

enum { TABLES = 3, ROUNDS = 40, MOST = 1 << 20 };

static const int64_t ROWS[TABLES] = {10, 100000, INT64_C(1) << 40};
static char path[64];

/* What was recorded, or is read again. */
typedef struct list {
    int64_t n;
    uint32_t table[ROUNDS * 3000];
    int64_t row[ROUNDS * 3000];
} list;

static void append(void *ctx, uint32_t table, const int64_t *rows, int64_t n)
{
    list *l = ctx;
    for (int64_t i = 0; i < n; i++, l->n++) {
        assert_true(l->n < ROUNDS * 3000);
        l->table[l->n] = table;
        l->row[l->n] = rows[i];
    }
}

static void record(list *l)
{
    orr_recording *recording;
    orr_recorder recorder = {0};
    orr_error err;
    uint64_t x = 1;
    assert_int_equal(orr_recording_open(path, TABLES, &recording, &err), ORR_OK);
    for (int i = 0; i < ROUNDS; i++) {
        int64_t rows[3000];
        const int64_t n = i * 70;
        for (int64_t k = 0; k < n; k++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            rows[k] = (int64_t)((x >> 20) % (uint64_t)ROWS[i % TABLES]);
        }
        orr_recorder_add(&recorder, recording, (uint32_t)i % TABLES, rows, n);
        append(l, (uint32_t)i % TABLES, rows, n);
    }
    orr_recorder_flush(&recorder, recording);
    orr_recorder_done(&recorder);
    assert_int_equal(orr_recording_finish(recording, &err), ORR_OK);
}

static size_t load(uint8_t *bytes)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t n = fread(bytes, 1, MOST, f);
    assert_int_equal(fclose(f), 0);
    return n;
}

static void save(const uint8_t *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static list written, found;
static uint8_t bytes[MOST];

static orr_status read_back(bool *ret_cut, orr_error *err)
{
    found.n = 0;
    return orr_recording_read(path, TABLES, ROWS, append, &found, ret_cut, err);
}

static void is_read_as_recorded(void **state)
{
    (void)state;
    orr_error err;
    bool cut = true;
    assert_int_equal(read_back(&cut, &err), ORR_OK);
    assert_false(cut);
    assert_int_equal(found.n, written.n);
    assert_memory_equal(found.table, written.table, (size_t)written.n * sizeof *found.table);
    assert_memory_equal(found.row, written.row, (size_t)written.n * sizeof *found.row);
}

/* A prefix gives the blocks that are complete. */
static void may_be_cut(void **state)
{
    (void)state;
    const size_t n = load(bytes);
    for (size_t cut_at = 0; cut_at < n; cut_at += cut_at < 64 ? 1 : 997) {
        orr_error err;
        bool cut = false;
        save(bytes, cut_at);
        if (cut_at < ORR_LOOKUPS_HEADER) {
            assert_int_equal(read_back(&cut, &err), ORR_PARSE);
            continue;
        }
        assert_int_equal(read_back(&cut, &err), ORR_OK);
        assert_int_equal(cut, cut_at > ORR_LOOKUPS_HEADER);
        assert_true(found.n < written.n);
        assert_memory_equal(found.row, written.row, (size_t)found.n * sizeof *found.row);
    }
    save(bytes, n);
}

static void is_refused_where_it_is_damaged(void **state)
{
    (void)state;
    const size_t n = load(bytes);
    for (size_t at = 0; at < n; at += at < 64 ? 1 : 991) {
        orr_error err = {.text = ""};
        bool cut = false;
        bytes[at] ^= 4;
        save(bytes, n);
        const orr_status status = read_back(&cut, &err);
        assert_true(status == ORR_PARSE || (status == ORR_OK && cut));
        bytes[at] ^= 4;
    }
    save(bytes, n);
}

/* A block with the right hash and what no recorder writes. */
static void bad_payload(const uint8_t *payload, uint32_t len, const char *text)
{
    const uint64_t hash = XXH3_64bits(payload, len);
    orr_error err = {.text = ""};
    bool cut;
    const size_t n = load(bytes);
    memcpy(bytes + ORR_LOOKUPS_HEADER, &len, sizeof len);
    memcpy(bytes + ORR_LOOKUPS_HEADER + 4, &hash, sizeof hash);
    memcpy(bytes + ORR_LOOKUPS_HEADER + ORR_LOOKUPS_BLOCK_HEADER, payload, len);
    save(bytes, ORR_LOOKUPS_HEADER + ORR_LOOKUPS_BLOCK_HEADER + len);
    assert_int_equal(read_back(&cut, &err), ORR_PARSE);
    assert_non_null(strstr(err.text, text));
    save(bytes, n);
}

static void names_what_is_wrong(void **state)
{
    (void)state;
    const size_t n = load(bytes);
    uint8_t *whole = memcpy(bytes + MOST / 2, bytes, n);
    bad_payload((const uint8_t[]){3, 1, 0}, 3, "table 3 of 3");
    bad_payload((const uint8_t[]){0, 0}, 2, "0 lookups");
    bad_payload((const uint8_t[]){0, 2, 2}, 3, "a run ends early");
    bad_payload((const uint8_t[]){0, 1, 20}, 3, "row 10 of 10");
    bad_payload((const uint8_t[]){0, 1, 1}, 3, "row -1 of 10");
    bad_payload((const uint8_t[]){0x80}, 1, "a block ends in a number");
    save(whole, n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_read_as_recorded), cmocka_unit_test(may_be_cut),
        cmocka_unit_test(is_refused_where_it_is_damaged), cmocka_unit_test(names_what_is_wrong)};
    snprintf(path, sizeof path, "/tmp/orrery.%d.lookups", (int)getpid());
    record(&written);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(path);
    return failed;
}
