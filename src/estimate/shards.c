/* SPDX-License-Identifier: Apache-2.0 */
#include "estimate/estimate.h"

/* Transfers of weights and gradients between data-parallel ranks, added to the sums of a class in
 * closed form. They mirror model/step/emit_data_parallel.c, which emits them one by one; here
 * buckets have equal sizes.
 *
 * ZeRO 0 and 1: gradients are reduced in buckets beside the last gradient slot of a chunk, each
 * bucket when its layers are done: what ends after the slot is exposed. ZeRO 2: the same after
 * every group of micro-batches of a chunk, beside the next slots too. ZeRO 1 and 2: weights are
 * gathered from the begin of the step on, and the first forward slot waits for them. ZeRO 3: every
 * module gathers its weights beside the module before it (prefetch) and reduces its gradients
 * beside the one after it; what is longer than the computation is exposed. With a pipeline
 * gradients are reduced in the last gradient slot of a chunk, and weights that stay are gathered in
 * its first forward slot. */

typedef struct bucket {
    double share; /* share of the class's parameters */
    double dense, expert;
} bucket;

static bucket bucket_of(const orr_estimate_sums *s, double share)
{
    return (bucket){share, s->dense * share, s->expert * share};
}

static double reduce_ns(const orr_estimate_draft *d, const bucket *b)
{
    const bool whole = d->plan->zero == 0;
    const orr_collective collective = whole ? ORR_COLL_ALL_REDUCE : ORR_COLL_REDUCE_SCATTER;
    return d->place->stretch *
           (orr_estimate_transfer(d->e, d->place, whole ? ORR_AXIS_GRADIENT : ORR_AXIS_SHARD,
                                  collective, (int64_t)(b->dense * d->gradient_bytes)) +
            orr_estimate_transfer(d->e, d->place, ORR_AXIS_EDP, collective,
                                  (int64_t)(b->expert * d->gradient_bytes)));
}

static double replica_ns(const orr_estimate_draft *d, const bucket *b)
{
    const uint32_t shards = d->place->prices.members[ORR_AXIS_SHARD];
    const double bytes = b->dense * d->gradient_bytes / (shards > 0 ? shards : 1);
    if (d->plan->zero == 0)
        return 0;
    return d->place->stretch * orr_estimate_transfer(d->e, d->place, ORR_AXIS_REPLICA,
                                                     ORR_COLL_ALL_REDUCE, (int64_t)bytes);
}

static double gather_ns(const orr_estimate_draft *d, double dense, double expert)
{
    return d->place->stretch *
           (orr_estimate_transfer(d->e, d->place, ORR_AXIS_SHARD, ORR_COLL_ALL_GATHER,
                                  (int64_t)(dense * orr_plan_gathered_element_bytes(d->plan))) +
            orr_estimate_transfer(d->e, d->place, ORR_AXIS_EDP, ORR_COLL_ALL_GATHER,
                                  (int64_t)(expert * orr_plan_gathered_element_bytes(d->plan))));
}

/* Buckets of a class: `n` full ones and a rest. */
typedef struct buckets {
    double n;
    bucket full, rest;
} buckets;

static buckets buckets_of(const orr_estimate_draft *d, const orr_estimate_sums *s, uint32_t places)
{
    const orr_plan *plan = d->plan;
    const double usual = (plan->dp > 40 ? 1e6 * plan->dp : 40e6) * d->gradient_bytes;
    const double most = plan->bucket_bytes > 0 ? plan->bucket_bytes : usual;
    const double each = (s->dense + s->expert) * d->gradient_bytes / places;
    double of_bucket = 1;
    if (each > 0 && each < most)
        of_bucket = (double)(int64_t)(most / each + 0.999);
    if (of_bucket > places)
        of_bucket = places;
    const double n = (double)(int64_t)(places / of_bucket);
    return (buckets){n, bucket_of(s, of_bucket / places),
                     bucket_of(s, (places - n * of_bucket) / places)};
}

/* ZeRO 1 and 2: waits for the gathers at the begin of the step. Once the first virtual stage of a
 * class has waited, the others find their weights there, so they share one wait. */
