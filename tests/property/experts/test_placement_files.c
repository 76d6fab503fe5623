/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../support/random_placements.h"
#include "../support/seeds.h"
#include "experts/placement/file.h"

/* Placements drawn at random, written and read back; and their files cut off at every byte and
 * changed in every byte: a refusal with a text, or a placement that is valid. */

static char *print(const orr_expert_placement *p, orr_placement_format format, orr_arena *arena,
                   size_t *ret_n)
{
    orr_output *out;
    orr_error err = {0};
    if (orr_output_open_memory(&out, &err) != ORR_OK ||
        orr_placement_print(p, format, out, &err) != ORR_OK ||
        orr_output_finish(out, &err) != ORR_OK)
        fail_msg("%s", err.text);
    const char *bytes = orr_output_memory(out, ret_n);
    char *ret = orr_arena_strndup(arena, bytes, *ret_n);
    orr_output_close(out);
    return ret;
}

static orr_status parse(const char *text, size_t n, uint32_t ranks, orr_arena *arena,
                        orr_expert_placement *ret, orr_error *err)
{
    const orr_placement_text input = {text, n, "file", ranks, 0};
    return orr_placement_parse(&input, arena, ret, err);
}

static bool same_arrays(const orr_expert_placement *a, const orr_expert_placement *b)
{
    const size_t firsts = (size_t)a->layers * (a->ranks + 1);
    return a->layers == b->layers && a->experts == b->experts && a->ranks == b->ranks &&
           a->host_ranks == b->host_ranks && a->nearest == b->nearest &&
           memcmp(a->first_slot, b->first_slot, firsts * sizeof *a->first_slot) == 0 &&
           memcmp(a->number, b->number, a->layers * sizeof *a->number) == 0 &&
           memcmp(a->expert, b->expert, orr_expert_placement_slots(a) * sizeof *a->expert) == 0;
}

/* A placement with ranks of equally many slots, as servers have them: copies fill them up. */
static orr_expert_placement even_placement(const orr_expert_placement *p, orr_arena *arena)
{
    orr_expert_placement ret;
    orr_error err = {0};
    size_t n;
    const char *text = print(p, ORR_PLACEMENT_FORMAT_VLLM, arena, &n);
    assert_int_equal(parse(text, n, 0, arena, &ret, &err), ORR_OK);
    return ret;
}

/* False: a rank has no experts, which JSON cannot say. */
static bool has_experts_on_all_ranks(const orr_expert_placement *p)
{
    for (uint32_t r = 0; r < p->ranks; r++) {
        uint32_t n = 0;
        for (uint32_t l = 0; l < p->layers; l++)
            n += orr_placement_first(p, l, r + 1) - orr_placement_first(p, l, r);
        if (n == 0)
            return false;
    }
    return true;
}

static void test_written_is_read(void **state)
{
    (void)state;
    const seed_range range = seeds(200);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_random random = orr_random_of(seed, 0);
        orr_arena *arena = orr_arena_new(0, 0);
        const orr_expert_placement like = draw_shape(&random);
        const orr_placement_draft d =
            draw_placement(&like, 0.3 * orr_random_unit(&random), &random, arena);
        orr_expert_placement p = d.placement, read;
        orr_error err = {0};
        size_t n;
        const char *text = print(&p, ORR_PLACEMENT_FORMAT_YAML, arena, &n);
        if (parse(text, n, 0, arena, &read, &err) != ORR_OK || !same_arrays(&p, &read) ||
            memcmp(p.share, read.share, orr_expert_placement_slots(&p) * sizeof *p.share) != 0)
            seed_fail(seed, "yaml: %s", err.text);
        if (has_experts_on_all_ranks(&p)) {
            p = even_placement(&p, arena);
            p.nearest = false; /* as servers' files, which do not say */
            text = print(&p, ORR_PLACEMENT_FORMAT_VLLM, arena, &n);
            if (parse(text, n, p.ranks, arena, &read, &err) != ORR_OK || !same_arrays(&p, &read))
                seed_fail(seed, "vllm: %s", err.text);
            text = print(&p, ORR_PLACEMENT_FORMAT_SGLANG, arena, &n);
            if (parse(text, n, p.ranks, arena, &read, &err) != ORR_OK)
                seed_fail(seed, "sglang: %s", err.text);
            read.host_ranks = p.host_ranks; /* which is not in the file */
            if (!same_arrays(&p, &read))
                seed_fail(seed, "sglang: another placement");
        }
        orr_arena_free(arena);
    }
}

static void try_bytes(const char *bytes, size_t n, orr_arena *arena)
{
    const orr_arena_mark mark = orr_arena_get_mark(arena);
    orr_expert_placement p = {.layers = 0};
    orr_error err = {.text = ""};
    const orr_status status = parse(bytes, n, 2, arena, &p, &err);
    if (status != ORR_OK && (strncmp(err.text, "file", 4) != 0 || p.layers != 0))
        fail_msg("%s: '%s'", orr_status_name(status), err.text);
    if (status == ORR_OK && p.ranks != 2)
        fail_msg("over %u ranks", p.ranks);
    orr_arena_rewind(arena, mark);
}

static void test_broken_files_are_refused(void **state)
{
    (void)state;
    static const unsigned char flips[] = {0x01, 0x04, 0x10, 0x1b, 0x80, 0xff};
    orr_random random = orr_random_of(1, 0);
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_expert_placement like = {.layers = 2, .experts = 5, .ranks = 2, .host_ranks = 1};
    const orr_placement_draft d = draw_placement(&like, 0.4, &random, arena);
    for (int format = 0; format < ORR_PLACEMENT_FORMATS; format++) {
        size_t n;
        char *bytes = print(&d.placement, (orr_placement_format)format, arena, &n);
        for (size_t len = 0; len <= n; len++)
            try_bytes(bytes, len, arena);
        for (size_t at = 0; at < n; at++)
            for (size_t i = 0; i < sizeof flips; i++) {
                bytes[at] = (char)((unsigned char)bytes[at] ^ flips[i]);
                try_bytes(bytes, n, arena);
                bytes[at] = (char)((unsigned char)bytes[at] ^ flips[i]);
            }
    }
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_is_read),
        cmocka_unit_test(test_broken_files_are_refused),
    };
    return cmocka_run_group_tests_name("experts_placement_files", tests, NULL, NULL);
}
