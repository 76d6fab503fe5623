/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include <orrery/calibration.h>

#include "model/plan/plan.h"
#include "explore/baseline/baseline.h"

/* What baseline planners know of the job and the machine: what a profile would tell. */

enum { DEFAULT_TOKENS = 8192 }; /* default tokens of a sample, as in orr_workload */

bool orr_baseline_allows(const orr_baseline_planner *r, const orr_plan *plan)
{
    const orr_plan whole = orr_plan_with_defaults(plan);
    const uint64_t ranks = orr_plan_ranks(&whole);
    for (uint32_t i = 0; i < ORR_PLAN_FIELDS; i++)
        if (!orr_space_allows(&r->constraints, i, orr_plan_get(&whole, i)))
            return false;
    return ranks >= r->options->min_devices &&
           (r->options->max_devices == 0 || ranks <= r->options->max_devices);
}

/* --- machine ----------------------------------------------------------------------------- */

/* FLOP/s of large matrix products, as a profile would measure. */
static orr_status read_speed(orr_baseline_planner *r, const orr_device *device, double *ret,
                             orr_error *err)
{
    const orr_dtype dtype = orr_precision_dtype(r->given.precision);
    const orr_calibration *calibration =
        device == r->cluster->device ? r->options->calibration : NULL;
    if (calibration == NULL)
        ORR_TRY(orr_calibration_of(device, r->options->software_year, r->arena, &calibration, err));
    const double reached = dtype == ORR_DTYPE_FP8   ? calibration->matmul_fp8
                           : dtype == ORR_DTYPE_FP4 ? calibration->matmul_fp4
                                                    : calibration->matmul_bf16;
    *ret = orr_fact_or(&device->peak_flops[dtype], NAN) * reached;
    if (*ret > 0)
        return ORR_OK;
    return orr_fail(err, ORR_INVALID, "what %s reaches in %s is not known", device->name,
                    orr_dtype_name(dtype));
}

/* Defaults are 1 GB/s and no latency, as in orr_network_of_cluster(). */
static orr_baseline_link link_of(const orr_fact *bytes_per_s, const orr_fact *latency_ns,
                                 double oversubscription)
{
    return (orr_baseline_link){.bytes_per_s =
                                   orr_fact_or(bytes_per_s, 1e9) / fmax(oversubscription, 1),
                               .latency_ns = orr_fact_or(latency_ns, 0)};
}

static void read_levels(orr_baseline_planner *r)
{
    const orr_cluster *c = r->cluster;
    r->n_inner_levels = c->n_sites > 0 ? c->site_level + 1 : c->n_levels;
    for (uint32_t l = 0; l < r->n_inner_levels; l++) {
        const orr_level *level = &c->levels[l];
        r->level_devices[l] = level->devices;
        r->level_bytes_per_s[l] = link_of(&level->bytes_per_s, &level->latency_ns,
                                          orr_fact_or(&level->oversubscription, 1))
                                      .bytes_per_s;
    }
    const orr_level *host = &c->levels[0], *above = &c->levels[r->n_inner_levels > 1 ? 1 : 0];
    r->host = link_of(&host->bytes_per_s, &host->latency_ns, 1);
    r->inner = link_of(&above->bytes_per_s, &above->latency_ns, 1);
    r->host_devices = host->devices;
}

static void read_cuts(orr_baseline_planner *r)
{
    for (uint32_t i = 0; i < r->cluster->n_cuts; i++) {
        const orr_site_link *cut = &r->cluster->cuts[i];
        r->cut[cut->a][cut->b] = r->cut[cut->b][cut->a] =
            link_of(&cut->bytes_per_s, &cut->latency_ns, orr_fact_or(&cut->oversubscription, 1));
    }
}

/* Keeps the largest sites where the options limit their number. */
static void keep_largest_sites(orr_baseline_planner *r)
{
    const uint32_t most = r->options->max_sites > 0 ? r->options->max_sites : r->n_sites;
    while (orr_baseline_count_sites(r) > most) {
        uint32_t least = r->n_sites;
        for (uint32_t s = 0; s < r->n_sites; s++)
            if (r->sites[s].devices > 0 &&
                (least == r->n_sites || r->sites[s].devices <= r->sites[least].devices))
                least = s;
        r->sites[least].devices = 0;
    }
}

static orr_status read_sites(orr_baseline_planner *r, orr_error *err)
{
    const orr_cluster *c = r->cluster;
    r->n_sites = c->n_sites > 0 ? c->n_sites : 1;
    r->sites[0] = (orr_baseline_site){.devices = c->n_devices, .device = c->device, .region = ""};
    for (uint32_t s = 0; s < c->n_sites; s++)
        r->sites[s] = (orr_baseline_site){.devices = c->sites[s].devices,
                                          .device = c->sites[s].device != NULL ? c->sites[s].device
                                                                               : c->device,
                                          .region = c->sites[s].region};
    for (uint32_t s = 0; s < r->n_sites; s++)
        ORR_TRY(read_speed(r, r->sites[s].device, &r->sites[s].flops_per_s, err));
    keep_largest_sites(r);
    if (r->n_sites == 1 && r->options->max_devices > 0 &&
        r->options->max_devices < r->sites[0].devices)
        r->sites[0].devices = r->options->max_devices;
    return ORR_OK;
}

