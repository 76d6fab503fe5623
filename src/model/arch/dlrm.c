/* SPDX-License-Identifier: Apache-2.0 */
/* Recommendation model (DLRM): embedding tables are sharded over all replicas and the dense part
 * is replicated (Naumov et al., arXiv 1906.00091, section 4). A micro-batch has the samples of
 * all replicas: each replica looks up the rows of its tables for all samples, then an all-to-all
 * brings the pooled bags to the samples' replicas. B: samples of all replicas, F tables, C
 * columns of each. */
#include "model/arch/dlrm.h"

#include "model/arch/transformer.h"

static int64_t all_samples(const orr_draft *draft)
{
    return draft->job->samples * draft->job->how.members[ORR_AXIS_DP];
}

static orr_layout by_sample(const orr_draft *draft)
{
    return (orr_layout){.by = {orr_draft_axes(draft, ORR_AXIS_DP, ORR_AXIS_NONE)}};
}

static orr_value layer(orr_draft *draft, orr_value x, int64_t in, int64_t out, const char *name)
{
    return orr_write_linear(
        draft, x, &(orr_linear){.name = name, .in = in, .out = out, .bias = true, .exact = true});
}

/* `last`: the last layer has no activation. */
static orr_value mlp(orr_draft *draft, orr_value x, int64_t in, const uint32_t *widths, uint32_t n,
                     bool last, const char *name)
{
    for (uint32_t i = 0; i < n; i++) {
        x = layer(draft, x, in, widths[i], name);
        in = widths[i];
        if (!last || i + 1 < n)
            x = ORR_CALL(draft, RELU, NULL, name, x);
    }
    return x;
}

typedef struct tables {
    int64_t rows, lookups, count; /* totals: rows; lookups of a sample; tables, including empty
                                   * ones */
    bool whole;                   /* tables are whole on one replica; else their rows are sharded */
} tables;

static orr_table_shard block_of(const orr_dlrm *d, uint32_t replicas, uint32_t replica)
{
    orr_table_shard s = {.count = (d->n_tables + replicas - 1) / replicas};
    s.first = replica * s.count < d->n_tables ? replica * s.count : d->n_tables;
    s.n = d->n_tables - s.first < s.count ? d->n_tables - s.first : s.count;
    for (uint32_t i = s.first; i < s.first + s.n; i++) {
        s.rows += d->tables[i].rows;
        s.lookups += orr_dlrm_pooling(d, i);
    }
    return s;
}

orr_table_shard orr_table_shard_of(const orr_dlrm *d, uint32_t replicas, uint32_t replica)
{
    orr_table_shard share = block_of(d, replicas, replica);
    const int64_t own = share.lookups;
    for (uint32_t r = 0; r < replicas; r++) {
        const orr_table_shard other = block_of(d, replicas, r);
        share.padded |= other.lookups != own;
        share.rows = other.rows > share.rows ? other.rows : share.rows;
        share.lookups = other.lookups > share.lookups ? other.lookups : share.lookups;
    }
    share.rows += share.padded;
    return share;
}

/* Tables as executed: every replica is padded to the fullest one. */
static tables real_tables_of(const orr_draft *draft)
{
    const int64_t replicas = draft->job->how.members[ORR_AXIS_DP];
    const orr_table_shard s = orr_table_shard_of(&draft->job->model->dlrm, (uint32_t)replicas, 0);
    return (tables){.rows = s.rows * replicas,
                    .lookups = s.lookups * replicas,
                    .count = s.count * replicas,
                    .whole = true};
}

/* Tables as simulated. With at least as many tables as replicas, a replica has whole tables, and
 * the count is that of the fullest replica; else the rows of every table are sharded. Rows and
 * lookups are averages. */
static tables tables_of(const orr_draft *draft)
{
    const orr_dlrm *d = &draft->job->model->dlrm;
    const int64_t replicas = draft->job->how.members[ORR_AXIS_DP];
    tables t = {.count = d->n_tables, .whole = d->n_tables >= replicas};
    if (draft->job->real && t.whole)
        return real_tables_of(draft);
    for (uint32_t i = 0; i < d->n_tables; i++) {
        t.rows += d->tables[i].rows;
        t.lookups += orr_dlrm_pooling(d, i);
    }
    if (t.whole)
        t.count = (t.count + replicas - 1) / replicas * replicas;
    t.rows = (t.rows + replicas - 1) / replicas * replicas;
    return t;
}

