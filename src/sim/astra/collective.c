/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "base/alloc.h"
#include "sim/astra/run.h"

/* Matching of collectives between ranks: the k-th that each rank begins within the same
 * communicator. The original counts per group; collectives of all ranks and of slices of them
 * share a counter. */

static bool kind_of(uint8_t collective, orr_astra_kind *ret)
{
    switch ((orr_collective)collective) {
    case ORR_COLL_ALL_REDUCE:
        *ret = ORR_ASTRA_ALL_REDUCE;
        return true;
    case ORR_COLL_ALL_GATHER:
        *ret = ORR_ASTRA_ALL_GATHER;
        return true;
    case ORR_COLL_REDUCE_SCATTER:
        *ret = ORR_ASTRA_REDUCE_SCATTER;
        return true;
    case ORR_COLL_ALL_TO_ALL:
        *ret = ORR_ASTRA_ALL_TO_ALL;
        return true;
    default:
        return false;
    }
}

/* Row of the rank's group in the groups file, which is sorted. */
static orr_status find_group(orr_astra_run *run, uint32_t rank, const orr_astra_node *v,
                             uint32_t *ret)
{
    const orr_astra_groups *groups = run->job->groups;
    uint32_t low = 0, high = groups != NULL ? groups->n : 0;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (groups->at[middle].id < v->group)
            low = middle + 1;
        else
            high = middle;
    }
    *ret = low;
    if (groups != NULL && low < groups->n && groups->at[low].id == v->group)
        return ORR_OK;
    const orr_graph *graph = run->job->graphs[rank];
    return orr_fail(run->err, ORR_INVALID,
                    "rank %u: node %" PRIu64 " '%.80s' is of communication group %" PRId64 ", %s",
                    rank, graph->source_id[v->id], orr_graph_str(graph, graph->name[v->id]),
                    v->group,
                    groups == NULL ? "and no file of groups was given"
                                   : "which the file of groups does not have");
}

static orr_status find_members(orr_astra_run *run, uint32_t rank, const orr_astra_node *v,
                               orr_message_group **ret)
{
    uint32_t group;
    if (v->group == 0)
        return orr_planner_slice(&run->planner, rank, v->mask, ret, run->err);
    ORR_TRY(find_group(run, rank, v, &group));
    return orr_planner_group(&run->planner, group, ret, run->err);
}

/* Counter of collectives that a member has begun in a communicator. NULL: out of memory. */
static uint64_t *group_ordinal(orr_astra_run *run, const orr_message_group *members,
                               uint32_t member)
{
    while (run->ordinals.n <= members->number)
        if (!orr_array_push(&run->ordinals, NULL))
            return NULL;
    uint64_t **counts = &run->ordinals.at[members->number];
    if (*counts == NULL)
        *counts = orr_calloc(members->n, sizeof **counts);
    return *counts != NULL ? &(*counts)[member] : NULL;
}

static uint32_t *head_of(const orr_astra_run *run, const orr_message_group *members,
                         uint64_t ordinal)
{
    const uint64_t h =
        (ordinal * UINT64_C(0x9E3779B97F4A7C15) + members->number) * UINT64_C(0xBF58476D1CE4E5B9);
    return &run->task_heads[(uint32_t)(h >> 32) & run->task_mask];
}

static void count_widths(const orr_astra_run *run, const orr_collective_plan *plan,
                         orr_astra_collective *record)
{
    const orr_astra_network *network = run->job->network;
    const orr_message_group *members = plan->members;
    for (uint32_t d = 0; d < network->n_dims; d++)
        record->width[d] = 1;
    for (uint32_t i = 0; i < plan->n_lines; i++)
        if (plan->lines[i].dim >= 0)
            record->width[plan->lines[i].dim] = plan->lines[i].n;
    if (plan->n_lines > 0 && plan->lines[0].dim >= 0)
        return;
    for (uint32_t d = 0; d < network->n_dims; d++) { /* distinct places */
        uint32_t n = 0;
        for (uint32_t place = 0; place < network->size[d]; place++)
            for (uint32_t m = 0; m < members->n; m++)
                if (orr_communicator_rank(members, m) / network->stride[d] % network->size[d] ==
                    place) {
                    n++;
                    break;
                }
        record->width[d] = n;
    }
}

