/* SPDX-License-Identifier: Apache-2.0 */
/* The search beside the baselines, over design points: model family x buildings x distance x
 * oversubscription x devices.
 *
 *   explore_points [--quick] [--only TEXT] [--seconds S] [--unaided] [--markdown FILE]
 *
 * A JSON line a point: the step of our plan, of each baseline's, all judged by the same simulator;
 * the gap to the proven bound; and the ablation: one dimension searched, the others as the
 * production rule has them. Precision is bf16 throughout, nothing that changes the numerics is
 * allowed. --seconds: most that a search may take (12; three times that with experts, half of it
 * for each of an ablation).
 * --unaided: baselines choose by their own cost models and are given no overlaps. Our step is given
 * with flows over the cuts, too (16 draws).
 * --markdown: the tables of docs/explore.md, too. --quick: three small points. */
#include "explore_common.h"

#include <unistd.h>

enum { SITES = 3, DIMENSIONS = 3, ZONE = 3072, EXPERTS_TIMES = 3 };

typedef struct point {
    const char *name, *model;
    uint32_t batch, seq;
    uint32_t zones[SITES];     /* of 3,072 devices each: Llama 3's pod */
    const char *device[SITES]; /* NULL: h100_sxm_80g */
    uint32_t km;
    double oversubscription; /* of the cut; of the building where there is one alone */
    bool quick;
    const char *cluster; /* of the catalogue, instead; NULL mostly */
} point;

#define MOE_2T "examples/models/moe_2t.yaml"
#define B200   "b200_sxm_180g"
#define H200   "h200_sxm_141g"
/* clang-format off */
static const point POINTS[] = {
    {"dense 405B, 1 building, 1:1", "llama3.1-405b", 1536, 8192, {4}, {NULL}, 0, 1, false, NULL},
    {"dense 405B, 1 building, 1:7", "llama3.1-405b", 1536, 8192, {4}, {NULL}, 0, 7, false, NULL},
    {"dense 405B, 2 buildings, 1 km, 1:1", "llama3.1-405b", 1536, 8192, {2, 2}, {NULL}, 1, 1, false, NULL},
    {"dense 405B, 2 buildings, 1 km, 1:2.8", "llama3.1-405b", 1536, 8192, {2, 2}, {NULL}, 1, 2.8, false, NULL},
    {"dense 405B, 2 buildings, 100 km, 1:2.8", "llama3.1-405b", 1536, 8192, {2, 2}, {NULL}, 100, 2.8, false, NULL},
    {"dense 405B, 2 buildings, 100 km, 1:7", "llama3.1-405b", 1536, 8192, {2, 2}, {NULL}, 100, 7, false, NULL},
    {"dense 405B, 2 buildings, 1,000 km, 1:2.8", "llama3.1-405b", 1536, 8192, {2, 2}, {NULL}, 1000, 2.8, false, NULL},
    {"dense 405B, 2 buildings, 1,000 km, 1:12.6", "llama3.1-405b", 1536, 8192, {2, 2}, {NULL}, 1000, 12.6, false, NULL},
    {"dense 405B, 2 unequal, 100 km, 1:7", "llama3.1-405b", 1536, 8192, {3, 1}, {NULL}, 100, 7, false, NULL},
    {"dense 405B, 3 buildings, 1 km, 1:2.8", "llama3.1-405b", 2304, 8192, {2, 2, 2}, {NULL}, 1, 2.8, false, NULL},
    {"dense 405B, 3 unequal, 1,000 km, 1:12.6", "llama3.1-405b", 1536, 8192, {2, 1, 1}, {NULL}, 1000, 12.6, false, NULL},
    {"dense 405B, H100 + B200, 1 km, 1:2.8", "llama3.1-405b", 1536, 8192, {2, 1}, {NULL, B200}, 1, 2.8, false, NULL},
    {"dense 405B, H100 + H200, 100 km, 1:7", "llama3.1-405b", 1536, 8192, {2, 2}, {NULL, H200}, 100, 7, false, NULL},
    {"MoE 2T, 1 building, 1:7", MOE_2T, 6144, 8192, {8}, {NULL}, 0, 7, false, NULL},
    {"MoE 2T, 2 buildings, 100 km, 1:2.8", MOE_2T, 6144, 8192, {4, 4}, {NULL}, 100, 2.8, false, NULL},
    {"MoE 2T, 3 buildings, 1 km, 1:2.8", MOE_2T, 6912, 8192, {3, 3, 3}, {NULL}, 1, 2.8, false, NULL},
    {"MoE 2T, 3 unequal, 100 km, 1:7", MOE_2T, 6144, 8192, {4, 3, 1}, {NULL}, 100, 7, false, NULL},
    {"MoE 2T, 3 unequal, 1,000 km, 1:12.6", MOE_2T, 6144, 8192, {4, 2, 2}, {NULL}, 1000, 12.6, false, NULL},
    {"MoE 2T, H100 + B200, 1 km, 1:2.8", MOE_2T, 6144, 8192, {4, 2}, {NULL, B200}, 1, 2.8, false, NULL},
    {"Llama 4 Maverick, 1 building, 1:2.8", "llama4-maverick", 6144, 8192, {2}, {NULL}, 0, 2.8, false, NULL},
    {"Llama 4 Maverick, 2 buildings, 1 km, 1:7", "llama4-maverick", 6144, 8192, {1, 1}, {NULL}, 1, 7, false, NULL},
    {"Llama 4 Maverick, 2 buildings, 1,000 km, 1:12.6", "llama4-maverick", 6144, 8192, {1, 1}, {NULL}, 1000, 12.6, false, NULL},
    {"Llama 4 Maverick, 2 unequal, 100 km, 1:2.8", "llama4-maverick", 9216, 8192, {2, 1}, {NULL}, 100, 2.8, false, NULL},
    {"DeepSeek-V3, 1 building, 1:1", "deepseek-v3", 12288, 4096, {1}, {NULL}, 0, 1, false, NULL},
    {"DeepSeek-V3, 2 buildings, 100 km, 1:7", "deepseek-v3", 12288, 4096, {1, 1}, {NULL}, 100, 7, false, NULL},
    {"DeepSeek-V3, 3 buildings, 1 km, 1:2.8", "deepseek-v3", 13824, 4096, {1, 1, 1}, {NULL}, 1, 2.8, false, NULL},
    {"dense 70B, 1 building, 1:1", "llama3.1-70b", 1536, 8192, {1}, {NULL}, 0, 1, true, NULL},
    {"dense 70B, 2 buildings, 100 km, 1:7", "llama3.1-70b", 1536, 8192, {1, 1}, {NULL}, 100, 7, true, NULL},
    {"dense 70B, 2 buildings, 1,000 km, 1:12.6", "llama3.1-70b", 1536, 8192, {1, 1}, {NULL}, 1000, 12.6, true, NULL},
    {"dense 70B, H100 + H200, 1 km, 1:1", "llama3.1-70b", 1536, 8192, {1, 1}, {NULL, H200}, 1, 1, false, NULL},
    {"dense 8B, VMs of 4 A100 in three zones of two regions", "llama3.1-8b", 512, 4096, {0}, {NULL}, 0, 0, false, "gcp_a100_two_regions"},
    {"dense 70B, 4 unequal buildings in two regions, 1,000 km", "llama3.1-70b", 6144, 8192, {0}, {NULL}, 0, 0, false, "two_regions"},
};
/* clang-format on */
enum { N_POINTS = sizeof POINTS / sizeof *POINTS };

