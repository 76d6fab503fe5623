/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "text/json_tokenizer.h"

/* Builds a tokenizer from a parsed tokenizer.json: each component is known, or rejected by its
 * name. */
typedef struct maker {
    orr_json_tokenizer j;
    orr_tokenizer_spec parts;
    orr_piece *pieces;
} maker;

static int shown(orr_text t)
{
    return t.n < 120 ? (int)t.n : 120;
}

static orr_status unknown_step(const char *what, const orr_json_component *step, orr_error *err)
{
    return orr_fail(err, ORR_UNSUPPORTED, "the %s %.*s", what, shown(step->type), step->type.at);
}

static orr_status apply_normalizer(maker *m, const orr_json_component *s, orr_error *err)
{
    const bool marks = orr_text_is(s->type, "Replace") && orr_text_is(s->string, " ") &&
                       orr_text_is(s->content, ORR_SPACE_MARK);
    if (orr_text_is(s->type, "NFC"))
        m->parts.normal_form_c = true;
    else if (orr_text_is(s->type, "Prepend") && orr_text_is(s->prepend, ORR_SPACE_MARK))
        m->parts.prefix = ORR_PREPEND_ALWAYS;
    else if (marks)
        m->parts.spaces = true;
    else
        return unknown_step("normalizer", s, err);
    return ORR_OK;
}

static orr_status apply_split(maker *m, const orr_json_component *s, orr_error *err)
{
    const bool isolated = orr_text_is(s->behavior, "Isolated") && !s->invert;
    const bool kept = orr_text_is(s->behavior, "Removed") && s->invert;
    orr_pre_tokenizer split;
    if (m->parts.split != ORR_PRE_TOKENIZER_NONE || !(isolated || kept) || s->regex.at == NULL ||
        !orr_pre_tokenizer_of_pattern(s->regex, &split))
        return orr_fail(err, ORR_UNSUPPORTED, "the pre-tokenizer Split by %.*s",
                        s->regex.at == NULL ? 0 : shown(s->regex),
                        s->regex.at == NULL ? "" : s->regex.at);
    m->parts.split = (uint8_t)split;
    return ORR_OK;
}

static orr_status apply_byte_level(maker *m, const orr_json_component *s, orr_error *err)
{
    if (s->use_regex && m->parts.split != ORR_PRE_TOKENIZER_NONE)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "the pre-tokenizer ByteLevel with use_regex behind another");
    m->parts.byte_level = true;
    if (s->use_regex)
        m->parts.split = ORR_PRE_TOKENIZER_GPT2;
    if (s->add_prefix_space == 1) {
        m->parts.prefix = ORR_PREPEND_ALWAYS;
        m->parts.prefix_unless_there = true;
    }
    return ORR_OK;
}

static orr_status apply_metaspace(maker *m, const orr_json_component *s, orr_error *err)
{
    if (!orr_text_is(s->replacement, ORR_SPACE_MARK))
        return unknown_step("pre-tokenizer with another replacement,", s, err);
    m->parts.spaces = true;
    m->parts.prefix_unless_there = true;
    if (s->scheme.at != NULL)
        m->parts.prefix = orr_text_is(s->scheme, "always")  ? ORR_PREPEND_ALWAYS
                          : orr_text_is(s->scheme, "first") ? ORR_PREPEND_FIRST
                                                            : ORR_PREPEND_NEVER;
    else
        m->parts.prefix = s->add_prefix_space != 0 ? ORR_PREPEND_ALWAYS : ORR_PREPEND_NEVER;
    m->parts.split = s->split ? ORR_PRE_TOKENIZER_METASPACE : ORR_PRE_TOKENIZER_NONE;
    return ORR_OK;
}

