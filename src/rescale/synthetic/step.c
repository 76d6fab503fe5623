/* SPDX-License-Identifier: Apache-2.0 */
#include "rescale/synthetic/synthesis.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "rescale/emit/host_overheads.h"
#include "rescale/plan/price.h"

/* One step of one rank: the schedule slots of its stage, then the optimizer. */
typedef struct parts {
    const orr_synthetic_part *part[3];
    const char *module[3];
    uint32_t count[3];
    int64_t parameters[3];
    uint32_t n; /* kinds: embedding, layers, head as far as the stage has them */
    uint32_t total;
} parts;

static void add_part(parts *p, const orr_synthetic_part *part, const char *module, uint32_t count,
                     int64_t parameters)
{
    p->part[p->n] = part;
    p->module[p->n] = module;
    p->count[p->n] = count;
    p->parameters[p->n++] = parameters;
    p->total += count;
}

static parts parts_of(const orr_synthesis *y)
{
    parts p = {.n = 0};
    if (y->stage == 0)
        add_part(&p, &orr_part_embedding, "Embedding", 1, orr_embedding_parameters(y));
    add_part(&p, &orr_part_layer, "TransformerLayer", y->plan.layers / y->plan.pp,
             orr_layer_parameters(y));
    if (y->stage + 1 == y->plan.pp)
        add_part(&p, &orr_part_head, "Head", 1, orr_head_parameters(y));
    return p;
}

/* Between this stage and the next (lower: this one) or the one before. */
static void transfer_activations(orr_synthesis *y, orr_comm_role role, uint32_t micro_batch)
{
    const bool backward = role == ORR_ROLE_SEND_BACKWARD || role == ORR_ROLE_RECV_BACKWARD;
    const bool to_next = role == ORR_ROLE_SEND_FORWARD || role == ORR_ROLE_RECV_BACKWARD;
    const uint32_t lower = to_next ? y->stage : y->stage - 1;
    char dims[96];
    if (to_next ? y->stage + 1 == y->plan.pp : y->stage == 0)
        return;
    snprintf(dims, sizeof dims, "[[%lld, %lld, %lld]]", (long long)y->b, (long long)y->s,
             (long long)y->h);
    const orr_comm_call call = {.role = role,
                                .group = y->groups[ORR_GROUPING_PP],
                                .group_size = (int32_t)y->plan.pp,
                                .peer = (int32_t)(to_next ? y->stage + 1 : y->stage - 1),
                                .seq = y->seq[ORR_GROUPING_PP]++,
                                .bytes = y->b * y->s * y->h * y->dtype_bytes,
                                .dtype = y->comm_dtype,
                                .dims = dims};
    const orr_rendezvous_id meeting = {
        ORR_GROUPING_PP, orr_pipeline_ordinal(lower, y->plan.micro_batches, micro_batch, backward)};
    orr_emit_comm(&y->e, &call, meeting, &y->rendezvous);
}

static void reduce_gradients(orr_synthesis *y, int64_t parameters)
{
    char dims[48];
    if (y->plan.dp == 1)
        return;
    snprintf(dims, sizeof dims, "[[%lld]]", (long long)parameters);
    const orr_comm_call call = {.role = ORR_ROLE_DP,
                                .group = y->groups[ORR_GROUPING_DP],
                                .group_size = (int32_t)y->plan.dp,
                                .peer = -1,
                                .seq = y->seq[ORR_GROUPING_DP]++,
                                .bytes = parameters * y->dtype_bytes,
                                .dtype = y->comm_dtype,
                                .dims = dims};
    orr_emit_comm(&y->e, &call, (orr_rendezvous_id){ORR_GROUPING_DP, (uint32_t)call.seq},
                  &y->rendezvous);
}

