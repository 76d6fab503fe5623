/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "trace/chakra/chakra.h"
#include "trace/common/attr_names.h"

/* Small Chakra files of one pattern each, node for node those of Chakra's generator, but for ids:
 * every file of ours begins with 0. */
enum { SIZE_NONE, SIZE_TENSOR, SIZE_COMM, SIZE_RUNTIME };

typedef struct pattern {
    const char *name, *file, *node, *about; /* Chakra's names of the file and of its nodes */
    orr_chakra_node_type type;
    uint8_t n_nodes;
    bool chained;      /* each node waits for the one before */
    uint8_t size;      /* SIZE_...: what `size` or `runtime` says */
    int32_t comm_type; /* CollectiveCommType, or -1 */
} pattern;

#define COLLECTIVE(name, NAME, comm_type)                                                          \
    {                                                                                              \
        name, NAME, NAME, "one collective", CHAKRA_COMM_COLL, 1, false, SIZE_COMM, comm_type       \
    }
static const pattern patterns[] = {
    COLLECTIVE("all_reduce", "ALL_REDUCE", 0),
    COLLECTIVE("all_gather", "ALL_GATHER", 2),
    COLLECTIVE("all_to_all", "ALL_TO_ALL", 6),
    COLLECTIVE("reduce_scatter", "REDUCE_SCATTER", 7),
    COLLECTIVE("broadcast", "BROADCAST", 5),
    {"barrier", "BARRIER", "BARRIER", "one barrier", CHAKRA_COMM_COLL, 1, false, SIZE_NONE, 9},
    {"send", "one_comm_send_node", "COMM_SEND_NODE", "one send", CHAKRA_COMM_SEND, 1, false,
     SIZE_TENSOR, -1},
    {"recv", "one_comm_recv_node", "COMM_RECV_NODE", "one receive", CHAKRA_COMM_RECV, 1, false,
     SIZE_TENSOR, -1},
    {"compute", "one_comp_node", "COMP_NODE", "one node of compute", CHAKRA_COMP, 1, false,
     SIZE_RUNTIME, -1},
    {"compute_pair", "two_comp_nodes_independent", "COMP_NODE", "two nodes of compute", CHAKRA_COMP,
     2, false, SIZE_RUNTIME, -1},
    {"compute_chain", "two_comp_nodes_dependent", "COMP_NODE", "two, one after the other",
     CHAKRA_COMP, 2, true, SIZE_RUNTIME, -1},
    {"memory_load", "one_remote_mem_load_node", "MEM_LOAD_NODE", "a load from remote memory",
     CHAKRA_MEM_LOAD, 1, false, SIZE_TENSOR, -1},
    {"memory_store", "one_remote_mem_store_node", "MEM_STORE_NODE", "a store to remote memory",
     CHAKRA_MEM_STORE, 1, false, SIZE_TENSOR, -1},
    {"metadata", "one_metadata_node_all_types", "METADATA_NODE",
     "a node with an attribute of each kind", CHAKRA_METADATA, 1, false, SIZE_NONE, -1},
};

typedef struct generating {
    orr_graph_builder *b;
    orr_arena *arena;
    orr_chakra_attrs attrs;
    const orr_chakra_generate_options *options;
    orr_error *err;
} generating;

const char *orr_chakra_pattern_name(uint32_t i, const char **ret_about)
{
    if (i >= sizeof patterns / sizeof *patterns)
        return NULL;
    *ret_about = patterns[i].about;
    return patterns[i].name;
}

static const pattern *find(const char *name)
{
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (strcmp(patterns[i].name, name) == 0 || strcmp(patterns[i].file, name) == 0)
            return &patterns[i];
    return NULL;
}

const char *orr_chakra_pattern_file(const char *name)
{
    const pattern *p = find(name);
    return p != NULL ? p->file : NULL;
}

