/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "model/plan/plan.h"
#include "estimate/bound_family.h"

/* Family bound: a lower bound of the step of every plan with the same modules.
 *
 * Claim: step >= work / rate + rest. `work` is the number of micro-batches times the slices of
 * each, `rate` is how many of them all devices finish in a ns if none ever idles, fastest devices
 * first, and `rest` is the optimizer update and the constants of a step. Proof: every schedule
 * computes all micro-batches on at most these devices, which is the area bound of scheduling; the
 * update comes after all gradients, and each parameter is updated by someone.
 *
 * Relaxations make it hold for every layout and schedule: groups lie as close together as the
 * fewest ranks with these modules can, and the network of the best site counts for all. Where
 * slots may run in pairs (DUALPIPE, overlapped slots, an unknown schedule), transfers are hidden
 * but for two bounds of a pair: its computation, with what that certainly loses beside transfers,
 * and its backward slot alone. */

/* The plan on as few ranks as can have its modules: its groups lie as close together as possible.
 */
static orr_plan fewest_ranks(const orr_plan *plan)
{
    orr_plan p = orr_plan_with_defaults(plan);
    const uint32_t slices = p.tp * p.cp;
    p.pp = p.vp = p.dp = 1;
    p.schedule = ORR_SCHEDULE_1F1B;
    while (p.dp * slices % (p.ep * p.etp) != 0)
        p.dp++;
    p.micro_batches = 1;
    p.batch = p.dp * p.micro_batch;
    p.zero = p.shards = p.first_layers = p.last_layers = p.group = p.prefetch = 0;
    p.dp_outer = p.local_steps = 1;
    p.cross = ORR_CROSS_UNKNOWN;
    memset(p.sites, 0, sizeof p.sites);
    memset(p.site_micro_batches, 0, sizeof p.site_micro_batches);
    memset(p.section_stages, 0, sizeof p.section_stages);
    memset(p.section_layers, 0, sizeof p.section_layers);
    return p;
}

orr_paired_phase orr_module_paired_phase(const orr_plan *plan, double stretch,
                                         const orr_priced_module *module, int phase)
{
    const double pieces = plan->overlap_tp == ORR_SWITCH_ON ? plan->tp : 0;
    const double waits = fmax((double)module->span_ns[phase] - module->compute_ns[phase], 0);
    const double device = fmax(
        stretch * module->device_ns[phase] * (1 - 1e-6) - module->tasks[phase] * (1.5 + pieces), 0);
    return (orr_paired_phase){.chain_ns = device,
                              .compute_ns =
                                  fmax(device - stretch * (waits - module->slowed_ns[phase]), 0)};
}

orr_work_cost orr_module_work_cost(const orr_calibration *c, const orr_plan *plan, double stretch,
                                   const orr_priced_module *module)
{
    double slot[ORR_SLOT_PHASES];
    orr_paired_phase paired[ORR_SLOT_PHASES];
    for (int i = 0; i < ORR_SLOT_PHASES; i++) {
        slot[i] = orr_estimate_phase_bound(c, plan, stretch, module, i);
        paired[i] = orr_module_paired_phase(plan, stretch, module, i);
    }
    const orr_paired_phase *back = &paired[ORR_SLOT_BACKWARD], *input = &paired[ORR_SLOT_INPUT],
                           *weight = &paired[ORR_SLOT_WEIGHT];
    return (orr_work_cost){
        .ns = {[ORR_COST_PLAIN] = slot[ORR_SLOT_FORWARD] + slot[ORR_SLOT_BACKWARD],
               [ORR_COST_SPLIT] =
                   slot[ORR_SLOT_FORWARD] + slot[ORR_SLOT_INPUT] + slot[ORR_SLOT_WEIGHT],
               [ORR_COST_COMPUTE] = paired[ORR_SLOT_FORWARD].compute_ns +
                                    fmin(back->compute_ns, input->compute_ns + weight->compute_ns),
               [ORR_COST_CHAIN] = fmin(back->chain_ns, input->chain_ns + weight->chain_ns)},
        .forward_ns = slot[ORR_SLOT_FORWARD],
        .backward_ns = slot[ORR_SLOT_BACKWARD]};
}

