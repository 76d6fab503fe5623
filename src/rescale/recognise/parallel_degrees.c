/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include "rescale/plan/price.h"
#include "rescale/recognise/survey.h"

/* Parallel degrees of a recorded job. Evidence, strongest first: what the user states; names of
 * process groups (Megatron-LM, DeepSpeed, torchtitan, device meshes); their sizes; the ranks in
 * them, which have to agree with the order of axes. */

static void lower(const char *text, char *to, size_t room)
{
    size_t n = 0;
    for (; text[n] != '\0' && n + 1 < room; n++)
        to[n] = (char)tolower((unsigned char)text[n]);
    to[n] = '\0';
}

/* Whether the word stands by itself: "tp" in "mesh_tp" and "tp0", not in "http". */
static bool has_word(const char *text, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word))
        if ((at == text || !isalpha((unsigned char)at[-1])) && !isalpha((unsigned char)at[n]))
            return true;
    return false;
}

/* Names of Megatron-LM, DeepSpeed, torchtitan and device meshes. */
static orr_dimension dimension_of_text(const char *text)
{
    char t[128];
    lower(text, t, sizeof t);
    if (strstr(t, "pipeline") != NULL || has_word(t, "pp"))
        return ORR_DIMENSION_PP;
    if (strstr(t, "tensor") != NULL || has_word(t, "tp"))
        return ORR_DIMENSION_TP;
    if (strstr(t, "data_parallel") != NULL || strstr(t, "data parallel") != NULL ||
        has_word(t, "dp") || has_word(t, "ddp") || has_word(t, "fsdp"))
        return ORR_DIMENSION_DP;
    return strstr(t, "default") != NULL ? ORR_DIMENSION_WORLD : ORR_DIMENSION_UNKNOWN;
}

static orr_dimension dimension_by_name(const orr_job *job, uint32_t i)
{
    const orr_graph *g = job->graphs[job->group_graph[i]];
    const orr_dimension by_desc = dimension_of_text(orr_graph_str(g, job->groups[i].desc));
    return by_desc != ORR_DIMENSION_UNKNOWN
               ? by_desc
               : dimension_of_text(orr_graph_str(g, job->groups[i].name));
}

static const char *described(const orr_job *job, uint32_t i)
{
    const orr_graph *g = job->graphs[job->group_graph[i]];
    const char *desc = orr_graph_str(g, job->groups[i].desc);
    return *desc != '\0' ? desc : orr_graph_str(g, job->groups[i].name);
}

/* The size that all groups of a dimension have. 0: none, or several. */
static uint32_t degree_by_name(const orr_survey *s, orr_dimension dimension, uint32_t *ret_group)
{
    uint32_t degree = 0;
    for (uint32_t i = 0; i < s->job->n_groups; i++) {
        if (s->dimension[i] != dimension || s->job->groups[i].size < 2)
            continue;
        if (degree != 0 && degree != s->job->groups[i].size)
            return 0;
        degree = s->job->groups[i].size;
        *ret_group = i;
    }
    return degree;
}

static orr_status report_degree(orr_survey *s, const char *what, orr_dimension dimension,
                                uint32_t stated, uint32_t *degree, orr_error *err)
{
    uint32_t group = 0;
    const uint32_t named = degree_by_name(s, dimension, &group);
    if (stated > 0 && named > 0 && stated != named)
        return orr_fail(err, ORR_INVALID, "%s=%u is stated, but '%s' in the recording has %u ranks",
                        what, stated, described(s->job, group), named);
    *degree = stated > 0 ? stated : named;
    if (stated > 0)
        return orr_findings_number(&s->findings, what, stated, ORR_CONFIDENCE_STATED, err,
                                   "as stated");
    if (named > 0)
        return orr_findings_number(&s->findings, what, named, ORR_CONFIDENCE_NAMED, err,
                                   "process groups described as '%s', of %u ranks",
                                   described(s->job, group), named);
    return ORR_OK;
}

/* Ranks in a communication's group; 0: not recorded. */
static uint32_t size_of(const orr_graph *g, const orr_comm *comm)
{
    if (comm->group_size > 0)
        return (uint32_t)comm->group_size;
    return comm->group == ORR_NONE ? 0 : g->groups[comm->group].size;
}

