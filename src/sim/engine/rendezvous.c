/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/engine/rendezvous.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/array.h"

/* Finds all rendezvous of a job before the simulation starts. For each group (of each class of
 * groups when folded) the calls of its members' graphs are merged by ordinal: calls with the
 * same ordinal are one collective, as NCCL matches them by communicator and sequence number. The
 * transfer is priced here, once, unless flows or the ensemble decide its length. A group's
 * classes and graphs are collected with stamps (the number of the group) instead of flags, so
 * that nothing has to be cleared between a million groups. */

/* A communication call in one of the graphs of the group's members. */
typedef struct entry {
    uint32_t ordinal;
    uint32_t graph; /* index among the group's graphs */
    uint32_t call;
} entry;

/* The calls of one of the group's graphs. */
typedef struct graph_calls {
    const orr_prepared_program *prepared;
    uint32_t begin, end; /* its calls in this grouping */
    uint32_t first;      /* row of `ids` of its first call */
    bool takes_part;     /* in the rendezvous that is being priced */
} graph_calls;

typedef struct finder {
    const orr_ensemble *ensemble;
    const orr_fold *fold;
    const orr_actor *actors;
    orr_transfer_pricer *pricer;
    bool flows; /* links are simulated */
    uint32_t *of_call;
    orr_array(orr_rendezvous) found;
    orr_array(orr_rendezvous_transfer) moved; /* parallel to `found` where there are flows */
    orr_array(uint32_t) ranks;                /* members of the rendezvous */
    orr_array(uint32_t) classes;              /* classes of the group's ranks, each once */
    orr_array(graph_calls) graphs_calls;
    orr_array(entry) entries;
    orr_array(uint32_t) ids;
    uint32_t *class_stamp, *graph_stamp, *calls_of_graph; /* stamps: last seen in group number
                                                           * stamp - 1 */
} finder;

static int by_ordinal(const void *a_, const void *b_)
{
    const entry *a = a_, *b = b_;
    if (a->ordinal != b->ordinal)
        return a->ordinal < b->ordinal ? -1 : 1;
    return (a->graph > b->graph) - (a->graph < b->graph);
}

static bool add_cast(finder *f, const orr_actor *actor, uint32_t grouping)
{
    graph_calls c = {.prepared = actor->prepared, .first = (uint32_t)f->entries.n};
    orr_prepared_calls_of(c.prepared, grouping, &c.begin, &c.end);
    f->calls_of_graph[actor->graph] = (uint32_t)f->graphs_calls.n;
    if (!orr_array_reserve(&f->entries, c.end - c.begin))
        return false;
    for (uint32_t i = c.begin; i < c.end; i++)
        f->entries.at[f->entries.n++] =
            (entry){c.prepared->calls[i].ordinal, (uint32_t)f->graphs_calls.n, i};
    return orr_array_push(&f->graphs_calls, c);
}

/* Collects the classes and the graphs of a group. */
static bool gather(finder *f, const orr_fold_group *group, uint32_t stamp)
{
    const orr_grouping *grouping = &f->ensemble->groupings[group->grouping];
    f->classes.n = f->graphs_calls.n = f->entries.n = 0;
    for (uint32_t i = grouping->first[group->group]; i < grouping->first[group->group + 1]; i++) {
        const uint32_t class = f->fold->class_of_rank[grouping->members[i]];
        if (class == ORR_NONE || f->class_stamp[class] == stamp)
            continue;
        const orr_actor *actor = &f->actors[class];
        f->class_stamp[class] = stamp;
        if (!orr_array_push(&f->classes, class))
            return false;
        if (f->graph_stamp[actor->graph] == stamp)
            continue;
        f->graph_stamp[actor->graph] = stamp;
        if (!add_cast(f, actor, group->grouping))
            return false;
    }
    return true;
}

