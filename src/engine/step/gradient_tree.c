/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/step/gradient_tree.h"

#include <string.h>

#include "base/sum.h"

enum { SLICE_ALIGN = 16 };

bool orr_block_sums_meet(const orr_block_sums *s)
{
    if (s->n < 2)
        return false;
    const orr_block_sum *left = &s->at[s->n - 2], *right = &s->at[s->n - 1];
    return left->count == right->count && left->begin % (2 * (uint64_t)left->count) == 0;
}

orr_block_sums orr_block_sums_of(uint32_t begin, uint32_t count, uint32_t *ret_most)
{
    orr_block_sums s = {.n = 0};
    *ret_most = 0;
    for (uint32_t b = begin; b < begin + count; b++) {
        s.at[s.n++] = (orr_block_sum){b, 1, NULL};
        *ret_most = s.n > *ret_most ? s.n : *ret_most;
        for (; orr_block_sums_meet(&s); s.n--)
            s.at[s.n - 2].count *= 2;
    }
    return s;
}

static uint32_t replicas(const orr_engine_step *step)
{
    return orr_step_members(step, ORR_AXIS_GRADIENT);
}

static orr_block_sums sums_of_rank(const orr_engine_step *step, uint32_t rank)
{
    const uint32_t blocks = step->plan.micro_batches;
    uint32_t most;
    return orr_block_sums_of(rank * blocks, blocks, &most);
}

/* Slices that come from other ranks. */
static uint32_t count_received(const orr_engine_step *step)
{
    uint32_t n = 0;
    for (uint32_t r = 0; r < replicas(step); r++)
        n += r != step->rank ? sums_of_rank(step, r).n : 0;
    return n;
}

orr_status orr_step_plant_tree(orr_engine_step *step, orr_bucket *b, orr_error *err)
{
    orr_gradient_tree *tree = orr_arena_one(step->arena, orr_gradient_tree);
    const uint32_t ranks = replicas(step), blocks = step->plan.micro_batches;
    if (tree == NULL)
        return orr_fail_memory(err);
    tree->step = step;
    tree->n = b->n;
    tree->slice = ((b->n + ranks - 1) / ranks + SLICE_ALIGN - 1) / SLICE_ALIGN * SLICE_ALIGN;
    const size_t bytes = (size_t)tree->slice * ranks * sizeof(float);
    (void)orr_block_sums_of(step->rank * blocks, blocks, &tree->n_buffers);
    for (uint32_t i = 0; i < tree->n_buffers; i++)
        ORR_TRY(orr_step_allocate(step, bytes, &step->memory.gradients, &tree->buffers[i], err));
    if (ranks > 1)
        ORR_TRY(orr_step_allocate(step, (size_t)tree->slice * count_received(step) * sizeof(float),
                                  &step->memory.buffers, &tree->received, err));
    b->gradient = tree->buffers[0];
    b->tree = tree;
    return ORR_OK;
}

/* --- on the tape ----------------------------------------------------------------------------- */

float *orr_step_block_gradient(orr_step_writer *w, const orr_bucket *b)
{
    orr_gradient_tree *tree = b->tree;
    const uint32_t micro_batch = w->slot.micro_batch;
    if (micro_batch == tree->next) {
        const uint32_t block = w->step->rank * w->step->plan.micro_batches + micro_batch;
        /* Sums are a stack, of which each place has a buffer. */
        float *buffer = tree->buffers[tree->sums.n];
        tree->sums.at[tree->sums.n++] = (orr_block_sum){block, 1, buffer};
        tree->next++;
    }
    return tree->sums.at[tree->sums.n - 1].sum;
}

static orr_value value_of(orr_step_writer *w, const orr_gradient_tree *tree, float *data)
{
    const orr_type type = orr_step_flat(ORR_DTYPE_FP32, tree->n);
    return orr_step_value(w, ORR_VALUE_PARAMETER_GRADIENT, &type, "gradients", data);
}

/* Adds the last sum to the one before. */
static void write_join(orr_step_writer *w, orr_bucket *b)
{
    orr_gradient_tree *tree = b->tree;
    orr_block_sum *left = &tree->sums.at[tree->sums.n - 2], *right = left + 1;
    const orr_type type = orr_step_flat(ORR_DTYPE_FP32, tree->n);
    b->sum = orr_step_apply(
        w, &(orr_step_op){.op = ORR_OP_ADD,
                          .pass = ORR_PASS_WEIGHT,
                          .n_in = 2,
                          .in = {value_of(w, tree, left->sum), value_of(w, tree, right->sum)},
                          .out = &type,
                          .data = left->sum,
                          .name = "gradients"});
    b->last_write = orr_step_last(w);
    left->count += right->count;
    tree->sums.n--;
}

