/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/arguments/sharding.h"

#include <math.h>
#include <string.h>

#include "model/memory/memory.h"

/* --- the question of the planner -------------------------------------------------------------- */

/* Bytes of the dense layers on every rank: fp32 weights, gradients and both moments of Adam. */
static orr_status dense_bytes(const orr_model *model, orr_arena *arena, int64_t *ret,
                              orr_error *err)
{
    enum { OF_A_PARAMETER = 16 };
    orr_model_size size;
    ORR_TRY(orr_model_count_parameters(model, arena, &size, err));
    int64_t parameters = size.total;
    for (uint32_t i = 0; i < size.n; i++)
        if (strcmp(size.parts[i].name, "tables") == 0)
            parameters -= (int64_t)size.parts[i].count * size.parts[i].each;
    *ret = parameters * OF_A_PARAMETER;
    return ORR_OK;
}

static orr_status memory_left(const orr_sharding_question *q, orr_arena *arena, int64_t *ret,
                              orr_error *err)
{
    const orr_device *device = q->cluster->device;
    const int64_t usable = orr_usable_bytes(device);
    int64_t dense;
    *ret = 0;
    if (usable < 0)
        return ORR_OK; /* not known: no limit */
    ORR_TRY(dense_bytes(q->model, arena, &dense, err));
    if (dense >= usable)
        return orr_fail(
            err, ORR_INVALID, "the dense layers of %s take %.1f GiB, and %s has %.1f for all",
            q->model->name, (double)dense / (1 << 30), device->name, (double)usable / (1 << 30));
    *ret = usable - dense;
    return ORR_OK;
}

orr_status orr_sharding_check_model(const orr_model *model, orr_error *err)
{
    return model->kind == ORR_MODEL_DLRM && model->dlrm.n_tables > 0
               ? ORR_OK
               : orr_fail(err, ORR_INVALID, "%s has no embedding tables to spread over ranks",
                          model->name);
}

/* Distinct rows of a step, and how lookups are spread over ranges of rows, by popularity. */
static orr_status add_popularity(const orr_sharding_question *q, orr_arena *arena,
                                 orr_table_planner_options *o, orr_error *err)
{
    const double batch = (double)o->samples * o->ranks;
    double *distinct = orr_arena_array(arena, double, o->n_tables);
    float *shares = orr_arena_array(arena, float, (size_t)o->n_tables *ORR_EMBEDDING_RANGES);
    if (distinct == NULL || shares == NULL)
        return orr_fail_memory(err);
    for (uint32_t t = 0; t < o->n_tables; t++) {
        const int64_t rows = o->tables[t].rows;
        const orr_popularity popularity =
            orr_popularity_of((orr_popularity_kind)q->popularity, rows);
        const double lookups = fmin(batch * o->tables[t].pooling, 0x1p60);
        int64_t begin[ORR_EMBEDDING_RANGES + 1];
        double share[ORR_EMBEDDING_RANGES];
        for (uint32_t r = 0; r <= ORR_EMBEDDING_RANGES; r++)
            begin[r] = orr_embedding_range_begin(rows, r);
        orr_popularity_shares(&popularity, begin, ORR_EMBEDDING_RANGES, share);
        distinct[t] = orr_popularity_distinct(&popularity, (int64_t)lookups);
        for (uint32_t r = 0; r < ORR_EMBEDDING_RANGES; r++)
            shares[(size_t)t * ORR_EMBEDDING_RANGES + r] = (float)share[r];
    }
    o->distinct = distinct;
    o->range_share = shares;
    return ORR_OK;
}

/* Tiers of a rank, with hit rates by popularity. */
static orr_status add_tiers(const orr_sharding_question *q, orr_arena *arena,
                            orr_table_planner_options *o, orr_error *err)
{
    orr_tier_options *tiers = orr_arena_one(arena, orr_tier_options);
    if (q->tiers == NULL)
        return ORR_OK;
    if (tiers == NULL)
        return orr_fail_memory(err);
    memcpy(tiers->tier, q->tiers, sizeof tiers->tier);
    tiers->lookahead = q->lookahead;
    if (tiers->tier[ORR_TIER_DRAM].bytes == 0)
        tiers->tier[ORR_TIER_DRAM].bytes = o->memory_bytes;
    if (tiers->tier[ORR_TIER_DRAM].bytes == 0)
        return orr_fail(err, ORR_INVALID, "--tiers: how much memory has a rank? dram=2GiB");
    o->memory_bytes = tiers->tier[ORR_TIER_DRAM].bytes;
    ORR_TRY(orr_tier_options_fill(o, (orr_popularity_kind)q->popularity, arena, tiers, err));
    o->tiers = tiers;
    return ORR_OK;
}

