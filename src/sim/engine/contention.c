/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/engine/contention.h"

#include "base/alloc.h"
#include "sim/engine/options.h"

static bool class_of(const orr_sim_work *work, uint8_t *ret)
{
    switch (work->work_class) {
    case ORR_WORK_COMPUTE:
        *ret = ORR_TASK_COMPUTE;
        return work->device >= 0;
    case ORR_WORK_COMM:
        *ret = ORR_TASK_COMM;
        return work->device >= 0;
    default:
        return false;
    }
}

/* Numbers the devices of a graph, from 0 in order of appearance. */
static orr_status number_devices(orr_contention *d, uint32_t graph, const orr_sim_program *program,
                                 orr_error *err)
{
    enum { MOST = 1024 }; /* devices of one rank: searched linearly */
    int32_t seen[MOST];
    uint32_t n = 0;
    uint32_t *of_work = orr_calloc((size_t)program->n_works + 1, sizeof *of_work);
    d->device_of_work[graph] = of_work;
    if (of_work == NULL)
        return orr_fail_memory(err);
    for (uint32_t w = 0; w < program->n_works; w++) {
        uint8_t class;
        uint32_t i = 0;
        of_work[w] = ORR_NONE;
        if (!class_of(&program->works[w], &class))
            continue;
        while (i < n && seen[i] != program->works[w].device)
            i++;
        if (i == MOST)
            return orr_fail(err, ORR_LIMIT, "over %d devices in one graph", MOST);
        if (i == n)
            seen[n++] = program->works[w].device;
        of_work[w] = i;
    }
    d->n_devices[graph] = n;
    return ORR_OK;
}

static orr_status share_devices(orr_contention *d, const orr_engine *e, orr_error *err)
{
    const uint32_t n_graphs = e->ensemble->n_graphs;
    const uint32_t slow_ppm[ORR_TASK_CLASSES] = {orr_ppm(e->options->compute_slowdown),
                                                 orr_ppm(e->options->comm_slowdown)};
    size_t n = 0;
    d->shares_devices = slow_ppm[0] > 1000000 || slow_ppm[1] > 1000000;
    d->device_of_work = orr_calloc((size_t)n_graphs + 1, sizeof *d->device_of_work);
    d->n_devices = orr_calloc((size_t)n_graphs + 1, sizeof *d->n_devices);
    d->first_device = orr_calloc((size_t)e->n_actors + 1, sizeof *d->first_device);
    if (!d->device_of_work || !d->n_devices || !d->first_device)
        return orr_fail_memory(err);
    for (uint32_t a = 0; d->shares_devices && a < e->n_actors; a++) {
        const orr_actor *actor = &e->actors[a];
        if (d->device_of_work[actor->graph] == NULL)
            ORR_TRY(number_devices(d, actor->graph, actor->prepared->program, err));
        d->first_device[a] = n;
        n += d->n_devices[actor->graph];
    }
    if (n > UINT32_MAX - 1)
        return orr_fail(err, ORR_LIMIT, "over 2^32 - 2 devices");
    return orr_interference_init(&d->overlap, n, slow_ppm, err);
}

orr_status orr_contention_new(const orr_engine *engine, const orr_transfer_pricer *pricer,
                              orr_contention **ret, orr_error *err)
{
    const orr_sim_options *options = engine->options;
    if (options->compute_slowdown <= 1 && options->comm_slowdown <= 1 &&
        options->network != ORR_NETWORK_FLOWS)
        return ORR_OK;
    orr_contention *d = orr_calloc(1, sizeof *d);
    if (d == NULL)
        return orr_fail_memory(err);
    d->algorithm = options->algorithm;
    d->n_graphs = engine->ensemble->n_graphs;
    d->err = err;
    orr_status status = share_devices(d, engine, err);
    if (status == ORR_OK && options->network == ORR_NETWORK_FLOWS)
        status = orr_flows_new(options->cluster, &pricer->network, &d->flows, err);
    if (status == ORR_OK)
        *ret = d;
    else
        orr_contention_free(d);
    return status;
}

void orr_contention_free(orr_contention *d)
{
    if (d == NULL)
        return;
    for (uint32_t g = 0; d->device_of_work != NULL && g < d->n_graphs; g++)
        orr_free((void *)d->device_of_work[g]);
    orr_free(d->device_of_work);
    orr_free(d->n_devices);
    orr_free(d->first_device);
    orr_interference_done(&d->overlap);
    orr_flows_free(d->flows);
    orr_demands_done(&d->demands);
    orr_array_done(&d->members);
    orr_free(d);
}

static uint32_t node_of(const orr_engine *e, uint32_t actor, uint32_t work)
{
    return e->actors[actor].prepared->program->works[work].node;
}

static bool add_task(orr_engine *e, const orr_interference_task *task, int64_t at_ns, uint32_t *ret)
{
    *ret = orr_interference_add(&e->contention->overlap, task, at_ns, e->actors[task->actor].rank,
                                node_of(e, task->actor, task->work));
    if (*ret == ORR_NONE)
        e->no_memory = true;
    return *ret != ORR_NONE;
}