static void gather_first(orr_estimate_draft *d, uint32_t class_of, const buckets *b)
{
    const orr_stage_class *class = &d->partition->classes[class_of];
    orr_estimate_sums *s = &d->sums[class_of];
    const double share = orr_step_exposed_frac(orr_draft_device(d, class)->calibration),
                 forward = s->phase_ns[ORR_SLOT_FORWARD];
    const double full = gather_ns(d, b->full.dense, b->full.expert),
                 all = b->n * full + gather_ns(d, b->rest.dense, b->rest.expert);
    const uint32_t k = class->virtual_stage, chunk = k / d->partition->stages;
    const double first = d->sums[0].phase_ns[ORR_SLOT_FORWARD] + d->sums[0].first_ns;
    const double begins = k == 0 ? 0 : first + (k - 1) * forward + k * d->hop_ns[0];
    const double arrives = all * (chunk + 1);
    double wait = arrives + forward * b->full.share - forward - begins;
    if (k == 0 && wait < full)
        wait = full;
    s->first_ns = wait > 0 ? wait / class->n : 0;
    s->stall_first_ns = share * all;
}

/* A share of each overlapped transfer is exposed in any case: a stall after the slot. */
static void reduce_in_buckets(orr_estimate_draft *d, uint32_t class_of, const buckets *b)
{
    orr_estimate_sums *s = &d->sums[class_of];
    const bool split = orr_splits_backward(d->plan);
    const double slot = s->phase_ns[split ? ORR_SLOT_WEIGHT : ORR_SLOT_BACKWARD];
    const double share =
        orr_step_exposed_frac(orr_draft_device(d, &d->partition->classes[class_of])->calibration);
    const double full = reduce_ns(d, &b->full), rest = reduce_ns(d, &b->rest);
    const double all = b->n * full + rest;
    const double replicas = b->n * replica_ns(d, &b->full) + replica_ns(d, &b->rest);
    s->lane_ns = all;
    s->lane_first_ns = slot * b->full.share;
    s->lane_last_ns = rest > 0 ? rest : full;
    s->replica_ns = replicas;
    s->replica_last_ns = replica_ns(d, b->rest.share > 0 ? &b->rest : &b->full);
    s->stall_last_ns = share * replicas;
    if (d->plan->zero < 2) {
        s->stall_last_ns += share * all;
        return;
    }
    /* ZeRO 2: after each group, beside the next slots too; spread over its micro-batches. */
    const int phase = split ? ORR_SLOT_WEIGHT : ORR_SLOT_BACKWARD;
    const double often = 1.0 / orr_plan_gradient_group(d->plan);
    s->stall_ns[phase] = often * share * all;
    s->exposed_ns = often * share * all;
    s->always_ns = often * all;
}

/* --- ZeRO 3 ------------------------------------------------------------------------------------
 */

/* ZeRO 3 pass over the modules of a class, each computed beside the transfers of its neighbours. */
typedef struct fetched {
    double computed, first, second, travels, stall;
} fetched;

static fetched fetch(const orr_estimate_draft *d, const orr_stage_class *class,
                     orr_slot_phase phase, bool first_slot, bool last_slot)
{
    const orr_calibration *c = orr_draft_device(d, class)->calibration;
    const bool back = phase != ORR_SLOT_FORWARD;
    const double share = d->overlaps ? orr_step_exposed_frac(c) : 0;
    const bool ahead = d->overlaps && d->plan->prefetch > 0;
    fetched f = {0};
    double first = 0, last = 0;
    for (uint32_t m = 0; m < d->row->row.n_modules; m++) {
        if (class->count[m] == 0)
            continue;
        const orr_priced_module *module = &orr_draft_row(d, class)->modules[m];
        const bool again =
            orr_module_is_fsdp_unit(module->kind) && d->plan->reshard == ORR_SWITCH_ON;
        const bool gathers =
            phase != ORR_SLOT_WEIGHT &&
            (again || (!back && (first_slot || !orr_plan_keeps_gathered(d->plan))));
        const bool reduces = (phase == ORR_SLOT_BACKWARD || phase == ORR_SLOT_WEIGHT) &&
                             (last_slot || d->plan->pp == 1);
        const orr_module_weights *w = &module->weights;
        const bucket b = {1, (double)w->dense, (double)w->expert};
        const double g =
            gathers ? gather_ns(d, (double)w->gathered, (double)w->expert_gathered) : 0;
        const double r = reduces ? reduce_ns(d, &b) : 0;
        const double computed = orr_estimate_span(c, d->place->stretch, module, phase);
        const double moved = g + r;
        f.computed += class->count[m] * computed;
        f.travels += class->count[m] * (ahead ? (moved > computed ? moved - computed : 0) : moved);
        f.stall += class->count[m] * share * moved;
        if (m == class->middle && ahead) {
            first = g;
            last = r;
            f.second = moved > computed ? moved - computed : 0;
        }
    }
    /* The first gather has nothing to hide behind; of the last reduction the stall is hidden. */
    f.first = first + (last > f.stall ? last - f.stall : 0);
    return f;
}