/* first[m * total + i]: the number of autograd at which part i of micro-batch m began. */
static void forward(orr_synthesis *y, const parts *p, uint32_t m, int64_t *first)
{
    char name[64];
    snprintf(name, sizeof name, "forward micro_batch %u", m);
    orr_emit_begin(&y->e, ORR_NODE_ANNOTATION, name);
    transfer_activations(y, ORR_ROLE_RECV_FORWARD, m);
    for (uint32_t k = 0, i = 0; k < p->n; k++)
        for (uint32_t c = 0; c < p->count[k]; c++, i++) {
            snprintf(name, sizeof name, "nn.Module: %s_%u", p->module[k], c);
            orr_emit_begin(&y->e, ORR_NODE_PYTHON, name);
            first[m * p->total + i] = y->sequence;
            p->part[k]->forward(y);
            orr_emit_end(&y->e);
        }
    transfer_activations(y, ORR_ROLE_SEND_FORWARD, m);
    orr_emit_end(&y->e);
}

static void backward(orr_synthesis *y, const parts *p, uint32_t m, const int64_t *first)
{
    char name[64];
    uint32_t i = p->total;
    snprintf(name, sizeof name, "backward micro_batch %u", m);
    orr_emit_begin(&y->e, ORR_NODE_ANNOTATION, name);
    transfer_activations(y, ORR_ROLE_RECV_BACKWARD, m);
    for (uint32_t k = p->n; k-- > 0;)
        for (uint32_t c = p->count[k]; c-- > 0;) {
            p->part[k]->backward(y, first[m * p->total + --i]);
            if (m + 1 == y->plan.micro_batches)
                reduce_gradients(y, p->parameters[k]);
        }
    transfer_activations(y, ORR_ROLE_SEND_BACKWARD, m);
    orr_emit_end(&y->e);
}

/* Waits for the gradients' stream, then runs the optimizer; the host waits for everything. */
static void finish(orr_synthesis *y, const parts *p)
{
    int64_t parameters = 0;
    for (uint32_t k = 0; k < p->n; k++)
        parameters += p->parameters[k] * p->count[k];
    orr_emit_advance(&y->e, ORR_HOST_T1_BETWEEN_OPS_NS);
    orr_emit_begin(&y->e, ORR_NODE_HOST_OP, "torch.distributed.ddp.reducer::finalize_backward");
    orr_emit_advance(&y->e, ORR_HOST_T2_OP_TO_CALL_NS);
    orr_emit_wait_calls(&y->e, orr_emit_stream_of(&y->e, y->e.compute_stream),
                        orr_emit_stream_of(&y->e, orr_comm_stream(ORR_ROLE_DP)), ORR_HOST_EVENT_NS,
                        ORR_HOST_T5_BETWEEN_CALLS_NS);
    orr_emit_advance(&y->e, ORR_HOST_T3_CALL_TO_OP_END_NS);
    orr_emit_end(&y->e);
    orr_emit_begin(&y->e, ORR_NODE_ANNOTATION, "Optimizer.step#AdamW.step");
    orr_part_optimizer(y, parameters);
    orr_emit_end(&y->e);
    orr_emit_advance(&y->e, ORR_HOST_T1_BETWEEN_OPS_NS);
    orr_emit_sync_calls(&y->e, "cudaDeviceSynchronize", ORR_HOST_T4_LAUNCH_NS,
                        orr_emit_stream_of(&y->e, y->e.compute_stream));
}

static void step(orr_synthesis *y, int64_t *first, orr_schedule_slot *turns)
{
    const parts p = parts_of(y);
    orr_schedule_stage_slots((orr_schedule)y->plan.schedule, y->stage, y->plan.pp,
                             y->plan.micro_batches, turns);
    orr_emit_begin(&y->e, ORR_NODE_ANNOTATION, "ProfilerStep#0");
    for (uint32_t i = 0; i < 2 * y->plan.micro_batches; i++)
        (turns[i].phase == ORR_SLOT_BACKWARD ? backward(y, &p, turns[i].micro_batch, first)
                                             : forward(y, &p, turns[i].micro_batch, first));
    finish(y, &p);
    orr_emit_end(&y->e);
}

