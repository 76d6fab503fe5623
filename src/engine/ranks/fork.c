/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/ranks/fork.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"

/* Ranks as forked processes. Each rank leaves its result in a page of shared memory; the parent
 * waits for all. After the first failure the others get a grace period to end by themselves, as
 * their exchanges fail too, then they are killed. The reported cause is that of the first rank that
 * failed by itself: a rank whose exchange broke because another gave up is a consequence, and a
 * rank that died by a signal comes first. */

enum { ADDRESS_ROOM = 64, LOOK_NS = 1000 * 1000 };
/* Grace period for the other ranks after one has failed. */
static const int64_t GRACE_NS = INT64_C(5) * 1000 * 1000 * 1000;

/* A rank's result, in shared memory. */
typedef struct rank_end {
    _Atomic uint32_t order; /* order of failure, from 1; 0: did not fail */
    uint32_t status;
    orr_error error;
} rank_end;

typedef struct rank_ends {
    _Atomic uint32_t failed;
    rank_end of[];
} rank_ends;

typedef struct rank_process {
    pid_t pid; /* 0: has ended */
    bool ended_by_us;
    int how; /* status of waitpid() */
} rank_process;

typedef struct ranks_job {
    uint32_t n;
    int64_t deadline_ns;
    orr_ranks_body *body;
    void *ctx;
    orr_transport_shm *shm; /* or by TCP: */
    int *listeners;         /* shape (n) */
    char (*addresses)[ADDRESS_ROOM];
    const char **address_of;
    rank_ends *ends;
    size_t ends_bytes;
    rank_process *processes; /* shape (n); 0 is this process */
} ranks_job;

static orr_status make_listeners(ranks_job *job, orr_error *err)
{
    job->listeners = orr_calloc(job->n, sizeof *job->listeners);
    job->addresses = orr_calloc(job->n, sizeof *job->addresses);
    job->address_of = orr_calloc(job->n, sizeof *job->address_of);
    if (job->listeners == NULL || job->addresses == NULL || job->address_of == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < job->n; i++)
        job->listeners[i] = -1;
    for (uint32_t i = 0; i < job->n; i++) {
        job->address_of[i] = job->addresses[i];
        ORR_TRY(orr_transport_tcp_listen("127.0.0.1", &job->listeners[i], job->addresses[i],
                                         ADDRESS_ROOM, err));
    }
    return ORR_OK;
}

