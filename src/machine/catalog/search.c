/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/closest.h"
#include "machine/catalog/entries.h"

/* Forgiving search of entries: by name; by name or alias without regard to case, blanks and
 * punctuation; by words of which an entry has each, in its name, aliases or vendor. */

#define LIST(catalog, kind, count, alias, n_alias, of)                                             \
    {                                                                                              \
        (catalog)->kind, (catalog)->count, offsetof(of, alias), offsetof(of, n_alias), SIZE_MAX    \
    }

orr_entry_list orr_device_list(const orr_catalog *catalog)
{
    orr_entry_list list = LIST(catalog, devices, n_devices, matches, n_matches, orr_device);
    list.vendor = offsetof(orr_device, vendor);
    return list;
}

orr_entry_list orr_link_list(const orr_catalog *catalog)
{
    return (orr_entry_list)LIST(catalog, links, n_links, aliases, n_aliases, orr_link);
}

orr_entry_list orr_cluster_list(const orr_catalog *catalog)
{
    return (orr_entry_list)LIST(catalog, clusters, n_clusters, aliases, n_aliases, orr_cluster);
}

orr_entry_list orr_tier_list(const orr_catalog *catalog)
{
    return (orr_entry_list){catalog->tiers, catalog->n_tiers, SIZE_MAX, SIZE_MAX, SIZE_MAX};
}

static const char *name_of(const orr_entry_list *list, size_t i)
{
    return ((const char *const *const *)list->entries)[i][0];
}

static const char *vendor_of(const orr_entry_list *list, size_t i)
{
    return *(const char *const *)(((const char *const *)list->entries)[i] + list->vendor);
}

/* The text of an entry with number `k`: its name, aliases and vendor; NULL: it has no more. */
static const char *text_of(const orr_entry_list *list, size_t i, uint32_t k)
{
    const char *entry = ((const char *const *)list->entries)[i];
    const uint32_t n_aliases =
        list->n_aliases != SIZE_MAX ? *(const uint32_t *)(entry + list->n_aliases) : 0;
    if (k == 0)
        return name_of(list, i);
    if (k <= n_aliases)
        return (*(const char *const *const *)(entry + list->aliases))[k - 1];
    return k == n_aliases + 1 && list->vendor != SIZE_MAX ? vendor_of(list, i) : NULL;
}

static char plain(char c)
{
    return isalnum((unsigned char)c) ? (char)tolower((unsigned char)c) : '\0';
}

/* Letters and digits alone, "NVLink 4" is "nvlink4". */
static bool same_letters(const char *a, const char *b)
{
    for (;; a++, b++) {
        while (*a != '\0' && plain(*a) == '\0')
            a++;
        while (*b != '\0' && plain(*b) == '\0')
            b++;
        if (plain(*a) != plain(*b))
            return false;
        if (*a == '\0')
            return true;
    }
}

/* The next word from *at on: its beginning, or NULL; *at is moved behind it. */
static const char *next_word(const char **at, size_t *ret_n)
{
    while (**at != '\0' && plain(**at) == '\0')
        ++*at;
    const char *word = *at;
    while (plain(**at) != '\0')
        ++*at;
    *ret_n = (size_t)(*at - word);
    return *ret_n > 0 ? word : NULL;
}

/* Bytes have many units: "80GB" and "80GiB" are "80g". */
static size_t without_unit(const char *word, size_t n)
{
    if (isdigit((unsigned char)word[0]) && n > 2 && plain(word[n - 1]) == 'b')
        return n - (plain(word[n - 2]) == 'i' ? 2 : 1);
    return n;
}

static bool has_word(const char *text, const char *word, size_t n)
{
    const char *other;
    size_t m;
    n = without_unit(word, n);
    while ((other = next_word(&text, &m)) != NULL) {
        m = without_unit(other, m);
        size_t same = 0;
        while (same < n && same < m && plain(word[same]) == plain(other[same]))
            same++;
        if (same == n && same == m)
            return true;
    }
    return false;
}

static bool has_each_word(const orr_entry_list *list, size_t i, const char *name)
{
    const char *word, *text;
    size_t n, n_words = 0;
    while ((word = next_word(&name, &n)) != NULL) {
        bool has = false;
        for (uint32_t k = 0; !has && (text = text_of(list, i, k)) != NULL; k++)
            has = has_word(text, word, n);
        if (!has)
            return false;
        n_words++;
    }
    return n_words > 0;
}

static bool has_letters(const orr_entry_list *list, size_t i, const char *name)
{
    const char *text = list->vendor != SIZE_MAX ? vendor_of(list, i) : "";
    if (text[0] != '\0' && strncasecmp(name, text, strlen(text)) == 0)
        name += strlen(text);
    for (uint32_t k = 0; (text = text_of(list, i, k)) != NULL; k++)
        if (same_letters(text, name))
            return true;
    return false;
}

/* Entries that `fits` takes; a later one of the same name hides those before it. */
static size_t collect(const orr_entry_list *list, const char *name,
                      bool (*fits)(const orr_entry_list *, size_t, const char *),
                      const void *ret[ORR_ENTRY_FITS])
{
    const void *const *entries = list->entries;
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++)
        if (fits(list, i, name) &&
            orr_entry_find(list->entries, list->n, name_of(list, i)) == entries[i]) {
            if (n < ORR_ENTRY_FITS)
                ret[n] = entries[i];
            n++;
        }
    return n;
}

size_t orr_entry_search(const orr_entry_list *list, const char *name, bool by_words,
                        const void *ret[ORR_ENTRY_FITS])
{
    ret[0] = orr_entry_find(list->entries, list->n, name);
    if (ret[0] != NULL)
        return 1;
    const size_t n = collect(list, name, has_letters, ret);
    return n > 0 || !by_words ? n : collect(list, name, has_each_word, ret);
}

orr_status orr_entry_fail(const char *what, const char *name, const orr_entry_list *list,
                          const char *if_none, orr_arena *arena, orr_error *err)
{
    const void *fit[ORR_ENTRY_FITS];
    const size_t n = orr_entry_search(list, name, true, fit);
    const char *const *names = orr_entry_names(list->entries, list->n, arena);
    char all[400] = "";
    size_t length = 0;
    if (names == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < n && i < ORR_ENTRY_FITS && length < sizeof all; i++)
        length += (size_t)snprintf(all + length, sizeof all - length, "%s'%s'",
                                   i == 0       ? ""
                                   : i + 1 == n ? " or "
                                                : ", ",
                                   *(const char *const *)fit[i]);
    const char *close = orr_closest_match(name, names, list->n);
    if (n > 1)
        return orr_fail(err, ORR_NOT_FOUND, "%s '%.80s'; did you mean %s%s?", what, name, all,
                        n > ORR_ENTRY_FITS ? ", ..." : "");
    return close != NULL
               ? orr_fail(err, ORR_NOT_FOUND, "%s '%.80s'; did you mean '%s'?", what, name, close)
               : orr_fail(err, ORR_NOT_FOUND, "%s '%.80s'; %s", what, name, if_none);
}
