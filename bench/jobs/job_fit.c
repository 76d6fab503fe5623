/* SPDX-License-Identifier: Apache-2.0 */
#include "job_fit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cost/calibration/parameters.h"
#include "job_judge.h"
#include "job_serving.h"

#define NOISE_FIRST 0.08 /* of a row, before residuals say better */
#define NOISE_LEAST 0.05
#define NOISE_MOST  0.15
#define CERTAIN     1.645 /* standard deviations: a 90 % interval */
#define EVIDENCE    4
#define MATTERS     0.01 /* of a row's time, for a parameter of twice the size: rests on it */
enum { ALIKE_MOST = 100, ROUNDS = 8, ROUNDS_AGAIN = 6 };

static double log_above(double value, double floor)
{
    return log(value - floor);
}

/* --- unknowns --------------------------------------------------------------------------------- */

static uint32_t add_unknown(orr_pooled_problem *p, double spread, double low, double high)
{
    if (!(spread > 0))
        return ORR_POOLED_NONE;
    p->unknowns[p->n_unknowns] = (orr_pooled_unknown){spread, low, high, false};
    return (uint32_t)p->n_unknowns++;
}

static void add_unknowns(job_fit *f, int k)
{
    enum { FAR = 6 }; /* standard deviations */
    orr_pooled_problem *p = &f->problem;
    const job_parameter *of = &job_parameters[k];
    const bool links = job_parameter_is_of_links(k);
    const double forward = of->yearly > 0 ? FAR * of->yearly : 0;
    f->common[k] = add_unknown(p, of->common, -FAR * of->common, FAR * of->common);
    for (int a = 0; a < JOB_ARCHITECTURES; a++)
        f->yearly[a][k] = a > 0 && !job_parameter_is_of_kernels(k)
                              ? f->yearly[0][k]
                              : add_unknown(p, of->yearly, of->better > 0 ? 0 : -forward,
                                            of->better > 0 ? forward : 0);
    for (int a = 0; a < JOB_ARCHITECTURES; a++)
        f->architecture[a][k] = add_unknown(p, a > 0 ? of->architecture : 0,
                                            -FAR * of->architecture, FAR * of->architecture);
    for (size_t d = 0; d < JOB_DEVICES_MOST; d++) {
        const bool known = !links && d < f->world->n_devices;
        const job_prior *prior = known ? job_prior_of(k, f->world->devices[d].device->name) : NULL;
        const double spread = prior != NULL && prior->spread > 0 ? prior->spread : of->device;
        f->device[d][k] = add_unknown(p, known ? spread : 0, -FAR * spread, FAR * spread);
    }
    for (size_t t = 0; t < JOB_TECHNOLOGIES_MOST; t++) {
        const bool out = k == ORR_CALIBRATION_scale_out || k == ORR_CALIBRATION_scale_out_ns;
        const bool known = links && t < f->n_technologies && f->is_up[t] == !out;
        const job_prior *prior = known ? job_prior_of(k, f->technologies[t]) : NULL;
        const double spread = prior != NULL && prior->spread > 0 ? prior->spread : of->device;
        f->technology[t][k] = add_unknown(p, known ? spread : 0, -FAR * spread, FAR * spread);
    }
}

static size_t technology_of(job_fit *f, const orr_cluster *cluster, bool up)
{
    for (uint32_t l = 0; l < cluster->n_levels; l++) {
        const char *name = cluster->levels[l].technology;
        if (orr_cluster_is_scale_up(cluster, l) != up || name == NULL || name[0] == '\0')
            continue;
        for (size_t t = 0; t < f->n_technologies; t++)
            if (strcmp(f->technologies[t], name) == 0)
                return t;
        if (f->n_technologies == JOB_TECHNOLOGIES_MOST)
            return SIZE_MAX;
        f->technologies[f->n_technologies] = name;
        f->is_up[f->n_technologies] = up;
        return f->n_technologies++;
    }
    return SIZE_MAX;
}

/* --- contexts --------------------------------------------------------------------------------- */

static void add_term(orr_pooled_parameter *p, int *n, uint32_t unknown, double factor)
{
    if (unknown != ORR_POOLED_NONE && factor != 0)
        p->terms[(*n)++] = (orr_pooled_term){unknown, factor};
}

