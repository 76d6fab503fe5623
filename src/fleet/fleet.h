/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_FLEET_FLEET_H
#define ORR_FLEET_FLEET_H

#include <orrery/fleet.h>

#include "base/philox.h"
#include "machine/catalog/embedded_files.h"

/* Interface between the files of the room: the embedded catalog and the source of failures. */

/* The files of catalog/failures, embedded at build time by tools/embed.py. */
extern const orr_catalog_file orr_failure_files[];
extern const size_t orr_n_failure_files;

int64_t orr_fleet_draw(const orr_fleet_time *time, orr_random *random);
int64_t orr_fleet_exponential(orr_random *random, double mean_ns);

/* --- failures (faults.c) --------------------------------------------------------------------- */

typedef enum orr_fault_scope { ORR_FAULT_NODE, ORR_FAULT_RACK, ORR_FAULT_BUILDING } orr_fault_scope;
typedef struct orr_node_fault {
    int64_t at_ns;
    uint32_t first, n; /* range of nodes */
    uint32_t category; /* index into the table; beyond it: rack, building, planned */
    uint8_t kind;      /* orr_failure_kind */
    uint8_t scope;     /* orr_fault_scope  */
    bool replace, lemon;
} orr_node_fault;

/* The sequence of all failures of a cluster. It does not depend on what the job does, so that
 * policies are compared under the same failures. The time to the next failure is exponential, and a
 * node is drawn by its rate; rates change only when a lemon is found or replaced. */
typedef struct orr_fault_source {
    const orr_fleet_options *options;
    orr_random random;
    uint32_t nodes, racks, buildings;
    double weight[5]; /* failures per ns of: plain nodes, lemons, racks, buildings, planned */
    uint32_t n_lemons;
    uint32_t *lemons; /* shape (nodes): the first n_lemons are lemons */
    uint32_t *place;  /* shape (nodes): index of a node in `lemons` */
    uint16_t *count;  /* shape (nodes): failures of the present node */
    uint32_t evict_after, worst;
    double shares[ORR_FLEET_CATEGORIES]; /* cumulative shares of categories */
    int64_t now_ns;
    uint64_t regular; /* number of failures at regular intervals */
    orr_node_fault next;
} orr_fault_source;
orr_status orr_fault_source_init(orr_fault_source *source, const orr_fleet_options *options,
                                 uint32_t repetition, orr_error *err) ORR_MUST_CHECK;
void orr_fault_source_done(orr_fault_source *source);
/* Draws the failure after source->next; at_ns INT64_MAX: none. */
void orr_fault_source_next(orr_fault_source *source);

/* The value of a number setting, or 0. */
static inline double orr_fleet_number(const orr_fleet_options *options, orr_fleet_numbers which)
{
    return orr_fact_or(&options->numbers[which], 0);
}
orr_status orr_fleet_check(const orr_fleet_options *options, const orr_fleet_policy *policy,
                           orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_FLEET_FLEET_H */
