/* SPDX-License-Identifier: Apache-2.0 */
#include "outcome/outcome.h"

#include <math.h>

#include "model/plan/axis_layout.h"
#include "model/plan/plan.h"

/* Traffic between sites. The bytes that an axis sends are known; the share that crosses each link
 * follows from the sites of its groups' members, by algorithm:
 *    ring          each member sends to the next in rank order, the last to the first: of n sends,
 *                  those cross whose two members are on different sites
 *    hierarchical  each site reduces first: between sites there is one ring over the sites
 *    all-to-all    each member sends 1 / (n - 1) of its bytes to each other member: of n_a members
 *                  on site a and n_b on b, 2 n_a n_b such parts cross
 *    pipeline      a stage sends to the same slice of the next stage */

typedef struct cut_sum {
    double bytes;
    double senders, busy_ns, exposed_ns; /* number of ranks that send; sums over them */
} cut_sum;

typedef struct accumulator {
    const orr_outcome_job *job;
    const orr_plan *plan;
    const orr_cluster *cluster;
    const orr_outcome_layout *layout;
    const orr_simulation *simulation;
    cut_sum sum[ORR_SITE_LINKS_MAX][ORR_AXES];
} accumulator;

static uint32_t cut_of(const accumulator *t, uint32_t a, uint32_t b)
{
    uint32_t i = 0;
    while (i < t->cluster->n_cuts &&
           !(t->cluster->cuts[i].a == (a < b ? a : b) && t->cluster->cuts[i].b == (a < b ? b : a)))
        i++;
    return i;
}

/* --- groups ---------------------------------------------------------------------------------- */

/* Traffic of the groups of an axis in a stage, as shares that cross each link, summed over the
 * groups that were visited. */
typedef struct crossing {
    double bytes[ORR_SITE_LINKS_MAX], ranks[ORR_SITE_LINKS_MAX];
    uint32_t n_groups;
} crossing;

/* Members of one group by site, in order. */
typedef struct members {
    uint32_t n, n_sites, count[ORR_SITES_MAX], site[ORR_SITES_MAX];
} members;

typedef void share_out(const accumulator *t, const members *m, double bytes[ORR_SITE_LINKS_MAX]);

/* All-to-all: each member sends equally to all others. */
static void share_pairs(const accumulator *t, const members *m, double bytes[ORR_SITE_LINKS_MAX])
{
    const double pairs = (double)m->n * (m->n - 1);
    for (uint32_t i = 0; i < m->n_sites; i++)
        for (uint32_t k = i + 1; k < m->n_sites; k++)
            bytes[cut_of(t, m->site[i], m->site[k])] += 2.0 * m->count[i] * m->count[k] / pairs;
}

/* Ring: each member sends to the next in rank order, the last to the first. */
static void share_ring(const accumulator *t, const members *m, double bytes[ORR_SITE_LINKS_MAX])
{
    for (uint32_t i = 0; i < m->n_sites; i++)
        bytes[cut_of(t, m->site[i], m->site[(i + 1) % m->n_sites])] += 1.0 / m->n;
}

/* Hierarchical all-reduce: each site reduces first. Of all that n members send in a ring, which is
 * n - 1 times the data of one, one part passes between neighbouring sites. */
static void share_sites(const accumulator *t, const members *m, double bytes[ORR_SITE_LINKS_MAX])
{
    for (uint32_t i = 0; i + 1 < m->n_sites; i++)
        bytes[cut_of(t, m->site[i], m->site[i + 1])] += 1.0 / (m->n - 1);
}

static share_out *rule_of(const accumulator *t, orr_axis axis)
{
    const orr_job_rates *rates = t->job->prices.transfers[axis];
    return axis == ORR_AXIS_EP                              ? share_pairs
           : rates->algorithm == ORR_ALGORITHM_HIERARCHICAL ? share_sites
                                                            : share_ring;
}

/* In rank order a site may come up more than once: its members are counted where it came first. */
static void add_member(members *m, uint32_t site)
{
    uint32_t i = 0;
    while (i < m->n_sites && m->site[i] != site)
        i++;
    if (i == m->n_sites)
        m->site[m->n_sites++] = site;
    m->count[i]++;
}

