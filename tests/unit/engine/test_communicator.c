/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <orrery/graph.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "engine/ranks/communicator.h"
#include "engine/ranks/reduction.h"
#include "kernel/format/row.h"

/* Ranks are threads of one process over shared memory. Every rank can make every other's numbers
 * itself, from the seed, and holds what it gets against plain loops, bit for bit. */
enum { RANKS = 8, CASES = 16 };
static const int64_t patient_ns = INT64_C(240) * 1000 * 1000 * 1000;

static const orr_dtype dtypes[] = {ORR_DTYPE_FP32, ORR_DTYPE_BF16,  ORR_DTYPE_FP16,
                                   ORR_DTYPE_FP64, ORR_DTYPE_INT32, ORR_DTYPE_INT64,
                                   ORR_DTYPE_INT8, ORR_DTYPE_TF32};

static float real(orr_random *r)
{
    const int exponent = (int)orr_random_below(r, 12) - 6;
    return ldexpf((float)orr_random_unit(r) - 0.5f, exponent);
}

/* Numbers of a member; now and then an infinity or what is no number. */
static void fill(orr_dtype dtype, void *at, int64_t n, uint64_t seed, uint64_t member)
{
    orr_random r = orr_random_of(seed, member + 100);
    const float odd[] = {INFINITY, -INFINITY, NAN, 65504.f, 3.0e38f};
    for (int64_t i = 0; i < n; i++) {
        const float x = orr_random_below(&r, 500) == 0 ? odd[orr_random_below(&r, 5)] : real(&r);
        switch (dtype) {
        case ORR_DTYPE_FP64:
            ((double *)at)[i] = x * 1.000000001;
            break;
        case ORR_DTYPE_BF16:
            ((uint16_t *)at)[i] = orr_fp32_to_bf16(x);
            break;
        case ORR_DTYPE_FP16:
            ((uint16_t *)at)[i] = orr_fp32_to_fp16(x);
            break;
        case ORR_DTYPE_INT64:
            ((uint64_t *)at)[i] = orr_random_u64(&r);
            break;
        case ORR_DTYPE_INT32:
            ((uint32_t *)at)[i] = orr_random_u32(&r);
            break;
        case ORR_DTYPE_INT8:
            ((uint8_t *)at)[i] = (uint8_t)orr_random_u32(&r);
            break;
        default:
            ((float *)at)[i] = x;
        }
    }
}

/* Number i of the sum over members' arrays, written plainly. */
static void plain_sum(orr_dtype dtype, const void *const *of, uint32_t members, int64_t i,
                      void *ret)
{
    float f = 0;
    double d = 0;
    uint64_t u = 0;
    for (uint32_t m = 0; m < members; m++) {
        float x = 0;
        switch (dtype) {
        case ORR_DTYPE_FP64:
            d = m == 0 ? ((const double *)of[m])[i] : d + ((const double *)of[m])[i];
            break;
        case ORR_DTYPE_BF16:
            x = orr_bf16_to_fp32(((const uint16_t *)of[m])[i]);
            break;
        case ORR_DTYPE_FP16:
            x = orr_fp16_to_fp32(((const uint16_t *)of[m])[i]);
            break;
        case ORR_DTYPE_INT64:
            u += ((const uint64_t *)of[m])[i];
            break;
        case ORR_DTYPE_INT32:
            u += ((const uint32_t *)of[m])[i];
            break;
        case ORR_DTYPE_INT8:
            u += ((const uint8_t *)of[m])[i];
            break;
        default:
            x = ((const float *)of[m])[i];
        }
        f = m == 0 ? x : f + x;
    }
    switch (dtype) {
    case ORR_DTYPE_FP64:
        memcpy(ret, &d, 8);
        break;
    case ORR_DTYPE_BF16:
        *(uint16_t *)ret = orr_fp32_to_bf16(f);
        break;
    case ORR_DTYPE_FP16:
        *(uint16_t *)ret = orr_fp32_to_fp16(f);
        break;
    case ORR_DTYPE_FP32:
    case ORR_DTYPE_TF32:
        memcpy(ret, &f, 4);
        break;
    default:
        memcpy(ret, &u, (size_t)orr_dtype_bytes(dtype)); /* little-endian */
    }
}

