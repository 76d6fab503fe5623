/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/array.h"
#include "cost/models/file.h"

/* The learned model in a fitted file:
 *   {"features": [names], "families": [{"family", "base", "error_frac", "samples", "groups",
 *    "low": [a number or null a feature], "high": [...],
 *    "trees": [{"feature": [-1: leaf], "value": [], "child": [], "missing_left": [0 or 1]}]}]}
 * Children stand behind their parents, so that a walk ends. */
static const double FLOAT_MOST = 3.4028234663852886e38; /* FLT_MAX */

typedef struct columns {
    orr_array(int16_t) feature;
    orr_array(float) value;
    orr_array(uint32_t) child;
    orr_array(bool) missing_left;
} columns;

typedef struct tree_set {
    columns tree; /* the tree that is being read */
    orr_array(orr_tree_node) nodes;
    orr_array(uint32_t) roots;
} tree_set;

/* Reads an array into a column, `read` a number at a time. */
#define READ_COLUMN(r, column, what, low, high)                                                    \
    do {                                                                                           \
        orr_status column_status_;                                                                 \
        (column)->n = 0;                                                                           \
        ORR_TRY(orr_json_enter_array((r)->json, (r)->err));                                        \
        while (orr_json_next_element((r)->json, &column_status_, (r)->err)) {                      \
            int64_t number_;                                                                       \
            ORR_TRY(orr_model_int((r), (what), (low), (high), &number_));                          \
            if (!orr_array_push((column), (__typeof__(*(column)->at))number_))                     \
                return orr_fail_memory((r)->err);                                                  \
        }                                                                                          \
        ORR_TRY(column_status_);                                                                   \
    } while (0)

static orr_status read_values(orr_model_reader *r, columns *tree)
{
    orr_status status;
    tree->value.n = 0;
    ORR_TRY(orr_json_enter_array(r->json, r->err));
    while (orr_json_next_element(r->json, &status, r->err)) {
        double value;
        ORR_TRY(orr_model_number(r, "value of a node", -FLOAT_MOST, FLOAT_MOST, false, &value));
        if (!orr_array_push(&tree->value, (float)value))
            return orr_fail_memory(r->err);
    }
    return status;
}

static orr_status read_columns(orr_model_reader *r, columns *tree)
{
    orr_text key;
    orr_status status;

    tree->feature.n = tree->value.n = tree->child.n = tree->missing_left.n = 0;
    ORR_TRY(orr_json_enter_object(r->json, r->err));
    while (orr_json_next_key(r->json, &key, &status, r->err)) {
        if (orr_text_is(key, "feature"))
            READ_COLUMN(r, &tree->feature, "feature of a node", -1, ORR_FEATURES - 1);
        else if (orr_text_is(key, "value"))
            ORR_TRY(read_values(r, tree));
        else if (orr_text_is(key, "child"))
            READ_COLUMN(r, &tree->child, "child of a node", 0, UINT32_MAX - 1);
        else if (orr_text_is(key, "missing_left"))
            READ_COLUMN(r, &tree->missing_left, "missing_left of a node", 0, 1);
        else
            return orr_model_fail(r, "a key that no tree has");
    }
    return status;
}

static orr_status read_tree(orr_model_reader *r, tree_set *forest)
{
    const columns *tree = &forest->tree;

    ORR_TRY(read_columns(r, &forest->tree));
    const size_t n = tree->feature.n;
    if (n == 0 || tree->value.n != n || tree->child.n != n || tree->missing_left.n != n)
        return orr_model_fail(r, "a tree whose columns are missing or of unequal length");
    if (forest->nodes.n + n > UINT32_MAX)
        return orr_model_fail(r, "over 2^32 nodes");
    if (!orr_array_push(&forest->roots, (uint32_t)forest->nodes.n) ||
        !orr_array_reserve(&forest->nodes, n))
        return orr_fail_memory(r->err);
    for (size_t i = 0; i < n; i++) {
        const bool leaf = tree->feature.at[i] < 0;
        if (!leaf && (tree->child.at[i] <= i || (size_t)tree->child.at[i] + 1 >= n))
            return orr_model_fail(r,
                                  "node %zu: children %u and %u are not behind it in a tree of %zu",
                                  i, tree->child.at[i], tree->child.at[i] + 1, n);
        forest->nodes.at[forest->nodes.n++] = (orr_tree_node){
            .value = tree->value.at[i],
            .feature = tree->feature.at[i],
            .missing_left = tree->missing_left.at[i],
            .child = tree->child.at[i],
        };
    }
    return ORR_OK;
}

