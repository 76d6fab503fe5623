/* SPDX-License-Identifier: Apache-2.0 */
#include "synthesis/emit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "synthesis/emitter.h"

/* Names by which nothing is told apart but what the simulation has to know. */
static const char *name_of(const orr_emitter *m, const orr_graph *g, orr_node_id v)
{
    const char *name = orr_graph_str(g, g->name[v]);
    if (g->kind[v] == ORR_NODE_ANNOTATION || g->kind[v] == ORR_NODE_PYTHON)
        return orr_node_kind_name((orr_node_kind)g->kind[v]);
    return m->e->obfuscate ? orr_obfuscated_name(g, v, name) : name;
}

static orr_status find_lane(orr_emitter *m, const orr_emitted_run *r, orr_node_id v,
                            orr_emitted_lane **ret)
{
    const orr_graph *g = r->rank->graph;
    const uint8_t kind = g->lanes[g->lane[v]].kind;
    const uint32_t number = r->rank->lane_of[g->lane[v]];
    for (size_t i = 0; i < m->lanes.n; i++)
        if (m->lanes.at[i].kind == kind && m->lanes.at[i].number == number) {
            *ret = &m->lanes.at[i];
            return ORR_OK;
        }
    const bool stream = kind == ORR_LANE_STREAM;
    const orr_lane made = {.kind = kind,
                           .device = stream ? 0 : -1,
                           .pid = stream ? 0 : 1,
                           .tid = stream ? 7 + (int64_t)number : 1 + (int64_t)number};
    orr_emitted_lane new_lane = {.kind = kind,
                                 .number = number,
                                 .last = ORR_NONE,
                                 .last_before = ORR_NONE,
                                 .latest = ORR_NONE};
    ORR_TRY(orr_builder_lane(m->builder, &made, &new_lane.id, m->err));
    if (!orr_array_push(&m->lanes, new_lane))
        return orr_fail_memory(m->err);
    *ret = &m->lanes.at[m->lanes.n - 1];
    return ORR_OK;
}

/* The time that is to be simulated: a duration, or of a node of a thread a factor on its own. */
static void draw_duration(orr_emitter *m, const orr_emitted_run *r, orr_node_id v, int64_t *ret_ns,
                          double *ret_factor)
{
    const orr_graph *g = r->rank->graph;
    const int64_t self_ns = r->rank->self_ns[v];
    const double u = orr_random_unit(&m->random), w = orr_random_unit(&m->random);
    const int64_t drawn = orr_samples_draw(m->e->samples, r->source_number, g, v, self_ns, u, w);
    const bool stream = g->lanes[g->lane[v]].kind == ORR_LANE_STREAM;
    *ret_ns = stream ? drawn : -1;
    *ret_factor = stream || self_ns == 0 ? 1 : (double)drawn / (double)self_ns;
}

orr_node_id orr_emitted_copy(const orr_emitter *m, const orr_emitted_run *r, orr_node_id v)
{
    const orr_copies *c = &m->copies[r->source_number];
    return v != ORR_NONE && c->run[v] == r->number + 1 ? c->node[v] : ORR_NONE;
}

static orr_status add_node(orr_emitter *m, const orr_node *node, int64_t duration_ns, double factor,
                           orr_node_id *ret)
{
    ORR_TRY(orr_builder_node(m->builder, node, ret, m->err));
    return orr_array_push(&m->duration_ns, duration_ns) && orr_array_push(&m->factor, factor)
               ? ORR_OK
               : orr_fail_memory(m->err);
}

static orr_status intern(orr_emitter *m, const char *text, orr_str *ret)
{
    return orr_builder_str(m->builder, text, strlen(text), ret, m->err);
}

static orr_status add_bytes(orr_emitter *m, const orr_emitted_run *r, orr_node_id v,
                            orr_node_id made)
{
    const orr_copy *copy = orr_graph_copy(r->rank->graph, v);
    const orr_copy bytes = {.bytes = copy != NULL ? copy->bytes : 0};
    return copy == NULL || m->e->obfuscate ? ORR_OK
                                           : orr_builder_copy(m->builder, made, &bytes, m->err);
}

