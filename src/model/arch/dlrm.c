/* SPDX-License-Identifier: Apache-2.0 */
/* Recommendation model (DLRM): embedding tables are sharded over all replicas and the dense part
 * is replicated (Naumov et al., arXiv 1906.00091, section 4). The module has the samples of one
 * replica, and their pooled bags, of all tables, are its input: tables belong to the step. As run
 * they are in engine/tables; as simulated, tasks beside the tape (dlrm_tables.c). B: samples, F
 * tables, C columns of each. */
#include "model/arch/dlrm.h"

#include "model/arch/transformer.h"

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

static int64_t columns_of(const orr_dlrm *d)
{
    int64_t columns = 0;
    for (uint32_t i = 0; i < d->n_tables; i++)
        columns += d->tables[i].columns;
    return columns;
}

/* The module's input: bags are (B, F, C) for dot products, (B, columns of all tables) for cross
 * layers. */
static orr_value given_bags(orr_draft *draft)
{
    const orr_dlrm *d = &draft->job->model->dlrm;
    for (uint32_t i = 0; d->cross_layers == 0 && i < d->n_tables; i++)
        if (d->tables[i].columns != d->dim)
            orr_draft_fail(draft, orr_fail(draft->err, ORR_INVALID,
                                           "table %s has %u columns, dot products need %u",
                                           d->tables[i].name, d->tables[i].columns, d->dim));
    draft->in =
        orr_draft_input(draft, draft->job->stream, ORR_DIMS(draft->job->samples, columns_of(d)),
                        &(orr_layout){0}, "bags");
    return d->cross_layers > 0 ? draft->in
                               : orr_write_view(draft, draft->in,
                                                ORR_DIMS(draft->job->samples, d->n_tables, d->dim));
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
    const int64_t b = draft->job->samples, c = d->dim, vectors = (int64_t)d->n_tables + 1;
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

void orr_write_dlrm(orr_draft *draft)
{
    const orr_dlrm *d = &draft->job->model->dlrm;
    const int64_t b = draft->job->samples;
    const orr_layout samples = {0};
    int64_t columns = 0;
    const orr_value features = orr_draft_input(draft, draft->job->stream,
                                               ORR_DIMS(b, d->dense_features), &samples, "dense");
    const orr_value sums = given_bags(draft);
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
