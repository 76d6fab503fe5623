/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ANALYSIS_LAUNCH_ATTRIBUTION_H
#define ORR_ANALYSIS_LAUNCH_ATTRIBUTION_H

#include "analysis/common.h"

/* The device work that host nodes own, through the calls below them that launched it. */
typedef struct orr_attributed_work {
    orr_node_id owner;
    const orr_node_id *work; /* shape (n), n > 0 */
    size_t n;
} orr_attributed_work;

/* Group work of these classes by owner_of[its call] (shape (N), ORR_NONE: of nobody),
 * by owner; inside, by time of launch or by time of start. */
typedef enum orr_attributed_order {
    ORR_ATTRIBUTED_BY_LAUNCH,
    ORR_ATTRIBUTED_BY_START
} orr_attributed_order;
orr_status orr_attribute_work(const orr_view *view, const orr_work_list *work, unsigned classes,
                              const orr_node_id *owner_of, orr_attributed_order order,
                              orr_arena *arena, const orr_attributed_work **ret, size_t *ret_n,
                              orr_error *err) ORR_MUST_CHECK;

/* Number of the sequence "name of the owner, names of its work" in `tab`: equal
 * sequences, equal number. UINT32_MAX: out of memory. */
struct orr_strtab;
uint32_t orr_attributed_sequence(const orr_graph *g, const orr_attributed_work *owned,
                                 struct orr_strtab *tab, orr_arena *arena);

/* Names of the work, joined; with the owner's name in front where `owner_too`. NULL: out of
 * memory. */
const char *orr_attributed_text(const orr_graph *g, const orr_attributed_work *owned,
                                bool owner_too, const char *separator, orr_arena *arena);

#endif /* ORR_ANALYSIS_LAUNCH_ATTRIBUTION_H */