/* Work of a micro-batch, summed over the ranks of all stages. */
static void sum_work(const orr_calibration *c, const orr_plan *plan, const orr_priced_row *row,
                     double stretch, orr_family_work *ret)
{
    *ret = (orr_family_work){.row = row,
                             .slot_host_ns = fmax(stretch * floor(c->micro_batch_ns / 2) - 1, 0)};
    uint32_t count[ORR_ROW_MODULES] = {0};
    for (uint32_t i = 0; i < row->row.n; i++)
        count[row->row.module_of[i]]++;
    for (uint32_t m = 0; m < row->row.n_modules; m++) {
        const orr_priced_module *module = &row->modules[m];
        if (count[m] == 0)
            continue;
        const orr_work_cost cost = orr_module_work_cost(c, plan, stretch, module);
        for (int way = 0; way < ORR_COST_WAYS; way++)
            ret->total.ns[way] += count[m] * cost.ns[way];
        ret->dense += count[m] * (double)module->weights.dense;
        ret->expert += count[m] * (double)module->weights.expert;
    }
}

/* Time of a micro-batch in the schedules that the plan may have. */
static double micro_batch_ns(const orr_plan *plan, const orr_family_work *work)
{
    const double *ns = work->total.ns, hosts = 2 * work->slot_host_ns;
    const bool pairs = plan->schedule == ORR_SCHEDULE_UNKNOWN ||
                       plan->schedule == ORR_SCHEDULE_DUALPIPE ||
                       (plan->overlap_ep == ORR_SWITCH_ON && plan->ep > 1);
    const double one_by_one = fmin(ns[ORR_COST_PLAIN], ns[ORR_COST_SPLIT]),
                 paired = fmax(ns[ORR_COST_COMPUTE], ns[ORR_COST_CHAIN]);
    return (pairs ? fmin(one_by_one, paired) : one_by_one) + hosts;
}

/* Each parameter is updated at least once; offloaded to the host, it is at least transferred there
 * and back. */
static double update_ns(const orr_device *device, const orr_plan *plan, const orr_family_work *sum,
                        uint32_t n)
{
    const double owned = floor((sum->dense * plan->tp + sum->expert * plan->ep * plan->etp) / n);
    const double copied = orr_fact_or(&device->achievable_pcie_bytes_per_s,
                                      orr_fact_or(&device->pcie_bytes_per_s, 32e9));
    const double read = orr_fact_or(&device->memory_bytes_per_s, INFINITY);
    return 1e9 * owned * fmin(4 / copied, 24 / read);
}

/* The devices of one kind, and lower bounds of their times. */
typedef struct device_kind {
    uint32_t site, device, n;
    double micro_batch_ns, rest_ns; /* of the modules of a rank; of everything else in a step */
} device_kind;

static orr_status find_device_kinds(orr_estimator *e, device_kind *device_kinds, uint32_t *ret_n,
                                    orr_error *err)
{
    const orr_cluster *c = e->cluster;
    uint32_t n = 0;
    for (uint32_t s = 0; s < (c->n_sites > 0 ? c->n_sites : 1); s++) {
        const orr_device *device = c->n_sites > 0 ? c->sites[s].device : NULL;
        uint32_t id, k = 0;
        ORR_TRY(orr_estimate_device_of(e, device != NULL ? device : c->device, &id, err));
        while (k < n && device_kinds[k].device != id)
            k++;
        if (k == n)
            device_kinds[n++] = (device_kind){
                .site = s, .device = id, .micro_batch_ns = INFINITY, .rest_ns = INFINITY};
        device_kinds[k].n += c->n_sites > 0 ? c->sites[s].devices : c->n_devices;
    }
    *ret_n = n;
    return ORR_OK;
}

/* The plan within one site: network constants are then those of its devices. */
static orr_plan within_site(const orr_estimator *e, const orr_plan *plan, uint32_t site)
{
    orr_plan p = *plan;
    if (e->cluster->n_sites > 0) {
        p.cross = ORR_CROSS_DP;
        p.sites[site] = (uint16_t)p.dp;
    }
    return p;
}

