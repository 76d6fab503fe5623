/* SPDX-License-Identifier: Apache-2.0 */
/* Rules for lookups, pooling, and collectives (rendezvous of ranks). */
#include "replay/tape_builder.h"

#include <string.h>

#define NEED(condition, err, why)                                                                  \
    if (!(condition))                                                                              \
    return orr_fail((err), ORR_UNSUPPORTED, "%s", (why))

static bool is_float(const orr_replay_tensor *t)
{
    return t != NULL && (t->type.dtype == ORR_DTYPE_FP32 || t->type.dtype == ORR_DTYPE_BF16 ||
                         t->type.dtype == ORR_DTYPE_FP16);
}

/* A table (V, D) and random ids, as many as the result has rows. */
static orr_status lookup(orr_replay_builder *b, const orr_replay_tensor *table, int64_t rows,
                         int64_t columns, const orr_replay_tensor *to, orr_error *err)
{
    orr_value in[2];
    const int64_t all = columns > 0 ? orr_type_elements(&table->type) / columns : 0;
    NEED(all > 0, err, "unknown shapes");
    const orr_type matrix = {.dtype = table->type.dtype, .rank = 2, .dim = {all, columns}};
    const orr_type ids = {.dtype = ORR_DTYPE_INT64, .rank = 1, .dim = {rows}};
    ORR_TRY(orr_replay_value(b, table, &matrix, &in[0], err));
    ORR_TRY(orr_replay_random_index_value(b, &ids, all, false, &in[1], err));
    return orr_replay_apply(b, ORR_OP_EMBEDDING, NULL, in, 2, &to, 1, NULL, err);
}

orr_status orr_replay_embedding(orr_replay_builder *b, const orr_replay_call *c, uint8_t op,
                                orr_error *err)
{
    const orr_replay_tensor *table = orr_replay_in(c, 0), *ids = orr_replay_in(c, 1);
    (void)op;
    NEED(is_float(table) && table->type.rank == 2 && ids != NULL, err, "unknown shapes");
    return lookup(b, table, orr_type_elements(&ids->type), table->type.dim[1], orr_replay_out(c, 0),
                  err);
}

/* dy (..., D), ids (...), rows of the table */
orr_status orr_replay_embedding_backward(orr_replay_builder *b, const orr_replay_call *c,
                                         uint8_t op, orr_error *err)
{
    const orr_replay_tensor *dy = orr_replay_in(c, 0), *to = orr_replay_out(c, 0);
    const int64_t rows = (int64_t)orr_replay_number(c, 2, 0, 0);
    orr_value in[2];
    NEED(is_float(dy) && dy->type.rank > 0 && rows > 0, err, "unknown shapes");
    const int64_t columns = dy->type.dim[dy->type.rank - 1], n = orr_type_elements(&dy->type);
    NEED(columns > 0, err, "unknown shapes");
    const orr_type matrix = {.dtype = dy->type.dtype, .rank = 2, .dim = {n / columns, columns}};
    const orr_type ids = {.dtype = ORR_DTYPE_INT64, .rank = 1, .dim = {n / columns}};
    ORR_TRY(orr_replay_value(b, dy, &matrix, &in[0], err));
    ORR_TRY(orr_replay_random_index_value(b, &ids, rows, false, &in[1], err));
    const orr_op_args args = {.count = rows};
    return orr_replay_apply(b, (orr_op)op, &args, in, 2, &to, 1, NULL, err);
}

/* table, ids, offsets: bags as long as the mean. */
orr_status orr_replay_embedding_bag(orr_replay_builder *b, const orr_replay_call *c, uint8_t op,
                                    orr_error *err)
{
    const orr_replay_tensor *table = orr_replay_in(c, 0), *ids = orr_replay_in(c, 1),
                            *offsets = orr_replay_in(c, 2), *to = orr_replay_out(c, 0);
    orr_value in[3];
    (void)op;
    NEED(is_float(table) && table->type.rank == 2 && ids != NULL && offsets != NULL &&
             orr_type_elements(&offsets->type) > 0,
         err, "unknown shapes");
    int64_t bags = orr_type_elements(&offsets->type);
    if (to != NULL && to->type.rank == 2 &&
        to->type.dim[0] == bags - 1) /* the last offset is the end */
        bags--;
    const orr_type list = {
        .dtype = ORR_DTYPE_INT64, .rank = 1, .dim = {orr_type_elements(&ids->type)}};
    const orr_type begins = {.dtype = ORR_DTYPE_INT64, .rank = 1, .dim = {bags}};
    ORR_TRY(orr_replay_tensor_value(b, table, &in[0], err));
    ORR_TRY(orr_replay_random_index_value(b, &list, table->type.dim[0], false, &in[1], err));
    ORR_TRY(orr_replay_random_index_value(b, &begins, list.dim[0], true, &in[2], err));
    return orr_replay_apply(b, ORR_OP_EMBEDDING_BAG, NULL, in, 3, &to, 1, NULL, err);
}

