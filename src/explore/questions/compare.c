/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "explore/questions/questions.h"
#include "machine/cluster/price.h"

/* Comparisons: the same question on other machines. Probe 0 is the question's own. */

static uint32_t best_of(const orr_asking *a)
{
    uint32_t best = ORR_NONE;
    for (uint32_t i = 0; i < a->probes.n; i++)
        if (a->probes.at[i].found &&
            (best == ORR_NONE || a->probes.at[i].value < a->probes.at[best].value))
            best = i;
    return best;
}

static orr_status finish(orr_asking *a, orr_status status, uint8_t question, const char *title,
                         orr_answer *ret)
{
    orr_answer made = {
        .question = question, .title = title, .unit = "", .reference = 0, .beyond = ORR_NONE};
    if (status == ORR_OK)
        status = orr_asking_share(a);
    made.answer = best_of(a);
    if (status == ORR_OK)
        status = title != NULL ? orr_asking_answer(a, &made, ret) : orr_fail_memory(a->err);
    orr_asking_done(a);
    return status;
}

static orr_status open_comparison(const orr_inquiry *inquiry, const char *what, orr_arena *arena,
                                  orr_asking *ret, orr_error *err)
{
    *ret = (orr_asking){.inquiry = inquiry, .limit = NAN, .arena = arena, .err = err};
    if (inquiry->reference == NULL)
        return orr_fail(err, ORR_INVALID, "a question without the answer that it begins from");
    return orr_asking_add_reference(ret, what, NAN);
}

/* A changed machine, or changed options: what is not given is the inquiry's. */
static orr_status search_changed(orr_asking *a, const char *what, const orr_cluster *cluster,
                                 const orr_explore_options *options)
{
    const orr_trial trial = {what, NAN, cluster != NULL ? cluster : a->inquiry->cluster,
                             options != NULL ? *options : orr_asking_options(a)};
    if (what == NULL)
        return orr_fail_memory(a->err);
    return orr_asking_stopped(a) ? ORR_OK : orr_asking_search(a, &trial);
}

/* --- against --------------------------------------------------------------------------------- */

/* The mean of what sites ask for a device; NAN: one is not known. */
static double mean_price(const orr_cluster *c, double said)
{
    double sum = 0;
    for (uint32_t s = 0; s < c->n_sites; s++)
        sum += c->sites[s].devices * orr_price_per_hour(c, s, said);
    return sum / c->n_devices;
}

static void drop_sites(orr_plan *plan)
{
    plan->cross = plan->compress = 0;
    plan->dp_outer = plan->dp_chunks = plan->local_steps = 0;
    memset(plan->sites, 0, sizeof plan->sites);
}

/* What is fixed, and the plan over sites, without what only sites have. */
static orr_status drop_sites_of_question(orr_asking *a, const char **fix)
{
    orr_plan p;
    if (a->probes.at[0].found) {
        p = a->probes.at[0].best.plan;
        drop_sites(&p);
        if (!orr_array_push(&a->starts, p))
            return orr_fail_memory(a->err);
    }
    if (*fix == NULL)
        return ORR_OK;
    ORR_TRY(orr_plan_parse(*fix, &p, a->err));
    drop_sites(&p);
    *fix = orr_plan_text(&p, a->arena);
    return *fix != NULL ? ORR_OK : orr_fail_memory(a->err);
}

/* One place has no sites that could have prices, and no more devices are used than there are. */
static orr_status search_one_place(orr_asking *a, const orr_cluster *place)
{
    const orr_cluster *cluster = a->inquiry->cluster;
    orr_explore_options o = orr_asking_options(a);
    if (place == cluster) { /* the same machine, and so the same answer */
        const orr_trial same = {cluster->name, NAN, cluster, o};
        orr_probe probe = a->probes.at[0];
        probe.what = "one place already";
        return orr_asking_add(a, &same, &probe);
    }
    if (place->n_sites == 0 && mean_price(cluster, o.price_per_hour) > 0)
        o.price_per_hour = mean_price(cluster, o.price_per_hour);
    if (o.max_devices == 0 || o.max_devices > cluster->n_devices)
        o.max_devices = cluster->n_devices;
    o.max_sites = 0;
    if (place->n_sites == 0)
        ORR_TRY(drop_sites_of_question(a, &o.fix));
    return search_changed(a, place->name, place, &o);
}

orr_status orr_explore_against(const orr_inquiry *inquiry, const orr_cluster *other,
                               orr_arena *arena, orr_answer *ret, orr_error *err)
{
    orr_asking a;
    const orr_cluster *place = other;
    orr_status status = open_comparison(inquiry, inquiry->cluster->name, arena, &a, err);
    if (status == ORR_OK && other == NULL)
        status = orr_machine_in_one_place(inquiry->cluster, arena, &place, err);
    if (status == ORR_OK)
        status = other == NULL ? search_one_place(&a, place)
                               : search_changed(&a, other->name, other, NULL);
    return finish(&a, status, ORR_QUESTION_AGAINST,
                  other == NULL ? "the same devices in one place" : "another machine", ret);
}

