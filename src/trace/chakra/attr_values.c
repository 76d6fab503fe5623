/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/chakra/chakra.h"

#include <stddef.h>
#include <string.h>

#include "graph/builder.h"
#include "io/json/reader.h"
#include "trace/common/attr_names.h"

/* CollectiveCommType, in order. */
static const uint8_t COLLECTIVES[] = {
    ORR_COLL_ALL_REDUCE, ORR_COLL_REDUCE,         ORR_COLL_ALL_GATHER,
    ORR_COLL_GATHER,     ORR_COLL_SCATTER,        ORR_COLL_BROADCAST,
    ORR_COLL_ALL_TO_ALL, ORR_COLL_REDUCE_SCATTER, ORR_COLL_REDUCE_SCATTER /* _BLOCK */,
    ORR_COLL_BARRIER,
};

orr_collective orr_chakra_collective(int64_t comm_type)
{
    if (comm_type < 0 || comm_type >= (int64_t)sizeof COLLECTIVES)
        return ORR_COLL_UNKNOWN;
    return (orr_collective)COLLECTIVES[comm_type];
}

int32_t orr_chakra_comm_type(orr_collective collective)
{
    for (int32_t i = 0; i < (int32_t)sizeof COLLECTIVES; i++)
        if (COLLECTIVES[i] == collective)
            return i;
    return -1;
}

orr_node_kind orr_chakra_kind(int32_t type, bool is_cpu_op, bool is_comm)
{
    const bool host = is_cpu_op && !is_comm;
    switch (type) {
    case CHAKRA_METADATA:
        return ORR_NODE_META;
    case CHAKRA_MEM_LOAD:
        return ORR_NODE_MEM_LOAD;
    case CHAKRA_MEM_STORE:
        return ORR_NODE_MEM_STORE;
    case CHAKRA_COMP:
        return is_cpu_op ? ORR_NODE_HOST_OP : ORR_NODE_COMPUTE;
    case CHAKRA_COMM_SEND:
        return host ? ORR_NODE_HOST_OP : ORR_NODE_SEND;
    case CHAKRA_COMM_RECV:
        return host ? ORR_NODE_HOST_OP : ORR_NODE_RECV;
    case CHAKRA_COMM_COLL:
        return host ? ORR_NODE_HOST_OP : ORR_NODE_COLLECTIVE;
    default:
        return ORR_NODE_OTHER;
    }
}

orr_chakra_node_type orr_chakra_type_of(orr_node_kind kind)
{
    switch (kind) {
    case ORR_NODE_META:
    case ORR_NODE_OTHER:
    case ORR_NODE_MEMORY:
    case ORR_NODE_DEVICE_ANNOTATION:
        return CHAKRA_METADATA;
    case ORR_NODE_MEM_LOAD:
        return CHAKRA_MEM_LOAD;
    case ORR_NODE_MEM_STORE:
        return CHAKRA_MEM_STORE;
    case ORR_NODE_SEND:
        return CHAKRA_COMM_SEND;
    case ORR_NODE_RECV:
        return CHAKRA_COMM_RECV;
    case ORR_NODE_COLLECTIVE:
        return CHAKRA_COMM_COLL;
    default:
        return CHAKRA_COMP;
    }
}

bool orr_chakra_attr_int(const orr_graph_builder *builder, const orr_attr *attr, int64_t *ret)
{
    if (attr->list || attr->count != 1 || attr->kind != ORR_ATTR_STRING)
        return orr_attr_int(attr, ret);
    const orr_str s = *(const orr_str *)attr->values;
    return orr_text_int64(
        (orr_text){orr_builder_text(builder, s), orr_strtab_len(builder->strings, s)}, ret);
}

int64_t orr_chakra_micros(int64_t ns)
{
    const int64_t rest = ns % 1000;
    return ns / 1000 + (rest >= 500) - (rest <= -500);
}

