/* SPDX-License-Identifier: Apache-2.0 */
/* What the search is held to.
 *
 *   explore_bars anytime [TEXT]    jobs whose labels have the text: processor time to the first
 * plan and to the gap, or the gap after so much of it explore_bars known [SECONDS]   published
 * plans in their size class; reads $ORRERY_SHARED/facts/tables
 *
 * A JSON line each. A size class has the devices, the model, the batch and the precision of the
 * published job. Its plan is simulated as published; then with its degrees (tp, cp, pp, dp) fixed
 * and the rest searched; then all is searched, and the degrees are ranked among those of the plans
 * found. SECONDS: most of a search (10). */
#include "explore_common.h"

#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "jobs/job_tables.h"

enum { KEEP = 12 };

static double seconds_of(const orr_explored *e)
{
    return 1e-9 * (double)e->step_ns;
}

/* --- searches in processor time ---------------------------------------------------------- */

#define THREE_REGIONS                                                                               \
    "clusters:\n  three_regions:\n    device: h100_sxm_80g\n    basis: assumed\n"                   \
    "    source: an example\n    levels:\n"                                                         \
    "      - {name: host, size: 8, technology: NVLink4, in_network_reduction: true}\n"              \
    "      - {name: rack, size: 2, technology: RoCE 400GbE, latency: 5us, oversubscription: 1:1}\n" \
    "      - {name: zone, size: 64, technology: RoCE 400GbE, latency: 35us, oversubscription: "     \
    "1:1}\n    sites:\n"                                                                            \
    "      - {name: east, region: east, devices: 1024}\n"                                           \
    "      - {name: middle, region: middle, devices: 1024}\n"                                       \
    "      - {name: west, region: west, devices: 1024}\n    cuts:\n      - between: regions\n"      \
    "        technology: a leased wave\n"                                                           \
    "        bandwidth: {value: 0.048828125GB/s, basis: derived, note: 400 Gbit/s of 1024}\n"       \
    "        distance: 1500km\n"

/* A job: until the gap, or for so many seconds of the processor. */
typedef struct bar {
    const char *label, *model, *cluster, *fix, *allow;
    uint32_t devices, seq;
    double gap_frac, cpu_s;
} bar;
/* clang-format off */
static const bar BARS[] = {
    {"dense 405B, 16,384 devices of one building", "llama3.1-405b", "h100_24k", "batch=2048,seq=8192,precision=bf16", NULL, 16384, 8192, 0.01, 60},
    {"mixture of 2T, 98,304 devices, three buildings", "examples/models/moe_2t.yaml", "three_buildings", "batch=12288,seq=8192,precision=bf16", NULL, 0, 8192, 0.02, 30},
    {"DeepSeek-V3, 2,048 H800", "deepseek-v3", "h800_pod", "batch=15360,seq=4096,precision=bf16", NULL, 0, 4096, 0.02, 60},
    {"dense 70B, three regions, 400 Gbit/s, 64 local steps", "llama3.1-70b", THREE_REGIONS, "batch=1536,seq=8192,precision=bf16,local_steps=64", "local_steps", 0, 8192, 0.02, 30},
    {"dense 8B, 4 hosts", "llama3.1-8b", "h100_24k", "batch=64,seq=8192,precision=bf16", NULL, 32, 8192, 0.01, 30},
    {"dense 70B, devices of three kinds", "llama3.1-70b", "mixed_buildings", "batch=2048,seq=8192,precision=bf16", NULL, 0, 8192, 0.02, 30},
};
/* clang-format on */

typedef struct watch {
    double begin_s, first_s; /* of the processor */
    const char *phase;
} watch;
static volatile bool is_over;

static void end_search(int signal)
{
    (void)signal;
    is_over = true;
}

static void watch_search(void *ctx, const orr_explore_progress *at)
{
    watch *w = ctx;
    if (isnan(w->first_s) && isfinite(at->best))
        w->first_s = cpu_s() - w->begin_s;
    if (getenv("VERBOSE") != NULL)
        fprintf(stderr, "%7.2f %-16s %6llu of %6llu  best %.4f bound %.4f simulated %llu\n",
                cpu_s() - w->begin_s, at->phase, (unsigned long long)at->families_done,
                (unsigned long long)at->families, 1e-9 * at->best, 1e-9 * at->bound,
                (unsigned long long)at->simulated);
}

static const orr_cluster *bar_cluster(const orr_catalog *catalog, const bar *b, orr_arena *arena)
{
    char path[] = "/tmp/explore_bar_XXXXXX.yaml";
    const orr_cluster *cluster;
    if (strncmp(b->cluster, "clusters:", 9) != 0) {
        check(orr_cluster_load(catalog, b->cluster, arena, &cluster, &err));
        return cluster;
    }
    const int fd = mkstemps(path, 5);
    FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (out == NULL)
        check(orr_fail(&err, ORR_IO, "cannot write %s", path));
    fputs(b->cluster, out);
    fclose(out);
    const orr_status status = orr_cluster_load(catalog, path, arena, &cluster, &err);
    unlink(path);
    check(status);
    return cluster;
}

