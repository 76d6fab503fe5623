/* SPDX-License-Identifier: Apache-2.0 */
#include "support/simulated/block_device.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/philox.h"

enum { DEFAULT_DEPTH = 32, DEFAULT_LATENCY_NS = 100000, SLOW_NS = 1000000000 };

typedef struct in_flight {
    orr_block_request request;
    int64_t due_ns;
    uint64_t order;    /* of submission */
    uint8_t *captured; /* of a write: its data when it was submitted */
    size_t room;       /* of it; kept for the next request in this place */
} in_flight;

typedef struct planned {
    orr_sim_drive_fault fault;
    uint64_t operation;
} planned;

/* A host's device. */
typedef struct host {
    orr_block_device device;
    orr_sim_drive *drive;
    bool read_only, dead;
    uint64_t epoch; /* of the drive when it was opened */
    uint32_t n;
    in_flight *requests; /* shape (depth), the first n in flight */
} host;

struct orr_sim_drive {
    orr_sim_drive_options options;
    orr_random random;
    uint8_t *content, *durable; /* shape (bytes) */
    /* Writes since the last sync, a sector each, in the order of their completion. */
    orr_array(uint64_t) pending;     /* sector */
    orr_array(uint8_t) pending_data; /* shape (pending.n, sector) */
    uint64_t sectors_in_flight;      /* of writes */
    planned plans[ORR_SIM_DRIVE_FAULTS];
    uint32_t n_plans;
    uint64_t operations, struck, syncs, changed_writes, submitted;
    uint64_t epoch; /* power losses */
    int64_t now_ns, last_due_ns;
    bool crashed, full;
    host *writer; /* the device that may write; NULL: none */
};

/* --- the medium ------------------------------------------------------------------------------ */

static void write_sector(orr_sim_drive *drive, uint64_t sector, const uint8_t *data)
{
    const uint32_t bytes = drive->options.sector;
    memcpy(drive->content + sector * bytes, data, bytes);
    /* Room was made when the request began. */
    memcpy(drive->pending_data.at + drive->pending.n * bytes, data, bytes);
    drive->pending.at[drive->pending.n++] = sector;
}

/* Of each sector of a write that ends untimely: there or not. */
static void write_in_part(orr_sim_drive *drive, const in_flight *write)
{
    const uint32_t bytes = drive->options.sector;
    const uint64_t first = write->request.at / bytes;
    for (uint64_t k = 0; k < write->request.bytes / bytes; k++)
        if (orr_random_below(&drive->random, 2) == 0)
            write_sector(drive, first + k, write->captured + k * bytes);
}

static void harden(orr_sim_drive *drive, size_t k)
{
    const uint32_t bytes = drive->options.sector;
    memcpy(drive->durable + drive->pending.at[k] * bytes, drive->pending_data.at + k * bytes,
           bytes);
}

/* Makes a part of the unsynced writes durable: none, all, those up to some point, or any. */
static void harden_some(orr_sim_drive *drive)
{
    const size_t n = drive->pending.n;
    const uint64_t way = orr_random_below(&drive->random, 6);
    size_t end = n;
    if (way == 0)
        end = 0;
    else if (way == 2)
        end = (size_t)orr_random_below(&drive->random, n + 1);
    for (size_t k = 0; k < end; k++)
        if (way < 3 || orr_random_below(&drive->random, 2) == 0)
            harden(drive, k);
}

/* What is read from a sector: while a write to it is in flight, the old or the new content. */
static void read_sector(orr_sim_drive *drive, uint64_t sector, uint8_t *ret)
{
    const uint32_t bytes = drive->options.sector;
    const uint64_t at = sector * bytes;
    memcpy(ret, drive->content + at, bytes);
    const host *writer = drive->writer;
    for (uint32_t k = 0; writer != NULL && k < writer->n; k++) {
        const orr_block_request *write = &writer->requests[k].request;
        if (write->operation == ORR_BLOCK_WRITE && write->at <= at &&
            at < write->at + write->bytes && orr_random_below(&drive->random, 2) == 0)
            memcpy(ret, writer->requests[k].captured + (at - write->at), bytes);
    }
}