orr_pooled_parameter job_fit_parameter(const job_fit *f, int k, const char *name, size_t index,
                                       double year)
{
    const job_parameter *of = &job_parameters[k];
    const job_prior *prior = job_prior_of(k, name);
    orr_pooled_parameter p = {.prior =
                                  log_above(prior != NULL ? prior->prior : of->prior, of->floor),
                              .low = log_above(of->low, of->floor),
                              .high = log_above(of->high, of->floor)};
    int n = 0;
    add_term(&p, &n, f->common[k], 1);
    const int architecture = job_parameter_is_of_links(k) ? 0 : job_architecture_of(name);
    add_term(&p, &n, f->yearly[architecture][k],
             fmin(orr_software_year(year) - job_year_until(k, architecture), 0));
    if (job_parameter_is_of_links(k)) {
        if (index < f->n_technologies)
            add_term(&p, &n, f->technology[index][k], 1);
    } else {
        add_term(&p, &n, f->architecture[architecture][k], 1);
        if (index < f->world->n_devices)
            add_term(&p, &n, f->device[index][k], 1);
    }
    p.terms[n < ORR_POOLED_TERMS ? n : ORR_POOLED_TERMS - 1].unknown = ORR_POOLED_NONE;
    return p;
}

static bool is_of_up(int k)
{
    return k == ORR_CALIBRATION_scale_up || k == ORR_CALIBRATION_scale_up_ns || k == JOB_REDUCTION;
}

static void set_context(job_fit *f, const job_case *c, orr_pooled_parameter *ret)
{
    const orr_cluster *cluster = orr_catalog_cluster(f->world->catalog, c->cluster);
    const job_device *device = job_device_of(f->world, c);
    for (int k = 0; k < JOB_PARAMETERS; k++) {
        const size_t t = technology_of(f, cluster, is_of_up(k)),
                     d = (size_t)(device - f->world->devices);
        ret[k] = job_parameter_is_of_links(k)
                     ? job_fit_parameter(f, k, t != SIZE_MAX ? f->technologies[t] : "", t, 0)
                     : job_fit_parameter(f, k, device->device->name, d, c->software_year);
    }
}

/* --- rows --------------------------------------------------------------------------------------
 */

static double predict(void *ctx, size_t i, const double *p)
{
    const job_fit *f = ctx;
    const job_case *c = &f->rows[i];
    const orr_cluster *cluster = orr_catalog_cluster(f->world->catalog, c->cluster);
    orr_link_rates links[ORR_LEVELS_MAX];
    orr_calibration at = {.name = "",
                          .source = "",
                          .error_frac = NAN,
                          .low_frac = NAN,
                          .high_frac = NAN,
                          .basis = ORR_BASIS_FITTED,
                          .links = links};
    job_prediction prediction;
    for (int k = 0; k < ORR_CALIBRATION_FIELDS; k++)
        *orr_calibration_number(&at, k) = exp(p[k]) + job_parameters[k].floor;
    for (uint32_t l = 0; l < cluster->n_levels; l++) {
        const bool up = orr_cluster_is_scale_up(cluster, l);
        links[at.n_links++] =
            (orr_link_rates){.technology = cluster->levels[l].technology,
                             .frac.value = up ? at.scale_up : at.scale_out,
                             .base_ns.value = up ? at.scale_up_ns : at.scale_out_ns,
                             .reduction.value = up ? exp(p[JOB_REDUCTION]) : 0};
    }
    job_predict(f->world, c, &at, &prediction);
    return prediction.seconds > 0 ? log(prediction.seconds) : NAN;
}

static bool are_alike(const job_fit *f, const job_case *a, const job_case *b)
{
    return strcmp(a->group, b->group) == 0 &&
           job_device_of(f->world, a) == job_device_of(f->world, b);
}

/* Rows of one group on one device share its errors: n of them weigh as EVIDENCE sqrt(n), and no
 * more than ALIKE_MOST, by their hash, are fitted at all. ret_weight 0: the row is not among them.
 */
