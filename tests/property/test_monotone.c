/* SPDX-License-Identifier: Apache-2.0 */
#include "../unit/outcome/catalog_jobs.h"
#include "model/memory/memory.h"
#include "support/seeds.h"
#include "support/random_plans.h"
#include "support/random_tables.h"

#include <stdio.h>
#include <stdlib.h>

/* A better machine is never slower: over all clusters of the catalogue and random plans of dense
 * models, mixtures of experts with even and uneven loads, latent attention, recommendation, and of
 * inference, a step gets no longer, and a plan that fits still fits, when
 *
 *   - a link is wider, its latency lower, its oversubscription smaller, on any level or between any
 *     two sites;
 *   - a unit of the device is faster, its memory larger;
 *   - a parameter of the calibration is better: launches, fixed times, shares of peaks;
 *   - of embedding tables that are sharded any way, fewer rows are looked up.
 *
 * Half of the plans start from a machine whose links and units are not the catalogue's, so that
 * what lies between the machines that exist is tried, too. Every step is simulated, and only whole
 * ns may be rounded. The estimator chooses among paths that it knows and is held to what it
 * promises of its error. */
enum { SEEDS = 500, TRIES = 40, CLUSTERS_MOST = 64, TECHNOLOGIES_MOST = 32 };

typedef struct workload_case {
    const char *model;
    uint8_t task;
    uint32_t most_ranks;
} workload_case;
static const workload_case CASES[] = {
    {"llama3.1-8b", ORR_TASK_PRETRAIN, 512},    {"llama3.1-70b", ORR_TASK_PRETRAIN, 1024},
    {"gpt3-175b", ORR_TASK_PRETRAIN, 1024},     {"mixtral-8x7b", ORR_TASK_PRETRAIN, 512},
    {"deepseek-v3", ORR_TASK_PRETRAIN, 2048},   {"deepseek-v2", ORR_TASK_SFT, 512},
    {"dlrm-dcnv2", ORR_TASK_PRETRAIN, 64},      {"llama3.1-8b", ORR_TASK_LORA, 64},
    {"llama3.1-70b", ORR_TASK_DECODE, 64},      {"mixtral-8x7b", ORR_TASK_DECODE, 64},
    {"llama3.1-70b", ORR_TASK_PREFILL, 64},     {"deepseek-v3", ORR_TASK_PREFILL, 256},
    {"llama3.1-405b", ORR_TASK_PRETRAIN, 4096}, {"deepseek-v3", ORR_TASK_DECODE, 256},
};
enum { N_CASES = sizeof CASES / sizeof *CASES };

/* A machine that may be changed, in static storage. */
typedef struct machine {
    orr_cluster cluster;
    orr_level levels[ORR_LEVELS_MAX];
    orr_site sites[ORR_SITES_MAX];
    orr_site_link cuts[ORR_SITE_LINKS_MAX];
    orr_device device, site_device[ORR_SITES_MAX];
    orr_calibration calibration;
    orr_link_rates links[TECHNOLOGIES_MOST];
} machine;

typedef struct scene {
    plan_world w;
    orr_random random;
    uint64_t seed;
    const orr_model *models[N_CASES];
    const workload_case *job;
    const orr_model *model;
    orr_plan plan;
    orr_workload workload;
    orr_embedding_plan tables;
    orr_expert_load load;
    machine base;
    uint64_t n_compared, n_estimated;
} scene;

typedef struct result {
    int64_t step_ns, estimate_ns;
    bool fits, estimate_fits;
} result;

/* --- machines --------------------------------------------------------------------------------- */

static void point_inside(machine *m)
{
    m->cluster.levels = m->levels;
    m->cluster.device = &m->device;
    m->calibration.links = m->links;
    if (m->cluster.n_sites > 0)
        m->cluster.sites = m->sites;
    if (m->cluster.n_cuts > 0)
        m->cluster.cuts = m->cuts;
    for (uint32_t i = 0; i < m->cluster.n_sites; i++)
        m->sites[i].device = &m->site_device[i];
}

static void copy_machine(machine *to, const machine *from)
{
    *to = *from;
    point_inside(to);
    for (uint32_t i = 0; i < to->cluster.n_sites; i++)
        if (from->sites[i].device == &from->device)
            to->sites[i].device = &to->device;
}

