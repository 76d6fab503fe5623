/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_PLAN_H
#define ORR_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include <orrery/arena.h>
#include <orrery/dtype.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Parallel plan: how a job is distributed over ranks, and in what order it runs (Narayanan et al.,
 * SC 2021).
 *
 * Letters: t tensor-, c context-, d data-, p pipeline-, e expert-parallel degree; v chunks of a
 * stage (virtual stages); m micro-batches of a step; L layers. Ranks: t x c x d x p. Expert
 * parallelism uses ranks of t x c x d: it adds none.
 *
 * Replicas have equally many micro-batches, unless `site_micro_batches` says those of each site. */

/* Pipeline schedules. Each is data: see orr_schedule_make(). */
#define ORR_SCHEDULE_MAP(X)                                                                        \
    X(UNKNOWN, "unknown")                                                                          \
    X(1F1B, "1f1b")   /* warm-up forwards, one forward one backward, the rest backward     */      \
    X(GPIPE, "gpipe") /* all forwards, then all backwards                                  */      \
    X(INTERLEAVED, "interleaved") /* 1F1B over v chunks a stage, `group` micro-batches of a        \
                                   * chunk in a row: p is depth-first, m breadth-first; below p     \
                                   * all forwards come first, then all backwards            */     \
    X(ZB_H1, "zb_h1")       /* zero bubble, memory of 1F1B: weight gradients fill bubbles  */      \
    X(ZB_V, "zb_v")         /* zero bubble, two chunks a stage laid as a V                 */      \
    X(DUALPIPE, "dualpipe") /* from both ends, forward and backward of a pair overlapped   */
typedef enum orr_schedule {
#define ORR_SCHEDULE_ENUM_(name, text) ORR_SCHEDULE_##name,
    ORR_SCHEDULE_MAP(ORR_SCHEDULE_ENUM_)
#undef ORR_SCHEDULE_ENUM_
        ORR_SCHEDULES
} orr_schedule;
ORR_API const char *orr_schedule_name(orr_schedule schedule);

/* Activation recomputation: what is computed again in the backward pass instead of being saved. */
#define ORR_RECOMPUTE_MAP(X)                                                                       \
    X(UNKNOWN, "unknown")                                                                          \
    X(NONE, "none")                                                                                \
        X(SELECTIVE, "selective") /* the core of attention: scores, softmax, dropout, context */   \
        X(FULL, "full")           /* every layer from its input                               */   \
        X(BLOCK, "block")         /* the first `recompute_layers` layers of each chunk        */   \
        X(SOME, "modules")        /* what `recompute_modules` names                           */   \
        X(OP, "op") /* all but outputs of attention and of every second product, gate and up by    \
                     * themselves: torchtitan's selective_ac_option=op                 */
typedef enum orr_recompute {
#define ORR_RECOMPUTE_ENUM_(name, text) ORR_RECOMPUTE_##name,
    ORR_RECOMPUTE_MAP(ORR_RECOMPUTE_ENUM_)
#undef ORR_RECOMPUTE_ENUM_
} orr_recompute;

/* Parts of a layer whose values are computed again, with the names of Megatron-Core's
 * --recompute-modules; mlp_act is none of them: MindSpeed's --recompute-activation-function, and
 * what xFormers' SwiGLU does always. */
#define ORR_RECOMPUTE_MODULE_MAP(X)                                                                \
    X(core_attn)   /* as recompute=selective */                                                    \
    X(layernorm)   /* outputs of the norms of the residual stream */                               \
    X(mlp_act)     /* output of the activation of a dense MLP, and of shared experts */            \
    X(moe_act)     /* output of the experts' activation */                                         \
    X(mla_up_proj) /* of latent attention: queries, keys and values from their latents on */       \
    X(mlp)         /* all within a dense MLP, shared experts among them */                         \
    X(moe)         /* all within routed experts, what is sent to them among it */
