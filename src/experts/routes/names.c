/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/routes/names.h"

#include <string.h>

orr_status orr_route_names_init(orr_route_names *names, orr_error *err)
{
    *names = (orr_route_names){.request_keys = orr_strtab_new(), .kind_keys = orr_strtab_new()};
    if (names->request_keys != NULL && names->kind_keys != NULL)
        return ORR_OK;
    orr_route_names_done(names);
    return orr_fail_memory(err);
}

void orr_route_names_done(orr_route_names *names)
{
    orr_strtab_free(names->request_keys);
    orr_strtab_free(names->kind_keys);
    orr_array_done(&names->kind);
    orr_array_done(&names->key);
    *names = (orr_route_names){0};
}

/* The number of a text under a prefix. Number 0 of a string table is "", which no key is. */
static orr_status number_of(orr_route_names *names, orr_strtab *keys, const void *prefix,
                            size_t prefix_bytes, orr_text text, uint32_t *ret, orr_error *err)
{
    names->key.n = 0;
    if (!orr_array_reserve(&names->key, prefix_bytes + text.n))
        return orr_fail_memory(err);
    memcpy(names->key.at, prefix, prefix_bytes);
    if (text.n > 0)
        memcpy(names->key.at + prefix_bytes, text.at, text.n);
    const uint32_t id = orr_strtab_add(keys, names->key.at, prefix_bytes + text.n);
    if (id == UINT32_MAX)
        return orr_fail_memory(err);
    *ret = id - 1;
    return ORR_OK;
}

orr_status orr_route_names_add(orr_route_names *names, orr_text kind, orr_text request,
                               uint32_t *ret, orr_error *err)
{
    uint32_t of_kind, number;
    ORR_TRY(number_of(names, names->kind_keys, "k", 1, kind, &of_kind, err));
    ORR_TRY(number_of(names, names->request_keys, &of_kind, sizeof of_kind, request, &number, err));
    if (number == names->kind.n && !orr_array_push(&names->kind, of_kind))
        return orr_fail_memory(err);
    *ret = number;
    return ORR_OK;
}

/* The texts of the keys 1 .. n behind their prefixes. */
static const char *const *copied(const orr_strtab *keys, size_t prefix_bytes, orr_arena *arena)
{
    const uint32_t n = orr_strtab_count(keys) - 1;
    const char **ret = orr_arena_array(arena, const char *, n);
    for (uint32_t i = 0; ret != NULL && i < n; i++) {
        ret[i] = orr_arena_strndup(arena, orr_strtab_text(keys, i + 1) + prefix_bytes,
                                   orr_strtab_len(keys, i + 1) - prefix_bytes);
        if (ret[i] == NULL)
            return NULL;
    }
    return ret;
}

orr_status orr_route_names_finish(const orr_route_names *names, orr_arena *arena,
                                  orr_routes_names *ret, orr_error *err)
{
    uint32_t *kind = orr_arena_array(arena, uint32_t, names->kind.n);
    const char *const *request_name = copied(names->request_keys, sizeof *kind, arena);
    const char *const *kind_name = copied(names->kind_keys, 1, arena);
    if (kind == NULL || request_name == NULL || kind_name == NULL)
        return orr_fail_memory(err);
    if (names->kind.n > 0)
        memcpy(kind, names->kind.at, names->kind.n * sizeof *kind);
    *ret = (orr_routes_names){.requests = (uint32_t)names->kind.n,
                              .kinds = orr_strtab_count(names->kind_keys) - 1,
                              .request_name = request_name,
                              .kind = kind,
                              .kind_name = kind_name};
    return ORR_OK;
}