static void open_machine(scene *s, const orr_cluster *cluster)
{
    machine *m = &s->base;
    const orr_calibration *c;
    memset(m, 0, sizeof *m);
    m->cluster = *cluster;
    m->device = *cluster->device;
    memcpy(m->levels, cluster->levels, cluster->n_levels * sizeof *m->levels);
    for (uint32_t i = 0; i < cluster->n_sites; i++) {
        m->sites[i] = cluster->sites[i];
        m->site_device[i] = *cluster->sites[i].device;
    }
    for (uint32_t i = 0; i < cluster->n_cuts; i++)
        m->cuts[i] = cluster->cuts[i];
    point_inside(m);
    for (uint32_t i = 0; i < cluster->n_sites; i++)
        if (cluster->sites[i].device == cluster->device)
            m->sites[i].device = &m->device;
    world_must(&s->w, orr_calibration_of(cluster->device, 0, s->w.arena, &c, &s->w.err),
               "calibration");
    m->calibration = *c;
    assert_true(c->n_links <= TECHNOLOGIES_MOST);
    if (c->n_links > 0)
        memcpy(m->links, c->links, c->n_links * sizeof *m->links);
    m->calibration.links = m->links;
}

/* --- what can be better ----------------------------------------------------------------------- */

static void times(orr_fact *fact, double factor)
{
    fact->value *= factor; /* what is unknown stays unknown */
}

static void relax(orr_fact *oversubscription, double factor)
{
    oversubscription->value = fmax(1, oversubscription->value / factor);
}

/* All but attention_narrow, which compares widths of heads and has no better side. The first two of
 * links are those of every technology too. */
static const struct {
    const char *name;
    size_t offset;
    int better; /* +1: more is better; -1: less */
    double limit;
} PARAMETERS[] = {
#define P(name, better, limit)                                                                     \
    {                                                                                              \
#name, offsetof(orr_calibration, name), better, limit                                      \
    }
    P(matmul_bf16, 1, 1),        P(matmul_fp8, 1, 1),      P(matmul_fp4, 1, 1),
    P(matmul_half, -1, 0),       P(matmul_narrow, -1, 0),  P(matmul_grouped, 1, 1),
    P(matmul_odd, 1, 1),         P(attention, 1, 1),       P(attention_backward, 1, 1),
    P(attention_eager, 1, 1),    P(memory, 1, 1),          P(kernel_ns, -1, 0),
    P(launch_ns, -1, 0),         P(scale_up, 1, 1),        P(scale_up_ns, -1, 0),
    P(scale_out, 1, 1),          P(scale_out_ns, -1, 0),   P(compute_slowdown, -1, 1),
    P(dp_exposed, -1, 0),        P(micro_batch_ns, -1, 0), P(step_ns, -1, 0),
    P(jitter_frac, -1, 0),       P(stream, 1, 1),          P(attention_half, -1, 0),
    P(collective_ns, -1, 0),     P(serving_ns, -1, 0),     P(engine_launch_ns, -1, 0),
    P(recommendation_ns, -1, 0),
#undef P
};
enum { N_PARAMETERS = sizeof PARAMETERS / sizeof *PARAMETERS };

/* Kinds of changes, in order: three of each level, three of each cut, three of all cuts at once,
 * peaks of each dtype, memory bandwidth, memory, copies, parameters. */
static uint32_t n_changes(const machine *m)
{
    return 3 * m->cluster.n_levels + 3 * m->cluster.n_cuts + ORR_DTYPES + 3 + N_PARAMETERS;
}

static void better_link(orr_fact *bytes_per_s, orr_fact *latency_ns, orr_fact *oversubscription,
                        uint32_t which, double factor)
{
    if (which == 0)
        times(bytes_per_s, factor);
    else if (which == 1)
        times(latency_ns, 1 / factor);
    else
        relax(oversubscription, factor);
}

static void better_device(orr_device *d, uint32_t which, double factor)
{
    if (which < ORR_DTYPES) {
        times(&d->peak_flops[which], factor);
    } else if (which == ORR_DTYPES) {
        times(&d->memory_bytes_per_s, factor);
        times(&d->achievable_memory_bytes_per_s, factor);
    } else if (which == ORR_DTYPES + 1) {
        times(&d->memory_bytes, factor);
    } else {
        times(&d->pcie_bytes_per_s, factor);
        times(&d->achievable_pcie_bytes_per_s, factor);
    }
}

