/* SPDX-License-Identifier: Apache-2.0 */
/* Models loaded, plans weighed, simulated, estimated and told, while allocations fail. Every piece
 * that an arena gives is an allocation here: its blocks hold no more than one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <orrery/orrery.h>

#include "failing.h"
#include "io/stream/output.h"
#include "leaks.h"

enum { SMALLEST_BLOCK = 1 };

/* A cluster and a model, in an arena of their own. */
typedef struct world {
    orr_arena *arena;
    const orr_model *model;
    const orr_cluster *cluster;
    orr_plan plan;
    orr_job_options options;
} world;

/* What is loaded before an allocation may fail is loaded once. */
static orr_status open_world(world *w, const char *model, const char *plan, orr_error *err)
{
    const orr_catalog *catalog;
    *w = (world){.arena = orr_arena_new(SMALLEST_BLOCK, 0)};
    if (w->arena == NULL)
        return orr_fail_memory(err);
    orr_job_options_init(&w->options);
    ORR_TRY(orr_catalog_open(w->arena, &catalog, err));
    ORR_TRY(orr_model_load(model, w->arena, &w->model, err));
    ORR_TRY(orr_cluster_load(catalog, "dgx_h100_pod", w->arena, &w->cluster, err));
    return orr_plan_parse(plan, &w->plan, err);
}

/* Worlds of the tests that are not about loading, kept until the end. */
static world dense, experts, large, recommender;

static orr_status catalogue_and_cards(orr_error *err)
{
    orr_arena *arena = orr_arena_new(SMALLEST_BLOCK, 0);
    orr_named_table cards[ORR_MODEL_TABLES];
    const orr_model *model;
    orr_models models;
    orr_table table;
    orr_status status = arena ? ORR_OK : orr_fail_memory(err);
    ORR_TRY_OUT(status, status);
    ORR_TRY_OUT(status, orr_models_open(arena, &models, err));
    ORR_TRY_OUT(status, orr_models_table(&models, arena, &table, err));
    ORR_TRY_OUT(status, orr_model_load("deepseek-v3", arena, &model, err));
    ORR_TRY_OUT(status, orr_model_tables(model, arena, cards, err));
    ORR_TRY_OUT(status, orr_operators_table(arena, &table, err));
out:
    orr_arena_free(arena);
    return status;
}

static orr_status write_text(const char *path, const char *text, orr_error *err)
{
    orr_output *out;
    ORR_TRY(orr_output_open(path, &out, err));
    orr_output_text(out, text);
    const orr_status status = orr_output_finish(out, err);
    orr_output_close(out);
    return status;
}

static orr_status model_of_a_user(orr_error *err)
{
    static const char config[] =
        "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 512,"
        "\"intermediate_size\": 1024, \"num_attention_heads\": 8, \"num_hidden_layers\": 4,"
        "\"num_key_value_heads\": 4, \"vocab_size\": 1000, \"max_position_embeddings\": 2048,"
        "\"hidden_act\": \"silu\", \"rms_norm_eps\": 1e-5, \"rope_theta\": 10000.0}";
    const char *path = inside("config.json");
    const orr_model *model;
    orr_arena *arena = orr_arena_new(SMALLEST_BLOCK, 0);
    orr_status status = arena ? write_text(path, config, err) : orr_fail_memory(err);
    ORR_TRY_OUT(status, status);
    status = orr_model_load(path, arena, &model, err);
out:
    remove(path);
    orr_arena_free(arena);
    return status;
}

static orr_status memory_of(const world *w, orr_task task, orr_error *err)
{
    const orr_workload workload = {.task = (uint8_t)task, .prompt = 512};
    const orr_plan whole = orr_plan_with_defaults(&w->plan);
    orr_memory_plan memory;
    orr_arena *arena = orr_arena_new(SMALLEST_BLOCK, 0);
    orr_status status = arena ? ORR_OK : orr_fail_memory(err);
    ORR_TRY_OUT(status, status);
    status =
        orr_memory_plan_make(w->model, &whole, &workload, w->cluster->device, arena, &memory, err);
out:
    orr_arena_free(arena);
    return status;
}
static orr_status memory_of_a_plan(orr_error *err)
{
    return memory_of(&experts, ORR_TASK_PRETRAIN, err);
}
static orr_status memory_of_a_server(orr_error *err)
{
    return memory_of(&dense, ORR_TASK_DECODE, err);
}

