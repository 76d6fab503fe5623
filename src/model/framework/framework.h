/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_FRAMEWORK_FRAMEWORK_H
#define ORR_MODEL_FRAMEWORK_FRAMEWORK_H

#include <orrery/framework.h>

#include "model/plan/plan.h"

/* A framework is a table of text: rules (what it can run, its defaults) and options (how a plan is
 * written). Both speak of quantities: the fields of a plan, and what follows from model and plan
 * (quantities.c).
 *
 * A condition is a list that has to hold as a whole, "pp>1,schedule=1f1b": a quantity, one of = ! <
 * >, and a number, a word of the choice, or another quantity. NULL: always. */

typedef struct orr_framework_rule {
    const char *field;     /* a quantity; as a rule a field of a plan                            */
    const char *when;      /* condition                                                          */
    const char *allowed;   /* values: "1f1b interleaved", "0-1", "2+" (from 2 on), "%tp" (multiples
                            * of tp), "/layers" (divisors of them); NULL: all */
    const char *otherwise; /* the default: a word, a number, a quantity; NULL: as of any plan    */
} orr_framework_rule;

typedef struct orr_framework_option {
    const char *name;  /* "--tensor-model-parallel-size"; with dots: within sections */
    const char *when;  /* condition under which it is printed                                   */
    const char *value; /* text in which "{quantity}" stands for its value; NULL: a flag         */
} orr_framework_option;

/* What a framework calls a model of the catalogue, for "{label}" and "{variant}"; "{stages}" stands
 * for the layers of each stage. */
typedef struct orr_framework_label {
    const char *model; /* its name, or its family */
    const char *label, *variant;
} orr_framework_label;

typedef enum orr_framework_style {
    ORR_FRAMEWORK_FLAGS, /* a line each, "--name value"            */
    ORR_FRAMEWORK_TOML,
    ORR_FRAMEWORK_JSON, /* options of one section stand together  */
    ORR_FRAMEWORK_YAML
} orr_framework_style;

typedef struct orr_framework_table {
    const char *title;   /* "Megatron-LM": in errors */
    const char *header;  /* first comment of a configuration */
    const char *implied; /* fields of a plan that other quantities express, or that the framework
                          * decides by itself */
    uint8_t style;       /* orr_framework_style */
    const orr_framework_rule *rules;
    uint32_t n_rules;
    const orr_framework_option *options;
    uint32_t n_options;
    const orr_framework_label *labels;
    uint32_t n_labels;
} orr_framework_table;
extern const orr_framework_table orr_framework_megatron, orr_framework_torchtitan,
    orr_framework_deepspeed, orr_framework_maxtext;
const orr_framework_table *orr_framework_table_of(orr_framework framework); /* NULL for NONE */

/* --- quantities ------------------------------------------------------------------------------ */

/* Those beside the fields of a plan: name, and the expression of it, from the whole plan `p` (all
 * defaults filled in), the model `m` and what quantities.c calculates. Fields of a plan that stand
 * for the model's shape have the model's values. */
