/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/chakra/recorded.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/builder.h"
#include "graph/reorder.h"
#include "trace/common/attr_names.h"

const char *orr_chakra_deps_name(orr_dep_kind kind)
{
    static const char *const names[] = {
#define DEPS_NAME(name, text) [ORR_DEP_##name] = text "_deps",
        ORR_DEP_MAP(DEPS_NAME)
#undef DEPS_NAME
    };
    return names[kind];
}

static bool is_list(const orr_attr *attr, orr_attr_kind kind)
{
    return attr->kind == kind && attr->list;
}

bool orr_chakra_is_recorded(const orr_graph_builder *b, const orr_attr *attr)
{
    const char *doc = orr_builder_text(b, attr->doc);
    const size_t n = strcspn(doc, " ");
    for (int k = 0; k <= ORR_ATTR_NONE; k++) {
        const char *name = orr_chakra_attr_kind_name((orr_attr_kind)k);
        if (n == strlen(name) && memcmp(doc, name, n) == 0)
            return true;
    }
    return false;
}

static const orr_attr *find(const orr_graph_builder *b, const orr_chakra_attrs *attrs,
                            const char *name, orr_attr_kind kind, bool list)
{
    for (size_t i = 0; i < attrs->list.n; i++) {
        const orr_attr *attr = &attrs->list.at[i];
        if (attr->kind == kind && attr->list == list && !orr_chakra_is_recorded(b, attr) &&
            strcmp(orr_builder_text(b, attr->name), name) == 0)
            return attr;
    }
    return NULL;
}

/* Lanes in their order: a row of numbers each, then its texts. */
static orr_status begin_lanes(orr_chakra_nodes *nodes, const orr_chakra_attrs *recording,
                              orr_error *err)
{
    orr_graph_builder *b = nodes->builder;
    for (size_t i = 0; i < recording->list.n; i++) {
        const orr_attr *attr = &recording->list.at[i];
        const int64_t *row = attr->values;
        orr_lane_id id;
        if (strcmp(orr_builder_text(b, attr->name), ORR_NAME_LANE) != 0 ||
            !is_list(attr, ORR_ATTR_SINT64) || attr->count != 4 || orr_chakra_is_recorded(b, attr))
            continue;
        orr_lane lane = {.kind = row[0] == ORR_LANE_STREAM ? ORR_LANE_STREAM : ORR_LANE_HOST,
                         .device = (int32_t)row[1],
                         .pid = row[2],
                         .tid = row[3]};
        for (size_t k = i + 1; k < recording->list.n && k < i + 3; k++) {
            const orr_attr *text = &recording->list.at[k];
            const char *name = orr_builder_text(b, text->name);
            if (text->kind != ORR_ATTR_STRING || text->list)
                break;
            if (strcmp(name, ORR_NAME_LANE_PROCESS) == 0)
                lane.process = *(const orr_str *)text->values;
            else if (strcmp(name, ORR_NAME_LANE_NAME) == 0)
                lane.name = *(const orr_str *)text->values;
        }
        ORR_TRY(orr_builder_lane(b, &lane, &id, err));
        if (!orr_array_push(&nodes->recorded.lanes, id))
            return orr_fail_memory(err);
    }
    return ORR_OK;
}

