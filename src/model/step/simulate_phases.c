/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "model/step/module_cost.h"

/* List scheduling of one or two sequences of tasks on one device. Tasks of a sequence run in
 * order. There are two kinds of resources: the device, for computation, and one stream for each
 * axis, for transfers. At each step the task that can start first is started; the first
 * sequence's on a tie. sim/ simulates the same tasks as an execution graph; both must agree to
 * the nanosecond, since an estimate of a step uses this file and its simulation uses sim/. */
enum { SEQUENCES = 2, BESIDE_MOST = 32, MILLION = 1000000 };

typedef struct pending { /* an overlapped transfer */
    uint32_t joins;
    uint8_t axis;
    int64_t end_ns;
} pending;

typedef struct sequence_state {
    const orr_phase_sequence *sequence;
    uint32_t phase, task;
    int64_t ready_ns; /* end of its last task */
    uint8_t waits_on; /* axis of that task; ORR_AXIS_NONE: computation */
    pending beside[BESIDE_MOST];
    uint32_t n_beside;
} sequence_state;

typedef struct phase_run {
    sequence_state states[SEQUENCES];
    uint32_t n;
    int64_t device_ns, stream_ns[ORR_AXES]; /* times from which on each resource is free */
    uint32_t slow_ppm; /* slowdown of computation beside a transfer, in millionths of its time */
    orr_phase_simulation played;
} phase_run;

static const orr_phase_cost *phase_of(const sequence_state *r)
{
    return r->phase < r->sequence->n ? r->sequence->phases[r->phase] : NULL;
}

/* Waits for overlapped transfers that the task (or, at n, the end of the phase) needs. */
static void join(sequence_state *r, uint32_t task)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < r->n_beside; i++) {
        if (r->beside[i].joins > task) {
            r->beside[kept++] = r->beside[i];
            continue;
        }
        if (r->beside[i].end_ns > r->ready_ns) {
            r->ready_ns = r->beside[i].end_ns;
            r->waits_on = r->beside[i].axis;
        }
    }
    r->n_beside = kept;
}

/* Moves to the next task that exists, past the ends of phases. */
static void skip_ended_phases(sequence_state *r)
{
    for (const orr_phase_cost *p; (p = phase_of(r)) != NULL;) {
        join(r, r->task);
        if (r->task < p->n)
            return;
        r->phase++;
        r->task = 0;
    }
}

static int64_t free_at(const phase_run *p, const orr_call_cost *task)
{
    return task->axis == ORR_AXIS_NONE ? p->device_ns : p->stream_ns[task->axis];
}

/* Time of a computation that starts at `start_ns`: slower as long as transfers are under way, with
 * the arithmetic of sim/engine/interference.h. */
static int64_t computed_ns(const phase_run *p, int64_t ns, int64_t start_ns)
{
    int64_t busy_ns = 0;
    for (int axis = 0; axis < ORR_AXES; axis++)
        if (p->stream_ns[axis] - start_ns > busy_ns)
            busy_ns = p->stream_ns[axis] - start_ns;
    if (p->slow_ppm <= MILLION || busy_ns == 0)
        return ns;
    const __int128 work = (__int128)ns * p->slow_ppm, beside = (__int128)busy_ns * MILLION;
    if (work <= beside)
        return (int64_t)((work + MILLION - 1) / MILLION);
    return busy_ns + (int64_t)((work - beside + p->slow_ppm - 1) / p->slow_ppm);
}

static int64_t run_compute(phase_run *p, sequence_state *r, const orr_call_cost *task,
                           int64_t start_ns)
{
    if (r->waits_on != ORR_AXIS_NONE && start_ns > p->device_ns)
        p->played.waited_ns[r->waits_on] += start_ns - p->device_ns;
    p->device_ns = start_ns + computed_ns(p, task->ns, start_ns);
    r->ready_ns = p->device_ns;
    r->waits_on = ORR_AXIS_NONE;
    return p->device_ns - start_ns;
}

static void run_transfer(phase_run *p, sequence_state *r, const orr_call_cost *task,
                         int64_t start_ns)
{
    const int64_t end_ns = start_ns + task->ns;
    p->stream_ns[task->axis] = end_ns;
    if (task->beside && r->n_beside < BESIDE_MOST) {
        r->beside[r->n_beside++] = (pending){task->joins, task->axis, end_ns};
        return;
    }
    r->ready_ns = end_ns;
    r->waits_on = task->axis;
}

/* Accounts for the end. With a single sequence, computation and waiting alternate, and
 * run_compute() accounts for every wait before a computation; here are the waits after the last
 * one. */
static void finish(phase_run *p)
{
    const sequence_state *last = &p->states[0];
    for (uint32_t i = 1; i < p->n; i++)
        if (p->states[i].ready_ns > last->ready_ns)
            last = &p->states[i];
    p->played.span_ns = last->ready_ns > p->device_ns ? last->ready_ns : p->device_ns;
    if (last->waits_on != ORR_AXIS_NONE && last->ready_ns > p->device_ns)
        p->played.waited_ns[last->waits_on] += last->ready_ns - p->device_ns;
}

void orr_simulate_phases(const orr_phase_sequence *sequences, uint32_t n, double compute_slowdown,
                         orr_phase_call_visit *visit, void *ctx, orr_phase_simulation *ret)
{
    phase_run p = {.n = n < SEQUENCES ? n : SEQUENCES, .slow_ppm = MILLION};
    if (compute_slowdown > 1)
        p.slow_ppm = (uint32_t)(compute_slowdown * MILLION + 0.5);
    for (uint32_t i = 0; i < p.n; i++) {
        p.states[i] = (sequence_state){.sequence = &sequences[i], .waits_on = ORR_AXIS_NONE};
        skip_ended_phases(&p.states[i]);
    }
    for (;;) {
        sequence_state *next = NULL;
        int64_t begin_ns = INT64_MAX;
        for (uint32_t i = 0; i < p.n; i++) {
            sequence_state *r = &p.states[i];
            const orr_phase_cost *phase = phase_of(r);
            if (phase == NULL)
                continue;
            const int64_t free_ns = free_at(&p, &phase->tasks[r->task]);
            const int64_t at_ns = free_ns > r->ready_ns ? free_ns : r->ready_ns;
            if (at_ns < begin_ns) {
                begin_ns = at_ns;
                next = r;
            }
        }
        if (next == NULL)
            break;
        const orr_call_cost *task = &phase_of(next)->tasks[next->task];
        int64_t ns = task->ns;
        if (task->axis == ORR_AXIS_NONE)
            ns = run_compute(&p, next, task, begin_ns);
        else
            run_transfer(&p, next, task, begin_ns);
        if (visit != NULL)
            visit(ctx, (uint32_t)(next - p.states), next->phase, next->task, ns);
        next->task++;
        skip_ended_phases(next);
    }
    finish(&p);
    *ret = p.played;
}
