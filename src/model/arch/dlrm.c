/* SPDX-License-Identifier: Apache-2.0 */
/* Recommendation model (DLRM): embedding tables are sharded over all replicas and the dense part
 * is replicated (Naumov et al., arXiv 1906.00091, section 4). As simulated, a micro-batch has the
 * samples of all replicas: each replica looks up the rows of its tables for all samples, then an
 * all-to-all brings the pooled bags to the samples' replicas. As run, the module has the samples of
 * one replica, and their pooled bags, of all tables, are its input: tables belong to the step
 * (engine/tables). B: samples, F tables, C columns of each. */
#include "model/arch/dlrm.h"

#include "model/arch/transformer.h"

static int64_t all_samples(const orr_draft *draft)
{
    return draft->job->samples * (draft->job->real ? 1 : draft->job->how.members[ORR_AXIS_DP]);
}

static orr_layout by_sample(const orr_draft *draft)
{
    return draft->job->real
               ? (orr_layout){0}
               : (orr_layout){.by = {orr_draft_axes(draft, ORR_AXIS_DP, ORR_AXIS_NONE)}};
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

/* Tables as simulated. With at least as many tables as replicas, a replica has whole tables, and
 * the count is that of the fullest replica; else the rows of every table are sharded. Rows and
 * lookups are averages. */
static tables tables_of(const orr_draft *draft)
{
    const orr_dlrm *d = &draft->job->model->dlrm;
    const int64_t replicas = draft->job->how.members[ORR_AXIS_DP];
    tables t = {.count = d->n_tables, .whole = d->n_tables >= replicas};
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

static int64_t columns_of(const orr_dlrm *d)
{
    int64_t columns = 0;
    for (uint32_t i = 0; i < d->n_tables; i++)
        columns += d->tables[i].columns;
    return columns;
}

/* Bags are (B, F, C) for dot products, (B, columns of all tables) for cross layers. As run, the
 * module's input: */
static orr_value given_bags(orr_draft *draft)
{
    const orr_dlrm *d = &draft->job->model->dlrm;
    for (uint32_t i = 0; d->cross_layers == 0 && i < d->n_tables; i++)
        if (d->tables[i].columns != d->dim)
            orr_draft_fail(draft, orr_fail(draft->err, ORR_INVALID,
                                           "table %s has %u columns, dot products need %u",
                                           d->tables[i].name, d->tables[i].columns, d->dim));
    draft->in =
        orr_draft_input(draft, draft->job->stream, ORR_DIMS(all_samples(draft), columns_of(d)),
                        &(orr_layout){0}, "bags");
    return d->cross_layers > 0 ? draft->in
                               : orr_write_view(draft, draft->in,
                                                ORR_DIMS(all_samples(draft), d->n_tables, d->dim));
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

/* Input of the top MLP from the dense vector (B, C) and the bags of all tables. */
static orr_value interacted(orr_draft *draft, orr_value dense, orr_value sums, int64_t *ret_columns)
{
    const orr_dlrm *d = &draft->job->model->dlrm;
    const int64_t b = all_samples(draft), c = d->dim, vectors = (int64_t)d->n_tables + 1;
    const orr_op_args join = {.dim = 1};
    if (d->cross_layers > 0) {
        *ret_columns = c + columns_of(d);
        return crossed(draft, ORR_CALL(draft, CONCAT, &join, "features", dense, sums),
                       *ret_columns);
    }
    const orr_value all = ORR_CALL(draft, CONCAT, &join, "features",
                                   orr_write_view(draft, dense, ORR_DIMS(b, 1, c)), sums);
    *ret_columns = c + vectors * (vectors - 1) / 2;
    return ORR_CALL(draft, CONCAT, &join, "interaction", dense,
                    ORR_CALL(draft, INTERACTION, NULL, "interaction", all));
}

/* As simulated, without those of padding tables: */
static orr_value looked_up_bags(orr_draft *draft)
{
    const orr_dlrm *d = &draft->job->model->dlrm;
    const tables t = tables_of(draft);
    orr_value sums = bags(draft, &t);
    if (t.count > d->n_tables)
        sums =
            ORR_CALL(draft, SLICE, (&(orr_op_args){.dim = 1, .count = d->n_tables}), "bags", sums);
    return d->cross_layers > 0
               ? orr_write_view(draft, sums, ORR_DIMS(all_samples(draft), columns_of(d)))
               : sums;
}

void orr_write_dlrm(orr_draft *draft)
{
    const orr_dlrm *d = &draft->job->model->dlrm;
    const int64_t b = all_samples(draft);
    const orr_layout samples = by_sample(draft);
    int64_t columns = 0;
    const orr_value features = orr_draft_input(draft, draft->job->stream,
                                               ORR_DIMS(b, d->dense_features), &samples, "dense");
    const orr_value sums = draft->job->real ? given_bags(draft) : looked_up_bags(draft);
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