/* Attributes of the metadata that are of the file and not of the recording. */
static bool is_of_file(const orr_graph_builder *b, const orr_attr *attr)
{
    static const char *const names[] = {ORR_NAME_RECORDED_FORM,
                                        ORR_NAME_DEPS_DIGEST,
                                        ORR_NAME_SOURCE,
                                        ORR_NAME_IO_FORM,
                                        ORR_NAME_LANE,
                                        ORR_NAME_LANE_PROCESS,
                                        ORR_NAME_LANE_NAME,
                                        ORR_NAME_CHAKRA_VERSION,
                                        "schema",
                                        "rank",
                                        "world_size",
                                        "device_name",
                                        "process_groups"};
    const char *name = orr_builder_text(b, attr->name);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* The attribute as it was in the recording, where `doc` says so. The kind must have values of the
 * size of those that were read. */
static orr_status restore_kind(orr_chakra_nodes *nodes, orr_attr *attr, bool *ret_restored,
                               orr_error *err)
{
    orr_graph_builder *b = nodes->builder;
    const char *doc = orr_builder_text(b, attr->doc), *blank = strchr(doc, ' ');
    const size_t n = blank != NULL ? (size_t)(blank - doc) : strlen(doc);
    const bool text = attr->kind == ORR_ATTR_STRING;
    *ret_restored = false;
    for (int k = 0; k <= ORR_ATTR_NONE; k++) {
        const orr_attr_kind kind = (orr_attr_kind)k;
        const char *name = orr_chakra_attr_kind_name(kind);
        if (n != strlen(name) || memcmp(doc, name, n) != 0)
            continue;
        const bool number = attr->kind == ORR_ATTR_INT64 && kind == ORR_ATTR_UINT64;
        if (attr->kind != kind && !(text && kind == ORR_ATTR_JSON) && !number)
            return ORR_OK;
        attr->kind = (uint8_t)kind;
        *ret_restored = true;
    }
    if (*ret_restored && blank != NULL) {
        const size_t len = orr_strtab_len(b->strings, attr->doc) - n - 1;
        nodes->recorded.text.n = 0; /* adding a string may move the text */
        if (!orr_array_reserve(&nodes->recorded.text, len + 1))
            return orr_fail_memory(err);
        memcpy(nodes->recorded.text.at, blank + 1, len);
        ORR_TRY(orr_builder_str(b, nodes->recorded.text.at, len, &attr->name, err));
    }
    if (*ret_restored)
        attr->doc = 0;
    return ORR_OK;
}

orr_status orr_chakra_recorded_begin(orr_chakra_nodes *nodes, orr_chakra_attrs *recording,
                                     orr_error *err)
{
    orr_graph_builder *b = nodes->builder;
    const orr_attr *form = find(b, recording, ORR_NAME_RECORDED_FORM, ORR_ATTR_INT64, false);
    const orr_attr *digest = find(b, recording, ORR_NAME_DEPS_DIGEST, ORR_ATTR_FIXED64, false);
    const orr_attr *source = find(b, recording, ORR_NAME_SOURCE, ORR_ATTR_STRING, false);
    const orr_attr *io = find(b, recording, ORR_NAME_IO_FORM, ORR_ATTR_INT64, false);
    size_t kept = 0;
    /* A graph of Chakra's is rewritten as it was: nothing is restored. */
    const char *name = source != NULL ? orr_builder_text(b, *(const orr_str *)source->values) : "";
    if (form == NULL || digest == NULL || io == NULL || strncmp(name, "chakra", 6) == 0 ||
        *(const int64_t *)form->values != ORR_CHAKRA_RECORDED_FORM)
        return ORR_OK;
    nodes->recorded.restores = true;
    nodes->recorded.digest = *(const uint64_t *)digest->values;
    nodes->recorded.io_form = *(const int64_t *)io->values;
    b->recording.source = source != NULL ? *(const orr_str *)source->values : 0;
    ORR_TRY(begin_lanes(nodes, recording, err));
    for (size_t i = 0; i < recording->list.n; i++) {
        orr_attr attr = recording->list.at[i];
        bool restored;
        ORR_TRY(restore_kind(nodes, &attr, &restored, err));
        if (restored || !is_of_file(b, &attr))
            recording->list.at[kept++] = attr;
    }
    recording->list.n = kept;
    return ORR_OK;
}

/* Start and duration: exact where they agree with the microseconds, else these, which somebody
 * changed. */
static orr_status restore_times(orr_chakra_nodes *nodes, const orr_chakra_node *node,
                                const orr_chakra_attr_values *facts, orr_node *out, orr_error *err)
{
    int64_t self_ns = facts->has_self_ns ? facts->self_ns : facts->duration_ns;
    ORR_TRY(orr_chakra_check_times(node, err));
    out->start_ns = node->start_us == 0 ? ORR_TIME_NONE : (int64_t)node->start_us * 1000;
    out->duration_ns = (int64_t)node->duration_us * 1000;
    if (facts->has_start_ns && llabs(facts->start_ns) < INT64_MAX / 4 &&
        orr_chakra_micros(facts->start_ns > 0 ? facts->start_ns : 0) == (int64_t)node->start_us)
        out->start_ns = facts->start_ns;
    if (facts->has_duration_ns && facts->duration_ns >= 0 && facts->duration_ns < INT64_MAX / 2 &&
        self_ns >= 0 && orr_chakra_micros(self_ns) == (int64_t)node->duration_us)
        out->duration_ns = facts->duration_ns;
    else
        self_ns = out->duration_ns;
    return orr_array_push(&nodes->recorded.self_ns, self_ns) ? ORR_OK : orr_fail_memory(err);
}

static orr_status restore_lane(orr_chakra_nodes *nodes, const orr_chakra_attr_values *facts,
                               orr_node *out, orr_error *err)
{
    if (facts->lane < 0 || (uint64_t)facts->lane >= nodes->recorded.lanes.n)
        return orr_chakra_set_lane(nodes, facts, out, err);
    out->lane = nodes->recorded.lanes.at[facts->lane];
    return ORR_OK;
}

static int32_t fit(int64_t value)
{
    return value >= INT32_MIN && value <= INT32_MAX ? (int32_t)value : -1;
}

static orr_status restore_comm(orr_chakra_nodes *nodes, orr_node_id id, const int64_t row[10],
                               const orr_chakra_attr_values *facts, orr_error *err)
{
    const bool group = row[5] >= 0 && (uint64_t)row[5] < nodes->builder->groups.n;
    const orr_comm comm = {.collective = row[0] >= 0 && row[0] <= ORR_COLL_RECV ? (uint8_t)row[0]
                                                                                : ORR_COLL_UNKNOWN,
                           .vector = row[1] != 0,
                           .peer = fit(row[2]),
                           .root = fit(row[3]),
                           .tag = fit(row[4]),
                           .group = group ? (orr_group_id)row[5] : ORR_NONE,
                           .group_size = fit(row[6]),
                           .seq = row[7],
                           .in_bytes = row[8],
                           .out_bytes = row[9],
                           .dtype = facts->dtype,
                           .in_splits = facts->in_splits,
                           .out_splits = facts->out_splits};
    return orr_builder_comm(nodes->builder, id, &comm, err);
}

static orr_status restore_detail(orr_chakra_nodes *nodes, orr_node_id id,
                                 const orr_chakra_attrs *attrs, const orr_chakra_attr_values *facts,
                                 orr_error *err)
{
    orr_graph_builder *b = nodes->builder;
    const orr_attr *comm = find(b, attrs, ORR_NAME_COMM, ORR_ATTR_SINT64, true);
    const orr_attr *memory = find(b, attrs, ORR_NAME_MEMORY, ORR_ATTR_SINT64, true);
    const orr_attr *bandwidth = find(b, attrs, ORR_NAME_BANDWIDTH, ORR_ATTR_DOUBLE, false);
    if (comm != NULL && comm->count == 10)
        return restore_comm(nodes, id, comm->values, facts, err);
    if (bandwidth != NULL) {
        const orr_copy copy = {(uint64_t)facts->copy_bytes, *(const double *)bandwidth->values};
        return orr_builder_copy(b, id, &copy, err);
    }
    if (memory != NULL && memory->count == 6) {
        const int64_t *row = memory->values;
        const orr_memory event = {(uint64_t)row[0], row[1],      row[2],
                                  row[3],           fit(row[4]), fit(row[5])};
        return orr_builder_memory(b, id, &event, err);
    }
    return ORR_OK;
}

static orr_status push_dep(orr_chakra_nodes *nodes, orr_node_id node, uint64_t on, uint8_t kind,
                           orr_error *err)
{
    const orr_chakra_recorded_dep dep = {on, node, kind};
    return orr_array_push(&nodes->recorded.deps, dep) ? ORR_OK : orr_fail_memory(err);
}

static orr_status restore_deps(orr_chakra_nodes *nodes, orr_node_id id,
                               const orr_chakra_attrs *attrs, const orr_chakra_attr_values *facts,
                               orr_error *err)
{
    const orr_graph_builder *b = nodes->builder;
    if (facts->has_parent && facts->parent > 0)
        ORR_TRY(push_dep(nodes, id, (uint64_t)facts->parent, ORR_CHAKRA_PARENT, err));
    for (size_t i = 0; i < attrs->list.n; i++) {
        const orr_attr *attr = &attrs->list.at[i];
        if (!is_list(attr, ORR_ATTR_INT64))
            continue;
        for (int kind = ORR_DEP_DATA; kind <= ORR_DEP_SYNC; kind++)
            if (strcmp(orr_builder_text(b, attr->name), orr_chakra_deps_name((orr_dep_kind)kind)) ==
                0)
                for (uint32_t k = 0; k < attr->count; k++)
                    ORR_TRY(push_dep(nodes, id, ((const uint64_t *)attr->values)[k], (uint8_t)kind,
                                     err));
    }
    return ORR_OK;
}

/* Leaves those of the recording, as they were. */
static orr_status restore_attrs(orr_chakra_nodes *nodes, orr_chakra_attrs *attrs, orr_error *err)
{
    const orr_graph_builder *b = nodes->builder;
    const uint32_t hidden = orr_chakra_hidden_io(b, attrs);
    size_t kept = 0;
    for (size_t i = 0; i < attrs->list.n; i++) {
        orr_attr attr = attrs->list.at[i];
        bool restored;
        if (orr_chakra_is_io(b, &attr)) {
            ORR_TRY(orr_chakra_restore_io(nodes, attrs->arena, &attr, hidden, &restored, err));
        } else {
            ORR_TRY(restore_kind(nodes, &attr, &restored, err));
            restored |= !orr_chakra_is_own_name(orr_builder_text(b, attr.name));
        }
        if (restored)
            attrs->list.at[kept++] = attr;
    }
    attrs->list.n = kept;
    return ORR_OK;
}

orr_status orr_chakra_recorded_add(orr_chakra_nodes *nodes, const orr_chakra_node *node,
                                   orr_chakra_attrs *attrs, orr_error *err)
{
    orr_graph_builder *b = nodes->builder;
    const orr_chakra_attr_values facts =
        orr_chakra_attr_values_of(b, attrs->list.at, attrs->list.n);
    orr_node out = {.name = node->name, .parent = ORR_NONE};
    orr_node_id id;
    ORR_TRY(restore_times(nodes, node, &facts, &out, err));
    ORR_TRY(restore_lane(nodes, &facts, &out, err));
    out.kind = orr_chakra_node_kind(b, node->type, &facts);
    const bool host = b->lanes.at[out.lane].kind == ORR_LANE_HOST;
    out.source_id =
        (uint64_t)(host && out.kind != ORR_NODE_RUNTIME ? facts.rf_id : facts.correlation);
    ORR_TRY(orr_builder_node(b, &out, &id, err));
    ORR_TRY(orr_chakra_note_call(nodes, host, facts.correlation, err));
    const uint32_t order =
        facts.order >= 0 && facts.order < ORR_NONE ? (uint32_t)facts.order : ORR_NONE;
    if (!orr_array_push(&nodes->recorded.order, order))
        return orr_fail_memory(err);
    if (facts.critical != 0)
        b->flags[id] |= ORR_FLAG_CRITICAL;
    ORR_TRY(restore_detail(nodes, id, attrs, &facts, err));
    ORR_TRY(restore_deps(nodes, id, attrs, &facts, err));
    /* What a node without the attribute is nested in is its control dependency. */
    if (!facts.has_parent && host && !orr_array_push(&nodes->recorded.nested, id))
        return orr_fail_memory(err);
    ORR_TRY(restore_attrs(nodes, attrs, err));
    ORR_TRY(orr_chakra_restore_tensors(nodes, id, attrs, err));
    return orr_builder_attrs(b, id, attrs->list.at, (uint32_t)attrs->list.n, err);
}

static bool is_as_written(const orr_chakra_nodes *nodes)
{
    const uint32_t n_nodes = orr_builder_n_nodes(nodes->builder);
    uint64_t digest = 0;
    for (size_t i = 0; i < nodes->waiting.n; i++) {
        const orr_chakra_dep *dep = &nodes->waiting.at[i];
        if (dep->kind == ORR_DEP_LAUNCH)
            continue; /* not of the file */
        if (orr_idmap_get(&nodes->ids, dep->on) == ORR_NONE)
            return false;
        digest = orr_chakra_digest(digest, dep->node, dep->on, dep->kind == ORR_DEP_DATA);
    }
    if (orr_chakra_digest(digest, n_nodes, 0, false) != nodes->recorded.digest)
        return false;
    for (size_t i = 0; i < nodes->recorded.deps.n; i++)
        if (orr_idmap_get(&nodes->ids, nodes->recorded.deps.at[i].on) == ORR_NONE)
            return false;
    return orr_is_permutation(nodes->recorded.order.at, n_nodes);
}

static orr_status restore_graph(orr_chakra_nodes *nodes, orr_error *err)
{
    orr_graph_builder *b = nodes->builder;
    const orr_chakra_recorded *r = &nodes->recorded;
    size_t nested = 0;
    for (size_t i = 0; i < nodes->waiting.n; i++) {
        const orr_chakra_dep *dep = &nodes->waiting.at[i];
        while (nested < r->nested.n && r->nested.at[nested] < dep->node)
            nested++;
        if (dep->kind == ORR_DEP_CONTROL && nested < r->nested.n &&
            r->nested.at[nested] == dep->node)
            b->parent[dep->node] = orr_idmap_get(&nodes->ids, dep->on);
    }
    for (size_t i = 0; i < r->deps.n; i++) {
        const orr_chakra_recorded_dep *dep = &r->deps.at[i];
        const orr_node_id on = orr_idmap_get(&nodes->ids, dep->on);
        if (dep->kind == ORR_CHAKRA_PARENT)
            b->parent[dep->node] = on;
        else
            ORR_TRY(orr_builder_dep(b, dep->node, on, (orr_dep_kind)dep->kind, err));
    }
    return orr_builder_reorder(b, r->order.at, err);
}

orr_status orr_chakra_recorded_finish(orr_chakra_nodes *nodes, bool *ret_restored, orr_error *err)
{
    orr_graph_builder *b = nodes->builder;
    const uint32_t n_nodes = orr_builder_n_nodes(b);
    *ret_restored = is_as_written(nodes);
    if (*ret_restored)
        return restore_graph(nodes, err);
    for (uint32_t v = 0; v < n_nodes; v++)
        b->duration_ns[v] = nodes->recorded.self_ns.at[v];
    return ORR_OK;
}

void orr_chakra_recorded_done(orr_chakra_recorded *recorded)
{
    orr_array_done(&recorded->lanes);
    orr_array_done(&recorded->order);
    orr_array_done(&recorded->self_ns);
    orr_array_done(&recorded->deps);
    orr_array_done(&recorded->nested);
    orr_array_done(&recorded->text);
    orr_array_done(&recorded->tensors);
}
