/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_COST_H
#define ORR_COST_H

#include <orrery/graph.h>
#include <orrery/machine.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Cost models: predicted time of an operator on a device, and of a collective on a cluster, with
 * what the prediction rests on.
 *
 * Kernels: work (shapes, FLOPs, bytes) x device -> ns, by a chain of models: the first that
 * answers wins. Host: overheads T1..T5 by operator name. Network: closed forms by algorithm and
 * level (alpha-beta). */

#define ORR_BASIS_MAP(X)                                                                           \
    X(NONE, "none")         /* takes no time, or nothing could be said               */            \
    X(RECORDED, "recorded") /* the recording's own duration                          */            \
    X(TABLE, "table")       /* interpolated between measurements                     */            \
    X(LEARNED, "learned")   /* boosted trees fitted to measurements                  */            \
    X(ROOFLINE, "roofline") /* FLOPs and bytes over what the device reaches          */            \
    X(FITTED, "fitted")     /* closed form whose constants were fitted: collectives  */            \
    X(ASSUMED, "assumed")
typedef enum orr_basis {
#define ORR_BASIS_ENUM_(name, text) ORR_BASIS_##name,
    ORR_BASIS_MAP(ORR_BASIS_ENUM_)
#undef ORR_BASIS_ENUM_
        ORR_BASES
} orr_basis;
ORR_API const char *orr_basis_name(orr_basis basis);

/* Kernel families and their dims, in order (letters: B batch, M N K, E rows of a table, L
 * lookups a bag, D columns, T tables): */
#define ORR_FAMILY_MAP(X)                                                                          \
    X(OTHER, "other")             /* bytes and FLOPs only                                 */       \
    X(GEMM, "gemm")               /* B M N K; B of (M,K) x (K,N): mm, linear, bmm        */        \
    X(CONVOLUTION, "convolution") /* N C H W  K R S  stride; C of a group, H W of input  */        \
    X(ATTENTION, "attention")     /* B heads q_len kv_len head_dim                        */       \
    X(EMBEDDING_FORWARD, "embedding_forward")   /* B E L D T                                   */  \
    X(EMBEDDING_BACKWARD, "embedding_backward") /* B E L D T                                   */  \
    X(CONCAT, "concat")           /* elements                                             */       \
    X(COPY, "copy")               /* bytes; host to device, device to host, on the device */       \
    X(TRANSPOSE, "transpose")     /* B M N                                                */       \
    X(INTERACTION, "interaction") /* B M N: gather of the lower triangle of (M,N) products */      \
    X(NORM, "norm")               /* rows columns                                         */       \
    X(SOFTMAX, "softmax")         /* rows columns                                         */       \
    X(REDUCTION, "reduction")     /* elements                                             */       \
    X(ELEMENTWISE, "elementwise") /* elements                                             */       \
    X(OPTIMIZER, "optimizer")     /* parameters                                           */
typedef enum orr_kernel_family {
#define ORR_FAMILY_ENUM_(name, text) ORR_FAMILY_##name,
    ORR_FAMILY_MAP(ORR_FAMILY_ENUM_)
#undef ORR_FAMILY_ENUM_
        ORR_FAMILIES
} orr_kernel_family;
ORR_API const char *orr_kernel_family_name(orr_kernel_family family);

enum { ORR_WORK_DIMS = 8 };
typedef enum orr_copy_kind {
    ORR_COPY_NONE,
    ORR_COPY_HTOD,
    ORR_COPY_DTOH,
    ORR_COPY_DTOD
} orr_copy_kind;
typedef struct orr_work {
    uint8_t family; /* orr_kernel_family                                           */
    uint8_t dtype;  /* orr_dtype                                                    */
    uint8_t copy;   /* orr_copy_kind                                                */
    uint8_t n_dims;
    bool backward;
    int64_t dims[ORR_WORK_DIMS];
    double flops, read_bytes, write_bytes; /* 0: unknown */
    const char *op, *kernel;               /* names as recorded, "" if there are none */
} orr_work;
/* Work of a device node, from its name, the operator that launched it and the recorded shapes.
 * Where an operator launched several kernels, the one that does the operator's arithmetic gets
 * its work, and the others are OTHER. A host operator is its own. UNSUPPORTED (err is not filled
 * in): the work is unknown. INVALID: no such node. */