static bool is_nan(orr_dtype dtype, const void *at)
{
    switch (dtype) {
    case ORR_DTYPE_FP64:
        return isnan(*(const double *)at);
    case ORR_DTYPE_BF16:
        return isnan(orr_bf16_to_fp32(*(const uint16_t *)at));
    case ORR_DTYPE_FP16:
        return isnan(orr_fp16_to_fp32(*(const uint16_t *)at));
    case ORR_DTYPE_FP32:
    case ORR_DTYPE_TF32:
        return isnan(*(const float *)at);
    default:
        return false;
    }
}

/* Bit for bit; which of many NaNs it is, is the processor's to choose. */
static bool same(orr_dtype dtype, const void *a, const void *b)
{
    const size_t each = (size_t)orr_dtype_bytes(dtype);
    return memcmp(a, b, each) == 0 || (is_nan(dtype, a) && is_nan(dtype, b));
}

/* A case, the same for all of its members. */
typedef struct group_case {
    uint64_t seed;
    uint32_t members[RANKS], n;
    uint32_t channel;
    orr_dtype dtype;
    int64_t count;
    size_t scratch_bytes;
} group_case;

static group_case case_of(uint64_t seed, uint32_t channel)
{
    static const int64_t counts[] = {0, 1, 2, 3, 5, 7, 63, 1000, 2048, 4099, 30000, 131071, 300001};
    orr_random r = orr_random_of(seed, 1);
    group_case c = {.seed = seed, .channel = channel};
    uint32_t ranks[RANKS];
    for (uint32_t i = 0; i < RANKS; i++)
        ranks[i] = i;
    c.n = 1 + (uint32_t)orr_random_below(&r, RANKS);
    for (uint32_t i = 0; i < c.n; i++) {
        const uint32_t at = i + (uint32_t)orr_random_below(&r, RANKS - i);
        c.members[i] = ranks[at];
        ranks[at] = ranks[i];
    }
    c.dtype = dtypes[orr_random_below(&r, sizeof dtypes / sizeof *dtypes)];
    c.count = counts[orr_random_below(&r, sizeof counts / sizeof *counts)] / (c.n > 4 ? 4 : 1);
    c.scratch_bytes = orr_random_below(&r, 2) == 0 ? 0 : (size_t)4 << 20;
    return c;
}

typedef struct member {
    const group_case *c;
    orr_communicator *comm;
    size_t each;
    uint8_t *of[RANKS]; /* all members' numbers, members x count each */
    const char *wrong;
    orr_status status;
    orr_error err;
} member;

#define TRY(m, call)                                                                               \
    do {                                                                                           \
        if (((m)->status = (call)) != ORR_OK)                                                      \
            return;                                                                                \
    } while (0)

static void check_all_reduce(member *m, uint8_t *room, bool in_place)
{
    const group_case *c = m->c;
    const uint8_t *in = m->of[m->comm->me];
    if (in_place) {
        memcpy(room, in, (size_t)c->count * m->each);
        in = room;
    }
    TRY(m, orr_all_reduce(m->comm, in, room, c->count, c->dtype, &m->err));
    for (int64_t i = 0; i < c->count; i++) {
        uint64_t want = 0;
        plain_sum(c->dtype, (const void *const *)m->of, c->n, i, &want);
        if (!same(c->dtype, &want, room + (size_t)i * m->each)) {
            m->wrong = in_place ? "all-reduce in place" : "all-reduce";
            return;
        }
    }
}

static void check_reduce_scatter(member *m, uint8_t *room)
{
    const group_case *c = m->c;
    const uint32_t me = m->comm->me;
    TRY(m, orr_reduce_scatter(m->comm, m->of[me], room, c->count, c->dtype, &m->err));
    for (int64_t i = 0; i < c->count; i++) {
        uint64_t want = 0;
        plain_sum(c->dtype, (const void *const *)m->of, c->n, me * c->count + i, &want);
        if (!same(c->dtype, &want, room + (size_t)i * m->each)) {
            m->wrong = "reduce-scatter";
            return;
        }
    }
}

static void check_all_gather(member *m, uint8_t *room)
{
    const group_case *c = m->c;
    const size_t bytes = (size_t)c->count * m->each;
    TRY(m, orr_all_gather(m->comm, m->of[m->comm->me], room, c->count, c->dtype, &m->err));
    for (uint32_t i = 0; i < c->n; i++)
        if (memcmp(room + i * bytes, m->of[i], bytes) != 0)
            m->wrong = "all-gather";
}

/* Bytes from one member to another: uneven, some none. */
static int64_t piece_bytes(const group_case *c, uint32_t from, uint32_t to)
{
    orr_random r = orr_random_of(c->seed, 1000 + from * RANKS + to);
    const uint64_t most = (uint64_t)c->count * 2 / c->n + 1;
    return orr_random_below(&r, 3) == 0 ? 0 : (int64_t)orr_random_below(&r, most);
}