static orr_status apply_components(maker *m, orr_error *err)
{
    for (size_t i = 0; i < m->j.normalizer.n; i++)
        ORR_TRY(apply_normalizer(m, &m->j.normalizer.at[i], err));
    for (size_t i = 0; i < m->j.pre_tokenizer.n; i++) {
        const orr_json_component *s = &m->j.pre_tokenizer.at[i];
        if (m->parts.byte_level || m->parts.split == ORR_PRE_TOKENIZER_METASPACE)
            return unknown_step("pre-tokenizer behind the last that is known,", s, err);
        if (orr_text_is(s->type, "Split"))
            ORR_TRY(apply_split(m, s, err));
        else if (orr_text_is(s->type, "ByteLevel"))
            ORR_TRY(apply_byte_level(m, s, err));
        else if (orr_text_is(s->type, "Metaspace"))
            ORR_TRY(apply_metaspace(m, s, err));
        else
            return unknown_step("pre-tokenizer", s, err);
    }
    return ORR_OK;
}

static orr_status check_model(const orr_json_tokenizer *j, orr_error *err)
{
    if (j->words.n == 0)
        return orr_fail(err, ORR_PARSE, "the model has no vocabulary");
    if (j->model.at != NULL && !orr_text_is(j->model, "BPE"))
        return orr_fail(err, ORR_UNSUPPORTED, "a model of type %.*s; only BPE is known",
                        shown(j->model), j->model.at);
    if (j->prefix.n > 0 || j->suffix.n > 0)
        return orr_fail(err, ORR_UNSUPPORTED, "a model with %s",
                        j->prefix.n > 0 ? "continuing_subword_prefix" : "end_of_word_suffix");
    if (j->dropout)
        return orr_fail(err, ORR_UNSUPPORTED, "a model with dropout");
    return ORR_OK;
}

/* Converts text from the byte-level alphabet to bytes in place; other text is unchanged. */
static orr_text plain(const maker *m, orr_text text)
{
    size_t n = text.n;
    if (m->parts.byte_level && orr_byte_level_decode(text, (char *)text.at, &n))
        return (orr_text){text.at, n};
    return text;
}

static orr_status convert_vocabulary(maker *m, orr_error *err)
{
    enum { MOST = 1 << 24 };
    int64_t most = -1;
    for (size_t i = 0; i < m->j.words.n; i++) {
        const orr_json_vocab_entry *w = &m->j.words.at[i];
        if (w->id < 0 || w->id >= MOST)
            return orr_fail(err, ORR_LIMIT, "the id %lld of a token", (long long)w->id);
        most = w->id > most ? w->id : most;
    }
    /* ids may have holes, but not more than about four per token */
    if (most >= 4 * (int64_t)m->j.words.n + 1024)
        return orr_fail(err, ORR_LIMIT, "ids up to %lld of %zu tokens", (long long)most,
                        m->j.words.n);
    m->pieces = orr_arena_array(m->j.arena, orr_piece, (size_t)most + 1);
    if (m->pieces == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i <= (size_t)most; i++)
        m->pieces[i] = (orr_piece){.text = {"", 0}, .kind = ORR_PIECE_NORMAL};
    for (int added = 0; added < 2; added++)
        for (size_t i = 0; i < m->j.words.n; i++) {
            const orr_json_vocab_entry *w = &m->j.words.at[i];
            if (w->added != (added == 1))
                continue;
            m->pieces[w->id] = (orr_piece){.text = w->added ? w->text : plain(m, w->text),
                                           .kind = !w->added    ? ORR_PIECE_NORMAL
                                                   : w->special ? ORR_PIECE_CONTROL
                                                                : ORR_PIECE_USER};
            /* such tokens are matched in the normalized text, which has its prefix already */
            if (w->added && w->normalized && m->parts.prefix == ORR_PREPEND_ALWAYS &&
                m->j.normalizer.n > 0)
                m->parts.prefix = ORR_PREPEND_FIRST;
        }
    m->parts.pieces = m->pieces;
    m->parts.n = (uint32_t)most + 1;
    return ORR_OK;
}

