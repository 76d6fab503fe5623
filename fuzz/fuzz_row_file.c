/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "fuzz.h"
#include "store/file/log.h"

/* The header and the log of a row file. The input is a header, read as it is and with the right
 * hash; and, as bytes that are put over the log of a good small file, with and without hashes made
 * right, what recovery meets. A file either opens, with every row in a place of its own, or there
 * is one line why not. */
enum { SECTOR = 64, DEVICE_BYTES = 1 << 18, ROWS = 20 };

static _Alignas(64) uint8_t disk[DEVICE_BYTES];
static orr_block_completion done[256];
static uint32_t n_done;

static orr_status submit(orr_block_device *self, const orr_block_request *requests, uint32_t n,
                         uint32_t *ret_n, orr_error *err)
{
    (void)self;
    (void)err;
    *ret_n = 0;
    for (; *ret_n < n && n_done < 256; *ret_n += 1) {
        const orr_block_request *r = &requests[*ret_n];
        FUZZ_CHECK(r->at <= DEVICE_BYTES && r->bytes <= DEVICE_BYTES - r->at);
        if (r->operation == ORR_BLOCK_READ)
            memcpy(r->data, disk + r->at, r->bytes);
        else
            memcpy(disk + r->at, r->data, r->bytes);
        done[n_done++] = (orr_block_completion){r->tag, 0};
    }
    return ORR_OK;
}

static orr_status reap(orr_block_device *self, uint32_t least, orr_block_completion *ret,
                       uint32_t room, uint32_t *ret_n, orr_error *err)
{
    (void)self;
    (void)least;
    (void)err;
    for (*ret_n = 0; *ret_n < room && n_done > 0; *ret_n += 1)
        ret[*ret_n] = done[--n_done];
    return ORR_OK;
}

static orr_status sync_all(orr_block_device *self, orr_error *err)
{
    (void)self;
    (void)err;
    return ORR_OK;
}

static void close_nothing(orr_block_device *self)
{
    (void)self;
}

static orr_block_device DEVICE = {.name = "memory",
                                  .bytes = DEVICE_BYTES,
                                  .sector = SECTOR,
                                  .alignment = 64,
                                  .depth = 256,
                                  .submit = submit,
                                  .reap = reap,
                                  .sync = sync_all,
                                  .close = close_nothing};
static const orr_row_shard SHARD = {"t", ROWS, 0, ROWS, 4, 0, 4, 0, 0, 16, 0};
static const orr_row_file_facts FACTS = {1, 2, 0, 1, 1, &SHARD};
static const orr_row_file_options OPTIONS = {.durable = true};

static void check_opened(int64_t step)
{
    orr_row_file *f;
    orr_error err = {.text = ""};
    if (orr_row_file_open(&DEVICE, NULL, step, &OPTIONS, &f, &err) == ORR_OK) {
        FUZZ_CHECK(step < 0 || orr_row_file_step(f) == step);
        const orr_row_file_facts *facts = orr_row_file_facts_of(f);
        for (uint32_t i = 0; i < facts->n_shards; i++)
            for (int64_t row = 0; row < facts->shards[i].rows; row++) {
                const orr_row_entry home = orr_row_file_entries(f, i)[row];
                if (home == 0)
                    continue;
                const orr_row_read at = orr_row_file_locate(f, i, home);
                FUZZ_CHECK(at.data == NULL && at.at + at.bytes <= DEVICE_BYTES);
            }
        orr_row_file_close(f);
    } else {
        FUZZ_CHECK(err.text[0] != '\0' && strchr(err.text, '\n') == NULL);
    }
}

/* A file with two commits; gives where its log is. */
static void make_file(uint64_t *ret_id, uint64_t *ret_log, uint64_t *ret_log_sectors)
{
    orr_row_file *f;
    orr_error err;
    const uint8_t record[16] = {1};
    memset(disk, 0, sizeof disk);
    FUZZ_CHECK(orr_row_file_create(&DEVICE, &FACTS, &OPTIONS, &f, &err) == ORR_OK);
    for (int64_t step = 0; step < 2; step++) {
        for (int64_t row = step; row < ROWS; row += 2) {
            orr_row_entry home;
            FUZZ_CHECK(orr_row_file_append(f, 0, row, record, NULL, false, &home, &err) == ORR_OK);
            orr_row_file_entries(f, 0)[row] = home;
        }
        FUZZ_CHECK(orr_row_file_begin_commit(f, step, &err) == ORR_OK);
        FUZZ_CHECK(orr_row_file_finish_commit(f, NULL, NULL, &err) == ORR_OK);
    }
    *ret_id = f->header.file_id;
    *ret_log = f->layout.log_at;
    *ret_log_sectors = f->layout.log_sectors;
    orr_row_file_close(f);
}

static void check_log(const uint8_t *bytes, size_t len, bool seal)
{
    uint64_t id, log, sectors;
    make_file(&id, &log, &sectors);
    const uint64_t choice = fuzz_choice(bytes, len), from = choice % (2 * sectors);
    for (uint64_t i = 0, at = 0; from + i < 2 * sectors && at < len; i++, at += SECTOR - 8) {
        const size_t n = orr_min_size(len - at, SECTOR - 8);
        uint8_t *to = disk + (log + from + i) * SECTOR;
        const bool head = (from + i) % sectors == 0;
        memcpy(to, bytes + at, n);
        if (seal)
            orr_sector_seal(
                to, SECTOR,
                (orr_sector_key){id, log + from + i, head ? 0 : 1 + (choice >> 40) % 2});
    }
    check_opened(choice >> 32 & 1 ? -1 : (int64_t)(choice >> 33 & 1));
}

static void check_header(const uint8_t *bytes, size_t len, bool seal)
{
    const size_t n = orr_min_size(len, 1 << 13);
    size_t need = 0;
    memset(disk, 0, sizeof disk);
    memcpy(disk, bytes, n);
    if (seal) {
        memcpy(disk, ORR_ROW_FILE_MAGIC, sizeof ORR_ROW_FILE_MAGIC);
        if (orr_row_header_bytes(disk, sizeof disk, &need, NULL) != ORR_OK || need > sizeof disk)
            return;
        const uint64_t hash = XXH3_64bits(disk, need - 8);
        memcpy(disk + need - 8, &hash, sizeof hash);
    }
    check_opened(-1);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    check_header(bytes, len, false);
    check_header(bytes, len, true);
    check_log(bytes, len, false);
    check_log(bytes, len, true);
    return 0;
}
