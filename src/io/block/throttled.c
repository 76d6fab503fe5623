/* SPDX-License-Identifier: Apache-2.0 */
/* A device that is slowed down to given figures.
 *
 * Reads and writes each pass through a gate that lets one request in after the other, 1 / IOPS or
 * bytes / bandwidth apart, whichever is longer; a request completes its latency after it passed,
 * and not before the device below has completed it. */
#include "io/block/throttled.h"

#include "base/alloc.h"

typedef struct delayed {
    uint64_t tag;
    int64_t due_ns;
    int error;
} delayed;

typedef struct throttle {
    orr_block_device device;
    orr_block_device *below;
    orr_block_limits limits;
    const orr_clock *clock;
    int64_t gate_ns[2];              /* when the next read or write may pass */
    delayed *requests;               /* shape (depth); their indices are the tags below */
    uint32_t *free, n_free;          /* requests that are not in use, shape (depth) */
    uint32_t *done, n_done;          /* that the device below has completed, shape (depth) */
    orr_block_request *passed;       /* scratch, shape (depth) */
    orr_block_completion *completed; /* scratch, shape (depth) */
} throttle;

/* Sleeping takes tens of microseconds longer than asked; the rest is spent looking at the clock. */
enum { OVERSLEEP_NS = 80000 };
static int64_t precise_now_ns(void *ctx)
{
    (void)ctx;
    return orr_clock_now_ns(&orr_clock_monotonic);
}
static void precise_sleep_until_ns(void *ctx, int64_t ns)
{
    if (ns - precise_now_ns(ctx) > OVERSLEEP_NS)
        orr_clock_sleep_until_ns(&orr_clock_monotonic, ns - OVERSLEEP_NS);
    while (precise_now_ns(ctx) < ns)
        ;
}
static const orr_clock precise_clock = {.now_ns = precise_now_ns,
                                        .sleep_until_ns = precise_sleep_until_ns};

static int64_t longer_ns(double iops, double bytes_per_s, uint32_t bytes)
{
    const double by_iops = iops > 0 ? 1e9 / iops : 0;
    const double by_bytes = bytes_per_s > 0 ? 1e9 * bytes / bytes_per_s : 0;
    return (int64_t)(by_iops > by_bytes ? by_iops : by_bytes);
}

static int64_t due_ns(throttle *t, const orr_block_request *request, int64_t now_ns)
{
    const orr_block_limits *limits = &t->limits;
    const bool read = request->operation == ORR_BLOCK_READ;
    int64_t *gate_ns = &t->gate_ns[request->operation];
    if (*gate_ns < now_ns)
        *gate_ns = now_ns;
    *gate_ns += read ? longer_ns(limits->read_iops, limits->read_bytes, request->bytes)
                     : longer_ns(limits->write_iops, limits->write_bytes, request->bytes);
    return *gate_ns + (read ? limits->read_ns : limits->write_ns);
}

static orr_status submit(orr_block_device *self, const orr_block_request *requests, uint32_t n,
                         uint32_t *ret_n, orr_error *err)
{
    throttle *t = self->ctx;
    const uint32_t tried = n < t->n_free ? n : t->n_free;
    for (uint32_t k = 0; k < tried; k++) {
        t->passed[k] = requests[k];
        t->passed[k].tag = t->free[t->n_free - 1 - k];
    }
    uint32_t begun = 0;
    ORR_TRY(t->below->submit(t->below, t->passed, tried, &begun, err));
    const int64_t now_ns = orr_clock_now_ns(t->clock);
    for (uint32_t k = 0; k < begun; k++)
        t->requests[t->passed[k].tag] =
            (delayed){.tag = requests[k].tag, .due_ns = due_ns(t, &requests[k], now_ns)};
    t->n_free -= begun;
    *ret_n = begun;
    return ORR_OK;
}

static orr_status fetch(throttle *t, uint32_t least, orr_error *err)
{
    uint32_t n = 0;
    if (t->n_free + t->n_done < t->device.depth)
        ORR_TRY(t->below->reap(t->below, least, t->completed, t->device.depth, &n, err));
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t index = (uint32_t)t->completed[k].tag;
        t->requests[index].error = t->completed[k].error;
        t->done[t->n_done++] = index;
    }
    return ORR_OK;
}

