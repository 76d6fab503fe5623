/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/ranks/launch.h"
#include "engine/tables/tables_state.h"

/* Bad lookups, memory, and ranks that die. What is computed stands in property/test_tables.c. */
enum { SAMPLES = 4, LENGTH = 3, N_TABLES = 2, LOOKUPS = N_TABLES * SAMPLES * LENGTH };
static const int64_t patient_ns = INT64_C(240) * 1000 * 1000 * 1000;

static const orr_embedding TABLES[N_TABLES] = {
    {.name = "t0",
     .rows = 1000,
     .columns = 40,
     .pooling = LENGTH,
     .length = ORR_BAG_LENGTH_FIXED,
     .format = ORR_ROW_FORMAT_FP32,
     .optimizer = ORR_ROW_OPTIMIZER_ROWWISE_ADAGRAD},
    {.name = "t1",
     .rows = 10,
     .columns = 16,
     .pooling = LENGTH,
     .length = ORR_BAG_LENGTH_UNIFORM,
     .format = ORR_ROW_FORMAT_BF16,
     .optimizer = ORR_ROW_OPTIMIZER_ROWWISE_ADAM},
};

typedef struct step_data {
    int32_t lengths[N_TABLES * SAMPLES];
    int64_t ids[LOOKUPS];
    float bags[SAMPLES * 56], gradient[SAMPLES * 56];
} step_data;

static step_data some_lookups(void)
{
    step_data d = {0};
    for (int i = 0; i < N_TABLES * SAMPLES; i++)
        d.lengths[i] = LENGTH;
    for (int i = 0; i < LOOKUPS; i++)
        d.ids[i] = i % 10;
    for (int i = 0; i < SAMPLES * 56; i++)
        d.gradient[i] = 0.01f * (float)i;
    return d;
}

static orr_embedding_plan plan_of(uint32_t ranks, orr_arena *arena)
{
    static const uint32_t FIRST[] = {0, 1};
    orr_embedding_placement p[N_TABLES] = {
        {.sharding = ORR_SHARDING_COLUMN, .columns = ranks, .ranks = FIRST, .n_ranks = ranks},
        {.sharding = ORR_SHARDING_TABLE, .columns = 1, .ranks = FIRST, .n_ranks = 1}};
    orr_embedding_plan plan = {
        .ranks = ranks, .groups = 1, .n_tables = N_TABLES, .tables = TABLES, .placements = p};
    orr_error err = {0};
    assert_int_equal(orr_embedding_plan_shard(&plan, arena, &err), ORR_OK);
    return plan;
}

static orr_tables_source source_of(const orr_embedding_plan *plan, orr_transport *transport)
{
    return (orr_tables_source){.plan = plan,
                               .transport = transport,
                               .channels = {2, 3},
                               .samples = SAMPLES,
                               .seed = 7,
                               .trained = true};
}

static orr_status step(orr_tables *t, step_data *d, int64_t number, orr_error *err)
{
    const orr_tables_batch batch = {d->lengths, d->ids};
    const orr_update by = {
        .rate = 0.1, .beta1 = 0.9, .beta2 = 0.9, .step = number + 1, .gradient_scale = 1};
    const uint32_t slot = (uint32_t)(number % ORR_TABLES_AHEAD);
    ORR_TRY(orr_tables_exchange_ids(t, slot, &batch, err));
    ORR_TRY(orr_tables_fetch(t, slot, err));
    ORR_TRY(orr_tables_sum(t, slot, d->bags, err));
    ORR_TRY(orr_tables_exchange_bags(t, slot, d->bags, err));
    ORR_TRY(orr_tables_exchange_gradients(t, slot, d->gradient, err));
    return orr_tables_update(t, slot, &by, err);
}

static void bad_lookups_name_table_and_sample(void **state)
{
    (void)state;
    enum { ID, LENGTH_OF };
    static const struct {
        int what, at;
        int64_t value;
        orr_status status;
        const char *text;
    } CASES[] = {
        {ID, 5, 1000, ORR_INVALID, "table t0, sample 1: id 1000 of 1000 rows"},
        {ID, 12, -1, ORR_INVALID, "table t1, sample 0: id -1 of 10 rows"},
        {ID, 23, INT64_MAX, ORR_INVALID, "table t1, sample 3: id 9223372036854775807 of 10 rows"},
        {LENGTH_OF, 2, 2, ORR_INVALID, "table t0, sample 2: 2 lookups, not 3"},
        {LENGTH_OF, 5, -1, ORR_INVALID, "table t1, sample 1: -1 lookups"},
        {LENGTH_OF, 7, 65536, ORR_LIMIT, "table t1, sample 3: 65536 lookups, of at most 65535"},
    };
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_embedding_plan plan = plan_of(1, arena);
    const orr_tables_source source = source_of(&plan, orr_transport_self());
    orr_tables *t = NULL;
    orr_error err = {0};
    assert_int_equal(orr_tables_open(&source, &t, &err), ORR_OK);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        step_data d = some_lookups();
        if (CASES[i].what == ID)
            d.ids[CASES[i].at] = CASES[i].value;
        else
            d.lengths[CASES[i].at] = (int32_t)CASES[i].value;
        assert_int_equal(step(t, &d, 0, &err), CASES[i].status);
        assert_string_equal(err.text, CASES[i].text);
    }
    step_data good = some_lookups();
    assert_int_equal(step(t, &good, 0, &err), ORR_OK);
    orr_tables_close(t);
    orr_arena_free(arena);
}

