/* SPDX-License-Identifier: Apache-2.0 */
#include <endian.h>
#include <string.h>
#include <sys/random.h>

#include <xxhash.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "team/store/etcd_client.h"
#include "team/store/etcd_message.h"
#include "team/store/store.h"

/* The key's value: version 8, writer 8, hash 8 (all little endian), the record.
 *
 * A record is written only if the key was not modified since this store last read or wrote it. Who
 * gets no answer does not know whether the write was carried out; so the writer, a random number of
 * each store, stands in the value: a key that was modified by a write of one's own is one's own
 * still. */
enum { HEADER_BYTES = 24, MOST_RECORD = 1 << 20 }; /* etcd itself takes 1.5 MiB by default */

typedef struct etcd_store {
    orr_team_store store;
    orr_etcd_client *client;
    char *key;
    int64_t timeout_ns;
    uint64_t writer;
    uint64_t modified; /* the key's revision as this store knows it; 0: there is no key */
    uint64_t version;  /* of its record */
    orr_etcd_value value;
} etcd_store;

typedef struct header {
    uint64_t version, writer, hash;
} header;

static uint64_t hash_of(header h, const void *record, size_t bytes)
{
    const uint64_t seeds[2] = {htole64(h.version), htole64(h.writer)};
    return XXH3_64bits_withSeed(record, bytes, XXH3_64bits(seeds, sizeof seeds));
}

static orr_status write_value(orr_etcd_value *value, header h, const void *record, size_t bytes,
                              orr_error *err)
{
    value->n = 0;
    if (!orr_array_reserve(value, HEADER_BYTES + bytes))
        return orr_fail_memory(err);
    const uint64_t numbers[3] = {htole64(h.version), htole64(h.writer),
                                 htole64(hash_of(h, record, bytes))};
    memcpy(value->at, numbers, sizeof numbers);
    if (bytes > 0)
        memcpy(value->at + HEADER_BYTES, record, bytes);
    value->n = HEADER_BYTES + bytes;
    return ORR_OK;
}

/* false: it was not written by such a store. */
static bool read_value(const orr_etcd_value *value, header *ret)
{
    uint64_t numbers[3];
    if (value->n < HEADER_BYTES)
        return false;
    memcpy(numbers, value->at, sizeof numbers);
    *ret = (header){le64toh(numbers[0]), le64toh(numbers[1]), le64toh(numbers[2])};
    return ret->hash == hash_of(*ret, value->at + HEADER_BYTES, value->n - HEADER_BYTES);
}

/* Sends what `request` holds, reads the answer; a value goes to self->value. */
static orr_status call(etcd_store *self, const char *path, orr_output *request, int64_t deadline_ns,
                       orr_etcd_reply *ret, orr_error *err)
{
    orr_text answer, body;
    ORR_TRY(orr_output_finish(request, err));
    body.at = orr_output_memory(request, &body.n);
    const int64_t left = deadline_ns - orr_clock_now_ns(&orr_clock_monotonic);
    ORR_TRY(orr_etcd_post(self->client, path, body, left, &answer, err));
    self->value.n = 0;
    const orr_status status = orr_etcd_read_reply(answer, ret, &self->value, err);
    if (status == ORR_PARSE)
        return orr_fail(err, ORR_IO, "the answer to %s is not etcd's", path);
    return status;
}

static int64_t deadline_of(const etcd_store *self)
{
    return orr_clock_now_ns(&orr_clock_monotonic) + self->timeout_ns;
}

static orr_status range(etcd_store *self, orr_etcd_reply *ret, orr_error *err)
{
    orr_output *request;
    const int64_t deadline_ns = deadline_of(self);
    ORR_TRY(orr_output_open_memory(&request, err));
    orr_etcd_write_range(request, self->key);
    const orr_status status = call(self, "/v3/kv/range", request, deadline_ns, ret, err);
    orr_output_close(request);
    return status;
}

static orr_status load(orr_team_store *store, uint64_t *ret_version, void *ret, size_t room,
                       size_t *ret_bytes, orr_error *err)
{
    etcd_store *self = store->ctx;
    orr_etcd_reply reply;
    header h;
    ORR_TRY(range(self, &reply, err));
    self->modified = reply.found ? reply.modified : 0;
    self->version = 0;
    if (!reply.found)
        return orr_fail(err, ORR_NOT_FOUND, "etcd has no key %s", self->key);
    if (!read_value(&self->value, &h))
        return orr_fail(err, ORR_PARSE, "what etcd has as %s is no record of a coordinator",
                        self->key);
    self->version = h.version;
    const size_t bytes = self->value.n - HEADER_BYTES;
    if (bytes > room)
        return orr_fail(err, ORR_LIMIT, "the key %s holds %zu bytes where %zu are expected",
                        self->key, bytes, room);
    if (bytes > 0)
        memcpy(ret, self->value.at + HEADER_BYTES, bytes);
    *ret_version = h.version;
    *ret_bytes = bytes;
    return ORR_OK;
}

