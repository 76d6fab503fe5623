/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_PROGRAM_BENCH_H
#define TESTS_PROGRAM_BENCH_H

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/run/program.h"
#include "../naive/run.h"

/* Programs run by the naive kernels: tapes whose numbers are made fp64, so that a program gives the
 * very bits of the naive interpreter. Also ranks as threads of one process. */

static inline double bench_load(const orr_operand *o, int64_t element)
{
    const char *at = o->data;
    switch (o->type.dtype) {
    case ORR_DTYPE_FP64:
        return ((const double *)(const void *)at)[element];
    case ORR_DTYPE_FP32:
        return ((const float *)(const void *)at)[element];
    case ORR_DTYPE_INT64:
        return (double)((const int64_t *)(const void *)at)[element];
    case ORR_DTYPE_INT32:
        return ((const int32_t *)(const void *)at)[element];
    case ORR_DTYPE_INT8:
        return ((const int8_t *)(const void *)at)[element];
    default:
        abort();
    }
}
static inline void bench_store(const orr_operand *o, int64_t element, double x)
{
    char *at = o->data;
    switch (o->type.dtype) {
    case ORR_DTYPE_FP64:
        ((double *)(void *)at)[element] = x;
        break;
    case ORR_DTYPE_FP32:
        ((float *)(void *)at)[element] = (float)x;
        break;
    case ORR_DTYPE_INT64:
        ((int64_t *)(void *)at)[element] = (int64_t)x;
        break;
    case ORR_DTYPE_INT32:
        ((int32_t *)(void *)at)[element] = (int32_t)x;
        break;
    case ORR_DTYPE_INT8:
        ((int8_t *)(void *)at)[element] = (int8_t)x;
        break;
    default:
        abort();
    }
}
/* Where element i, in row-major order, is. */
static inline int64_t bench_element(const orr_operand *o, int64_t i)
{
    int64_t at = 0;
    for (int d = o->type.rank - 1; d >= 0; d--) {
        at += i % o->type.dim[d] * o->stride[d];
        i /= o->type.dim[d];
    }
    return at;
}

static inline size_t bench_workspace(const orr_kernel_call *call)
{
    int64_t n = 0;
    for (uint32_t k = 0; k < call->n_in; k++)
        n += naive_size(&call->in[k].type);
    for (uint32_t k = 0; k < call->n_out; k++)
        n += naive_size(&call->out[k].type);
    return (size_t)n * sizeof(double);
}

static inline orr_status bench_kernel(const orr_kernel_call *call, orr_error *err)
{
    naive_call c = {.args = call->args, .n_in = call->n_in, .n_out = call->n_out};
    orr_type in[ORR_CALL_IN], out[ORR_CALL_OUT];
    double *room = call->workspace;
    (void)err;
    c.in_type = in;
    c.out_type = out;
    for (uint32_t k = 0; k < c.n_in; k++) {
        in[k] = call->in[k].type;
        c.in[k] = room;
        for (int64_t i = 0; i < naive_size(&in[k]); i++)
            *room++ = bench_load(&call->in[k], bench_element(&call->in[k], i));
    }
    for (uint32_t k = 0; k < c.n_out; k++) {
        out[k] = call->out[k].type;
        c.out[k] = room;
        room += naive_size(&out[k]);
    }
    NAIVE[call->op](&c);
    for (uint32_t k = 0; k < c.n_out; k++)
        for (int64_t i = 0; i < naive_size(&out[k]); i++) {
            const int64_t at = bench_element(&call->out[k], i);
            const double more = k == 0 && call->accumulate ? bench_load(&call->out[k], at) : 0;
            bench_store(&call->out[k], at, c.out[k][i] + more);
        }
    return ORR_OK;
}

/* Memory full of numbers that are none: what is read before it is written is seen. */
static inline orr_status bench_allocate(orr_backend *self, size_t bytes, void **ret, orr_error *err)
{
    (void)self;
    void *data = orr_malloc_aligned(bytes);
    if (data == NULL)
        return orr_fail_memory(err);
    memset(data, 0xff, bytes);
    *ret = data;
    return ORR_OK;
}
static inline void bench_release(orr_backend *self, void *data, size_t bytes)
{
    (void)self;
    (void)bytes;
    orr_free(data);
}
static inline orr_status bench_copy(orr_backend *self, void *to, const void *from, size_t bytes,
                                    void *stream, orr_error *err)
{
    (void)self, (void)stream, (void)err;
    memcpy(to, from, bytes);
    return ORR_OK;
}

