/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_FUZZ_WEIGHTS_FILE_H
#define ORR_FUZZ_WEIGHTS_FILE_H

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <orrery/weights.h>

#include "fuzz.h"

/* The input as a file that can be mapped. */
static inline orr_status open_input(const uint8_t *bytes, size_t len, orr_weights **ret,
                                    orr_error *err)
{
    char path[64];
    const int fd = memfd_create("input", 0);
    FUZZ_CHECK(fd >= 0);
    FUZZ_CHECK(write(fd, bytes, len) == (ssize_t)len);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const orr_status status = orr_weights_open(path, ret, err);
    FUZZ_CHECK(status == ORR_OK || (err->text[0] != '\0' && strchr(err->text, '\n') == NULL));
    (void)close(fd);
    return status;
}

/* What callers may rely on. Reads a byte of each end. */
static inline void check_weights(const orr_weights *w)
{
    int64_t bytes = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        const orr_weight *t = &w->tensors[i];
        FUZZ_CHECK(i == 0 || strcmp(w->tensors[i - 1].name, t->name) < 0);
        FUZZ_CHECK(orr_weights_find(w, t->name) == t);
        FUZZ_CHECK(t->format < ORR_ROW_FORMATS && t->rank <= ORR_TYPE_DIMS && t->bytes >= 0);
        int64_t n = 1;
        for (uint32_t d = 0; d + 1 < t->rank; d++)
            n *= t->dim[d];
        if (t->bytes > 0)
            FUZZ_CHECK(n * orr_row_format_bytes((orr_row_format)t->format,
                                                t->rank > 0 ? t->dim[t->rank - 1] : 1) ==
                       t->bytes);
        const volatile uint8_t *data = t->data;
        if (t->bytes > 0)
            (void)(data[0] + data[t->bytes - 1]);
        bytes += t->bytes;
    }
    FUZZ_CHECK(bytes == w->bytes);
    for (uint32_t i = 0; i < w->n_metadata; i++)
        FUZZ_CHECK(w->metadata[i].key != NULL && w->metadata[i].value != NULL);
}

#endif /* ORR_FUZZ_WEIGHTS_FILE_H */
