/* SPDX-License-Identifier: Apache-2.0 */
#include "estimate/bound_terms.h"

#include <math.h>
#include <string.h>

/* Terms of the lower bounds for one class of virtual stages: computation, stalls and transfers of
 * its slots. */

/* --- phases of a module ---------------------------------------------------------------------- */

double orr_estimate_span(const orr_calibration *c, double stretch, const orr_priced_module *m,
                         int phase)
{
    const double host = c->launch_ns * m->kernels[phase], device = stretch * m->device_ns[phase];
    const double most = fmax(host, device), least = fmin(host, device);
    const double ratio = most > 0 ? least / most : 0, square = ratio * ratio;
    return most * sqrt(sqrt(1 + square * square));
}

double orr_estimate_phase_bound(const orr_calibration *c, const orr_plan *plan, double stretch,
                                const orr_priced_module *m, int phase)
{
    const double pieces = plan->overlap_tp == ORR_SWITCH_ON ? plan->tp : 0;
    return fmax(
        orr_estimate_span(c, stretch, m, phase) * (1 - 1e-6) - m->tasks[phase] * (1.5 + pieces), 0);
}

/* --- transfers -------------------------------------------------------------------------------- */

orr_shard_transfer orr_gradient_transfer_of(const orr_estimate_draft *d)
{
    const bool whole = d->plan->zero == 0;
    return (orr_shard_transfer){whole ? ORR_AXIS_GRADIENT : ORR_AXIS_SHARD, ORR_AXIS_EDP,
                                whole ? ORR_COLL_ALL_REDUCE : ORR_COLL_REDUCE_SCATTER,
                                d->gradient_bytes};
}

orr_shard_transfer orr_weight_transfer_of(const orr_estimate_draft *d)
{
    return (orr_shard_transfer){ORR_AXIS_SHARD, ORR_AXIS_EDP, ORR_COLL_ALL_GATHER,
                                orr_plan_gathered_element_bytes(d->plan)};
}

static double transfer_bound(const orr_estimate_draft *d, orr_axis axis, orr_collective collective,
                             double bytes)
{
    const double ns = orr_estimate_transfer(d->e, d->place, axis, collective, (int64_t)bytes);
    return fmax(d->place->stretch * ns - 1, 0);
}

double orr_shard_transfer_bound(const orr_estimate_draft *d, const orr_shard_transfer *m,
                                double dense, double expert)
{
    return transfer_bound(d, m->dense, m->collective, dense * m->bytes) +
           transfer_bound(d, m->expert, m->collective, expert * m->bytes);
}

/* Shards are summed over their replicas on a separate stream. */
double orr_replica_transfer_bound(const orr_estimate_draft *d, double dense)
{
    const uint32_t shards = d->place->prices.members[ORR_AXIS_SHARD];
    const double bytes = dense * d->gradient_bytes;
    if (d->plan->zero == 0 || d->place->prices.members[ORR_AXIS_REPLICA] <= 1)
        return 0;
    return transfer_bound(d, ORR_AXIS_REPLICA, ORR_COLL_ALL_REDUCE,
                          floor(bytes / (shards > 0 ? shards : 1)));
}

/* --- classes of virtual stages --------------------------------------------------------------- */

static const orr_priced_module *module_at(const orr_estimate_draft *d, uint32_t place)
{
    return &d->row->modules[d->row->row.module_of[place]];
}

bool orr_stage_class_is_uniform(
    const orr_stage_class *class) /* no other kind of virtual stage shares the class */
{
    return memcmp(class->count, class->min_count, sizeof class->count) == 0;
}

/* Adds the parameters of all modules of a class. */
void orr_stage_class_add_elements(const orr_estimate_draft *d, const orr_stage_class *class,
                                  double *dense, double *expert)
{
    for (uint32_t m = 0; m < d->row->row.n_modules; m++) {
        *dense += class->min_count[m] * (double)d->row->modules[m].weights.dense;
        *expert += class->min_count[m] * (double)d->row->modules[m].weights.expert;
    }
}