typedef enum orr_recompute_module {
#define ORR_RECOMPUTE_MODULE_ENUM_(name) ORR_RECOMPUTE_MODULE_##name,
    ORR_RECOMPUTE_MODULE_MAP(ORR_RECOMPUTE_MODULE_ENUM_)
#undef ORR_RECOMPUTE_MODULE_ENUM_
        ORR_RECOMPUTE_MODULES
} orr_recompute_module;
ORR_API const char *orr_recompute_module_name(orr_recompute_module module);

/* Precision: number format of matrix products, and of the weights that are kept beside it. */
#define ORR_PRECISION_MAP(X)                                                                       \
    X(UNKNOWN, "unknown")                                                                          \
    X(FP32, "fp32")                                                                                \
    X(TF32, "tf32")                                                                                \
    X(FP16, "fp16") X(BF16, "bf16")                                                                \
        X(FP8, "fp8")     /* products of linear layers in fp8 with scales per tensor, else bf16 */ \
        X(MXFP8, "mxfp8") /* scales per block of 32                                             */ \
        X(FP4, "fp4")     /* NVFP4: scales per block of 16                                      */
typedef enum orr_precision {
#define ORR_PRECISION_ENUM_(name, text) ORR_PRECISION_##name,
    ORR_PRECISION_MAP(ORR_PRECISION_ENUM_)
#undef ORR_PRECISION_ENUM_
} orr_precision;

#define ORR_CONTEXT_KIND_MAP(X)                                                                    \
    X(UNKNOWN, "unknown")                                                                          \
    X(ALL_GATHER, "all_gather") /* keys and values of all gathered first   */                      \
    X(RING, "ring")             /* passed around beside the computation    */
typedef enum orr_context_kind {
#define ORR_CONTEXT_KIND_ENUM_(name, text) ORR_CONTEXT_##name,
    ORR_CONTEXT_KIND_MAP(ORR_CONTEXT_KIND_ENUM_)
#undef ORR_CONTEXT_KIND_ENUM_
} orr_context_kind;

#define ORR_OFFLOAD_MAP(X)                                                                         \
    X(UNKNOWN, "unknown")                                                                          \
    X(NONE, "none") X(OPTIMIZER, "optimizer") X(ACTIVATIONS, "activations") X(BOTH, "both")
typedef enum orr_offload {
#define ORR_OFFLOAD_ENUM_(name, text) ORR_OFFLOAD_##name,
    ORR_OFFLOAD_MAP(ORR_OFFLOAD_ENUM_)
#undef ORR_OFFLOAD_ENUM_
} orr_offload;

/* The axis that crosses site links; the other one then stays within sites. */
#define ORR_CROSS_MAP(X) X(UNKNOWN, "unknown") X(DP, "dp") X(PP, "pp")
typedef enum orr_cross {
#define ORR_CROSS_ENUM_(name, text) ORR_CROSS_##name,
    ORR_CROSS_MAP(ORR_CROSS_ENUM_)
#undef ORR_CROSS_ENUM_
} orr_cross;

/* Gradient compression between sites: the format in which gradients are sent, where it differs
 * from that in which they are summed. */
#define ORR_COMPRESS_MAP(X)                                                                        \
    X(UNKNOWN, "unknown") X(NONE, "none") X(BF16, "bf16") X(FP8, "fp8") X(INT8, "int8")
typedef enum orr_compress {
#define ORR_COMPRESS_ENUM_(name, text) ORR_COMPRESS_##name,
    ORR_COMPRESS_MAP(ORR_COMPRESS_ENUM_)
#undef ORR_COMPRESS_ENUM_
} orr_compress;

/* Token dispatcher: how tokens travel to their experts and back, in Megatron-Core's words
 * (--moe-token-dispatcher-type). */
#define ORR_DISPATCHER_MAP(X)                                                                      \
    X(UNKNOWN, "unknown")                                                                          \
    X(ALLTOALL, "alltoall")   /* every copy of a token is sent, to each of its experts    */       \
    X(ALLGATHER, "allgather") /* every rank gets all tokens of the group, sums go back    */       \
    X(FLEX, "flex")           /* a token crosses the network once for each host, and fans out      \
                               * within it; in fp8 where products are (DeepEP, HybridEP)   */