static const char *const group_texts[ORR_PLAN_GROUPINGS][2] = {
    {"tp", "TENSOR_MODEL_PARALLEL_GROUP"},
    {"dp", "DATA_PARALLEL_GROUP"},
    {"pp", "PIPELINE_MODEL_PARALLEL_GROUP"}};

/* Of one rank: its own groups, named as in PyTorch by a number; of any rank of a stage: who the
 * members are is said by the ensemble. */
static orr_status add_groups(orr_synthesis *y, orr_error *err)
{
    for (uint32_t i = 0; i < ORR_PLAN_GROUPINGS; i++) {
        const orr_strided_group ranks =
            orr_plan_group(&y->plan, i, y->rank == ORR_NONE ? 0 : y->rank);
        char name[32];
        y->groups[i] = ORR_NONE;
        if (ranks.size == 1)
            continue;
        snprintf(name, sizeof name, y->rank == ORR_NONE ? "%s" : "%s%u", group_texts[i][0],
                 ranks.first);
        const orr_group group = {.name = orr_emit_str(&y->e, name),
                                 .desc = orr_emit_str(&y->e, group_texts[i][1]),
                                 .backend = orr_emit_str(&y->e, "nccl"),
                                 .size = ranks.size,
                                 .start = y->rank == ORR_NONE ? -1 : (int32_t)ranks.first,
                                 .stride = (int32_t)ranks.stride};
        ORR_TRY(y->e.status);
        ORR_TRY(orr_builder_group(y->e.b, &group, &y->groups[i], err));
    }
    return ORR_OK;
}

static void open_synthesis(orr_synthesis *y, const orr_synthetic *spec, const orr_plan *plan,
                           uint32_t stage, uint32_t rank)
{
    const bool fp32 = spec->dtype == ORR_DTYPE_FP32, fp16 = spec->dtype == ORR_DTYPE_FP16;
    *y = (orr_synthesis){.plan = *plan,
                         .stage = stage,
                         .rank = rank,
                         .kineto_dtype = fp32   ? "float"
                                         : fp16 ? "c10::Half"
                                                : "c10::BFloat16",
                         .comm_dtype = fp32   ? "Float"
                                       : fp16 ? "Half"
                                              : "BFloat16",
                         .dtype_bytes = fp32 ? 4 : 2,
                         .b = plan->micro_batch,
                         .s = plan->seq,
                         .h = plan->hidden,
                         .f = plan->ffn,
                         .v = plan->vocab,
                         .n = plan->heads,
                         .d = plan->hidden / plan->heads,
                         .t = plan->tp};
}

orr_status orr_synthesis_build(const orr_synthetic *spec, const orr_plan *plan, uint32_t stage,
                               uint32_t rank, const orr_graph **ret,
                               orr_rendezvous_ids *ret_meetings, orr_error *err)
{
    orr_synthesis y;
    open_synthesis(&y, spec, plan, stage, rank);
    const size_t n_first = (size_t)plan->micro_batches * (plan->layers / plan->pp + 2);
    int64_t *first = orr_malloc(n_first * sizeof *first);
    orr_schedule_slot *turns = orr_malloc(2 * (size_t)plan->micro_batches * sizeof *turns);
    orr_status status = ORR_OK;
    if (!orr_emit_open(&y.e, spec->host, err) || first == NULL || turns == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    if (spec->host)
        orr_emit_thread(&y.e, "python", 1);
    const orr_recording recording = {.rank = rank,
                                     .world_size =
                                         rank == ORR_NONE ? 0 : (uint32_t)orr_plan_ranks(plan),
                                     .source = orr_emit_str(&y.e, "synthetic 1")};
    orr_builder_recording(y.e.b, &recording);
    ORR_TRY_OUT(status, add_groups(&y, err));
    step(&y, first, turns);
    status = orr_emit_build(&y.e, ret, err);
out:
    *ret_meetings = y.rendezvous;
    orr_emit_done(&y.e);
    orr_free(first);
    orr_free(turns);
    return status;
}