/* Names of attributes and where they go; `has` is SIZE_MAX where -1 says that it is missing. */
#define AT(field) offsetof(orr_chakra_attr_values, field)
static const struct {
    const char *name;
    size_t number, has;
} NUMBERS[] = {
    {"comm_type", AT(comm_type), AT(has_comm_type)},
    {"comm_size", AT(comm_size), SIZE_MAX},
    {"comm_src", AT(comm_src), SIZE_MAX},
    {"comm_dst", AT(comm_dst), SIZE_MAX},
    {"comm_tag", AT(comm_tag), SIZE_MAX},
    {"comm_in_bytes", AT(in_bytes), SIZE_MAX},
    {"comm_out_bytes", AT(out_bytes), SIZE_MAX},
    {"comm_seq", AT(seq), SIZE_MAX},
    {"comm_root", AT(root), SIZE_MAX},
    {"tid", AT(tid), AT(has_tid)},
    {"stream", AT(stream), AT(has_stream)},
    {ORR_NAME_START_NS, AT(start_ns), AT(has_start_ns)},
    {ORR_NAME_DURATION_NS, AT(duration_ns), AT(has_duration_ns)},
    {ORR_NAME_SELF_NS, AT(self_ns), AT(has_self_ns)},
    {"rf_id", AT(rf_id), SIZE_MAX},
    {"correlation", AT(correlation), SIZE_MAX},
    {"bytes", AT(copy_bytes), SIZE_MAX},
    {ORR_NAME_CRITICAL, AT(critical), SIZE_MAX},
    {ORR_NAME_ORDER, AT(order), SIZE_MAX},
    {ORR_NAME_LANE, AT(lane), SIZE_MAX},
    {ORR_NAME_PARENT, AT(parent), AT(has_parent)},
};
static const struct {
    const char *name;
    size_t text;
} TEXTS[] = {
    {"pg_name", AT(pg_name)},
    {"comm_dtype", AT(dtype)},
    {ORR_NAME_KIND, AT(kind)},
    {ORR_NAME_IN_SPLITS, AT(in_splits)},
    {ORR_NAME_OUT_SPLITS, AT(out_splits)},
};

static bool set_number(orr_chakra_attr_values *facts, const char *name, int64_t value)
{
    for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++) {
        if (strcmp(name, NUMBERS[i].name) != 0)
            continue;
        memcpy((char *)facts + NUMBERS[i].number, &value, sizeof value);
        if (NUMBERS[i].has != SIZE_MAX)
            *((bool *)((char *)facts + NUMBERS[i].has)) = true;
        return true;
    }
    return false;
}

orr_chakra_attr_values orr_chakra_attr_values_of(const orr_graph_builder *builder,
                                                 const orr_attr *attrs, size_t n)
{
    orr_chakra_attr_values facts = {.comm_type = -1,
                                    .comm_size = -1,
                                    .comm_src = -1,
                                    .comm_dst = -1,
                                    .comm_tag = -1,
                                    .in_bytes = -1,
                                    .out_bytes = -1,
                                    .seq = -1,
                                    .root = -1,
                                    .order = -1,
                                    .lane = -1};
    for (size_t i = 0; i < n; i++) {
        const char *name = orr_builder_text(builder, attrs[i].name);
        int64_t value;
        if (attrs[i].kind == ORR_ATTR_STRING && !attrs[i].list)
            for (size_t t = 0; t < sizeof TEXTS / sizeof *TEXTS; t++)
                if (strcmp(name, TEXTS[t].name) == 0)
                    memcpy((char *)&facts + TEXTS[t].text, attrs[i].values, sizeof(orr_str));
        if (!orr_chakra_attr_int(builder, &attrs[i], &value) || set_number(&facts, name, value))
            continue;
        if (strcmp(name, "is_cpu_op") == 0) {
            facts.has_cpu_op = true;
            facts.is_cpu_op = value != 0;
        } else if (strcmp(name, ORR_NAME_ON_HOST) == 0) {
            facts.on_host = value != 0;
        }
    }
    return facts;
}