static void better_parameter(machine *m, uint32_t which, double factor)
{
    double *value = (double *)((char *)&m->calibration + PARAMETERS[which].offset);
    for (uint32_t i = 0; i < m->calibration.n_links; i++) {
        orr_calibration_parameter *frac = &m->links[i].frac, *base = &m->links[i].base_ns;
        if (value == &m->calibration.scale_up)
            frac->value = fmin(1, frac->value * factor);
        if (value == &m->calibration.scale_up_ns)
            base->value /= factor;
    }
    *value = PARAMETERS[which].better > 0
                 ? fmin(PARAMETERS[which].limit, *value * factor)
                 : PARAMETERS[which].limit + (*value - PARAMETERS[which].limit) / factor;
}

static void better(machine *m, uint32_t change, double factor, char *name, size_t size)
{
    static const char *const OF_LINK[] = {"bandwidth", "latency", "oversubscription"};
    const uint32_t links = 3 * (m->cluster.n_levels + m->cluster.n_cuts);
    if (change < 3 * m->cluster.n_levels) {
        orr_level *l = &m->levels[change / 3];
        better_link(&l->bytes_per_s, &l->latency_ns, &l->oversubscription, change % 3, factor);
        snprintf(name, size, "level %s, %s", l->name, OF_LINK[change % 3]);
    } else if (change < links) {
        orr_site_link *c = &m->cuts[change / 3 - m->cluster.n_levels];
        better_link(&c->bytes_per_s, &c->latency_ns, &c->oversubscription, change % 3, factor);
        snprintf(name, size, "cut %u-%u, %s", c->a, c->b, OF_LINK[change % 3]);
    } else if (change - links < ORR_DTYPES + 3) {
        better_device(&m->device, change - links, factor);
        for (uint32_t i = 0; i < m->cluster.n_sites; i++)
            better_device(&m->site_device[i], change - links, factor);
        snprintf(name, size, "device %s",
                 change - links < ORR_DTYPES        ? orr_dtype_name((orr_dtype)(change - links))
                 : change - links == ORR_DTYPES     ? "memory bandwidth"
                 : change - links == ORR_DTYPES + 1 ? "memory"
                                                    : "copies");
    } else {
        const uint32_t p = change - links - ORR_DTYPES - 3;
        better_parameter(m, p, factor);
        snprintf(name, size, "calibration %s", PARAMETERS[p].name);
    }
}

/* A machine that nobody has: each link and unit from a quarter to four times the catalogue's. */
static void disturb(scene *s)
{
    char name[64];
    const uint32_t n = n_changes(&s->base) - N_PARAMETERS;
    for (uint32_t change = 0; change < n; change++)
        if (orr_random_below(&s->random, 2) == 0)
            better(&s->base, change, pow(4, 2 * orr_random_unit(&s->random) - 1), name,
                   sizeof name);
    for (uint32_t i = 0; i < s->base.cluster.n_cuts; i++)
        relax(&s->base.cuts[i].oversubscription, 1);
}

/* --- random plans ----------------------------------------------------------------------------- */

static void choose_degrees(scene *s, uint32_t most, orr_plan *p)
{
    const bool experts = s->model->moe.experts > 0;
    const bool pipelined = orr_task_trains(s->job->task) && s->model->kind == ORR_MODEL_TRANSFORMER;
    p->tp = s->model->kind == ORR_MODEL_TRANSFORMER ? ONE_OF(s, 1, 1, 2, 4, 8, 8) : 1;
    p->pp = pipelined ? ONE_OF(s, 1, 2, 4, 8, 8, 16) : 1;
    p->cp = pipelined ? ONE_OF(s, 1, 1, 1, 1, 2) : 1;
    p->dp = ONE_OF(s, 1, 2, 4, 8, 16, 32, 64);
    p->ep = experts ? ONE_OF(s, 1, 2, 4, 8, 8, 16, 32) : 0;
    p->etp = experts ? ONE_OF(s, 0, 1, 1) : 0;
    while (p->dp > 1 && (uint64_t)p->tp * p->pp * p->cp * p->dp > most)
        p->dp = (p->dp + 1) / 2;
    p->micro_batch = orr_task_trains(s->job->task) ? ONE_OF(s, 1, 1, 2, 4) : ONE_OF(s, 1, 8, 32);
    if (s->model->kind == ORR_MODEL_DLRM)
        p->micro_batch = ONE_OF(s, 512, 2048, 8192);
    p->micro_batches = p->pp > 1 ? ONE_OF(s, 2, 6, 8, 16, 24, 32) : ONE_OF(s, 1, 1, 2, 4);
    p->seq = ONE_OF(s, 0, 0, 2048, 4096);
}

