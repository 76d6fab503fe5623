/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TESTS_BLOCK_TRANSFERS_H
#define ORR_TESTS_BLOCK_TRANSFERS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "io/block/device.h"

enum { MOST_SECTORS = 9, SLOTS = 64 }; /* of a request; that may be in flight */

/* One request that is waited for; its errno. */
static inline int transfer(orr_block_device *device, orr_block_operation operation, uint64_t at,
                           void *data, uint32_t bytes)
{
    const orr_block_request request = {
        .operation = operation, .at = at, .bytes = bytes, .data = data, .tag = 77};
    uint32_t n = 0;
    orr_error err = {0};
    assert_int_equal(device->submit(device, &request, 1, &n, &err), ORR_OK);
    assert_int_equal(n, 1);
    orr_block_completion completion;
    assert_int_equal(device->reap(device, 1, &completion, 1, &n, &err), ORR_OK);
    assert_int_equal(n, 1);
    assert_int_equal(completion.tag, 77);
    return completion.error;
}

typedef struct transfers {
    orr_block_device *device;
    orr_random random;
    uint8_t *memory, *content; /* a place for each slot; what the device should have */
    bool busy[SLOTS];
    orr_block_request requests[SLOTS];
    uint32_t in_flight;
} transfers;

static inline bool overlaps(const transfers *t, uint64_t at, uint32_t bytes)
{
    for (int k = 0; k < SLOTS; k++)
        if (t->busy[k] && t->requests[k].at < at + bytes &&
            at < t->requests[k].at + t->requests[k].bytes)
            return true;
    return false;
}

static inline void transfers_reap(transfers *t, uint32_t least)
{
    orr_block_completion done[SLOTS];
    uint32_t n = 0;
    orr_error err = {0};
    const uint32_t room = 1 + (uint32_t)orr_random_below(&t->random, SLOTS);
    assert_int_equal(t->device->reap(t->device, least, done, room, &n, &err), ORR_OK);
    const uint32_t expected = least < t->in_flight ? least : t->in_flight;
    assert_true(n >= (expected < room ? expected : room));
    for (uint32_t k = 0; k < n; k++) {
        const uint64_t slot = done[k].tag;
        assert_true(slot < SLOTS && t->busy[slot]);
        assert_int_equal(done[k].error, 0);
        const orr_block_request *request = &t->requests[slot];
        if (request->operation == ORR_BLOCK_READ)
            assert_memory_equal(request->data, t->content + request->at, request->bytes);
        t->busy[slot] = false;
        t->in_flight--;
    }
}

/* Submits up to `wanted` requests that do not overlap those in flight. */
static inline void transfers_submit(transfers *t, uint32_t wanted)
{
    const orr_block_device *device = t->device;
    const uint32_t stride = MOST_SECTORS * device->sector;
    orr_block_request batch[SLOTS];
    uint32_t n = 0;
    for (uint32_t slot = 0; slot < SLOTS && n < wanted; slot++) {
        const uint64_t sectors = 1 + orr_random_below(&t->random, MOST_SECTORS);
        const uint64_t first =
            orr_random_below(&t->random, device->bytes / device->sector - sectors + 1);
        const uint64_t at = first * device->sector;
        const uint32_t bytes = (uint32_t)sectors * device->sector;
        if (t->busy[slot] || overlaps(t, at, bytes))
            continue;
        orr_block_request *request = &t->requests[slot];
        *request = (orr_block_request){.at = at, .bytes = bytes, .tag = slot};
        request->operation = orr_random_below(&t->random, 2) ? ORR_BLOCK_READ : ORR_BLOCK_WRITE;
        request->data = t->memory + slot * (size_t)stride;
        if (request->operation == ORR_BLOCK_WRITE)
            for (uint32_t k = 0; k < bytes; k += 4) {
                const uint32_t word = orr_random_u32(&t->random);
                memcpy((uint8_t *)request->data + k, &word, 4);
            }
        t->busy[slot] = true;
        batch[n++] = *request;
    }
    uint32_t begun = 0;
    orr_error err = {0};
    assert_int_equal(t->device->submit(t->device, batch, n, &begun, &err), ORR_OK);
    assert_int_equal(begun, n < device->depth - t->in_flight ? n : device->depth - t->in_flight);
    for (uint32_t k = 0; k < n; k++) {
        if (k >= begun)
            t->busy[batch[k].tag] = false;
        else if (batch[k].operation == ORR_BLOCK_WRITE)
            memcpy(t->content + batch[k].at, batch[k].data, batch[k].bytes);
    }
    t->in_flight += begun;
}

/* `rounds` batches of random reads and writes, against a copy in memory of a device that is all
 * zeros; at the end it is read whole. */
static inline void check_transfers(orr_block_device *device, uint64_t seed, int rounds)
{
    transfers t = {.device = device, .random = orr_random_of(seed, 0)};
    const size_t stride = (size_t)MOST_SECTORS * device->sector;
    t.memory = aligned_alloc(4096, (SLOTS * stride + 4095) / 4096 * 4096);
    t.content = calloc(1, device->bytes);
    orr_error err = {0};
    if (device->use_memory != NULL)
        assert_int_equal(device->use_memory(device, t.memory, SLOTS / 2 * stride, &err), ORR_OK);
    for (int round = 0; round < rounds; round++) {
        transfers_submit(&t, (uint32_t)orr_random_below(&t.random, 20));
        transfers_reap(&t, (uint32_t)orr_random_below(&t.random, 20));
        if (orr_random_below(&t.random, 50) == 0)
            assert_int_equal(device->sync(device, &err), ORR_OK);
    }
    while (t.in_flight > 0)
        transfers_reap(&t, 1);
    for (uint64_t at = 0; at < device->bytes; at += device->sector) {
        assert_int_equal(transfer(device, ORR_BLOCK_READ, at, t.memory, device->sector), 0);
        assert_memory_equal(t.memory, t.content + at, device->sector);
    }
    assert_int_equal(device->sync(device, &err), ORR_OK);
    free(t.content);
    device->close(device); /* before the memory that it knows */
    free(t.memory);
}

#endif /* ORR_TESTS_BLOCK_TRANSFERS_H */