void orr_step_end_block(orr_step_writer *w, orr_bucket *b)
{
    while (orr_step_writer_ok(w) && orr_block_sums_meet(&b->tree->sums))
        write_join(w, b);
}

static orr_program_hook exchange_subtrees;

void orr_step_join_tree(orr_step_writer *w, orr_bucket *b)
{
    orr_gradient_tree *tree = b->tree;
    const uint32_t ranks = replicas(w->step);
    if (ranks == 1) {
        while (orr_step_writer_ok(w) && tree->sums.n > 1)
            write_join(w, b);
        return;
    }
    const orr_type type = orr_step_flat(ORR_DTYPE_FP32, tree->n);
    const orr_op_args args = {.axis = ORR_AXIS_GRADIENT, .members = ranks};
    b->sum = orr_step_apply(w, &(orr_step_op){.op = ORR_OP_ALL_REDUCE,
                                              .pass = ORR_PASS_WEIGHT,
                                              .lane = orr_step_lane_of(&w->step->plan, args.axis),
                                              .args = &args,
                                              .n_in = 1,
                                              .in = {value_of(w, tree, b->gradient)},
                                              .out = &type,
                                              .data = b->gradient,
                                              .name = "gradients"});
    if (!orr_step_writer_ok(w))
        return;
    orr_program_call *how = &w->to->calls.at[orr_step_last(w)];
    how->instead = exchange_subtrees;
    how->hook_ctx = tree;
    orr_step_wait(w, orr_step_last(w), b->last_write);
}

/* --- while the step runs --------------------------------------------------------------------- */

static float *received_of(const orr_gradient_tree *tree, uint32_t rank)
{
    float *at = tree->received;
    for (uint32_t r = 0; r < rank; r++)
        at += r != tree->step->rank ? sums_of_rank(tree->step, r).n * tree->slice : 0;
    return at;
}

/* Sends this rank's subtrees, each to its slice's owner, while those of another rank arrive. */
static orr_status exchange(const orr_gradient_tree *tree, orr_communicator *c, uint32_t round,
                           orr_error *err)
{
    const uint32_t to = (c->me + round) % c->n, from = (c->me + c->n - round) % c->n;
    const uint32_t n_in = sums_of_rank(tree->step, from).n, n_out = tree->sums.n;
    const size_t bytes = (size_t)tree->slice * sizeof(float);
    float *in = received_of(tree, from);
    for (uint32_t i = 0; i < n_in || i < n_out; i++) {
        const float *out = i < n_out ? tree->sums.at[i].sum + to * tree->slice : NULL;
        ORR_TRY(orr_send_receive(c, out != NULL ? to : ORR_NONE, out, out != NULL ? bytes : 0,
                                 i < n_in ? from : ORR_NONE, i < n_in ? in + i * tree->slice : NULL,
                                 i < n_in ? bytes : 0, err));
    }
    return ORR_OK;
}

static void join_last(orr_block_sums *s, int64_t n)
{
    orr_block_sum *left = &s->at[s->n - 2], *right = left + 1;
    orr_sum_pair(ORR_DTYPE_FP32, left->sum, left->sum, right->sum, (size_t)n);
    left->count += right->count;
    s->n--;
}

/* The sum of all blocks of this rank's slice, from the subtrees of all ranks. */
static const float *join_slice(const orr_gradient_tree *tree, const orr_communicator *c)
{
    orr_block_sums all = {.n = 0};
    for (uint32_t r = 0; r < c->n; r++) {
        const orr_block_sums theirs = r == c->me ? tree->sums : sums_of_rank(tree->step, r);
        for (uint32_t i = 0; i < theirs.n; i++) {
            all.at[all.n] = theirs.at[i];
            all.at[all.n++].sum = r == c->me ? theirs.at[i].sum + c->me * tree->slice
                                             : received_of(tree, r) + i * tree->slice;
            while (orr_block_sums_meet(&all))
                join_last(&all, tree->slice);
        }
    }
    while (all.n > 1)
        join_last(&all, tree->slice);
    return all.at[0].sum;
}

static orr_status exchange_subtrees(void *ctx, uint32_t call, orr_error *err)
{
    const orr_gradient_tree *tree = ctx;
    orr_communicator *c = tree->step->communicators[ORR_AXIS_GRADIENT];
    float *whole = tree->buffers[0], *own = whole + c->me * tree->slice;
    (void)call;
    for (uint32_t round = 1; round < c->n; round++)
        ORR_TRY(exchange(tree, c, round, err));
    const float *sum = join_slice(tree, c);
    if (sum != own)
        memcpy(own, sum, (size_t)tree->slice * sizeof *own);
    return orr_all_gather(c, own, whole, tree->slice, ORR_DTYPE_FP32, err);
}