static void choose_networks(scene *s, orr_plan *p)
{
    p->wire_dp = (uint8_t)ONE_OF(s, 0, 0, 0, ORR_RDMA_QP4, ORR_RDMA_SPRAY, ORR_RDMA_BOUNDED,
                                 ORR_RDMA_DCQCN, ORR_RDMA_SINGLE, ORR_RDMA_CENTRAL);
    p->wire_pp = (uint8_t)ONE_OF(s, 0, 0, ORR_RDMA_QP16, ORR_RDMA_CREDITS);
    p->dp_algorithm = (uint8_t)ONE_OF(s, 0, 0, ORR_ALGORITHM_HIERARCHICAL, ORR_ALGORITHM_RING);
    p->dp_chunks = p->dp_algorithm == ORR_ALGORITHM_HIERARCHICAL ? ONE_OF(s, 0, 4, 16) : 0;
}

static void choose_schedule(scene *s, orr_plan *p)
{
    p->schedule = (uint8_t)ONE_OF(s, 0, 0, ORR_SCHEDULE_GPIPE, ORR_SCHEDULE_INTERLEAVED,
                                  ORR_SCHEDULE_INTERLEAVED, ORR_SCHEDULE_ZB_H1, ORR_SCHEDULE_ZB_V,
                                  ORR_SCHEDULE_DUALPIPE);
    if (p->pp == 1)
        p->schedule = ORR_SCHEDULE_UNKNOWN;
    if (p->schedule == ORR_SCHEDULE_INTERLEAVED) {
        p->vp = ONE_OF(s, 2, 3, 4);
        p->micro_batches = p->pp * ONE_OF(s, 1, 2, 4);
    }
    if (p->schedule == ORR_SCHEDULE_DUALPIPE)
        p->micro_batches = 2 * (p->pp + ONE_OF(s, 0, 3, 8));
}

static void choose_sites(scene *s, orr_plan *p)
{
    const orr_cluster *cluster = &s->base.cluster;
    uint32_t sum = 0;
    p->cross = (uint8_t)ONE_OF(s, ORR_CROSS_DP, ORR_CROSS_PP);
    p->shards = 0;
    for (uint32_t i = 0; i < cluster->n_sites; i++)
        sum += p->sites[i] = (uint16_t)ONE_OF(s, 0, 1, 2, 3, 4);
    if (p->cross == ORR_CROSS_DP) {
        p->dp = sum;
    } else {
        p->dp_outer = sum % 2 == 0 ? ONE_OF(s, 0, 1, 2) : 0;
        p->pp = p->dp_outer > 1 ? sum / p->dp_outer : sum;
        p->dp *= p->dp_outer > 1 ? p->dp_outer : 1;
    }
    p->compress = (uint8_t)ONE_OF(s, 0, 0, 0, ORR_COMPRESS_BF16, ORR_COMPRESS_FP8);
}

/* Tables in a random plan, or, where none is chosen, by rule. */
static void choose_tables(scene *s)
{
    const orr_dlrm *d = &s->model->dlrm;
    orr_table_planner_options o;
    orr_table_planner_options_init(&o);
    const uint32_t groups = s->plan.dp % 4 == 0 ? ONE_OF(s, 1, 1, 2, 4) : 1;
    o.tables = d->tables;
    o.n_tables = d->n_tables;
    o.ranks = s->plan.dp / groups;
    o.host_ranks = o.ranks % 8 == 0 ? 8 : 0;
    o.forward = (uint8_t)ONE_OF(s, 0, 0, ORR_EMBEDDING_CODEC_BF16, ORR_EMBEDDING_CODEC_INT8);
    o.backward = (uint8_t)ONE_OF(s, 0, 0, ORR_EMBEDDING_CODEC_FP16);
    o.pipeline = (uint8_t)ONE_OF(s, 0, 1, 2, 3);
    s->workload.popularity = (uint8_t)ONE_OF(s, 0, 1, 2, 3);
    s->workload.padded = ONE_OF(s, 0, 1) == 1;
    if (ONE_OF(s, 0, 1, 1) == 0)
        return;
    world_must(&s->w, draw_table_plan(&o, &s->random, s->w.arena, &s->tables, &s->w.err), "tables");
    s->tables.groups = groups;
    s->tables.synchronize = ONE_OF(s, 1, 10);
    s->workload.tables = &s->tables;
}

