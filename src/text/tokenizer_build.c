/* SPDX-License-Identifier: Apache-2.0 */
#include "text/tokenizer_build.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/alloc.h"
#include "base/array.h"
#include "text/tokenizer.h"

enum { PIECES_MAX = 1 << 24, PIECE_BYTES_MAX = 1 << 16 };

static uint32_t slots_for(uint32_t n)
{
    uint32_t slots = 16;
    while (slots < 2 * n)
        slots *= 2;
    return slots;
}

static bool is_text(const orr_text *t, const char *text, size_t len)
{
    return t->n == len && memcmp(t->at, text, len) == 0;
}

int32_t orr_piece_find(const orr_tokenizer *t, const orr_piece_table *table, const char *text,
                       size_t len)
{
    if (len == 0 || len > table->longest)
        return -1;
    for (uint32_t at = (uint32_t)XXH3_64bits(text, len);; at++) {
        const uint32_t id = table->slots[at & table->mask];
        if (id == 0)
            return -1;
        if (is_text(&t->parts.pieces[id - 1].text, text, len))
            return (int32_t)(id - 1);
    }
}

int32_t orr_tokenizer_find(const orr_tokenizer *t, const char *text, size_t len)
{
    const int32_t id = orr_piece_find(t, &t->normal, text, len);
    return id >= 0 ? id : orr_piece_find(t, &t->special, text, len);
}

/* Of several pieces with the same text the first is kept. */
static void put(const orr_tokenizer *t, orr_piece_table *table, uint32_t id)
{
    const orr_text text = t->parts.pieces[id].text;
    uint32_t at = (uint32_t)XXH3_64bits(text.at, text.n);
    for (; table->slots[at & table->mask] != 0; at++)
        if (is_text(&t->parts.pieces[table->slots[at & table->mask] - 1].text, text.at, text.n))
            return;
    table->slots[at & table->mask] = id + 1;
    if (text.n > table->longest)
        table->longest = (uint32_t)text.n;
}

static bool is_special(const orr_piece *piece)
{
    return piece->kind == ORR_PIECE_CONTROL || piece->kind == ORR_PIECE_USER;
}

/* Pieces that merges can produce: all that match text literally. */
static bool is_normal(const orr_tokenizer *t, const orr_piece *piece)
{
    return piece->kind == ORR_PIECE_NORMAL ||
           (t->parts.algorithm == ORR_BPE_SCORES && piece->kind == ORR_PIECE_USER);
}

static orr_status make_tables(orr_tokenizer *t, orr_error *err)
{
    uint32_t n_special = 0;
    for (uint32_t id = 0; id < t->parts.n; id++)
        n_special += is_special(&t->parts.pieces[id]);
    t->normal.mask = slots_for(t->parts.n) - 1;
    t->special.mask = slots_for(n_special) - 1;
    t->normal.slots = orr_arena_array(t->arena, uint32_t, t->normal.mask + 1);
    t->special.slots = orr_arena_array(t->arena, uint32_t, t->special.mask + 1);
    if (t->normal.slots == NULL || t->special.slots == NULL)
        return orr_fail_memory(err);
    for (uint32_t id = 0; id < t->parts.n; id++) {
        const orr_piece *piece = &t->parts.pieces[id];
        if (piece->text.n == 0)
            continue;
        if (is_normal(t, piece))
            put(t, &t->normal, id);
        if (!is_special(piece))
            continue;
        if (piece->text.n > ORR_SPECIAL_BYTES_MAX)
            return orr_fail(err, ORR_UNSUPPORTED, "token %u has a name of %zu bytes", id,
                            piece->text.n);
        put(t, &t->special, id);
        t->special_lengths[piece->text.n / 64] |= UINT64_C(1) << piece->text.n % 64;
        t->begins_special[(uint8_t)piece->text.at[0]] = true;
        t->has_user |= piece->kind == ORR_PIECE_USER;
    }
    return ORR_OK;
}

typedef struct scored {
    float score;
    uint32_t id;
} scored;

static int by_score(const void *a, const void *b)
{
    const float x = ((const scored *)a)->score, y = ((const scored *)b)->score;
    return (x < y) - (x > y);
}

