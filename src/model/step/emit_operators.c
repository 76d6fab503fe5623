/* SPDX-License-Identifier: Apache-2.0 */
#include "model/step/emitter.h"

#include <stdio.h>
#include <string.h>

/* Emission of slots in the finest detail: a node for each call. Calls are emitted in the order
 * in which the phase simulation starts them. */
enum { PENDING_MOST = 32, TEXT_MOST = 256 };

typedef struct pending_node {
    uint32_t phase, joins;
    orr_node_id node;
} pending_node;

typedef struct thread { /* one sequence of phases */
    orr_node_id last;   /* transfer that the next task waits for, or ORR_NONE */
    pending_node beside[PENDING_MOST];
    uint32_t n_beside;
} thread;

typedef struct writer {
    orr_stage_emitter *l;
    const orr_phase_sequence *sequences;
    const orr_module *const *const *modules;
    thread threads[2];
} writer;

static size_t write_dims(char *to, size_t room, const orr_type *type)
{
    size_t n = (size_t)snprintf(to, room, "[");
    for (uint32_t i = 0; i < type->rank && n < room; i++)
        n += (size_t)snprintf(to + n, room - n, "%s%lld", i > 0 ? ", " : "",
                              (long long)type->dim[i]);
    return n < room ? n + (size_t)snprintf(to + n, room - n, "]") : room;
}

/* Shapes, or types, of values as a list. False: too long. */
static bool write_values(char text[TEXT_MOST], const orr_tape *tape, const orr_value *values,
                         uint32_t n_values, bool types)
{
    size_t n = (size_t)snprintf(text, TEXT_MOST, "[");
    for (uint32_t i = 0; i < n_values && n < TEXT_MOST; i++) {
        const orr_type *type = &tape->values[values[i]].type;
        if (i > 0)
            n += (size_t)snprintf(text + n, TEXT_MOST - n, ", ");
        if (n >= TEXT_MOST)
            break;
        n += types ? (size_t)snprintf(text + n, TEXT_MOST - n, "\"%s\"",
                                      orr_dtype_name((orr_dtype)type->dtype))
                   : write_dims(text + n, TEXT_MOST - n, type);
    }
    if (n < TEXT_MOST)
        n += (size_t)snprintf(text + n, TEXT_MOST - n, "]");
    return n < TEXT_MOST;
}

static void keep(orr_stage_emitter *l, orr_status status)
{
    if (l->status == ORR_OK)
        l->status = status;
}

/* Attributes of a node: shapes, types and names as in recordings. */
static void describe(orr_stage_emitter *l, orr_node_id node, const orr_module *module, uint32_t at)
{
    const orr_tape_call *call = &module->tape->calls[at];
    static const struct {
        const char *name;
        bool out, types;
    } LISTS[] = {
        {"Input Dims", false, false}, {"Input type", false, true}, {"Output Dims", true, false}};
    enum { N_LISTS = sizeof LISTS / sizeof *LISTS };
    orr_str values[N_LISTS + 1];
    orr_attr attrs[N_LISTS + 1];
    uint32_t n = 0;
    char text[TEXT_MOST];
    for (uint32_t i = 0; i < N_LISTS && orr_stage_emit_ok(l); i++) {
        const bool out = LISTS[i].out;
        if (!write_values(text, module->tape, out ? call->out : call->in,
                          out ? call->n_out : call->n_in, LISTS[i].types))
            continue;
        attrs[n] = (orr_attr){.kind = ORR_ATTR_JSON, .count = 1, .values = &values[n]};
        keep(l,
             orr_builder_str(l->b, LISTS[i].name, strlen(LISTS[i].name), &attrs[n].name, l->err));
        if (orr_stage_emit_ok(l))
            keep(l, orr_builder_str(l->b, text, strlen(text), &values[n++], l->err));
    }
    snprintf(text, sizeof text, "%s/%s", module->name, call->name);
    attrs[n] = (orr_attr){.kind = ORR_ATTR_STRING, .count = 1, .values = &values[n]};
    if (orr_stage_emit_ok(l))
        keep(l, orr_builder_str(l->b, "module", strlen("module"), &attrs[n].name, l->err));
    if (orr_stage_emit_ok(l))
        keep(l, orr_builder_str(l->b, text, strlen(text), &values[n++], l->err));
    if (orr_stage_emit_ok(l))
        keep(l, orr_builder_attrs(l->b, node, attrs, n, l->err));
}

