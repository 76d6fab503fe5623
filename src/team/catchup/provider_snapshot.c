/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "team/catchup/provider.h"

/* What the owner of the state says: here it is, it is about to change, nobody needs it any more. */

/* Where the net has no thread of its own, this is the one that polls; else that one looks again by
 * itself. */
static void tell(orr_state_provider *provider)
{
    if (provider->net->poll == NULL)
        orr_state_provider_serve(provider);
}

void orr_state_provider_offer(orr_state_provider *provider, uint64_t step, uint32_t receivers,
                              uint32_t index, uint32_t n)
{
    assert(index < n);
    pthread_mutex_lock(&provider->owner_lock);
    pthread_mutex_lock(&provider->lock);
    if (provider->phase == ORR_PROVIDER_NEW || provider->step != step || provider->index != index ||
        provider->n != n)
        provider->done = 0;
    provider->phase = ORR_PROVIDER_LIVE;
    provider->step = step;
    provider->wanted = receivers;
    provider->index = index;
    provider->n = n;
    provider->kept = (orr_chunk_range){0};
    pthread_mutex_unlock(&provider->lock);
    pthread_mutex_unlock(&provider->owner_lock);
    tell(provider);
}

/* Whether it is known what a receiver lacks of this part. */
static bool has_asked(const orr_state_provider *provider, const orr_state_provider_client *t)
{
    return t->asked && t->step == provider->step && t->index == provider->index &&
           t->n == provider->n;
}

/* The chunks of the own part from the first to the last that a receiver lacks. Whoever is still to
 * ask lacks all. Under lock. */
static orr_chunk_range lacked(const orr_state_provider *provider)
{
    orr_chunk_range sum = {UINT32_MAX, 0};
    uint32_t known = provider->done;
    if (provider->wanted == 0 || provider->index >= provider->chunks.n)
        return (orr_chunk_range){0};
    for (const orr_state_provider_client *t = provider->receivers; t != NULL; t = t->next) {
        if (!has_asked(provider, t))
            continue;
        known++;
        if (t->lacks.from == t->lacks.to)
            continue;
        sum.from = t->lacks.from < sum.from ? t->lacks.from : sum.from;
        sum.to = t->lacks.to > sum.to ? t->lacks.to : sum.to;
    }
    if (known < provider->wanted)
        return (orr_chunk_range){provider->index, provider->chunks.n};
    /* From a chunk of the part on: a receiver may say anything. */
    while (sum.from < sum.to && sum.from % provider->n != provider->index)
        sum.from++;
    return sum.from < sum.to ? sum : (orr_chunk_range){0};
}

/* Room for the copy, in large pages where the system gives them on request: what is touched first
 * here is otherwise slower to get than to fill. */
static orr_status grow(orr_state_provider *provider, size_t bytes, orr_error *err)
{
    if (bytes <= provider->copy_room)
        return ORR_OK;
    orr_free(provider->copy);
    provider->copy_room = 0;
    provider->copy = orr_malloc(bytes);
    if (provider->copy == NULL)
        return orr_fail_memory(err);
    provider->copy_room = bytes;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), skip = -(uintptr_t)provider->copy % page;
    if (bytes > skip + page)
        (void)madvise(provider->copy + skip, (bytes - skip) / page * page, MADV_HUGEPAGE);
    return ORR_OK;
}

/* While the phase is KEEPING nobody else looks at the copy, and nobody changes the spans. */
static orr_status copy_range(orr_state_provider *provider, orr_chunk_range range,
                             uint64_t *ret_bytes, orr_error *err)
{
    const uint32_t n = provider->n, count = (range.to - range.from + n - 1) / n;
    size_t room;
    if (!orr_mul_size(count, ORR_CATCHUP_CHUNK_BYTES, &room))
        return orr_fail_memory(err);
    ORR_TRY(grow(provider, room, err));
    const uint32_t at_once = n == 1 ? count : 1;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i += at_once) {
        const uint32_t chunk = range.from + i * n;
        orr_chunk_read(&provider->chunks, chunk, at_once,
                       provider->copy + (size_t)i * ORR_CATCHUP_CHUNK_BYTES);
        bytes += (at_once - 1) * (uint64_t)ORR_CATCHUP_CHUNK_BYTES +
                 orr_chunk_bytes(&provider->chunks, chunk + at_once - 1);
    }
    *ret_bytes = bytes;
    return ORR_OK;
}

/* Requests wait until the copy is made: the lock is free meanwhile, so that the polling thread is
 * not held up. */
static orr_status keep(orr_state_provider *provider, orr_error *err)
{
    const int64_t begin_ns = orr_clock_now_ns(&orr_clock_monotonic);
    pthread_mutex_lock(&provider->lock);
    const bool live = provider->phase == ORR_PROVIDER_LIVE;
    orr_chunk_range range = {0};
    if (live) {
        range = lacked(provider);
        provider->phase = ORR_PROVIDER_SNAPSHOTTING;
    }
    pthread_mutex_unlock(&provider->lock);
    if (!live)
        return ORR_OK;
    uint64_t bytes = 0;
    const orr_status status =
        range.from < range.to ? copy_range(provider, range, &bytes, err) : ORR_OK;
    pthread_mutex_lock(&provider->lock);
    provider->phase = ORR_PROVIDER_SNAPSHOT;
    provider->kept = status == ORR_OK ? range : (orr_chunk_range){0};
    provider->counts.kept_bytes += bytes;
    const int64_t took_ns = orr_clock_now_ns(&orr_clock_monotonic) - begin_ns;
    if (took_ns > provider->counts.keep_ns)
        provider->counts.keep_ns = took_ns;
    pthread_mutex_unlock(&provider->lock);
    return status;
}

orr_status orr_state_provider_snapshot(orr_state_provider *provider, orr_error *err)
{
    pthread_mutex_lock(&provider->owner_lock);
    const orr_status status = keep(provider, err);
    pthread_mutex_unlock(&provider->owner_lock);
    tell(provider);
    return status;
}

void orr_state_provider_withdraw(orr_state_provider *provider)
{
    pthread_mutex_lock(&provider->owner_lock);
    pthread_mutex_lock(&provider->lock);
    if (provider->phase != ORR_PROVIDER_NEW)
        provider->phase = ORR_PROVIDER_SNAPSHOT;
    provider->kept = (orr_chunk_range){0};
    orr_free(provider->copy);
    provider->copy = NULL;
    provider->copy_room = 0;
    pthread_mutex_unlock(&provider->lock);
    pthread_mutex_unlock(&provider->owner_lock);
    tell(provider);
}

orr_state_provider_counts orr_state_provider_counts_of(const orr_state_provider *provider)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&provider->lock;
    pthread_mutex_lock(lock);
    const orr_state_provider_counts counts = provider->counts;
    pthread_mutex_unlock(lock);
    return counts;
}
