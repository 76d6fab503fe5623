/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/ranks/launch.h"
#include "engine/record/routes.h"

/* Routes of three ranks in one file: ranks 0 and 1 are stages of one pipeline, with a layer each,
 * rank 2 has both layers for tokens of its own. */
enum { RANKS = 3, TOKENS = 4 };
static const int64_t PATIENT_NS = INT64_C(120) * 1000 * 1000 * 1000;
static const uint32_t LAYERS[] = {1, 3}, REQUEST[2][TOKENS] = {{4, 0, 4, 2}, {3, 1, 3, 2}};

/* What a token of a group chose in a layer, beyond 256 in one of them. */
static int32_t expert(uint32_t group, uint32_t layer, uint32_t token)
{
    return (int32_t)(100 * layer + 20 * group + token + (group == 1 && token == 2 ? 300 : 0));
}

typedef struct work {
    const char *path;
    bool lacks; /* rank 1 has no layer */
} work;

static orr_status record(orr_route_recorder *r, uint32_t rank, const orr_route_source *own,
                         orr_error *err)
{
    const uint32_t group = rank == 2;
    for (uint32_t t = 0; t < TOKENS && own->layers > 0; t++) {
        const orr_routes_row row = {
            .request = REQUEST[group][t], .position = t, .phase = t > 1, .rank = (uint16_t)rank};
        ORR_TRY(orr_route_recorder_token(r, &row, err));
    }
    for (uint32_t l = 0; l < own->layers; l++)
        for (uint32_t t = 0; t < TOKENS; t++) {
            const int32_t choice = expert(group, own->number[l], t);
            ORR_TRY(orr_route_recorder_layer(r, l, 1, &choice, ORR_DTYPE_INT32, err));
        }
    return ORR_OK;
}

static orr_status run_rank(void *ctx, orr_transport *transport, orr_error *err)
{
    const work *w = ctx;
    const uint32_t rank = transport->rank;
    const orr_route_source all = {.number = LAYERS, .layers = 2, .top_k = 1, .experts = 700};
    orr_route_source own = all;
    orr_route_recorder *r;
    if (rank < 2) {
        own.number = LAYERS + rank;
        own.layers = rank == 1 && w->lacks ? 0 : 1;
    }
    ORR_TRY(orr_route_recorder_new(&own, &r, err));
    orr_status status = record(r, rank, &own, err);
    if (status == ORR_OK)
        status = orr_route_recorder_write_all(r, transport, &all, rank == 2, w->path, err);
    orr_route_recorder_free(r);
    return status;
}

static char *text_of(const char *path)
{
    static char text[2048];
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    return text;
}

static void all_ranks_in_the_order_of_requests(void **state)
{
    (void)state;
    char path[] = "/tmp/orr_routes_XXXXXX.csv";
    const int file = mkstemps(path, 4);
    work w = {.path = path};
    orr_error err;
    assert_true(file >= 0);
    close(file);
    if (orr_ranks_run(RANKS, ORR_RANKS_SHM, PATIENT_NS, run_rank, &w, &err) != ORR_OK)
        fail_msg("%s", err.text);
    assert_string_equal(text_of(path), "request,phase,token,rank,L1,L3\n"
                                       "0,p,1,0,101,301\n"
                                       "1,p,1,2,121,321\n"
                                       "2,d,3,0,103,303\n"
                                       "2,d,3,2,123,323\n"
                                       "3,p,0,2,120,320\n"
                                       "3,d,2,2,422,622\n"
                                       "4,p,0,0,100,300\n"
                                       "4,d,2,0,102,302\n");
    unlink(path);
}

static void a_layer_that_nobody_recorded(void **state)
{
    (void)state;
    work w = {.path = "/tmp/orr_routes_not_written.csv", .lacks = true};
    orr_error err;
    assert_int_equal(orr_ranks_run(RANKS, ORR_RANKS_SHM, PATIENT_NS, run_rank, &w, &err),
                     ORR_INVALID);
    assert_non_null(strstr(err.text, "no routes of layer 3"));
    assert_int_not_equal(access(w.path, F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_ranks_in_the_order_of_requests),
                                       cmocka_unit_test(a_layer_that_nobody_recorded)};
    return cmocka_run_group_tests_name("engine/routes", tests, NULL, NULL);
}