/* index_select, gather, index, index_add: rows as wide as the table's, or single numbers. */
orr_status orr_replay_gather(orr_replay_builder *b, const orr_replay_call *c, uint8_t op,
                             orr_error *err)
{
    const orr_replay_tensor *x = orr_replay_in(c, 0), *to = orr_replay_out(c, 0);
    (void)op;
    NEED(is_float(x) && to != NULL && is_float(to) && x->type.rank > 0 && to->type.rank > 0, err,
         "unknown shapes");
    const int64_t wide = x->type.dim[x->type.rank - 1], n = orr_type_elements(&to->type);
    const bool rows = x->type.rank > 1 && wide > 0 && to->type.dim[to->type.rank - 1] == wide;
    return lookup(b, x, rows ? n / wide : n, rows ? wide : 1, to, err);
}

orr_status orr_replay_pool(orr_replay_builder *b, const orr_replay_call *c, uint8_t op,
                           orr_error *err)
{
    const orr_replay_tensor *x = orr_replay_in(c, 0), *to = orr_replay_out(c, 0);
    const double size = orr_replay_number(c, 1, 0, 2);
    const orr_op_args args = {.size = (uint32_t)size,
                              .stride = (uint32_t)orr_replay_number(c, 2, 0, size),
                              .padding = (uint32_t)orr_replay_number(c, 3, 0, 0),
                              .op = strstr(c->name, "avg") != NULL ? ORR_OP_SUM : 0};
    orr_value in;
    (void)op;
    NEED(is_float(x) && x->type.rank == 4, err, "unknown shapes");
    ORR_TRY(orr_replay_tensor_value(b, x, &in, err));
    return orr_replay_apply(b, ORR_OP_POOL, &args, &in, 1, &to, 1, NULL, err);
}

orr_status orr_replay_pool_backward(orr_replay_builder *b, const orr_replay_call *c, uint8_t op,
                                    orr_error *err)
{
    const orr_replay_tensor *dy = orr_replay_in(c, 0), *x = orr_replay_in(c, 1),
                            *to = orr_replay_out(c, 0);
    const double size = orr_replay_number(c, 2, 0, 2);
    orr_value in[2];
    (void)op;
    NEED(is_float(dy) && is_float(x) && dy->type.rank == 4 && x->type.rank == 4, err,
         "unknown shapes");
    const orr_op_args args = {.size = (uint32_t)size,
                              .stride = (uint32_t)orr_replay_number(c, 3, 0, size),
                              .padding = (uint32_t)orr_replay_number(c, 4, 0, 0),
                              .op = strstr(c->name, "avg") != NULL ? ORR_OP_SUM : 0,
                              .begin = x->type.dim[2],
                              .count = x->type.dim[3]};
    ORR_TRY(orr_replay_tensor_value(b, dy, &in[0], err));
    ORR_TRY(orr_replay_tensor_value(b, x, &in[1], err));
    return orr_replay_apply(b, ORR_OP_POOL_BACKWARD, &args, in, 2, &to, 1, NULL, err);
}

/* Bytes sent or received per member: rows of one tensor by a list of counts, or equal parts; or a
 * list of tensors. */
static bool part_bytes(const orr_replay_argument *of, const orr_replay_argument *rows,
                       uint32_t members, int64_t *ret)
{
    const orr_replay_tensor *t = &of->tensors[0];
    const int64_t bytes = orr_type_bytes(&t->type), n = t->type.rank > 0 ? t->type.dim[0] : 1;
    int64_t sum = 0;
    for (uint32_t i = 0; i < members; i++) {
        if (of->n_tensors > 1)
            ret[i] = i < of->n_tensors ? orr_type_bytes(&of->tensors[i].type) : 0;
        else if (rows != NULL && rows->n_numbers == members && n > 0)
            ret[i] = (int64_t)rows->number[i] * (bytes / n);
        else
            ret[i] = bytes / members;
        if (ret[i] < 0 || ret[i] > INT64_MAX / 2 - sum)
            return false;
        sum += ret[i];
    }
    return of->n_tensors > 1 ? of->n_tensors == members : sum <= bytes;
}

