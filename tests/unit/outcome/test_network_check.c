/* SPDX-License-Identifier: Apache-2.0 */
#include "catalog_jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "outcome/network_check.h"

/* Two sites of 64 devices; the cut is one of so much oversubscription, with a transport. */
typedef struct scene {
    plan_world w;
    const orr_model *model;
} scene;

static void open_scene(scene *s)
{
    world_open(&s->w);
    s->model = world_model(&s->w, "llama3.1-8b");
}

static const orr_cluster *two_sites(scene *s, double oversubscription, const char *transport)
{
    char path[] = "/tmp/network_check_XXXXXX.yaml";
    const int fd = mkstemps(path, 5);
    FILE *out = fdopen(fd, "w");
    assert_non_null(out);
    fprintf(out,
            "clusters:\n  two:\n    device: h100_sxm_80g\n    basis: assumed\n    source: a test\n"
            "    levels:\n      - {name: host, size: 8, technology: NVLink4}\n"
            "      - {name: rack, size: 8, technology: RoCE 400GbE, latency: 5us}\n"
            "    sites:\n      - {name: a, region: r, devices: 64}\n"
            "      - {name: b, region: r, devices: 64}\n"
            "    cuts:\n      - between: sites\n        technology: RoCE 400GbE\n"
            "        distance: 10km\n        oversubscription: 1:%g\n%s%s\n",
            oversubscription, transport[0] != '\0' ? "        transport: " : "", transport);
    fclose(out);
    const orr_cluster *cluster = world_cluster(&s->w, path);
    unlink(path);
    return cluster;
}

typedef struct asked {
    uint32_t draws;
    uint64_t seed;
    double others;
    bool selective, stages_first;
} asked;

static orr_network_check checked(scene *s, const char *plan, const orr_cluster *cluster, asked a)
{
    orr_network_check_options options;
    orr_network_check check;
    orr_outcome o = world_outcome(&s->w, s->model, plan, cluster, NULL);
    orr_network_check_options_init(&options);
    options.draws = a.draws > 0 ? a.draws : 4;
    options.seed = a.seed > 0 ? a.seed : 1;
    options.others_frac = a.others;
    options.selective = a.selective;
    for (int axis = 0; a.stages_first && axis < ORR_AXES; axis++)
        options.priority[axis] = axis != ORR_AXIS_PP;
    world_must(&s->w, orr_outcome_network(&o, &options, &check, &s->w.err), plan);
    assert_int_equal(check.closed_ns, o.step_ns);
    orr_outcome_free(&o);
    return check;
}

static const char REPLICAS[] = "tp=8,dp=16,sites=8-8,micro_batches=2,seq=1k,layers=4,zero=1";
static const char MIXED[] =
    "tp=8,pp=4,dp=4,dp_outer=2,sites=2-2,micro_batches=4,seq=1k,layers=8,zero=1";
static const char STAGES[] = "tp=8,pp=4,dp=4,cross=pp,sites=2-2,micro_batches=1,seq=1k,layers=4,"
                             "zero=1,order=tp-cp-dp-pp";

/* All devices send at once what the closed form says: both agree. */
static void ideal_replicas_take_their_closed_form(void **state)
{
    (void)state;
    scene s;
    open_scene(&s);
    for (double over = 1; over <= 64; over *= 8) {
        const orr_cluster *cluster = two_sites(&s, over, "");
        const orr_network_check check = checked(&s, REPLICAS, cluster, (asked){0});
        assert_true(check.n_transfers > 0);
        assert_near(check.mean_ns, check.closed_ns, 1e-5 * (double)check.closed_ns);
        assert_int_equal(check.mean_ns, check.p95_ns);
    }
    const orr_network_check none =
        checked(&s, "tp=8,dp=8,micro_batches=2,seq=1k,layers=4", two_sites(&s, 64, ""), (asked){0});
    assert_int_equal(none.n_transfers, 0);
    assert_int_equal(none.mean_ns, none.closed_ns);
    assert_int_equal(none.cause, ORR_NETWORK_CAUSE_NONE);
    world_close(&s.w);
}

/* Two of the four stages are in each site, so that half of its devices send over the cut: their
 * activations, and the gradients of these, each take half of the time of their bytes. */
