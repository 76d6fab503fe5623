/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEXT_TOKENIZER_H
#define ORR_TEXT_TOKENIZER_H

#include "text/tokenizer_build.h"

/* Hash table from bytes to the piece with that text. */
typedef struct orr_piece_table {
    uint32_t *slots; /* id + 1; 0: free. A power of two of slots */
    uint32_t mask;
    uint32_t longest; /* piece, bytes */
} orr_piece_table;

struct orr_tokenizer {
    orr_arena *arena;
    orr_tokenizer_spec parts;
    orr_tokenizer_info facts;
    orr_piece_table normal;      /* pieces that merges can produce */
    orr_piece_table special;     /* CONTROL and USER                               */
    uint64_t special_lengths[2]; /* bit n: some special piece has n bytes; 0..127 */
    bool begins_special[256];
    bool has_user;
    uint32_t *ranks; /* shape (n): for SCORES, the highest score first */
    uint32_t *pairs; /* merge + 1 by the hash of left and right */
    uint32_t pairs_mask;
    orr_text *shown;      /* shape (n): the text of each token */
    int32_t of_byte[256]; /* id of the token for a byte, or -1 */
};

int32_t orr_piece_find(const orr_tokenizer *t, const orr_piece_table *table, const char *text,
                       size_t len);
/* The merge of two tokens, or UINT32_MAX. */
uint32_t orr_bpe_merge_find(const orr_tokenizer *t, uint32_t left, uint32_t right);
/* U+2581, which stands for a space. */
#define ORR_SPACE_MARK "\xe2\x96\x81"
enum { ORR_SPACE_MARK_BYTES = 3, ORR_SPECIAL_BYTES_MAX = 127 };

#endif /* ORR_TEXT_TOKENIZER_H */