#define ORR_QUANTITY_MAP(X)                                                                        \
    X(order, order_of(p)) /* 1: tp-cp-dp-pp, 2: tp-cp-pp-dp, 3: any other; axes of degree 1 stand  \
                           * anywhere */                                                           \
    X(sites, orr_plan_has_sites(p))                                                                \
    X(sections, orr_plan_has_sections(p) || orr_plan_balances_sections(p))                         \
    X(balanced_sections, orr_plan_balances_sections(p)) /* no framework splits by cost */          \
    X(site_micro_batches, orr_plan_has_site_micro_batches(p))                                      \
    X(recompute_modules, p->recompute_modules) /* a bit each; as text, their names */              \
    X(recomputes_mlp, p->recompute_modules >> ORR_RECOMPUTE_MODULE_mlp & 1)                        \
    X(recomputes_mla_up_proj, p->recompute_modules >> ORR_RECOMPUTE_MODULE_mla_up_proj & 1)        \
    X(recomputes_experts, p->recompute_modules >> ORR_RECOMPUTE_MODULE_moe & 1 ||                  \
                              p->recompute_modules >> ORR_RECOMPUTE_MODULE_moe_act & 1)            \
    X(recomputes_mlp_act, p->recompute_modules >> ORR_RECOMPUTE_MODULE_mlp_act & 1)                \
    X(ranks, (double)orr_plan_ranks(p))                                                            \
    /* From here to value_dim: of the model alone. */                                              \
    X(transformer, m->kind == ORR_MODEL_TRANSFORMER)                                               \
    X(kv_heads, m->kv_heads)                                                                       \
    X(head_dim, m->head_dim)                                                                       \
    X(context, m->context)                                                                         \
    X(rms, m->norm == ORR_NORM_RMS)                                                                \
    X(norm_epsilon, m->norm_epsilon)                                                               \
    X(swiglu, m->activation == ORR_ACTIVATION_SWIGLU)                                              \
    X(relu, m->activation == ORR_ACTIVATION_RELU)                                                  \
    X(rotary, m->position == ORR_POSITION_ROTARY)                                                  \
    X(learned_positions, m->position == ORR_POSITION_LEARNED)                                      \
    X(rope_theta, m->rope_theta)                                                                   \
    X(rope_factor, m->rope_factor)                                                                 \
    X(tied, m->tied)                                                                               \
    X(biases, m->mlp_bias || m->output_bias)                                                       \
    X(qkv_bias, m->qkv_bias)                                                                       \
    X(qk_norm, m->qk_norm)                                                                         \
    X(mtp, m->mtp)                                                                                 \
    X(experts, m->moe.experts)                                                                     \
    X(top_k, m->moe.top_k)                                                                         \
    X(expert_ffn, m->moe.expert_ffn)                                                               \
    X(shared_experts, m->moe.shared)                                                               \
    X(shared_ffn, m->moe.shared * m->moe.shared_ffn)                                               \
    X(first_dense, m->moe.first_dense)                                                             \
    X(expert_layers, m->layers - m->moe.first_dense)                                               \
    X(expert_every, m->moe.every)                                                                  \
    X(sigmoid_router, m->moe.router == ORR_ROUTER_SIGMOID)                                         \
    X(router_bias, m->moe.router_bias)                                                             \
    X(router_groups, m->moe.groups)                                                                \
    X(top_groups, m->moe.top_groups)                                                               \
    X(q_rank, m->mla.q_rank)                                                                       \
    X(kv_rank, m->mla.kv_rank)                                                                     \
    X(nope_dim, m->mla.nope_dim)                                                                   \
    X(rope_dim, m->mla.rope_dim)                                                                   \
    X(value_dim, m->mla.value_dim)                                                                 \
    X(chunks, (double)p->pp * p->vp)                                                               \
    X(chunk_layers, share(m->layers, (double)p->pp * p->vp))                                       \
    X(weighted_chunk_layers, weighted_chunk_layers(m, p))                                          \
    X(capacity_factor, p->capacity / 100.0)                                                        \
    X(cp_halves, 2.0 * p->cp)                                                                      \
    X(even_layers, share(m->layers, p->pp))                                                        \
    X(end_layers, end_layers(m, p)) /* of the first and of the last stage, where the embedding and \
                                     * the head count as a layer each */                           \
    X(middle_layers, middle_layers(m, p)) /* of each stage but those that first_layers and         \
                                           * last_layers say */                                    \
    X(less_first, middle_layers(m, p) - p->first_layers)                                           \
    X(less_last, middle_layers(m, p) - p->last_layers)                                             \
    X(samples_in_flight, (double)p->micro_batch * p->micro_batches)                                \
    X(replicas, share((double)p->dp * p->cp, p->shards > 0 ? p->shards : 1))                       \
    X(dp_shard, p->zero > 0 ? share(p->shards, p->cp) : 1)                                         \
    X(dp_replicate, p->zero > 0 ? share((double)p->dp * p->cp, p->shards) : p->dp)                 \
    X(bucket_elements, share(p->bucket_bytes, p->gradients == ORR_PRECISION_FP32 ? 4 : 2))         \
    X(megatron_bucket_bytes,                                                                       \
      fmax(4e7, 1e6 * p->dp * p->cp) * (p->gradients == ORR_PRECISION_FP32 ? 4 : 2))               \
    X(deepspeed_bucket_bytes, 5e8 * (p->gradients == ORR_PRECISION_FP32 ? 4 : 2))                  \
    X(device_samples, p->batch / (double)orr_plan_ranks(p))                                        \
    X(device_micro_samples, p->batch / ((double)orr_plan_ranks(p) * p->micro_batches))             \
    X(fsdp, p->zero == 3 ? share(p->shards, (double)p->cp * p->ep) : 1)                            \
    X(fsdp_replicas, share(p->dp, (double)p->ep *fsdp_axis(p)))                                    \
    X(ici_ep, ici(p, host, 0))                                                                     \
    X(ici_tp, ici(p, host, 1))                                                                     \
    X(ici_cp, ici(p, host, 2))                                                                     \
    X(ici_fsdp, ici(p, host, 3))                                                                   \
    X(ici_pp, ici(p, host, 4))                                                                     \
    X(ici_dp, ici(p, host, 5))                                                                     \
    X(dcn_ep, dcn(p, host, 0))                                                                     \
    X(dcn_tp, dcn(p, host, 1))                                                                     \
    X(dcn_cp, dcn(p, host, 2))                                                                     \
    X(dcn_fsdp, dcn(p, host, 3))                                                                   \
    X(dcn_pp, dcn(p, host, 4))                                                                     \
    X(dcn_dp, dcn(p, host, 5))
