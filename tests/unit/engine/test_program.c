/* SPDX-License-Identifier: Apache-2.0 */
#include "program_fixture.h"

static bool is_view(const fixture *f, orr_value v, orr_value of)
{
    return f->program->places[v].root == of;
}

static void test_views_share_bytes(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    const orr_value x = given(&f, TYPE(2, 3, 4));
    const orr_value rows = apply(&f, ORR_OP_VIEW, ARGS(.shape = TYPE(6, 4)), x);
    apply(&f, ORR_OP_SPLIT, ARGS(.dim = 1, .shape = TYPE(1, 3)), rows);
    const orr_value part = f.out[1];
    /* Rows of the part are 4 apart, so that dims of rows can still be split and joined. */
    const orr_value back = apply(&f, ORR_OP_VIEW, ARGS(.shape = TYPE(2, 3, 3)), part);
    const orr_value cut = apply(&f, ORR_OP_SLICE, ARGS(.dim = 1, .begin = 1, .count = 2), back);
    const orr_value y = apply(&f, ORR_OP_SCALE, ARGS(.value = 1), cut);
    f.bindings[y].kept = true;
    make(&f);
    run(&f);
    assert_true(is_view(&f, rows, x) && is_view(&f, part, x) && is_view(&f, back, x) &&
                is_view(&f, cut, x));
    assert_int_equal(f.program->places[cut].offset_bytes, 8 * (1 + 4));
    assert_int_equal(f.program->places[cut].stride[0], 12);
    assert_int_equal(f.program->places[cut].stride[1], 4);
    assert_int_equal(f.program->places[cut].stride[2], 1);
    assert_true(number(&f, y, 0) == 5 && number(&f, y, 3) == 9 && number(&f, y, 6) == 17);
    end(&f);
}

static void test_what_strides_cannot_say_is_copied(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    const orr_value x = given(&f, TYPE(3, 4));
    const orr_value part = apply(&f, ORR_OP_SLICE, ARGS(.dim = 1, .begin = 1, .count = 2), x);
    const orr_value flat = apply(&f, ORR_OP_VIEW, ARGS(.shape = TYPE(6)), part);
    const orr_value y = apply(&f, ORR_OP_SCALE, ARGS(.value = 1), flat);
    f.bindings[y].kept = true;
    make(&f);
    run(&f);
    const double want[] = {1, 2, 5, 6, 9, 10};
    assert_true(is_view(&f, part, x) && is_view(&f, flat, flat));
    assert_memory_equal(orr_program_data(f.program, y), want, sizeof want);
    end(&f);
}

static void test_views_that_are_bound_are_copies(void **state)
{
    (void)state;
    fixture f;
    double out[4] = {0};
    begin(&f);
    const orr_value x = given(&f, TYPE(2, 4));
    const orr_value y = apply(&f, ORR_OP_SLICE, ARGS(.dim = 0, .begin = 1, .count = 1), x);
    const orr_value there = apply(&f, ORR_OP_VIEW, ARGS(.shape = TYPE(8)), x);
    f.bindings[y].data = out;
    f.bindings[there].data = f.bindings[x].data; /* where it is anyway */
    make(&f);
    run(&f);
    assert_true(out[0] == 4 && out[3] == 7);
    assert_true(is_view(&f, there, x));
    double more[4];
    orr_program_bind(f.program, y, more);
    run(&f);
    assert_true(more[0] == 4 && more[3] == 7);
    end(&f);
}

/* Of queries, keys and values in one product, the backward pass reads the last alone. */
static void test_a_slice_that_is_kept_lets_the_rest_go(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    const orr_value x = given(&f, TYPE(4, 30));
    const orr_value sum = apply(&f, ORR_OP_SCALE, ARGS(.value = 2), x);
    apply(&f, ORR_OP_SPLIT, ARGS(.dim = 1, .shape = TYPE(20, 10)), sum);
    const orr_value wide = f.out[0], narrow = f.out[1];
    const orr_value a = apply(&f, ORR_OP_SUM, ARGS(.dim = 1, .count = 1), wide);
    f.bindings[a].kept = true;
    f.tape.pass = ORR_PASS_INPUT;
    const orr_value b = apply(&f, ORR_OP_SCALE, ARGS(.value = 1), narrow);
    f.bindings[b].kept = true;
    make(&f);
    run(&f);
    assert_true(is_view(&f, wide, sum) && is_view(&f, narrow, narrow));
    assert_true(number(&f, b, 0) == 40 && number(&f, b, 10) == 100);
    end(&f);
}

