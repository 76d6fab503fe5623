/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_TABLES_TIER_RECORD_H
#define ORR_MODEL_TABLES_TIER_RECORD_H

#include <orrery/hit_rate.h>

/* Rows that batches in flight need on a rank vary from step to step: assumed. */
#define ORR_TIER_PINNED_MARGIN 1.05

/* What a row with its optimizer state, so many bytes, takes on a tier. */
typedef struct orr_tier_record {
    double sectors; /* as many as it needs, or the part of one that it has */
    double miss_ns; /* it is read with its sectors, and written back: in place, or as part of an
                     * extent, whichever is faster */
} orr_tier_record;
orr_tier_record orr_tier_record_of(const orr_tier_rates *rates, double bytes);

#endif /* ORR_MODEL_TABLES_TIER_RECORD_H */
