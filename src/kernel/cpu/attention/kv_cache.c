/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "kernel/cpu/tensor/strided_copy.h"
#include "kernel/cpu/simd/vector_math.h"
#include "kernel/cpu/tensor/iterator.h"
#include "kernel/cpu/entries.h"

/* Operators that go by the position of tokens: rows written into the KV cache, and the attention
 * temperature, which scales queries by a function of their position (Llama 4). */

static int64_t first_of(const orr_kernel_call *call, int64_t sample)
{
    return call->first != NULL ? call->first[sample] : call->args->offset;
}

static orr_status cache_run(const orr_kernel_call *call, orr_error *err)
{
    const orr_operand *x = &call->in[1], *cache = &call->out[0];
    const int64_t room = cache->type.dim[1], rows = x->type.dim[1];
    for (int64_t b = 0; b < x->type.dim[0]; b++)
        if (first_of(call, b) < 0 || first_of(call, b) > room - rows)
            return orr_fail(err, ORR_INVALID,
                            "cache: %lld tokens from %lld on do not fit into %lld, sample %lld",
                            (long long)rows, (long long)first_of(call, b), (long long)room,
                            (long long)b);
    if (call->in[0].data != cache->data)
        orr_copy_operand(&call->in[0], cache, call->workers);
    for (int64_t b = 0; b < x->type.dim[0]; b++) {
        orr_operand from = *x, to = *cache;
        from.data = orr_operand_at(x, 0, b);
        to.data = orr_operand_at(cache, 0, b);
        to.data = orr_operand_at(&to, 1, first_of(call, b));
        from.type.dim[0] = 1;
        to.type = from.type;
        orr_copy_operand(&from, &to, call->workers);
    }
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_CACHE = {.run = cache_run};

typedef struct tuning {
    orr_tensor_iter walk; /* one row per token and head */
    const orr_kernel_call *call;
    int64_t tokens, heads, columns;
} tuning;

static float factor_of(const tuning *t, int64_t row)
{
    const orr_op_args *args = t->call->args;
    const int64_t token = row / t->heads,
                  position = first_of(t->call, token / t->tokens) + token % t->tokens;
    return (float)(1 + args->value * log(floor((double)(position + 1) / (double)args->window) + 1));
}

static void tune_rows(void *ctx, int64_t begin, int64_t end)
{
    const tuning *t = ctx;
    float in[ORR_ELEMENT_CHUNK], out[ORR_ELEMENT_CHUNK];
    orr_tensor_cursor cursor;
    orr_tensor_iter_seek(&t->walk, begin, &cursor);
    for (int64_t row = begin; row < end; row++, orr_tensor_iter_next(&t->walk, &cursor)) {
        const float factor = factor_of(t, row);
        for (int64_t from = 0, n; from < t->columns; from += n) {
            n = t->columns - from < ORR_ELEMENT_CHUNK ? t->columns - from : ORR_ELEMENT_CHUNK;
            const float *x = orr_tensor_iter_read(&t->walk, 0, &cursor, from, n, in);
            float *y = orr_tensor_iter_buffer(&t->walk, 1, &cursor, from, out);
            orr_vector_math_of_cpu()->scale(x, factor, n, y);
            orr_tensor_iter_write(&t->walk, 1, &cursor, from, n, y);
        }
    }
}

static orr_status tune_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    const orr_type *x = &call->in[0].type;
    tuning t = {.walk = orr_tensor_iter_over(x),
                .call = call,
                .tokens = x->dim[x->rank - 3],
                .heads = x->dim[x->rank - 2],
                .columns = x->dim[x->rank - 1]};
    orr_tensor_iter_add(&t.walk, &call->in[0]);
    orr_tensor_iter_add(&t.walk, &call->out[0]);
    orr_tensor_iter_coalesce(&t.walk, 1);
    if (t.columns > 0)
        orr_parallel_ranges(orr_tensor_iter_rows(&t.walk), orr_rows_per_range(t.columns), tune_rows,
                            &t, call->workers);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_ATTENTION_TEMPERATURE = {.run = tune_run};
