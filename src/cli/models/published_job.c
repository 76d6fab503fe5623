/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/models/published_job.h"

#include <string.h>

#include "cli/models/simulate.h"
#include "report/humanize/human.h"

/* Jobs that somebody ran and wrote down. */
typedef struct known_job {
    const char *name;
    orr_job_spec words;
    double flops_per_s_per_device; /* as published */
    const char *source;
} known_job;

/* 16 M tokens a step: 2,048 samples of 8,192 tokens, or 128 of 131,072. The authors compute no
 * activation again; assumed is their own xFormers' SwiGLU, which does not keep its product. */
#define LLAMA3 "Llama 3 (arXiv 2407.21783), table 4"
static const known_job KNOWN[] = {
    {"llama3_405b_8k_gpus",
     {"llama3.1-405b", "h100_24k",
      "tp=8,pp=16,dp=64,vp=8,batch=2048,seq=8192,zero=2,recompute_modules=mlp_act"},
     430e12,
     LLAMA3},
    {"llama3_405b_16k_gpus",
     {"llama3.1-405b", "h100_24k",
      "tp=8,pp=16,dp=128,vp=8,batch=2048,seq=8192,zero=2,recompute_modules=mlp_act"},
     400e12,
     LLAMA3},
    {"llama3_405b_long_context",
     {"llama3.1-405b", "h100_24k",
      "tp=8,cp=16,pp=16,dp=8,vp=8,batch=128,seq=131072,zero=2,cp_kind=all_gather,"
      "recompute_modules=mlp_act"},
     380e12,
     LLAMA3},
};
enum { N_KNOWN = sizeof KNOWN / sizeof *KNOWN };

const char *orr_published_job_name(size_t i)
{
    return i < N_KNOWN ? KNOWN[i].name : NULL;
}

bool orr_published_job_known(const char *name)
{
    for (size_t i = 0; i < N_KNOWN; i++)
        if (strcmp(KNOWN[i].name, name) == 0)
            return true;
    return false;
}

static void say_published(const orr_job_request *r, void *ctx)
{
    const known_job *known = ctx;
    const double simulated = r->outcome.flops_per_s_per_device;
    char off[ORR_HUMAN_MAX];
    orr_output_printf(r->session->out,
                      "published: %.0f TFLOP/s a device (%s); simulated: %.0f, %s\n",
                      known->flops_per_s_per_device / 1e12, known->source, simulated / 1e12,
                      orr_human_frac(off, simulated / known->flops_per_s_per_device - 1));
    if (!r->outcome.memory.fits)
        orr_output_text(
            r->session->out,
            "memory: the job did run, so it freed what the published plan does not tell, "
            "or the estimate is too high\n");
}

int orr_published_job(const char *name, const orr_settings *settings)
{
    for (size_t i = 0; i < N_KNOWN; i++)
        if (strcmp(KNOWN[i].name, name) == 0) {
            /* It did run, whatever is said of its memory. */
            const int code =
                orr_simulate_spec(settings, &KNOWN[i].words, say_published, (void *)&KNOWN[i]);
            return code == EXIT_INFEASIBLE ? EXIT_DONE : code;
        }
    return EXIT_USAGE;
}
