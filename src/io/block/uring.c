/* SPDX-License-Identifier: Apache-2.0 */
/* io_uring behind the interface of a block device: one system call begins a batch of requests, and
 * completions are read from memory that the kernel shares.
 *
 * Where the kernel can (6.1), completions wait until their thread asks for them (DEFER_TASKRUN):
 * nothing interrupts it between. Such a ring belongs to one thread, and is made again when another
 * one comes; it does so while nothing is in flight. The file is registered, and memory that
 * use_memory() names is, so that neither is looked up for each request. */
#include <errno.h>
#include <liburing.h>
#include <stdio.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/uio.h>

#include "base/alloc.h"
#include "base/array.h"
#include "io/block/parts.h"

/* The kernel registers pieces of at most 1 GiB, and 16384 of them. */
#define PIECE_BYTES ((size_t)1 << 30)
enum { MOST_PIECES = 16384 };

typedef struct uring {
    struct io_uring ring;
    orr_block_file *file;
    bool made;           /* there is a ring */
    bool fixed_file;     /* it has the file registered as 0 */
    bool registered;     /* it has the memory registered, as far as that can be */
    bool single;         /* it serves only one thread: */
    uint64_t thread;     /* thread_number() of that one */
    unsigned memory_hit; /* the piece that the last request was in */
    uint32_t in_flight, n_pieces;
    orr_array(struct iovec) memory; /* pieces, as use_memory() was told */
    uint32_t *free;                 /* of requests, shape (depth); the last is taken first */
    orr_block_request *requests;    /* what is still to be moved of each, shape (depth) */
} uring;

/* Threads are told apart by numbers: the next thread may have the addresses of one that ended. */
static uint64_t thread_number(void)
{
    static _Atomic uint64_t last;
    static _Thread_local uint64_t number;
    if (number == 0)
        number = atomic_fetch_add(&last, 1) + 1;
    return number;
}

static void ring_done(uring *u)
{
    if (u->made && u->fixed_file)
        (void)io_uring_unregister_files(&u->ring); /* else it stays open for a while */
    if (u->made)
        io_uring_queue_exit(&u->ring);
    u->made = u->fixed_file = u->registered = false;
    u->n_pieces = 0;
}

static void engine_free(void *engine)
{
    uring *u = engine;
    ring_done(u);
    orr_array_done(&u->memory);
    orr_free(u->free);
    orr_free(u->requests);
    orr_free(u);
}

/* 0 or -errno. Newer flags first; kernels that do not know one say EINVAL. */
static int ring_init(uring *u)
{
    static const unsigned choices[] = {
#if defined(IORING_SETUP_SINGLE_ISSUER) && defined(IORING_SETUP_DEFER_TASKRUN)
        IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
#endif
#ifdef IORING_SETUP_COOP_TASKRUN
        IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
#endif
        0,
    };
    int failed = -EINVAL;
    for (size_t k = 0; failed == -EINVAL && k < sizeof choices / sizeof choices[0]; k++) {
        struct io_uring_params params = {.flags = choices[k]};
        failed = io_uring_queue_init_params(u->file->device.depth, &u->ring, &params);
#ifdef IORING_SETUP_SINGLE_ISSUER
        u->single = (choices[k] & IORING_SETUP_SINGLE_ISSUER) != 0;
#endif
    }
    if (failed != 0)
        return failed;
    u->made = true;
    u->thread = thread_number();
    /* Both save a look-up for each call; without them things work as well. */
    (void)io_uring_register_ring_fd(&u->ring);
    u->fixed_file = io_uring_register_files(&u->ring, &u->file->fd, 1) == 0;
    return 0;
}

/* Memory that cannot be registered (a limit on locked memory) is used as it is. */
static void register_memory(uring *u)
{
    u->registered = true;
    if (u->n_pieces > 0)
        (void)io_uring_unregister_buffers(&u->ring);
    u->n_pieces = 0;
    const size_t n = u->memory.n < MOST_PIECES ? u->memory.n : MOST_PIECES;
    if (n > 0 && io_uring_register_buffers(&u->ring, u->memory.at, (unsigned)n) == 0)
        u->n_pieces = (uint32_t)n;
    u->memory_hit = 0;
}

