/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explore/questions/questions.h"

/* The hardest number with which the job is still as quick as it has to be. */

/* Bounds of what is tried: fibre half around the earth; a share of a bandwidth or a memory with
 * which no job is left. */
static const double KM_MOST = 20000, SHARE_LEAST = 1.0 / 4096, RESOLUTION = 0.05;

/* Devices are counted in hosts on clusters of so many, one by one on smaller ones. */
enum { WHOLE_HOSTS = 32 };

/* --- words ----------------------------------------------------------------------------------- */

static orr_status site_of(const orr_cluster *c, const char *name, size_t len, uint32_t *ret,
                          orr_error *err)
{
    for (uint32_t s = 0; s < c->n_sites; s++)
        if (strlen(c->sites[s].name) == len && memcmp(c->sites[s].name, name, len) == 0) {
            *ret = s;
            return ORR_OK;
        }
    return orr_fail(err, ORR_INVALID, "no site '%.*s' in cluster '%s'; the first is '%s'",
                    (int)(len < 60 ? len : 60), name, c->name, c->sites[0].name);
}

static orr_status level_of(const orr_cluster *c, const char *name, orr_solve *ret, orr_error *err)
{
    for (uint32_t l = 0; l < c->n_levels; l++)
        if (strcmp(c->levels[l].name, name) == 0) {
            ret->level = true;
            ret->link = l;
            return ORR_OK;
        }
    return orr_fail(err, ORR_INVALID, "no level '%.60s' in cluster '%s'; the highest is '%s'", name,
                    c->name, c->levels[c->n_levels - 1].name);
}

/* "0", "north-south". */
static orr_status cut_of(const orr_cluster *c, const char *text, orr_solve *ret, orr_error *err)
{
    char *end;
    const unsigned long number = strtoul(text, &end, 10);
    const char *dash = strchr(text, '-');
    uint32_t a, b;
    if (*end == '\0' && *text != '\0') {
        ret->link = (uint32_t)number;
        return number < c->n_cuts
                   ? ORR_OK
                   : orr_fail(err, ORR_INVALID, "cut %lu: cluster '%s' has %u, from 0 on", number,
                              c->name, c->n_cuts);
    }
    if (dash == NULL)
        return orr_fail(err, ORR_INVALID, "'%.60s' is no cut: a number, or two sites, as %s-%s",
                        text, c->sites[0].name, c->sites[1].name);
    ORR_TRY(site_of(c, text, (size_t)(dash - text), &a, err));
    ORR_TRY(site_of(c, dash + 1, strlen(dash + 1), &b, err));
    for (ret->link = 0; ret->link < c->n_cuts; ret->link++) {
        const orr_site_link *cut = &c->cuts[ret->link];
        if ((cut->a == a && cut->b == b) || (cut->a == b && cut->b == a))
            return ORR_OK;
    }
    return orr_fail(err, ORR_INVALID, "'%.60s' is no cut between two sites", text);
}

orr_status orr_solve_parse(const char *text, const orr_cluster *cluster, orr_solve *ret,
                           orr_error *err)
{
    static const struct {
        const char *word;
        uint8_t question;
        bool link, level;
    } words[] = {
        {"cut", ORR_QUESTION_BANDWIDTH, true, false},
        {"level", ORR_QUESTION_BANDWIDTH, true, true},
        {"distance", ORR_QUESTION_DISTANCE, true, false},
        {"devices", ORR_QUESTION_DEVICES, false, false},
        {"memory", ORR_QUESTION_MEMORY, false, false},
        {"spares", ORR_QUESTION_SPARES, false, false},
    };
    const char *colon = strchr(text, ':');
    const size_t len = strcspn(text, ":");
    orr_solve made = {.link = ORR_NONE, .within_frac = 0.02};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strlen(words[i].word) != len || memcmp(words[i].word, text, len) != 0)
            continue;
        made.question = words[i].question;
        if (colon != NULL && !words[i].link)
            return orr_fail(err, ORR_INVALID, "'%.60s': nothing stands behind %s", text,
                            words[i].word);
        if (words[i].level)
            ORR_TRY(level_of(cluster, colon != NULL ? colon + 1 : "", &made, err));
        else if (words[i].link && cluster->n_cuts == 0)
            return orr_fail(err, ORR_INVALID,
                            "cluster '%s' has no sites, and so no cuts: level:%s is about a level",
                            cluster->name, cluster->levels[cluster->n_levels - 1].name);
        else if (colon != NULL)
            ORR_TRY(cut_of(cluster, colon + 1, &made, err));
        *ret = made;
        return ORR_OK;
    }
    return orr_fail(err, ORR_INVALID,
                    "no '%.60s'; cut:0, cut:NAME-NAME, cut, level:NAME, distance:0, devices, "
                    "memory or spares",
                    text);
}

/* --- probes ---------------------------------------------------------------------------------- */

