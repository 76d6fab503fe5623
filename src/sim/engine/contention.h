/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_ENGINE_CONTENTION_H
#define ORR_SIM_ENGINE_CONTENTION_H

#include "sim/engine/engine.h"
#include "sim/flow/flows.h"
#include "sim/engine/interference.h"

/* Dynamic: works whose length depends on what else goes on meanwhile, by sharing a device or a
 * network. These need events in order of time; all else is settled as soon as it can be.
 *
 * Why that is right. Before an event is taken from the queue, all that can be settled is. What is
 * left unsettled then waits, directly or not, for the end of a task that is under way or due, hence
 * for an event that is in the queue or later; lags are never negative, so nothing that is yet to
 * be settled comes before the next event. So every start that lies before it is in the queue
 * already, and events come in order of time. */
struct orr_contention {
    orr_interference overlap;
    bool shares_devices; /* a slowdown is asked for */
    orr_flows *flows;    /* NULL: no network of flows */
    orr_demands demands;
    orr_array(uint32_t) members;
    uint32_t n_graphs;
    const uint32_t **device_of_work; /* shape (D)(works): of the graph's own; ORR_NONE: none */
    uint32_t *n_devices;             /* shape (D) */
    size_t *first_device;            /* shape (n_actors) */
    uint8_t algorithm;
    orr_error *err;
    orr_status status; /* the first failure inside a run */
};

/* NULL in *ret where nothing is dynamic. Free with orr_contention_free(). */
orr_status orr_contention_new(const orr_engine *engine, const orr_transfer_pricer *pricer,
                              orr_contention **ret, orr_error *err) ORR_MUST_CHECK;
void orr_contention_free(orr_contention *dynamic); /* NULL is allowed */

/* False: not dynamic, its length is known. */
bool orr_contention_takes_work(orr_engine *engine, uint32_t actor, uint32_t work, int64_t start_ns);
/* All members have arrived. */
bool orr_contention_takes_rendezvous(orr_engine *engine, uint32_t rendezvous);
/* The next event, if there is one; what it sets free is on the engine's list. */
bool orr_contention_step(orr_engine *engine);

/* The transfer of a rendezvous sets out on the network of flows (dynamic_flows.c). */
orr_status orr_contention_start_flows(orr_engine *engine, uint32_t rendezvous, uint32_t task,
                                      int64_t now_ns) ORR_MUST_CHECK;
/* What the links carried; nothing without a network of flows. */
orr_status orr_contention_link_use(const orr_engine *engine, int64_t begin_ns, orr_arena *arena,
                                   orr_simulation *ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_SIM_ENGINE_CONTENTION_H */
