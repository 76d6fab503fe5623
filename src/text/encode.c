/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "text/bpe.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

/* Symbol positions have 32 bits, and space marks three bytes. */
static const size_t TEXT_BYTES_MAX = (size_t)1 << 29;

typedef struct encoder {
    const orr_tokenizer *t;
    orr_bpe_merger *merger;
    orr_array(int32_t) ids;
    orr_array(char) written; /* a segment with spaces marked */
    orr_error *err;
} encoder;

static orr_status put(encoder *e, int32_t id)
{
    return orr_array_push(&e->ids, id) ? ORR_OK : orr_fail_memory(e->err);
}

static orr_status put_unknown(encoder *e)
{
    const orr_tokenizer_spec *p = &e->t->parts;
    if (p->unknown < 0)
        return ORR_OK; /* dropped, as by the libraries without such a token */
    if (p->fuse_unknown && e->ids.n > 0 && e->ids.at[e->ids.n - 1] == p->unknown)
        return ORR_OK;
    return put(e, p->unknown);
}

static orr_status put_bytes(encoder *e, const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        const int32_t id = e->t->of_byte[(uint8_t)at[i]];
        ORR_TRY(id >= 0 ? put(e, id) : put_unknown(e));
    }
    return ORR_OK;
}

static bool has_bytes(const orr_tokenizer *t, const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (t->of_byte[(uint8_t)at[i]] < 0)
            return false;
    return true;
}

static orr_status put_merged(encoder *e, const char *text)
{
    const orr_tokenizer *t = e->t;
    ORR_TRY(orr_bpe_merger_run(e->merger, e->err));
    for (const orr_bpe_symbol *s = orr_bpe_merger_next(e->merger, NULL); s != NULL;
         s = orr_bpe_merger_next(e->merger, s)) {
        if (s->id >= 0)
            ORR_TRY(put(e, s->id));
        else if (t->parts.byte_fallback && has_bytes(t, text + s->at, s->len))
            ORR_TRY(put_bytes(e, text + s->at, s->len));
        else
            ORR_TRY(put_unknown(e));
    }
    return ORR_OK;
}

static orr_status encode_bytes(encoder *e, const char *at, size_t len)
{
    const orr_tokenizer *t = e->t;
    const int32_t whole = t->parts.algorithm == ORR_BPE_RANKS || t->parts.whole_first
                              ? orr_piece_find(t, &t->normal, at, len)
                              : -1;
    if (whole >= 0)
        return put(e, whole);
    orr_bpe_merger_begin(e->merger, at);
    for (size_t i = 0; i < len; i++)
        ORR_TRY(orr_bpe_merger_add(e->merger, (uint32_t)i, 1, t->of_byte[(uint8_t)at[i]], e->err));
    return put_merged(e, at);
}

/* Symbols of merge lists are tokens; those of scored pieces may not be, until the end. */
static orr_status add_character(encoder *e, const char *text, size_t at, size_t len)
{
    const orr_tokenizer *t = e->t;
    const int32_t id = orr_piece_find(t, &t->normal, text + at, len);
    const bool bytes = id < 0 && t->parts.algorithm == ORR_BPE_MERGES && t->parts.byte_fallback &&
                       has_bytes(t, text + at, len);
    if (!bytes)
        return orr_bpe_merger_add(e->merger, (uint32_t)at, (uint32_t)len, id, e->err);
    for (size_t i = at; i < at + len; i++)
        ORR_TRY(
            orr_bpe_merger_add(e->merger, (uint32_t)i, 1, t->of_byte[(uint8_t)text[i]], e->err));
    return ORR_OK;
}

static orr_status encode_characters(encoder *e, const char *at, size_t len)
{
    const int32_t whole =
        e->t->parts.whole_first ? orr_piece_find(e->t, &e->t->normal, at, len) : -1;
    if (whole >= 0)
        return put(e, whole);
    orr_bpe_merger_begin(e->merger, at);
    for (size_t i = 0; i < len;) {
        const orr_character c = orr_character_at(at + i, len - i);
        ORR_TRY(add_character(e, at, i, c.len));
        i += c.len;
    }
    return put_merged(e, at);
}

static orr_status write_bytes(encoder *e, const char *bytes, size_t n)
{
    if (!orr_array_reserve(&e->written, n))
        return orr_fail_memory(e->err);
    memcpy(e->written.at + e->written.n, bytes, n);
    e->written.n += n;
    return ORR_OK;
}

static bool begins_with_space(const orr_tokenizer *t, const char *at, size_t len)
{
    if (len > 0 && at[0] == ' ')
        return true;
    return t->parts.spaces && len >= ORR_SPACE_MARK_BYTES &&
           memcmp(at, ORR_SPACE_MARK, ORR_SPACE_MARK_BYTES) == 0;
}

/* Spaces that folding removes: at the ends, and all but one of several. */
static bool folds(const encoder *e, const char *at, size_t i, size_t len, bool first, bool last)
{
    if (!e->t->parts.fold_spaces || at[i] != ' ')
        return false;
    if (i > 0 ? at[i - 1] == ' ' : first)
        return true;
    size_t end = i;
    while (end < len && at[end] == ' ')
        end++;
    return end == len && last;
}

