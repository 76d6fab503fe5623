/* SPDX-License-Identifier: Apache-2.0 */
/* What coming back costs: state fetched over loopback from several sources, each polled by a thread
 * of its own, by one taker; and how long a source's owner is held up by keep() when nothing, half,
 * or all of it is still to be fetched. A memcpy of as many bytes stands beside it.
 *
 *   bench_team_catchup [MIB [SOURCES [ROUNDS]]]
 *
 * Prints a JSON line for each case and round: rounds after the first find the copy's memory there
 * already. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "team/catchup/catchup.h"

enum { SOURCES_MAX = 8 };
static const int64_t patient_ns = INT64_C(60) * 1000 * 1000 * 1000;

typedef struct server {
    orr_net *net;
    orr_state_provider *source;
    pthread_t thread;
    atomic_bool over;
} server;

typedef struct bench {
    server servers[SOURCES_MAX];
    const char *addresses[SOURCES_MAX];
    uint32_t n;
    size_t bytes;
    char *state, *fetched;
    orr_net *net;
    orr_state_receiver *taker;
    int wholes;
} bench;

static void need(orr_status status, const orr_error *err)
{
    if (status == ORR_OK)
        return;
    fprintf(stderr, "bench_team_catchup: %s\n", err->text);
    exit(1);
}

static void *poll_net(void *ctx)
{
    server *s = ctx;
    while (!atomic_load(&s->over))
        s->net->poll(s->net, s->net->now_ns(s->net) + 100 * 1000 * 1000);
    return NULL;
}

static void on_whole(void *ctx)
{
    ((bench *)ctx)->wholes++;
}

static void on_lost(void *ctx, const char *why)
{
    (void)ctx;
    fprintf(stderr, "bench_team_catchup: %s\n", why);
    exit(1);
}

static char *touched(size_t bytes, int value)
{
    char *memory = malloc(bytes);
    if (memory == NULL)
        exit(1);
    memset(memory, value, bytes);
    return memory;
}

static void bench_init(bench *b, size_t bytes, uint32_t n)
{
    const orr_net_system_options options = {0};
    orr_error err = {0};
    *b = (bench){.n = n, .bytes = bytes, .state = touched(bytes, 1), .fetched = touched(bytes, 0)};
    const orr_team_span state = {b->state, bytes}, fetched = {b->fetched, bytes};
    for (uint32_t i = 0; i < n; i++) {
        server *s = &b->servers[i];
        need(orr_net_system_new(&options, &s->net, &err), &err);
        need(orr_state_provider_new(s->net, "127.0.0.1:0", &state, 1, &s->source, &err), &err);
        b->addresses[i] = orr_state_provider_address(s->source);
        pthread_create(&s->thread, NULL, poll_net, s);
    }
    const orr_state_receiver_callbacks user = {.ctx = b, .whole = on_whole, .lost = on_lost};
    need(orr_net_system_new(&options, &b->net, &err), &err);
    need(orr_state_receiver_new(b->net, &fetched, 1, 0, &user, &b->taker, &err), &err);
}

static void bench_done(bench *b)
{
    orr_state_receiver_free(b->taker);
    orr_net_free(b->net);
    for (uint32_t i = 0; i < b->n; i++) {
        server *s = &b->servers[i];
        atomic_store(&s->over, true);
        s->net->interrupt(s->net);
        pthread_join(s->thread, NULL);
        orr_state_provider_free(s->source);
        orr_net_free(s->net);
    }
    free(b->state);
    free(b->fetched);
}

static void poll_once(bench *b)
{
    b->net->poll(b->net, b->net->now_ns(b->net) + 100 * 1000 * 1000);
}

/* The time of one source's keep(), the sources being on machines of their own in a real team. */
static void run_case(bench *b, const char *name, double share, uint64_t step)
{
    orr_error err = {0};
    const int wholes = b->wholes;
    uint64_t kept = orr_state_provider_counts_of(b->servers[0].source).kept_bytes;
    for (uint32_t i = 0; i < b->n; i++)
        orr_state_provider_offer(b->servers[i].source, step, 1, i, b->n);
    const int64_t begin_ns = b->net->now_ns(b->net);
    need(orr_state_receiver_begin(b->taker, step, b->addresses, b->n, patient_ns, &err), &err);
    const uint64_t before =
        (uint64_t)(share * (double)orr_state_receiver_progress_of(b->taker).chunks);
    while (orr_state_receiver_progress_of(b->taker).had < before)
        poll_once(b);
    if (share == 1) /* until the sources know */
        for (int i = 0; i < 3; i++)
            poll_once(b);
    const int64_t keep_ns = b->net->now_ns(b->net);
    need(orr_state_provider_snapshot(b->servers[0].source, &err), &err);
    const int64_t kept_ns = b->net->now_ns(b->net);
    kept = orr_state_provider_counts_of(b->servers[0].source).kept_bytes - kept;
    for (uint32_t i = 1; i < b->n; i++)
        need(orr_state_provider_snapshot(b->servers[i].source, &err), &err);
    while (b->wholes == wholes)
        poll_once(b);
    const double s = (double)(b->net->now_ns(b->net) - begin_ns) / 1e9,
                 keep_s = (double)(kept_ns - keep_ns) / 1e9;
    printf(
        "{\"case\": \"%s\", \"sources\": %u, \"mib\": %zu, \"seconds\": %.3f, \"gb_per_s\": %.2f, "
        "\"keep_ms\": %.2f, \"kept_mib\": %.0f, \"keep_gb_per_s\": %.2f}\n",
        name, b->n, b->bytes >> 20, s, (double)b->bytes / s / 1e9, keep_s * 1e3,
        (double)kept / (1 << 20), keep_s > 0 ? (double)kept / keep_s / 1e9 : 0);
}

static void run_floor(bench *b)
{
    const int64_t begin_ns = b->net->now_ns(b->net);
    memcpy(b->fetched, b->state, b->bytes);
    const double s = (double)(b->net->now_ns(b->net) - begin_ns) / 1e9;
    printf("{\"case\": \"memcpy\", \"mib\": %zu, \"seconds\": %.3f, \"gb_per_s\": %.2f}\n",
           b->bytes >> 20, s, (double)b->bytes / s / 1e9);
}

int main(int argc, char **argv)
{
    const long mib = argc > 1 ? strtol(argv[1], NULL, 10) : 1024,
               sources = argc > 2 ? strtol(argv[2], NULL, 10) : 3,
               rounds = argc > 3 ? strtol(argv[3], NULL, 10) : 3;
    if (mib < 1 || mib > 1 << 20 || sources < 1 || sources > SOURCES_MAX || rounds < 1) {
        fprintf(stderr, "usage: bench_team_catchup [MIB [SOURCES up to %d [ROUNDS]]]\n",
                SOURCES_MAX);
        return 2;
    }
    bench b;
    bench_init(&b, (size_t)mib << 20, (uint32_t)sources);
    uint64_t step = 0;
    for (long r = 0; r < rounds; r++) {
        run_floor(&b);
        run_case(&b, "keep_of_nothing", 1, step++);
        run_case(&b, "keep_of_half", 0.5, step++);
        run_case(&b, "keep_of_all", 0, step++);
        for (uint32_t i = 0; i < b.n; i++)
            orr_state_provider_withdraw(b.servers[i].source);
        run_case(&b, "keep_of_all_anew", 0, step++);
    }
    bench_done(&b);
    return 0;
}
