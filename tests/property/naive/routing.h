/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_NAIVE_ROUTING_H
#define TESTS_NAIVE_ROUTING_H

#include "call.h"

/* Choosing experts, and carrying tokens to them and back. */
enum { NAIVE_EXPERTS_MAX = 64 };

static double naive_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static bool naive_by_sigmoid(const naive_call *c)
{
    return c->args->op == ORR_OP_SIGMOID;
}

/* What experts are chosen by: of groups, only the best; of a group, by its two best experts. */
static void naive_choice(const naive_call *c, int64_t t, double *choice)
{
    const int64_t experts = naive_columns(&c->in_type[0]);
    for (int64_t e = 0; e < experts; e++) {
        const double logit = c->in[0][t * experts + e];
        choice[e] =
            (naive_by_sigmoid(c) ? naive_sigmoid(logit) : logit) + (c->n_in > 1 ? c->in[1][e] : 0);
    }
    const int64_t groups = c->args->count, chosen = c->args->begin;
    if (groups <= 1 || chosen >= groups)
        return;
    double best[NAIVE_EXPERTS_MAX];
    const int64_t each = experts / groups;
    for (int64_t g = 0; g < groups; g++) {
        double first = -INFINITY, second = -INFINITY;
        for (int64_t e = g * each; e < (g + 1) * each; e++)
            if (choice[e] > first) {
                second = first;
                first = choice[e];
            } else {
                second = fmax(second, choice[e]);
            }
        best[g] = first + (each > 1 ? second : 0);
    }
    for (int64_t g = 0; g < groups; g++) {
        int64_t better = 0;
        for (int64_t other = 0; other < groups; other++)
            better += best[other] > best[g] || (best[other] == best[g] && other < g);
        for (int64_t e = g * each; better >= chosen && e < (g + 1) * each; e++)
            choice[e] = -INFINITY;
    }
}

/* Scores of the chosen experts: softmax over them or their sigmoids, divided by their sum; of one
 * expert its softmax over all, or its sigmoid. Times args.value where that is not 0. */
static void naive_scores(const naive_call *c, const double *logits, int64_t experts,
                         const double *index, int64_t k, double *scores)
{
    double sum = 0;
    for (int64_t i = 0; i < k; i++) {
        const double logit = logits[(int64_t)index[i]];
        scores[i] = naive_by_sigmoid(c) ? naive_sigmoid(logit) : exp(logit);
        sum += scores[i];
    }
    if (k == 1) {
        sum = naive_by_sigmoid(c) ? 1 : 0;
        for (int64_t e = 0; e < experts && !naive_by_sigmoid(c); e++)
            sum += exp(logits[e]);
    }
    for (int64_t i = 0; i < k; i++)
        scores[i] *= (c->args->value != 0 ? c->args->value : 1) / sum;
}

static void naive_top_k(const naive_call *c)
{
    const int64_t experts = naive_columns(&c->in_type[0]), k = c->args->top_k;
    double choice[NAIVE_EXPERTS_MAX];
    for (int64_t t = 0; t < naive_rows(&c->in_type[0]); t++) {
        naive_choice(c, t, choice);
        double *index = c->out[1] + t * k;
        for (int64_t i = 0; i < k; i++) {
            int64_t best = 0;
            for (int64_t e = 1; e < experts; e++)
                if (choice[e] > choice[best])
                    best = e;
            index[i] = (double)best;
            choice[best] = -INFINITY;
        }
        naive_scores(c, c->in[0] + t * experts, experts, index, k, c->out[0] + t * k);
    }
}

