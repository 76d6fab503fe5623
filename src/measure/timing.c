/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/timing.h"

#include <stdlib.h>
#include <string.h>

#include "base/philox.h"

enum { RUNS_MAX = 400, COPIES_MAX = 64 };

static int by_number(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int64_t orr_median_of(int64_t *ns, uint32_t n, double *ret_spread)
{
    qsort(ns, n, sizeof *ns, by_number);
    const int64_t median = ns[n / 2];
    *ret_spread = median > 0 ? (double)(ns[n * 3 / 4] - ns[n / 4]) / 2 / (double)median : 0;
    return median;
}

/* A tape of the call, once or several times, each with operands of its own. */
typedef struct timed_tape {
    orr_arena *arena;
    orr_tape tape;
    orr_binding *bindings;
    orr_program_call *calls;
    orr_program *program;
} timed_tape;

static bool is_index(const orr_type *type)
{
    return type->dtype == ORR_DTYPE_INT64 || type->dtype == ORR_DTYPE_INT32;
}

/* Random contents: numbers below 1, ids below the limit. */
static void *contents(timed_tape *t, const orr_timed_call *call, const orr_type *type)
{
    const size_t bytes = (size_t)orr_type_bytes(type);
    char *data = orr_arena_alloc(t->arena, bytes, 1, 64);
    orr_random random = orr_random_of(1, bytes);
    if (data == NULL || bytes < 8)
        return data;
    if (type->dtype == ORR_DTYPE_INT64)
        for (size_t i = 0; i < bytes / 8; i++)
            ((int64_t *)(void *)data)[i] =
                call->limit > 0 ? (int64_t)orr_random_below(&random, (uint64_t)call->limit) : 0;
    else if (type->dtype == ORR_DTYPE_INT32)
        for (size_t i = 0; i < bytes / 4; i++)
            ((int32_t *)(void *)data)[i] =
                call->limit > 0 ? (int32_t)orr_random_below(&random, (uint64_t)call->limit) : 0;
    else /* 0x3e: 0.1 to 0.5 in fp32, bf16 and fp16 alike */
        for (size_t i = 0; i < bytes; i++)
            data[i] = 0x3e;
    return data;
}

static orr_status add_copy(timed_tape *t, const orr_timed_call *call, orr_error *err)
{
    orr_value in[ORR_CALL_IN], out[ORR_CALL_OUT];
    const uint32_t number = t->tape.n_calls;
    for (uint32_t k = 0; k < call->n_in; k++) {
        ORR_TRY(orr_tape_value_new(&t->tape, ORR_VALUE_INPUT, &call->in[k], "", &in[k], err));
        t->bindings[in[k]].data = contents(t, call, &call->in[k]);
        if (t->bindings[in[k]].data == NULL)
            return orr_fail_memory(err);
    }
    ORR_TRY(orr_tape_call_op(&t->tape, call->op, &call->args, in, call->n_in, "", out, err));
    t->calls[number] = (orr_program_call){.accumulate = call->accumulate};
    for (uint32_t k = 0; k < t->tape.calls[number].n_out; k++) {
        const orr_tape_value *v = &t->tape.values[out[k]];
        if (v->view_of != ORR_NONE)
            continue;
        if (call->accumulate && k == 0)
            t->tape.values[out[k]].type.dtype = ORR_DTYPE_FP32;
        const size_t bytes = (size_t)orr_type_bytes(&v->type);
        t->bindings[out[k]].data = orr_arena_alloc(t->arena, bytes, 1, 64);
        if (t->bindings[out[k]].data == NULL)
            return orr_fail_memory(err);
    }
    return ORR_OK;
}

static orr_status make(timed_tape *t, const orr_timing *timing, const orr_timed_call *call,
                       uint32_t copies, orr_error *err)
{
    static const orr_update update = {.rate = 1e-6,
                                      .beta1 = 0.9,
                                      .beta2 = 0.95,
                                      .epsilon = 1e-8,
                                      .step = 10,
                                      .gradient_scale = 1};
    orr_tape_init(&t->tape, t->arena);
    t->bindings =
        orr_arena_array(t->arena, orr_binding, (size_t)copies * (ORR_CALL_IN + ORR_CALL_OUT));
    t->calls = orr_arena_array(t->arena, orr_program_call, copies);
    if (t->bindings == NULL || t->calls == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < copies; i++)
        ORR_TRY(add_copy(t, call, err));
    const orr_program_source source = {.tape = &t->tape,
                                       .calls = t->calls,
                                       .bindings = t->bindings,
                                       .backend = timing->backend,
                                       .workers = timing->workers};
    ORR_TRY(orr_program_make(&source, &t->program, err));
    orr_program_set_update(t->program, &update);
    return ORR_OK;
}

static orr_status run(timed_tape *t, const orr_timing *timing, uint32_t copies,
                      orr_measured_kernel *ret, orr_error *err)
{
    int64_t ns[RUNS_MAX], start[COPIES_MAX], end[COPIES_MAX], all = 0;
    const orr_program_run run = {.start_ns = start, .end_ns = end};
    uint32_t n = 0;
    ORR_TRY(orr_program_execute(t->program, &run, err)); /* warm-up: pages, caches, frequency */
    while (n + copies <= RUNS_MAX && (all < timing->least_ns || n < timing->least_runs)) {
        ORR_TRY(orr_program_execute(t->program, &run, err));
        for (uint32_t i = 0; i < copies; i++) {
            ns[n++] = end[i] - start[i];
            all += end[i] - start[i];
        }
    }
    ret->ns = orr_median_of(ns, n, &ret->spread);
    return ORR_OK;
}

orr_status orr_time_call(const orr_timing *timing, const orr_timed_call *call, bool cold,
                         orr_measured_kernel *ret, orr_error *err)
{
    timed_tape t = {.arena = timing->room};
    orr_measured_kernel made = {.op = (uint8_t)call->op,
                                .dtype =
                                    call->n_in > 0 ? call->in[0].dtype : (uint8_t)ORR_DTYPE_FP32,
                                .form = call->form,
                                .cold = cold,
                                .threads = timing->threads};
    orr_arena_reset(t.arena);
    if (call->n_in > 1 && is_index(&call->in[0]))
        made.dtype = call->in[1].dtype;
    orr_status status = make(&t, timing, call, 1, err);
    if (status == ORR_OK) {
        orr_op_work work;
        orr_tape_work(&t.tape, 0, &work);
        made.flops = work.flops;
        made.bytes = work.read_bytes + work.write_bytes;
        memcpy(made.dim, call->dim, sizeof made.dim);
    }
    uint32_t copies = 1;
    if (status == ORR_OK && cold) {
        const double wanted =
            2.0 * (double)timing->cache_bytes / (made.bytes > 1 ? made.bytes : 1) + 1;
        copies = wanted > COPIES_MAX ? COPIES_MAX : (uint32_t)wanted;
        orr_program_free(t.program);
        t.program = NULL;
        orr_arena_reset(t.arena);
        status = make(&t, timing, call, copies, err);
    }
    if (status == ORR_OK)
        status = run(&t, timing, copies, &made, err);
    orr_program_free(t.program);
    if (status == ORR_OK)
        *ret = made;
    return status;
}