/* --- faults ---------------------------------------------------------------------------------- */

static unsigned bit(orr_sim_drive_fault fault)
{
    return 1U << (unsigned)fault;
}
#define CRASHES (bit(ORR_SIM_DRIVE_POWER_LOSS) | bit(ORR_SIM_DRIVE_KILL))

/* Counts an operation; true: a fault of this set strikes it. */
static bool strikes(orr_sim_drive *drive, unsigned set, orr_sim_drive_fault *ret)
{
    drive->operations++;
    for (uint32_t k = 0; k < drive->n_plans; k++) {
        const planned plan = drive->plans[k];
        if (plan.operation > drive->operations || (set & bit(plan.fault)) == 0)
            continue;
        drive->plans[k] = drive->plans[--drive->n_plans];
        drive->struck++;
        *ret = plan.fault;
        return true;
    }
    return false;
}

static bool is_dead(const host *h)
{
    return h->dead || h->epoch != h->drive->epoch;
}

static void die(host *h, bool power)
{
    orr_sim_drive *drive = h->drive;
    for (uint32_t k = 0; k < h->n; k++) {
        const in_flight *request = &h->requests[k];
        if (request->request.operation == ORR_BLOCK_READ)
            continue;
        if (power) /* they are among the writes of which any part is kept */
            for (uint32_t s = 0; s < request->request.bytes / drive->options.sector; s++)
                write_sector(drive, request->request.at / drive->options.sector + s,
                             request->captured + (size_t)s * drive->options.sector);
        else
            write_in_part(drive, request);
    }
    h->n = 0;
    h->dead = true;
    drive->sectors_in_flight = 0;
}

static void crash(orr_sim_drive *drive, host *h, orr_sim_drive_fault how)
{
    const bool power = how == ORR_SIM_DRIVE_POWER_LOSS;
    host *dying = power ? drive->writer : h;
    if (dying != NULL && !is_dead(dying))
        die(dying, power);
    if (power) {
        harden_some(drive);
        memcpy(drive->content, drive->durable, drive->options.bytes);
        drive->pending.n = 0;
        drive->epoch++;
    }
    drive->crashed = true;
}

static orr_status dead(orr_error *err)
{
    return orr_fail(err, ORR_IO, "the host of the simulated drive died");
}

/* --- the device ------------------------------------------------------------------------------ */

static orr_status check(const host *h, const orr_block_request *request, orr_error *err)
{
    const orr_block_device *device = &h->device;
    if (request->at % device->sector != 0 || request->bytes % device->sector != 0 ||
        request->bytes == 0 || (uintptr_t)request->data % device->alignment != 0)
        return orr_fail(err, ORR_INVALID, "a transfer is not aligned");
    if (request->at > device->bytes || request->bytes > device->bytes - request->at)
        return orr_fail(err, ORR_INVALID, "a transfer lies beyond the end of the device");
    if (h->read_only && request->operation == ORR_BLOCK_WRITE)
        return orr_fail(err, ORR_INVALID, "a write to a device that was opened to read");
    return ORR_OK;
}

/* Keeps what is written, and makes room for it among the unsynced writes. */
static orr_status capture(orr_sim_drive *drive, in_flight *request, orr_error *err)
{
    const uint32_t bytes = request->request.bytes;
    if (request->room < bytes) {
        uint8_t *larger = orr_realloc(request->captured, bytes);
        if (larger == NULL)
            return orr_fail_memory(err);
        request->captured = larger;
        request->room = bytes;
    }
    const size_t sectors = drive->sectors_in_flight + bytes / drive->options.sector;
    drive->pending_data.n = drive->pending.n * drive->options.sector;
    if (!orr_array_reserve(&drive->pending, sectors) ||
        !orr_array_reserve(&drive->pending_data, sectors * drive->options.sector))
        return orr_fail_memory(err);
    memcpy(request->captured, request->request.data, bytes);
    drive->sectors_in_flight = sectors;
    return ORR_OK;
}

