/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_STEP_MODULE_COST_H
#define ORR_MODEL_STEP_MODULE_COST_H

#include <orrery/calibration.h>
#include <orrery/ensemble.h>

#include "model/experts/skew.h"
#include "model/module/module.h"
#include "model/plan/groups.h"
#include "model/tables/fetch.h"

/* Prices of a job on a cluster: rates for kernels and for transfers along each axis.
 * Heterogeneous jobs, with a slower link or another device somewhere, have several of these; see
 * outcome/heterogeneous/. */
typedef struct orr_step_prices {
    const orr_job_rates *kernels;
    const orr_job_rates *transfers[ORR_AXES];
    const orr_job_rates *sums[ORR_AXES]; /* of gradient reductions, where gradients are
                                          * compressed; NULL: as all transfers of the axis */
    orr_span span[ORR_AXES];             /* n_ranks 0 or 1: no transfers along it */
    uint32_t members[ORR_AXES];
    double stretch; /* jitter factor, at least 1: by which everything takes longer among so many
                     * ranks */
    bool graphs;    /* kernels are launched in CUDA graphs */
    bool eager;     /* kernels of an eager framework: plan.fusion off */
} orr_step_prices;
/* Prices with the same rates for all transfers. */
orr_status orr_step_prices_of(const orr_plan *plan, const orr_job_rates *rates,
                              orr_step_prices *ret, orr_error *err) ORR_MUST_CHECK;
/* Prices with the plan's transport settings: RDMA transport by class of traffic, algorithm and
 * chunks of gradient reductions, and gradient compression above the level of sites. Rates that
 * are made for it are in the arena. */
orr_status orr_step_prices_wire(const orr_plan *plan, const orr_job_rates *rates, orr_arena *arena,
                                orr_step_prices *prices, orr_error *err) ORR_MUST_CHECK;
/* The transport (orr_rdma_preset) that the plan chooses for the traffic of an axis. */
uint8_t orr_step_wire_setting(const orr_plan *plan, orr_axis axis);
/* Rates of a collective along an axis. */
static inline const orr_job_rates *orr_step_rates(const orr_step_prices *prices, orr_axis axis,
                                                  orr_collective collective)
{
    const bool sums = collective == ORR_COLL_ALL_REDUCE || collective == ORR_COLL_REDUCE_SCATTER;
    return sums && prices->sums[axis] != NULL ? prices->sums[axis] : prices->transfers[axis];
}
/* Price of a transfer; bytes as orr_collective_price() takes them. */
orr_price orr_step_transfer(const orr_step_prices *prices, orr_axis axis, orr_collective collective,
                            int64_t bytes);
orr_price orr_step_kernel(const orr_step_prices *prices, const orr_work *work);
/* Share of a transfer beside the slots of a stage by which its computation takes longer: what
 * cannot be hidden, and what computation loses meanwhile. It is charged whenever the transfer is
 * sent, so that a step never takes longer because something else ended earlier. */
static inline double orr_step_exposed_frac(const orr_calibration *c)
{
    const double slowed = c->compute_slowdown > 1 ? 1 - 1 / c->compute_slowdown : 0;
    return c->dp_exposed + slowed < 1 ? c->dp_exposed + slowed : 1;
}
/* A collective beside its link: its call, which a graph does not have. */
static inline int64_t orr_step_call_ns(const orr_step_prices *prices)
{
    return prices->graphs ? 0 : (int64_t)prices->kernels->calibration->collective_ns;
}
int64_t orr_step_jittered_ns(const orr_step_prices *prices, int64_t ns);
/* Bytes that one of n members sends in a collective: those of the ring algorithm, whichever is
 * used (Thakur, Rabenseifner, Gropp, IJHPCA 19, 2005). */
double orr_step_sent_bytes(orr_collective collective, uint32_t members, int64_t bytes);

/* One task of a phase: a call of the tape with its price. Views, and transfers among a single
 * member, are no tasks. */
typedef struct orr_call_cost {
    uint8_t axis;       /* ORR_AXIS_NONE: computation; else a collective along it */
    uint8_t collective; /* orr_collective */
    bool beside;        /* a collective that overlaps the tasks after it, until `joins` */
    uint8_t basis;      /* orr_basis */
    bool again;         /* recomputation */
    uint32_t joins;     /* of an overlapped collective: task of the phase that waits for it; n:
                         * the phase's end */
    uint32_t call;      /* of the tape; ORR_NONE: none, it has a name */
    const char *name;
    int64_t ns, bytes;
    double sent_bytes; /* of a transfer, by a rank */
    double flops;
    double busy_sms_frac; /* of a transfer: multiprocessors that it takes from computation */
} orr_call_cost;
/* Price of an all-to-all along EP by the plan's token dispatcher. Sets the task's collective and
 * bytes: with ALLGATHER it is no all-to-all, with FLEX its bytes are those that cross a network
 * (within one host, those that leave a rank). */
