/* SPDX-License-Identifier: Apache-2.0 */
#include "explore/space/transfers.h"

/* Values of the fields that say how gradients and weights travel, of one plan. */

const uint8_t ORR_TRANSFER_FIELD[ORR_TRANSFER_FIELDS] = {
    ORR_AT_compress,     ORR_AT_local_steps, ORR_AT_dp_algorithm, ORR_AT_dp_chunks, ORR_AT_prefetch,
    ORR_AT_bucket_bytes, ORR_AT_wire_dp,     ORR_AT_wire_pp,      ORR_AT_wire_cp,   ORR_AT_wire_ep};

/* Whether several ranks have the same weights, or the same experts. */
static bool reduces_gradients(const orr_space *s, const orr_plan *p)
{
    const uint64_t copies = (uint64_t)p->dp * p->cp;
    const bool sparse = s->model->moe.experts > 0;
    return copies > 1 || (sparse && copies * p->tp > (uint64_t)p->ep * p->etp);
}

/* Fields of transfers that the plan does not have keep their first value. */
uint32_t orr_transfer_values(const orr_space *s, const orr_plan *p, bool crosses, uint32_t field)
{
    const uint32_t n = s->list[field].n;
    const uint64_t near = s->cluster->n_levels > 0 ? s->cluster->levels[0].devices : 1;
    const bool reduces = reduces_gradients(s, p);
    switch (field) {
    case ORR_AT_dp_algorithm:
        return reduces ? n : 1;
    case ORR_AT_dp_chunks: /* goes with one algorithm alone, over several levels */
        return reduces && orr_plan_ranks(p) > near &&
                       p->dp_algorithm == s->list[ORR_AT_dp_algorithm].at[0] &&
                       (p->dp_algorithm == ORR_ALGORITHM_AUTO ||
                        p->dp_algorithm == ORR_ALGORITHM_HIERARCHICAL)
                   ? n
                   : 1;
    case ORR_AT_prefetch:
        return reduces && p->zero == 3 ? n : 1;
    case ORR_AT_bucket_bytes:
        return reduces && p->zero < 3 ? n : 1;
    case ORR_AT_compress:
        return crosses ? n : 1;
    case ORR_AT_local_steps:
        return p->dp_outer > 1 ? n : 1;
    case ORR_AT_wire_dp:
        return reduces ? n : 1;
    case ORR_AT_wire_pp:
        return p->pp > 1 ? n : 1;
    case ORR_AT_wire_cp:
        return p->cp > 1 && (uint64_t)p->tp * p->cp > near ? n : 1;
    case ORR_AT_wire_ep:
        return p->ep > 1 && (uint64_t)p->etp * p->ep > near ? n : 1;
    default:
        return 1;
    }
}

void orr_transfer_put(const orr_space *s, orr_plan *p, uint32_t field, uint32_t i)
{
    const uint32_t value = s->list[field].at[i];
    if (field != ORR_AT_prefetch || p->zero == 3)
        orr_plan_put(p, field, value);
}

/* Number of choices for transfers. Pieces go with one algorithm alone. */
double orr_transfer_count(const orr_space *s, const orr_plan *plan, bool crosses)
{
    orr_plan p = *plan;
    double n = 1;
    for (uint32_t i = 0; i < ORR_TRANSFER_FIELDS; i++)
        if (ORR_TRANSFER_FIELD[i] != ORR_AT_dp_chunks)
            n *= orr_transfer_values(s, &p, crosses, ORR_TRANSFER_FIELD[i]);
    const uint32_t algorithms = orr_transfer_values(s, &p, crosses, ORR_AT_dp_algorithm);
    p.dp_algorithm = (uint8_t)s->list[ORR_AT_dp_algorithm].at[0];
    const uint32_t chunks = orr_transfer_values(s, &p, crosses, ORR_AT_dp_chunks);
    return n / algorithms * (algorithms + chunks - 1);
}

bool orr_transfer_is_listed(const orr_space *s, const orr_plan *p)
{
    const bool crosses = s->cluster->n_sites > 1 && p->cross == ORR_CROSS_DP;
    bool all = true;
    for (uint32_t i = 0; i < ORR_TRANSFER_FIELDS && all; i++) {
        const uint32_t value = orr_plan_get(p, ORR_TRANSFER_FIELD[i]),
                       n = orr_transfer_values(s, p, crosses, ORR_TRANSFER_FIELD[i]);
        bool listed = value == 0 || (ORR_TRANSFER_FIELD[i] == ORR_AT_prefetch && p->zero < 3);
        for (uint32_t k = 0; k < n; k++)
            listed |= s->list[ORR_TRANSFER_FIELD[i]].at[k] == value;
        all = listed;
    }
    return all;
}

/* The plan with every combination of values of fields `from` to `end`. */
static orr_status each_choice(const orr_space *s, const orr_plan *plan, uint32_t from, uint32_t end,
                              orr_plan_visitor visit, void *ctx, orr_error *err)
{
    if (from == end)
        return visit(ctx, plan, err);
    orr_plan p = *plan;
    const uint32_t n = orr_transfer_values(s, &p, false, ORR_TRANSFER_FIELD[from]);
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0 || s->list[ORR_TRANSFER_FIELD[from]].at[0] != 0) /* 0: as the framework has it */
            orr_transfer_put(s, &p, ORR_TRANSFER_FIELD[from], i);
        ORR_TRY(each_choice(s, &p, from + 1, end, visit, ctx, err));
    }
    return ORR_OK;
}

orr_status orr_space_each_transport(const orr_space *s, const orr_plan *plan,
                                    orr_plan_visitor visit, void *ctx, orr_error *err)
{
    return each_choice(s, plan, ORR_TRANSFER_REDUCTIONS, ORR_TRANSFER_FIELDS, visit, ctx, err);
}

orr_status orr_space_each_reduction(const orr_space *s, const orr_plan *plan,
                                    orr_plan_visitor visit, void *ctx, orr_error *err)
{
    return each_choice(s, plan, ORR_TRANSFER_WALKED, ORR_TRANSFER_REDUCTIONS, visit, ctx, err);
}