static void add_computation(const orr_estimate_draft *d, uint32_t c, orr_stage_lower_bound *l)
{
    const orr_stage_class *class = &d->partition->classes[c];
    const double host = fmax(
        d->place->stretch * floor(orr_draft_device(d, class)->calibration->micro_batch_ns / 2) - 1,
        0);
    l->host_ns = class->n_places > 0 ? host : 0;
    for (int phase = 0; phase<ORR_SLOT_PHASES &&class->n_places> 0; phase++)
        if (phase != ORR_SLOT_WEIGHT)
            l->phase_ns[phase] += host;
    for (uint32_t m = 0; m < d->row->row.n_modules; m++) {
        if (class->min_count[m] == 0)
            continue;
        for (int phase = 0; phase < ORR_SLOT_PHASES; phase++)
            l->phase_ns[phase] +=
                class->min_count[m] * (double)orr_draft_row(d, class)->bound_ns[m][phase];
        for (int phase = 0; phase <= ORR_SLOT_BACKWARD; phase++)
            l->compute_ns[phase] +=
                class->min_count[m] * (double)orr_draft_row(d, class)->bound_ns[m][phase];
    }
}

/* --- ZeRO 0 to 2 ------------------------------------------------------------------------------ */

/* A bucket of gradients, filled from the last place on and reduced as a whole. Weights are gathered
 * in the same buckets, from the first place on. */
typedef struct bucket {
    int64_t dense, expert;
    double reduce_ns, replica_ns, gather_ns, dense_ns;
} bucket;
typedef struct buckets {
    double n, reduces_ns, replicas_ns, gathers_ns;
    double first_ns[ORR_SLOT_PHASES]; /* computation of the places in the first bucket */
    bucket last;                      /* the bucket with the first place */
} buckets;

static void price_bucket(const orr_estimate_draft *d, bucket *b)
{
    const orr_shard_transfer g = orr_gradient_transfer_of(d), w = orr_weight_transfer_of(d);
    const double dense = (double)b->dense, expert = (double)b->expert;
    b->dense_ns = transfer_bound(d, g.dense, g.collective, dense * g.bytes);
    b->reduce_ns = b->dense_ns + transfer_bound(d, g.expert, g.collective, expert * g.bytes);
    b->replica_ns = orr_replica_transfer_bound(d, dense);
    b->gather_ns = d->plan->zero > 0 ? orr_shard_transfer_bound(d, &w, dense, expert) : 0;
}

static void close_bucket(const orr_estimate_draft *d, bucket *b, buckets *ret)
{
    if (b->dense != ret->last.dense || b->expert != ret->last.expert || ret->n == 0) {
        price_bucket(d, b);
        ret->last = *b;
    }
    ret->n++;
    ret->reduces_ns += ret->last.reduce_ns;
    ret->replicas_ns += ret->last.replica_ns;
    ret->gathers_ns += ret->last.gather_ns;
    *b = (bucket){0};
}

static buckets buckets_of(const orr_estimate_draft *d, const orr_stage_class *class)
{
    const orr_plan *plan = d->plan;
    const double usual = (plan->dp > 40 ? 1e6 * plan->dp : 40e6) * d->gradient_bytes;
    const double most = plan->bucket_bytes > 0 ? plan->bucket_bytes : usual;
    const orr_priced_row *row = orr_draft_row(d, class);
    buckets all = {0};
    bucket b = {0};
    for (uint32_t i = class->n_places; i-- > 0;) {
        const uint8_t m = class->modules[i];
        b.dense += row->modules[m].weights.dense;
        b.expert += row->modules[m].weights.expert;
        for (int phase = 0; phase < ORR_SLOT_PHASES && all.n == 0; phase++)
            all.first_ns[phase] += (double)row->bound_ns[m][phase];
        if (i == 0 || (double)(b.dense + b.expert) * d->gradient_bytes >= most)
            close_bucket(d, &b, &all);
    }
    return all;
}

/* For a class shared by several kinds of virtual stages: one transfer of everything is a lower
 * bound of several. */