/* Adds the transfer that the thread's next task waits for to l->waits. */
static void join(writer *w, thread *t, uint32_t phase, uint32_t task)
{
    uint32_t kept = 0;
    if (t->last != ORR_NONE)
        orr_stage_emit_wait(w->l, t->last);
    t->last = ORR_NONE;
    for (uint32_t i = 0; i < t->n_beside; i++) {
        const pending_node *p = &t->beside[i];
        if (p->phase == phase && p->joins > task)
            t->beside[kept++] = *p;
        else
            orr_stage_emit_wait(w->l, p->node);
    }
    t->n_beside = kept;
}

static void write_transfer(writer *w, thread *t, uint32_t phase, const orr_call_cost *task,
                           const orr_module *module)
{
    orr_stage_emitter *l = w->l;
    const orr_emitted_transfer transfer = {.grouping = task->axis,
                                           .collective = (orr_collective)task->collective,
                                           .lane = orr_axis_lane(task->axis),
                                           .bytes = task->bytes,
                                           .price = {.ns = task->ns, .basis = task->basis},
                                           .peer = -1,
                                           .ordinal = ORR_NONE};
    const orr_node_id node = orr_stage_emit_transfer_in_order(l, &transfer);
    if (orr_stage_emit_ok(l) && task->call != ORR_NONE)
        describe(l, node, module, task->call);
    if (task->beside && t->n_beside < PENDING_MOST)
        t->beside[t->n_beside++] = (pending_node){phase, task->joins, node};
    else
        t->last = node;
}

/* Emits one task. A dependency that only a transfer has is given to the transfer alone, so that
 * the computation of the other sequence does not wait. */
static void write_task(void *ctx, uint32_t sequence, uint32_t phase, uint32_t at, int64_t ns)
{
    writer *w = ctx;
    orr_stage_emitter *l = w->l;
    thread *t = &w->threads[sequence];
    const orr_call_cost *task = &w->sequences[sequence].phases[phase]->tasks[at];
    const orr_module *module = w->modules[sequence][phase];
    const size_t before = l->waits.n;
    join(w, t, phase, at);
    if (task->axis != ORR_AXIS_NONE) {
        write_transfer(w, t, phase, task, module);
        if (l->nodes.n > 0 && task->beside) /* computation of the sequence waits for it all the
                                             * same */
            return;
        l->waits.n = before < l->waits.n ? before : l->waits.n;
        return;
    }
    const orr_node_id node = orr_stage_emit_compute_node(
        l,
        task->name != NULL ? task->name
                           : orr_op_of((orr_op)module->tape->calls[task->call].op)->name,
        task->again ? ORR_WATERFALL_RECOMPUTE : ORR_WATERFALL_KERNELS, ns, task->basis);
    if (orr_stage_emit_ok(l) && task->call != ORR_NONE)
        describe(l, node, module, task->call);
}

void orr_stage_emit_operators(orr_stage_emitter *l, const orr_phase_sequence *sequences, uint32_t n,
                              const orr_module *const *const *modules)
{
    writer w = {.l = l, .sequences = sequences, .modules = modules};
    orr_phase_simulation played;
    for (int i = 0; i < 2; i++)
        w.threads[i].last = ORR_NONE;
    orr_simulate_phases(sequences, n, l->job->prices->kernels->calibration->compute_slowdown,
                        write_task, &w, &played);
    for (uint32_t i = 0; i < n; i++)
        join(&w, &w.threads[i], ORR_NONE, ORR_NONE);
    const int64_t wait_ns = orr_step_launch_wait(l->job->prices, sequences, n, played.span_ns);
    if (wait_ns > 0)
        (void)orr_stage_emit_compute_node(l, "launches", ORR_WATERFALL_KERNELS, wait_ns,
                                          l->job->prices->kernels->calibration->basis);
}
