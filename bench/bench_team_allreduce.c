/* SPDX-License-Identifier: Apache-2.0 */
/* Times the team's all-reduce of fp32 among processes of this machine.
 *
 *   bench_team_allreduce [tcp|shm] [RANKS] [--bytes N] [--rounds N] [--chunk N] [--window N]
 * [--streams N]
 *                        [--shm N] [--socket N] [--spin-us N] [--unchecked] [--encrypt] [--address
 * HOST]
 *
 * A JSON line for each size, or for the one: the median time of an all-reduce in microseconds,
 * busbw (bytes * 2(n-1)/n over that time, as NCCL's tests have it), and the same of memcpy() by
 * each rank at once, of the bytes that a rank adds and copies. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "team/ring/ring.h"

enum { LARGEST = 128 << 20, ROUNDS_MIN = 11, ROUNDS_MAX = 2001, WARM = 3, RANKS_MAX = 16 };
static const size_t sizes[] = {8,       1 << 10, 8 << 10, 64 << 10, 256 << 10,
                               1 << 20, 2 << 20, 8 << 20, 32 << 20, LARGEST};

typedef struct choice {
    const char *transport, *host;
    uint32_t ranks;
    size_t bytes;
    int rounds;
    orr_ring_options ring;
    orr_net_system_options net;
} choice;

typedef struct rank {
    const choice *choice;
    orr_net *net;
    orr_ring *ring;
    uint64_t step;
    uint32_t me, reduced;
    bool broken;
    float *in, *out;
    double times_us[ROUNDS_MAX];
} rank;

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int rounds_of(const choice *c, size_t bytes)
{
    if (c->rounds > 0)
        return c->rounds < ROUNDS_MAX ? c->rounds : ROUNDS_MAX;
    const size_t rounds = ((size_t)1 << 30) / (bytes + 64);
    return rounds < ROUNDS_MIN ? ROUNDS_MIN : rounds > ROUNDS_MAX ? ROUNDS_MAX : (int)rounds;
}

static void on_reduced(void *ctx, uint32_t op)
{
    (void)op;
    ((rank *)ctx)->reduced++;
}

static void on_broken(void *ctx, uint32_t member, const char *why)
{
    rank *self = ctx;
    fprintf(stderr, "rank %u: rank %u: %s\n", self->me, member, why);
    self->broken = true;
}

static bool all_reduce(rank *self, size_t bytes)
{
    uint32_t op;
    orr_error err = {0};
    const uint32_t before = self->reduced;
    if (orr_ring_post(self->ring, ORR_TEAM_FP32, self->in, self->out, bytes / sizeof(float), &op,
                      &err) != ORR_OK) {
        fprintf(stderr, "rank %u: %s\n", self->me, err.text);
        return false;
    }
    while (self->reduced == before && !self->broken)
        self->net->poll(self->net, INT64_MAX);
    if (!self->broken)
        orr_ring_step(self->ring, ++self->step);
    return !self->broken;
}

static double now_us(const rank *self)
{
    return 1e-3 * (double)self->net->now_ns(self->net);
}

/* Sums are those of small whole numbers, and so exact. */
static bool is_right(const rank *self, size_t bytes)
{
    const float ranks = (float)self->choice->ranks;
    for (size_t i = 0; i < bytes / sizeof(float); i++)
        if (self->out[i] != ranks * (float)(i % 1000) + ranks * (ranks - 1) / 2)
            return false;
    return true;
}

static bool run_size(rank *self, size_t bytes)
{
    const int rounds = rounds_of(self->choice, bytes);
    const double ranks = self->choice->ranks;
    memset(self->out, 0, bytes);
    for (int i = -WARM; i < rounds; i++) {
        const double begin_us = now_us(self);
        if (!all_reduce(self, bytes))
            return false;
        if (i >= 0)
            self->times_us[i] = now_us(self) - begin_us;
    }
    if (!is_right(self, bytes)) {
        fprintf(stderr, "rank %u: the sum is wrong\n", self->me);
        return false;
    }
    qsort(self->times_us, (size_t)rounds, sizeof *self->times_us, by_value);
    const double us = self->times_us[rounds / 2];
    if (self->me == 0)
        printf("{\"transport\": \"team %s\", \"ranks\": %.0f, \"bytes\": %zu, \"us\": %.2f, "
               "\"GB_per_s\": %.3f, \"busbw_GB_per_s\": %.3f}\n",
               self->choice->transport, ranks, bytes, us, 1e-3 * (double)bytes / us,
               1e-3 * (double)bytes / us * 2 * (ranks - 1) / ranks);
    fflush(stdout);
    return true;
}

