/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "model/plan/plan.h"
#include "estimate/estimate.h"

/* Partition of the modules into virtual stages, as classes of virtual stages with equal modules. */

static orr_stage_class count_modules(const orr_stage_memory_input *parts, uint32_t k,
                                     uint8_t device)
{
    orr_stage_class c = {.first_place = parts->map->first[k],
                         .end_place = parts->map->first[k + 1],
                         .virtual_stage = k,
                         .n = 1,
                         .device = device};
    c.n_places = c.end_place - c.first_place;
    for (uint32_t place = c.first_place; place < c.end_place; place++)
        c.count[orr_module_at(parts, k, place)]++;
    memcpy(c.min_count, c.count, sizeof c.min_count);
    while (c.n_ending < ORR_STAGE_CLASS_ENDING && c.n_ending < c.n_places) {
        c.ending[c.n_ending] = (uint8_t)orr_module_at(parts, k, c.end_place - 1 - c.n_ending);
        c.n_ending++;
    }
    for (uint8_t m = 1; m < ORR_ROW_MODULES; m++)
        if (c.count[m] > c.count[c.middle])
            c.middle = m;
    return c;
}

static uint32_t difference(const orr_stage_class *a, const orr_stage_class *b)
{
    uint32_t sum = a->device != b->device ? 1U << 20 : 0;
    for (uint32_t i = 0; i < ORR_ROW_MODULES; i++)
        sum += a->count[i] > b->count[i] ? a->count[i] - b->count[i] : b->count[i] - a->count[i];
    return sum;
}

/* Adds a class or, if there is no room, merges into the most similar one. */
static uint8_t class_for(orr_stage_partition *partition, const orr_stage_class *c)
{
    uint32_t best = 0, least = UINT32_MAX;
    for (uint32_t i = 0; i < partition->n_classes; i++) {
        const uint32_t d = difference(&partition->classes[i], c);
        if (d < least) {
            least = d;
            best = i;
        }
    }
    /* The last virtual stage has the head, and room is kept for its class. */
    const bool last = c->virtual_stage + 1 == partition->virtual_stages;
    if (least > 0 && partition->n_classes + !last < ORR_STAGE_CLASSES) {
        partition->classes[partition->n_classes] = *c;
        return (uint8_t)partition->n_classes++;
    }
    orr_stage_class *with = &partition->classes[best];
    for (uint32_t i = 0; i < ORR_ROW_MODULES; i++)
        if (c->min_count[i] < with->min_count[i])
            with->min_count[i] = c->min_count[i];
    with->n++;
    return (uint8_t)best;
}

static orr_status list_modules(orr_estimator *e, const orr_stage_memory_input *parts,
                               orr_stage_partition *partition, orr_error *err)
{
    for (uint32_t c = 0; c < partition->n_classes; c++) {
        orr_stage_class *class = &partition->classes[c];
        uint8_t *modules = orr_arena_array(e->arena, uint8_t, class->n_places);
        if (modules == NULL)
            return orr_fail_memory(err);
        for (uint32_t i = 0; i < class->n_places; i++)
            modules[i] =
                (uint8_t)orr_module_at(parts, class->virtual_stage, class->first_place + i);
        class->modules = modules;
    }
    return ORR_OK;
}

/* Time of matrix products relative to the pattern's first device, from peak FLOP/s. */
static float relative_time_of(const orr_estimator *e, const orr_device_pattern *pattern, uint32_t i)
{
    const double first = e->devices[pattern->device[0]].peak_flops[ORR_DTYPE_BF16],
                 other = e->devices[pattern->device[i]].peak_flops[ORR_DTYPE_BF16];
    return first > 0 && other > 0 ? (float)(first / other) : 1;
}

/* Layers of the first and last stage, as orr_stages_balance() finds them for a simulation, or
 * sections, as orr_stages_split_by_cost() does. */
typedef struct layer_split {
    uint32_t first, last;
    uint16_t section_stages[ORR_PLAN_PARTS], section_layers[ORR_PLAN_PARTS];
} layer_split;

static layer_split split_of(const orr_plan *plan)
{
    layer_split split = {.first = plan->first_layers, .last = plan->last_layers};
    memcpy(split.section_stages, plan->section_stages, sizeof split.section_stages);
    memcpy(split.section_layers, plan->section_layers, sizeof split.section_layers);
    return split;
}