static void occupy(orr_engine *e, uint32_t task, uint32_t actor, uint32_t work)
{
    orr_contention *d = e->contention;
    if (!d->shares_devices)
        return;
    const uint32_t device = d->device_of_work[e->actors[actor].graph][work];
    if (device != ORR_NONE &&
        !orr_interference_occupy(&d->overlap, task, (uint32_t)d->first_device[actor] + device))
        e->no_memory = true;
}

bool orr_contention_takes_work(orr_engine *e, uint32_t actor, uint32_t work, int64_t start_ns)
{
    orr_interference_task task = {.actor = actor, .work = work, .rendezvous = ORR_NONE};
    uint32_t id;
    task.duration_ns = orr_work_ns(&e->actors[actor], work);
    if (!e->contention->shares_devices || task.duration_ns == 0 ||
        !class_of(&e->actors[actor].prepared->program->works[work], &task.class))
        return false;
    if (add_task(e, &task, start_ns, &id))
        occupy(e, id, actor, work);
    return true;
}

bool orr_contention_takes_rendezvous(orr_engine *e, uint32_t rendezvous)
{
    const orr_rendezvous *m = &e->rendezvous.at[rendezvous];
    const orr_rendezvous_arrival *seats = &e->rendezvous.seats[m->first_seat];
    const bool flows = e->rendezvous.moved != NULL && e->rendezvous.moved[rendezvous].flows;
    orr_interference_task task = {.actor = seats[m->count - 1].actor,
                                  .work = seats[m->count - 1].work,
                                  .rendezvous = rendezvous,
                                  .duration_ns = m->transfer_ns,
                                  .class = ORR_TASK_COMM};
    uint32_t id;
    if (!flows && (!e->contention->shares_devices || m->transfer_ns == 0))
        return false;
    if (!add_task(e, &task, m->start_ns, &id))
        return true;
    for (uint32_t i = 0; i < m->count; i++)
        occupy(e, id, seats[i].actor, seats[i].work);
    return true;
}

static void finish(orr_engine *e, uint32_t id, int64_t now_ns)
{
    const orr_interference_task task = e->contention->overlap.tasks.at[id];
    orr_interference_stop(&e->contention->overlap, id, now_ns);
    if (task.rendezvous != ORR_NONE)
        orr_engine_end_rendezvous(e, task.rendezvous, now_ns);
    else
        orr_engine_propagate(e, task.actor,
                             e->actors[task.actor].prepared->program->works[task.work].end, now_ns);
}

/* The flows of a transfer have ended: so does the transfer, but no sooner than when it is alone. */
static void finish_flows(orr_engine *e, uint32_t id, int64_t now_ns)
{
    if (e->contention->classes != NULL)
        orr_flow_classes_end(e->contention->classes, id);
    orr_interference_task *task = &e->contention->overlap.tasks.at[id];
    const orr_rendezvous *r = &e->rendezvous.at[task->rendezvous];
    const int64_t alone_ns = orr_after_ns(r->start_ns, r->transfer_ns);
    if (now_ns >= alone_ns) {
        finish(e, id, now_ns);
        return;
    }
    task->state = ORR_TASK_DRAINS;
    orr_event_queue_put(&e->contention->overlap.queue,
                        (orr_queued_event){alone_ns, e->actors[task->actor].rank,
                                           node_of(e, task->actor, task->work), id});
}

static void take_event(orr_engine *e, const orr_queued_event *event)
{
    orr_contention *d = e->contention;
    orr_interference_task *task = &d->overlap.tasks.at[event->id];
    if (task->state == ORR_TASK_RUNS || task->state == ORR_TASK_DRAINS) {
        finish(e, event->id, event->at_ns);
        return;
    }
    const uint32_t rendezvous = task->rendezvous;
    if (rendezvous != ORR_NONE && e->rendezvous.moved != NULL &&
        e->rendezvous.moved[rendezvous].flows)
        task->state = ORR_TASK_FLOWS;
    const bool flows = task->state == ORR_TASK_FLOWS;
    orr_interference_start(&d->overlap, event->id, event->at_ns, event->rank, event->node);
    if (flows)
        d->status = orr_contention_start_flows(e, rendezvous, event->id, event->at_ns);
}

/* Runs the next event. On a tie the network goes first: a flow that ends may let something start
 * at that time. */
bool orr_contention_step(orr_engine *e)
{
    orr_contention *d = e->contention;
    const orr_queued_event *first = orr_event_queue_first(&d->overlap.queue);
    int64_t at_ns;
    if (d->flows != NULL && orr_flows_next(d->flows, &at_ns) &&
        (first == NULL || at_ns <= first->at_ns)) {
        const uint64_t *done;
        size_t n;
        orr_flows_advance(d->flows, at_ns, &done, &n);
        for (size_t i = 0; i < n; i++)
            finish_flows(e, (uint32_t)done[i], at_ns);
        return true;
    }
    orr_queued_event event;
    if (!orr_event_queue_pop(&d->overlap.queue, &event))
        return false;
    take_event(e, &event);
    return d->status == ORR_OK;
}