static void take_groups(const accumulator *t, orr_axis axis, uint32_t base, crossing *c)
{
    const orr_axis_layout l = orr_plan_axis_layout(t->plan, axis);
    for (uint32_t first = 0; first < l.n; first++) {
        double bytes[ORR_SITE_LINKS_MAX] = {0};
        members m = {.n = l.size};
        if (first / l.stride % l.size != 0 || first + l.stride * (l.size - 1) >= l.n)
            continue;
        for (uint32_t i = 0; i < l.size; i++)
            add_member(&m, orr_cluster_site(t->cluster,
                                            orr_axis_layout_rank(&l, base, first + i * l.stride)));
        c->n_groups++;
        if (m.n_sites > 1)
            rule_of(t, axis)(t, &m, bytes);
        for (uint32_t i = 0; i < t->cluster->n_cuts; i++) {
            c->bytes[i] += bytes[i];
            c->ranks[i] += bytes[i] > 0;
        }
    }
}

/* Visits every rank, where the plan does not say which site a rank is on. `by_stage`: shape
 * (stages). */
static void visit_ranks(const accumulator *t, orr_axis axis, crossing *by_stage)
{
    const orr_axis_layout l = orr_plan_axis_layout(t->plan, axis);
    const orr_axis_layout pipeline = orr_plan_axis_layout(t->plan, ORR_AXIS_PP);
    for (uint32_t rank = 0; rank < t->job->n_ranks; rank++) {
        bool first = true;
        for (uint32_t i = 0; i < l.n_digits && first; i++)
            first = rank / l.digits[i].stride % l.digits[i].size == 0;
        if (first)
            take_groups(t, axis, rank,
                        &by_stage[rank / pipeline.digits[0].stride % pipeline.digits[0].size]);
    }
}

/* Stages are equal unless they are on different sites. */
static void find_crossings(const accumulator *t, orr_axis axis, crossing *by_stage)
{
    const orr_axis_bases bases = orr_plan_axis_bases(t->plan, axis);
    const uint32_t stages = t->plan->pp, last = stages - 1;
    const bool equal = t->plan->cross != ORR_CROSS_PP;
    const bool once =
        equal || axis == ORR_AXIS_TIED; /* TIED reaches from the first stage to the last */
    if (!orr_plan_has_sites(t->plan))
        visit_ranks(t, axis, by_stage);
    for (uint32_t s = 0; s < stages && orr_plan_has_sites(t->plan); s++) {
        if (s > 0 && equal)
            by_stage[s] = by_stage[0];
        for (uint32_t i = 0; i < bases.n && !(s > 0 && once); i++)
            take_groups(t, axis, orr_plan_base_rank(t->plan, s, i * bases.step), &by_stage[s]);
    }
    if (axis == ORR_AXIS_TIED)
        by_stage[last] = by_stage[0];
}

/* Compressed gradients send fewer bytes. */
static double sent_bytes(const accumulator *t, const orr_step_totals *totals, orr_axis axis)
{
    const orr_job_rates *sums = t->job->prices.sums[axis];
    const double frac = sums != NULL ? sums->network.bytes_frac[t->cluster->site_level + 1] : 0;
    return totals->sent_bytes[axis] - (frac > 0 ? (1 - frac) * totals->summed_bytes[axis] : 0);
}

static void add_class(accumulator *t, orr_axis axis, const crossing *c, uint32_t class_index)
{
    const orr_timeline *timeline = &t->simulation->timelines[class_index];
    const orr_step_totals *totals = &t->layout->graphs[timeline->graph].totals;
    const orr_rank_time_breakdown breakdown =
        orr_outcome_rank_time_breakdown(t->layout, t->simulation, class_index);
    for (uint32_t i = 0; i < t->cluster->n_cuts && c->n_groups > 0; i++) {
        cut_sum *sum = &t->sum[i][axis];
        const double ranks = c->ranks[i] / c->n_groups * timeline->n_ranks;
        sum->bytes += sent_bytes(t, totals, axis) * c->bytes[i] / c->n_groups * timeline->n_ranks;
        sum->senders += ranks;
        sum->busy_ns += ranks * (double)totals->busy_ns[axis];
        sum->exposed_ns += ranks * (double)breakdown.exposed_ns[axis];
    }
}

static orr_status add_axis(accumulator *t, orr_axis axis, orr_arena *scratch, orr_error *err)
{
    crossing *by_stage = orr_arena_array(scratch, crossing, t->plan->pp);
    if (by_stage == NULL)
        return orr_fail_memory(err);
    find_crossings(t, axis, by_stage);
    for (uint32_t i = 0; i < t->simulation->n_classes; i++) {
        const uint32_t graph = t->simulation->timelines[i].graph;
        if (t->layout->graphs[graph].totals.busy_ns[axis] > 0)
            add_class(t, axis, &by_stage[t->layout->stage_of[graph]], i);
    }
    return ORR_OK;
}

