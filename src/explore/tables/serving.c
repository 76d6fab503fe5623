/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/table_planner.h>

#include <math.h>
#include <string.h>

/* Samples of what is planned as a step; only ratios of it are used. */
enum { SAMPLES = 1024, LINE = 64, ID_BYTES = 8 };

const char *orr_serving_limit_name(orr_serving_limit limit)
{
    static const char *const names[] = {
#define NAME(name, text) [ORR_SERVING_##name] = text,
        ORR_SERVING_LIMIT_MAP(NAME)
#undef NAME
    };
    return limit < ORR_SERVING_LIMITS ? names[limit] : NULL;
}

typedef struct server {
    const orr_host_serving_question *q;
    orr_table_planner_options options;
    orr_tier_options tiers;
    orr_embedding *tables; /* the model's, without optimizer states */
    orr_arena *arena;
    orr_error *err;
} server;

static orr_status find_curves(server *s)
{
    const orr_table_planner_options *o = &s->options;
    const orr_hit_terms terms = {.policy = ORR_HIT_STATIC};
    orr_hit_curve *curves = orr_arena_array(s->arena, orr_hit_curve, o->n_tables);
    double *pinned = orr_arena_array(s->arena, double, o->n_tables);
    if (curves == NULL || pinned == NULL)
        return orr_fail_memory(s->err);
    for (uint32_t t = 0; t < o->n_tables; t++) {
        if (t > 0 && s->tables[t].rows == s->tables[t - 1].rows) {
            curves[t] = curves[t - 1];
        } else {
            const orr_popularity p =
                orr_popularity_of((orr_popularity_kind)s->q->popularity, s->tables[t].rows);
            orr_hit_curve_of(&p, &terms, &curves[t]);
        }
        pinned[t] = 1; /* rows of one sample at a time: next to nothing */
    }
    s->tiers.curves = curves;
    s->tiers.pinned_rows = pinned;
    return ORR_OK;
}

/* The tables of a model on one host, as a plan of one rank. */
static orr_status make_plan(server *s, orr_embedding_plan *ret)
{
    const orr_dlrm *dlrm = &s->q->model->dlrm;
    s->tables = orr_arena_array(s->arena, orr_embedding, dlrm->n_tables);
    if (s->tables == NULL)
        return orr_fail_memory(s->err);
    memcpy(s->tables, dlrm->tables, dlrm->n_tables * sizeof *s->tables);
    for (uint32_t t = 0; t < dlrm->n_tables; t++)
        s->tables[t].optimizer = ORR_ROW_OPTIMIZER_SGD;
    orr_table_planner_options_init(&s->options);
    s->options.tables = s->tables;
    s->options.n_tables = dlrm->n_tables;
    s->options.ranks = 1;
    s->options.samples = SAMPLES;
    s->options.tiers = &s->tiers;
    s->options.costs = (orr_table_costs){.memory_bytes_per_s = 1, .cache_bytes_per_s = 1};
    ORR_TRY(find_curves(s));
    return orr_embedding_plan_default(s->tables, dlrm->n_tables, 1, s->arena, ret, s->err);
}

static orr_status find_tiers(server *s)
{
    const orr_cluster *c = s->q->cluster;
    if (s->q->tiers != NULL)
        memcpy(s->tiers.tier, s->q->tiers, sizeof s->tiers.tier);
    else
        ORR_TRY(orr_tiers_of_host(c, 1, s->arena, s->tiers.tier, s->err));
    if (s->tiers.tier[ORR_TIER_DRAM].bytes <= 0)
        return orr_fail(s->err, ORR_INVALID, "how much memory has a host? dram=256GiB");
    for (int k = 0; k < ORR_TIERS; k++) /* rows are read, and nothing is written back */
        s->tiers.tier[k].write_iops = s->tiers.tier[k].write_bytes_per_s = 0;
    return ORR_OK;
}

/* --- limits ----------------------------------------------------------------------------------- */

static double per_s(double available, double needed)
{
    return needed > 0 ? available / needed : INFINITY;
}

static double tier_limit(const orr_tier_rates *r, double reads)
{
    double most = INFINITY;
    if (r->read_iops > 0)
        most = fmin(most, per_s(r->read_iops, reads));
    if (r->read_bytes_per_s > 0)
        most = fmin(most, per_s(r->read_bytes_per_s, reads * r->sector_bytes));
    return most;
}

/* Processor time of a sample on one core. */
static double processor_ns(const server *s, const orr_host_serving *v)
{
    double ns = v->lookups * ORR_SERVING_ROW_NS +
                1e9 * orr_model_flops(s->q->model, 1, false) / ORR_SERVING_CORE_FLOPS;
    for (int k = ORR_TIER_BYTE; k < ORR_TIERS; k++)
        ns += v->reads[k] * v->tier[k].request_ns;
    return ns;
}

