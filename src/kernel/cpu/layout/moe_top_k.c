/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "kernel/cpu/simd/vector_math.h"
#include "kernel/cpu/tensor/iterator.h"
#include "kernel/cpu/entries.h"

/* The router's choice of experts (top-k, optionally limited to the best groups), token by token;
 * ties go to the lower expert. src/op/families/routing.c defines what is ranked and how scores are
 * normalized. */
typedef struct router {
    orr_tensor_iter walk; /* tokens; logits are part 0 */
    const orr_op_args *args;
    uint32_t bias, scores, indices, made; /* parts of the iterator; bias NONE: none */
    int64_t experts;
    float *room; /* shape (PIECES, 3, experts): logits, choices, groups */
    int64_t pieces;
} router;
enum { PIECES = 32, NONE = ORR_TENSOR_ITER_PARTS };

static bool by_sigmoid(const router *r)
{
    return r->args->op == ORR_OP_SIGMOID;
}
static float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}
static double factor_of(const router *r)
{
    return r->args->value != 0 ? r->args->value : 1;
}

/* Reads a row of experts into `ret`. */
static void read_row(const router *r, uint32_t part, const orr_tensor_cursor *cursor, float *ret)
{
    const float *x = orr_tensor_iter_read(&r->walk, part, cursor, 0, r->experts, ret);
    if (x != ret)
        memcpy(ret, x, (size_t)r->experts * sizeof *ret);
}

/* Score of a group: the sum of its two best experts. */
static float group_score(const float *choice, int64_t n)
{
    float first = -INFINITY, second = -INFINITY;
    for (int64_t e = 0; e < n; e++)
        if (choice[e] > first) {
            second = first;
            first = choice[e];
        } else if (choice[e] > second) {
            second = choice[e];
        }
    return n > 1 ? first + second : first;
}

/* Excludes experts of all but the best groups. */
static void keep_groups(const router *r, float *choice, float *best)
{
    const int64_t groups = r->args->count, kept = r->args->begin, each = r->experts / groups;
    for (int64_t g = 0; g < groups; g++)
        best[g] = group_score(choice + g * each, each);
    for (int64_t g = 0; g < groups; g++) {
        int64_t better = 0;
        for (int64_t other = 0; other < groups; other++)
            better += best[other] > best[g] || (best[other] == best[g] && other < g);
        for (int64_t e = g * each; better >= kept && e < (g + 1) * each; e++)
            choice[e] = -INFINITY;
    }
}

static void make_choice(const router *r, const orr_tensor_cursor *cursor, const float *logits,
                        float *choice, float *spare)
{
    for (int64_t e = 0; e < r->experts; e++)
        choice[e] = by_sigmoid(r) ? sigmoid(logits[e]) : logits[e];
    if (r->bias != NONE) {
        read_row(r, r->bias, cursor, spare);
        orr_vector_math_of_cpu()->add(choice, spare, r->experts, choice);
    }
    if (r->args->count > 1 && r->args->begin < r->args->count)
        keep_groups(r, choice, spare);
}

static int64_t best_of(const float *choice, int64_t n)
{
    int64_t best = 0;
    for (int64_t e = 1; e < n; e++)
        if (choice[e] > choice[best])
            best = e;
    return best;
}

static double raw_score(const router *r, float logit, float most)
{
    return by_sigmoid(r) ? (double)sigmoid(logit) : exp((double)logit - (double)most);
}

/* What raw scores are divided by: their sum over the chosen experts; with a single choice the sum
 * over all experts, or 1. */
static double divisor_of(const router *r, const float *logits, float most, double chosen)
{
    if (r->args->top_k > 1)
        return chosen;
    double sum = 0;
    for (int64_t e = 0; e < r->experts && !by_sigmoid(r); e++)
        sum += raw_score(r, logits[e], most);
    return by_sigmoid(r) ? 1 : sum;
}

static int64_t index_at(const router *r, const orr_tensor_cursor *cursor, int64_t i)
{
    orr_tensor_cursor there = *cursor;
    there.offset[r->indices] += i * r->walk.part[r->indices].stride[r->walk.rank - 1];
    return orr_tensor_iter_read_index(&r->walk, r->indices, &there);
}
static void put_index(const router *r, const orr_tensor_cursor *cursor, int64_t i, int64_t index)
{
    const orr_tensor_iter_part *part = &r->walk.part[r->indices];
    const int32_t narrow = (int32_t)index;
    if (part->data != NULL)
        memcpy(part->data + cursor->offset[r->indices] + i * part->stride[r->walk.rank - 1],
               &narrow, sizeof narrow);
}
static void put_number(const router *r, uint32_t part, const orr_tensor_cursor *cursor, int64_t i,
                       double value)
{
    const float narrow = (float)value;
    orr_tensor_iter_write(&r->walk, part, cursor, i, 1, &narrow);
}

static void choose(const router *r, const orr_tensor_cursor *cursor, float *room)
{
    float *logits = room, *choice = room + r->experts, *spare = choice + r->experts;
    const int64_t k = r->args->top_k;
    double chosen = 0;
    read_row(r, 0, cursor, logits);
    const float most = orr_vector_math_of_cpu()->most(logits, r->experts);
    make_choice(r, cursor, logits, choice, spare);
    for (int64_t i = 0; i < k; i++) {
        const int64_t best = best_of(choice, r->experts);
        choice[best] = -INFINITY;
        put_index(r, cursor, i, best);
        spare[i] = logits[best];
        chosen += raw_score(r, spare[i], most);
    }
    const double factor = factor_of(r) / divisor_of(r, logits, most, chosen);
    for (int64_t i = 0; i < k; i++)
        put_number(r, r->scores, cursor, i, raw_score(r, spare[i], most) * factor);
}

