/* SPDX-License-Identifier: Apache-2.0 */
/* Time to place experts by loads: our policies, and DeepSeek's balancer as plain loops, by CPU time
 * of one core. A JSON line for each.
 * Usage: bench_expert_plans LOADS LAYERS EXPERTS SLOTS GROUPS HOSTS RANKS RUNS
 * LOADS: a file of LAYERS * EXPERTS numbers. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <orrery/experts.h>

#include "../tests/property/support/naive_eplb.h"

enum { MOST_RUNS = 1000 };

static double cpu_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(const char *what, double *ms, int runs, const orr_expert_quality *q)
{
    qsort(ms, (size_t)runs, sizeof *ms, by_value);
    printf("{\"planner\": \"%s\", \"cpu_ms\": %.3f, \"least_ms\": %.3f", what, ms[runs / 2], ms[0]);
    if (q != NULL)
        printf(", \"imbalance_mean\": %.4f, \"imbalance_worst\": %.4f", q->imbalance_mean,
               q->imbalance_worst);
    printf("}\n");
}

static int time_policy(orr_expert_options *o, orr_expert_policy policy, int runs)
{
    static double ms[MOST_RUNS];
    orr_expert_quality quality = {0};
    orr_error err;
    o->policy = (uint8_t)policy;
    for (int i = 0; i < runs; i++) {
        const double begin = cpu_ms();
        orr_arena *arena = orr_arena_new(0, 0);
        orr_expert_result result;
        if (arena == NULL || orr_experts_place(o, arena, &result, &err) != ORR_OK) {
            (void)fprintf(stderr, "%s: %s\n", orr_expert_policy_name(policy), err.text);
            return 1;
        }
        quality = result.quality;
        orr_arena_free(arena);
        ms[i] = cpu_ms() - begin;
    }
    report(orr_expert_policy_name(policy), ms, runs, &quality);
    return 0;
}

static void time_loops(const orr_expert_windows *w, const orr_expert_options *o, int runs)
{
    static double ms[MOST_RUNS];
    const uint32_t hosts = o->ranks / o->host_ranks;
    const bool grouped = o->expert_groups % hosts == 0;
    uint16_t *expert = malloc(sizeof *expert * w->layers * o->slots);
    for (int i = 0; expert != NULL && i < runs; i++) {
        const double begin = cpu_ms();
        for (uint32_t l = 0; l < w->layers; l++)
            naive_eplb(w->load + (size_t)l * w->experts, w->experts, o->slots,
                       grouped ? o->expert_groups : 1, grouped ? hosts : 1, o->ranks,
                       expert + (size_t)l * o->slots);
        ms[i] = cpu_ms() - begin;
    }
    free(expert);
    report("eplb as plain loops", ms, runs, NULL);
}

int main(int argc, char **argv)
{
    if (argc != 9) {
        (void)fprintf(stderr, "usage: %s LOADS LAYERS EXPERTS SLOTS GROUPS HOSTS RANKS RUNS\n",
                      argv[0]);
        return 2;
    }
    uint32_t n[7];
    for (int i = 0; i < 7; i++)
        n[i] = (uint32_t)strtoul(argv[i + 2], NULL, 10);
    const int runs = n[6] > 0 && n[6] < MOST_RUNS ? (int)n[6] : 1;
    double *load = calloc((size_t)n[0] * n[1], sizeof *load);
    uint32_t *number = calloc(n[0], sizeof *number);
    FILE *file = fopen(argv[1], "r");
    size_t read = 0;
    while (file != NULL && load != NULL && read < (size_t)n[0] * n[1] &&
           fscanf(file, "%lf", &load[read]) == 1)
        read++;
    if (number == NULL || file == NULL || read < (size_t)n[0] * n[1]) {
        (void)fprintf(stderr, "%s: %zu loads\n", argv[1], read);
        return 3;
    }
    (void)fclose(file);
    const orr_expert_windows windows = {1, n[0], n[1], number, load, argv[1]};
    orr_expert_options o;
    orr_expert_options_init(&o);
    o.windows = &windows;
    o.slots = n[2];
    o.expert_groups = n[3];
    o.host_ranks = n[5] / n[4];
    o.ranks = n[5];
    o.even_layers = true; /* as servers take placements */
    time_loops(&windows, &o, runs);
    const int failed = time_policy(&o, ORR_EXPERT_POLICY_EPLB, runs) |
                       time_policy(&o, ORR_EXPERT_POLICY_BEST, runs);
    free(load);
    free(number);
    return failed;
}
