/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "model/plan/plan.h"
#include "explore/baseline/baseline.h"

/* Cost model of the baseline planners. Computation is FLOPs over the rate of large matrix products;
 * a ring all-reduce of S bytes among n ranks takes 2 (n - 1) / n S over the bandwidth (Patarasuk
 * and Yuan, 2009). Nothing overlaps and links have no contention. */

enum { ACTIVATION_BYTES = 2, GRADIENT_BYTES = 4 }; /* bf16; gradients are summed in fp32 */

static double ring_share(double n)
{
    return n > 1 ? 2 * (n - 1) / n : 0;
}

/* Tensor parallelism has two all-reduces in a forward and two in a backward pass (Shoeybi et al.,
 * 2019); sequence parallelism moves as many bytes. */
static double slices_ns(const orr_baseline_planner *r, const orr_plan *plan)
{
    const double t = orr_plan_degree(plan->tp), c = orr_plan_degree(plan->cp);
    const double bytes = (double)plan->micro_batch * r->seq / c * r->hidden * ACTIVATION_BYTES;
    return 2 * (ring_share(t) * bytes / r->host.bytes_per_s * 1e9 +
                (t > 1 ? 2 * r->host.latency_ns : 0));
}

/* All-to-all of the tokens to their experts and back, of a layer; mean over all layers. */
static double experts_ns(const orr_baseline_planner *r, const orr_plan *plan)
{
    const double e = orr_plan_degree(plan->ep), t = orr_plan_degree(plan->tp),
                 c = orr_plan_degree(plan->cp);
    const orr_baseline_link *link =
        e * orr_plan_degree(plan->etp) <= r->host_devices ? &r->host : &r->inner;
    const double tokens = (double)plan->micro_batch * r->seq / c / t;
    if (e <= 1)
        return 0;
    const double bytes = tokens * r->model->moe.top_k * r->hidden * ACTIVATION_BYTES * (e - 1) / e;
    return 2 * r->layer_moe_frac * (bytes / link->bytes_per_s * 1e9 + link->latency_ns);
}

orr_baseline_layer_time orr_baseline_layer_time_of(const orr_baseline_planner *r, uint32_t site,
                                                   const orr_plan *plan)
{
    const double slices = (double)orr_plan_degree(plan->tp) * orr_plan_degree(plan->cp);
    const double compute_ns =
        plan->micro_batch * r->layer_flops / slices / r->sites[site].flops_per_s * 1e9;
    const double moved_ns = slices_ns(r, plan) + experts_ns(r, plan);
    const double forward_ns = compute_ns + moved_ns;
    const bool again = plan->recompute == ORR_RECOMPUTE_FULL;
    return (orr_baseline_layer_time){.forward_ns = forward_ns,
                                     .backward_ns =
                                         2 * compute_ns + moved_ns + (again ? forward_ns : 0),
                                     .weight_ns = compute_ns};
}

double orr_baseline_head_ns(const orr_baseline_planner *r, uint32_t site, const orr_plan *plan)
{
    const double slices = (double)orr_plan_degree(plan->tp) * orr_plan_degree(plan->cp);
    return plan->micro_batch * r->head_flops / slices / r->sites[site].flops_per_s * 1e9;
}

double orr_baseline_hop_bytes(const orr_baseline_planner *r, const orr_plan *plan)
{
    const double slices = (double)orr_plan_degree(plan->tp) * orr_plan_degree(plan->cp);
    return (double)plan->micro_batch * r->seq / slices * r->hidden * ACTIVATION_BYTES;
}

orr_baseline_link orr_baseline_link_of(const orr_baseline_planner *r, uint32_t from, uint32_t to,
                                       const orr_baseline_network_view *view)
{
    orr_baseline_link link = from != to && view->cuts ? r->cut[from][to] : r->inner;
    if (!view->latency)
        link.latency_ns = 0;
    return link;
}

/* --- gradients --------------------------------------------------------------------------- */

/* The lowest bandwidth of the levels above the host that so many neighbouring devices span. */
static double thinnest(const orr_baseline_planner *r, double devices)
{
    double least = r->inner.bytes_per_s;
    for (uint32_t l = 1; l < r->n_inner_levels && r->level_devices[l - 1] < devices; l++)
        least = fmin(least, r->level_bytes_per_s[l]);
    return least;
}