/* Loads of experts that differ from layer to layer; a third of the experts are never chosen. */
static void choose_load(scene *s)
{
    const uint32_t experts = s->model->moe.experts, layers = ONE_OF(s, 0, 1, 3, 60);
    if (experts == 0 || layers == 0)
        return;
    double *share = orr_arena_array(s->w.arena, double, (size_t)layers *experts);
    assert_non_null(share);
    for (uint32_t l = 0; l < layers; l++) {
        const double skew = 4 * orr_random_unit(&s->random);
        for (uint32_t e = 0; e < experts; e++)
            share[l * experts + e] =
                e > 0 && ONE_OF(s, 0, 1, 1) == 0 ? 0 : pow(orr_random_unit(&s->random), skew);
    }
    s->load = (orr_expert_load){
        .layers = layers, .experts = experts, .share = share, .source = "a random load"};
    s->workload.load = &s->load;
}

static void choose_job(scene *s)
{
    const int i = (int)orr_random_below(&s->random, N_CASES);
    const uint32_t devices = s->base.cluster.n_devices;
    s->job = &CASES[i];
    s->model = s->models[i];
    s->plan = (orr_plan){0};
    s->workload = (orr_workload){.task = s->job->task};
    if (s->job->task == ORR_TASK_DECODE || s->job->task == ORR_TASK_PREFILL)
        s->workload.prompt = ONE_OF(s, 512, 4096);
    choose_degrees(s, s->job->most_ranks < devices ? s->job->most_ranks : devices, &s->plan);
    choose_switches(&s->random, &s->plan);
    if (s->model->kind == ORR_MODEL_DLRM)
        choose_tables(s);
    choose_load(s);
    choose_networks(s, &s->plan);
    if (orr_task_trains(s->job->task))
        choose_schedule(s, &s->plan);
    if (s->base.cluster.n_sites > 0 && s->model->kind == ORR_MODEL_TRANSFORMER &&
        orr_task_trains(s->job->task) && ONE_OF(s, 0, 1, 1) == 1)
        choose_sites(s, &s->plan);
}

/* --- the property ----------------------------------------------------------------------------- */

static bool measure(scene *s, const machine *m, result *ret)
{
    orr_arena *arena = orr_arena_new(0, 0);
    orr_job_options options;
    orr_outcome o;
    orr_estimator *estimator = NULL;
    orr_estimate e;
    orr_job_options_init(&options);
    options.workload = s->workload;
    options.calibration = &m->calibration;
    const orr_status status =
        orr_outcome_of(s->model, &s->plan, &m->cluster, &options, arena, &o, &s->w.err);
    if (status == ORR_OK) {
        *ret = (result){.step_ns = o.step_ns, .fits = o.memory.fits};
        orr_outcome_free(&o);
        if (orr_estimator_new(s->model, &m->cluster, &options, &estimator, &s->w.err) == ORR_OK &&
            orr_estimate_of(estimator, &s->plan, &e, &s->w.err) == ORR_OK) {
            /* A part of a ring is a ring to the simulation and a line to the estimator. */
            if (s->model->kind == ORR_MODEL_DLRM && e.bound_ns > ret->step_ns &&
                m->levels[0].topology == ORR_TOPOLOGY_SWITCH)
                seed_fail(s->seed, "%s in %s on %s: a step of %lld ns is below its bound, %lld",
                          s->model->name, orr_plan_text(&s->plan, s->w.arena), m->cluster.name,
                          (long long)ret->step_ns, (long long)e.bound_ns);
            ret->estimate_ns = e.step_ns;
            ret->estimate_fits = e.fits;
        }
        orr_estimator_free(estimator);
    }
    orr_arena_free(arena);
    return status == ORR_OK;
}

static bool slower(int64_t now_ns, int64_t before_ns, double frac)
{
    return (double)(now_ns - before_ns) > 16 + frac * (double)before_ns;
}

