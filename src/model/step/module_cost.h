/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_STEP_MODULE_COST_H
#define ORR_MODEL_STEP_MODULE_COST_H

#include <orrery/calibration.h>
#include <orrery/ensemble.h>

#include "model/module/module.h"
#include "model/plan/groups.h"

/* What a job on a cluster pays: for kernels, and for transfers along each axis. A link may be
 * slower than others, and a device another one: then there are several of these, see
 * outcome/heterogeneous.h. */
typedef struct orr_step_prices {
    const orr_job_rates *kernels;
    const orr_job_rates *transfers[ORR_AXES];
    const orr_job_rates *sums[ORR_AXES]; /* of gradients, where they are compressed; NULL: as
                                          * all transfers of the axis                     */
    orr_span span[ORR_AXES]; /* n_ranks 0 or 1: nothing travels along it                      */
    uint32_t members[ORR_AXES];
    double stretch; /* at least 1: what all takes longer among so many ranks, jitter */
    bool graphs;    /* kernels are launched in CUDA graphs                           */
    bool eager;     /* kernels are those of an eager framework: plan.fusion off      */
} orr_step_prices;
/* All transfers at the same rates. */
orr_status orr_step_prices_of(const orr_plan *plan, const orr_job_rates *rates,
                              orr_step_prices *ret, orr_error *err) ORR_MUST_CHECK;
/* With what the plan says of how bytes travel: wires by class of traffic, the algorithm and the
 * pieces of reductions of gradients, what these are compressed to above the level of sites. The
 * rates that it makes live in the arena. */
orr_status orr_step_prices_wire(const orr_plan *plan, const orr_job_rates *rates, orr_arena *arena,
                                orr_step_prices *prices, orr_error *err) ORR_MUST_CHECK;
/* Rates of a collective along an axis. */
static inline const orr_job_rates *orr_step_rates(const orr_step_prices *prices, orr_axis axis,
                                                  orr_collective collective)
{
    const bool sums = collective == ORR_COLL_ALL_REDUCE || collective == ORR_COLL_REDUCE_SCATTER;
    return sums && prices->sums[axis] != NULL ? prices->sums[axis] : prices->transfers[axis];
}
/* Bytes as orr_collective_price() takes them. */
orr_price orr_step_transfer(const orr_step_prices *prices, orr_axis axis, orr_collective collective,
                            int64_t bytes);
orr_price orr_step_kernel(const orr_step_prices *prices, const orr_work *work);
int64_t orr_step_jittered_ns(const orr_step_prices *prices, int64_t ns);
/* Of a collective among n members, what one of them sends: with the ring's bytes, whatever the
 * algorithm (Thakur, Rabenseifner, Gropp, IJHPCA 19, 2005). */
double orr_step_sent_bytes(orr_collective collective, uint32_t members, int64_t bytes);

/* What one module does in one phase of one micro-batch, in order, priced. Views are left out, and
 * transfers among one. */
typedef struct orr_call_cost {
    uint8_t axis;       /* ORR_AXIS_NONE: computation; else a collective along it              */
    uint8_t collective; /* orr_collective                                                      */
    bool beside;        /* a collective that runs beside what follows until `joins`            */
    uint8_t basis;      /* orr_basis                                                           */
    bool again;         /* computed again                                                      */
    uint32_t joins;     /* where beside: task of the phase that waits for it; n: its end       */
    uint32_t call;      /* of the tape                                                         */
    int64_t ns, bytes;
    int64_t hidden_ns; /* of a transfer in pieces: what goes beside its product, not in ns    */
    double flops;
} orr_call_cost;
typedef struct orr_phase_cost {
    const orr_call_cost *tasks; /* shape (n) */
    uint32_t n;
    int64_t span_ns;               /* from its beginning to its end                           */
    int64_t compute_ns, again_ns;  /* of them alone; again: computed again, also in compute_ns */
    int64_t transfer_ns[ORR_AXES]; /* that computation waits for: the rest of the span computes */
    int64_t busy_ns[ORR_AXES];     /* that transfers take, beside or not                      */
    double sent_bytes[ORR_AXES];
    double flops, again_flops;
    uint8_t basis; /* of most of its time                                     */
} orr_phase_cost;
/* FORWARD; BACKWARD: recomputation, input and weight gradients as recorded; INPUT: recomputation
 * and input gradients; WEIGHT. */
typedef struct orr_module_cost {
    orr_phase_cost phase[ORR_SLOT_PHASES];
} orr_module_cost;
orr_status orr_module_cost_of(const orr_module *module, const orr_plan *plan,
                              const orr_job_rates *rates, orr_arena *arena, orr_module_cost *ret,
                              orr_error *err) ORR_MUST_CHECK;
orr_status orr_module_cost_at(const orr_module *module, const orr_plan *plan,
                              const orr_step_prices *prices, orr_arena *arena, orr_module_cost *ret,
                              orr_error *err) ORR_MUST_CHECK;

/* Tasks in time. One phase runs alone; two at once (DualPipe's pairs) share the device, and the
 * transfers of one go beside the computation of the other. Tells where each task begins, in an
 * order in which each comes after what it waits for. */
typedef struct orr_phase_simulation {
    int64_t span_ns;
    int64_t waited_ns[ORR_AXES]; /* nothing was computed, and something travelled along the axis */
} orr_phase_simulation;
typedef struct orr_phase_sequence {      /* phases one after the other */
    const orr_phase_cost *const *phases; /* shape (n) */
    uint32_t n;
} orr_phase_sequence;
typedef void orr_phase_call_visit(void *ctx, uint32_t sequence, uint32_t phase, uint32_t task);
/* `visit` may be NULL. `n`: 1 or 2. `compute_slowdown`: times as long, while something travels. */
void orr_simulate_phases(const orr_phase_sequence *sequences, uint32_t n, double compute_slowdown,
                         orr_phase_call_visit *visit, void *ctx, orr_phase_simulation *ret);

/* Parameters of a module on one rank, in elements, by who else has them. */
typedef struct orr_module_weights {
    int64_t dense, expert; /* with a gradient: same on all of GRADIENT, of EDP              */
    int64_t sliced, tied;  /* of `dense`: gradients are summed along TP, TIED, too          */
    int64_t gathered, expert_gathered; /* all of both, also the frozen: what FSDP gathers     */
} orr_module_weights;
void orr_module_weights_of(const orr_module *module, orr_module_weights *ret);

#endif /* ORR_MODEL_STEP_MODULE_COST_H */
