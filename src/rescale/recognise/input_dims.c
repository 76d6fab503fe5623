/* SPDX-License-Identifier: Apache-2.0 */
#include "rescale/recognise/input_dims.h"

#include <stdio.h>
#include <string.h>

bool orr_dims_parse(const char *text, orr_input_dims *ret)
{
    uint32_t arg = 0, first = 0;
    int depth = 0;
    ret->n = 0;
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '[') {
            if (++depth == 2)
                first = ret->n;
        } else if (*at == ']') {
            if (depth-- != 2)
                continue;
            for (uint32_t i = first; i < ret->n; i++)
                ret->at[i].n = ret->n - first;
            arg++;
        } else if (*at >= '0' && *at <= '9') {
            const char *begin = at;
            int64_t value = 0;
            for (; *at >= '0' && *at <= '9'; at++)
                if (__builtin_mul_overflow(value, (int64_t)10, &value) ||
                    __builtin_add_overflow(value, (int64_t)(*at - '0'), &value) ||
                    value > INT64_MAX / 1024) {
                    ret->n = 0;
                    return false;
                }
            if (ret->n == ORR_DIMS_MOST) {
                ret->n = 0;
                return false;
            }
            ret->at[ret->n] = (orr_input_dim){.arg = arg,
                                              .at = ret->n - first,
                                              .value = value,
                                              .text_at = (uint32_t)(begin - text),
                                              .text_len = (uint32_t)(at - begin)};
            ret->n++;
            at--;
        }
    }
    return true;
}

int64_t orr_dims_value(const orr_input_dims *dims, uint32_t arg, uint32_t at)
{
    for (uint32_t i = 0; i < dims->n; i++)
        if (dims->at[i].arg == arg && dims->at[i].at == at)
            return dims->at[i].value;
    return -1;
}

uint32_t orr_dims_rank(const orr_input_dims *dims, uint32_t arg)
{
    for (uint32_t i = 0; i < dims->n; i++)
        if (dims->at[i].arg == arg)
            return dims->at[i].n;
    return 0;
}

int64_t orr_dims_product(const orr_input_dims *dims, uint32_t arg)
{
    int64_t product = 1;
    bool any = false;
    for (uint32_t i = 0; i < dims->n; i++)
        if (dims->at[i].arg == arg) {
            any = true;
            if (__builtin_mul_overflow(product, dims->at[i].value, &product))
                return 0;
        }
    return any ? product : 0;
}

const char *orr_dims_text(const char *text, const orr_input_dims *dims, orr_arena *arena)
{
    char *made = orr_arena_array(arena, char, strlen(text) + 20 * (size_t)dims->n + 1);
    size_t n = 0;
    uint32_t from = 0;
    if (made == NULL)
        return NULL;
    for (uint32_t i = 0; i < dims->n; i++) {
        const orr_input_dim *d = &dims->at[i];
        memcpy(made + n, text + from, d->text_at - from);
        n += d->text_at - from;
        n += (size_t)snprintf(made + n, 21, "%lld", (long long)d->value);
        from = d->text_at + d->text_len;
    }
    memcpy(made + n, text + from, strlen(text) - from + 1);
    return made;
}

/* What a symbol stands for in a plan; 0: not known. */
static int64_t dim_symbol_value(const orr_plan *plan, orr_dim_meaning feature)
{
    const int64_t cut = feature.cut ? orr_plan_degree(plan->tp) : 1;
    int64_t value = 0;
    switch ((orr_dim_symbol)feature.symbol) {
    case ORR_SYMBOL_FIXED:
        return 1;
    case ORR_SYMBOL_SAMPLES:
        value = plan->micro_batch;
        break;
    case ORR_SYMBOL_SEQ:
        value = plan->seq;
        break;
    case ORR_SYMBOL_TOKENS:
        value = (int64_t)plan->micro_batch * plan->seq;
        break;
    case ORR_SYMBOL_HEADS:
        value = plan->heads;
        break;
    case ORR_SYMBOL_HEAD:
        value = plan->heads > 0 ? plan->hidden / plan->heads : 0;
        break;
    case ORR_SYMBOL_HIDDEN:
        value = plan->hidden;
        break;
    case ORR_SYMBOL_FFN:
        value = plan->ffn;
        break;
    case ORR_SYMBOL_VOCAB:
        value = plan->vocab;
        break;
    }
    return value % cut == 0 ? value / cut : 0;
}

