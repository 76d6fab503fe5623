/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/step/initialize.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "base/philox.h"
#include "base/workers.h"
#include "engine/step/shard_runs.h"
#include "engine/step/step_state.h"

/* Initial values of parameters. Each number is drawn from its position in the whole tensor, so that
 * every plan starts with the same model. */

static bool is_one_of(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* The initializer that follows from a call that reads the parameter as input `input`. */
static orr_initializer by_use(const orr_tape_call *call, uint32_t input)
{
    switch (call->op) {
    case ORR_OP_RMS_NORM:
    case ORR_OP_LAYER_NORM:
    case ORR_OP_BATCH_NORM:
        return input == 1 ? ORR_INITIALIZER_ONES : ORR_INITIALIZER_ZEROS;
    case ORR_OP_BIAS:
    case ORR_OP_MUL:
        return ORR_INITIALIZER_ZEROS;
    default:
        return ORR_INITIALIZER_NORMAL;
    }
}

orr_initializer orr_initializer_of(const orr_tape *tape, orr_value parameter)
{
    static const char *const zeros[] = {"lora_b", "router_bias"};
    static const char *const residual[] = {"attention_out", "down", "expert_down"};
    const char *name = tape->values[parameter].name;
    orr_initializer begin = ORR_INITIALIZER_NORMAL;
    bool found = false;
    if (is_one_of(name, zeros, sizeof zeros / sizeof *zeros))
        return ORR_INITIALIZER_ZEROS;
    for (uint32_t c = 0; c < tape->n_calls && !found; c++)
        for (uint32_t i = 0; i < tape->calls[c].n_in && !found; i++) {
            found = tape->calls[c].in[i] == parameter;
            begin = found ? by_use(&tape->calls[c], i) : begin;
        }
    return begin == ORR_INITIALIZER_NORMAL &&
                   is_one_of(name, residual, sizeof residual / sizeof *residual)
               ? ORR_INITIALIZER_RESIDUAL
               : begin;
}

/* Normal numbers of a row of a tensor, the same on every machine and in every plan: four columns
 * from `column`, a multiple of 4, by the Box-Muller transform (Annals of Mathematical Statistics
 * 29, 1958) of two pairs of uniform numbers in (0, 1). `stream` identifies the tensor. */
static void normal4(uint64_t seed, uint32_t stream, uint64_t row, uint32_t column, float ret[4])
{
    const uint32_t counter[4] = {column / 4, (uint32_t)row, (uint32_t)(row >> 32), stream};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t bits[4];
    orr_philox4x32(counter, key, bits);
    for (int i = 0; i < 4; i += 2) {
        const double u = (bits[i] + 0.5) * 0x1p-32, turn = (bits[i + 1] + 0.5) * 0x1p-32;
        const double radius = sqrt(-2 * log(u));
        ret[i] = (float)(radius * cos(2 * M_PI * turn));
        ret[i + 1] = (float)(radius * sin(2 * M_PI * turn));
    }
}

typedef struct beginning {
    const orr_parameter *p;
    int64_t columns; /* of the whole tensor */
    uint32_t stream;
    uint64_t seed;
    orr_initializer kind;
    float deviation;
} beginning;

enum { PIECE = 1 << 14 };

static void begin_run(void *ctx, int64_t own, int64_t whole, int64_t n)
{
    const beginning *b = ctx;
    float *to = b->p->master + (own - b->p->shard_begin), four[4];
    int64_t held = -1;
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = (whole + i) / b->columns, column = (whole + i) % b->columns;
        if (b->kind == ORR_INITIALIZER_ONES || b->kind == ORR_INITIALIZER_ZEROS) {
            to[i] = b->kind == ORR_INITIALIZER_ONES;
            continue;
        }
        if (held < 0 || column % 4 == 0)
            normal4(b->seed, b->stream, (uint64_t)row, (uint32_t)column, four);
        held = column;
        to[i] = four[column % 4] * b->deviation;
    }
}

static void begin_piece(void *ctx, size_t piece, int thread)
{
    beginning *b = ctx;
    const int64_t first = (int64_t)piece * PIECE, left = b->p->shard_n - first;
    (void)thread;
    orr_shard_runs(&b->p->own, &b->p->type, b->p->shard_begin + first, left < PIECE ? left : PIECE,
                   begin_run, b);
}

static uint32_t stream_of(const orr_parameter *p)
{
    const uint64_t salt = (uint64_t)p->place << 8 | p->nth;
    return (uint32_t)XXH64(p->name, strlen(p->name), salt);
}

static void begin_one(orr_engine_step *step, const orr_step_parameter *p)
{
    const orr_parameter *exported = &step->exported[p->exported];
    const orr_type *whole = &exported->own.whole;
    beginning b = {.p = exported,
                   .columns = whole->rank > 0 ? whole->dim[whole->rank - 1] : 1,
                   .stream = stream_of(exported),
                   .seed = step->source.seed,
                   .kind = orr_initializer_of(step->at_place[p->place]->tape, p->value),
                   .deviation = 0.02F};
    if (b.kind == ORR_INITIALIZER_RESIDUAL)
        b.deviation /= sqrtf(2.0F * (float)step->source.model->layers);
    if (step->source.model->kind == ORR_MODEL_DLRM && whole->rank == 2) /* facebookresearch/dlrm */
        b.deviation = sqrtf(2.0F / (float)(whole->dim[0] + whole->dim[1]));
    orr_workers_run(step->source.workers, (size_t)((exported->shard_n + PIECE - 1) / PIECE),
                    begin_piece, &b);
}

void orr_step_initialize_parameters(orr_engine_step *step)
{
    for (uint32_t i = 0; i < step->n_parameters; i++)
        if (!step->parameters[i].tied && step->exported[step->parameters[i].exported].shard_n > 0)
            begin_one(step, &step->parameters[i]);
}
