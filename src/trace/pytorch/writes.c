/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "graph/builder.h"
#include "trace/pytorch/reader.h"

/* Which of its inputs an operator writes, by its schema. */

orr_status orr_et_find_tensors(orr_graph_builder *builder, const orr_et_io *io, uint64_t args,
                               orr_found_tensors *ret, orr_error *err)
{
    const orr_tensor_texts texts = {io->text[ORR_ET_VALUES], io->text[ORR_ET_SHAPES],
                                    io->text[ORR_ET_TYPES]};
    return orr_find_tensors(builder, &texts, args, ret, err);
}

uint64_t orr_et_written_args(const char *schema)
{
    uint64_t args = 0;
    size_t depth = 0;
    unsigned arg = 0;
    const char *at = strchr(schema, '(');
    for (at = at == NULL ? "" : at + 1; *at != '\0' && arg < 64; at++) {
        if (*at == '(' || *at == '[')
            depth++;
        else if (*at == ']' || (*at == ')' && depth > 0))
            depth--;
        else if (*at == ')')
            break;
        else if (*at == ',' && depth == 0 && strncmp(at, ", *,", 4) != 0)
            arg++;
        else if (*at == '!')
            args |= UINT64_C(1) << arg;
    }
    return args;
}

orr_status orr_et_note_writes(orr_et_reader *r, orr_node_id id, orr_error *err)
{
    const orr_graph_builder *b = r->builder;
    const uint64_t args = orr_et_written_args(orr_builder_text(b, r->node.op_schema));
    if (args == 0)
        return ORR_OK;
    r->in.n = 0;
    ORR_TRY(orr_et_find_tensors(r->builder, &r->node.in, args, &r->in, err));
    for (size_t i = 0; i < r->in.n; i++) {
        const orr_et_write write = {(uint64_t)b->tensors.at[r->in.at[i]].storage, id};
        if (!orr_array_push(&r->writes, write))
            return orr_fail_memory(err);
    }
    return ORR_OK;
}