static int64_t sum_of(const int64_t *bytes, uint32_t n)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += bytes[i];
    return sum;
}

/* "alltoall_base_(output, input, group, output rows, input rows)", "alltoall_(outputs, inputs,
 * group)": sizes sent and received may differ. */
orr_status orr_replay_exchange(orr_replay_builder *b, const orr_replay_call *c, uint8_t op,
                               orr_error *err)
{
    const orr_replay_tensor *to = orr_replay_in(c, 0), *from = orr_replay_in(c, 1);
    const uint32_t n = b->ranks;
    orr_value in;
    NEED(to != NULL && from != NULL, err, "unknown shapes");
    int64_t *parts = orr_arena_array(b->arena, int64_t, 2 * (size_t)n);
    if (parts == NULL)
        return orr_fail_memory(err);
    NEED(part_bytes(&c->in[1], c->n_in > 4 ? &c->in[4] : NULL, n, parts) &&
             part_bytes(&c->in[0], c->n_in > 3 ? &c->in[3] : NULL, n, parts + n),
         err, "parts that its tensors do not have");
    const int64_t gives = sum_of(parts, n), gets = sum_of(parts + n, n),
                  most = gives > gets ? gives : gets;
    /* The tape's all-to-all has equal sizes: both buffers get the larger one. */
    const orr_type type = {.dtype = ORR_DTYPE_FP32, .rank = 1, .dim = {(most / 4 + n) / n * n}};
    orr_replay_tensor whole = *to;
    const orr_replay_tensor *const out[] = {&whole};
    whole.type = type;
    const orr_op_args args = {.axis = ORR_AXIS_DP, .members = n, .overlap = true};
    const uint32_t call = b->tape.n_calls;
    ORR_TRY(orr_replay_value(b, from, &type, &in, err));
    ORR_TRY(orr_replay_apply(b, (orr_op)op, &args, &in, 1, out, 1, NULL, err));
    b->calls.at[call].parts = parts;
    return ORR_OK;
}

/* The tensors of a collective, each of which meets its counterparts on the other ranks; for gather
 * and scatter the result comes first. */
orr_status orr_replay_collective(orr_replay_builder *b, const orr_replay_call *c, uint8_t op,
                                 orr_error *err)
{
    const orr_replay_argument *given = NULL;
    for (uint32_t i = 0; i < c->n_in && given == NULL; i++)
        if (c->in[i].n_tensors > 0)
            given = &c->in[i];
    if ((op == ORR_OP_ALL_GATHER || op == ORR_OP_REDUCE_SCATTER) && c->n_in > 1 &&
        c->in[1].n_tensors > 0)
        given = &c->in[1];
    const orr_op_args args = {.axis = ORR_AXIS_DP, .members = b->ranks, .overlap = true};
    if (op == ORR_OP_BARRIER || given == NULL)
        return orr_replay_apply(b, ORR_OP_BARRIER, &args, NULL, 0, NULL, 0, NULL, err);
    for (uint32_t i = 0; i < given->n_tensors; i++) {
        const orr_replay_tensor *t = &given->tensors[i], *to = op == ORR_OP_ALL_REDUCE ? t : NULL;
        orr_value in;
        orr_type type = {.dtype = t->type.dtype, .rank = 1, .dim = {orr_type_elements(&t->type)}};
        if (!is_float(t)) {
            type.dtype = ORR_DTYPE_FP32;
            type.dim[0] = orr_type_bytes(&t->type) / 4;
        }
        if (op == ORR_OP_REDUCE_SCATTER)
            type.dim[0] -= type.dim[0] % b->ranks;
        if (type.dim[0] == 0)
            continue;
        ORR_TRY(orr_replay_value(b, t, &type, &in, err));
        ORR_TRY(orr_replay_apply(b, (orr_op)op, &args, &in, 1, &to, 1, NULL, err));
    }
    return ORR_OK;
}
