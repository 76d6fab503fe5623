/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernel/cpu/simd/vector_math.h"
#include "kernel/cpu/tensor/iterator.h"
#include "kernel/cpu/entries.h"
#include "kernel/cpu/tensor/radix_sort.h"

/* Mixture-of-experts dispatch and combine (Shazeer et al., arXiv 1701.06538): tokens are copied
 * into rows sorted by expert, and the experts' results are added back to their tokens, weighted by
 * the router's scores.
 *
 * The (token, expert) choices are sorted by expert with a stable sort. With `args.members` parts
 * (one for each expert-parallel rank) each part starts at its own first row; a choice whose part is
 * full is dropped. Each sorted row, and each token, is made by one work item, so that sums have one
 * order. */
typedef struct routes {
    orr_indices indices;
    orr_operand positions;        /* of experts in another order: what `indices` then is of */
    int64_t choices;              /* of a token */
    int64_t rows, parts, experts; /* sorted rows; parts 1, experts 0: not given */
    uint32_t *order;              /* choices in sorted order */
    uint32_t *place;              /* shape (choices): sorted row of a choice; NOWHERE: dropped */
    uint32_t *choice;             /* shape (rows): choice of a row; NOWHERE: none */
} routes;
#define NOWHERE UINT32_MAX

static int64_t rows_of(const orr_kernel_call *call)
{
    return call->args->count > 0 ? call->args->count : orr_type_elements(&call->in[1].type);
}

/* The order and the scratch of the sort, which then holds the places; positions of experts. */
static size_t routes_workspace(const orr_kernel_call *call)
{
    const size_t arrays = call->args->expert_position != NULL ? 4 : 3;
    return (arrays * (size_t)orr_type_elements(&call->in[1].type) + (size_t)rows_of(call)) *
           sizeof(uint32_t);
}

static orr_status check_routes(const routes *r, const char *name, orr_error *err)
{
    if (r->indices.n >= UINT32_MAX || r->rows >= UINT32_MAX)
        return orr_fail(err, ORR_LIMIT, "%s: more than 2^32 rows", name);
    for (int64_t i = 0; i < r->indices.n; i++) {
        const int64_t expert = orr_indices_at(&r->indices, i);
        if (expert < 0 || (r->experts > 0 && expert >= r->experts))
            return orr_fail(err, ORR_INVALID, "%s: expert %lld of %lld, at %lld", name,
                            (long long)expert, (long long)r->experts, (long long)i);
    }
    return ORR_OK;
}

/* From here on an index is the position of its expert. */
static void set_positions(routes *r, const uint32_t *position, uint32_t *room)
{
    for (int64_t i = 0; i < r->indices.n; i++)
        room[i] = position[orr_indices_at(&r->indices, i)];
    r->positions =
        (orr_operand){.type = {.dtype = ORR_DTYPE_INT32, .rank = 1, .dim = {r->indices.n}},
                      .data = room,
                      .stride = {1}};
    r->indices = orr_indices_of(&r->positions);
}

/* The sorted row of every choice: after the choices of its part that come before it. */
static void place_choices(routes *r)
{
    const int64_t part_rows = r->rows / r->parts;
    int64_t part = 0, next = 0;
    memset(r->choice, 0xff, (size_t)r->rows * sizeof *r->choice);
    for (int64_t i = 0; i < r->indices.n; i++) {
        const uint32_t choice = r->order[i];
        const int64_t expert = orr_indices_at(&r->indices, choice),
                      of = r->parts > 1 ? expert / (r->experts / r->parts) : 0;
        next = of == part ? next : 0;
        part = of;
        const bool fits = next < part_rows;
        r->place[choice] = fits ? (uint32_t)(part * part_rows + next) : NOWHERE;
        if (fits)
            r->choice[part * part_rows + next++] = choice;
    }
}