static void check_all_to_all(member *m, uint8_t *room)
{
    const group_case *c = m->c;
    const uint32_t me = m->comm->me;
    int64_t in[RANKS], out[RANKS];
    for (uint32_t i = 0; i < c->n; i++) {
        in[i] = piece_bytes(c, me, i);
        out[i] = piece_bytes(c, i, me);
    }
    /* the room has members x count numbers, each at least a byte, and 2 x count bytes are used */
    TRY(m, orr_all_to_all(m->comm, m->of[me], in, room, out, &m->err));
    size_t at = 0;
    for (uint32_t from = 0; from < c->n; from++) {
        size_t there = 0;
        for (uint32_t to = 0; to < me; to++)
            there += (size_t)piece_bytes(c, from, to);
        if (memcmp(room + at, m->of[from] + there, (size_t)out[from]) != 0)
            m->wrong = "all-to-all";
        at += (size_t)out[from];
    }
}

static void check_others(member *m, uint8_t *room)
{
    const group_case *c = m->c;
    const uint32_t me = m->comm->me, root = (uint32_t)(c->seed % c->n);
    const size_t bytes = (size_t)c->count * m->each;
    memcpy(room, m->of[me], bytes);
    TRY(m, orr_broadcast(m->comm, room, bytes, root, &m->err));
    if (memcmp(room, m->of[root], bytes) != 0)
        m->wrong = "broadcast";
    TRY(m, orr_barrier(m->comm, &m->err));
    /* down a line of stages: the first hears of nobody, the last tells nobody */
    const uint32_t to = me + 1 < c->n ? me + 1 : ORR_NONE, from = me > 0 ? me - 1 : ORR_NONE;
    TRY(m, orr_send_receive(m->comm, to, m->of[me], bytes, from, room, bytes, &m->err));
    if (from != ORR_NONE && memcmp(room, m->of[from], bytes) != 0)
        m->wrong = "pass-on";
}

static void run_case(orr_transport *t, const group_case *c, member *m, orr_arena *arena)
{
    m->c = c;
    m->each = (size_t)orr_dtype_bytes(c->dtype);
    TRY(m, orr_communicator_make(t, c->members, c->n, c->channel, c->scratch_bytes, arena, &m->comm,
                                 &m->err));
    const size_t numbers = (size_t)c->count * c->n + 64;
    for (uint32_t i = 0; i < c->n; i++) {
        m->of[i] = orr_arena_alloc(arena, numbers, m->each, 64);
        fill(c->dtype, m->of[i], (int64_t)numbers, c->seed, i);
    }
    uint8_t *room = orr_arena_alloc(arena, numbers, m->each, 64);
    check_all_reduce(m, room, false);
    if (m->status == ORR_OK)
        check_all_reduce(m, room, true);
    if (m->status == ORR_OK)
        check_reduce_scatter(m, room);
    if (m->status == ORR_OK)
        check_all_gather(m, room);
    if (m->status == ORR_OK)
        check_all_to_all(m, room);
    if (m->status == ORR_OK)
        check_others(m, room);
}

typedef struct rank {
    orr_transport_shm *shm;
    uint32_t number, channel;
    orr_transport *transport;
    uint64_t seed;
    char failure[600];
} rank;

static void *run_rank(void *ctx)
{
    rank *self = ctx;
    for (uint64_t seed = self->seed; seed < self->seed + CASES && self->failure[0] == '\0';
         seed++) {
        const group_case c = case_of(seed, self->channel);
        bool in = false;
        for (uint32_t i = 0; i < c.n; i++)
            in |= c.members[i] == self->number;
        if (!in)
            continue;
        orr_arena *arena = orr_arena_new(0, 0);
        member m = {0};
        run_case(self->transport, &c, &m, arena);
        if (m.status != ORR_OK || m.wrong != NULL)
            snprintf(self->failure, sizeof self->failure,
                     "seed %d, %u members, %lld of %s, rank %u: %s%s", (int)seed, c.n,
                     (long long)c.count, orr_dtype_name(c.dtype), self->number, m.err.text,
                     m.wrong != NULL ? m.wrong : "");
        if (m.status != ORR_OK)
            self->transport->abort(self->transport);
        orr_arena_free(arena);
    }
    return NULL;
}