ORR_API ORR_MUST_CHECK orr_status orr_work_of_node(const orr_graph *graph, orr_node_id node,
                                                   orr_work *ret, orr_error *err);
/* Computes FLOPs and bytes from family, dims and dtype, where they are 0. */
ORR_API void orr_work_complete(orr_work *work);

typedef struct orr_price {
    int64_t ns;
    uint8_t basis;     /* orr_basis                                              */
    double error_frac; /* mean absolute error where this basis was checked; NAN: unknown */
    const char *model; /* name of the model that answered                        */
} orr_price;

/* A cost model behind a vtable. Immutable: any number of threads may ask. */
typedef struct orr_cost_model orr_cost_model;
struct orr_cost_model {
    const char *name;
    /* The price of a work on a device; false: this model has no answer. */
    bool (*price)(const orr_cost_model *self, const orr_device *device, const orr_work *work,
                  orr_price *ret);
};
/* The roofline and closed forms: GEMM, embedding with the L2 hit rate, concat, copies, ...
 * Efficiencies are measured where the device has facts for it, else assumed, and then the
 * price's model says so. Always answers when FLOPs or bytes are known. Static storage. */
ORR_API const orr_cost_model *orr_cost_roofline(void);
/* The last link of a chain: a constant for unknown work. Static storage. */
ORR_API const orr_cost_model *orr_cost_assumed(void);
/* Loads a fitted file (`orrery fit`), table or learned, by its schema. In the arena. Errors: IO,
 * PARSE, INVALID with the position; UNSUPPORTED: made by a newer version. */
ORR_API ORR_MUST_CHECK orr_status orr_cost_model_load(const char *path, orr_arena *arena,
                                                      const orr_cost_model **ret, orr_error *err);

typedef struct orr_cost_chain {
    const orr_cost_model *const *models; /* shape (n), the first answer wins */
    uint32_t n;
} orr_cost_chain;
/* Roofline, then the assumed constant: what works without any file. */
ORR_API orr_cost_chain orr_cost_default_chain(void);
ORR_API orr_price orr_cost_price(const orr_cost_chain *chain, const orr_device *device,
                                 const orr_work *work);
/* Two prices for a ratio: both from the first model that answers both, so that common errors
 * cancel. False: no model does. */
typedef struct orr_priced_work {
    const orr_device *device;
    const orr_work *work;
} orr_priced_work;
ORR_API bool orr_cost_price_pair(const orr_cost_chain *chain, orr_priced_work before,
                                 orr_priced_work after, orr_price *ret_before,
                                 orr_price *ret_after);

/* Host overheads of the DLRM performance model (Lin et al., 2022), in us as published: T1
 * between top-level operators, T2 operator start to first launch, T3 last launch end to operator
 * end, T4 the launch call, T5 between launches, or all of an operator that launches nothing. */
typedef enum orr_overhead_kind {
    ORR_T1,
    ORR_T2,
    ORR_T3,
    ORR_T4,
    ORR_T5,
    ORR_OVERHEADS
} orr_overhead_kind;
typedef struct orr_overhead {
    const char *name; /* operator; runtime call for T4; "" for T1: the mean of all */
    uint8_t kind;     /* orr_overhead_kind */
    double mean_us, std_us;
    uint64_t count;
} orr_overhead;
typedef struct orr_overheads {
    const orr_overhead *rows; /* shape (n), by kind, then name */
    size_t n;
} orr_overheads;
/* Means by name over the top-level operators of a job, without outliers (1.5 interquartile
 * ranges). Times are the recording's own, including the cost of recording. */
ORR_API ORR_MUST_CHECK orr_status orr_overheads_extract(const orr_job *job, orr_arena *arena,
                                                        orr_overheads *ret, orr_error *err);
/* CSV: kind,name,mean_us,std_us,count. Errors: IO; PARSE with the line; INVALID: two rows of one
 * kind and name. */
ORR_API ORR_MUST_CHECK orr_status orr_overheads_load(const char *path, orr_arena *arena,
                                                     orr_overheads *ret, orr_error *err);
ORR_API ORR_MUST_CHECK orr_status orr_overheads_save(const orr_overheads *overheads,
                                                     const char *path, orr_error *err);
