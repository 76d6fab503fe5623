/* SPDX-License-Identifier: Apache-2.0 */
#include "small_job.h"

#include "base/alloc.h"

typedef struct fixture {
    orr_arena *arena;
    const orr_model *model;
    orr_plan plan;
    orr_workload workload;
    orr_device device;
    orr_memory_plan made;
} fixture;

static orr_error err;

static void make(fixture *f, const char *model, orr_plan plan, double gib)
{
    *f = (fixture){.arena = orr_arena_new(0, 0), .plan = orr_plan_with_defaults(&plan)};
    f->device.memory_bytes = (orr_fact){.value = gib * (1 << 30), .basis = ORR_FACT_PUBLISHED};
    assert_int_equal(orr_model_load(model, f->arena, &f->model, &err), ORR_OK);
    if (orr_plan_check(&f->plan, &err) != ORR_OK ||
        orr_memory_plan_make(f->model, &f->plan, &f->workload, &f->device, f->arena, &f->made,
                             &err) != ORR_OK)
        fail_msg("%s", err.text);
}

static const orr_memory_plan_option *find(const fixture *f, const char *change)
{
    for (uint32_t i = 0; i < f->made.n_options; i++)
        if (strcmp(f->made.options[i].change, change) == 0)
            return &f->made.options[i];
    return NULL;
}

static int64_t peak_of(const orr_memory_plan *plan)
{
    return plan->stages[plan->worst].peak_bytes;
}

/* What a relief says is what the changed plan really takes. */
static void assert_true_of(const fixture *f, const orr_memory_plan_option *r)
{
    orr_plan change, plan;
    orr_memory_plan made;
    assert_int_equal(orr_plan_parse(r->change, &change, &err), ORR_OK);
    plan = orr_plan_override(&f->plan, &change);
    plan.group = 0;
    if (change.shards == 0)
        plan.shards = 0;
    if (change.tp > 0)
        plan.etp = change.tp;
    plan = orr_plan_with_defaults(&plan);
    assert_int_equal(orr_plan_check(&plan, &err), ORR_OK);
    assert_int_equal(orr_plan_ranks(&plan), orr_plan_ranks(&f->plan));
    assert_int_equal((uint64_t)plan.dp * plan.micro_batch * plan.micro_batches,
                     (uint64_t)f->plan.dp * f->plan.micro_batch * f->plan.micro_batches);
    assert_int_equal(
        orr_memory_plan_make(f->model, &plan, &f->workload, &f->device, f->arena, &made, &err),
        ORR_OK);
    assert_int_equal(r->peak_bytes, peak_of(&made));
    assert_int_equal(r->freed_bytes, peak_of(&f->made) - peak_of(&made));
    assert_int_equal(r->fits, made.fits);
}

static void each_change_is_really_made_most_first(void **state)
{
    (void)state;
    fixture f;
    make(&f, "llama3.1-8b", (orr_plan){.dp = 8, .micro_batch = 4, .micro_batches = 2, .seq = 8192},
         80);
    assert_false(f.made.fits);
    assert_true(f.made.n_options > 8);
    for (uint32_t i = 0; i < f.made.n_options; i++) {
        const orr_memory_plan_option *r = &f.made.options[i];
        print_message("%-40s frees %6.2f GiB%s\n", r->change, (double)r->freed_bytes / (1 << 30),
                      r->fits ? ": fits" : "");
        assert_true(r->freed_bytes > 0);
        assert_true(i == 0 || r->freed_bytes <= r[-1].freed_bytes);
        assert_true_of(&f, r);
    }
    assert_non_null(find(&f, "recompute=full"));
    assert_non_null(find(&f, "zero=1"));
    assert_non_null(find(&f, "zero=3"));
    assert_non_null(find(&f, "micro_batches=4,micro_batch=2"));
    assert_non_null(find(&f, "offload=both"));
    assert_true(find(&f, "zero=3")->freed_bytes > find(&f, "zero=1")->freed_bytes);
    orr_arena_free(f.arena);
}

static void changes_that_cannot_be_are_left_out(void **state)
{
    (void)state;
    fixture f;
    /* One rank: nothing to share, nobody to shard with. */
    make(&f, "llama3.1-8b", (orr_plan){.dp = 1, .recompute = ORR_RECOMPUTE_FULL, .seq = 4096}, 80);
    assert_false(f.made.fits);
    assert_null(find(&f, "recompute=full"));
    for (uint32_t i = 0; i < f.made.n_options; i++) {
        assert_null(strstr(f.made.options[i].change, "tp="));
        assert_null(strstr(f.made.options[i].change, "micro_batch="));
    }
    assert_non_null(find(&f, "offload=optimizer"));
    orr_arena_free(f.arena);
}

static void a_plan_that_fits_needs_none(void **state)
{
    (void)state;
    fixture f;
    make(&f, "llama3.1-8b", (orr_plan){.tp = 8, .dp = 1, .seq = 4096}, 80);
    assert_true(f.made.fits);
    assert_int_equal(f.made.n_options, 0);
    orr_arena_free(f.arena);
}

static void failing_allocations_are_told(void **state)
{
    (void)state;
    fixture f;
    make(&f, "llama3.1-8b", (orr_plan){.dp = 8, .layers = 2, .seq = 128}, 10);
    assert_false(f.made.fits);
    orr_alloc_count();
    orr_memory_plan again;
    assert_int_equal(
        orr_memory_plan_make(f.model, &f.plan, &f.workload, &f.device, f.arena, &again, &err),
        ORR_OK);
    const uint64_t n = orr_alloc_count();
    for (uint64_t i = 1; i <= n; i += 1 + n / 97) {
        orr_arena *arena = orr_arena_new(0, 0);
        orr_alloc_fail_from(i);
        const orr_status status =
            orr_memory_plan_make(f.model, &f.plan, &f.workload, &f.device, arena, &again, &err);
        orr_alloc_fail_from(0);
        assert_int_equal(status, ORR_NO_MEMORY);
        orr_arena_free(arena);
    }
    orr_arena_free(f.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_change_is_really_made_most_first),
        cmocka_unit_test(changes_that_cannot_be_are_left_out),
        cmocka_unit_test(a_plan_that_fits_needs_none),
        cmocka_unit_test(failing_allocations_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
