/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "plan/estimate.h"

/* Which modules are on which virtual stage, as classes of alike ones. */

static orr_cut_class count_modules(const orr_stage_parts *parts, uint32_t k)
{
    orr_cut_class c = {.first_place = parts->map->first[k], .end_place = parts->map->first[k + 1],
                       .virtual_stage = k, .n = 1};
    c.n_places = c.end_place - c.first_place;
    for (uint32_t place = c.first_place; place < c.end_place; place++)
        c.count[orr_module_at(parts, k, place)]++;
    while (c.n_ending < ORR_CUT_ENDING && c.n_ending < c.n_places) {
        c.ending[c.n_ending] = (uint8_t)orr_module_at(parts, k, c.end_place - 1 - c.n_ending);
        c.n_ending++;
    }
    for (uint8_t m = 1; m < ORR_ROW_MODULES; m++)
        if (c.count[m] > c.count[c.middle])
            c.middle = m;
    return c;
}

static uint32_t difference(const orr_cut_class *a, const orr_cut_class *b)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < ORR_ROW_MODULES; i++)
        sum += a->count[i] > b->count[i] ? a->count[i] - b->count[i] : b->count[i] - a->count[i];
    return sum;
}

/* One more class, or, where there is no room, the one most like it. */
static uint8_t class_for(orr_stage_cut *cut, const orr_cut_class *c)
{
    uint32_t best = 0, least = UINT32_MAX;
    for (uint32_t i = 0; i < cut->n_classes; i++) {
        const uint32_t d = difference(&cut->classes[i], c);
        if (d < least) {
            least = d;
            best = i;
        }
    }
    /* The last virtual stage has the head, and always finds room. */
    const bool last = c->virtual_stage + 1 == cut->virtual_stages;
    if (least > 0 && cut->n_classes + !last < ORR_CUT_CLASSES) {
        cut->classes[cut->n_classes] = *c;
        return (uint8_t)cut->n_classes++;
    }
    cut->classes[best].n++;
    return (uint8_t)best;
}

static orr_status make_cut(orr_estimator *e, const orr_plan *plan, const orr_priced_row *row,
                           orr_stage_cut *cut, orr_error *err)
{
    orr_stage_map map;
    orr_plan p = *plan;
    const orr_schedule_spec spec = orr_plan_schedule(plan);
    if (p.schedule == ORR_SCHEDULE_DUALPIPE) { /* as orr_outcome_prepare() does */
        p.schedule = ORR_SCHEDULE_1F1B;
        p.vp = 1;
    }
    ORR_TRY(orr_stage_map_make(&row->row, &p, e->scratch, &map, err));
    const orr_stage_parts parts = {.plan = plan, .row = &row->row, .map = &map};
    *cut = (orr_stage_cut){.id = e->cuts.n + 1, .stages = plan->pp, .chunks = plan->vp,
                     .virtual_stages = orr_schedule_virtual_stages(&spec)};
    cut->class_of = orr_arena_array(e->arena, uint8_t, cut->virtual_stages);
    if (cut->class_of == NULL)
        return orr_fail_memory(err);
    for (uint32_t k = 0; k < cut->virtual_stages; k++) {
        const orr_cut_class c = count_modules(&parts, k);
        cut->class_of[k] = class_for(cut, &c);
    }
    return ORR_OK;
}

orr_status orr_estimate_cut(orr_estimator *e, const orr_plan *plan, const orr_priced_row *row,
                            const orr_stage_cut **ret, orr_error *err)
{
    const bool block = plan->recompute == ORR_RECOMPUTE_BLOCK;
    const orr_memo_key key = {{row->shape_id, plan->pp, plan->vp, plan->first_layers,
                               plan->last_layers, plan->schedule == ORR_SCHEDULE_ZB_V,
                               plan->schedule == ORR_SCHEDULE_DUALPIPE,
                               block ? plan->recompute_layers : 0}};
    orr_stage_cut *cut = orr_memo_find(&e->cuts, &key);
    if (cut == NULL) {
        orr_stage_cut made;
        const orr_status status = make_cut(e, plan, row, &made, err);
        orr_arena_reset(e->scratch);
        ORR_TRY(status);
        cut = orr_arena_one(e->arena, orr_stage_cut);
        if (cut == NULL)
            return orr_fail_memory(err);
        *cut = made;
        if (!orr_memo_add(&e->cuts, &key, cut))
            return orr_fail_memory(err);
    }
    *ret = cut;
    return ORR_OK;
}