/* It does not fit: what would help is weighed. */
static orr_status memory_of_what_does_not_fit(orr_error *err)
{
    return memory_of(&large, ORR_TASK_PRETRAIN, err);
}

static orr_status tell(const orr_outcome *outcome, orr_arena *arena, orr_error *err)
{
    orr_named_table tables[ORR_OUTCOME_TABLES], sides[ORR_COMPARISON_TABLES];
    const orr_graph *graph;
    ORR_TRY(orr_outcome_tables(outcome, arena, tables, err));
    ORR_TRY(orr_comparison_tables(outcome, outcome, arena, sides, err));
    ORR_TRY(orr_plan_html(inside("page.html"), outcome, outcome, err));
    ORR_TRY(orr_outcome_rank(outcome, 1, &graph, err));
    const orr_status status = orr_trace_write(inside("rank.1.et"), ORR_FORMAT_CHAKRA, graph, err);
    orr_graph_free(graph);
    return status;
}

static orr_status outcome_of(const world *w, const orr_job_options *options, bool told,
                             orr_error *err)
{
    orr_outcome outcome = {0};
    orr_arena *arena = orr_arena_new(SMALLEST_BLOCK, 0);
    orr_status status = arena ? ORR_OK : orr_fail_memory(err);
    ORR_TRY_OUT(status, status);
    ORR_TRY_OUT(status,
                orr_outcome_of(w->model, &w->plan, w->cluster, options, arena, &outcome, err));
    if (told)
        status = tell(&outcome, arena, err);
out:
    orr_outcome_free(&outcome);
    orr_arena_free(arena);
    return status;
}

static orr_status outcome_that_is_told(orr_error *err)
{
    return outcome_of(&dense, &dense.options, true, err);
}

static orr_status outcome_with_experts(orr_error *err)
{
    orr_job_options options = experts.options;
    options.detail = ORR_DETAIL_OPERATOR;
    return outcome_of(&experts, &options, false, err);
}

static orr_status outcome_of_a_recommender(orr_error *err)
{
    return outcome_of(&recommender, &recommender.options, false, err);
}

/* Kinds of ranks beside the usual ones, and transfers that share links. */
static orr_status outcome_of_odd_ranks(orr_error *err)
{
    const orr_heterogeneous_ranks heterogeneous = {.first = 1, .count = 1, .slowdown = 1.5};
    const orr_slow_link slow = {.level = 0, .unit = 0, .bandwidth_frac = 0.5};
    orr_job_options options = dense.options;
    options.heterogeneous = &heterogeneous;
    options.slow = &slow;
    options.n_heterogeneous = options.n_slow = 1;
    options.network = ORR_NETWORK_FLOWS;
    return outcome_of(&dense, &options, false, err);
}

static orr_status outcome_of_phases(orr_error *err)
{
    orr_job_options options = dense.options;
    options.workload = (orr_workload){.task = ORR_TASK_RL, .prompt = 128, .generated = 128};
    return outcome_of(&dense, &options, false, err);
}

static orr_status estimate(orr_error *err)
{
    orr_estimator *estimator = NULL;
    orr_estimate said;
    orr_status status;
    ORR_TRY_OUT(status, orr_estimator_new(experts.model, experts.cluster, NULL, &estimator, err));
    ORR_TRY_OUT(status, orr_estimate_of(estimator, &experts.plan, &said, err));
    ORR_TRY_OUT(status, orr_estimate_of(estimator, &dense.plan, &said, err));
out:
    orr_estimator_free(estimator);
    return status;
}

/* An estimator that ran out of memory says the same as another, once there is some again. */
static orr_status estimate_again(orr_error *err)
{
    static int64_t expected_ns;
    orr_estimator *estimator = NULL;
    orr_estimate said = {0};
    orr_status status, second = ORR_OK;
    ORR_TRY_OUT(status, orr_estimator_new(dense.model, dense.cluster, NULL, &estimator, err));
    status = orr_estimate_of(estimator, &dense.plan, &said, err);
    if (status == ORR_OK && expected_ns == 0)
        expected_ns = said.step_ns;
    orr_error other;
    second = orr_estimate_of(estimator, &dense.plan, &said, &other);
    assert_true(second == ORR_OK ? said.step_ns == expected_ns : second == ORR_NO_MEMORY);
out:
    orr_estimator_free(estimator);
    return status;
}