uint32_t orr_baseline_default_zero(const orr_baseline_planner *r)
{
    return r->given.zero > 0 ? r->given.zero : orr_space_allows(&r->constraints, ORR_AT_zero, 1);
}

uint32_t orr_baseline_count_sites(const orr_baseline_planner *r)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < r->n_sites; s++)
        n += r->sites[s].devices > 0;
    return n;
}

/* --- job --------------------------------------------------------------------------------- */

static orr_status read_model(orr_baseline_planner *r, orr_error *err)
{
    const orr_model *m = r->model;
    orr_model_size size;
    double experts = 0, ends = 0;
    ORR_TRY(orr_model_count_parameters(m, r->arena, &size, err));
    if (m->kind != ORR_MODEL_TRANSFORMER || m->layers == 0)
        return orr_fail(err, ORR_UNSUPPORTED, "%s has no layers that could be dealt out", m->name);
    for (uint32_t i = 0; i < size.n; i++) {
        const orr_model_part *part = &size.parts[i];
        const double elements = (double)part->count * (double)part->each;
        experts += strcmp(part->name, "experts") == 0 ? elements : 0;
        ends +=
            strcmp(part->name, "embedding") == 0 || strcmp(part->name, "head") == 0 ? elements : 0;
    }
    for (uint32_t i = 0; i < m->layers; i++)
        r->layer_moe_frac += orr_model_layer_moe(m, i) ? 1.0 / m->layers : 0;
    r->layers = m->layers;
    r->hidden = m->hidden;
    r->head_flops = 2.0 * m->hidden * m->vocab * r->seq;
    r->layer_flops = (orr_model_flops(m, r->seq, false) - r->head_flops) / m->layers;
    r->layer_expert_elements = experts / m->layers;
    r->layer_elements = ((double)size.total - experts - ends) / m->layers;
    return ORR_OK;
}

/* A choice whose values are all excluded but that of not using it counts as fixed. */
static void fix_excluded(orr_baseline_planner *r)
{
    for (uint32_t c = 0; c < ORR_PLAN_CHOICES; c++) {
        const orr_plan_choice *choice = orr_plan_choice_at(c);
        uint8_t *given = orr_plan_choice_field(&r->given, c);
        if (*given != 0 || !(r->constraints.excluded_fields >> (ORR_PLAN_NUMBERS + c) & 1))
            continue;
        for (uint8_t v = 1; v < choice->n; v++)
            if (strcmp(choice->words[v], "off") == 0 || strcmp(choice->words[v], "none") == 0)
                *given = v;
    }
    for (uint32_t i = 0; i < ORR_PLAN_NUMBERS; i++)
        if (i != ORR_AT_zero && *orr_plan_field(&r->given, i) == 0 &&
            (r->constraints.excluded_fields >> i & 1))
            *orr_plan_field(&r->given, i) = 1;
}

/* Overlap of transfers is a property of the software that no publication chooses: it is the same
 * for all planners, on for slices and tokens as in Megatron and DeepSeek-V3. */
static void fix_overlap(orr_baseline_planner *r)
{
    if (r->given.overlap_tp == 0)
        r->given.overlap_tp = ORR_SWITCH_ON;
    if (r->given.overlap_ep == 0 && r->model->moe.experts > 0)
        r->given.overlap_ep = ORR_SWITCH_ON;
}

static orr_status read_job(orr_baseline_planner *r, const orr_model *model, orr_error *err)
{
    const orr_explore_options *o = r->options;
    ORR_TRY(orr_space_read_constraints(o, &r->constraints, err));
    r->given = r->constraints.fixed;
    fix_excluded(r);
    if (r->given.batch == 0)
        return orr_fail(err, ORR_INVALID, "the batch is not given (batch=2048)");
    if (r->given.micro_batch > r->given.batch || r->given.dp > r->given.batch)
        return orr_fail(err, ORR_INVALID, "a batch of %u does not fill what is given",
                        r->given.batch);
    ORR_TRY(orr_model_override(model, &r->given, r->arena, &r->model, err));
    if (!o->unaided)
        fix_overlap(r);
    const uint32_t usual = model->context < DEFAULT_TOKENS ? model->context : DEFAULT_TOKENS;
    r->batch = r->given.batch;
    r->seq = o->workload.seq > 0 ? o->workload.seq : r->given.seq > 0 ? r->given.seq : usual;
    return read_model(r, err);
}

orr_status orr_baseline_open(orr_baseline_planner *r, const orr_model *model,
                             const orr_cluster *cluster, const orr_explore_options *options,
                             orr_error *err)
{
    *r = (orr_baseline_planner){
        .cluster = cluster, .options = options, .arena = orr_arena_new(0, 0)};
    if (r->arena == NULL)
        return orr_fail_memory(err);
    ORR_TRY(read_job(r, model, err));
    ORR_TRY(read_sites(r, err));
    read_levels(r);
    read_cuts(r);
    return orr_evaluator_new(model, cluster, options, &r->evaluator, err);
}

void orr_baseline_close(orr_baseline_planner *r)
{
    orr_array_done(&r->candidates);
    orr_evaluator_free(r->evaluator);
    orr_arena_free(r->arena);
}