typedef struct answer {
    const point *point;
    uint32_t devices;
    double ours_s, mfu_frac, gap_frac, search_s; /* ours_s NAN: no plan */
    double baseline_s[ORR_BASELINES];            /* NAN: it finds none */
    double dimension_s[DIMENSIONS];
    const char *plan;
} answer;

/* --- the machine of a point -------------------------------------------------------------- */

static uint32_t sites_of(const point *p)
{
    uint32_t n = 0;
    while (n < SITES && p->zones[n] > 0)
        n++;
    return n;
}

/* Levels as in catalog/clusters: latencies are multiples of 5 us in a rack, gradients' traffic by
 * queue pair as Meta has it. */
static void write_cluster(FILE *out, const point *p)
{
    const uint32_t n = sites_of(p);
    uint32_t most = 0;
    for (uint32_t s = 0; s < n; s++)
        most = p->zones[s] > most ? p->zones[s] : most;
    fputs(
        "clusters:\n  point:\n    device: h100_sxm_80g\n    basis: assumed\n    source: a design point\n    levels:\n"
        "      - {name: host, size: 8, technology: NVLink4, in_network_reduction: true}\n"
        "      - {name: rack, size: 2, technology: RoCE 400GbE, latency: 5us, oversubscription: 1:1}\n"
        "      - {name: zone, size: 192, technology: RoCE 400GbE, latency: 35us, oversubscription: 1:1}\n",
        out);
    if (most > 1)
        fprintf(
            out,
            "      - {name: building, size: %u, technology: RoCE 400GbE, latency: 75us, oversubscription: 1:%g}\n",
            most, n == 1 ? p->oversubscription : 2.8);
    if (n == 1)
        return;
    fputs("    sites:\n", out);
    for (uint32_t s = 0; s < n; s++)
        fprintf(out, "      - {name: building_%u, region: %s_%u, devices: %u, device: %s}\n", s,
                p->km >= 1000 ? "region" : "campus", p->km >= 1000 ? s : 0, p->zones[s] * ZONE,
                p->device[s] != NULL ? p->device[s] : "h100_sxm_80g");
    fprintf(
        out,
        "    cuts:\n      - between: %s\n        technology: RoCE 400GbE\n        distance: %ukm\n        oversubscription: 1:%g\n"
        "        transport: {paths: 76, balance: qp, queue_pairs: 16, outstanding: 128, segment: 512KiB, "
        "congestion: none, buffers: deep}\n",
        p->km >= 1000 ? "regions" : "sites", p->km, p->oversubscription);
}

