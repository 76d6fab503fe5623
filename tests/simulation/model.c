/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static void *must(void *memory)
{
    if (memory == NULL)
        abort();
    return memory;
}

static uint64_t mix(uint64_t x) /* splitmix64, Steele, Lea and Flood 2014 */
{
    x += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

size_t model_op_bytes(const model_shape *shape, uint32_t op)
{
    return shape->n[op] * (shape->dtype[op] == ORR_TEAM_FP64 ? sizeof(double) : sizeof(float));
}

void model_init(model *m, const model_shape *shape, uint32_t rank)
{
    *m = (model){.shape = shape, .rank = rank};
    m->state = must(calloc(shape->words, sizeof *m->state));
    for (uint32_t i = 1; i < shape->words; i++)
        m->state[i] = mix(i + ((uint64_t)rank << 32));
    for (uint32_t op = 0; op < shape->n_ops; op++) {
        m->in[op] = must(calloc(1, model_op_bytes(shape, op) + 1));
        m->out[op] = must(calloc(1, model_op_bytes(shape, op) + 1));
    }
    const uint32_t first = shape->words / 3 + 1; /* not where a chunk ends */
    m->spans[0] = (orr_team_span){m->state, first * sizeof *m->state};
    m->spans[1] = (orr_team_span){m->state + first, (shape->words - first) * sizeof *m->state};
}

void model_done(model *m)
{
    free(m->state);
    for (uint32_t op = 0; m->shape != NULL && op < m->shape->n_ops; op++) {
        free(m->in[op]);
        free(m->out[op]);
    }
    *m = (model){0};
}

static uint64_t seed_of(const model *m, uint32_t op, uint64_t slot)
{
    const uint64_t words = m->state[0] * 31 + m->state[1] + m->state[m->shape->words - 1];
    return mix(mix(slot * MODEL_OPS + op) ^ mix(words + m->rank));
}

static void add(const model *m, uint32_t op, uint64_t slot, void *to)
{
    uint64_t x = seed_of(m, op, slot);
    for (uint32_t i = 0; i < m->shape->n[op]; i++) {
        x = x * 6364136223846793005 + 1442695040888963407; /* Knuth's MMIX */
        const uint32_t value = (uint32_t)(x >> 52);
        if (m->shape->dtype[op] == ORR_TEAM_FP64)
            ((double *)to)[i] += value;
        else
            ((float *)to)[i] += (float)value;
    }
}

void model_compute(model *m, uint32_t op, uint64_t slot)
{
    memset(m->in[op], 0, model_op_bytes(m->shape, op));
    add(m, op, slot, m->in[op]);
}

void model_sum(model *m, uint32_t op, const uint64_t *slots, uint32_t n)
{
    memset(m->out[op], 0, model_op_bytes(m->shape, op));
    for (uint32_t i = 0; i < n; i++)
        add(m, op, slots[i], m->out[op]);
}

void model_scribble(model *m)
{
    for (uint32_t op = 0; op < m->shape->n_ops; op++)
        memset(m->in[op], 0xee, model_op_bytes(m->shape, op));
}

void model_update(model *m, uint64_t step, uint64_t contributors, int half)
{
    const uint32_t words = m->shape->words, middle = words / 2;
    uint64_t sum = mix(step) + contributors;
    for (uint32_t op = 0; op < m->shape->n_ops; op++)
        sum = XXH3_64bits_withSeed(m->out[op], model_op_bytes(m->shape, op), sum);
    if (half == 0)
        m->state[0] = step;
    for (uint32_t i = half == 0 ? 1 : middle; i < (half == 0 ? middle : words); i++)
        m->state[i] = m->state[i] * 0x2545f4914f6cdd1d + (sum ^ i);
}

uint64_t model_digest(const model *m)
{
    return XXH3_64bits(m->state, m->shape->words * sizeof *m->state);
}