typedef struct solving {
    orr_asking asking;
    const orr_solve *solve;
    double begin; /* the number as it is */
} solving;

static const char *what_of(solving *s, double at)
{
    orr_arena *arena = s->asking.arena;
    switch (s->solve->question) {
    case ORR_QUESTION_BANDWIDTH:
        return orr_arena_printf(arena, "%.4g Gbit/s a device", at * 8e-9);
    case ORR_QUESTION_DISTANCE:
        return orr_arena_printf(arena, "%.4g km", at);
    case ORR_QUESTION_MEMORY:
        return orr_arena_printf(arena, "%.4g GiB", at / 0x1p30);
    case ORR_QUESTION_SPARES:
        return orr_arena_printf(arena, "%.0f spare nodes", at);
    default:
        return orr_arena_printf(arena, "at most %.0f devices", at);
    }
}

static orr_status change_machine(solving *s, double at, orr_trial *trial)
{
    const orr_solve *solve = s->solve;
    const orr_cluster *cluster = s->asking.inquiry->cluster;
    orr_link_change link = {solve->level, solve->link, 1, 1, 0};
    switch (solve->question) {
    case ORR_QUESTION_MEMORY:
        return orr_machine_with_memory(cluster, at / s->begin, s->asking.arena, &trial->cluster,
                                       s->asking.err);
    case ORR_QUESTION_DEVICES:
        trial->options.max_devices = (uint32_t)at;
        trial->options.min_devices =
            trial->options.min_devices < at ? trial->options.min_devices : 0;
        return ORR_OK;
    case ORR_QUESTION_BANDWIDTH:
        link.bandwidth = at / s->begin;
        break;
    default:
        link.more_km = at - s->begin;
    }
    return orr_machine_with_link(cluster, &link, s->asking.arena, &trial->cluster, s->asking.err);
}

static orr_status search_at(void *ctx, double at)
{
    solving *s = ctx;
    orr_trial trial = {.what = what_of(s, at),
                       .at = at,
                       .cluster = s->asking.inquiry->cluster,
                       .options = orr_asking_options(&s->asking)};
    if (trial.what == NULL)
        return orr_fail_memory(s->asking.err);
    ORR_TRY(change_machine(s, at, &trial));
    ORR_TRY(orr_asking_search(&s->asking, &trial));
    orr_probe *last = &s->asking.probes.at[s->asking.probes.n - 1];
    if (s->solve->question == ORR_QUESTION_DEVICES && last->verdict == ORR_VERDICT_MEETS)
        last->at = last->best.n_devices;
    return ORR_OK;
}

/* The nodes of the reference's plan: whole ones, for one that is used in part can fail too. */
static orr_fleet_options fleet_of(const orr_inquiry *q)
{
    orr_fleet_options options = *q->options->fleet;
    const uint32_t node = options.gpus_per_node > 0 ? options.gpus_per_node : 1;
    options.gpus = ((q->reference->best[0].n_devices - 1) / node + 1) * node;
    options.tokens = 0;
    return options;
}

/* Time for which the machine is taken for a step, or for the budget, by the simulation of the
 * fleet: with spares all stop and restart, and broken nodes are replaced while there are any. */
static orr_status simulate_fleet(void *ctx, double at)
{
    solving *s = ctx;
    orr_asking *a = &s->asking;
    const orr_explore_options *o = a->inquiry->options;
    const orr_explored *best = &a->inquiry->reference->best[0];
    const orr_fleet_policy policy = {ORR_FLEET_SPARES, 1, (uint32_t)at};
    const orr_fleet_options options = fleet_of(a->inquiry);
    orr_fleet fleet;
    const orr_trial trial = {.what = what_of(s, at), .at = at, .options = *o};
    if (trial.what == NULL)
        return orr_fail_memory(a->err);
    if (a->inquiry->told != NULL)
        a->inquiry->told(a->inquiry->told_ctx, trial.what);
    ORR_TRY(orr_fleet_of(&options, &policy, 1, false, a->arena, &fleet, a->err));
    orr_probe probe = {.what = trial.what,
                       .at = at,
                       .found = true,
                       .complete = true,
                       .best = *best,
                       .kept_value = NAN,
                       .note = ""};
    const double effective = fmax(fleet.outcomes[0].effective.mean, 1e-3);
    const double wall = best->value[ORR_OBJECTIVE_BUDGET] * best->effective_frac;
    probe.best.effective_frac = effective;
    probe.value = probe.bound = (isnan(wall) ? (double)best->step_ns : wall) / effective;
    if (!isnan(wall))
        probe.best.value[ORR_OBJECTIVE_BUDGET] = probe.value;
    orr_asking_judge(a, &probe);
    return orr_asking_add(a, &trial, &probe);
}

/* --- the questions --------------------------------------------------------------------------- */

/* A quarter of the nodes: more than a pool has whose nodes come back after a repair. */
static double many_spares(const orr_inquiry *q)
{
    const orr_fleet_options options = fleet_of(q);
    return ceil(orr_fleet_nodes(&options) / 4.0) + 1;
}

