/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "graph/builder.h"
#include "trace/chakra/python_repr.h"
#include "trace/chakra/recorded.h"
#include "trace/common/attr_names.h"
#include "trace/common/tensors.h"

/* Inputs and outputs in the notation and under the names of the recording. */

static int io_of(const orr_graph_builder *b, orr_str name)
{
    return orr_chakra_io_place(orr_builder_text(b, name));
}

bool orr_chakra_is_io(const orr_graph_builder *b, const orr_attr *attr)
{
    return attr->kind == ORR_ATTR_STRING && !attr->list && io_of(b, attr->name) >= 0;
}

uint32_t orr_chakra_hidden_io(const orr_graph_builder *b, const orr_chakra_attrs *attrs)
{
    uint32_t hidden = 0;
    for (size_t i = 0; i < attrs->list.n; i++) {
        const orr_attr *attr = &attrs->list.at[i];
        const char *name = strchr(orr_builder_text(b, attr->doc), ' ');
        if (name == NULL || strcmp(orr_builder_text(b, attr->name), ORR_NAME_RECORDED_IO) != 0)
            continue;
        const int place = orr_chakra_io_place(name + 1);
        if (place >= 0)
            hidden |= 1u << place;
    }
    return hidden;
}

orr_status orr_chakra_restore_io(orr_chakra_nodes *nodes, orr_arena *arena, orr_attr *attr,
                                 uint32_t hidden, bool *ret_restored, orr_error *err)
{
    orr_graph_builder *b = nodes->builder;
    const int place = io_of(b, attr->name);
    const bool kineto = (nodes->recorded.io_form & ORR_IO_FORM_KINETO) != 0;
    const char *name = orr_chakra_io_name(place, kineto);
    const orr_str python = *(const orr_str *)attr->values;
    orr_proto_buffer json = {0};
    *ret_restored = (hidden >> place & 1) == 0 && name != NULL;
    if (!*ret_restored)
        return ORR_OK;
    orr_str *value = orr_arena_one(arena, orr_str);
    orr_python_to_json(&json,
                       (orr_text){orr_builder_text(b, python), orr_strtab_len(b->strings, python)},
                       (nodes->recorded.io_form & ORR_IO_FORM_BLANKS) != 0);
    orr_status status = value == NULL || json.failed
                            ? orr_fail_memory(err)
                            : orr_builder_str(b, (const char *)json.at, json.n, value, err);
    if (status == ORR_OK)
        status = orr_builder_str(b, name, strlen(name), &attr->name, err);
    attr->kind = ORR_ATTR_JSON;
    attr->values = value;
    orr_proto_buffer_done(&json);
    return status;
}

/* The texts of inputs or outputs among the restored attributes, as tensors; *ret_n: how many. */
static orr_status find_tensors(orr_chakra_nodes *nodes, const orr_chakra_attrs *attrs, int first,
                               orr_error *err)
{
    const orr_graph_builder *b = nodes->builder;
    orr_tensor_texts texts = {{"", 0}, {"", 0}, {"", 0}};
    orr_text *const parts[] = {&texts.values, &texts.shapes, &texts.types};
    for (size_t i = 0; i < attrs->list.n; i++) {
        const orr_attr *attr = &attrs->list.at[i];
        const char *name = orr_builder_text(b, attr->name);
        const int place = orr_chakra_io_place(name), part = place - first;
        if (attr->kind != ORR_ATTR_JSON || attr->list || part < 0 || part > 2 ||
            strcmp(name, orr_chakra_io_name(place, false)) != 0)
            continue;
        const orr_str s = *(const orr_str *)attr->values;
        const size_t n = orr_strtab_len(b->strings, s);
        /* Adding strings may move the text. */
        *parts[part] = (orr_text){orr_arena_strndup(attrs->arena, orr_builder_text(b, s), n), n};
        if (parts[part]->at == NULL)
            return orr_fail_memory(err);
    }
    return orr_find_tensors(nodes->builder, &texts, UINT64_MAX, &nodes->recorded.tensors, err);
}

orr_status orr_chakra_restore_tensors(orr_chakra_nodes *nodes, orr_node_id id,
                                      const orr_chakra_attrs *attrs, orr_error *err)
{
    orr_found_tensors *found = &nodes->recorded.tensors;
    if ((nodes->recorded.io_form & ORR_IO_FORM_TENSORS) == 0)
        return ORR_OK;
    found->n = 0;
    ORR_TRY(find_tensors(nodes, attrs, 0, err));
    const size_t n_in = found->n;
    ORR_TRY(find_tensors(nodes, attrs, ORR_CHAKRA_FIRST_OUTPUT, err));
    if (found->n == 0)
        return ORR_OK;
    return orr_builder_io(nodes->builder, id, found->at, (uint32_t)n_in, found->at + n_in,
                          (uint32_t)(found->n - n_in), err);
}