static void compare(scene *s, const result *before, uint32_t change, double factor)
{
    static const double SIMULATED = 1e-9, ESTIMATED = 0.05;
    /* Recommendation models whose gradients are sharded over a part of dp: the estimate is up to
     * 12 % below the simulation where much of a transfer is exposed, and follows it where less is.
     */
    static const double ESTIMATED_IN_PARTS = 0.12;
    static machine changed;
    char name[64];
    result now;
    const bool in_parts =
        s->model->kind == ORR_MODEL_DLRM && s->plan.shards > 1 && s->plan.shards < s->plan.dp;
    const double estimated = in_parts ? ESTIMATED_IN_PARTS : ESTIMATED;
    copy_machine(&changed, &s->base);
    better(&changed, change, factor, name, sizeof name);
    const char *text = orr_plan_text(&s->plan, s->w.arena);
    if (!measure(s, &changed, &now))
        seed_fail(s->seed, "%s: %s", text, s->w.err.text);
    s->n_compared++;
    s->n_estimated += now.estimate_ns > 0;
    if (!slower(now.step_ns, before->step_ns, SIMULATED) &&
        !slower(now.estimate_ns, before->estimate_ns, estimated) && now.fits >= before->fits &&
        now.estimate_fits >= before->estimate_fits)
        return;
    seed_fail(s->seed,
              "%s on %s, %s, %s, %s better by %g: %lld ns, then %lld; estimates %lld and %lld; %s",
              s->model->name, s->base.cluster.name, orr_task_name((orr_task)s->job->task), text,
              name, factor, (long long)before->step_ns, (long long)now.step_ns,
              (long long)before->estimate_ns, (long long)now.estimate_ns,
              now.fits ? "it fits" : "it does not fit");
}

/* The same tables with so many of the lookups. */
static void compare_lookups(scene *s, const result *before, double frac)
{
    orr_model *fewer = orr_arena_one(s->w.arena, orr_model);
    const orr_dlrm *d = &s->model->dlrm;
    orr_embedding *tables = orr_arena_array(s->w.arena, orr_embedding, d->n_tables);
    const orr_model *all = s->model;
    result now;
    assert_true(fewer != NULL && tables != NULL);
    *fewer = *all;
    for (uint32_t t = 0; t < d->n_tables; t++) {
        tables[t] = d->tables[t];
        tables[t].pooling *= frac;
    }
    fewer->dlrm.tables = s->tables.tables = tables;
    s->model = fewer;
    if (!measure(s, &s->base, &now))
        seed_fail(s->seed, "%s", s->w.err.text);
    s->model = all;
    s->tables.tables = d->tables;
    if (slower(now.step_ns, before->step_ns, 1e-9) || now.fits < before->fits)
        seed_fail(s->seed, "%g of the lookups: %lld ns, then %lld", frac,
                  (long long)before->step_ns, (long long)now.step_ns);
}

static void try_seed(scene *s)
{
    result before;
    bool made = false;
    const uint32_t n = s->w.catalog->n_clusters;
    for (int tries = 0; tries < TRIES && !made; tries++) {
        open_machine(s, s->w.catalog->clusters[s->seed % n]);
        if (orr_random_below(&s->random, 2) == 0)
            disturb(s);
        choose_job(s);
        made = measure(s, &s->base, &before) && (before.fits || tries > TRIES / 2);
    }
    if (!made)
        seed_fail(s->seed, "no plan in %d is possible: %s", TRIES, s->w.err.text);
    const uint32_t changes = n_changes(&s->base);
    for (uint32_t change = 0; change < changes; change++) {
        static const double FACTORS[] = {1.02, 1.3, 2, 5};
        compare(s, &before, change, FACTORS[orr_random_below(&s->random, 4)]);
    }
    if (s->workload.tables != NULL)
        compare_lookups(s, &before, orr_random_unit(&s->random));
}

static void a_better_machine_is_never_slower(void **state)
{
    (void)state;
    static scene s;
    const seed_range range = seeds(SEEDS);
    world_open(&s.w);
    for (int i = 0; i < N_CASES; i++)
        s.models[i] = world_model(&s.w, CASES[i].model);
    for (s.seed = range.begin; s.seed < range.end; s.seed++) {
        s.random = orr_random_of(s.seed, 16);
        try_seed(&s);
    }
    print_message("%llu changes for the better, %llu of them estimated\n",
                  (unsigned long long)s.n_compared, (unsigned long long)s.n_estimated);
    if (range.end - range.begin == SEEDS)
        assert_true(s.n_compared > 40 * SEEDS && s.n_estimated > 25 * SEEDS);
    world_close(&s.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_better_machine_is_never_slower),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
