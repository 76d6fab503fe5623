/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/embedding/row_update.h"
#include "kernel/cpu/entries.h"

/* The operator rowwise_adagrad: row_update.c on a table in memory. A gradient row belongs to one
 * lookup or to several (all of a bag), of which there are then as many fewer. */

static orr_status check(const orr_kernel_call *call, const orr_embedding_table *table,
                        const orr_embedding_table *gradient, int64_t ids, orr_error *err)
{
    if (table->segments != NULL || gradient->segments != NULL ||
        call->in[2].type.dtype != ORR_DTYPE_FP32)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "rowwise_adagrad: a table of numbers and a state in fp32 are needed");
    if (call->update == NULL)
        return orr_fail(err, ORR_INVALID, "rowwise_adagrad: no rate is given");
    if (ids > 0 && (gradient->rows == 0 || ids % gradient->rows != 0))
        return orr_fail(err, ORR_INVALID,
                        "rowwise_adagrad: rows of the gradient do not share out the ids");
    return ORR_OK;
}

static size_t adagrad_workspace(const orr_kernel_call *call)
{
    return orr_sorted_lookups_bytes(orr_type_elements(&call->in[3].type), call->in[0].type.dim[0]);
}

static orr_status adagrad_run(const orr_kernel_call *call, orr_error *err)
{
    orr_embedding_table table;
    orr_row_update u = {.by = call->update};
    const orr_indices ids = orr_indices_of(&call->in[3]);
    ORR_TRY(orr_embedding_table_of(&call->in[0], "rowwise_adagrad", &table, err));
    ORR_TRY(orr_embedding_table_of(&call->in[1], "rowwise_adagrad", &u.gradient, err));
    ORR_TRY(check(call, &table, &u.gradient, ids.n, err));
    orr_row_store store = {.rows = table.rows,
                           .columns = table.columns,
                           .format = (uint8_t)table.format,
                           .optimizer = ORR_ROW_OPTIMIZER_ROWWISE_ADAGRAD,
                           .record_bytes = table.row_bytes,
                           .base = table.base,
                           .states = call->in[2].data,
                           .state_bytes = call->in[2].stride[0] * (int64_t)sizeof(float)};
    ORR_TRY(orr_row_update_check(&store, "rowwise_adagrad", err));
    u.store = &store;
    u.lookups = (orr_sorted_lookups){
        .ids = &ids, .each = ids.n > 0 ? ids.n / u.gradient.rows : 0, .rows = table.rows};
    ORR_TRY(orr_sorted_lookups_partition(&u.lookups, call->workspace, call->workers, err));
    ORR_TRY(orr_invalid_id_check(&u.lookups.stray, &ids, table.rows, "rowwise_adagrad", err));
    return orr_row_update_run(&u, NULL, call->workers, err);
}

const orr_kernel_entry orr_cpu_ROWWISE_ADAGRAD = {.run = adagrad_run,
                                                  .workspace = adagrad_workspace};
