/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_ROUTES_NAMES_H
#define ORR_EXPERTS_ROUTES_NAMES_H

#include "base/array.h"
#include "base/strtab.h"
#include "experts/routes/builder.h"
#include "io/json/reader.h"

/* Numbers of requests and of their kinds by first appearance. A request is told by its kind and its
 * name: files number the requests of each subject from 0. Threads: one. */
typedef struct orr_route_names {
    orr_strtab *request_keys; /* the number of the kind, 4 bytes, then the name */
    orr_strtab *kind_keys;    /* a byte, then the name, so that "" is one too */
    orr_array(uint32_t) kind; /* by request */
    orr_array(char) key;
} orr_route_names;

orr_status orr_route_names_init(orr_route_names *names, orr_error *err) ORR_MUST_CHECK;
void orr_route_names_done(orr_route_names *names);
orr_status orr_route_names_add(orr_route_names *names, orr_text kind, orr_text request,
                               uint32_t *ret, orr_error *err) ORR_MUST_CHECK;
/* The names in the arena, for orr_routes_builder_finish(). Requests without tokens are left out:
 * `request`, shape (tokens), is renumbered. */
orr_status orr_route_names_finish(const orr_route_names *names, uint32_t *request, size_t tokens,
                                  orr_arena *arena, orr_routes_names *ret,
                                  orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_EXPERTS_ROUTES_NAMES_H */
