/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../bench/jobs/job_judge.h"

/* The readers of published jobs, on tables of a few rows that the test writes: a word that is not
 * known leads to a row that is told as left out, never to a number of something else. */

static char folder[] = "/tmp/orrery-tables-XXXXXX";
static orr_arena *arena;
static job_cases cases;

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
    (void)state;
    orr_arena_free(arena);
    return rmdir(folder);
}

/* The cases of one table. */
static void read_text(const char *name, const char *text)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    orr_arena_free(arena);
    arena = orr_arena_new(0, 0);
    assert_true(arena != NULL && job_cases_init(arena, &cases));
    job_cases_read(folder, &cases);
    assert_int_equal(unlink(path), 0);
}

/* How many rows were left out for a reason that has this text. */
static size_t left_out(const char *text)
{
    size_t rows = 0;
    for (size_t i = 0; i < cases.n_left_out; i++)
        if (strstr(cases.left_out[i].reason, text) != NULL)
            rows += cases.left_out[i].rows;
    return rows;
}

#define BRIDGE                                                                                     \
    "release,phase,model,System,#-GPUs,Precision,GBS,MBS,Sequence Length,TP,PP,CP,VP,EP,"          \
    "Tokens / sec / GPU,FSDP\n"
#define BRIDGE_ROW(model, system, precision, tp)                                                   \
    "26.02,Pre-Training Performance," model "," system ",64," precision ",128,1,8192," tp          \
    ",4,1,5,1,1600,0\n"

static void a_known_row_is_read(void **state)
{
    (void)state;
    read_text("megatron_bridge_perf.csv", BRIDGE BRIDGE_ROW("LLAMA3_70B", "DGX-H100", "FP8", "4"));
    assert_int_equal(cases.n, 1);
    const job_case *c = &cases.at[0];
    assert_string_equal(c->cluster, "h100_superpod");
    assert_string_equal(c->framework, "megatron");
    assert_int_equal(c->model->layers, 80);
    assert_int_equal(c->plan.precision, ORR_PRECISION_FP8);
    assert_int_equal(c->plan.dp, 4);
    assert_true(fabs(c->software_year - (2026 + 1.0 / 12)) < 1e-9);
    assert_true(fabs(c->seconds - 128 * 8192 / (1600.0 * 64)) < 1e-9);
    assert_int_equal(cases.n_left_out, 0);
}

static void fp4_is_read(void **state)
{
    (void)state;
    read_text("megatron_bridge_perf.csv",
              BRIDGE BRIDGE_ROW("LLAMA3_70B", "DGX-GB200", "NVFP4", "4"));
    assert_int_equal(cases.n, 1);
    assert_int_equal(cases.at[0].plan.precision, ORR_PRECISION_FP4);
    read_text("mlperf_parallelism.csv",
              "round,benchmark,accelerators,accelerator,gbs,tp,pp,vp,cp,mbs,fp8,fp4,config_file,"
              "ambiguous,derived_step_s\n"
              "v5.1,llama31_405b,512,NVIDIA Blackwell GPU (GB200),1152,4,8,,2,1,True,True,x,,10\n");
    assert_int_equal(cases.n, 1);
    assert_int_equal(cases.at[0].plan.precision, ORR_PRECISION_FP4);
}

static void unknown_words_leave_their_rows_out(void **state)
{
    (void)state;
    read_text("megatron_bridge_perf.csv",
              BRIDGE BRIDGE_ROW("LLAMA3_70B", "DGX-R300", "FP8", "4")
                  BRIDGE_ROW("LLAMA9_70B", "DGX-H100", "FP8", "4")
                      BRIDGE_ROW("LLAMA3_70B", "DGX-H100", "FP6", "4")
                          BRIDGE_ROW("LLAMA3_70B", "DGX-H100", "FP8", "four")
                              BRIDGE_ROW("LLAMA3_70B", "DGX-H100 PCIe", "FP8", "4"));
    assert_int_equal(cases.n, 0);
    assert_int_equal(left_out("no cluster: 'DGX-R300'"), 1);
    assert_int_equal(left_out("not known here: 'LLAMA9_70B'"), 1);
    assert_int_equal(left_out("not known here: 'FP6'"), 1);
    assert_int_equal(left_out("TP: 'four' is no number"), 1);
    assert_int_equal(left_out("no cluster: 'DGX-H100 PCIe'"), 1);
}