/* Gradient of score_i = a f_i / sum by logit i, through f_i and through the sum. Under softmax with
 * a single choice the sum is over all experts. */
static void choose_back(const router *r, const orr_tensor_cursor *cursor, float *room)
{
    float *logits = room, *made = room + r->experts, *scores = made + r->experts;
    const int64_t k = r->args->top_k;
    double chosen = 0, dot = 0;
    read_row(r, 0, cursor, logits);
    const float most = orr_vector_math_of_cpu()->most(logits, r->experts);
    memset(made, 0, (size_t)r->experts * sizeof *made);
    for (int64_t i = 0; i < k; i++)
        chosen += raw_score(r, logits[index_at(r, cursor, i)], most);
    const double divisor = divisor_of(r, logits, most, chosen);
    for (int64_t i = 0; i < k; i++) {
        float grad;
        grad = *orr_tensor_iter_read(&r->walk, r->scores, cursor, i, 1, &grad);
        scores[i] = grad;
        dot += raw_score(r, logits[index_at(r, cursor, i)], most) / divisor * (double)grad;
    }
    for (int64_t e = 0; e < r->experts && k == 1 && !by_sigmoid(r); e++)
        made[e] = (float)(-dot * factor_of(r) * raw_score(r, logits[e], most) / divisor);
    for (int64_t i = 0; i < k; i++) {
        const int64_t e = index_at(r, cursor, i);
        const double share = raw_score(r, logits[e], most) / divisor,
                     rest = k > 1 ? (double)scores[i] - dot : (double)scores[i],
                     slope = by_sigmoid(r) ? 1 - (double)sigmoid(logits[e]) : 1;
        made[e] += (float)(factor_of(r) * share * rest * slope);
    }
    orr_tensor_iter_write(&r->walk, r->made, cursor, 0, r->experts, made);
}

static void route_piece(void *ctx, size_t piece, int thread)
{
    const router *r = ctx;
    (void)thread;
    const int64_t rows = orr_tensor_iter_rows(&r->walk), p = (int64_t)piece,
                  begin = rows * p / r->pieces, end = rows * (p + 1) / r->pieces;
    float *room = r->room + p * 3 * r->experts;
    orr_tensor_cursor cursor;
    orr_tensor_iter_seek(&r->walk, begin, &cursor);
    for (int64_t i = begin; i < end; i++, orr_tensor_iter_next(&r->walk, &cursor))
        if (r->made == NONE)
            choose(r, &cursor, room);
        else
            choose_back(r, &cursor, room);
}

/* Adds a part whose last dim is the chosen experts. */
static uint32_t add_chosen(orr_tensor_iter *walk, const orr_operand *operand)
{
    orr_operand seen = *operand;
    const uint32_t part = orr_tensor_iter_add(walk, &seen);
    walk->part[part].stride[walk->rank - 1] =
        operand->stride[walk->rank - 1] * (int64_t)orr_dtype_bytes((orr_dtype)operand->type.dtype);
    return part;
}

static orr_status check_indices(const router *r, const orr_operand *indices, orr_error *err)
{
    const orr_indices all = orr_indices_of(indices);
    for (int64_t i = 0; i < all.n; i++)
        if (orr_indices_at(&all, i) < 0 || orr_indices_at(&all, i) >= r->experts)
            return orr_fail(err, ORR_INVALID, "top_k_backward: expert %lld of %lld",
                            (long long)orr_indices_at(&all, i), (long long)r->experts);
    return ORR_OK;
}

static orr_status top_k_run(const orr_kernel_call *call, orr_error *err)
{
    const bool back = call->op == ORR_OP_TOP_K_BACKWARD;
    router r = {.walk = orr_tensor_iter_over(&call->in[0].type),
                .args = call->args,
                .bias = NONE,
                .made = NONE,
                .experts = call->in[0].type.dim[call->in[0].type.rank - 1],
                .room = call->workspace};
    orr_tensor_iter_add(&r.walk, &call->in[0]);
    if (back) {
        ORR_TRY(check_indices(&r, &call->in[1], err));
        r.indices = add_chosen(&r.walk, &call->in[1]);
        r.scores = add_chosen(&r.walk, &call->in[2]);
        r.made = orr_tensor_iter_add(&r.walk, &call->out[0]);
    } else {
        if (call->n_in > 1)
            r.bias = orr_tensor_iter_add(&r.walk, &call->in[1]);
        r.scores = add_chosen(&r.walk, &call->out[0]);
        r.indices = add_chosen(&r.walk, &call->out[1]);
    }
    orr_tensor_iter_coalesce(&r.walk, 1);
    const int64_t rows = orr_tensor_iter_rows(&r.walk);
    r.pieces = rows < PIECES ? rows : PIECES;
    orr_workers_run(call->workers, (size_t)r.pieces, route_piece, &r);
    return ORR_OK;
}

static size_t top_k_workspace(const orr_kernel_call *call)
{
    const orr_type *logits = &call->in[0].type;
    return (size_t)PIECES * 3 * (size_t)logits->dim[logits->rank - 1] * sizeof(float);
}

const orr_kernel_entry orr_cpu_TOP_K = {.run = top_k_run, .workspace = top_k_workspace};
const orr_kernel_entry orr_cpu_TOP_K_BACKWARD = {.run = top_k_run, .workspace = top_k_workspace};
