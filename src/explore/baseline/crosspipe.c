/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "model/plan/plan.h"
#include "model/schedule/schedule.h"
#include "explore/baseline/baseline.h"

/* CrossPipe: a pipeline over sites whose schedule is chosen by simulating it with the latency and
 * bandwidth of each hop. The simulation executes the slots of each stage in their order: slot t
 * begins at max(end of the stage's slot before t, arrival of its input), and a hop begins when the
 * one before it in the same direction has left. Slots are taken round robin until none is left. */

static const orr_baseline_network_view CUTS = {.cuts = true, .latency = true};

typedef struct schedule_run {
    const orr_baseline_planner *r;
    const orr_plan *plan;
    const orr_baseline_stage *stages; /* shape (pp) */
    orr_schedule_plan schedule;
    uint32_t chunks, m, depth; /* chunks per stage, micro-batches, virtual stages in all */
    uint32_t *virtual_stage;   /* shape (pp, chunks): index of the virtual stage */
    double *input_ns[2]; /* shape (depth, m), forward and backward: when the input of a slot is
                               there; NAN: not yet */
    double *input_gradient_ns; /* shape (depth, m): when the gradient of activations was computed */
    double *free_ns;           /* shape (pp): end of the stage's last slot */
    double *link_free[2];      /* shape (pp): when the link from a stage is free, by direction */
    uint32_t *next;            /* shape (pp): number of slots done */
} schedule_run;

static double *times(orr_arena *arena, size_t n, double value)
{
    double *at = orr_arena_array(arena, double, n);
    for (size_t i = 0; at != NULL && i < n; i++)
        at[i] = value;
    return at;
}

static orr_status open_run(schedule_run *p, orr_arena *arena, orr_error *err)
{
    const orr_schedule_spec spec = orr_plan_schedule(p->plan);
    ORR_TRY(orr_schedule_make(&spec, arena, &p->schedule, err));
    p->chunks = spec.chunks;
    p->m = spec.micro_batches;
    p->depth = spec.stages * spec.chunks;
    const size_t n = (size_t)p->depth * p->m;
    p->virtual_stage = orr_arena_array(arena, uint32_t, p->depth);
    p->next = orr_arena_array(arena, uint32_t, spec.stages);
    p->input_gradient_ns = times(arena, n, NAN);
    p->free_ns = times(arena, spec.stages, 0);
    for (int direction = 0; direction < 2; direction++) {
        p->input_ns[direction] = times(arena, n, NAN);
        p->link_free[direction] = times(arena, spec.stages, 0);
    }
    if (p->virtual_stage == NULL || p->next == NULL || p->input_gradient_ns == NULL ||
        p->free_ns == NULL || p->input_ns[0] == NULL || p->input_ns[1] == NULL ||
        p->link_free[0] == NULL || p->link_free[1] == NULL)
        return orr_fail_memory(err);
    for (uint32_t k = 0; k < p->depth; k++)
        p->virtual_stage[p->schedule.stage_of[k] * p->chunks + p->schedule.chunk_of[k]] = k;
    for (uint32_t i = 0; i < p->m; i++)
        p->input_ns[0][i] = 0;
    return ORR_OK;
}

/* Arrival of a transfer from virtual stage k to its neighbour: transfers of a link are serialised,
 * one within a stage takes no time. */
static double arrival(schedule_run *p, uint32_t k, uint32_t to, double done_ns)
{
    const uint32_t from = p->schedule.stage_of[k], stage = p->schedule.stage_of[to],
                   direction = to < k;
    if (from == stage)
        return done_ns;
    const orr_baseline_link link =
        orr_baseline_link_of(p->r, p->stages[from].site, p->stages[stage].site, &CUTS);
    const double begin_ns = fmax(done_ns, p->link_free[direction][from]);
    p->link_free[direction][from] =
        begin_ns + orr_baseline_hop_bytes(p->r, p->plan) / link.bytes_per_s * 1e9;
    return p->link_free[direction][from] + link.latency_ns;
}

static double length_of(const schedule_run *p, const orr_schedule_slot *slot, uint32_t stage,
                        uint32_t k)
{
    const uint32_t site = p->stages[stage].site;
    const orr_baseline_layer_time layer = orr_baseline_layer_time_of(p->r, site, p->plan);
    const double head_ns = k + 1 == p->depth ? orr_baseline_head_ns(p->r, site, p->plan) : 0;
    const double layers = p->stages[stage].layers / p->chunks;
    switch ((orr_slot_phase)slot->phase) {
    case ORR_SLOT_FORWARD:
        return layers * layer.forward_ns + head_ns;
    case ORR_SLOT_BACKWARD:
        return layers * layer.backward_ns + 2 * head_ns;
    case ORR_SLOT_INPUT:
        return layers * (layer.backward_ns - layer.weight_ns) + head_ns;
    default:
        return layers * layer.weight_ns + head_ns;
    }
}

/* Executes the next slot of a stage. False: its input is not there yet. */
static bool run_slot(schedule_run *p, uint32_t stage)
{
    const orr_schedule_slot *slot = &p->schedule.slots[p->schedule.first[stage] + p->next[stage]];
    const uint32_t k = p->virtual_stage[stage * p->chunks + slot->chunk],
                   forward = slot->phase == ORR_SLOT_FORWARD;
    const size_t at = (size_t)k * p->m + slot->micro_batch;
    const double ready_ns =
        slot->phase == ORR_SLOT_WEIGHT ? p->input_gradient_ns[at] : p->input_ns[!forward][at];
    if (isnan(ready_ns))
        return false;
    const double done_ns = fmax(ready_ns, p->free_ns[stage]) + length_of(p, slot, stage, k);
    p->free_ns[stage] = done_ns;
    p->next[stage]++;
    if (slot->phase == ORR_SLOT_WEIGHT)
        return true;
    if (!forward)
        p->input_gradient_ns[at] = done_ns;
    if (forward && k + 1 < p->depth)
        p->input_ns[0][at + p->m] = arrival(p, k, k + 1, done_ns);
    else if (forward)
        p->input_ns[1][at] = done_ns;
    else if (k > 0)
        p->input_ns[1][at - p->m] = arrival(p, k, k - 1, done_ns);
    return true;
}

