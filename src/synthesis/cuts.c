/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "graph/job.h"
#include "synthesis/source.h"

/* Cuts: the first rank proposes each moment at which an operator begins and none is open; every
 * other rank takes its own next such moment. A proposal that a communication crosses, issued by
 * some members before and by others after it, is given up. */
enum { CUTS_MOST = 1 << 24 }; /* times of cuts, over all ranks */

typedef orr_array(int64_t) times;

typedef struct cutter {
    orr_source *source;
    times *quiet;    /* shape (R): moments without an open operator */
    int64_t *end_ns; /* shape (R): after everything that the host did */
    int64_t *cut_ns; /* shape (K)(R) */
    uint32_t n_cuts;
    orr_arena *arena;
    orr_error *err;
} cutter;

static int64_t end_of(const orr_graph *g, orr_node_id v)
{
    return g->start_ns[v] + g->duration_ns[v];
}

static bool on_thread(const orr_graph *g, orr_node_id v)
{
    return g->lanes[g->lane[v]].kind == ORR_LANE_HOST;
}

static orr_status find_quiet(cutter *c, uint32_t role)
{
    const orr_source_rank *rank = &c->source->ranks[role];
    const orr_graph *g = rank->graph;
    int64_t busy_until = INT64_MIN, last = INT64_MIN, end_ns = INT64_MIN;
    for (uint32_t i = 0; i < rank->n_order; i++) {
        const orr_node_id v = rank->order[i];
        const int64_t place = rank->place_ns[v];
        if (place >= busy_until && place != last) {
            if (!orr_array_push(&c->quiet[role], place))
                return orr_fail_memory(c->err);
            last = place;
        }
        if (on_thread(g, v) && end_of(g, v) > busy_until)
            busy_until = end_of(g, v);
        if (place >= end_ns)
            end_ns = place + 1;
    }
    c->end_ns[role] = busy_until > end_ns ? busy_until : end_ns;
    if (rank->n_order == 0)
        c->end_ns[role] = 0;
    return ORR_OK;
}

