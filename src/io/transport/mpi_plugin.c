/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include <mpi.h>

#include "io/transport/mpi_plugin.h"

/* A communicator for each channel, so that threads share nothing, and one more on which a rank says
 * that it gives up. Counts of MPI are ints: long messages go in pieces. */
enum { PIECE_BYTES = 1 << 30, TESTS_BETWEEN_LOOKS = 256, GOODBYE_NS = 1000 * 1000 * 1000 };

static struct {
    MPI_Comm channels[ORR_CHANNELS], goodbye;
    int rank, ranks;
    int64_t deadline_ns;
    bool one_at_a_time;  /* the library does not take calls of several threads */
    atomic_int given_up; /* 1 + the rank that did */
    pthread_mutex_t lock;
} mpi = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void enter(void)
{
    if (mpi.one_at_a_time)
        pthread_mutex_lock(&mpi.lock);
}

static void leave(void)
{
    if (mpi.one_at_a_time)
        pthread_mutex_unlock(&mpi.lock);
}

static int explain(int error, char *why, size_t room)
{
    char text[MPI_MAX_ERROR_STRING];
    int n = 0;
    MPI_Error_string(error, text, &n);
    snprintf(why, room, "MPI: %.*s", n, text);
    return ORR_IO;
}

static int duplicate(char *why, size_t room)
{
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i <= ORR_CHANNELS; i++) {
        MPI_Comm *to = i < ORR_CHANNELS ? &mpi.channels[i] : &mpi.goodbye;
        const int error = MPI_Comm_dup(MPI_COMM_WORLD, to);
        if (error != MPI_SUCCESS)
            return explain(error, why, room);
        MPI_Comm_set_errhandler(*to, MPI_ERRORS_RETURN);
    }
    return ORR_OK;
}

static int plugin_open(int64_t deadline_ns, uint32_t *ret_rank, uint32_t *ret_ranks, char *why,
                       size_t room)
{
    int begun = 0, over = 0, level = MPI_THREAD_SINGLE;
    MPI_Initialized(&begun);
    MPI_Finalized(&over);
    if (over) {
        snprintf(why, room, "MPI has been finalized in this process");
        return ORR_INVALID;
    }
    const int error =
        begun ? MPI_Query_thread(&level) : MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    if (error != MPI_SUCCESS)
        return explain(error, why, room);
    mpi.one_at_a_time = level < MPI_THREAD_MULTIPLE;
    mpi.deadline_ns = deadline_ns;
    MPI_Comm_rank(MPI_COMM_WORLD, &mpi.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &mpi.ranks);
    const int status = duplicate(why, room);
    *ret_rank = (uint32_t)mpi.rank;
    *ret_ranks = (uint32_t)mpi.ranks;
    return status;
}

/* One way of an exchange: pieces of a message, the request of the one under way. */
typedef struct way {
    MPI_Request request;
    MPI_Comm comm;
    char *at;
    size_t left, whole;
    int peer;
    bool sends;
} way;

static int begin_piece(way *w)
{
    const int n = w->left < PIECE_BYTES ? (int)w->left : PIECE_BYTES;
    return w->sends ? MPI_Isend(w->at, n, MPI_BYTE, w->peer, 0, w->comm, &w->request)
                    : MPI_Irecv(w->at, n, MPI_BYTE, w->peer, 0, w->comm, &w->request);
}

static int fail_lengths(const way *w, size_t sent, const char *or_more, char *why, size_t room)
{
    snprintf(why, room, "rank %d sent %zu bytes%s where rank %d wants %zu", w->peer, sent, or_more,
             mpi.rank, w->whole);
    return ORR_INVALID;
}

/* Tests the piece under way and begins the next; *ret_moved when one was complete. */
static int advance(way *w, bool *ret_moved, char *why, size_t room)
{
    if (w->left == 0)
        return ORR_OK;
    int done = 0, n = 0;
    MPI_Status status;
    int error = MPI_Test(&w->request, &done, &status);
    if (error == MPI_SUCCESS && !done)
        return ORR_OK;
    int class = MPI_SUCCESS;
    if (error != MPI_SUCCESS)
        MPI_Error_class(error, &class);
    const size_t piece = w->left < PIECE_BYTES ? w->left : PIECE_BYTES;
    if (class == MPI_ERR_TRUNCATE)
        return fail_lengths(w, w->whole + 1, " or more", why, room);
    if (error != MPI_SUCCESS)
        return explain(error, why, room);
    if (!w->sends && MPI_Get_count(&status, MPI_BYTE, &n) == MPI_SUCCESS && (size_t)n != piece)
        return fail_lengths(w, w->whole - w->left + (size_t)n, "", why, room);
    w->at += piece;
    w->left -= piece;
    *ret_moved = true;
    if (w->left > 0 && (error = begin_piece(w)) != MPI_SUCCESS)
        return explain(error, why, room);
    return ORR_OK;
}

