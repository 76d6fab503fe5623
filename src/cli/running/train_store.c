/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "cli/arguments/sharding.h"
#include "cli/arguments/tiers.h"
#include "cli/running/train.h"
#include "model/tables/tables.h"
#include "store/store.h"

/* What --store and --byte-store ask of a run of training: where rows of its embedding tables live,
 * and which tables those are. */

enum { LOOKAHEAD_DEFAULT = 4, NO_NODE = -2, ANY_NODE = -1, MOST_NODES = 1 << 16 };

static orr_status parse_bytes(const char *option, const char *text, int64_t *ret, orr_error *err)
{
    uint64_t bytes;
    if (text == NULL)
        return ORR_OK;
    const orr_status status = orr_parse_bytes(text, &bytes, err);
    if (status != ORR_OK) {
        orr_error_prefix(err, option);
        return err != NULL ? err->status = ORR_INVALID : status;
    }
    if (bytes == 0 || bytes > INT64_MAX)
        return orr_fail(err, ORR_INVALID, "%s: %s is no size", option, text);
    *ret = (int64_t)bytes;
    return ORR_OK;
}

/* A folder, or "node:1". */
static orr_status parse_byte_store(const char *text, orr_train_store *ret, orr_error *err)
{
    static const char node[] = "node:";
    char *end;
    ret->byte_node = text == NULL ? NO_NODE : ANY_NODE;
    if (text == NULL || strncmp(text, node, sizeof node - 1) != 0) {
        ret->byte_folder = text;
        return ORR_OK;
    }
    const char *number = text + sizeof node - 1;
    const long n = strtol(number, &end, 10);
    if (end == number || *end != '\0' || n < 0 || n > MOST_NODES)
        return orr_fail(err, ORR_INVALID,
                        "--byte-store: '%.40s' is no NUMA node: write node:1, or a folder", text);
    ret->byte_node = (int)n;
    return ORR_OK;
}

/* Of what the catalogue does not tell the tier is as fast as it is. */
static orr_status read_byte_device(orr_training *t, const char *name)
{
    orr_error *err = &t->session.err;
    const orr_catalog *catalog;
    const orr_memory_tier *m;
    if (name == NULL)
        return ORR_OK;
    ORR_TRY(orr_catalog_open(t->session.arena, &catalog, err));
    ORR_TRY(orr_memory_find(catalog, "--byte-device", name, strlen(name), &m, err));
    const orr_device_limits limits = {
        .read_ns = (int64_t)orr_fact_or(&m->read_latency_ns, 0),
        .write_ns = (int64_t)orr_fact_or(&m->write_latency_ns, 0),
        .read_iops = orr_fact_or(&m->read_iops_4k, 0),
        .write_iops = orr_fact_or(&m->write_iops_4k, 0),
        .read_bytes_per_s = orr_fact_or(&m->read_bytes_per_s, 0),
        .write_bytes_per_s = orr_fact_or(&m->write_bytes_per_s, 0),
    };
    t->byte_limits = limits;
    t->store.byte_limits = &t->byte_limits;
    orr_session_remark(&t->session, "tier byte is as slow as %s of the catalogue", m->name);
    return ORR_OK;
}

static uint8_t policy_of(const char *name)
{
    for (uint8_t p = 0; name != NULL && p < ORR_CACHE_POLICIES; p++)
        if (strcmp(orr_cache_policy_name((orr_cache_policy)p), name) == 0)
            return p;
    return ORR_CACHE_POLICY_LOOKAHEAD;
}

/* Options that say nothing without another. */
static orr_status check_alone(const orr_settings *s, orr_error *err)
{
    if (s->row_writes != NULL && s->store == NULL)
        return orr_fail(err, ORR_INVALID,
                        "--row-writes is about rows on a block device: add --store FOLDER");
    if (s->byte_device != NULL && s->byte_store == NULL)
        return orr_fail(err, ORR_INVALID, "--byte-device: of what? Add --byte-store FOLDER");
    if (s->store != NULL || s->byte_store != NULL)
        return ORR_OK;
    const char *alone = s->store_bytes != NULL    ? "--store-bytes"
                        : s->table_memory != NULL ? "--table-memory"
                        : s->cache_policy != NULL ? "--cache-policy"
                        : s->lookahead > 0        ? "--lookahead"
                                                  : NULL;
    return alone == NULL ? ORR_OK
                         : orr_fail(err, ORR_INVALID,
                                    "%s is about rows that do not live in memory: add --store "
                                    "FOLDER",
                                    alone);
}

