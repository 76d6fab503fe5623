/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/convolution/onednn.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/workers.h"
#include "kernel/cpu/simd/cpu_level.h"
#include "kernel/cpu/convolution/onednn_plan.h"

/* Runs convolutions by oneDNN: one compiled primitive is called for each piece of a grid
 * (onednn_plan.h), each call on one thread, so that our workers do the threading. prepare() makes
 * the primitive and per-thread objects; run() reorders operands into oneDNN's layout where it
 * differs. */

/* Per-thread oneDNN objects: a memory object holds its data pointer, so threads cannot share
 * one. */
typedef struct thread_objects {
    dnnl_stream_t stream;
    dnnl_memory_t given[ORR_ONEDNN_SIDES], own[ORR_ONEDNN_SIDES], scratchpad;
} thread_objects;

/* The prepared state of a call. Its workspace holds the reordered operands of all pieces, then for
 * each thread a result and oneDNN's scratchpad. */
typedef struct prepared {
    const orr_onednn_api *api;
    orr_onednn_plan plan;
    dnnl_primitive_t primitive, reorder[ORR_ONEDNN_SIDES];
    int n_threads;
    thread_objects *threads;
} prepared;

typedef struct running {
    const prepared *m;
    const orr_kernel_call *call;
} running;

static size_t aligned(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static size_t first_bytes(const orr_onednn_plan *p)
{
    return (size_t)p->n_i * aligned(p->side[ORR_ONEDNN_FIRST].bytes);
}

static size_t shared_bytes(const orr_onednn_plan *p)
{
    return first_bytes(p) + (size_t)p->n_j * aligned(p->side[ORR_ONEDNN_SECOND].bytes);
}

static size_t hand_bytes(const orr_onednn_plan *p)
{
    return aligned(p->side[ORR_ONEDNN_RESULT].bytes) + aligned(p->scratchpad_bytes);
}

static char *own_place(const running *r, int side, int64_t number)
{
    const orr_onednn_plan *p = &r->m->plan;
    const size_t before = side == ORR_ONEDNN_FIRST    ? 0
                          : side == ORR_ONEDNN_SECOND ? first_bytes(p)
                                                      : shared_bytes(p);
    const size_t each = side == ORR_ONEDNN_RESULT ? hand_bytes(p) : aligned(p->side[side].bytes);
    return (char *)r->call->workspace + before + (size_t)number * each;
}

static char *given_place(const running *r, int side, int64_t i, int64_t j)
{
    const orr_onednn_side *s = &r->m->plan.side[side];
    const orr_operand *o = side == ORR_ONEDNN_RESULT ? &r->call->out[0] : &r->call->in[side];
    return (char *)o->data + i * s->step_i + j * s->step_j;
}

static void point(const prepared *m, const thread_objects *h, dnnl_memory_t memory, void *place)
{
    (void)m->api->dnnl_memory_set_data_handle_v2(memory, place, h->stream);
}

static void reorder(const prepared *m, const thread_objects *h, int side, bool back)
{
    const dnnl_memory_t from = back ? h->own[side] : h->given[side],
                        to = back ? h->given[side] : h->own[side];
    (void)m->api->dnnl_primitive_execute(
        m->reorder[side], h->stream, 2,
        (const dnnl_exec_arg_t[]){{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

/* Reorders pieces of the operands, the first operand's pieces first. */
static void reorder_piece(void *ctx, size_t piece, int thread)
{
    const running *r = ctx;
    const prepared *m = r->m;
    const thread_objects *h = &m->threads[thread];
    const bool first = (int64_t)piece < m->plan.n_i;
    const int side = first ? ORR_ONEDNN_FIRST : ORR_ONEDNN_SECOND;
    const int64_t number = (int64_t)piece - (first ? 0 : m->plan.n_i);
    if (!m->plan.side[side].reordered)
        return;
    (void)orr_onednn_begin(m->api);
    point(m, h, h->given[side], given_place(r, side, number, number));
    point(m, h, h->own[side], own_place(r, side, number));
    reorder(m, h, side, false);
}

static void make_piece(void *ctx, size_t piece, int thread)
{
    const running *r = ctx;
    const prepared *m = r->m;
    const orr_onednn_plan *p = &m->plan;
    const thread_objects *h = &m->threads[thread];
    const int64_t i = (int64_t)piece / p->n_j, j = (int64_t)piece % p->n_j;
    const int64_t number[ORR_ONEDNN_SIDES] = {i, j, thread};
    dnnl_exec_arg_t args[ORR_ONEDNN_SIDES + 1];
    (void)orr_onednn_begin(m->api);
    for (int s = 0; s < ORR_ONEDNN_SIDES; s++) {
        point(m, h, h->given[s], given_place(r, s, i, j));
        if (p->side[s].reordered)
            point(m, h, h->own[s], own_place(r, s, number[s]));
        args[s] =
            (dnnl_exec_arg_t){p->side[s].argument, p->side[s].reordered ? h->own[s] : h->given[s]};
    }
    point(m, h, h->scratchpad,
          own_place(r, ORR_ONEDNN_RESULT, thread) + aligned(p->side[ORR_ONEDNN_RESULT].bytes));
    args[ORR_ONEDNN_SIDES] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, h->scratchpad};
    (void)m->api->dnnl_primitive_execute(m->primitive, h->stream, ORR_ONEDNN_SIDES + 1, args);
    if (p->side[ORR_ONEDNN_RESULT].reordered)
        reorder(m, h, ORR_ONEDNN_RESULT, true);
}

void orr_onednn_run(const orr_kernel_call *call)
{
    const prepared *m = call->state;
    running r = {m, call};
    /* More threads than were prepared for would lack per-thread objects. */
    orr_workers *workers = orr_workers_count(call->workers) > m->n_threads ? NULL : call->workers;
    const int threads = orr_onednn_begin(m->api);
    if (shared_bytes(&m->plan) > 0)
        orr_workers_run(workers, (size_t)(m->plan.n_i + m->plan.n_j), reorder_piece, &r);
    orr_workers_run(workers, (size_t)(m->plan.n_i * m->plan.n_j), make_piece, &r);
    orr_onednn_end(m->api, threads);
}

static const orr_onednn_api *wanted(const orr_kernel_call *call)
{
    const char *asked = getenv("ORRERY_PRODUCTS");
    const bool forced = asked != NULL && strcmp(asked, "onednn") == 0,
               forbidden = asked != NULL && strcmp(asked, "own") == 0;
    const orr_cpu_level_id from =
        call->in[0].type.dtype == ORR_DTYPE_FP32 ? ORR_CPU_AVX512 : ORR_CPU_AVX512_BF16;
    if (forbidden || (!forced && orr_cpu_level() < from))
        return NULL;
    return orr_onednn_open();
}

size_t orr_onednn_workspace(const orr_kernel_call *call, size_t own)
{
    const orr_onednn_api *api = wanted(call);
    orr_onednn_plan plan;
    size_t bytes = 0;
    if (api == NULL)
        return own;
    const int threads = orr_onednn_begin(api);
    if (orr_onednn_plan_convolution(api, call, &plan)) {
        bytes = shared_bytes(&plan) + (size_t)orr_workers_count(call->workers) * hand_bytes(&plan);
        (void)api->dnnl_primitive_desc_destroy(plan.primitive);
    }
    orr_onednn_end(api, threads);
    return bytes > own ? bytes : own;
}

static bool make_reorder(prepared *m, int side)
{
    const orr_onednn_api *api = m->api;
    const orr_onednn_side *s = &m->plan.side[side];
    const bool back = side == ORR_ONEDNN_RESULT;
    dnnl_primitive_desc_t described;
    if (!s->reordered)
        return true;
    if (api->dnnl_reorder_primitive_desc_create(&described, back ? &s->own : &s->given, api->engine,
                                                back ? &s->given : &s->own, api->engine,
                                                NULL) != dnnl_success)
        return false;
    const bool ok = api->dnnl_primitive_create(&m->reorder[side], described) == dnnl_success;
    (void)api->dnnl_primitive_desc_destroy(described);
    return ok;
}

static bool make_memory(const prepared *m, const dnnl_memory_desc_t *desc, dnnl_memory_t *ret)
{
    return m->api->dnnl_memory_create(ret, desc, m->api->engine, DNNL_MEMORY_NONE) == dnnl_success;
}

static bool make_hand(const prepared *m, thread_objects *h)
{
    bool ok = m->api->dnnl_stream_create(&h->stream, m->api->engine, dnnl_stream_default_flags) ==
                  dnnl_success &&
              make_memory(m, &m->plan.scratchpad, &h->scratchpad);
    for (int s = 0; s < ORR_ONEDNN_SIDES && ok; s++)
        ok = make_memory(m, &m->plan.side[s].given, &h->given[s]) &&
             (!m->plan.side[s].reordered || make_memory(m, &m->plan.side[s].own, &h->own[s]));
    return ok;
}

/* Primitives and memory objects are NULL until made, so this frees a partly made state too. */
void orr_onednn_release(void *state)
{
    prepared *m = state;
    if (m == NULL)
        return;
    const orr_onednn_api *api = m->api;
    for (int i = 0; i < m->n_threads && m->threads != NULL; i++) {
        thread_objects *h = &m->threads[i];
        for (int s = 0; s < ORR_ONEDNN_SIDES; s++) {
            (void)api->dnnl_memory_destroy(h->given[s]);
            (void)api->dnnl_memory_destroy(h->own[s]);
        }
        (void)api->dnnl_memory_destroy(h->scratchpad);
        (void)api->dnnl_stream_destroy(h->stream);
    }
    for (int s = 0; s < ORR_ONEDNN_SIDES; s++)
        (void)api->dnnl_primitive_destroy(m->reorder[s]);
    (void)api->dnnl_primitive_destroy(m->primitive);
    orr_free(m->threads);
    orr_free(m);
}

static bool make(prepared *m, const orr_kernel_call *call)
{
    if (!orr_onednn_plan_convolution(m->api, call, &m->plan))
        return false;
    bool ok = m->api->dnnl_primitive_create(&m->primitive, m->plan.primitive) == dnnl_success;
    (void)m->api->dnnl_primitive_desc_destroy(m->plan.primitive);
    for (int s = 0; s < ORR_ONEDNN_SIDES && ok; s++)
        ok = make_reorder(m, s);
    for (int i = 0; i < m->n_threads && ok; i++)
        ok = make_hand(m, &m->threads[i]);
    return ok;
}

orr_status orr_onednn_prepare(const orr_kernel_call *call, void **ret, orr_error *err)
{
    const orr_onednn_api *api = wanted(call);
    *ret = NULL;
    if (api == NULL)
        return ORR_OK;
    prepared *m = orr_calloc(1, sizeof *m);
    if (m == NULL)
        return orr_fail_memory(err);
    m->api = api;
    m->n_threads = orr_workers_count(call->workers);
    m->threads = orr_calloc((size_t)m->n_threads, sizeof *m->threads);
    if (m->threads == NULL) {
        orr_onednn_release(m);
        return orr_fail_memory(err);
    }
    const int threads = orr_onednn_begin(api);
    if (make(m, call))
        *ret = m;
    else
        orr_onednn_release(m);
    orr_onednn_end(api, threads);
    return ORR_OK;
}