/* --- clusters -------------------------------------------------------------------------------- */

orr_status orr_explore_clusters(const orr_inquiry *inquiry, const orr_cluster *const *clusters,
                                uint32_t n_clusters, orr_arena *arena, orr_answer *ret,
                                orr_error *err)
{
    orr_asking a;
    orr_status status = open_comparison(inquiry, inquiry->cluster->name, arena, &a, err);
    for (uint32_t i = 1; i < n_clusters && status == ORR_OK; i++)
        status = search_changed(&a, clusters[i]->name, clusters[i], NULL);
    return finish(&a, status, ORR_QUESTION_CLUSTERS, "the best plan of each cluster", ret);
}

/* --- what if --------------------------------------------------------------------------------- */

static const double FACTORS[] = {0.5, 2};
enum { N_FACTORS = sizeof FACTORS / sizeof *FACTORS };

static orr_status change_link(orr_asking *a, bool level, uint32_t link)
{
    const orr_cluster *cluster = a->inquiry->cluster;
    const char *name = orr_machine_link_name(cluster, level, link, a->arena);
    if (name == NULL)
        return orr_fail_memory(a->err);
    for (int of = 0; of < 2; of++)
        for (int f = 0; f < N_FACTORS; f++) {
            const orr_link_change change = {level, link, of == 0 ? FACTORS[f] : 1,
                                            of == 1 ? FACTORS[f] : 1, 0};
            const orr_cluster *changed;
            ORR_TRY(orr_machine_with_link(cluster, &change, a->arena, &changed, a->err));
            ORR_TRY(search_changed(a,
                                   orr_arena_printf(a->arena, "%s of %s x %g",
                                                    of == 0 ? "bandwidth" : "latency", name,
                                                    FACTORS[f]),
                                   changed, NULL));
        }
    return ORR_OK;
}

static orr_status change_links(orr_asking *a)
{
    const orr_cluster *c = a->inquiry->cluster;
    for (uint32_t i = 0; i < c->n_cuts; i++)
        ORR_TRY(change_link(a, false, i));
    for (uint32_t l = 0; c->n_cuts == 0 && l < c->n_levels; l++)
        ORR_TRY(change_link(a, true, l));
    return ORR_OK;
}

static orr_status change_devices(orr_asking *a, const orr_device *const *devices, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const orr_cluster *changed;
        ORR_TRY(orr_machine_of_device(a->inquiry->cluster, devices[i], a->arena, &changed, a->err));
        ORR_TRY(search_changed(
            a, orr_arena_printf(a->arena, "%s in place of all", devices[i]->name), changed, NULL));
    }
    return ORR_OK;
}

static orr_status change_failures(orr_asking *a)
{
    const orr_explore_options *given = a->inquiry->options;
    if (given->fleet == NULL ||
        (given->objective != ORR_OBJECTIVE_BUDGET && given->objective != ORR_OBJECTIVE_COST &&
         given->objective != ORR_OBJECTIVE_ENERGY))
        return orr_fail(a->err, ORR_INVALID,
                        "failures change the time to a budget of tokens, not a step: the objective "
                        "is %s",
                        orr_objective_name((orr_objective)given->objective));
    for (int f = 0; f < N_FACTORS; f++) {
        orr_explore_options o = orr_asking_options(a);
        orr_fleet_options fleet = *given->fleet;
        fleet.numbers[ORR_FLEET_RATE].value *= FACTORS[f];
        orr_fleet_options *kept = orr_arena_one(a->arena, orr_fleet_options);
        if (kept == NULL)
            return orr_fail_memory(a->err);
        *kept = fleet;
        o.fleet = kept;
        ORR_TRY(
            search_changed(a, orr_arena_printf(a->arena, "failures x %g", FACTORS[f]), NULL, &o));
    }
    return ORR_OK;
}

orr_status orr_explore_what_if(const orr_inquiry *inquiry, uint32_t changes,
                               const orr_device *const *devices, uint32_t n_devices,
                               orr_arena *arena, orr_answer *ret, orr_error *err)
{
    orr_asking a;
    orr_status status = open_comparison(inquiry, "as it is", arena, &a, err);
    if (status == ORR_OK && (changes & ORR_WHAT_IF_LINK) != 0)
        status = change_links(&a);
    if (status == ORR_OK && (changes & ORR_WHAT_IF_DEVICE) != 0)
        status = change_devices(&a, devices, n_devices);
    if (status == ORR_OK && (changes & ORR_WHAT_IF_FAILURE) != 0)
        status = change_failures(&a);
    return finish(&a, status, ORR_QUESTION_WHAT_IF, "what if", ret);
}