/* Gives those that are due; *ret_next_ns: when the next one will be, if there is one. */
static uint32_t give(throttle *t, orr_block_completion *ret, uint32_t room, int64_t *ret_next_ns)
{
    const int64_t now_ns = orr_clock_now_ns(t->clock);
    uint32_t n = 0, kept = 0;
    *ret_next_ns = INT64_MAX;
    for (uint32_t k = 0; k < t->n_done; k++) {
        const uint32_t index = t->done[k];
        const delayed *request = &t->requests[index];
        if (request->due_ns <= now_ns && n < room) {
            ret[n++] = (orr_block_completion){.tag = request->tag, .error = request->error};
            t->free[t->n_free++] = index;
            continue;
        }
        t->done[kept++] = index;
        *ret_next_ns = request->due_ns < *ret_next_ns ? request->due_ns : *ret_next_ns;
    }
    t->n_done = kept;
    return n;
}

static orr_status reap(orr_block_device *self, uint32_t least, orr_block_completion *ret,
                       uint32_t room, uint32_t *ret_n, orr_error *err)
{
    throttle *t = self->ctx;
    const uint32_t in_flight = self->depth - t->n_free;
    least = least < in_flight ? least : in_flight;
    least = least < room ? least : room;
    uint32_t n = 0;
    for (;;) {
        ORR_TRY(fetch(t, 0, err));
        int64_t next_ns;
        n += give(t, ret + n, room - n, &next_ns);
        if (n >= least)
            break;
        if (t->n_done == 0)
            ORR_TRY(fetch(t, 1, err));
        else
            orr_clock_sleep_until_ns(t->clock, next_ns);
    }
    *ret_n = n;
    return ORR_OK;
}

static orr_status sync_below(orr_block_device *self, orr_error *err)
{
    throttle *t = self->ctx;
    return t->below->sync(t->below, err);
}

static orr_status use_memory(orr_block_device *self, void *memory, size_t bytes, orr_error *err)
{
    throttle *t = self->ctx;
    return t->below->use_memory(t->below, memory, bytes, err);
}

static void throttle_free(throttle *t)
{
    orr_free(t->requests);
    orr_free(t->free);
    orr_free(t->done);
    orr_free(t->passed);
    orr_free(t->completed);
    orr_free(t);
}

static void close_both(orr_block_device *self)
{
    throttle *t = self->ctx;
    t->below->close(t->below);
    throttle_free(t);
}

orr_status orr_block_device_throttle_by(orr_block_device *device, const orr_block_limits *limits,
                                        const orr_clock *clock, orr_block_device **ret,
                                        orr_error *err)
{
    const double figures[] = {(double)limits->read_ns, (double)limits->write_ns,
                              limits->read_iops,       limits->write_iops,
                              limits->read_bytes,      limits->write_bytes};
    for (size_t k = 0; k < sizeof figures / sizeof figures[0]; k++)
        if (!(figures[k] >= 0))
            return orr_fail(err, ORR_INVALID, "%g is no limit of a device", figures[k]);
    throttle *t = orr_calloc(1, sizeof *t);
    if (t == NULL)
        return orr_fail_memory(err);
    const uint32_t depth = device->depth;
    *t = (throttle){.device = *device, .below = device, .limits = *limits, .clock = clock};
    t->requests = orr_calloc(depth, sizeof *t->requests);
    t->free = orr_calloc(depth, sizeof *t->free);
    t->done = orr_calloc(depth, sizeof *t->done);
    t->passed = orr_calloc(depth, sizeof *t->passed);
    t->completed = orr_calloc(depth, sizeof *t->completed);
    if (t->requests == NULL || t->free == NULL || t->done == NULL || t->passed == NULL ||
        t->completed == NULL) {
        throttle_free(t);
        return orr_fail_memory(err);
    }
    while (t->n_free < depth) {
        t->free[t->n_free] = t->n_free;
        t->n_free++;
    }
    t->device.name = "throttled";
    t->device.ctx = t;
    t->device.submit = submit;
    t->device.reap = reap;
    t->device.sync = sync_below;
    t->device.use_memory = device->use_memory != NULL ? use_memory : NULL;
    t->device.close = close_both;
    *ret = &t->device;
    return ORR_OK;
}

orr_status orr_block_device_throttle(orr_block_device *device, const orr_block_limits *limits,
                                     orr_block_device **ret, orr_error *err)
{
    return orr_block_device_throttle_by(device, limits, &precise_clock, ret, err);
}