static const orr_cluster *written_cluster(const point *p, const orr_catalog *catalog,
                                          orr_arena *arena)
{
    char path[] = "/tmp/explore_point_XXXXXX.yaml";
    const orr_cluster *cluster;
    const int fd = mkstemps(path, 5);
    FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (out == NULL)
        check(orr_fail(&err, ORR_IO, "cannot write %s", path));
    write_cluster(out, p);
    fclose(out);
    const orr_status status = orr_cluster_load(catalog, path, arena, &cluster, &err);
    unlink(path);
    check(status);
    return cluster;
}

static const orr_cluster *cluster_of(const point *p, const orr_catalog *catalog, orr_arena *arena)
{
    const orr_cluster *cluster;
    if (p->cluster == NULL)
        return written_cluster(p, catalog, arena);
    check(orr_cluster_load(catalog, p->cluster, arena, &cluster, &err));
    return cluster;
}

/* --- a point ----------------------------------------------------------------------------- */

static const char *const DIMENSION[DIMENSIONS] = {"placement", "scheduling", "network"};

static bool unaided;

static orr_explore_options options_of(const point *p, double limit_s, orr_arena *arena)
{
    orr_explore_options o;
    orr_explore_options_init(&o);
    o.fix = orr_arena_printf(arena, "batch=%u,seq=%u,precision=bf16", p->batch, p->seq);
    o.workload.seq = p->seq;
    o.limit_ns = (int64_t)(1e9 * limit_s);
    if (o.fix == NULL)
        check(orr_fail(&err, ORR_NO_MEMORY, "out of memory"));
    return o;
}

static double seconds_of(const orr_explored *e)
{
    return 1e-9 * (double)e->step_ns;
}

/* The mean and the 95th percentile of the step of our first plan, with transfers over cuts as flows,
 * and what dominates there. */
static void put_flows(const orr_model *model, const orr_cluster *cluster,
                      const orr_explore_options *o, const orr_exploration *found, orr_arena *arena)
{
    orr_exploration first = *found;
    orr_network_check_options how;
    const orr_explored_network *rows;
    uint32_t n = 0;
    orr_network_check_options_init(&how);
    if (found->n > 0 && orr_explore_has_network(cluster))
        check(orr_explore_network(model, cluster, o, &how, 1, &first, arena, &rows, &n, &err));
    if (n == 0)
        return;
    put_number("flows_mean_s", 1e-9 * (double)rows[0].check.mean_ns);
    put_number("flows_p95_s", 1e-9 * (double)rows[0].check.p95_ns);
    put_text("flows_cause", orr_network_cause_name((orr_network_cause)rows[0].check.cause));
}

static void run_ours(const orr_model *model, const orr_cluster *cluster, const point *p,
                     double limit_s, answer *ret, orr_arena *arena)
{
    const orr_explore_options o = options_of(p, limit_s, arena);
    orr_exploration e;
    const double start_s = now_s();
    check(orr_explore(model, cluster, &o, arena, &e, &err));
    ret->search_s = now_s() - start_s;
    ret->ours_s = ret->mfu_frac = NAN;
    ret->gap_frac = e.gap_frac;
    ret->plan = e.n > 0               ? plan_text(&e.best[0].plan, arena)
                : e.infeasible != NULL ? e.infeasible
                                       : "stopped before a plan was found";
    if (e.n > 0) {
        ret->ours_s = seconds_of(&e.best[0]);
        ret->mfu_frac = e.best[0].mfu_frac;
    }
    put_number("step_s", ret->ours_s);
    put_flows(model, cluster, &o, &e, arena);
    put_number("mfu_frac", ret->mfu_frac);
    put_number("bound_s", 1e-9 * e.bound);
    put_number("gap_frac", e.gap_frac);
    put_number("search_s", ret->search_s);
    printf(", \"complete\": %s", e.complete ? "true" : "false");
    put_number("space", e.space);
    put_number("simulated", (double)e.simulated);
    put_text("plan", ret->plan);
}

