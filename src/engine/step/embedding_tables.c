/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "engine/step/tape_writer.h"
#include "model/arch/dlrm.h"

/* Embedding-bag tables of a step. Their gradient has a row for each lookup, of all micro-batches
 * one after another, and the update (exact row-wise Adagrad) touches only rows that were looked up.
 * A table is in a bucket that nothing reduces or updates, since only this rank has it. */

static uint32_t find_table(const orr_engine_step *step)
{
    for (uint32_t i = 0; i < step->n_parameters; i++)
        if (step->exported[step->parameters[i].exported].tag == ORR_WEIGHT_TABLE)
            return i;
    return ORR_NONE;
}

static const orr_step_input_buffer *find_ids(const orr_engine_step *step)
{
    for (uint32_t i = 0; i < step->n_slots; i++)
        if (strcmp(step->slots[i].name, "ids") == 0)
            return &step->slots[i];
    return NULL;
}

/* For checkpoints the Adagrad state is a parameter of its own, without a gradient. */
static orr_parameter state_of(const orr_engine_step *step, const orr_parameter *table)
{
    const int64_t rows = step->table.rows;
    orr_parameter p = *table;
    p.name = "tables_state";
    p.frozen = true;
    p.own.whole.rank = 1; /* its rows are distributed over ranks as the table's are */
    p.type = orr_step_flat(ORR_DTYPE_FP32, rows);
    p.n = p.shard_n = rows;
    p.master = step->table.state;
    return p;
}

orr_status orr_step_allocate_tables(orr_engine_step *step, orr_error *err)
{
    const uint32_t parameter = find_table(step);
    const orr_step_input_buffer *ids = find_ids(step);
    orr_step_table *t = &step->table;
    if (parameter == ORR_NONE)
        return ORR_OK;
    if (ids == NULL || step->stream != ORR_DTYPE_FP32)
        return orr_fail(err, ORR_UNSUPPORTED, "tables of embeddings are trained in fp32");
    const orr_type *type = &step->parameters[parameter].type;
    *t = (orr_step_table){.rows = type->dim[0],
                          .columns = type->dim[1],
                          .lookups = ids->type.dim[0] * step->plan.micro_batches,
                          .ids = (int64_t *)(void *)ids->data};
    const size_t gradient = (size_t)(t->lookups * t->columns) * sizeof(float);
    ORR_TRY(orr_step_allocate(step, (size_t)t->rows * sizeof(float), &step->memory.optimizer,
                              &t->state, err));
    ORR_TRY(orr_step_allocate(step, gradient, &step->memory.gradients, &t->gradient, err));
    const orr_parameter *exported = &step->exported[step->parameters[parameter].exported];
    t->table = exported->master;
    step->exported[step->n_exported++] = state_of(step, exported);
    return ORR_OK;
}

const orr_step_table *orr_engine_step_table(const orr_engine_step *step)
{
    return step->table.rows > 0 ? &step->table : NULL;
}

static orr_table_shard share_of(const orr_engine_step *step)
{
    return orr_table_shard_of(&step->source.model->dlrm, step->plan.dp,
                              orr_plan_member(&step->plan, ORR_AXIS_DP, step->rank));
}

void orr_step_table_clear_padding(orr_engine_step *step)
{
    const orr_step_table *t = &step->table;
    if (t->rows == 0 || !share_of(step).padded)
        return;
    memset(t->table + (t->rows - 1) * t->columns, 0, (size_t)t->columns * sizeof(float));
    t->state[t->rows - 1] = 0;
}

/* Initial values: uniform within 1 / sqrt(rows), as in facebookresearch/dlrm (dlrm_s_pytorch.py,
 * create_emb), each number drawn from its table, row and column. */
void orr_step_initialize_tables(orr_engine_step *step)
{
    const orr_dlrm *d = &step->source.model->dlrm;
    const orr_table_shard share = share_of(step);
    float *to = step->table.table;
    for (uint32_t i = share.first; i < share.first + share.n; i++) {
        const double bound = 1 / sqrt((double)d->tables[i].rows);
        orr_random random = orr_random_of(step->source.seed, UINT64_C(0x7461626c00000000) + i);
        for (int64_t k = 0; k < d->tables[i].rows * d->dim; k++)
            *to++ = (float)((2 * (orr_random_u32(&random) + 0.5) * 0x1p-32 - 1) * bound);
    }
    orr_step_table_clear_padding(step);
}

void orr_step_table_gradient(orr_step_writer *w, uint32_t call, uint32_t o)
{
    const orr_step_table *t = &w->step->table;
    const orr_value value = w->to->tape.calls[call].out[o];
    const int64_t each = t->lookups / w->step->plan.micro_batches * t->columns;
    w->to->bindings.at[value].data = t->gradient + w->slot.micro_batch * each;
}

void orr_step_table_update(orr_step_writer *w)
{
    const orr_step_table *t = &w->step->table;
    const orr_type table = {.dtype = ORR_DTYPE_FP32, .rank = 2, .dim = {t->rows, t->columns}};
    const orr_type gradient = {.dtype = ORR_DTYPE_FP32, .rank = 2, .dim = {t->lookups, t->columns}};
    const orr_type state = orr_step_flat(ORR_DTYPE_FP32, t->rows);
    const orr_type ids = orr_step_flat(ORR_DTYPE_INT64, t->lookups);
    if (t->rows == 0)
        return;
    orr_step_op op = {.op = ORR_OP_ROWWISE_ADAGRAD,
                      .pass = ORR_PASS_OPTIMIZER,
                      .n_in = 4,
                      .name = "rowwise_adagrad"};
    op.in[0] = orr_step_value(w, ORR_VALUE_PARAMETER, &table, "tables", t->table);
    op.in[1] = orr_step_value(w, ORR_VALUE_PARAMETER_GRADIENT, &gradient, "gradients", t->gradient);
    op.in[2] = orr_step_value(w, ORR_VALUE_STATE, &state, "state", t->state);
    op.in[3] = orr_step_value(w, ORR_VALUE_INPUT, &ids, "ids", t->ids);
    orr_step_apply(w, &op);
}