static orr_status routes_of(const orr_kernel_call *call, const char *name, routes *r,
                            orr_error *err)
{
    const orr_type *type = &call->in[1].type;
    uint32_t *room = call->workspace;
    *r = (routes){.indices = orr_indices_of(&call->in[1]),
                  .choices = type->dim[type->rank - 1],
                  .rows = rows_of(call),
                  .parts = call->args->members > 0 ? call->args->members : 1,
                  .experts = call->args->experts};
    ORR_TRY(check_routes(r, name, err));
    const int64_t n = r->indices.n;
    r->place = room + 2 * n;
    r->choice = room + 3 * n;
    if (call->args->expert_position != NULL)
        set_positions(r, call->args->expert_position, r->choice + r->rows);
    r->order = orr_radix_sort_ids(&r->indices, room, room + n);
    place_choices(r);
    return ORR_OK;
}

typedef struct moving {
    routes by;
    orr_tensor_iter tokens, sorted,
        scores; /* tokens: a row per token; sorted: the sorted rows; scores: of a token */
    bool scored, products, accumulate;
    int64_t columns;
} moving;

/* Score of a choice, by its row-major number. */
static float score_of(const moving *m, int64_t choice)
{
    orr_tensor_cursor cursor;
    float score;
    if (!m->scored)
        return 1;
    orr_tensor_iter_seek(&m->scores, choice / m->by.choices, &cursor);
    return *orr_tensor_iter_read(&m->scores, 0, &cursor, choice % m->by.choices, 1, &score);
}

static int64_t chunk(int64_t from, int64_t end)
{
    return end - from < ORR_ELEMENT_CHUNK ? end - from : ORR_ELEMENT_CHUNK;
}

static void dispatch_rows(void *ctx, int64_t begin, int64_t end)
{
    const moving *m = ctx;
    const orr_vector_math *math = orr_vector_math_of_cpu();
    float in[ORR_ELEMENT_CHUNK], out[ORR_ELEMENT_CHUNK];
    orr_tensor_cursor from, to;
    orr_tensor_iter_seek(&m->sorted, begin, &to);
    for (int64_t row = begin; row < end; row++, orr_tensor_iter_next(&m->sorted, &to)) {
        const uint32_t choice = m->by.choice[row];
        const float score = choice != NOWHERE ? score_of(m, choice) : 0;
        if (choice != NOWHERE)
            orr_tensor_iter_seek(&m->tokens, choice / m->by.choices, &from);
        for (int64_t at = 0, n; at < m->columns; at += n) {
            n = chunk(at, m->columns);
            if (choice == NOWHERE) {
                math->fill(0, n, out);
                orr_tensor_iter_write(&m->sorted, 0, &to, at, n, out);
                continue;
            }
            const float *x = orr_tensor_iter_read(&m->tokens, 0, &from, at, n, in);
            if (m->scored)
                math->scale(x, score, n, out);
            orr_tensor_iter_write(&m->sorted, 0, &to, at, n, m->scored ? out : x);
        }
    }
}

/* Where the count of an expert is stored: experts in row-major order, by part. */
static int32_t *count_of(const orr_operand *counts, int64_t expert)
{
    const orr_type *type = &counts->type;
    int64_t at = 0;
    for (uint32_t d = type->rank; d-- > 0; expert /= type->dim[d])
        at += expert % type->dim[d] * counts->stride[d];
    return (int32_t *)counts->data + at;
}

/* Writes how many rows each expert has, without dropped ones. */
static void put_counts(const orr_kernel_call *call, const routes *r)
{
    if (call->n_out < 2 || call->out[1].data == NULL)
        return;
    for (int64_t e = 0; e < r->experts; e++)
        *count_of(&call->out[1], e) = 0;
    for (int64_t i = 0; i < r->indices.n; i++)
        if (r->place[i] != NOWHERE)
            ++*count_of(&call->out[1], orr_indices_at(&r->indices, i));
}

static moving moving_of(const orr_operand *tokens, const orr_operand *sorted,
                        const orr_operand *scores)
{
    moving m = {.tokens = orr_tensor_iter_over(&tokens->type),
                .sorted = orr_tensor_iter_over(&sorted->type),
                .scored = scores != NULL,
                .columns = sorted->type.dim[1]};
    orr_tensor_iter_add(&m.tokens, tokens);
    orr_tensor_iter_coalesce(&m.tokens, 1);
    orr_tensor_iter_add(&m.sorted, sorted);
    if (scores != NULL) {
        m.scores = orr_tensor_iter_over(&scores->type);
        orr_tensor_iter_add(&m.scores, scores);
    }
    return m;
}

