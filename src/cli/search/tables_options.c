/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/closest.h"
#include "base/units.h"
#include "cli/arguments/checkpoint.h"
#include "cli/arguments/factor.h"
#include "cli/arguments/machine_file.h"
#include "cli/arguments/tiers.h"
#include "cli/search/tables.h"

/* Samples of a step where nobody says: MLPerf's DLRM. */
enum { USUAL_BATCH = 65536 };

static const orr_settings *settings_of(const orr_tables_request *r)
{
    return r->session.settings;
}

/* A file that breaks its rules is no mistake of who typed its name. */
static orr_status of_file(orr_status status, orr_error *err)
{
    if (status == ORR_INVALID || status == ORR_UNSUPPORTED)
        err->status = status = ORR_PARSE;
    return status;
}

static orr_status read_machine(orr_tables_request *r, orr_error *err)
{
    const orr_settings *s = settings_of(r);
    const orr_catalog *catalog;
    if (s->cluster == NULL && s->ranks == 0 && s->plan == NULL)
        return orr_fail(err, ORR_INVALID,
                        "--cluster is needed, as dgx_h100 (`orrery hw --kind clusters` lists "
                        "them), or --ranks, of this machine");
    ORR_TRY(of_file(orr_model_load(s->args[0], r->session.arena, &r->model, err), err));
    ORR_TRY(orr_sharding_check_model(r->model, err));
    if (s->cluster == NULL)
        return ORR_OK;
    ORR_TRY(orr_catalog_open(r->session.arena, &catalog, err));
    return of_file(orr_cluster_load(catalog, s->cluster, r->session.arena, &r->cluster, err), err);
}

/* --plan, of which only tables=FILE says something here. */
static orr_status read_given(orr_tables_request *r, orr_error *err)
{
    const char *words = settings_of(r)->plan, *plan, *tables;
    if (words == NULL)
        return ORR_OK;
    ORR_TRY(orr_sharding_split(words, r->session.arena, &plan, &tables, err));
    if (tables == NULL || *plan != '\0' || strcmp(tables, "auto") == 0)
        return orr_fail(err, ORR_INVALID, "--plan: '%.60s' is not tables=FILE", words);
    r->has_given = true;
    return of_file(orr_embedding_plan_read(tables, r->model->dlrm.tables, r->model->dlrm.n_tables,
                                           r->session.arena, &r->given_plan, err),
                   err);
}

/* Ranks of one group. */
static orr_status read_ranks(orr_tables_request *r, uint32_t *ret, orr_error *err)
{
    const orr_settings *s = settings_of(r);
    const orr_embedding_plan *given = &r->given_plan;
    const int64_t groups = s->groups > 0 ? s->groups : r->has_given ? given->groups : 1;
    const int64_t ranks = s->ranks > 0   ? s->ranks
                          : r->has_given ? (int64_t)given->ranks * groups
                                         : r->cluster->n_devices;
    if (ranks % groups != 0)
        return orr_fail(err, ORR_INVALID, "--groups: %lld ranks are not %lld groups of equal size",
                        (long long)ranks, (long long)groups);
    if (r->has_given && (groups != given->groups || ranks / groups != given->ranks))
        return orr_fail(err, ORR_INVALID,
                        "--ranks and --groups say %lld ranks in %lld groups, the plan %u in %u",
                        (long long)ranks, (long long)groups, given->ranks * given->groups,
                        given->groups);
    r->groups = (uint32_t)groups;
    r->synchronize = s->synchronize > 0 ? (uint32_t)s->synchronize
                     : r->has_given     ? given->synchronize
                                        : 1;
    *ret = (uint32_t)(ranks / groups);
    return ORR_OK;
}

static orr_status read_memory(const orr_tables_request *r, int64_t *ret, orr_error *err)
{
    const char *text = settings_of(r)->memory;
    uint64_t bytes = 0;
    if (text != NULL &&
        (orr_parse_bytes(text, &bytes, NULL) != ORR_OK || bytes == 0 || bytes > INT64_MAX / 2))
        return orr_fail(err, ORR_INVALID, "--memory: '%.60s' is no amount of memory, as 40GiB",
                        text);
    *ret = (int64_t)bytes;
    return ORR_OK;
}

static uint8_t popularity_of(const char *name)
{
    for (uint8_t k = 0; name != NULL && k < ORR_POPULARITIES; k++)
        if (strcmp(orr_popularity_name((orr_popularity_kind)k), name) == 0)
            return k;
    return ORR_POPULARITY_META_2021;
}

/* Batches that are fetched ahead where nobody says: one that is on its way while another is
 * complete. */
enum { USUAL_LOOKAHEAD = 2 };

static orr_status read_tiers(orr_tables_request *r, orr_sharding_question *q, orr_error *err)
{
    const orr_settings *s = settings_of(r);
    const orr_catalog *catalog;
    orr_tier_rates *tiers = orr_arena_array(r->session.arena, orr_tier_rates, ORR_TIERS);
    if (s->tiers == NULL)
        return s->lookahead > 0 ? orr_fail(err, ORR_INVALID, "--lookahead is for tables on --tiers")
                                : ORR_OK;
    if (tiers == NULL)
        return orr_fail_memory(err);
    ORR_TRY(orr_catalog_open(r->session.arena, &catalog, err));
    ORR_TRY(orr_tiers_parse(&r->session, s->tiers, catalog, r->cluster, tiers));
    q->tiers = tiers;
    q->lookahead = s->lookahead > 0 ? (uint32_t)s->lookahead : USUAL_LOOKAHEAD;
    return ORR_OK;
}

