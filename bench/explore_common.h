/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_BENCH_EXPLORE_COMMON_H
#define ORR_BENCH_EXPLORE_COMMON_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <orrery/explore.h>

/* What measurements of the search have in common. */

static orr_error err;

static inline void check(orr_status status)
{
    if (status == ORR_OK)
        return;
    fprintf(stderr, "bench: %s\n", err.text);
    exit(1);
}

static inline double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Of the processor, user and system. */
static inline double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline double peak_gib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / (1 << 20);
}

/* NAN is null. */
static inline void put_number(const char *key, double value)
{
    if (isfinite(value))
        printf(", \"%s\": %.6g", key, value);
    else
        printf(", \"%s\": null", key);
}

static inline void put_text(const char *key, const char *text)
{
    printf(", \"%s\": \"", key);
    for (; *text != '\0'; text++)
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else
            putchar(*text);
    putchar('"');
}

/* What of a plan is worth reading: without what every plan says. */
static inline const char *plan_text(const orr_plan *plan, orr_arena *arena)
{
    orr_plan p = *plan;
    p.batch = p.seq = 0;
    p.etp = p.etp == p.tp ? 0 : p.etp;
    p.cp = p.cp == 1 ? 0 : p.cp;
    p.ep = p.ep == 1 ? 0 : p.ep;
    p.vp = p.vp == 1 ? 0 : p.vp;
    p.dp_outer = p.dp_outer == 1 ? 0 : p.dp_outer;
    p.dp_chunks = p.dp_chunks == 1 ? 0 : p.dp_chunks;
    p.local_steps = p.local_steps == 1 ? 0 : p.local_steps;
    p.precision = p.precision == ORR_PRECISION_BF16 ? 0 : p.precision;
    p.sp = p.cp_kind = p.overlap_dp = p.overlap_pp = p.reshard = p.flash = p.fusion = 0;
    p.overlap_tp = p.overlap_tp == ORR_SWITCH_ON ? p.overlap_tp : 0;
    p.overlap_ep = p.overlap_ep == ORR_SWITCH_ON ? p.overlap_ep : 0;
    p.graphs = p.graphs == ORR_SWITCH_ON ? p.graphs : 0;
    p.offload = p.offload == ORR_OFFLOAD_NONE ? 0 : p.offload;
    p.compress = p.compress == ORR_COMPRESS_NONE ? 0 : p.compress;
    p.recompute = p.recompute == ORR_RECOMPUTE_NONE ? 0 : p.recompute;
    p.gradients = 0;
    const char *text = orr_plan_text(&p, arena);
    if (text == NULL)
        check(orr_fail(&err, ORR_NO_MEMORY, "out of memory"));
    return text;
}

#endif /* ORR_BENCH_EXPLORE_COMMON_H */
