/* SPDX-License-Identifier: Apache-2.0 */
#include "support/kernel_bench.h"
#include "support/kernel_cases.h"
#include "support/kernel_special_cases.h"

#include "base/workers.h"

/* Every operator that has a kernel on the host's processors, against its naive version: at each
 * level of the processor, in fp32, bf16 and fp16, of tensors with gaps, to stated tolerances; with
 * the same bits for any number of threads. */
static kernel_bench bench_of_kernels;

/* Those whose naive version means something else: numbers that are drawn, and rounding, which
 * gradients pass through. They have tests of their own, here or in tests/unit/kernel. */
static bool differs(const orr_tape *tape, const orr_tape_call *call)
{
    const bool draws = (call->op == ORR_OP_DROPOUT && call->n_in == 1) ||
                       (call->op == ORR_OP_ATTENTION && !call->args.flash && call->args.value > 0);
    bool small = false;
    for (uint32_t i = 0; i < call->n_in; i++)
        small |= kernel_is_small(tape->values[call->in[i]].type.dtype);
    for (uint32_t o = 0; o < call->n_out; o++)
        small |= kernel_is_small(tape->values[call->out[o]].type.dtype);
    return draws || small;
}

/* Tensors for the rank's next call. */
static void prepare(kernel_bench *k, const naive_rank *rank, const naive_call *c, bool gaps)
{
    const orr_tape_call *call = &rank->tape->calls[rank->next];
    memset(k->rooms, 0, sizeof k->rooms);
    k->now = (orr_kernel_call){.op = call->op, .args = c->args, .n_in = c->n_in, .n_out = c->n_out};
    for (uint32_t i = 0; i < c->n_in; i++) {
        kernel_room *room = &k->rooms[i];
        const bool counts = call->op == ORR_OP_GROUPED_MATMUL && i == 2; /* never a slice */
        kernel_lay(k, room, &c->in_type[i], gaps && !counts);
        for (int64_t e = 0; e < naive_size(&c->in_type[i]); e++)
            kernel_put(&room->operand, room->before, e, c->in[i][e]);
        k->in[i] = room->operand;
    }
    for (uint32_t o = 0; o < c->n_out; o++) {
        kernel_lay(k, kernel_out(k, o), &c->out_type[o], gaps);
        kernel_old(k, kernel_out(k, o));
        k->out[o] = kernel_out(k, o)->operand;
        k->want[o] = c->out[o];
    }
}

/* All calls of a tape, each held against the naive one. */
static void hold_tape(kernel_bench *k, bench *b, const char *name)
{
    naive_rank rank = bench_rank(b);
    k->seed = b->seed;
    k->name = name;
    k->random = orr_random_of(b->seed, 77);
    for (orr_value v = 0; v < b->tape.n_values; v++)
        if (b->tape.values[v].made_by == ORR_NONE && !kernel_is_small(b->tape.values[v].type.dtype))
            kernel_round(&b->tape.values[v].type, rank.at[v]);
    for (rank.next = 0; rank.next < b->tape.n_calls; rank.next++) {
        const orr_tape_call *call = &b->tape.calls[rank.next];
        orr_op_signature_types room;
        const naive_call c = naive_now(&rank, &room);
        assert_non_null(NAIVE[call->op]);
        NAIVE[call->op](&c);
        if (k->backend->entries[call->op].run != NULL && !k->failed[call->op] &&
            !differs(&b->tape, call)) {
            orr_arena_reset(k->arena);
            prepare(k, &rank, &c, orr_random_below(&k->random, 3) > 0);
            kernel_each_level(k, kernel_at_level);
            k->covered[call->op] = true;
        }
        for (uint32_t o = 0; o < c.n_out; o++)
            if (!kernel_is_small(c.out_type[o].dtype))
                kernel_round(&c.out_type[o], c.out[o]);
    }
}

static void none_failed(void)
{
    bool failed[ORR_OPS];
    memcpy(failed, bench_of_kernels.failed, sizeof failed);
    memset(bench_of_kernels.failed, 0, sizeof failed);
    for (int op = 0; op < ORR_OPS; op++)
        if (failed[op])
            fail_msg("kernels are wrong, one of them %s", orr_op_of((orr_op)op)->name);
}

