/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "sim/message/messages.h"

/* Chunks of a member queue, first come, first served, for the lines of their phases; a line
 * works on a limited number of chunks at once. */

static orr_waiting *waiting_at(const orr_collective_task *task, uint32_t member, uint32_t phase)
{
    return &task->waiting[(size_t)member * task->plan->n_lines + task->plan->phases[phase].line];
}

/* Starts as many waiting chunks as the line allows. */
static void start_chunks(orr_messages *m, orr_collective_task *task, uint32_t member,
                         orr_waiting *at)
{
    while (at->head != UINT16_MAX && at->running < m->job->system->active_chunks) {
        const uint16_t chunk = at->head;
        at->head = orr_collective_task_chunk(task, member, chunk)->next;
        if (at->head == UINT16_MAX)
            at->tail = UINT16_MAX;
        at->running++;
        orr_packets_begin(m, task, member, chunk);
    }
}

static void queue_up(orr_collective_task *task, uint32_t member, uint32_t chunk, orr_waiting *at)
{
    orr_collective_task_chunk(task, member, chunk)->next = UINT16_MAX;
    if (at->tail == UINT16_MAX)
        at->head = (uint16_t)chunk;
    else
        orr_collective_task_chunk(task, member, at->tail)->next = (uint16_t)chunk;
    at->tail = (uint16_t)chunk;
}

void orr_chunk_phase_end(orr_messages *m, orr_collective_task *task, uint32_t member,
                         uint32_t chunk)
{
    orr_chunk *c = orr_collective_task_chunk(task, member, chunk);
    orr_waiting *before = waiting_at(task, member, c->phase);
    c->state = 0;
    if (c->phase + 1u == task->plan->n_phases) {
        before->running--;
        start_chunks(m, task, member, before);
        if (--task->unfinished[member] == 0)
            m->on_end(m->ctx, task, member);
        return;
    }
    c->phase++;
    orr_waiting *after = waiting_at(task, member, c->phase);
    queue_up(task, member, chunk, after);
    before->running--;
    start_chunks(m, task, member, before);
    start_chunks(m, task, member, after);
}

void orr_collective_task_join(orr_messages *m, orr_collective_task *task, uint32_t member)
{
    const orr_collective_plan *plan = task->plan;
    task->joined++;
    if (plan->n_phases == 0) {
        task->unfinished[member] = 0;
        m->on_end(m->ctx, task, member);
        return;
    }
    task->unfinished[member] = plan->n_chunks;
    orr_waiting *first = waiting_at(task, member, 0);
    for (uint32_t chunk = 0; chunk < plan->n_chunks; chunk++) {
        queue_up(task, member, chunk, first);
        start_chunks(m, task, member, first);
    }
}

orr_collective_task *orr_collective_task_new(orr_messages *m, const orr_collective_plan *plan,
                                             uint64_t ordinal)
{
    const size_t members = m->folded ? 1 : plan->members->n;
    const bool walked = m->mode != ORR_ASTRA_MODEL;
    orr_collective_task *task = orr_calloc(1, sizeof *task);
    if (task == NULL)
        return NULL;
    *task = (orr_collective_task){.plan = plan,
                                  .ordinal = ordinal,
                                  .n_members = (uint32_t)members,
                                  .relayed = walked && orr_uncontended_applies(m, plan)};
    task->unfinished = orr_calloc(members, sizeof *task->unfinished);
    if (walked) {
        task->chunks = orr_calloc(members * plan->n_chunks, sizeof *task->chunks);
        task->waiting = orr_calloc(members * plan->n_lines, sizeof *task->waiting);
    }
    bool ok =
        task->unfinished != NULL && (!walked || (task->chunks != NULL && task->waiting != NULL));
    for (size_t i = 0; ok && walked && i < members * plan->n_lines; i++)
        task->waiting[i] = (orr_waiting){UINT16_MAX, UINT16_MAX, 0};
    if (ok && m->idle_tasks.n > 0) {
        task->number = m->idle_tasks.at[--m->idle_tasks.n];
        m->tasks.at[task->number] = task;
    } else if (ok && (ok = m->tasks.n < UINT32_MAX && orr_array_push(&m->tasks, task))) {
        task->number = (uint32_t)m->tasks.n - 1;
    }
    if (ok)
        return task;
    orr_free(task->chunks);
    orr_free(task->waiting);
    orr_free(task->unfinished);
    orr_free(task);
    return NULL;
}

void orr_collective_task_free(orr_messages *m, orr_collective_task *task)
{
    if (task == NULL)
        return;
    m->tasks.at[task->number] = NULL;
    /* Without memory for the free list, the number is not reused. */
    (void)orr_array_push(&m->idle_tasks, task->number);
    orr_free(task->chunks);
    orr_free(task->waiting);
    orr_free(task->unfinished);
    orr_free(task);
}
