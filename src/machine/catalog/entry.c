/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include "machine/catalog/entries.h"

static char plain(char c)
{
    return c == '-' ? '_' : (char)tolower((unsigned char)c);
}

static bool same_name(const char *a, const char *b)
{
    for (; plain(*a) == plain(*b); a++, b++)
        if (*a == '\0')
            return true;
    return false;
}

/* The search runs from the end, so that a user's entry hides the catalogue's. */
const void *orr_entry_find(const void *entries, size_t n, const char *name)
{
    const char *const *const *named = entries;
    while (n-- > 0)
        if (same_name(named[n][0], name))
            return named[n];
    return NULL;
}

const char *const *orr_entry_names(const void *entries, size_t n, orr_arena *arena)
{
    const char *const *const *named = entries;
    const char **names = orr_arena_array(arena, const char *, n);
    for (size_t i = 0; names != NULL && i < n; i++)
        names[i] = named[i][0];
    return names;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

bool orr_entry_is_file(const char *name)
{
    return strchr(name, '/') != NULL || ends_with(name, ".yaml") || ends_with(name, ".yml");
}
