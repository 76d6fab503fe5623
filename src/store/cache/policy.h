/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_STORE_CACHE_POLICY_H
#define ORR_STORE_CACHE_POLICY_H

/* Which row a cache evicts for another. Rows that an announced batch needs are evicted by none. */
#define ORR_CACHE_POLICY_MAP(X)                                                                    \
    X(LOOKAHEAD, "lookahead") /* the least often used, never one that an announced batch uses */   \
    X(LRU, "lru")             /* the longest unused */                                             \
    X(LFU, "lfu")             /* the least often used, by counts that age */
typedef enum orr_cache_policy {
#define ORR_CACHE_POLICY_ENUM_(name, text) ORR_CACHE_POLICY_##name,
    ORR_CACHE_POLICY_MAP(ORR_CACHE_POLICY_ENUM_)
#undef ORR_CACHE_POLICY_ENUM_
        ORR_CACHE_POLICIES
} orr_cache_policy;
const char *orr_cache_policy_name(orr_cache_policy policy);

#endif /* ORR_STORE_CACHE_POLICY_H */