static double weight_of(const job_fit *f, const job_cases *cases, const job_case *c)
{
    size_t alike = 0, before = 0;
    for (size_t k = 0; k < cases->n; k++) {
        const job_case *other = &cases->at[k];
        if (!other->fitted || !(other->seconds > 0) || !are_alike(f, other, c))
            continue;
        alike++;
        before += other->configuration < c->configuration ||
                  (other->configuration == c->configuration && other < c);
    }
    const double kept = fmin((double)alike, ALIKE_MOST);
    return before < ALIKE_MOST ? fmin(1, EVIDENCE * sqrt((double)alike) / kept) : 0;
}

/* The rows that can be predicted, with the batch of those that serve as many as fit. */
static orr_status choose_rows(job_fit *f, const job_cases *cases, orr_pooled_sample *samples,
                              orr_error *err)
{
    const char *groups[ORR_POOLED_SOURCES];
    orr_pooled_problem *p = &f->problem;
    const size_t n_groups = job_groups(cases, groups, ORR_POOLED_SOURCES);
    f->rows = orr_arena_array(f->world->arena, job_case, cases->n + 1);
    if (f->rows == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < cases->n; i++) {
        job_case *c = &f->rows[p->n_samples];
        job_prediction prediction;
        uint32_t source = 0;
        *c = cases->at[i];
        const double weight = c->fitted && c->seconds > 0 ? weight_of(f, cases, &cases->at[i]) : 0;
        if (!(weight > 0))
            continue;
        const orr_calibration *calibration = &job_device_of(f->world, c)->calibration;
        if (c->measure == JOB_REQUEST || c->measure == JOB_TOKEN)
            c->batch = job_serving_batch(f->world, c, calibration, &prediction);
        job_predict(f->world, c, calibration, &prediction);
        if (!(prediction.seconds > 0))
            continue;
        while (source + 1 < n_groups && strcmp(groups[source], c->group) != 0)
            source++;
        samples[p->n_samples] =
            (orr_pooled_sample){(uint32_t)p->n_samples, source, log(c->seconds), weight};
        p->n_samples++;
        const orr_cluster *cluster = orr_catalog_cluster(f->world->catalog, c->cluster);
        (void)technology_of(f, cluster, true);
        (void)technology_of(f, cluster, false);
    }
    return ORR_OK;
}

static orr_status open_fit(job_fit *f, const job_cases *cases, orr_error *err)
{
    enum {
        UNKNOWNS_MOST =
            JOB_PARAMETERS * (1 + 2 * JOB_ARCHITECTURES + JOB_DEVICES_MOST + JOB_TECHNOLOGIES_MOST)
    };
    orr_arena *arena = f->world->arena;
    orr_pooled_problem *p = &f->problem;
    orr_pooled_sample *samples = orr_arena_array(arena, orr_pooled_sample, cases->n + 1);
    p->unknowns = orr_arena_array(arena, orr_pooled_unknown, UNKNOWNS_MOST);
    if (samples == NULL || p->unknowns == NULL)
        return orr_fail_memory(err);
    ORR_TRY(choose_rows(f, cases, samples, err));
    orr_pooled_parameter *parameters =
        orr_arena_array(arena, orr_pooled_parameter, p->n_samples * JOB_PARAMETERS + 1);
    if (parameters == NULL)
        return orr_fail_memory(err);
    for (int k = 0; k < JOB_PARAMETERS; k++)
        add_unknowns(f, k);
    for (size_t i = 0; i < p->n_samples; i++)
        set_context(f, &f->rows[i], &parameters[i * JOB_PARAMETERS]);
    for (int s = 0; s < ORR_POOLED_SOURCES; s++)
        p->noise[s] = NOISE_FIRST;
    p->samples = samples;
    p->parameters = parameters;
    p->n_contexts = p->n_samples;
    p->n_parameters = JOB_PARAMETERS;
    p->predict = predict;
    p->ctx = f;
    p->threads = f->world->threads;
    return ORR_OK;
}

static double mean_error(const orr_pooled_result *r, size_t n)
{
    double sum = 0, rows = 0;
    for (size_t i = 0; i < n; i++)
        if (!isnan(r->residuals[i])) {
            sum += fabs(expm1(r->residuals[i]));
            rows++;
        }
    return sum / fmax(rows, 1);
}

