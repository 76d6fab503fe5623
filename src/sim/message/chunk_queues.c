/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/message/messages.h"

#include <string.h>

#include "base/alloc.h"

/* Chunks of a member queue, first come, first served, for the lines of their phases; each queue of
 * a line works on a limited number of chunks at once. */

uint32_t orr_chunk_queue(const orr_messages *m, const orr_collective_task *task, uint32_t member,
                         uint32_t chunk, uint32_t phase, bool *ret_backwards)
{
    const orr_collective_phase *p = &task->plan->phases[phase];
    const uint32_t half = m->queues / 2;
    const uint32_t next = orr_collective_task_turns(task, member, p->line)->next[p->queues] + chunk;
    uint32_t queue = 0;
    *ret_backwards = p->queues == ORR_QUEUES_LAST;
    if (m->queues == 1)
        return 0;
    switch ((orr_queue_share)p->queues) {
    case ORR_QUEUES_ALL:
        queue = next % m->queues;
        *ret_backwards = queue >= half;
        break;
    case ORR_QUEUES_FIRST:
        queue = next % half;
        break;
    case ORR_QUEUES_LAST:
        queue = half + next % (m->queues - half);
        break;
    }
    return queue;
}

static orr_waiting *waiting_in(const orr_messages *m, const orr_collective_task *task,
                               uint32_t member, uint32_t line, uint32_t queue)
{
    return &task->waiting[((size_t)member * task->plan->n_lines + line) * m->queues + queue];
}

static orr_waiting *waiting_at(const orr_messages *m, const orr_collective_task *task,
                               uint32_t member, uint32_t chunk, uint32_t phase)
{
    bool backwards;
    return waiting_in(m, task, member, task->plan->phases[phase].line,
                      orr_chunk_queue(m, task, member, chunk, phase, &backwards));
}