static void find_limits(const server *s, double sockets, orr_host_serving *v)
{
    const orr_cluster *c = s->q->cluster;
    double bytes = 0;
    for (uint32_t t = 0; t < s->options.n_tables; t++)
        bytes += s->tables[t].pooling * LINE *
                 ceil((double)orr_embedding_row_bytes(&s->tables[t]) / LINE);
    const double sent =
        v->lookups * ID_BYTES + (s->q->model->dlrm.dense_features + 1.0) * sizeof(float);
    v->limit[ORR_SERVING_PROCESSOR] = per_s(1e9 * sockets * ORR_SERVING_CORES, processor_ns(s, v));
    v->limit[ORR_SERVING_MEMORY] =
        per_s(sockets * orr_fact_or(&c->device->memory_bytes_per_s, INFINITY), bytes);
    v->limit[ORR_SERVING_BYTE] = tier_limit(&v->tier[ORR_TIER_BYTE], v->reads[ORR_TIER_BYTE]);
    v->limit[ORR_SERVING_BLOCK] = tier_limit(&v->tier[ORR_TIER_BLOCK], v->reads[ORR_TIER_BLOCK]);
    v->limit[ORR_SERVING_NETWORK] = per_s(sockets * c->levels[0].bytes_per_s.value, sent);
    double least = INFINITY;
    for (uint8_t k = 0; k < ORR_SERVING_LIMITS; k++)
        if (v->limit[k] < least) {
            least = v->limit[k];
            v->bound_by = k;
        }
    v->samples_per_s = ORR_SERVING_LOAD_FRAC * least;
}

/* The processor's own time, and one round of reads, which are all asked for at once; both wait in
 * queues. */
static void find_latency(const server *s, orr_host_serving *v)
{
    const double busy = v->samples_per_s / v->limit[ORR_SERVING_PROCESSOR];
    v->latency_ns = processor_ns(s, v) / (1 - busy);
    for (int k = ORR_TIER_BYTE; k < ORR_TIERS; k++) {
        const double limit = v->limit[k == ORR_TIER_BYTE ? ORR_SERVING_BYTE : ORR_SERVING_BLOCK];
        if (v->reads[k] > 0)
            v->latency_ns += fmin(1, v->reads[k]) * v->tier[k].read_ns /
                             (1 - fmin(ORR_SERVING_LOAD_FRAC, v->samples_per_s / limit));
    }
}

/* Sockets, modules and drives: between idle and in use by how busy each is. Sockets and modules
 * idle at a third (assumed). */
static void find_power(const server *s, double sockets, orr_host_serving *v)
{
    const orr_cluster *c = s->q->cluster;
    const double socket_w = orr_fact_or(&c->device->power_w, 0) * sockets;
    const double busy = v->samples_per_s / v->limit[ORR_SERVING_PROCESSOR];
    v->idle_w = ORR_SERVING_REST_W + socket_w / 3;
    v->power_w = v->idle_w + socket_w * 2 / 3 * busy;
    for (uint32_t i = 0; i < c->n_tiers; i++) {
        const orr_memory_tier *m = c->tiers[i];
        const orr_tier tier = orr_tier_of_memory(m);
        const double count = c->tier_counts[i] > 0 ? c->tier_counts[i] : 1;
        const double most = count * orr_fact_or(&m->power_w, 0);
        const double idle = count * orr_fact_or(&m->idle_power_w, most / count / 3);
        const orr_serving_limit limit = tier == ORR_TIER_BLOCK  ? ORR_SERVING_BLOCK
                                        : tier == ORR_TIER_BYTE ? ORR_SERVING_BYTE
                                                                : ORR_SERVING_MEMORY;
        v->idle_w += idle;
        v->power_w += idle + (most - idle) * fmin(1, v->samples_per_s / v->limit[limit]);
    }
    v->joules_per_1k = 1e3 * v->power_w / v->samples_per_s;
    v->usd_per_million = s->q->usd_per_hour / 3600 / v->samples_per_s * 1e6;
}

static void find_reads(const server *s, orr_host_serving *v)
{
    double missed = 0;
    for (uint32_t t = 0; t < s->options.n_tables; t++) {
        const orr_tier_choice *c = &v->tiering.choices[t];
        v->lookups += s->tables[t].pooling;
        v->reads[c->tier] += c->reads / SAMPLES;
        missed += c->reads / SAMPLES;
    }
    v->hit_frac = v->lookups > 0 ? 1 - missed / v->lookups : 1;
}

orr_status orr_host_serving_of(const orr_host_serving_question *q, orr_arena *arena,
                               orr_host_serving *ret, orr_error *err)
{
    server s = {.q = q, .arena = arena, .err = err};
    orr_embedding_plan plan;
    const orr_embedding_placement *placements;
    orr_host_serving v = {.infeasible = NULL};
    if (q->model->kind != ORR_MODEL_DLRM || q->model->dlrm.n_tables == 0)
        return orr_fail(err, ORR_INVALID, "%s has no embedding tables", q->model->name);
    if (strcmp(q->cluster->device->kind, "cpu") != 0)
        return orr_fail(err, ORR_INVALID,
                        "tables are served by hosts of processors; %s is a %s (sdm_dram_host, "
                        "sdm_nand_host)",
                        q->cluster->device->name, q->cluster->device->kind);
    ORR_TRY(find_tiers(&s));
    ORR_TRY(make_plan(&s, &plan));
    ORR_TRY(orr_tier_tables(&s.options, &plan, 0, arena, &v.tiering, &placements, err));
    memcpy(v.tier, s.tiers.tier, sizeof v.tier);
    if (v.tiering.infeasible != NULL) {
        *ret = (orr_host_serving){.infeasible = v.tiering.infeasible};
        return ORR_OK;
    }
    const double sockets = q->cluster->levels[0].devices;
    find_reads(&s, &v);
    find_limits(&s, sockets, &v);
    find_latency(&s, &v);
    find_power(&s, sockets, &v);
    *ret = v;
    return ORR_OK;
}
