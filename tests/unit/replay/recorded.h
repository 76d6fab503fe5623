/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_REPLAY_RECORDED_H
#define TESTS_REPLAY_RECORDED_H

#include <string.h>

#include <orrery/graph.h>

/* Recordings in the making: operators with arguments as PyTorch's execution trace writes them. */
typedef struct recorded {
    orr_graph_builder *b;
    orr_lane_id lane;
    int64_t at_ns;
} recorded;

static inline orr_str recorded_text(recorded *r, const char *text)
{
    orr_str s = 0;
    assert_int_equal(orr_builder_str(r->b, text, strlen(text), &s, NULL), ORR_OK);
    return s;
}

static inline void recorded_begin(recorded *r)
{
    const orr_lane lane = {.kind = ORR_LANE_HOST, .device = -1, .pid = 1, .tid = 1};
    *r = (recorded){.b = orr_graph_builder_new()};
    assert_non_null(r->b);
    assert_int_equal(orr_builder_lane(r->b, &lane, &r->lane, NULL), ORR_OK);
}

/* Texts of inputs and outputs: values, shapes, types; NULL: not recorded. */
typedef struct recorded_call {
    const char *name;
    orr_node_id parent;
    int64_t ns;
    const char *in[3], *out[3];
} recorded_call;

static inline orr_node_id recorded_add(recorded *r, const recorded_call *c)
{
    static const char *const names[] = {"inputs.values",  "inputs.shapes",  "inputs.types",
                                        "outputs.values", "outputs.shapes", "outputs.types"};
    orr_attr attrs[6];
    orr_str values[6];
    uint32_t n = 0;
    const orr_node node = {.name = recorded_text(r, c->name),
                           .kind = ORR_NODE_HOST_OP,
                           .lane = r->lane,
                           .start_ns = r->at_ns,
                           .duration_ns = c->ns,
                           .parent = c->parent};
    orr_node_id id;
    assert_int_equal(orr_builder_node(r->b, &node, &id, NULL), ORR_OK);
    for (int i = 0; i < 6; i++) {
        const char *text = i < 3 ? c->in[i] : c->out[i - 3];
        if (text == NULL)
            continue;
        values[n] = recorded_text(r, text);
        attrs[n] =
            (orr_attr){.name = recorded_text(r, names[i]), .kind = ORR_ATTR_JSON, .count = 1};
        attrs[n].values = &values[n];
        n++;
    }
    assert_int_equal(orr_builder_attrs(r->b, id, attrs, n, NULL), ORR_OK);
    if (c->parent == ORR_NONE)
        r->at_ns += c->ns;
    return id;
}

static inline const orr_graph *recorded_end(recorded *r)
{
    const orr_graph *g = NULL;
    assert_int_equal(orr_graph_build(r->b, &g, NULL), ORR_OK);
    orr_graph_builder_free(r->b);
    return g;
}

#endif /* TESTS_REPLAY_RECORDED_H */
