/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_COST_H
#define ORR_COST_H

#include <orrery/graph.h>
#include <orrery/machine.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What an operator costs on a device, and a collective on a cluster, with what the answer rests on.
 *
 * Kernel: work (shapes, FLOPs, bytes) x device -> ns, by a chain of models: the first that answers
 * wins. Host: overheads T1..T5 by operator name. Network: closed forms per algorithm and level. */

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

/* Families of kernels. dims, in order (letters: B batch, M N K, E rows of a table, L lookups a
 * bag, D columns, T tables):                                                                  */
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
    double flops, read_bytes, write_bytes; /* 0 where not known                    */
    const char *op, *kernel; /* names as recorded, "" where there is none               */
} orr_work;
/* The work of a device node, from its name, the operator that launched it and the shapes recorded
 * with that. Where an operator launched several kernels the one that does the operator's
 * arithmetic gets it, the others are OTHER. A host operator is its own. UNSUPPORTED (not filled in
 * err): nothing is known. INVALID: no such node. */
ORR_API ORR_MUST_CHECK orr_status orr_work_of_node(const orr_graph *graph, orr_node_id node,
                                                   orr_work *ret, orr_error *err);
/* FLOPs and bytes from family, dims and dtype, filled in where they are 0. */
ORR_API void orr_work_complete(orr_work *work);

typedef struct orr_price {
    int64_t ns;
    uint8_t basis;     /* orr_basis                                              */
    double error_frac; /* mean absolute error where this basis was checked; NAN: unknown */
    const char *model; /* name of the model that answered                        */
} orr_price;

/* A model behind the one vtable. Frozen once made: any number of threads may ask. */
typedef struct orr_cost_model orr_cost_model;
struct orr_cost_model {
    const char *name;
    /* The price of the work on the device; false when this model has no answer. */
    bool (*price)(const orr_cost_model *self, const orr_device *device, const orr_work *work,
                  orr_price *ret);
};
/* The closed forms: GEMM, embedding with the L2 hit rate, concat, copies, ... and the roofline;
 * efficiencies are measured where the device has facts for it, else assumed, and then the price's
 * model says so. Always answers when FLOPs or bytes are known. Static storage. */
ORR_API const orr_cost_model *orr_cost_roofline(void);
/* Nothing is known of the work: a constant. Static storage. */
ORR_API const orr_cost_model *orr_cost_assumed(void);
/* A fitted file (`orrery fit`), table or learned, by its schema. In the arena. Errors: IO,
 * PARSE, INVALID with the position; UNSUPPORTED: made by a newer version. */
ORR_API ORR_MUST_CHECK orr_status orr_cost_model_load(const char *path, orr_arena *arena,
                                                      const orr_cost_model **ret, orr_error *err);

typedef struct orr_cost_chain {
    const orr_cost_model *const *models; /* shape (n), first answers first */
    uint32_t n;
} orr_cost_chain;
/* Roofline, then assumed: what there is without any file. */
ORR_API orr_cost_chain orr_cost_default_chain(void);
ORR_API orr_price orr_cost_price(const orr_cost_chain *chain, const orr_device *device,
                                 const orr_work *work);
/* Two prices to be divided by one another: both from the first model that answers both, so that
 * what it gets wrong of both cancels. False: none does. */
typedef struct orr_priced_work {
    const orr_device *device;
    const orr_work *work;
} orr_priced_work;
ORR_API bool orr_cost_price_pair(const orr_cost_chain *chain, orr_priced_work before,
                                 orr_priced_work after, orr_price *ret_before,
                                 orr_price *ret_after);

/* Host overheads of the DLRM performance model, in us as published: T1 between top-level operators,
 * T2 operator start to first launch, T3 last launch end to operator end, T4 the launch call, T5
 * between launches, or all of an operator that launches nothing. */
