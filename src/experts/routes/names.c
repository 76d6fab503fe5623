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

/* The text of a key behind its prefix; NULL: no memory. */
static const char *copied(const orr_strtab *keys, uint32_t number, size_t prefix_bytes,
                          orr_arena *arena)
{
    return orr_arena_strndup(arena, orr_strtab_text(keys, number + 1) + prefix_bytes,
                             orr_strtab_len(keys, number + 1) - prefix_bytes);
}

/* The new number of each request that has tokens; in place. Returns how many there are. */
static uint32_t renumber(uint32_t *number, uint32_t requests, uint32_t *request, size_t tokens)
{
    uint32_t n = 0;
    for (size_t t = 0; t < tokens; t++)
        number[request[t]] = 1;
    for (uint32_t i = 0; i < requests; i++)
        number[i] = number[i] != 0 ? n++ : UINT32_MAX;
    for (size_t t = 0; t < tokens; t++)
        request[t] = number[request[t]];
    return n;
}

orr_status orr_route_names_finish(const orr_route_names *names, uint32_t *request, size_t tokens,
                                  orr_arena *arena, orr_routes_names *ret, orr_error *err)
{
    const uint32_t requests = (uint32_t)names->kind.n;
    const uint32_t kinds = orr_strtab_count(names->kind_keys) - 1;
    uint32_t *number = orr_arena_array(arena, uint32_t, requests);
    uint32_t *kind = orr_arena_array(arena, uint32_t, requests);
    const char **request_name = orr_arena_array(arena, const char *, requests);
    const char **kind_name = orr_arena_array(arena, const char *, kinds);
    if (number == NULL || kind == NULL || request_name == NULL || kind_name == NULL)
        return orr_fail_memory(err);
    const uint32_t left = renumber(number, requests, request, tokens);
    for (uint32_t i = 0; i < requests; i++) {
        if (number[i] == UINT32_MAX)
            continue;
        kind[number[i]] = names->kind.at[i];
        request_name[number[i]] = copied(names->request_keys, i, sizeof *kind, arena);
        if (request_name[number[i]] == NULL)
            return orr_fail_memory(err);
    }
    for (uint32_t i = 0; i < kinds; i++) {
        kind_name[i] = copied(names->kind_keys, i, 1, arena);
        if (kind_name[i] == NULL)
            return orr_fail_memory(err);
    }
    *ret = (orr_routes_names){.requests = left,
                              .kinds = kinds,
                              .request_name = request_name,
                              .kind = kind,
                              .kind_name = kind_name};
    return ORR_OK;
}
