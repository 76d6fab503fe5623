/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdatomic.h>

#include "base/workers.h"
#include "program_fixture.h"

static void test_a_range_of_calls(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    const orr_value x = given(&f, TYPE(2));
    orr_value y[4] = {x};
    for (int i = 1; i < 4; i++) {
        y[i] = apply(&f, ORR_OP_SCALE, ARGS(.value = 2), y[i - 1]);
        f.bindings[y[i]].kept = true;
        f.calls[i - 1].lane = (uint8_t)(i % 2);
    }
    make(&f);
    int64_t start[3] = {5, 5, 5}, stop[3] = {5, 5, 5};
    orr_program_run part = {.start_ns = start, .end_ns = stop, .to = 1};
    assert_int_equal(orr_program_execute(f.program, &part, &f.err), ORR_OK);
    assert_true(number(&f, y[1], 1) == 2 && number(&f, y[2], 1) == 0);
    assert_true(start[0] > 5 && stop[0] >= start[0] && start[1] == 5 && start[2] == 5);
    part.from = 1;
    part.to = 0;
    assert_int_equal(orr_program_execute(f.program, &part, &f.err), ORR_OK);
    assert_true(number(&f, y[3], 1) == 8);
    assert_true(start[1] >= stop[0] && start[2] >= stop[1]);
    part.from = 4;
    assert_int_equal(orr_program_execute(f.program, &part, &f.err), ORR_INVALID);
    assert_string_equal(f.err.text, "calls 4 to 3 of 3");
    end(&f);
}

/* Two lanes that are busy for so long; whether they were so at the same time. */
static bool emulated_calls_overlap(int64_t ns)
{
    fixture f;
    int64_t start[3], stop[3];
    begin(&f);
    const orr_value x = given(&f, TYPE(2));
    apply(&f, ORR_OP_SCALE, NULL, x);
    apply(&f, ORR_OP_SCALE, NULL, x);
    const orr_value y = apply(&f, ORR_OP_SCALE, NULL, f.tape.calls[0].out[0]);
    f.calls[0].emulate_ns = f.calls[1].emulate_ns = ns;
    f.calls[0].lane = ORR_LANE_COMM;
    f.bindings[y].kept = true;
    make(&f);
    const orr_program_run timed = {.start_ns = start, .end_ns = stop};
    assert_int_equal(orr_program_execute(f.program, &timed, &f.err), ORR_OK);
    assert_true(stop[0] - start[0] >= ns && stop[1] - start[1] >= ns);
    assert_true(start[2] >= stop[0] && start[2] >= stop[1]);
    end(&f);
    return start[0] < stop[1] && start[1] < stop[0];
}

/* On a busy machine a thread may begin late: the longer they take, the less that counts. */
static void test_emulated_calls_overlap(void **state)
{
    (void)state;
    int64_t ns = 20 * 1000 * 1000;
    while (!emulated_calls_overlap(ns)) {
        ns *= 10;
        assert_true(ns <= INT64_C(20000000000));
    }
}

typedef struct witness {
    uint32_t calls[8];
    pthread_t threads[8];
    uint32_t n, fails_at;
} witness;
static orr_status see(void *ctx, uint32_t call, orr_error *err)
{
    witness *w = ctx;
    w->calls[w->n] = call;
    w->threads[w->n++] = pthread_self();
    return call == w->fails_at ? orr_fail(err, ORR_IO, "no") : ORR_OK;
}

static void test_hooks(void **state)
{
    (void)state;
    fixture f;
    witness w = {.fails_at = ORR_NONE};
    begin(&f);
    const orr_value x = given(&f, TYPE(4));
    const orr_value y = apply(&f, ORR_OP_VIEW, ARGS(.shape = TYPE(2, 2)), x);
    apply(&f, ORR_OP_SCALE, NULL, y);
    apply(&f, ORR_OP_SCALE, NULL, f.out[0]);
    for (int i = 0; i < 3; i++) {
        f.calls[i].before = see;
        f.calls[i].hook_ctx = &w;
    }
    f.calls[1].lane = 2;
    f.calls[1].label = "layer 1 / up";
    make(&f);
    run(&f);
    assert_int_equal(w.n, 3); /* before a view too */
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(w.calls[i], i);
    assert_true(pthread_equal(w.threads[0], pthread_self()) &&
                pthread_equal(w.threads[2], pthread_self()) &&
                !pthread_equal(w.threads[1], pthread_self()));
    w.n = 0;
    w.fails_at = 1;
    assert_int_equal(orr_program_execute(f.program, NULL, &f.err), ORR_IO);
    assert_string_equal(f.err.text, "layer 1 / up: no");
    assert_int_equal(w.n, 2); /* what waits for it does not run */
    w.n = 0;
    w.fails_at = ORR_NONE;
    run(&f); /* a program outlives a failure */
    assert_int_equal(w.n, 3);
    end(&f);
}

