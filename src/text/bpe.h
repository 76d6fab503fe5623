/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEXT_BPE_H
#define ORR_TEXT_BPE_H

#include "text/tokenizer.h"

/* State of merging, reused for each piece of a text. Threads: one. */
typedef struct orr_bpe_merger orr_bpe_merger;
orr_status orr_bpe_merger_new(const orr_tokenizer *tokenizer, orr_bpe_merger **ret,
                              orr_error *err) ORR_MUST_CHECK;
void orr_bpe_merger_free(orr_bpe_merger *merger);

typedef struct orr_bpe_symbol {
    uint32_t at, len;   /* bytes of the text; len 0: merged into the symbol before */
    int32_t id;         /* -1: not a token */
    int32_t prev, next; /* -1: none                                                */
} orr_bpe_symbol;

/* Adds symbols of a piece, then merges until no pair is left. Time n log n in symbols, for any
 * text. */
void orr_bpe_merger_begin(orr_bpe_merger *merger, const char *text);
orr_status orr_bpe_merger_add(orr_bpe_merger *merger, uint32_t at, uint32_t len, int32_t id,
                              orr_error *err) ORR_MUST_CHECK;
orr_status orr_bpe_merger_run(orr_bpe_merger *merger, orr_error *err) ORR_MUST_CHECK;
/* The remaining symbols, first to last; NULL: no more. */
const orr_bpe_symbol *orr_bpe_merger_next(const orr_bpe_merger *merger,
                                          const orr_bpe_symbol *after);

#endif /* ORR_TEXT_BPE_H */
