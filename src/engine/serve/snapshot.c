/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/serve/snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "engine/serve/metrics.h"

static orr_row_shard shard_of(const orr_embedding *t)
{
    return (orr_row_shard){
        .table = t->name,
        .table_rows = t->rows,
        .rows = t->rows,
        .table_columns = t->columns,
        .column_end = t->columns,
        .format = t->format,
        .optimizer = t->optimizer,
        .row_bytes = (uint32_t)orr_row_format_bytes((orr_row_format)t->format, t->columns)};
}

static orr_status pack(const char *path, const orr_row_file_facts *facts, orr_mapped_tables *tables,
                       const orr_row_server_options *options, orr_row_server *serving,
                       orr_serve_snapshot *ret, orr_error *err)
{
    ret->packed = true;
    for (uint32_t i = 0; i < facts->n_shards; i++)
        ret->packed_bytes += (uint64_t)facts->shards[i].rows * facts->shards[i].row_bytes;
    ORR_TRY(orr_row_snapshot_pack(path, facts, orr_mapped_tables_read, tables, err));
    if (serving == NULL)
        return orr_row_server_open(path, facts, options, &ret->server, err);
    ret->server = serving;
    ret->next = true;
    return orr_row_server_prepare(serving, path, err);
}

/* A file of other rows is nobody's who may write to it. */
static orr_status check_unused(const char *path, const orr_row_file_facts *facts,
                               const orr_row_server_options *options, orr_error *err)
{
    orr_row_server_options writing = *options;
    orr_row_server *server;
    writing.read_only = false;
    const orr_status status = orr_row_server_open(path, facts, &writing, &server, err);
    if (status == ORR_OK)
        orr_row_server_close(server); /* packed anew since, by another process */
    return status == ORR_INVALID ? ORR_OK : status;
}

static orr_status open_or_pack(const char *path, const orr_row_file_facts *facts,
                               orr_mapped_tables *tables, const orr_row_server_options *options,
                               orr_row_server *serving, orr_serve_snapshot *ret, orr_error *err)
{
    if (access(path, F_OK) != 0)
        return pack(path, facts, tables, options, serving, ret, err);
    const orr_status status = serving != NULL
                                  ? ORR_INVALID
                                  : orr_row_server_open(path, facts, options, &ret->server, err);
    if (status != ORR_INVALID)
        return status;
    if (options->read_only && serving == NULL) /* under no server that has it open */
        ORR_TRY(check_unused(path, facts, options, err));
    ret->replaced = true; /* of other rows, by their fingerprint */
    return pack(path, facts, tables, options, serving, ret, err);
}

orr_status orr_serve_snapshot_open(const char *folder, orr_mapped_tables *tables, uint32_t n,
                                   const orr_row_server_options *options, orr_row_server *serving,
                                   orr_serve_snapshot *ret, orr_error *err)
{
    const orr_embedding *about = orr_mapped_tables_of(tables);
    orr_serve_snapshot snapshot = {0};
    char path[4096];
    const int chars = snprintf(path, sizeof path, "%s/tables.rows", folder);
    if (chars < 0 || (size_t)chars >= sizeof path)
        return orr_fail(err, ORR_INVALID, "%s: too long a path", folder);
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return orr_fail(err, ORR_IO, "%s: %s", folder, strerror(errno));
    orr_row_shard *shards = orr_calloc((size_t)n + 1, sizeof *shards);
    if (shards == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n; i++)
        shards[i] = shard_of(&about[i]);
    const orr_row_file_facts facts = {.model = orr_mapped_tables_fingerprint(tables),
                                      .ranks = 1,
                                      .n_shards = n,
                                      .shards = shards};
    const orr_status status = open_or_pack(path, &facts, tables, options, serving, &snapshot, err);
    orr_free(shards);
    if (status == ORR_OK)
        *ret = snapshot;
    return status;
}

static void put(orr_output *out, const char *name, const char *table, const char *tier, uint64_t n)
{
    orr_output_printf(out, "%s{table=\"", name);
    orr_metric_label(out, table);
    if (tier != NULL)
        orr_output_printf(out, "\",tier=\"%s", tier);
    orr_output_printf(out, "\"} %llu\n", (unsigned long long)n);
}