static int64_t shorter_ns(int64_t a, int64_t b)
{
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

static const orr_sim_work *work_of(const finder *f, const entry *e)
{
    const orr_prepared_program *prepared = f->graphs_calls.at[e->graph].prepared;
    return &prepared->program->works[prepared->calls[e->call].work];
}

/* Collects the group's ranks whose graphs take part, in the order of the group. */
static bool list_ranks(finder *f, const orr_fold_group *group)
{
    const orr_grouping *grouping = &f->ensemble->groupings[group->grouping];
    const uint32_t first = grouping->first[group->group], end = grouping->first[group->group + 1];
    f->ranks.n = 0;
    if (!orr_array_reserve(&f->ranks, end - first))
        return false;
    for (uint32_t i = first; i < end; i++) {
        const uint32_t graph = f->ensemble->graph_of_rank[grouping->members[i]];
        if (graph != ORR_NONE && f->graphs_calls.at[f->calls_of_graph[graph]].takes_part)
            f->ranks.at[f->ranks.n++] = grouping->members[i];
    }
    return true;
}

/* Finds the length of a transfer: as the ensemble gives it, else its price. Where links are
 * simulated, a transfer of known bytes becomes flows, which take no less. */
static orr_status price(finder *f, const orr_fold_group *group, const entry *entries, size_t n,
                        orr_rendezvous *r, orr_error *err)
{
    orr_transfer transfer = {.collective = ORR_COLL_UNKNOWN, .root = -1, .bytes = -1};
    const orr_sim_work *work = work_of(f, &entries[0]);
    const orr_graph *graph = f->graphs_calls.at[entries[0].graph].prepared->program->graph;
    for (size_t i = 0; i < n; i++) {
        const orr_prepared_program *prepared = f->graphs_calls.at[entries[i].graph].prepared;
        const orr_comm *comm =
            orr_graph_comm(prepared->program->graph, work_of(f, &entries[i])->node);
        if (comm != NULL)
            transfer = orr_transfer_join(transfer, orr_transfer_of(comm));
    }
    const bool flows = f->flows && transfer.bytes >= 0 && r->transfer_ns != 0 &&
                       transfer.collective != ORR_COLL_UNKNOWN;
    if (f->flows)
        f->moved.at[f->moved.n++] = (orr_rendezvous_transfer){
            transfer, group->grouping, group->group, entries[0].ordinal, flows};
    if (r->transfer_ns >= 0 && !flows)
        return ORR_OK;
    for (size_t i = 0; i < n; i++)
        f->graphs_calls.at[entries[i].graph].takes_part = true;
    const bool listed = list_ranks(f, group);
    for (size_t i = 0; i < n; i++)
        f->graphs_calls.at[entries[i].graph].takes_part = false;
    if (!listed)
        return orr_fail_memory(err);
    if (flows && transfer.collective == ORR_COLL_SEND)
        f->moved.at[f->moved.n - 1].flows = f->ranks.n == 2; /* else: a send or receive without
                                                              * exactly one partner */
    if (r->transfer_ns >= 0)
        return ORR_OK;
    orr_price answer;
    ORR_TRY(orr_transfer_price(f->pricer, &transfer, f->ranks.at, (uint32_t)f->ranks.n, graph,
                               work->node, &answer, err));
    r->transfer_ns = answer.ns;
    r->basis = answer.basis;
    return ORR_OK;
}

/* Makes one rendezvous for each ordinal, from the calls of all graphs. */
static orr_status number(finder *f, const orr_fold_group *group, orr_error *err)
{
    const size_t n = f->entries.n;
    if (f->graphs_calls.n > 1 && n > 1)
        qsort(f->entries.at, n, sizeof *f->entries.at, by_ordinal);
    f->ids.n = 0;
    if (!orr_array_reserve(&f->ids, n) || !orr_array_reserve(&f->found, n) ||
        (f->flows && !orr_array_reserve(&f->moved, n)))
        return orr_fail_memory(err);
    f->ids.n = n;
    for (size_t i = 0, end; i < n; i = end) {
        orr_rendezvous r = {.start_ns = INT64_MIN, .transfer_ns = -1, .basis = ORR_BASES};
        for (end = i; end < n && f->entries.at[end].ordinal == f->entries.at[i].ordinal; end++) {
            const entry *e = &f->entries.at[end];
            const graph_calls *c = &f->graphs_calls.at[e->graph];
            r.transfer_ns = shorter_ns(r.transfer_ns, work_of(f, e)->duration_ns);
            f->ids.at[c->first + e->call - c->begin] = (uint32_t)f->found.n;
        }
        ORR_TRY(price(f, group, f->entries.at + i, end - i, &r, err));
        f->found.at[f->found.n++] = r;
    }
    return ORR_OK;
}

static void enrol(finder *f)
{
    for (size_t i = 0; i < f->classes.n; i++) {
        const orr_actor *actor = &f->actors[f->classes.at[i]];
        const graph_calls *c = &f->graphs_calls.at[f->calls_of_graph[actor->graph]];
        for (uint32_t call = c->begin; call < c->end; call++) {
            const uint32_t id = f->ids.at[c->first + call - c->begin];
            f->of_call[actor->first_call + call] = id;
            f->found.at[id].count++;
        }
    }
}

static orr_status find_all(finder *f, orr_error *err)
{
    for (uint32_t g = 0; g < f->fold->n_groups; g++) {
        if (!gather(f, &f->fold->groups[g], g + 1))
            return orr_fail_memory(err);
        ORR_TRY(number(f, &f->fold->groups[g], err));
        if (f->found.n > UINT32_MAX - 1)
            return orr_fail(err, ORR_LIMIT, "over 2^32 - 2 rendezvous");
        enrol(f);
    }
    return ORR_OK;
}

static orr_status seat_all(finder *f, orr_rendezvous_table *table, orr_error *err)
{
    uint64_t n_seats = 0;
    for (size_t i = 0; i < f->found.n; i++) {
        f->found.at[i].first_seat = (uint32_t)n_seats;
        n_seats += f->found.at[i].count;
        if (n_seats > UINT32_MAX)
            return orr_fail(err, ORR_LIMIT, "over 2^32 - 1 members of rendezvous");
    }
    table->seats = orr_malloc((size_t)n_seats * sizeof *table->seats);
    return table->seats == NULL && n_seats > 0 ? orr_fail_memory(err) : ORR_OK;
}

orr_status orr_rendezvous_find(const orr_ensemble *ensemble, const orr_fold *fold,
                               const orr_actor *actors, orr_transfer_pricer *pricer, bool flows,
                               orr_rendezvous_table *ret, orr_error *err)
{
    const size_t last = fold->n_classes;
    const size_t n_calls =
        last > 0 ? actors[last - 1].first_call + actors[last - 1].prepared->n_calls : 0;
    orr_rendezvous_table table = {.n_calls = n_calls};
    finder f = {.ensemble = ensemble,
                .fold = fold,
                .actors = actors,
                .pricer = pricer,
                .flows = flows,
                .of_call = orr_malloc(n_calls * sizeof *f.of_call + 1),
                .class_stamp = orr_calloc(last + 1, sizeof *f.class_stamp),
                .graph_stamp = orr_calloc((size_t)ensemble->n_graphs + 1, sizeof *f.graph_stamp),
                .calls_of_graph =
                    orr_calloc((size_t)ensemble->n_graphs + 1, sizeof *f.calls_of_graph)};
    orr_status status = ORR_OK;
    if (f.of_call == NULL || f.class_stamp == NULL || f.graph_stamp == NULL ||
        f.calls_of_graph == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    for (size_t i = 0; i < n_calls; i++)
        f.of_call[i] = ORR_NONE;
    ORR_TRY_OUT(status, find_all(&f, err));
    ORR_TRY_OUT(status, seat_all(&f, &table, err));
    table.n = (uint32_t)f.found.n;
    table.at = f.found.at;
    table.of_call = f.of_call;
    table.moved = f.moved.at;
    f.found.at = NULL;
    f.moved.at = NULL;
    f.of_call = NULL;
    *ret = table;
out:
    orr_free(f.of_call);
    orr_free(f.class_stamp);
    orr_free(f.graph_stamp);
    orr_free(f.calls_of_graph);
    orr_array_done(&f.found);
    orr_array_done(&f.moved);
    orr_array_done(&f.ranks);
    orr_array_done(&f.classes);
    orr_array_done(&f.graphs_calls);
    orr_array_done(&f.entries);
    orr_array_done(&f.ids);
    return status;
}

void orr_rendezvous_done(orr_rendezvous_table *table)
{
    orr_free(table->at);
    orr_free(table->seats);
    orr_free(table->of_call);
    orr_free(table->moved);
    *table = (orr_rendezvous_table){0};
}
