/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "engine/checkpoint/table_file.h"
#include "fuzz.h"

/* A file of embedding tables. Pieces lie within the file one behind another, have sizes that follow
 * from their shapes, and can be read to the end or have a hash that differs. Every input is read
 * twice: as it is, and with the right hash in its first header, which no fuzzer would find. */

static void check_piece(const orr_table_file *f, const orr_table_piece *p)
{
    const orr_table_header *h = &p->header;
    const orr_table_layout *l = &p->layout;
    const int64_t rows = h->row_end - h->row_begin;
    orr_table_reader reader;
    orr_error err = {.text = ""};
    FUZZ_CHECK(rows >= 0 && h->row_end <= h->rows && h->column_begin < h->column_end);
    FUZZ_CHECK(l->column_state_at >= rows * l->row_bytes && l->row_bytes > 0);
    FUZZ_CHECK(l->bytes >= l->row_state_at + rows * l->row_state_bytes);
    FUZZ_CHECK((uint64_t)l->piece_bytes == h->bytes && l->piece_bytes % ORR_TABLE_PAGE == 0);
    FUZZ_CHECK(memchr(h->name, '\0', sizeof h->name) != NULL && h->name[0] != '\0');
    if (orr_table_reader_open(f, p, &reader, &err) == ORR_OK) {
        char *bytes = orr_malloc((size_t)l->bytes + 1);
        FUZZ_CHECK(bytes != NULL);
        if (orr_table_read(&reader, 0, l->bytes, bytes, &err) != ORR_OK)
            FUZZ_CHECK(err.status == ORR_PARSE);
        orr_free(bytes);
        orr_table_reader_close(&reader);
    }
    FUZZ_CHECK(err.text[0] == '\0' || strstr(err.text, ": byte ") != NULL);
}

static void check_file(const void *bytes, size_t len)
{
    char path[64];
    orr_table_file *f;
    orr_error err = {.text = ""};
    const int fd = memfd_create("input", 0);
    FUZZ_CHECK(fd >= 0 && write(fd, bytes, len) == (ssize_t)len);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (orr_table_file_open(path, &f, &err) == ORR_OK) {
        uint64_t at = 0;
        for (uint32_t i = 0; i < f->n; at += f->pieces[i++].header.bytes) {
            FUZZ_CHECK(f->pieces[i].at == at);
            check_piece(f, &f->pieces[i]);
        }
        FUZZ_CHECK(at == len);
        orr_table_file_close(f);
    } else {
        FUZZ_CHECK((err.status == ORR_PARSE || err.status == ORR_INVALID) && err.text[0] != '\0');
        FUZZ_CHECK(strchr(err.text, '\n') == NULL);
    }
    (void)close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    check_file(bytes, len);
    if (len < sizeof(orr_table_header))
        return 0;
    uint8_t *copy = orr_malloc(len);
    FUZZ_CHECK(copy != NULL);
    memcpy(copy, bytes, len);
    memcpy(copy, ORR_TABLE_MAGIC, sizeof ORR_TABLE_MAGIC);
    const uint64_t hash = XXH3_64bits(copy, offsetof(orr_table_header, hash));
    memcpy(copy + offsetof(orr_table_header, hash), &hash, sizeof hash);
    check_file(copy, len);
    orr_free(copy);
    return 0;
}
