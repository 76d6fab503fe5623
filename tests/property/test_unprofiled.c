/* SPDX-License-Identifier: Apache-2.0 */

/* Metamorphic tests of replays without what recording cost, over recordings: what is left is
 * nowhere later than the replay, comes no later when any cost rises, and costs of zero change
 * nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <orrery/orrery.h>

static const char *const RECORDINGS[] = {
    "examples/traces/mlp_ddp_gloo_w2",
    "examples/traces/gpt_ddp_gloo_w2",
    "examples/traces/moe_gloo_w2",
    "examples/traces/dlrm_gloo_w2",
    "examples/traces/pipeline_gloo_w2",
    "examples/pairs/small_ops.stack.json.gz",
    "examples/pairs/cnn.et.json.gz",
    "shared/data/traces/dlrm_v100x8",
    "shared/data/traces/kineto/ddp_a100_w8_rank3.json.gz",
    "shared/data/traces/kineto/a100_w16_missing_launches.json.gz",
    "shared/data/traces/kineto/resnet50_v100_2020_old_categories.json.gz",
    "shared/data/traces/kineto/bert-small_h100.json.gz",
    "shared/data/traces/kineto/cpu_only.json.gz",
};
enum { N_RECORDINGS = sizeof RECORDINGS / sizeof *RECORDINGS };

static void must(orr_status status, const orr_error *err, const char *text)
{
    if (status != ORR_OK)
        fail_msg("%s: %s", text, err->text);
}

static orr_simulation simulate(const orr_job *job, const orr_recording_costs *costs,
                               orr_arena *arena, const char *text)
{
    const orr_ensemble *ensemble;
    orr_sim_options options;
    orr_simulation simulation;
    orr_error err;
    orr_sim_options_init(&options);
    options.fold = false;
    options.recording_costs = costs;
    must(orr_ensemble_of_job(job, arena, &ensemble, &err), &err, text);
    must(orr_simulate(ensemble, &options, arena, &simulation, &err), &err, text);
    return simulation;
}

/* No node of `b` starts or ends later than in `a`. */
static void must_not_be_later(const orr_simulation *a, const orr_simulation *b, const char *text)
{
    assert_int_equal(a->n_classes, b->n_classes);
    for (uint32_t c = 0; c < a->n_classes; c++) {
        const orr_timeline *x = &a->timelines[c], *y = &b->timelines[c];
        const orr_graph *g = a->ensemble->graphs[x->graph];
        for (orr_node_id v = 0; v < g->n_nodes; v++) {
            if (x->start_ns[v] == ORR_TIME_NONE)
                continue;
            if (y->start_ns[v] > x->start_ns[v] ||
                y->start_ns[v] + y->duration_ns[v] > x->start_ns[v] + x->duration_ns[v])
                fail_msg("%s: node %u '%s' comes later", text, v, orr_graph_str(g, g->name[v]));
        }
    }
}

static void must_be_same(const orr_simulation *a, const orr_simulation *b)
{
    for (uint32_t c = 0; c < a->n_classes; c++) {
        const uint32_t n = a->ensemble->graphs[a->timelines[c].graph]->n_nodes;
        const orr_timeline *x = &a->timelines[c], *y = &b->timelines[c];
        assert_memory_equal(x->start_ns, y->start_ns, n * sizeof *x->start_ns);
        assert_memory_equal(x->duration_ns, y->duration_ns, n * sizeof *x->duration_ns);
    }
}

/* Each cost alone, smaller and larger, up to what leaves nothing; then all of them. */
static void check_costs(const orr_job *job, const char *text)
{
    static const double each_ns[] = {37.5, 400, 12000, 1e9};
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_recording_costs none = {.n_pairs = 0};
    const orr_simulation replay = simulate(job, NULL, arena, text);
    const orr_simulation same = simulate(job, &none, arena, text);
    orr_recording_costs all = none;
    orr_simulation before = replay;
    must_be_same(&replay, &same);
    for (int k = 0; k < ORR_RECORDING_COSTS; k++) {
        orr_recording_costs costs = none;
        orr_simulation last = replay;
        for (size_t i = 0; i < sizeof each_ns / sizeof *each_ns; i++) {
            costs.ns[k] = each_ns[i];
            const orr_simulation now = simulate(job, &costs, arena, text);
            must_not_be_later(&last, &now, text);
            last = now;
        }
        all.ns[k] = 300;
        const orr_simulation now = simulate(job, &all, arena, text);
        must_not_be_later(&before, &now, text);
        before = now;
    }
    assert_true(before.end_ns < replay.end_ns); /* it does something */
    orr_arena_free(arena);
}

static void test_recordings(void **state)
{
    (void)state;
    const char *source = getenv("ORRERY_SOURCE"), *shared = getenv("ORRERY_SHARED");
    int read = 0;
    for (int i = 0; i < N_RECORDINGS; i++) {
        const bool example = strncmp(RECORDINGS[i], "examples", 8) == 0;
        const char *root = example ? source : shared;
        char path[512], *text = path;
        const orr_job *job;
        orr_error err;
        (void)snprintf(path, sizeof path, "%s/%s", root != NULL ? root : "",
                       RECORDINGS[i] + (example ? 0 : strlen("shared/")));
        if (root == NULL || (!example && access(path, R_OK) != 0)) {
            print_message("# skipped: %s\n", RECORDINGS[i]);
            continue;
        }
        orr_arena *arena = orr_arena_new(0, 0);
        const orr_job_file *files;
        size_t n_files;
        must(orr_job_read((const char *const *)&text, 1, NULL, arena, &job, &files, &n_files, &err),
             &err, path);
        check_costs(job, RECORDINGS[i]);
        orr_job_free(job);
        orr_arena_free(arena);
        read++;
    }
    assert_true(read > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_recordings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