static void a_table_without_its_column_is_told(void **state)
{
    (void)state;
    read_text("megatron_bridge_perf.csv",
              "release,phase,model,System,#-GPUs,Precision,GBS,MBS,Sequence Length,TP,PP,CP,VP,EP,"
              "Tokens / sec,FSDP\n" BRIDGE_ROW("LLAMA3_70B", "DGX-H100", "FP8", "4"));
    assert_int_equal(cases.n, 0);
    assert_int_equal(left_out("no column 'Tokens / sec / GPU'"), 1);
    assert_int_equal(cases.n_columns, 1);
    assert_string_equal(cases.columns[0].text, "Tokens / sec");
}

static void files_are_known_by_their_first_word(void **state)
{
    (void)state;
    read_text("megatron_bridge_perf.kept.csv",
              BRIDGE BRIDGE_ROW("LLAMA3_70B", "DGX-H100", "FP8", "4"));
    assert_int_equal(cases.n, 1);
    read_text("megatron_bridge_perfect.csv",
              BRIDGE BRIDGE_ROW("LLAMA3_70B", "DGX-H100", "FP8", "4"));
    assert_int_equal(cases.n, 0);
    assert_int_equal(cases.n_tables, 0);
    assert_int_equal(left_out("no reader knows this table"), 1);
}

#define TITAN                                                                                      \
    "model,gpu,gpus,fsdp,tp,pp,cp,local_batch,global_batch,seq,precision,compile,act_ckpt,"        \
    "pp_schedule,async_tp,measured_tokens_per_s_per_gpu,measured_mem_gib,source\n"

static void a_pipeline_of_torchtitan_has_eight_micro_batches(void **state)
{
    (void)state;
    read_text("torchtitan.csv",
              TITAN "llama3.1-405B,H100-96GB-HBM2e-500W,512,8,8,8,1,32,256,8192,float8,1,full,"
                    "Interleaved 1F1B,0,128,72.9,x\n"
                    "llama3.1-405B,H100-96GB-HBM2e-500W,512,8,8,8,1,32,256,8192,float8,1,full,"
                    "Looped,0,128,72.9,x\n");
    assert_int_equal(cases.n, 1);
    assert_int_equal(cases.at[0].model->layers, 126);
    assert_int_equal(cases.at[0].plan.micro_batches, 8);
    assert_int_equal(cases.at[0].plan.micro_batch, 4);
    assert_int_equal(cases.at[0].plan.batch, 256);
    assert_string_equal(cases.at[0].memory_kind, "reserved");
    assert_int_equal(left_out("a schedule that is not known here: 'Looped'"), 1);
}

#define RUN                                                                                        \
    "model,params,gpu,gpus,tp,pp,vp,cp,ep,dp,batch_samples,seq,precision,metric,value,notes,"      \
    "source\n"
#define PROXY(metric, value, notes)                                                                \
    "llama3.1-405b,405b,H100-80GB-SXM,128,8,4,8,2,,2,128,8192,fp8," metric "," value ",\"" notes   \
    "\",NVIDIA/dgxc-benchmarking@v25.04.02 x\n"

static void whole_runs_are_read_once(void **state)
{
    (void)state;
    read_text("famous_runs.dev.csv",
              RUN PROXY("step_s", "9.5", "405b-Proxy with 62 layers; MBS 1 GA 64")
                  PROXY("mfu_pct", "50", "405b-Proxy with 62 layers; MBS 1 GA 64")
                      PROXY("step_s", "9.5", "MBS 1 GA 64; INCONSISTENT: twice as fast")
                          PROXY("step_s", "about 9", "MBS 1 GA 64"));
    assert_int_equal(cases.n, 1);
    assert_int_equal(cases.at[0].model->layers, 62);
    assert_int_equal(cases.at[0].plan.micro_batch, 1);
    assert_true(fabs(cases.at[0].software_year - 2025.25) < 1e-9);
    assert_int_equal(left_out("another row has its run's step"), 1);
    assert_int_equal(left_out("marked as doubtful"), 1);
    assert_int_equal(left_out("value: 'about 9' is no number"), 1);
}

#define SERVED                                                                                     \
    "model,gpu,gpus,tp,pp,ep,batch_or_concurrency,input_tokens,output_tokens,precision,"           \
    "kv_precision,framework,version,metric,value,notes\n"

