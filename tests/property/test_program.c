/* SPDX-License-Identifier: Apache-2.0 */
#include "support/gradient_cases.h"
#include "support/program_bench.h"

#include "engine/run/program_state.h"

/* Programs against the naive interpreter, to the last bit: tapes of every operator with its
 * gradient, and random tapes full of views, in one lane and in several, on one rank and on groups.
 * What each call reads is looked at right before it runs, so that bytes which were given to
 * something else too early are seen. */

enum { LANES = 3, DRAWN_CALLS = 24 };

typedef struct subject {
    bench *b;
    naive_rank want;
    orr_program *program;
    orr_program_call *calls;
    orr_binding *bindings;
} subject;

static orr_operand value_now(const subject *s, orr_value v)
{
    const orr_value_location *place = &s->program->places[v];
    orr_operand o = {.type = s->b->tape.values[v].type, .data = orr_program_data(s->program, v)};
    memcpy(o.stride, place->stride, sizeof o.stride);
    return o;
}

static bool has_numbers(const orr_operand *now, const double *want)
{
    for (int64_t i = 0; i < naive_size(&now->type); i++)
        if (bench_load(now, bench_element(now, i)) != want[i])
            return false;
    return true;
}

static bool is_right(const subject *s, orr_value v)
{
    const orr_operand now = value_now(s, v);
    return has_numbers(&now, s->want.at[v]);
}

/* A copy reads nothing but what it copies. */
static bool copies_right(const subject *s, uint32_t index)
{
    const orr_action *action = &s->program->actions[index];
    for (uint32_t k = 0; k < action->n_in; k++) {
        const uint32_t at = action->operands + k;
        if (!has_numbers(&s->program->operands[at],
                         s->want.at[s->program->operand_of[at + action->n_in]]))
            return false;
    }
    return true;
}

/* In the lane, right before the call. */
static orr_status look_at_inputs(void *ctx, uint32_t index, orr_error *err)
{
    const subject *s = ctx;
    const orr_tape_call *call = &s->b->tape.calls[index];
    if (s->program->actions[index].kind == ORR_ACTION_NONE)
        return ORR_OK; /* a view, which perhaps nobody reads */
    if (s->program->actions[index].kind == ORR_ACTION_COPY)
        return copies_right(s, index) ? ORR_OK
                                      : orr_fail(err, ORR_IO, "what call %u copies", index);
    for (uint32_t k = 0; k < call->n_in; k++)
        if (!is_right(s, call->in[k]))
            return orr_fail(err, ORR_IO, "input %u of call %u, %s, is not what it was", k, index,
                            orr_op_of((orr_op)call->op)->name);
    return ORR_OK;
}

static bool is_asked(const bench *b, orr_value v)
{
    for (uint32_t k = 0; k < b->n_outputs; k++)
        if (b->outputs[k] == v)
            return true;
    for (uint32_t k = 0; k < b->n_leaves; k++)
        if (b->grads[k] == v)
            return true;
    return false;
}

static void draw_bindings(subject *s)
{
    const orr_tape *tape = &s->b->tape;
    s->bindings = orr_arena_array(s->b->arena, orr_binding, tape->n_values);
    for (orr_value v = 0; v < tape->n_values; v++) {
        const bool given = tape->values[v].made_by == ORR_NONE;
        const uint32_t draw = orr_random_u32(&s->b->random) % 3;
        if (!given && !is_asked(s->b, v))
            continue;
        if (draw == 0 || (draw == 1 && is_asked(s->b, v)))
            s->bindings[v].data = orr_arena_alloc(
                s->b->arena, 1, (size_t)orr_type_bytes(&tape->values[v].type) + 1, 64);
        else if (draw == 2)
            s->bindings[v].kept = true;
    }
}

static void draw_calls(subject *s, uint32_t lanes)
{
    const orr_tape *tape = &s->b->tape;
    s->calls = orr_arena_array(s->b->arena, orr_program_call, tape->n_calls);
    for (uint32_t c = 0; c < tape->n_calls; c++) {
        /* A view with a hook is waited for by whoever reads it: some have none. */
        const bool looks =
            !orr_op_of((orr_op)tape->calls[c].op)->shares || orr_random_u32(&s->b->random) % 2 == 0;
        s->calls[c] = (orr_program_call){.lane = (uint8_t)orr_random_below(&s->b->random, lanes),
                                         .before = looks ? look_at_inputs : NULL,
                                         .hook_ctx = s};
    }
}