/* The ring is there, for this thread, with all memory registered. */
static orr_status be_ready(uring *u, orr_error *err)
{
    if (u->made && u->single && u->thread != thread_number()) {
        if (u->in_flight > 0)
            return orr_fail(err, ORR_INVALID, "%s: %u requests of another thread are in flight",
                            u->file->path, u->in_flight);
        ring_done(u);
    }
    if (!u->made) {
        const int failed = ring_init(u);
        if (failed != 0)
            return orr_fail(err, ORR_IO, "%s: io_uring: %s", u->file->path, strerror(-failed));
    }
    if (!u->registered && u->in_flight == 0)
        register_memory(u);
    return ORR_OK;
}

/* The piece of registered memory that a request is in; -1: none. */
static int piece_of(uring *u, const void *data, size_t bytes)
{
    const char *const first = data;
    for (unsigned tried = 0; tried < u->n_pieces; tried++) {
        const char *const piece = u->memory.at[u->memory_hit].iov_base;
        const size_t length = u->memory.at[u->memory_hit].iov_len;
        if (first >= piece && first < piece + length && bytes <= length - (size_t)(first - piece))
            return (int)u->memory_hit;
        u->memory_hit = u->memory_hit + 1 < u->n_pieces ? u->memory_hit + 1 : 0;
    }
    return -1;
}

static void prepare(uring *u, struct io_uring_sqe *sqe, uint32_t index)
{
    const orr_block_request *request = &u->requests[index];
    const int fd = u->fixed_file ? 0 : u->file->fd;
    const bool read = request->operation == ORR_BLOCK_READ;
    const int piece = piece_of(u, request->data, request->bytes);
    if (piece >= 0 && read)
        io_uring_prep_read_fixed(sqe, fd, request->data, request->bytes, request->at, piece);
    else if (piece >= 0)
        io_uring_prep_write_fixed(sqe, fd, request->data, request->bytes, request->at, piece);
    else if (read)
        io_uring_prep_read(sqe, fd, request->data, request->bytes, request->at);
    else
        io_uring_prep_write(sqe, fd, request->data, request->bytes, request->at);
    if (u->fixed_file)
        sqe->flags |= IOSQE_FIXED_FILE;
    io_uring_sqe_set_data64(sqe, index);
}

static orr_status begin(uring *u, orr_error *err)
{
    while (io_uring_sq_ready(&u->ring) > 0) {
        const int begun = io_uring_submit(&u->ring);
        if (begun < 0 && begun != -EINTR && begun != -EAGAIN && begun != -EBUSY)
            return orr_fail(err, ORR_IO, "%s: io_uring: %s", u->file->path, strerror(-begun));
    }
    return ORR_OK;
}

static orr_status submit(orr_block_device *self, const orr_block_request *requests, uint32_t n,
                         uint32_t *ret_n, orr_error *err)
{
    uring *u = ((orr_block_file *)self->ctx)->engine;
    const uint32_t room = self->depth - u->in_flight, begun = n < room ? n : room;
    ORR_TRY(orr_block_check_requests(self, requests, begun, err));
    ORR_TRY(be_ready(u, err));
    for (uint32_t k = 0; k < begun; k++) {
        const uint32_t index = u->free[self->depth - ++u->in_flight];
        u->requests[index] = requests[k];
        /* There are as many entries as requests, and none is left unsubmitted. */
        prepare(u, io_uring_get_sqe(&u->ring), index);
    }
    *ret_n = begun;
    return begin(u, err);
}

/* What a completion says. A transfer that was cut short goes on; false: it has not ended. */
static bool ended(uring *u, uint32_t index, int result, int *ret_error)
{
    orr_block_request *request = &u->requests[index];
    if (result == (int)request->bytes) {
        *ret_error = 0;
        return true;
    }
    if (result < 0 && result != -EINTR && result != -EAGAIN) {
        *ret_error = -result;
        return true;
    }
    if (result == 0) {
        *ret_error = EIO; /* the file was cut short under us */
        return true;
    }
    if (result > 0) {
        request->data = (char *)request->data + result;
        request->at += (uint32_t)result;
        request->bytes -= (uint32_t)result;
    }
    prepare(u, io_uring_get_sqe(&u->ring), index);
    return false;
}