static void stages_have_the_uplink_of_all(void **state)
{
    (void)state;
    static const double OVER = 64;
    scene s;
    open_scene(&s);
    const orr_cluster *cluster = two_sites(&s, OVER, "");
    orr_outcome o = world_outcome(&s.w, s.model, STAGES, cluster, NULL);
    const double port = o.job->rates.network.levels[2].bytes_per_s[ORR_PROTOCOL_BANDWIDTH];
    const double hop_ns =
        (double)o.job->row.boundary_bytes * OVER * 1e9 / port * o.job->prices.stretch;
    orr_outcome_free(&o);
    const orr_network_check check = checked(&s, STAGES, cluster, (asked){0});
    print_message("%g ms a hop: %g -> %g ms\n", 1e-6 * hop_ns, 1e-6 * (double)check.closed_ns,
                  1e-6 * (double)check.mean_ns);
    assert_near(check.closed_ns - check.mean_ns, hop_ns, 0.03 * hop_ns);
    assert_int_equal(check.cause, ORR_NETWORK_CAUSE_SHARING);
    assert_int_equal(check.axis, ORR_AXIS_PP);
    assert_int_equal(check.level, 2);
    world_close(&s.w);
}

/* Other jobs that ask for as much as ours leave half: the step of a cut that is half as wide, with
 * what computation loses beside transfers. */
static void half_an_uplink_is_a_narrower_cut(void **state)
{
    (void)state;
    static const char plan[] = "tp=8,dp=16,sites=8-8,micro_batches=2,seq=1k,layers=4,zero=1,"
                               "dp_algorithm=ring"; /* else the narrower cut has another */
    scene s;
    open_scene(&s);
    const orr_network_check wide = checked(&s, plan, two_sites(&s, 16, ""), (asked){0});
    const orr_network_check half = checked(&s, plan, two_sites(&s, 16, ""), (asked){.others = 1});
    const orr_network_check narrow = checked(&s, plan, two_sites(&s, 32, ""), (asked){0});
    assert_true(narrow.closed_ns > wide.closed_ns + wide.closed_ns / 10);
    assert_near(half.mean_ns, narrow.closed_ns, 1e-3 * (double)narrow.closed_ns);
    assert_int_equal(half.cause, ORR_NETWORK_CAUSE_OTHERS);
    world_close(&s.w);
}

static const char HASHED[] = "{paths: 8, balance: qp, queue_pairs: 4, buffers: deep%s}";

static const orr_cluster *hashed(scene *s, double over, const char *more)
{
    char transport[200];
    snprintf(transport, sizeof transport, HASHED, more);
    return two_sites(s, over, transport);
}

/* What is worse in the network is never quicker. */
static void worse_networks_are_slower(void **state)
{
    (void)state;
    scene s;
    open_scene(&s);
    const orr_network_check even = checked(&s, REPLICAS, two_sites(&s, 8, ""), (asked){0});
    const orr_network_check hash = checked(&s, REPLICAS, hashed(&s, 8, ""), (asked){.draws = 20});
    const orr_network_check down =
        checked(&s, REPLICAS, hashed(&s, 8, ", failed: 2"), (asked){.draws = 20});
    const orr_network_check lost =
        checked(&s, REPLICAS, hashed(&s, 8, ", loss: 0.001"), (asked){.draws = 20});
    const orr_network_check again = checked(&s, REPLICAS, hashed(&s, 8, ", loss: 0.001"),
                                            (asked){.draws = 20, .selective = true});
    const orr_network_check busy =
        checked(&s, REPLICAS, hashed(&s, 8, ""), (asked){.draws = 20, .others = 0.5});
    assert_true(hash.mean_ns > even.mean_ns && hash.p95_ns > hash.mean_ns);
    assert_true(down.mean_ns > hash.mean_ns && lost.mean_ns > hash.mean_ns);
    assert_true(again.mean_ns < lost.mean_ns && again.mean_ns >= hash.mean_ns);
    assert_true(busy.mean_ns > hash.mean_ns);
    assert_int_equal(hash.cause, ORR_NETWORK_CAUSE_COLLISIONS);
    assert_int_equal(busy.cause, ORR_NETWORK_CAUSE_OTHERS);
    assert_int_equal(hash.axis, ORR_AXIS_SHARD);
    world_close(&s.w);
}