orr_price orr_step_expert_transfer(const orr_step_prices *prices, const orr_plan *plan,
                                   const orr_module *module, const orr_tape_call *call,
                                   const orr_port_skew *ports, orr_call_cost *task);
/* How full the ports are, of modules with uneven routing; orr_step_expert_transfer() takes NULL for
 * others. */
orr_port_skew orr_step_port_skew(const orr_step_prices *prices, const orr_plan *plan,
                                 const orr_layer_skew *skew);
/* Price of a grouped product of a module with uneven routing: that of the rank which takes
 * longest. */
orr_price orr_step_expert_product(const orr_step_prices *prices, const orr_module *module,
                                  const orr_tape_call *call, const orr_work *work);
/* Whether a collective moves the scores of tokens, one a row, or the scales of quantised ones,
 * which are sent with them in one message (or, where tokens are quantised after they have arrived,
 * not at all). */
bool orr_step_scales_travel_along(const orr_tape *tape, const orr_tape_call *call);
typedef struct orr_phase_cost {
    const orr_call_cost *tasks;    /* shape (n) */
    uint32_t n, launches;          /* tasks; calls that the host launches */
    int64_t device_ns;             /* from start to end, if the host keeps up */
    int64_t span_ns;               /* from start to end of the phase, with waits for the host */
    int64_t compute_ns, again_ns;  /* of its tasks; again: recomputation, also in compute_ns */
    int64_t transfer_ns[ORR_AXES]; /* exposed transfer time; the rest of the span is computation */
    int64_t busy_ns[ORR_AXES];     /* transfer time, exposed or not */
    double sent_bytes[ORR_AXES];
    double flops, again_flops;
    uint8_t basis; /* of most of its time */
} orr_phase_cost;
/* Phases: FORWARD; BACKWARD: recomputation, input and weight gradients as recorded; INPUT:
 * recomputation and input gradients; WEIGHT. */
typedef struct orr_module_cost {
    orr_phase_cost phase[ORR_SLOT_PHASES];
    orr_tables_fetch fetch; /* beside them, of rows of tables outside memory */
} orr_module_cost;
orr_status orr_module_cost_of(const orr_module *module, const orr_plan *plan,
                              const orr_job_rates *rates, orr_arena *arena, orr_module_cost *ret,
                              orr_error *err) ORR_MUST_CHECK;
orr_status orr_module_cost_at(const orr_module *module, const orr_plan *plan,
                              const orr_step_prices *prices, orr_arena *arena, orr_module_cost *ret,
                              orr_error *err) ORR_MUST_CHECK;

/* Result of simulating tasks in time. One phase runs alone; two at once (DualPipe's pairs) share
 * the device, and transfers of one overlap computation of the other. Tasks are reported in an
 * order in which each comes after what it waits for. */
typedef struct orr_phase_simulation {
    int64_t span_ns;
    int64_t waited_ns[ORR_AXES]; /* time without computation, while a transfer along the axis was
                                  * under way */
} orr_phase_simulation;
typedef struct orr_phase_sequence {      /* phases one after another */
    const orr_phase_cost *const *phases; /* shape (n) */
    uint32_t n;
} orr_phase_sequence;
typedef void orr_phase_call_visit(void *ctx, uint32_t sequence, uint32_t phase, uint32_t task,
                                  int64_t ns);
/* Simulates `n` sequences, 1 or 2. `visit` may be NULL; its `ns` is the time that the task takes
 * there. `compute_slowdown`: factor on computation while a transfer is under way. */
void orr_simulate_phases(const orr_phase_sequence *sequences, uint32_t n, double compute_slowdown,
                         orr_phase_call_visit *visit, void *ctx, orr_phase_simulation *ret);

/* Time of simulated sequences beyond `device_ns` because the host has to launch all their calls. */
int64_t orr_step_launch_wait(const orr_step_prices *prices, const orr_phase_sequence *sequences,
                             uint32_t n, int64_t device_ns);

/* Parameters of a module on one rank, in elements, by who holds the same ones. */
typedef struct orr_module_weights {
    int64_t dense, expert; /* with a gradient; same on all ranks of GRADIENT, of EDP */
    int64_t sliced, tied;  /* of `dense`: gradients are summed along TP, along TIED, too */
    int64_t gathered, expert_gathered; /* all of both, also frozen ones: what FSDP gathers */
} orr_module_weights;
void orr_module_weights_of(const orr_module *module, orr_module_weights *ret);

#endif /* ORR_MODEL_STEP_MODULE_COST_H */
