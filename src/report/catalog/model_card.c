/* SPDX-License-Identifier: Apache-2.0 */
#include "report/catalog/model_card.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "report/humanize/human.h"

enum { CARD_LINES = 24, LINE_CHARS = 256 };

typedef struct card {
    const orr_model *model;
    orr_arena *arena;
    orr_model_note lines[CARD_LINES];
    uint32_t n;
    bool failed; /* out of memory */
} card;

ORR_PRINTF(4, 5)
static void add_from(card *c, const char *what, const char *source, const char *format, ...)
{
    char text[LINE_CHARS];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const size_t len = n < 0 ? 0 : n < LINE_CHARS ? (size_t)n : LINE_CHARS - 1;
    const char *value = orr_arena_strndup(c->arena, text, len);
    c->failed |= value == NULL;
    if (value != NULL && c->n < CARD_LINES)
        c->lines[c->n++] = (orr_model_note){what, value, source};
}
#define add(c, what, ...) add_from((c), (what), (c)->model->source, __VA_ARGS__)

/* "6 of 48", or "48" where it is all of them. */
static const char *of_layers(char buf[ORR_HUMAN_MAX], uint32_t n, uint32_t layers)
{
    if (n == layers)
        (void)snprintf(buf, ORR_HUMAN_MAX, "all %u", n);
    else
        (void)snprintf(buf, ORR_HUMAN_MAX, "%u of %u", n, layers);
    return buf;
}

static uint32_t count_layers(const orr_model *m, bool (*is)(const orr_model *, uint32_t))
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->layers; i++)
        n += is(m, i);
    return n;
}

static void add_attention(card *c)
{
    const orr_model *m = c->model;
    const orr_mla *a = &m->mla;
    static const char *const norms[] = {"", "; queries and keys normalised, with weights",
                                        "; queries and keys normalised, without weights"};
    char n[ORR_HUMAN_MAX];
    if (a->kv_rank > 0)
        add(c, "attention",
            "latent: %u heads of %u + %u rotary, values of %u; queries through %u columns, keys and "
            "values through %u",
            m->heads, a->nope_dim, a->rope_dim, a->value_dim, a->q_rank, a->kv_rank);
    else
        add(c, "attention", "%u heads of %u, %u of keys and values%s%s%s", m->heads, m->head_dim,
            m->kv_heads, m->qkv_bias ? "; biases" : "", m->sinks ? "; sinks" : "",
            norms[m->qk_norm]);
    if (m->chunk > 0)
        add(c, "attention span", "%s of %u tokens; %s layers see all",
            m->sliding ? "a sliding window" : "chunks", m->chunk,
            of_layers(n, count_layers(m, orr_model_layer_global), m->layers));
    if (m->cross_layers > 0)
        add(c, "cross-attention", "%s layers, the first number %u, then every %u",
            of_layers(n, m->cross_layers, m->layers), m->cross_first, m->cross_every);
}

static void add_feed_forward(card *c)
{
    static const char *const activations[] = {"SwiGLU", "GELU", "ReLU"};
    const orr_model *m = c->model;
    const orr_moe *moe = &m->moe;
    const uint32_t mixed = count_layers(m, orr_model_layer_moe);
    char n[ORR_HUMAN_MAX];
    if (mixed < m->layers)
        add(c, "feed-forward", "%u columns, %s%s%s%s", m->ffn, activations[m->activation],
            m->mlp_bias ? ", biases" : "", mixed > 0 ? "; layers: " : "",
            mixed > 0 ? of_layers(n, m->layers - mixed, m->layers) : "");
    if (mixed == 0)
        return;
    add(c, "experts", "%u of %u columns, %s, %u for a token; layers: %s", moe->experts,
        moe->expert_ffn, activations[m->activation], moe->top_k, of_layers(n, mixed, m->layers));
    if (moe->shared > 0)
        add(c, "shared experts", "%u of %u columns", moe->shared, moe->shared_ffn);
    if (moe->groups > 0)
        add(c, "router", "%s%s; the best %u of %u groups",
            moe->router == ORR_ROUTER_SIGMOID ? "sigmoid" : "softmax",
            moe->router_bias ? ", corrected by a bias" : "", moe->top_groups, moe->groups);
    else
        add(c, "router", "%s%s", moe->router == ORR_ROUTER_SIGMOID ? "sigmoid" : "softmax",
            moe->scales_input ? ", weighs what goes into an expert" : "");
}

static void add_tokens(card *c)
{
    const orr_model *m = c->model;
    char n[ORR_HUMAN_MAX];
    add(c, "norm", "%s, epsilon %g", m->norm == ORR_NORM_RMS ? "RMS" : "layer", m->norm_epsilon);
    if (m->position == ORR_POSITION_ROTARY)
        add(c, "positions", "rotary, base %g%s", m->rope_theta,
            m->chunk > 0 && !m->sliding ? "; none in layers that see all" : "");
    else
        add(c, "positions", "%s",
            m->position == ORR_POSITION_LEARNED ? "learned"
            : m->position == ORR_POSITION_ALIBI ? "ALiBi"
                                                : "none");
    add(c, "vocabulary", "%s tokens; embedding and head %s", orr_human_count(n, m->vocab),
        m->tied ? "shared" : "apart");
    add(c, "context", "%s tokens", orr_human_count(n, m->context));
}

