/* SPDX-License-Identifier: Apache-2.0 */
#include "../unit/rescale/recorded.h"

/* The property that proves rescaling: simulate a synthetic job at plan A, write each rank as a
 * trace, read the traces, rescale the job to plan B, and get what building plan B directly gives:
 * the same device work on the same streams, at the same ns. */

static bool works(const orr_graph *g, orr_node_id v)
{
    return orr_graph_on_device(g, v) && g->kind[v] != ORR_NODE_SYNC;
}

/* Device work of both in the order of its launches: same name, stream, start and duration. */
static void same_timeline(const orr_graph *a, const orr_timeline *x, const orr_graph *b,
                          const orr_timeline *y, uint64_t seed, uint32_t rank)
{
    orr_node_id u = 0;
    for (orr_node_id v = 0; v < a->n_nodes; v++) {
        if (!works(a, v))
            continue;
        while (u < b->n_nodes && !works(b, u))
            u++;
        if (u == b->n_nodes)
            seed_fail(seed, "rank %u: '%s' (node %u) and what follows is missing", rank,
                      orr_graph_str(a, a->name[v]), v);
        const char *name = orr_graph_str(a, a->name[v]), *other = orr_graph_str(b, b->name[u]);
        if (strcmp(name, other) != 0 || a->lanes[a->lane[v]].tid != b->lanes[b->lane[u]].tid ||
            x->start_ns[v] != y->start_ns[u] || x->duration_ns[v] != y->duration_ns[u])
            seed_fail(seed,
                      "rank %u: built: '%.60s' (%u) stream %lld at %lld for %lld; rescaled: "
                      "'%.60s' (%u) stream %lld at %lld for %lld",
                      rank, name, v, (long long)a->lanes[a->lane[v]].tid, (long long)x->start_ns[v],
                      (long long)x->duration_ns[v], other, u, (long long)b->lanes[b->lane[u]].tid,
                      (long long)y->start_ns[u], (long long)y->duration_ns[u]);
        u++;
    }
    while (u < b->n_nodes && !works(b, u))
        u++;
    if (u < b->n_nodes)
        seed_fail(seed, "rank %u: '%s' is too much", rank, orr_graph_str(b, b->name[u]));
}

static void compare(world *w, const orr_ensemble *built, const orr_ensemble *rescaled,
                    uint64_t seed)
{
    orr_error err = {0};
    orr_simulation a, b;
    assert_int_equal(built->n_ranks, rescaled->n_ranks);
    must(orr_simulate(built, &w->options, w->arena, &a, &err), &err, seed, "simulate B");
    must(orr_simulate(rescaled, &w->options, w->arena, &b, &err), &err, seed, "simulate rescaled");
    for (uint32_t r = 0; r < built->n_ranks; r++) {
        const orr_timeline *x = &a.timelines[a.class_of_rank[r]];
        const orr_timeline *y = &b.timelines[b.class_of_rank[r]];
        same_timeline(built->graphs[x->graph], x, rescaled->graphs[y->graph], y, seed, r);
        if (x->end_ns - x->begin_ns != y->end_ns - y->begin_ns)
            seed_fail(seed, "rank %u: built ends after %lld ns, rescaled after %lld", r,
                      (long long)(x->end_ns - x->begin_ns), (long long)(y->end_ns - y->begin_ns));
    }
}

/* More or fewer replicas come with recorded lengths, which the what-if prices. */
static const orr_ensemble *priced(world *w, const orr_rescaled *rescaled, uint64_t seed)
{
    orr_whatif what;
    orr_whatif_report report;
    orr_error err = {0};
    const orr_ensemble *ret = rescaled->ensemble;
    if (rescaled->recorded_ensemble == NULL)
        return ret;
    orr_whatif_init(&what);
    what.network = w->pricing.cluster;
    what.recorded_network = w->pricing.recorded;
    what.recorded = rescaled->recorded_ensemble;
    must(orr_whatif_apply(rescaled->ensemble, &what, w->arena, &ret, &report, &err), &err, seed,
         "price");
    return ret;
}