/* --- pipeline -------------------------------------------------------------------------------- */

/* Number of rank pairs of a stage and another one, by link. */
static void count_pairs(const accumulator *t, uint32_t stage, uint32_t other,
                        double pairs[ORR_SITE_LINKS_MAX])
{
    const orr_axis_bases bases = orr_plan_axis_bases(t->plan, ORR_AXIS_PP);
    const uint32_t ranks = t->job->n_ranks / t->plan->pp;
    for (uint32_t i = 0; i < bases.n; i++) {
        const uint32_t d = i * bases.step;
        const uint32_t a = orr_cluster_site(t->cluster, orr_plan_base_rank(t->plan, stage, d));
        const uint32_t b = orr_cluster_site(t->cluster, orr_plan_base_rank(t->plan, other, d));
        if (a != b)
            pairs[cut_of(t, a, b)] += (double)ranks / bases.n;
    }
}

static uint32_t site_end(const accumulator *t, uint32_t rank)
{
    return orr_cluster_unit(t->cluster, t->cluster->site_level, rank).end;
}

/* The ranks of a stage are runs of neighbours; each run is split where a site ends for it or its
 * partners. */
static void count_all_pairs(const accumulator *t, uint32_t stage, uint32_t other,
                            double pairs[ORR_SITE_LINKS_MAX])
{
    const orr_axis_layout l = orr_plan_axis_layout(t->plan, ORR_AXIS_PP);
    const uint32_t stride = l.digits[0].stride, round = stride * l.size;
    for (uint32_t run = 0; run < t->job->n_ranks; run += round)
        for (uint32_t i = 0; i < stride;) {
            const uint32_t rank = run + stage * stride + i, partner = run + other * stride + i;
            const uint32_t a = orr_cluster_site(t->cluster, rank);
            const uint32_t b = orr_cluster_site(t->cluster, partner);
            const uint32_t left = site_end(t, rank) - rank, more = site_end(t, partner) - partner;
            uint32_t n = left < more ? left : more;
            n = n < stride - i ? n : stride - i;
            if (a != b)
                pairs[cut_of(t, a, b)] += n;
            i += n;
        }
}

/* Transfers of one rank to another stage. */
typedef struct hop_traffic {
    double bytes, busy_ns, exposed_ns;
} hop_traffic;

static void add_pairs(accumulator *t, orr_axis axis, uint32_t class_index, uint32_t other,
                      const hop_traffic *each)
{
    const orr_timeline *timeline = &t->simulation->timelines[class_index];
    const uint32_t stage = t->layout->stage_of[timeline->graph];
    const double share = (double)timeline->n_ranks * t->plan->pp / t->job->n_ranks;
    double pairs[ORR_SITE_LINKS_MAX] = {0};
    (orr_plan_has_sites(t->plan) ? count_pairs : count_all_pairs)(t, stage, other, pairs);
    for (uint32_t i = 0; i < t->cluster->n_cuts; i++) {
        cut_sum *sum = &t->sum[i][axis];
        const double senders = share * pairs[i];
        sum->bytes += senders * each->bytes;
        sum->senders += senders;
        sum->busy_ns += senders * each->busy_ns;
        sum->exposed_ns += senders * each->exposed_ns;
    }
}

/* Adds what the ranks of a class send to another stage. */
static void add_hop(accumulator *t, uint32_t class_index, uint32_t other, int64_t exposed_ns)
{
    const orr_step_graph *from = &t->layout->graphs[t->simulation->timelines[class_index].graph];
    hop_traffic each = {.exposed_ns = (double)exposed_ns};
    for (orr_node_id v = 0; v < from->graph->n_nodes; v++) {
        if (from->axis[v] != ORR_AXIS_PP || from->graph->kind[v] != ORR_NODE_SEND)
            continue;
        const orr_comm *comm = orr_graph_comm(from->graph, v);
        if (comm->peer != (int32_t)other)
            continue;
        each.bytes += (double)comm->in_bytes;
        each.busy_ns += (double)from->duration_ns[v];
    }
    add_pairs(t, ORR_AXIS_PP, class_index, other, &each);
}

/* DualPipe: the two stages that hold the same two parts of the model (mirrors) sum their gradients
 * after all slots; counted with the gradients of replicas. */