typedef enum orr_dispatcher {
#define ORR_DISPATCHER_ENUM_(name, text) ORR_DISPATCHER_##name,
    ORR_DISPATCHER_MAP(ORR_DISPATCHER_ENUM_)
#undef ORR_DISPATCHER_ENUM_
} orr_dispatcher;

#define ORR_SWITCH_MAP(X) X(UNKNOWN, "unknown") X(OFF, "off") X(ON, "on")
typedef enum orr_switch {
#define ORR_SWITCH_ENUM_(name, text) ORR_SWITCH_##name,
    ORR_SWITCH_MAP(ORR_SWITCH_ENUM_)
#undef ORR_SWITCH_ENUM_
} orr_switch;

/* clang-format off */
/* Numbers of a plan, a row each. 0: unknown, not asked for, or as in the model. */
#define ORR_PLAN_MAP(X) \
    X(dp, "data-parallel replicas") \
    X(tp, "tensor-parallel slices") \
    X(pp, "pipeline stages") \
    X(micro_batches, "micro-batches a step") \
    X(micro_batch, "samples a micro-batch; 1 where not said, in inference all of a replica") \
    X(layers, "transformer layers") \
    X(hidden, "hidden size") \
    X(ffn, "width of the feed-forward part") \
    X(heads, "attention heads") \
    X(seq, "tokens a sample") \
    X(vocab, "tokens in the vocabulary") \
    X(cp, "context-parallel slices") \
    X(ep, "expert-parallel ranks") \
    X(etp, "tensor-parallel slices of an expert; tp where not said, in inference as fit") \
    X(vp, "chunks of a stage") \
    X(group, "micro-batches of a chunk in a row; as few as fill the pipeline where not said") \
    X(batch, "samples a step, over all replicas") \
    X(first_layers, "layers of the first stage; by cost where neither end is said") \
    X(last_layers, "layers of the last stage; by cost where neither end is said") \
    X(zero, "ZeRO: 1 optimizer states, 2 and gradients (reduced after each group of micro-batches), " \
            "3 and weights sharded (FSDP), 0 nothing") \
    X(shards, "ranks that share the shards of ZeRO; dp / shards replicas of them (HSDP)") \
    X(prefetch, "layers whose weights are gathered ahead (FSDP)") \
    X(recompute_layers, "layers of a chunk that are computed again") \
    X(capacity, "most tokens of an expert, in percent of an even share; others are dropped") \
    X(bucket_bytes, "gradients that are reduced at once") \
    X(dp_outer, "of dp, the factor that lies outside of all other axes: regions") \
    X(dp_chunks, "pieces of a hierarchical reduction of gradients, one behind another") \
    X(local_steps, "steps that outer parts of dp take alone, then meet (DiLoCo): other numerics") \
    X(expert_slots, "spare slots of a rank for copies of experts, in each layer") \
    X(request_groups, "groups of requests that choose experts alike, each on an equal part of the ranks")

