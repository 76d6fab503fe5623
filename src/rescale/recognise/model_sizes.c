/* SPDX-License-Identifier: Apache-2.0 */
#include "rescale/recognise/input_dims.h"

/* Sizes of the model from recorded shapes, and what they contradict. */

/* The first forward piece of that kind with dimensions, in any rank. */
static bool find_dims(const orr_survey *s, orr_op_kind kind, uint32_t rank_of_first,
                      orr_input_dims *ret, const char **ret_op)
{
    for (uint32_t d = 0; d < s->job->n_graphs; d++) {
        const orr_profiled_step *step = &s->steps[d];
        for (uint32_t i = 0; i < step->n_pieces; i++) {
            orr_node_id op;
            const orr_step_piece *p = &step->pieces[i];
            if (p->phase != ORR_PHASE_FORWARD || p->kind != kind ||
                (kind != ORR_OP_EMBEDDING && p->part != ORR_MODEL_PART_LAYER))
                continue;
            const char *text = orr_piece_dims(step, p, &op);
            if (text != NULL && orr_dims_parse(text, ret) &&
                orr_dims_rank(ret, 0) == rank_of_first) {
                *ret_op = orr_graph_str(step->g, step->g->name[op]);
                return true;
            }
        }
    }
    return false;
}

static orr_status report_size(orr_survey *s, const char *what, uint32_t *field, uint32_t stated,
                              int64_t found, const char *op, orr_error *err)
{
    if (found <= 0 || found > UINT32_MAX - 1)
        found = 0;
    if (stated > 0 && found > 0 && stated != (uint64_t)found)
        return orr_fail(err, ORR_INVALID, "%s=%u is stated, but the shapes of '%s' say %lld", what,
                        stated, op, (long long)found);
    *field = stated > 0 ? stated : (uint32_t)found;
    if (stated > 0)
        return orr_findings_number(&s->findings, what, stated, ORR_CONFIDENCE_STATED, err,
                                   "as stated");
    if (found == 0)
        return orr_findings_add(&s->findings, what, "", ORR_CONFIDENCE_UNKNOWN, err,
                                "no operator with shapes that would show it");
    return orr_findings_number(&s->findings, what, *field, ORR_CONFIDENCE_INFERRED, err,
                               "shapes of '%s'", op);
}

orr_status orr_survey_shapes(orr_survey *s, const orr_plan *stated, orr_error *err)
{
    static const orr_plan nothing = {0};
    const orr_plan *said = stated != NULL ? stated : &nothing;
    const int64_t t = orr_plan_degree(s->plan.tp);
    orr_input_dims dims;
    const char *op = "";
    bool found =
        find_dims(s, ORR_OP_NORM, 3, &dims, &op) || find_dims(s, ORR_OP_COLUMN, 3, &dims, &op);
    ORR_TRY(report_size(s, "hidden", &s->plan.hidden, said->hidden,
                        found ? orr_dims_value(&dims, 0, 2) : 0, op, err));
    ORR_TRY(report_size(s, "seq", &s->plan.seq, said->seq, found ? orr_dims_value(&dims, 0, 1) : 0,
                        op, err));
    ORR_TRY(report_size(s, "micro_batch", &s->plan.micro_batch, said->micro_batch,
                        found ? orr_dims_value(&dims, 0, 0) : 0, op, err));
    found = find_dims(s, ORR_OP_ACTIVATION, 3, &dims, &op);
    ORR_TRY(report_size(s, "ffn", &s->plan.ffn, said->ffn,
                        found ? orr_dims_value(&dims, 0, 2) * t : 0, op, err));
    found = find_dims(s, ORR_OP_ATTENTION, 4, &dims, &op);
    ORR_TRY(report_size(s, "heads", &s->plan.heads, said->heads,
                        found ? orr_dims_value(&dims, 0, 1) * t : 0, op, err));
    found = find_dims(s, ORR_OP_EMBEDDING, 2, &dims, &op);
    return report_size(s, "vocab", &s->plan.vocab, said->vocab,
                       found ? orr_dims_value(&dims, 0, 0) * t : 0, op, err);
}