static void test_memory(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    orr_value x = given(&f, TYPE(8, 8));
    for (int i = 0; i < 6; i++)
        x = apply(&f, ORR_OP_SCALE, ARGS(.value = 2), x);
    f.bindings[x].kept = true;
    make(&f);
    const orr_program_memory memory = orr_program_memory_of(f.program);
    assert_int_equal(memory.planned_bytes, 2 * 512); /* what is read, and what is written */
    assert_int_equal(memory.summed_bytes, 5 * 512);
    assert_int_equal(memory.kept_bytes, 512);
    assert_int_equal(memory.workspace_bytes, 2 * 512);
    assert_true(number(&f, x, 63) == 0); /* zeroed before the first run */
    run(&f);
    assert_true(number(&f, x, 63) == 63 * 64);
    end(&f);
}

/* What another lane reads is given to nobody before lane 0 has waited for it anyway. */
static void test_reused_bytes_make_no_lane_wait(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    const orr_value x = given(&f, TYPE(8, 8));
    const orr_value a = apply(&f, ORR_OP_SCALE, ARGS(.value = 2), x);
    const orr_value beside = apply(&f, ORR_OP_SCALE, ARGS(.value = 3), a);
    f.calls[1].lane = ORR_LANE_COMM;
    orr_value y = x;
    for (int i = 0; i < 6; i++)
        y = apply(&f, ORR_OP_SCALE, ARGS(.value = 2), y);
    y = apply2(&f, ORR_OP_ADD, NULL, y, beside);
    f.bindings[y].kept = true;
    make(&f);
    const orr_action *actions = f.program->actions;
    assert_int_equal(actions[1].n_waits, 1);
    assert_int_equal(f.program->waits[actions[1].waits].call, 0);
    for (int i = 2; i < 8; i++)
        assert_int_equal(actions[i].n_waits, 0);
    assert_int_equal(actions[8].n_waits, 1);
    assert_int_equal(orr_program_memory_of(f.program).planned_bytes, 4 * 512);
    run(&f);
    assert_true(number(&f, y, 1) == 64 + 6);
    end(&f);
}

static int64_t little(orr_backend *self)
{
    (void)self;
    return 1 << 20;
}

static void test_what_cannot_run_is_refused(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    orr_value x = given(&f, TYPE(512, 512));
    x = apply(&f, ORR_OP_SCALE, ARGS(.value = 2), apply(&f, ORR_OP_GELU, NULL, x));
    f.calls[1].label = "layer 3 / mlp_norm";
    f.backend.free_bytes = little;
    refuse(&f, ORR_LIMIT, "needs 0.0 GiB of memory, 0.0 GiB are free");
    f.backend.free_bytes = NULL;
    f.backend.entries[ORR_OP_SCALE].run = NULL;
    refuse(&f, ORR_UNSUPPORTED, "layer 3 / mlp_norm: the backend naive has no kernel for scale");
    f.backend = bench_backend();
    f.calls[1].lane = ORR_LANES_MAX;
    refuse(&f, ORR_INVALID, "layer 3 / mlp_norm: lane 16 of 16");
    f.calls[1].lane = 0;
    f.source.deps = &(orr_program_dep){.call = 0, .on = 1};
    f.source.n_deps = 1;
    refuse(&f, ORR_INVALID, "call 0 waits for call 1, which comes no earlier");
    f.source.n_deps = 0;
    apply(&f, ORR_OP_ALL_REDUCE, ARGS(.members = 2), x);
    refuse(&f, ORR_INVALID, "all_reduce: all_reduce of 2 members, but there are 1");
    end(&f);
}

static void test_rows_of_weights(void **state)
{
    (void)state;
    fixture f;
    const orr_weight_rows rows = {.format = ORR_ROW_FORMAT_FP32, .columns = 3, .row_bytes = 12};
    begin(&f);
    const orr_value x = given(&f, TYPE(2, 3)), w = given(&f, TYPE(3, 4));
    f.bindings[w] = (orr_binding){.rows = &rows};
    const orr_value same = apply(&f, ORR_OP_REPLICATE, ARGS(.members = 1), w);
    apply2(&f, ORR_OP_MATMUL, NULL, x, same);
    make(&f);
    const orr_operand *in = &f.program->operands[f.program->actions[1].operands];
    assert_ptr_equal(in[1].rows, &rows);
    assert_null(in[1].data);
    orr_program_free(f.program);
    apply(&f, ORR_OP_VIEW, ARGS(.shape = TYPE(12)), w);
    refuse(&f, ORR_UNSUPPORTED, "view: a view of weights that are kept as rows");
    end(&f);
}

