/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "model/plan/plan.h"
#include "estimate/estimate.h"

/* Family bound: a lower bound of the step of every plan with the same modules.
 *
 * Claim: step >= work / rate + rest. `work` is the number of micro-batches times the slices of
 * each, `rate` is how many of them all devices finish in a ns if none ever idles, fastest devices
 * first, and `rest` is the optimizer update and the constants of a step. Proof: every schedule
 * computes all micro-batches on at most these devices, which is the area bound of scheduling; the
 * update comes after all gradients, and each parameter is updated by someone.
 *
 * Relaxations make it hold for every layout and schedule: groups lie as close together as the
 * fewest ranks with these modules can, the network of the best site counts for all, and for
 * DUALPIPE, overlapped slots or an unknown schedule, transfers within modules are hidden. */

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
    memset(p.section_stages, 0, sizeof p.section_stages);
    memset(p.section_layers, 0, sizeof p.section_layers);
    return p;
}

/* Work of a micro-batch, summed over the ranks of all stages. */
typedef struct work {
    double span_ns;       /* phases one after another */
    double compute_ns;    /* with all transfers within modules hidden */
    double dense, expert; /* number of weights with a gradient */
} work;

static double sum_phases(const float ns[ORR_SLOT_PHASES])
{
    const double split = (double)ns[ORR_SLOT_INPUT] + ns[ORR_SLOT_WEIGHT];
    return ns[ORR_SLOT_FORWARD] + fmin(ns[ORR_SLOT_BACKWARD], split);
}

static work sum_work(const orr_calibration *c, const orr_plan *plan, const orr_priced_row *row,
                     double stretch)
{
    const double host = 2 * floor(c->micro_batch_ns / 2);
    work sum = {.span_ns = host, .compute_ns = host};
    uint32_t count[ORR_ROW_MODULES] = {0};
    for (uint32_t i = 0; i < row->row.n; i++)
        count[row->row.module_of[i]]++;
    for (uint32_t m = 0; m < row->row.n_modules; m++) {
        const orr_priced_module *module = &row->modules[m];
        float least[ORR_SLOT_PHASES], compute[ORR_SLOT_PHASES];
        if (count[m] == 0)
            continue;
        for (int phase = 0; phase < ORR_SLOT_PHASES; phase++) {
            least[phase] = (float)orr_estimate_phase_bound(c, plan, stretch, module, phase);
            const float waits = module->span_ns[phase] - module->compute_ns[phase];
            compute[phase] = (float)fmax(least[phase] - stretch * fmax(waits, 0), 0);
        }
        sum.span_ns += count[m] * sum_phases(least);
        sum.compute_ns += count[m] * sum_phases(compute);
        sum.dense += count[m] * (double)module->weights.dense;
        sum.expert += count[m] * (double)module->weights.expert;
    }
    return sum;
}

/* Each parameter is updated at least once; offloaded to the host, it is at least transferred there
 * and back. */
static double update_ns(const orr_device *device, const orr_plan *plan, const work *sum, uint32_t n)
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
static orr_status bound_kind(orr_estimator *e, const orr_plan *plan,
                             const device_kind *device_kinds, uint32_t n_device_kinds,
                             uint32_t n_devices, bool hide_transfers, device_kind *of,
                             orr_error *err)
{
    const orr_calibration *c = e->devices[of->device].calibration;
    for (uint32_t k = 0; k < n_device_kinds; k++) {
        const orr_plan p = within_site(e, plan, device_kinds[k].site);
        const double stretch =
            orr_job_jitter(e->devices[device_kinds[k].device].calibration, n_devices);
        const orr_placement *place;
        const orr_priced_row *row;
        ORR_TRY(orr_estimate_placement(e, &p, &place, err));
        ORR_TRY(orr_estimate_row(e, &p, place, of->device, &row, err));
        const work sum = sum_work(c, &p, row, stretch);
        of->micro_batch_ns =
            fmin(of->micro_batch_ns, hide_transfers ? sum.compute_ns : sum.span_ns);
        of->rest_ns =
            fmin(of->rest_ns, update_ns(e->devices[of->device].device, &p, &sum, n_devices));
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

orr_status orr_estimate_family_bound(orr_estimator *e, const orr_plan *plan, uint32_t n_devices,
                                     double *ret_ns, orr_error *err)
{
    orr_plan p = fewest_ranks(plan);
    device_kind device_kinds[ORR_SITES_MAX + 1];
    uint32_t n_device_kinds;
    double rest = INFINITY;
    p.seq = orr_estimate_sequence(e, plan);
    ORR_TRY(orr_plan_check(&p, err));
    ORR_TRY(find_device_kinds(e, device_kinds, &n_device_kinds, err));
    if (e->model->kind !=
        ORR_MODEL_TRANSFORMER) { /* embedding tables depend on the number of replicas */
        *ret_ns = 0;
        return ORR_OK;
    }
    const bool hide_transfers = plan->schedule == ORR_SCHEDULE_UNKNOWN ||
                                plan->schedule == ORR_SCHEDULE_DUALPIPE ||
                                (plan->overlap_ep == ORR_SWITCH_ON && plan->ep > 1);
    for (uint32_t k = 0; k < n_device_kinds; k++) {
        ORR_TRY(bound_kind(e, &p, device_kinds, n_device_kinds, n_devices, hide_transfers,
                           &device_kinds[k], err));
        rest = fmin(rest, device_kinds[k].rest_ns);
    }
    const double micro_batches = (double)plan->batch / p.micro_batch * p.tp * p.cp;
    *ret_ns = fmax(
        (micro_batches / rate_of(device_kinds, n_device_kinds, n_devices) + rest) * (1 - 3e-6) - 8,
        0);
    return ORR_OK;
}