/* Data parallelism across sites: the ring passes through all links between them. */
static orr_baseline_link replicas_link(const orr_baseline_planner *r, const orr_plan *plan,
                                       const orr_baseline_network_view *view)
{
    const double reach = (double)orr_plan_degree(plan->tp) * orr_plan_degree(plan->cp) *
                         orr_plan_degree(plan->dp) *
                         (plan->cross == ORR_CROSS_DP ? orr_plan_degree(plan->pp) : 1);
    orr_baseline_link link = r->inner;
    if (view->levels)
        link.bytes_per_s = thinnest(r, reach);
    for (uint32_t a = 0; a < r->n_sites && plan->cross == ORR_CROSS_DP && view->cuts; a++)
        for (uint32_t b = a + 1; b < r->n_sites; b++)
            if (plan->sites[a] > 0 && plan->sites[b] > 0) {
                link.bytes_per_s = fmin(link.bytes_per_s, r->cut[a][b].bytes_per_s);
                link.latency_ns = fmax(link.latency_ns, r->cut[a][b].latency_ns);
            }
    if (!view->latency)
        link.latency_ns = 0;
    return link;
}

double orr_baseline_sync_ns(const orr_baseline_planner *r, const orr_plan *plan,
                            const orr_baseline_stage *stage, const orr_baseline_network_view *view)
{
    const double t = orr_plan_degree(plan->tp), c = orr_plan_degree(plan->cp),
                 d = orr_plan_degree(plan->dp);
    const double of_experts =
        orr_plan_degree(plan->ep) * (plan->ep > 1 ? orr_plan_degree(plan->etp) : t);
    const orr_baseline_link link = replicas_link(r, plan, view);
    const double dense = stage->layers * r->layer_elements / t * ring_share(c * d);
    const double experts =
        stage->layers * r->layer_expert_elements / of_experts * ring_share(t * c * d / of_experts);
    const double rounds = c * d > 1 ? 2 * (c * d - 1) : 0;
    return (dense + experts) * GRADIENT_BYTES / link.bytes_per_s * 1e9 + rounds * link.latency_ns;
}

/* --- a step ------------------------------------------------------------------------------ */

/* Replicas of a stage on several sites wait for the slowest. */
static uint32_t slowest_site(const orr_baseline_planner *r, const orr_plan *plan, uint32_t site)
{
    for (uint32_t s = 0; s < r->n_sites && plan->cross == ORR_CROSS_DP; s++)
        if (plan->sites[s] > 0 && r->sites[s].flops_per_s < r->sites[site].flops_per_s)
            site = s;
    return site;
}

double orr_baseline_step_ns(const orr_baseline_planner *r, const orr_plan *plan,
                            const orr_baseline_stage *stages, const orr_baseline_network_view *view)
{
    const uint32_t p = orr_plan_degree(plan->pp);
    const double m = (double)r->batch / orr_plan_degree(plan->dp) / plan->micro_batch;
    const double bytes = orr_baseline_hop_bytes(r, plan);
    double sum_ns = 0, most_ns = 0, way_ns = 0, sync_ns = 0;
    for (uint32_t s = 0; s < p; s++) {
        const uint32_t site = slowest_site(r, plan, stages[s].site);
        const orr_baseline_layer_time turn = orr_baseline_layer_time_of(r, site, plan);
        double ns = stages[s].layers * (turn.forward_ns + turn.backward_ns);
        if (s + 1 == p)
            ns += 3 * orr_baseline_head_ns(r, site, plan);
        if (s + 1 < p) {
            const orr_baseline_link link =
                orr_baseline_link_of(r, stages[s].site, stages[s + 1].site, view);
            const double moved_ns = bytes / link.bytes_per_s * 1e9;
            way_ns += 2 * (moved_ns + link.latency_ns);
            most_ns =
                fmax(most_ns, 2 * moved_ns); /* a slow link bounds the pipeline like a slow stage */
        }
        sum_ns += ns;
        most_ns = fmax(most_ns, ns);
        sync_ns = fmax(sync_ns, orr_baseline_sync_ns(r, plan, &stages[s], view));
    }
    return sum_ns + (m - 1) * most_ns + way_ns + sync_ns;
}