/* A plan of tables, and a given one beside it. */
static orr_status plan_of_tables(orr_error *err)
{
    const orr_dlrm *dlrm = &recommender.model->dlrm;
    const orr_calibration *calibration;
    orr_table_planner_options options;
    orr_table_planning best, given;
    orr_embedding_plan plan;
    orr_named_table tables[ORR_SHARDING_TABLES];
    orr_arena *arena = orr_arena_new(SMALLEST_BLOCK, 0);
    orr_status status = arena ? ORR_OK : orr_fail_memory(err);
    ORR_TRY_OUT(status, status);
    orr_table_planner_options_init(&options);
    options.tables = dlrm->tables;
    options.n_tables = dlrm->n_tables;
    options.ranks = 16;
    options.samples = 512;
    options.memory_bytes = INT64_C(20) << 30;
    options.nodes = 100;
    ORR_TRY_OUT(status,
                orr_calibration_of(recommender.cluster->device, 0, arena, &calibration, err));
    ORR_TRY_OUT(status,
                orr_table_costs_of_cluster(recommender.cluster, calibration, options.ranks, arena,
                                           &options.costs, &options.host_ranks, err));
    ORR_TRY_OUT(status, orr_plan_tables(&options, arena, &best, err));
    ORR_TRY_OUT(status, orr_embedding_plan_default(options.tables, options.n_tables, 16, arena,
                                                   &plan, err));
    ORR_TRY_OUT(status, orr_price_table_plan(&options, &plan, arena, &given, err));
    const orr_sharding_report report = {.model = recommender.model,
                                        .cluster = recommender.cluster,
                                        .options = &options,
                                        .best = &best,
                                        .given = &given};
    ORR_TRY_OUT(status, orr_sharding_tables(&report, arena, tables, err));
    ORR_TRY_OUT(status, orr_sharding_html(inside("page.html"), &report, err));
    status = orr_embedding_plan_text(&best.plan, arena) ? ORR_OK : orr_fail_memory(err);
out:
    remove(inside("page.html"));
    orr_arena_free(arena);
    return status;
}

static orr_status command_tables(orr_error *err)
{
    const char *const words[] = {
        "-q", "-o",      inside("plan.yaml"), "--html", inside("page.html"), "dlrm-criteo-kaggle",
        "-c", "dgx_a100"};
    return run_command("tables", words, sizeof words / sizeof *words, err);
}
static orr_status command_simulate(orr_error *err)
{
    COMMAND("simulate", "-o", inside("out.txt"), "--html", inside("page.html"), "llama3.2-1b",
            "--cluster", "dgx_h100", "--plan", "tp=2,pp=2,dp=2,micro_batches=2");
}
static orr_status command_simulate_to_a_timeline(orr_error *err)
{
    COMMAND("simulate", "-o", inside("out.txt"), "--trace", inside("job.pftrace"), "llama3.2-1b",
            "--cluster", "dgx_h100", "--plan", "tp=2,pp=2,dp=2,micro_batches=2");
}
static orr_status command_compare(orr_error *err)
{
    COMMAND("compare", "-o", inside("out.txt"), "llama3.2-1b@dgx_h100:dp=2",
            "llama3.2-1b@dgx_h100:tp=2");
}
static orr_status command_models(orr_error *err)
{
    const char *const words[] = {"-o", inside("out.txt"), "mixtral-8x7b"};
    return run_command("models", words, 3, err);
}
static orr_status command_ops(orr_error *err)
{
    const char *const words[] = {"-o", inside("out.txt")};
    return run_command("ops", words, 2, err);
}