static buckets bucket_of_shared_class(const orr_estimate_draft *d, const orr_stage_class *class)
{
    double dense = 0, expert = 0;
    bucket b = {0};
    orr_stage_class_add_elements(d, class, &dense, &expert);
    b.dense = (int64_t)dense;
    b.expert = (int64_t)expert;
    price_bucket(d, &b);
    return (buckets){
        .n = 1, .reduces_ns = b.reduce_ns, .replicas_ns = b.replica_ns, .gathers_ns = b.gather_ns};
}

/* The gathers of virtual stage 0 begin with the step, and each of its places waits for its own. */
static double first_gather_wait(const orr_stage_class *class, const buckets *of, double forward)
{
    if (class->virtual_stage != 0 || class->n > 1)
        return 0;
    const double last = of->gathers_ns + of->first_ns[ORR_SLOT_FORWARD] - forward;
    return fmax(of->last.gather_ns, last);
}

/* The dense part of the last bucket is summed over replicas beside its experts. Where no shards are
 * shared, it waits for no other transfer. */
static void set_final_transfer(const bucket *last, orr_stage_lower_bound *l)
{
    l->final_ns = fmax(last->reduce_ns, last->dense_ns + last->replica_ns);
    l->over_ns = last->dense_ns > 0 ? l->final_ns - last->reduce_ns : 0;
}

/* For any size of buckets: one transfer of everything as above, and in the last and the first
 * bucket the least that they can have, one place. */
static buckets buckets_of_any_size(const orr_estimate_draft *d, const orr_stage_class *class)
{
    const orr_priced_row *row = orr_draft_row(d, class);
    const uint8_t begin = class->modules[0], end = class->modules[class->n_places - 1];
    buckets all = bucket_of_shared_class(d, class);
    all.n = class->n_places;
    all.last.dense = row->modules[begin].weights.dense;
    all.last.expert = row->modules[begin].weights.expert;
    price_bucket(d, &all.last);
    for (int phase = 0; phase < ORR_SLOT_PHASES; phase++)
        all.first_ns[phase] = (double)row->bound_ns[end][phase];
    return all;
}

static void add_shards(const orr_estimate_draft *d, uint32_t c, orr_stage_lower_bound *l)
{
    const orr_stage_class *class = &d->partition->classes[c];
    const bool split = orr_splits_backward(d->plan), paired = orr_plan_has_pairs(d->plan);
    const int gives = split ? ORR_SLOT_WEIGHT : ORR_SLOT_BACKWARD;
    const double share =
        d->overlaps ? orr_step_exposed_frac(orr_draft_device(d, class)->calibration) : 0;
    const buckets of = !orr_stage_class_is_uniform(class) ? bucket_of_shared_class(d, class)
                       : d->e->any_reductions             ? buckets_of_any_size(d, class)
                                                          : buckets_of(d, class);
    const double lost = 3 * of.n; /* stalls are rounded to whole ns too */
    const bool always = d->plan->zero == 2 && orr_plan_gradient_group(d->plan) == 1;
    l->lane_ns = of.reduces_ns;
    l->replica_ns = of.replicas_ns;
    l->until_ns = paired ? 0 : of.first_ns[gives];
    set_final_transfer(&of.last, l);
    if (!d->overlaps) {
        if (always)
            *(paired ? &l->stall_ns[gives] : &l->phase_ns[gives]) += l->lane_ns;
        else if (d->plan->zero == 2)
            l->last_ns = l->lane_ns;
        return;
    }
    l->stall_last_ns = fmax(share * l->replica_ns - lost, 0);
    if (always)
        l->stall_ns[gives] = fmax(share * l->lane_ns - lost, 0);
    else
        l->stall_last_ns += fmax(share * l->lane_ns - lost, 0);
    if (d->plan->zero > 0) {
        l->stall_first_ns = fmax(share * of.gathers_ns - lost, 0);
        l->first_ns = first_gather_wait(class, &of, l->phase_ns[ORR_SLOT_FORWARD]);
    }
}