static void write_lookups(const orr_row_server *server, const orr_embedding *tables, uint32_t n,
                          orr_output *out)
{
    static const char NAME[] = "orrery_serve_table_lookups_total";
    orr_metric_head(out, NAME, "counter",
                    "Lookups by table and by where they were answered: sums kept whole, rows in "
                    "memory, storage.");
    for (uint32_t i = 0; i < n; i++) {
        const orr_row_server_stats s = orr_row_server_stats_of(server, i);
        put(out, NAME, tables[i].name, "pooled", s.pooled_rows_saved);
        put(out, NAME, tables[i].name, "memory", s.hits);
        put(out, NAME, tables[i].name, "storage", s.lookups > s.hits ? s.lookups - s.hits : 0);
    }
}

static void write_reads(const orr_row_server_stats *s, orr_output *out)
{
    static const char NAME[] = "orrery_serve_read_seconds";
    uint64_t sum = 0;
    orr_metric_head(out, NAME, "histogram", "Reads of storage; the sum is at most 1.5 times off.");
    double seconds = 0;
    for (int k = 0; k < 40; k++) {
        sum += s->read_ns[k];
        seconds += (double)s->read_ns[k] * (double)(UINT64_C(3) << k) / 2 * 1e-9;
        orr_output_printf(out, "%s_bucket{le=\"%.9g\"} %llu\n", NAME,
                          (double)(UINT64_C(2) << k) * 1e-9, (unsigned long long)sum);
    }
    for (int k = 40; k < 64; k++)
        sum += s->read_ns[k];
    orr_output_printf(out, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum %.9g\n%s_count %llu\n", NAME,
                      (unsigned long long)sum, NAME, seconds, NAME, (unsigned long long)sum);
}

static void count(orr_output *out, const char *name, const char *type, const char *help,
                  uint64_t value)
{
    orr_metric_head(out, name, type, help);
    orr_output_printf(out, "%s %llu\n", name, (unsigned long long)value);
}

void orr_serve_snapshot_metrics(const orr_row_server *server, const orr_embedding *tables,
                                uint32_t n, orr_output *out)
{
    const orr_row_server_stats s = orr_row_server_stats_of(server, UINT32_MAX);
    write_lookups(server, tables, n, out);
    count(out, "orrery_serve_pooled_lookups_total", "counter", "Bags looked for among kept sums.",
          s.pooled_lookups);
    count(out, "orrery_serve_pooled_hits_total", "counter", "Bags found among kept sums.",
          s.pooled_hits);
    count(out, "orrery_serve_reads_total", "counter", "Reads of storage.", s.reads);
    count(out, "orrery_serve_read_bytes_total", "counter", "Bytes read from storage.",
          s.read_bytes);
    count(out, "orrery_serve_reads_in_flight", "gauge", "Reads of storage under way.", s.in_flight);
    count(out, "orrery_serve_throttled_total", "counter", "Reads that a cap held back.",
          s.throttled);
    count(out, "orrery_serve_updates_total", "counter", "Rows updated.", s.updates);
    write_reads(&s, out);
}

void orr_serve_written_metrics(uint64_t bytes, double bytes_per_day, double endurance,
                               orr_output *out)
{
    static const char DAY[] = "orrery_serve_written_bytes_per_day",
                      MOST[] = "orrery_serve_endurance_bytes_per_day",
                      SHARE[] = "orrery_serve_endurance_used_ratio";
    count(out, "orrery_serve_written_bytes_total", "counter",
          "Bytes written to storage, packing and cleaning included: what wears a drive.", bytes);
    orr_metric_head(out, DAY, "gauge", "The same in a day, at the rate of the last minutes.");
    orr_metric(out, DAY, NULL, bytes_per_day);
    if (!(endurance > 0))
        return;
    orr_metric_head(out, MOST, "gauge", "What the drive takes in a day, by its endurance.");
    orr_metric(out, MOST, NULL, endurance);
    orr_metric_head(out, SHARE, "gauge", "Share of it at that rate; above 1 it wears out early.");
    orr_metric(out, SHARE, NULL, bytes_per_day / endurance);
}