/* NULL: no such row. */
ORR_API const orr_overhead *orr_overheads_find(const orr_overheads *overheads,
                                               orr_overhead_kind kind, const char *name);

/* Host timeline: the DLRM model's pass over the operators of one host thread. */
typedef struct orr_host_op {
    const char *name;            /* as in the overheads                                    */
    const char *const *launches; /* shape (n_launches): runtime calls, "cudaLaunchKernel"  */
    uint32_t n_launches;
    const double *kernel_us; /* shape (n_kernels): device time of the first n_kernels launches */
    uint32_t n_kernels;
    bool annotation; /* an annotation around operators: "Optimizer.step#SGD.step" */
    uint8_t stream;  /* 0: computation, 1: communication */
    bool joins;      /* the streams wait for one another before it */
    bool waits;      /* the host then waits for the device: aten::to */
} orr_host_op;
enum { ORR_HOST_STREAMS = 2 };
typedef struct orr_host_time { /* since the beginning, after an operator */
    double cpu_us, gpu_us[ORR_HOST_STREAMS];
    double active_us; /* the device was busy */
} orr_host_time;
/* Host time of an annotation with launches, between its T2 and its T3. */
typedef enum orr_annotation_rule {
    ORR_ANNOTATION_LAUNCHES,    /* its launch calls and the time between them, as for an operator:
                                 * T4, T5 */
    ORR_ANNOTATION_AS_PUBLISHED /* the annotation as a whole once more, without its calls: T2, T5
                                 * and T3, as the model's authors did in the case that they
                                 * worked out in print */
} orr_annotation_rule;
/* Top-level operators of all host threads of a graph, by start time, with their launches and the
 * recorded duration of their kernels (0 if not recorded). None joins or waits: where a
 * recording's host waited, that time is in its T3 and T5. In the arena. Errors: NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_host_ops_of_graph(const orr_graph *graph, orr_arena *arena,
                                                        const orr_host_op **ret, size_t *ret_n,
                                                        orr_error *err);
/* Runs the host timeline. `ret`: shape (n). The end-to-end time is the larger of cpu_us and
 * gpu_us of the last entry. An operator without overheads gets the mean of those that have them.
 * Threads: any. */
ORR_API void orr_host_timeline(const orr_overheads *overheads, const orr_host_op *ops, size_t n,
                               orr_annotation_rule rule, orr_host_time *ret);

/* Recording costs: what a recorder takes of the threads that it records, by kind of event, as
 * PyTorch's profiler and its execution-trace observer write them. */
#define ORR_RECORDING_COST_MAP(X)                                                                  \
    X(EVENT, "operator or annotation")                                                             \
    X(TRACE, "execution trace of one")      /* on top, beside an execution trace */                \
    X(SHAPES, "shapes of an operator")      /* on top, with record_shapes        */                \
    X(STACK, "Python stack of an operator") /* on top, with with_stack           */                \
    X(PYTHON, "Python function")                                                                   \
    X(MEMORY, "memory event")                                                                      \
    X(CALL, "runtime call")
typedef enum orr_recording_cost_kind {
#define ORR_RECORDING_COST_ENUM_(name, text) ORR_RECORDING_COST_##name,
    ORR_RECORDING_COST_MAP(ORR_RECORDING_COST_ENUM_)
#undef ORR_RECORDING_COST_ENUM_
        ORR_RECORDING_COSTS
} orr_recording_cost_kind;
ORR_API const char *orr_recording_cost_name(orr_recording_cost_kind kind);
typedef struct orr_recording_costs {
    double ns[ORR_RECORDING_COSTS]; /* of one event; 0: none is known */
    /* of these, in ns^2; 0 where none is known */
    double covariance[ORR_RECORDING_COSTS][ORR_RECORDING_COSTS];
    bool seen[ORR_RECORDING_COSTS]; /* the pairs hold such events; a cost of 0 was then not told
                                     * from none, or not told apart from another's */
    double noise_frac; /* standard deviation of what no cost explains, of the recorded step: pairs
                        * differ by it, and so will what is left of another recording */
    uint32_t n_pairs;
} orr_recording_costs;
/* Of PyTorch 2.15 on an AMD EPYC: fitted to the pairs of examples/pairs. */
ORR_API const orr_recording_costs *orr_recording_costs_default(void);
/* Fits costs to pairs: recordings, shape (n), that hold in "bare_step_ns" what their step takes
 * without a recorder (examples/record/pairs.py makes them). Weighted least squares of relative
 * errors over the means of profiler steps; a kind whose cost is under two standard errors, or
 * cannot be told apart from others, is left out. Errors: INVALID: a recording without
 * "bare_step_ns" or steps, or too few of them. */
