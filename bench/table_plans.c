/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../tests/property/support/random_tables.h"

/* The planner of embedding tables on seeded cases: a JSON line each, then a summary.
 * Usage: bench_table_plans [TABLES RANKS HOST_RANKS FIRST_SEED CASES] */

static uint64_t argument(int argc, char **argv, int i, uint64_t otherwise)
{
    return argc > i ? strtoull(argv[i], NULL, 10) : otherwise;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    const uint32_t tables = (uint32_t)argument(argc, argv, 1, 1000),
                   ranks = (uint32_t)argument(argc, argv, 2, 128),
                   host_ranks = (uint32_t)argument(argc, argv, 3, 8);
    const uint64_t first = argument(argc, argv, 4, 1), n = argument(argc, argv, 5, 20);
    double *ratios = calloc(n, sizeof *ratios), *walls = calloc(n, sizeof *walls),
           *cpus = calloc(n, sizeof *cpus);
    uint64_t within = 0, done = 0;
    for (uint64_t seed = first; ratios != NULL && walls != NULL && cpus != NULL && seed < first + n;
         seed++) {
        orr_arena *arena = orr_arena_new(0, 0);
        orr_table_planning planning;
        random_tables r;
        orr_error err;
        draw_tables(&r, tables, ranks, host_ranks, seed, arena);
        const clock_t begin = clock();
        if (orr_plan_tables(&r.options, arena, &planning, &err) != ORR_OK) {
            fprintf(stderr, "seed %llu: %s\n", (unsigned long long)seed, err.text);
            return 1;
        }
        if (planning.infeasible != NULL) {
            printf("{\"seed\": %llu, \"infeasible\": \"%s\"}\n", (unsigned long long)seed,
                   planning.infeasible);
        } else {
            ratios[done] = planning.ns / planning.bound_ns;
            walls[done] = (double)planning.wall_ns / 1e9;
            cpus[done] = (double)(clock() - begin) / CLOCKS_PER_SEC;
            within += ratios[done] <= 1.01;
            printf(
                "{\"seed\": %llu, \"wall_s\": %.3f, \"cpu_s\": %.3f, \"ms\": %.3f, \"over_bound\": %.5f, "
                "\"bound_by\": \"%s\", \"us_per_gib\": %.3f, \"moves\": %llu, \"nodes\": %llu}\n",
                (unsigned long long)seed, walls[done], cpus[done], planning.ns / 1e6, ratios[done],
                planning.bound_by, planning.memory_ns_per_gib / 1e3,
                (unsigned long long)planning.moves, (unsigned long long)planning.nodes);
            done++;
        }
        orr_arena_free(arena);
    }
    if (done == 0)
        return 1;
    qsort(ratios, done, sizeof *ratios, by_value);
    qsort(cpus, done, sizeof *cpus, by_value);
    qsort(walls, done, sizeof *walls, by_value);
    printf(
        "{\"tables\": %u, \"ranks\": %u, \"cases\": %llu, \"planned\": %llu, "
        "\"within_1.01\": %.4f, \"over_bound_median\": %.5f, \"over_bound_p95\": %.5f, "
        "\"over_bound_max\": %.5f, \"wall_s_median\": %.3f, \"wall_s_max\": %.3f, \"cpu_s_median\": %.3f, \"cpu_s_max\": %.3f}\n",
        tables, ranks, (unsigned long long)n, (unsigned long long)done,
        (double)within / (double)done, ratios[done / 2], ratios[done * 95 / 100], ratios[done - 1],
        walls[done / 2], walls[done - 1], cpus[done / 2], cpus[done - 1]);
    free(ratios);
    free(walls);
    free(cpus);
    return 0;
}