/* What one lane failed at is what is told, though others are stopped by it. */
static void test_a_failure_stops_all_lanes(void **state)
{
    (void)state;
    for (int failing = 0; failing < 3; failing++) {
        fixture f;
        witness w = {.fails_at = (uint32_t)failing};
        begin(&f);
        const orr_value x = given(&f, TYPE(4));
        orr_value y[3];
        for (int l = 0; l < 3; l++) {
            y[l] = apply(&f, ORR_OP_SCALE, NULL, x);
            f.calls[l].lane = (uint8_t)l;
        }
        orr_value sum = y[0];
        for (int l = 1; l < 3; l++)
            for (int lane = 0; lane < 3; lane++) {
                sum = apply2(&f, ORR_OP_ADD, NULL, sum, y[l]);
                f.calls[f.tape.n_calls - 1].lane = (uint8_t)lane;
            }
        f.calls[failing].before = see;
        f.calls[failing].hook_ctx = &w;
        make(&f);
        for (int again = 0; again < 20; again++) {
            w.n = 0;
            assert_int_equal(orr_program_execute(f.program, NULL, &f.err), ORR_IO);
            assert_string_equal(f.err.text, "scale: no");
        }
        end(&f);
    }
}

static void test_the_first_nan_is_named(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    const orr_value x = given(&f, TYPE(2, 3));
    const orr_value cut = apply(&f, ORR_OP_SLICE, ARGS(.dim = 1, .begin = 1, .count = 2), x);
    const orr_value y = apply(&f, ORR_OP_SCALE, ARGS(.value = 1), cut);
    const orr_value z = apply(&f, ORR_OP_SCALE, ARGS(.value = 2), y);
    f.calls[2].label = "layer 3 / mlp_norm";
    f.bindings[z].kept = true;
    make(&f);
    const orr_program_run checked = {.check = true};
    assert_int_equal(orr_program_execute(f.program, &checked, &f.err), ORR_OK);
    double *numbers = f.bindings[x].data;
    numbers[0] = NAN; /* not of the slice */
    assert_int_equal(orr_program_execute(f.program, &checked, &f.err), ORR_OK);
    numbers[5] = 1.5e308;
    assert_int_equal(orr_program_execute(f.program, &checked, &f.err), ORR_INVALID);
    assert_string_equal(f.err.text, "mlp_norm of layer 3 made an infinity");
    numbers[5] = NAN;
    assert_int_equal(orr_program_execute(f.program, &checked, &f.err), ORR_INVALID);
    assert_string_equal(f.err.text, "scale made NaN");
    run(&f); /* nobody asked */
    end(&f);
}

