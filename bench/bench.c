/* SPDX-License-Identifier: Apache-2.0 */
/* Times one piece of work inside one process, on one thread, beside its floor.
 *
 *   bench read FILE           parse and build the graph, from memory
 *   bench convert FILE [HOST] read (and link) from memory and write Chakra .et to the null device
 *   bench analyze FILE        every analysis that is not a series
 *
 * Prints one JSON line: medians of the repetitions, in processor time, which others on the machine
 * change least; the floor is one pass over the same bytes
 * by the XXH3 hash, which is bound by memory, and zlib's speed where the file is compressed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <xxhash.h>

#include <orrery/orrery.h>

#include "io/stream/stream.h"

enum { REPETITIONS = 9 };

typedef struct input {
    unsigned char *bytes;
    size_t len;
    double decompress_s; /* 0: plain */
} input;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void die(const orr_error *err)
{
    fprintf(stderr, "bench: %s\n", err->text);
    exit(1);
}

static input load(const char *path)
{
    orr_error err = {0};
    orr_stream *stream;
    bool end = false;
    input in = {0};
    double start_s = now_s();

    if (orr_stream_open(path, &stream, &err) != ORR_OK)
        die(&err);
    orr_stream_set_limit(stream, (size_t)1 << 40);
    while (!end)
        if (orr_stream_fill(stream, &end, &err) != ORR_OK)
            die(&err);
    const orr_window window = orr_stream_window(stream);
    in.decompress_s = now_s() - start_s;
    in.len = window.n;
    in.bytes = malloc(window.n + 64);
    if (!in.bytes)
        exit(1);
    memcpy(in.bytes, window.bytes, window.n);
    orr_stream_close(stream);
    if (!strstr(path, ".gz") && !strstr(path, ".zst"))
        in.decompress_s = 0;
    return in;
}

static const orr_graph *read_graph(const input *in)
{
    orr_error err = {0};
    const orr_graph *graph;
    orr_read_options options;

    orr_read_options_init(&options);
    if (orr_trace_read_memory(in->bytes, in->len, &options, &graph, NULL, &err) != ORR_OK)
        die(&err);
    return graph;
}

static void run_read(const input *device, const input *host)
{
    (void)host;
    orr_graph_free(read_graph(device));
}

static void run_convert(const input *device, const input *host)
{
    orr_error err = {0};
    orr_link_report report;
    const orr_graph *graph = read_graph(device);

    if (host) {
        const orr_graph *host_graph = read_graph(host), *linked;
        if (orr_trace_link(host_graph, graph, &linked, &report, &err) != ORR_OK)
            die(&err);
        orr_graph_free(host_graph);
        orr_graph_free(graph);
        graph = linked;
    }
    if (orr_trace_write("/dev/null", ORR_FORMAT_CHAKRA, graph, &err) != ORR_OK)
        die(&err);
    orr_graph_free(graph);
}

static const orr_job *bench_job;

static void run_analyses(const input *device, const input *host)
{
    orr_error err = {0};
    size_t n;
    const orr_analysis *all = orr_analyses(&n);
    orr_arena *arena = orr_arena_new(0, 0);
    orr_table table;

    (void)device;
    (void)host;
    for (size_t i = 0; i < n; i++)
        if (!all[i].series && all[i].run(bench_job, NULL, arena, &table, &err) != ORR_OK)
            die(&err);
    orr_arena_free(arena);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_s(void (*body)(const input *, const input *), const input *a, const input *b)
{
    double s[REPETITIONS];

    body(a, b);
    for (int i = 0; i < REPETITIONS; i++) {
        const double start_s = now_s();
        body(a, b);
        s[i] = now_s() - start_s;
    }
    qsort(s, REPETITIONS, sizeof *s, by_value);
    return s[REPETITIONS / 2];
}

static volatile XXH64_hash_t sink;
static void run_floor(const input *device, const input *host)
{
    sink = XXH3_64bits(device->bytes, device->len);
    if (host)
        sink ^= XXH3_64bits(host->bytes, host->len);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*body)(const input *, const input *);
    } modes[] = {{"read", run_read}, {"convert", run_convert}, {"analyze", run_analyses}};

    if (argc < 3) {
        fputs("usage: bench read|convert|analyze FILE [HOST]\n", stderr);
        return 2;
    }
    input device = load(argv[2]), host = {0};
    const orr_graph *graph = read_graph(&device);
    orr_error err = {0};
    if (argc > 3)
        host = load(argv[3]);
    if (orr_job_build(&graph, 1, &bench_job, &err) != ORR_OK)
        die(&err);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (strcmp(modes[i].name, argv[1]) != 0)
            continue;
        const double seconds = median_s(modes[i].body, &device, argc > 3 ? &host : NULL);
        const double floor_s = median_s(run_floor, &device, argc > 3 ? &host : NULL);
        const double mb = 1e-6 * (double)(device.len + host.len);
        printf(
            "{\"bench\": \"%s\", \"file\": \"%s\", \"nodes\": %u, \"mb\": %.1f, \"median_s\": %.4f, "
            "\"mb_per_s\": %.0f, \"floor_mb_per_s\": %.0f, \"times_the_floor\": %.1f, \"decompress_mb_per_s\": %.0f}\n",
            argv[1], strrchr(argv[2], '/') ? strrchr(argv[2], '/') + 1 : argv[2],
            bench_job->graphs[0]->n_nodes, mb, seconds, mb / seconds, mb / floor_s,
            seconds / floor_s,
            device.decompress_s > 0 ? 1e-6 * (double)device.len / device.decompress_s : 0);
    }
    orr_job_free(bench_job);
    free(device.bytes);
    free(host.bytes);
    return 0;
}