static orr_status fit_again(job_fit *f, const orr_pooled_result *from, int rounds, const char *what,
                            orr_error *err)
{
    orr_pooled_result result;
    f->problem.rounds = rounds;
    ORR_TRY(orr_pooled_fit(&f->problem, from, f->world->arena, &result, err));
    f->result = result;
    fprintf(stderr, "%s: %zu rows, %zu unknowns, mean error %.2f %%, loss %.1f, %d rounds\n", what,
            f->problem.n_samples, f->problem.n_unknowns,
            100 * mean_error(&f->result, f->problem.n_samples), f->result.loss, f->result.rounds);
    return ORR_OK;
}

/* --- calibrations ----------------------------------------------------------------------------- */

/* Rows that a parameter moves, of a device or a technology, by table; and how many of others. */
static const char *rests_on(const job_fit *f, int k, const job_device *device, uint32_t unknown)
{
    enum { TABLES_MOST = 32 };
    const char *tables[TABLES_MOST], *text = "";
    size_t rows[TABLES_MOST], n = 0, others = 0;
    for (size_t i = 0; i < f->problem.n_samples; i++) {
        const job_case *c = &f->rows[i];
        const orr_pooled_parameter *of = &f->problem.parameters[i * JOB_PARAMETERS + (size_t)k];
        bool own = device != NULL && job_device_of(f->world, c) == device;
        for (int t = 0; t < ORR_POOLED_TERMS && of->terms[t].unknown != ORR_POOLED_NONE; t++)
            own |= of->terms[t].unknown == unknown;
        if (isnan(f->result.residuals[i]) ||
            !(fabs(f->result.slopes[i * JOB_PARAMETERS + (size_t)k]) > MATTERS))
            continue;
        size_t t = 0;
        while (own && t < n && strcmp(tables[t], c->table) != 0)
            t++;
        if (!own || t == TABLES_MOST) {
            others++;
            continue;
        }
        tables[t] = c->table;
        rows[t] = t == n ? 1 : rows[t] + 1;
        n += t == n;
    }
    for (size_t t = 0; t < n; t++)
        text =
            job_text(f->world->arena, "%s%s%zu of %s", text, t > 0 ? ", " : "", rows[t], tables[t]);
    return others > 0
               ? job_text(f->world->arena, "%s%s%zu of others", text, n > 0 ? "; " : "", others)
               : text;
}

/* A parameter and its interval: that of the fit before anything was dropped, so that a parameter
 * at its prior still says what it may be. */
static orr_calibration_parameter parameter_told(const job_fit *f, int k, const char *name,
                                                size_t index)
{
    const job_parameter *of = &job_parameters[k];
    const job_prior *prior = job_prior_of(k, name);
    const orr_pooled_parameter p = job_fit_parameter(f, k, name, index, ORR_SOFTWARE_NEWEST);
    const orr_pooled_value is = orr_pooled_value_of(&f->problem, &p, &f->result),
                           was = orr_pooled_value_of(&f->problem, &p, &f->whole);
    const double wide = CERTAIN * fmax(was.deviation, is.deviation);
    const int architecture = job_parameter_is_of_links(k) ? 0 : job_architecture_of(name);
    const uint32_t yearly = f->yearly[architecture][k];
    bool moved = false;
    for (int t = 0; t < ORR_POOLED_TERMS && p.terms[t].unknown != ORR_POOLED_NONE; t++)
        moved |= !f->problem.unknowns[p.terms[t].unknown].fixed;
    return (orr_calibration_parameter){
        .value = exp(is.value) + of->floor,
        .low = fmax(exp(fmin(was.value, is.value) - wide) + of->floor, of->low),
        .high = fmin(exp(fmax(was.value, is.value) + wide) + of->floor, of->high),
        .prior = prior != NULL ? prior->prior : of->prior,
        .yearly = yearly != ORR_POOLED_NONE ? f->result.unknowns[yearly] : 0,
        .until = job_year_until(k, architecture),
        .prior_source = prior != NULL ? prior->source : of->source,
        .rests_on = "",
        .basis = moved ? ORR_BASIS_FITTED : ORR_BASIS_ASSUMED,
        .at_bound = is.at_bound};
}

