/* SPDX-License-Identifier: Apache-2.0 */
/* Extracts the part of a recording that would run as a recording of its own: the operators in a
 * sequence, each with arguments and recorded time, without their callers. */
#include <orrery/replay.h>

#include <stdio.h>
#include <string.h>

#include "replay/select.h"

typedef struct extracting {
    const orr_graph *g;
    orr_graph_builder *b;
    bool obfuscate;
    orr_arena *arena;
    orr_lane_id lane;
    orr_node_id last; /* ORR_NONE */
    orr_error *err;
} extracting;

static orr_status text(extracting *x, const char *from, size_t len, orr_str *ret)
{
    return orr_builder_str(x->b, from, len, ret, x->err);
}

/* Keeps what is needed to replay, and nothing that tells whose recording it is. */
static bool is_kept(const char *name)
{
    static const char *const kept[] = {
        "inputs.", "outputs.",   "op_schema",     "Input Dims",     "op",
        "args",    "Input type", "Input Strides", "Concrete Inputs"};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (strncmp(name, kept[i], strlen(kept[i])) == 0)
            return true;
    return false;
}

enum { ATTRS_MAX = 24 };
static orr_status copy_attrs(extracting *x, orr_node_id from, orr_node_id to)
{
    orr_attr attrs[ATTRS_MAX];
    orr_str values[ATTRS_MAX];
    uint32_t n = 0;
    orr_attr_iter it = orr_graph_attrs(x->g, from);
    for (orr_attr attr; orr_attr_next(&it, &attr) && n < ATTRS_MAX;) {
        const char *name = orr_graph_str(x->g, attr.name);
        const bool is_text = attr.kind == ORR_ATTR_STRING || attr.kind == ORR_ATTR_JSON;
        if (!is_kept(name) || !is_text || attr.list)
            continue;
        const orr_str value = *(const orr_str *)attr.values;
        attrs[n] = attr;
        ORR_TRY(text(x, name, strlen(name), &attrs[n].name));
        ORR_TRY(text(x, orr_graph_str(x->g, value), orr_graph_str_len(x->g, value), &values[n]));
        attrs[n].doc = 0;
        attrs[n].values = &values[n];
        n++;
    }
    return orr_builder_attrs(x->b, to, attrs, n, x->err);
}

static orr_status copy_tensor(extracting *x, orr_tensor_id from, orr_tensor_id *ret)
{
    orr_tensor t = x->g->tensors[from];
    orr_str *const texts[] = {&t.device, &t.dtype, &t.shape};
    for (size_t i = 0; i < 3; i++)
        ORR_TRY(
            text(x, orr_graph_str(x->g, *texts[i]), orr_graph_str_len(x->g, *texts[i]), texts[i]));
    return orr_builder_tensor(x->b, &t, ret, x->err);
}

static orr_status copy_io(extracting *x, orr_node_id from, orr_node_id to)
{
    const orr_graph *g = x->g;
    if (g->n_tensors == 0)
        return ORR_OK;
    const uint32_t first = g->io_first[from], out = g->io_out[from], end = g->io_first[from + 1];
    orr_tensor_id *ids = orr_arena_array(x->arena, orr_tensor_id, end - first);
    if (ids == NULL)
        return orr_fail_memory(x->err);
    for (uint32_t i = first; i < end; i++)
        ORR_TRY(copy_tensor(x, g->io[i], &ids[i - first]));
    return orr_builder_io(x->b, to, ids, out - first, ids + (out - first), end - out, x->err);
}

/* Public PyTorch names stay; others become numbers. */
static orr_status name_of(extracting *x, const orr_replay_unit *u, orr_str *ret)
{
    const orr_str name = x->g->name[u->node];
    char number[32];
    const bool own = u->rule == NULL && strncmp(orr_graph_str(x->g, name), "aten::", 6) != 0;
    if (!x->obfuscate || !own)
        return text(x, orr_graph_str(x->g, name), orr_graph_str_len(x->g, name), ret);
    const int n = snprintf(number, sizeof number, "operator::%u", name);
    return text(x, number, (size_t)n, ret);
}

static orr_status copy_unit(extracting *x, const orr_replay_unit *u)
{
    orr_node node = {.kind = ORR_NODE_HOST_OP,
                     .lane = x->lane,
                     .start_ns = x->g->start_ns[u->node],
                     .duration_ns = u->recorded_ns,
                     .parent = ORR_NONE};
    orr_node_id id;
    if (u->how == ORR_REPLAY_SKIPPED)
        return ORR_OK;
    ORR_TRY(name_of(x, u, &node.name));
    ORR_TRY(orr_builder_node(x->b, &node, &id, x->err));
    if (x->last != ORR_NONE)
        ORR_TRY(orr_builder_dep(x->b, id, x->last, ORR_DEP_THREAD, x->err));
    x->last = id;
    ORR_TRY(copy_attrs(x, u->node, id));
    return copy_io(x, u->node, id);
}

static orr_status copy_all(extracting *x, const orr_replay_selection *s, const orr_graph **ret)
{
    orr_recording about = {.base_ns = x->obfuscate ? 0 : x->g->base_ns,
                           .rank = x->g->rank,
                           .world_size = x->g->world_size};
    ORR_TRY(text(x, "orrery replay", strlen("orrery replay"), &about.source));
    if (!x->obfuscate)
        ORR_TRY(text(x, orr_graph_str(x->g, x->g->device_name),
                     orr_graph_str_len(x->g, x->g->device_name), &about.device_name));
    orr_builder_recording(x->b, &about);
    const orr_lane lane = {.kind = ORR_LANE_HOST, .device = -1, .pid = 1, .tid = 1};
    ORR_TRY(orr_builder_lane(x->b, &lane, &x->lane, x->err));
    for (uint32_t i = 0; i < s->n; i++)
        ORR_TRY(copy_unit(x, &s->units[i]));
    return orr_graph_build(x->b, ret, x->err);
}

orr_status orr_replay_extract(const orr_replay_options *options, bool obfuscate,
                              const orr_graph **ret, orr_error *err)
{
    orr_replay_selection selection;
    if (options->n_graphs == 0)
        return orr_fail(err, ORR_INVALID, "there is no recording to extract from");
    extracting x = {.g = options->graphs[0],
                    .b = orr_graph_builder_new(),
                    .obfuscate = obfuscate,
                    .arena = orr_arena_new(0, 0),
                    .last = ORR_NONE,
                    .err = err};
    orr_status status =
        x.b == NULL || x.arena == NULL
            ? orr_fail_memory(err)
            : orr_replay_select(options->graphs[0], options, x.arena, &selection, err);
    if (status == ORR_OK)
        status = copy_all(&x, &selection, ret);
    orr_graph_builder_free(x.b);
    orr_arena_free(x.arena);
    return status;
}