static void apply_split(const layer_split *split, orr_plan *plan)
{
    plan->first_layers = split->first;
    plan->last_layers = split->last;
    memcpy(plan->section_stages, split->section_stages, sizeof split->section_stages);
    memcpy(plan->section_layers, split->section_layers, sizeof split->section_layers);
}

/* As src/outcome/prepare.c does it: the device of a stage is the slowest of all pipelines. */
static orr_status split_by_cost(orr_estimator *e, const orr_placement *place, orr_plan *plan,
                                orr_error *err)
{
    const orr_priced_row *rows[ORR_SITES_MAX + 1] = {NULL};
    double chunk_ns[ORR_SITES_MAX + 1], whole[ORR_SITES_MAX + 1] = {0};
    uint32_t n = 0;
    for (uint32_t i = 0; i < place->n_patterns; i++)
        for (uint32_t k = 0; k < place->patterns[i].n; k++) {
            const uint8_t device = place->patterns[i].device[k];
            ORR_TRY(orr_estimate_row(e, plan, place, device, &rows[device], err));
            n = device >= n ? device + 1U : n;
        }
    const orr_module_sequence *row = &rows[place->patterns[0].device[0]]->row;
    double *module_ns = orr_arena_array(e->scratch, double, (size_t)n * row->n_modules);
    uint8_t *of_stage = orr_arena_array(e->scratch, uint8_t, plan->pp);
    if (module_ns == NULL || of_stage == NULL)
        return orr_fail_memory(err);
    for (uint32_t d = 0; d < n; d++) {
        chunk_ns[d] = rows[d] != NULL ? e->devices[d].calibration->micro_batch_ns : 0;
        for (uint32_t m = 0; m < row->n_modules && rows[d] != NULL; m++)
            module_ns[d * row->n_modules + m] =
                (double)rows[d]->modules[m].span_ns[ORR_SLOT_FORWARD] +
                (double)rows[d]->modules[m].span_ns[ORR_SLOT_BACKWARD];
        for (uint32_t i = 0; i < row->n; i++)
            whole[d] += module_ns[d * row->n_modules + row->module_of[i]];
    }
    for (uint32_t s = 0; s < plan->pp; s++) {
        double slowest = 0;
        for (uint32_t i = 0; i < place->n_patterns; i++) {
            const orr_device_pattern *p = &place->patterns[i];
            const uint8_t device = p->device[p->of_stage != NULL ? p->of_stage[s] : 0];
            if (whole[device] > slowest) {
                slowest = whole[device];
                of_stage[s] = device;
            }
        }
    }
    const orr_stage_costs costs = {n, module_ns, chunk_ns, of_stage};
    return orr_stages_split_by_cost(row, &costs, e->scratch, plan, err);
}

static orr_status balance(orr_estimator *e, const orr_plan *plan, const orr_priced_row *row,
                          const orr_placement *place, layer_split *ret, orr_error *err)
{
    orr_plan p = orr_plan_with_micro_batches(plan, orr_plan_most_micro_batches(plan));
    orr_module_time time[ORR_ROW_MODULES];
    for (uint32_t i = 0; i < row->row.n_modules; i++)
        time[i] = row->modules[i].nominal;
    const orr_status status = orr_plan_balances_sections(plan)
                                  ? split_by_cost(e, place, &p, err)
                                  : orr_stages_balance(&row->row, time, e->scratch, &p, err);
    orr_arena_reset(e->scratch);
    *ret = split_of(&p);
    return status;
}

/* 0: all stages on one kind of device. */
static uint64_t pattern_hash(const orr_device_pattern *pattern, uint32_t stages)
{
    if (pattern->of_stage == NULL)
        return 0;
    return XXH3_64bits_withSeed(pattern->of_stage, stages,
                                XXH3_64bits(pattern->device, pattern->n));
}