/* Each tells the parent its address, and is told all of them. */
static bool meet(rank *self, int parent)
{
    static char all[RANKS_MAX][ORR_NET_ADDRESS_BYTES];
    const char *addresses[RANKS_MAX];
    char mine[ORR_NET_ADDRESS_BYTES] = {0};
    const uint32_t n = self->choice->ranks;
    orr_error err = {0};
    snprintf(mine, sizeof mine, "%s", orr_ring_address(self->ring));
    const size_t bytes = n * sizeof mine;
    if (write(parent, mine, sizeof mine) != (ssize_t)sizeof mine ||
        recv(parent, all, bytes, MSG_WAITALL) != (ssize_t)bytes)
        return false;
    for (uint32_t i = 0; i < n; i++)
        addresses[i] = all[i];
    if (orr_ring_form(self->ring, 1, 0, addresses, n, self->me, &err) == ORR_OK)
        return true;
    fprintf(stderr, "rank %u: %s\n", self->me, err.text);
    return false;
}

static float *numbers(uint32_t me, bool fill)
{
    float *at = orr_malloc_aligned(LARGEST);
    for (size_t i = 0; at != NULL && i < LARGEST / sizeof *at; i++)
        at[i] = fill ? (float)(i % 1000) + (float)me : 0;
    return at;
}

/* A core each, where there are enough, as mpirun does it. */
static void bind_to_core(const choice *c, uint32_t me)
{
    cpu_set_t core;
    CPU_ZERO(&core);
    CPU_SET(me, &core);
    if (c->ranks <= sysconf(_SC_NPROCESSORS_ONLN) && sched_setaffinity(0, sizeof core, &core) != 0)
        fprintf(stderr, "rank %u: not bound to a core\n", me);
}

static bool run_rank(const choice *c, uint32_t me, int parent)
{
    static rank self;
    char where[ORR_NET_ADDRESS_BYTES];
    orr_error err = {0};
    self = (rank){.choice = c, .me = me, .in = numbers(me, true), .out = numbers(me, false)};
    bind_to_core(c, me);
    const orr_ring_callbacks user = {.ctx = &self, .reduced = on_reduced, .broken = on_broken};
    snprintf(where, sizeof where, "%s:0%s", c->host,
             strcmp(c->transport, "shm") == 0 ? "|shm" : "");
    bool good = self.in != NULL && self.out != NULL;
    if (good &&
        (orr_net_system_new(&c->net, &self.net, &err) != ORR_OK ||
         orr_ring_new(self.net, where, &c->ring, NULL, &user, &self.ring, &err) != ORR_OK)) {
        fprintf(stderr, "rank %u: %s\n", me, err.text);
        good = false;
    }
    good = good && meet(&self, parent);
    for (size_t i = 0; good && i < sizeof sizes / sizeof *sizes; i++)
        if (c->bytes == 0 || c->bytes == sizes[i])
            good = run_size(&self, sizes[i]);
    /* Who is first waits for the others: a neighbour that goes breaks the ring. */
    char word = 0;
    if (good)
        good = write(parent, &word, 1) == 1 && recv(parent, &word, 1, 0) == 1;
    orr_ring_free(self.ring);
    orr_net_free(self.net);
    orr_free(self.in);
    orr_free(self.out);
    return good;
}

