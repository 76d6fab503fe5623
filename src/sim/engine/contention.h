/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_ENGINE_CONTENTION_H
#define ORR_SIM_ENGINE_CONTENTION_H

#include "sim/engine/engine.h"
#include "sim/flow/flows.h"
#include "sim/engine/flow_classes.h"
#include "sim/engine/interference.h"

/* Contention: works whose length depends on what runs beside them, because they share a device or
 * links. Only these are events in a queue ordered by time (discrete-event simulation); the engine
 * settles all else without one.
 *
 * Why the two fit together (the lookahead argument of conservative discrete-event simulation).
 * Before an event is taken from the queue, everything that can be settled is. Every point that
 * is still unsettled then waits, directly or not, for the end of a task that is running or due,
 * hence for an event that is in the queue or later; lags are never negative, so no such point
 * can be before the next event. So every start before that event is in the queue already, and
 * events come in order of time. */
struct orr_contention {
    orr_interference overlap;
    bool shares_devices;       /* some slowdown by interference is asked for */
    orr_flows *flows;          /* NULL: links are not simulated */
    orr_flow_classes *classes; /* NULL: each flow by itself; not owned */
    orr_demands demands;
    orr_array(uint32_t) members;
    uint32_t n_graphs;
    const uint32_t **device_of_work; /* shape (D)(works): device within the graph; ORR_NONE: none */
    uint32_t *n_devices;             /* shape (D) */
    size_t *first_device;            /* shape (n_actors) */
    uint8_t algorithm;
    orr_error *err;
    orr_status status; /* first failure during a run */
};

/* *ret is NULL where nothing contends. Free with orr_contention_free(). */
orr_status orr_contention_new(const orr_engine *engine, const orr_transfer_pricer *pricer,
                              orr_contention **ret, orr_error *err) ORR_MUST_CHECK;
void orr_contention_free(orr_contention *contention); /* may be NULL */

/* Takes over a work that starts. False: its length is known and does not depend on others. */
bool orr_contention_takes_work(orr_engine *engine, uint32_t actor, uint32_t work, int64_t start_ns);
/* Takes over a rendezvous whose members have all arrived. */
bool orr_contention_takes_rendezvous(orr_engine *engine, uint32_t rendezvous);
/* Runs the next event, if there is one; points that it settles go on the engine's list. */
bool orr_contention_step(orr_engine *engine);

/* Lists the members of a transfer of `moved`, in the order of the group, and its demands in
 * `members` and `demands`; Any group of a class may be asked for. */
orr_status orr_contention_demands(orr_engine *engine, const orr_rendezvous_transfer *moved,
                                  uint32_t rendezvous) ORR_MUST_CHECK;
/* Starts the transfer of a rendezvous on the network of flows (contention_flows.c). */
orr_status orr_contention_start_flows(orr_engine *engine, uint32_t rendezvous, uint32_t task,
                                      int64_t now_ns) ORR_MUST_CHECK;
/* What links carried; nothing without a network of flows. */
orr_status orr_contention_link_use(const orr_engine *engine, int64_t begin_ns, orr_arena *arena,
                                   orr_simulation *ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_SIM_ENGINE_CONTENTION_H */
