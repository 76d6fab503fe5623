/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_DATA_DATASET_H
#define ORR_ENGINE_DATA_DATASET_H

#include <orrery/text.h>

/* What a model is trained on: an endless row of samples, each the same on every rank that asks for
 * it. A step's batch of B has a slot s in the row, samples s B .. (s + 1) B - 1, however many ranks
 * share them; so which slots are trained is all that a checkpoint need know. */
typedef struct orr_dataset_sample { /* shapes (tokens) */
    int64_t *tokens, *targets;
    float *weights; /* of each target in the loss: 0 or 1 */
} orr_dataset_sample;

typedef struct orr_dataset orr_dataset;
struct orr_dataset {
    const char *name; /* "text", "talk", "synthetic" */
    int64_t tokens;   /* of a sample                 */
    uint64_t n;       /* samples of an epoch; 0: there are no epochs */
    uint64_t seed;
    orr_arena *arena;
    void *ctx;
    /* Sample `index` of the data as they stand, below n where there are epochs. */
    void (*fill)(const orr_dataset *self, uint64_t index, const orr_dataset_sample *ret);
    /* Targets that count in it. */
    int64_t (*counted)(const orr_dataset *self, uint64_t index);
    uint64_t epoch;  /* whose order is held */
    uint32_t *order; /* shape (n); NULL: as they stand */
};
/* Sample `number` of the row, in the order of its epoch: shuffled by the seed, each epoch anew. */
uint64_t orr_dataset_index(orr_dataset *batches, uint64_t number); /* which of the data it is */
void orr_dataset_fill(orr_dataset *batches, uint64_t number, const orr_dataset_sample *ret);
int64_t orr_dataset_loss_tokens(orr_dataset *batches, uint64_t number);
void orr_dataset_free(orr_dataset *batches); /* NULL is allowed */

/* What tokens are made by. `tokenizer` NULL: bytes, and 256 ends a text. */
typedef struct orr_dataset_options {
    const char *path;
    const orr_tokenizer *tokenizer;
    int64_t tokens; /* of a sample */
    uint32_t vocab; /* of the model: no token is beyond */
    uint64_t seed;
} orr_dataset_options;
/* Plain text: a file, or a folder's files by name, each a document. Documents one behind another,
 * each with an end of text, cut into windows: a document may be split. Errors: IO, INVALID: a token
 * beyond the vocabulary, less text than one sample. */
orr_status orr_dataset_text(const orr_dataset_options *options, orr_dataset **ret,
                            orr_error *err) ORR_MUST_CHECK;
/* Conversations, a JSON object a line: {"messages": [{"role", "content"}]} or {"prompt",
 * "completion"}; only what the assistant says counts. One a sample, cut or padded. Errors: IO;
 * PARSE and INVALID with the line. */
orr_status orr_dataset_conversations(const orr_dataset_options *options, orr_dataset **ret,
                                     orr_error *err) ORR_MUST_CHECK;
/* Preferences, a JSON object a line: {"prompt", "chosen", "rejected"}. A sample is a conversation
 * with the chosen answer, then one with the other: of twice as many tokens as are asked for. Errors
 * as above. */
orr_status orr_dataset_preferences(const orr_dataset_options *options, orr_dataset **ret,
                                   orr_error *err) ORR_MUST_CHECK;
/* Prompts, a JSON object a line: {"prompt"}. A sample is one, as it stands before the answer, with
 * weights of 1; behind it there is room for one token at least. */
orr_status orr_dataset_prompts(const orr_dataset_options *options, orr_dataset **ret,
                               orr_error *err) ORR_MUST_CHECK;
/* Tokens that follow one another by a rule with some chance in it: can be learned, down to a loss
 * that is known (orr_dataset_synthetic_entropy()). */
orr_status orr_dataset_synthetic(const orr_dataset_options *options, orr_dataset **ret,
                                 orr_error *err) ORR_MUST_CHECK;
double orr_dataset_synthetic_entropy(uint32_t vocab);

/* For the files data_*.c. */
orr_status orr_dataset_new(const char *name, const orr_dataset_options *options, orr_dataset **ret,
                           orr_error *err) ORR_MUST_CHECK;
/* Tokens of a text, in the arena. */
orr_status orr_dataset_tokenize(const orr_dataset_options *options, const char *text, size_t len,
                                orr_arena *arena, int32_t **ret, size_t *ret_n,
                                orr_error *err) ORR_MUST_CHECK;
int32_t orr_dataset_end_token(const orr_dataset_options *options); /* -1: none */
/* A whole file, NUL-terminated, in the arena. */
orr_status orr_dataset_read_file(const char *path, orr_arena *arena, const char **ret,
                                 size_t *ret_len, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_DATA_DATASET_H */