static orr_status keep(const orr_model_reader *r, const tree_set *forest, orr_trees *ret)
{
    orr_tree_node *nodes = orr_arena_array(r->arena, orr_tree_node, forest->nodes.n);
    uint32_t *roots = orr_arena_array(r->arena, uint32_t, forest->roots.n);

    if (nodes == NULL || roots == NULL)
        return orr_fail_memory(r->err);
    if (forest->nodes.n > 0)
        memcpy(nodes, forest->nodes.at, forest->nodes.n * sizeof *nodes);
    if (forest->roots.n > 0)
        memcpy(roots, forest->roots.at, forest->roots.n * sizeof *roots);
    *ret = (orr_trees){nodes, roots, (uint32_t)forest->roots.n, (uint32_t)forest->nodes.n};
    return ORR_OK;
}

static orr_status read_trees(orr_model_reader *r, orr_trees *ret)
{
    tree_set forest = {0};
    orr_status status = orr_json_enter_array(r->json, r->err);

    while (status == ORR_OK && orr_json_next_element(r->json, &status, r->err)) {
        status = read_tree(r, &forest);
        if (status != ORR_OK)
            break;
    }
    if (status == ORR_OK)
        status = keep(r, &forest, ret);
    orr_array_done(&forest.tree.feature);
    orr_array_done(&forest.tree.value);
    orr_array_done(&forest.tree.child);
    orr_array_done(&forest.tree.missing_left);
    orr_array_done(&forest.nodes);
    orr_array_done(&forest.roots);
    return status;
}

static orr_status read_bounds(orr_model_reader *r, const char *what, float ret[ORR_FEATURES],
                              bool *ret_is)
{
    orr_status status;
    int n = 0;

    ORR_TRY(orr_json_enter_array(r->json, r->err));
    while (orr_json_next_element(r->json, &status, r->err)) {
        double value;
        ORR_TRY(orr_model_number(r, what, -FLOAT_MOST, FLOAT_MOST, true, &value));
        if (n == ORR_FEATURES)
            return orr_model_fail(r, "%s: more numbers than features", what);
        ret[n++] = (float)value;
    }
    ORR_TRY(status);
    if (n != ORR_FEATURES)
        return orr_model_fail(r, "%s: %d numbers, %d are due", what, n, ORR_FEATURES);
    *ret_is = true;
    return ORR_OK;
}

static orr_status read_family(orr_model_reader *r, orr_cost_learned *learned)
{
    orr_learned_family family = {.present = true, .base = NAN, .error_frac = NAN};
    uint8_t at = ORR_FAMILIES;
    bool has_low = false, has_high = false;
    int64_t number;
    orr_text key;
    orr_status status;

    ORR_TRY(orr_json_enter_object(r->json, r->err));
    while (orr_json_next_key(r->json, &key, &status, r->err)) {
        if (orr_text_is(key, "family")) {
            ORR_TRY(orr_model_family(r, &at));
        } else if (orr_text_is(key, "base")) {
            ORR_TRY(orr_model_number(r, "base", -1e3, 1e3, false, &family.base));
        } else if (orr_text_is(key, "error_frac")) {
            ORR_TRY(orr_model_number(r, "error_frac", 0, 1e30, true, &family.error_frac));
        } else if (orr_text_is(key, "samples")) {
            ORR_TRY(orr_model_int(r, "samples", 0, INT64_MAX, &number));
            family.samples = (uint64_t)number;
        } else if (orr_text_is(key, "groups")) {
            ORR_TRY(orr_model_int(r, "groups", 0, UINT32_MAX, &number));
            family.groups = (uint32_t)number;
        } else if (orr_text_is(key, "low")) {
            ORR_TRY(read_bounds(r, "low", family.low, &has_low));
        } else if (orr_text_is(key, "high")) {
            ORR_TRY(read_bounds(r, "high", family.high, &has_high));
        } else if (orr_text_is(key, "trees") && family.trees.nodes == NULL) {
            ORR_TRY(read_trees(r, &family.trees));
        } else {
            return orr_model_fail(r, "a key that no learned family has, or twice");
        }
    }
    ORR_TRY(status);
    if (at == ORR_FAMILIES || learned->families[at].present)
        return orr_model_fail(r, "a family without its name, or twice");
    if (isnan(family.base) || !has_low || !has_high || family.trees.nodes == NULL)
        return orr_model_fail(r, "a family without base, low, high or trees");
    learned->families[at] = family;
    return ORR_OK;
}

/* Another version may have other features. */
static orr_status check_features(orr_model_reader *r)
{
    const char *const *names;
    uint32_t n;
    bool same = true;

    ORR_TRY(orr_model_texts(r, "features", &names, &n));
    same = n == ORR_FEATURES;
    for (uint32_t i = 0; i < n && same; i++)
        same = strcmp(names[i], orr_feature_name((orr_feature)i)) == 0;
    if (!same)
        return orr_fail_byte(r->err, ORR_UNSUPPORTED, orr_json_byte_pos(r->json),
                             "made by another version: its trees ask for other features");
    return ORR_OK;
}

