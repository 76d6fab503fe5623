/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/tensor/strided_copy.h"
#include "kernel/cpu/tensor/iterator.h"
#include "kernel/cpu/entries.h"

/* Puts image embeddings in place of placeholder tokens: all rows are copied, then those whose id is
 * the placeholder are overwritten. */
static orr_status splice_run(const orr_kernel_call *call, orr_error *err)
{
    const orr_operand *x = &call->in[0], *pictures = &call->in[2], *y = &call->out[0];
    const orr_indices ids = orr_indices_of(&call->in[1]);
    const int64_t columns = x->type.rank > 0 ? x->type.dim[x->type.rank - 1] : 0;
    orr_tensor_iter walk = orr_tensor_iter_over(&y->type);
    int64_t next = 0;
    if (x->data != y->data)
        orr_copy_operand(x, y, call->workers);
    orr_tensor_iter_add(&walk, y);
    for (int64_t i = 0; i < ids.n; i++) {
        orr_tensor_cursor cursor;
        if (orr_indices_at(&ids, i) != call->args->begin)
            continue;
        if (next == pictures->type.dim[0])
            return orr_fail(err, ORR_INVALID,
                            "masked_scatter: more than %lld tokens ask for a picture's row",
                            (long long)next);
        orr_tensor_iter_seek(&walk, i, &cursor);
        const orr_type row = {.dtype = x->type.dtype, .rank = 1, .dim = {columns}};
        orr_copy_elements(&row, orr_operand_at(pictures, 0, next++), &pictures->stride[1],
                          walk.part[0].data + cursor.offset[0], &y->stride[y->type.rank - 1], NULL);
    }
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_MASKED_SCATTER = {.run = splice_run};