/* Choices of a plan: field, type as in orr_<type>, description. 0 (unknown): the default. */
#define ORR_PLAN_CHOICE_MAP(X) \
    X(schedule, SCHEDULE, "what runs when; default 1f1b, with vp > 1 interleaved") \
    X(recompute, RECOMPUTE, "what is computed again; default none, block with recompute_layers, " \
                            "modules with recompute_modules") \
    X(precision, PRECISION, "of matrix products; default bf16") \
    X(gradients, PRECISION, \
      "that gradients are summed and reduced in; default fp32, with ZeRO 3 bf16") \
    X(sp, SWITCH, "sequence parallelism within tensor-parallel slices; default on") \
    X(cp_kind, CONTEXT_KIND, "how context-parallel slices see one another; default ring") \
    X(overlap_dp, SWITCH, "gradients and weights travel beside computation; default on") \
    X(overlap_tp, SWITCH, \
      "tensor-parallel transfers in pieces beside their products; default off") \
    X(overlap_pp, SWITCH, "sends between stages beside computation; default on") \
    X(overlap_ep, SWITCH, \
      "tokens travel to experts beside other computation, also (pp=1, vp>1) of " \
      "another micro-batch; default off") \
    X(dispatcher, DISPATCHER, "how tokens travel to experts; default flex") \
    X(pad_experts, SWITCH, "every expert is given as many tokens as its capacity; default off") \
    X(reshard, SWITCH, \
      "ZeRO 3: weights are dropped after the forward pass; default on, with a pipeline off") \
    X(flash, SWITCH, "attention in one kernel that keeps no scores; default on") \
    X(fusion, SWITCH, "elementwise work fused into few kernels (compiled); default on") \
    X(graphs, SWITCH, "device work launched as CUDA graphs; default off, but on for decode") \
    X(cross_entropy_loss_fusion, SWITCH, \
      "the loss in one kernel that overwrites the logits; default as fusion") \
    X(exp_avg_dtype, PRECISION, "of Adam's first moments; default fp32") \
    X(exp_avg_sq_dtype, PRECISION, "of Adam's second moments; default fp32") \
    X(fp8_param_gather, SWITCH, \
      "on: weights in 8 bits are gathered as such; off: kept in bf16 as well; default: kept in 8 " \
      "bits, gathered in bf16") \
    X(keep_fp8_transpose_cache, SWITCH, \
      "weights in 8 bits have a transposed copy for the backward pass; default on") \
    X(activation_func_fp8_input_store, SWITCH, \
      "inputs of SwiGLU and GELU are kept in fp8 for the backward pass; default off") \
    X(kv_cache_dtype, PRECISION, "of cached keys and values; default bf16, fp32 with such products") \
    X(offload, OFFLOAD, "what is kept in the memory of the host; default none") \
    X(cross, CROSS, "what crosses the cuts between sites; default dp, also without `sites`") \
    X(dp_algorithm, ALGORITHM, "of the reduction of gradients; default the cheapest") \
    X(compress, COMPRESS, "what gradients cross the cuts in; default none; other numerics") \
    X(wire_dp, WIRE, "how gradients and weights travel; default as the cluster has it") \
    X(wire_pp, WIRE, "how activations travel between stages") \
    X(wire_cp, WIRE, "how keys and values travel") \
    X(wire_ep, WIRE, "how tokens travel to experts") \
    X(expert_policy, EXPERT_POLICY, \
      "where experts and their copies stand; default neighbours, with expert_slots best")
/* clang-format on */

/* Axes of the device mesh, along which ranks differ. The first four multiply to all ranks. The
 * others are composed of these, and are no axes of `order`. */
/* clang-format off */
#define ORR_AXIS_MAP(X) \
    X(TP, "tp") X(CP, "cp") X(DP, "dp") X(PP, "pp") \
    X(EP, "ep")           /* share one set of experts: of t x c x d, innermost first */ \
    X(ETP, "etp")         /* slices of one expert */ \
    X(EDP, "edp")         /* have the same experts */ \
    X(GRADIENT, "dp_cp")  /* d x c: sum the same dense weights' gradients in every step */ \
    X(SHARD, "shard")     /* of GRADIENT: share what ZeRO shards */ \
    X(REPLICA, "replica") /* of GRADIENT: have the same shard */ \
    X(TIED, "tied")       /* first and last stage, where embedding and head share weights */ \
    X(OUTER, "outer")     /* same place in each outer part of dp: local steps, else nobody */
/* clang-format on */
typedef enum orr_axis {
#define ORR_AXIS_ENUM_(name, text) ORR_AXIS_##name,
    ORR_AXIS_MAP(ORR_AXIS_ENUM_)
#undef ORR_AXIS_ENUM_
        ORR_AXES,
    ORR_BASE_AXES = ORR_AXIS_PP + 1,
    ORR_AXIS_NONE = 255
} orr_axis;
ORR_API const char *orr_axis_name(orr_axis axis);

enum { ORR_PLAN_PARTS = 8 }; /* sites, sections */
/* `zero` of a plan whose text says zero=0: no sharding, where 0 means that nothing is said.
 * orr_plan_with_defaults() makes 0 of both. */