static orr_status check(const orr_inquiry *q, const orr_solve *solve, orr_error *err)
{
    if (solve->question == ORR_QUESTION_SPARES && q->options->fleet == NULL)
        return orr_fail(err, ORR_INVALID,
                        "spares are about failures: which, and for how many "
                        "tokens?");
    if (solve->question == ORR_QUESTION_DEVICES && !(solve->limit > 0))
        return orr_fail(err, ORR_INVALID, "the fewest devices for what? a deadline, or a step");
    if (q->reference == NULL)
        return orr_fail(err, ORR_INVALID, "a question without the answer that it begins from");
    return ORR_OK;
}

static void describe(solving *s, orr_bisection *b, orr_answer *ret)
{
    const orr_inquiry *q = s->asking.inquiry;
    const orr_solve *solve = s->solve;
    const orr_cluster *c = q->cluster;
    const char *link = "";
    if (solve->question == ORR_QUESTION_BANDWIDTH || solve->question == ORR_QUESTION_DISTANCE)
        link = orr_machine_link_name(c, solve->level, solve->link, s->asking.arena);
    *b = (orr_bisection){
        .direction = -1, .stride = 4, .resolution = RESOLUTION, .probe = search_at, .ctx = s};
    switch (solve->question) {
    case ORR_QUESTION_BANDWIDTH:
        s->begin = orr_machine_bandwidth(c, solve->level, solve->link);
        b->end = s->begin * SHARE_LEAST;
        ret->unit = "bytes/s";
        ret->title = orr_arena_printf(s->asking.arena, "least bandwidth of %s, a device", link);
        break;
    case ORR_QUESTION_DISTANCE:
        s->begin = orr_machine_distance(c, solve->link);
        b->direction = 1;
        b->end = fmax(KM_MOST, s->begin);
        b->first = fmax(4 * s->begin, 10);
        ret->unit = "km";
        ret->title = orr_arena_printf(s->asking.arena, "largest distance of %s", link);
        break;
    case ORR_QUESTION_MEMORY:
        s->begin = orr_fact_or(&c->device->memory_bytes, NAN);
        b->end = s->begin * SHARE_LEAST;
        b->stride = 2;
        ret->unit = "bytes";
        ret->title = "least memory of a device";
        break;
    case ORR_QUESTION_SPARES:
        s->begin = many_spares(q);
        b->end = 0;
        b->whole = 1;
        b->resolution = 0;
        b->probe = simulate_fleet;
        ret->unit = "nodes";
        ret->title = "smallest pool of spares";
        break;
    default:
        s->begin = c->n_devices;
        b->whole = c->n_devices >= WHOLE_HOSTS * c->levels[0].devices ? c->levels[0].devices : 1;
        b->end = fmax(1, q->options->min_devices);
        b->resolution = q->options->exact ? 0 : 0.01;
        ret->unit = "devices";
        ret->title = "fewest devices";
    }
}

/* As many devices as the reference's, if a job on fewer took as much longer. */
static void guess_devices(const orr_asking *a, orr_bisection *b)
{
    const orr_probe *p = &a->probes.at[0];
    if (p->verdict == ORR_VERDICT_MEETS)
        b->first = fmax(b->end, p->at * p->value / a->limit);
    b->stride = 1.25;
}

orr_status orr_explore_solve(const orr_inquiry *inquiry, const orr_solve *solve, orr_arena *arena,
                             orr_answer *ret, orr_error *err)
{
    solving s = {.asking = {.inquiry = inquiry, .limit = solve->limit, .arena = arena, .err = err},
                 .solve = solve};
    orr_answer made = {.question = solve->question};
    orr_bisection b;
    orr_status status;
    ORR_TRY(check(inquiry, solve, err));
    const bool spares = solve->question == ORR_QUESTION_SPARES && inquiry->reference->n > 0;
    const bool relative = !(solve->limit > 0);
    describe(&s, &b, &made);
    if (made.title == NULL)
        return orr_fail_memory(err);
    if (relative)
        s.asking.limit = INFINITY;
    if (spares)
        ORR_TRY_OUT(status, simulate_fleet(&s, s.begin));
    else
        ORR_TRY_OUT(status, orr_asking_add_reference(&s.asking, "as it is", s.begin));
    orr_probe *first = &s.asking.probes.at[0];
    if (relative && first->found) {
        s.asking.factor = 1 + solve->within_frac;
        (void)orr_asking_tighten(&s.asking);
    }
    if (solve->question == ORR_QUESTION_DEVICES && first->found)
        first->at = first->best.n_devices;
    if (solve->question == ORR_QUESTION_DEVICES)
        guess_devices(&s.asking, &b);
    status = orr_bisect(&s.asking, &b, &made);
    if (status == ORR_OK)
        *ret = made;
out:
    orr_asking_done(&s.asking);
    return status;
}
