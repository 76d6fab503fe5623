/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/fit/boost.h"

#include <math.h>

#include "base/array.h"
#include "io/json/reader.h"

/* Reader of XGBoost's JSON: learner.gradient_booster.model.trees[], each a struct of arrays by
 * node. Nodes are renumbered in breadth-first order, so that siblings are neighbours. */
typedef orr_array(double) column;

typedef struct reader {
    orr_json *json;
    orr_arena *arena;
    orr_error *err;
    column left, right, feature, value, missing_left; /* of the tree that is being read */
    orr_array(uint32_t) queue;                        /* original number of each new node */
    orr_array(orr_tree_node) nodes;
    orr_array(uint32_t) roots;
} reader;

#define read_fail(r, format, ...)                                                                  \
    orr_fail_byte((r)->err, ORR_INVALID, orr_json_byte_pos((r)->json),                             \
                  "XGBoost's model, at byte %llu: " format,                                        \
                  (unsigned long long)orr_json_byte_pos((r)->json), ##__VA_ARGS__)

/* A list of numbers; true and false count as 1 and 0. */
static orr_status read_column(reader *r, column *into)
{
    orr_status status;

    into->n = 0;
    ORR_TRY(orr_json_enter_array(r->json, r->err));
    while (orr_json_next_element(r->json, &status, r->err)) {
        orr_json_value value;
        double number = 0;
        ORR_TRY(orr_json_value_next(r->json, &value, r->err));
        if (value.type == ORR_JSON_TRUE)
            number = 1;
        else if (value.type != ORR_JSON_FALSE &&
                 (value.type != ORR_JSON_NUMBER || !orr_text_double(value.text, &number)))
            return read_fail(r, "a number is due");
        if (!orr_array_push(into, number))
            return orr_fail_memory(r->err);
    }
    return status;
}

static orr_status read_columns(reader *r)
{
    orr_text key;
    orr_status status;

    r->left.n = r->right.n = r->feature.n = r->value.n = r->missing_left.n = 0;
    ORR_TRY(orr_json_enter_object(r->json, r->err));
    while (orr_json_next_key(r->json, &key, &status, r->err)) {
        if (orr_text_is(key, "left_children"))
            ORR_TRY(read_column(r, &r->left));
        else if (orr_text_is(key, "right_children"))
            ORR_TRY(read_column(r, &r->right));
        else if (orr_text_is(key, "split_indices"))
            ORR_TRY(read_column(r, &r->feature));
        else if (orr_text_is(key, "split_conditions"))
            ORR_TRY(read_column(r, &r->value));
        else if (orr_text_is(key, "default_left"))
            ORR_TRY(read_column(r, &r->missing_left));
        else
            ORR_TRY(orr_json_skip(r->json, r->err));
    }
    ORR_TRY(status);
    const size_t n = r->left.n;
    if (n == 0 || r->right.n != n || r->feature.n != n || r->value.n != n || r->missing_left.n != n)
        return read_fail(r, "a tree whose columns are missing or of unequal length");
    return ORR_OK;
}

/* Queues a child. A walk over more nodes than exist has met one twice. */
static orr_status enqueue(reader *r, double child)
{
    if (!(child >= 0) || child >= (double)r->left.n || r->queue.n >= r->left.n)
        return read_fail(r, "a child that is not there, or a cycle");
    return orr_array_push(&r->queue, (uint32_t)child) ? ORR_OK : orr_fail_memory(r->err);
}

static orr_status add_node(reader *r, uint32_t old)
{
    const bool leaf = r->left.at[old] < 0;
    orr_tree_node node = {.value = (float)r->value.at[old], .feature = -1};

    if (!isfinite(node.value))
        return read_fail(r, "a value that is not finite");
    if (!leaf) {
        if (!(r->feature.at[old] >= 0) || r->feature.at[old] >= ORR_FEATURES)
            return read_fail(r, "a feature that is not there");
        node.feature = (int16_t)r->feature.at[old];
        node.missing_left = r->missing_left.at[old] != 0;
        node.child = (uint32_t)r->queue.n;
        ORR_TRY(enqueue(r, r->left.at[old]));
        ORR_TRY(enqueue(r, r->right.at[old]));
    }
    return orr_array_push(&r->nodes, node) ? ORR_OK : orr_fail_memory(r->err);
}

static orr_status read_tree(reader *r)
{
    ORR_TRY(read_columns(r));
    if (!orr_array_push(&r->roots, (uint32_t)r->nodes.n))
        return orr_fail_memory(r->err);
    r->queue.n = 0;
    ORR_TRY(enqueue(r, 0));
    for (size_t i = 0; i < r->queue.n; i++)
        ORR_TRY(add_node(r, r->queue.at[i]));
    return ORR_OK;
}

/* Descends into the object with this key. */
static orr_status descend(reader *r, const char *wanted)
{
    orr_text key;
    orr_status status;

    ORR_TRY(orr_json_enter_object(r->json, r->err));
    while (orr_json_next_key(r->json, &key, &status, r->err)) {
        if (orr_text_equal(key, wanted, __builtin_strlen(wanted)))
            return ORR_OK;
        ORR_TRY(orr_json_skip(r->json, r->err));
    }
    ORR_TRY(status);
    return read_fail(r, "no '%s'", wanted);
}

static orr_status read_trees(reader *r)
{
    static const char *const way[] = {"learner", "gradient_booster", "model", "trees"};
    orr_status status;

    for (size_t i = 0; i < sizeof way / sizeof *way; i++)
        ORR_TRY(descend(r, way[i]));
    ORR_TRY(orr_json_enter_array(r->json, r->err));
    while (orr_json_next_element(r->json, &status, r->err))
        ORR_TRY(read_tree(r));
    return status;
}

static orr_status keep(const reader *r, orr_trees *ret)
{
    orr_tree_node *nodes = orr_arena_array(r->arena, orr_tree_node, r->nodes.n);
    uint32_t *roots = orr_arena_array(r->arena, uint32_t, r->roots.n);

    if (nodes == NULL || roots == NULL)
        return orr_fail_memory(r->err);
    for (size_t i = 0; i < r->nodes.n; i++)
        nodes[i] = r->nodes.at[i];
    for (size_t i = 0; i < r->roots.n; i++)
        roots[i] = r->roots.at[i];
    *ret = (orr_trees){nodes, roots, (uint32_t)r->roots.n, (uint32_t)r->nodes.n};
    return ORR_OK;
}

orr_status orr_boost_trees_read(const void *json, size_t len, orr_arena *arena, orr_trees *ret,
                                orr_error *err)
{
    reader r = {.arena = arena, .err = err};
    orr_stream *stream;

    ORR_TRY(orr_stream_open_memory(json, len, &stream, err));
    orr_status status = orr_json_new(stream, false, &r.json, err);
    if (status == ORR_OK)
        status = read_trees(&r);
    if (status == ORR_OK)
        status = keep(&r, ret);
    orr_array_done(&r.left);
    orr_array_done(&r.right);
    orr_array_done(&r.feature);
    orr_array_done(&r.value);
    orr_array_done(&r.missing_left);
    orr_array_done(&r.queue);
    orr_array_done(&r.nodes);
    orr_array_done(&r.roots);
    orr_json_free(r.json);
    orr_stream_close(stream);
    return status;
}