#define ORR_ZERO_NONE UINT32_MAX
/* `section_layers[0]` of a plan that leaves the sections to the cost of its layers. */
#define ORR_SECTIONS_BALANCED UINT16_MAX
typedef struct orr_plan {
#define ORR_PLAN_FIELD_(name, text) uint32_t name;
    ORR_PLAN_MAP(ORR_PLAN_FIELD_)
#undef ORR_PLAN_FIELD_
#define ORR_PLAN_FIELD_(name, type, text) uint8_t name;
    ORR_PLAN_CHOICE_MAP(ORR_PLAN_FIELD_)
#undef ORR_PLAN_FIELD_
    uint8_t order[ORR_BASE_AXES]; /* orr_axis + 1, innermost first; all 0: tp, cp, dp, pp */
    /* Units of each site of the cluster; all 0: not given. "sites=5-3" with cross=dp: replicas;
     * with cross=pp: stages, those of the first outer part of dp, then those of the next. The
     * crossing axis is the outermost of `order`; or, of replicas, sites have whole outer parts. */
    uint16_t sites[ORR_PLAN_PARTS];
    /* Layers of stages of unequal depth, "sections=8x6-4x12": 8 stages of 6 layers, then 4 of
     * 12, each over all chunks of a stage; not with first_layers, last_layers or DualPipe.
     * "sections=balanced" (section_layers[0] is ORR_SECTIONS_BALANCED): those in which the stage
     * that takes longest is as short as it can be. */
    uint16_t section_stages[ORR_PLAN_PARTS], section_layers[ORR_PLAN_PARTS];
    /* A bit for each orr_recompute_module, "recompute_modules=layernorm-moe_act". */
    uint16_t recompute_modules;
    /* Micro-batches of a replica, by site, "site_micro_batches=12-8": with sites and cross=dp;
     * micro_batches is then the largest, and the batch sites x site_micro_batches x micro_batch.
     * All 0: micro_batches on every site. */
    uint16_t site_micro_batches[ORR_PLAN_PARTS];
} orr_plan;

/* Parses a plan, "dp=4,tp=2,schedule=gpipe,order=tp-cp-dp-pp"; fields that are not named are 0.
 * Numbers may end in k or M ("seq=4k" is 4096). Axes that `order` does not name lie outside
 * those that it does. INVALID: an unknown field (with the closest one), a field twice, a number
 * that is not > 0 (but zero=0), an unknown choice (with those that exist). */
ORR_API ORR_MUST_CHECK orr_status orr_plan_parse(const char *text, orr_plan *ret, orr_error *err);
/* The text form of a plan; fields of 0 are left out. In the arena; NULL: out of memory. */
ORR_API ORR_MUST_CHECK const char *orr_plan_text(const orr_plan *plan, orr_arena *arena);
/* `from` with the fields that `change` sets. */
ORR_API orr_plan orr_plan_override(const orr_plan *from, const orr_plan *change);
ORR_API bool orr_plan_equal(const orr_plan *a, const orr_plan *b);
/* The plan with all defaults filled in that no job decides; micro-batches follow from `batch` or
 * the reverse. A job's model, task and cluster decide more (orr_outcome_of()): the micro-batches of
 * inference and of models without tokens, what crosses sites, and the layers of the first and last
 * stage. With `sites`, dp crosses them unless the plan says otherwise; without `order`, the
 * crossing axis is outermost; with local steps, outer parts of dp are the largest that no site link
 * divides. Fields on sites alone stay 0 where not given: dp_outer, dp_chunks, local_steps as if 1,
 * compress as if none. */
ORR_API orr_plan orr_plan_with_defaults(const orr_plan *plan);
/* Checks a plan. INVALID with the reason: 12 heads do not divide into 8 slices, 5 layers cannot
 * fill 8 stages, experts do not divide, shards do not divide dp x cp, a schedule that does not
 * fit these stages, chunks or micro-batches, sites or sections that do not add up... Fields of 0
 * are not checked. */
ORR_API ORR_MUST_CHECK orr_status orr_plan_check(const orr_plan *plan, orr_error *err);
/* t * c * d * p; fields of 0 count as 1. 64 bits, because a product of uint32_t may not fit 32. */
ORR_API uint64_t orr_plan_ranks(const orr_plan *plan);
/* Size of the process groups of an axis: t for TP...; 1 where the axis is unused. */
ORR_API uint32_t orr_plan_group_size(const orr_plan *plan, orr_axis axis);