static void give(const subject *s)
{
    const orr_tape *tape = &s->b->tape;
    for (orr_value v = 0; v < tape->n_values; v++) {
        void *data = orr_program_data(s->program, v);
        if (tape->values[v].made_by == ORR_NONE && data != NULL)
            bench_fill(&tape->values[v].type, data, s->want.at[v]);
    }
}

/* No two values of the program's own share a byte while both are alive; one lane. */
static void hold_apart(const subject *s, const char *name)
{
    const orr_program *p = s->program;
    const orr_tape *tape = p->tape;
    for (orr_value a = 0; a < tape->n_values; a++)
        for (orr_value b = a + 1; b < tape->n_values; b++) {
            const int64_t bytes_a = orr_type_bytes(&tape->values[a].type),
                          bytes_b = orr_type_bytes(&tape->values[b].type);
            if (p->places[a].root != a || p->places[b].root != b || p->base[a] == NULL ||
                p->base[b] == NULL || p->base[a] + bytes_a <= p->base[b] ||
                p->base[b] + bytes_b <= p->base[a] || bytes_a == 0 || bytes_b == 0)
                continue;
            uint32_t first[2] = {UINT32_MAX, UINT32_MAX}, last[2] = {0, 0};
            for (uint32_t c = 0; c < tape->n_calls; c++)
                for (uint32_t k = 0; k < (uint32_t)p->actions[c].n_in + p->actions[c].n_out; k++) {
                    const orr_value of = p->operand_of[p->actions[c].operands + k];
                    for (int i = 0; i < 2; i++)
                        if (of == (i == 0 ? a : b)) {
                            first[i] = c < first[i] ? c : first[i];
                            last[i] = c;
                        }
                }
            if (first[0] <= last[1] && first[1] <= last[0])
                seed_fail(s->b->seed, "%s: values %u and %u share bytes", name, a, b);
        }
}

static void hold(bench *b, const char *name, uint32_t lanes)
{
    orr_backend backend = bench_backend();
    subject s = {.b = b, .want = bench_rank(b)};
    orr_error err;
    naive_run(&s.want, 1, false);
    draw_bindings(&s);
    draw_calls(&s, lanes);
    const orr_program_source source = {
        .tape = &b->tape, .calls = s.calls, .bindings = s.bindings, .backend = &backend};
    if (orr_program_make(&source, &s.program, &err) != ORR_OK)
        seed_fail(b->seed, "%s: %s", name, err.text);
    if (lanes == 1)
        hold_apart(&s, name);
    for (int run = 0; run < 3; run++) {
        give(&s);
        (void)orr_alloc_count();
        if (orr_program_execute(s.program, NULL, &err) != ORR_OK)
            seed_fail(b->seed, "%s: %s", name, err.text);
        if (orr_alloc_count() != 0)
            seed_fail(b->seed, "%s: running allocates", name);
        for (orr_value v = 0; v < b->tape.n_values; v++)
            if (is_asked(b, v) && !is_right(&s, v))
                seed_fail(b->seed, "%s: value %u is wrong", name, v);
    }
    orr_program_memory told;
    if (orr_program_measure(&source, &told, &err) != ORR_OK)
        seed_fail(b->seed, "%s: %s", name, err.text);
    const orr_program_memory held = orr_program_memory_of(s.program);
    assert_memory_equal(&told, &held, sizeof told);
    orr_program_free(s.program);
}

static void test_each_operator(void **state)
{
    (void)state;
    const seed_range range = seeds(4);
    for (uint64_t seed = range.begin; seed < range.end; seed++)
        for (size_t c = 0; c < sizeof CASES / sizeof *CASES; c++)
            for (uint32_t way = 0; way < CASES[c].ways; way++) {
                char name[64];
                snprintf(name, sizeof name, "%s, way %u", CASES[c].name, way);
                bench b;
                bench_begin(&b, seed, 64 * c + way);
                CASES[c].make(&b, way);
                bench_reverse(&b);
                bench_widen(&b.tape);
                hold(&b, name, 1);
                hold(&b, name, LANES);
                bench_end(&b);
            }
}

/* One of the values made so far, the younger the likelier. */
static orr_value draw_value(bench *b, const orr_value *made, uint32_t n)
{
    const uint32_t back = (uint32_t)orr_random_below(&b->random, n < 6 ? n : 6);
    return made[n - 1 - back];
}

