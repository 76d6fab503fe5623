/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/message/messages.h"

#include "base/alloc.h"

/* The event loop. The queue holds events by time. An event for a rank goes onto the rank's agenda,
 * which runs all events of one time together at the place of the first (ASTRA-sim's
 * Sys::event_queue). When one rank stands for all (folded), ties between events of different
 * origins would be broken by rank order in a full run, which a folded run cannot see: `tied` is set
 * and the job is run unfolded.
 *
 * Example, a ring all-gather of three ranks in one chunk: each rank makes a packet (BUNDLE),
 * sends it to its neighbour (ARRIVES there), which makes the next packet from it and sends that:
 * n - 1 = 2 messages a rank. */

orr_status orr_messages_init(orr_messages *m, const orr_astra_job *job, orr_astra_mode mode,
                             bool folded, orr_error *err)
{
    const size_t ranks = folded ? 1 : job->network->n_ranks;
    *m = (orr_messages){
        .job = job, .mode = mode, .folded = folded, .idle_entry = ORR_NONE, .idle_run = ORR_NONE};
    m->queues = job->queues > 0 ? job->queues : 1;
    m->active = (job->system->active_chunks + m->queues - 1) / m->queues;
    m->agenda = orr_malloc(ranks * sizeof *m->agenda);
    m->turns = orr_calloc(ranks, sizeof *m->turns);
    if (m->agenda == NULL || m->turns == NULL || !orr_bucket_queue_init(&m->queue) ||
        !orr_unexpected_init(&m->early))
        return orr_fail_memory(err);
    for (size_t i = 0; i < ranks; i++)
        m->agenda[i] = ORR_NONE;
    return mode == ORR_ASTRA_AWARE ? orr_links_init(&m->links, job->network, folded, &m->queue, err)
                                   : ORR_OK;
}

void orr_messages_done(orr_messages *m)
{
    for (size_t i = 0; i < m->tasks.n; i++)
        orr_collective_task_free(m, m->tasks.at[i]);
    orr_bucket_queue_done(&m->queue);
    orr_links_done(&m->links);
    orr_unexpected_done(&m->early);
    orr_array_done(&m->tasks);
    orr_array_done(&m->idle_tasks);
    orr_array_done(&m->entries);
    orr_array_done(&m->runs);
    orr_free(m->agenda);
    orr_free(m->turns);
}

static uint32_t entry_new(orr_messages *m)
{
    const uint32_t idle = m->idle_entry;
    if (__builtin_expect(idle != ORR_NONE, 1)) {
        m->idle_entry = m->entries.at[idle].next;
        return idle;
    }
    if (m->entries.n >= ORR_NONE || !orr_array_push(&m->entries, (orr_agenda_entry){0}))
        return ORR_NONE;
    return (uint32_t)m->entries.n - 1;
}

static uint32_t run_new(orr_messages *m)
{
    const uint32_t idle = m->idle_run;
    if (idle != ORR_NONE) {
        m->idle_run = m->runs.at[idle].next;
        return idle;
    }
    if (m->runs.n >= ORR_NONE || !orr_array_push(&m->runs, (orr_agenda_run){0}))
        return ORR_NONE;
    return (uint32_t)m->runs.n - 1;
}

static void add_event(orr_messages *m, orr_agenda_entry *entry, orr_message_event event)
{
    orr_agenda_run *last = entry->last != ORR_NONE ? &m->runs.at[entry->last] : &entry->first;
    if (event.what == last->event.what && event.who == last->event.who &&
        event.index == last->event.index + last->count) {
        last->count++;
        return;
    }
    const uint32_t run = run_new(m);
    if (run == ORR_NONE) {
        m->failed = true;
        return;
    }
    m->runs.at[run] = (orr_agenda_run){event, 1, ORR_NONE};
    if (entry->last == ORR_NONE)
        entry->first.next = run;
    else
        m->runs.at[entry->last].next = run;
    entry->last = run;
}

void orr_messages_at(orr_messages *m, uint32_t rank, int64_t ns, orr_message_event event)
{
    for (uint32_t i = m->agenda[rank]; i != ORR_NONE; i = m->entries.at[i].next)
        if (m->entries.at[i].ns == ns) {
            add_event(m, &m->entries.at[i], event);
            return;
        }
    const uint32_t entry = entry_new(m);
    if (entry == ORR_NONE) {
        m->failed = true;
        return;
    }
    m->entries.at[entry] = (orr_agenda_entry){ns, {event, 1, ORR_NONE}, ORR_NONE, m->agenda[rank]};
    m->agenda[rank] = entry;
    orr_bucket_queue_push(&m->queue, ns, (orr_message_event){ORR_MESSAGE_AGENDA, rank, entry});
}

static void on_agenda(orr_messages *m, orr_message_event event)
{
    switch ((orr_message_event_kind)orr_what_kind(event.what)) {
    case ORR_MESSAGE_BUNDLE:
        orr_packets_packed(m, event);
        break;
    case ORR_MESSAGE_REDUCED:
        orr_packets_reduced(m, event);
        break;
    default:
        m->on_event(m->ctx, event);
        break;
    }
}

/* The run may grow, and move in memory, during the loop. */
static void run_events(orr_messages *m, uint32_t entry, uint32_t run)
{
    for (uint32_t i = 0;; i++) {
        const orr_agenda_run *at = run != ORR_NONE ? &m->runs.at[run] : &m->entries.at[entry].first;
        if (i == at->count)
            return;
        orr_message_event event = at->event;
        event.index += i;
        m->n_events++;
        on_agenda(m, event);
    }
}