/* Products add by themselves; for all else the program has to. */
static inline orr_backend bench_backend(void)
{
    orr_backend backend = {.name = "naive",
                           .description = "naive",
                           .allocate = bench_allocate,
                           .release = bench_release,
                           .copy = bench_copy};
    for (int op = 0; op < ORR_OPS; op++)
        if (NAIVE[op] != NULL && !orr_op_of((orr_op)op)->shares)
            backend.entries[op] = (orr_kernel_entry){.run = bench_kernel,
                                                     .workspace = bench_workspace,
                                                     .accumulates = op == ORR_OP_MATMUL};
    return backend;
}

/* All fractions in fp64. */
static inline void bench_widen(orr_tape *tape)
{
    for (orr_value v = 0; v < tape->n_values; v++) {
        uint8_t *dtype = &tape->values[v].type.dtype;
        if (*dtype != ORR_DTYPE_INT8 && *dtype != ORR_DTYPE_INT32 && *dtype != ORR_DTYPE_INT64)
            *dtype = ORR_DTYPE_FP64;
    }
}

static inline orr_operand bench_operand(const orr_type *type, void *data)
{
    orr_operand operand = {.type = *type, .data = data};
    orr_operand_contiguous(type, operand.stride);
    return operand;
}
/* Numbers in the tensor's own dtype, in place. */
static inline void bench_fill(const orr_type *type, void *data, const double *from)
{
    const orr_operand o = bench_operand(type, data);
    for (int64_t i = 0; i < naive_size(type); i++)
        bench_store(&o, i, from[i]);
}

/* Ranks of one process: a message is taken over by a mailbox for each pair and channel. */
enum { BENCH_RANKS = 4, BENCH_MESSAGE = 1 << 14 };
typedef struct bench_mailbox {
    char bytes[BENCH_MESSAGE];
    size_t n;
    bool full;
} bench_mailbox;
typedef struct bench_world {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool aborted;
    uint32_t ranks;
    orr_transport transports[BENCH_RANKS];
    bench_mailbox boxes[BENCH_RANKS][BENCH_RANKS][ORR_CHANNELS]; /* from, to, channel */
} bench_world;

static inline orr_status bench_exchange(orr_transport *self, const orr_exchange *e, orr_error *err)
{
    bench_world *w = self->ctx;
    bool sent = e->out == NULL || e->out_bytes == 0, got = e->in == NULL || e->in_bytes == 0;
    pthread_mutex_lock(&w->lock);
    while ((!sent || !got) && !w->aborted) {
        bench_mailbox *to = sent ? NULL : &w->boxes[self->rank][e->to][e->channel];
        bench_mailbox *from = got ? NULL : &w->boxes[e->from][self->rank][e->channel];
        if (to != NULL && !to->full && e->out_bytes <= BENCH_MESSAGE) {
            memcpy(to->bytes, e->out, e->out_bytes);
            to->n = e->out_bytes;
            to->full = sent = true;
            pthread_cond_broadcast(&w->changed);
        } else if (from != NULL && from->full && from->n == e->in_bytes) {
            memcpy(e->in, from->bytes, from->n);
            from->full = false;
            got = true;
            pthread_cond_broadcast(&w->changed);
        } else {
            pthread_cond_wait(&w->changed, &w->lock);
        }
    }
    pthread_mutex_unlock(&w->lock);
    return sent && got ? ORR_OK : orr_fail(err, ORR_IO, "a rank gave up");
}
static inline void bench_abort(orr_transport *self)
{
    bench_world *w = self->ctx;
    pthread_mutex_lock(&w->lock);
    w->aborted = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}
static inline bench_world *bench_world_new(uint32_t ranks)
{
    bench_world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    w->ranks = ranks;
    for (uint32_t r = 0; r < ranks; r++)
        w->transports[r] = (orr_transport){.rank = r,
                                           .ranks = ranks,
                                           .name = "threads",
                                           .ctx = w,
                                           .exchange = bench_exchange,
                                           .abort = bench_abort};
    return w;
}
static inline void bench_world_free(bench_world *w)
{
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->changed);
    free(w);
}

#endif /* TESTS_PROGRAM_BENCH_H */