static void run_ranks(rank *ranks, uint32_t n)
{
    pthread_t threads[2 * RANKS];
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_rank, &ranks[i]), 0);
    for (uint32_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < n; i++)
        if (ranks[i].failure[0] != '\0')
            fail_msg("%s", ranks[i].failure);
}

/* Random groups one after another, on two channels by two threads of each rank at once. */
static void random_groups(void **state)
{
    (void)state;
    orr_error err = {0};
    rank ranks[2 * RANKS] = {0};
    orr_transport_shm *shm = NULL;
    assert_int_equal(orr_transport_shm_new(RANKS, &shm, &err), ORR_OK);
    for (uint32_t i = 0; i < RANKS; i++) {
        orr_transport *t = NULL;
        assert_int_equal(orr_transport_shm_attach(shm, i, patient_ns, &t, &err), ORR_OK);
        ranks[2 * i] = (rank){.number = i, .channel = 0, .transport = t, .seed = 1};
        ranks[2 * i + 1] = (rank){.number = i, .channel = 5, .transport = t, .seed = 1000};
    }
    run_ranks(ranks, 2 * RANKS);
    for (uint32_t i = 0; i < RANKS; i++)
        ranks[2 * i].transport->close(ranks[2 * i].transport);
    orr_transport_shm_free(shm);
}

/* Sums of one member's numbers, of parts that lie in the way, at every alignment. */
static void sums(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        const size_t each = (size_t)orr_dtype_bytes(dtypes[d]);
        for (uint32_t members = 1; members <= 5; members++) {
            enum { N = 5003 };
            const void *parts[5];
            void *first = NULL;
            for (uint32_t m = 0; m < members; m++) {
                uint8_t *at = (uint8_t *)orr_arena_alloc(arena, N + 8, each, 64) + m * each;
                fill(dtypes[d], at, N, d, m);
                parts[m] = at;
                first = m == members / 2 ? at : first;
            }
            uint64_t *want = orr_arena_array(arena, uint64_t, N);
            for (int64_t i = 0; i < N; i++)
                plain_sum(dtypes[d], parts, members, i, &want[i]);
            orr_reduction_sum(dtypes[d], parts, members, N,
                              first); /* in the place of one of them */
            for (size_t i = 0; i < N; i++)
                if (!same(dtypes[d], &want[i], (uint8_t *)first + i * each))
                    fail_msg("%s, %u parts, number %zu", orr_dtype_name(dtypes[d]), members, i);
        }
    }
    assert_false(orr_reduction_supports(ORR_DTYPE_FP8));
    orr_arena_free(arena);
}

static void wrong_groups(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    orr_error err = {0};
    orr_communicator *c = NULL;
    orr_transport *t = orr_transport_self();
    const uint32_t zero = 0, one = 1;
    int64_t number = 5, sum = 0, bytes = -1;
    assert_int_equal(orr_communicator_make(t, &one, 1, 0, 0, arena, &c, &err), ORR_INVALID);
    assert_int_equal(orr_communicator_make(t, &zero, 0, 0, 0, arena, &c, &err), ORR_INVALID);
    assert_int_equal(orr_communicator_make(t, &zero, 1, ORR_CHANNELS, 0, arena, &c, &err),
                     ORR_INVALID);
    assert_int_equal(orr_communicator_make(t, &zero, 1, 0, 0, arena, &c, &err), ORR_OK);
    assert_int_equal(orr_all_reduce(c, &number, &sum, 1, ORR_DTYPE_INT64, &err), ORR_OK);
    assert_int_equal(sum, 5);
    assert_int_equal(orr_all_reduce(c, &number, &sum, -1, ORR_DTYPE_INT64, &err), ORR_INVALID);
    assert_int_equal(orr_all_gather(c, &number, &sum, INT64_MAX, ORR_DTYPE_INT64, &err),
                     ORR_INVALID);
    assert_int_equal(orr_all_reduce(c, &number, &sum, 1, ORR_DTYPE_FP8, &err), ORR_UNSUPPORTED);
    assert_int_equal(orr_all_to_all(c, &number, &bytes, &sum, &bytes, &err), ORR_INVALID);
    assert_int_equal(orr_broadcast(c, &number, 8, 1, &err), ORR_INVALID);
    assert_int_equal(orr_send_receive(c, 1, &number, 8, ORR_NONE, NULL, 0, &err), ORR_INVALID);
    assert_int_equal(orr_barrier(c, &err), ORR_OK);
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums),
        cmocka_unit_test(random_groups),
        cmocka_unit_test(wrong_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
