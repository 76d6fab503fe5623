/* SPDX-License-Identifier: Apache-2.0 */
#include "small_clicks.h"

#include <math.h>

#include "base/alloc.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/table_folder.h"
#include "engine/serve/scorer.h"

/* What is answered with exported weights is what training evaluates with them. */

enum { SAMPLES = 192 };

static void read_dense(orr_engine_step *step, const char *folder)
{
    char path[4300];
    uint32_t n;
    orr_weights *weights;
    orr_parameter *parameters = orr_engine_step_parameters(step, &n);
    (void)snprintf(path, sizeof path, "%s/dense.safetensors", folder);
    assert_int_equal(orr_weights_open(path, &weights, NULL), ORR_OK);
    for (uint32_t i = 0; i < n; i++) {
        char name[ORR_PARAMETER_KEY_CHARS];
        orr_parameter_key(parameters[i].place, parameters[i].name, parameters[i].nth, name);
        const orr_weight *w = orr_weights_find(weights, name);
        assert_non_null(w);
        memcpy(parameters[i].master, w->data, (size_t)w->bytes);
    }
    orr_weights_close(weights);
    assert_int_equal(orr_engine_step_weights_changed(step, NULL), ORR_OK);
}

static void read_tables(orr_engine_step *step, const orr_model *model, const char *folder)
{
    const orr_tables *tables = orr_engine_step_tables(step);
    const uint32_t n = orr_tables_n_shards(tables);
    orr_table_part *parts = calloc(n, sizeof *parts);
    assert_non_null(parts);
    orr_table_parts_of(tables, orr_engine_step_table_plan(step), 0, parts);
    assert_int_equal(
        orr_tables_import(folder, model->dlrm.tables, model->dlrm.n_tables, parts, n, NULL),
        ORR_OK);
    free(parts);
}

/* Logits of the first samples, by a step of training in blocks of so many. */
static void evaluate(const orr_model *model, const orr_click_data *clicks, const char *folder,
                     uint32_t block, float *ret)
{
    char plan[64];
    small_training t;
    orr_click_reader reads = {.clicks = clicks, .batch = SAMPLES, .samples = SAMPLES};
    const orr_step_reader reader = {orr_click_reader_read, &reads};
    float *weights = calloc(block, sizeof *weights);
    (void)snprintf(plan, sizeof plan, "micro_batch=%u,batch=%d,precision=fp32", block, SAMPLES);
    t = (small_training){.model = model};
    orr_plan asked;
    assert_int_equal(orr_plan_parse(plan, &asked, NULL), ORR_OK);
    t.plan = orr_train_plan(model, &asked);
    t.workload = (orr_workload){.task = ORR_TASK_PRETRAIN};
    t.source = (orr_step_source){
        .model = model, .transport = orr_transport_self(), .seed = 7, .reader = &reader};
    assert_int_equal(orr_backend_cpu(&t.source.backend, NULL), ORR_OK);
    small_make(&t);
    read_dense(t.step, folder);
    read_tables(t.step, model, folder);
    orr_step_inputs *inputs = calloc(SAMPLES / block, sizeof *inputs);
    assert_true(inputs != NULL && weights != NULL);
    for (uint32_t i = 0; i < SAMPLES / block; i++)
        inputs[i].weights = weights;
    assert_int_equal(orr_engine_step_set_batch(t.step, 0, 1, NULL), ORR_OK);
    assert_int_equal(orr_engine_step_score(t.step, inputs, NULL, NULL), ORR_OK);
    memcpy(ret, orr_engine_step_logits(t.step), SAMPLES * sizeof *ret);
    free(inputs);
    free(weights);
    orr_engine_step_free(t.step);
    orr_click_reader_done(&reads);
}

typedef struct asking {
    orr_scorer *scorer;
    orr_score_thread *thread;
    orr_click_batch clicks;
} asking;

