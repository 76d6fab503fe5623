/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TESTS_LITE_MEMORY_H
#define ORR_TESTS_LITE_MEMORY_H

#include <sqlite3.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"

/* SQLite allocates through the same door as everything else, so that all of it can be made to fail.
 */
enum { LITE_HEADER = 16 };

static inline void *lite_malloc(int n)
{
    char *at = orr_malloc((size_t)n + LITE_HEADER);
    if (at == NULL)
        return NULL;
    memcpy(at, &n, sizeof n);
    return at + LITE_HEADER;
}

static inline void lite_free(void *at)
{
    orr_free((char *)at - LITE_HEADER);
}

static inline int lite_size(void *at)
{
    int n = 0;
    if (at != NULL)
        memcpy(&n, (char *)at - LITE_HEADER, sizeof n);
    return n;
}

static inline void *lite_realloc(void *old, int n)
{
    char *at = orr_realloc((char *)old - LITE_HEADER, (size_t)n + LITE_HEADER);
    if (at == NULL)
        return NULL;
    memcpy(at, &n, sizeof n);
    return at + LITE_HEADER;
}

static inline int lite_round(int n)
{
    return (n + 7) & ~7;
}

static inline int lite_init(void *ctx)
{
    (void)ctx;
    return SQLITE_OK;
}

static inline void lite_shutdown(void *ctx)
{
    (void)ctx;
}

/* Before anything else is asked of SQLite. */
static inline bool lite_memory_use(void)
{
    static const sqlite3_mem_methods door = {.xMalloc = lite_malloc,
                                             .xFree = lite_free,
                                             .xRealloc = lite_realloc,
                                             .xSize = lite_size,
                                             .xRoundup = lite_round,
                                             .xInit = lite_init,
                                             .xShutdown = lite_shutdown};
    return sqlite3_config(SQLITE_CONFIG_MALLOC, &door) == SQLITE_OK;
}

#endif
