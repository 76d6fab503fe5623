/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "estimate/estimate.h"

/* Slot pairs of DualPipe, and of 1F1B with overlapped transfers to experts: how long a forward and
 * a backward slot take that a stage executes at once. The tasks of the two interleave in a way that
 * no sum describes, so pairs are simulated, with the task times of the full simulation. */

typedef struct pairing {
    const orr_estimate_draft *d;
    const orr_module_cost *costs;
    const orr_step_prices *prices;
    const orr_phase_cost **phases[2]; /* shape (places of the class) */
} pairing;

static uint32_t list_phases(const pairing *p, const orr_stage_class *class, bool back,
                            const orr_phase_cost **ret)
{
    const uint32_t n = class->n_places;
    for (uint32_t i = 0; i < n; i++)
        ret[i] = &p->costs[class->modules[back ? n - 1 - i : i]]
                      .phase[back ? ORR_SLOT_BACKWARD : ORR_SLOT_FORWARD];
    return n;
}

static double simulated_ns(const pairing *p, const orr_stage_class *forward,
                           const orr_stage_class *back)
{
    const orr_phase_sequence both[2] = {
        {p->phases[0], list_phases(p, forward, false, p->phases[0])},
        {p->phases[1], list_phases(p, back, true, p->phases[1])}};
    orr_phase_simulation played;
    orr_simulate_phases(both, 2, p->prices->kernels->calibration->compute_slowdown, NULL, NULL,
                        &played);
    return (double)(played.span_ns + orr_step_launch_wait(p->prices, both, 2, played.span_ns));
}

/* Simulates each pair of classes that some stage has; other pairs stay 0. */
static void simulate_all(const pairing *p, float (*ret)[ORR_STAGE_CLASSES])
{
    const orr_stage_partition *partition = p->d->partition;
    const orr_schedule_spec spec = orr_plan_schedule(p->d->plan);
    const bool dual = spec.schedule == ORR_SCHEDULE_DUALPIPE;
    for (uint32_t s = 0; s < partition->stages; s++)
        for (uint32_t i = 0; i < spec.chunks * spec.chunks; i++) {
            const uint32_t f = i / spec.chunks, k = i % spec.chunks;
            const uint8_t a = partition->class_of[orr_schedule_virtual_stage_at(&spec, s, f)],
                          b = partition->class_of[orr_schedule_virtual_stage_at(&spec, s, k)];
            if (ret[a][b] <= 0 && !(dual && f == k))
                ret[a][b] = (float)simulated_ns(p, &partition->classes[a], &partition->classes[b]);
        }
}

static orr_status make_pairs(const orr_estimate_draft *d, orr_overlapped_slot_pairs *ret,
                             orr_error *err)
{
    const orr_cached_modules *built;
    orr_module_cost costs[ORR_ROW_MODULES];
    orr_arena *scratch = d->e->scratch;
    const orr_plan p = orr_estimate_fewest_ranks(d->e->model, d->plan);
    orr_step_prices prices = d->place->prices;
    prices.kernels = &d->e->devices[d->pattern->device[0]].rates;
    prices.stretch = d->place->stretch;
    ORR_TRY(orr_estimate_modules(d->e, &p, &built, err));
    for (uint32_t i = 0; i < built->row.n_modules; i++)
        ORR_TRY(orr_module_cost_at(&built->row.modules[i], &p, &prices, scratch, &costs[i], err));
    pairing pair = {.d = d, .costs = costs, .prices = &prices};
    for (int k = 0; k < 2; k++) {
        pair.phases[k] = orr_arena_array(scratch, const orr_phase_cost *, d->row->row.n);
        if (pair.phases[k] == NULL)
            return orr_fail_memory(err);
    }
    simulate_all(&pair, ret->ns);
    return ORR_OK;
}

orr_status orr_estimate_overlapped_pairs(const orr_estimate_draft *d,
                                         const orr_overlapped_slot_pairs **ret, orr_error *err)
{
    uint32_t stretch[2];
    memcpy(stretch, &d->place->stretch, sizeof stretch);
    const orr_memo_key key = {{d->row->id, d->partition->id, stretch[0], stretch[1]}};
    orr_overlapped_slot_pairs *pairs = orr_memo_find(&d->e->pairs, &key);
    if (pairs == NULL) {
        pairs = orr_arena_one(d->e->arena, orr_overlapped_slot_pairs);
        if (pairs == NULL)
            return orr_fail_memory(err);
        const orr_status status = make_pairs(d, pairs, err);
        orr_arena_reset(d->e->scratch);
        ORR_TRY(status);
        if (!orr_memo_add(&d->e->pairs, &key, pairs))
            return orr_fail_memory(err);
    }
    *ret = pairs;
    return ORR_OK;
}
