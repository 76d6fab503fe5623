/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "explore/search/search.h"

/* Checkpoint and resume of a search: families that are done, candidates, and simulated plans go
 * into the results database under a digest of the question, and a later run of the same question
 * starts from them. The digest covers all that changes the answer: cluster, transports, options,
 * and, in place of the model and the failure data, the values that follow from them (family bounds;
 * objectives of a step). A new option has to be added to put_options(), or runs with different
 * values would share results. */

enum { SAMPLED = 16 }; /* families whose bounds are part of the digest */

/* --- digest of the question ------------------------------------------------------------------ */

/* Hash of the numbers and texts that change the answer. */
typedef struct digest {
    XXH3_state_t *state;
} digest;

static void put_bytes(const digest *d, const void *at, size_t n)
{
    XXH3_64bits_update(d->state, at, n);
}

static void put_text(const digest *d, const char *text)
{
    put_bytes(d, text != NULL ? text : "", text != NULL ? strlen(text) + 1 : 1);
}

static void put_number(const digest *d, double value)
{
    put_bytes(d, &value, sizeof value);
}

static void put_transport(const digest *d, const orr_rdma_transport *w)
{
    const double numbers[] = {w == NULL,           w ? w->balance : 0,     w ? w->congestion : 0,
                              w ? w->buffers : 0,  w ? w->queue_pairs : 0, w ? w->outstanding : 0,
                              w ? w->paths : 0,    w ? w->failed : 0,      w ? w->segment_bytes : 0,
                              w ? w->loss_frac : 0};
    put_bytes(d, numbers, sizeof numbers);
}

static void put_device(const digest *d, const orr_device *device)
{
    put_text(d, device->name);
    put_number(d, device->memory_bytes.value);
    put_number(d, device->memory_bytes_per_s.value);
    put_number(d, device->price_per_hour.value);
    for (int i = 0; i < ORR_DTYPES; i++) {
        put_number(d, device->peak_flops[i].value);
        put_number(d, device->matmul_flops[i].value);
    }
}

static void put_level(const digest *d, const orr_level *level)
{
    const double numbers[] = {level->size,
                              level->devices,
                              level->topology,
                              level->bytes_per_s.value,
                              level->latency_ns.value,
                              level->oversubscription.value,
                              level->in_network_reduction};
    put_text(d, level->technology);
    put_bytes(d, numbers, sizeof numbers);
    put_transport(d, level->transport);
}

static void put_cluster(const digest *d, const orr_cluster *c)
{
    put_text(d, c->name);
    put_device(d, c->device);
    for (uint32_t i = 0; i < c->n_levels; i++)
        put_level(d, &c->levels[i]);
    for (uint32_t i = 0; i < c->n_sites; i++) {
        put_device(d, c->sites[i].device);
        put_number(d, c->sites[i].devices);
        put_number(d, c->sites[i].price_per_hour.value);
    }
    for (uint32_t i = 0; i < c->n_cuts; i++) {
        const orr_site_link *cut = &c->cuts[i];
        const double numbers[] = {cut->a,
                                  cut->b,
                                  cut->bytes_per_s.value,
                                  cut->latency_ns.value,
                                  cut->oversubscription.value,
                                  cut->price_per_gb.value};
        put_bytes(d, numbers, sizeof numbers);
        put_transport(d, cut->transport);
    }
}

/* In place of the model and the failure data: bounds of some families, and the objectives of a
 * step.
 */