static void rates_are_of_a_device_or_of_its_group(void **state)
{
    (void)state;
    read_text("inference.csv",
              SERVED "Llama 3.1 70B,H100-SXM-80GB,4,4,1,,64,128,256,fp8,fp8,TensorRT-LLM,v0.17,"
                     "tokens_per_s,4000,\n"
                     "Llama 3.1 70B,H100-SXM-80GB,4,4,1,,64,128,256,fp8,fp8,TensorRT-LLM,v0.8.0,"
                     "tokens_per_s_per_gpu,1000,\n"
                     "Llama 3.1 70B,H100-SXM-80GB,8,4,1,,64,128,256,fp8,fp8,TensorRT-LLM,v0.17,"
                     "tokens_per_s,8000,\n"
                     "Llama 3.1 70B,H100-SXM-80GB,4,4,1,,64,128,256,fp8,fp8,TensorRT-LLM,v0.5,"
                     "tokens_per_s,4000,\n"
                     "Llama 3.1 70B,H100-SXM-80GB,4,4,1,,64,,256,fp8,fp8,TensorRT-LLM,v0.17,"
                     "tokens_per_s,4000,\n"
                     "Llama 3.1 70B,H100-SXM-80GB,4,4,1,,64,128,256,fp16-declared,fp8,x,v0.17,"
                     "tokens_per_s,4000,\n");
    assert_int_equal(cases.n, 3);
    for (size_t i = 0; i < cases.n; i++)
        assert_true(fabs(cases.at[i].seconds - 256 / 4000.0) < 1e-12);
    assert_true(fabs(cases.at[1].software_year - 2024.15) < 1e-9);
    assert_int_equal(left_out("of a device or of the group"), 1);
    assert_int_equal(left_out("input length is not told"), 1);
    assert_int_equal(left_out("not known here: 'fp16-declared'"), 1);
}

/* Attention in replicas, experts over all devices: as the command of the row has it. */
static void attention_may_be_replicated(void **state)
{
    (void)state;
    read_text("inference.csv",
              SERVED "Qwen3-30B-A3B,H100-SXM-80GB,4,4,1,,,128,256,fp8,,TensorRT-LLM,v1.0,"
                     "tokens_per_s,4000,MoE command uses attention DP\n");
    assert_int_equal(cases.n, 1);
    const orr_plan *p = &cases.at[0].plan;
    assert_true(p->dp == 4 && p->tp == 1 && p->ep == 4);
    assert_true(fabs(cases.at[0].seconds - 256 / 4000.0) < 1e-12);
}

/* A row of memory alone is judged by its memory, and has no time. */
static void memory_alone_is_judged(void **state)
{
    (void)state;
    job_world world;
    job_prediction prediction;
    job_score score;
    orr_error err = {0};
    read_text("fsdp_memory.csv",
              RUN "bloom-candidate-181B,181B,A100-80GB-SXM,384,8,12,1,1,1,4,2048,2048,bf16,"
                  "max_mem_gb,45,\"NHIDDEN=14336 / NLAYERS=72, MBS 2\",bigscience x\n");
    assert_int_equal(cases.n, 1);
    assert_string_equal(cases.at[0].cluster, "jean_zay_a100");
    assert_int_equal(job_world_open(&cases, NULL, arena, &world, &err), ORR_OK);
    assert_int_equal(job_predict_all(&world, &cases, &prediction, &err), ORR_OK);
    assert_true(isnan(prediction.seconds) && prediction.memory_gib > 10);
    job_score_of(&cases, &prediction, NULL, cases.at[0].fitted, &score);
    assert_int_equal(score.n + score.n_unpredicted, 0);
    assert_int_equal(score.n_memory, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_known_row_is_read),
        cmocka_unit_test(fp4_is_read),
        cmocka_unit_test(unknown_words_leave_their_rows_out),
        cmocka_unit_test(a_table_without_its_column_is_told),
        cmocka_unit_test(files_are_known_by_their_first_word),
        cmocka_unit_test(a_pipeline_of_torchtitan_has_eight_micro_batches),
        cmocka_unit_test(whole_runs_are_read_once),
        cmocka_unit_test(rates_are_of_a_device_or_of_its_group),
        cmocka_unit_test(attention_may_be_replicated),
        cmocka_unit_test(memory_alone_is_judged),
    };
    return cmocka_run_group_tests_name("published_words", tests, make_folder, remove_folder);
}
