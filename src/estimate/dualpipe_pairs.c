/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "estimate/estimate.h"

/* Slot pairs of DualPipe, and of 1F1B with overlapped transfers to experts: how long a forward and
 * a backward slot take that a stage executes at once. The tasks of the two interleave in a way that
 * no sum describes, so pairs are simulated, with the task times of the full simulation. */

typedef struct pairing {
    const orr_estimate_draft *d;
    orr_step_prices prices;
    orr_memo_key row; /* of the priced modules */
} pairing;

/* Prices of the modules of the row; those of the row before are dropped. */
static orr_status price_modules(pairing *p, orr_error *err)
{
    orr_estimator *e = p->d->e;
    orr_paired_costs *of = &e->paired;
    const orr_cached_modules *built;
    const orr_plan plan = orr_estimate_fewest_ranks(e->model, p->d->plan);
    if (memcmp(&of->key, &p->row, sizeof of->key) == 0)
        return ORR_OK;
    if (of->arena == NULL && (of->arena = orr_arena_new(0, 0)) == NULL)
        return orr_fail_memory(err);
    orr_arena_reset(of->arena);
    of->key = (orr_memo_key){{0}};
    ORR_TRY(orr_estimate_modules(e, &plan, &built, err));
    for (uint32_t i = 0; i < built->row.n_modules; i++)
        ORR_TRY(orr_module_cost_at(&built->row.modules[i], &plan, &p->prices, of->arena,
                                   &of->costs[i], err));
    of->key = p->row;
    return ORR_OK;
}

static orr_status list_phases(const pairing *p, const orr_stage_class *class, bool back,
                              orr_phase_sequence *ret, orr_error *err)
{
    const uint32_t n = class->n_places;
    const orr_phase_cost **phases =
        orr_arena_array(p->d->e->scratch, const orr_phase_cost *, n + 1);
    if (phases == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n; i++)
        phases[i] = &p->d->e->paired.costs[class->modules[back ? n - 1 - i : i]]
                         .phase[back ? ORR_SLOT_BACKWARD : ORR_SLOT_FORWARD];
    *ret = (orr_phase_sequence){phases, n};
    return ORR_OK;
}

static orr_status simulate(pairing *p, const orr_stage_class *forward, const orr_stage_class *back,
                           float *ret, orr_error *err)
{
    orr_phase_sequence both[2];
    orr_phase_simulation played;
    ORR_TRY(price_modules(p, err));
    ORR_TRY(list_phases(p, forward, false, &both[0], err));
    ORR_TRY(list_phases(p, back, true, &both[1], err));
    orr_simulate_phases(both, 2, p->prices.kernels->calibration->compute_slowdown, NULL, NULL,
                        &played);
    *ret = (float)(played.span_ns + orr_step_launch_wait(&p->prices, both, 2, played.span_ns));
    return ORR_OK;
}

static void put_modules(orr_memo_key *key, uint32_t at, const orr_stage_class *class)
{
    const uint64_t hash = XXH3_64bits(class->modules, class->n_places);
    key->word[at] = class->n_places;
    key->word[at + 1] = (uint32_t)hash;
    key->word[at + 2] = (uint32_t)(hash >> 32);
}

/* Classes of equal modules are equal, whatever partition they are of. */
static orr_status find_pair(pairing *p, const orr_stage_class *forward, const orr_stage_class *back,
                            float *ret, orr_error *err)
{
    orr_estimator *e = p->d->e;
    orr_memo_key key = p->row;
    put_modules(&key, 4, forward);
    put_modules(&key, 7, back);
    const float *known = orr_memo_find(&e->pairs, &key);
    if (known == NULL) {
        float *made = orr_arena_one(e->arena, float);
        const orr_status status =
            made != NULL ? simulate(p, forward, back, made, err) : orr_fail_memory(err);
        orr_arena_reset(e->scratch);
        ORR_TRY(status);
        if (!orr_memo_add(&e->pairs, &key, made))
            return orr_fail_memory(err);
        known = made;
    }
    *ret = *known;
    return ORR_OK;
}

/* Finds each pair of classes that some stage has; other pairs stay 0. */
static orr_status find_all(pairing *p, float (*ret)[ORR_STAGE_CLASSES], orr_error *err)
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
                ORR_TRY(
                    find_pair(p, &partition->classes[a], &partition->classes[b], &ret[a][b], err));
        }
    return ORR_OK;
}

orr_status orr_estimate_overlapped_pairs(const orr_estimate_draft *d,
                                         const orr_overlapped_slot_pairs **ret, orr_error *err)
{
    orr_estimator *e = d->e;
    uint32_t stretch[2];
    memcpy(stretch, &d->place->stretch, sizeof stretch);
    const orr_memo_key key = {{d->row->id, d->partition->id, stretch[0], stretch[1]}};
    orr_overlapped_slot_pairs *pairs = orr_memo_find(&e->pairs, &key);
    if (pairs == NULL) {
        pairing p = {d, d->place->prices, {{d->row->id, 0, stretch[0], stretch[1]}}};
        p.prices.kernels = &e->devices[d->pattern->device[0]].rates;
        p.prices.stretch = d->place->stretch;
        pairs = orr_arena_one(e->arena, orr_overlapped_slot_pairs);
        if (pairs == NULL)
            return orr_fail_memory(err);
        ORR_TRY(find_all(&p, pairs->ns, err));
        if (!orr_memo_add(&e->pairs, &key, pairs))
            return orr_fail_memory(err);
    }
    *ret = pairs;
    return ORR_OK;
}