/* Schedules as data. A slot is one phase of one micro-batch in one chunk of a stage. */
#define ORR_SLOT_MAP(X)                                                                            \
    X(FORWARD, "forward")                                                                          \
    X(BACKWARD, "backward") /* with weight gradients                 */                            \
    X(INPUT, "input gradient") X(WEIGHT, "weight gradient") /* backward in two: zero bubble */
typedef enum orr_slot_phase {
#define ORR_SLOT_ENUM_(name, text) ORR_SLOT_##name,
    ORR_SLOT_MAP(ORR_SLOT_ENUM_)
#undef ORR_SLOT_ENUM_
        ORR_SLOT_PHASES
} orr_slot_phase;
ORR_API const char *orr_slot_phase_name(orr_slot_phase phase);
typedef struct orr_schedule_slot {
    uint8_t phase;  /* orr_slot_phase                                           */
    bool paired;    /* runs at once with the next slot of its stage (DualPipe): both begin when
                     * both can, and end together */
    uint16_t chunk; /* of the stage, from 0 */
    uint32_t micro_batch;
} orr_schedule_slot;

typedef struct orr_schedule_spec {
    uint8_t schedule;        /* orr_schedule */
    uint32_t stages, chunks; /* chunks of a stage: 1 except for INTERLEAVED, ZB_V and DUALPIPE
                              * (2) */
    uint32_t micro_batches, group;
    bool overlapped; /* 1F1B of one stage, and INTERLEAVED: in the steady state a forward and the
                      * backward after it run at once, one forward further ahead */
} orr_schedule_spec;

typedef struct orr_schedule_plan {
    orr_schedule_spec spec;
    const uint32_t *first; /* shape (stages + 1) */
    const orr_schedule_slot
        *slots; /* slots of stage s: slots[first[s]] .. slots[first[s + 1] - 1], in order */
    const uint32_t *stage_of, *chunk_of; /* shape (stages x chunks): stage, and chunk of that
                                          * stage, of the model's virtual stage k. DUALPIPE cuts
                                          * the model into `stages` only: k is of the first
                                          * direction, stages + k the same part for the second,
                                          * which has the micro-batches from m / 2 on */
    uint32_t in_flight; /* most in-flight micro-batches x chunks of any stage, in units of a
                         * chunk's activations */
} orr_schedule_plan;
/* Makes the slots of a schedule. Sources: GPipe: Huang et al. 2019, figure 2; 1F1B and
 * interleaved: Narayanan et al. 2021, figures 4 and 5; groups: Llama 3 (arXiv 2407.21783),
 * figure 6; zero bubble: Qi et al., arXiv 2401.10241 and 2405.15362; DualPipe: DeepSeek-V3
 * (arXiv 2412.19437), figure 5. In the arena. INVALID: numbers that the schedule does not allow;
 * NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_schedule_make(const orr_schedule_spec *spec, orr_arena *arena,
                                                    orr_schedule_plan *ret, orr_error *err);
/* Proves that a schedule is complete (every phase of every micro-batch once in every virtual
 * stage) and free of deadlock. INVALID names the first slot that is missing, duplicate, or waits
 * for ever. */
ORR_API ORR_MUST_CHECK orr_status orr_schedule_check(const orr_schedule_plan *plan, orr_error *err);
/* The published pipeline bubble: idle time over ideal time, of the stage that idles most between
 * its first slot and its last, for phases of the given durations (of one chunk and micro-batch);
 * NAN where no formula is published for these numbers. Exact except for ZB_H1 with weight >
 * forward, and DUALPIPE unless input = forward >= weight. */
typedef struct orr_slot_times {
    double forward, input, weight;
} orr_slot_times;
ORR_API double orr_schedule_bubble(const orr_schedule_spec *spec, const orr_slot_times *times);

#ifdef __cplusplus
}
#endif

#endif /* ORR_PLAN_H */