static orr_status convert_merges(maker *m, orr_error *err)
{
    const size_t n = m->j.merges.n / 2;
    orr_text(*texts)[2] = orr_arena_alloc(m->j.arena, n, sizeof *texts, _Alignof(orr_text));
    if (texts == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < n; i++)
        for (int side = 0; side < 2; side++)
            texts[i][side] = plain(m, m->j.merges.at[2 * i + (size_t)side]);
    if (n > UINT32_MAX)
        return orr_fail(err, ORR_LIMIT, "%zu merges", n);
    m->parts.merge_texts = (const orr_text(*)[2])texts;
    m->parts.n_merges = (uint32_t)n;
    return ORR_OK;
}

static int32_t id_of(const maker *m, orr_text name)
{
    for (size_t i = m->j.words.n; name.n > 0 && i-- > 0;)
        if (orr_text_equal(m->j.words.at[i].text, name.at, name.n))
            return (int32_t)m->j.words.at[i].id;
    return -1;
}

/* The first of these names that is a token. */
static int32_t id_of_any(const maker *m, const char *const *names, size_t n)
{
    int32_t id = -1;
    for (size_t i = 0; i < n && id < 0; i++)
        id = id_of(m, (orr_text){names[i], strlen(names[i])});
    return id;
}

static void convert_special_tokens(maker *m)
{
    static const char *const begins[] = {"<|begin_of_text|>", "<s>"};
    static const char *const ends[] = {"<|end_of_text|>", "</s>", "<|endoftext|>"};
    orr_text first = {0};
    for (size_t i = 0; i < m->j.post_processor.n && first.n == 0; i++)
        first = m->j.post_processor.at[i].first_special;
    orr_tokenizer_spec *p = &m->parts;
    p->adds_bos = m->j.add_bos >= 0 ? m->j.add_bos == 1 : first.n > 0;
    p->bos = id_of(m, m->j.bos.n > 0 ? m->j.bos : first);
    if (p->bos < 0)
        p->bos = id_of_any(m, begins, sizeof begins / sizeof *begins);
    p->eos = id_of(m, m->j.eos);
    if (p->eos < 0)
        p->eos = id_of_any(m, ends, sizeof ends / sizeof *ends);
    p->pad = id_of(m, m->j.pad);
    p->unknown = id_of(m, m->j.unknown);
}

static orr_status make(maker *m, orr_text json, orr_text config, orr_text generation,
                       orr_tokenizer **ret, orr_error *err)
{
    ORR_TRY(orr_json_tokenizer_read(&m->j, json, err));
    if (config.n > 0)
        ORR_TRY(orr_json_config_read(&m->j, config, err));
    if (generation.n > 0)
        ORR_TRY(orr_json_generation_read(&m->j, generation, err));
    ORR_TRY(check_model(&m->j, err));
    ORR_TRY(apply_components(m, err));
    convert_special_tokens(m); /* by their names, before those are turned into bytes */
    ORR_TRY(convert_vocabulary(m, err));
    ORR_TRY(convert_merges(m, err));
    m->parts.byte_fallback = m->j.byte_fallback;
    m->parts.fuse_unknown = m->j.fuse_unknown;
    m->parts.whole_first = m->j.ignore_merges;
    for (uint32_t i = 0; i < m->j.n_stop; i++)
        if (m->j.stop[i] >= 0 && m->j.stop[i] < m->parts.n)
            m->parts.stop[m->parts.n_stop++] = (int32_t)m->j.stop[i];
    return orr_tokenizer_build(&m->parts, ret, err);
}

orr_status orr_tokenizer_json_read(orr_text json, orr_text config, orr_text generation,
                                   orr_tokenizer **ret, orr_error *err)
{
    maker m = {.j = {.arena = orr_arena_new(0, 0), .add_bos = -1},
               .parts = {.kind = ORR_TOKENIZER_JSON, .algorithm = ORR_BPE_MERGES}};
    const orr_status status =
        m.j.arena == NULL ? orr_fail_memory(err) : make(&m, json, config, generation, ret, err);
    orr_json_tokenizer_done(&m.j);
    return status;
}