/* The closed form has the expected collisions of as many flows: the mean of draws is near it. */
static void closed_form_is_the_mean_of_draws(void **state)
{
    (void)state;
    scene s;
    open_scene(&s);
    const orr_cluster *cluster = hashed(&s, 8, "");
    const orr_network_check even = checked(&s, REPLICAS, two_sites(&s, 8, ""), (asked){0});
    const orr_network_check check = checked(&s, REPLICAS, cluster, (asked){.draws = 64});
    const double lost_ns = (double)(check.closed_ns - even.closed_ns);
    print_message("%g -> %g, mean of draws %g\n", (double)even.closed_ns, (double)check.closed_ns,
                  (double)check.mean_ns);
    assert_true(lost_ns > 0.05 * (double)even.closed_ns);
    assert_near(check.mean_ns, check.closed_ns, 0.15 * lost_ns);
    world_close(&s.w);
}

static void draws_are_repeated_by_their_seed(void **state)
{
    (void)state;
    scene s;
    open_scene(&s);
    const orr_cluster *cluster = hashed(&s, 8, ", loss: 0.0001");
    const orr_network_check a = checked(&s, MIXED, cluster, (asked){.draws = 8});
    const orr_network_check b = checked(&s, MIXED, cluster, (asked){.draws = 8});
    const orr_network_check c = checked(&s, MIXED, cluster, (asked){.draws = 8, .seed = 2});
    assert_true(a.n_transfers > 0 && a.mean_ns == b.mean_ns && a.p95_ns == b.p95_ns);
    assert_int_equal(a.cause, b.cause);
    assert_true(a.mean_ns != c.mean_ns);
    assert_true(a.settled_ns <= a.mean_ns / 100);
    world_close(&s.w);
}

/* Each of the first allocations, later ones by and by: nothing is left, and nothing is said. */
static void allocations_may_fail(void **state)
{
    (void)state;
    scene s;
    open_scene(&s);
    orr_network_check_options options;
    orr_outcome o = world_outcome(&s.w, s.model, REPLICAS, two_sites(&s, 8, ""), NULL);
    orr_network_check_options_init(&options);
    options.draws = 1;
    orr_status status = ORR_NO_MEMORY;
    uint64_t nth = 1;
    for (; status != ORR_OK; nth += 1 + nth / 4) {
        orr_network_check check = {0};
        orr_alloc_fail_from(nth);
        status = orr_outcome_network(&o, &options, &check, &s.w.err);
        orr_alloc_fail_from(0);
        assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
        assert_int_equal(check.closed_ns > 0, status == ORR_OK);
    }
    assert_true(nth > 10);
    orr_outcome_free(&o);
    world_close(&s.w);
}

static void wrong_questions_are_refused(void **state)
{
    (void)state;
    scene s;
    open_scene(&s);
    orr_network_check_options options;
    orr_network_check check;
    orr_outcome o = world_outcome(&s.w, s.model, REPLICAS, two_sites(&s, 1, ""), NULL);
    orr_network_check_options_init(&options);
    options.draws = 0;
    assert_int_equal(orr_outcome_network(&o, &options, &check, &s.w.err), ORR_INVALID);
    options.draws = 1;
    options.others_frac = 1.5;
    assert_int_equal(orr_outcome_network(&o, &options, &check, &s.w.err), ORR_INVALID);
    options.others_frac = 0;
    orr_outcome_free(&o); /* leaves nothing to replay */
    assert_int_equal(orr_outcome_network(&o, &options, &check, &s.w.err), ORR_UNSUPPORTED);
    world_close(&s.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ideal_replicas_take_their_closed_form),
        cmocka_unit_test(stages_have_the_uplink_of_all),
        cmocka_unit_test(half_an_uplink_is_a_narrower_cut),
        cmocka_unit_test(worse_networks_are_slower),
        cmocka_unit_test(closed_form_is_the_mean_of_draws),
        cmocka_unit_test(draws_are_repeated_by_their_seed),
        cmocka_unit_test(allocations_may_fail),
        cmocka_unit_test(wrong_questions_are_refused),
    };
    return cmocka_run_group_tests_name("network_check", tests, NULL, NULL);
}