static orr_value draw_view(bench *b, orr_value x, const orr_type *type)
{
    const int32_t dim = (int32_t)orr_random_below(&b->random, type->rank);
    const int64_t n = type->dim[dim];
    const int64_t begin = (int64_t)orr_random_below(&b->random, (uint64_t)n);
    const orr_type flat = {.rank = 1, .dim = {orr_type_elements(type)}};
    const orr_type turned = {
        .rank = 2, .dim = {type->dim[type->rank - 1], flat.dim[0] / type->dim[type->rank - 1]}};
    const orr_type halves = {.rank = 2, .dim = {n / 2, n - n / 2}};
    switch (orr_random_below(&b->random, 4)) {
    case 0:
        return APPLY(b, VIEW, ARGS(.shape = &flat), x);
    case 1:
        return APPLY(b, VIEW, ARGS(.shape = &turned), x);
    case 2:
        if (n > 1) {
            APPLY(b, SPLIT, ARGS(.dim = dim, .shape = &halves), x);
            return b->out[orr_random_below(&b->random, 2)];
        }
        return APPLY(b, SLICE, ARGS(.dim = dim, .count = n), x);
    default:
        return APPLY(b, SLICE, ARGS(.dim = dim, .begin = begin, .count = n - begin), x);
    }
}

static void draw_tape(bench *b)
{
    orr_value made[2 * DRAWN_CALLS + 2];
    uint32_t n = 0;
    made[n++] = NUMBER(b, 4, 3, 2);
    made[n++] = NUMBER(b, 2, 6);
    for (int i = 0; i < DRAWN_CALLS; i++) {
        const orr_value x = draw_value(b, made, n);
        const orr_type type = b->tape.values[x].type;
        if (orr_random_u32(&b->random) % 2 == 0) {
            made[n++] = draw_view(b, x, &type);
            continue;
        }
        switch (orr_random_below(&b->random, 5)) {
        case 0:
            made[n++] = APPLY(b, GELU, NULL, x);
            break;
        case 1:
            made[n++] = APPLY(b, ADD, NULL, x, x);
            break;
        case 2:
            made[n++] = APPLY(b, MUL, NULL, x, APPLY(b, SIGMOID, NULL, x));
            break;
        case 3:
            made[n++] = APPLY(b, CONCAT, ARGS(.dim = 0), x, x);
            break;
        default:
            made[n++] = APPLY(b, SOFTMAX, NULL, APPLY(b, SCALE, ARGS(.value = 2), x));
            break;
        }
        if (orr_type_elements(&b->tape.values[made[n - 1]].type) > 200)
            made[n - 1] = x;
    }
    /* Each end is asked for, so that much of the tape is read in the backward pass. */
    bench_output(b, made[n - 1]);
    bench_output(b, made[n - 2]);
    bench_output(b, made[n / 2]);
}

static bool drop_some(void *ctx, const orr_tape *tape, orr_value value)
{
    (void)tape;
    return (value * 2654435761u >> 16) % 3 != *(const uint32_t *)ctx;
}

static void test_random_tapes(void **state)
{
    (void)state;
    const seed_range range = seeds(150);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        bench b;
        uint32_t part = (uint32_t)(seed % 3);
        const orr_recompute_policy some = {.drops = drop_some, .ctx = &part};
        bench_begin(&b, seed, 7);
        draw_tape(&b);
        bench_widen(&b.tape);
        for (uint32_t k = 0; k < BENCH_LEAVES; k++)
            b.grads[k] = ORR_NONE;
        hold(&b, "forward", 1);
        bench_reverse(&b);
        bench_widen(&b.tape);
        hold(&b, "there and back", 1);
        hold(&b, "there and back", LANES);
        if (orr_tape_recompute(&b.tape, &some, &b.err) != ORR_OK)
            seed_fail(seed, "%s", b.err.text);
        hold(&b, "computed again", LANES);
        bench_end(&b);
    }
}

/* A collective, if the dims allow it, among `n`. */
static orr_value draw_collective(bench *b, orr_value x, uint32_t n)
{
    static const orr_op ops[] = {ORR_OP_ALL_REDUCE, ORR_OP_ALL_GATHER, ORR_OP_REDUCE_SCATTER,
                                 ORR_OP_ALL_TO_ALL, ORR_OP_BROADCAST,  ORR_OP_REPLICATE,
                                 ORR_OP_SHARD};
    const orr_type type = b->tape.values[x].type;
    const orr_op op = ops[orr_random_below(&b->random, sizeof ops / sizeof *ops)];
    const orr_op_args args = {.dim = (int32_t)orr_random_below(&b->random, type.rank),
                              .to_dim = (int32_t)orr_random_below(&b->random, type.rank),
                              .axis = (uint8_t)orr_random_below(&b->random, 2),
                              .members = n};
    const bool cuts = op == ORR_OP_REDUCE_SCATTER || op == ORR_OP_ALL_TO_ALL || op == ORR_OP_SHARD;
    if ((cuts && type.dim[args.dim] % n != 0) ||
        (op == ORR_OP_ALL_GATHER && orr_type_elements(&type) * n > 300))
        return x;
    return bench_apply(b, op, &args, &x, 1);
}

