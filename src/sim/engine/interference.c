/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/engine/interference.h"

#include "base/alloc.h"

enum { MILLION = 1000000 };

orr_status orr_interference_init(orr_interference *o, size_t n_devices,
                                 const uint32_t slow_ppm[ORR_TASK_CLASSES], orr_error *err)
{
    *o = (orr_interference){.free_task = ORR_NONE, .free_occupant = ORR_NONE};
    o->devices = orr_calloc(n_devices + 1, sizeof *o->devices);
    if (o->devices == NULL)
        return orr_fail_memory(err);
    for (size_t d = 0; d < n_devices; d++)
        for (int c = 0; c < ORR_TASK_CLASSES; c++)
            o->devices[d].first[c] = ORR_NONE;
    for (int c = 0; c < ORR_TASK_CLASSES; c++)
        o->slow_ppm[c] = slow_ppm[c];
    return ORR_OK;
}

void orr_interference_done(orr_interference *o)
{
    orr_event_queue_done(&o->queue);
    orr_array_done(&o->tasks);
    orr_array_done(&o->occupants);
    orr_free(o->devices);
    o->devices = NULL;
}

uint32_t orr_interference_add(orr_interference *o, const orr_interference_task *task, int64_t at_ns,
                              uint32_t rank, uint32_t node)
{
    uint32_t id = o->free_task;
    if (id != ORR_NONE) {
        o->free_task = o->tasks.at[id].occupant;
        o->tasks.at[id] = *task;
    } else {
        id = (uint32_t)o->tasks.n;
        if (o->tasks.n >= UINT32_MAX - 1 || !orr_event_queue_reserve(&o->queue, id + 1) ||
            !orr_array_push(&o->tasks, *task))
            return ORR_NONE;
    }
    o->tasks.at[id].occupant = ORR_NONE;
    o->tasks.at[id].state = ORR_TASK_DUE;
    orr_event_queue_put(&o->queue, (orr_queued_event){at_ns, rank, node, id});
    return id;
}

bool orr_interference_occupy(orr_interference *o, uint32_t task, uint32_t device)
{
    uint32_t id = o->free_occupant;
    if (id != ORR_NONE) {
        o->free_occupant = o->occupants.at[id].next_of_task;
    } else {
        id = (uint32_t)o->occupants.n;
        if (o->occupants.n >= UINT32_MAX - 1 || !orr_array_push(&o->occupants, (orr_occupant){0}))
            return false;
    }
    o->occupants.at[id] =
        (orr_occupant){.task = task, .device = device, .next_of_task = o->tasks.at[task].occupant};
    o->tasks.at[task].occupant = id;
    return true;
}

/* Time at which nothing is left at the present rate. */
static int64_t end_ns(const orr_interference_task *task)
{
    const unsigned __int128 ns = (task->left + task->rate - 1) / task->rate;
    const unsigned __int128 most = (unsigned __int128)INT64_MAX;
    int64_t end;
    if (ns > most || __builtin_add_overflow(task->since_ns, (int64_t)ns, &end))
        return INT64_MAX;
    return end;
}

static void work_until(orr_interference_task *task, int64_t now_ns)
{
    const unsigned __int128 done = (unsigned __int128)(now_ns - task->since_ns) * task->rate;
    task->left = done < task->left ? task->left - done : 0;
    task->since_ns = now_ns;
}

static void choose_rate(const orr_interference *o, orr_interference_task *task)
{
    task->rate = task->n_busy > 0 ? MILLION : o->slow_ppm[task->class];
}

static void requeue(orr_interference *o, uint32_t id)
{
    const orr_queued_event *old = &o->queue.heap[o->queue.place[id]];
    orr_event_queue_put(&o->queue,
                        (orr_queued_event){end_ns(&o->tasks.at[id]), old->rank, old->node, id});
}

/* A task of the other class has started (+1) or ended (-1) on one of its devices. */
static void disturb(orr_interference *o, uint32_t id, int by, int64_t now_ns)
{
    orr_interference_task *task = &o->tasks.at[id];
    const uint32_t was = task->n_busy;
    task->n_busy += (uint32_t)by;
    if (task->state != ORR_TASK_RUNS || (was > 0) == (task->n_busy > 0))
        return;
    work_until(task, now_ns);
    choose_rate(o, task);
    requeue(o, id);
}

static void disturb_all(orr_interference *o, uint32_t device, int class, int by, int64_t now_ns)
{
    for (uint32_t i = o->devices[device].first[class]; i != ORR_NONE;
         i = o->occupants.at[i].next_here)
        disturb(o, o->occupants.at[i].task, by, now_ns);
}

static void enter(orr_interference *o, uint32_t i, int class, int64_t now_ns)
{
    orr_occupant *occupant = &o->occupants.at[i];
    orr_shared_device *device = &o->devices[occupant->device];
    occupant->previous_here = ORR_NONE;
    occupant->next_here = device->first[class];
    if (occupant->next_here != ORR_NONE)
        o->occupants.at[occupant->next_here].previous_here = i;
    device->first[class] = i;
    if (device->n[class]++ == 0)
        disturb_all(o, occupant->device, !class, 1, now_ns);
}

static void leave(orr_interference *o, uint32_t i, int class, int64_t now_ns)
{
    const orr_occupant *occupant = &o->occupants.at[i];
    orr_shared_device *device = &o->devices[occupant->device];
    if (occupant->previous_here != ORR_NONE)
        o->occupants.at[occupant->previous_here].next_here = occupant->next_here;
    else
        device->first[class] = occupant->next_here;
    if (occupant->next_here != ORR_NONE)
        o->occupants.at[occupant->next_here].previous_here = occupant->previous_here;
    if (--device->n[class] == 0)
        disturb_all(o, occupant->device, !class, -1, now_ns);
}

void orr_interference_start(orr_interference *o, uint32_t id, int64_t now_ns, uint32_t rank,
                            uint32_t node)
{
    orr_interference_task *task = &o->tasks.at[id];
    task->since_ns = now_ns;
    task->left = (unsigned __int128)task->duration_ns * o->slow_ppm[task->class];
    task->n_busy = 0;
    for (uint32_t i = task->occupant; i != ORR_NONE; i = o->occupants.at[i].next_of_task) {
        enter(o, i, task->class, now_ns);
        task->n_busy += o->devices[o->occupants.at[i].device].n[!task->class] > 0;
    }
    if (task->state == ORR_TASK_FLOWS)
        return;
    task->state = ORR_TASK_RUNS;
    choose_rate(o, task);
    orr_event_queue_put(&o->queue, (orr_queued_event){end_ns(task), rank, node, id});
}

void orr_interference_stop(orr_interference *o, uint32_t id, int64_t now_ns)
{
    orr_interference_task *task = &o->tasks.at[id];
    for (uint32_t i = task->occupant, next; i != ORR_NONE; i = next) {
        next = o->occupants.at[i].next_of_task;
        leave(o, i, task->class, now_ns);
        o->occupants.at[i].next_of_task = o->free_occupant;
        o->free_occupant = i;
    }
    task->occupant = o->free_task;
    o->free_task = id;
}
