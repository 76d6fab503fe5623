/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "io/json/utf8.h"
#include "text/tokenizer.h"

static bool is_special(const orr_tokenizer *t, int32_t token)
{
    const uint8_t kind = t->parts.pieces[token].kind;
    return kind == ORR_PIECE_CONTROL || kind == ORR_PIECE_UNKNOWN;
}

orr_status orr_token_text(const orr_tokenizer *t, int32_t token, bool special, const char **ret,
                          size_t *ret_len, orr_error *err)
{
    if (token < 0 || (uint32_t)token >= t->facts.vocab)
        return orr_fail(err, ORR_INVALID, "token %d, of %u", token, t->facts.vocab);
    *ret = t->shown[token].at;
    *ret_len = is_special(t, token) && !special ? 0 : t->shown[token].n;
    return ORR_OK;
}

/* The space that encoding puts before a text is dropped. */
static bool drops_first_space(const orr_tokenizer *t)
{
    return t->parts.spaces && t->parts.prefix != ORR_PREPEND_NEVER;
}

orr_status orr_detokenize(const orr_tokenizer *t, const int32_t *tokens, size_t n, orr_arena *arena,
                          const char **ret, size_t *ret_len, orr_error *err)
{
    size_t len = 0;
    const char *text = NULL;
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++, len += bytes)
        ORR_TRY(orr_token_text(t, tokens[i], false, &text, &bytes, err));
    char *all = orr_arena_array(arena, char, len + 1);
    if (all == NULL)
        return orr_fail_memory(err);
    len = 0;
    for (size_t i = 0; i < n; i++, len += bytes) {
        ORR_TRY(orr_token_text(t, tokens[i], false, &text, &bytes, err));
        memcpy(all + len, text, bytes);
    }
    const size_t skip = len > 0 && all[0] == ' ' && drops_first_space(t) ? 1 : 0;
    *ret = all + skip;
    *ret_len = len - skip;
    return ORR_OK;
}

/* Whether more bytes could complete a character. */
static bool could_go_on(const uint8_t *at, size_t n)
{
    static const uint8_t rest[] = {0x80, 0x80, 0x80};
    for (size_t more = 1; n + more <= 4; more++) {
        uint8_t whole[4];
        memcpy(whole, at, n);
        memcpy(whole + n, rest, more);
        if (orr_utf8_len(whole, n + more) == n + more)
            return true;
        if (n == 1) { /* the second byte has narrower bounds after some first bytes (Unicode
                         standard, table 3-7) */
            whole[1] = at[0] == 0xe0 ? 0xa0 : at[0] == 0xf0 ? 0x90 : 0x80;
            if (orr_utf8_len(whole, n + more) == n + more)
                return true;
        }
    }
    return false;
}

typedef struct output {
    char *at;
    size_t n, room;
} output;

static bool emit(output *o, const void *bytes, size_t n)
{
    if (o->room - o->n < n)
        return false;
    memcpy(o->at + o->n, bytes, n);
    o->n += n;
    return true;
}

/* Emits whole characters of `at`, and U+FFFD for what cannot become one; *ret_left bytes are
 * undecided. False: no room. */
static bool emit_characters(output *o, const uint8_t *at, size_t n, bool end, size_t *ret_left)
{
    while (n > 0) {
        size_t len = orr_utf8_len(at, n);
        if (len == 0 && !end && n < 4 && could_go_on(at, n))
            break;
        if (!(len > 0 ? emit(o, at, len) : emit(o, ORR_UTF8_REPLACEMENT, 3)))
            return false;
        len += len == 0;
        at += len;
        n -= len;
    }
    *ret_left = n;
    return true;
}

orr_status orr_token_stream_next(orr_token_stream *stream, int32_t token, char *ret, size_t room,
                                 size_t *ret_len, orr_error *err)
{
    const orr_tokenizer *t = stream->tokenizer;
    const char *text = "";
    size_t n = 0, left = 0;
    if (token >= 0)
        ORR_TRY(orr_token_text(t, token, false, &text, &n, err));
    if (n > 0 && !stream->begun && text[0] == ' ' && drops_first_space(t)) {
        text++;
        n--;
        stream->begun = true;
    }
    /* the held bytes completed by new ones, then the rest */
    output o = {.at = ret, .room = room};
    uint8_t joined[sizeof stream->held];
    size_t held = stream->n_held, taken = 0;
    memcpy(joined, stream->held, held);
    while (held > 0 && taken < n && orr_utf8_len(joined, held) == 0 && could_go_on(joined, held))
        joined[held++] = (uint8_t)text[taken++];
    bool fits = emit_characters(&o, joined, held, token < 0, &left);
    size_t kept = left;
    memcpy(joined, joined + held - left, left);
    if (fits && left == 0 && taken < n) {
        fits = emit_characters(&o, (const uint8_t *)text + taken, n - taken, token < 0, &kept);
        memcpy(joined, text + n - kept, kept);
    }
    if (!fits)
        return orr_fail(err, ORR_LIMIT, "the text of token %d does not fit %zu bytes", token, room);
    memcpy(stream->held, joined, kept);
    stream->n_held = kept;
    stream->begun |= n > 0;
    *ret_len = o.n;
    return ORR_OK;
}
