/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/step_calls.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { ALIKE = 0 }; /* dim of a measured call: how many of the module are alike */

orr_measured_kernel orr_kernel_of_call(const orr_tape *tape, uint32_t number)
{
    const orr_tape_call *call = &tape->calls[number];
    orr_op_work work;
    orr_tape_work(tape, number, &work);
    orr_measured_kernel ret = {.op = call->op,
                               .dtype = call->n_in > 0 ? tape->values[call->in[0]].type.dtype
                                                       : (uint8_t)ORR_DTYPE_FP32,
                               .form = call->args.transpose_a   ? 2
                                       : call->args.transpose_b ? 1
                                                                : 0,
                               .flops = work.flops,
                               .bytes = work.read_bytes + work.write_bytes};
    if (ret.bytes <= 0 && call->n_out > 0)
        ret.bytes = (double)orr_type_bytes(&tape->values[call->out[0]].type);
    return ret;
}

const orr_measured_kernel *orr_measured_call(const orr_measured_kernel *calls, uint32_t n,
                                             const orr_tape *tape, uint32_t call)
{
    const orr_measured_kernel asked = orr_kernel_of_call(tape, call);
    for (uint32_t i = 0; i < n; i++)
        if (calls[i].op == asked.op && calls[i].dtype == asked.dtype &&
            calls[i].form == asked.form && calls[i].flops == asked.flops &&
            calls[i].bytes == asked.bytes)
            return &calls[i];
    return NULL;
}

struct orr_module_timing {
    orr_arena *arena;
    const orr_timing *timing;
    const orr_tape *tape;
    orr_binding *bindings;
    orr_program *program;
    int64_t *start_ns, *end_ns;  /* shape (calls) */
    orr_array(int64_t *) rounds; /* of each run, shape (calls) */
};

/* What no call makes, and gradients of parameters, have places of their own. */
static orr_status bind_values(orr_module_timing *r, orr_error *err)
{
    r->bindings = orr_arena_array(r->arena, orr_binding, r->tape->n_values);
    if (r->bindings == NULL)
        return orr_fail_memory(err);
    for (orr_value v = 0; v < r->tape->n_values; v++) {
        const orr_tape_value *value = &r->tape->values[v];
        const bool held =
            value->made_by == ORR_NONE ||
            (value->role == ORR_VALUE_PARAMETER_GRADIENT && value->view_of == ORR_NONE);
        const size_t bytes = (size_t)orr_type_bytes(&value->type);
        if (!held)
            continue;
        char *data = orr_arena_alloc(r->arena, bytes, 1, 64);
        if (data == NULL)
            return orr_fail_memory(err);
        const bool index =
            value->type.dtype == ORR_DTYPE_INT64 || value->type.dtype == ORR_DTYPE_INT32;
        memset(data, index ? 0 : 0x3c, bytes); /* 0x3c: about 0.01 in fp32, bf16; 1 in fp16 */
        r->bindings[v].data = data;
    }
    return ORR_OK;
}

static orr_status make_program(orr_module_timing *r, orr_error *err)
{
    const size_t n = r->tape->n_calls;
    ORR_TRY(bind_values(r, err));
    r->start_ns = orr_arena_array(r->arena, int64_t, n);
    r->end_ns = orr_arena_array(r->arena, int64_t, n);
    if (r->start_ns == NULL || r->end_ns == NULL)
        return orr_fail_memory(err);
    const orr_program_source source = {.tape = r->tape,
                                       .bindings = r->bindings,
                                       .backend = r->timing->backend,
                                       .workers = r->timing->workers};
    return orr_program_make(&source, &r->program, err);
}

orr_status orr_module_timing_run(orr_module_timing *r, orr_error *err)
{
    const orr_program_run run = {.start_ns = r->start_ns, .end_ns = r->end_ns};
    int64_t *ns = orr_arena_array(r->arena, int64_t, r->tape->n_calls);
    if (ns == NULL || !orr_array_push(&r->rounds, ns))
        return orr_fail_memory(err);
    ORR_TRY(orr_program_execute(r->program, &run, err));
    for (uint32_t c = 0; c < r->tape->n_calls; c++)
        ns[c] = r->start_ns[c] >= 0 ? r->end_ns[c] - r->start_ns[c] : 0;
    return ORR_OK;
}

static int64_t sum_of(const orr_module_timing *r, size_t round)
{
    int64_t sum = 0;
    for (uint32_t c = 0; c < r->tape->n_calls; c++)
        sum += r->rounds.at[round][c];
    return sum;
}

typedef struct round_sum {
    int64_t ns;
    size_t round;
} round_sum;

static int by_ns(const void *a_, const void *b_)
{
    const round_sum *a = a_, *b = b_;
    return (a->ns > b->ns) - (a->ns < b->ns);
}

