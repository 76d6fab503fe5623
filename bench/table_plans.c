/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../tests/property/support/random_tables.h"

/* The planner of embedding tables on seeded cases: a JSON line each, then a summary.
 * Usage: bench_table_plans [TABLES RANKS HOST_RANKS FIRST_SEED CASES]
 *
 * Or on the tables of a file, a line "rows,columns,lookups" each, in TorchRec's terms and without a
 * limit of memory: bench_table_plans FILE.csv RANKS HOST_RANKS SAMPLES */

static uint64_t argument(int argc, char **argv, int i, uint64_t otherwise)
{
    return argc > i ? strtoull(argv[i], NULL, 10) : otherwise;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static uint32_t read_tables(const char *path, orr_embedding *tables)
{
    char line[256];
    uint32_t n = 0;
    FILE *file = fopen(path, "r");
    while (file != NULL && n < ORR_TABLES_MAX && fgets(line, sizeof line, file) != NULL) {
        long long rows;
        unsigned columns;
        double pooling;
        if (sscanf(line, "%lld,%u,%lf", &rows, &columns, &pooling) != 3)
            break;
        tables[n++] = (orr_embedding){
            .name = "a table", .rows = rows, .columns = columns, .pooling = pooling};
    }
    if (file != NULL)
        (void)fclose(file);
    return n;
}

static int plan_file(char **argv)
{
    static orr_embedding tables[ORR_TABLES_MAX];
    orr_arena *arena = orr_arena_new(0, 0);
    orr_table_planner_options o;
    orr_table_planning best, greedy;
    orr_embedding_plan plan;
    orr_error err;
    orr_table_planner_options_init(&o);
    o.tables = tables;
    o.n_tables = read_tables(argv[1], tables);
    o.ranks = (uint32_t)strtoul(argv[2], NULL, 10);
    o.host_ranks = (uint32_t)strtoul(argv[3], NULL, 10);
    o.samples = strtoll(argv[4], NULL, 10);
    o.pricing = ORR_TABLE_PRICING_TORCHREC;
    o.costs = random_tables_costs();
    const clock_t begin = clock();
    if (orr_plan_tables(&o, arena, &best, &err) != ORR_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    const double cpu_s = (double)(clock() - begin) / CLOCKS_PER_SEC;
    if (orr_embedding_plan_default(tables, o.n_tables, o.ranks, arena, &plan, &err) != ORR_OK ||
        orr_price_table_plan(&o, &plan, arena, &greedy, &err) != ORR_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    printf("{\"wall_s\": %.3f, \"cpu_s\": %.3f, \"ms\": %.9g, \"over_bound\": %.5f, "
           "\"greedy_over_bound\": %.4f}\n",
           (double)best.wall_ns / 1e9, cpu_s, best.ns / 1e6, best.ns / best.bound_ns,
           greedy.ns / best.bound_ns);
    orr_arena_free(arena);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 5)
        return plan_file(argv);
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
                "{\"seed\": %llu, \"wall_s\": %.3f, \"cpu_s\": %.3f, \"ms\": %.3f, "
                "\"over_bound\": %.5f, \"synchronous_over_ms\": %.4f, \"bound_by\": \"%s\", \"us_per_gib\": %.3f, \"moves\": %llu, \"nodes\": %llu}\n",
                (unsigned long long)seed, walls[done], cpus[done], planning.ns / 1e6, ratios[done],
                planning.synchronous_ns / planning.ns, planning.bound_by,
                planning.memory_ns_per_gib / 1e3, (unsigned long long)planning.moves,
                (unsigned long long)planning.nodes);
            done++;
        }
        orr_arena_free(arena);
    }
    if (done == 0)
        return 1;
    qsort(ratios, done, sizeof *ratios, by_value);
    qsort(cpus, done, sizeof *cpus, by_value);
    qsort(walls, done, sizeof *walls, by_value);
    printf("{\"tables\": %u, \"ranks\": %u, \"cases\": %llu, \"planned\": %llu, "
           "\"within_1.01\": %.4f, \"over_bound_median\": %.5f, \"over_bound_p95\": %.5f, "
           "\"over_bound_max\": %.5f, \"wall_s_median\": %.3f, \"wall_s_max\": %.3f, "
           "\"cpu_s_median\": %.3f, \"cpu_s_max\": %.3f}\n",
           tables, ranks, (unsigned long long)n, (unsigned long long)done,
           (double)within / (double)done, ratios[done / 2], ratios[done * 95 / 100],
           ratios[done - 1], walls[done / 2], walls[done - 1], cpus[done / 2], cpus[done - 1]);
    free(ratios);
    free(walls);
    free(cpus);
    return 0;
}