static orr_status find_split(orr_estimator *e, const orr_plan *plan, const orr_priced_row *row,
                             const orr_placement *place, layer_split *ret, orr_error *err)
{
    bool one_device = true;
    for (uint32_t i = 0; i < place->n_patterns; i++)
        one_device &= place->patterns[i].n == 1 &&
                      place->patterns[i].device[0] == place->patterns[0].device[0];
    const orr_plan whole = orr_plan_with_micro_batches(plan, orr_plan_most_micro_batches(plan));
    const bool by_cost = orr_plan_balances_sections(plan);
    *ret = split_of(plan);
    if (!by_cost && (!one_device || !orr_stages_are_uneven(&row->ends, &whole)))
        return ORR_OK;
    uint64_t devices = 0;
    for (uint32_t i = 0; i < place->n_patterns && by_cost; i++)
        devices = XXH3_64bits_withSeed(place->patterns[i].device, place->patterns[i].n,
                                       devices + 1 + pattern_hash(&place->patterns[i], plan->pp));
    const orr_memo_key key = {{row->id, plan->pp, plan->vp, plan->schedule, whole.micro_batches,
                               by_cost, (uint32_t)devices, (uint32_t)(devices >> 32)}};
    layer_split *known = orr_memo_find(&e->splits, &key);
    if (known == NULL) {
        known = orr_arena_one(e->arena, layer_split);
        if (known == NULL)
            return orr_fail_memory(err);
        ORR_TRY(balance(e, plan, row, place, known, err));
        if (!orr_memo_add(&e->splits, &key, known))
            return orr_fail_memory(err);
    }
    *ret = *known;
    return ORR_OK;
}

static orr_status make_partition(orr_estimator *e, const orr_plan *plan, const orr_priced_row *row,
                                 const layer_split *split, const orr_device_pattern *pattern,
                                 orr_stage_partition *partition, orr_error *err)
{
    orr_stage_map map;
    orr_plan p = *plan;
    const orr_schedule_spec spec = orr_plan_schedule(plan);
    apply_split(split, &p);
    ORR_TRY(orr_stage_map_make(&row->row, &p, e->scratch, &map, err));
    const orr_stage_memory_input parts = {.plan = plan, .row = &row->row, .map = &map};
    *partition = (orr_stage_partition){.id = e->cuts.n + 1,
                                       .stages = plan->pp,
                                       .chunks = plan->vp,
                                       .virtual_stages = orr_schedule_virtual_stages(&spec)};
    for (uint32_t i = 0; i < pattern->n; i++)
        partition->relative_time[i] = relative_time_of(e, pattern, i);
    partition->class_of = orr_arena_array(e->arena, uint8_t, partition->virtual_stages);
    if (partition->class_of == NULL)
        return orr_fail_memory(err);
    for (uint32_t k = 0; k < partition->virtual_stages; k++) {
        const uint32_t stage = orr_schedule_place(&spec, k, 0).stage;
        const uint8_t device = pattern->of_stage != NULL ? pattern->of_stage[stage] : 0;
        const orr_stage_class c = count_modules(&parts, k, device);
        partition->class_of[k] = class_for(partition, &c);
    }
    return list_modules(e, &parts, partition, err);
}

orr_status orr_estimate_partition(orr_estimator *e, const orr_plan *plan, const orr_priced_row *row,
                                  const orr_placement *place, const orr_device_pattern *pattern,
                                  const orr_stage_partition **ret, orr_error *err)
{
    layer_split split;
    ORR_TRY(find_split(e, plan, row, place, &split, err));
    const bool block = plan->recompute == ORR_RECOMPUTE_BLOCK;
    const uint64_t on = pattern_hash(pattern, plan->pp);
    orr_memo_key key = {{row->shape_id, plan->pp, plan->vp, split.first, split.last,
                         plan->schedule == ORR_SCHEDULE_ZB_V,
                         plan->schedule == ORR_SCHEDULE_DUALPIPE,
                         block ? plan->recompute_layers : 0, (uint32_t)on, (uint32_t)(on >> 32)}};
    memcpy(&key.word[10], split.section_stages, sizeof split.section_stages);
    memcpy(&key.word[10 + ORR_PLAN_PARTS / 2], split.section_layers, sizeof split.section_layers);
    if (pattern->of_stage != NULL && plan->schedule == ORR_SCHEDULE_DUALPIPE)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "DualPipe over stages on several kinds of devices is simulated, not "
                        "estimated");
    orr_stage_partition *partition = orr_memo_find(&e->cuts, &key);
    if (partition == NULL) {
        orr_stage_partition made;
        const orr_status status = make_partition(e, plan, row, &split, pattern, &made, err);
        orr_arena_reset(e->scratch);
        ORR_TRY(status);
        partition = orr_arena_one(e->arena, orr_stage_partition);
        if (partition == NULL)
            return orr_fail_memory(err);
        *partition = made;
        if (!orr_memo_add(&e->cuts, &key, partition))
            return orr_fail_memory(err);
    }
    *ret = partition;
    return ORR_OK;
}
