/* SPDX-License-Identifier: Apache-2.0 */
#include "model/memory/memory.h"
#include "model/plan/plan.h"

/* Model states: bytes of an element that last from step to step. Mixed precision with Adam:
 * weights in 2 bytes, a master copy and two moments of 4 each (Rajbhandari et al., "ZeRO", SC
 * 2020, section 3.1); products in fp32 or tf32 need no master copy. Gradients of embedding tables
 * are applied as they are made (Mudigere et al., arXiv 2104.05158, section 4.1.3). */
enum { MASTER = 4 };
/* With local steps, the weights of the last average and the momentum of the outer optimizer, in
 * fp32 (Douillard et al., "DiLoCo", arXiv 2311.08105, algorithm 1); assumed to be kept where the
 * inner optimizer's states are. */
enum { OUTER = 8 };

static bool full_precision(const orr_plan *plan)
{
    return plan->precision == ORR_PRECISION_FP32 || plan->precision == ORR_PRECISION_TF32;
}

/* A moment of Adam: Megatron-Core's --exp-avg-dtype; DeepSeek-V3 has bf16 (arXiv 2412.19437,
 * section 3.3.3). */
static int64_t moment_bytes(uint8_t precision)
{
    const double bytes = precision == 0 ? 4 : orr_dtype_bytes(orr_precision_dtype(precision));
    return bytes < 1 ? 1 : (int64_t)bytes;
}

int64_t orr_moments_bytes(const orr_plan *plan)
{
    return moment_bytes(plan->exp_avg_dtype) + moment_bytes(plan->exp_avg_sq_dtype);
}

/* Weights in 8 bits: a transposed copy beside them, since products in fp8 read both operands along
 * the summed dim (Hopper's tensor cores; of block-scaled formats the copy has scales of its own);
 * and, unless they are gathered so, the weights in bf16 that they are cast from (Transformer
 * Engine, Float8Tensor; Megatron-Core's --fp8-param-gather). FSDP makes both as it gathers. */
static int64_t beside_narrow_bytes(const orr_module_memory *m, const orr_plan *plan)
{
    if (plan->zero >= 3)
        return 0;
    return m->narrow_parameters * ((plan->keep_fp8_transpose_cache != ORR_SWITCH_OFF) +
                                   (plan->fp8_param_gather == ORR_SWITCH_OFF ? 2 : 0));
}

static int64_t gradient_element_bytes(const orr_plan *plan)
{
    return plan->gradients == ORR_PRECISION_BF16 || plan->gradients == ORR_PRECISION_FP16 ? 2 : 4;
}

int64_t orr_summed_gradient_bytes(const orr_module_memory *m, const orr_plan *plan)
{
    if (plan->zero < 2 || orr_plan_gradient_group(plan) == 1)
        return 0;
    return gradient_element_bytes(plan) *
           (m->parameters + m->expert_parameters - m->frozen_parameters);
}

bool orr_task_trains(uint8_t task)
{
    return task != ORR_TASK_PREFILL && task != ORR_TASK_DECODE;
}

/* Number of auxiliary models. DPO: the reference; RL: the reference, and a reward model of the
 * same size (Llama 2, arXiv 2307.09288, section 3.2.2: reward models start from checkpoints of
 * the chat model). */
static uint32_t auxiliary_models(uint8_t task)
{
    return task == ORR_TASK_DPO ? 1 : task == ORR_TASK_RL ? 2 : 0;
}

/* Ranks among which the states of an expert are sharded: those that hold the expert, within one
 * replica of HSDP. */
static uint32_t expert_shards(const orr_plan *plan)
{
    const uint32_t all = orr_plan_group_size(plan, ORR_AXIS_EDP),
                   replicas = orr_plan_group_size(plan, ORR_AXIS_REPLICA);
    return all > replicas ? all / replicas : 1;
}

/* Weights of a rank before ZeRO, and the frozen ones among them. */
typedef struct weights {
    int64_t elements, bytes, frozen, frozen_bytes;
    uint32_t shards;
} weights;

static int64_t share(int64_t bytes, bool sharded, const weights *w)
{
    return sharded && w->shards > 1 ? (bytes + w->shards - 1) / w->shards : bytes;
}

/* States of trained weights. ZeRO 1 shards the optimizer states, 2 also gradients, 3 also
 * weights. With 3, as in PyTorch's FSDP2, the shard of the weights is the master copy, gradients
 * have its precision, and products read gathered copies (documentation of
 * torch.distributed.fsdp.fully_shard, MixedPrecisionPolicy). */
static void add_trained(const weights *w, const orr_plan *plan, orr_state_bytes *s)
{
    const int64_t n = w->elements - w->frozen;
    if (plan->local_steps > 1)
        s->optimizer += share(n * OUTER, plan->zero >= 1, w);
    if (plan->zero >= 3) {
        s->weights += share(n * MASTER, true, w);
        s->gradients += share(n * MASTER, true, w);
        s->optimizer += share(n * orr_moments_bytes(plan), true, w);
        return;
    }
    const int64_t states =
        full_precision(plan) ? orr_moments_bytes(plan) : MASTER + orr_moments_bytes(plan);
    s->weights += w->bytes - w->frozen_bytes;
    s->gradients += share(n * gradient_element_bytes(plan), plan->zero >= 2, w);
    s->optimizer += share(n * states, plan->zero >= 1, w);
}

static void add(const weights *w, const orr_plan *plan, uint8_t task, orr_state_bytes *s)
{
    const bool sharded = plan->zero >= 3;
    if (!orr_task_trains(task)) {
        s->weights += share(w->bytes, sharded, w);
        return;
    }
    add_trained(w, plan, s);
    s->weights += share(w->frozen_bytes, sharded, w);
    s->weights += (int64_t)auxiliary_models(task) * share(w->bytes, sharded, w);
}

orr_state_bytes orr_state_bytes_of(const orr_module_memory *m, const orr_plan *plan, uint8_t task)
{
    const weights experts = {m->expert_parameters, m->expert_weight_bytes,
                             m->frozen_expert_parameters, m->frozen_expert_weight_bytes,
                             expert_shards(plan)};
    const weights dense = {m->parameters, m->weight_bytes,
                           m->frozen_parameters - m->frozen_expert_parameters,
                           m->frozen_weight_bytes - m->frozen_expert_weight_bytes,
                           orr_plan_group_size(plan, ORR_AXIS_SHARD)};
    orr_state_bytes s = {.weights = m->table_bytes};
    if (orr_task_trains(task)) {
        s.optimizer = m->table_state_bytes;
        s.weights += beside_narrow_bytes(m, plan);
    }
    add(&dense, plan, task, &s);
    add(&experts, plan, task, &s);
    if (plan->offload == ORR_OFFLOAD_OPTIMIZER || plan->offload == ORR_OFFLOAD_BOTH) {
        s.host = s.optimizer;
        s.optimizer = 0;
    }
    return s;
}
