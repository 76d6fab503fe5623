/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "engine/train/trainer.h"

/* Recommendation models in checkpoints, and as folders of weights: dense.safetensors with a tensor
 * for each parameter of the dense part ("1.bottom.0"), and a file NAME.table for each embedding
 * table (checkpoint/table_file.h). */

orr_status orr_train_table_parts(const orr_trainer *t, orr_table_part **ret, uint32_t *ret_n,
                                 orr_error *err)
{
    const orr_tables *tables = orr_engine_step_tables(t->step);
    const uint32_t n = tables != NULL ? orr_tables_n_shards(tables) : 0;
    orr_table_part *parts = orr_arena_array(t->arena, orr_table_part, (size_t)n + 1);
    if (parts == NULL)
        return orr_fail_memory(err);
    const orr_embedding_plan *plan = orr_engine_step_table_plan(t->step);
    if (tables != NULL)
        orr_table_parts_of(tables, plan, t->transport->rank, parts);
    for (uint32_t i = 0; i < n; i++)
        parts[i].saved &= !t->rows.committed[plan->placements[parts[i].shard->table].tier];
    *ret = parts;
    *ret_n = n;
    return ORR_OK;
}

/* Stores were opened as of the checkpoint: what is left are tables that they do not commit. */
static orr_status restore_uncommitted(const orr_trainer *t, const orr_checkpoint *checkpoint,
                                      orr_table_part *parts, uint32_t n, orr_error *err)
{
    const orr_embedding_plan *plan = orr_engine_step_table_plan(t->step);
    orr_embedding *tables = orr_arena_array(t->arena, orr_embedding, plan->n_tables);
    uint32_t n_tables = 0, left = 0;
    if (tables == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < plan->n_tables; i++)
        if (!t->rows.committed[plan->placements[i].tier])
            tables[n_tables++] = plan->tables[i];
    for (uint32_t i = 0; i < n; i++)
        if (!t->rows.committed[plan->placements[parts[i].shard->table].tier])
            parts[left++] = parts[i];
    return n_tables > 0
               ? orr_checkpoint_restore_table_files(checkpoint, tables, n_tables, parts, left, err)
               : ORR_OK;
}

orr_status orr_train_restore_tables(const orr_trainer *t, const orr_checkpoint *checkpoint,
                                    orr_error *err)
{
    const orr_dlrm *d = &t->training->model->dlrm;
    orr_table_part *parts;
    uint32_t n;
    ORR_TRY(orr_train_table_parts(t, &parts, &n, err));
    const orr_status status =
        t->rows.resumes
            ? restore_uncommitted(t, checkpoint, parts, n, err)
            : orr_checkpoint_restore_tables(checkpoint, d->tables, d->n_tables, parts, n, err);
    if (status != ORR_OK)
        orr_error_prefix(err, t->training->save);
    return status;
}

static orr_status read_dense(const orr_trainer *t, const orr_weights *weights, orr_error *err)
{
    uint32_t n;
    const orr_parameter *parameters = orr_engine_step_parameters(t->step, &n);
    for (uint32_t i = 0; i < n; i++) {
        const orr_parameter *p = &parameters[i];
        const int64_t numbers = orr_type_elements(&p->own.whole);
        char name[ORR_PARAMETER_KEY_CHARS];
        orr_parameter_key(p->place, p->name, p->nth, name);
        const orr_weight *w = orr_weights_find(weights, name);
        if (w == NULL || w->format != ORR_ROW_FORMAT_FP32 ||
            w->bytes != numbers * (int64_t)sizeof(float))
            return orr_fail(err, ORR_INVALID,
                            "%s: %s is %s, and should be %lld numbers in fp32: the weights are of "
                            "another model",
                            weights->path, name, w == NULL ? "missing" : "something else",
                            (long long)numbers);
        orr_train_cut_parameter(p, w->data);
    }
    return ORR_OK;
}