/* Gradients of a stage are reduced after its last slot, concurrently with other stages. */
static double run_schedule(schedule_run *p)
{
    double end_ns = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t stage = 0; stage < p->plan->pp; stage++)
            while (p->schedule.first[stage] + p->next[stage] < p->schedule.first[stage + 1] &&
                   run_slot(p, stage))
                moved = true;
    }
    for (uint32_t stage = 0; stage < p->plan->pp; stage++)
        end_ns = fmax(end_ns, p->free_ns[stage] +
                                  orr_baseline_sync_ns(p->r, p->plan, &p->stages[stage], &CUTS));
    return end_ns;
}

orr_status orr_baseline_simulate_schedule(orr_baseline_planner *r, const orr_plan *plan,
                                          double *ret_ns, orr_error *err)
{
    orr_baseline_stage stages[ORR_BASELINE_MAX_STAGES];
    const orr_arena_mark mark = orr_arena_get_mark(r->arena);
    const orr_plan whole = orr_plan_with_defaults(plan);
    schedule_run p = {.r = r, .plan = &whole, .stages = stages};
    orr_baseline_stages_of(r, plan, stages);
    const orr_status status = open_run(&p, r->arena, err);
    if (status == ORR_OK)
        *ret_ns = run_schedule(&p);
    orr_arena_rewind(r->arena, mark);
    return status;
}

static orr_status refine(orr_baseline_planner *r, orr_plan *plan, double *ret_ns, orr_error *err)
{
    bool fits;
    ORR_TRY(orr_baseline_fits(r, plan, &fits, err));
    *ret_ns = INFINITY;
    return fits ? orr_baseline_simulate_schedule(r, plan, ret_ns, err) : ORR_OK;
}

/* Lower bound of any schedule: the busiest stage without idle time. */
static double lower_bound_ns(const orr_baseline_planner *r, const orr_plan *plan)
{
    const orr_baseline_layer_time layer = orr_baseline_layer_time_of(r, 0, plan);
    const double m = (double)r->batch / plan->dp / plan->micro_batch;
    double fastest = 0, slices = (double)plan->tp * plan->cp;
    for (uint32_t s = 0; s < r->n_sites; s++)
        fastest = fmax(fastest, r->sites[s].flops_per_s);
    const double slack = r->sites[0].flops_per_s /
                         fastest; /* ratio of the fastest site to site 0, whose times are used */
    return m * ((double)r->layers / plan->pp * (layer.forward_ns + layer.backward_ns) * slack +
                3 * plan->micro_batch * r->head_flops / slices / fastest * 1e9 / plan->pp);
}

static orr_status add_schedules(orr_baseline_planner *r, orr_plan plan, orr_error *err)
{
    static const struct {
        uint8_t schedule;
        uint32_t vp, group; /* `group` in multiples of pp; 0: the smallest */
    } schedules[] = {{ORR_SCHEDULE_1F1B, 1, 0},        {ORR_SCHEDULE_GPIPE, 1, 0},
                     {ORR_SCHEDULE_INTERLEAVED, 2, 0}, {ORR_SCHEDULE_INTERLEAVED, 4, 0},
                     {ORR_SCHEDULE_INTERLEAVED, 2, 2}, {ORR_SCHEDULE_ZB_H1, 1, 0},
                     {ORR_SCHEDULE_ZB_V, 2, 0}};
    const bool given = r->given.schedule != 0 || r->given.vp > 0 || plan.pp == 1;
    const double bound = lower_bound_ns(r, &plan);
    for (uint32_t i = 0; i < (given ? 1 : sizeof schedules / sizeof *schedules); i++) {
        if (!given) {
            plan.schedule = schedules[i].schedule;
            plan.vp = schedules[i].vp;
            plan.group = schedules[i].group * plan.pp;
        }
        if (plan.vp == 0 || plan.pp * plan.vp <= r->layers)
            ORR_TRY(orr_baseline_add_candidate(r, &plan, bound, err));
    }
    return ORR_OK;
}

static orr_status visit_crosspipe(orr_baseline_planner *r, const orr_plan *visited, orr_error *err)
{
    orr_plan plan = *visited;
    if (orr_baseline_count_sites(r) > 1 && plan.pp == 1)
        return ORR_OK;
    plan.dp = orr_baseline_next_lower_dp(r, visited, 0);
    if (plan.dp == 0 || !orr_baseline_assign_stages(r, true, &plan))
        return ORR_OK;
    return add_schedules(r, plan, err);
}

/* CrossPipe (ATC 2025, arXiv 2507.00217): stages cross the sites, replicas do not; the schedule is
 * chosen with latency and bandwidth of every hop and with the memory in mind, and gradients are
 * reduced beside the slots of other stages. The schedules to choose from are those that a plan can
 * name, zero bubble and deeper interleaving among them; the publication builds its own order slot
 * by slot, by a solver or greedily. Degrees, which it takes as given, are enumerated. Left out:
 * transfers in chunks. */
orr_status orr_baseline_crosspipe(orr_baseline_planner *r, orr_error *err)
{
    ORR_TRY(orr_baseline_enumerate(r, visit_crosspipe, err));
    return orr_baseline_refine_candidates(r, refine, err);
}