static void the_plan_is_for_as_many_ranks(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    orr_embedding_plan plan = plan_of(2, arena);
    plan.groups = 2;
    const orr_tables_source source = source_of(&plan, orr_transport_self());
    orr_tables *t = NULL;
    orr_tables_memory memory;
    orr_error err = {0};
    assert_int_equal(orr_tables_open(&source, &t, &err), ORR_INVALID);
    assert_string_equal(err.text,
                        "the plan shards tables over 2 groups of 2 ranks, and there are 1 ranks");
    assert_int_equal(orr_tables_measure(&source, &memory, &err), ORR_INVALID);
    orr_arena_free(arena);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_embedding_plan plan = plan_of(1, arena);
    const orr_tables_source source = source_of(&plan, orr_transport_self());
    orr_tables *t = NULL;
    orr_status status = ORR_NO_MEMORY;
    uint64_t nth = 0;
    for (; status == ORR_NO_MEMORY; nth++) {
        orr_error err = {0};
        orr_alloc_fail_from(nth + 1);
        status = orr_tables_open(&source, &t, &err);
        orr_alloc_fail_from(0);
    }
    assert_int_equal(status, ORR_OK);
    assert_true(nth > 5);
    orr_tables_close(t);
    orr_arena_free(arena);
}

/* What ranks of the tests below do. */
typedef struct deed {
    int64_t steps, at; /* in step `at`, rank 1 does */
    enum { NOTHING, DIE, LOOK_AWRY, LEAVE } what;
} deed;

static orr_status open_tables(orr_transport *transport, orr_embedding_plan *plan, orr_arena *arena,
                              orr_tables **ret, orr_error *err)
{
    *plan = plan_of(transport->ranks, arena);
    plan->pipeline = 3;
    const orr_tables_source source = source_of(plan, transport);
    return orr_tables_open(&source, ret, err);
}

static orr_status hold_memory(const orr_tables *t, const orr_tables_source *source, orr_error *err)
{
    orr_tables_memory memory;
    int64_t rows = 0, states = 0;
    ORR_TRY(orr_tables_measure(source, &memory, err));
    for (uint32_t i = 0; i < orr_tables_n_shards(t); i++) {
        orr_row_store *store;
        (void)orr_tables_shard(t, i, &store);
        rows += store->rows * store->record_bytes;
        states += store->rows * store->state_bytes;
    }
    if (memory.rows != rows || memory.state != states || memory.buffers != orr_tables_held_bytes(t))
        return orr_fail(err, ORR_INVALID, "%lld, %lld, %lld bytes were measured, there are %lld",
                        (long long)memory.rows, (long long)memory.state, (long long)memory.buffers,
                        (long long)orr_tables_held_bytes(t));
    return ORR_OK;
}

static orr_status train(void *ctx, orr_transport *transport, orr_error *err)
{
    const deed *what = ctx;
    orr_arena *arena = orr_arena_new(0, 0);
    orr_embedding_plan plan;
    orr_tables *t = NULL;
    step_data d = some_lookups();
    orr_status status = open_tables(transport, &plan, arena, &t, err);
    const orr_tables_source source = source_of(&plan, transport);
    for (int64_t i = 0; i < what->steps && status == ORR_OK; i++) {
        if (i == what->at && transport->rank == 1) {
            if (what->what == DIE)
                raise(SIGKILL);
            if (what->what == LEAVE)
                break;
            d.ids[7] = what->what == LOOK_AWRY ? 5000 : 0;
        }
        (void)orr_alloc_count();
        status = step(t, &d, i, err);
        if (status == ORR_OK && orr_alloc_count() > 0)
            status = orr_fail(err, ORR_INVALID, "a step allocates");
        if (status == ORR_OK)
            status = hold_memory(t, &source, err);
    }
    orr_tables_close(t);
    orr_arena_free(arena);
    return status;
}

static void memory_is_as_measured(void **state)
{
    (void)state;
    for (uint32_t ranks = 1; ranks <= 2; ranks++) {
        deed d = {.steps = 6, .at = -1};
        orr_error err = {0};
        if (orr_ranks_run(ranks, ORR_RANKS_SHM, patient_ns, train, &d, &err) != ORR_OK)
            fail_msg("%s", err.text);
    }
}

/* One clear error, and no rank that hangs. */
static void one_rank_fails(void **state)
{
    (void)state;
    static const struct {
        deed deed;
        const char *text;
    } CASES[] = {
        {{5, 2, DIE}, "rank 1 was killed by signal 9 (Killed)"},
        {{5, 3, LOOK_AWRY}, "rank 1: table t0, sample 6: id 5000 of 1000 rows"},
        {{5, 1, LEAVE}, "rank 0: rank 1 is gone"},
    };
    for (orr_ranks_kind kind = ORR_RANKS_SHM; kind <= ORR_RANKS_TCP; kind++)
        for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
            deed d = CASES[i].deed;
            orr_error err = {0};
            assert_int_not_equal(orr_ranks_run(2, kind, patient_ns, train, &d, &err), ORR_OK);
            assert_string_equal(err.text, CASES[i].text);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_lookups_name_table_and_sample),
        cmocka_unit_test(the_plan_is_for_as_many_ranks),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(memory_is_as_measured),
        cmocka_unit_test(one_rank_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