static orr_collective_task *task_new(orr_astra_run *run, const orr_collective_plan *plan,
                                     uint64_t ordinal, uint32_t rank, const orr_astra_node *v,
                                     orr_collective_task *root)
{
    orr_collective_task *task = orr_collective_task_new(&run->messages, plan, ordinal, root);
    const orr_astra_collective record = {.rank = rank,
                                         .node = v->id,
                                         .collective = v->collective,
                                         .bytes = v->bytes,
                                         .group = v->group,
                                         .n_members = plan->members->n,
                                         .first_ns = run->messages.now_ns};
    if (task == NULL || run->records.n >= ORR_NONE || !orr_array_push(&run->records, record)) {
        orr_collective_task_free(&run->messages, task);
        orr_astra_fail(run, orr_fail_memory(run->err));
        return NULL;
    }
    uint32_t *head = head_of(run, plan->members, ordinal);
    task->record = (uint32_t)run->records.n - 1;
    count_widths(run, plan, &run->records.at[task->record]);
    task->next_same = *head;
    *head = task->number;
    if (run->mode != ORR_ASTRA_MODEL && root == NULL)
        run->n_messages += run->messages.folded
                               ? plan->messages * (run->job->network->n_ranks / plan->members->n)
                               : plan->messages;
    return task;
}

static orr_collective_task *task_of(orr_astra_run *run, const orr_collective_plan *plan,
                                    uint64_t ordinal, uint32_t rank, const orr_astra_node *v)
{
    orr_collective_task *root = NULL;
    for (uint32_t i = *head_of(run, plan->members, ordinal); i != ORR_NONE;) {
        orr_collective_task *task = run->messages.tasks.at[i];
        if (task->plan == plan && task->ordinal == ordinal)
            return task;
        if (run->mode != ORR_ASTRA_MODEL && task->root == task &&
            task->plan->members == plan->members && task->ordinal == ordinal &&
            orr_collective_plans_alike(task->plan, plan))
            root = task;
        i = task->next_same;
    }
    return task_new(run, plan, ordinal, rank, v, root);
}

/* Ends a task and those that share its messages. */
static void task_end(orr_astra_run *run, orr_collective_task *root)
{
    for (orr_collective_task *task = root, *twin; task != NULL; task = twin) {
        uint32_t *link = head_of(run, task->plan->members, task->ordinal);
        while (*link != task->number)
            link = &run->messages.tasks.at[*link]->next_same;
        *link = task->next_same;
        twin = task->twin;
        orr_collective_task_free(&run->messages, task);
    }
}

/* MODEL: Orrery's own cost model: one work from the last arrival on. */
static void begin_model(orr_astra_run *run, orr_collective_task *task)
{
    const orr_message_group *members = task->plan->members;
    const orr_astra_collective *record = &run->records.at[task->record];
    const orr_astra_network *network = run->job->network;
    orr_span span = {.n_ranks = members->n, .n_levels = network->n_dims, .even = true};
    for (uint32_t d = 0; d < network->n_dims; d++) {
        span.width[d] = record->width[d];
        if (span.width[d] > 1)
            span.top = d;
    }
    int64_t bytes = record->bytes;
    if (record->collective == ORR_COLL_ALL_GATHER) /* ASTRA-sim's size is what one rank
                                                    * contributes */
        bytes *= members->n;
    const orr_price price = orr_collective_price(
        &run->model, &span, (orr_collective)record->collective, ORR_ALGORITHM_AUTO, bytes);
    const uint32_t n = run->messages.folded ? 1 : members->n;
    for (uint32_t member = 0; member < n; member++) {
        const uint32_t rank = orr_communicator_rank(members, member);
        orr_messages_at(&run->messages, rank, run->messages.now_ns + price.ns,
                        (orr_message_event){ORR_MESSAGE_NODE, rank, run->ranks[rank].comm_node});
    }
}

