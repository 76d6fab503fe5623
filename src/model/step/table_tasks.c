/* SPDX-License-Identifier: Apache-2.0 */
#include "model/step/table_tasks.h"

#include <math.h>

#include "cost/roofline/device_rates.h"

/* What an all-to-all costs for each peer, however little it brings: messages are posted one by one
 * (assumed: two million a second). */
#define PEER_NS 500.0
/* How often a sort of lookups by row moves them: four passes of a radix sort of 8 bits a pass, each
 * of which reads and writes them (assumed). */
#define SORT_MOVES 8.0
/* Share of the L2 cache that rows may fill (ml_perf_model: roofline/embedding.c). */
#define L2_SHARE 0.9

static orr_status spans_of(const orr_tables_work *work, const orr_plan *plan,
                           const orr_cluster *cluster, orr_table_tasks *t, orr_error *err)
{
    orr_plan groups = *plan;
    groups.zero = 1;
    groups.shards = work->ranks;
    ORR_TRY(orr_plan_span(&groups, ORR_AXIS_SHARD, cluster, &t->group, err));
    ORR_TRY(orr_plan_span(&groups, ORR_AXIS_REPLICA, cluster, &t->replicas, err));
    groups.shards = work->host_ranks;
    return orr_plan_span(&groups, ORR_AXIS_SHARD, cluster, &t->host, err);
}

orr_status orr_table_tasks_open(const orr_module *module, const orr_plan *plan,
                                const orr_step_prices *prices, orr_table_tasks *ret, orr_error *err)
{
    *ret = (orr_table_tasks){.work = module->tables, .prices = prices};
    if (module->tables == NULL)
        return ORR_OK;
    ret->stream_bytes = orr_dtype_bytes((orr_dtype)module->tape->values[module->in].type.dtype);
    return spans_of(module->tables, plan, prices->kernels->cluster, ret, err);
}

static orr_call_cost *append(orr_call_cost *tasks, uint32_t *n, const char *name)
{
    tasks[*n] =
        (orr_call_cost){.axis = ORR_AXIS_NONE, .call = ORR_NONE, .joins = ORR_NONE, .name = name};
    return &tasks[(*n)++];
}

/* A kernel that is bound by memory. */
static void compute(const orr_table_tasks *t, const char *name, double bytes, double flops,
                    orr_call_cost *tasks, uint32_t *n)
{
    if (!(bytes > 0))
        return;
    const orr_work work = {
        .family = ORR_FAMILY_EMBEDDING_FORWARD, .read_bytes = bytes, .flops = flops};
    const orr_price price = orr_step_kernel(t->prices, &work);
    orr_call_cost *task = append(tasks, n, name);
    task->ns = price.ns;
    task->basis = price.basis;
    task->flops = flops;
}

/* A transfer of the group, or within hosts: the price that the member with most bytes has. One that
 * is made every so many steps is a part of each. */
static void transfer(const orr_table_tasks *t, const orr_span *span, orr_collective collective,
                     double bytes, uint32_t every, const char *name, orr_call_cost *tasks,
                     uint32_t *n)
{
    const orr_step_prices *p = t->prices;
    if (span->n_ranks < 2 || !(bytes > 0))
        return;
    const int64_t whole = (int64_t)fmin(ceil(bytes), 0x1p60);
    const orr_price price =
        orr_job_rates_collective(p->transfers[ORR_AXIS_DP], span, collective, whole);
    const double peers_ns = collective == ORR_COLL_ALL_TO_ALL ? PEER_NS * (span->n_ranks - 1) : 0;
    orr_call_cost *task = append(tasks, n, name);
    task->axis = ORR_AXIS_DP;
    task->collective = (uint8_t)collective;
    task->bytes = whole / every;
    task->sent_bytes = orr_step_sent_bytes(collective, span->n_ranks, task->bytes);
    task->basis = price.basis;
    task->ns = orr_step_jittered_ns(p, price.ns + orr_step_call_ns(p) + (int64_t)peers_ns) / every;
}

static void all_to_all(const orr_table_tasks *t, double bytes, const char *name,
                       orr_call_cost *tasks, uint32_t *n)
{
    transfer(t, &t->group, ORR_COLL_ALL_TO_ALL, bytes, 1, name, tasks, n);
}

/* Transfers from here on go beside what follows, until they are joined. */
static void open_transfers(orr_table_tasks *t, uint32_t n)
{
    t->first_open = t->end_open = n;
}

static void close_transfers(orr_table_tasks *t, orr_call_cost *tasks, uint32_t n)
{
    t->end_open = n;
    for (uint32_t i = t->first_open; i < n; i++)
        tasks[i].beside = tasks[i].axis != ORR_AXIS_NONE;
}

