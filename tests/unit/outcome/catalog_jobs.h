/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_WORLD_H
#define PLAN_WORLD_H

/* Jobs of the catalogue for tests: models, clusters and what they reach. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include <orrery/outcome.h>

#define assert_near(a, b, most) assert_true(fabs((double)(a) - (double)(b)) <= (most))

typedef struct plan_world {
    orr_arena *arena;
    const orr_catalog *catalog;
    orr_error err;
} plan_world;

static inline void world_open(plan_world *w)
{
    memset(w, 0, sizeof *w);
    w->arena = orr_arena_new(0, 0);
    assert_non_null(w->arena);
    assert_int_equal(orr_catalog_open(w->arena, &w->catalog, &w->err), ORR_OK);
}

static inline void world_close(plan_world *w)
{
    orr_arena_free(w->arena);
}

static inline void world_must(const plan_world *w, orr_status status, const char *what)
{
    if (status != ORR_OK)
        fail_msg("%s: %s", what, w->err.text);
}

static inline const orr_model *world_model(plan_world *w, const char *name)
{
    const orr_model *model = NULL;
    world_must(w, orr_model_load(name, w->arena, &model, &w->err), name);
    return model;
}

static inline const orr_cluster *world_cluster(plan_world *w, const char *name)
{
    const orr_cluster *cluster = NULL;
    world_must(w, orr_cluster_load(w->catalog, name, w->arena, &cluster, &w->err), name);
    return cluster;
}

static inline orr_plan world_plan(plan_world *w, const char *text)
{
    orr_plan plan;
    world_must(w, orr_plan_parse(text, &plan, &w->err), text);
    return plan;
}

/* Free with orr_outcome_free(). */
static inline orr_outcome world_outcome(plan_world *w, const orr_model *model,
                                        const char *plan_text, const orr_cluster *cluster,
                                        const orr_job_options *options)
{
    const orr_plan plan = world_plan(w, plan_text);
    orr_outcome outcome;
    world_must(w, orr_outcome_of(model, &plan, cluster, options, w->arena, &outcome, &w->err),
               plan_text);
    return outcome;
}

/* Step time alone. */
static inline int64_t world_step_ns(plan_world *w, const orr_model *model, const char *plan_text,
                                    const orr_cluster *cluster, const orr_job_options *options)
{
    orr_outcome o = world_outcome(w, model, plan_text, cluster, options);
    const int64_t ns = o.step_ns;
    orr_outcome_free(&o);
    return ns;
}

/* That of the device, without what depends on what else goes on: then times add up by hand. */
static inline orr_calibration world_plain(plan_world *w, const orr_cluster *cluster)
{
    const orr_calibration *c;
    world_must(w, orr_calibration_of(cluster->device, 0, w->arena, &c, &w->err), "calibration");
    orr_calibration plain = *c;
    plain.compute_slowdown = 1;
    plain.dp_exposed = 0;
    plain.jitter_frac = 0;
    return plain;
}

static inline int64_t waterfall_sum(const orr_outcome *o)
{
    int64_t sum = 0;
    for (int part = 0; part < ORR_WATERFALLS; part++)
        sum += o->waterfall_ns[part];
    return sum;
}

#endif /* PLAN_WORLD_H */