static orr_status number(generating *x, const char *name, orr_attr_kind kind, uint64_t value)
{
    uint64_t *kept = orr_arena_one(x->arena, uint64_t);
    if (kept == NULL)
        return orr_fail_memory(x->err);
    *kept = value; /* of little-endian machines, as are all readers */
    return orr_chakra_attr_numbers(&x->attrs, x->b, name, kind, false, kept, 1, x->err);
}

static orr_status add_attrs(generating *x, const pattern *p)
{
    const uint64_t size = x->options->bytes > 0  ? x->options->bytes
                          : p->size == SIZE_COMM ? 65536
                          : p->comm_type < 0     ? 1024
                                                 : 0;
    ORR_TRY(number(x, "is_cpu_op", ORR_ATTR_BOOL, 0));
    if (p->comm_type >= 0) {
        ORR_TRY(number(x, "comm_type", ORR_ATTR_INT64, (uint64_t)p->comm_type));
        return number(x, "comm_size", ORR_ATTR_INT64, p->size == SIZE_NONE ? 0 : size);
    }
    return p->size == SIZE_TENSOR ? number(x, "tensor_size", ORR_ATTR_UINT64, size) : ORR_OK;
}

/* The attribute of that kind twice: a value, and a list. Those of fixed kinds and bytes have no
 * description. */
static orr_status add_kind(generating *x, const char *name, orr_attr_kind kind, const void *values,
                           uint32_t n)
{
    const bool described = strncmp(name, "fixed", 5) != 0 && strncmp(name, "sfixed", 6) != 0 &&
                           strcmp(name, "bytes") != 0;
    char *list = orr_arena_printf(x->arena, "%s_list", name);
    if (list == NULL)
        return orr_fail_memory(x->err);
    ORR_TRY(orr_chakra_attr_numbers(&x->attrs, x->b, name, kind, false, values, 1, x->err));
    if (described)
        ORR_TRY(orr_builder_str(x->b, name, strlen(name),
                                &x->attrs.list.at[x->attrs.list.n - 1].doc, x->err));
    return orr_chakra_attr_numbers(&x->attrs, x->b, list, kind, true, values, n, x->err);
}

/* "12345" and the nine numbers after it. */
static orr_status add_texts(generating *x, const char *name, orr_attr_kind kind)
{
    enum { N = 10 };
    orr_str *texts = orr_arena_array(x->arena, orr_str, N);
    if (texts == NULL)
        return orr_fail_memory(x->err);
    for (uint32_t i = 0; i < N; i++) {
        const char *text = orr_arena_printf(x->arena, "%u", 12345 + i);
        if (text == NULL)
            return orr_fail_memory(x->err);
        ORR_TRY(orr_builder_str(x->b, text, 5, &texts[i], x->err));
    }
    return add_kind(x, name, kind, texts, N);
}

static orr_status add_kinds(generating *x)
{
    static const double doubles[] = {1.2345, 2.3456};
    static const float floats[] = {1.2345F, 2.3456F};
    static const uint32_t narrow[] = {12345, 23456};
    static const uint64_t wide[] = {9876543210, 1234567890};
    static const int32_t narrow_signed[] = {12345, -23456}, narrow_negative = -12345;
    static const int64_t wide_signed[] = {9876543210, -1234567890}, wide_negative = -9876543210;
    static const uint8_t truths[] = {1, 0, 1, 0, 1, 0, 1, 0, 1, 0};
    static const struct {
        const char *name;
        orr_attr_kind kind;
        const void *values, *single; /* the value where it is not the first of the list */
        uint32_t n;
    } kinds[] = {
        {"double", ORR_ATTR_DOUBLE, doubles, NULL, 2},
        {"float", ORR_ATTR_FLOAT, floats, NULL, 2},
        {"int32", ORR_ATTR_INT32, narrow, NULL, 2},
        {"int64", ORR_ATTR_INT64, wide, NULL, 2},
        {"uint32", ORR_ATTR_UINT32, narrow, NULL, 2},
        {"uint64", ORR_ATTR_UINT64, wide, NULL, 2},
        {"sint32", ORR_ATTR_SINT32, narrow_signed, &narrow_negative, 2},
        {"sint64", ORR_ATTR_SINT64, wide_signed, &wide_negative, 2},
        {"fixed32", ORR_ATTR_FIXED32, narrow, NULL, 2},
        {"fixed64", ORR_ATTR_FIXED64, wide, NULL, 2},
        {"sfixed32", ORR_ATTR_SFIXED32, narrow_signed, &narrow_negative, 2},
        {"sfixed64", ORR_ATTR_SFIXED64, wide_signed, &wide_negative, 2},
        {"bool", ORR_ATTR_BOOL, truths, NULL, 10},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        ORR_TRY(add_kind(x, kinds[i].name, kinds[i].kind, kinds[i].values, kinds[i].n));
        if (kinds[i].single != NULL)
            x->attrs.list.at[x->attrs.list.n - 2].values = kinds[i].single;
    }
    ORR_TRY(add_texts(x, "string", ORR_ATTR_STRING));
    return add_texts(x, "bytes", ORR_ATTR_BYTES);
}

