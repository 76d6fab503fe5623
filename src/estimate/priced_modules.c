/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "model/plan/plan.h"
#include "model/step/step_graph.h"
#include "estimate/estimate.h"

/* The modules of a rank with their times on a kind of device: priced once for all plans that share
 * them. */

/* The plan on as few ranks as can have its slices: modules depend on nothing more, except embedding
 * tables, which replicas share. */
orr_plan orr_estimate_fewest_ranks(const orr_model *model, const orr_plan *plan)
{
    orr_plan p = *plan;
    const uint32_t experts = p.ep * p.etp, others = p.tp * p.cp;
    p.vp = 1;
    p.schedule = ORR_SCHEDULE_1F1B;
    if (!orr_estimate_places(plan)) /* else hosts of experts follow from all strides */
        p.pp = 1;
    if (model->kind == ORR_MODEL_TRANSFORMER && !orr_estimate_places(plan))
        p.dp = 1;
    while (p.dp * others % experts != 0)
        p.dp++;
    p.micro_batches = 1;
    p.batch = p.dp * p.micro_batch;
    p.zero = p.shards = p.first_layers = p.last_layers = 0;
    return p;
}

static orr_memo_key key_of(const orr_model *model, const orr_plan *p, const orr_placement *place,
                           uint32_t device)
{
    const bool tables = model->kind != ORR_MODEL_TRANSFORMER;
    const uint32_t packed = p->sp | (uint32_t)p->precision << 4 | (uint32_t)p->gradients << 8 |
                            (uint32_t)p->fusion << 12 | (uint32_t)p->flash << 16 |
                            (uint32_t)p->cp_kind << 20 | (uint32_t)p->overlap_tp << 24 |
                            (uint32_t)p->overlap_ep << 28;
    return (orr_memo_key){{p->tp,
                           p->cp,
                           p->ep,
                           p->etp,
                           p->micro_batch,
                           p->seq,
                           packed,
                           (uint32_t)p->recompute | (uint32_t)p->graphs << 8 |
                               (uint32_t)p->dispatcher << 16 | (uint32_t)p->pad_experts << 24,
                           p->capacity,
                           orr_estimate_saving(p),
                           p->layers,
                           p->hidden,
                           p->ffn,
                           p->heads,
                           p->vocab,
                           place->span_id[ORR_AXIS_TP],
                           place->span_id[ORR_AXIS_CP],
                           place->span_id[ORR_AXIS_EP],
                           place->span_id[ORR_AXIS_ETP],
                           tables ? p->dp : 0,
                           tables ? place->span_id[ORR_AXIS_DP] : 0,
                           tables ? place->sums_id[ORR_AXIS_DP] : 0,
                           device,
                           p->expert_slots | (uint32_t)p->expert_policy << 24,
                           p->request_groups,
                           orr_estimate_order(p),
                           orr_estimate_places(p) ? p->pp : 0,
                           orr_estimate_places(p) ? orr_plan_dp_inner(p) : 0}};
}

/* What computation certainly loses beside the transfers of a phase where another runs at once
 * (model/step/simulate_phases.c). A transfer that follows a computation of its own phase, with no
 * wait between them, and precedes one, costs the next computation either its share of the transfer
 * or, if that is of its own phase, the whole wait. */
static double slowed_ns(const orr_phase_cost *cost, double slowdown)
{
    double sum = 0;
    uint32_t last = 0; /* the last computation */
    for (uint32_t i = 0; i < cost->n; i++)
        last = cost->tasks[i].axis == ORR_AXIS_NONE ? i : last;
    for (uint32_t i = 1; i < last; i++) {
        const orr_call_cost *task = &cost->tasks[i];
        bool certain = task->axis != ORR_AXIS_NONE && cost->tasks[i - 1].axis == ORR_AXIS_NONE;
        for (uint32_t k = 0; k < i && certain; k++)
            certain = !cost->tasks[k].beside || cost->tasks[k].joins != i;
        const double slowed = fmax(fmax(slowdown, 1), 1 / (1 - task->busy_sms_frac));
        sum += certain ? (1 - 1 / slowed) * (double)task->ns : 0;
    }
    return sum;
}