static orr_status fail_directions(const orr_astra_run *run, uint32_t rank, const orr_astra_node *v)
{
    const orr_graph *graph = run->job->graphs[rank];
    return orr_fail(run->err, ORR_CANCELED,
                    "deadlock: in '%.80s' (node %" PRIu64 ") rank %u goes round another way than "
                    "the members before it, since its turns of queues or trees are others",
                    orr_graph_str(graph, graph->name[v->id]), graph->source_id[v->id], rank);
}

void orr_astra_collective_begin(orr_astra_run *run, uint32_t rank, uint32_t node)
{
    orr_astra_state *state = &run->ranks[rank];
    const orr_astra_node *v = &state->program->nodes[node];
    orr_message_group *members;
    const orr_collective_plan *plan;
    orr_astra_kind kind = ORR_ASTRA_ALL_REDUCE;
    orr_status status = find_members(run, rank, v, &members);
    if (status == ORR_OK && kind_of(v->collective, &kind))
        status = orr_planner_plan(&run->planner, members, kind, v->bytes, &plan, run->err);
    if (status != ORR_OK) {
        orr_astra_fail(run, status);
        return;
    }
    const uint32_t member = orr_communicator_member(&run->planner, members, rank);
    if (member == ORR_NONE) {
        orr_astra_fail(run, orr_fail(run->err, ORR_INVALID,
                                     "rank %u calls a collective of communication group %" PRId64
                                     ", of which it is no member",
                                     rank, v->group));
        return;
    }
    uint64_t *ordinal = v->group == 0 ? &state->ordinal : group_ordinal(run, members, member);
    orr_collective_task *task = ordinal != NULL ? task_of(run, plan, (*ordinal)++, rank, v) : NULL;
    if (task == NULL) {
        orr_astra_fail(run, orr_fail_memory(run->err));
        return;
    }
    state->task = task;
    run->records.at[task->record].last_ns = run->messages.now_ns;
    if (run->mode != ORR_ASTRA_MODEL) {
        if (!orr_collective_task_join(&run->messages, task, member))
            orr_astra_fail(run, fail_directions(run, rank, v));
    } else if (++task->joined == (run->messages.folded ? 1 : members->n)) {
        begin_model(run, task);
    }
}

void orr_astra_collective_end(void *ctx, const orr_collective_task *task, uint32_t member)
{
    orr_astra_run *run = ctx;
    const orr_message_group *members = task->plan->members;
    const uint32_t rank = orr_communicator_rank(members, member);
    orr_astra_state *state = &run->ranks[rank];
    orr_collective_task *own = state->task;
    const uint32_t node = state->comm_node;
    run->records.at[task->record].end_ns = run->messages.now_ns;
    state->task = NULL;
    if (++own->root->ended == (run->messages.folded ? 1 : members->n))
        task_end(run, own->root);
    orr_astra_node_done(run, rank, node);
}

bool orr_astra_has_joined(const orr_astra_run *run, const orr_collective_task *task,
                          uint32_t member)
{
    const orr_message_group *members = task->plan->members;
    const orr_astra_state *state = &run->ranks[orr_communicator_rank(members, member)];
    if (state->task == task)
        return true;
    const bool counted = members->group != 0 && members->number < run->ordinals.n &&
                         run->ordinals.at[members->number] != NULL;
    const uint64_t begun = members->group == 0 ? state->ordinal
                           : counted           ? run->ordinals.at[members->number][member]
                                               : 0;
    return begun > task->ordinal + 1 || (begun == task->ordinal + 1 && state->task == NULL);
}

void orr_astra_collectives_done(orr_astra_run *run)
{
    for (size_t i = 0; i < run->ordinals.n; i++)
        orr_free(run->ordinals.at[i]);
    orr_array_done(&run->ordinals);
    orr_array_done(&run->records);
    orr_free(run->task_heads);
}