enum {
    ORR_QUANTITIES_BEFORE_ = ORR_PLAN_FIELDS - 1,
#define ORR_QUANTITY_ENUM_(name, value) ORR_QUANTITY_##name,
    ORR_QUANTITY_MAP(ORR_QUANTITY_ENUM_)
#undef ORR_QUANTITY_ENUM_
        ORR_QUANTITIES
};
/* Index of a quantity, of a text of `len` bytes; ORR_QUANTITIES: none of that name. */
uint32_t orr_quantity_named(const char *name, size_t len);
const char *orr_quantity_name(uint32_t quantity);
/* All quantities of a whole plan, shape (ORR_QUANTITIES). `host`: devices of the cluster's first
 * level; 0: unknown. */
void orr_quantities(const orr_model *model, const orr_plan *whole, uint32_t host, double *ret);
/* The value of a quantity as text: the word of a choice, else a number. At most `room` - 1 bytes.
 */
void orr_quantity_text(uint32_t quantity, double value, char *ret, size_t room);

/* --- rules ----------------------------------------------------------------------------------- */

/* A condition as numbers. `right` is a quantity, or ORR_QUANTITIES: `value`. */
enum { ORR_CONDITION_TERMS = 4, ORR_ALLOWED_ITEMS = 12, ORR_RULES_MAX = 72 };
typedef struct orr_framework_condition {
    struct {
        uint16_t left, right;
        char sign;
        double value;
    } term[ORR_CONDITION_TERMS];
    uint32_t n;
} orr_framework_condition;
bool orr_framework_condition_holds(const orr_framework_condition *condition,
                                   const double *quantities);
/* INVALID: a text that is no condition: a fault of a table. */
orr_status orr_framework_condition_parse(const char *text, orr_framework_condition *ret,
                                         orr_error *err) ORR_MUST_CHECK;

/* The rules of a framework as numbers, for searches that check many plans. */
typedef struct orr_allowed_item {
    char kind; /* '-': from `least` to `most`; '%': multiples of a quantity; '/': its divisors */
    uint16_t quantity;
    double least, most;
} orr_allowed_item;
typedef struct orr_framework_rules {
    const orr_framework_table *table;
    struct {
        uint16_t field, otherwise; /* `otherwise`: a quantity, or ORR_QUANTITIES: a number */
        double otherwise_value;    /* 0: none */
        orr_framework_condition when;
        orr_allowed_item allowed[ORR_ALLOWED_ITEMS];
        uint32_t n_allowed; /* 0: all */
    } rule[ORR_RULES_MAX];
    uint32_t n;
} orr_framework_rules;
/* For one model: conditions on it alone are dropped, with their rules where they do not hold. */
void orr_framework_specialize(orr_framework_rules *rules, const orr_model *model);
/* INVALID: a fault of the table, with the word that is unknown. */
orr_status orr_framework_compile(orr_framework framework, orr_framework_rules *ret,
                                 orr_error *err) ORR_MUST_CHECK;
orr_plan orr_framework_fill(const orr_framework_rules *rules, const orr_model *model,
                            const orr_plan *plan);
orr_status orr_framework_verify(const orr_framework_rules *rules, const orr_model *model,
                                const orr_plan *plan, orr_error *err) ORR_MUST_CHECK;
/* Whether a plan may have the value of the quantity, for all that is said of it without a
 * condition; the reason is in `err` (or NULL). */
bool orr_framework_may(const orr_framework_rules *rules, uint32_t quantity, uint32_t value,
                       orr_error *err);
/* The same plan, but fields that it leaves open are set where the framework's default is another
 * than that of orr_plan_with_defaults(): it means the same with the framework and without. */
orr_plan orr_framework_explicit(const orr_framework_rules *rules, const orr_model *model,
                                const orr_plan *plan);

#endif /* ORR_MODEL_FRAMEWORK_FRAMEWORK_H */