/* (B, F, C): pooled rows of each table for each sample. */
static orr_value bags(orr_draft *draft, const tables *t)
{
    const orr_dlrm *d = &draft->job->model->dlrm;
    const int64_t b = all_samples(draft), replicas = draft->job->how.members[ORR_AXIS_DP];
    const orr_axis_set dp = orr_draft_axes(draft, ORR_AXIS_DP, ORR_AXIS_NONE);
    const orr_layout spread = {.by = {dp}}, owned = {.by = {0, t->whole ? dp : 0}};
    draft->tag = ORR_WEIGHT_TABLE;
    const orr_value table =
        orr_draft_weight(draft, ORR_DIMS(t->rows, d->dim), 0, ORR_AXIS_DP, "tables");
    draft->tag = ORR_WEIGHT_DENSE;
    const int64_t ids = (b * t->lookups + replicas - 1) / replicas * replicas;
    const orr_value which = orr_draft_input(draft, ORR_DTYPE_INT64, ORR_DIMS(ids), &spread, "ids");
    const orr_value offsets =
        orr_draft_input(draft, ORR_DTYPE_INT64, ORR_DIMS(b, t->count), &owned, "offsets");
    const orr_op_args args = {.count = t->lookups * 1024 / t->count};
    const orr_value sums = ORR_CALL(draft, EMBEDDING_BAG, &args, "bags", table, which, offsets);
    const orr_layout samples = by_sample(draft);
    return orr_draft_set_layout(draft, sums, &samples);
}

/* One cross layer (Wang et al., arXiv 2008.13535): x' = x0 (V (U x) + b) + x. */
static orr_value crossed(orr_draft *draft, orr_value x0, int64_t columns)
{
    const orr_dlrm *d = &draft->job->model->dlrm;
    orr_value x = x0;
    for (uint32_t i = 0; i < d->cross_layers; i++) {
        const orr_value low = orr_write_linear(
            draft, x,
            &(orr_linear){.name = "cross", .in = columns, .out = d->cross_rank, .exact = true});
        const orr_value y = layer(draft, low, d->cross_rank, columns, "cross");
        x = ORR_CALL(draft, ADD, NULL, "cross", ORR_CALL(draft, MUL, NULL, "cross", x0, y), x);
    }
    return x;
}

/* Input of the top MLP from the dense vector (B, C) and the bags (B, F, C). */
static orr_value interacted(orr_draft *draft, orr_value dense, orr_value sums, int64_t *ret_columns)
{
    const orr_dlrm *d = &draft->job->model->dlrm;
    const int64_t b = all_samples(draft), c = d->dim, vectors = (int64_t)d->n_tables + 1;
    const orr_op_args join = {.dim = 1};
    const orr_value all = ORR_CALL(draft, CONCAT, &join, "features",
                                   orr_write_view(draft, dense, ORR_DIMS(b, 1, c)), sums);
    if (d->cross_layers > 0) {
        *ret_columns = vectors * c;
        return crossed(draft, orr_write_view(draft, all, ORR_DIMS(b, vectors * c)), vectors * c);
    }
    *ret_columns = c + vectors * (vectors - 1) / 2;
    return ORR_CALL(draft, CONCAT, &join, "interaction", dense,
                    ORR_CALL(draft, INTERACTION, NULL, "interaction", all));
}

/* Drops the bags of padding tables. */
static orr_value real_tables(orr_draft *draft, orr_value sums, const tables *t)
{
    const uint32_t n = draft->job->model->dlrm.n_tables;
    if (t->count == n)
        return sums;
    return ORR_CALL(draft, SLICE, (&(orr_op_args){.dim = 1, .count = n}), "bags", sums);
}

void orr_write_dlrm(orr_draft *draft)
{
    const orr_dlrm *d = &draft->job->model->dlrm;
    const int64_t b = all_samples(draft);
    const orr_layout samples = by_sample(draft);
    const tables t = tables_of(draft);
    int64_t columns = 0;
    if (draft->job->real && !t.whole)
        orr_draft_fail(draft, orr_fail(draft->err, ORR_UNSUPPORTED,
                                       "%u tables on %u replicas: tables whose rows are spread are "
                                       "simulated, not run",
                                       d->n_tables, draft->job->how.members[ORR_AXIS_DP]));
    const orr_value features = orr_draft_input(draft, draft->job->stream,
                                               ORR_DIMS(b, d->dense_features), &samples, "dense");
    const orr_value sums = real_tables(draft, bags(draft, &t), &t);
    const orr_value dense =
        mlp(draft, features, d->dense_features, d->bottom, d->n_bottom, false, "bottom");
    const orr_value x = interacted(draft, dense, sums, &columns);
    const orr_value logits = mlp(draft, x, columns, d->top, d->n_top, true, "top");
    if (!draft->job->trained) {
        draft->out = logits;
        return;
    }
    const orr_value targets =
        orr_draft_input(draft, draft->job->stream, ORR_DIMS(b, 1), &samples, "targets");
    draft->loss = ORR_CALL(draft, BCE_LOSS, NULL, "loss", logits, targets);
}