ORR_API ORR_MUST_CHECK orr_status orr_recording_costs_fit(const orr_graph *const *graphs,
                                                          uint32_t n, orr_recording_costs *ret,
                                                          orr_error *err);
/* Events of each kind on the threads of a recording. */
ORR_API void orr_recording_costs_count(const orr_graph *graph,
                                       double ret_events[ORR_RECORDING_COSTS]);
/* What a step takes without a recorder, as the recording has it; -1: it does not say. */
ORR_API int64_t orr_recording_bare_step_ns(const orr_graph *graph);

/* Collectives. Letters: n members, S bytes. */
#define ORR_ALGORITHM_MAP(X)                                                                       \
    X(AUTO, "auto") /* the cheapest of those that apply                            */              \
    X(RING, "ring")                                                                                \
    X(TREE, "tree")                                                                                \
    X(RECURSIVE_DOUBLING, "recursive_doubling") X(HALVING_DOUBLING, "halving_doubling")            \
        X(DIRECT, "direct") X(HIERARCHICAL, "hierarchical") X(IN_NETWORK, "in_network")
typedef enum orr_algorithm {
#define ORR_ALGORITHM_ENUM_(name, text) ORR_ALGORITHM_##name,
    ORR_ALGORITHM_MAP(ORR_ALGORITHM_ENUM_)
#undef ORR_ALGORITHM_ENUM_
        ORR_ALGORITHMS
} orr_algorithm;
ORR_API const char *orr_algorithm_name(orr_algorithm algorithm);

/* Alpha-beta of one level with protocol switches (Hockney, "The communication challenge for MPP",
 * Parallel Computing 20, 1994): a collective of k messages in a row, with s bytes in all
 * through the endpoint of a member, takes
 *     base_ns[p] + k * alpha_ns[p] + s / bytes_per_s[p]
 * with the protocol p that is fastest for it. A bandwidth of 0: there is no such protocol. */
enum { ORR_PROTOCOL_LATENCY, ORR_PROTOCOL_MID, ORR_PROTOCOL_BANDWIDTH, ORR_PROTOCOLS };
typedef struct orr_alpha_beta {
    double base_ns[ORR_PROTOCOLS];  /* once a collective: launch, rendezvous */
    double alpha_ns[ORR_PROTOCOLS]; /* one message, between two units of the level below */
    double bytes_per_s[ORR_PROTOCOLS];
    double error_frac; /* mean absolute error on held-out measurements; NAN: unknown */
    uint8_t basis;     /* FITTED or ASSUMED */
} orr_alpha_beta;
typedef struct orr_network {
    uint32_t n_levels;
    orr_alpha_beta levels[ORR_LEVELS_MAX];
    orr_alpha_beta reduction[ORR_LEVELS_MAX]; /* of IN_NETWORK; bandwidths of 0: as `levels` */
    uint32_t size[ORR_LEVELS_MAX];            /* units that a level joins; 0: as many as take
                                               * part */
    uint8_t topology[ORR_LEVELS_MAX];
    double oversubscription[ORR_LEVELS_MAX]; /* 0 is 1 */
    bool in_network[ORR_LEVELS_MAX];
    bool scale_up[ORR_LEVELS_MAX];     /* of the devices' own links */
    double bytes_frac[ORR_LEVELS_MAX]; /* compression: share of the bytes that ALL_REDUCE,
                                        * REDUCE_SCATTER and REDUCE send across a level; 0 is 1 */
    double fan_out[ORR_LEVELS_MAX];    /* times as many bytes of ALL_TO_ALL across a level as pairs
                                        * exchange: a token that came over the network is passed on
                                        * within its host; 0 is 1 */
    uint32_t chunks;                   /* chunks of a HIERARCHICAL collective, pipelined: phases on
                                        * different levels overlap; 0 is 1 */
    double memory_bytes_per_s; /* memory bandwidth of compression and decompression; 0: they cost
                                * nothing */
    /* Of a transport: set by orr_network_apply_transport() alone. */
    double window_bytes_per_s[ORR_LEVELS_MAX]; /* of one connection: window over round trip; 0:
                                                * unlimited */
    double queue_ns[ORR_LEVELS_MAX];           /* wait behind other traffic, but no longer than
                                                * the collective's own bytes take */
    orr_alpha_beta bare[ORR_LEVELS_MAX], bare_reduction[ORR_LEVELS_MAX]; /* constants before a
                                                                          * transport was applied */
    bool wired[ORR_LEVELS_MAX];  /* a transport was applied; `bare` are set */
    bool uneven[ORR_LEVELS_MAX]; /* units below have unequal sizes (orr_level.ends) */
} orr_network;
/* Constants of a cluster's network: fitted where there are measurements of a level's technology
 * (scaled by its bandwidth over that of the measured machine), else bandwidth and latency of the
 * levels, and base 0. An unknown bandwidth is 1 GB/s, an unknown latency 0. */
