/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "text/json_tokenizer.h"

enum { DEPTH_LIMIT = 64 };

/* Reads a string to the arena; other values are skipped. */
static orr_status read_text(orr_json_tokenizer *j, orr_json *r, orr_text *ret, orr_error *err)
{
    orr_text raw;
    bool is = false;
    ORR_TRY(orr_json_text(r, &raw, &is, err));
    if (!is)
        return ORR_OK;
    char *copy = orr_arena_strndup(j->arena, raw.at, raw.n);
    if (copy == NULL)
        return orr_fail_memory(err);
    *ret = (orr_text){copy, raw.n};
    return ORR_OK;
}

static orr_status read_bool(orr_json *r, bool *ret, orr_error *err)
{
    orr_text raw;
    ORR_TRY(orr_json_raw(r, &raw, err));
    *ret = orr_text_is(raw, "true");
    return ORR_OK;
}

static orr_status read_pattern(orr_json_tokenizer *j, orr_json *r, orr_json_component *step,
                               orr_error *err)
{
    orr_text key;
    orr_status status = ORR_OK;
    ORR_TRY(orr_json_enter_object(r, err));
    while (orr_json_next_key(r, &key, &status, err)) {
        if (orr_text_is(key, "Regex"))
            ORR_TRY(read_text(j, r, &step->regex, err));
        else if (orr_text_is(key, "String"))
            ORR_TRY(read_text(j, r, &step->string, err));
        else
            ORR_TRY(orr_json_skip(r, err));
    }
    return status;
}

/* {"SpecialToken": {"id": "<s>", "type_id": 0}} or {"Sequence": ...} */
static orr_status read_template(orr_json_tokenizer *j, orr_json *r, orr_text *ret_special,
                                orr_error *err)
{
    orr_text key;
    orr_status status = ORR_OK;
    ORR_TRY(orr_json_enter_object(r, err));
    while (orr_json_next_key(r, &key, &status, err)) {
        if (!orr_text_is(key, "SpecialToken")) {
            ORR_TRY(orr_json_skip(r, err));
            continue;
        }
        ORR_TRY(orr_json_enter_object(r, err));
        while (orr_json_next_key(r, &key, &status, err)) {
            if (orr_text_is(key, "id"))
                ORR_TRY(read_text(j, r, ret_special, err));
            else
                ORR_TRY(orr_json_skip(r, err));
        }
        ORR_TRY(status);
    }
    return status;
}

static orr_status read_single(orr_json_tokenizer *j, orr_json *r, orr_json_component *step,
                              orr_error *err)
{
    orr_status status = ORR_OK;
    orr_text later = {0};
    ORR_TRY(orr_json_enter_array(r, err));
    for (bool first = true; orr_json_next_element(r, &status, err); first = false)
        ORR_TRY(read_template(j, r, first ? &step->first_special : &later, err));
    return status;
}

static orr_status read_step(orr_json_tokenizer *j, orr_json *r, orr_json_components *steps,
                            orr_error *err);

static orr_status read_steps(orr_json_tokenizer *j, orr_json *r, orr_json_components *steps,
                             orr_error *err)
{
    orr_status status = ORR_OK;
    ORR_TRY(orr_json_enter_array(r, err));
    while (orr_json_next_element(r, &status, err))
        ORR_TRY(read_step(j, r, steps, err));
    return status;
}