static orr_status put_derived_values(const digest *d, const orr_search *s, orr_error *err)
{
    const orr_objective_inputs use = {
        .n_devices = s->space.most_devices, .replicas = 2, .step_ns = 1e9, .energy_j = 1};
    double values[ORR_OBJECTIVES], effective;
    const uint32_t each = s->families.n / SAMPLED + 1;
    for (uint32_t i = 0; i < s->families.n; i++)
        put_text(d, s->families.at[i].key);
    for (uint32_t i = 0; i < s->families.n; i += each) {
        const orr_plan plan = orr_plan_override(&s->space.common, &s->families.at[i].plan);
        double floor_ns = NAN;
        if (orr_evaluator_family_bound(s->ideal[0], &plan, &floor_ns, NULL) == ORR_NO_MEMORY)
            return orr_fail_memory(err);
        put_number(d, floor_ns);
    }
    ORR_TRY(orr_evaluator_objectives(s->evaluators[0], &s->space.common, &use, values, &effective,
                                     err));
    put_bytes(d, values, sizeof values);
    return ORR_OK;
}

/* Numbers of the calibration that is used; they are all doubles. A given one and that of the
 * catalogue are told apart, for the latter is of several devices. */
static void put_calibration(const digest *d, const orr_calibration *c)
{
    put_number(d, c != NULL);
#define PUT_(name, text) put_number(d, c->name);
    if (c != NULL) {
        ORR_CALIBRATION_MAP(PUT_)
    }
#undef PUT_
    for (uint32_t i = 0; c != NULL && i < c->n_links; i++) {
        put_text(d, c->links[i].technology);
        put_number(d, c->links[i].frac.value);
        put_number(d, c->links[i].base_ns.value);
        put_number(d, c->links[i].reduction.value);
    }
}

static void put_options(const digest *d, const orr_search *s, const char *base)
{
    const orr_explore_options *o = s->options;
    const double numbers[] = {o->objective,         o->second,          o->max_sites,
                              o->max_devices,       o->min_devices,     o->tokens,
                              o->price_per_hour,    s->incumbent.gap,   o->workload.task,
                              o->workload.seq,      o->workload.images, o->workload.lora_rank,
                              o->workload.lora_all, o->framework};
    const char *const texts[] = {o->fix, o->limit, o->exclude, o->allow, o->dimensions, base};
    put_bytes(d, numbers, sizeof numbers);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        put_text(d, texts[i]);
    put_calibration(d, o->calibration);
}

/* The question as text: what people ask for in words, and the digest, which tells it from others.
 */
static orr_status describe_question(const orr_search *s, const char **ret, orr_error *err)
{
    const orr_explore_options *o = s->options;
    const char *base = o->base != NULL ? orr_plan_text(o->base, s->arena) : "";
    const digest d = {XXH3_createState()};
    if (d.state == NULL || base == NULL) {
        XXH3_freeState(d.state);
        return orr_fail_memory(err);
    }
    XXH3_64bits_reset(d.state);
    put_cluster(&d, s->cluster);
    put_options(&d, s, base);
    const orr_status status = put_derived_values(&d, s, err);
    const uint64_t hash = XXH3_64bits_digest(d.state);
    XXH3_freeState(d.state);
    ORR_TRY(status);
    *ret = orr_arena_printf(s->arena, "%s on %s, least %s, %s (%016llx)", s->model->name,
                            s->cluster->name, orr_objective_name((orr_objective)o->objective),
                            o->fix, (unsigned long long)hash);
    return *ret != NULL ? ORR_OK : orr_fail_memory(err);
}

orr_status orr_search_open_store(orr_search *s, orr_error *err)
{
    const char *question;
    if (s->options->store == NULL || orr_processes_rank(s->processes) > 0)
        return ORR_OK;
    ORR_TRY(describe_question(s, &question, err));
    ORR_TRY(orr_results_open(s->options->store, question, s->options->resume, &s->results, err));
    ORR_TRY(orr_results_note(s->results, "model", s->model->name, err));
    return orr_results_note(s->results, "cluster", s->cluster->name, err);
}

/* --- writing -------------------------------------------------------------------------------- */

static orr_status store_explored(orr_search *s, const char *family, const orr_explored *e,
                                 orr_error *err)
{
    orr_explored tidy = *e;
    tidy.plan = orr_plan_without_defaults(&e->plan);
    const orr_arena_mark mark = orr_arena_get_mark(s->arena);
    const char *text = orr_plan_text(&tidy.plan, s->arena);
    const orr_status status = text == NULL ? orr_fail_memory(err)
                              : family != NULL
                                  ? orr_results_add_candidate(s->results, family, text, &tidy, err)
                                  : orr_results_add_plan(s->results, text, &tidy, err);
    orr_arena_rewind(s->arena, mark);
    return status;
}