/* Products add by themselves here; for all else the sum is made from scratch. */
static void test_accumulation(void **state)
{
    (void)state;
    fixture f;
    double product[4] = {100, 100, 100, 100}, scaled[4] = {1000, 1000, 1000, 1000},
           part[2] = {10, 10};
    begin(&f);
    const orr_value x = given(&f, TYPE(2, 2));
    const orr_value p = apply2(&f, ORR_OP_MATMUL, NULL, x, x);
    const orr_value s = apply(&f, ORR_OP_SCALE, ARGS(.value = 2), x);
    const orr_value c = apply(&f, ORR_OP_SLICE, ARGS(.dim = 1, .begin = 1, .count = 1), x);
    f.bindings[p].data = product;
    f.bindings[s].data = scaled;
    f.bindings[c].data = part;
    for (int i = 0; i < 3; i++)
        f.calls[i].accumulate = true;
    make(&f);
    assert_true(f.program->actions[0].accumulate && !f.program->actions[0].staged);
    assert_true(f.program->actions[1].staged && f.program->actions[2].staged);
    run(&f);
    run(&f);
    assert_true(product[0] == 100 + 2 * 2 && product[3] == 100 + 2 * 11);
    assert_true(scaled[0] == 1000 && scaled[3] == 1000 + 2 * 6);
    assert_true(part[0] == 10 + 2 * 1 && part[1] == 10 + 2 * 3);
    end(&f);
}

static void test_what_is_skipped_is_given(void **state)
{
    (void)state;
    fixture f;
    double half[4] = {5, 6, 7, 8};
    begin(&f);
    const orr_value x = given(&f, TYPE(4));
    const orr_value y = apply(&f, ORR_OP_SCALE, ARGS(.value = 2), x);
    const orr_value z = apply(&f, ORR_OP_SCALE, ARGS(.value = 10), y);
    f.calls[0].skip = true;
    f.bindings[z].kept = true;
    make(&f);
    memcpy(orr_program_data(f.program, y), half, sizeof half);
    run(&f);
    assert_true(number(&f, z, 0) == 50 && number(&f, z, 3) == 80);
    end(&f);
}

typedef struct negation {
    const double *in;
    double *out;
    uint32_t call;
} negation;
static orr_status negate(void *ctx, uint32_t call, orr_error *err)
{
    negation *n = ctx;
    (void)err;
    n->call = call;
    for (int i = 0; i < 4; i++)
        n->out[i] = -n->in[i];
    return ORR_OK;
}

/* A hook does what the call says, in its lane, after what makes its input and before what reads its
 * output; it is timed like a kernel. */
static void test_a_hook_stands_for_a_kernel(void **state)
{
    (void)state;
    fixture f;
    double in[4], out[4];
    int64_t start_ns[3], end_ns[3];
    begin(&f);
    const orr_value x = given(&f, TYPE(4));
    const orr_value y = apply(&f, ORR_OP_SCALE, ARGS(.value = 2), x);
    const orr_value z = apply(&f, ORR_OP_VIEW, ARGS(.shape = TYPE(4)), y);
    const orr_value end_value = apply(&f, ORR_OP_SCALE, ARGS(.value = 10), z);
    negation n = {in, out, 0};
    f.calls[1] = (orr_program_call){.lane = ORR_LANE_COMM, .instead = negate, .hook_ctx = &n};
    f.bindings[y].data = in;
    f.bindings[z].data = out;
    f.bindings[end_value].kept = true;
    make(&f);
    assert_int_equal(f.program->actions[1].n_waits, 1);
    assert_int_equal(f.program->actions[2].n_waits, 1);
    const orr_program_run timed = {.start_ns = start_ns, .end_ns = end_ns};
    assert_int_equal(orr_program_execute(f.program, &timed, &f.err), ORR_OK);
    assert_true(n.call == 1 && number(&f, end_value, 3) == -60);
    assert_true(start_ns[1] >= end_ns[0] && end_ns[1] >= start_ns[1] && start_ns[2] >= end_ns[1]);
    end(&f);
}

