/* SPDX-License-Identifier: Apache-2.0 */
#include "support/gradient_bench.h"

/* Models cut into slices over ranks: what they give, and the gradients of their slices of the
 * weights, are those of the whole model on one rank, where the same calls meet in groups of one. */
enum { RANKS_MAX = 4, LEAF_WHOLE = -1 };

/* One rank of `n`, and the whole of which it has slices (NULL: it is that). */
typedef struct part {
    bench b;
    const bench *whole;
    uint32_t rank, n;
    int32_t cut[BENCH_LEAVES];  /* dim of each leaf, or LEAF_WHOLE */
    bool partial[BENCH_LEAVES]; /* its gradient is a sum over the ranks */
} part;

static void part_begin(part *p, const bench *whole, uint64_t seed, uint32_t rank, uint32_t n)
{
    memset(p, 0, sizeof *p);
    bench_begin(&p->b, seed, 0);
    p->whole = whole;
    p->rank = rank;
    p->n = n;
}

/* The next leaf: drawn for the whole, the rank's slice along `dim` of the same for a part. */
static orr_value leaf(part *p, orr_value_role role, int32_t dim, bool partial, size_t rank,
                      const int64_t *dims)
{
    const uint32_t k = p->b.n_leaves;
    orr_type type = {.dtype = ORR_DTYPE_FP32, .rank = (uint8_t)rank};
    memcpy(type.dim, dims, rank * sizeof *dims);
    if (dim != LEAF_WHOLE)
        type.dim[dim] /= p->n;
    const orr_value value = bench_number(&p->b, role, ORR_DTYPE_FP32, rank, type.dim);
    p->cut[k] = dim;
    p->partial[k] = partial;
    if (p->whole != NULL) {
        const orr_value of = p->whole->leaves[k];
        naive_part(p->b.data[value], &type, p->whole->data[of], &p->whole->tape.values[of].type,
                   dim == LEAF_WHOLE ? 0 : dim, dim == LEAF_WHOLE ? 0 : p->rank * type.dim[dim],
                   false);
    }
    return value;
}
#define SLICE_OF(p, dim, ...) leaf((p), ORR_VALUE_PARAMETER, (dim), false, DIMS(__VA_ARGS__))
#define WHOLE_OF(p, partial, ...)                                                                  \
    leaf((p), ORR_VALUE_PARAMETER, LEAF_WHOLE, (partial), DIMS(__VA_ARGS__))

/* Numbers that all ranks have: drawn from a stream of their own. */
static orr_value same_index(part *p, uint64_t stream, int64_t below, size_t rank,
                            const int64_t *dims)
{
    const orr_random before = p->b.random;
    p->b.random = orr_random_of(p->b.seed, stream);
    const orr_value value = bench_index(&p->b, below, rank, dims);
    p->b.random = before;
    return value;
}

static orr_value meet(part *p, orr_op op, int32_t dim, int32_t to_dim, orr_value x)
{
    const orr_op_args args = {.dim = dim, .to_dim = to_dim, .members = p->n};
    return bench_apply(&p->b, op, &args, &x, 1);
}

/* Into what each rank does with its slice of the weights, and out of it: with sequence parallelism
 * tokens are gathered and scattered, without all ranks have all of them. */
static orr_value enter(part *p, bool sp, orr_value x)
{
    return meet(p, sp ? ORR_OP_ALL_GATHER : ORR_OP_REPLICATE, 0, 0, x);
}
static orr_value leave(part *p, bool sp, orr_value x)
{
    return meet(p, sp ? ORR_OP_REDUCE_SCATTER : ORR_OP_ALL_REDUCE, 0, 0, x);
}

enum { TOKENS = 8, COLUMNS = 6, HEADS = 4, WIDTH = 2, INNER = 8, WORDS = 12 };

static orr_value attention_block(part *p, bool sp, orr_value x)
{
    bench *b = &p->b;
    const int64_t heads = HEADS / p->n;
    const orr_type apart = {.rank = 4, .dim = {1, TOKENS, heads, WIDTH}};
    const orr_type flat = {.rank = 2, .dim = {TOKENS, heads * WIDTH}};
    const orr_value norm = WHOLE_OF(p, sp, COLUMNS);
    orr_value n = APPLY(b, RMS_NORM, ARGS(.value = 1e-3), x, norm), qkv[3];
    n = enter(p, sp, n);
    for (uint32_t k = 0; k < 3; k++) {
        const orr_value w = SLICE_OF(p, 1, COLUMNS, HEADS * WIDTH);
        qkv[k] = APPLY(b, MATMUL, NULL, n, w);
        qkv[k] = APPLY(b, VIEW, ARGS(.shape = &apart), qkv[k]);
    }
    orr_value y =
        APPLY(b, ATTENTION, ARGS(.mask = ORR_MASK_CAUSAL, .flash = true), qkv[0], qkv[1], qkv[2]);
    const orr_value w = SLICE_OF(p, 0, HEADS * WIDTH, COLUMNS);
    y = APPLY(b, MATMUL, NULL, APPLY(b, VIEW, ARGS(.shape = &flat), y), w);
    return APPLY(b, ADD, NULL, x, leave(p, sp, y));
}