static orr_status read_field(orr_json_tokenizer *j, orr_json *r, orr_text key,
                             orr_json_component *step, orr_json_components *steps, orr_error *err)
{
    const struct {
        const char *name;
        orr_text *to;
    } texts[] = {{"type", &step->type},
                 {"behavior", &step->behavior},
                 {"content", &step->content},
                 {"prepend", &step->prepend},
                 {"replacement", &step->replacement},
                 {"prepend_scheme", &step->scheme}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (orr_text_equal(key, texts[i].name, strlen(texts[i].name)))
            return read_text(j, r, texts[i].to, err);
    if (orr_text_is(key, "pattern"))
        return read_pattern(j, r, step, err);
    if (orr_text_is(key, "invert"))
        return read_bool(r, &step->invert, err);
    if (orr_text_is(key, "use_regex"))
        return read_bool(r, &step->use_regex, err);
    if (orr_text_is(key, "split"))
        return read_bool(r, &step->split, err);
    if (orr_text_is(key, "add_prefix_space")) {
        bool add = false;
        ORR_TRY(read_bool(r, &add, err));
        step->add_prefix_space = add;
        return ORR_OK;
    }
    if (orr_text_is(key, "single"))
        return read_single(j, r, step, err);
    if (orr_text_is(key, "normalizers") || orr_text_is(key, "pretokenizers") ||
        orr_text_is(key, "processors"))
        return read_steps(j, r, steps, err);
    return orr_json_skip(r, err);
}

static orr_status read_fields(orr_json_tokenizer *j, orr_json *r, orr_json_components *steps,
                              orr_error *err)
{
    orr_json_component step = {.use_regex = true, .split = true, .add_prefix_space = -1};
    char name[24]; /* longer than any known name */
    orr_text key;
    orr_status status = ORR_OK;
    while (orr_json_next_key(r, &key, &status, err)) {
        const size_t n = key.n < sizeof name ? key.n : 0;
        memcpy(name, key.at, n);
        ORR_TRY(read_field(j, r, (orr_text){name, n}, &step, steps, err));
    }
    ORR_TRY(status);
    if (step.type.at == NULL)
        step.type = (orr_text){"of no type", 10};
    if (orr_text_is(step.type, "Sequence"))
        return ORR_OK;
    return orr_array_push(steps, step) ? ORR_OK : orr_fail_memory(err);
}

/* An object, or null. */
static orr_status read_step(orr_json_tokenizer *j, orr_json *r, orr_json_components *steps,
                            orr_error *err)
{
    orr_json_value value;
    ORR_TRY(orr_json_value_next(r, &value, err));
    if (value.type == ORR_JSON_NULL)
        return ORR_OK;
    if (value.type != ORR_JSON_OBJECT)
        return orr_fail_byte(err, ORR_PARSE, orr_json_byte_pos(r), "an object is wanted");
    return read_fields(j, r, steps, err);
}

static orr_status read_vocabulary(orr_json_tokenizer *j, orr_json *r, orr_error *err)
{
    orr_text key;
    orr_status status = ORR_OK;
    ORR_TRY(orr_json_enter_object(r, err));
    while (orr_json_next_key(r, &key, &status, err)) {
        char *copy = orr_arena_strndup(j->arena, key.at, key.n);
        orr_json_vocab_entry word = {.text = {copy, key.n}};
        bool is = false;
        if (copy == NULL)
            return orr_fail_memory(err);
        ORR_TRY(orr_json_int64(r, &word.id, &is, err));
        if (!is)
            return orr_fail_byte(err, ORR_PARSE, orr_json_byte_pos(r),
                                 "the id of a token is no number");
        if (!orr_array_push(&j->words, word))
            return orr_fail_memory(err);
    }
    return status;
}

static orr_status push_merge(orr_json_tokenizer *j, orr_text left, orr_text right, orr_error *err)
{
    if (left.n == 0 || right.n == 0)
        return orr_fail(err, ORR_PARSE, "merge %zu is not of two tokens", j->merges.n / 2);
    return orr_array_push(&j->merges, left) && orr_array_push(&j->merges, right)
               ? ORR_OK
               : orr_fail_memory(err);
}

/* "left right", or ["left", "right"]. */
static orr_status read_merge(orr_json_tokenizer *j, orr_json *r, orr_error *err)
{
    orr_json_value value;
    ORR_TRY(orr_json_value_next(r, &value, err));
    if (value.type == ORR_JSON_STRING) {
        char *copy = orr_arena_strndup(j->arena, value.text.at, value.text.n);
        if (copy == NULL)
            return orr_fail_memory(err);
        const char *space = memchr(copy, ' ', value.text.n);
        const size_t n = space == NULL ? 0 : (size_t)(space - copy);
        return push_merge(j, (orr_text){copy, n},
                          (orr_text){copy + n + 1, space == NULL ? 0 : value.text.n - n - 1}, err);
    }
    if (value.type != ORR_JSON_ARRAY)
        return orr_fail_byte(err, ORR_PARSE, orr_json_byte_pos(r), "a merge is two tokens");
    orr_text two[2] = {0};
    orr_status status = ORR_OK;
    for (int i = 0; orr_json_next_element(r, &status, err); i++) {
        if (i == 2)
            return orr_fail_byte(err, ORR_PARSE, orr_json_byte_pos(r), "a merge is two tokens");
        ORR_TRY(read_text(j, r, &two[i], err));
    }
    ORR_TRY(status);
    return push_merge(j, two[0], two[1], err);
}

static orr_status read_merges(orr_json_tokenizer *j, orr_json *r, orr_error *err)
{
    orr_status status = ORR_OK;
    ORR_TRY(orr_json_enter_array(r, err));
    while (orr_json_next_element(r, &status, err))
        ORR_TRY(read_merge(j, r, err));
    return status;
}

static orr_status read_model(orr_json_tokenizer *j, orr_json *r, orr_error *err)
{
    orr_text key;
    orr_status status = ORR_OK;
    double dropout = 0;
    ORR_TRY(orr_json_enter_object(r, err));
    while (orr_json_next_key(r, &key, &status, err)) {
        if (orr_text_is(key, "type"))
            ORR_TRY(read_text(j, r, &j->model, err));
        else if (orr_text_is(key, "unk_token"))
            ORR_TRY(read_text(j, r, &j->unknown, err));
        else if (orr_text_is(key, "continuing_subword_prefix"))
            ORR_TRY(read_text(j, r, &j->prefix, err));
        else if (orr_text_is(key, "end_of_word_suffix"))
            ORR_TRY(read_text(j, r, &j->suffix, err));
        else if (orr_text_is(key, "byte_fallback"))
            ORR_TRY(read_bool(r, &j->byte_fallback, err));
        else if (orr_text_is(key, "fuse_unk"))
            ORR_TRY(read_bool(r, &j->fuse_unknown, err));
        else if (orr_text_is(key, "ignore_merges"))
            ORR_TRY(read_bool(r, &j->ignore_merges, err));
        else if (orr_text_is(key, "dropout"))
            ORR_TRY(orr_json_double(r, &dropout, &j->dropout, err));
        else if (orr_text_is(key, "merges"))
            ORR_TRY(read_merges(j, r, err));
        else if (orr_text_is(key, "vocab") && (j->model.at == NULL || orr_text_is(j->model, "BPE")))
            ORR_TRY(read_vocabulary(j, r, err));
        else
            ORR_TRY(orr_json_skip(r, err));
    }
    j->dropout = j->dropout && dropout > 0;
    return status;
}

static orr_status read_added(orr_json_tokenizer *j, orr_json *r, orr_error *err)
{
    orr_text key;
    orr_status status = ORR_OK;
    orr_json_vocab_entry word = {.added = true, .id = -1};
    bool is = true, alone = false, left = false, right = false;
    ORR_TRY(orr_json_enter_object(r, err));
    while (orr_json_next_key(r, &key, &status, err)) {
        if (orr_text_is(key, "id"))
            ORR_TRY(orr_json_int64(r, &word.id, &is, err));
        else if (orr_text_is(key, "content"))
            ORR_TRY(read_text(j, r, &word.text, err));
        else if (orr_text_is(key, "special"))
            ORR_TRY(read_bool(r, &word.special, err));
        else if (orr_text_is(key, "normalized"))
            ORR_TRY(read_bool(r, &word.normalized, err));
        else if (orr_text_is(key, "single_word"))
            ORR_TRY(read_bool(r, &alone, err));
        else if (orr_text_is(key, "lstrip"))
            ORR_TRY(read_bool(r, &left, err));
        else if (orr_text_is(key, "rstrip"))
            ORR_TRY(read_bool(r, &right, err));
        else
            ORR_TRY(orr_json_skip(r, err));
    }
    ORR_TRY(status);
    if (!is || word.text.n == 0)
        return orr_fail_byte(err, ORR_PARSE, orr_json_byte_pos(r),
                             "an added token has no id or no content");
    if (alone || left || right)
        return orr_fail(err, ORR_UNSUPPORTED, "the added token %.40s with %s", word.text.at,
                        alone  ? "single_word"
                        : left ? "lstrip"
                               : "rstrip");
    return orr_array_push(&j->words, word) ? ORR_OK : orr_fail_memory(err);
}

static orr_status read_all_added(orr_json_tokenizer *j, orr_json *r, orr_error *err)
{
    orr_status status = ORR_OK;
    ORR_TRY(orr_json_enter_array(r, err));
    while (orr_json_next_element(r, &status, err))
        ORR_TRY(read_added(j, r, err));
    return status;
}

static orr_status read_top(orr_json_tokenizer *j, orr_json *r, orr_error *err)
{
    orr_text key;
    orr_status status = ORR_OK;
    ORR_TRY(orr_json_enter_object(r, err));
    while (orr_json_next_key(r, &key, &status, err)) {
        if (orr_text_is(key, "normalizer"))
            ORR_TRY(read_step(j, r, &j->normalizer, err));
        else if (orr_text_is(key, "pre_tokenizer"))
            ORR_TRY(read_step(j, r, &j->pre_tokenizer, err));
        else if (orr_text_is(key, "post_processor"))
            ORR_TRY(read_step(j, r, &j->post_processor, err));
        else if (orr_text_is(key, "added_tokens"))
            ORR_TRY(read_all_added(j, r, err));
        else if (orr_text_is(key, "model"))
            ORR_TRY(read_model(j, r, err));
        else
            ORR_TRY(orr_json_skip(r, err));
    }
    ORR_TRY(status);
    return orr_json_end(r, err);
}

/* "<s>", or {"content": "<s>"} */
static orr_status read_token(orr_json_tokenizer *j, orr_json *r, orr_text *ret, orr_error *err)
{
    orr_json_value value;
    orr_text key;
    orr_status status = ORR_OK;
    ORR_TRY(orr_json_value_next(r, &value, err));
    if (value.type == ORR_JSON_STRING) {
        *ret = (orr_text){orr_arena_strndup(j->arena, value.text.at, value.text.n), value.text.n};
        return ret->at == NULL ? orr_fail_memory(err) : ORR_OK;
    }
    if (value.type == ORR_JSON_ARRAY)
        return orr_fail_byte(err, ORR_PARSE, orr_json_byte_pos(r), "a token is wanted");
    if (value.type != ORR_JSON_OBJECT)
        return ORR_OK;
    while (orr_json_next_key(r, &key, &status, err)) {
        if (orr_text_is(key, "content"))
            ORR_TRY(read_text(j, r, ret, err));
        else
            ORR_TRY(orr_json_skip(r, err));
    }
    return status;
}

static orr_status read_config(orr_json_tokenizer *j, orr_json *r, orr_error *err)
{
    orr_text key;
    orr_status status = ORR_OK;
    ORR_TRY(orr_json_enter_object(r, err));
    while (orr_json_next_key(r, &key, &status, err)) {
        bool add = false;
        if (orr_text_is(key, "bos_token"))
            ORR_TRY(read_token(j, r, &j->bos, err));
        else if (orr_text_is(key, "eos_token"))
            ORR_TRY(read_token(j, r, &j->eos, err));
        else if (orr_text_is(key, "pad_token"))
            ORR_TRY(read_token(j, r, &j->pad, err));
        else if (orr_text_is(key, "add_bos_token")) {
            ORR_TRY(read_bool(r, &add, err));
            j->add_bos = add;
        } else
            ORR_TRY(orr_json_skip(r, err));
    }
    return status;
}

static void push_stop(orr_json_tokenizer *j, int64_t id)
{
    if (j->n_stop < ORR_STOP_TOKENS)
        j->stop[j->n_stop++] = id;
}

/* "eos_token_id": 2 or [2, 3] */
static orr_status read_stops(orr_json_tokenizer *j, orr_json *r, orr_error *err)
{
    orr_json_value value;
    orr_status status = ORR_OK;
    int64_t id = -1;
    bool is = false;
    ORR_TRY(orr_json_value_next(r, &value, err));
    if (value.type == ORR_JSON_NUMBER && orr_text_int64(value.text, &id))
        push_stop(j, id);
    if (value.type == ORR_JSON_OBJECT)
        return orr_fail_byte(err, ORR_PARSE, orr_json_byte_pos(r), "a token's id is wanted");
    while (value.type == ORR_JSON_ARRAY && orr_json_next_element(r, &status, err)) {
        ORR_TRY(orr_json_int64(r, &id, &is, err));
        if (is)
            push_stop(j, id);
    }
    return status;
}

static orr_status read_generation(orr_json_tokenizer *j, orr_json *r, orr_error *err)
{
    orr_text key;
    orr_status status = ORR_OK;
    ORR_TRY(orr_json_enter_object(r, err));
    while (orr_json_next_key(r, &key, &status, err)) {
        if (orr_text_is(key, "eos_token_id"))
            ORR_TRY(read_stops(j, r, err));
        else
            ORR_TRY(orr_json_skip(r, err));
    }
    return status;
}

static orr_status with_reader(orr_json_tokenizer *j, orr_text json,
                              orr_status (*read)(orr_json_tokenizer *, orr_json *, orr_error *),
                              orr_error *err)
{
    orr_stream *stream = NULL;
    orr_json *reader = NULL;
    orr_status status;
    ORR_TRY_OUT(status, orr_stream_open_memory(json.at, json.n, &stream, err));
    ORR_TRY_OUT(status, orr_json_new(stream, false, &reader, err));
    orr_json_set_depth_limit(reader, DEPTH_LIMIT);
    status = read(j, reader, err);
out:
    orr_json_free(reader);
    orr_stream_close(stream);
    return status;
}

orr_status orr_json_tokenizer_read(orr_json_tokenizer *j, orr_text json, orr_error *err)
{
    return with_reader(j, json, read_top, err);
}

orr_status orr_json_config_read(orr_json_tokenizer *j, orr_text json, orr_error *err)
{
    return with_reader(j, json, read_config, err);
}

orr_status orr_json_generation_read(orr_json_tokenizer *j, orr_text json, orr_error *err)
{
    return with_reader(j, json, read_generation, err);
}

void orr_json_tokenizer_done(orr_json_tokenizer *j)
{
    orr_array_done(&j->normalizer);
    orr_array_done(&j->pre_tokenizer);
    orr_array_done(&j->post_processor);
    orr_array_done(&j->words);
    orr_array_done(&j->merges);
    orr_arena_free(j->arena);
}