static void add_vision(card *c)
{
    const orr_vision *v = &c->model->vision;
    if (v->layers == 0)
        return;
    add(c, "vision encoder", "%u layers of %u columns%s, %u heads, feed-forward %u",
        v->layers + v->global_layers, v->hidden, v->gated_global ? ", the last ones gated" : "",
        v->heads, v->ffn);
    add(c, "images", "tiles of %u pixels in patches of %u, at most %u; %u tokens a tile", v->image,
        v->patch, v->tiles, v->tokens);
}

static void add_transformer(card *c)
{
    const orr_model *m = c->model;
    add(c, "layers", "%u of %u columns", m->layers, m->hidden);
    add_attention(c);
    add_feed_forward(c);
    add_tokens(c);
    add_vision(c);
    if (m->mtp > 0)
        add(c, "further tokens", "predicted by %u layer%s more", m->mtp, m->mtp > 1 ? "s" : "");
}

static const char *widths(char buf[LINE_CHARS], const uint32_t *all, uint32_t n)
{
    size_t used = 0;
    buf[0] = '\0';
    for (uint32_t i = 0; i < n && used < LINE_CHARS; i++)
        used += (size_t)snprintf(buf + used, LINE_CHARS - used, "%s%u", i > 0 ? "-" : "", all[i]);
    return buf;
}

static void add_dlrm(card *c)
{
    const orr_dlrm *d = &c->model->dlrm;
    char text[LINE_CHARS], n[ORR_HUMAN_MAX];
    uint64_t rows = 0;
    double lookups = 0;
    for (uint32_t t = 0; t < d->n_tables; t++) {
        rows += (uint64_t)d->tables[t].rows;
        lookups += d->tables[t].pooling;
    }
    add(c, "tables", "%u of %u columns, %s rows; %.6g lookups a sample", d->n_tables, d->dim,
        orr_human_count(n, rows), lookups);
    add(c, "bottom layers", "%u-%s", d->dense_features, widths(text, d->bottom, d->n_bottom));
    if (d->cross_layers > 0)
        add(c, "interaction", "%u cross layers of rank %u", d->cross_layers, d->cross_rank);
    else
        add(c, "interaction", "dot products of all pairs");
    add(c, "top layers", "%s", widths(text, d->top, d->n_top));
}

static void add_resnet(card *c)
{
    const orr_resnet *r = &c->model->resnet;
    char text[LINE_CHARS];
    add(c, "blocks", "%s bottlenecks", widths(text, r->blocks, r->n_stages));
    add(c, "widths", "%s, times %u behind a block; stem %u", widths(text, r->width, r->n_stages),
        r->expansion, r->stem);
    add(c, "images", "%u pixels a side, %u classes", r->image, r->classes);
}

/* What is counted from the shape, beside what is published. */
static void add_counts(card *c, const orr_model_size *size)
{
    static const char counted[] = "counted from the shape";
    const orr_model *m = c->model;
    char total[ORR_HUMAN_MAX], active[ORR_HUMAN_MAX];
    add_from(c, "parameters", counted, "%s%s", orr_human_count(total, (uint64_t)size->total),
             m->published_parameters == size->total ? ", as published" : "");
    if (size->active != size->total)
        add_from(c, "active", counted, "%s for a %s",
                 orr_human_count(active, (uint64_t)size->active),
                 m->kind == ORR_MODEL_TRANSFORMER ? "token, with embedding and head" : "sample");
    const uint32_t seq = m->context < 8192 ? m->context : 8192;
    if (m->kind == ORR_MODEL_TRANSFORMER)
        add_from(c, "forward pass", counted, "%.4g TFLOP for a sample of %u tokens",
                 orr_model_flops(m, seq, false) / 1e12, seq);
    else
        add_from(c, "forward pass", counted, "%.4g GFLOP for a sample",
                 orr_model_flops(m, 0, false) / 1e9);
    if (m->vision.layers > 0)
        add_from(c, "image", counted, "%.4g TFLOP to encode all its tiles",
                 orr_model_image_flops(m) / 1e12);
}

static void add_shape(card *c, const orr_model_size *size)
{
    static void (*const of_kind[])(card *) = {
        [ORR_MODEL_TRANSFORMER] = add_transformer,
        [ORR_MODEL_DLRM] = add_dlrm,
        [ORR_MODEL_CONVOLUTIONAL] = add_resnet,
    };
    of_kind[c->model->kind](c);
    add_counts(c, size);
}

orr_status orr_model_card(const orr_model *model, const orr_model_size *size, orr_arena *arena,
                          const orr_model_note **ret, uint32_t *ret_n, orr_error *err)
{
    card c = {.model = model, .arena = arena};
    add(&c, "name", "%s", model->name);
    add(&c, "family", "%s", model->family);
    if (model->unverified)
        add(&c, "shape", "not verified");
    if (model->incomplete)
        add(&c, "shape", "not published: cannot be simulated");
    else
        add_shape(&c, size);
    orr_model_note *lines = orr_arena_array(arena, orr_model_note, c.n);
    if (c.failed || lines == NULL)
        return orr_fail_memory(err);
    memcpy(lines, c.lines, c.n * sizeof *lines);
    *ret = lines;
    *ret_n = c.n;
    return ORR_OK;
}
