/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_STORE_SERVE_RATE_CAP_H
#define ORR_STORE_SERVE_RATE_CAP_H

#include <stdatomic.h>
#include <stdint.h>

/* A cap on reads a second that many threads share without a lock: a token bucket in the form of one
 * number, the time until which reads have been granted (generic cell rate algorithm, ITU-T I.371).
 * A thousandth of a second's reads may come at once. */
typedef struct orr_rate_cap {
    _Atomic int64_t granted_until_ns;
    double ns_each; /* 0: no cap */
    int64_t burst_ns;
} orr_rate_cap;

void orr_rate_cap_init(orr_rate_cap *cap, double per_second); /* 0: no cap */
/* Takes n reads; they may begin at the time that is returned, at or after now. */
int64_t orr_rate_cap_take(orr_rate_cap *cap, uint32_t n, int64_t now_ns);

#endif /* ORR_STORE_SERVE_RATE_CAP_H */