static void test_numbers_that_are_none(void **state)
{
    (void)state;
    static const struct {
        uint8_t dtype;
        uint64_t bits;
        bool odd;
    } cases[] = {
        {ORR_DTYPE_FP32, 0x7f7fffff, false},  {ORR_DTYPE_FP32, 0x7f800000, true},
        {ORR_DTYPE_FP32, 0xff800000, true},   {ORR_DTYPE_FP32, 0xffc00000, true},
        {ORR_DTYPE_BF16, 0x7f7f, false},      {ORR_DTYPE_BF16, 0x7f80, true},
        {ORR_DTYPE_BF16, 0xffff, true},       {ORR_DTYPE_FP16, 0x7bff, false},
        {ORR_DTYPE_FP16, 0x7c00, true},       {ORR_DTYPE_FP16, 0x7e00, true},
        {ORR_DTYPE_INT32, 0x7f800000, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture f;
        uint64_t from[2] = {0, 0}, to[2];
        begin(&f);
        orr_type type = *TYPE(1);
        type.dtype = cases[i].dtype;
        const orr_value x = given(&f, &type);
        const orr_value y = apply(&f, ORR_OP_SLICE, ARGS(.count = 1), x);
        f.bindings[x].data = from;
        f.bindings[y].data = to;
        memcpy(from, &cases[i].bits, sizeof cases[i].bits);
        make(&f);
        assert_int_equal(orr_program_execute(f.program, &(orr_program_run){.check = true}, &f.err),
                         cases[i].odd ? ORR_INVALID : ORR_OK);
        end(&f);
    }
}

/* Whatever the threads and lanes, the same bits: a long sum of products, and its parts elsewhere.
 */
static void test_the_same_bits(void **state)
{
    (void)state;
    double want[16] = {0};
    for (int way = 0; way < 6; way++) {
        fixture f;
        orr_workers *workers = NULL;
        begin(&f);
        const orr_value x = given(&f, TYPE(4, 4));
        for (int i = 0; i < 16; i++)
            ((double *)f.bindings[x].data)[i] = sin(i);
        orr_value sum = x;
        for (int i = 0; i < 8; i++) {
            const orr_value p = apply2(&f, ORR_OP_MATMUL, NULL, sum, x);
            f.calls[f.tape.n_calls - 1].lane = (uint8_t)(way > 1 ? i % (way - 1) : 0);
            sum = apply2(&f, ORR_OP_ADD, NULL, apply(&f, ORR_OP_SIGMOID, NULL, sum), p);
        }
        if (way % 2 == 1)
            assert_int_equal(orr_workers_new(3, &workers, &f.err), ORR_OK);
        f.source.workers = workers;
        f.bindings[sum].kept = true;
        make(&f);
        for (int again = 0; again < 50; again++) {
            run(&f);
            if (way == 0 && again == 0)
                memcpy(want, orr_program_data(f.program, sum), sizeof want);
            assert_memory_equal(orr_program_data(f.program, sum), want, sizeof want);
        }
        end(&f);
        orr_workers_free(workers);
    }
}

/* Ranks as threads. */
typedef struct rank {
    fixture f;
    orr_communicator *communicators[ORR_AXES];
    orr_value y;
    orr_status status;
} rank;

static void *run_rank(void *ctx)
{
    rank *r = ctx;
    r->status = orr_program_execute(r->f.program, NULL, &r->f.err);
    return NULL;
}

static void begin_ranks(rank *ranks, bench_world *world)
{
    static const uint32_t everyone[BENCH_RANKS] = {0, 1, 2, 3};
    for (uint32_t r = 0; r < world->ranks; r++) {
        memset(&ranks[r], 0, sizeof ranks[r]);
        begin(&ranks[r].f);
        ranks[r].f.source.communicators = ranks[r].communicators;
        assert_int_equal(orr_communicator_make(&world->transports[r], everyone, world->ranks, 0, 0,
                                               ranks[r].f.arena, &ranks[r].communicators[0],
                                               &ranks[r].f.err),
                         ORR_OK);
    }
}
static void run_ranks(rank *ranks, uint32_t n)
{
    pthread_t threads[BENCH_RANKS];
    for (uint32_t r = 0; r < n; r++)
        make(&ranks[r].f);
    for (uint32_t r = 0; r < n; r++)
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &ranks[r]), 0);
    for (uint32_t r = 0; r < n; r++)
        pthread_join(threads[r], NULL);
}
static void end_ranks(rank *ranks, bench_world *world)
{
    for (uint32_t r = 0; r < world->ranks; r++)
        end(&ranks[r].f);
    bench_world_free(world);
}

static void test_turns_of_a_ring(void **state)
{
    (void)state;
    enum { N = 3 };
    static rank ranks[N];
    for (int way = 0; way < 3; way++) { /* neighbours; as said; and back */
        bench_world *world = bench_world_new(N);
        begin_ranks(ranks, world);
        for (uint32_t r = 0; r < N; r++) {
            fixture *f = &ranks[r].f;
            orr_op_args args = {.members = N, .overlap = true};
            if (way == 1) {
                args.begin = (r + 1) % N;
                args.count = (r + 2) % N + 1;
            }
            orr_value x = given(f, TYPE(2));
            ((double *)f->bindings[x].data)[1] = r;
            x = apply(f, way == 2 ? ORR_OP_RECV : ORR_OP_SEND, &args, x);
            f->bindings[x].kept = true;
            ranks[r].y = x;
            f->source.calls = NULL; /* lanes by rule */
        }
        run_ranks(ranks, N);
        for (uint32_t r = 0; r < N; r++) {
            assert_int_equal(ranks[r].status, ORR_OK);
            assert_int_equal(ranks[r].f.program->actions[0].lane, ORR_LANE_COMM);
            assert_true(number(&ranks[r].f, ranks[r].y, 1) == (r + (way == 2 ? 1 : 2)) % N);
        }
        end_ranks(ranks, world);
    }
}

