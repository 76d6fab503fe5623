/* SPDX-License-Identifier: Apache-2.0 */
#include "cases.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <orrery/orrery.h>

#include "leaks.h"

enum { SECONDS_A_CASE = 60 };

/* Only there in a sanitized build. */
__attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)(void));

static char current[512]; /* the case being tried, in words */

static void tell_current(void)
{
    const ssize_t written = write(STDERR_FILENO, current, strlen(current));
    (void)written;
}

static void on_death(int number)
{
    static const char hung[] = "no end after 60 s: ", died[] = "died: ";
    const char *why = number == SIGPROF ? hung : died;
    const ssize_t written = write(STDERR_FILENO, why, strlen(why));

    (void)written;
    tell_current();
    signal(number, SIG_DFL);
    raise(number == SIGPROF ? SIGABRT : number);
}

void cases_begin(void)
{
    signal(SIGPROF, on_death);
    if (__sanitizer_set_death_callback) {
        __sanitizer_set_death_callback(tell_current);
        return;
    }
    signal(SIGSEGV, on_death);
    signal(SIGBUS, on_death);
    signal(SIGFPE, on_death);
    signal(SIGABRT, on_death);
}

/* Of the processor, so that a busy machine is no hang; 0: without end. */
static void give_seconds(int seconds)
{
    setitimer(ITIMER_PROF, &(struct itimerval){.it_value.tv_sec = seconds}, NULL);
}

static void describe(const broken *how)
{
    if (how->flip)
        snprintf(current, sizeof current, "%s, %s, %s, byte %zu xor 0x%02x\n", how->name, how->form,
                 how->tolerant ? "tolerant" : "strict", how->at, how->flip);
    else
        snprintf(current, sizeof current, "%s, %s, %s, first %zu bytes\n", how->name, how->form,
                 how->tolerant ? "tolerant" : "strict", how->len);
}

static void blame(tally *result, const char *what)
{
    if (!*result->fault)
        snprintf(result->fault, sizeof result->fault, "%s: %.400s", what, current);
}

/* Every index of the graph points at something. */
static bool is_sound(const orr_graph *g)
{
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (g->name[i] >= g->n_strings || g->lane[i] >= g->n_lanes || g->duration_ns[i] < 0 ||
            (g->parent[i] != ORR_NONE && g->parent[i] >= g->n_nodes) ||
            g->dep_first[i] > g->dep_first[i + 1] || !orr_graph_str(g, g->name[i]))
            return false;
    for (uint32_t i = 0; i < g->n_deps; i++)
        if (g->dep[i] >= g->n_nodes)
            return false;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        orr_attr_iter attrs = orr_graph_attrs(g, i);
        for (orr_attr attr; orr_attr_next(&attrs, &attr);)
            if (attr.name >= g->n_strings)
                return false;
    }
    return g->n_nodes == 0 || g->dep_first[g->n_nodes] == g->n_deps;
}

static bool is_one_line(const char *text)
{
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20)
            return false;
    return *text != '\0';
}

static void judge_refusal(orr_status status, const orr_error *err, const orr_graph *graph,
                          tally *result)
{
    result->refused++;
    result->by_status[(unsigned)status % 16]++;
    if (!is_one_line(err->text))
        blame(result, "the error is not one line of text");
    if (err->status != status)
        blame(result, "the error has another status");
    if (graph)
        blame(result, "a graph was returned with an error");
    if (status == ORR_NO_MEMORY || status == ORR_CANCELED || status == ORR_IO)
        blame(result, orr_status_name(status));
}

/* A refusal further on is an answer too, when it says why. */
static void judge_use(orr_status status, const orr_error *err, const char *what, tally *result)
{
    if (status != ORR_OK &&
        (!is_one_line(err->text) || err->status != status || status == ORR_NO_MEMORY))
        blame(result, what);
}

/* Whatever a reader lets through, the rest of the house lives with: every analysis, every writer.
 */
static void use(const orr_job *job, tally *result)
{
    static const orr_format formats[] = {ORR_FORMAT_CHAKRA, ORR_FORMAT_CHROME, ORR_FORMAT_PERFETTO,
                                         ORR_FORMAT_JSON,   ORR_FORMAT_TEXT,   ORR_FORMAT_DOT,
                                         ORR_FORMAT_GRAPHML};
    orr_arena *arena = orr_arena_new(0, 0);
    orr_error err = {.text = ""};
    size_t n;
    const orr_analysis *analyses = orr_analyses(&n);

    for (size_t i = 0; arena && i < n; i++) {
        orr_table table;
        judge_use(analyses[i].run(job, NULL, arena, &table, &err), &err, analyses[i].name, result);
        orr_arena_reset(arena);
    }
    orr_arena_free(arena);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        judge_use(orr_trace_write("/dev/null", formats[i], job->graphs[0], &err), &err,
                  orr_format_name(formats[i]), result);
    result->used++;
}

/* The graph goes, one way or the other. */
static void use_graph(const orr_graph *graph, tally *result)
{
    const orr_job *job = NULL;
    orr_error err = {.text = ""};
    const orr_status status = orr_job_build(&graph, 1, &job, &err);

    judge_use(status, &err, "no job of one graph", result);
    if (status == ORR_OK)
        use(job, result);
    else
        orr_graph_free(graph);
    orr_job_free(job);
}

void try_broken(uint8_t *bytes, const broken *how, tally *result)
{
    const orr_graph *graph = NULL;
    orr_read_options options;
    orr_read_report report;
    orr_error err = {.text = ""};

    describe(how);
    orr_read_options_init(&options);
    options.tolerant = how->tolerant;
    const size_t before = allocated_bytes();
    give_seconds(SECONDS_A_CASE);
    if (how->flip)
        bytes[how->at] ^= how->flip;
    const orr_status status =
        orr_trace_read_memory(bytes, how->len, &options, &graph, &report, &err);
    if (how->flip)
        bytes[how->at] ^= how->flip;
    result->tried++;
    if (status == ORR_OK) {
        result->read++;
        if (!is_sound(graph))
            blame(result, "the graph is not sound");
        if (how->use)
            use_graph(graph, result);
        else
            orr_graph_free(graph);
    } else {
        judge_refusal(status, &err, graph, result);
    }
    give_seconds(0);
    if (allocated_bytes() != before)
        blame(result, "memory leaked");
}