static void hold_cases(const gradient_case *cases, size_t n, uint64_t seeds_each)
{
    static const orr_dtype DTYPES[] = {ORR_DTYPE_FP32, ORR_DTYPE_BF16, ORR_DTYPE_FP16};
    const seed_range range = seeds(seeds_each);
    for (uint64_t seed = range.begin; seed < range.end; seed++)
        for (size_t c = 0; c < n; c++)
            for (uint32_t way = 0; way < cases[c].ways; way++) {
                char name[64];
                bench b;
                snprintf(name, sizeof name, "%s, way %u", cases[c].name, way);
                bench_begin(&b, seed, 64 * c + way);
                b.dtype = DTYPES[(seed + way + c) % (sizeof DTYPES / sizeof *DTYPES)];
                cases[c].make(&b, way);
                b.dtype = ORR_DTYPE_FP64;
                if (b.n_outputs > 0)
                    bench_reverse(&b);
                hold_tape(&bench_of_kernels, &b, name);
                bench_end(&b);
            }
    none_failed();
}

/* Every way in which operators can be asked, small. */
static void test_small(void **state)
{
    (void)state;
    hold_cases(CASES, sizeof CASES / sizeof *CASES, 6);
}

static void test_large(void **state)
{
    (void)state;
    hold_cases(LARGE, sizeof LARGE / sizeof *LARGE, 4);
}

static void test_special(void **state)
{
    static void (*const SPECIAL[])(kernel_bench * k, uint64_t seed) = {
        special_adamw, special_sgd, special_adagrad, special_dropout, special_quantize};
    (void)state;
    const seed_range range = seeds(12);
    for (uint64_t seed = range.begin; seed < range.end; seed++)
        for (size_t s = 0; s < sizeof SPECIAL / sizeof *SPECIAL; s++)
            SPECIAL[s](&bench_of_kernels, seed);
    none_failed();
}

static int start(void **state)
{
    static const int THREADS[] = {1, 2, 3, 5};
    kernel_bench *k = &bench_of_kernels;
    orr_error err;
    (void)state;
    (void)naive_run; /* of whole tapes; calls are run one by one here */
    k->arena = orr_arena_new(0, 0);
    for (size_t w = 0; w < sizeof THREADS / sizeof *THREADS; w++)
        if (orr_workers_new(THREADS[w], &k->workers[w], &err) != ORR_OK)
            return -1;
    return k->arena != NULL ? orr_backend_cpu(&k->backend, &err) != ORR_OK : -1;
}

static int end(void **state)
{
    (void)state;
    for (size_t w = 0; w < sizeof bench_of_kernels.workers / sizeof *bench_of_kernels.workers; w++)
        orr_workers_free(bench_of_kernels.workers[w]);
    orr_arena_free(bench_of_kernels.arena);
    return 0;
}

/* What meets other ranks has no kernel here. */
static bool is_collective(int op)
{
    return orr_op_of((orr_op)op)->family == ORR_OP_FAMILY_COLLECTIVE;
}

static void test_nothing_is_left_out(void **state)
{
    (void)state;
    if (getenv("ORRERY_SEED") != NULL && *getenv("ORRERY_SEED") != '\0')
        skip(); /* one seed does not draw everything */
    bool left_out = false;
    for (int op = 0; op < ORR_OPS; op++) {
        const char *name = orr_op_of((orr_op)op)->name;
        if (is_collective(op))
            continue;
        const bool seated = bench_of_kernels.backend->entries[op].run != NULL;
        if (!seated || !bench_of_kernels.covered[op])
            print_error("%s has %s\n", name,
                        seated ? "a kernel, and no test asks for it" : "no kernel");
        left_out |= !seated || !bench_of_kernels.covered[op];
    }
    assert_false(left_out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_special),
        cmocka_unit_test(test_nothing_is_left_out),
    };
    return cmocka_run_group_tests(tests, start, end);
}
