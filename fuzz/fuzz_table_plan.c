/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fuzz.h"
#include "model/tables/tables.h"

/* A sharding plan of three embedding tables. What is read is written and read back as the same
 * plan, and its shards have each row and column once: of a data-parallel table once on every
 * rank. */
static const orr_embedding MODEL[] = {
    {.name = "t0", .rows = 1000, .columns = 64, .pooling = 1},
    {.name = "user", .rows = 5000, .columns = 32, .pooling = 20},
    {.name = "item 3", .rows = 30, .columns = 40, .pooling = 2.5},
};
enum { TABLES = sizeof MODEL / sizeof *MODEL };

static bool overlap(const orr_embedding_shard *a, const orr_embedding_shard *b)
{
    return a->range_begin < b->range_end && b->range_begin < a->range_end &&
           a->column_begin < b->column_end && b->column_begin < a->column_end;
}

static void check_placement(const orr_embedding_plan *plan, uint32_t t)
{
    enum { PAIRS_OF = 512 }; /* pairs of more shards are not compared */
    const orr_embedding_placement *p = &plan->placements[t];
    const orr_embedding_shard *shards = &plan->shards[p->first_shard];
    const bool copies = p->sharding == ORR_SHARDING_DATA;
    uint64_t area = 0;
    FUZZ_CHECK(p->sharding < ORR_SHARDINGS && p->columns >= 1);
    FUZZ_CHECK(p->tier < ORR_TIERS && (p->tier != ORR_TIER_DRAM || p->cached_rows == 0));
    FUZZ_CHECK(p->first_shard <= plan->n_shards && p->n_shards <= plan->n_shards - p->first_shard);
    for (uint32_t i = 0; i < p->n_shards; i++) {
        const orr_embedding_shard *s = &shards[i];
        FUZZ_CHECK(s->table == t && s->rank < plan->ranks);
        FUZZ_CHECK(s->range_begin <= s->range_end && s->range_end <= ORR_EMBEDDING_RANGES);
        FUZZ_CHECK(s->column_begin <= s->column_end && s->column_end <= MODEL[t].columns);
        FUZZ_CHECK(s->column_begin % ORR_EMBEDDING_BLOCK == 0);
        area += (uint64_t)(s->range_end - s->range_begin) * (s->column_end - s->column_begin);
        for (uint32_t k = 0; k < i && i < PAIRS_OF && !copies; k++)
            FUZZ_CHECK(!overlap(s, &shards[k]));
    }
    FUZZ_CHECK(area ==
               (uint64_t)ORR_EMBEDDING_RANGES * MODEL[t].columns * (copies ? plan->ranks : 1));
}

static orr_status parse(const char *text, size_t len, orr_arena *arena, orr_embedding_plan *ret,
                        orr_error *err)
{
    const orr_yaml *file;
    ORR_TRY(orr_yaml_parse(text, len, "input.yaml", arena, &file, err));
    return orr_embedding_plan_parse(file, MODEL, TABLES, arena, ret, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    orr_arena *arena = orr_arena_new(0, 0);
    orr_embedding_plan plan, again;
    orr_error err = {.text = ""};
    FUZZ_CHECK(arena != NULL);
    const orr_status status = parse((const char *)bytes, len, arena, &plan, &err);
    if (status == ORR_OK) {
        uint32_t n = 0;
        for (uint32_t t = 0; t < TABLES; t++) {
            check_placement(&plan, t);
            n += plan.placements[t].n_shards;
        }
        FUZZ_CHECK(n == plan.n_shards && plan.groups >= 1);
        const char *text = orr_embedding_plan_text(&plan, arena);
        FUZZ_CHECK(text != NULL && parse(text, strlen(text), arena, &again, &err) == ORR_OK);
        FUZZ_CHECK(strcmp(orr_embedding_plan_text(&again, arena), text) == 0);
        FUZZ_CHECK(memcmp(again.shards, plan.shards, n * sizeof *plan.shards) == 0);
    } else {
        FUZZ_CHECK(status != ORR_NO_MEMORY && strncmp(err.text, "input.yaml:", 11) == 0);
    }
    orr_arena_free(arena);
    return 0;
}
