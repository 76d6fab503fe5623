/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "../tests/unit/io/json_tokens.h"
#include "base/cpu_level.h"
#include "fuzz.h"

/* The same tokens, or the same error at the same byte, from memory and through small windows. */
static void check_windows(const uint8_t *bytes, size_t len, token_options options, size_t step)
{
    orr_output *whole = memory_tokens(bytes, len, options);
    options.step = step;
    orr_output *parts = memory_tokens(bytes, len, options);
    FUZZ_CHECK(whole != NULL && parts != NULL && same_tokens(whole, parts));
    orr_output_close(whole);
    orr_output_close(parts);
}

/* The same with keys that are remembered, and by each of the CPU's ways to pass over arrays. */
static void check_ways(const uint8_t *bytes, size_t len, token_options options)
{
    orr_cpu_level_limit(ORR_CPU_PLAIN);
    orr_output *plain = memory_tokens(bytes, len, options);
    options.layout = true;
    for (int level = ORR_CPU_PLAIN; level <= ORR_CPU_AVX512; level++) {
        orr_cpu_level_limit((orr_cpu_level_id)level);
        orr_output *other = memory_tokens(bytes, len, options);
        FUZZ_CHECK(plain != NULL && other != NULL && same_tokens(plain, other));
        orr_output_close(other);
    }
    orr_output_close(plain);
    orr_cpu_level_limit(ORR_CPU_LEVELS);
}

static bool has(const orr_output *tokens, const char *text)
{
    size_t n;
    const void *at = orr_output_memory(tokens, &n);
    return memmem(at, n, text, strlen(text)) != NULL;
}

/* What strict accepts, tolerant reads the same, without a fault. */
static void check_tolerance(const uint8_t *bytes, size_t len)
{
    orr_output *strict = memory_tokens(bytes, len, (token_options){0});
    orr_output *tolerant = memory_tokens(bytes, len, (token_options){.tolerant = true});
    FUZZ_CHECK(has(strict, "!PARSE at") || has(strict, "!LIMIT at") ||
               same_tokens(strict, tolerant));
    orr_output_close(strict);
    orr_output_close(tolerant);
}

/* Raw text is valid, whatever the tolerant reader let pass. */
static void check_raw(const uint8_t *bytes, size_t len)
{
    orr_stream *stream;
    orr_json *json;
    orr_text raw;
    FUZZ_CHECK(orr_stream_open_memory(bytes, len, &stream, NULL) == ORR_OK);
    FUZZ_CHECK(orr_json_new(stream, true, &json, NULL) == ORR_OK);
    if (orr_json_raw(json, &raw, NULL) == ORR_OK) {
        orr_output *again = memory_tokens(raw.at, raw.n, (token_options){0});
        FUZZ_CHECK(again != NULL && has(again, "end at "));
        orr_output_close(again);
    }
    orr_json_free(json);
    orr_stream_close(stream);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    const uint64_t choice = fuzz_choice(bytes, len);
    const size_t step = 1 + choice % 64;
    const int skip_every = 1 + (int)(choice / 64 % 4);
    for (int tolerant = 0; tolerant < 2; tolerant++) {
        check_windows(bytes, len, (token_options){.tolerant = tolerant == 1}, step);
        check_windows(bytes, len,
                      (token_options){.tolerant = tolerant == 1, .skip_every = skip_every}, step);
        check_ways(bytes, len,
                   (token_options){.tolerant = tolerant == 1, .skip_every = skip_every});
    }
    check_tolerance(bytes, len);
    check_raw(bytes, len);
    return 0;
}
