/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "model/step/module_cost.h"

/* One or two sequences of tasks on one device, in a program order that no time enters: as a host
 * launches them. Computation runs in that order, and so do the transfers along each axis; a task
 * also waits for the end of its own sequence's last one and for the overlapped transfers that it
 * needs. So all times are longest paths, and nothing takes longer because something else is faster,
 * as it may under list scheduling (Graham, "Bounds on multiprocessing timing anomalies", SIAM
 * Journal on Applied Mathematics 17(2), 1969).
 *
 * Two sequences take turns: each runs until it has to wait for a transfer. Whose turn it is, is
 * said by a few orders; the shortest is taken, and the minimum of what is monotone is.
 *
 * Beside a transfer of length L, computation loses (1 - 1 / s) L: the next one in the order is
 * longer by that. If all computation until the transfer is waited for takes less than L / s, the
 * wait is shorter by as much. A sequence that waits for its transfer loses nothing; the other one
 * does. s is the calibration's slowdown, or what is left to computation of the multiprocessors that
 * the transfer takes, if that is more. */
enum { SEQUENCES = 2, BESIDE_MOST = 32 };

/* Who is next is the sequence that has done the smaller share of its turns, or of its FLOPs; on a
 * tie the one that `second` says. */
typedef struct turn_order {
    bool by_flops, second;
} turn_order;
static const turn_order ORDERS[] = {{false, false}, {false, true}, {true, false}, {true, true}};
enum { N_ORDERS = sizeof ORDERS / sizeof *ORDERS };

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
    double owed_ns; /* what the next computation of the other sequence loses beside its transfers */
    double turns, all_turns, flops, all_flops; /* done, and to do; both at least 1 */
} sequence_state;

typedef struct phase_run {
    sequence_state states[SEQUENCES];
    uint32_t n;
    int64_t device_ns, stream_ns[ORR_AXES]; /* times from which on each resource is free */
    double slowdown;                        /* of computation beside a transfer */
    double owed_ns; /* what the next computation loses beside overlapped transfers */
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

static int64_t run_compute(phase_run *p, sequence_state *r, const orr_call_cost *task,
                           int64_t start_ns)
{
    if (r->waits_on != ORR_AXIS_NONE && start_ns > p->device_ns)
        p->played.waited_ns[r->waits_on] += start_ns - p->device_ns;
    const sequence_state *other = &p->states[r == &p->states[0]];
    p->device_ns = start_ns + task->ns + (int64_t)(p->owed_ns + other->owed_ns + 0.5);
    p->owed_ns = p->states[0].owed_ns = p->states[1].owed_ns = 0;
    r->ready_ns = p->device_ns;
    r->waits_on = ORR_AXIS_NONE;
    return p->device_ns - start_ns;
}

static bool goes_beside(const sequence_state *r, const orr_call_cost *transfer)
{
    return transfer->beside && r->n_beside < BESIDE_MOST;
}

/* Slowdown of computation beside a transfer. A sequence alone has little computation beside its
 * transfers to experts, and waits for the rest of them. */
static double slowdown_of(const phase_run *p, const orr_call_cost *transfer)
{
    return p->n > 1 ? fmax(p->slowdown, 1 / (1 - transfer->busy_sms_frac)) : p->slowdown;
}

static void run_transfer(phase_run *p, sequence_state *r, const orr_call_cost *task,
                         int64_t start_ns)
{
    const int64_t end_ns = start_ns + task->ns;
    p->stream_ns[task->axis] = end_ns;
    *(goes_beside(r, task) ? &p->owed_ns : &r->owed_ns) +=
        (1 - 1 / slowdown_of(p, task)) * (double)task->ns;
    if (goes_beside(r, task)) {
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

/* Overlapped transfers that the next task of a sequence waits for. */
static uint32_t joined_next(const sequence_state *r)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->n_beside; i++)
        n += r->beside[i].joins <= r->task;
    return n;
}

static void count_turns(sequence_state *r)
{
    r->all_turns = r->all_flops = 1;
    for (uint32_t i = 0; i < r->sequence->n; i++) {
        const orr_phase_cost *phase = r->sequence->phases[i];
        r->all_flops += phase->flops;
        for (uint32_t k = 0; k < phase->n; k++)
            r->all_turns += phase->tasks[k].axis != ORR_AXIS_NONE;
    }
}

static double share_done(const sequence_state *r, const turn_order *order)
{
    return order->by_flops ? r->flops / r->all_flops : r->turns / r->all_turns;
}

/* NULL: all tasks have run. */
static sequence_state *next_turn(phase_run *p, const turn_order *order)
{
    sequence_state *a = &p->states[0], *b = &p->states[1];
    if (p->n < 2 || phase_of(b) == NULL)
        return phase_of(a) != NULL ? a : NULL;
    if (phase_of(a) == NULL)
        return b;
    const double done = share_done(a, order), other = share_done(b, order);
    return done < other || (done <= other && !order->second) ? a : b;
}

static int64_t run_task(phase_run *p, sequence_state *r, const orr_call_cost *task)
{
    const int64_t free_ns = free_at(p, task);
    const int64_t start_ns = free_ns > r->ready_ns ? free_ns : r->ready_ns;
    r->flops += task->flops;
    if (task->axis == ORR_AXIS_NONE)
        return run_compute(p, r, task, start_ns);
    run_transfer(p, r, task, start_ns);
    return task->ns;
}

static void run_in_order(phase_run *p, const turn_order *order, orr_phase_call_visit *visit,
                         void *ctx)
{
    for (sequence_state *r; (r = next_turn(p, order)) != NULL;)
        for (bool turn = true; turn && phase_of(r) != NULL; skip_ended_phases(r)) {
            const uint32_t phase = r->phase, at = r->task++;
            const orr_call_cost *task = &r->sequence->phases[phase]->tasks[at];
            const bool waits = task->axis != ORR_AXIS_NONE && !goes_beside(r, task);
            const int64_t ns = run_task(p, r, task);
            if (visit != NULL)
                visit(ctx, (uint32_t)(r - p->states), phase, at, ns);
            const uint32_t turns = waits + joined_next(r);
            turn = turns == 0;
            r->turns += turns;
        }
    finish(p);
}

void orr_simulate_phases(const orr_phase_sequence *sequences, uint32_t n, double compute_slowdown,
                         orr_phase_call_visit *visit, void *ctx, orr_phase_simulation *ret)
{
    phase_run begin = {.n = n < SEQUENCES ? n : SEQUENCES, .slowdown = fmax(compute_slowdown, 1)};
    const int n_orders = n > 1 ? N_ORDERS : 1;
    int best = 0;
    for (uint32_t i = 0; i < begin.n; i++) {
        begin.states[i] = (sequence_state){.sequence = &sequences[i], .waits_on = ORR_AXIS_NONE};
        if (n > 1)
            count_turns(&begin.states[i]);
        skip_ended_phases(&begin.states[i]);
    }
    for (int i = 0; i < n_orders; i++) {
        phase_run p = begin;
        run_in_order(&p, &ORDERS[i], n_orders > 1 ? NULL : visit, ctx);
        if (i == 0 || p.played.span_ns < ret->span_ns) {
            *ret = p.played;
            best = i;
        }
    }
    if (n_orders > 1 && visit != NULL)
        run_in_order(&begin, &ORDERS[best], visit, ctx);
}