orr_status orr_model_read_learned(orr_model_reader *r, const orr_cost_learned **ret)
{
    orr_cost_learned *learned = orr_arena_one(r->arena, orr_cost_learned);
    bool has_features = false;
    orr_text key;
    orr_status status, element;

    if (learned == NULL)
        return orr_fail_memory(r->err);
    ORR_TRY(orr_json_enter_object(r->json, r->err));
    while (orr_json_next_key(r->json, &key, &status, r->err)) {
        if (orr_text_is(key, "features")) {
            ORR_TRY(check_features(r));
            has_features = true;
        } else if (orr_text_is(key, "families") && has_features) {
            ORR_TRY(orr_json_enter_array(r->json, r->err));
            while (orr_json_next_element(r->json, &element, r->err))
                ORR_TRY(read_family(r, learned));
            ORR_TRY(element);
        } else {
            return orr_model_fail(r, "features, then families are due");
        }
    }
    ORR_TRY(status);
    if (!has_features)
        return orr_model_fail(r, "a learned model without features");
    *ret = learned;
    return ORR_OK;
}

static void write_number(orr_json_writer *w, const char *key, double value)
{
    orr_json_write_key(w, key);
    orr_json_write_double(w, value);
}

static void write_bounds(orr_json_writer *w, const char *key, const float values[ORR_FEATURES])
{
    orr_json_write_key(w, key);
    orr_json_write_array(w);
    for (int f = 0; f < ORR_FEATURES; f++)
        orr_json_write_double(w, (double)values[f]);
    orr_json_write_array_end(w);
}

#define WRITE_COLUMN(w, key, n, value)                                                             \
    do {                                                                                           \
        orr_json_write_key((w), (key));                                                            \
        orr_json_write_array(w);                                                                   \
        for (uint32_t i = 0; i < (n); i++)                                                         \
            (value);                                                                               \
        orr_json_write_array_end(w);                                                               \
    } while (0)

static void write_tree(orr_json_writer *w, const orr_tree_node *nodes, uint32_t n)
{
    orr_json_write_newline(w);
    orr_json_write_object(w);
    WRITE_COLUMN(w, "feature", n, orr_json_write_int(w, nodes[i].feature));
    WRITE_COLUMN(w, "value", n, orr_json_write_double(w, (double)nodes[i].value));
    WRITE_COLUMN(w, "child", n, orr_json_write_uint(w, nodes[i].child));
    WRITE_COLUMN(w, "missing_left", n, orr_json_write_int(w, nodes[i].missing_left));
    orr_json_write_object_end(w);
}

static void write_family(orr_json_writer *w, const char *name, const orr_learned_family *family)
{
    const orr_trees *trees = &family->trees;

    orr_json_write_newline(w);
    orr_json_write_object(w);
    orr_json_write_key(w, "family");
    orr_json_write_cstr(w, name);
    write_number(w, "base", family->base);
    write_number(w, "error_frac", family->error_frac);
    orr_json_write_key(w, "samples");
    orr_json_write_uint(w, family->samples);
    orr_json_write_key(w, "groups");
    orr_json_write_uint(w, family->groups);
    write_bounds(w, "low", family->low);
    write_bounds(w, "high", family->high);
    orr_json_write_key(w, "trees");
    orr_json_write_array(w);
    for (uint32_t t = 0; t < trees->n; t++) {
        const uint32_t end = t + 1 < trees->n ? trees->roots[t + 1] : trees->n_nodes;
        write_tree(w, trees->nodes + trees->roots[t], end - trees->roots[t]);
    }
    orr_json_write_array_end(w);
    orr_json_write_object_end(w);
}

void orr_model_write_learned(orr_json_writer *w, const orr_cost_learned *learned)
{
    orr_json_write_key(w, "learned");
    orr_json_write_object(w);
    orr_json_write_key(w, "features");
    orr_json_write_array(w);
    for (int f = 0; f < ORR_FEATURES; f++)
        orr_json_write_cstr(w, orr_feature_name((orr_feature)f));
    orr_json_write_array_end(w);
    orr_json_write_key(w, "families");
    orr_json_write_array(w);
    for (int f = 0; f < ORR_FAMILIES; f++)
        if (learned->families[f].present)
            write_family(w, orr_kernel_family_name((orr_kernel_family)f), &learned->families[f]);
    orr_json_write_array_end(w);
    orr_json_write_object_end(w);
}