static orr_status prepare(ranks_job *job, bool tcp, orr_error *err)
{
    job->processes = orr_calloc(job->n, sizeof *job->processes);
    if (job->processes == NULL)
        return orr_fail_memory(err);
    job->ends_bytes = sizeof(rank_ends) + job->n * sizeof(rank_end);
    void *map =
        mmap(NULL, job->ends_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return orr_fail(err, ORR_IO, "shared memory for %u ranks: %s", job->n, strerror(errno));
    job->ends = map;
    return tcp ? make_listeners(job, err) : orr_transport_shm_new(job->n, &job->shm, err);
}

static void close_listeners(ranks_job *job, uint32_t but)
{
    for (uint32_t i = 0; job->listeners != NULL && i < job->n; i++)
        if (i != but && job->listeners[i] >= 0) {
            close(job->listeners[i]);
            job->listeners[i] = -1;
        }
}

static void clean_up(ranks_job *job)
{
    close_listeners(job, UINT32_MAX);
    orr_free(job->listeners);
    orr_free(job->addresses);
    orr_free(job->address_of);
    orr_free(job->processes);
    orr_transport_shm_free(job->shm);
    if (job->ends != NULL)
        munmap(job->ends, job->ends_bytes);
}

static void note_failure(const ranks_job *job, uint32_t rank, orr_status status,
                         const orr_error *error)
{
    rank_end *end = &job->ends->of[rank];
    end->status = (uint32_t)status;
    end->error = *error;
    atomic_store(&end->order, atomic_fetch_add(&job->ends->failed, 1) + 1);
}

/* Runs a rank. A failure's order is noted before peers are told, so that theirs come after it. */
static void run_rank(ranks_job *job, uint32_t rank)
{
    orr_transport *transport = NULL;
    orr_error error = {0};
    orr_status status;
    close_listeners(job, rank);
    if (job->shm != NULL)
        status = orr_transport_shm_attach(job->shm, rank, job->deadline_ns, &transport, &error);
    else
        status =
            orr_transport_tcp_connect(rank, job->n, job->listeners[rank], job->address_of,
                                      job->deadline_ns, &job->ends->failed, &transport, &error);
    close_listeners(job, UINT32_MAX);
    if (status == ORR_OK)
        status = job->body(job->ctx, transport, &error);
    if (status != ORR_OK) {
        note_failure(job, rank, status, &error);
        if (transport != NULL)
            transport->abort(transport);
    }
    if (transport != NULL)
        transport->close(transport);
}

/* A child ends with its parent. Signals that ask for an end are left to the parent, which ends all:
 * ^C at a terminal, and what launchers and schedulers send to a group, reach every process. */
static void run_child(ranks_job *job, uint32_t rank, pid_t parent)
{
    static const int left_to_parent[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    for (size_t i = 0; i < sizeof left_to_parent / sizeof *left_to_parent; i++)
        signal(left_to_parent[i], SIG_IGN);
    run_rank(job, rank);
    _exit(atomic_load(&job->ends->of[rank].order) == 0 ? 0 : 1);
}

static orr_status start(ranks_job *job, orr_error *err)
{
    const pid_t self = getpid();
    for (uint32_t rank = 1; rank < job->n; rank++) {
        const pid_t pid = fork();
        if (pid == 0)
            run_child(job, rank, self);
        if (pid < 0)
            return orr_fail(err, ORR_IO, "starting rank %u of %u: %s", rank, job->n,
                            strerror(errno));
        job->processes[rank].pid = pid;
        if (job->shm != NULL)
            orr_transport_shm_set_pid(job->shm, rank, pid);
    }
    return ORR_OK;
}

static bool ended_well(const rank_process *p)
{
    return WIFEXITED(p->how) && WEXITSTATUS(p->how) == 0;
}

/* Collects children that have ended; true when none is left. */
static bool reap_children(ranks_job *job, bool *ret_failed)
{
    bool left = false;
    for (uint32_t rank = 1; rank < job->n; rank++) {
        rank_process *p = &job->processes[rank];
        if (p->pid == 0)
            continue;
        const pid_t got = waitpid(p->pid, &p->how, WNOHANG);
        if (got == 0 || (got < 0 && errno == EINTR)) {
            left = true;
            continue;
        }
        if (got < 0)
            p->how = 0; /* the caller ignores SIGCHLD, so the status is unknown */
        p->pid = 0;
        *ret_failed |= !ended_well(p);
    }
    return !left;
}

static void end_children(ranks_job *job)
{
    for (uint32_t rank = 1; rank < job->n; rank++) {
        rank_process *p = &job->processes[rank];
        if (p->pid != 0 && !p->ended_by_us) {
            p->ended_by_us = true;
            kill(p->pid, SIGKILL);
        }
    }
}

/* Waits for all children; after a failure, no longer than the grace period. */
static void await_children(ranks_job *job, int64_t grace_ns)
{
    int64_t failed_ns = 0;
    bool failed = atomic_load(&job->ends->failed) > 0;
    while (!reap_children(job, &failed)) {
        const int64_t now_ns = orr_clock_now_ns(&orr_clock_monotonic);
        failed |= atomic_load(&job->ends->failed) > 0;
        if (failed && failed_ns == 0)
            failed_ns = now_ns;
        if (failed && now_ns - failed_ns >= grace_ns)
            end_children(job);
        orr_clock_sleep_until_ns(&orr_clock_monotonic, now_ns + LOOK_NS);
    }
}

/* The first failure that is not the consequence of a peer's, whatever the order in which they were
 * noted. */
static const rank_end *first_failure(const ranks_job *job, uint32_t *ret_rank)
{
    const rank_end *first = NULL;
    uint64_t first_key = UINT64_MAX;
    for (uint32_t rank = 0; rank < job->n; rank++) {
        const rank_end *end = &job->ends->of[rank];
        const uint32_t order = atomic_load(&end->order);
        const uint64_t key = (uint64_t)(end->error.os_errno == ECANCELED) << 32 | order;
        if (order != 0 && key < first_key) {
            first = end;
            first_key = key;
            *ret_rank = rank;
        }
    }
    return first;
}

/* The error to return: a rank that died comes first, since what others report follows from it. */
static orr_status first_cause(const ranks_job *job, orr_error *err)
{
    for (uint32_t rank = 1; rank < job->n; rank++) {
        const rank_process *p = &job->processes[rank];
        const bool told = atomic_load(&job->ends->of[rank].order) != 0;
        if (ended_well(p) || told || p->ended_by_us)
            continue;
        if (WIFSIGNALED(p->how))
            return orr_fail(err, ORR_IO, "rank %u was killed by signal %d (%s)", rank,
                            WTERMSIG(p->how), strsignal(WTERMSIG(p->how)));
        return orr_fail(err, ORR_IO, "rank %u ended with exit code %d", rank, WEXITSTATUS(p->how));
    }
    uint32_t rank = 0;
    const rank_end *first = first_failure(job, &rank);
    if (first == NULL)
        return ORR_OK;
    if (err != NULL) {
        char prefix[24];
        *err = first->error;
        snprintf(prefix, sizeof prefix, "rank %u", rank);
        orr_error_prefix(err, prefix);
    }
    return (orr_status)first->status;
}

orr_status orr_ranks_fork(uint32_t n, bool tcp, int64_t deadline_ns, orr_ranks_body *body,
                          void *ctx, orr_error *err)
{
    ranks_job job = {.n = n, .deadline_ns = deadline_ns, .body = body, .ctx = ctx};
    orr_status status;
    ORR_TRY_OUT(status, prepare(&job, tcp, err));
    status = start(&job, err);
    if (status != ORR_OK) {
        end_children(&job);
        await_children(&job, 0);
        goto out;
    }
    run_rank(&job, 0);
    await_children(&job, GRACE_NS);
    status = first_cause(&job, err);
out:
    clean_up(&job);
    return status;
}
