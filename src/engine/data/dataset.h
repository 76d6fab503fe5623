/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_DATA_DATASET_H
#define ORR_ENGINE_DATA_DATASET_H

#include <orrery/text.h>

/* Training data: an endless sequence of samples, the same on every rank. With batches of B, batch
 * number s has samples s B .. (s + 1) B - 1, however many ranks share them; a checkpoint therefore
 * need only record which batches have been trained. */
typedef struct orr_dataset_sample { /* shapes (tokens) */
    int64_t *tokens, *targets;
    float *weights; /* weight of each target in the loss: 0 or 1 */
} orr_dataset_sample;

typedef struct orr_dataset orr_dataset;
struct orr_dataset {
    const char *name; /* "text", "talk", "synthetic" */
    int64_t tokens;   /* of a sample */
    uint64_t n;       /* samples of an epoch; 0: no epochs */
    uint64_t seed;
    orr_arena *arena;
    void *ctx;
    /* Sample `index` of the data, unshuffled, below n where there are epochs. */
    void (*fill)(const orr_dataset *self, uint64_t index, const orr_dataset_sample *ret);
    /* Number of targets in it that count. */
    int64_t (*counted)(const orr_dataset *self, uint64_t index);
    uint64_t epoch;  /* the epoch that `order` is for */
    uint32_t *order; /* shape (n); NULL: unshuffled */
};
/* Sample `number` of the sequence, in its epoch's order: shuffled by the seed, differently in each
 * epoch. */
uint64_t orr_dataset_index(orr_dataset *batches, uint64_t number); /* its index in the data */
void orr_dataset_fill(orr_dataset *batches, uint64_t number, const orr_dataset_sample *ret);
int64_t orr_dataset_loss_tokens(orr_dataset *batches, uint64_t number);
void orr_dataset_free(orr_dataset *batches); /* NULL is allowed */

/* How text becomes tokens. `tokenizer` NULL: bytes, with 256 as the end of a text. */
typedef struct orr_dataset_options {
    const char *path;
    const orr_tokenizer *tokenizer;
    int64_t tokens; /* of a sample */
    uint32_t vocab; /* of the model: no token may exceed it */
    uint64_t seed;
} orr_dataset_options;
/* Plain text (pretraining): a file, or the files of a folder by name, each a document. Documents
 * are concatenated with an end token after each and cut into windows (packing): a document may be
 * split. Errors: IO; INVALID: a token outside the vocabulary, less text than one sample. */
orr_status orr_dataset_text(const orr_dataset_options *options, orr_dataset **ret,
                            orr_error *err) ORR_MUST_CHECK;
/* Conversations (SFT), a JSON object per line: {"messages": [{"role", "content"}]} or {"prompt",
 * "completion"}; only the assistant's tokens count in the loss. One per sample, cut or padded.
 * Errors: IO; PARSE and INVALID with the line. */
orr_status orr_dataset_conversations(const orr_dataset_options *options, orr_dataset **ret,
                                     orr_error *err) ORR_MUST_CHECK;
/* Preferences (DPO), a JSON object per line: {"prompt", "chosen", "rejected"}. A sample is the
 * conversation with the chosen answer, followed by that with the rejected one: twice the tokens
 * asked for. Errors as above. */
orr_status orr_dataset_preferences(const orr_dataset_options *options, orr_dataset **ret,
                                   orr_error *err) ORR_MUST_CHECK;
/* Prompts (RL), a JSON object per line: {"prompt"}. A sample is one prompt with weights of 1,
 * followed by room for at least one token. */
orr_status orr_dataset_prompts(const orr_dataset_options *options, orr_dataset **ret,
                               orr_error *err) ORR_MUST_CHECK;
/* Synthetic tokens that follow a noisy rule, learnable down to a known loss
 * (orr_dataset_synthetic_entropy()). */
orr_status orr_dataset_synthetic(const orr_dataset_options *options, orr_dataset **ret,
                                 orr_error *err) ORR_MUST_CHECK;
double orr_dataset_synthetic_entropy(uint32_t vocab);

/* For the files of this folder. */
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
