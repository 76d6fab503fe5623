/* SPDX-License-Identifier: Apache-2.0 */
/* Prices of what a rank does with its embedding tables, from the rates of a machine. */
#include <math.h>

#include "engine/step/embedding_tables.h"
#include "measure/embedding_tables.h"
#include "measure/price.h"

orr_table_work orr_table_work_of(const orr_program_call *call)
{
    static orr_program_hook *const hooks[ORR_TABLE_WORKS] = {
        orr_step_read_batch,    orr_step_exchange_ids,  orr_step_fetch_rows,
        orr_step_sum_bags,      orr_step_exchange_bags, orr_step_exchange_bag_gradients,
        orr_step_update_tables,
    };
    int w = 0;
    while (w < ORR_TABLE_WORKS && (call->instead == NULL || call->instead != hooks[w]))
        w++;
    return (orr_table_work)w;
}

/* How unlike two sizes are: the square of the distance of their logarithms. */
static double distance(double a, double b)
{
    const double d = log(a > 1 ? a : 1) - log(b > 1 ? b : 1);
    return d * d;
}

/* Bytes of a table's records, which decide what caches hold them. */
static double table_bytes(int64_t rows, uint32_t columns, uint8_t format)
{
    return (double)rows * (double)orr_row_format_bytes((orr_row_format)format, columns);
}

/* ns of a lookup's column: the mean over the measurements of this work, by nearness of table,
 * columns and lookups of a bag; the same format and optimizer count for more. A measurement of the
 * same sizes counts alone. NAN: none. */
static double rate_of(const orr_table_load *load, const orr_measured_table *asked)
{
    const orr_measured *m = load->measured;
    double sum = 0, weights = 0;
    for (uint32_t i = 0; i < m->n_tables; i++) {
        const orr_measured_table *t = &m->tables[i];
        if (t->update != asked->update || t->threads != asked->threads || t->lookups <= 0)
            continue;
        const double far = distance(table_bytes(t->rows, t->columns, t->format),
                                    table_bytes(asked->rows, asked->columns, asked->format)) +
                           distance(t->columns, asked->columns) +
                           distance((double)t->lookups / (double)t->samples,
                                    (double)asked->lookups / (double)asked->samples) +
                           (t->format != asked->format ? 4 : 0) +
                           (t->optimizer != asked->optimizer ? 4 : 0);
        const double rate = (double)t->ns / ((double)t->lookups * t->columns);
        if (far < 1e-9)
            return rate;
        sum += rate / (far * far);
        weights += 1 / (far * far);
    }
    return weights > 0 ? sum / weights : NAN;
}

/* Sums, or updates, of all shards of the rank. */
static double shards_ns(const orr_table_load *load, bool update)
{
    const orr_embedding_plan *plan = load->plan;
    double ns = 0;
    for (uint32_t i = 0; i < plan->n_shards; i++) {
        const orr_embedding_shard *s = &plan->shards[i];
        const orr_embedding *t = &plan->tables[s->table];
        const bool alone = !update && plan->placements[s->table].sharding == ORR_SHARDING_DATA;
        if (s->rank != load->rank)
            continue;
        const int64_t rows = orr_embedding_range_begin(t->rows, s->range_end) -
                             orr_embedding_range_begin(t->rows, s->range_begin),
                      samples = load->samples * (alone ? 1 : plan->ranks);
        const double lookups =
            (double)samples * t->pooling * (double)rows / (double)(t->rows > 0 ? t->rows : 1);
        const orr_measured_table asked = {.update = update,
                                          .format = t->format,
                                          .optimizer = t->optimizer,
                                          .threads = load->threads,
                                          .columns = s->column_end - s->column_begin,
                                          .rows = rows,
                                          .samples = samples,
                                          .lookups = (int64_t)(lookups + 0.5)};
        ns += rate_of(load, &asked) * lookups * asked.columns;
    }
    return ns;
}

/* What a message takes besides being copied once: the measured exchange. */
static double exchange_ns(const orr_table_load *load, double bytes, uint32_t ranks)
{
    const orr_measured *m = load->measured;
    const double copied = m->copy_bytes_per_s > 0 ? bytes * 1e9 / m->copy_bytes_per_s : 0;
    return ranks <= 1 ? 0
                      : copied + (double)orr_measured_collective_ns(m, ORR_COLL_ALL_TO_ALL, ranks,
                                                                    (int64_t)bytes);
}

static double bytes_ns(const orr_measured *m, double bytes)
{
    return m->read_bytes_per_s > 0 ? bytes * 1e9 / m->read_bytes_per_s : 0;
}

int64_t orr_table_work_ns(const orr_table_load *load, orr_table_work work)
{
    const orr_embedding_plan *plan = load->plan;
    double lookups = 0, columns = 0, ns;
    for (uint32_t i = 0; i < plan->n_tables; i++) {
        lookups += (double)load->samples * plan->tables[i].pooling;
        columns += plan->tables[i].columns;
    }
    const double ids = lookups * sizeof(int64_t),
                 bags = columns * (double)load->samples * sizeof(float);
    switch (work) {
    case ORR_TABLE_WORK_SUM:
    case ORR_TABLE_WORK_UPDATE:
        ns = shards_ns(load, work == ORR_TABLE_WORK_UPDATE);
        break;
    case ORR_TABLE_WORK_BAGS:
    case ORR_TABLE_WORK_GRADIENTS:
        ns = exchange_ns(load, bags, plan->ranks);
        break;
    case ORR_TABLE_WORK_FETCH: /* rows are in memory */
        ns = 0;
        break;
    default:
        ns = bytes_ns(load->measured, ids) +
             (work == ORR_TABLE_WORK_IDS ? exchange_ns(load, ids, plan->ranks) : 0);
    }
    return ns > 0 && ns < 9e18 ? (int64_t)(ns + 0.5) : 0;
}
