/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/comm/process_groups.h"

#include "base/array.h"
#include "graph/builder.h"
#include "io/json/reader.h"

void orr_process_groups_done(orr_process_groups *groups)
{
    orr_idmap_done(&groups->by_name);
    orr_idmap_done(&groups->by_backend_id);
}

/* A group as parsed from its object. */
typedef struct parsed {
    orr_group group;
    orr_array(uint32_t) ranks;
    int64_t backend_id;
    bool has_backend_id;
} parsed;

static orr_status read_text(orr_json *json, orr_graph_builder *b, orr_str *to, orr_error *err)
{
    orr_text text;
    bool is;
    ORR_TRY(orr_json_text(json, &text, &is, err));
    return is ? orr_builder_str(b, text.at, text.n, to, err) : ORR_OK;
}

static orr_status read_ranks(orr_json *json, parsed *p, orr_error *err)
{
    orr_json_value v;
    ORR_TRY(orr_json_value_next(json, &v, err));
    if (v.type == ORR_JSON_OBJECT)
        return orr_fail(err, ORR_PARSE, "ranks of a process group are no list");
    if (v.type != ORR_JSON_ARRAY)
        return ORR_OK;
    orr_status status = ORR_OK;
    while (orr_json_next_element(json, &status, err)) {
        int64_t rank;
        bool is;
        ORR_TRY(orr_json_int64(json, &rank, &is, err));
        if (!is || rank < 0 || rank >= UINT32_MAX)
            return orr_fail(err, ORR_PARSE, "a rank of a process group is no number");
        if (!orr_array_push(&p->ranks, (uint32_t)rank))
            return orr_fail_memory(err);
    }
    return status;
}

static orr_status read_field(orr_json *json, orr_graph_builder *b, orr_text key, parsed *p,
                             orr_error *err)
{
    int64_t number = 0;
    bool is;
    if (orr_text_is(key, "pg_name"))
        return read_text(json, b, &p->group.name, err);
    if (orr_text_is(key, "pg_desc"))
        return read_text(json, b, &p->group.desc, err);
    if (orr_text_is(key, "backend_config") || orr_text_is(key, "pg_backend"))
        return read_text(json, b, &p->group.backend, err);
    if (orr_text_is(key, "ranks"))
        return read_ranks(json, p, err);
    if (orr_text_is(key, "backend_id")) {
        ORR_TRY(orr_json_int64(json, &p->backend_id, &p->has_backend_id, err));
    } else if (orr_text_is(key, "group_size") || orr_text_is(key, "pg_size")) {
        ORR_TRY(orr_json_int64(json, &number, &is, err));
        p->group.size = is && number > 0 && number < INT32_MAX ? (uint32_t)number : 0;
    } else {
        ORR_TRY(orr_json_skip(json, err));
    }
    return ORR_OK;
}

/* Describes the ranks by start and stride where possible. An empty list means all, from 0. */
static void describe_ranks(parsed *p)
{
    orr_group *g = &p->group;
    const size_t n = p->ranks.n;
    const uint32_t *ranks = p->ranks.at;
    g->start = n == 0 ? 0 : (int32_t)ranks[0];
    g->stride = n < 2 ? 1 : (int32_t)(ranks[1] - ranks[0]);
    if (n == 0)
        return;
    g->size = (uint32_t)n;
    for (size_t i = 0; i < n; i++)
        if (g->stride <= 0 || ranks[i] != (uint32_t)(g->start + (int64_t)i * g->stride))
            g->ranks = ranks;
}