static orr_value mlp_block(part *p, bool sp, orr_value x)
{
    bench *b = &p->b;
    const orr_value norm = WHOLE_OF(p, sp, COLUMNS), bias = WHOLE_OF(p, sp, COLUMNS);
    orr_value n = APPLY(b, LAYER_NORM, ARGS(.value = 1e-3), x, norm, bias);
    n = enter(p, sp, n);
    const orr_value up = SLICE_OF(p, 1, COLUMNS, INNER);
    const orr_value down = SLICE_OF(p, 0, INNER, COLUMNS);
    const orr_value y =
        APPLY(b, MATMUL, NULL, APPLY(b, GELU, NULL, APPLY(b, MATMUL, NULL, n, up)), down);
    return APPLY(b, ADD, NULL, x, leave(p, sp, y));
}

/* Logits of a slice of the vocabulary, and the loss of all of it: loss.c says how. */
static orr_value sliced_loss(part *p, orr_value logits)
{
    bench *b = &p->b;
    const orr_type row = {.rank = 2, .dim = {1, TOKENS}};
    const orr_op_args args = {.members = p->n, .begin = p->rank * (WORDS / p->n)};
    const orr_value targets = same_index(p, 2, WORDS, DIMS(TOKENS));
    APPLY(b, CROSS_ENTROPY, &args, logits, targets);
    const orr_value lse = APPLY(b, VIEW, ARGS(.shape = &row), b->out[1]);
    const orr_value lses = meet(p, ORR_OP_ALL_GATHER, 0, 0, lse);
    return meet(p, ORR_OP_ALL_REDUCE, 0, 0, APPLY(b, CROSS_ENTROPY, &args, logits, targets, lses));
}

/* Embedding, attention, MLP, head, loss: tensor-parallel as Megatron-LM does it. */
static void language_model(part *p, bool sp)
{
    bench *b = &p->b;
    const orr_value ids = same_index(p, 1, WORDS, DIMS(TOKENS));
    const orr_value table = SLICE_OF(p, 0, WORDS, COLUMNS);
    const orr_op_args rows = {.begin = p->rank * (WORDS / p->n), .count = WORDS / p->n};
    orr_value x = leave(p, sp, APPLY(b, EMBEDDING, &rows, table, ids));
    x = attention_block(p, sp, x);
    x = mlp_block(p, sp, x);
    const orr_value head = SLICE_OF(p, 0, WORDS, COLUMNS);
    const orr_value logits = APPLY(b, MATMUL, ARGS(.transpose_b = true), enter(p, sp, x), head);
    bench_output(b, sliced_loss(p, logits));
}

/* With the whole's seeds: of samples that are dealt out, those of the rank's own. */
static void reverse(part *p)
{
    bench_reverse(&p->b);
    for (uint32_t k = 0; p->whole != NULL && k < p->b.n_outputs; k++) {
        const orr_value seed = p->b.seeds[k], of = p->whole->seeds[k];
        const orr_type *type = &p->b.tape.values[seed].type, *all = &p->whole->tape.values[of].type;
        const int64_t first = type->dim[0] < all->dim[0] ? p->rank * type->dim[0] : 0;
        naive_part(p->b.data[seed], type, p->whole->data[of], all, 0, first, false);
    }
}