static bool gather(int sockets[RANKS_MAX], uint32_t n, size_t bytes)
{
    static char all[RANKS_MAX * ORR_NET_ADDRESS_BYTES];
    for (uint32_t i = 0; i < n; i++)
        if (recv(sockets[i], all + i * bytes, bytes, MSG_WAITALL) != (ssize_t)bytes)
            return false;
    for (uint32_t i = 0; i < n; i++)
        if (send(sockets[i], all, bytes == 1 ? 1 : n * bytes, MSG_NOSIGNAL) < 0)
            return false;
    return true;
}

static int run(const choice *c)
{
    int sockets[RANKS_MAX], status, bad = 0;
    pid_t pids[RANKS_MAX];
    for (uint32_t i = 0; i < c->ranks; i++) {
        int both[2];
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, both) != 0)
            return 1;
        pids[i] = fork();
        if (pids[i] == 0) {
            for (uint32_t k = 0; k < i; k++)
                close(sockets[k]);
            close(both[0]);
            _exit(run_rank(c, i, both[1]) ? 0 : 1);
        }
        close(both[1]);
        sockets[i] = both[0];
    }
    bad = !gather(sockets, c->ranks, ORR_NET_ADDRESS_BYTES) || !gather(sockets, c->ranks, 1);
    for (uint32_t i = 0; i < c->ranks; i++)
        close(sockets[i]);
    for (uint32_t i = 0; i < c->ranks; i++)
        bad |= waitpid(pids[i], &status, 0) != pids[i] || status != 0;
    return bad;
}

static int usage(void)
{
    fprintf(stderr,
            "usage: bench_team_allreduce [tcp|shm] [RANKS up to %d] [--bytes N] [--rounds N] "
            "[--chunk N] [--window N] [--streams N] [--shm N] [--socket N] [--spin-us N] "
            "[--unchecked] [--encrypt] [--address HOST]\n",
            RANKS_MAX);
    return 2;
}

static bool parse(int argc, char **argv, choice *c)
{
    int i = 1;
    if (i < argc && argv[i][0] != '-')
        c->transport = argv[i++];
    if (i < argc && argv[i][0] != '-')
        c->ranks = (uint32_t)strtoul(argv[i++], NULL, 10);
    for (; i < argc; i++) {
        if (strcmp(argv[i], "--unchecked") == 0) {
            c->net.unchecked = true;
            continue;
        }
        if (strcmp(argv[i], "--encrypt") == 0) {
            c->net.key = (orr_net_key){"a key of this benchmark", 23};
            continue;
        }
        if (i + 1 == argc)
            return false;
        const char *name = argv[i++];
        const int64_t value = strtoll(argv[i], NULL, 10);
        if (strcmp(name, "--bytes") == 0)
            c->bytes = (size_t)value;
        else if (strcmp(name, "--rounds") == 0)
            c->rounds = (int)value;
        else if (strcmp(name, "--chunk") == 0)
            c->ring.chunk_bytes = (uint32_t)value;
        else if (strcmp(name, "--window") == 0)
            c->ring.window = (uint32_t)value;
        else if (strcmp(name, "--streams") == 0)
            c->ring.streams = (uint32_t)value;
        else if (strcmp(name, "--shm") == 0)
            c->net.shm_bytes = value;
        else if (strcmp(name, "--socket") == 0)
            c->net.socket_bytes = value;
        else if (strcmp(name, "--spin-us") == 0)
            c->net.spin_ns = value * 1000;
        else if (strcmp(name, "--address") == 0)
            c->host = argv[i];
        else
            return false;
    }
    return c->ranks >= 1 && c->ranks <= RANKS_MAX &&
           (strcmp(c->transport, "tcp") == 0 || strcmp(c->transport, "shm") == 0);
}

int main(int argc, char **argv)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    choice c = {.transport = "tcp", .host = "127.0.0.1", .ranks = 2, .net.spin_ns = -1};
    if (!parse(argc, argv, &c))
        return usage();
    /* Where ranks outnumber cores, who waits is in the way of who is waited for. */
    if (c.net.spin_ns < 0)
        c.net.spin_ns = c.ranks <= cores ? 2000 * 1000 : 0;
    return run(&c);
}
