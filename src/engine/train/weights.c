/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "engine/step/shard_runs.h"
#include "engine/train/trainer.h"
#include "model/module/module.h"

/* Reads parameters from checkpoints of weights, and exports them. A place is the embedding, a
 * layer, or the head. */

uint32_t orr_train_layer_of(const orr_model *model, uint32_t place)
{
    return place >= 1 && place <= model->layers ? place - 1 : 0;
}

typedef struct cut {
    const float *whole;
    float *to;
    int64_t begin;
} cut;

static void copy_run(void *ctx, int64_t own, int64_t whole, int64_t n)
{
    const cut *c = ctx;
    memcpy(c->to + (own - c->begin), c->whole + whole, (size_t)n * sizeof(float));
}

void orr_train_cut_parameter(const orr_parameter *p, const float *whole)
{
    cut c = {whole, p->master, p->shard_begin};
    orr_shard_runs(&p->own, &p->type, p->shard_begin, p->shard_n, copy_run, &c);
}

static orr_status read_one(const orr_trainer *t, const orr_weights *weights, const orr_parameter *p,
                           orr_error *err)
{
    const orr_model *model = t->training->model;
    orr_type type = p->own.whole;
    const orr_weight_key key = {.module = p->module,
                                .name = p->name,
                                .nth = p->nth,
                                .layer = orr_train_layer_of(model, p->place)};
    type.dtype = ORR_DTYPE_FP32;
    float *whole = orr_malloc((size_t)orr_type_bytes(&type));
    if (whole == NULL)
        return orr_fail_memory(err);
    const orr_status status = orr_weights_read(weights, model, &key, &type, whole, err);
    if (status == ORR_OK)
        orr_train_cut_parameter(p, whole);
    orr_free(whole);
    return status;
}

orr_status orr_train_read_weights(orr_trainer *t, const char *path, orr_error *err)
{
    orr_weights *weights;
    uint32_t n;
    const orr_parameter *parameters = orr_engine_step_parameters(t->step, &n);
    if (t->training->model->kind == ORR_MODEL_DLRM)
        return orr_train_import_recommendation(t, path, err);
    ORR_TRY(orr_weights_open(path, &weights, err));
    orr_status status = ORR_OK;
    for (uint32_t i = 0; i < n && status == ORR_OK; i++)
        if (parameters[i].shard_n > 0)
            status = read_one(t, weights, &parameters[i], err);
    orr_weights_close(weights);
    return status;
}

typedef struct exporter {
    const orr_trainer *trainer;
    const orr_checkpoint *checkpoint;
    float *room;
    size_t room_bytes;
} exporter;

static uint32_t place_of(const orr_model *model, const orr_weight_key *key)
{
    switch (key->module) {
    case ORR_MODULE_EMBEDDING:
        return 0;
    case ORR_MODULE_HEAD:
        return model->layers + 1;
    default:
        return key->layer + 1;
    }
}

static orr_status read_whole(void *ctx, const orr_weight_key *key, const orr_type *type,
                             const float **ret, orr_error *err)
{
    exporter *e = ctx;
    char name[ORR_PARAMETER_KEY_CHARS];
    const int64_t n = orr_type_elements(type);
    if ((size_t)n * sizeof(float) > e->room_bytes) {
        orr_free(e->room);
        e->room_bytes = (size_t)n * sizeof(float);
        e->room = orr_malloc(e->room_bytes);
        if (e->room == NULL) {
            e->room_bytes = 0;
            return orr_fail_memory(err);
        }
    }
    orr_parameter_key(place_of(e->trainer->training->model, key), key->name, key->nth, name);
    ORR_TRY(orr_checkpoint_read_tensor(e->checkpoint, name, "master", e->room, n, err));
    *ret = e->room;
    return ORR_OK;
}

/* The format of the dtype that products were computed in. */
static orr_row_format format_of(const orr_plan *plan)
{
    return plan->precision == ORR_PRECISION_FP32 ? ORR_ROW_FORMAT_FP32 : ORR_ROW_FORMAT_BF16;
}

orr_status orr_train_export(const orr_trainer *t, const char *checkpoint, const char *folder,
                            orr_error *err)
{
    enum { SHARD_BYTES = 2000000000 };
    exporter e = {.trainer = t};
    orr_checkpoint *open;
    if (t->training->model->kind == ORR_MODEL_DLRM)
        return orr_train_export_recommendation(t, checkpoint, folder, err);
    ORR_TRY(orr_checkpoint_open(checkpoint, &open, err));
    e.checkpoint = open;
    const orr_parameter_reader reader = {read_whole, &e};
    const orr_status status = orr_weights_save(
        t->training->model, &reader, format_of(&t->training->plan), folder, SHARD_BYTES, err);
    orr_checkpoint_close(open);
    orr_free(e.room);
    return status;
}