static void draw_group_tape(bench *b, uint32_t n)
{
    orr_value made[DRAWN_CALLS + 1];
    uint32_t m = 0;
    made[m++] = NUMBER(b, 2 * n, 3, n);
    for (int i = 0; i < DRAWN_CALLS; i++) {
        const orr_value x = draw_value(b, made, m);
        const orr_type type = b->tape.values[x].type;
        const uint32_t draw = orr_random_u32(&b->random) % 4;
        made[m++] = draw < 2    ? draw_collective(b, x, n)
                    : draw == 2 ? draw_view(b, x, &type)
                                : APPLY(b, SIGMOID, NULL, x);
    }
    for (uint32_t k = 0; k < 3; k++)
        bench_output(b, made[m - 1 - k]);
}

/* Numbers that tell ranks apart, and whose sums depend on their order. */
static void differ(bench *b, uint32_t rank)
{
    for (orr_value v = 0; v < b->tape.n_values; v++)
        for (int64_t i = 0; b->data[v] != NULL && i < naive_size(&b->tape.values[v].type); i++)
            b->data[v][i] *= 1 + rank / 3.0;
}

static void *run_rank(void *ctx)
{
    subject *s = ctx;
    for (int run = 0; run < 2; run++) {
        give(s);
        if (orr_program_execute(s->program, NULL, &s->b->err) != ORR_OK)
            return s;
        for (orr_value v = 0; v < s->b->tape.n_values; v++)
            if (is_asked(s->b, v) && !is_right(s, v)) {
                (void)orr_fail(&s->b->err, ORR_IO, "value %u is wrong", v);
                return s;
            }
    }
    return NULL;
}

static void make_rank(subject *s, bench_world *world, uint32_t r, orr_backend *backend)
{
    static const uint32_t everyone[BENCH_RANKS] = {0, 1, 2, 3};
    orr_communicator *communicators[ORR_AXES] = {NULL};
    for (uint32_t axis = 0; axis < 2; axis++)
        if (orr_communicator_make(&world->transports[r], everyone, world->ranks, axis, 0,
                                  s->b->arena, &communicators[axis], &s->b->err) != ORR_OK)
            seed_fail(s->b->seed, "%s", s->b->err.text);
    draw_bindings(s);
    draw_calls(s, LANES);
    const orr_program_source source = {.tape = &s->b->tape,
                                       .calls = s->calls,
                                       .bindings = s->bindings,
                                       .communicators = communicators,
                                       .backend = backend};
    if (orr_program_make(&source, &s->program, &s->b->err) != ORR_OK)
        seed_fail(s->b->seed, "%s", s->b->err.text);
}

static void hold_group(uint64_t seed, uint32_t n)
{
    static bench b[BENCH_RANKS];
    subject s[BENCH_RANKS];
    naive_rank ranks[BENCH_RANKS];
    pthread_t threads[BENCH_RANKS];
    orr_backend backend = bench_backend();
    bench_world *world = bench_world_new(n);
    for (uint32_t r = 0; r < n; r++) {
        bench_begin(&b[r], seed, 70 + n);
        draw_group_tape(&b[r], n);
        bench_reverse(&b[r]);
        bench_widen(&b[r].tape);
        differ(&b[r], r);
        ranks[r] = bench_rank(&b[r]);
    }
    naive_run(ranks, n, false);
    for (uint32_t r = 0; r < n; r++) {
        s[r] = (subject){.b = &b[r], .want = ranks[r]};
        b[r].random = orr_random_of(seed, r);
        make_rank(&s[r], world, r, &backend);
    }
    for (uint32_t r = 0; r < n; r++)
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &s[r]), 0);
    void *failed[BENCH_RANKS];
    for (uint32_t r = 0; r < n; r++)
        pthread_join(threads[r], &failed[r]);
    for (uint32_t r = 0; r < n; r++) {
        if (failed[r] != NULL)
            seed_fail(seed, "rank %u of %u: %s", r, n, b[r].err.text);
        orr_program_free(s[r].program);
        bench_end(&b[r]);
    }
    bench_world_free(world);
}

static void test_groups(void **state)
{
    (void)state;
    const seed_range range = seeds(40);
    for (uint64_t seed = range.begin; seed < range.end; seed++)
        for (uint32_t n = 2; n <= BENCH_RANKS; n++)
            hold_group(seed, n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_operator),
        cmocka_unit_test(test_random_tapes),
        cmocka_unit_test(test_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
