/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <orrery/model.h>

#include "fuzz.h"

/* Lengths of documents in a file: what is read are lengths from 1, what is refused is refused in
 * one line. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    char path[64];
    orr_error err = {.text = ""};
    orr_documents documents;
    orr_arena *arena = orr_arena_new(0, 0);
    const int fd = memfd_create("input", 0);
    FUZZ_CHECK(arena != NULL && fd >= 0 && write(fd, bytes, len) == (ssize_t)len);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (orr_documents_read(path, arena, &documents, &err) == ORR_OK) {
        FUZZ_CHECK(documents.n > 0 && documents.mean_tokens >= 1);
        for (uint32_t i = 0; i < documents.n; i++)
            FUZZ_CHECK(documents.stream[i] > 0);
    } else {
        FUZZ_CHECK(err.status != ORR_INVALID && err.text[0] != '\0' &&
                   strchr(err.text, '\n') == NULL);
    }
    (void)close(fd);
    orr_arena_free(arena);
    return 0;
}