/* Pieces of equal score have equal rank. */
static orr_status rank_scores(orr_tokenizer *t, orr_error *err)
{
    const uint32_t n = t->parts.n;
    t->ranks = orr_arena_array(t->arena, uint32_t, n);
    scored *order = orr_calloc(n + 1, sizeof *order);
    if (t->ranks == NULL || order == NULL) {
        orr_free(order);
        return orr_fail_memory(err);
    }
    for (uint32_t id = 0; id < n; id++)
        order[id] = (scored){t->parts.pieces[id].score, id};
    qsort(order, n, sizeof *order, by_score);
    for (uint32_t i = 0, rank = 0; i < n; i++) {
        if (i > 0 && order[i].score < order[i - 1].score)
            rank = i;
        t->ranks[order[i].id] = rank;
    }
    orr_free(order);
    return ORR_OK;
}

static uint32_t pair_hash(uint32_t left, uint32_t right)
{
    const uint64_t both = (uint64_t)left << 32 | right; /* Fibonacci hashing, Knuth vol. 3, 6.4 */
    return (uint32_t)(both * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

uint32_t orr_bpe_merge_find(const orr_tokenizer *t, uint32_t left, uint32_t right)
{
    for (uint32_t at = pair_hash(left, right);; at++) {
        const uint32_t i = t->pairs[at & t->pairs_mask];
        if (i == 0)
            return UINT32_MAX;
        const orr_bpe_merge *merge = &t->parts.merges[i - 1];
        if (merge->left == left && merge->right == right)
            return i - 1;
    }
}

/* Resolves merges given as texts to ids. */
static orr_status resolve_merges(orr_tokenizer *t, const orr_text (*texts)[2], orr_error *err)
{
    orr_bpe_merge *merges = (orr_bpe_merge *)t->parts.merges;
    orr_array(char) both = {0};
    orr_status status = ORR_OK;
    for (uint32_t i = 0; status == ORR_OK && i < t->parts.n_merges; i++) {
        const orr_text left = texts[i][0], right = texts[i][1];
        both.n = 0;
        if (!orr_array_reserve(&both, left.n + right.n + 1)) {
            status = orr_fail_memory(err);
            break;
        }
        memcpy(both.at, left.at, left.n);
        memcpy(both.at + left.n, right.at, right.n);
        const int32_t a = orr_tokenizer_find(t, left.at, left.n),
                      b = orr_tokenizer_find(t, right.at, right.n),
                      c = orr_tokenizer_find(t, both.at, left.n + right.n);
        if (a < 0 || b < 0 || c < 0)
            status =
                orr_fail(err, ORR_PARSE, "merge %u is of tokens that are not in the vocabulary", i);
        else
            merges[i] = (orr_bpe_merge){(uint32_t)a, (uint32_t)b, (uint32_t)c};
    }
    orr_array_done(&both);
    return status;
}

static orr_status index_merges(orr_tokenizer *t, orr_error *err)
{
    const uint32_t n = t->parts.n_merges;
    t->pairs_mask = slots_for(n) - 1;
    t->pairs = orr_arena_array(t->arena, uint32_t, t->pairs_mask + 1);
    if (t->pairs == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n; i++) {
        const orr_bpe_merge *m = &t->parts.merges[i];
        if (m->left >= t->parts.n || m->right >= t->parts.n || m->merged >= t->parts.n)
            return orr_fail(err, ORR_INVALID, "merge %u is of tokens that are not there", i);
        uint32_t at = pair_hash(m->left, m->right);
        while (t->pairs[at & t->pairs_mask] != 0 &&
               orr_bpe_merge_find(t, m->left, m->right) == UINT32_MAX)
            at++;
        if (orr_bpe_merge_find(t, m->left, m->right) == UINT32_MAX)
            t->pairs[at & t->pairs_mask] = i + 1;
    }
    return ORR_OK;
}

/* "<0x0A>" */
static int byte_of_name(orr_text name)
{
    static const char digits[] = "0123456789ABCDEF";
    if (name.n != 6 || memcmp(name.at, "<0x", 3) != 0 || name.at[5] != '>')
        return -1;
    const char *high = memchr(digits, name.at[3], 16), *low = memchr(digits, name.at[4], 16);
    return high == NULL || low == NULL ? -1 : (int)(high - digits) * 16 + (int)(low - digits);
}

static void find_bytes(orr_tokenizer *t)
{
    const bool named = t->parts.algorithm == ORR_BPE_SCORES ||
                       (t->parts.algorithm == ORR_BPE_MERGES && !t->parts.byte_level);
    for (int b = 0; b < 256; b++) {
        const char byte = (char)b;
        t->of_byte[b] = named ? -1 : orr_piece_find(t, &t->normal, &byte, 1);
    }
    for (uint32_t id = 0; named && id < t->parts.n; id++) {
        const int b = byte_of_name(t->parts.pieces[id].text);
        if (b >= 0 &&
            (t->parts.pieces[id].kind == ORR_PIECE_BYTE || t->parts.algorithm == ORR_BPE_MERGES))
            t->of_byte[b] = (int32_t)id;
    }
}

/* A piece's text without space marks. */
static orr_text without_marks(orr_tokenizer *t, orr_text text)
{
    char *shown = orr_arena_strndup(t->arena, text.at, text.n);
    size_t n = 0;
    for (size_t i = 0; shown != NULL && i < text.n; n++) {
        const bool mark = text.n - i >= ORR_SPACE_MARK_BYTES &&
                          memcmp(text.at + i, ORR_SPACE_MARK, ORR_SPACE_MARK_BYTES) == 0;
        shown[n] = mark ? ' ' : text.at[i];
        i += mark ? ORR_SPACE_MARK_BYTES : 1;
    }
    return (orr_text){shown, n};
}

static orr_status show_pieces(orr_tokenizer *t, orr_error *err)
{
    t->shown = orr_arena_array(t->arena, orr_text, t->parts.n);
    char *bytes = orr_arena_array(t->arena, char, 256);
    if (t->shown == NULL || bytes == NULL)
        return orr_fail_memory(err);
    for (uint32_t id = 0; id < t->parts.n; id++) {
        const orr_text text = t->parts.pieces[id].text;
        const bool marked = t->parts.spaces &&
                            memmem(text.at, text.n, ORR_SPACE_MARK, ORR_SPACE_MARK_BYTES) != NULL;
        t->shown[id] = marked ? without_marks(t, text) : text;
        if (t->shown[id].at == NULL)
            return orr_fail_memory(err);
    }
    for (int b = 0; b < 256; b++) {
        bytes[b] = (char)b;
        if (t->of_byte[b] >= 0)
            t->shown[t->of_byte[b]] = (orr_text){&bytes[b], 1};
    }
    return ORR_OK;
}

static const char *style_of(const orr_tokenizer *t)
{
    if (orr_tokenizer_find(t, "<|header_start|>", 16) >= 0 &&
        orr_tokenizer_find(t, "<|eot|>", 7) >= 0)
        return "llama4";
    if (orr_tokenizer_find(t, "<|start_header_id|>", 19) >= 0 &&
        orr_tokenizer_find(t, "<|eot_id|>", 10) >= 0)
        return "llama3";
    const bool of_characters = t->parts.spaces && t->parts.prefix != ORR_PREPEND_NEVER;
    if (of_characters && t->parts.byte_fallback && t->facts.bos >= 0 && t->facts.eos >= 0 &&
        is_text(&t->parts.pieces[t->facts.bos].text, "<s>", 3))
        return "llama2";
    return "";
}

/* Adds a stop token, before others use the tokenizer; known ones and those beyond the capacity are
 * ignored. */
static void tokenizer_add_stop(orr_tokenizer *t, int32_t token)
{
    if (token < 0 || (uint32_t)token >= t->facts.vocab || t->facts.n_stop == ORR_STOP_TOKENS)
        return;
    for (uint32_t i = 0; i < t->facts.n_stop; i++)
        if (t->facts.stop[i] == token)
            return;
    t->facts.stop[t->facts.n_stop++] = token;
}

static void state_facts(orr_tokenizer *t)
{
    static const char *const ends[] = {"<|eot_id|>", "<|eom_id|>", "<|eot|>", "<|eom|>",
                                       "<|im_end|>"};
    const orr_tokenizer_spec *p = &t->parts;
    t->facts = (orr_tokenizer_info){.kind = p->kind,
                                    .vocab = p->n,
                                    .bos = p->bos,
                                    .eos = p->eos,
                                    .pad = p->pad,
                                    .adds_bos = p->adds_bos && p->bos >= 0};
    tokenizer_add_stop(t, p->eos);
    for (uint32_t i = 0; i < p->n_stop; i++)
        tokenizer_add_stop(t, p->stop[i]);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        tokenizer_add_stop(t, orr_piece_find(t, &t->special, ends[i], strlen(ends[i])));
    t->facts.style = style_of(t);
}

static orr_status copy_parts(orr_tokenizer *t, const orr_tokenizer_spec *from, orr_error *err)
{
    t->parts = *from;
    orr_piece *pieces = orr_arena_array(t->arena, orr_piece, from->n);
    orr_bpe_merge *merges = orr_arena_array(t->arena, orr_bpe_merge, from->n_merges);
    if (pieces == NULL || merges == NULL)
        return orr_fail_memory(err);
    for (uint32_t id = 0; id < from->n; id++) {
        pieces[id] = from->pieces[id];
        if (pieces[id].text.n > PIECE_BYTES_MAX)
            return orr_fail(err, ORR_LIMIT, "token %u has %zu bytes", id, pieces[id].text.n);
        pieces[id].text.at = orr_arena_strndup(t->arena, pieces[id].text.at, pieces[id].text.n);
        if (pieces[id].text.at == NULL)
            return orr_fail_memory(err);
    }
    if (from->n_merges > 0 && from->merge_texts == NULL)
        memcpy(merges, from->merges, from->n_merges * sizeof *merges);
    t->parts.pieces = pieces;
    t->parts.merges = merges;
    t->parts.merge_texts = NULL;
    return ORR_OK;
}

static orr_status check_parts(const orr_tokenizer_spec *p, orr_error *err)
{
    const int32_t ids[] = {p->unknown, p->bos, p->eos, p->pad};
    if (p->n == 0 || p->n > PIECES_MAX || p->n_merges > PIECES_MAX)
        return orr_fail(err, ORR_LIMIT, "a tokenizer of %u pieces and %u merges", p->n,
                        p->n_merges);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (ids[i] < -1 || ids[i] >= (int64_t)p->n)
            return orr_fail(err, ORR_INVALID, "token %d, of %u", ids[i], p->n);
    return ORR_OK;
}

static orr_status fill(orr_tokenizer *t, const orr_tokenizer_spec *parts, orr_error *err)
{
    ORR_TRY(copy_parts(t, parts, err));
    ORR_TRY(make_tables(t, err));
    if (parts->algorithm == ORR_BPE_SCORES)
        ORR_TRY(rank_scores(t, err));
    if (parts->merge_texts != NULL)
        ORR_TRY(resolve_merges(t, parts->merge_texts, err));
    if (parts->algorithm == ORR_BPE_MERGES)
        ORR_TRY(index_merges(t, err));
    find_bytes(t);
    ORR_TRY(show_pieces(t, err));
    state_facts(t);
    return ORR_OK;
}

orr_status orr_tokenizer_build(const orr_tokenizer_spec *parts, orr_tokenizer **ret, orr_error *err)
{
    ORR_TRY(check_parts(parts, err));
    orr_arena *arena = orr_arena_new(0, 0);
    orr_tokenizer *t = arena == NULL ? NULL : orr_arena_one(arena, orr_tokenizer);
    if (t == NULL) {
        orr_arena_free(arena);
        return orr_fail_memory(err);
    }
    t->arena = arena;
    const orr_status status = fill(t, parts, err);
    if (status != ORR_OK)
        orr_arena_free(arena);
    else
        *ret = t;
    return status;
}

const orr_tokenizer_spec *orr_tokenizer_spec_of(const orr_tokenizer *t)
{
    return &t->parts;
}

const orr_tokenizer_info *orr_tokenizer_info_of(const orr_tokenizer *t)
{
    return &t->facts;
}

void orr_tokenizer_close(orr_tokenizer *t)
{
    if (t != NULL)
        orr_arena_free(t->arena);
}