/* Adds a call to the one from `own` on that it is like, or as a new one. */
static orr_status add_call(const orr_module_timing *r, uint32_t c, const orr_measured_kernel *call,
                           size_t own, orr_measured_calls *ret, orr_error *err)
{
    orr_measured_kernel *same = (orr_measured_kernel *)(uintptr_t)orr_measured_call(
        ret->at + own, (uint32_t)(ret->n - own), r->tape, c);
    if (same == NULL)
        return orr_array_push(ret, *call) ? ORR_OK : orr_fail_memory(err);
    same->ns += call->ns;
    same->dim[ALIKE]++;
    return ORR_OK;
}

/* Calls add up to a typical run: what interrupts single ones now and then is part of it. */
orr_status orr_module_timing_calls(const orr_module_timing *r, orr_measured_calls *ret,
                                   orr_error *err)
{
    const size_t rounds = r->rounds.n, first = rounds / 3, n = rounds - 2 * first, own = ret->n;
    round_sum *order = orr_calloc(rounds + 1, sizeof *order);
    orr_status status = order != NULL ? ORR_OK : orr_fail_memory(err);
    for (size_t i = 0; i < rounds && status == ORR_OK; i++)
        order[i] = (round_sum){sum_of(r, i), i};
    if (status == ORR_OK)
        qsort(order, rounds, sizeof *order, by_ns);
    for (uint32_t c = 0; c < r->tape->n_calls && status == ORR_OK; c++) {
        orr_measured_kernel call = orr_kernel_of_call(r->tape, c);
        if (orr_op_of((orr_op)call.op)->shares)
            continue;
        for (size_t i = first; i < first + n; i++)
            call.ns += r->rounds.at[order[i].round][c];
        call.ns /= (int64_t)n;
        call.threads = r->timing->threads;
        call.dim[ALIKE] = 1;
        status = add_call(r, c, &call, own, ret, err);
    }
    for (size_t i = own; i < ret->n; i++)
        ret->at[i].ns /= ret->at[i].dim[ALIKE];
    orr_free(order);
    return status;
}

orr_status orr_module_timing_open(const orr_timing *timing, const orr_module *module,
                                  orr_module_timing **ret, orr_error *err)
{
    orr_module_timing *t = orr_calloc(1, sizeof *t);
    if (t == NULL)
        return orr_fail_memory(err);
    *t = (orr_module_timing){.arena = orr_arena_new(0, 0), .timing = timing, .tape = module->tape};
    const orr_status status = t->arena != NULL ? make_program(t, err) : orr_fail_memory(err);
    if (status == ORR_OK)
        *ret = t;
    else
        orr_module_timing_close(t);
    return status;
}

void orr_module_timing_close(orr_module_timing *t)
{
    if (t == NULL)
        return;
    orr_program_free(t->program);
    orr_array_done(&t->rounds);
    orr_arena_free(t->arena);
    orr_free(t);
}

/* The kernel that runs at a call; ORR_OPS: none, as it has a hook in its place, is a transfer, or
 * shares bytes. */
static orr_op kernel_at(const orr_program_source *p, const orr_backend *backend, uint32_t c)
{
    const orr_tape_call *call = &p->tape->calls[c];
    const orr_op_row *row = orr_op_of((orr_op)call->op);
    const bool bound =
        call->n_out > 0 && p->bindings != NULL && p->bindings[call->out[0]].data != NULL;
    if (p->calls != NULL && (p->calls[c].skip || p->calls[c].instead != NULL))
        return ORR_OPS;
    if (row->family == ORR_OP_FAMILY_COLLECTIVE || (row->shares && !bound))
        return ORR_OPS;
    const orr_op op = row->shares ? ORR_OP_COPY : (orr_op)call->op;
    return backend->entries[op].run != NULL ? op : ORR_OPS;
}

orr_status orr_time_other_calls(const orr_timing *timing, const orr_program_source *p,
                                orr_measured_calls *ret, orr_error *err)
{
    for (uint32_t c = 0; c < p->tape->n_calls; c++) {
        const orr_tape_call *call = &p->tape->calls[c];
        const orr_op op = kernel_at(p, timing->backend, c);
        if (op == ORR_OPS || orr_measured_call(ret->at, (uint32_t)ret->n, p->tape, c) != NULL)
            continue;
        orr_timed_call timed = {.op = op,
                                .args = call->args,
                                .n_in = op == ORR_OP_COPY ? 1 : call->n_in,
                                .accumulate = p->calls != NULL && p->calls[c].accumulate};
        for (uint32_t k = 0; k < call->n_in; k++)
            timed.in[k] = p->tape->values[op == call->op ? call->in[k] : call->out[0]].type;
        orr_measured_kernel kernel = orr_kernel_of_call(p->tape, c), made;
        ORR_TRY(orr_time_call(timing, &timed, false, &made, err));
        kernel.ns = made.ns;
        kernel.spread = made.spread;
        kernel.threads = timing->threads;
        if (!orr_array_push(ret, kernel))
            return orr_fail_memory(err);
    }
    return ORR_OK;
}