orr_status orr_training_store(orr_training *t)
{
    const orr_settings *s = t->session.settings;
    orr_error *err = &t->session.err;
    orr_train_store store = {.folder = s->store, .policy = policy_of(s->cache_policy)};
    ORR_TRY(check_alone(s, err));
    if (s->store == NULL && s->byte_store == NULL)
        return ORR_OK;
    ORR_TRY(orr_sharding_check_model(t->model, err));
    ORR_TRY(parse_byte_store(s->byte_store, &store, err));
    ORR_TRY(parse_bytes("--store-bytes", s->store_bytes, &store.file_bytes, err));
    ORR_TRY(parse_bytes("--table-memory", s->table_memory, &store.memory_bytes, err));
    t->store = store;
    t->options.store = &t->store;
    return read_byte_device(t, s->byte_device);
}

/* Half of what is free, shared by the ranks, which all run here. */
static orr_status memory_of_rank(const orr_plan *plan, int64_t *ret, orr_error *err)
{
    orr_backend *backend;
    ORR_TRY(orr_backend_cpu(&backend, err));
    const int64_t room = backend->free_bytes != NULL ? backend->free_bytes(backend) : -1;
    if (room < 0)
        return orr_fail(err, ORR_INVALID,
                        "it is not known how much memory is free: say --table-memory 8GiB");
    *ret = room / 2 / (int64_t)orr_plan_ranks(plan);
    return ORR_OK;
}

static uint32_t tables_of(const orr_embedding_plan *plan, orr_tier tier)
{
    uint32_t n = 0;
    for (uint32_t t = 0; t < plan->n_tables; t++)
        n += plan->placements[t].tier == tier;
    return n;
}

/* Tiers of the plan's file need their place. */
static orr_status check_tiers(const orr_training *t, const orr_embedding_plan *plan, orr_error *err)
{
    for (uint32_t i = 0; i < plan->n_tables; i++) {
        const uint8_t tier = plan->placements[i].tier;
        if (tier == ORR_TIER_BLOCK && (t->options.store == NULL || t->store.folder == NULL))
            return orr_fail(err, ORR_INVALID,
                            "table '%s' lives on a block device (tier: block): where? Add --store "
                            "FOLDER",
                            plan->tables[i].name);
        if (tier == ORR_TIER_BYTE && (t->options.store == NULL || t->store.byte_node == NO_NODE))
            return orr_fail(err, ORR_INVALID,
                            "table '%s' lives in byte-addressable storage (tier: byte): where? Add "
                            "--byte-store FOLDER",
                            plan->tables[i].name);
    }
    return ORR_OK;
}

static orr_status place_by_rule(orr_training *t, orr_embedding_plan *plan, orr_error *err)
{
    const bool block = t->store.folder != NULL;
    char bytes[ORR_UNIT_CHARS];
    uint32_t n;
    if (block && t->store.byte_node != NO_NODE)
        return orr_fail(err, ORR_INVALID,
                        "--store and --byte-store: which tables live where is said by tier in "
                        "--plan tables=FILE");
    ORR_TRY(orr_embedding_plan_place_rows(plan, block ? ORR_TIER_BLOCK : ORR_TIER_BYTE,
                                          t->store.memory_bytes, t->session.arena, &n, err));
    orr_format_bytes(bytes, (uint64_t)t->store.memory_bytes);
    if (n > 0)
        orr_session_remark(
            &t->session, "%u of %u tables live in %s: of the rows of a rank, %s are in memory", n,
            plan->n_tables, block ? t->store.folder : t->session.settings->byte_store, bytes);
    else
        orr_session_remark(&t->session, "all tables fit in %s of memory and live there", bytes);
    return ORR_OK;
}

orr_status orr_training_place_tables(orr_training *t, const orr_model *model, const orr_plan *plan)
{
    orr_error *err = &t->session.err;
    if (t->options.store == NULL)
        return t->options.tables == NULL ? ORR_OK : check_tiers(t, &t->table_plan, err);
    if (t->options.tables == NULL)
        ORR_TRY(orr_embedding_plan_default(model->dlrm.tables, model->dlrm.n_tables,
                                           (uint32_t)orr_plan_ranks(plan), t->session.arena,
                                           &t->table_plan, err));
    t->options.tables = &t->table_plan;
    if (t->store.memory_bytes == 0)
        ORR_TRY(memory_of_rank(plan, &t->store.memory_bytes, err));
    if (tables_of(&t->table_plan, ORR_TIER_DRAM) < t->table_plan.n_tables)
        ORR_TRY(check_tiers(t, &t->table_plan, err));
    else
        ORR_TRY(place_by_rule(t, &t->table_plan, err));
    if (t->session.settings->lookahead > 0)
        t->table_plan.lookahead = (uint32_t)t->session.settings->lookahead;
    else if (t->table_plan.lookahead == 0)
        t->table_plan.lookahead = LOOKAHEAD_DEFAULT;
    return ORR_OK;
}