/* A recording replayed without what recording it cost, by a fit to itself thrice. */
static const orr_job *recorded;
static orr_status unprofiled_replay(orr_error *err)
{
    const orr_graph *pairs[] = {recorded->graphs[0], recorded->graphs[0], recorded->graphs[0]};
    orr_arena *arena = orr_arena_new(SMALLEST_BLOCK, 0);
    orr_recording_costs costs;
    orr_sim_options options;
    orr_simulation simulation;
    const orr_ensemble *ensemble;
    orr_status status = arena ? ORR_OK : orr_fail_memory(err);
    orr_sim_options_init(&options);
    options.recording_costs = &costs;
    ORR_TRY_OUT(status, status);
    ORR_TRY_OUT(status, orr_recording_costs_fit(pairs, 3, &costs, err));
    ORR_TRY_OUT(status, orr_ensemble_of_job(recorded, arena, &ensemble, err));
    status = orr_simulate(ensemble, &options, arena, &simulation, err);
out:
    orr_arena_free(arena);
    return status;
}

static orr_status read_recorded(orr_error *err)
{
    char path[512];
    const char *paths[] = {path};
    const orr_job_file *files;
    size_t n;
    (void)snprintf(path, sizeof path, "%s/examples/pairs/matmul.plain.json.gz",
                   getenv("ORRERY_SOURCE"));
    return orr_job_read(paths, 1, NULL, dense.arena, &recorded, &files, &n, err);
}

TEST_OF(unprofiled_replay)
TEST_OF(catalogue_and_cards)
TEST_OF(model_of_a_user)
TEST_OF(memory_of_a_plan)
TEST_OF(memory_of_a_server)
TEST_OF(memory_of_what_does_not_fit)
TEST_OF(outcome_that_is_told)
TEST_OF(outcome_with_experts)
TEST_OF(outcome_of_a_recommender)
TEST_OF(outcome_of_odd_ranks)
TEST_OF(outcome_of_phases)
TEST_OF(estimate)
TEST_OF(estimate_again)
TEST_OF(plan_of_tables)
TEST_OF(command_tables)
TEST_OF(command_simulate)
TEST_OF(command_simulate_to_a_timeline)
TEST_OF(command_compare)
TEST_OF(command_models)
TEST_OF(command_ops)

static int open_worlds(void **state)
{
    static const struct {
        world *at;
        const char *model, *plan;
    } worlds[] = {
        {&dense, "llama3.2-1b", "tp=2,pp=2,dp=2,micro_batches=3,layers=4,seq=512,zero=1"},
        {&experts, "mixtral-8x7b",
         "tp=2,pp=2,dp=4,ep=4,vp=2,micro_batches=2,layers=4,seq=512,zero=3,recompute=full"},
        {&large, "llama3.1-405b", "tp=8,pp=2,micro_batches=2,layers=8"},
        {&recommender, "dlrm-dcnv2", "dp=8"},
    };
    orr_error err = {0};
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++)
        if (open_world(worlds[i].at, worlds[i].model, worlds[i].plan, &err) != ORR_OK) {
            print_error("%s: %s\n", worlds[i].model, err.text);
            return -1;
        }
    if (read_recorded(&err) != ORR_OK) {
        print_error("%s\n", err.text);
        return -1;
    }
    return make_folder(state);
}

static int close_worlds(void **state)
{
    const int removed = remove_folder(state);
    orr_job_free(recorded);
    orr_arena_free(dense.arena);
    orr_arena_free(experts.arena);
    orr_arena_free(large.arena);
    orr_arena_free(recommender.arena);
    return removed;
}

int main(int argc, char **argv)
{
    (void)argc;
    restart_without_caches(argv);
    const struct CMUnitTest tests[] = {
        TEST(unprofiled_replay),
        TEST(catalogue_and_cards),
        TEST(model_of_a_user),
        TEST(memory_of_a_plan),
        TEST(memory_of_a_server),
        TEST(memory_of_what_does_not_fit),
        TEST(outcome_that_is_told),
        TEST(outcome_with_experts),
        TEST(outcome_of_a_recommender),
        TEST(outcome_of_odd_ranks),
        TEST(outcome_of_phases),
        TEST(estimate),
        TEST(estimate_again),
        TEST(plan_of_tables),
        TEST(command_tables),
        TEST(command_simulate),
        TEST(command_simulate_to_a_timeline),
        TEST(command_compare),
        TEST(command_models),
        TEST(command_ops),
    };
    return cmocka_run_group_tests_name("no_memory_jobs", tests, open_worlds, close_worlds);
}
