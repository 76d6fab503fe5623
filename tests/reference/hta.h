/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTA_H
#define HTA_H

/* The traces and the tables that HolisticTraceAnalysis made of them; what is compared, how
 * closely and why not more closely is written in README.md. */
#include <math.h>

#include "csv.h"

#include <orrery/orrery.h>

#include "analysis/common.h"

typedef struct hta_case {
    const char *folder; /* in expected/hta */
    const char *traces; /* path below the traces, a printf format of the rank */
    uint32_t n_files;
    uint32_t rank;     /* of the only file, where the tables name it */
    int32_t step_last; /* HTA leaves out the last step where there are several; -1: one */
    bool whole_us;     /* all times are whole microseconds: values agree exactly */
} hta_case;

static const hta_case HTA_CASES[] = {
    {"dlrm_v100x8", "dlrm_v100x8/rank%u.device.json.gz", 8, 0, -1, true},
    {"tracediff_control_a100", "kineto/ddp_a100_w8_rank3.json.gz", 1, 3, 4, true},
    {"negq_a100", "kineto/a100_w16_missing_launches.json.gz", 1, 0, 3, true},
    {"qwen_h100", "kineto/qwen1.5-0.5b_h100.json.gz", 1, 0, -1, false},
    {"mtia_infer", "kineto/mtia_inference.json.gz", 1, 0, -1, false},
};
enum { HTA_DLRM, HTA_DDP, HTA_NEGQ, HTA_QWEN, HTA_MTIA, HTA_CASES_N };

typedef struct hta {
    const hta_case *of;
    const orr_job *job;
    orr_arena *arena;
    orr_analysis_options options; /* the window of HTA */
    orr_error err;
    unsigned differences;
} hta;

#define hta_ok(h, call)                                                                            \
    do {                                                                                           \
        if ((call) != ORR_OK)                                                                      \
            fail_msg("%s: %s", (h)->of->folder, (h)->err.text);                                    \
    } while (0)

static inline void hta_read_rank(hta *h, uint32_t i, const orr_graph **ret)
{
    const char *shared = getenv("ORRERY_SHARED");
    char path[1024] = "";
    int used = snprintf(path, sizeof path, "%s/data/traces/", shared);
    assert_true(used > 0 && (size_t)used < sizeof path);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(path + used, sizeof path - (size_t)used, h->of->traces, i);
#pragma GCC diagnostic pop
    hta_ok(h, orr_trace_read(path, NULL, ret, NULL, &h->err));
}

/* One test a case: HTA_TEST(compare_idle, HTA_DLRM) gives the case as the test's state. */
#define HTA_TEST(function, id)                                                                     \
    {                                                                                              \
#function " of " #id, function, NULL, NULL, (void *)(uintptr_t)&HTA_CASES[id]              \
    }

/* Skips the test where the traces are absent. */
static inline hta hta_begin(void **state)
{
    hta h = {.of = *state};
    if (getenv("ORRERY_SHARED") == NULL) {
        print_message("ORRERY_SHARED is not set: %s is not compared\n", h.of->folder);
        skip();
    }
    const orr_graph *graphs[8];
    for (uint32_t i = 0; i < h.of->n_files; i++)
        hta_read_rank(&h, i, &graphs[i]);
    hta_ok(&h, orr_job_build(graphs, h.of->n_files, &h.job, &h.err));
    h.arena = orr_arena_new(0, 0);
    assert_non_null(h.arena);
    orr_analysis_options_init(&h.options);
    h.options.step_last = h.of->step_last;
    return h;
}

static inline void hta_end(hta *h)
{
    orr_job_free(h->job);
    orr_arena_free(h->arena);
    if (h->differences > 0)
        fail_msg("%s: %u values differ", h->of->folder, h->differences);
}

/* A table of the case. False where HTA gave none. */
static inline bool hta_table(const hta *h, const char *name, csv *ret)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/data/traces/expected/hta/%s/%s.csv", getenv("ORRERY_SHARED"),
             h->of->folder, name);
    return csv_open(path, h->arena, ret);
}

/* got within [want - below, want + above]; what differs is printed and counted. */
static inline void hta_between(hta *h, const char *what, double got, double want, double below,
                               double above)
{
    if (got >= want - below && got <= want + above)
        return;
    if (h->differences++ < 20)
        print_error("%s: %s is %.12g, HTA has %.12g\n", h->of->folder, what, got, want);
}

static inline void hta_close(hta *h, const char *what, double got, double want, double tolerance)
{
    hta_between(h, what, got, want, tolerance, tolerance);
}

/* The ranks that were recorded: hta_ranks(h, &first, &end). */
static inline void hta_ranks(const hta *h, uint32_t *ret_first, uint32_t *ret_end)
{
    *ret_first = h->of->rank;
    *ret_end = h->of->rank + h->of->n_files;
}

/* The graph and the window of a recorded rank. */
static inline const orr_view *hta_view(hta *h, uint32_t rank)
{
    const orr_view *views;
    size_t n;
    orr_analysis_options options = orr_options_complete(&h->options);
    options.rank = rank;
    hta_ok(h, orr_find_views(h->job, &options, h->arena, &views, &n, &h->err));
    assert_int_equal(n, 1);
    return views;
}

/* Time in ns against whole microseconds of HTA, which rounds each of `n` starts up and ends down
 * where the trace has fractions: each loses less than 2 us, and none gains. */
static inline void hta_us(hta *h, const char *what, int64_t got_ns, double want_us, uint64_t n)
{
    const double us = (double)got_ns / 1000;
    if (h->of->whole_us)
        hta_close(h, what, us, want_us, 1e-6);
    else
        hta_between(h, what, us, want_us, 1e-6, 2 * (double)n);
}

#endif /* HTA_H */