/* Bounds for one kind of device, over the network of the best site. */
static orr_status bound_kind(orr_estimator *e, const orr_plan *plan, uint8_t schedule,
                             const device_kind *device_kinds, uint32_t n_device_kinds,
                             uint32_t n_devices, device_kind *of, orr_family_work *ret,
                             orr_error *err)
{
    const orr_calibration *c = e->devices[of->device].calibration;
    for (uint32_t k = 0; k < n_device_kinds; k++) {
        orr_plan p = within_site(e, plan, device_kinds[k].site);
        const double stretch =
            orr_job_jitter(e->devices[device_kinds[k].device].calibration, n_devices);
        const orr_placement *place;
        const orr_priced_row *row;
        ORR_TRY(orr_estimate_placement(e, &p, &place, err));
        ORR_TRY(orr_estimate_row(e, &p, place, of->device, &row, err));
        sum_work(c, &p, row, stretch, ret);
        p.schedule = schedule;
        of->micro_batch_ns = fmin(of->micro_batch_ns, micro_batch_ns(&p, ret));
        of->rest_ns =
            fmin(of->rest_ns, update_ns(e->devices[of->device].device, &p, ret, n_devices));
    }
    of->rest_ns += floor(c->step_ns);
    return ORR_OK;
}

/* Micro-batches of a slice that all devices finish in a ns, fastest devices first. */
static double rate_of(const device_kind *device_kinds, uint32_t n_device_kinds, uint32_t n_devices)
{
    bool taken[ORR_SITES_MAX + 1] = {false};
    double rate = 0;
    for (uint32_t i = 0; i < n_device_kinds; i++) {
        uint32_t best = ORR_NONE;
        for (uint32_t k = 0; k < n_device_kinds; k++)
            if (!taken[k] && (best == ORR_NONE ||
                              device_kinds[k].micro_batch_ns < device_kinds[best].micro_batch_ns))
                best = k;
        const uint32_t n = device_kinds[best].n < n_devices ? device_kinds[best].n : n_devices;
        taken[best] = true;
        rate += n / device_kinds[best].micro_batch_ns;
        n_devices -= n;
    }
    return rate;
}

orr_status orr_family_parts_of(orr_estimator *e, const orr_plan *plan, uint32_t n_devices,
                               orr_family_parts *ret, orr_error *err)
{
    orr_family_parts parts = {.plan = fewest_ranks(plan), .rest_ns = INFINITY};
    device_kind device_kinds[ORR_SITES_MAX + 1];
    orr_plan *p = &parts.plan;
    p->seq = orr_estimate_sequence(e, plan);
    ORR_TRY(orr_plan_check(p, err));
    ORR_TRY(find_device_kinds(e, device_kinds, &parts.n_device_kinds, err));
    if (e->model->kind !=
        ORR_MODEL_TRANSFORMER) { /* embedding tables depend on the number of replicas */
        *ret = (orr_family_parts){.n_device_kinds = 0};
        return ORR_OK;
    }
    for (uint32_t k = 0; k < parts.n_device_kinds; k++) {
        ORR_TRY(bound_kind(e, p, plan->schedule, device_kinds, parts.n_device_kinds, n_devices,
                           &device_kinds[k], &parts.work, err));
        parts.rest_ns = fmin(parts.rest_ns, device_kinds[k].rest_ns);
    }
    parts.on = &e->devices[device_kinds[0].device];
    parts.jitter = orr_job_jitter(parts.on->calibration, n_devices);
    const double micro_batches = (double)plan->batch / p->micro_batch * p->tp * p->cp;
    const double rate = rate_of(device_kinds, parts.n_device_kinds, n_devices);
    parts.bound_ns = fmax((micro_batches / rate + parts.rest_ns) * (1 - 3e-6) - 8, 0);
    *ret = parts;
    return ORR_OK;
}

orr_status orr_estimate_family_bound(orr_estimator *e, const orr_plan *plan, uint32_t n_devices,
                                     double *ret_ns, orr_error *err)
{
    orr_family_parts parts;
    ORR_TRY(orr_family_parts_of(e, plan, n_devices, &parts, err));
    *ret_ns = parts.bound_ns;
    return ORR_OK;
}
