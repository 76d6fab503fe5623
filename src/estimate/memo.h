/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ESTIMATE_MEMO_H
#define ORR_ESTIMATE_MEMO_H

#include <stdbool.h>
#include <stdint.h>

/* Memoization: hash table from a key to the object built for it. One thread at a time. */
enum { ORR_MEMO_WORDS = 28 };
typedef struct orr_memo_key {
    uint32_t word[ORR_MEMO_WORDS]; /* all words are compared; unused ones are 0 */
} orr_memo_key;
typedef struct orr_memo_slot orr_memo_slot;
typedef struct orr_memo {
    orr_memo_slot *slots; /* open addressing, at most half full */
    uint32_t room, n;
} orr_memo;

void *orr_memo_find(const orr_memo *memo, const orr_memo_key *key); /* NULL: not built yet */
/* The key must be new. False: out of memory, nothing changed. */
bool orr_memo_add(orr_memo *memo, const orr_memo_key *key, void *value);
void orr_memo_done(orr_memo *memo);

/* Direct-mapped cache of transfer prices. */
enum { ORR_MEMO_PRICES = 1 << 12 };
typedef struct orr_memo_price {
    uint64_t what;    /* bytes and collective */
    uint32_t span_id; /* 0: empty; see estimate.h */
    double ns;
} orr_memo_price;

#endif /* ORR_ESTIMATE_MEMO_H */