static orr_status begin(host *h, const orr_block_request *request, orr_error *err)
{
    orr_sim_drive *drive = h->drive;
    ORR_TRY(check(h, request, err));
    in_flight *begun = &h->requests[h->n];
    begun->request = *request;
    begun->order = drive->submitted++;
    begun->due_ns =
        drive->now_ns + 1 +
        (int64_t)orr_random_below(&drive->random, 2 * (uint64_t)drive->options.latency_ns);
    if (drive->options.in_order && begun->due_ns < drive->last_due_ns)
        begun->due_ns = drive->last_due_ns;
    if (request->operation == ORR_BLOCK_WRITE)
        ORR_TRY(capture(drive, begun, err));
    else
        memset(request->data, (int)orr_random_below(&drive->random, 256), request->bytes);
    h->n++;
    orr_sim_drive_fault fault;
    if (strikes(drive, CRASHES | bit(ORR_SIM_DRIVE_SLOW), &fault)) {
        if (fault != ORR_SIM_DRIVE_SLOW) {
            crash(drive, h, fault);
            return dead(err);
        }
        begun->due_ns += SLOW_NS;
    }
    drive->last_due_ns = begun->due_ns;
    return ORR_OK;
}

static orr_status submit(orr_block_device *self, const orr_block_request *requests, uint32_t n,
                         uint32_t *ret_n, orr_error *err)
{
    host *h = self->ctx;
    if (is_dead(h))
        return dead(err);
    const uint32_t room = self->depth - h->n, begun = n < room ? n : room;
    for (uint32_t k = 0; k < begun; k++)
        ORR_TRY(begin(h, &requests[k], err));
    *ret_n = begun;
    return ORR_OK;
}

static int end_read(orr_sim_drive *drive, const in_flight *read, bool struck,
                    orr_sim_drive_fault fault)
{
    const uint32_t bytes = drive->options.sector;
    uint64_t sectors = read->request.bytes / bytes;
    if (struck)
        sectors = fault == ORR_SIM_DRIVE_READ_SHORT ? orr_random_below(&drive->random, sectors) : 0;
    for (uint64_t k = 0; k < sectors; k++)
        read_sector(drive, read->request.at / bytes + k, (uint8_t *)read->request.data + k * bytes);
    return struck ? EIO : 0;
}

static int end_write(orr_sim_drive *drive, const in_flight *write, bool struck,
                     orr_sim_drive_fault fault)
{
    const uint32_t bytes = drive->options.sector;
    const uint64_t sectors = write->request.bytes / bytes;
    if (memcmp(write->captured, write->request.data, write->request.bytes) != 0)
        drive->changed_writes++;
    drive->sectors_in_flight -= sectors;
    if (drive->full || (struck && fault == ORR_SIM_DRIVE_NO_SPACE))
        return ENOSPC;
    if (struck) {
        write_in_part(drive, write);
        return EIO;
    }
    for (uint64_t k = 0; k < sectors; k++)
        write_sector(drive, write->request.at / bytes + k, write->captured + k * bytes);
    return 0;
}

static uint32_t earliest(const host *h)
{
    uint32_t found = 0;
    for (uint32_t k = 1; k < h->n; k++) {
        const in_flight *a = &h->requests[k], *b = &h->requests[found];
        if (a->due_ns < b->due_ns || (a->due_ns == b->due_ns && a->order < b->order))
            found = k;
    }
    return found;
}