/* Whether every communication, as far as recorded, is among all ranks. */
static bool only_the_world(const orr_job *job, uint64_t *ret_unknown)
{
    *ret_unknown = 0;
    for (uint32_t d = 0; d < job->n_graphs; d++) {
        const orr_graph *g = job->graphs[d];
        for (orr_node_id v = 0; v < g->n_nodes; v++) {
            const orr_comm *comm = orr_graph_comm(g, v);
            if (!orr_is_communication(g, v))
                continue;
            const uint32_t size = comm == NULL ? 0 : size_of(g, comm);
            if (g->kind[v] != ORR_NODE_COLLECTIVE || (size != 0 && size != job->n_ranks))
                return false;
            *ret_unknown += size == 0;
        }
    }
    return true;
}

/* Without names, all ranks are replicas unless something contradicts it. */
static orr_status all_replicas(orr_survey *s, orr_error *err)
{
    const uint32_t n = s->job->n_ranks;
    uint64_t unknown;
    if (n > 1 && !only_the_world(s->job, &unknown))
        return orr_findings_add(&s->findings, "plan", "", ORR_CONFIDENCE_UNKNOWN, err,
                                "no process group is called data, tensor or pipeline parallel, "
                                "and not all hold all ranks: state it (dp=4,tp=2)");
    s->plan.dp = n;
    s->plan.tp = s->plan.pp = 1;
    if (n == 1)
        return orr_findings_number(&s->findings, "dp", n, ORR_CONFIDENCE_INFERRED, err,
                                   "one rank alone");
    return orr_findings_number(&s->findings, "dp", n, ORR_CONFIDENCE_INFERRED, err,
                               "all communication is among all %u ranks%s", n,
                               unknown > 0 ? ", as far as groups are recorded" : "");
}

/* The missing degree, from the number of ranks and the other degrees. */
static orr_status complete_degrees(orr_survey *s, orr_error *err)
{
    const uint32_t n = s->job->n_ranks;
    orr_plan *p = &s->plan;
    if (p->dp == 0 && p->tp == 0 && p->pp == 0)
        return all_replicas(s, err);
    const uint32_t known = orr_plan_degree(p->dp) * orr_plan_degree(p->tp) * orr_plan_degree(p->pp);
    if (known == 0 || n % known != 0 || (known != n && p->dp != 0))
        return orr_fail(err, ORR_INVALID,
                        "dp=%u, tp=%u, pp=%u are no plan of the %u recorded ranks",
                        orr_plan_degree(p->dp), orr_plan_degree(p->tp), orr_plan_degree(p->pp), n);
    if (p->dp == 0) {
        p->dp = n / known;
        ORR_TRY(orr_findings_number(&s->findings, "dp", p->dp, ORR_CONFIDENCE_INFERRED, err,
                                    "what is left of %u ranks", n));
    }
    p->tp = orr_plan_degree(p->tp);
    p->pp = orr_plan_degree(p->pp);
    return ORR_OK;
}

static bool same_ranks(const orr_group *group, orr_strided_group ranks)
{
    if (group->size != ranks.size)
        return false;
    for (uint32_t i = 0; i < group->size; i++)
        if (orr_group_rank(group, i) != ranks.first + i * ranks.stride)
            return false;
    return true;
}

/* The dimension whose groups, in the usual order of axes, include this one. */
static orr_dimension dimension_by_ranks(const orr_plan *plan, const orr_group *group)
{
    static const uint8_t dimensions[] = {ORR_DIMENSION_TP, ORR_DIMENSION_DP, ORR_DIMENSION_PP};
    const uint32_t first = orr_group_rank(group, 0);
    if (group->size < 2 || first == ORR_NONE || first >= orr_plan_ranks(plan))
        return ORR_DIMENSION_UNKNOWN;
    for (uint32_t i = 0; i < ORR_PLAN_GROUPINGS; i++)
        if (same_ranks(group, orr_plan_group(plan, i, first)))
            return (orr_dimension)dimensions[i];
    return group->size == orr_plan_ranks(plan) ? ORR_DIMENSION_WORLD : ORR_DIMENSION_UNKNOWN;
}

