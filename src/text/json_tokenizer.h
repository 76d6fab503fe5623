/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEXT_JSON_TOKENIZER_H
#define ORR_TEXT_JSON_TOKENIZER_H

#include "base/array.h"
#include "text/tokenizer.h"

/* A parsed tokenizer.json, not yet interpreted. Texts are in the arena; at NULL: absent. */

/* A normalizer, pre-tokenizer or post-processor, with the fields of all kinds. Sequences are
 * flattened. */
typedef struct orr_json_component {
    orr_text type, regex, string, behavior, content, prepend, replacement, scheme;
    orr_text first_special; /* of TemplateProcessing's "single", where that begins with one */
    bool invert, use_regex, split;
    int8_t add_prefix_space; /* -1: absent */
} orr_json_component;
typedef orr_array(orr_json_component) orr_json_components;

typedef struct orr_json_vocab_entry {
    orr_text text;
    int64_t id;
    bool added, special, normalized;
} orr_json_vocab_entry;

typedef struct orr_json_tokenizer {
    orr_arena *arena;
    orr_json_components normalizer, pre_tokenizer, post_processor;
    orr_array(orr_json_vocab_entry) words; /* the vocabulary, then added tokens */
    orr_array(orr_text) merges;            /* two each */
    orr_text model, unknown, prefix, suffix;
    bool byte_fallback, fuse_unknown, ignore_merges, dropout;
    /* of tokenizer_config.json and generation_config.json */
    orr_text bos, eos, pad;
    int8_t add_bos; /* -1: absent */
    int64_t stop[ORR_STOP_TOKENS];
    uint32_t n_stop;
} orr_json_tokenizer;

orr_status orr_json_tokenizer_read(orr_json_tokenizer *j, orr_text json,
                                   orr_error *err) ORR_MUST_CHECK;
orr_status orr_json_config_read(orr_json_tokenizer *j, orr_text json,
                                orr_error *err) ORR_MUST_CHECK;
orr_status orr_json_generation_read(orr_json_tokenizer *j, orr_text json,
                                    orr_error *err) ORR_MUST_CHECK;
void orr_json_tokenizer_done(orr_json_tokenizer *j);

#endif /* ORR_TEXT_JSON_TOKENIZER_H */