static orr_status swap(etcd_store *self, const orr_etcd_value *value, int64_t deadline_ns,
                       orr_etcd_reply *ret, orr_error *err)
{
    orr_output *request;
    ORR_TRY(orr_output_open_memory(&request, err));
    orr_etcd_write_compare_and_swap(request, self->key, self->modified, value->at, value->n);
    const orr_status status = call(self, "/v3/kv/txn", request, deadline_ns, ret, err);
    orr_output_close(request);
    return status;
}

/* Swaps until the key has this value. A swap that was refused for an earlier one of this store's,
 * whose answer was lost, is made again on top of that; each such turn uses up a lost answer. */
static orr_status swap_in(etcd_store *self, const orr_etcd_value *value, orr_error *err)
{
    const int64_t deadline_ns = deadline_of(self);
    for (;;) {
        orr_etcd_reply reply;
        header now;
        ORR_TRY(swap(self, value, deadline_ns, &reply, err));
        if (reply.swapped) {
            self->modified = reply.revision;
            return ORR_OK;
        }
        if (!reply.found || !read_value(&self->value, &now) || now.writer != self->writer)
            return orr_fail(err, ORR_CANCELED,
                            "another coordinator has written the key %s of etcd: a team has one",
                            self->key);
        self->modified = reply.modified;
        if (self->value.n == value->n && memcmp(self->value.at, value->at, value->n) == 0)
            return ORR_OK;
    }
}

static orr_status save(orr_team_store *store, uint64_t version, const void *record, size_t bytes,
                       orr_error *err)
{
    etcd_store *self = store->ctx;
    if (self->version != 0 && version <= self->version)
        return orr_fail(err, ORR_INVALID, "version %llu follows version %llu in the key %s of etcd",
                        (unsigned long long)version, (unsigned long long)self->version, self->key);
    if (bytes > MOST_RECORD)
        return orr_fail(err, ORR_LIMIT, "%zu bytes are too many for a key of etcd", bytes);
    orr_etcd_value value = {0};
    orr_status status = write_value(&value, (header){.version = version, .writer = self->writer},
                                    record, bytes, err);
    if (status == ORR_OK)
        status = swap_in(self, &value, err);
    if (status == ORR_OK)
        self->version = version;
    orr_array_done(&value);
    return status;
}

static void etcd_close(orr_team_store *store)
{
    etcd_store *self = store->ctx;
    orr_etcd_client_free(self->client);
    orr_array_done(&self->value);
    orr_free(self->key);
    orr_free(self);
}

orr_status orr_team_store_etcd(const char *endpoints, const char *key, int64_t timeout_ns,
                               orr_team_store **ret, orr_error *err)
{
    orr_status status = ORR_OK;
    if (key[0] == '\0' || timeout_ns <= 0 || timeout_ns > INT64_C(86400) * 1000 * 1000 * 1000)
        return orr_fail(err, ORR_INVALID,
                        "a store in etcd needs a key, and a time of at most a day");
    etcd_store *self = orr_calloc(1, sizeof *self);
    if (self == NULL)
        return orr_fail_memory(err);
    self->timeout_ns = timeout_ns;
    self->store = (orr_team_store){.name = "etcd",
                                   .ctx = self,
                                   .shared = true,
                                   .load = load,
                                   .save = save,
                                   .close = etcd_close};
    const size_t key_bytes = strlen(key) + 1;
    self->key = orr_malloc(key_bytes);
    if (self->key == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    memcpy(self->key, key, key_bytes);
    if (getrandom(&self->writer, sizeof self->writer, 0) != sizeof self->writer) {
        status = orr_fail(err, ORR_IO, "the system gives no random number");
        goto out;
    }
    ORR_TRY_OUT(status, orr_etcd_client_new(endpoints, &self->client, err));
out:
    if (status == ORR_OK)
        *ret = &self->store;
    else
        etcd_close(&self->store);
    return status;
}