static void ask(asking *a, const orr_model *model, const char *folder, int64_t block,
                const orr_click_data *clicks, float *ret)
{
    const orr_scorer_options options = {.model = model, .weights = folder, .block = block};
    orr_error err = {0};
    *a = (asking){0};
    if (orr_scorer_open(&options, &a->scorer, &err) != ORR_OK ||
        orr_score_thread_open(a->scorer, &a->thread, &err) != ORR_OK ||
        orr_click_data_read(clicks, 0, SAMPLES, &a->clicks, &err) != ORR_OK)
        fail_msg("%s", err.text);
    const orr_score_batch batch = {.samples = SAMPLES,
                                   .dense = a->clicks.dense.at,
                                   .lengths = a->clicks.lengths.at,
                                   .ids = a->clicks.ids.at};
    if (orr_score_logits(a->thread, &batch, ret, &err) != ORR_OK)
        fail_msg("%s", err.text);
}

static void end(asking *a)
{
    orr_score_thread_close(a->thread);
    orr_scorer_close(a->scorer);
    orr_click_batch_done(&a->clicks);
}

static void logits_are_those_of_training(void **state)
{
    static const uint32_t blocks[] = {64, 96, 192, 24};
    const orr_model model = small_clicks_model(SMALL_EMBEDDINGS);
    float want[SAMPLES], got[SAMPLES];
    orr_click_data *clicks;
    small_clicks_export(&model, *state, 30, 3);
    assert_int_equal(orr_click_data_open("synthetic", &model.dlrm, 5, &clicks, NULL), ORR_OK);
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        asking a;
        evaluate(&model, clicks, *state, blocks[i], want);
        ask(&a, &model, *state, blocks[i], clicks, got);
        assert_memory_equal(want, got, sizeof want);
        end(&a);
    }
    assert_true(want[0] != want[1]);
    orr_click_data_free(clicks);
}

/* Samples that are asked one by one, in blocks that do not divide them, or all at once. */
static void answers_do_not_depend_on_company(void **state)
{
    const orr_model model = small_clicks_model(SMALL_EMBEDDINGS);
    float want[SAMPLES], got[SAMPLES];
    orr_click_data *clicks;
    asking a;
    small_clicks_export(&model, *state, 10, 3);
    assert_int_equal(orr_click_data_open("synthetic", &model.dlrm, 5, &clicks, NULL), ORR_OK);
    ask(&a, &model, *state, 64, clicks, want);
    for (int64_t first = 0, n = 1; first < SAMPLES; first += n, n = n % 23 + 1) {
        orr_click_batch part = {0};
        n = n < SAMPLES - first ? n : SAMPLES - first;
        assert_int_equal(orr_click_data_read(clicks, (uint64_t)first, n, &part, NULL), ORR_OK);
        const orr_score_batch batch = {n, part.dense.at, part.lengths.at, part.ids.at};
        assert_int_equal(orr_score_logits(a.thread, &batch, got + first, NULL), ORR_OK);
        orr_click_batch_done(&part);
    }
    for (int i = 0; i < SAMPLES; i++)
        if (want[i] != got[i])
            fail_msg("sample %d: %.9g and %.9g", i, want[i], got[i]);
    end(&a);
    orr_click_data_free(clicks);
}

static void bags_are_checked(void **state)
{
    const orr_model model = small_clicks_model(SMALL_EMBEDDINGS);
    orr_click_data *clicks;
    asking a;
    orr_error err;
    float logits[SAMPLES], bag[2 * SMALL_COLUMNS];
    int32_t lengths[2] = {1, 1};
    int64_t ids[2] = {6, 7};
    small_clicks_export(&model, *state, 1, 3);
    assert_int_equal(orr_click_data_open("synthetic", &model.dlrm, 5, &clicks, NULL), ORR_OK);
    ask(&a, &model, *state, 0, clicks, logits);
    const orr_row_bags bags = {2, 2, lengths, ids, bag, SMALL_COLUMNS};
    assert_int_equal(orr_score_bags(a.thread, &bags, 1, &err), ORR_INVALID);
    assert_string_equal(err.text, "table t2, sample 1: id 7 of 7 rows");
    ids[1] = -1;
    assert_int_equal(orr_score_bags(a.thread, &bags, 1, &err), ORR_INVALID);
    ids[1] = 6;
    lengths[0] = -5;
    assert_int_equal(orr_score_bags(a.thread, &bags, 1, &err), ORR_INVALID);
    lengths[0] = 1;
    assert_int_equal(orr_score_bags(a.thread, &bags, 1, &err), ORR_OK);
    assert_memory_equal(bag, bag + SMALL_COLUMNS, SMALL_COLUMNS * sizeof *bag);
    end(&a);
    orr_click_data_free(clicks);
}