/* The first of these times at or after `ns`, or `otherwise`. */
static int64_t next_of(const times *t, int64_t ns, int64_t otherwise)
{
    size_t low = 0, high = t->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (t->at[middle] < ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low < t->n ? t->at[low] : otherwise;
}

static orr_status propose(cutter *c)
{
    const orr_source *s = c->source;
    const uint32_t n_roles = s->n_roles;
    const size_t n = c->quiet[0].n, stride = 1 + n * n_roles / CUTS_MOST;
    c->cut_ns = orr_arena_array(c->arena, int64_t, (n / stride + 2) * n_roles);
    if (c->cut_ns == NULL)
        return orr_fail_memory(c->err);
    for (size_t i = 0; i < n; i += stride) {
        int64_t *row = c->cut_ns + (size_t)c->n_cuts++ * n_roles;
        for (uint32_t r = 0; r < n_roles; r++) {
            const int64_t ns = orr_ns_add_saturating(
                c->quiet[0].at[i],
                orr_ns_sub_saturating(s->ranks[0].clock_ns, s->ranks[r].clock_ns));
            row[r] = next_of(&c->quiet[r], i == 0 ? INT64_MIN : ns, c->end_ns[r]);
        }
    }
    memcpy(c->cut_ns + (size_t)c->n_cuts++ * n_roles, c->end_ns, n_roles * sizeof *c->cut_ns);
    return ORR_OK;
}

/* The first cut after what is issued at `ns`. */
static uint32_t cut_after(const cutter *c, uint32_t role, int64_t ns)
{
    uint32_t low = 0, high = c->n_cuts;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (c->cut_ns[(size_t)middle * c->source->n_roles + role] <= ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Gives up cuts that a communication crosses. The first and the last are crossed by none. */
static orr_status keep_whole(cutter *c)
{
    const orr_source *s = c->source;
    const orr_job *job = s->job;
    const uint32_t n_roles = s->n_roles;
    int32_t *crossing = orr_arena_array(c->arena, int32_t, (size_t)c->n_cuts + 1);
    if (crossing == NULL)
        return orr_fail_memory(c->err);
    for (uint32_t m = 0; m < job->n_matches; m++) {
        const orr_match *match = &job->matches[m];
        uint32_t first = UINT32_MAX, last = 0;
        for (uint32_t i = match->first; i < match->first + match->count; i++) {
            const orr_member member = job->members[i];
            const int64_t place = s->ranks[member.graph].place_ns[member.node];
            const uint32_t k = place == INT64_MIN ? 0 : cut_after(c, member.graph, place);
            first = k < first ? k : first;
            last = k > last ? k : last;
        }
        crossing[first]++;
        crossing[last]--;
    }
    uint32_t n = 0;
    int32_t open = 0;
    for (uint32_t k = 0; k < c->n_cuts; k++) {
        open += crossing[k];
        if (open == 0 || k == 0 || k + 1 == c->n_cuts)
            memmove(c->cut_ns + (size_t)n++ * n_roles, c->cut_ns + (size_t)k * n_roles,
                    n_roles * sizeof *c->cut_ns);
    }
    c->n_cuts = n;
    return ORR_OK;
}

static uint64_t digest_of_unit(const orr_source_rank *rank, orr_node_id v)
{
    const orr_graph *g = rank->graph;
    return orr_digest_text(orr_digest_word(g->kind[v], rank->lane_of[g->lane[v]]),
                           orr_graph_str(g, g->name[v]));
}

/* What went before a cut on the first rank: kinds, threads and names of the last three outermost
 * operators. */
static orr_status find_contexts(cutter *c)
{
    const orr_source_rank *rank = &c->source->ranks[0];
    uint64_t last[3] = {0, 0, 0};
    uint64_t *context = orr_arena_array(c->arena, uint64_t, c->n_cuts);
    if (context == NULL)
        return orr_fail_memory(c->err);
    for (uint32_t k = 0, i = 0; k < c->n_cuts; k++) {
        for (; i < rank->n_order; i++) {
            const orr_node_id v = rank->order[i];
            if (rank->place_ns[v] >= c->cut_ns[(size_t)k * c->source->n_roles])
                break;
            const orr_node_id parent = rank->parent[v];
            const bool inside = parent != ORR_NONE && rank->graph->kind[parent] == ORR_NODE_HOST_OP;
            if (!on_thread(rank->graph, v) || (inside && rank->graph->kind[v] == ORR_NODE_HOST_OP))
                continue;
            last[0] = last[1];
            last[1] = last[2];
            last[2] = digest_of_unit(rank, v);
        }
        context[k] = orr_digest_word(orr_digest_word(last[0], last[1]), last[2]);
    }
    c->source->context = context;
    return ORR_OK;
}

static int compare_times(const void *a_, const void *b_)
{
    const int64_t a = *(const int64_t *)a_, b = *(const int64_t *)b_;
    return a < b ? -1 : a > b;
}

/* Starts of the steps of the first rank, and the end of the last. */
static orr_status find_annotations(cutter *c, const char *annotation, times *ret)
{
    const orr_graph *g = c->source->ranks[0].graph;
    int64_t end_ns = INT64_MIN;
    uint32_t lane = ORR_NONE;
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        if (g->start_ns[v] == ORR_TIME_NONE || !on_thread(g, v) ||
            strncmp(orr_graph_str(g, g->name[v]), annotation, strlen(annotation)) != 0)
            continue;
        lane = lane == ORR_NONE ? g->lane[v] : lane;
        if (g->lane[v] != lane)
            continue;
        if (!orr_array_push(ret, g->start_ns[v]))
            return orr_fail_memory(c->err);
        end_ns = end_of(g, v) > end_ns ? end_of(g, v) : end_ns;
    }
    if (ret->n == 0)
        return ORR_OK;
    qsort(ret->at, ret->n, sizeof *ret->at, compare_times);
    return orr_array_push(ret, end_ns) ? ORR_OK : orr_fail_memory(c->err);
}

/* A step lasts from the first cut after its annotation begins to the first after the next does. */
static orr_status find_steps(cutter *c, const char *annotation)
{
    orr_source *s = c->source;
    times bounds = {0};
    uint32_t n = 0;
    orr_status status = find_annotations(c, annotation, &bounds);
    uint32_t *step_cut = orr_arena_array(c->arena, uint32_t, bounds.n + 2);
    if (status == ORR_OK && step_cut == NULL)
        status = orr_fail_memory(c->err);
    for (size_t i = 0; status == ORR_OK && i < bounds.n; i++) {
        uint32_t k = cut_after(c, 0, bounds.at[i] - 1);
        k = k < c->n_cuts ? k : c->n_cuts - 1;
        if (n == 0 || k > step_cut[n - 1])
            step_cut[n++] = k;
    }
    orr_array_done(&bounds);
    ORR_TRY(status);
    s->annotated = n >= 2;
    if (n < 2) {
        step_cut[0] = 0;
        step_cut[1] = c->n_cuts - 1;
        n = 2;
    }
    s->step_cut = step_cut;
    s->n_steps = n - 1;
    return ORR_OK;
}

/* Nodes that each rank issues before each cut: shape (K)(R). */
static void count_before(const cutter *c, double *ret)
{
    const orr_source *s = c->source;
    for (uint32_t r = 0; r < s->n_roles; r++) {
        const orr_source_rank *rank = &s->ranks[r];
        for (uint32_t k = 0, i = 0; k < c->n_cuts; k++) {
            while (i < rank->n_order && rank->place_ns[rank->order[i]] < orr_source_cut_ns(s, k, r))
                i++;
            ret[(size_t)k * s->n_roles + r] = i;
        }
    }
}

static void share_of_step(const orr_source *s, uint32_t from, uint32_t to, const double *before,
                          double *issued, double *elapsed)
{
    const double start = (double)orr_source_cut_ns(s, from, 0);
    const double length = (double)orr_source_cut_ns(s, to, 0) - start;
    for (uint32_t k = from; k < to; k++) {
        elapsed[k] = length > 0 ? ((double)orr_source_cut_ns(s, k, 0) - start) / length : 0;
        for (uint32_t r = 0; r < s->n_roles; r++) {
            const double *first = before + (size_t)from * s->n_roles + r;
            const double count = before[(size_t)to * s->n_roles + r] - *first;
            const size_t at = (size_t)k * s->n_roles + r;
            issued[at] = count > 0 ? (before[at] - *first) / count : elapsed[k];
        }
    }
}

static orr_status find_progress(cutter *c)
{
    orr_source *s = c->source;
    const size_t n = (size_t)c->n_cuts * s->n_roles;
    double *issued = orr_arena_array(c->arena, double, n);
    double *before = orr_arena_array(c->arena, double, n);
    double *elapsed = orr_arena_array(c->arena, double, c->n_cuts);
    if (issued == NULL || elapsed == NULL || before == NULL)
        return orr_fail_memory(c->err);
    count_before(c, before);
    for (uint32_t i = 0; i < s->n_steps; i++)
        share_of_step(s, s->step_cut[i], s->step_cut[i + 1], before, issued, elapsed);
    s->issued = issued;
    s->elapsed = elapsed;
    return ORR_OK;
}

static orr_status find_all(cutter *c, const char *annotation)
{
    for (uint32_t r = 0; r < c->source->n_roles; r++)
        ORR_TRY(find_quiet(c, r));
    ORR_TRY(propose(c));
    ORR_TRY(keep_whole(c));
    c->source->cut_ns = c->cut_ns;
    c->source->n_cuts = c->n_cuts;
    ORR_TRY(find_contexts(c));
    ORR_TRY(find_steps(c, annotation));
    return find_progress(c);
}

orr_status orr_source_find_cuts(orr_source *source, const char *annotation, orr_arena *arena,
                                orr_error *err)
{
    cutter c = {.source = source,
                .quiet = orr_arena_array(arena, times, source->n_roles),
                .end_ns = orr_arena_array(arena, int64_t, source->n_roles),
                .arena = arena,
                .err = err};
    if (c.quiet == NULL || c.end_ns == NULL)
        return orr_fail_memory(err);
    const orr_status status = find_all(&c, annotation);
    for (uint32_t r = 0; r < source->n_roles; r++)
        orr_array_done(&c.quiet[r]);
    return status;
}