static void run_baselines(const orr_model *model, const orr_cluster *cluster, const point *p,
                          answer *ret, orr_arena *arena)
{
    orr_explore_options o = options_of(p, 0, arena);
    o.unaided = unaided;
    printf(", \"unaided\": %s, \"baselines\": {", unaided ? "true" : "false");
    for (int b = 0; b < ORR_BASELINES; b++) {
        orr_explored e;
        const orr_status status = orr_baseline_of((orr_baseline)b, model, cluster, &o, &e, &err);
        if (status == ORR_NO_MEMORY)
            check(status);
        ret->baseline_s[b] = status == ORR_OK ? seconds_of(&e) : NAN;
        printf("%s\"%s\": {\"found\": %s", b > 0 ? ", " : "", orr_baseline_name((orr_baseline)b),
               status == ORR_OK ? "true" : "false");
        put_number("step_s", ret->baseline_s[b]);
        put_text(status == ORR_OK ? "plan" : "why",
                 status == ORR_OK ? plan_text(&e.plan, arena) : err.text);
        putchar('}');
    }
    putchar('}');
}

static void run_ablation(const orr_model *model, const orr_cluster *cluster, const point *p,
                         double limit_s, answer *ret, orr_arena *arena)
{
    for (int d = 0; d < DIMENSIONS; d++) {
        orr_explore_options o = options_of(p, limit_s / 2, arena);
        orr_exploration e;
        char key[32];
        o.dimensions = DIMENSION[d];
        check(orr_explore(model, cluster, &o, arena, &e, &err));
        ret->dimension_s[d] = e.n > 0 ? seconds_of(&e.best[0]) : NAN;
        snprintf(key, sizeof key, "%s_s", DIMENSION[d]);
        put_number(key, ret->dimension_s[d]);
    }
}

/* Index of the quickest baseline; ORR_BASELINES: none finds a plan. */
static int best_baseline(const answer *a)
{
    int best = ORR_BASELINES;
    for (int b = 0; b < ORR_BASELINES; b++)
        if (isfinite(a->baseline_s[b]) &&
            (best == ORR_BASELINES || a->baseline_s[b] < a->baseline_s[best]))
            best = b;
    return best;
}

static double best_s(const answer *a)
{
    const int best = best_baseline(a);
    return best < ORR_BASELINES ? a->baseline_s[best] : NAN;
}

static void run_point(const point *p, const orr_catalog *catalog, double limit_s, answer *ret,
                      orr_arena *arena)
{
    const orr_model *model;
    *ret = (answer){.point = p};
    check(orr_model_load(p->model, arena, &model, &err));
    if (model->moe.experts > 0)
        limit_s *= EXPERTS_TIMES;
    const orr_cluster *cluster = cluster_of(p, catalog, arena);
    ret->devices = cluster->n_devices;
    printf("{\"bench\": \"explore_point\"");
    put_text("point", p->name);
    put_text("model", model->name);
    put_number("devices", ret->devices);
    put_number("batch", p->batch);
    put_number("seq", p->seq);
    run_ours(model, cluster, p, limit_s, ret, arena);
    run_baselines(model, cluster, p, ret, arena);
    run_ablation(model, cluster, p, limit_s, ret, arena);
    put_number("over_production_frac", ret->baseline_s[ORR_BASELINE_PRODUCTION] / ret->ours_s - 1);
    put_number("over_best_frac", best_s(ret) / ret->ours_s - 1);
    put_text("best_baseline", best_baseline(ret) < ORR_BASELINES
                                  ? orr_baseline_name((orr_baseline)best_baseline(ret))
                                  : "");
    put_number("peak_gib", peak_gib());
    printf("}\n");
    fflush(stdout);
}

/* --- tables ------------------------------------------------------------------------------ */

static void cell(FILE *out, const char *format, double value)
{
    fputs(" ", out);
    if (isfinite(value))
        fprintf(out, format, value);
    else
        fputs("-", out);
    fputs(" |", out);
}