ORR_API void orr_network_of_cluster(const orr_cluster *cluster, orr_network *ret);
/* Applies RDMA transports to the constants of each level: bandwidth lost to load balancing,
 * congestion control, loss and failed paths, queues, and the window of a connection (formulas and
 * sources: src/cost/network/rdma_transport.h). `cluster`: the one that the network was made of.
 * Nothing is ever cheaper with a transport than without.
 *
 * UNKNOWN: each level's own transport; a level without one is unchanged. A preset is laid over
 * the level's transport; a level without one gets what src/cost/network/rdma_transport.h
 * assumes, except levels of the devices' own links, which are no RDMA network.
 * The last call counts; effects do not accumulate: orr_network_of_cluster() and
 * orr_job_rates_init() apply UNKNOWN. Set `chunks` and `bytes_frac` before or after. */
ORR_API void orr_network_apply_transport(orr_network *network, const orr_cluster *cluster,
                                         uint8_t setting /* orr_rdma_preset */);

/* Price of a collective. bytes: what one member holds: all-reduce S; all-gather and gather the
 * output S; reduce-scatter and scatter the input S; all-to-all the input S; broadcast and reduce S;
 * send and receive S; a barrier has none. Never negative, never decreasing in bytes, at most
 * INT64_MAX / 4 ns.
 *
 * An algorithm that does not serve the collective or the topology is replaced by AUTO; `model`
 * of the price names the one that was priced. Bandwidth: every member of the span moves its
 * share at once, so a level gives each its bandwidth over the oversubscription. By topology, of
 * n members: SWITCH any pairing at full rate; RING links to two neighbours, half the bandwidth
 * each; FULLY_CONNECTED a link to each other unit, bandwidth / (size - 1) each. The forms and
 * their sources are in src/cost/collective/collective.h. */
ORR_API orr_price orr_collective_price(const orr_network *network, const orr_span *span,
                                       orr_collective collective, orr_algorithm algorithm,
                                       int64_t bytes);

/* What the length of a recorded transfer rests on when it is asked for in another place: another
 * network, or more or fewer ranks. One rule for all questions: recorded time x price there / price
 * where it was recorded; see orr_whatif. */
#define ORR_TRANSFER_BASIS_MAP(X)                                                                  \
    X(ANCHORED, "recorded x price there / price where recorded")                                   \
    X(PRICED, "price alone: the recorded network is not known")                                    \
    X(NO_SIZE, "as recorded: its size or kind is not")                                             \
    X(NO_MEMBERS, "as recorded: its ranks are not")                                                \
    X(NO_NETWORK, "as recorded: no network to price it on")
typedef enum orr_transfer_basis {
#define ORR_TRANSFER_BASIS_ENUM_(name, text) ORR_TRANSFER_##name,
    ORR_TRANSFER_BASIS_MAP(ORR_TRANSFER_BASIS_ENUM_)
#undef ORR_TRANSFER_BASIS_ENUM_
        ORR_TRANSFER_BASES
} orr_transfer_basis;
ORR_API const char *orr_transfer_basis_name(orr_transfer_basis basis);

#ifdef __cplusplus
}
#endif

#endif /* ORR_COST_H */
