/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "team/ring/parts.h"

enum { CHUNK_BYTES = 256 << 10, WINDOW = 8, SMALL_BYTES = 64 << 10, WINDOW_MOST = 4096 };
static const uint32_t chunk_most = UINT32_C(1) << 30;

static void drained(void *ctx, orr_conn conn)
{
    orr_ring *ring = ctx;
    (void)conn;
    if (ring->state == ORR_RING_LIVE)
        orr_ring_report_reduced(ring);
}

static void woken(void *ctx)
{
    orr_ring *ring = ctx;
    if (ring->state != ORR_RING_LIVE)
        return;
    if (ring->n == 1)
        orr_ring_run_alone(ring);
    orr_ring_report_reduced(ring);
}

/* Callbacks come from the net only: what is complete without it is told a moment later. */
static void wake_if_due(orr_ring *ring)
{
    if (ring->reduced < ring->done || (ring->n == 1 && ring->done < ring->ops.n))
        ring->net->wake_at(ring->net, &ring->net_user, ring->net->now_ns(ring->net));
}

static orr_status choose(orr_ring *ring, const orr_ring_options *given, orr_error *err)
{
    orr_ring_options options = given != NULL ? *given : (orr_ring_options){0};
    if (options.chunk_bytes == 0)
        options.chunk_bytes = CHUNK_BYTES;
    if (options.window == 0)
        options.window = WINDOW;
    if (options.streams == 0)
        options.streams = 1;
    if (options.small_bytes == 0)
        options.small_bytes = SMALL_BYTES;
    if (options.chunk_bytes % 8 != 0 || options.chunk_bytes > chunk_most)
        return orr_fail(err, ORR_INVALID, "chunks of %u bytes: a multiple of 8, to 1 GiB",
                        options.chunk_bytes);
    if (options.window > WINDOW_MOST || options.streams > ORR_RING_MAX_STREAMS)
        return orr_fail(err, ORR_INVALID, "a window of %u and %u streams: to %d and %d",
                        options.window, options.streams, WINDOW_MOST, ORR_RING_MAX_STREAMS);
    ring->options = options;
    return ORR_OK;
}

static orr_status set_up(orr_ring *ring, const char *where, orr_error *err)
{
    const uint32_t streams = ring->options.streams;
    ring->parts = orr_calloc(ring->options.window, sizeof *ring->parts);
    ring->right = orr_calloc(streams, sizeof *ring->right);
    ring->left = orr_calloc(streams, sizeof *ring->left);
    if (ring->parts == NULL || ring->right == NULL || ring->left == NULL)
        return orr_fail_memory(err);
    return ring->net->listen(ring->net, &ring->net_user, where, ring->address, err);
}

orr_status orr_ring_new(orr_net *net, const char *where, const orr_ring_options *options,
                        const orr_ring_reducer *reducer, const orr_ring_callbacks *user,
                        orr_ring **ret, orr_error *err)
{
    orr_ring *ring = orr_calloc(1, sizeof *ring);
    if (ring == NULL)
        return orr_fail_memory(err);
    ring->net = net;
    ring->net_user = (orr_net_callbacks){.ctx = ring,
                                         .accepted = orr_ring_on_accepted,
                                         .place = orr_ring_place,
                                         .frame = orr_ring_on_frame,
                                         .drained = drained,
                                         .closed = orr_ring_on_closed,
                                         .woken = woken};
    ring->reducer = reducer != NULL ? *reducer : orr_ring_reducer_host;
    ring->user = *user;
    orr_status status = choose(ring, options, err);
    if (status == ORR_OK)
        status = set_up(ring, where, err);
    if (status != ORR_OK) {
        orr_ring_free(ring);
        return status;
    }
    *ret = ring;
    return ORR_OK;
}

void orr_ring_free(orr_ring *ring)
{
    if (ring == NULL)
        return;
    ring->net->forget(ring->net, &ring->net_user);
    for (uint32_t i = 0; ring->left != NULL && i < ring->options.streams; i++)
        orr_free(ring->left[i].scratch);
    orr_array_done(&ring->ops);
    orr_free(ring->parts);
    orr_free(ring->hashes);
    orr_free(ring->partials);
    orr_free(ring->right);
    orr_free(ring->left);
    orr_free(ring);
}

const char *orr_ring_address(const orr_ring *ring)
{
    return ring->address;
}

static orr_status make_partials(orr_ring *ring, const orr_ring_op *op, orr_error *err)
{
    size_t bytes;
    if (ring->n < 3 || !orr_ring_is_narrow(op->dtype) || ring->partials != NULL)
        return ORR_OK;
    if (!orr_mul_size((size_t)ring->options.window * ring->n, ring->options.chunk_bytes, &bytes))
        return orr_fail_memory(err);
    ring->partials = orr_malloc_aligned(bytes);
    return ring->partials != NULL ? ORR_OK : orr_fail_memory(err);
}

/* For sums that the net's room cannot hold. Whole chunks: what is being read stays where it is when
 * larger operations are posted. */
static orr_status make_scratch(orr_ring *ring, const orr_ring_op *op, orr_error *err)
{
    const size_t sum_bytes = orr_ring_sum_bytes(op->dtype);
    ORR_TRY(make_partials(ring, op, err));
    if (ring->n < 2 || (op->in == NULL && !orr_ring_is_narrow(op->dtype)) ||
        orr_ring_shard_of(ring, op, 0, 0).n * sum_bytes <= ORR_NET_BUFFER_BYTES)
        return ORR_OK;
    for (uint32_t i = 0; i < ring->options.streams; i++) {
        if (ring->left[i].scratch == NULL)
            ring->left[i].scratch = orr_malloc_aligned(ring->options.chunk_bytes);
        if (ring->left[i].scratch == NULL)
            return orr_fail_memory(err);
    }
    return ORR_OK;
}

