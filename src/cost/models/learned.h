/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_COST_MODELS_LEARNED_H
#define ORR_COST_MODELS_LEARNED_H

#include <orrery/cost.h>

/* Learned model: gradient-boosted regression trees for each family (Chen and Guestrin, "XGBoost:
 * a scalable tree boosting system", KDD 2016) that predict ln(ns / roofline ns), the efficiency,
 * from logarithms of the shape, the work and the device. On a device that was not measured the
 * roofline still scales the answer. Threads: any; nothing is allocated. */

/* Features: log2(1 + value) unless stated otherwise. An unknown fact of the device is NAN, for
 * which trees have learned a direction. */
#define ORR_FEATURE_MAP(X)                                                                         \
    X(DIM0, "dim0")                                                                                \
    X(DIM1, "dim1") X(DIM2, "dim2") X(DIM3, "dim3") X(DIM4, "dim4") X(DIM5, "dim5")                \
        X(DIM6, "dim6") X(DIM7, "dim7") X(FLOPS, "flops") X(BYTES, "bytes")                        \
            X(INTENSITY, "intensity") /* log2((1 + FLOPs) / (1 + bytes))                  */       \
        X(ROOFLINE, "roofline_ns") X(ELEMENT_BYTES, "element_bytes") /* as it is */                                                                                                \
        X(BACKWARD, "backward")     /* 0 or 1                                           */         \
        X(COPY, "copy")             /* orr_copy_kind                                    */         \
        X(PEAK_FLOPS, "peak_flops") /* of the dtype                                     */         \
        X(MEMORY_BYTES_PER_S, "memory_bytes_per_s") X(L2_BYTES, "l2_bytes") X(SMS, "sms")
typedef enum orr_feature {
#define ORR_FEATURE_ENUM_(name, text) ORR_FEATURE_##name,
    ORR_FEATURE_MAP(ORR_FEATURE_ENUM_)
#undef ORR_FEATURE_ENUM_
        ORR_FEATURES
} orr_feature;
const char *orr_feature_name(orr_feature feature);

/* A node of a tree. If x < value, both float, the walk goes to `child`, else to the node after
 * that; NAN goes to `child` when missing_left. A leaf has feature -1, and its value is the
 * tree's. Children come after their parent. */
typedef struct orr_tree_node {
    float value;
    int16_t feature;
    bool missing_left;
    uint32_t child;
} orr_tree_node;

typedef struct orr_trees {
    const orr_tree_node *nodes; /* of all trees; `child` counts from the tree's root */
    const uint32_t *roots;      /* shape (n), increasing */
    uint32_t n, n_nodes;
} orr_trees;

typedef struct orr_learned_family {
    bool present;
    double base; /* added to the sum of the trees */
    orr_trees trees;
    float low[ORR_FEATURES], high[ORR_FEATURES]; /* range of the training data; NAN: no value */
    double error_frac;                           /* mean |error| on the test set; NAN */
    uint64_t samples;                            /* of the training data */
    uint32_t groups;
} orr_learned_family;

typedef struct orr_cost_learned {
    orr_learned_family families[ORR_FAMILIES];
} orr_cost_learned;

/* Prices a work. The error of the answer is known within the range of the training data only. */
bool orr_learned_price(const orr_cost_learned *learned, const orr_device *device,
                       const orr_work *work, orr_price *ret);

/* Features of a work. False: the roofline has no answer, and so the model has none. */
bool orr_learned_features(const orr_device *device, const orr_work *work, float ret[ORR_FEATURES],
                          double *ret_roofline_ns);
/* Sum of the trees as XGBoost computes it: in float, tree after tree. */
float orr_trees_sum(const orr_trees *trees, const float x[ORR_FEATURES]);

#endif /* ORR_COST_MODELS_LEARNED_H */
