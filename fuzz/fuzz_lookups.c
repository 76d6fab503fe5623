/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "fuzz.h"
#include "store/serve/recording.h"

/* A recording of lookups. What is read are rows of tables; what is refused is refused in one line.
 * Every input is read twice: as it is, and as the payload of a block with the right hash, behind a
 * good header, which no fuzzer would find. */
enum { TABLES = 3 };
static const int64_t ROWS[TABLES] = {1, 1000, INT64_C(1) << 45};

static void check_rows(void *ctx, uint32_t table, const int64_t *rows, int64_t n)
{
    *(uint64_t *)ctx += (uint64_t)n;
    FUZZ_CHECK(table < TABLES && n > 0);
    for (int64_t i = 0; i < n; i++)
        FUZZ_CHECK(rows[i] >= 0 && rows[i] < ROWS[table]);
}

static void check_file(const void *bytes, size_t len)
{
    char path[64];
    orr_error err = {.text = ""};
    uint64_t lookups = 0;
    bool cut = false;
    const int fd = memfd_create("input", 0);
    FUZZ_CHECK(fd >= 0 && write(fd, bytes, len) == (ssize_t)len);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (orr_recording_read(path, TABLES, ROWS, check_rows, &lookups, &cut, &err) == ORR_OK)
        FUZZ_CHECK(lookups <= len);
    else
        FUZZ_CHECK(err.status == ORR_PARSE && err.text[0] != '\0' &&
                   strchr(err.text, '\n') == NULL);
    (void)close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    const uint32_t tables = TABLES, payload = (uint32_t)len;
    check_file(bytes, len);
    if (len > ORR_LOOKUPS_BLOCK)
        return 0;
    uint8_t *file = orr_calloc(1, ORR_LOOKUPS_HEADER + ORR_LOOKUPS_BLOCK_HEADER + len);
    FUZZ_CHECK(file != NULL);
    memcpy(file, ORR_LOOKUPS_MAGIC, sizeof ORR_LOOKUPS_MAGIC);
    memcpy(file + sizeof ORR_LOOKUPS_MAGIC, &tables, sizeof tables);
    uint64_t hash = XXH3_64bits(file, ORR_LOOKUPS_HEADER - sizeof hash);
    memcpy(file + ORR_LOOKUPS_HEADER - sizeof hash, &hash, sizeof hash);
    hash = XXH3_64bits(bytes, len);
    memcpy(file + ORR_LOOKUPS_HEADER, &payload, sizeof payload);
    memcpy(file + ORR_LOOKUPS_HEADER + sizeof payload, &hash, sizeof hash);
    memcpy(file + ORR_LOOKUPS_HEADER + ORR_LOOKUPS_BLOCK_HEADER, bytes, len);
    check_file(file, ORR_LOOKUPS_HEADER + ORR_LOOKUPS_BLOCK_HEADER + len);
    orr_free(file);
    return 0;
}
