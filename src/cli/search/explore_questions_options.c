/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "cli/arguments/factor.h"
#include "cli/search/explore.h"

/* The questions of `explore` that take searches of their own, as the command line says them. */

static const orr_settings *settings_of(const orr_explore_request *r)
{
    return r->session.settings;
}

/* The next item of a list that commas separate, in the arena; NULL in *ret: none is left. */
static orr_status next_item(orr_explore_request *r, const char **at, const char **ret)
{
    *ret = NULL;
    if (**at == '\0')
        return ORR_OK;
    const size_t len = strcspn(*at, ",");
    *ret = orr_arena_strndup(r->session.arena, *at, len);
    *at += len + ((*at)[len] == ',');
    return *ret != NULL ? ORR_OK : orr_fail_memory(&r->session.err);
}

/* --- prices ---------------------------------------------------------------------------------- */

static orr_status read_price(const char *text, double *ret, orr_error *err)
{
    char *end;
    *ret = strtod(text, &end);
    return end == text || *end != '\0' || !(*ret > 0) || !isfinite(*ret)
               ? orr_fail(err, ORR_INVALID,
                          "--price: '%.60s' is not USD of a device and hour, as 2.5 or h100=2.5",
                          text)
               : ORR_OK;
}

static bool names_a_device(const orr_catalog *catalog, const char *name)
{
    bool any = false;
    for (uint32_t i = 0; i < catalog->n_devices; i++)
        any |= strncmp(catalog->devices[i]->name, name, strlen(name)) == 0;
    return any;
}

static orr_status add_price(orr_explore_request *r, const char *item, orr_error *err)
{
    orr_explore_questions *q = &r->questions;
    const char *equals = strchr(item, '=');
    if (equals == NULL)
        return read_price(item, &r->options.price_per_hour, err);
    if (q->n_prices == ORR_EXPLORE_PRICES)
        return orr_fail(err, ORR_INVALID, "--price: at most %d", ORR_EXPLORE_PRICES);
    const char *name = orr_arena_strndup(r->session.arena, item, (size_t)(equals - item));
    if (name == NULL)
        return orr_fail_memory(err);
    if (*name == '\0' || !names_a_device(r->job.catalog, name))
        return orr_fail(err, ORR_INVALID,
                        "--price: no device's name begins with '%.60s'; `orrery hw` lists them",
                        name);
    q->price_names[q->n_prices] = name;
    return read_price(equals + 1, &q->prices[q->n_prices++], err);
}

orr_status orr_explore_prices_read(orr_explore_request *r, const char *text)
{
    const char *item;
    for (const char *at = text;;) {
        ORR_TRY(next_item(r, &at, &item));
        if (item == NULL)
            return ORR_OK;
        ORR_TRY(add_price(r, item, &r->session.err));
    }
}

/* --- machines -------------------------------------------------------------------------------- */

orr_status orr_explore_first_cluster(const orr_explore_request *r, const char **ret, orr_error *err)
{
    const char *list = settings_of(r)->cluster;
    *ret = list;
    if (list == NULL || strchr(list, ',') == NULL)
        return ORR_OK;
    *ret = orr_arena_strndup(r->session.arena, list, strcspn(list, ","));
    return *ret != NULL ? ORR_OK : orr_fail_memory(err);
}

static orr_status add_cluster(orr_explore_request *r, const orr_cluster *cluster)
{
    orr_explore_questions *q = &r->questions;
    orr_error *err = &r->session.err;
    if (q->n_clusters == ORR_EXPLORE_CLUSTERS)
        return orr_fail(err, ORR_INVALID, "--cluster: at most %d are compared",
                        ORR_EXPLORE_CLUSTERS);
    if (q->n_prices > 0)
        ORR_TRY(orr_cluster_with_prices(cluster, q->price_names, q->prices, q->n_prices,
                                        r->session.arena, &cluster, err));
    q->clusters[q->n_clusters++] = cluster;
    return ORR_OK;
}