/* The ring is over whatever was under way. */
static void begin_anew(orr_ring *ring, orr_ring_state state)
{
    orr_ring_close_connections(ring, ORR_RING_NONE);
    ring->state = state;
    ring->changes++;
    ring->credit_step = 0;
    ring->credit = ring->acked = ring->acked_left = ring->sent_right = ring->taken_left = 0;
    ring->sent = ring->received = 0;
    orr_ring_reset_cursors(ring);
}

static void forget_ops(orr_ring *ring)
{
    ring->ops.n = 0;
    ring->end = 0;
    orr_ring_reset_cursors(ring);
}

static orr_status make_hashes(orr_ring *ring, orr_error *err)
{
    const size_t bytes = (size_t)ring->options.window * ring->n * sizeof *ring->hashes;
    void *hashes = orr_realloc(ring->hashes, bytes);
    if (hashes == NULL)
        return orr_fail_memory(err);
    ring->hashes = hashes;
    return ORR_OK;
}

/* True: all of one host, and none offers shared memory. All members find the same, since all are
 * told the same addresses. */
static bool is_near(const char *const *addresses, uint32_t n)
{
    const char *port = strrchr(addresses[0], ':');
    const size_t host = port != NULL ? (size_t)(port - addresses[0]) + 1 : 0;
    for (uint32_t i = 0; i < n; i++)
        if (host == 0 || strncmp(addresses[i], addresses[0], host) != 0 ||
            strchr(addresses[i], '|') != NULL)
            return false;
    return true;
}

static orr_status form(orr_ring *ring, const char *right, orr_error *err)
{
    ORR_TRY(make_hashes(ring, err));
    orr_free(ring->partials);
    ring->partials = NULL;
    ORR_TRY(orr_ring_partition_all(ring, err));
    for (size_t i = 0; i < ring->ops.n; i++)
        ORR_TRY(make_scratch(ring, &ring->ops.at[i], err));
    if (ring->n > 1)
        ORR_TRY(orr_ring_connect(ring, right, err));
    return ORR_OK;
}

orr_status orr_ring_form(orr_ring *ring, uint64_t epoch, uint64_t step,
                         const char *const *addresses, uint32_t n, uint32_t me, orr_error *err)
{
    if (n > ORR_RING_MAX_MEMBERS)
        return orr_fail(err, ORR_LIMIT, "a ring of %u members: %d at most", n,
                        ORR_RING_MAX_MEMBERS);
    if (me >= n || epoch <= ring->epoch)
        return orr_fail(err, ORR_INVALID, "member %u of %u, epoch %llu after %llu", me, n,
                        (unsigned long long)epoch, (unsigned long long)ring->epoch);
    begin_anew(ring, ORR_RING_IDLE);
    ring->epoch = epoch;
    ring->n = n;
    ring->me = me;
    ring->is_near = is_near(addresses, n);
    if (ring->step != step)
        forget_ops(ring);
    ring->step = step;
    const orr_status status = form(ring, addresses[orr_ring_right(ring)], err);
    if (status != ORR_OK) {
        begin_anew(ring, ORR_RING_IDLE);
        return status;
    }
    ring->state = ORR_RING_LIVE;
    orr_ring_adopt_pending(ring);
    orr_ring_advance(ring);
    wake_if_due(ring);
    return ORR_OK;
}

void orr_ring_leave(orr_ring *ring)
{
    begin_anew(ring, ORR_RING_IDLE);
}

orr_status orr_ring_post(orr_ring *ring, orr_team_dtype dtype, const void *in, void *out, size_t n,
                         uint32_t *ret_op, orr_error *err)
{
    orr_ring_op op = {.in = in, .out = out, .n = n, .dtype = dtype};
    size_t bytes;
    if ((unsigned)dtype > ORR_TEAM_FP16 ||
        (orr_ring_is_narrow(dtype) && ring->reducer.add_wide == NULL) ||
        !orr_mul_size(n, orr_ring_dtype_bytes(dtype), &bytes) || (out == NULL && n > 0))
        return orr_fail(err, ORR_INVALID, "an operation of %zu numbers of dtype %d", n, (int)dtype);
    if (!orr_array_reserve(&ring->ops, 1))
        return orr_fail_memory(err);
    if (ring->n > 0) {
        ORR_TRY(make_scratch(ring, &op, err));
        ORR_TRY(orr_ring_partition_op(ring, &op, err));
    }
    *ret_op = (uint32_t)ring->ops.n;
    ring->ops.at[ring->ops.n++] = op;
    if (ring->state == ORR_RING_LIVE) {
        orr_ring_advance(ring);
        wake_if_due(ring);
    }
    return ORR_OK;
}

/* What is still to be sent of an operation would be read from memory that is the caller's again. */
void orr_ring_step(orr_ring *ring, uint64_t step)
{
    ring->changes++;
    if (ring->reduced < ring->ops.n)
        orr_ring_leave(ring);
    forget_ops(ring);
    ring->step = step;
}

orr_ring_progress orr_ring_progress_of(const orr_ring *ring)
{
    return (orr_ring_progress){.posted = (uint32_t)ring->ops.n,
                               .reduced = ring->reduced,
                               .sent = ring->sent,
                               .received = ring->received};
}

uint64_t orr_ring_digest(const orr_ring *ring)
{
    return ring->digest == 0 && ring->ops.n > 0 ? 1 : ring->digest;
}
