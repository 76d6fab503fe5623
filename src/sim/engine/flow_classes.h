/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_ENGINE_FLOW_CLASSES_H
#define ORR_SIM_ENGINE_FLOW_CLASSES_H

#include "base/strtab.h"
#include "sim/engine/engine.h"
#include "sim/flow/flows.h"

/* Folding where transfers share links: classes of ranks, groups, flows and links that are equitable
 * together (symmetry/fold.h), so that one flow stands for its class in the fair shares of one link
 * of each class, exactly.
 *
 * A pattern is the demands of a transfer without their bytes: which members of a group of a
 * grouping send to which, and which of them send equally much. All transfers of a pattern have the
 * same classes of flows. Patterns that are never under way together on one link do not
 * disturb each other: they are of different components, and a link has a class in each, so that a
 * tree through all ranks, of which no two links are alike, splits nothing that it does not meet.
 * Which patterns meet is known only afterwards: at first each is a component. A simulation in which
 * two of different components met on a link has used classes that are too coarse; these components
 * become one, and it begins again. As components only merge, this ends, and the last simulation
 * has met nothing new: its classes are right. */
typedef struct orr_flow_classes orr_flow_classes;

/* Lists the patterns of all groups. `coarse`: an engine in which contention is set up, whose fold
 * `fold` is that of ranks and groups alone. *ret is NULL where there are too many flows to fold.
 * Free with orr_flow_classes_free(). Errors: NO_MEMORY; those of orr_flows_of_collective(). */
orr_status orr_flow_classes_new(orr_engine *coarse, const orr_fold *fold, orr_flow_classes **ret,
                                orr_error *err) ORR_MUST_CHECK;
void orr_flow_classes_free(orr_flow_classes *classes); /* may be NULL */
/* Finds the classes by what is known of components; `fabric`: that of the cluster. Errors:
 * NO_MEMORY, LIMIT. */
orr_status orr_flow_classes_fold(orr_flow_classes *classes, const struct orr_fabric *fabric,
                                 const orr_prepared_program *prepared_programs,
                                 const orr_cluster *cluster, orr_arena *arena, orr_fold *ret,
                                 orr_error *err) ORR_MUST_CHECK;
/* Classes of links, valid until the next fold. */
const orr_link_classes *orr_flow_classes_links(const orr_flow_classes *classes);

/* The pattern of a transfer with these demands. ORR_NONE: out of memory. */
uint32_t orr_flow_classes_pattern(orr_flow_classes *classes, const orr_rendezvous_transfer *moved,
                                  const orr_demands *demands);
/* Begins a transfer of a pattern in the first group of its class; tag `task`. Errors: NO_MEMORY;
 * CANCELED: the group has no such pattern. */
orr_status orr_flow_classes_begin(orr_flow_classes *classes, orr_flows *flows,
                                  const orr_rendezvous_transfer *moved, uint32_t pattern,
                                  const orr_demands *demands, uint32_t task, int64_t now_ns,
                                  orr_error *err) ORR_MUST_CHECK;
/* The transfer of that task has ended. */
void orr_flow_classes_end(orr_flow_classes *classes, uint32_t task);

typedef enum orr_flow_verdict {
    ORR_FLOWS_RIGHT,  /* nothing met but within components */
    ORR_FLOWS_MET,    /* components were merged: fold and simulate again */
    ORR_FLOWS_STRANGE /* a transfer was of no pattern: simulate every rank */
} orr_flow_verdict;
orr_flow_verdict orr_flow_classes_verdict(const orr_flow_classes *classes);

#endif /* ORR_SIM_ENGINE_FLOW_CLASSES_H */