static orr_status read_group(orr_process_groups *groups, orr_graph_builder *b, orr_json *json,
                             orr_error *err)
{
    parsed p = {0};
    orr_status status = ORR_OK;
    orr_json_value v;
    orr_text key;
    orr_group_id id;
    ORR_TRY(orr_json_value_next(json, &v, err));
    if (v.type != ORR_JSON_OBJECT)
        return orr_fail(err, ORR_PARSE, "a process group is no object");
    while (orr_json_next_key(json, &key, &status, err))
        ORR_TRY_OUT(status, read_field(json, b, key, &p, err));
    if (status != ORR_OK)
        goto out;
    describe_ranks(&p);
    ORR_TRY_OUT(status, orr_builder_group(b, &p.group, &id, err));
    ORR_TRY_OUT(status, orr_idmap_set(&groups->by_name, p.group.name, id, err));
    if (p.has_backend_id)
        ORR_TRY_OUT(status, orr_idmap_set(&groups->by_backend_id, (uint64_t)p.backend_id, id, err));
out:
    orr_array_done(&p.ranks);
    return status;
}

static orr_status read_list(orr_process_groups *groups, orr_graph_builder *b, orr_json *json,
                            orr_error *err)
{
    orr_json_value v;
    ORR_TRY(orr_json_value_next(json, &v, err));
    if (v.type != ORR_JSON_ARRAY)
        return orr_fail(err, ORR_PARSE, "no list of process groups");
    orr_status status = ORR_OK;
    while (orr_json_next_element(json, &status, err))
        ORR_TRY(read_group(groups, b, json, err));
    return status;
}

orr_status orr_process_groups_read(orr_process_groups *groups, orr_graph_builder *builder,
                                   const char *text, size_t len, bool *ret_whole, orr_error *err)
{
    orr_stream *stream = NULL;
    orr_json *json = NULL;
    orr_error inner = {0};
    orr_status status = ORR_OK;
    ORR_TRY_OUT(status, orr_stream_open_memory(text, len, &stream, err));
    ORR_TRY_OUT(status, orr_json_new(stream, false, &json, err));
    status = read_list(groups, builder, json, &inner);
    *ret_whole = status == ORR_OK;
    if (status == ORR_NO_MEMORY || status == ORR_LIMIT) {
        if (err != NULL)
            *err = inner;
    } else {
        status = ORR_OK;
    }
out:
    orr_json_free(json);
    orr_stream_close(stream);
    return status;
}

orr_status orr_process_groups_named(orr_process_groups *groups, orr_graph_builder *builder,
                                    const orr_group *like, orr_group_id *ret, orr_error *err)
{
    const uint32_t known = orr_idmap_get(&groups->by_name, like->name);
    if (known == ORR_NONE) {
        ORR_TRY(orr_builder_group(builder, like, ret, err));
        return orr_idmap_set(&groups->by_name, like->name, *ret, err);
    }
    orr_group *g = &builder->groups.at[known];
    if (g->desc == 0)
        g->desc = like->desc;
    if (g->size == 0 && like->size > 0 && like->ranks == NULL) {
        g->size = like->size;
        g->start = like->start;
        g->stride = like->stride;
    }
    *ret = known;
    return ORR_OK;
}

static void write_str(orr_json_writer *w, const orr_graph *graph, const char *key, orr_str s)
{
    orr_json_write_key(w, key);
    orr_json_write_text(w, orr_graph_str(graph, s), orr_graph_str_len(graph, s));
}

void orr_process_groups_write(const orr_graph *graph, orr_json_writer *w)
{
    orr_json_write_array(w);
    for (uint32_t i = 0; i < graph->n_groups; i++) {
        const orr_group *g = &graph->groups[i];
        orr_json_write_object(w);
        write_str(w, graph, "pg_name", g->name);
        write_str(w, graph, "pg_desc", g->desc);
        write_str(w, graph, "backend_config", g->backend);
        orr_json_write_key(w, "ranks");
        orr_json_write_array(w);
        for (uint32_t r = 0; r < g->size && orr_group_rank(g, r) != ORR_NONE; r++)
            orr_json_write_uint(w, orr_group_rank(g, r));
        orr_json_write_array_end(w);
        orr_json_write_key(w, "group_size");
        orr_json_write_uint(w, g->size);
        orr_json_write_object_end(w);
    }
    orr_json_write_array_end(w);
}
