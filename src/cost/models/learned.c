/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/models/learned.h"

#include <math.h>

static const char *const FEATURE_NAMES[] = {
#define NAME_(name, text) [ORR_FEATURE_##name] = text,
    ORR_FEATURE_MAP(NAME_)
#undef NAME_
};

const char *orr_feature_name(orr_feature feature)
{
    return FEATURE_NAMES[feature];
}

static float scale(double value)
{
    return (float)log2(1 + value);
}

static float fact(const orr_fact *fact)
{
    return scale(orr_fact_or(fact, NAN));
}

bool orr_learned_features(const orr_device *device, const orr_work *work, float x[ORR_FEATURES],
                          double *ret_roofline_ns)
{
    const orr_cost_model *roofline = orr_cost_roofline();
    const double bytes = work->read_bytes + work->write_bytes;
    orr_price price;

    if (!roofline->price(roofline, device, work, &price) || price.ns <= 0)
        return false;
    for (int i = 0; i < ORR_WORK_DIMS; i++)
        x[ORR_FEATURE_DIM0 + i] = i < work->n_dims ? scale((double)work->dims[i]) : 0;
    x[ORR_FEATURE_FLOPS] = scale(work->flops);
    x[ORR_FEATURE_BYTES] = scale(bytes);
    x[ORR_FEATURE_INTENSITY] = (float)log2((1 + work->flops) / (1 + bytes));
    x[ORR_FEATURE_ROOFLINE] = scale((double)price.ns);
    x[ORR_FEATURE_ELEMENT_BYTES] = (float)orr_dtype_bytes((orr_dtype)work->dtype);
    x[ORR_FEATURE_BACKWARD] = work->backward;
    x[ORR_FEATURE_COPY] = work->copy;
    x[ORR_FEATURE_PEAK_FLOPS] = fact(&device->peak_flops[work->dtype]);
    x[ORR_FEATURE_MEMORY_BYTES_PER_S] = fact(&device->memory_bytes_per_s);
    x[ORR_FEATURE_L2_BYTES] = fact(&device->l2_bytes);
    x[ORR_FEATURE_SMS] = fact(&device->sms);
    *ret_roofline_ns = (double)price.ns;
    return true;
}

static float tree_value(const orr_tree_node *node, const orr_tree_node *root, const float *x)
{
    while (node->feature >= 0) {
        const float value = x[node->feature];
        const bool left = isnan(value) ? node->missing_left : value < node->value;
        node = root + node->child + !left;
    }
    return node->value;
}

float orr_trees_sum(const orr_trees *trees, const float x[ORR_FEATURES])
{
    float sum = 0;
    for (uint32_t t = 0; t < trees->n; t++) {
        const orr_tree_node *root = trees->nodes + trees->roots[t];
        sum += tree_value(root, root, x);
    }
    return sum;
}

static bool in_hull(const orr_learned_family *family, const float x[ORR_FEATURES])
{
    for (int f = 0; f < ORR_FEATURES; f++)
        if (isnan(x[f]) != isnan(family->low[f]) || x[f] < family->low[f] || x[f] > family->high[f])
            return false;
    return true;
}

bool orr_learned_price(const orr_cost_learned *learned, const orr_device *device,
                       const orr_work *work, orr_price *ret)
{
    float x[ORR_FEATURES];
    double roofline_ns;

    if (work->family >= ORR_FAMILIES || work->n_dims > ORR_WORK_DIMS || work->dtype >= ORR_DTYPES)
        return false;
    const orr_learned_family *family = &learned->families[work->family];
    if (!family->present || !orr_learned_features(device, work, x, &roofline_ns))
        return false;
    const double ns = roofline_ns * exp(family->base + (double)orr_trees_sum(&family->trees, x));
    if (!(ns < 9e18))
        return false;
    *ret = (orr_price){
        .ns = ns < 1 ? 1 : (int64_t)llround(ns),
        .basis = ORR_BASIS_LEARNED,
        .error_frac = in_hull(family, x) ? family->error_frac : NAN,
        .model = "learned",
    };
    return true;
}