static double fetched_ns(const fetched *f)
{
    return f->computed + f->travels + f->first;
}

/* With a pipeline: what the first forward slot and the last gradient slot do beyond the others. */
static void fetch_once(const orr_estimate_draft *d, const orr_stage_class *class,
                       orr_estimate_sums *s)
{
    const orr_slot_phase gives = orr_splits_backward(d->plan) ? ORR_SLOT_WEIGHT : ORR_SLOT_BACKWARD;
    if (d->plan->pp == 1)
        return;
    const fetched usual = fetch(d, class, ORR_SLOT_FORWARD, false, false),
                  first = fetch(d, class, ORR_SLOT_FORWARD, true, false),
                  given = fetch(d, class, gives, false, false),
                  last = fetch(d, class, gives, false, true);
    s->first_ns = fetched_ns(&first) - fetched_ns(&usual);
    s->stall_first_ns = first.stall - usual.stall;
    s->last_ns = fetched_ns(&last) - fetched_ns(&given);
    s->stall_last_ns = last.stall - given.stall;
}

static void fetch_all(orr_estimate_draft *d, uint32_t class_of)
{
    const orr_stage_class *class = &d->partition->classes[class_of];
    orr_estimate_sums *s = &d->sums[class_of];
    s->exposed_ns = 0;
    for (int phase = 0; phase < ORR_SLOT_PHASES; phase++) {
        double alone = 0;
        for (uint32_t m = 0; m < d->row->row.n_modules; m++)
            alone += class->count[m] *
                     orr_estimate_span(orr_draft_device(d, class)->calibration, d->place->stretch,
                                       &orr_draft_row(d, class)->modules[m], phase);
        const fetched f = fetch(d, class, (orr_slot_phase)phase, false, false);
        const double more = f.computed - alone + f.travels + f.first;
        s->phase_ns[phase] += more;
        s->stall_ns[phase] = f.stall;
        s->ahead_ns += phase <= ORR_SLOT_BACKWARD ? f.first + f.second : 0;
        if (phase <= ORR_SLOT_BACKWARD)
            s->exposed_ns += more + f.stall;
    }
    fetch_once(d, class, s);
    const bucket all = bucket_of(s, 1), one = bucket_of(s, 1.0 / class->n_places);
    s->replica_ns = replica_ns(d, &all);
    s->replica_last_ns = replica_ns(d, &one);
}

void orr_estimate_shards(orr_estimate_draft *d, uint32_t class_of)
{
    const orr_stage_class *class = &d->partition->classes[class_of];
    orr_estimate_sums *s = &d->sums[class_of];
    const orr_plan *plan = d->plan;
    const bucket all = bucket_of(s, 1);
    if (class->n_places == 0 || !d->trains)
        return;
    if (plan->zero >= 3) {
        fetch_all(d, class_of);
        return;
    }
    const buckets b = buckets_of(d, s, class->n_places);
    if (d->overlaps) {
        reduce_in_buckets(d, class_of, &b);
        if (plan->zero > 0)
            gather_first(d, class_of, &b);
        return;
    }
    if (plan->zero > 0)
        s->gather_late_ns = gather_ns(d, s->dense, s->expert);
    if (plan->zero < 2) {
        s->late_ns = reduce_ns(d, &all) + replica_ns(d, &all);
        return;
    }
    s->exposed_ns =
        (b.n * reduce_ns(d, &b.full) + reduce_ns(d, &b.rest)) / orr_plan_gradient_group(plan);
    s->phase_ns[ORR_SLOT_BACKWARD] += s->exposed_ns;
    s->phase_ns[ORR_SLOT_WEIGHT] += s->exposed_ns;
    s->late_ns = replica_ns(d, &all);
}