orr_status orr_train_import_recommendation(const orr_trainer *t, const char *folder, orr_error *err)
{
    const orr_dlrm *d = &t->training->model->dlrm;
    orr_weights *weights;
    orr_table_part *parts;
    uint32_t n;
    char path[4096];
    ORR_TRY(orr_train_table_parts(t, &parts, &n, err));
    snprintf(path, sizeof path, "%s/dense.safetensors", folder);
    ORR_TRY(orr_weights_open(path, &weights, err));
    orr_status status = read_dense(t, weights, err);
    orr_weights_close(weights);
    ORR_TRY(status);
    status = orr_tables_import(folder, d->tables, d->n_tables, parts, n, err);
    if (status != ORR_OK)
        orr_error_prefix(err, folder);
    return status;
}

typedef struct dense_export {
    const orr_checkpoint *checkpoint;
    const orr_parameter *parameters;
    orr_weight *tensors;
    float *numbers; /* of the largest tensor */
} dense_export;

static orr_status read_tensor(void *ctx, uint32_t i, const void **ret, orr_error *err)
{
    const dense_export *e = ctx;
    *ret = e->numbers;
    return orr_checkpoint_read_tensor(e->checkpoint, e->tensors[i].name, "master", e->numbers,
                                      orr_type_elements(&e->parameters[i].own.whole), err);
}

static orr_status describe_tensors(dense_export *e, uint32_t n, orr_arena *arena, orr_error *err)
{
    int64_t most = 0;
    e->tensors = orr_arena_array(arena, orr_weight, (size_t)n + 1);
    for (uint32_t i = 0; i < n && e->tensors != NULL; i++) {
        const orr_type *type = &e->parameters[i].own.whole;
        const orr_parameter *p = &e->parameters[i];
        char name[ORR_PARAMETER_KEY_CHARS];
        orr_weight *w = &e->tensors[i];
        orr_parameter_key(p->place, p->name, p->nth, name);
        *w = (orr_weight){.name = orr_arena_printf(arena, "%s", name),
                          .format = ORR_ROW_FORMAT_FP32,
                          .rank = type->rank,
                          .bytes = orr_type_elements(type) * (int64_t)sizeof(float)};
        memcpy(w->dim, type->dim, sizeof w->dim);
        if (w->name == NULL)
            return orr_fail_memory(err);
        most = w->bytes > most ? w->bytes : most;
    }
    e->numbers = orr_malloc((size_t)most + 1);
    return e->tensors != NULL && e->numbers != NULL ? ORR_OK : orr_fail_memory(err);
}

static orr_status write_dense(const orr_trainer *t, const orr_checkpoint *checkpoint,
                              const char *folder, orr_error *err)
{
    char path[4096];
    uint32_t n;
    dense_export e = {.checkpoint = checkpoint,
                      .parameters = orr_engine_step_parameters(t->step, &n)};
    orr_status status = describe_tensors(&e, n, t->arena, err);
    const orr_weight_source source = {.tensors = e.tensors, .n = n, .data = read_tensor, .ctx = &e};
    snprintf(path, sizeof path, "%s/dense.safetensors", folder);
    if (status == ORR_OK)
        status = orr_safetensors_write(&source, path, 0, err);
    orr_free(e.numbers);
    return status;
}

orr_status orr_train_export_recommendation(const orr_trainer *t, const char *checkpoint,
                                           const char *folder, orr_error *err)
{
    const orr_dlrm *d = &t->training->model->dlrm;
    orr_checkpoint *open;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return orr_fail(err, ORR_IO, "%s: %s", folder, strerror(errno));
    ORR_TRY(orr_checkpoint_open(checkpoint, &open, err));
    orr_status status = write_dense(t, open, folder, err);
    if (status == ORR_OK)
        status = orr_checkpoint_export_tables(open, d->tables, d->n_tables, folder, err);
    orr_checkpoint_close(open);
    return status;
}
