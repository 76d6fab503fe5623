/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "rescale/compose/compose.h"

/* Lists of parameters: the gradients of a part, or what an optimizer steps over. */
static bool carry_parameters(orr_input_dims *dims, orr_ratio parameters)
{
    for (uint32_t i = 0; i < dims->n; i++) {
        const __int128 scaled = (__int128)dims->at[i].value * parameters.now;
        if (parameters.before <= 0 || scaled / parameters.before > INT64_MAX / 1024)
            return false;
        dims->at[i].value = (int64_t)(scaled / parameters.before);
    }
    return true;
}

orr_status orr_compose_dims(orr_composer *c, const orr_step_piece *piece, const char *op,
                            uint32_t mm, const char *text, orr_ratio parameters, const char **ret)
{
    orr_input_dims dims;
    orr_dim_meaning meaning[ORR_DIMS_MOST];
    bool unknown_shapes = false, changed = false;
    *ret = text;
    if (!orr_dims_parse(text, &dims) || dims.n == 0)
        return ORR_OK;
    orr_input_dims carried = dims;
    if (parameters.before > 0) {
        unknown_shapes = !carry_parameters(&carried, parameters);
    } else {
        orr_dims_meaning(piece, &c->from, op, mm, &dims, meaning);
        for (uint32_t i = 0; i < dims.n; i++)
            unknown_shapes |=
                !orr_dim_translate(&c->from, &c->to, meaning[i], &carried.at[i].value);
    }
    for (uint32_t i = 0; i < dims.n; i++)
        changed |= carried.at[i].value != dims.at[i].value;
    if (unknown_shapes) {
        if (c->unknown_shapes++ == 0)
            c->first_unknown_op = op;
        return ORR_OK;
    }
    if (!changed)
        return ORR_OK;
    *ret = orr_dims_text(text, &carried, c->arena);
    return *ret == NULL ? orr_fail_memory(c->err) : ORR_OK;
}

/* Of the recorded shapes, and of the same carried over. */
static orr_ratio of_piece(const orr_composer *c, const orr_profiled_step *step,
                          const orr_step_piece *p)
{
    orr_node_id op;
    orr_input_dims dims;
    orr_dim_meaning meaning[ORR_DIMS_MOST];
    orr_ratio r = {0, orr_piece_parameters(step, p)};
    const char *text = orr_piece_dims(step, p, &op);
    if (r.before == 0 || text == NULL || !orr_dims_parse(text, &dims))
        return (orr_ratio){0, 0};
    const char *name = orr_graph_str(step->g, step->g->name[op]);
    orr_dims_meaning(p, &c->from, name, 0, &dims, meaning);
    for (uint32_t i = 0; i < dims.n; i++)
        orr_dim_translate(&c->from, &c->to, meaning[i], &dims.at[i].value);
    switch ((orr_op_kind)p->kind) {
    case ORR_OP_NORM:
        for (uint32_t arg = 1; arg < 5; arg++)
            r.now += orr_dims_rank(&dims, arg) == 1 ? orr_dims_product(&dims, arg) : 0;
        break;
    case ORR_OP_EMBEDDING:
        r.now = orr_dims_product(&dims, 0);
        break;
    default:
        r.now = strstr(name, "addmm") != NULL
                    ? orr_dims_product(&dims, 0) + orr_dims_product(&dims, 2)
                    : orr_dims_product(&dims, 1) +
                          (orr_dims_rank(&dims, 2) == 1 ? orr_dims_product(&dims, 2) : 0);
    }
    return r;
}

orr_ratio orr_compose_parameters(const orr_composer *c, const orr_profiled_step *step,
                                 orr_model_part_kind part, int32_t layer)
{
    orr_ratio sum = {0, 0};
    for (uint32_t i = 0; i < step->n_pieces; i++) {
        const orr_step_piece *p = &step->pieces[i];
        if (p->phase != ORR_PHASE_FORWARD || p->part != part || p->micro_batch != 0 ||
            (part == ORR_MODEL_PART_LAYER && p->layer != layer))
            continue;
        const orr_ratio r = of_piece(c, step, p);
        sum.before += r.before;
        sum.now += r.now;
    }
    return sum;
}