/* Derivatives of the quotient term by term: score_i = a * f_i / sum. */
static void naive_top_k_backward(const naive_call *c)
{
    const int64_t experts = naive_columns(&c->in_type[0]), k = c->args->top_k;
    double scores[NAIVE_EXPERTS_MAX];
    for (int64_t t = 0; t < naive_rows(&c->in_type[0]); t++) {
        const double *logits = c->in[0] + t * experts, *index = c->in[1] + t * k,
                     *grad = c->in[2] + t * k;
        double *to = c->out[0] + t * experts, dot = 0;
        naive_scores(c, logits, experts, index, k, scores);
        naive_zero(to, experts);
        for (int64_t i = 0; i < k; i++)
            dot += scores[i] * grad[i];
        if (k == 1 && !naive_by_sigmoid(c)) {
            double sum = 0;
            for (int64_t e = 0; e < experts; e++)
                sum += exp(logits[e]);
            for (int64_t e = 0; e < experts; e++)
                to[e] = dot * ((e == (int64_t)index[0]) - exp(logits[e]) / sum);
            continue;
        }
        const double factor = c->args->value != 0 ? c->args->value : 1;
        for (int64_t i = 0; i < k; i++) {
            const int64_t e = (int64_t)index[i];
            const double through =
                k == 1 ? scores[i] * grad[i] : scores[i] * (grad[i] - dot / factor);
            to[e] += through * (naive_by_sigmoid(c) ? 1 - naive_sigmoid(logits[e]) : 1);
        }
    }
}

/* The position of the expert of choice i. */
static int64_t naive_expert(const naive_call *c, int64_t i)
{
    const int64_t expert = (int64_t)c->in[1][i];
    return c->args->expert_position != NULL ? c->args->expert_position[expert] : expert;
}

/* Where choice i of the indices stands once all are sorted by expert, equal ones in order: among
 * all, or in the part of its expert. */
static int64_t naive_position(const naive_call *c, int64_t rows, int64_t i)
{
    const int64_t n = naive_size(&c->in_type[1]), parts = c->args->members;
    const int64_t each = parts > 0 ? c->args->experts / parts : 0;
    const int64_t expert = naive_expert(c, i), part = parts > 0 ? expert / each : 0;
    int64_t before = 0;
    for (int64_t j = 0; j < n; j++) {
        const int64_t other = naive_expert(c, j);
        if (parts == 0 || other / each == part)
            before += other < expert || (other == expert && j < i);
    }
    return parts > 0 ? part * (rows / parts) + before : before;
}

static void naive_dispatch(const naive_call *c)
{
    const int64_t columns = naive_columns(&c->in_type[0]), n = naive_size(&c->in_type[1]),
                  k = naive_columns(&c->in_type[1]), rows = c->out_type[0].dim[0];
    naive_zero(c->out[0], rows * columns);
    for (int64_t i = 0; i < n; i++) {
        const int64_t to = naive_position(c, rows, i);
        const double score = c->n_in > 2 ? c->in[2][i] : 1;
        for (int64_t j = 0; j < columns && to < rows; j++)
            c->out[0][to * columns + j] = score * c->in[0][i / k * columns + j];
    }
    if (c->n_out < 2)
        return;
    naive_zero(c->out[1], c->args->experts);
    for (int64_t i = 0; i < n; i++)
        c->out[1][naive_expert(c, i)]++;
}

static void naive_combine(const naive_call *c)
{
    const int64_t columns = naive_columns(&c->in_type[0]), n = naive_size(&c->in_type[1]),
                  k = naive_columns(&c->in_type[1]), rows = c->in_type[0].dim[0];
    const bool products = c->args->op == ORR_OP_MUL;
    naive_zero(c->out[0], naive_size(&c->out_type[0]));
    for (int64_t i = 0; i < n; i++) {
        const int64_t from = naive_position(c, rows, i), t = i / k;
        const double score = !products && c->n_in > 2 ? c->in[2][i] : 1;
        for (int64_t j = 0; j < columns && from < rows; j++)
            if (products)
                c->out[0][i] += c->in[0][from * columns + j] * c->in[2][t * columns + j];
            else
                c->out[0][t * columns + j] += score * c->in[0][from * columns + j];
    }
}

#endif /* TESTS_NAIVE_ROUTING_H */
