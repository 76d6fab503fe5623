/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEXT_BPE_H
#define ORR_TEXT_BPE_H

#include "text/tokenizer.h"

/* Room for merging, used again for each piece of a text. Threads: one. */
typedef struct orr_bpe_merger orr_bpe_merger;
orr_status orr_bpe_merger_new(const orr_tokenizer *tokenizer, orr_bpe_merger **ret,
                              orr_error *err) ORR_MUST_CHECK;
void orr_bpe_merger_free(orr_bpe_merger *merger);

typedef struct orr_bpe_symbol {
    uint32_t at, len;   /* bytes of the text; len 0: merged into the one before it */
    int32_t id;         /* -1: no token is this                                    */
    int32_t prev, next; /* -1: none                                                */
} orr_bpe_symbol;

/* A piece of text: its symbols, then merges until none can be made. Time n log n of n symbols,
 * whatever the text. */
void orr_bpe_merger_begin(orr_bpe_merger *merger, const char *text);
orr_status orr_bpe_merger_add(orr_bpe_merger *merger, uint32_t at, uint32_t len, int32_t id,
                              orr_error *err) ORR_MUST_CHECK;
orr_status orr_bpe_merger_run(orr_bpe_merger *merger, orr_error *err) ORR_MUST_CHECK;
/* What is left, first to last; NULL: no more. */
const orr_bpe_symbol *orr_bpe_merger_next(const orr_bpe_merger *merger,
                                          const orr_bpe_symbol *after);

#endif /* ORR_TEXT_BPE_H */
