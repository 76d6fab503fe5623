/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/alloc.h"
#include "engine/generate/generator.h"
#include "kernel/format/row.h"

/* Logits that are no numbers are an error, and it names the weight that made them. */

/* NaN and infinity are what is not 0 when it is multiplied by 0. */
static bool all_finite(const float *values, int64_t n)
{
    float sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += 0 * values[i];
    return sum == 0;
}

/* The first row of the tensor with a NaN or an infinity; -1: none. */
static int64_t row_without_number(const orr_weight *tensor, float *room)
{
    const int64_t columns = tensor->rank > 0 ? tensor->dim[tensor->rank - 1] : 1;
    const int64_t bytes = orr_row_format_bytes((orr_row_format)tensor->format, columns);
    const int64_t rows = bytes > 0 ? tensor->bytes / bytes : 0;
    for (int64_t i = 0; i < rows; i++) {
        orr_row_to_fp32((orr_row_format)tensor->format, (const char *)tensor->data + i * bytes,
                        columns, room);
        if (!all_finite(room, columns))
            return i;
    }
    return -1;
}

static int64_t widest(const orr_weights *weights)
{
    int64_t most = 1;
    for (uint32_t i = 0; i < weights->n; i++) {
        const orr_weight *t = &weights->tensors[i];
        most = t->rank > 0 && t->dim[t->rank - 1] > most ? t->dim[t->rank - 1] : most;
    }
    return most;
}

static orr_status blame(const orr_weights *weights, orr_error *err)
{
    float *room = orr_malloc((size_t)widest(weights) * sizeof *room);
    if (room == NULL)
        return orr_fail_memory(err);
    int64_t row = -1;
    uint32_t i = 0;
    while (i < weights->n && (row = row_without_number(&weights->tensors[i], room)) < 0)
        i++;
    orr_free(room);
    return row < 0 ? ORR_OK
                   : orr_fail(err, ORR_PARSE,
                              "%s: tensor %s, row %lld has NaN or infinity: there are no answers",
                              weights->path, weights->tensors[i].name, (long long)row);
}

orr_status orr_generator_check_logits(const orr_generator *g, int64_t rows, orr_error *err)
{
    if (all_finite(g->logits, rows * g->model.vocab))
        return ORR_OK;
    if (g->options.weights != NULL)
        ORR_TRY(blame(g->options.weights, err));
    return orr_fail(err, ORR_PARSE,
                    "logits are NaN or infinite, though all weights are numbers: products of this "
                    "model exceed its format");
}
