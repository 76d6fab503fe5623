/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TIER_RATES_H
#define ORR_TIER_RATES_H

#include <orrery/embedding.h>
#include <orrery/machine.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How large and how fast the tiers are that rows of embedding tables live on: memory and storage of
 * the catalogue, as one rank has them. Threads: any. */
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

#endif /* ORR_TIER_RATES_H */
