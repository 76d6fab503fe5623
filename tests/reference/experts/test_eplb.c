/* SPDX-License-Identifier: Apache-2.0 */
#include "../csv.h"

#include <inttypes.h>

#include <orrery/experts.h>

/* The policy `eplb` against DeepSeek's code: eplb.txt has its answers for loads that eplb.py and
 * this test draw alike. */

enum { LOADS = 1024, SLOTS = 1024 };

typedef struct golden_case {
    uint32_t layers, experts, slots, groups, hosts, ranks, seed;
    char kind[8], digest[17], map[512];
} golden_case;

static uint32_t next_number(uint32_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 17;
    *x ^= *x << 5;
    return *x;
}

static uint32_t load_of(const char *kind, uint32_t x, uint32_t i)
{
    static const uint8_t readme[] = {90, 132, 40,  61, 104, 165, 39,  4,   73,  56, 183, 86,
                                     20, 107, 104, 64, 19,  197, 187, 157, 172, 86, 16,  27};
    switch (kind[0]) {
    case 'r':
        return readme[i];
    case 'e':
        return 1000 + x % 100;
    case 'a':
        return x % 65536;
    case 's':
        return 1000000 / (1 + x % 500);
    case 't':
        return x % 4;
    case 'h':
        return i % 61 == 7 ? 500000 : x % 50;
    default:
        return 0;
    }
}

static bool next_case(FILE *file, golden_case *ret)
{
    return fscanf(file, "%u %u %u %u %u %u %7s %u %16s %511s", &ret->layers, &ret->experts,
                  &ret->slots, &ret->groups, &ret->hosts, &ret->ranks, ret->kind, &ret->seed,
                  ret->digest, ret->map) == 10;
}

static orr_expert_placement place(const golden_case *c, orr_arena *arena)
{
    static double load[LOADS];
    static uint32_t number[16];
    const uint32_t n = c->layers * c->experts;
    uint32_t x = c->seed;
    assert_true(n <= LOADS && c->layers <= 16);
    for (uint32_t i = 0; i < n; i++)
        load[i] = load_of(c->kind, next_number(&x), i);
    const orr_expert_windows windows = {1, c->layers, c->experts, number, load, ""};
    orr_expert_options options;
    orr_expert_result result;
    orr_error err = {0};
    orr_expert_options_init(&options);
    options.policy = ORR_EXPERT_POLICY_EPLB;
    options.windows = &windows;
    options.ranks = c->ranks;
    options.host_ranks = c->ranks / c->hosts;
    options.slots = c->slots;
    options.expert_groups = c->groups;
    if (orr_experts_place(&options, arena, &result, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return result.placement;
}

static void compare(const golden_case *c, const orr_expert_placement *p)
{
    uint64_t digest = 0xCBF29CE484222325U;
    char text[17], map[4096] = "-";
    size_t at = 0;
    const uint32_t slots = orr_expert_placement_slots(p);
    assert_int_equal(slots, c->layers * c->slots);
    for (uint32_t s = 0; s < slots; s++) {
        digest = (digest ^ (p->expert[s] & 255)) * 0x100000001B3U;
        digest = (digest ^ (p->expert[s] >> 8)) * 0x100000001B3U;
        if (slots <= 96)
            at += (size_t)snprintf(map + at, sizeof map - at, "%s%u", s == 0 ? "" : ",",
                                   p->expert[s]);
    }
    (void)snprintf(text, sizeof text, "%016" PRIx64, digest);
    assert_string_equal(map, c->map);
    assert_string_equal(text, c->digest);
}

static void placements_are_those_of_deepseek(void **state)
{
    (void)state;
    char path[1024];
    golden_case c;
    uint32_t cases = 0;
    orr_arena *arena = orr_arena_new(0, 0);
    (void)snprintf(path, sizeof path, "%s/tests/reference/experts/eplb.txt",
                   getenv("ORRERY_SOURCE"));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(arena);
    for (; next_case(file, &c); cases++) {
        const orr_expert_placement p = place(&c, arena);
        compare(&c, &p);
        orr_arena_reset(arena);
    }
    assert_int_equal(cases, 103);
    (void)fclose(file);
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(placements_are_those_of_deepseek),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