/* The clusters behind the first, which is the job's. */
static orr_status read_clusters(orr_explore_request *r)
{
    const char *at = settings_of(r)->cluster, *item;
    orr_error *err = &r->session.err;
    ORR_TRY(add_cluster(r, r->job.cluster));
    r->job.cluster = r->questions.clusters[0];
    ORR_TRY(next_item(r, &at, &item));
    for (;;) {
        const orr_cluster *cluster;
        ORR_TRY(next_item(r, &at, &item));
        if (item == NULL)
            return ORR_OK;
        ORR_TRY(orr_cluster_load(r->job.catalog, item, r->session.arena, &cluster, err));
        ORR_TRY(add_cluster(r, cluster));
    }
}

static orr_status read_against(orr_explore_request *r)
{
    const char *name = settings_of(r)->against;
    orr_explore_questions *q = &r->questions;
    orr_error *err = &r->session.err;
    if (name == NULL)
        return ORR_OK;
    q->against = true;
    if (strcmp(name, "one_building") == 0)
        return ORR_OK;
    ORR_TRY(orr_cluster_load(r->job.catalog, name, r->session.arena, &q->other, err));
    return q->n_prices > 0 ? orr_cluster_with_prices(q->other, q->price_names, q->prices,
                                                     q->n_prices, r->session.arena, &q->other, err)
                           : ORR_OK;
}

/* --- what if --------------------------------------------------------------------------------- */

static bool is_like(const orr_device *a, const orr_device *b)
{
    return a != b && strcmp(a->name, b->name) != 0 && strcmp(a->vendor, b->vendor) == 0 &&
           strcmp(a->kind, b->kind) == 0 &&
           b->peak_flops[ORR_DTYPE_BF16].basis != ORR_FACT_UNKNOWN &&
           b->memory_bytes.basis != ORR_FACT_UNKNOWN &&
           b->memory_bytes_per_s.basis != ORR_FACT_UNKNOWN;
}

static void add_devices_alike(orr_explore_request *r)
{
    const orr_catalog *catalog = r->job.catalog;
    for (uint32_t i = 0; i < catalog->n_devices; i++)
        if (is_like(r->job.cluster->device, catalog->devices[i]))
            r->questions.devices[r->questions.n_devices++] = catalog->devices[i];
}

static orr_status add_change(orr_explore_request *r, const char *item, orr_error *err)
{
    orr_explore_questions *q = &r->questions;
    static const char device[] = "device:";
    if (strcmp(item, "link") == 0) {
        q->changes |= ORR_WHAT_IF_LINK;
    } else if (strcmp(item, "failure") == 0) {
        q->changes |= ORR_WHAT_IF_FAILURE;
    } else if (strcmp(item, "device") == 0) {
        q->changes |= ORR_WHAT_IF_DEVICE;
        add_devices_alike(r);
    } else if (strncmp(item, device, sizeof device - 1) == 0) {
        q->changes |= ORR_WHAT_IF_DEVICE;
        return orr_device_load(r->job.catalog, item + sizeof device - 1, r->session.arena,
                               &q->devices[q->n_devices++], err);
    } else {
        return orr_fail(err, ORR_INVALID,
                        "--what-if: no '%.60s'; any of link, device, device:NAME, failure", item);
    }
    return ORR_OK;
}

static orr_status read_changes(orr_explore_request *r)
{
    const char *at = settings_of(r)->what_if, *item;
    orr_explore_questions *q = &r->questions;
    orr_error *err = &r->session.err;
    if (at == NULL)
        return ORR_OK;
    const uint32_t items = orr_count_items(at);
    q->devices = orr_arena_array(r->session.arena, const orr_device *,
                                 (items + 1) * r->job.catalog->n_devices);
    if (q->devices == NULL)
        return orr_fail_memory(err);
    for (;;) {
        ORR_TRY(next_item(r, &at, &item));
        if (item == NULL)
            break;
        ORR_TRY(add_change(r, item, err));
    }
    if ((q->changes & ORR_WHAT_IF_FAILURE) != 0 && r->options.tokens == 0)
        return orr_fail(err, ORR_INVALID,
                        "--what-if failure: failures change the time to --tokens");
    return ORR_OK;
}