/* Ranks meet after every stage of a step, so it is worth that the busiest rank of all stages
 * together takes longer where the busiest ranks of single stages take less: 3 % of a simulated step
 * of dlrm-dcnv2 on eight A100 or H100. */
#define BALANCE_FRAC 0.1

orr_status orr_sharding_ask(const orr_sharding_question *q, orr_arena *arena,
                            orr_table_planner_options *ret, orr_error *err)
{
    const orr_dlrm *dlrm = &q->model->dlrm;
    const orr_calibration *calibration;
    ORR_TRY(orr_sharding_check_model(q->model, err));
    orr_table_planner_options_init(ret);
    ret->balance_frac = BALANCE_FRAC;
    ret->tables = dlrm->tables;
    ret->n_tables = dlrm->n_tables;
    ret->ranks = q->ranks;
    ret->samples = (q->batch + q->ranks - 1) / q->ranks;
    ret->memory_bytes = q->memory_bytes;
    ORR_TRY(add_popularity(q, arena, ret, err));
    if (q->cluster == NULL) {
        ret->costs = *q->costs;
        return add_tiers(q, arena, ret, err);
    }
    if (q->memory_bytes == 0)
        ORR_TRY(memory_left(q, arena, &ret->memory_bytes, err));
    ORR_TRY(add_tiers(q, arena, ret, err));
    ORR_TRY(orr_calibration_of(q->cluster->device, q->software_year, arena, &calibration, err));
    return orr_table_costs_of_cluster(q->cluster, calibration, q->ranks, arena, &ret->costs,
                                      &ret->host_ranks, err);
}

/* --- tables= of a plan ------------------------------------------------------------------------ */

static const char FIELD[] = "tables=";

orr_status orr_sharding_split(const char *words, orr_arena *arena, const char **ret_plan,
                              const char **ret_tables, orr_error *err)
{
    char *plan = orr_arena_strndup(arena, words, strlen(words)), *tables = NULL;
    size_t n = 0;
    if (plan == NULL)
        return orr_fail_memory(err);
    for (const char *at = words; *at != '\0';) {
        const size_t len = strcspn(at, ","), name = sizeof FIELD - 1;
        const char *field = at;
        at += len + (at[len] == ',');
        if (strncmp(field, FIELD, name) != 0) {
            memcpy(plan + n, field, (size_t)(at - field));
            n += (size_t)(at - field);
            continue;
        }
        if (tables != NULL)
            return orr_fail(err, ORR_INVALID, "'tables' is given twice");
        if (len == name)
            return orr_fail(err, ORR_INVALID,
                            "tables=: a file that `orrery tables` writes, or auto");
        if ((tables = orr_arena_strndup(arena, field + name, len - name)) == NULL)
            return orr_fail_memory(err);
    }
    plan[n] = '\0';
    *ret_plan = plan;
    *ret_tables = tables;
    return ORR_OK;
}

const char *orr_sharding_join(const orr_plan *plan, const char *tables, orr_arena *arena)
{
    const char *text = orr_plan_text(plan, arena);
    if (text == NULL || tables == NULL)
        return text;
    return orr_arena_printf(arena, "%s%s%s%s", text, *text != '\0' ? "," : "", FIELD, tables);
}

static orr_status plan_by_planner(const orr_sharding_question *q, orr_arena *arena,
                                  orr_embedding_plan *ret, orr_error *err)
{
    orr_table_planner_options options;
    orr_table_planning planning;
    ORR_TRY(orr_sharding_ask(q, arena, &options, err));
    ORR_TRY(orr_plan_tables(&options, arena, &planning, err));
    if (planning.infeasible != NULL)
        return orr_fail(err, ORR_INVALID, "tables=auto: %s", planning.infeasible);
    *ret = planning.plan;
    return ORR_OK;
}

orr_status orr_sharding_load(const char *tables, const orr_sharding_question *q, orr_arena *arena,
                             orr_embedding_plan *ret, orr_error *err)
{
    const orr_dlrm *dlrm = &q->model->dlrm;
    if (strcmp(tables, "auto") == 0)
        return plan_by_planner(q, arena, ret, err);
    ORR_TRY(orr_sharding_check_model(q->model, err));
    const orr_status status =
        orr_embedding_plan_read(tables, dlrm->tables, dlrm->n_tables, arena, ret, err);
    if (status ==
        ORR_INVALID) /* a file that breaks its rules is no mistake of who typed its name */
        return err->status = ORR_PARSE;
    if (status == ORR_OK && ret->ranks * ret->groups != q->ranks)
        return orr_fail(err, ORR_INVALID, "%s spreads tables over %u ranks, and the job has %u",
                        tables, ret->ranks * ret->groups, q->ranks);
    return status;
}