typedef enum orr_overhead_kind {
    ORR_T1,
    ORR_T2,
    ORR_T3,
    ORR_T4,
    ORR_T5,
    ORR_OVERHEADS
} orr_overhead_kind;
typedef struct orr_overhead {
    const char *name; /* operator; runtime call for T4; "" for T1: of all */
    uint8_t kind;     /* orr_overhead_kind */
    double mean_us, std_us;
    uint64_t count;
} orr_overhead;
typedef struct orr_overheads {
    const orr_overhead *rows; /* shape (n), by kind, then name */
    size_t n;
} orr_overheads;
/* Means by name over the top-level operators of a job, outliers (1.5 interquartile ranges) left
 * out. The times are the recording's own, with what recording cost. */
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

/* Overheads applied: the DLRM model's walk over the operators of one host thread. */
typedef struct orr_host_op {
    const char *name;            /* as in the overheads                                    */
    const char *const *launches; /* shape (n_launches): runtime calls, "cudaLaunchKernel"  */
    uint32_t n_launches;
    const double *kernel_us; /* shape (n_kernels): of the first so many launches, what the
                              * device takes                                           */
    uint32_t n_kernels;
    bool annotation; /* no operator but one around several: "Optimizer.step#SGD.step" */
    uint8_t stream;  /* 0 computes, 1 communicates                             */
    bool joins;      /* the streams wait for one another before it             */
    bool waits;      /* the host then waits for the device: aten::to           */
} orr_host_op;
enum { ORR_HOST_STREAMS = 2 };
typedef struct orr_host_time { /* since the beginning, after an operator */
    double cpu_us, gpu_us[ORR_HOST_STREAMS];
    double active_us; /* the device was busy */
} orr_host_time;
/* What the host spends on an annotation with launches between its T2 and its T3. */
typedef enum orr_annotation_rule {
    ORR_ANNOTATION_LAUNCHES, /* its launch calls and what is between them, as for an operator: T4,
                                T5   */
    ORR_ANNOTATION_AS_PUBLISHED /* once more the annotation as a whole, without its calls: T2, T5
                                 * and T3. So did the authors of the model in the case that they
                                 * worked out in print */
} orr_annotation_rule;
/* The top-level operators of all host threads of a graph, in order of their start, with their
 * launches, and what these launched at its recorded duration (0 where that was not recorded). None
 * joins or waits: where a recording's host waited, that is in its T3 and T5. In the arena.
 * Errors: NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_host_ops_of_graph(const orr_graph *graph, orr_arena *arena,
                                                        const orr_host_op **ret, size_t *ret_n,
                                                        orr_error *err);
/* `ret`: shape (n). E2E is the larger of cpu_us and gpu_us of the last. An operator that the
 * overheads do not have gets the mean of those that they have. Threads: any. */
ORR_API void orr_host_timeline(const orr_overheads *overheads, const orr_host_op *ops, size_t n,
                               orr_annotation_rule rule, orr_host_time *ret);

