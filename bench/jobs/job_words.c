/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "job_tables.h"

/* Words of the tables: devices, precisions, models. A word that is not here is no neighbour of one
 * that is: the row that has it is refused. */

bool job_has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

double job_number_after(const char *text, const char *word)
{
    const char *at = strstr(text, word);
    char *end;
    if (at == NULL)
        return NAN;
    const double value = strtod(at + strlen(word), &end);
    return end == at + strlen(word) ? NAN : value;
}

double job_year_of_release(const char *text)
{
    text += strcspn(text, "0123456789");
    char *end;
    const long year = strtol(text, &end, 10);
    if (end != text + 2 || *end != '.')
        return NAN;
    const long month = strtol(end + 1, NULL, 10);
    return month >= 1 && month <= 12 ? 2000 + (double)year + (double)(month - 1) / 12 : NAN;
}

/* The first that the text has; cluster NULL: none of the catalogue has such a device. */
static const struct {
    const char *part, *cluster;
} DEVICES[] = {
    {"(x", NULL}, /* a mixture of devices */
    {"not printed", NULL},
    {"Gbps)", NULL}, /* a network of its own */
    {"PCI", NULL},
    {"NVL-", NULL}, /* two cards with a bridge */
    {"RTX", NULL},
    {"GH200", NULL},
    {"H800", "h800_pod"},
    {"GB300", "gb300_pod"},
    {"GB200", "gb200_pod"},
    {"B300", "b300_pod"},
    {"B200", "b200_pod"},
    {"H200", "h200_pod"},
    {"H100-96GB", "h100_96g_pod"},
    {"h100_80gb", "h100_superpod"},
    {"H100", "h100_superpod"},
    {"a100_80gb", "a100_superpod"},
    {"a100_40gb", "a100_40g_pod"},
    {"A100-40", "a100_40g_pod"},
    {"A100-80", "a100_superpod"},
    {"A100-SXM-80GB", "a100_superpod"},
    {"A100-SXM4-80GB", "a100_superpod"},
    {"A100-SXM4-40GB", "a100_40g_pod"},
};

void job_read_cluster(job_cases *cases, job_case *c, const char *gpu)
{
    for (size_t i = 0; i < sizeof DEVICES / sizeof *DEVICES; i++)
        if (job_has(gpu, DEVICES[i].part)) {
            if (DEVICES[i].cluster == NULL)
                break;
            c->cluster = DEVICES[i].cluster;
            return;
        }
    job_refuse(c,
               job_text(cases->arena, "a device of which the catalogue has no cluster: '%s'", gpu));
}

static const struct {
    const char *text;
    uint8_t precision;
} PRECISIONS[] = {
    {"BF16", ORR_PRECISION_BF16},
    {"bf16", ORR_PRECISION_BF16},
    {"bf16 (not printed)", ORR_PRECISION_BF16},
    {"bf16 (not printed in the table)", ORR_PRECISION_BF16},
    {"amp_bf16", ORR_PRECISION_BF16},
    {"fp16", ORR_PRECISION_FP16},
    {"FP16", ORR_PRECISION_FP16},
    {"fp32", ORR_PRECISION_FP32},
    {"tf32", ORR_PRECISION_TF32},
    {"FP8", ORR_PRECISION_FP8},
    {"fp8", ORR_PRECISION_FP8},
    {"FP8-CS", ORR_PRECISION_FP8},
    {"FP8-DS", ORR_PRECISION_FP8},
    {"amp_fp8", ORR_PRECISION_FP8},
    {"float8", ORR_PRECISION_FP8},
    {"float8-tensorwise", ORR_PRECISION_FP8},
    {"MXFP8", ORR_PRECISION_MXFP8},
    {"FP8-MX", ORR_PRECISION_MXFP8},
    {"mxfp8", ORR_PRECISION_MXFP8},
    {"NVFP4", ORR_PRECISION_FP4},
    {"nvfp4", ORR_PRECISION_FP4},
    {"nvfp4 (last 5 layers bf16)", ORR_PRECISION_FP4},
    {"FP4", ORR_PRECISION_FP4},
    {"fp4", ORR_PRECISION_FP4},
};

uint8_t job_read_precision(job_cases *cases, job_case *c, const char *text)
{
    for (size_t i = 0; i < sizeof PRECISIONS / sizeof *PRECISIONS; i++)
        if (strcmp(text, PRECISIONS[i].text) == 0)
            return PRECISIONS[i].precision;
    job_refuse(c, job_text(cases->arena, "a precision that is not known here: '%s'", text));
    return ORR_PRECISION_UNKNOWN;
}

/* From the names of tables to those of the catalogue. */
static const struct {
    const char *table, *model;
} NAMES[] = {
    {"LLAMA2-7B", "llama2-7b"},
    {"LLAMA2-13B", "llama2-13b"},
    {"LLAMA2-70B", "llama2-70b"},
    {"LLAMA3-8B", "llama3-8b"},
    {"LLAMA3_70B", "llama3-70b"},
    {"LLAMA3.1_405B", "llama3.1-405b"},
    {"DeepSeekV3", "deepseek-v3"},
    {"Qwen3_30B_a3B", "qwen3-30b-a3b"},
    {"Qwen3_235B_a22B", "qwen3-235b-a22b"},
    {"GPT OSS 120B", "gpt-oss-120b"},
    {"LLaMA 7B", "llama2-7b"}, /* Llama 1 and 2 differ in nothing that takes time */
    {"LLaMA 70B", "llama2-70b"},
    {"Llama 2 7B", "llama2-7b"},
    {"Llama 2 13B", "llama2-13b"},
    {"Llama 2 70B", "llama2-70b"},
    {"Llama 3 8B", "llama3-8b"},
    {"Llama 3 70B", "llama3-70b"},
    {"Llama 3.1 8B", "llama3.1-8b"},
    {"Llama 3.1 70B", "llama3.1-70b"},
    {"Llama 3.1 405B", "llama3.1-405b"},
    {"Llama 3.3 70B", "llama3.3-70b"},
    {"Llama 4 Scout", "llama4-scout"},
    {"Llama 4 Maverick", "llama4-maverick"},
    {"Mixtral 8x7B", "mixtral-8x7b"},
    {"Mixtral 8x22B", "mixtral-8x22b"},
    {"GPT-OSS-120b", "gpt-oss-120b"},
    {"GPT-J 6B", "gpt-j-6b"},
    {"gptj", "gpt-j-6b"},
    {"Mistral 7B", "mistral-7b"},
    {"Falcon 180B", "falcon-180b"},
    {"deepseek-r1", "deepseek-v3"}, /* V3 trained on */
    {"DeepSeek-V3/R1 (671B, 37B active)", "deepseek-v3"},
};

void job_read_model(job_cases *cases, job_case *c, const char *name)
{
    const char *known = name;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strcmp(NAMES[i].table, name) == 0)
            known = NAMES[i].model;
    c->model = job_model(cases, known);
    if (c->model == NULL)
        job_refuse(c, job_text(cases->arena, "a model whose shape is not known here: '%s'", name));
}
