/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_EXPERTS_ROUTES_TEXT_H
#define TESTS_UNIT_EXPERTS_ROUTES_TEXT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "experts/routes/read.h"

static orr_arena *arena;

static int new_arena(void **state)
{
    (void)state;
    arena = orr_arena_new(0, 0);
    return arena == NULL;
}

static int free_arena(void **state)
{
    (void)state;
    orr_arena_free(arena);
    return 0;
}

/* Routes of a text, which errors call "routes". */
static orr_status read_routes(const char *text, size_t n, const orr_routes_options *options,
                              const orr_routes **ret, orr_error *err)
{
    orr_routes_options defaults;
    orr_stream *stream;
    orr_routes_options_init(&defaults);
    assert_int_equal(orr_stream_open_memory(text, n, &stream, err), ORR_OK);
    const orr_status status = orr_routes_read_stream(
        stream, "routes", options != NULL ? options : &defaults, arena, ret, err);
    orr_stream_close(stream);
    return status;
}

static inline const orr_routes *routes_of(const char *text, const orr_routes_options *options)
{
    const orr_routes *ret = NULL;
    orr_error err = {0};
    if (read_routes(text, strlen(text), options, &ret, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return ret;
}

static inline void assert_refused(const char *text, const orr_routes_options *options,
                                  orr_status status, const char *message)
{
    const orr_routes *ret = NULL;
    orr_error err = {0};
    assert_int_equal(read_routes(text, strlen(text), options, &ret, &err), status);
    assert_string_equal(err.text, message);
    assert_null(ret);
}

/* The choices of a token in a layer against `want`, shape (K). */
static inline void assert_choices(const orr_routes *routes, uint32_t layer, uint64_t token,
                                  const uint16_t *want)
{
    uint16_t choice[ORR_ROUTE_CHOICES_MAX];
    orr_routes_choices(routes, layer, token, 1, choice);
    assert_memory_equal(choice, want, routes->top_k * sizeof *want);
}
#define CHOICES(...) ((const uint16_t[]){__VA_ARGS__})

#endif /* TESTS_UNIT_EXPERTS_ROUTES_TEXT_H */