/* Ranks in groups must agree with the names, or the order of axes is another one. */
static orr_status check_rank_order(orr_survey *s, orr_error *err)
{
    s->laid_out = orr_plan_ranks(&s->plan) == s->job->n_ranks && s->plan.dp > 0;
    for (uint32_t i = 0; i < s->job->n_groups && s->laid_out; i++) {
        const orr_group *group = &s->job->groups[i];
        const orr_dimension by_ranks = dimension_by_ranks(&s->plan, group);
        const orr_dimension named = (orr_dimension)s->dimension[i];
        const bool says = named != ORR_DIMENSION_UNKNOWN && named != ORR_DIMENSION_WORLD;
        if (!says) {
            s->dimension[i] = (uint8_t)by_ranks;
            continue;
        }
        if (group->size < 2 || orr_group_rank(group, 0) == ORR_NONE || by_ranks == named)
            continue;
        s->laid_out = false;
        return orr_findings_add(&s->findings, "order of ranks", "", ORR_CONFIDENCE_UNKNOWN, err,
                                "'%s' is not of the ranks that tp-dp-pp order gives it: only the "
                                "whole recording can be repeated",
                                described(s->job, i));
    }
    return ORR_OK;
}

orr_status orr_survey_groups(orr_survey *s, const orr_plan *stated, orr_error *err)
{
    static const orr_plan nothing = {0};
    const orr_plan *said = stated != NULL ? stated : &nothing;
    s->dimension = orr_arena_array(s->arena, uint8_t, s->job->n_groups);
    if (s->dimension == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < s->job->n_groups; i++)
        s->dimension[i] = (uint8_t)dimension_by_name(s->job, i);
    ORR_TRY(report_degree(s, "dp", ORR_DIMENSION_DP, said->dp, &s->plan.dp, err));
    ORR_TRY(report_degree(s, "tp", ORR_DIMENSION_TP, said->tp, &s->plan.tp, err));
    ORR_TRY(report_degree(s, "pp", ORR_DIMENSION_PP, said->pp, &s->plan.pp, err));
    ORR_TRY(complete_degrees(s, err));
    return check_rank_order(s, err);
}

static uint8_t role_of_pair(const orr_survey *s, const orr_profiled_step *step, orr_node_id v,
                            const orr_comm *comm)
{
    const uint32_t own =
        orr_recorded_position_of(&s->plan, s->job->rank_of_graph[step->graph]).stage;
    const uint32_t group = s->job->group_of[step->graph][comm->group];
    const uint32_t rank =
        comm->peer < 0 ? ORR_NONE : orr_group_rank(&s->job->groups[group], (uint32_t)comm->peer);
    if (rank >= s->job->n_ranks)
        return ORR_ROLE_OTHER;
    const uint32_t peer = orr_recorded_position_of(&s->plan, rank).stage;
    if (peer != own + 1 && own != peer + 1)
        return ORR_ROLE_OTHER;
    const bool up = peer > own;
    return step->g->kind[v] == ORR_NODE_SEND
               ? (up ? ORR_ROLE_SEND_FORWARD : ORR_ROLE_SEND_BACKWARD)
               : (up ? ORR_ROLE_RECV_BACKWARD : ORR_ROLE_RECV_FORWARD);
}

static uint8_t role_of(const orr_survey *s, const orr_profiled_step *step, orr_node_id v)
{
    const orr_comm *comm = orr_graph_comm(step->g, v);
    if (!s->laid_out || comm == NULL || comm->group == ORR_NONE)
        return ORR_ROLE_OTHER;
    const uint8_t dimension = s->dimension[s->job->group_of[step->graph][comm->group]];
    if (step->g->kind[v] != ORR_NODE_COLLECTIVE)
        return dimension == ORR_DIMENSION_PP || dimension == ORR_DIMENSION_WORLD
                   ? role_of_pair(s, step, v, comm)
                   : ORR_ROLE_OTHER;
    return dimension == ORR_DIMENSION_TP   ? ORR_ROLE_TP
           : dimension == ORR_DIMENSION_DP ? ORR_ROLE_DP
                                           : ORR_ROLE_OTHER;
}

void orr_survey_roles(orr_survey *s)
{
    for (uint32_t d = 0; d < s->job->n_graphs; d++) {
        orr_profiled_step *step = &s->steps[d];
        for (uint32_t i = 0; i < step->n_pieces; i++) {
            orr_step_piece *p = &step->pieces[i];
            uint32_t kernels = 0;
            for (uint32_t k = 0; k < p->n_works; k++) {
                const orr_node_id v = step->works[p->first_work + k];
                if (orr_is_communication(step->g, v))
                    p->role = role_of(s, step, v);
                kernels += orr_is_kernel(step->g, v);
            }
            p->mixed = p->role != ORR_ROLE_WORK && kernels > 0;
        }
    }
}