/* --- ZeRO 3 ----------------------------------------------------------------------------------- */

/* Transfers of one ZeRO 3 pass over the modules of a virtual stage; not those that a pipeline has
 * in the first or the last pass alone. */
typedef struct zero3_pass {
    double gathers, first_gather,
        late_gathers;              /* late_gathers: those issued after the first module */
    double reduces, early_reduces; /* early_reduces: those issued before the last gather */
    double first_ns, last_ns;      /* computation of the first and of the last module */
    uint32_t n;
} zero3_pass;

static zero3_pass zero3_pass_of(const orr_estimate_draft *d, const orr_stage_class *class,
                                int phase)
{
    const orr_shard_transfer g = orr_gradient_transfer_of(d), w = orr_weight_transfer_of(d);
    const bool forward = phase == ORR_SLOT_FORWARD;
    const uint32_t n = class->n_places, asked = d->e->any_reductions ? n : d->plan->prefetch,
                   ahead = d->overlaps ? asked : 0;
    double gather[ORR_ROW_MODULES], reduce[ORR_ROW_MODULES];
    zero3_pass p = {.n = n};
    for (uint32_t m = 0; m < d->row->row.n_modules; m++) {
        const orr_priced_module *module = &d->row->modules[m];
        const orr_module_weights *of = &module->weights;
        const bool again =
            orr_module_is_fsdp_unit(module->kind) && d->plan->reshard == ORR_SWITCH_ON;
        gather[m] =
            phase != ORR_SLOT_WEIGHT && (again || (forward && !orr_plan_keeps_gathered(d->plan)))
                ? orr_shard_transfer_bound(d, &w, (double)of->gathered, (double)of->expert_gathered)
                : 0;
        reduce[m] = d->plan->pp == 1 && (phase == ORR_SLOT_BACKWARD || phase == ORR_SLOT_WEIGHT)
                        ? orr_shard_transfer_bound(d, &g, (double)of->dense, (double)of->expert)
                        : 0;
        p.gathers += class->min_count[m] * gather[m];
        p.reduces += class->min_count[m] * reduce[m];
    }
    if (!orr_stage_class_is_uniform(class)) {
        p.first_gather = p.gathers;
        return p;
    }
    p.late_gathers = p.gathers;
    p.early_reduces = p.reduces;
    for (uint32_t i = 0, past_first = 0; i < n && past_first <= ahead + 1; i++) {
        const uint32_t front = class->first_place + i, back = class->end_place - 1 - i;
        const uint32_t begins = d->row->row.module_of[forward ? front : back],
                       ends = d->row->row.module_of[forward ? back : front];
        p.late_gathers -= i <= ahead ? gather[begins] : 0;
        p.early_reduces -= reduce[ends];
        past_first += past_first > 0 || gather[ends] > 0;
        if (i == 0) {
            p.first_gather = gather[begins];
            const bool varies = d->plan->recompute == ORR_RECOMPUTE_BLOCK;
            p.first_ns =
                varies
                    ? 0
                    : orr_draft_row(d, class)->bound_ns[forward ? begins : class->ending[0]][phase];
            p.last_ns =
                forward && !varies ? orr_draft_row(d, class)->bound_ns[class->ending[0]][phase] : 0;
        }
    }
    if (n <= ahead + 2 || p.late_gathers <= 0)
        p.late_gathers = p.early_reduces = 0;
    return p;
}

/* What a pipeline has once: the gathers of weights that stay, in the first forward slot, and the
 * reductions, in the last gradient slot. */
