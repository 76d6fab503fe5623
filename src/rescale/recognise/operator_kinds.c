/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "rescale/recognise/input_dims.h"

/* Of operators by name. */
static orr_op_kind op_kind_by_name(const char *name)
{
    static const struct {
        const char *word;
        uint8_t kind;
    } words[] = {
        {"layer_norm", ORR_OP_NORM},
        {"rms_norm", ORR_OP_NORM},
        {"scaled_dot_product", ORR_OP_ATTENTION},
        {"flash_attention", ORR_OP_ATTENTION},
        {"efficient_attention", ORR_OP_ATTENTION},
        {"gelu", ORR_OP_ACTIVATION},
        {"silu", ORR_OP_ACTIVATION},
        {"aten::relu", ORR_OP_ACTIVATION},
        {"embedding", ORR_OP_EMBEDDING},
        {"log_softmax", ORR_OP_SOFTMAX},
        {"nll_loss", ORR_OP_SOFTMAX},
        {"cross_entropy", ORR_OP_SOFTMAX},
        {"aten::linear", ORR_OP_COLUMN},
        {"aten::addmm", ORR_OP_COLUMN},
        {"aten::mm", ORR_OP_COLUMN},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(name, words[i].word) != NULL && strstr(name, "embedding_bag") == NULL)
            return (orr_op_kind)words[i].kind;
    return ORR_OP_OTHER;
}

static orr_op_kind kind_of_piece(const orr_profiled_step *step, const orr_step_piece *p)
{
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const orr_node_id v = step->nodes[p->first_node + i];
        const orr_op_kind kind = op_kind_by_name(orr_graph_str(step->g, step->g->name[v]));
        if (kind != ORR_OP_OTHER)
            return kind;
    }
    return ORR_OP_OTHER;
}

/* What each operator is in a transformer, from the order of operators: a norm, column-parallel
 * products, attention or an activation on the slices, and a row-parallel product, which an
 * all-reduce follows. A piece inherits the meaning of its activations from the piece before. */
typedef struct walk {
    orr_op_kind last;    /* that was not OTHER */
    orr_dim_meaning now; /* of activations     */
} walk;

/* The next operator tells what the columns of a product mean. */
static uint8_t symbol_ahead(const orr_profiled_step *step, uint32_t i)
{
    const orr_step_piece *p = &step->pieces[i];
    for (uint32_t k = i + 1; k < step->n_pieces; k++) {
        const orr_step_piece *next = &step->pieces[k];
        if (next->phase != ORR_PHASE_FORWARD || next->micro_batch != p->micro_batch)
            break;
        switch (kind_of_piece(step, next)) {
        case ORR_OP_ATTENTION:
            return ORR_SYMBOL_HIDDEN;
        case ORR_OP_ACTIVATION:
            return ORR_SYMBOL_FFN;
        case ORR_OP_SOFTMAX:
            return ORR_SYMBOL_VOCAB;
        case ORR_OP_NORM:
            return ORR_SYMBOL_HIDDEN;
        default:
            break;
        }
    }
    return p->part == ORR_MODEL_PART_HEAD ? ORR_SYMBOL_VOCAB : ORR_SYMBOL_HIDDEN;
}

static void walk_on(const orr_profiled_step *step, uint32_t i, orr_step_piece *p, walk *w)
{
    static const orr_dim_meaning hidden = {ORR_SYMBOL_HIDDEN, false};
    p->kind = (uint8_t)kind_of_piece(step, p);
    p->in = p->out = w->now;
    switch ((orr_op_kind)p->kind) {
    case ORR_OP_NORM:
    case ORR_OP_EMBEDDING:
        p->in = p->out = hidden;
        break;
    case ORR_OP_COLUMN: {
        const bool joins = w->last == ORR_OP_ATTENTION || w->last == ORR_OP_ACTIVATION;
        p->kind = joins ? ORR_OP_ROW : ORR_OP_COLUMN;
        /* Several products side by side (query, key, value; gate and up) read the same input. */
        p->in = joins ? w->now : hidden;
        p->out = joins ? hidden : (orr_dim_meaning){symbol_ahead(step, i), true};
        break;
    }
    case ORR_OP_ATTENTION:
        p->out = (orr_dim_meaning){ORR_SYMBOL_HIDDEN, true};
        break;
    case ORR_OP_SOFTMAX:
        p->in = p->out = (orr_dim_meaning){ORR_SYMBOL_VOCAB, true};
        break;
    case ORR_OP_OTHER:
        return;
    default:
        break;
    }
    w->last = (orr_op_kind)p->kind;
    w->now = p->out;
}

void orr_survey_kinds(orr_survey *s)
{
    for (uint32_t d = 0; d < s->job->n_graphs; d++) {
        orr_profiled_step *step = &s->steps[d];
        walk w = {ORR_OP_OTHER, {ORR_SYMBOL_HIDDEN, false}};
        int32_t micro_batch = -1;
        for (uint32_t i = 0; i < step->n_pieces; i++) {
            orr_step_piece *p = &step->pieces[i];
            if (p->role != ORR_ROLE_WORK)
                p->in = p->out = (orr_dim_meaning){ORR_SYMBOL_HIDDEN, false};
            if (p->phase != ORR_PHASE_FORWARD || p->role != ORR_ROLE_WORK)
                continue;
            if (p->micro_batch != micro_batch)
                w = (walk){ORR_OP_OTHER, {ORR_SYMBOL_HIDDEN, false}};
            micro_batch = p->micro_batch;
            walk_on(step, i, p, &w);
        }
        for (uint32_t i = 0; i < step->n_pieces; i++) {
            orr_step_piece *p = &step->pieces[i];
            if (p->forward == ORR_NONE)
                continue;
            p->kind = step->pieces[p->forward].kind;
            p->in = step->pieces[p->forward].in;
            p->out = step->pieces[p->forward].out;
        }
    }
}