static void run_bar(const orr_catalog *catalog, const bar *b, orr_arena *arena)
{
    const orr_model *model;
    const orr_cluster *cluster = bar_cluster(catalog, b, arena);
    orr_explore_options o;
    orr_exploration e;
    check(orr_model_load(b->model, arena, &model, &err));
    watch w = {.begin_s = cpu_s(), .first_s = NAN};
    struct itimerval limit = {.it_value = {.tv_sec = (time_t)b->cpu_s}};
    orr_explore_options_init(&o);
    o.fix = b->fix;
    o.allow = b->allow;
    o.workload.seq = b->seq;
    o.max_devices = b->devices;
    o.gap_frac = b->gap_frac;
    o.threads = 1;
    o.progress = watch_search;
    o.progress_ctx = &w;
    o.stop = &is_over;
    is_over = false;
    signal(SIGPROF, end_search);
    setitimer(ITIMER_PROF, &limit, NULL);
    check(orr_explore(model, cluster, &o, arena, &e, &err));
    limit.it_value.tv_sec = 0;
    setitimer(ITIMER_PROF, &limit, NULL);
    printf("{\"bench\": \"explore_anytime\"");
    put_text("label", b->label);
    put_number("first_plan_cpu_s", w.first_s);
    put_number("cpu_s", cpu_s() - w.begin_s);
    put_number("gap_frac", e.gap_frac);
    put_number("peak_gib", peak_gib());
    put_number("space", e.space);
    put_number("families", (double)e.families);
    put_number("families_searched", (double)e.families_built);
    put_number("plans", (double)e.plans);
    put_number("estimated", (double)e.estimated);
    put_number("simulated", (double)e.simulated);
    put_number("bound_s", 1e-9 * e.bound);
    put_number("step_s", e.n > 0 ? seconds_of(&e.best[0]) : NAN);
    put_number("mfu_frac", e.n > 0 ? e.best[0].mfu_frac : NAN);
    put_text("plan", e.n > 0 ? plan_text(&e.best[0].plan, arena) : e.infeasible);
    printf("}\n");
    fflush(stdout);
}

static void run_bars(const orr_catalog *catalog, const char *only, orr_arena *arena)
{
    for (size_t i = 0; i < sizeof BARS / sizeof *BARS; i++)
        if (only == NULL || strstr(BARS[i].label, only) != NULL)
            run_bar(catalog, &BARS[i], arena);
}

/* --- published plans --------------------------------------------------------------------- */

typedef struct size_class {
    const job_case *published;
    const orr_cluster *cluster;
    uint32_t devices;
    double seconds;
    orr_arena *arena;
} size_class;

static bool same_degrees(const orr_plan *a, const orr_plan *b)
{
    return a->tp == b->tp && a->cp == b->cp && a->pp == b->pp && a->dp == b->dp && a->ep == b->ep;
}

static void search(const size_class *c, const orr_plan *fixed, orr_exploration *ret)
{
    orr_explore_options o;
    orr_explore_options_init(&o);
    o.workload = c->published->workload;
    o.min_devices = o.max_devices = c->devices;
    o.limit_ns = (int64_t)(1e9 * c->seconds);
    o.keep = KEEP;
    o.fix = orr_plan_text(fixed, c->arena);
    if (o.fix == NULL)
        check(orr_fail(&err, ORR_NO_MEMORY, "out of memory"));
    check(orr_explore(c->published->model, c->cluster, &o, c->arena, ret, &err));
}

/* One behind those whose degrees are others and that are quicker, each set of degrees once. */
static uint32_t rank_of(const orr_exploration *e, const orr_plan *plan, double step_s)
{
    uint32_t rank = 1;
    for (uint32_t i = 0; i < e->n && seconds_of(&e->best[i]) < step_s; i++) {
        bool counted = same_degrees(&e->best[i].plan, plan);
        for (uint32_t j = 0; j < i && !counted; j++)
            counted = same_degrees(&e->best[i].plan, &e->best[j].plan);
        rank += !counted;
    }
    return rank;
}