/* Normalizes the segment: space marks, prefix, folding. */
static orr_status write_segment(encoder *e, const char *at, size_t len, bool first, bool last)
{
    const orr_tokenizer_spec *p = &e->t->parts;
    const char *space = p->spaces ? ORR_SPACE_MARK : " ";
    const size_t space_bytes = strlen(space);
    e->written.n = 0;
    const bool prefix =
        p->prefix == ORR_PREPEND_ALWAYS || (p->prefix == ORR_PREPEND_FIRST && first);
    if (prefix && !(p->prefix_unless_there && begins_with_space(e->t, at, len)))
        ORR_TRY(write_bytes(e, space, space_bytes));
    for (size_t i = 0; i < len; i++)
        if (!folds(e, at, i, len, first, last))
            ORR_TRY(write_bytes(e, at[i] == ' ' ? space : at + i, at[i] == ' ' ? space_bytes : 1));
    if (p->fold_spaces && e->written.n == space_bytes && prefix && len > 0 && first && last)
        e->written.n = 0; /* nothing but spaces becomes nothing */
    return ORR_OK;
}

static orr_status check_normal_form(const encoder *e, const char *at, size_t len)
{
    for (size_t i = 0; i < len;) {
        const orr_character c = orr_character_at(at + i, len - i);
        if (c.may_change)
            return orr_fail_byte(e->err, ORR_UNSUPPORTED, i,
                                 "U+%04X in the text, which this tokenizer wants in normal form C",
                                 c.code);
        i += c.len;
    }
    return ORR_OK;
}

/* Encodes text between special tokens. */
static orr_status encode_segment(encoder *e, const char *at, size_t len, bool first, bool last)
{
    const orr_tokenizer_spec *p = &e->t->parts;
    const bool prefix_alone =
        p->prefix == ORR_PREPEND_FIRST && !p->prefix_unless_there && first && !last;
    if (len == 0 && !prefix_alone)
        return ORR_OK;
    if (p->normal_form_c)
        ORR_TRY(check_normal_form(e, at, len));
    if (p->algorithm == ORR_BPE_NO_MERGES)
        return put_bytes(e, at, len);
    if (p->spaces || p->prefix != ORR_PREPEND_NEVER) {
        ORR_TRY(write_segment(e, at, len, first, last));
        at = e->written.at;
        len = e->written.n;
    }
    const bool of_bytes =
        p->algorithm == ORR_BPE_RANKS || (p->algorithm == ORR_BPE_MERGES && p->byte_level);
    for (size_t n = 0; len > 0; at += n, len -= n) {
        n = orr_pre_tokenizer_next((orr_pre_tokenizer)p->split, at, len);
        ORR_TRY(of_bytes ? encode_bytes(e, at, n) : encode_characters(e, at, n));
    }
    return ORR_OK;
}

/* The longest special token at this position, -1: none. */
static int32_t special_at(const orr_tokenizer *t, const char *at, size_t left, bool special)
{
    if (!t->begins_special[(uint8_t)at[0]] || (!special && !t->has_user))
        return -1;
    for (int half = 1; half >= 0; half--)
        for (uint64_t lengths = t->special_lengths[half]; lengths != 0;) {
            const int bit = 63 - __builtin_clzll(lengths);
            const size_t len = (size_t)(half * 64 + bit);
            lengths &= ~(UINT64_C(1) << bit);
            const int32_t id = len <= left ? orr_piece_find(t, &t->special, at, len) : -1;
            if (id >= 0 && (special || t->parts.pieces[id].kind == ORR_PIECE_USER))
                return id;
        }
    return -1;
}

static orr_status encode(encoder *e, const char *text, size_t len, bool special)
{
    size_t from = 0;
    bool first = true;
    for (size_t i = 0; i < len;) {
        const int32_t id = special_at(e->t, text + i, len - i, special);
        if (id < 0) {
            i++;
            continue;
        }
        ORR_TRY(encode_segment(e, text + from, i - from, first, false));
        ORR_TRY(put(e, id));
        first = false;
        i += e->t->parts.pieces[id].text.n;
        from = i;
    }
    return encode_segment(e, text + from, len - from, first, true);
}

orr_status orr_tokenize(const orr_tokenizer *tokenizer, const char *text, size_t len, bool bos,
                        bool special, orr_arena *arena, int32_t **ret, size_t *ret_n,
                        orr_error *err)
{
    if (len > TEXT_BYTES_MAX)
        return orr_fail(err, ORR_INVALID, "a text of %zu bytes; at most %zu go at once", len,
                        TEXT_BYTES_MAX);
    encoder e = {.t = tokenizer, .err = err};
    orr_status status = ORR_OK;
    ORR_TRY_OUT(status, orr_bpe_merger_new(tokenizer, &e.merger, err));
    if (bos && tokenizer->facts.bos >= 0)
        ORR_TRY_OUT(status, put(&e, tokenizer->facts.bos));
    ORR_TRY_OUT(status, encode(&e, text, len, special));
    int32_t *ids = orr_arena_array(arena, int32_t, e.ids.n);
    if (ids == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    if (e.ids.n > 0)
        memcpy(ids, e.ids.at, e.ids.n * sizeof *ids);
    *ret = ids;
    *ret_n = e.ids.n;
out:
    orr_bpe_merger_free(e.merger);
    orr_array_done(&e.ids);
    orr_array_done(&e.written);
    return status;
}
