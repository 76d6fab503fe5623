/* SPDX-License-Identifier: Apache-2.0 */
#include "explore/explore.h"

#include <string.h>

#include "base/array.h"

/* Enumeration of the families: the product of all fields that the modules of a rank depend on
 * (slices of a layer, precision, recomputation, fusion). Families are the subproblems of the first
 * level of the branch and bound. */

static const uint8_t FIELDS[] = {ORR_AT_tp,
                                 ORR_AT_cp,
                                 ORR_AT_ep,
                                 ORR_AT_etp,
                                 ORR_AT_micro_batch,
                                 ORR_AT_precision,
                                 ORR_AT_recompute,
                                 ORR_AT_cp_kind,
                                 ORR_AT_overlap_tp,
                                 ORR_AT_overlap_ep,
                                 ORR_AT_sp,
                                 ORR_AT_flash,
                                 ORR_AT_fusion,
                                 ORR_AT_graphs,
                                 ORR_AT_dispatcher,
                                 ORR_AT_capacity,
                                 ORR_AT_pad_experts,
                                 ORR_AT_expert_slots,
                                 ORR_AT_expert_policy,
                                 ORR_AT_request_groups};
enum { N_FIELDS = sizeof FIELDS / sizeof *FIELDS };

/* Whether the choice changes anything in this model; one that does not is left at its default. */
static bool matters(const orr_space *s, const orr_plan *p, uint32_t field)
{
    switch (field) {
    case ORR_AT_cp_kind:
        return p->cp > 1;
    case ORR_AT_overlap_tp:
        return p->tp > 1;
    case ORR_AT_overlap_ep:
    case ORR_AT_dispatcher:
    case ORR_AT_capacity:
    case ORR_AT_pad_experts:
    case ORR_AT_expert_slots:
    case ORR_AT_expert_policy:
    case ORR_AT_request_groups:
        return p->ep > 1;
    case ORR_AT_sp:
        return p->tp > 1;
    case ORR_AT_etp:
        return s->model->moe.experts > 0 && p->tp > 1;
    default:
        return true;
    }
}

static orr_space_list values_of(const orr_space *s, const orr_plan *p, uint32_t field)
{
    orr_space_list list = s->list[field];
    if (field == ORR_AT_etp) {
        list = (orr_space_list){2, {p->tp, 1}};
        const uint32_t fixed = s->constraints.fixed.etp;
        if (fixed != 0 && p->tp % fixed == 0)
            list = (orr_space_list){1, {fixed}};
        if (!orr_space_allows(&s->constraints, field, p->tp) && list.n == 2)
            list = (orr_space_list){1, {1}};
    }
    if (field == ORR_AT_expert_policy && p->expert_slots > 0 && list.n > 1 && list.at[0] == 0)
        list.n = 1; /* copies are placed by the best policy as it is */
    if (!matters(s, p, field))
        return (orr_space_list){1, {field == ORR_AT_etp ? list.at[0] : 0}};
    return list;
}

static bool can_be(const orr_space *s, const orr_plan *p)
{
    return s->common.batch % p->micro_batch == 0 &&
           orr_space_allows(&s->constraints, ORR_AT_etp, p->etp) &&
           (uint64_t)p->tp * p->cp <= s->most_devices;
}

typedef struct lister {
    const orr_space *space;
    orr_arena *arena;
    orr_array(orr_plan) plans;
    bool out_of_memory;
} lister;

/* The framework's defaults of experts, which their modules depend on. */
static orr_plan with_framework(const orr_space *s, const orr_plan *plan)
{
    static const uint8_t OF_EXPERTS[] = {ORR_AT_dispatcher, ORR_AT_capacity, ORR_AT_pad_experts};
    orr_plan p = *plan;
    if (s->constraints.rules == NULL)
        return p;
    const orr_plan filled = orr_framework_fill(s->constraints.rules, s->model, plan);
    for (uint32_t i = 0; i < sizeof OF_EXPERTS; i++)
        orr_plan_put(&p, OF_EXPERTS[i], orr_plan_get(&filled, OF_EXPERTS[i]));
    return p;
}

static void list_from(lister *l, uint32_t at, orr_plan *p)
{
    if (at == N_FIELDS) {
        const orr_plan made = with_framework(l->space, p);
        if (can_be(l->space, p) && !orr_array_push(&l->plans, made))
            l->out_of_memory = true;
        return;
    }
    const orr_space_list values = values_of(l->space, p, FIELDS[at]);
    for (uint32_t i = 0; i < values.n && !l->out_of_memory; i++) {
        orr_plan_put(p, FIELDS[at], values.at[i]);
        list_from(l, at + 1, p);
    }
}

static orr_status make_all(lister *l, orr_families *ret, orr_error *err)
{
    orr_plan plan = {0};
    list_from(l, 0, &plan);
    if (l->out_of_memory)
        return orr_fail_memory(err);
    orr_plan_family *families = orr_arena_array(l->arena, orr_plan_family, l->plans.n);
    if (families == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < l->plans.n; i++) {
        families[i].plan = l->plans.at[i];
        families[i].key = orr_plan_text(&families[i].plan, l->arena);
        if (families[i].key == NULL)
            return orr_fail_memory(err);
    }
    *ret = (orr_families){families, (uint32_t)l->plans.n};
    return ORR_OK;
}

orr_status orr_space_families(const orr_space *space, orr_arena *arena, orr_families *ret,
                              orr_error *err)
{
    lister l = {.space = space, .arena = arena};
    const orr_status status = make_all(&l, ret, err);
    orr_array_done(&l.plans);
    return status;
}