static orr_status reap(orr_block_device *self, uint32_t least, orr_block_completion *ret,
                       uint32_t room, uint32_t *ret_n, orr_error *err)
{
    host *h = self->ctx;
    orr_sim_drive *drive = h->drive;
    if (is_dead(h))
        return dead(err);
    drive->now_ns +=
        1 + (int64_t)orr_random_below(&drive->random, (uint64_t)drive->options.latency_ns);
    uint32_t n = 0;
    while (n < room && h->n > 0) {
        const uint32_t next = earliest(h);
        in_flight *request = &h->requests[next];
        if (request->due_ns > drive->now_ns && n >= least)
            break;
        if (request->due_ns > drive->now_ns)
            drive->now_ns = request->due_ns;
        const bool read = request->request.operation == ORR_BLOCK_READ;
        const unsigned errors = read ? bit(ORR_SIM_DRIVE_READ_EIO) | bit(ORR_SIM_DRIVE_READ_SHORT)
                                     : bit(ORR_SIM_DRIVE_WRITE_EIO) | bit(ORR_SIM_DRIVE_NO_SPACE);
        orr_sim_drive_fault fault = ORR_SIM_DRIVE_SLOW;
        const bool struck = strikes(drive, CRASHES | errors, &fault);
        if (struck && (bit(fault) & CRASHES) != 0) {
            crash(drive, h, fault);
            return dead(err);
        }
        /* Out of those in flight before it ends: it does not overlap itself. */
        const in_flight ending = *request;
        *request = h->requests[--h->n];
        h->requests[h->n] = ending;
        ret[n++] = (orr_block_completion){.tag = ending.request.tag,
                                          .error = read ? end_read(drive, &ending, struck, fault)
                                                        : end_write(drive, &ending, struck, fault)};
    }
    *ret_n = n;
    return ORR_OK;
}

static orr_status failed_sync(orr_sim_drive *drive, orr_error *err)
{
    const uint32_t bytes = drive->options.sector;
    harden_some(drive);
    if (orr_random_below(&drive->random, 2) == 0)
        for (size_t k = 0; k < drive->pending.n; k++)
            memcpy(drive->content + drive->pending.at[k] * bytes,
                   drive->durable + drive->pending.at[k] * bytes, bytes);
    drive->pending.n = 0;
    return orr_fail(err, ORR_IO, "the simulated drive was not synced: %s", strerror(EIO));
}

static orr_status sync_drive(orr_block_device *self, orr_error *err)
{
    host *h = self->ctx;
    orr_sim_drive *drive = h->drive;
    if (is_dead(h))
        return dead(err);
    orr_sim_drive_fault fault;
    const bool struck = strikes(drive, CRASHES | bit(ORR_SIM_DRIVE_SYNC_EIO), &fault);
    if (struck && fault == ORR_SIM_DRIVE_SYNC_EIO)
        return failed_sync(drive, err);
    /* A crash comes before it, in its midst, or after it. */
    if (!struck || orr_random_below(&drive->random, 2) == 0) {
        for (size_t k = 0; k < drive->pending.n; k++)
            harden(drive, k);
        drive->pending.n = 0;
    }
    if (struck) {
        crash(drive, h, fault);
        return dead(err);
    }
    drive->syncs++;
    return ORR_OK;
}

static void close_host(orr_block_device *self)
{
    host *h = self->ctx;
    assert(h->n == 0 || is_dead(h));
    if (h->drive->writer == h)
        h->drive->writer = NULL;
    for (uint32_t k = 0; h->requests != NULL && k < h->device.depth; k++)
        orr_free(h->requests[k].captured);
    orr_free(h->requests);
    orr_free(h);
}

/* --- the drive ------------------------------------------------------------------------------- */

orr_status orr_sim_drive_new(const orr_sim_drive_options *options, orr_sim_drive **ret,
                             orr_error *err)
{
    orr_sim_drive *drive = orr_calloc(1, sizeof *drive);
    if (drive == NULL)
        return orr_fail_memory(err);
    drive->options = *options;
    orr_sim_drive_options *o = &drive->options;
    o->sector = o->sector != 0 ? o->sector : 512;
    o->alignment = o->alignment != 0 ? o->alignment : o->sector;
    o->depth = o->depth != 0 ? o->depth : DEFAULT_DEPTH;
    o->latency_ns = o->latency_ns != 0 ? o->latency_ns : DEFAULT_LATENCY_NS;
    drive->random = orr_random_of(o->seed, 0);
    drive->content = orr_calloc(1, o->bytes);
    drive->durable = orr_calloc(1, o->bytes);
    if (drive->content == NULL || drive->durable == NULL) {
        orr_sim_drive_free(drive);
        return orr_fail_memory(err);
    }
    *ret = drive;
    return ORR_OK;
}