/* A message on its own: the sender's tape has no output, the receiver's no input. */
static orr_value put_message(fixture *f, orr_op op, const orr_op_args *args, orr_value x)
{
    if (op == ORR_OP_SEND) {
        apply(f, op, args, x);
        f->tape.calls[f->tape.n_calls - 1].n_out = 0;
        return ORR_NONE;
    }
    const orr_value y = apply(f, op, args, x);
    f->tape.calls[f->tape.n_calls - 1].n_in = 0;
    return y;
}

/* Two stages send each other two messages before either receives: each way in a lane of its own, so
 * that neither waits for the other. */
static void test_messages_between_stages(void **state)
{
    (void)state;
    static rank ranks[2];
    bench_world *world = bench_world_new(2);
    begin_ranks(ranks, world);
    for (uint32_t r = 0; r < 2; r++) {
        fixture *f = &ranks[r].f;
        const orr_op_args to = {.members = 2, .begin = 2 - r},
                          from = {.members = 2, .count = 2 - r};
        const orr_value x = given(f, TYPE(2));
        ((double *)f->bindings[x].data)[1] = r + 5;
        orr_value y[2];
        for (int i = 0; i < 2; i++) {
            f->calls[f->tape.n_calls].lane = 1;
            put_message(f, ORR_OP_SEND, &to, x);
        }
        for (int i = 0; i < 2; i++) {
            f->calls[f->tape.n_calls].lane = 2;
            y[i] = put_message(f, ORR_OP_RECV, &from, x);
        }
        ranks[r].y = apply2(f, ORR_OP_ADD, NULL, y[0], y[1]);
        f->bindings[ranks[r].y].kept = true;
    }
    run_ranks(ranks, 2);
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(ranks[r].status, ORR_OK);
        assert_true(number(&ranks[r].f, ranks[r].y, 1) == 2 * (6 - r));
    }
    end_ranks(ranks, world);
}

/* A rank that fails while its other lane waits for a peer tells all, and nobody hangs. */
static void test_a_rank_that_fails_ends_all(void **state)
{
    (void)state;
    static rank ranks[2];
    witness w = {.fails_at = 1};
    bench_world *world = bench_world_new(2);
    begin_ranks(ranks, world);
    for (uint32_t r = 0; r < 2; r++) {
        fixture *f = &ranks[r].f;
        const orr_op_args group = {.members = 2};
        const orr_value x = given(f, TYPE(2));
        const orr_value sum = apply(f, ORR_OP_ALL_REDUCE, &group, x);
        const orr_value y = apply(f, ORR_OP_SCALE, NULL, x);
        apply2(f, ORR_OP_ADD, NULL, sum, y);
        f->calls[0].lane = ORR_LANE_COMM;
    }
    /* Rank 1 never comes to the all-reduce. */
    ranks[1].f.calls[0].lane = 0;
    ranks[1].f.calls[1].lane = ORR_LANE_COMM;
    ranks[1].f.calls[0].before = ranks[1].f.calls[1].before = see;
    ranks[1].f.calls[0].hook_ctx = ranks[1].f.calls[1].hook_ctx = &w;
    w.fails_at = 0;
    run_ranks(ranks, 2);
    assert_int_equal(ranks[1].status, ORR_IO);
    assert_string_equal(ranks[1].f.err.text, "all_reduce: no");
    assert_int_equal(ranks[0].status, ORR_IO);
    assert_string_equal(ranks[0].f.err.text, "all_reduce: a rank gave up");
    end_ranks(ranks, world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_range_of_calls),
        cmocka_unit_test(test_emulated_calls_overlap),
        cmocka_unit_test(test_hooks),
        cmocka_unit_test(test_a_failure_stops_all_lanes),
        cmocka_unit_test(test_the_first_nan_is_named),
        cmocka_unit_test(test_numbers_that_are_none),
        cmocka_unit_test(test_the_same_bits),
        cmocka_unit_test(test_turns_of_a_ring),
        cmocka_unit_test(test_messages_between_stages),
        cmocka_unit_test(test_a_rank_that_fails_ends_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
