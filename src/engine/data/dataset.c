/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/data/dataset.h"

#include <string.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "io/stream/stream.h"

enum { BYTES_END = 256 };

orr_status orr_dataset_new(const char *name, const orr_dataset_options *options, orr_dataset **ret,
                           orr_error *err)
{
    orr_arena *arena = orr_arena_new(0, 0);
    orr_dataset *b = arena != NULL ? orr_arena_one(arena, orr_dataset) : NULL;
    if (b == NULL) {
        orr_arena_free(arena);
        return orr_fail_memory(err);
    }
    *b = (orr_dataset){.name = name,
                       .tokens = options->tokens,
                       .seed = options->seed,
                       .arena = arena,
                       .epoch = UINT64_MAX};
    *ret = b;
    return ORR_OK;
}

void orr_dataset_free(orr_dataset *b)
{
    if (b == NULL)
        return;
    orr_free(b->order);
    orr_arena_free(b->arena);
}

/* Fisher-Yates shuffle with a random stream for each epoch. If memory for it is out, samples keep
 * the order of the data. */
static void shuffle(orr_dataset *b, uint64_t epoch)
{
    orr_random random = orr_random_of(b->seed, epoch + 1);
    if (b->order == NULL)
        b->order = orr_malloc(b->n * sizeof *b->order);
    b->epoch = epoch;
    for (uint64_t i = 0; b->order != NULL && i < b->n; i++)
        b->order[i] = (uint32_t)i;
    for (uint64_t i = b->n; b->order != NULL && i > 1; i--) {
        const uint64_t other = orr_random_below(&random, i);
        const uint32_t held = b->order[i - 1];
        b->order[i - 1] = b->order[other];
        b->order[other] = held;
    }
}

uint64_t orr_dataset_index(orr_dataset *b, uint64_t number)
{
    if (b->n == 0)
        return number;
    if (b->epoch != number / b->n)
        shuffle(b, number / b->n);
    return b->order != NULL ? b->order[number % b->n] : number % b->n;
}

void orr_dataset_fill(orr_dataset *b, uint64_t number, const orr_dataset_sample *ret)
{
    b->fill(b, orr_dataset_index(b, number), ret);
}

int64_t orr_dataset_loss_tokens(orr_dataset *b, uint64_t number)
{
    return b->counted(b, orr_dataset_index(b, number));
}

int32_t orr_dataset_end_token(const orr_dataset_options *options)
{
    return options->tokenizer != NULL ? orr_tokenizer_info_of(options->tokenizer)->eos : BYTES_END;
}

static orr_status byte_tokens(const char *text, size_t len, orr_arena *arena, int32_t **ret,
                              size_t *ret_n, orr_error *err)
{
    int32_t *tokens = orr_arena_array(arena, int32_t, len);
    if (tokens == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < len; i++)
        tokens[i] = (uint8_t)text[i];
    *ret = tokens;
    *ret_n = len;
    return ORR_OK;
}

static orr_status check_tokens(const orr_dataset_options *options, const int32_t *tokens, size_t n,
                               orr_error *err)
{
    const int32_t end = orr_dataset_end_token(options);
    int32_t most = end;
    for (size_t i = 0; i < n; i++)
        most = tokens[i] > most ? tokens[i] : most;
    if (most < 0 || (uint32_t)most < options->vocab)
        return ORR_OK;
    return orr_fail(err, ORR_INVALID,
                    "token %d of the tokenizer is beyond the model's vocabulary of %u", most,
                    options->vocab);
}

orr_status orr_dataset_tokenize(const orr_dataset_options *options, const char *text, size_t len,
                                orr_arena *arena, int32_t **ret, size_t *ret_n, orr_error *err)
{
    int32_t *tokens = NULL;
    size_t n = 0;
    if (options->tokenizer == NULL)
        ORR_TRY(byte_tokens(text, len, arena, &tokens, &n, err));
    else
        ORR_TRY(orr_tokenize(options->tokenizer, text, len, false, false, arena, &tokens, &n, err));
    ORR_TRY(check_tokens(options, tokens, n, err));
    *ret = tokens;
    *ret_n = n;
    return ORR_OK;
}

static orr_status copy_window(orr_stream *stream, orr_arena *arena, const char **ret,
                              size_t *ret_len, orr_error *err)
{
    bool end = false;
    while (!end)
        ORR_TRY(orr_stream_fill(stream, &end, err));
    const orr_window window = orr_stream_window(stream);
    char *copy = orr_arena_alloc(arena, window.n + 1, 1, 1);
    if (copy == NULL)
        return orr_fail_memory(err);
    if (window.n > 0)
        memcpy(copy, window.bytes, window.n);
    *ret = copy;
    *ret_len = window.n;
    return ORR_OK;
}

orr_status orr_dataset_read_file(const char *path, orr_arena *arena, const char **ret,
                                 size_t *ret_len, orr_error *err)
{
    orr_stream *stream;
    ORR_TRY(orr_stream_open(path, &stream, err));
    orr_stream_set_limit(stream, SIZE_MAX / 4);
    const orr_status status = copy_window(stream, arena, ret, ret_len, err);
    orr_stream_close(stream);
    return status;
}
