/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu_level.h"
#include "json_random.h"

enum { ROOM = 1024, BEHIND = 64, MOST_DEPTH = 40 };

/* An array of plain values in text[0..n), of any spacing, so that strings, numbers and spaces lie
 * across the ends of blocks. Its depth is at most 8. */
static size_t put_text(char *text, size_t n, const char *what)
{
    const size_t len = strlen(what);
    memcpy(text + n, what, len);
    return n + len;
}

static size_t put_space(orr_random *r, char *text, size_t n)
{
    static const char spaces[] = " \n\r\t";
    uint64_t more = orr_random_below(r, 4) > 0 ? 0 : orr_random_below(r, 12) == 0 ? 70 : 2;
    for (; more > 0; more--)
        text[n++] = spaces[orr_random_below(r, 4)];
    return n;
}

static size_t put_scalar(orr_random *r, char *text, size_t n)
{
    static const char *const numbers[] = {"0",   "-1",  "7",         "128",   "-0.5", "0.05",
                                          "3.0", "100", "123456789", "1.250", "-10",  "2048"};
    static const char letters[] = "a[]{},:. -019\x7f";
    if (orr_random_below(r, 2) == 0)
        return put_text(text, n, numbers[orr_random_below(r, sizeof numbers / sizeof *numbers)]);
    text[n++] = '"';
    for (uint64_t more = orr_random_below(r, orr_random_below(r, 10) == 0 ? 90 : 8); more > 0;
         more--)
        text[n++] = letters[orr_random_below(r, sizeof letters - 1)];
    text[n++] = '"';
    return n;
}

static size_t put_list(orr_random *r, char *text)
{
    size_t n = put_text(text, 0, "["), depth = 1;
    bool empty = true;
    while (depth > 0) {
        n = put_space(r, text, n);
        if (n > ROOM / 2 || orr_random_below(r, 4) == 0) {
            text[n++] = ']';
            depth--;
            empty = false;
            continue;
        }
        if (!empty) {
            text[n++] = ',';
            n = put_space(r, text, n);
        }
        empty = depth < 8 && orr_random_below(r, 3) == 0;
        if (empty) {
            text[n++] = '[';
            depth++;
        } else {
            n = put_scalar(r, text, n);
        }
    }
    return n;
}

/* Bytes of the array at the front of `text` by the reader, one value after another; 0: it is none.
 */
static size_t read_end(const char *text, size_t n)
{
    orr_stream *stream;
    orr_json *json;
    assert_int_equal(orr_stream_open_memory(text, n, &stream, NULL), ORR_OK);
    assert_int_equal(orr_json_new(stream, false, &json, NULL), ORR_OK);
    json->list_scan = NULL;
    const size_t end = orr_json_skip(json, NULL) == ORR_OK ? (size_t)orr_json_byte_pos(json) : 0;
    orr_json_free(json);
    orr_stream_close(stream);
    return end;
}

/* Every level finds the end that the reader finds, or none; *ret_found: it found one. */
static void check_levels(const char *text, size_t n, bool *ret_found)
{
    const uint8_t *const p = (const uint8_t *)text;
    const size_t end = read_end(text, n);
    for (int level = ORR_CPU_PLAIN; level < ORR_CPU_LEVELS; level++) {
        orr_cpu_level_limit((orr_cpu_level_id)level);
        orr_json_list_scan *scan = orr_json_list_scan_of_cpu();
        assert_true(scan == NULL || level > ORR_CPU_PLAIN);
        const uint8_t *found = scan != NULL ? scan(p, p + n, MOST_DEPTH) : NULL;
        if (found != NULL && found != p + end)
            fail_msg("%s: %zu of %.*s, not %zu", orr_cpu_level_name(orr_cpu_level()),
                     (size_t)(found - p), (int)n, text, end);
        if (level > ORR_CPU_AVX2 && orr_cpu_level() > ORR_CPU_AVX2)
            assert_true(*ret_found == (found != NULL));
        *ret_found = found != NULL;
    }
    orr_cpu_level_limit(ORR_CPU_LEVELS);
}

static bool has_scan(void)
{
    return orr_json_list_scan_of_cpu() != NULL;
}