/* A leaf's gradient on the ranks against that of the whole, cut as the leaf is. */
static void hold_leaf(const char *name, const part *whole, const naive_rank *one, const part *parts,
                      const naive_rank *ranks, uint32_t n, uint32_t k)
{
    const orr_type *type = &whole->b.tape.values[whole->b.leaves[k]].type;
    for (uint32_t r = 0; r < n; r++) {
        const bench *b = &parts[r].b;
        const orr_type *cut = &b->tape.values[b->leaves[k]].type;
        for (int64_t i = 0; i < naive_size(cut); i++) {
            int64_t at[ORR_TYPE_DIMS];
            double got = 0;
            naive_unravel(cut, i, at);
            if (parts[r].cut[k] != LEAF_WHOLE)
                at[parts[r].cut[k]] += r * cut->dim[parts[r].cut[k]];
            for (uint32_t q = 0; q < n; q++)
                if (q == r || parts[r].partial[k])
                    got += bench_gradient(&parts[q].b, &ranks[q], k, i);
            const double want = bench_gradient(&whole->b, one, k, naive_ravel(type, at));
            if (!bench_close(got, want))
                seed_fail(b->seed, "%s, leaf %u, rank %u of %u: %.12g, the whole's is %.12g", name,
                          k, r, n, got, want);
        }
    }
}

static void hold_parts(const char *name, const part *whole, part *parts, uint32_t n)
{
    naive_rank one = bench_rank((bench *)&whole->b), ranks[RANKS_MAX];
    for (uint32_t r = 0; r < n; r++)
        ranks[r] = bench_rank(&parts[r].b);
    naive_run(&one, 1, false);
    naive_run(ranks, n, false);
    for (uint32_t k = 0; k < whole->b.n_leaves; k++)
        hold_leaf(name, whole, &one, parts, ranks, n, k);
}

static bool drop_all(void *ctx, const orr_tape *tape, orr_value value)
{
    (void)ctx;
    (void)tape;
    (void)value;
    return true;
}

static void hold_model(const char *name, void (*make)(part *p, bool sp), uint64_t seed, uint32_t n,
                       bool sp, bool recomputed)
{
    const orr_recompute_policy nothing = {.drops = drop_all};
    static part whole, parts[RANKS_MAX];
    part_begin(&whole, NULL, seed, 0, 1);
    make(&whole, sp);
    reverse(&whole);
    for (uint32_t r = 0; r < n; r++) {
        part_begin(&parts[r], &whole.b, seed, r, n);
        make(&parts[r], sp);
        reverse(&parts[r]);
        if (recomputed)
            assert_int_equal(orr_tape_recompute(&parts[r].b.tape, &nothing, NULL), ORR_OK);
    }
    hold_parts(name, &whole, parts, n);
    for (uint32_t r = 0; r < n; r++)
        bench_end(&parts[r].b);
    bench_end(&whole.b);
}

static void test_tensor_parallel_equals_the_whole(void **state)
{
    (void)state;
    const seed_range range = seeds(4);
    for (uint64_t seed = range.begin; seed < range.end; seed++)
        for (uint32_t n = 1; n <= RANKS_MAX; n *= 2)
            for (uint32_t way = 0; way < 4; way++)
                hold_model(way & 1 ? "language model, sequence-parallel" : "language model",
                           language_model, seed, n, way & 1, way & 2);
}

enum { BATCH = 4, TABLES = 4, ROWS = 5, LOOKUPS = 2 };

/* A rank has some of the tables and looks up its rows of the whole batch; then each has all
 * features of its samples, and their interaction. */
static void recommendation_model(part *p, bool sp)
{
    (void)sp;
    bench *b = &p->b;
    const int64_t tables = TABLES / p->n;
    const orr_value table = SLICE_OF(p, 0, TABLES * ROWS, COLUMNS);
    orr_random random = orr_random_of(b->seed, 4);
    const orr_value ids =
        bench_value(b, ORR_VALUE_INPUT, ORR_DTYPE_INT32, 3, (int64_t[]){BATCH, tables, LOOKUPS});
    for (int64_t i = 0, own = 0; i < BATCH * TABLES * LOOKUPS; i++) {
        const int64_t of = i / LOOKUPS % TABLES, row = (int64_t)orr_random_below(&random, ROWS);
        if (of / tables == p->rank)
            b->data[ids][own++] = (double)(of % tables * ROWS + row);
    }
    b->ids_of[0] = ids;
    const orr_value bags = APPLY(b, EMBEDDING_BAG, NULL, table, ids);
    const orr_value pairs = APPLY(b, INTERACTION, NULL, meet(p, ORR_OP_ALL_TO_ALL, 0, 1, bags));
    bench_output(b, pairs);
}

static void test_tables_over_ranks(void **state)
{
    (void)state;
    const seed_range range = seeds(10);
    for (uint64_t seed = range.begin; seed < range.end; seed++)
        for (uint32_t n = 1; n <= RANKS_MAX; n *= 2)
            hold_model("recommendation model", recommendation_model, seed, n, false, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensor_parallel_equals_the_whole),
        cmocka_unit_test(test_tables_over_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