static orr_status give_links(const job_fit *f, const orr_link_rates **ret, orr_error *err)
{
    orr_link_rates *links = orr_arena_array(f->world->arena, orr_link_rates, f->n_technologies + 1);
    if (links == NULL)
        return orr_fail_memory(err);
    for (size_t t = 0; t < f->n_technologies; t++) {
        const bool up = f->is_up[t];
        const int frac = up ? ORR_CALIBRATION_scale_up : ORR_CALIBRATION_scale_out,
                  base = up ? ORR_CALIBRATION_scale_up_ns : ORR_CALIBRATION_scale_out_ns;
        links[t] = (orr_link_rates){.technology = f->technologies[t]};
        links[t].frac = parameter_told(f, frac, f->technologies[t], t);
        links[t].base_ns = parameter_told(f, base, f->technologies[t], t);
        links[t].frac.rests_on = rests_on(f, frac, NULL, f->technology[t][frac]);
        links[t].base_ns.rests_on = rests_on(f, base, NULL, f->technology[t][base]);
        if (up) {
            links[t].reduction = parameter_told(f, JOB_REDUCTION, f->technologies[t], t);
            links[t].reduction.rests_on =
                rests_on(f, JOB_REDUCTION, NULL, f->technology[t][JOB_REDUCTION]);
        }
    }
    *ret = links;
    return ORR_OK;
}

static orr_status give_calibrations(const job_fit *f, orr_error *err)
{
    const orr_link_rates *links;
    ORR_TRY(give_links(f, &links, err));
    for (size_t d = 0; d < f->world->n_devices; d++) {
        job_device *device = &f->world->devices[d];
        const char *name = device->device->name;
        orr_calibration_parameter *parameters =
            orr_arena_array(f->world->arena, orr_calibration_parameter, ORR_CALIBRATION_FIELDS);
        if (parameters == NULL)
            return orr_fail_memory(err);
        for (int k = 0; k < ORR_CALIBRATION_FIELDS; k++) {
            const bool of_links = job_parameter_is_of_links(k);
            parameters[k] = parameter_told(f, k, of_links ? "" : name, of_links ? SIZE_MAX : d);
            parameters[k].rests_on =
                of_links ? "technologies of links" : rests_on(f, k, device, ORR_POOLED_NONE);
        }
        orr_calibration *c = &device->calibration;
        *c = (orr_calibration){
            .name = name,
            .source = job_text(f->world->arena, "%zu rows of this device", device->n_fitted),
            .error_frac = NAN,
            .low_frac = NAN,
            .high_frac = NAN,
            .basis = ORR_BASIS_FITTED,
            .widening = 1,
            .parameters = parameters,
            .links = links,
            .n_links = (uint32_t)f->n_technologies};
        *c = orr_calibration_in_year(c, ORR_SOFTWARE_NEWEST);
    }
    return ORR_OK;
}

orr_status job_fit_all(job_world *world, const job_cases *cases, job_fit *ret, orr_error *err)
{
    *ret = (job_fit){.world = world};
    ORR_TRY(open_fit(ret, cases, err));
    ORR_TRY(fit_again(ret, NULL, ROUNDS, "as first believed", err));
    ORR_TRY(orr_pooled_noise(&ret->problem, &ret->result, NOISE_LEAST, NOISE_MOST, err));
    ORR_TRY(fit_again(ret, &ret->result, ROUNDS_AGAIN, "with noise of each source", err));
    ret->whole = ret->result;
    ret->whole.unknowns = orr_arena_array(world->arena, double, ret->problem.n_unknowns + 1);
    ret->whole.covariance = orr_arena_array(world->arena, double,
                                            ret->problem.n_unknowns * ret->problem.n_unknowns + 1);
    if (ret->whole.unknowns == NULL || ret->whole.covariance == NULL)
        return orr_fail_memory(err);
    const size_t n = ret->problem.n_unknowns;
    memcpy(ret->whole.unknowns, ret->result.unknowns, n * sizeof(double));
    memcpy(ret->whole.covariance, ret->result.covariance, n * n * sizeof(double));
    ret->n_dropped = orr_pooled_drop(&ret->problem, CERTAIN, &ret->result);
    fprintf(stderr, "%zu of %zu unknowns are not told from 0, and dropped\n", ret->n_dropped, n);
    ORR_TRY(fit_again(ret, &ret->result, ROUNDS_AGAIN, "without what was dropped", err));
    return give_calibrations(ret, err);
}
