/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_HIT_RATE_H
#define ORR_HIT_RATE_H

#include <orrery/embedding.h>
#include <orrery/machine.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Hit rates of a row cache: which share of the lookups in an embedding table finds its row in
 * memory, by how many rows the cache has for the table. In closed form from the popularity of rows,
 * or counted in a trace; both come as a curve, which the planner of tables works with.
 *
 * A lookup hits where its row is in the cache, or was asked for before by a batch that still pins
 * it: of equal lookups in a batch the first alone can miss. Misses times the lookups of a batch are
 * therefore the rows that a batch reads from its tier. Threads: any. */
#define ORR_HIT_POLICY_MAP(X)                                                                      \
    X(STATIC, "static") /* the most popular rows and no others: the optimum of all policies that   \
                         * do not see ahead, where lookups are independent */                      \
    X(LFU, "lfu")       /* rows with most lookups in `history` */                                  \
    X(LRU, "lru")       /* rows looked up last */                                                  \
    X(LOOKAHEAD, "lookahead") /* rows of batches that are announced, then as LFU */
typedef enum orr_hit_policy {
#define ORR_HIT_POLICY_ENUM_(name, text) ORR_HIT_##name,
    ORR_HIT_POLICY_MAP(ORR_HIT_POLICY_ENUM_)
#undef ORR_HIT_POLICY_ENUM_
        ORR_HIT_POLICIES
} orr_hit_policy;
ORR_API const char *orr_hit_policy_name(orr_hit_policy policy);

typedef struct orr_hit_terms {
    uint8_t policy; /* orr_hit_policy */
    /* LFU, LOOKAHEAD: lookups of a batch in the table, whose rows stay until it ends, and batches
     * beside the present one whose rows stay as well. batch 0: each lookup for itself. */
    double batch, window;
    double history;       /* LFU, LOOKAHEAD: lookups in the table that a row's count is of; 0: so
                           * many that counts are the popularity */
    double repeated_frac; /* of lookups, repeat one of the last `repeated_window` lookups */
    double repeated_window;
} orr_hit_terms;

/* Hit rate of a cache of so many rows of the table; 0 rows: 0, all rows: 1, ascending between. A
 * cache too small for `window` batches is taken to have as much of them as fits.
 *
 * Lookups are independent but for repeated ones. LRU: Che's approximation (Che, Tung and Wang, IEEE
 * JSAC 20(7), 2002): a row is there if it was looked up in the last T lookups, T such that the
 * expected rows of T lookups fill the cache. LFU: the count of a row is Poisson. Repeated lookups
 * hit where what they repeat is still there. */
ORR_API double orr_hit_rate(const orr_popularity *popularity, const orr_hit_terms *terms,
                            double rows);

/* Hit rate by rows in the cache: points that ascend, straight lines between, from 0 rows to all. */
enum { ORR_HIT_CURVE_POINTS = 128 };
typedef struct orr_hit_curve {
    uint32_t n;
    double rows[ORR_HIT_CURVE_POINTS];
    double hit_frac[ORR_HIT_CURVE_POINTS];
} orr_hit_curve;
ORR_API void orr_hit_curve_of(const orr_popularity *popularity, const orr_hit_terms *terms,
                              orr_hit_curve *ret);
ORR_API double orr_hit_curve_at(const orr_hit_curve *curve, double rows);

/* The curve of lookups as they were recorded: `ids`, shape (n), in their order, of a table of
 * `table_rows` rows. LRU: every reuse distance is counted (Mattson et al., IBM Systems Journal
 * 9(2), 1970). Else rows are ranked by their lookups in the first half and hits are counted in the
 * second, so that no lookup is known before it is made; `history` and repeated lookups of the terms
 * have no effect. What the trace does not look up is the rest of the curve: a straight line to all
 * rows. INVALID: fewer than 2 lookups; an id that is none of the rows. */
ORR_API ORR_MUST_CHECK orr_status orr_hit_curve_of_trace(const int64_t *ids, int64_t n,
                                                         int64_t table_rows,
                                                         const orr_hit_terms *terms,
                                                         orr_hit_curve *ret, orr_error *err);

/* --- what a miss costs ------------------------------------------------------------------------ */

/* How large and how fast the tiers are that rows of embedding tables live on: memory and storage of
 * the catalogue, as one rank has them. */
#define ORR_TIER_CLEANING   2.0  /* assumed: half of what is cleaned is still live */
#define ORR_TIER_REQUEST_NS 5000 /* of one thread, a row read and written back: assumed */

/* What one rank has of a tier. */
typedef struct orr_tier_rates {
    const char *name; /* of the device, for people; "": not told */
    int64_t bytes;    /* 0: the rank has none */
    uint32_t sector_bytes;
    double read_iops, write_iops;               /* a second; 0: not limited */
    double read_bytes_per_s, write_bytes_per_s; /* 0: not limited */
    double read_ns;                             /* latency of a read */
    double request_ns;  /* of processor time, a row that is read and written back */
    const char *source; /* what the rates rest on */
} orr_tier_rates;
/* The tier that memory or storage of the catalogue can be, by its kind. */
ORR_API orr_tier orr_tier_of_memory(const orr_memory_tier *memory);
/* So many modules or drives of the catalogue, `bytes` of a rank together; the rest in the arena.
 * Sectors of drives are those that IOPS are published for, 4 KiB. INVALID: nobody says how fast it
 * reads or writes. */
ORR_API ORR_MUST_CHECK orr_status orr_tier_rates_of_memory(const orr_memory_tier *memory,
                                                           double count, int64_t bytes,
                                                           orr_arena *arena, orr_tier_rates *ret,
                                                           orr_error *err);
/* The share that each of `host_ranks` ranks has of a host's memory and drives, of each tier the
 * largest kind. INVALID: how much memory there is, or how fast a drive is, is not known. */
ORR_API ORR_MUST_CHECK orr_status orr_tiers_of_host(const orr_cluster *cluster, uint32_t host_ranks,
                                                    orr_arena *arena, orr_tier_rates ret[ORR_TIERS],
                                                    orr_error *err);

#ifdef __cplusplus
}
#endif

#endif /* ORR_HIT_RATE_H */