/* Collectives. Letters: n members, S bytes. */
#define ORR_ALGORITHM_MAP(X)                                                                       \
    X(AUTO, "auto") /* the cheapest of those that apply                            */              \
    X(RING, "ring")                                                                                \
    X(TREE, "tree") X(RECURSIVE_DOUBLING, "recursive_doubling")                                    \
        X(HALVING_DOUBLING, "halving_doubling") X(DIRECT, "direct")                                \
            X(HIERARCHICAL, "hierarchical") X(IN_NETWORK, "in_network")
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
    double base_ns[ORR_PROTOCOLS];  /* once a collective: launch, meeting                */
    double alpha_ns[ORR_PROTOCOLS]; /* one message, between two units of the level below */
    double bytes_per_s[ORR_PROTOCOLS];
    double error_frac; /* mean absolute error on measurements that were not fitted; NAN: unknown */
    uint8_t basis;     /* FITTED or ASSUMED */
} orr_alpha_beta;
typedef struct orr_network {
    uint32_t n_levels;
    orr_alpha_beta levels[ORR_LEVELS_MAX];
    orr_alpha_beta reduction[ORR_LEVELS_MAX]; /* of IN_NETWORK; bandwidths of 0: as `levels` */
    uint32_t size[ORR_LEVELS_MAX];            /* units that a level joins; 0: as many as meet */
    uint8_t topology[ORR_LEVELS_MAX];
    double oversubscription[ORR_LEVELS_MAX]; /* 0 is 1 */
    bool in_network[ORR_LEVELS_MAX];
    double bytes_frac[ORR_LEVELS_MAX]; /* of the bytes that ALL_REDUCE, REDUCE_SCATTER and
                                        * REDUCE send across a level: compressed; 0 is 1 */
    uint32_t chunks;           /* pieces of a HIERARCHICAL collective, one behind another: phases on
                                * different levels overlap; 0 is 1                                */
    double memory_bytes_per_s; /* what compressing and its undoing pass through; 0: it
                                * costs nothing                                       */
    /* Of a transport: set by orr_network_apply_transport() alone. */
    double window_bytes_per_s[ORR_LEVELS_MAX]; /* of one connection: window over round
                                                * trip; 0: as fast as the level       */
    double queue_ns[ORR_LEVELS_MAX];           /* that a collective waits for others like it, but no
                                                * longer than its own bytes take                */
    orr_alpha_beta bare[ORR_LEVELS_MAX], bare_reduction[ORR_LEVELS_MAX]; /* before the transport was
                                                                          * laid on */
    bool wired[ORR_LEVELS_MAX];  /* `bare` are set                                   */
    bool uneven[ORR_LEVELS_MAX]; /* units below are not alike (orr_level.ends)      */
} orr_network;
/* Constants of a cluster: fitted where there are measurements of a level's technology (scaled by
 * its bandwidth over that of the machine that was measured), else bandwidth and latency of the
 * levels, and base 0. A bandwidth that is not known is 1 GB/s, a latency 0. */
ORR_API void orr_network_of_cluster(const orr_cluster *cluster, orr_network *ret);
/* How bytes travel, laid over the constants of each level: less bandwidth by what load balancing,
 * congestion control, loss and failed paths take, queues to wait in, a window that bounds a
 * connection (formulas and sources: src/cost/network/rdma_transport.h). Of the same cluster that
 * the network was made of. Nothing is ever cheaper with a transport than without.
 *
 * UNKNOWN: each level's own transport; a level without one stays as it is. A setting goes over the
 * level's transport; a level without one gets what src/cost/network/rdma_transport.h assumes, but
 * those as fast as half of the innermost one, which are no network of queue pairs, stay as they
 * are. The last call counts, not all of them together: orr_network_of_cluster() and
 * orr_job_rates_init() have made the one with UNKNOWN. Set `chunks` and `bytes_frac` before or
 * after. */
ORR_API void orr_network_apply_transport(orr_network *network, const orr_cluster *cluster,
                                         uint8_t setting /* orr_rdma_preset */);

/* bytes: what one member holds: all-reduce S; all-gather and gather the output S; reduce-scatter
 * and scatter the input S; all-to-all the input S; broadcast and reduce S; send and recv S; a
 * barrier has none. Never negative, never decreasing in bytes, at most INT64_MAX / 4 ns.
 *
 * An algorithm that does not serve the collective or the topology is replaced by AUTO; `model` of
 * the price names the one that was priced. Bandwidth: every member of the span moves its share at
 * once, so a level gives each its bandwidth over the oversubscription. Per topology, of n members:
 * SWITCH any pairing at full rate; RING links to two neighbours, half the bandwidth each;
 * FULLY_CONNECTED a link to each other unit, bandwidth / (size - 1) each. The forms and their
 * sources stand in src/cost/collective/collective.h. */
ORR_API orr_price orr_collective_price(const orr_network *network, const orr_span *span,
                                       orr_collective collective, orr_algorithm algorithm,
                                       int64_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* ORR_COST_H */