/* Its step, where it fits; INFINITY where it does not by our account of memory. */
static double put_published(const size_class *c)
{
    const job_case *p = c->published;
    orr_job_options options;
    orr_outcome outcome;
    orr_job_options_init(&options);
    options.workload = p->workload;
    check(orr_outcome_of(p->model, &p->plan, c->cluster, &options, c->arena, &outcome, &err));
    const orr_stage_memory *stage = &outcome.memory.stages[outcome.memory.worst];
    const double step_s = 1e-9 * (double)outcome.step_ns;
    const bool fits = stage->peak_bytes <= outcome.memory.capacity_bytes;
    put_number("measured_s", p->seconds);
    put_number("published_s", step_s);
    put_number("published_over_frac",
               (double)stage->peak_bytes / (double)outcome.memory.capacity_bytes - 1);
    put_text("published_plan", plan_text(&p->plan, c->arena));
    orr_outcome_free(&outcome);
    return fits ? step_s : INFINITY;
}

static double put_search(const size_class *c, const orr_plan *fixed, const char *what,
                         orr_exploration *ret)
{
    char key[32];
    search(c, fixed, ret);
    const double step_s = ret->n > 0 ? seconds_of(&ret->best[0]) : INFINITY;
    snprintf(key, sizeof key, "%s_s", what);
    put_number(key, step_s);
    snprintf(key, sizeof key, "%s_plan", what);
    put_text(key, ret->n > 0                ? plan_text(&ret->best[0].plan, c->arena)
                  : ret->infeasible != NULL ? ret->infeasible
                                            : "none was found in time");
    snprintf(key, sizeof key, "%s_gap_frac", what);
    put_number(key, ret->gap_frac);
    return step_s;
}

static void run_known(const orr_catalog *catalog, const job_case *p, double seconds,
                      orr_arena *arena)
{
    size_class c = {.published = p,
                    .devices = (uint32_t)orr_plan_ranks(&p->plan),
                    .seconds = seconds,
                    .arena = arena};
    const orr_plan common = {.batch = p->plan.batch,
                             .precision = p->plan.precision,
                             .gradients = p->plan.gradients,
                             .graphs = p->plan.graphs};
    orr_plan degrees = common;
    orr_exploration tuned, all;
    degrees.tp = p->plan.tp;
    degrees.cp = p->plan.cp;
    degrees.pp = p->plan.pp;
    degrees.dp = p->plan.dp;
    check(orr_cluster_load(catalog, p->cluster, arena, &c.cluster, &err));
    printf("{\"bench\": \"explore_known\"");
    put_text("label", p->label);
    put_text("table", p->table);
    put_number("devices", c.devices);
    put_number("batch", p->plan.batch);
    const double as_published_s = put_published(&c);
    const double tuned_s = fmin(as_published_s, put_search(&c, &degrees, "tuned", &tuned));
    const double best_s = fmin(tuned_s, put_search(&c, &common, "best", &all));
    put_number("rank", all.n > 0 ? (double)rank_of(&all, &degrees, tuned_s) : NAN);
    put_number("pays_frac", tuned_s / best_s - 1);
    printf("}\n");
    fflush(stdout);
}

static bool is_wanted(const job_cases *cases, size_t at)
{
    const job_case *c = &cases->at[at];
    const bool table =
        strcmp(c->table, "mlperf_parallelism") == 0 || strcmp(c->table, "llama3_405b_table4") == 0;
    for (size_t i = 0; i < at && table; i++)
        if (cases->at[i].configuration == c->configuration)
            return false; /* another submission of the same */
    return table && c->workload.task == ORR_TASK_PRETRAIN;
}

static int run_all_known(const orr_catalog *catalog, double seconds, orr_arena *arena)
{
    const char *shared = getenv("ORRERY_SHARED");
    job_cases cases;
    if (shared == NULL) {
        fputs("bench: ORRERY_SHARED is not set: no published plans\n", stderr);
        return 1;
    }
    if (!job_cases_init(arena, &cases))
        check(orr_fail(&err, ORR_NO_MEMORY, "out of memory"));
    job_cases_read(job_text(arena, "%s/facts/tables", shared), &cases);
    for (size_t i = 0; i < cases.n; i++)
        if (is_wanted(&cases, i)) {
            orr_arena *scratch = orr_arena_new(0, 0);
            if (scratch == NULL)
                check(orr_fail(&err, ORR_NO_MEMORY, "out of memory"));
            run_known(catalog, &cases.at[i], seconds, scratch);
            orr_arena_free(scratch);
        }
    return 0;
}

int main(int argc, char **argv)
{
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_catalog *catalog;
    int status = 0;
    if (argc < 2 || (strcmp(argv[1], "anytime") != 0 && strcmp(argv[1], "known") != 0)) {
        fputs("usage: explore_bars anytime [TEXT] | known [SECONDS]\n", stderr);
        return 2;
    }
    check(orr_catalog_open(arena, &catalog, &err));
    if (strcmp(argv[1], "known") == 0)
        status = run_all_known(catalog, argc > 2 ? strtod(argv[2], NULL) : 10, arena);
    else
        run_bars(catalog, argc > 2 ? argv[2] : NULL, arena);
    orr_arena_free(arena);
    return status;
}