/* --- deadline and solve ---------------------------------------------------------------------- */

static orr_status read_deadline(orr_explore_request *r)
{
    const orr_settings *s = settings_of(r);
    orr_error *err = &r->session.err;
    int64_t ns;
    if (s->deadline == NULL)
        return ORR_OK;
    if (r->options.tokens == 0)
        return orr_fail(err, ORR_INVALID, "--deadline: for how many --tokens? as 1T");
    if (r->options.objective != ORR_OBJECTIVE_BUDGET)
        return orr_fail(err, ORR_INVALID, "--deadline is about the budget: --objective is %s",
                        s->objective);
    ORR_TRY(orr_parse_duration(s->deadline, &ns, err));
    r->questions.deadline_ns = (double)ns;
    return ORR_OK;
}

/* What a number is enough for: the deadline, the step, or what it is now and a share more. */
static orr_status read_limit(orr_explore_request *r, orr_solve *solve, double step_ns,
                             orr_error *err)
{
    const double deadline_ns = r->questions.deadline_ns;
    if (step_ns > 0 && r->options.objective != ORR_OBJECTIVE_STEP)
        return orr_fail(err, ORR_INVALID, "--step is about a step: --objective is %s",
                        orr_objective_name((orr_objective)r->options.objective));
    solve->limit = step_ns > 0 ? step_ns : deadline_ns;
    if (solve->question == ORR_QUESTION_DEVICES && !(solve->limit > 0))
        return orr_fail(err, ORR_INVALID,
                        "--solve devices: the fewest for what? --deadline and --tokens, or --step");
    if (solve->question == ORR_QUESTION_SPARES && r->options.fleet == NULL)
        return orr_fail(err, ORR_INVALID,
                        "--solve spares: spares are about failures: --tokens or "
                        "--failures says which");
    return ORR_OK;
}

static orr_status read_solves(orr_explore_request *r)
{
    const orr_settings *s = settings_of(r);
    orr_explore_questions *q = &r->questions;
    orr_error *err = &r->session.err;
    const char *at = s->solve, *item;
    double within = 0.02;
    int64_t step_ns = 0;
    if (s->within != NULL)
        ORR_TRY(orr_parse_share("within", s->within, &within, err));
    if (s->step_limit != NULL)
        ORR_TRY(orr_parse_duration(s->step_limit, &step_ns, err));
    if (at == NULL)
        return s->step_limit == NULL && s->within == NULL
                   ? ORR_OK
                   : orr_fail(err, ORR_INVALID, "--%s goes with --solve",
                              s->within != NULL ? "within" : "step");
    for (;;) {
        ORR_TRY(next_item(r, &at, &item));
        if (item == NULL)
            return ORR_OK;
        if (q->n_solves == ORR_EXPLORE_SOLVES)
            return orr_fail(err, ORR_INVALID, "--solve: at most %d", ORR_EXPLORE_SOLVES);
        orr_solve *solve = &q->solves[q->n_solves++];
        if (orr_solve_parse(item, r->job.cluster, solve, err) != ORR_OK) {
            orr_error_prefix(err, "--solve");
            return err->status;
        }
        solve->within_frac = within;
        ORR_TRY(read_limit(r, solve, (double)step_ns, err));
    }
}

orr_status orr_explore_questions_read(orr_explore_request *r)
{
    ORR_TRY(read_clusters(r));
    ORR_TRY(read_deadline(r));
    ORR_TRY(read_solves(r));
    ORR_TRY(read_against(r));
    return read_changes(r);
}