/* Copies a node into the run; of one that is divided, the part that lies in it. */
static orr_status copy_node(orr_emitter *m, const orr_emitted_run *r, orr_node_id v, bool divided)
{
    const orr_graph *g = r->rank->graph;
    const orr_node_id around = orr_emitted_copy(m, r, r->rank->parent[v]);
    orr_emitted_lane *to;
    orr_node_id made;
    int64_t duration_ns = -1;
    double factor = 1;
    ORR_TRY(find_lane(m, r, v, &to));
    orr_node node = orr_emitted_times(m, r, v, to, around);
    const int64_t beyond = g->start_ns[v] + g->duration_ns[v] - r->to_ns;
    if (divided && beyond > 0)
        node.duration_ns -= beyond;
    node.kind = (orr_node_kind)g->kind[v];
    node.lane = to->id;
    node.parent =
        around == ORR_NONE && to->kind == ORR_LANE_HOST && to->number == 0 ? m->step : around;
    ORR_TRY(intern(m, name_of(m, g, v), &node.name));
    if (!divided)
        draw_duration(m, r, v, &duration_ns, &factor);
    ORR_TRY(add_node(m, &node, duration_ns, factor, &made));
    m->copies[r->source_number].node[v] = made;
    m->copies[r->source_number].run[v] = r->number + 1;
    if (around == ORR_NONE && !divided)
        to->last = made;
    if (!divided)
        orr_emitted_note(m, r, v, to, made);
    if (!orr_array_push(&m->of_run, v) ||
        (orr_synthesis_communicates(g, v) && !orr_array_push(&m->transfers, v)))
        return orr_fail_memory(m->err);
    return add_bytes(m, r, v, made);
}

orr_node_id orr_emitted_stand_in(const orr_emitter *m, const orr_emitted_run *r, orr_node_id u,
                                 orr_dep_kind kind)
{
    const orr_graph *g = r->rank->graph;
    const uint8_t lane_kind = g->lanes[g->lane[u]].kind;
    const uint32_t number = r->rank->lane_of[g->lane[u]];
    if (r->rank->place_ns[u] == INT64_MIN || kind == ORR_DEP_DATA || kind == ORR_DEP_CONTROL ||
        kind == ORR_DEP_LAUNCH)
        return ORR_NONE;
    for (size_t i = 0; i < m->lanes.n; i++)
        if (m->lanes.at[i].kind == lane_kind && m->lanes.at[i].number == number)
            return m->lanes.at[i].last_before;
    return ORR_NONE;
}

static orr_status copy_dependencies(orr_emitter *m, const orr_emitted_run *r)
{
    const orr_graph *g = r->rank->graph;
    for (size_t i = 0; i < m->of_run.n; i++) {
        const orr_node_id v = m->of_run.at[i], made = orr_emitted_copy(m, r, v);
        const bool cut_off = g->start_ns[v] + g->duration_ns[v] > r->to_ns &&
                             g->lanes[g->lane[v]].kind == ORR_LANE_HOST;
        for (uint32_t k = g->dep_first[v]; k < g->dep_first[v + 1]; k++) {
            const orr_dep_kind kind = (orr_dep_kind)g->dep_kind[k];
            if (cut_off && kind == ORR_DEP_SYNC) /* its end, which waits, is in another block */
                continue;
            orr_node_id on = orr_emitted_copy(m, r, g->dep[k]);
            if (on == ORR_NONE)
                on = orr_emitted_stand_in(m, r, g->dep[k], kind);
            if (on != ORR_NONE)
                ORR_TRY(orr_builder_dep(m->builder, made, on, kind, m->err));
        }
    }
    return ORR_OK;
}

/* Ranks need not have begun the communications of a block in one order: that of the matches holds
 * for all, and sequence numbers follow it. */