static int look_for_goodbye(void)
{
    int said = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, 0, mpi.goodbye, &said, &status) == MPI_SUCCESS && said) {
        int nobody = 0;
        atomic_compare_exchange_strong(&mpi.given_up, &nobody, status.MPI_SOURCE + 1);
    }
    return atomic_load(&mpi.given_up) == 0 ? ORR_OK : ORR_CANCELED;
}

static uint32_t plugin_given_up(void)
{
    return (uint32_t)atomic_load(&mpi.given_up) - 1;
}

static int start(way *w, char *why, size_t room)
{
    const int error = w->left > 0 ? begin_piece(w) : MPI_SUCCESS;
    return error == MPI_SUCCESS ? ORR_OK : explain(error, why, room);
}

static int move_once(way *out, way *in, bool *ret_moved, bool look, char *why, size_t room)
{
    enter();
    int status = advance(out, ret_moved, why, room);
    if (status == ORR_OK)
        status = advance(in, ret_moved, why, room);
    if (status == ORR_OK && look)
        status = look_for_goodbye();
    leave();
    return status;
}

static int plugin_exchange(const orr_exchange *x, char *why, size_t room)
{
    way out = {.comm = mpi.channels[x->channel],
               .at = (char *)x->out,
               .left = x->out_bytes,
               .whole = x->out_bytes,
               .peer = (int)x->to,
               .sends = true};
    way in = {.comm = mpi.channels[x->channel],
              .at = x->in,
              .left = x->in_bytes,
              .whole = x->in_bytes,
              .peer = (int)x->from};
    enter();
    int status = start(&in, why, room);
    if (status == ORR_OK)
        status = start(&out, why, room);
    leave();
    int64_t since_ns = 0;
    for (unsigned tests = 1; status == ORR_OK && (out.left > 0 || in.left > 0); tests++) {
        const bool look = tests % TESTS_BETWEEN_LOOKS == 0;
        bool moved = false;
        status = move_once(&out, &in, &moved, look, why, room);
        if (moved)
            since_ns = 0;
        if (status != ORR_OK || !look)
            continue;
        const int64_t at_ns = now_ns();
        if (since_ns == 0)
            since_ns = at_ns;
        if (mpi.deadline_ns > 0 && at_ns - since_ns > mpi.deadline_ns) {
            snprintf(why, room, "rank %d said nothing for %.3g s", in.left > 0 ? in.peer : out.peer,
                     1e-9 * (double)mpi.deadline_ns);
            status = ORR_IO;
        }
        sched_yield();
    }
    return status;
}

/* One word to everyone, unless they were the ones who said it. */
static void plugin_abort(void)
{
    int nobody = 0;
    atomic_compare_exchange_strong(&mpi.given_up, &nobody, mpi.rank + 1);
    static const char word = 'x';
    static atomic_bool said;
    if (atomic_exchange(&said, true))
        return;
    enter();
    for (int rank = 0; rank < mpi.ranks; rank++) {
        MPI_Request request;
        int done = rank == mpi.rank ||
                   MPI_Isend(&word, 1, MPI_BYTE, rank, 0, mpi.goodbye, &request) != MPI_SUCCESS;
        const int64_t until_ns = now_ns() + GOODBYE_NS / mpi.ranks;
        while (!done && now_ns() < until_ns)
            if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
                break;
    }
    leave();
}

/* After giving up, messages may be under way for which nobody waits: finalizing could hang, so
 * mpirun is left to find that the process ended without. */
static void plugin_close(void)
{
    if (atomic_load(&mpi.given_up) == 0)
        MPI_Finalize();
}

extern const orr_mpi_plugin orr_mpi_plugin_table;
__attribute__((visibility("default"))) const orr_mpi_plugin orr_mpi_plugin_table = {
    .version = ORR_MPI_PLUGIN_VERSION,
    .open = plugin_open,
    .exchange = plugin_exchange,
    .abort = plugin_abort,
    .given_up = plugin_given_up,
    .close = plugin_close,
};
