/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters and FLOPs of recommendation models (Naumov et al., arXiv 1906.00091; low-rank cross
 * network: Wang et al., DCN V2, arXiv 2008.13535, section 3) and of residual networks (He et
 * al., arXiv 1512.03385, with the stride in the 3x3 convolution of a bottleneck: "v1.5", as in
 * MLPerf and torchvision). */
#include "model/spec/parameters.h"

static int64_t mlp(int64_t in, const uint32_t *widths, uint32_t n, bool biases)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum = orr_saturating_add(sum, orr_linear_parameters(in, widths[i], biases));
        in = widths[i];
    }
    return sum;
}

/* Columns of the interaction's output: all vectors concatenated (cross network), or the dense
 * vector and the dot product of each pair. */
static int64_t interaction_columns(const orr_dlrm *d)
{
    const int64_t vectors = (int64_t)d->n_tables + 1;
    int64_t columns = d->dim;
    for (uint32_t t = 0; t < d->n_tables && d->cross_layers > 0; t++)
        columns += d->tables[t].columns;
    return d->cross_layers > 0 ? columns : d->dim + vectors * (vectors - 1) / 2;
}

static int64_t cross(const orr_dlrm *d, bool biases)
{
    const int64_t columns = interaction_columns(d), rank = d->cross_rank;
    const int64_t one = orr_saturating_add(orr_saturating_mul(2, orr_saturating_mul(columns, rank)),
                                           biases ? columns : 0);
    return orr_saturating_mul(d->cross_layers, one);
}

void orr_parameter_count_dlrm(const orr_model *model, orr_parameter_count *m)
{
    const orr_dlrm *d = &model->dlrm;
    int64_t numbers = 0;
    double looked_up = 0;
    for (uint32_t t = 0; t < d->n_tables; t++) {
        const orr_embedding *table = &d->tables[t];
        numbers = orr_saturating_add(numbers, orr_saturating_mul(table->rows, table->columns));
        looked_up += table->pooling * table->columns;
    }
    const int64_t columns = interaction_columns(d);
    const int64_t each = numbers % d->dim == 0 ? d->dim : 1;
    orr_parameter_count_add(m, "tables", (uint64_t)(numbers / each), each,
                            (uint64_t)(looked_up / (double)each), 0);
    orr_parameter_count_add(m, "bottom mlp", 1,
                            mlp(d->dense_features, d->bottom, d->n_bottom, true), 1,
                            mlp(d->dense_features, d->bottom, d->n_bottom, false));
    orr_parameter_count_add(m, "cross network", d->cross_layers > 0, cross(d, true), 1,
                            cross(d, false));
    orr_parameter_count_add(m, "top mlp", 1, mlp(columns, d->top, d->n_top, true), 1,
                            mlp(columns, d->top, d->n_top, false));
}

double orr_flops_dlrm(const orr_model *model)
{
    const orr_dlrm *d = &model->dlrm;
    const double vectors = d->n_tables + 1.0;
    orr_parameter_count m = {0};
    orr_parameter_count_dlrm(model, &m);
    const double dots = d->cross_layers > 0 ? 0 : vectors * (vectors - 1) / 2 * d->dim;
    return 2 * ((double)m.matmul + dots);
}

/* A convolution k x k without bias, with its batch norm, on `side` x `side` outputs. */
typedef struct convolution {
    int64_t in, out, k, side;
} convolution;
typedef void visit(const convolution *c, void *user);

static void for_each_convolution(const orr_resnet *r, visit *each, void *user)
{
    int64_t in = r->stem, side = (int64_t)(r->image + 1) / 2;
    each(&(convolution){3, r->stem, 7, side}, user);
    side = (side + 1) / 2;
    for (uint32_t s = 0; s < r->n_stages; s++) {
        const int64_t width = r->width[s], out = orr_saturating_mul(width, r->expansion);
        for (uint32_t b = 0; b < r->blocks[s]; b++) {
            const int64_t before = side;
            if (s > 0 && b == 0)
                side = (side + 1) / 2;
            each(&(convolution){in, width, 1, before}, user);
            each(&(convolution){width, width, 3, side}, user);
            each(&(convolution){width, out, 1, side}, user);
            if (b == 0)
                each(&(convolution){in, out, 1, side}, user); /* projection shortcut */
            in = out;
        }
    }
}

typedef struct resnet_count {
    int64_t weights, norms;
    double products;
} resnet_count;

static void count_convolution(const convolution *c, void *user)
{
    resnet_count *count = user;
    const int64_t weights = orr_saturating_mul(orr_saturating_mul(c->in, c->out), c->k * c->k);
    count->weights = orr_saturating_add(count->weights, weights);
    count->norms = orr_saturating_add(count->norms, orr_saturating_mul(2, c->out));
    count->products += (double)weights * (double)c->side * (double)c->side;
}

static int64_t last_columns(const orr_resnet *r)
{
    return orr_saturating_mul(r->width[r->n_stages - 1], r->expansion);
}

void orr_parameter_count_resnet(const orr_model *model, orr_parameter_count *m)
{
    const orr_resnet *r = &model->resnet;
    resnet_count count = {0};
    for_each_convolution(r, count_convolution, &count);
    orr_parameter_count_add(m, "convolutions", 1, count.weights, 1, count.weights);
    orr_parameter_count_add(m, "norms", 1, count.norms, 1, 0);
    orr_parameter_count_add(m, "head", 1, orr_linear_parameters(last_columns(r), r->classes, true),
                            1, orr_saturating_mul(last_columns(r), r->classes));
}

double orr_flops_resnet(const orr_model *model)
{
    const orr_resnet *r = &model->resnet;
    resnet_count count = {0};
    for_each_convolution(r, count_convolution, &count);
    return 2 * (count.products + (double)last_columns(r) * r->classes);
}