/* Those that the kernel has put down, without a system call where there is nothing to fetch. */
static uint32_t collect(uring *u, orr_block_completion *ret, uint32_t room)
{
    const uint32_t depth = u->file->device.depth;
    uint32_t n = 0;
    while (n < room) {
        struct io_uring_cqe *seen[64];
        const unsigned found =
            io_uring_peek_batch_cqe(&u->ring, seen, room - n < 64 ? room - n : 64);
        for (unsigned k = 0; k < found; k++) {
            const uint32_t index = (uint32_t)io_uring_cqe_get_data64(seen[k]);
            if (!ended(u, index, seen[k]->res, &ret[n].error))
                continue;
            ret[n++].tag = u->requests[index].tag;
            u->free[depth - u->in_flight--] = index;
        }
        io_uring_cq_advance(&u->ring, found);
        if (found == 0)
            break;
    }
    return n;
}

static orr_status reap(orr_block_device *self, uint32_t least, orr_block_completion *ret,
                       uint32_t room, uint32_t *ret_n, orr_error *err)
{
    uring *u = ((orr_block_file *)self->ctx)->engine;
    least = least < u->in_flight ? least : u->in_flight;
    least = least < room ? least : room;
    *ret_n = 0;
    if (u->in_flight == 0)
        return ORR_OK;
    ORR_TRY(be_ready(u, err));
    uint32_t n = collect(u, ret, room);
    while (n < least) {
        const int waited = io_uring_submit_and_wait(&u->ring, least - n);
        if (waited < 0 && waited != -EINTR && waited != -EAGAIN && waited != -EBUSY)
            return orr_fail(err, ORR_IO, "%s: io_uring: %s", u->file->path, strerror(-waited));
        n += collect(u, ret + n, room - n);
    }
    *ret_n = n;
    return begin(u, err); /* the rests of transfers that were cut short */
}

static orr_status use_memory(orr_block_device *self, void *memory, size_t bytes, orr_error *err)
{
    uring *u = ((orr_block_file *)self->ctx)->engine;
    if (!orr_array_reserve(&u->memory, bytes / PIECE_BYTES + 1))
        return orr_fail_memory(err);
    for (size_t done = 0; done < bytes;) {
        const size_t piece = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
        u->memory.at[u->memory.n++] =
            (struct iovec){.iov_base = (char *)memory + done, .iov_len = piece};
        done += piece;
    }
    u->registered = false;
    return ORR_OK;
}

static const char *reason_of(int error)
{
    switch (error) {
    case EPERM:
        return "io_uring is forbidden (EPERM)";
    case EACCES:
        return "io_uring is forbidden (EACCES)";
    case ENOSYS:
        return "the kernel has no io_uring (ENOSYS)";
    case ENOMEM:
        return "io_uring may not lock its memory (ENOMEM)";
    default:
        return "io_uring does not start";
    }
}

bool orr_block_use_uring(orr_block_file *file, const char **ret_reason)
{
    orr_block_device *device = &file->device;
    uring *u = orr_calloc(1, sizeof *u);
    if (u == NULL) {
        *ret_reason = "no memory for io_uring";
        return false;
    }
    u->file = file;
    u->free = orr_calloc(device->depth, sizeof *u->free);
    u->requests = orr_calloc(device->depth, sizeof *u->requests);
    const int failed = u->free != NULL && u->requests != NULL ? ring_init(u) : -ENOMEM;
    if (failed != 0) {
        *ret_reason = reason_of(-failed);
        engine_free(u);
        return false;
    }
    for (uint32_t k = 0; k < device->depth; k++)
        u->free[k] = k;
    file->engine = u;
    file->engine_free = engine_free;
    device->name = "io_uring";
    device->submit = submit;
    device->reap = reap;
    device->use_memory = use_memory;
    return true;
}
