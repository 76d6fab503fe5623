/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <orrery/text.h>

#include "fuzz.h"
#include "text/tokenizer_build.h"

enum { TEXT_BYTES = 300 };

/* Tokens are there, and where each byte is one the text comes back. */
static void encode(const orr_tokenizer *t, const char *text, size_t len)
{
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_tokenizer_info *facts = orr_tokenizer_info_of(t);
    orr_error err = {0};
    int32_t *ids = NULL;
    size_t n = 0, back_len = 0;
    const char *back = NULL;
    FUZZ_CHECK(facts->vocab > 0 && facts->n_stop <= ORR_STOP_TOKENS);
    for (int special = 0; special < 2; special++) {
        const orr_status status =
            orr_tokenize(t, text, len, special, special, arena, &ids, &n, &err);
        if (status != ORR_OK)
            continue;
        for (size_t i = 0; i < n; i++)
            FUZZ_CHECK(ids[i] >= 0 && (uint32_t)ids[i] < facts->vocab);
        FUZZ_CHECK(orr_detokenize(t, ids, n, arena, &back, &back_len, &err) == ORR_OK);
        FUZZ_CHECK(back[back_len] == '\0');
    }
    orr_token_stream stream = {.tokenizer = t};
    char some[1 << 12];
    for (size_t i = 0; i <= n && n > 0; i++)
        if (orr_token_stream_next(&stream, i < n ? ids[i] : -1, some, sizeof some, &back_len,
                                  &err) == ORR_OK)
            FUZZ_CHECK(back_len <= sizeof some && stream.n_held < 4);
    const orr_chat_message turns[] = {{"user", "Why?"}, {"assistant", "So."}};
    bool *targets = NULL;
    if (orr_chat_tokens(t, turns, 2, false, arena, &ids, &targets, &n, &err) == ORR_OK)
        FUZZ_CHECK(n > 0 && targets != NULL);
    orr_arena_free(arena);
}

/* The three kinds of files that tokenizer files may be, whatever this one is; its own bytes are
 * also a text to encode. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    const orr_text text = {(const char *)bytes, len}, none = {0};
    const size_t sample = len < TEXT_BYTES ? len : TEXT_BYTES;
    for (int kind = 0; kind < 5; kind++) {
        orr_tokenizer *t = NULL;
        orr_error err = {0};
        const orr_status status =
            kind == 0   ? orr_sentencepiece_read(bytes, len, &t, &err)
            : kind == 1 ? orr_tiktoken_read(bytes, len, ORR_PRE_TOKENIZER_NONE, &t, &err)
            : kind == 2 ? orr_tiktoken_read(bytes, len, ORR_PRE_TOKENIZER_O200K, &t, &err)
            : kind == 3 ? orr_tokenizer_json_read(text, none, none, &t, &err)
                        : orr_tokenizer_json_read(text, text, text, &t, &err);
        if (status != ORR_OK) {
            FUZZ_CHECK(err.status == status && err.text[0] != '\0');
            continue;
        }
        encode(t, (const char *)bytes, sample);
        encode(t, "It's 12345 \xe4\xbb\x8a\xe5\xa4\xa9 A\xcc\x81 \xff\n\n <s><|eot_id|>", 38);
        orr_tokenizer_close(t);
    }
    return 0;
}
