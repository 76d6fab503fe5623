/* SPDX-License-Identifier: Apache-2.0 */
/* Routes of TOKENS tokens (default 50,000), 58 layers, 8 of 256 experts: drawn, written, read,
 * counted and selected, in seconds of a core. Prints a JSON line for each; bytes are those of the
 * text, memory is that of the columns by token and layer.
 *
 *   bench_routes [TOKENS] [FILE] */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include <orrery/experts.h>

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void report(const char *name, double begin_s, const orr_routes *r, double bytes)
{
    const double s = now_s() - begin_s;
    const double choices = (double)r->tokens * r->layers * r->top_k;
    printf("{\"case\": \"%s\", \"ms\": %.1f, \"ns_per_choice\": %.3f, \"text_mb_per_s\": %.0f}\n",
           name, s * 1e3, s * 1e9 / choices, bytes / s / 1e6);
}

static void must(orr_status status, const orr_error *err)
{
    if (status != ORR_OK) {
        fprintf(stderr, "bench_routes: %s\n", err->text);
        exit(3);
    }
}

int main(int argc, char **argv)
{
    const uint32_t tokens = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 50000;
    const char *path = argc > 2 ? argv[2] : "bench_routes.csv";
    const orr_routes_drawn how = {.layers = 58,
                                  .experts = 256,
                                  .top_k = 8,
                                  .requests = tokens / 250 + 1,
                                  .prompt = 50,
                                  .decoded = 200,
                                  .kinds = 4,
                                  .affinity = 0.5,
                                  .chain = 0.3,
                                  .skew = 0.7};
    orr_arena *arena = orr_arena_new(0, 0), *read_to = orr_arena_new(0, 0);
    const orr_routes *routes, *back, *part;
    orr_expert_windows windows;
    struct stat about;
    orr_error err = {0};
    double begin = now_s();
    must(orr_routes_draw(&how, arena, &routes, &err), &err);
    report("draw", begin, routes, 0);
    begin = now_s();
    must(orr_routes_write(routes, path, &err), &err);
    if (stat(path, &about) != 0)
        return 3;
    const double bytes = (double)about.st_size;
    report("write", begin, routes, bytes);
    begin = now_s();
    must(orr_routes_read(path, NULL, read_to, &back, &err), &err);
    report("read", begin, back, bytes);
    printf("{\"case\": \"memory\", \"bytes_per_token_and_layer\": %.2f}\n",
           (double)orr_arena_peak_bytes(read_to) / ((double)back->tokens * back->layers));
    begin = now_s();
    must(orr_expert_windows_of_routes(back, 1, arena, &windows, &err), &err);
    report("count", begin, back, 0);
    begin = now_s();
    must(orr_routes_select(back, NULL, ORR_ROUTE_DECODE, arena, &part, &err), &err);
    report("select", begin, part, 0);
    remove(path);
    orr_arena_free(read_to);
    orr_arena_free(arena);
    return 0;
}
