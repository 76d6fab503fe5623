/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/closest.h"
#include "base/strtab.h"
#include "io/json/writer.h"
#include "io/yaml/yaml.h"
#include "model/tables/tables.h"

/* The file of a sharding plan: reader and printer. */

typedef struct reader {
    orr_embedding_plan *plan;
    orr_embedding_placement *placements; /* the plan's, n_ranks and columns 0: not read yet */
    uint32_t *seen;
    orr_arena *arena;
    orr_error *err;
} reader;

/* Whole numbers of the plan. */
enum { RANKS, HOST_RANKS, GROUPS, SYNCHRONIZE, PIPELINE, LOOKAHEAD, NUMBERS };
static const struct {
    const char *name;
    uint32_t least, most;
} numbers[NUMBERS] = {
    [RANKS] = {"ranks", 1, 65536},   [HOST_RANKS] = {"host_ranks", 1, 65536},
    [GROUPS] = {"groups", 1, 65536}, [SYNCHRONIZE] = {"synchronize", 1, 1 << 30},
    [PIPELINE] = {"pipeline", 0, 3}, [LOOKAHEAD] = {"lookahead", 1, 1024},
};

static orr_status unknown_key(const orr_yaml *key, const char *what, const char *const *names,
                              size_t n, orr_error *err)
{
    const char *near = orr_closest_match(key->text, names, n);
    return orr_yaml_fail(key, ORR_INVALID, err, "%s no '%.80s'%s%s%s", what, key->text,
                         near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static orr_status read_whole(const orr_yaml *value, const char *name, uint32_t least, uint32_t most,
                             uint32_t *ret, orr_error *err)
{
    int64_t number;
    ORR_TRY(orr_yaml_int(value, &number, err));
    if (number < least || number > most)
        return orr_yaml_fail(value, ORR_INVALID, err, "%s: %lld is not from %u to %u", name,
                             (long long)number, least, most);
    *ret = (uint32_t)number;
    return ORR_OK;
}

static const char *scalar_text(const orr_yaml *value)
{
    return value->kind == ORR_YAML_SCALAR ? value->text : "";
}

static orr_status read_codec(const orr_yaml *value, uint8_t *ret, orr_error *err)
{
    for (uint8_t c = 0; c < ORR_EMBEDDING_CODECS; c++)
        if (strcmp(scalar_text(value), orr_embedding_codec_name(c)) == 0) {
            *ret = c;
            return ORR_OK;
        }
    return orr_yaml_fail(value, ORR_INVALID, err,
                         "'%.40s' is no codec: there are fp32, fp16, bf16 and int8",
                         scalar_text(value));
}

static orr_status read_plan_field(reader *r, const orr_yaml *key, const orr_yaml *value,
                                  uint32_t read[NUMBERS])
{
    const char *names[NUMBERS + 3] = {
        [NUMBERS] = "forward", [NUMBERS + 1] = "backward", [NUMBERS + 2] = "tables"};
    for (int i = 0; i < NUMBERS; i++) {
        names[i] = numbers[i].name;
        if (strcmp(key->text, names[i]) == 0)
            return read_whole(value, names[i], numbers[i].least, numbers[i].most, &read[i], r->err);
    }
    if (strcmp(key->text, "forward") == 0)
        return read_codec(value, &r->plan->forward, r->err);
    if (strcmp(key->text, "backward") == 0)
        return read_codec(value, &r->plan->backward, r->err);
    return strcmp(key->text, "tables") == 0
               ? ORR_OK
               : unknown_key(key, "a plan of tables has", names, NUMBERS + 3, r->err);
}

/* --- ranks of a table ------------------------------------------------------------------------ */

/* "7", or "4-7": ranks from one to another. */
static orr_status read_run(const reader *r, const orr_yaml *value, uint32_t *ret_first,
                           uint32_t *ret_last)
{
    const char *text = scalar_text(value), *at = text;
    uint64_t bound[2] = {0};
    uint32_t n = 0;
    for (; n < 2; n++) {
        const char *begin = at;
        for (; isdigit((unsigned char)*at) && bound[n] <= UINT32_MAX; at++)
            bound[n] = bound[n] * 10 + (uint64_t)(*at - '0');
        if (at == begin || bound[n] > UINT32_MAX || (*at != '\0' && (n == 1 || *at != '-')))
            return orr_yaml_fail(value, ORR_INVALID, r->err,
                                 "'%.40s' is no rank: write 3, or 4-7 for several", text);
        if (*at++ == '\0')
            break;
    }
    const uint64_t last = bound[n == 0 ? 0 : 1];
    if (last >= r->plan->ranks)
        return orr_yaml_fail(value, ORR_INVALID, r->err, "rank %llu is none of the %u",
                             (unsigned long long)last, r->plan->ranks);
    if (last < bound[0])
        return orr_yaml_fail(value, ORR_INVALID, r->err, "ranks %s: the first is above the last",
                             text);
    *ret_first = (uint32_t)bound[0];
    *ret_last = (uint32_t)last;
    return ORR_OK;
}

static orr_status read_ranks(const reader *r, const orr_yaml *value, orr_embedding_placement *ret)
{
    const orr_yaml *const one[1] = {value};
    const bool is_list = value->kind == ORR_YAML_LIST;
    const orr_yaml *const *runs = is_list ? value->values : one;
    const uint32_t n_runs = is_list ? value->n : 1;
    uint32_t first, last;
    uint64_t n = 0;
    for (uint32_t i = 0; i < n_runs; i++) {
        ORR_TRY(read_run(r, runs[i], &first, &last));
        n += last - first + 1;
    }
    if (n > r->plan->ranks)
        return orr_yaml_fail(value, ORR_INVALID, r->err, "%llu ranks are named, and there are %u",
                             (unsigned long long)n, r->plan->ranks);
    uint32_t *ranks = orr_arena_array(r->arena, uint32_t, n);
    if (ranks == NULL)
        return orr_fail_memory(r->err);
    ret->ranks = ranks;
    for (uint32_t i = 0; i < n_runs; i++) {
        ORR_TRY(read_run(r, runs[i], &first, &last));
        for (uint32_t rank = first; rank <= last; rank++)
            ranks[ret->n_ranks++] = rank;
    }
    return ORR_OK;
}

static orr_status read_kind(const orr_yaml *value, uint8_t *ret, orr_error *err)
{
    const char *names[ORR_SHARDINGS], *word = scalar_text(value);
    for (uint8_t k = 0; k < ORR_SHARDINGS; k++) {
        names[k] = orr_embedding_sharding_name(k);
        if (strcmp(word, names[k]) == 0) {
            *ret = k;
            return ORR_OK;
        }
    }
    const char *near = orr_closest_match(word, names, ORR_SHARDINGS);
    return near != NULL
               ? orr_yaml_fail(value, ORR_INVALID, err,
                               "'%.40s' is no kind of sharding; did you mean '%s'?", word, near)
               : orr_yaml_fail(value, ORR_INVALID, err,
                               "'%.40s' is no kind of sharding: there are table, row, column, "
                               "table_row, grid and data",
                               word);
}

/* --- tables ---------------------------------------------------------------------------------- */

static orr_status read_tier(const orr_yaml *value, uint8_t *ret, orr_error *err)
{
    for (uint8_t tier = 0; tier < ORR_TIERS; tier++)
        if (strcmp(scalar_text(value), orr_tier_name((orr_tier)tier)) == 0) {
            *ret = tier;
            return ORR_OK;
        }
    return orr_yaml_fail(value, ORR_INVALID, err,
                         "'%.40s' is no tier of memory: there are dram, byte and block",
                         scalar_text(value));
}

static orr_status read_cached_rows(const orr_yaml *value, double *ret, orr_error *err)
{
    double rows;
    ORR_TRY(orr_yaml_number(value, &rows, err));
    if (!(rows >= 1 && rows <= 0x1p53))
        return orr_yaml_fail(value, ORR_INVALID, err, "cached_rows: %g is not from 1 to 2^53",
                             rows);
    *ret = rows;
    return ORR_OK;
}

static orr_status read_table_field(const reader *r, const orr_yaml *key, const orr_yaml *value,
                                   orr_embedding_placement *ret)
{
    static const char *const names[] = {"kind", "ranks", "columns", "tier", "cached_rows"};
    if (strcmp(key->text, "kind") == 0)
        return read_kind(value, &ret->sharding, r->err);
    if (strcmp(key->text, "ranks") == 0)
        return read_ranks(r, value, ret);
    if (strcmp(key->text, "columns") == 0)
        return read_whole(value, "columns", 1, UINT16_MAX, &ret->columns, r->err);
    if (strcmp(key->text, "tier") == 0)
        return read_tier(value, &ret->tier, r->err);
    if (strcmp(key->text, "cached_rows") == 0)
        return read_cached_rows(value, &ret->cached_rows, r->err);
    return unknown_key(key, "a table of a plan has", names, sizeof names / sizeof *names, r->err);
}

static orr_status read_table(reader *r, uint32_t t, const orr_yaml *key, const orr_yaml *value)
{
    orr_embedding_placement *p = &r->placements[t];
    char where[4200];
    if (value->kind != ORR_YAML_MAP || orr_yaml_find(value, "kind") == NULL)
        return orr_yaml_fail(value, ORR_INVALID, r->err,
                             "table '%s' needs its kind: {kind: table, ranks: [0]}", key->text);
    p->columns = 1;
    for (uint32_t i = 0; i < value->n; i++)
        ORR_TRY(read_table_field(r, value->keys[i], value->values[i], p));
    const orr_status status = orr_embedding_placement_check(r->plan, t, r->seen, r->err);
    (void)snprintf(where, sizeof where, "%s:%u:%u", value->file, value->line, value->column);
    if (status != ORR_OK)
        orr_error_prefix(r->err, where);
    return status;
}

static orr_status unknown_table(const reader *r, const orr_yaml *key)
{
    const uint32_t n = r->plan->n_tables;
    const char **names = orr_arena_array(r->arena, const char *, n);
    if (names == NULL)
        return orr_fail_memory(r->err);
    for (uint32_t t = 0; t < n; t++)
        names[t] = r->plan->tables[t].name;
    return unknown_key(key, "the model has", names, n, r->err);
}

static orr_status number_names(const reader *r, orr_strtab *names)
{
    for (uint32_t t = 0; t < r->plan->n_tables; t++) {
        const char *name = r->plan->tables[t].name;
        const uint32_t number = orr_strtab_add(names, name, strlen(name));
        if (number == UINT32_MAX)
            return orr_fail_memory(r->err);
        if (number != t + 1) /* text 0 is "" */
            return orr_fail(r->err, ORR_INVALID, "the model has two tables '%.80s'", name);
    }
    return ORR_OK;
}

static orr_status read_tables(reader *r, const orr_yaml *tables, const orr_strtab *names)
{
    for (uint32_t i = 0; i < tables->n; i++) {
        const orr_yaml *key = tables->keys[i];
        const uint32_t number = orr_strtab_find(names, key->text, strlen(key->text));
        if (number == UINT32_MAX || number == 0)
            return unknown_table(r, key);
        ORR_TRY(read_table(r, number - 1, key, tables->values[i]));
    }
    for (uint32_t t = 0; t < r->plan->n_tables; t++)
        if (r->placements[t].columns == 0)
            return orr_yaml_fail(tables, ORR_INVALID, r->err,
                                 "table '%s' of the model is missing: %u of %u are here",
                                 r->plan->tables[t].name, tables->n, r->plan->n_tables);
    return ORR_OK;
}

/* Fields of the whole plan, which must be known before those of tables. */
static orr_status read_head(reader *r, const orr_yaml *file)
{
    char where[4200];
    if (file->kind != ORR_YAML_MAP || orr_yaml_find(file, "ranks") == NULL)
        return orr_yaml_fail(file, ORR_INVALID, r->err,
                             "a plan of tables says over how many ranks "
                             "they are sharded: ranks: 8");
    uint32_t read[NUMBERS] = {[GROUPS] = 1, [SYNCHRONIZE] = 1};
    for (uint32_t i = 0; i < file->n; i++)
        ORR_TRY(read_plan_field(r, file->keys[i], file->values[i], read));
    r->plan->ranks = read[RANKS];
    r->plan->host_ranks = read[HOST_RANKS];
    r->plan->groups = read[GROUPS];
    r->plan->synchronize = read[SYNCHRONIZE];
    r->plan->pipeline = (uint8_t)read[PIPELINE];
    r->plan->lookahead = read[LOOKAHEAD];
    const orr_status status = orr_embedding_plan_check_ranks(r->plan, r->err);
    (void)snprintf(where, sizeof where, "%s:%u:%u", file->file, file->line, file->column);
    if (status != ORR_OK)
        orr_error_prefix(r->err, where);
    return status;
}

static orr_status read_file(reader *r, const orr_yaml *file)
{
    ORR_TRY(read_head(r, file));
    const orr_yaml *tables = orr_yaml_find(file, "tables");
    if (tables == NULL || tables->kind != ORR_YAML_MAP)
        return orr_yaml_fail(tables == NULL ? file : tables, ORR_INVALID, r->err,
                             "a plan of tables has a line for each: tables: {t0: {kind: ...}}");
    r->placements = orr_arena_array(r->arena, orr_embedding_placement, r->plan->n_tables);
    r->seen = orr_arena_array(r->arena, uint32_t, r->plan->ranks);
    orr_strtab *names = orr_strtab_new();
    orr_status status = r->placements == NULL || r->seen == NULL || names == NULL
                            ? orr_fail_memory(r->err)
                            : number_names(r, names);
    r->plan->placements = r->placements;
    if (status == ORR_OK)
        status = read_tables(r, tables, names);
    orr_strtab_free(names);
    return status;
}

orr_status orr_embedding_plan_parse(const orr_yaml *file, const orr_embedding *tables, uint32_t n,
                                    orr_arena *arena, orr_embedding_plan *ret, orr_error *err)
{
    orr_embedding_plan plan = {.n_tables = n, .tables = tables};
    reader r = {.plan = &plan, .arena = arena, .err = err};
    ORR_TRY(read_file(&r, file));
    ORR_TRY(orr_embedding_plan_shard(&plan, arena, err));
    *ret = plan;
    return ORR_OK;
}

orr_status orr_embedding_plan_read(const char *path, const orr_embedding *tables, uint32_t n,
                                   orr_arena *arena, orr_embedding_plan *ret, orr_error *err)
{
    const orr_yaml *file;
    ORR_TRY(orr_yaml_load(path, arena, &file, err));
    return orr_embedding_plan_parse(file, tables, n, arena, ret, err);
}

/* --- printer --------------------------------------------------------------------------------- */

/* Ranks, runs of three and more as "4-7". */
static void put_ranks(orr_output *out, const uint32_t *ranks, uint32_t n)
{
    orr_output_text(out, ", ranks: [");
    for (uint32_t i = 0, run; i < n; i += run) {
        for (run = 1; i + run < n && ranks[i + run] == ranks[i] + run; run++)
            ;
        run = run < 3 ? 1 : run;
        orr_output_printf(out, "%s%u", i > 0 ? ", " : "", ranks[i]);
        if (run > 1)
            orr_output_printf(out, "-%u", ranks[i] + run - 1);
    }
    orr_output_text(out, "]");
}

/* Names of letters, digits and underscores stand as they are; others in quotes. */
static void put_name(orr_output *out, const char *name)
{
    bool plain = isalpha((unsigned char)*name) != 0;
    for (const char *at = name; *at != '\0'; at++)
        plain &= isalnum((unsigned char)*at) || *at == '_';
    if (plain)
        orr_output_text(out, name);
    else
        orr_json_put_string(out, name, strlen(name));
}

static void put_plan(orr_output *out, const orr_embedding_plan *plan)
{
    orr_output_printf(out, "ranks: %u\n", plan->ranks);
    if (plan->host_ranks != 0)
        orr_output_printf(out, "host_ranks: %u\n", plan->host_ranks);
    if (plan->groups > 1)
        orr_output_printf(out, "groups: %u\nsynchronize: %u\n", plan->groups, plan->synchronize);
    if (plan->forward != ORR_EMBEDDING_CODEC_FP32)
        orr_output_printf(out, "forward: %s\n", orr_embedding_codec_name(plan->forward));
    if (plan->backward != ORR_EMBEDDING_CODEC_FP32)
        orr_output_printf(out, "backward: %s\n", orr_embedding_codec_name(plan->backward));
    if (plan->pipeline > 0)
        orr_output_printf(out, "pipeline: %u\n", plan->pipeline);
    if (plan->lookahead > 0)
        orr_output_printf(out, "lookahead: %u\n", plan->lookahead);
    orr_output_text(out, "tables:\n");
    for (uint32_t t = 0; t < plan->n_tables; t++) {
        const orr_embedding_placement *p = &plan->placements[t];
        orr_output_text(out, "  ");
        put_name(out, plan->tables[t].name);
        orr_output_printf(out, ": {kind: %s", orr_embedding_sharding_name(p->sharding));
        if (p->columns > 1)
            orr_output_printf(out, ", columns: %u", p->columns);
        if (p->n_ranks > 0)
            put_ranks(out, p->ranks, p->n_ranks);
        if (p->tier != ORR_TIER_DRAM)
            orr_output_printf(out, ", tier: %s", orr_tier_name((orr_tier)p->tier));
        if (p->cached_rows >= 1)
            orr_output_printf(out, ", cached_rows: %.0f", p->cached_rows);
        orr_output_text(out, "}\n");
    }
}

const char *orr_embedding_plan_text(const orr_embedding_plan *plan, orr_arena *arena)
{
    orr_output *out;
    const char *text = NULL;
    size_t len;
    if (orr_output_open_memory(&out, NULL) != ORR_OK)
        return NULL;
    put_plan(out, plan);
    if (orr_output_finish(out, NULL) == ORR_OK) {
        const void *bytes = orr_output_memory(out, &len);
        text = orr_arena_strndup(arena, bytes, len);
    }
    orr_output_close(out);
    return text;
}
