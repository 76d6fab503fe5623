/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_WEIGHTS_TENSOR_NAMES_H
#define ORR_WEIGHTS_TENSOR_NAMES_H

#include "weights/mapping.h"

/* Architectures by their tensor names: Hugging Face's name and GGUF's. */
#define ORR_ARCHITECTURE_MAP(X)                                                                    \
    X(LLAMA, "LlamaForCausalLM", "llama")                                                          \
    X(MISTRAL, "MistralForCausalLM", "llama")                                                      \
    X(MIXTRAL, "MixtralForCausalLM", "llama") X(LLAMA4, "Llama4ForCausalLM", "llama4")             \
        X(QWEN2, "Qwen2ForCausalLM", "qwen2") X(QWEN2_MOE, "Qwen2MoeForCausalLM", "qwen2moe")      \
            X(QWEN3, "Qwen3ForCausalLM", "qwen3") X(QWEN3_MOE, "Qwen3MoeForCausalLM", "qwen3moe")  \
                X(DEEPSEEK, "DeepseekV3ForCausalLM", "deepseek2")                                  \
                    X(GPT2, "GPT2LMHeadModel", "gpt2")
typedef enum orr_architecture {
#define ORR_ARCHITECTURE_ENUM_(name, hugging_face, gguf) ORR_ARCHITECTURE_##name,
    ORR_ARCHITECTURE_MAP(ORR_ARCHITECTURE_ENUM_)
#undef ORR_ARCHITECTURE_ENUM_
        ORR_ARCHITECTURES
} orr_architecture;
/* By the model's shape. UNSUPPORTED: none. */
orr_status orr_architecture_of(const orr_model *model, orr_architecture *ret,
                               orr_error *err) ORR_MUST_CHECK;
const char *orr_architecture_name(orr_architecture architecture);
const char *orr_architecture_gguf(orr_architecture architecture);

/* Tensor names without ".weight" and ".bias"; NULL: does not exist. Those of a layer follow
 * `layer`, in which %u is its number. */
typedef struct orr_tensor_names {
    const char *embedding, *positions, *final_norm, *layer;
    const char *attention_norm, *mlp_norm;
    const char *q, *k, *v, *qkv; /* qkv: all queries, keys and values in one */
    const char *q_norm, *k_norm, *attention_out;
    const char *q_down, *q_down_norm, *q_up, *kv_down, *kv_down_norm,
        *kv_up; /* latent attention (MLA) */
    const char *gate, *up, *down;
    const char *router, *router_bias; /* the bias: its whole name                             */
    const char *expert_gate, *expert_up, *expert_down; /* with %u: one tensor per expert */
    const char *experts_gate_up, *experts_down; /* whole names: all experts in one, input-major */
    const char *shared_gate, *shared_up, *shared_down, *shared_weight;
    const char *next_embedding_norm, *next_hidden_norm, *next_mix,
        *next_norm;   /* multi-token prediction (MTP) */
    bool input_major; /* weights of products are (K, N), as in GPT-2's Conv1D */
    bool interleaved; /* rotary pairs are columns 2i and 2i + 1 */
} orr_tensor_names;

struct orr_tensor_naming {
    const orr_model *model;
    const orr_weights *weights; /* NULL: for writing */
    const orr_tensor_names *names;
    uint8_t architecture; /* orr_architecture */
    bool gguf;
    const char *stem; /* prefix of the names: "model." */
    const char *head; /* "lm_head" with its prefix */
};

/* The mapping of a parameter of a layer; false: there is none of this name. */
bool orr_weight_mapping_of_layer(const orr_tensor_naming *naming, const orr_weight_key *key,
                                 orr_weight_mapping *mapping);
bool orr_weight_mapping_of_vision(const orr_tensor_naming *naming, const orr_weight_key *key,
                                  orr_weight_mapping *mapping);

/* Helpers: "<stem><layer with its number><name><end>", in the mapping's arena; NULL for NULL. */
const char *orr_weight_mapping_name(orr_weight_mapping *mapping, const char *stem,
                                    const char *layer, uint32_t number, const char *name,
                                    const char *end);
static inline const char *orr_weight_mapping_suffix(uint32_t nth)
{
    return nth > 0 ? ".bias" : ".weight";
}
/* A mapping to a single tensor: a vector, a table, or the weights (in, out) of a product. */
void orr_weight_mapping_single(orr_weight_mapping *mapping, orr_weight_mapping_kind kind,
                               const char *name, int64_t rows, int64_t columns, bool input_major);
/* Weights (in, out) of a linear layer; nth > 0: its bias. */
void orr_weight_mapping_linear(orr_weight_mapping *mapping, const char *name, uint32_t nth,
                               int64_t in, int64_t out, bool input_major);
/* Attention heads grouped by key head: queries, then the key and value that they share; nth > 0:
 * their biases. */
typedef struct orr_qkv_heads {
    const char *q, *k, *v, *qkv; /* whole names; one tensor (qkv) or three (qkv NULL) */
    int64_t heads, groups, width, hidden;
    uint32_t nth;
    bool input_major, turned; /* turned: permute rotary columns, see below */
} orr_qkv_heads;
void orr_weight_mapping_qkv(orr_weight_mapping *mapping, const orr_qkv_heads *heads,
                            bool to_interleaved);
/* Maps `count` rows, one head, whose rotary pairs are split in halves in the file and interleaved
 * in the parameter, or (`to_interleaved` false) the reverse. */
void orr_weight_mapping_rotary(orr_weight_mapping *mapping, uint32_t tensor, int64_t from,
                               int64_t count, bool to_interleaved);

#endif /* ORR_WEIGHTS_TENSOR_NAMES_H */