/* Events that are put on the agenda for the current time during the loop are run too. */
static void run_agenda(orr_messages *m, uint32_t rank, uint32_t number)
{
    run_events(m, number, ORR_NONE);
    for (uint32_t run = m->entries.at[number].first.next; run != ORR_NONE;) {
        run_events(m, number, run);
        const uint32_t next = m->runs.at[run].next;
        m->runs.at[run].next = m->idle_run;
        m->idle_run = run;
        if (next == ORR_NONE) /* events that are added now would follow an idle run */
            break;
        run = next;
    }
    uint32_t *link = &m->agenda[rank];
    while (*link != number)
        link = &m->entries.at[*link].next;
    *link = m->entries.at[number].next;
    m->entries.at[number].next = m->idle_entry;
    m->idle_entry = number;
}

/* Origin of an event, which determines the order of events at one time: the rank's own agenda
 * (1), or the one rank that sent the messages. Messages of a chunk's direct phase count as one
 * origin, whoever sent them. */
static uint32_t origin_of(const orr_messages *m, const orr_message_event *event)
{
    if (orr_what_kind(event->what) == ORR_MESSAGE_AGENDA)
        return 1;
    const uint32_t number = orr_what_phase(event->what), chunk = orr_what_chunk(event->what);
    const orr_collective_task *task = m->tasks.at[orr_what_task(event->what)];
    const orr_collective_phase *phase = &task->plan->phases[number];
    bool backwards;
    (void)orr_chunk_queue(m, task, event->who, chunk, number, &backwards);
    const uint32_t base = (number + 1) << 24 | (backwards ? 1 << 23 : 0);
    switch ((orr_astra_algorithm)phase->algorithm) {
    case ORR_ASTRA_HALVING_DOUBLING:
        return base + event->index;
    case ORR_ASTRA_DIRECT:
        return m->mode == ORR_ASTRA_AWARE ? base + chunk : base;
    case ORR_ASTRA_RING:
    case ORR_ASTRA_DOUBLE_BINARY_TREE:
        break;
    }
    return base;
}

/* Can the order of simultaneous events change the result? Not where no message can delay
 * another, no chunk joins a line that others join from elsewhere, and none waits for a count. */
static bool order_matters(const orr_messages *m, const orr_message_event *event)
{
    if (m->mode == ORR_ASTRA_AWARE || orr_what_kind(event->what) == ORR_MESSAGE_AGENDA)
        return true;
    const orr_collective_plan *plan = m->tasks.at[orr_what_task(event->what)]->plan;
    return plan->n_phases > 1 ||
           (plan->phases[0].algorithm == ORR_ASTRA_DIRECT && plan->kind == ORR_ASTRA_ALL_REDUCE);
}

static void watch_order(orr_messages *m, const orr_message_event *event)
{
    if (!order_matters(m, event))
        return;
    const uint32_t origin = origin_of(m, event);
    m->tied |= m->origin != 0 && m->origin != origin;
    m->origin = origin;
}

static void settle(orr_messages *m, orr_message_event event)
{
    const uint32_t kind = orr_what_kind(event.what);
    if (m->folded &&
        (kind == ORR_MESSAGE_ARRIVES || kind == ORR_MESSAGE_RECEIVED || kind == ORR_MESSAGE_AGENDA))
        watch_order(m, &event);
    switch ((orr_message_event_kind)kind) {
    case ORR_MESSAGE_ARRIVES:
        orr_packets_arrive(m, event);
        break;
    case ORR_MESSAGE_AGENDA:
        run_agenda(m, event.who, event.index);
        break;
    case ORR_MESSAGE_HOP:
        if (orr_links_hop(&m->links, m->now_ns, ORR_MESSAGE_HOP, ORR_MESSAGE_LINK, event.who,
                          &event))
            settle(m, event);
        break;
    case ORR_MESSAGE_LINK:
        orr_links_free(&m->links, m->now_ns, ORR_MESSAGE_HOP, ORR_MESSAGE_LINK, event.who,
                       event.index);
        break;
    case ORR_MESSAGE_RECEIVED:
        orr_packets_received(m, event);
        break;
    default:
        m->on_event(m->ctx, event);
        break;
    }
}

orr_status orr_messages_run(orr_messages *m, orr_error *err)
{
    for (uint32_t number; (number = orr_bucket_queue_take(&m->queue)) != UINT32_MAX;) {
        m->now_ns = m->queue.buckets.at[number].ns;
        m->origin = 0;
        if (m->now_ns < 0 || m->now_ns > INT64_MAX / 2)
            return orr_fail(err, ORR_LIMIT, "the simulated time is over 2^62 ns");
        for (uint32_t i = 0; i < m->queue.buckets.at[number].n; i++) {
            const orr_message_event event = m->queue.buckets.at[number].at[i];
            m->n_events += orr_what_kind(event.what) != ORR_MESSAGE_AGENDA; /* agenda events were
                                                                             * counted already */
            settle(m, event);
        }
        orr_bucket_queue_recycle(&m->queue, number);
        if (m->failed || m->queue.failed)
            return orr_fail_memory(err);
    }
    return ORR_OK;
}