static orr_status price_module(const orr_module *module, const orr_plan *plan,
                               const orr_step_prices *prices, orr_arena *scratch,
                               orr_priced_module *ret, orr_module_cost *cost, orr_error *err)
{
    ORR_TRY(orr_module_cost_at(module, plan, prices, scratch, cost, err));
    ret->kind = module->kind;
    for (int phase = 0; phase < ORR_SLOT_PHASES; phase++) {
        const orr_phase_cost *c = &cost->phase[phase];
        ret->span_ns[phase] = (float)c->span_ns;
        ret->device_ns[phase] = (float)c->device_ns;
        ret->tasks[phase] = (float)c->n;
        ret->kernels[phase] = prices->graphs ? 0 : (float)c->launches;
        ret->compute_ns[phase] = (float)c->compute_ns;
        ret->again_ns[phase] = (float)c->again_ns;
        ret->slowed_ns[phase] = (float)slowed_ns(c, prices->kernels->calibration->compute_slowdown);
        for (uint32_t axis = 0; axis < ORR_AXES; axis++)
            ret->waited_ns[phase][orr_axis_waterfall(axis)] += (float)c->transfer_ns[axis];
    }
    return ORR_OK;
}

/* Share that a DualPipe pair saves, from a pair of the middle modules. */
static float saved_frac(const orr_module_sequence *row, const orr_module_cost *costs,
                        const orr_step_prices *prices)
{
    const orr_module_cost *c = &costs[row->module_of[row->n / 2]];
    const orr_phase_cost *forward = &c->phase[ORR_SLOT_FORWARD],
                         *backward = &c->phase[ORR_SLOT_BACKWARD];
    const orr_phase_sequence both[2] = {{&forward, 1}, {&backward, 1}};
    const double alone = (double)(forward->span_ns + backward->span_ns);
    orr_phase_simulation played;
    orr_simulate_phases(both, 2, prices->kernels->calibration->compute_slowdown, NULL, NULL,
                        &played);
    played.span_ns += orr_step_launch_wait(prices, both, 2, played.span_ns);
    return alone > 0 ? (float)(1 - (double)played.span_ns / alone) : 0;
}

/* Communication buffers depend on the weights' shapes: of layers, and of the ends of the model. */
static orr_status weigh_buffers(const orr_estimator *e, const orr_plan *plan,
                                const orr_device *device, const orr_module_sequence *row,
                                int64_t *ret, orr_error *err)
{
    uint32_t before = 0, after = row->n;
    while (before < row->n && !orr_module_is_fsdp_unit_at(row, before))
        before++;
    while (after > before && !orr_module_is_fsdp_unit_at(row, after - 1))
        after--;
    for (int ends = 0; ends < 4; ends++) {
        const uint32_t first[2] = {ends & 1 ? 0 : before, ends & 2 ? row->n : after};
        const orr_stage_map map = {1, 1, first};
        const orr_schedule_plan schedule = {.spec = {ORR_SCHEDULE_1F1B, 1, 1, 1, 0, false}};
        const orr_stage_memory_input parts = {.plan = plan,
                                              .task = e->options.workload.task,
                                              .device = device,
                                              .row = row,
                                              .map = &map,
                                              .schedule = &schedule};
        orr_buffer_bytes bytes;
        ORR_TRY(orr_stage_buffers(&parts, &bytes, err));
        ret[ends] = bytes.visible;
    }
    return ORR_OK;
}

/* Rows with equal modules at equal places share partitions. */
static orr_status number_shape(orr_estimator *e, const orr_module_sequence *row, uint32_t *ret,
                               orr_error *err)
{
    uint8_t kinds[2 * ORR_ROW_MODULES] = {0};
    for (uint32_t i = 0; i < row->n_modules; i++)
        kinds[i] = row->modules[i].kind;
    const uint64_t a = XXH3_64bits(row->module_of, row->n),
                   b = XXH3_64bits(row->recomputed_of, row->n),
                   c = XXH3_64bits(kinds, sizeof kinds);
    const orr_memo_key key = {{row->n, row->n_modules, (uint32_t)a, (uint32_t)(a >> 32),
                               (uint32_t)b, (uint32_t)(b >> 32), (uint32_t)c, (uint32_t)(c >> 32)}};
    const uint32_t *known = orr_memo_find(&e->shapes, &key);
    if (known == NULL) {
        uint32_t *made = orr_arena_one(e->arena, uint32_t);
        if (made == NULL || !orr_memo_add(&e->shapes, &key, made))
            return orr_fail_memory(err);
        *made = e->shapes.n;
        known = made;
    }
    *ret = *known;
    return ORR_OK;
}