bool orr_dim_translate(const orr_plan *from, const orr_plan *to, orr_dim_meaning feature,
                       int64_t *value)
{
    /* Whole before cut, so that a value that tells nothing of the other numbers of the plan (no
     * heads recognised, say) still changes with the slices alone. */
    int64_t old = dim_symbol_value(from, (orr_dim_meaning){feature.symbol, false});
    int64_t new = dim_symbol_value(to, (orr_dim_meaning){feature.symbol, false});
    int64_t scaled;
    if (old == 0 && new == 0)
        old = new = 1;
    if (old == 0 || new == 0)
        return false;
    const int64_t cut_old = feature.cut ? orr_plan_degree(from->tp) : 1;
    const int64_t cut_new = feature.cut ? orr_plan_degree(to->tp) : 1;
    /* A number that is no multiple of what it is taken for is not that. */
    if ((old != new || cut_old != cut_new) && (*value * cut_old) % old != 0)
        return false;
    if (__builtin_mul_overflow(*value, new, &scaled) ||
        __builtin_mul_overflow(scaled, cut_old, &scaled) ||
        __builtin_mul_overflow(old, cut_new, &old) || scaled % old != 0)
        return false;
    *value = scaled / old;
    return true;
}

static const orr_dim_meaning fixed = {ORR_SYMBOL_FIXED, false};
static const orr_dim_meaning tokens = {ORR_SYMBOL_TOKENS, false};
static const orr_dim_meaning samples = {ORR_SYMBOL_SAMPLES, false};
static const orr_dim_meaning seq = {ORR_SYMBOL_SEQ, false};
static const orr_dim_meaning vocab = {ORR_SYMBOL_VOCAB, true};
static const orr_dim_meaning hidden = {ORR_SYMBOL_HIDDEN, false};

/* (tokens, in) x (in, out), its gradients (tokens, out) x (out, in) and (in, tokens) x (tokens,
 * out). */
static orr_dim_meaning of_product(const orr_step_piece *p, const char *op, uint32_t mm,
                                  const orr_input_dim *d, int64_t rows, int64_t n_tokens)
{
    if (strstr(op, "addmm") != NULL)
        return d->arg == 1 ? (d->at == 0 ? tokens : p->in) : (d->at == 0 ? p->in : p->out);
    if (strcmp(op, "aten::mm") != 0) /* linear: weight (out, in) */
        return d->arg == 0 ? (d->at == 0 ? tokens : p->in) : (d->at == 0 ? p->out : p->in);
    if (p->phase != ORR_PHASE_BACKWARD)
        return d->arg == 0 ? (d->at == 0 ? tokens : p->in) : (d->at == 0 ? p->in : p->out);
    const bool of_input = mm == 0 && rows == n_tokens;
    if (of_input)
        return d->arg == 0 ? (d->at == 0 ? tokens : p->out) : (d->at == 0 ? p->out : p->in);
    return d->arg == 0 ? (d->at == 0 ? p->in : tokens) : (d->at == 0 ? tokens : p->out);
}