static void fails(const orr_model *model, const char *folder, orr_status status, const char *text)
{
    const orr_scorer_options options = {.model = model, .weights = folder};
    orr_scorer *scorer;
    orr_error err = {0};
    assert_int_equal(orr_scorer_open(&options, &scorer, &err), status);
    if (strstr(err.text, text) == NULL)
        fail_msg("%s", err.text);
}

static void other_weights_are_refused(void **state)
{
    orr_embedding tables[SMALL_TABLES];
    orr_model model = small_clicks_model(SMALL_EMBEDDINGS), other;
    small_clicks_export(&model, *state, 1, 3);
    fails(&model, in_folder(state, "nowhere"), ORR_IO, "nowhere");
    memcpy(tables, SMALL_EMBEDDINGS, sizeof tables);
    tables[1].rows = 3001;
    other = small_clicks_model(tables);
    fails(&other, *state, ORR_INVALID, "3000 rows");
    other = model;
    other.dlrm.top[0] = 41;
    fails(&other, *state, ORR_INVALID, "another model");
    other = model;
    other.kind = ORR_MODEL_TRANSFORMER;
    fails(&other, *state, ORR_UNSUPPORTED, "no recommendation model");
    FILE *file = fopen(in_folder(state, "t1.table"), "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 4096 + 1000, SEEK_SET), 0);
    assert_int_equal(fputc('!', file), '!');
    assert_int_equal(fclose(file), 0);
    fails(&model, *state, ORR_PARSE, "table t1 is damaged");
}

/* Rows of 8 and 4 bits give about the same. */
static void small_rows_give_about_the_same(void **state)
{
    static const orr_row_format formats[] = {ORR_ROW_FORMAT_INT8, ORR_ROW_FORMAT_INT4};
    const orr_model model = small_clicks_model(SMALL_EMBEDDINGS);
    float want[SAMPLES], got[SAMPLES];
    orr_click_data *clicks;
    asking a;
    small_clicks_export(&model, *state, 30, 3);
    assert_int_equal(orr_click_data_open("synthetic", &model.dlrm, 5, &clicks, NULL), ORR_OK);
    ask(&a, &model, *state, 0, clicks, want);
    end(&a);
    for (int i = 0; i < 2; i++) {
        char command[9000];
        const char *to = in_folder(state, i == 0 ? "int8" : "int4");
        assert_int_equal(orr_tables_convert(*state, formats[i], to, NULL), ORR_OK);
        (void)snprintf(command, sizeof command, "cp '%s/dense.safetensors' '%s'", (char *)*state,
                       to);
        assert_int_equal(system(command), 0);
        ask(&a, &model, to, 0, clicks, got);
        float most = 0;
        for (int s = 0; s < SAMPLES; s++)
            most =
                fmaxf(most, fabsf(orr_score_probability(got[s]) - orr_score_probability(want[s])));
        if (!(most > 0 && most < (i == 0 ? 0.02F : 0.2F)))
            fail_msg("off by %g", (double)most);
        end(&a);
    }
    orr_click_data_free(clicks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(logits_are_those_of_training, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(answers_do_not_depend_on_company, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(bags_are_checked, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(other_weights_are_refused, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(small_rows_give_about_the_same, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