void orr_sim_drive_free(orr_sim_drive *drive)
{
    if (drive == NULL)
        return;
    orr_array_done(&drive->pending);
    orr_array_done(&drive->pending_data);
    orr_free(drive->content);
    orr_free(drive->durable);
    orr_free(drive);
}

orr_status orr_sim_drive_open(orr_sim_drive *drive, bool read_only, orr_block_device **ret,
                              orr_error *err)
{
    if (!read_only && drive->writer != NULL && !is_dead(drive->writer))
        return orr_fail(err, ORR_LIMIT, "another process has the simulated drive open");
    host *h = orr_calloc(1, sizeof *h);
    in_flight *requests = orr_calloc(drive->options.depth, sizeof *requests);
    if (h == NULL || requests == NULL) {
        orr_free(requests);
        orr_free(h);
        return orr_fail_memory(err);
    }
    *h = (host){.drive = drive,
                .read_only = read_only,
                .epoch = drive->epoch,
                .requests = requests,
                .device = {.name = "simulated",
                           .bytes = drive->options.bytes,
                           .sector = drive->options.sector,
                           .alignment = drive->options.alignment,
                           .depth = drive->options.depth,
                           .ctx = h,
                           .submit = submit,
                           .reap = reap,
                           .sync = sync_drive,
                           .close = close_host}};
    if (!read_only) {
        drive->writer = h;
        drive->crashed = false;
    }
    *ret = &h->device;
    return ORR_OK;
}

void orr_sim_drive_plan(orr_sim_drive *drive, orr_sim_drive_fault fault, uint64_t operation)
{
    assert(drive->n_plans < ORR_SIM_DRIVE_FAULTS);
    drive->plans[drive->n_plans++] = (planned){.fault = fault, .operation = operation};
}

uint64_t orr_sim_drive_operations(const orr_sim_drive *drive)
{
    return drive->operations;
}
bool orr_sim_drive_crashed(const orr_sim_drive *drive)
{
    return drive->crashed;
}
uint64_t orr_sim_drive_struck(const orr_sim_drive *drive)
{
    return drive->struck;
}
void orr_sim_drive_set_full(orr_sim_drive *drive, bool full)
{
    drive->full = full;
}
void orr_sim_drive_crash(orr_sim_drive *drive, orr_sim_drive_fault how)
{
    assert((bit(how) & CRASHES) != 0);
    crash(drive, drive->writer, how);
}

void orr_sim_drive_flip(orr_sim_drive *drive, uint64_t byte, uint32_t which)
{
    const uint8_t flipped = (uint8_t)(1U << (which % 8));
    const uint32_t bytes = drive->options.sector;
    drive->content[byte] ^= flipped;
    drive->durable[byte] ^= flipped;
    for (size_t k = 0; k < drive->pending.n; k++)
        if (drive->pending.at[k] == byte / bytes)
            drive->pending_data.at[k * bytes + byte % bytes] ^= flipped;
}
uint64_t orr_sim_drive_flip_any(orr_sim_drive *drive, uint64_t from, uint64_t to)
{
    const uint64_t byte = from + orr_random_below(&drive->random, to - from);
    orr_sim_drive_flip(drive, byte, (uint32_t)orr_random_below(&drive->random, 8));
    return byte;
}

uint8_t *orr_sim_drive_content(orr_sim_drive *drive)
{
    return drive->content;
}
uint8_t *orr_sim_drive_durable(orr_sim_drive *drive)
{
    return drive->durable;
}
int64_t orr_sim_drive_now_ns(const orr_sim_drive *drive)
{
    return drive->now_ns;
}
uint64_t orr_sim_drive_syncs(const orr_sim_drive *drive)
{
    return drive->syncs;
}
uint64_t orr_sim_drive_changed_writes(const orr_sim_drive *drive)
{
    return drive->changed_writes;
}