/* Starts as many waiting chunks as the queue allows. */
static void start_chunks(orr_messages *m, orr_collective_task *task, uint32_t member,
                         orr_waiting *at)
{
    const orr_held_place *place = &m->place;
    const bool held = place->held && place->next == task && place->line < task->plan->n_lines &&
                      at == waiting_in(m, task, member, place->line, place->queue);
    while (at->head != UINT16_MAX && at->running + (uint32_t)held < m->active) {
        const uint16_t chunk = at->head;
        orr_chunk *c = orr_collective_task_chunk(task, member, chunk);
        at->head = c->next;
        if (at->head == UINT16_MAX)
            at->tail = UINT16_MAX;
        at->running++;
        (void)orr_chunk_queue(m, task, member, chunk, c->phase, &c->backwards);
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

/* The member's last chunk has ended: reports it, and then leaves the queue. */
static void end_member(orr_messages *m, orr_collective_task *task, uint32_t member, uint32_t chunk)
{
    const uint32_t phase = orr_collective_task_chunk(task, member, chunk)->phase;
    const uint32_t line = task->plan->phases[phase].line;
    bool backwards;
    const uint32_t queue = orr_chunk_queue(m, task, member, chunk, phase, &backwards);
    task->unfinished[member] = 0;
    m->place = (orr_held_place){.held = true, .line = line, .queue = queue};
    m->on_end(m->ctx, task, member);
    m->place.held = false;
    orr_collective_task *next = m->place.next;
    if (next != NULL && line < next->plan->n_lines)
        start_chunks(m, next, m->place.member, waiting_in(m, next, m->place.member, line, queue));
}

void orr_chunk_phase_end(orr_messages *m, orr_collective_task *task, uint32_t member,
                         uint32_t chunk)
{
    orr_chunk *c = orr_collective_task_chunk(task, member, chunk);
    orr_waiting *before = waiting_at(m, task, member, chunk, c->phase);
    c->state = 0;
    if (c->phase + 1u == task->plan->n_phases && task->unfinished[member] == 1) {
        end_member(m, task, member, chunk);
        return;
    }
    if (c->phase + 1u == task->plan->n_phases) {
        before->running--;
        start_chunks(m, task, member, before);
        task->unfinished[member]--;
        return;
    }
    c->phase++;
    orr_waiting *after = waiting_at(m, task, member, chunk, c->phase);
    queue_up(task, member, chunk, after);
    before->running--;
    start_chunks(m, task, member, before);
    start_chunks(m, task, member, after);
}

/* The member's turns, which the rank's next collective goes on from. */
static void take_turns(orr_messages *m, orr_collective_task *task, uint32_t member)
{
    const orr_collective_plan *plan = task->plan;
    orr_rank_turns *rank = &m->turns[m->folded ? 0 : orr_communicator_rank(plan->members, member)];
    const uint32_t half = m->queues / 2;
    const uint32_t most[] = {m->queues, half > 0 ? half : 1, m->queues - half};
    for (uint32_t line = 0; line < plan->n_lines; line++) {
        orr_turns *turns = &task->turns[(size_t)member * plan->n_lines + line];
        memcpy(turns->next, rank->next[line], sizeof turns->next);
        turns->tree = rank->tree[plan->kind][line];
    }
    for (uint32_t i = 0; i < plan->n_phases; i++) {
        const orr_collective_phase *phase = &plan->phases[i];
        uint16_t *next = &rank->next[phase->line][phase->queues];
        *next = (uint16_t)((*next + plan->n_chunks) % most[phase->queues]);
        if (phase->algorithm == ORR_ASTRA_DOUBLE_BINARY_TREE)
            rank->tree[plan->kind][phase->line] ^= plan->n_chunks & 1;
    }
}

/* Does a member go the same ways as the one that joined first? */
static bool agrees(const orr_messages *m, const orr_collective_task *task, uint32_t member)
{
    const orr_collective_plan *plan = task->plan;
    const orr_collective_task *root = task->root;
    if (memcmp(orr_collective_task_turns(task, member, 0),
               orr_collective_task_turns(root, root->first, 0),
               plan->n_lines * sizeof *task->turns) == 0)
        return true;
    for (uint32_t i = 0; i < plan->n_phases; i++) {
        const orr_collective_phase *phase = &plan->phases[i];
        if (phase->algorithm == ORR_ASTRA_DOUBLE_BINARY_TREE &&
            orr_collective_task_turns(task, member, phase->line)->tree !=
                orr_collective_task_turns(root, root->first, phase->line)->tree)
            return false;
        if (phase->algorithm != ORR_ASTRA_RING || phase->n == 2)
            continue;
        for (uint32_t chunk = 0; chunk < plan->n_chunks; chunk++) {
            bool here, there;
            (void)orr_chunk_queue(m, task, member, chunk, i, &here);
            (void)orr_chunk_queue(m, root, root->first, chunk, i, &there);
            if (here != there)
                return false;
        }
    }
    return true;
}

bool orr_collective_task_join(orr_messages *m, orr_collective_task *task, uint32_t member)
{
    const orr_collective_plan *plan = task->plan;
    if (task->joined++ == 0)
        task->first = member;
    if (plan->n_phases == 0) {
        task->unfinished[member] = 0;
        m->on_end(m->ctx, task, member);
        return true;
    }
    for (uint32_t chunk = 0; task->root != task && chunk < plan->n_chunks; chunk++)
        orr_collective_task_chunk(task, member, chunk)->early =
            orr_collective_task_chunk(task->root, member, chunk)->early;
    m->place.next = task;
    m->place.member = member;
    take_turns(m, task, member);
    if (!agrees(m, task, member))
        return false;
    task->unfinished[member] = plan->n_chunks;
    for (uint32_t chunk = 0; chunk < plan->n_chunks; chunk++) {
        orr_waiting *at = waiting_at(m, task, member, chunk, 0);
        queue_up(task, member, chunk, at);
        start_chunks(m, task, member, at);
    }
    return true;
}

static bool phases_alike(const orr_collective_phase *a, const orr_collective_phase *b)
{
    return a->algorithm == b->algorithm && a->algorithm != ORR_ASTRA_HALVING_DOUBLING &&
           a->line == b->line && a->tree == b->tree && a->queues == b->queues && a->n == b->n &&
           a->bytes == b->bytes && a->parallel == b->parallel;
}

bool orr_collective_plans_alike(const orr_collective_plan *a, const orr_collective_plan *b)
{
    if (a->n_phases != b->n_phases || a->n_lines != b->n_lines || a->n_chunks != b->n_chunks)
        return false;
    for (uint32_t i = 0; i < a->n_phases; i++)
        if (!phases_alike(&a->phases[i], &b->phases[i]))
            return false;
    return true;
}

orr_collective_task *orr_collective_task_new(orr_messages *m, const orr_collective_plan *plan,
                                             uint64_t ordinal, orr_collective_task *root)
{
    const size_t members = m->folded ? 1 : plan->members->n;
    const size_t n_queues = members * plan->n_lines * m->queues;
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
        task->waiting = orr_calloc(n_queues, sizeof *task->waiting);
        task->turns = orr_calloc(members * plan->n_lines, sizeof *task->turns);
    }
    bool ok = task->unfinished != NULL &&
              (!walked || (task->chunks != NULL && task->waiting != NULL && task->turns != NULL));
    for (size_t i = 0; ok && walked && i < n_queues; i++)
        task->waiting[i] = (orr_waiting){UINT16_MAX, UINT16_MAX, 0};
    if (ok && m->idle_tasks.n > 0) {
        task->number = m->idle_tasks.at[--m->idle_tasks.n];
        m->tasks.at[task->number] = task;
    } else if (ok && (ok = m->tasks.n < UINT32_MAX && orr_array_push(&m->tasks, task))) {
        task->number = (uint32_t)m->tasks.n - 1;
    }
    if (ok) {
        task->root = root != NULL ? root : task;
        task->twin = root != NULL ? root->twin : NULL;
        task->root->twin = root != NULL ? task : NULL;
        return task;
    }
    orr_free(task->chunks);
    orr_free(task->waiting);
    orr_free(task->turns);
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
    orr_free(task->turns);
    orr_free(task->unfinished);
    orr_free(task);
}