static void add_once(const orr_estimate_draft *d, uint32_t c, double share,
                     orr_stage_lower_bound *l)
{
    const orr_shard_transfer g = orr_gradient_transfer_of(d), w = orr_weight_transfer_of(d);
    const orr_stage_class *class = &d->partition->classes[c];
    const int gives = orr_splits_backward(d->plan) ? ORR_SLOT_WEIGHT : ORR_SLOT_BACKWARD;
    const bool varies = d->plan->recompute == ORR_RECOMPUTE_BLOCK;
    double gathers = 0;
    for (uint32_t m = 0; m < d->row->row.n_modules; m++) {
        const orr_priced_module *module = &d->row->modules[m];
        const orr_module_weights *of = &module->weights;
        const bool again =
            orr_module_is_fsdp_unit(module->kind) && d->plan->reshard == ORR_SWITCH_ON;
        if (class->min_count[m] == 0)
            continue;
        if (!again && orr_plan_keeps_gathered(d->plan))
            gathers += class->min_count[m] * orr_shard_transfer_bound(d, &w, (double)of->gathered,
                                                                      (double)of->expert_gathered);
        l->once_ns += class->min_count[m] *
                      orr_shard_transfer_bound(d, &g, (double)of->dense, (double)of->expert);
    }
    l->stall_first_ns = fmax(share * gathers - 4.0 * class->n_places, 0);
    l->stall_last_ns += fmax(share * l->once_ns - 4.0 * class->n_places, 0);
    if (!orr_plan_has_pairs(d->plan) && !varies && orr_stage_class_is_uniform(class))
        l->until_ns = orr_draft_row(d, class)->bound_ns[class->ending[0]][gives];
}

static void add_zero3(const orr_estimate_draft *d, uint32_t c, orr_stage_lower_bound *l)
{
    const orr_stage_class *class = &d->partition->classes[c];
    const bool paired = orr_plan_has_pairs(d->plan);
    const bool split = orr_splits_backward(d->plan);
    const double share = d->overlaps
                             ? orr_step_exposed_frac(orr_draft_device(d, class)->calibration)
                             : 0,
                 n = class->n_places;
    for (int phase = 0; phase < ORR_SLOT_PHASES; phase++) {
        const zero3_pass p = zero3_pass_of(d, class, phase);
        const double alone = l->phase_ns[phase], travels = p.gathers + p.reduces;
        l->stall_ns[phase] = fmax(share * travels - 4 * n, 0);
        if (phase == ORR_SLOT_FORWARD || split == (phase != ORR_SLOT_BACKWARD))
            l->lane_ns += travels;
        if (!d->overlaps && paired) {
            l->stall_ns[phase] += p.reduces;
            l->after_ns[phase] = p.gathers;
            continue;
        }
        if (!d->overlaps) {
            l->phase_ns[phase] += travels - p.first_gather;
            l->after_ns[phase] = p.first_gather;
            continue;
        }
        const double all = fmax(p.first_gather + alone, p.gathers + p.early_reduces + p.last_ns);
        if (paired) {
            l->after_ns[phase] = fmin(p.gathers, all - alone);
            continue;
        }
        if (p.late_gathers > 0)
            l->phase_ns[phase] =
                fmax(alone, p.first_ns + p.late_gathers + p.early_reduces + p.last_ns);
        l->after_ns[phase] = fmax(all - l->phase_ns[phase], 0);
    }
    for (uint32_t m = 0; m < d->row->row.n_modules; m++)
        l->replica_ns += class->min_count[m] *
                         orr_replica_transfer_bound(d, (double)d->row->modules[m].weights.dense);
    l->stall_last_ns = fmax(share * l->replica_ns - 2 * n, 0);
    if (d->plan->pp > 1 && d->overlaps)
        add_once(d, c, share, l);
    if (orr_stage_class_is_uniform(class)) {
        const orr_module_weights *of = &module_at(d, class->first_place)->weights;
        bucket last = {.dense = of->dense, .expert = of->expert};
        price_bucket(d, &last);
        set_final_transfer(&last, l);
    }
}

void orr_stage_lower_bound_of(const orr_estimate_draft *d, uint32_t class_of,
                              orr_stage_lower_bound *ret)
{
    orr_stage_lower_bound made = {.host_ns = 0};
    add_computation(d, class_of, &made);
    if (d->partition->classes[class_of].n_places > 0 && d->trains) {
        if (d->plan->zero >= 3)
            add_zero3(d, class_of, &made);
        else
            add_shards(d, class_of, &made);
    }
    *ret = made;
}