static void join_transfers(orr_table_tasks *t, orr_call_cost *tasks, uint32_t n)
{
    for (uint32_t i = t->first_open; i < t->end_open; i++)
        if (tasks[i].beside)
            tasks[i].joins = n;
    t->first_open = t->end_open = n;
}

/* Bytes of memory that lookups cost. The first lookup of a row reads memory; later ones find it in
 * the L2 cache, as far as the distinct rows fit there, and are bound by the cache's own rate. */
static double lookup_bytes(const orr_table_tasks *t, const orr_tables_load *load)
{
    const orr_device_rates rates = orr_device_rates_of(t->prices->kernels->device);
    const double cached =
        load->touched > 0 ? fmin(1, L2_SHARE * rates.l2_bytes / load->touched) : 0;
    const double again = fmax(0, load->read - load->touched);
    const double from_memory = load->read - again * cached;
    const double through_l2 =
        rates.l2_bytes_per_s > 0 ? load->read * rates.memory_bytes_per_s / rates.l2_bytes_per_s : 0;
    return fmax(from_memory, isnan(through_l2) ? 0 : through_l2);
}

void orr_table_tasks_look_up(orr_table_tasks *t, orr_call_cost *tasks, uint32_t *n)
{
    const orr_tables_work *w = t->work;
    const orr_tables_load *most = &w->most;
    if (w->pipeline < 2)
        all_to_all(t, most->ids, "exchange_ids", tasks, n);
    compute(t, "look_up", lookup_bytes(t, most) + most->summed, most->read / sizeof(float), tasks,
            n);
    open_transfers(t, *n);
    transfer(t, &t->host, ORR_COLL_REDUCE_SCATTER, most->host_bags, 1, "sum_in_host", tasks, n);
    all_to_all(t, most->bags, "exchange_bags", tasks, n);
    close_transfers(t, tasks, *n);
}

/* What arrives in the format of transfers is written in that of activations. */
static double recoded_bytes(const orr_table_tasks *t)
{
    const double stream = t->work->samples * t->work->columns * t->stream_bytes;
    return stream == t->work->decoded ? 0 : stream + t->work->decoded;
}

/* With a pipeline ids of a later batch travel beside the computation that follows. */
void orr_table_tasks_take_bags(orr_table_tasks *t, orr_call_cost *tasks, uint32_t *n)
{
    join_transfers(t, tasks, *n);
    compute(t, "decode_bags", recoded_bytes(t), 0, tasks, n);
    open_transfers(t, *n);
    if (t->work->pipeline >= 2)
        all_to_all(t, t->work->most.ids, "exchange_ids", tasks, n);
    close_transfers(t, tasks, *n);
}

void orr_table_tasks_send_gradients(orr_table_tasks *t, orr_call_cost *tasks, uint32_t *n)
{
    const orr_tables_load *most = &t->work->most;
    compute(t, "encode_gradients", recoded_bytes(t), 0, tasks, n);
    open_transfers(t, *n);
    all_to_all(t, most->bag_gradients, "exchange_gradients", tasks, n);
    transfer(t, &t->host, ORR_COLL_ALL_GATHER, most->host_gradients, 1, "gather_in_host", tasks, n);
    transfer(t, &t->group, ORR_COLL_ALL_GATHER, most->gathered, 1, "gather_gradients", tasks, n);
    close_transfers(t, tasks, *n);
}

void orr_table_tasks_update(orr_table_tasks *t, orr_call_cost *tasks, uint32_t *n)
{
    const orr_tables_load *most = &t->work->most;
    join_transfers(t, tasks, *n);
    compute(t, "sort_lookups", SORT_MOVES * most->sorted, 0, tasks, n);
    all_to_all(t, most->squares, "exchange_squares", tasks, n);
    compute(t, "update_rows", most->gradients + most->update, 2 * most->gradients / sizeof(float),
            tasks, n);
    transfer(t, &t->replicas, ORR_COLL_ALL_REDUCE, most->rows + most->state, t->work->synchronize,
             "average_tables", tasks, n);
}

orr_status orr_table_tasks_fetch(const orr_module *module, const orr_step_prices *prices,
                                 orr_arena *arena, orr_tables_fetch *ret, orr_error *err)
{
    const orr_cluster *cluster = prices->kernels->cluster;
    orr_tier_rates tiers[ORR_TIERS];
    *ret = (orr_tables_fetch){0};
    if (module->tables == NULL || module->tables->fetched == NULL)
        return ORR_OK;
    ORR_TRY(orr_tiers_of_host(cluster, cluster->levels[0].devices, arena, tiers, err));
    return orr_tables_fetch_of(module->tables->fetched, &module->tables->demand, tiers, ret, err);
}