/* What a kernel has been told. */
static orr_kernel_call heard;
static orr_status hear(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    heard = *call;
    return ORR_OK;
}
static int prepared, released;
static orr_status prepare(const orr_kernel_call *call, void **ret, orr_error *err)
{
    (void)call, (void)err;
    prepared++;
    *ret = &prepared;
    return ORR_OK;
}
static void release(void *at)
{
    assert_ptr_equal(at, &prepared);
    released++;
}

static void test_what_kernels_are_told(void **state)
{
    (void)state;
    fixture f;
    const int64_t first[] = {7};
    const orr_update update = {.step = 3};
    begin(&f);
    const orr_value x = given(&f, TYPE(4, 2));
    apply(&f, ORR_OP_DROPOUT, ARGS(.value = 0.5), x);
    f.backend.entries[ORR_OP_DROPOUT] =
        (orr_kernel_entry){.run = hear, .prepare = prepare, .release = release};
    f.source.seed = 1;
    make(&f);
    run(&f);
    const uint64_t seed = heard.seed;
    assert_null(heard.first);
    assert_null(heard.update);
    assert_ptr_equal(heard.state, &prepared);
    orr_program_set_positions(f.program, first);
    orr_program_set_update(f.program, &update);
    run(&f);
    assert_ptr_equal(heard.first, first);
    assert_ptr_equal(heard.update, &update);
    assert_true(heard.seed == seed);
    assert_true(heard.n_in == 1 && heard.n_out == 2 && heard.op == ORR_OP_DROPOUT);
    assert_ptr_equal(heard.in[0].data, f.bindings[x].data);
    orr_program_free(f.program);
    assert_int_equal(prepared, released);
    f.source.seed = 2;
    make(&f);
    run(&f);
    assert_true(heard.seed != seed);
    end(&f);
}

/* In place, also of a part of the cache. */
static void test_cache(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    const orr_value cache = given(&f, TYPE(1, 4, 1, 2)), x = given(&f, TYPE(1, 1, 1, 2));
    const orr_value now = apply2(&f, ORR_OP_CACHE, NULL, cache, x);
    const orr_value y = apply(&f, ORR_OP_SCALE, ARGS(.value = 1), now);
    f.bindings[y].kept = true;
    f.backend.entries[ORR_OP_CACHE] = (orr_kernel_entry){.run = hear};
    make(&f);
    run(&f);
    assert_ptr_equal(heard.out[0].data, heard.in[0].data);
    assert_true(is_view(&f, now, cache));
    orr_program_free(f.program);
    double elsewhere[8];
    f.bindings[now].data = elsewhere;
    refuse(&f, ORR_INVALID, "cache: the cache that is given back is bound elsewhere");
    end(&f);
}

static void test_no_memory(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    orr_value x = given(&f, TYPE(2, 4));
    x = apply(&f, ORR_OP_VIEW, ARGS(.shape = TYPE(4, 2)), x);
    for (int i = 0; i < 4; i++) {
        x = apply(&f, ORR_OP_SCALE, ARGS(.value = 2), x);
        f.calls[f.tape.n_calls - 1].lane = (uint8_t)(i % 3);
    }
    f.bindings[x].kept = true;
    int failed = 0;
    for (uint64_t nth = 1;; nth++) {
        orr_alloc_fail_from(nth);
        const orr_status status = orr_program_make(&f.source, &f.program, &f.err);
        orr_alloc_fail_from(0);
        if (status == ORR_OK)
            break;
        assert_int_equal(status, ORR_NO_MEMORY);
        f.program = NULL;
        failed++;
    }
    assert_true(failed > 5);
    run(&f);
    assert_true(number(&f, x, 7) == 7 * 16);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_views_share_bytes),
        cmocka_unit_test(test_what_strides_cannot_say_is_copied),
        cmocka_unit_test(test_views_that_are_bound_are_copies),
        cmocka_unit_test(test_a_slice_that_is_kept_lets_the_rest_go),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_reused_bytes_make_no_lane_wait),
        cmocka_unit_test(test_what_cannot_run_is_refused),
        cmocka_unit_test(test_rows_of_weights),
        cmocka_unit_test(test_accumulation),
        cmocka_unit_test(test_what_is_skipped_is_given),
        cmocka_unit_test(test_a_hook_stands_for_a_kernel),
        cmocka_unit_test(test_what_kernels_are_told),
        cmocka_unit_test(test_cache),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