static void row_of_gains(FILE *out, const answer *a)
{
    const int best = best_baseline(a);
    fprintf(out, "| %s | %u |", a->point->name, a->devices);
    cell(out, "%.3f s", a->ours_s);
    cell(out, "%.1f %%", 100 * a->mfu_frac);
    cell(out, "%.3f s", a->baseline_s[ORR_BASELINE_PRODUCTION]);
    fprintf(out, " %s", best < ORR_BASELINES ? orr_baseline_name((orr_baseline)best) : "-");
    cell(out, "%.3f s", best_s(a));
    cell(out, "%+.1f %%", 100 * (a->baseline_s[ORR_BASELINE_PRODUCTION] / a->ours_s - 1));
    cell(out, "%+.1f %%", 100 * (best_s(a) / a->ours_s - 1));
    cell(out, "%.1f %%", 100 * a->gap_frac);
    cell(out, "%.1f s", a->search_s);
    fputs("\n", out);
}

static void write_tables(FILE *out, const answer *answers, uint32_t n)
{
    fputs(
        "| point | devices | ours | MFU | production | best baseline | over production | over the best | gap | search |\n"
        "|---|---|---|---|---|---|---|---|---|---|\n",
        out);
    for (uint32_t i = 0; i < n; i++)
        row_of_gains(out, &answers[i]);
    fputs("\nSteps of all baselines, in seconds:\n\n| point |", out);
    for (int b = 0; b < ORR_BASELINES; b++)
        fprintf(out, " %s |", orr_baseline_name((orr_baseline)b));
    fputs("\n|---|", out);
    for (int b = 0; b < ORR_BASELINES; b++)
        fputs("---|", out);
    for (uint32_t i = 0; i < n; i++) {
        fprintf(out, "\n| %s |", answers[i].point->name);
        for (int b = 0; b < ORR_BASELINES; b++)
            cell(out, "%.3f", answers[i].baseline_s[b]);
    }
    fputs(
        "\n\nWhat one dimension alone earns over production:\n\n| point | placement | scheduling | network | all |\n"
        "|---|---|---|---|---|\n",
        out);
    for (uint32_t i = 0; i < n; i++) {
        const double production_s = answers[i].baseline_s[ORR_BASELINE_PRODUCTION];
        fprintf(out, "| %s |", answers[i].point->name);
        for (int d = 0; d < DIMENSIONS; d++)
            cell(out, "%+.1f %%", 100 * (production_s / answers[i].dimension_s[d] - 1));
        cell(out, "%+.1f %%", 100 * (production_s / answers[i].ours_s - 1));
        fputs("\n", out);
    }
    fputs("\nOur plans:\n\n", out);
    for (uint32_t i = 0; i < n; i++)
        fprintf(out, "- %s: `%s`\n", answers[i].point->name, answers[i].plan);
}

int main(int argc, char **argv)
{
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_catalog *catalog;
    const char *only = NULL, *markdown = NULL;
    static answer answers[N_POINTS];
    uint32_t n = 0;
    double limit_s = 12;
    bool quick = false;
    for (int i = 1; i < argc; i++) {
        const bool more = i + 1 < argc;
        if (strcmp(argv[i], "--quick") == 0)
            quick = true;
        else if (strcmp(argv[i], "--unaided") == 0)
            unaided = true;
        else if (strcmp(argv[i], "--only") == 0 && more)
            only = argv[++i];
        else if (strcmp(argv[i], "--seconds") == 0 && more)
            limit_s = strtod(argv[++i], NULL);
        else if (strcmp(argv[i], "--markdown") == 0 && more)
            markdown = argv[++i];
        else {
            fputs("usage: explore_points [--quick] [--only TEXT] [--seconds S] [--unaided] [--markdown FILE]\n",
                  stderr);
            return 2;
        }
    }
    check(orr_catalog_open(arena, &catalog, &err));
    for (uint32_t i = 0; i < N_POINTS; i++)
        if ((!quick || POINTS[i].quick) && (only == NULL || strstr(POINTS[i].name, only) != NULL))
            run_point(&POINTS[i], catalog, limit_s, &answers[n++], arena);
    FILE *out = markdown != NULL ? fopen(markdown, "w") : NULL;
    if (markdown != NULL && out == NULL)
        check(orr_fail(&err, ORR_IO, "cannot write %s", markdown));
    if (out != NULL) {
        write_tables(out, answers, n);
        fclose(out);
    }
    orr_arena_free(arena);
    return n > 0 ? 0 : 1;
}