static orr_status dispatch_run(const orr_kernel_call *call, orr_error *err)
{
    moving m = moving_of(&call->in[0], &call->out[0], call->n_in > 2 ? &call->in[2] : NULL);
    ORR_TRY(routes_of(call, "dispatch", &m.by, err));
    put_counts(call, &m.by);
    if (call->out[0].data != NULL && m.columns > 0)
        orr_parallel_ranges(m.by.rows, orr_rows_per_range(m.columns), dispatch_rows, &m,
                            call->workers);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_DISPATCH = {.run = dispatch_run, .workspace = routes_workspace};

/* Combines one chunk of a token: the sum of its rows. */
static void combine_chunk(const moving *m, int64_t token, const orr_tensor_cursor *to, int64_t at,
                          int64_t n)
{
    const orr_vector_math *math = orr_vector_math_of_cpu();
    float in[ORR_ELEMENT_CHUNK], sum[ORR_ELEMENT_CHUNK];
    orr_tensor_cursor from;
    math->fill(0, n, sum);
    if (m->accumulate)
        math->add(sum, orr_tensor_iter_read(&m->tokens, 0, to, at, n, in), n, sum);
    for (int64_t choice = token * m->by.choices; choice < (token + 1) * m->by.choices; choice++) {
        if (m->by.place[choice] == NOWHERE)
            continue;
        orr_tensor_iter_seek(&m->sorted, m->by.place[choice], &from);
        math->add_scaled(orr_tensor_iter_read(&m->sorted, 0, &from, at, n, in), score_of(m, choice),
                         n, sum);
    }
    orr_tensor_iter_write(&m->tokens, 0, to, at, n, sum);
}

static void combine_tokens(void *ctx, int64_t begin, int64_t end)
{
    const moving *m = ctx;
    orr_tensor_cursor to;
    orr_tensor_iter_seek(&m->tokens, begin, &to);
    for (int64_t t = begin; t < end; t++, orr_tensor_iter_next(&m->tokens, &to))
        for (int64_t at = 0; at < m->columns; at += ORR_ELEMENT_CHUNK)
            combine_chunk(m, t, &to, at, chunk(at, m->columns));
}

/* Gradient of the scores: the dot product of each choice's sorted row and its token. */
static void multiply_tokens(void *ctx, int64_t begin, int64_t end)
{
    const moving *m = ctx;
    float a[ORR_ELEMENT_CHUNK], b[ORR_ELEMENT_CHUNK];
    for (int64_t choice = begin * m->by.choices; choice < end * m->by.choices; choice++) {
        double product = 0;
        orr_tensor_cursor token, from, to;
        const uint32_t place = m->by.place[choice];
        orr_tensor_iter_seek(&m->tokens, choice / m->by.choices, &token);
        orr_tensor_iter_seek(&m->scores, choice / m->by.choices, &to);
        orr_tensor_iter_seek(&m->sorted, place == NOWHERE ? 0 : place, &from);
        for (int64_t at = 0, n; place != NOWHERE && at < m->columns; at += n) {
            n = chunk(at, m->columns);
            product += (double)orr_vector_math_of_cpu()->dot(
                orr_tensor_iter_read(&m->sorted, 0, &from, at, n, a),
                orr_tensor_iter_read(&m->tokens, 0, &token, at, n, b), n);
        }
        const float narrow = (float)product;
        orr_tensor_iter_write(&m->scores, 0, &to, choice % m->by.choices, 1, &narrow);
    }
}

static orr_status combine_run(const orr_kernel_call *call, orr_error *err)
{
    const bool products = call->args->op == ORR_OP_MUL;
    const orr_operand *third = call->n_in > 2 ? &call->in[2] : NULL;
    moving m = products ? moving_of(third, &call->in[0], &call->out[0])
                        : moving_of(&call->out[0], &call->in[0], third);
    m.accumulate = call->accumulate;
    ORR_TRY(routes_of(call, "combine", &m.by, err));
    if (call->out[0].data != NULL && m.by.choices > 0)
        orr_parallel_ranges(m.by.indices.n / m.by.choices,
                            orr_rows_per_range(m.columns * m.by.choices),
                            products ? multiply_tokens : combine_tokens, &m, call->workers);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_COMBINE = {.run = combine_run, .workspace = routes_workspace};
