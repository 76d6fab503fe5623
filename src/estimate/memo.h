/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ESTIMATE_MEMO_H
#define ORR_ESTIMATE_MEMO_H

#include <stdbool.h>
#include <stdint.h>

/* What was built for a key, by key. One thread at a time. */
enum { ORR_MEMO_WORDS = 24 };
typedef struct orr_memo_key {
    uint32_t word[ORR_MEMO_WORDS]; /* all of them count: 0 where there is nothing */
} orr_memo_key;
typedef struct orr_memo_slot orr_memo_slot;
typedef struct orr_memo {
    orr_memo_slot *slots; /* open addressing, at most half full */
    uint32_t room, n;
} orr_memo;

void *orr_memo_find(const orr_memo *memo, const orr_memo_key *key); /* NULL: nothing */
/* The key must not be there yet. False: out of memory, nothing changed. */
bool orr_memo_add(orr_memo *memo, const orr_memo_key *key, void *value);
void orr_memo_done(orr_memo *memo);

/* Prices of transfers, forgotten when another one takes the seat. */
enum { ORR_MEMO_PRICES = 1 << 12 };
typedef struct orr_memo_price {
    uint64_t what;    /* bytes and collective       */
    uint32_t span_id; /* 0: empty; see estimate.h   */
    double ns;
} orr_memo_price;

#endif /* ORR_ESTIMATE_MEMO_H */
