/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <xxhash.h>

#include "model/memory/memory.h"
#include "estimate/estimate.h"
#include "outcome/outcome.h"

/* The kinds of devices and of networks that ranks use, each identified by a small number for the
 * keys of caches. */

static orr_status open_device(orr_estimator *e, const orr_device *device, orr_estimate_device *ret,
                              orr_error *err)
{
    orr_cluster cluster = *e->cluster;
    cluster.device = device;
    ret->device = device;
    ret->calibration = device == e->cluster->device ? e->options.calibration : NULL;
    ORR_TRY(orr_outcome_calibration(orr_outcome_kind(e->model, e->options.workload.task),
                                    ret->calibration, device, e->options.software_year, e->arena,
                                    &ret->calibration, err));
    orr_job_rates_init(&cluster, ret->calibration, e->options.algorithm, &ret->rates);
    ret->rates.cluster = e->cluster;
    for (int dtype = 0; dtype < ORR_DTYPES; dtype++)
        ret->peak_flops[dtype] = orr_fact_or(&device->peak_flops[dtype], NAN);
    ret->usable_bytes = orr_usable_bytes(device);
    return ORR_OK;
}

orr_status orr_estimate_device_of(orr_estimator *e, const orr_device *device, uint32_t *ret,
                                  orr_error *err)
{
    uint32_t i = 0;
    while (i < e->n_devices && e->devices[i].device != device)
        i++;
    if (i == e->n_devices) {
        if (i == sizeof e->devices / sizeof *e->devices)
            return orr_fail(err, ORR_LIMIT, "more than %u kinds of devices", i);
        ORR_TRY(open_device(e, device, &e->devices[i], err));
        e->n_devices++;
    }
    *ret = i;
    return ORR_OK;
}

/* --- networks --------------------------------------------------------------------------------- */

static uint64_t hash(uint64_t before, const void *at, size_t bytes)
{
    return XXH3_64bits_withSeed(at, bytes, before);
}

static uint64_t hash_constants(uint64_t before, const orr_alpha_beta *c)
{
    before = hash(before, c->base_ns, sizeof c->base_ns);
    before = hash(before, c->alpha_ns, sizeof c->alpha_ns);
    return hash(before, c->bytes_per_s, sizeof c->bytes_per_s);
}

/* Hash of everything that a price depends on up to a level; the number of units that a switch joins
 * does not matter. */
static uint64_t hash_level(uint64_t before, const orr_network *n, uint32_t level)
{
    const double numbers[] = {n->oversubscription[level], n->bytes_frac[level],
                              n->window_bytes_per_s[level], n->queue_ns[level]};
    const bool joins = n->topology[level] == ORR_TOPOLOGY_SWITCH;
    const uint32_t kinds[] = {n->topology[level], n->in_network[level], n->uneven[level],
                              joins ? 0 : n->size[level]};
    before = hash_constants(before, &n->levels[level]);
    before = hash_constants(before, &n->reduction[level]);
    before = hash(before, numbers, sizeof numbers);
    return hash(before, kinds, sizeof kinds);
}

static uint64_t hash_rates(const orr_job_rates *rates, uint32_t n_levels)
{
    const double numbers[] = {rates->network.memory_bytes_per_s};
    const uint32_t kinds[] = {rates->algorithm, rates->network.chunks};
    uint64_t h = hash(hash(0, numbers, sizeof numbers), kinds, sizeof kinds);
    for (uint32_t l = 0; l < n_levels && l < rates->network.n_levels; l++)
        h = hash_level(h, &rates->network, l);
    return h;
}

orr_status orr_estimate_keep_rates(orr_estimator *e, const orr_job_rates *rates,
                                   const orr_job_rates **ret, orr_error *err)
{
    const uint64_t h = hash_rates(rates, rates->network.n_levels);
    const uint64_t by = (uint64_t)(uintptr_t)rates->calibration;
    const orr_memo_key key = {{(uint32_t)h, (uint32_t)(h >> 32), (uint32_t)by, (uint32_t)(by >> 32),
                               rates->network.n_levels + 1}};
    orr_job_rates *known = orr_memo_find(&e->known_rates, &key);
    if (known == NULL) {
        known = orr_arena_one(e->arena, orr_job_rates);
        if (known == NULL)
            return orr_fail_memory(err);
        *known = *rates;
        known->cluster = e->cluster;
        if (!orr_memo_add(&e->known_rates, &key, known))
            return orr_fail_memory(err);
    }
    *ret = known;
    return ORR_OK;
}

orr_status orr_estimate_span_id(orr_estimator *e, const orr_job_rates *rates, const orr_span *span,
                                uint32_t *ret, orr_error *err)
{
    orr_memo_key key = {{span->n_ranks, span->n_levels, span->even}};
    *ret = 0;
    if (span->n_ranks <= 1)
        return ORR_OK;
    _Static_assert(5 + ORR_LEVELS_MAX <= ORR_MEMO_WORDS, "room for every level");
    for (uint32_t l = 0; l < span->n_levels; l++)
        key.word[5 + l] = span->width[l];
    if (e->cluster->n_sites > 0 || rates != &e->rates) {
        const uint64_t h = hash_rates(rates, span->top + 1);
        key.word[3] = (uint32_t)h;
        key.word[4] = (uint32_t)(h >> 32);
        key.word[1] = span->top + 1; /* higher levels have no influence */
    }
    const uint32_t *known = orr_memo_find(&e->spans, &key);
    if (known == NULL) {
        uint32_t *made = orr_arena_one(e->arena, uint32_t);
        if (made == NULL || !orr_memo_add(&e->spans, &key, made))
            return orr_fail_memory(err);
        *made = e->spans.n;
        known = made;
    }
    *ret = *known;
    return ORR_OK;
}