static int compare_matches(const void *a_, const void *b_, void *match_of_)
{
    const uint32_t *match_of = match_of_;
    const orr_node_id a = *(const orr_node_id *)a_, b = *(const orr_node_id *)b_;
    return match_of[a] < match_of[b] ? -1 : match_of[a] > match_of[b];
}

static orr_status add_transfers(orr_emitter *m, const orr_emitted_run *r)
{
    const uint32_t *match_of = r->source->job->match_of[r->role];
    if (match_of != NULL && m->transfers.n > 1)
        qsort_r(m->transfers.at, m->transfers.n, sizeof *m->transfers.at, compare_matches,
                (void *)(uintptr_t)match_of);
    for (size_t i = 0; i < m->transfers.n; i++) {
        const orr_node_id v = m->transfers.at[i], made = orr_emitted_copy(m, r, v);
        ORR_TRY(orr_emit_transfer(m->e, m->builder, &m->numbers, r->source_number, r->role, v,
                                  m->rank, made, &m->duration_ns.at[made], m->arena, m->err));
    }
    return ORR_OK;
}

static uint32_t first_from(const orr_source_rank *rank, int64_t ns)
{
    uint32_t low = 0, high = rank->n_order;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (rank->place_ns[rank->order[middle]] < ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static orr_status emit_run(orr_emitter *m, const orr_emitted_run *r)
{
    const orr_graph *g = r->rank->graph;
    m->of_run.n = m->transfers.n = 0;
    m->next_ns = m->now_ns + (r->to_ns - r->from_ns);
    m->last_ns = INT64_MIN;
    for (size_t i = 0; i < m->lanes.n; i++) {
        orr_emitted_lane *lane = &m->lanes.at[i];
        lane->last_before = lane->last;
        lane->latest = ORR_NONE;
        lane->shift_ns = 0;
    }
    for (uint32_t i = 0; i < r->rank->n_divided; i++) {
        const orr_node_id v = r->rank->divided[i];
        if (g->start_ns[v] < r->to_ns && g->start_ns[v] + g->duration_ns[v] > r->from_ns)
            ORR_TRY(copy_node(m, r, v, true));
    }
    for (uint32_t i = first_from(r->rank, r->from_ns); i < r->rank->n_order; i++) {
        const orr_node_id v = r->rank->order[i];
        if (r->rank->place_ns[v] >= r->to_ns)
            break;
        ORR_TRY(copy_node(m, r, v, false));
    }
    ORR_TRY(add_transfers(m, r));
    ORR_TRY(copy_dependencies(m, r));
    for (size_t i = 0; i < m->lanes.n; i++)
        if (m->lanes.at[i].kind == ORR_LANE_HOST && m->lanes.at[i].end_ns > m->next_ns)
            m->next_ns = m->lanes.at[i].end_ns;
    m->now_ns = m->next_ns;
    return ORR_OK;
}

/* The thread that has steps is the first. */
static orr_status begin_step(orr_emitter *m, uint32_t step)
{
    static const orr_lane main_thread = {.kind = ORR_LANE_HOST, .device = -1, .pid = 1, .tid = 1};
    orr_node node = {.kind = ORR_NODE_ANNOTATION, .start_ns = m->now_ns, .parent = ORR_NONE};
    char name[32];
    snprintf(name, sizeof name, "ProfilerStep#%u", step);
    ORR_TRY(intern(m, name, &node.name));
    ORR_TRY(orr_builder_lane(m->builder, &main_thread, &node.lane, m->err));
    return add_node(m, &node, -1, 1, &m->step);
}

static void end_step(orr_emitter *m)
{
    const int64_t ns = m->now_ns - m->builder->start_ns[m->step];
    m->builder->duration_ns[m->step] = ns;
}

static orr_status emit_runs(orr_emitter *m)
{
    const orr_walk *walk = m->e->walk;
    for (uint32_t i = 0; i < walk->n_runs; i++) {
        const orr_block_run *block = &walk->runs[i];
        const orr_source *source = &m->e->sources[block->source];
        const uint32_t role = m->rank % source->n_roles;
        const orr_emitted_run r = {.source = source,
                                   .rank = &source->ranks[role],
                                   .number = i,
                                   .source_number = block->source,
                                   .role = role,
                                   .from_ns = orr_source_cut_ns(source, block->from_cut, role),
                                   .to_ns = orr_source_cut_ns(source, block->to_cut, role)};
        if (i == 0 || block->step != walk->runs[i - 1].step)
            ORR_TRY(begin_step(m, block->step));
        ORR_TRY(emit_run(m, &r));
        if (i + 1 == walk->n_runs || walk->runs[i + 1].step != block->step)
            end_step(m);
    }
    return ORR_OK;
}

static orr_status begin(orr_emitter *m)
{
    const orr_emission *e = m->e;
    orr_recording about = {.rank = m->rank, .world_size = e->n_ranks};
    const char *device = NULL;
    for (uint32_t i = 0; i < e->n; i++) {
        const orr_source *s = &e->sources[i];
        const orr_graph *g = s->ranks[m->rank % s->n_roles].graph;
        const char *name = orr_graph_str(g, g->device_name);
        device = device == NULL || strcmp(device, name) == 0 ? name : "";
        m->copies[i].node = orr_arena_array(m->arena, orr_node_id, g->n_nodes);
        m->copies[i].run = orr_arena_array(m->arena, uint32_t, g->n_nodes);
        if (m->copies[i].node == NULL || m->copies[i].run == NULL)
            return orr_fail_memory(m->err);
    }
    ORR_TRY(intern(m, "synthetic 1", &about.source));
    ORR_TRY(intern(m, e->obfuscate || device == NULL ? "" : device, &about.device_name));
    orr_builder_recording(m->builder, &about);
    return ORR_OK;
}

static orr_status finish(orr_emitter *m, orr_arena *arena, const orr_graph **ret,
                         const int64_t **ret_duration_ns)
{
    int64_t *durations = orr_arena_array(arena, int64_t, m->duration_ns.n);
    if (durations == NULL)
        return orr_fail_memory(m->err);
    for (size_t i = 0; i < m->duration_ns.n; i++)
        durations[i] = m->duration_ns.at[i] >= 0
                           ? m->duration_ns.at[i]
                           : llround((double)m->builder->duration_ns[i] * m->factor.at[i]);
    ORR_TRY(orr_graph_build(m->builder, ret, m->err));
    *ret_duration_ns = durations;
    return ORR_OK;
}

orr_status orr_emit_rank(const orr_emission *emission, uint32_t rank, orr_arena *arena,
                         const orr_graph **ret, const int64_t **ret_duration_ns, orr_error *err)
{
    orr_emitter m = {.e = emission,
                     .rank = rank,
                     .arena = orr_arena_new(0, 0),
                     .builder = orr_graph_builder_new(),
                     .random = orr_random_of(emission->seed, 1 + (uint64_t)rank),
                     .step = ORR_NONE,
                     .err = err};
    orr_status status = ORR_OK;
    if (m.arena != NULL)
        m.copies = orr_arena_array(m.arena, orr_copies, emission->n);
    if (m.builder == NULL || m.copies == NULL)
        status = orr_fail_memory(err);
    ORR_TRY_OUT(status, status);
    ORR_TRY_OUT(status, begin(&m));
    ORR_TRY_OUT(status, emit_runs(&m));
    status = finish(&m, arena, ret, ret_duration_ns);
out:
    orr_array_done(&m.lanes);
    orr_array_done(&m.duration_ns);
    orr_array_done(&m.factor);
    orr_array_done(&m.of_run);
    orr_array_done(&m.transfers);
    orr_comm_numbers_done(&m.numbers);
    orr_graph_builder_free(m.builder);
    orr_arena_free(m.arena);
    return status;
}