static void *kept(orr_arena *arena, const void *at, size_t bytes)
{
    void *copy = orr_arena_alloc(arena, bytes, 1, _Alignof(int64_t));
    if (copy != NULL)
        memcpy(copy, at, bytes);
    return copy;
}

/* Copies what later stages of the estimate need; tapes are dropped. */
static orr_status keep_row(orr_estimator *e, const orr_module_sequence *row, orr_priced_row *ret,
                           orr_error *err)
{
    orr_module *modules = kept(e->arena, row->modules, row->n_modules * sizeof *modules);
    ret->row = *row;
    ret->row.modules = modules;
    ret->row.module_of = kept(e->arena, row->module_of, row->n);
    ret->row.recomputed_of = kept(e->arena, row->recomputed_of, row->n);
    if (modules == NULL || ret->row.module_of == NULL || ret->row.recomputed_of == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < row->n_modules; i++)
        modules[i].tape = NULL;
    return number_shape(e, row, &ret->shape_id, err);
}

static orr_status make_row(orr_estimator *e, const orr_plan *plan, const orr_placement *place,
                           uint32_t device, orr_priced_row *ret, orr_error *err)
{
    const orr_plan p = orr_estimate_fewest_ranks(e->model, plan);
    const orr_estimate_device *on = &e->devices[device];
    const orr_cached_modules *built;
    orr_step_prices prices = place->prices;
    orr_module_cost costs[ORR_ROW_MODULES];
    orr_module_time time[ORR_ROW_MODULES] = {{0}};
    ORR_TRY(orr_estimate_modules(e, &p, &built, err));
    const uint32_t n = built->row.n_modules;
    prices.kernels = &on->rates;
    ret->modules = orr_arena_array(e->arena, orr_priced_module, n);
    ret->bound_ns = orr_arena_alloc(e->arena, n, sizeof *ret->bound_ns, _Alignof(float));
    if (ret->modules == NULL || ret->bound_ns == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n; i++) {
        ret->modules[i].memory = built->memory[i];
        ret->modules[i].weights = built->weights[i];
        ORR_TRY(price_module(&built->row.modules[i], &p, &prices, e->scratch, &ret->modules[i],
                             &costs[i], err));
        time[i] = ret->modules[i].nominal = orr_module_nominal_time(&built->row.modules[i]);
    }
    ret->ends = orr_row_ends_of(&built->row, time);
    ret->sample_flops = built->sample_flops;
    ret->pair_saved_frac = saved_frac(&built->row, costs, &prices);
    ORR_TRY(weigh_buffers(e, &p, on->device, &built->row, ret->buffer_bytes, err));
    ret->id = e->rows.n + 1;
    return keep_row(e, &built->row, ret, err);
}

static void find_least(const orr_estimate_device *on, const orr_plan *plan, double stretch,
                       orr_priced_row *row)
{
    for (uint32_t m = 0; m < row->row.n_modules; m++)
        for (int phase = 0; phase < ORR_SLOT_PHASES; phase++)
            row->bound_ns[m][phase] = (float)orr_estimate_phase_bound(
                on->calibration, plan, stretch, &row->modules[m], phase);
    row->bound_stretch = stretch;
}

orr_status orr_estimate_row(orr_estimator *e, const orr_plan *plan, const orr_placement *place,
                            uint32_t device, const orr_priced_row **ret, orr_error *err)
{
    const orr_memo_key key = key_of(e->model, plan, place, device);
    orr_priced_row *row = orr_memo_find(&e->rows, &key);
    if (row == NULL) {
        orr_priced_row made = {0};
        const orr_status status = make_row(e, plan, place, device, &made, err);
        orr_arena_reset(e->scratch);
        ORR_TRY(status);
        row = kept(e->arena, &made, sizeof made);
        if (row == NULL || !orr_memo_add(&e->rows, &key, row))
            return orr_fail_memory(err);
    }
    if (row->bound_stretch != place->stretch)
        find_least(&e->devices[device], plan, place->stretch, row);
    *ret = row;
    return ORR_OK;
}