static void add_mirrors(accumulator *t, uint32_t class_index)
{
    const orr_step_graph *from = &t->layout->graphs[t->simulation->timelines[class_index].graph];
    const uint32_t stage = t->layout->stage_of[t->simulation->timelines[class_index].graph];
    hop_traffic each = {.bytes = 0};
    for (orr_node_id v = 0; v < from->graph->n_nodes; v++) {
        const orr_comm *comm = orr_graph_comm(from->graph, v);
        if (comm == NULL || from->rendezvous[comm - from->graph->comms].grouping !=
                                t->job->grouping_at[ORR_STEP_MIRROR])
            continue;
        each.bytes += (double)comm->in_bytes;
        each.busy_ns += (double)from->duration_ns[v];
    }
    each.exposed_ns = each.busy_ns;
    if (each.bytes > 0)
        add_pairs(t, ORR_AXIS_GRADIENT, class_index, t->plan->pp - 1 - stage, &each);
}

static void add_stages(accumulator *t)
{
    const uint32_t p = t->plan->pp;
    const orr_axis_bases bases = orr_plan_axis_bases(t->plan, ORR_AXIS_PP);
    if (p == 1 || (orr_plan_has_sites(t->plan) && bases.n == 0))
        return;
    for (uint32_t i = 0; i < t->simulation->n_classes; i++) {
        const uint32_t stage = t->layout->stage_of[t->simulation->timelines[i].graph];
        const orr_rank_time_breakdown breakdown =
            orr_outcome_rank_time_breakdown(t->layout, t->simulation, i);
        add_hop(t, i, (stage + 1) % p, breakdown.exposed_next_ns);
        add_mirrors(t, i);
        if (p > 2)
            add_hop(t, i, (stage + p - 1) % p, breakdown.exposed_prev_ns);
    }
}

/* --- report ---------------------------------------------------------------------------------- */

/* Bandwidth of a link in both directions: the ports of the smaller site over the oversubscription.
 */
static double bytes_per_s(const accumulator *t, const orr_site_link *cut)
{
    const uint32_t a = t->cluster->sites[cut->a].devices, b = t->cluster->sites[cut->b].devices;
    return 2.0 * (a < b ? a : b) * orr_fact_or(&cut->bytes_per_s, NAN) /
           orr_fact_or(&cut->oversubscription, 1);
}

static orr_site_link_use use_of(const accumulator *t, uint32_t cut, uint32_t axis, int64_t step_ns)
{
    const orr_site_link *from = &t->cluster->cuts[cut];
    const cut_sum *sum = &t->sum[cut][axis];
    return (orr_site_link_use){.a = from->a,
                               .b = from->b,
                               .axis = (uint8_t)axis,
                               .bytes = sum->bytes,
                               .busy_ns = (int64_t)(sum->busy_ns / sum->senders + 0.5),
                               .exposed_ns = (int64_t)(sum->exposed_ns / sum->senders + 0.5),
                               .utilisation_frac =
                                   sum->bytes / bytes_per_s(t, from) / (1e-9 * (double)step_ns)};
}

orr_status orr_outcome_site_links(const orr_outcome_job *job, const orr_outcome_layout *layout,
                                  orr_arena *arena, orr_outcome *ret, orr_error *err)
{
    accumulator t = {.job = job,
                     .plan = &job->on_sites,
                     .cluster = job->cluster,
                     .layout = layout,
                     .simulation = ret->simulation};
    uint32_t n = 0;
    if (job->cluster->n_sites < 2)
        return ORR_OK;
    orr_site_link_use *cuts =
        orr_arena_array(arena, orr_site_link_use, (size_t)job->cluster->n_cuts * ORR_AXES);
    if (cuts == NULL)
        return orr_fail_memory(err);
    for (int axis = 0; axis < ORR_AXES; axis++)
        if (axis != ORR_AXIS_PP && job->prices.span[axis].top > job->cluster->site_level)
            ORR_TRY(add_axis(&t, (orr_axis)axis, arena, err));
    add_stages(&t);
    for (uint32_t cut = 0; cut < job->cluster->n_cuts; cut++)
        for (uint32_t axis = 0; axis < ORR_AXES; axis++)
            if (t.sum[cut][axis].bytes > 0)
                cuts[n++] = use_of(&t, cut, axis, ret->step_ns);
    ret->cuts = cuts;
    ret->n_cuts = n;
    return ORR_OK;
}