static orr_status read_question(orr_tables_request *r, orr_error *err)
{
    const orr_settings *s = settings_of(r);
    uint32_t batch = USUAL_BATCH;
    orr_table_costs costs;
    orr_sharding_question q = {.model = r->model,
                               .cluster = r->cluster,
                               .costs = &costs,
                               .software_year = (double)s->software,
                               .popularity = popularity_of(s->popularity)};
    ORR_TRY(read_ranks(r, &q.ranks, err));
    ORR_TRY(read_memory(r, &q.memory_bytes, err));
    if (s->batch != NULL)
        ORR_TRY(orr_parse_power_count("batch", s->batch, &batch, err));
    if (s->batch != NULL && batch % (q.ranks * r->groups) != 0)
        return orr_fail(err, ORR_INVALID, "--batch: %u samples are not as many on each of %u ranks",
                        batch, q.ranks * r->groups);
    q.batch = batch / r->groups;
    ORR_TRY(read_tiers(r, &q, err));
    if (q.cluster == NULL)
        ORR_TRY(orr_machine_table_costs(&r->session, q.ranks, &costs));
    return orr_sharding_ask(&q, r->session.arena, &r->options, err);
}

/* --- kinds ------------------------------------------------------------------------------------ */

static orr_status kind_of(const char *item, size_t len, uint8_t *ret, orr_error *err)
{
    const char *names[ORR_SHARDINGS];
    char word[40] = "";
    for (int k = 0; k < ORR_SHARDINGS; k++) {
        names[k] = orr_embedding_sharding_name((orr_embedding_sharding)k);
        if (strlen(names[k]) == len && memcmp(names[k], item, len) == 0) {
            *ret = (uint8_t)(*ret | 1U << k);
            return ORR_OK;
        }
    }
    memcpy(word, item, len < sizeof word ? len : sizeof word - 1);
    const char *close = orr_closest_match(word, names, ORR_SHARDINGS);
    return close != NULL
               ? orr_fail(err, ORR_INVALID, "--kinds: no '%s'; did you mean %s?", word, close)
               : orr_fail(err, ORR_INVALID,
                          "--kinds: no '%s'; any of table, row, column, table_row, grid, data",
                          word);
}

static orr_status read_kinds(orr_tables_request *r, orr_error *err)
{
    const char *list = settings_of(r)->kinds;
    uint8_t kinds = 0;
    if (list == NULL)
        return ORR_OK;
    for (const char *at = list; *at != '\0';) {
        const size_t len = strcspn(at, ",");
        ORR_TRY(kind_of(at, len, &kinds, err));
        at += len + (at[len] == ',');
    }
    if (kinds == 0)
        return orr_fail(err, ORR_INVALID, "--kinds names none");
    uint8_t *of_tables = orr_arena_array(r->session.arena, uint8_t, r->options.n_tables);
    if (of_tables == NULL)
        return orr_fail_memory(err);
    memset(of_tables, kinds, r->options.n_tables);
    r->options.kinds = of_tables;
    return ORR_OK;
}

/* --- the rest --------------------------------------------------------------------------------- */

static uint8_t codec_of(const char *name, uint8_t otherwise)
{
    for (int c = 0; name != NULL && c < ORR_EMBEDDING_CODECS; c++)
        if (strcmp(orr_embedding_codec_name((orr_embedding_codec)c), name) == 0)
            return (uint8_t)c;
    return otherwise;
}

/* Transfers are those of the given plan, unless options say otherwise: both plans are priced
 * alike. */
static orr_status read_terms(orr_tables_request *r, orr_error *err)
{
    const orr_settings *s = settings_of(r);
    orr_table_planner_options *o = &r->options;
    const orr_embedding_plan *given = &r->given_plan; /* zeroed: fp32, nothing ahead */
    o->forward = codec_of(s->forward, given->forward);
    o->backward = codec_of(s->backward, given->backward);
    o->pipeline = s->pipeline > 0 ? (uint8_t)s->pipeline : given->pipeline;
    if (s->cost != NULL && strcmp(s->cost, orr_table_pricing_name(ORR_TABLE_PRICING_TORCHREC)) == 0)
        o->pricing = ORR_TABLE_PRICING_TORCHREC;
    if (s->balance != NULL)
        ORR_TRY(orr_parse_share("balance", s->balance, &o->balance_frac, err));
    if (s->exact) {
        o->gap_frac = 0;
        o->nodes = UINT64_MAX;
    }
    if (s->time_limit != NULL && orr_parse_duration(s->time_limit, &o->limit_ns, err) != ORR_OK) {
        orr_error_prefix(err, "--time-limit");
        return err->status;
    }
    return ORR_OK;
}

orr_status orr_tables_request_read(orr_tables_request *r)
{
    const orr_settings *s = settings_of(r);
    orr_error *err = &r->session.err;
    ORR_TRY(read_machine(r, err));
    ORR_TRY(read_given(r, err));
    ORR_TRY(read_question(r, err));
    ORR_TRY(read_kinds(r, err));
    ORR_TRY(read_terms(r, err));
    ORR_TRY(orr_check_output("output", s->output, false, r->session.arena, err));
    return orr_check_output("html", s->html, false, r->session.arena, err);
}