static void finds_the_ends_that_the_reader_finds(void **state)
{
    (void)state;
    enum { SEED = 71, LISTS = 400, CHANGES = 20 };
    static const char bytes[] = "\"\\[]{}:,0.-+eE1x \n\x01\x80\xff";
    size_t changed_found = 0, changed_refused = 0;
    orr_random random = orr_random_of(SEED, 0);
    print_message("seed %d\n", SEED);
    char *text = malloc(2 * ROOM + BEHIND);
    for (int i = 0; i < LISTS; i++) {
        bool found = false;
        size_t n = put_list(&random, text);
        const size_t end = n;
        for (uint64_t more = orr_random_below(&random, 100); more > 0; more--) /* what follows */
            text[n++] = bytes[orr_random_below(&random, sizeof bytes - 1)];
        for (size_t b = 0; b < BEHIND; b++)
            text[n + b] = "]\"[,"[b % 4];
        check_levels(text, end, &found); /* ends where the window ends */
        assert_true(found == has_scan());
        check_levels(text, end - 1, &found);
        assert_false(found);
        check_levels(text, n, &found);
        assert_true(found == has_scan());
        for (int change = 0; change < CHANGES; change++) {
            const size_t at = 1 + orr_random_below(&random, end - 1);
            const char was = text[at];
            text[at] = bytes[orr_random_below(&random, sizeof bytes - 1)];
            check_levels(text, n, &found);
            changed_found += found;
            changed_refused += !found;
            text[at] = was;
        }
    }
    free(text);
    if (has_scan()) {
        assert_in_range(changed_found, 1000, LISTS * CHANGES);
        assert_in_range(changed_refused, 1000, LISTS * CHANGES);
    }
}

/* Each rule of the grammar, at every place of a block. */
static void keeps_each_rule_at_every_place(void **state)
{
    (void)state;
    static const char *const right[] = {
        "[0]",          "[-0.0,1]",      "[\"\"]", "[[],[[]]]",     "[1 , 2\t]",
        "[0.10,10.01]", "[\"[\",\"]\"]", "[ ]",    "[9,\"a\",[1]]", "[-9.9,[\"x\"]]"};
    static const char *const wrong[] = {
        "[,]",    "[1,]",   "[,1]",     "[1 2]", "[\"a\"\"b\"]", "[\"a\"1]",   "[1\"a\"]",
        "[01]",   "[-]",    "[-01]",    "[1.]",  "[.5]",         "[-.5]",      "[1.2.3]",
        "[1-2]",  "[--1]",  "[1..2]",   "[00]",  "[[]1]",        "[[][]]",     "[1[]]",
        "[{}]",   "[true]", "[1e5]",    "[+1]",  "[\"\\n\"]",    "[\"\x01\"]", "[\"\x80\"]",
        "[1.5.]", "[1,,2]", "[\"\t\"]", "[0 0]"};
    char text[256];
    for (size_t before = 0; before < 130; before++) {
        for (size_t i = 0; i < sizeof right / sizeof *right + sizeof wrong / sizeof *wrong; i++) {
            const bool is_right = i < sizeof right / sizeof *right;
            const char *list = is_right ? right[i] : wrong[i - sizeof right / sizeof *right];
            memset(text, ' ', sizeof text);
            text[0] = '[';
            memcpy(text + 1 + before, list, strlen(list));
            text[1 + before + strlen(list)] = ']';
            bool found = false;
            check_levels(text, 2 + before + strlen(list), &found);
            assert_true(found == (is_right && has_scan()));
        }
    }
}

static void keeps_to_the_depth(void **state)
{
    (void)state;
    char text[4 * MOST_DEPTH + BEHIND] = "";
    for (size_t depth = 1; depth <= 2 * MOST_DEPTH; depth++) {
        memset(text, ' ', sizeof text);
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        bool found = false;
        check_levels(text, 2 * depth, &found);
        assert_true(found == (depth <= MOST_DEPTH && has_scan()));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_ends_that_the_reader_finds),
        cmocka_unit_test(keeps_each_rule_at_every_place),
        cmocka_unit_test(keeps_to_the_depth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