static orr_status add_node(generating *x, const pattern *p, uint32_t i)
{
    orr_node node = {.kind = orr_chakra_kind((int32_t)p->type, false, p->type >= CHAKRA_COMM_SEND),
                     .start_ns = ORR_TIME_NONE,
                     .duration_ns = p->size == SIZE_RUNTIME ? x->options->runtime_ns : 0,
                     .parent = ORR_NONE,
                     .source_id = i};
    orr_node_id id;
    x->attrs.list.n = 0;
    ORR_TRY(orr_builder_str(x->b, p->node, strlen(p->node), &node.name, x->err));
    ORR_TRY(orr_builder_node(x->b, &node, &id, x->err));
    if (p->chained && i > 0)
        ORR_TRY(orr_builder_dep(x->b, id, id - 1, ORR_DEP_DATA, x->err));
    ORR_TRY(p->type == CHAKRA_METADATA ? add_kinds(x) : add_attrs(x, p));
    return orr_builder_attrs(x->b, id, x->attrs.list.at, (uint32_t)x->attrs.list.n, x->err);
}

static orr_status add_all(generating *x, const pattern *p, const orr_graph **ret)
{
    static const char version[] = "1.0.0";
    orr_recording recording = {.rank = ORR_NONE};
    orr_lane_id lane;
    const orr_lane first = {.kind = ORR_LANE_STREAM};
    ORR_TRY(
        orr_builder_str(x->b, "chakra 1.0.0", strlen("chakra 1.0.0"), &recording.source, x->err));
    orr_builder_recording(x->b, &recording);
    ORR_TRY(orr_builder_lane(x->b, &first, &lane, x->err));
    for (uint32_t i = 0; i < p->n_nodes; i++)
        ORR_TRY(add_node(x, p, i));
    x->attrs.list.n = 0;
    ORR_TRY(orr_chakra_attr_text(&x->attrs, x->b, ORR_NAME_CHAKRA_VERSION, ORR_ATTR_STRING, version,
                                 sizeof version - 1, x->err));
    ORR_TRY(orr_builder_attrs(x->b, ORR_NONE, x->attrs.list.at, 1, x->err));
    return orr_graph_build(x->b, ret, x->err);
}

orr_status orr_chakra_generate(const char *name, const orr_chakra_generate_options *options,
                               const orr_graph **ret_graph, orr_error *err)
{
    const pattern *p = find(name);
    if (p == NULL)
        return orr_fail(err, ORR_NOT_FOUND, "there is no pattern '%s'", name);
    generating x = {
        .b = orr_graph_builder_new(), .arena = orr_arena_new(0, 0), .options = options, .err = err};
    x.attrs.arena = x.arena;
    const orr_status status =
        x.b == NULL || x.arena == NULL ? orr_fail_memory(err) : add_all(&x, p, ret_graph);
    orr_array_done(&x.attrs.list);
    orr_graph_builder_free(x.b);
    orr_arena_free(x.arena);
    return status;
}