/* A family is stored as done after all of its candidates, so that a kill between them loses work
 * only. */
orr_status orr_search_store(orr_search *s, const orr_work_item *e, orr_error *err)
{
    if (s->results == NULL || e->scan)
        return ORR_OK;
    for (size_t i = 0; i < e->left.n && e->family != NULL && !e->stopped; i++)
        ORR_TRY(store_explored(s, e->family->key, &e->left.at[i], err));
    for (size_t i = 0; i < e->simulated.n; i++)
        ORR_TRY(store_explored(s, e->alternative ? ORR_RESULTS_ALTERNATIVE : NULL,
                               &e->simulated.at[i], err));
    if (e->family == NULL || e->stopped)
        return ORR_OK;
    return orr_results_add_family(s->results, e->family->key, &e->result, err);
}

/* --- resuming -------------------------------------------------------------------------------- */

typedef struct resumed_family {
    uint32_t index; /* into s->families */
    orr_family_result result;
} resumed_family;
typedef orr_array(resumed_family) resumed_families;

static orr_status read_families(orr_search *s, resumed_families *ret, orr_error *err)
{
    for (uint32_t i = 0; i < s->families.n && s->results != NULL && s->options->resume; i++) {
        resumed_family f = {.index = i};
        if (orr_results_family(s->results, s->families.at[i].key, &f.result) &&
            !orr_array_push(ret, f))
            return orr_fail_memory(err);
    }
    return ORR_OK;
}

/* The process that has the database sends the others its content. */
static orr_status gather_all(orr_search *s, const void *mine, size_t n_bytes, const void **ret,
                             size_t *ret_bytes, orr_error *err)
{
    const bool sends = orr_processes_rank(s->processes) == 0;
    return orr_processes_allgather(s->processes, mine, sends ? n_bytes : 0, s->arena, ret,
                                   ret_bytes, err);
}

static void take_family(orr_search *s, const resumed_family *f)
{
    s->families.at[f->index].resumed = true;
    s->families_resumed++;
    s->plans += f->result.plans;
    s->bounded += f->result.bounded;
    s->left_bound = fmin(s->left_bound, f->result.bound);
    for (int i = 0; i < ORR_PRUNES; i++)
        s->pruned[i] += f->result.pruned[i];
}

static orr_status take_all(orr_search *s, const resumed_families *families,
                           const orr_explored *candidates, uint32_t n, orr_error *err)
{
    const void *bytes;
    size_t n_bytes;
    ORR_TRY(gather_all(s, families->at, families->n * sizeof *families->at, &bytes, &n_bytes, err));
    const resumed_family *f = bytes;
    for (size_t i = 0; i < n_bytes / sizeof *f; i++)
        take_family(s, &f[i]);
    ORR_TRY(gather_all(s, candidates, n * sizeof *candidates, &bytes, &n_bytes, err));
    const orr_explored *e = bytes;
    for (size_t i = 0; i < n_bytes / sizeof *e; i++)
        ORR_TRY(orr_search_restore_candidate(s, &e[i], err));
    return ORR_OK;
}

orr_status orr_search_resume(orr_search *s, orr_error *err)
{
    resumed_families families = {0};
    const orr_explored *candidates = NULL;
    uint32_t n = 0;
    if (!s->options->resume || s->options->store == NULL)
        return ORR_OK;
    orr_status status = read_families(s, &families, err);
    if (status == ORR_OK && s->results != NULL)
        status = orr_results_candidates(s->results, s->arena, &candidates, &n, err);
    if (status == ORR_OK)
        status = take_all(s, &families, candidates, n, err);
    orr_array_done(&families);
    return status;
}
