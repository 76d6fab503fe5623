/* SPDX-License-Identifier: Apache-2.0 */
/* One kind of access to a device, repeated with a number of requests in flight. */
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "measure/storage.h"

/* Latencies are counted in buckets of a 32nd of an octave (2 %). */
enum { STEP_BITS = 5, STEPS = 1 << STEP_BITS, BUCKETS = STEPS * 60 };

typedef struct running {
    const orr_storage_probe *probe;
    orr_storage_access access;
    uint32_t bytes, depth;
    orr_random random;
    uint64_t places, next;           /* of the device, of `bytes` each; in sequence */
    uint64_t n;                      /* requests that have completed */
    orr_block_request *requests;     /* shape (depth) */
    orr_block_completion *completed; /* shape (depth) */
    int64_t *begun_ns;               /* shape (depth), by tag */
    uint64_t *buckets;               /* shape (BUCKETS) */
} running;

static uint32_t bucket_of(int64_t ns)
{
    const uint64_t value = ns > 0 ? (uint64_t)ns : 0;
    if (value < STEPS)
        return (uint32_t)value;
    const uint32_t octave = 63 - (uint32_t)__builtin_clzll(value) - STEP_BITS;
    return octave * STEPS + (uint32_t)(value >> octave);
}

/* The middle of a bucket. */
static int64_t bucket_ns(uint32_t bucket)
{
    if (bucket < 2 * STEPS)
        return bucket;
    const uint32_t octave = bucket / STEPS - 1;
    return (((int64_t)(bucket % STEPS + STEPS) << octave)) + ((int64_t)1 << octave) / 2;
}

static int64_t quantile_ns(const running *r, double share)
{
    uint64_t seen = 0;
    for (uint32_t k = 0; k < BUCKETS; k++) {
        seen += r->buckets[k];
        if ((double)seen >= share * (double)r->n)
            return bucket_ns(k);
    }
    return 0;
}

static int64_t cpu_now_ns(void)
{
    struct timespec spent;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
    return spent.tv_sec * INT64_C(1000000000) + spent.tv_nsec;
}

static orr_block_request request_of(running *r, uint64_t tag)
{
    const bool random = r->access != ORR_STORAGE_READ && r->access != ORR_STORAGE_WRITE;
    const bool read = r->access == ORR_STORAGE_RANDOM_READ || r->access == ORR_STORAGE_READ;
    const uint64_t place = random ? orr_random_below(&r->random, r->places) : r->next;
    r->next = (r->next + 1) % r->places;
    return (orr_block_request){.operation = read ? ORR_BLOCK_READ : ORR_BLOCK_WRITE,
                               .at = place * r->bytes,
                               .bytes = r->bytes,
                               .data = (char *)r->probe->memory + tag * r->bytes,
                               .tag = tag};
}

static orr_status submit(running *r, uint32_t n, orr_error *err)
{
    orr_block_device *device = r->probe->device;
    const int64_t now_ns = orr_clock_now_ns(r->probe->clock);
    uint32_t begun = 0;
    for (uint32_t k = 0; k < n; k++)
        r->begun_ns[r->requests[k].tag] = now_ns;
    ORR_TRY(device->submit(device, r->requests, n, &begun, err));
    return begun == n ? ORR_OK
                      : orr_fail(err, ORR_INVALID, "the device takes only %u requests", begun);
}

static orr_status reap(running *r, uint32_t least, uint32_t *ret_n, orr_error *err)
{
    orr_block_device *device = r->probe->device;
    ORR_TRY(device->reap(device, least, r->completed, r->depth, ret_n, err));
    const int64_t now_ns = orr_clock_now_ns(r->probe->clock);
    for (uint32_t k = 0; k < *ret_n; k++) {
        if (r->completed[k].error != 0)
            return orr_fail(err, ORR_IO, "measuring storage: %s", strerror(r->completed[k].error));
        if (r->access != ORR_STORAGE_SYNC)
            r->buckets[bucket_of(now_ns - r->begun_ns[r->completed[k].tag])]++;
        r->n++;
    }
    return ORR_OK;
}

/* As many in flight again as have completed, until it has taken long enough. */
static orr_status repeat(running *r, int64_t end_ns, orr_error *err)
{
    uint32_t in_flight = r->depth, n = 0;
    for (uint32_t k = 0; k < r->depth; k++)
        r->requests[k] = request_of(r, k);
    ORR_TRY(submit(r, r->depth, err));
    while (in_flight > 0) {
        ORR_TRY(reap(r, 1, &n, err));
        in_flight -= n;
        if (orr_clock_now_ns(r->probe->clock) >= end_ns)
            continue;
        for (uint32_t k = 0; k < n; k++)
            r->requests[k] = request_of(r, r->completed[k].tag);
        ORR_TRY(submit(r, n, err));
        in_flight += n;
    }
    return ORR_OK;
}

static orr_status repeat_syncs(running *r, int64_t end_ns, orr_error *err)
{
    orr_block_device *device = r->probe->device;
    do {
        uint32_t n = 0;
        r->requests[0] = request_of(r, 0);
        ORR_TRY(submit(r, 1, err));
        ORR_TRY(reap(r, 1, &n, err));
        const int64_t began_ns = orr_clock_now_ns(r->probe->clock);
        ORR_TRY(device->sync(device, err));
        r->buckets[bucket_of(orr_clock_now_ns(r->probe->clock) - began_ns)]++;
    } while (orr_clock_now_ns(r->probe->clock) < end_ns);
    return ORR_OK;
}

orr_status orr_probe_storage(const orr_storage_probe *probe, orr_storage_access access,
                             uint32_t bytes, uint32_t depth, orr_measured_access *ret,
                             orr_error *err)
{
    running r = {.probe = probe,
                 .access = access,
                 .bytes = bytes,
                 .depth = depth,
                 .places = probe->device->bytes / bytes,
                 .random = orr_random_of(1, (uint64_t)access << 32 | depth)};
    r.requests = orr_calloc(depth, sizeof *r.requests);
    r.completed = orr_calloc(depth, sizeof *r.completed);
    r.begun_ns = orr_calloc(depth, sizeof *r.begun_ns);
    r.buckets = orr_calloc(BUCKETS, sizeof *r.buckets);
    orr_status status = ORR_OK;
    if (r.requests == NULL || r.completed == NULL || r.begun_ns == NULL || r.buckets == NULL)
        status = orr_fail_memory(err);
    const int64_t began_ns = orr_clock_now_ns(probe->clock), cpu_ns = cpu_now_ns();
    const int64_t end_ns = began_ns + probe->least_ns;
    if (status == ORR_OK)
        status =
            access == ORR_STORAGE_SYNC ? repeat_syncs(&r, end_ns, err) : repeat(&r, end_ns, err);
    if (status == ORR_OK) {
        const int64_t took_ns = orr_clock_now_ns(probe->clock) - began_ns;
        *ret =
            (orr_measured_access){.access = (uint8_t)access,
                                  .bytes = bytes,
                                  .depth = depth,
                                  .per_s = (double)r.n * 1e9 / (double)(took_ns > 0 ? took_ns : 1),
                                  .p50_ns = quantile_ns(&r, 0.5),
                                  .p99_ns = quantile_ns(&r, 0.99),
                                  .cpu_ns = (double)(cpu_now_ns() - cpu_ns) / (double)r.n};
    }
    orr_free(r.requests);
    orr_free(r.completed);
    orr_free(r.begun_ns);
    orr_free(r.buckets);
    return status;
}