static orr_dim_meaning of_pair(const orr_step_piece *p, const orr_plan *plan, const char *op,
                               uint32_t mm, const orr_input_dim *d, int64_t first, int64_t rows)
{
    const int64_t n_tokens = dim_symbol_value(plan, tokens);
    switch ((orr_op_kind)p->kind) {
    case ORR_OP_COLUMN:
    case ORR_OP_ROW:
        return of_product(p, op, mm, d, rows, n_tokens);
    case ORR_OP_EMBEDDING:
        if (d->arg == 0 && strstr(op, "backward") == NULL)
            return d->at == 0 ? vocab : hidden;
        return d->at == 0 ? samples : seq;
    case ORR_OP_SOFTMAX:
        return d->at == 0 ? tokens : vocab;
    default:
        if (first == plan->micro_batch && first != n_tokens)
            return d->at == 0 ? samples : seq;
        return d->at == 0 ? (first == n_tokens ? tokens : fixed) : p->in;
    }
}

static orr_dim_meaning of_single(const orr_step_piece *p, const orr_plan *plan,
                                 const orr_input_dim *d)
{
    switch ((orr_op_kind)p->kind) {
    case ORR_OP_COLUMN:
    case ORR_OP_ROW:
        return p->out; /* the bias */
    case ORR_OP_NORM:
        return hidden;
    case ORR_OP_EMBEDDING:
    case ORR_OP_SOFTMAX:
        return tokens;
    default:
        return d->value == dim_symbol_value(plan, tokens) ? tokens : p->in;
    }
}

/* (samples, heads, seq, columns) or (samples, seq, heads, columns). */
static orr_dim_meaning of_heads(const orr_plan *plan, const orr_input_dim *d, int64_t second,
                                int64_t third)
{
    static const orr_dim_meaning heads = {ORR_SYMBOL_HEADS, true}, head = {ORR_SYMBOL_HEAD, false};
    if (d->at == 0)
        return samples;
    if (d->at == 3)
        return head;
    const bool seq_first = second == plan->seq && third != plan->seq;
    return (d->at == 1) == seq_first ? seq : heads;
}

void orr_dims_meaning(const orr_step_piece *p, const orr_plan *plan, const char *op, uint32_t mm,
                      const orr_input_dims *dims, orr_dim_meaning *ret)
{
    for (uint32_t i = 0; i < dims->n; i++) {
        const orr_input_dim *d = &dims->at[i];
        const int64_t first = orr_dims_value(dims, d->arg, 0);
        ret[i] = fixed;
        if (d->value == 1 && d->at + 1 == d->n && d->n == 3)
            continue; /* (samples, seq, 1): a mean */
        if (d->n == 4)
            ret[i] =
                of_heads(plan, d, orr_dims_value(dims, d->arg, 1), orr_dims_value(dims, d->arg, 2));
        else if (d->n == 3)
            ret[i] = d->at == 0   ? samples
                     : d->at == 1 ? seq
                                  : (p->kind == ORR_OP_EMBEDDING ? hidden : p->in);
        else if (d->n == 2)
            ret[i] = of_pair(p, plan, op, mm, d, first, orr_dims_value(dims, 0, 0));
        else if (d->n == 1)
            ret[i] = of_single(p, plan, d);
    }
}

int64_t orr_piece_parameters(const orr_profiled_step *step, const orr_step_piece *piece)
{
    orr_node_id op;
    orr_input_dims dims;
    const char *text = orr_piece_dims(step, piece, &op);
    if (text == NULL || !orr_dims_parse(text, &dims))
        return 0;
    const char *name = orr_graph_str(step->g, step->g->name[op]);
    switch ((orr_op_kind)piece->kind) {
    case ORR_OP_COLUMN:
    case ORR_OP_ROW:
        if (strstr(name, "addmm") != NULL)
            return orr_dims_product(&dims, 0) + orr_dims_product(&dims, 2);
        return orr_dims_product(&dims, 1) +
               (orr_dims_rank(&dims, 2) == 1 ? orr_dims_product(&dims, 2) : 0);
    case ORR_OP_NORM: {
        int64_t sum = 0;
        for (uint32_t arg = 1; arg < 5; arg++)
            if (orr_dims_rank(&dims, arg) == 1)
                sum += orr_dims_product(&dims, arg);
        return sum;
    }
    case ORR_OP_EMBEDDING:
        return orr_dims_product(&dims, 0);
    default:
        return 0;
    }
}