static void check_on(const char *cluster, const orr_synthetic *from, const orr_synthetic *to,
                     uint64_t seed)
{
    world w;
    orr_error err = {0};
    orr_recognition known;
    orr_rescaled built = {0}, rescaled = {0};
    open_world(&w, cluster, seed);
    const orr_job *job = record(&w, from, seed);
    must(orr_recognise(job, NULL, w.arena, &known, &err), &err, seed, "recognise");
    if (!known.whole)
        seed_fail(seed, "not recognised (%s): %s", orr_plan_text(&from->plan, w.arena),
                  known.why_not);
    if (getenv("ORRERY_SEED") != NULL)
        print_message("%s -> %s\n", orr_plan_text(&from->plan, w.arena),
                      orr_plan_text(&to->plan, w.arena));
    must(orr_synthetic_build(to, &w.pricing, w.arena, &built, &err), &err, seed, "build B");
    must(orr_rescale(job, &known, &to->plan, &w.pricing, w.arena, &rescaled, &err), &err, seed,
         "rescale");
    if (getenv("ORRERY_SEED") != NULL)
        for (uint32_t i = 0; i < rescaled.n_findings; i++)
            print_message("%s: %s (%s)\n", rescaled.findings[i].what, rescaled.findings[i].value,
                          rescaled.findings[i].evidence);
    compare(&w, built.ensemble, priced(&w, &rescaled, seed), seed);
    orr_rescaled_free(&built);
    orr_rescaled_free(&rescaled);
    orr_job_free(job);
    close_world(&w);
}

static void check(const orr_synthetic *from, const orr_synthetic *to, uint64_t seed)
{
    check_on("dgx_h100_pod", from, to, seed);
}

static uint32_t one_of(orr_random *r, const uint32_t *values, uint32_t n)
{
    return values[orr_random_below(r, n)];
}
#define ONE_OF(r, ...)                                                                             \
    one_of((r), (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / 4)

static orr_synthetic random_job(orr_random *r)
{
    orr_synthetic job = {.dtype = ORR_DTYPE_BF16, .host = true};
    job.plan = (orr_plan){.dp = ONE_OF(r, 1, 2, 3),
                          .tp = 1,
                          .pp = ONE_OF(r, 1, 2, 4),
                          .micro_batches = ONE_OF(r, 1, 2, 3, 5),
                          .micro_batch = 2,
                          .layers = 4 * ONE_OF(r, 1, 2),
                          .hidden = 256,
                          .ffn = 1024,
                          .heads = 8,
                          .seq = 128,
                          .vocab = 4096,
                          .schedule = (uint8_t)ONE_OF(r, ORR_SCHEDULE_1F1B, ORR_SCHEDULE_GPIPE)};
    return job;
}

/* As recorded: nothing but the way through a trace. */
static void same_plan_is_the_same(void **state)
{
    (void)state;
    const seed_range range = seeds(12);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_random r = orr_random_of(seed, 0);
        orr_synthetic job = random_job(&r);
        job.plan.tp = ONE_OF(&r, 1, 2);
        check(&job, &job, seed);
    }
}

/* The graphs are shared: only who meets whom and what a transfer takes is new. On a cluster where
 * all replicas stand alike: the synthetic job prices a stage's transfers where its first replica
 * stands, a recorded one each where it is. */
static void replicas_alone(void **state)
{
    (void)state;
    const seed_range range = seeds(25);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_random r = orr_random_of(seed, 3);
        orr_synthetic from = random_job(&r);
        from.plan.dp = ONE_OF(&r, 2, 3);
        from.plan.tp = ONE_OF(&r, 1, 2);
        orr_synthetic to = from;
        to.plan.dp = ONE_OF(&r, 1, 2, 3, 4, 6);
        check_on("gb200_nvl72", &from, &to, seed);
    }
}

static void replicas_stages_layers_and_micro_batches(void **state)
{
    (void)state;
    const seed_range range = seeds(40);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_random r = orr_random_of(seed, 1);
        orr_synthetic from = random_job(&r), to = random_job(&r);
        from.plan.tp = to.plan.tp = ONE_OF(&r, 1, 2);
        check(&from, &to, seed);
    }
}

static void shapes_and_slices(void **state)
{
    (void)state;
    const seed_range range = seeds(40);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_random r = orr_random_of(seed, 2);
        orr_synthetic from = random_job(&r), to = random_job(&r);
        from.plan.tp = ONE_OF(&r, 1, 2, 4);
        to.plan.tp = ONE_OF(&r, 1, 2, 4);
        to.plan.hidden = ONE_OF(&r, 256, 512, 1024);
        to.plan.ffn = ONE_OF(&r, 1024, 768);
        to.plan.seq = ONE_OF(&r, 64, 128, 512);
        to.plan.micro_batch = ONE_OF(&r, 1, 2, 4);
        to.plan.vocab = ONE_OF(&r, 4096, 8192);
        check(&from, &to, seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_plan_is_the_same),
        cmocka_unit_test(replicas_alone),
        cmocka_unit_test(replicas_stages_layers_and_micro_batches),
        cmocka_unit_test(shapes_and_slices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
