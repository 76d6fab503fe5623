/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ring_team.h"

static const orr_ring_options tiny = {
    .chunk_bytes = 64, .window = 3, .streams = 1, .small_bytes = 512};

#define assert_right(team, seed)                                                                   \
    do {                                                                                           \
        const char *wrong_ = team_wrong((team), (seed));                                           \
        if (wrong_ != NULL)                                                                        \
            fail_msg("%s", wrong_);                                                                \
    } while (0)

/* Reduces these operations once, all posted at the beginning. */
static void reduce(uint32_t n, const orr_ring_options *options, const team_op *ops, uint32_t n_ops)
{
    ring_team team;
    assert_true(team_new(&team, n, n, options));
    assert_true(team_ops(&team, 5, ops, n_ops));
    team.scribble = true;
    assert_true(team_form(&team, 1, 1));
    assert_true(team_post_all(&team));
    team_run(&team);
    assert_right(&team, 5);
    team_free(&team);
}

static void sums_of_every_size(void **state)
{
    (void)state;
    const size_t sizes[] = {0, 1, 2, 3, 5, 6, 7, 8, 63, 64, 65, 111, 113, 1001, 5000};
    for (uint32_t n = 1; n <= 7; n++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            const team_op ops[] = {{.dtype = ORR_TEAM_FP32, .n = sizes[i]},
                                   {.dtype = ORR_TEAM_FP64, .n = sizes[i]},
                                   {.dtype = ORR_TEAM_BF16, .n = sizes[i]},
                                   {.dtype = ORR_TEAM_FP16, .n = sizes[i]}};
            reduce(n, &tiny, ops, 4);
        }
}

static void members_without_input(void **state)
{
    (void)state;
    for (uint32_t zeros = 0; zeros < 16; zeros++) {
        const team_op ops[] = {{.dtype = ORR_TEAM_FP32, .n = 1000, .zeros = zeros},
                               {.dtype = ORR_TEAM_FP64, .n = 40, .zeros = zeros},
                               {.dtype = ORR_TEAM_BF16, .n = 1000, .zeros = zeros},
                               {.dtype = ORR_TEAM_FP16, .n = 77, .zeros = zeros}};
        reduce(4, &tiny, ops, 4);
        reduce(1, &tiny, ops, 4);
    }
}

/* Sums are then read beside `out`, and added in whole vectors. */
static void chunks_larger_than_the_nets_room(void **state)
{
    (void)state;
    const orr_ring_options large = {.chunk_bytes = 96 << 10, .window = 2, .streams = 2};
    const team_op ops[] = {{.dtype = ORR_TEAM_FP32, .n = 150001},
                           {.dtype = ORR_TEAM_FP64, .n = 70001},
                           {.dtype = ORR_TEAM_BF16, .n = 150001},
                           {.dtype = ORR_TEAM_FP16, .n = 70001, .zeros = 2}};
    for (uint32_t n = 1; n <= 4; n++)
        reduce(n, &large, ops, 4);
}

static void streams_and_windows(void **state)
{
    (void)state;
    const team_op ops[] = {{.dtype = ORR_TEAM_FP32, .n = 3000},
                           {.dtype = ORR_TEAM_FP64, .n = 17},
                           {.dtype = ORR_TEAM_BF16, .n = 1500},
                           {.dtype = ORR_TEAM_FP32, .n = 900}};
    for (uint32_t streams = 1; streams <= 3; streams++)
        for (uint32_t window = 1; window <= 9; window += 2) {
            const orr_ring_options options = {
                .chunk_bytes = 128, .window = window, .streams = streams, .small_bytes = 100};
            for (uint32_t n = 2; n <= 5; n++)
                reduce(n, &options, ops, 4);
        }
}

static void largest_ring(void **state)
{
    (void)state;
    ring_team team;
    const team_op ops[] = {{.dtype = ORR_TEAM_FP32, .n = 2000}, {.dtype = ORR_TEAM_FP32, .n = 3}};
    assert_true(team_new(&team, 1, TEAM_MEMBERS, &tiny));
    assert_true(team_ops(&team, 5, ops, 2));
    assert_true(team_form(&team, 1, 1) && team_post_all(&team));
    team_run(&team);
    assert_right(&team, 5);
    const char *many[ORR_RING_MAX_MEMBERS + 1];
    for (size_t i = 0; i <= ORR_RING_MAX_MEMBERS; i++)
        many[i] = orr_ring_address(team.members[1].ring);
    orr_error err;
    assert_int_equal(
        orr_ring_form(team.members[0].ring, 2, 1, many, ORR_RING_MAX_MEMBERS + 1, 0, &err),
        ORR_LIMIT);
    assert_int_equal(orr_ring_form(team.members[0].ring, 1, 1, many, 2, 0, &err), ORR_INVALID);
    assert_int_equal(orr_ring_form(team.members[0].ring, 2, 1, many, 2, 2, &err), ORR_INVALID);
    team_free(&team);
}

static void infinities_and_nans_pass(void **state)
{
    (void)state;
    ring_team team;
    const team_op op = {.dtype = ORR_TEAM_FP32, .n = 100};
    assert_true(team_new(&team, 1, 3, &tiny));
    assert_true(team_ops(&team, 5, &op, 1));
    ((float *)team.members[0].in[0])[20] = INFINITY;
    ((float *)team.members[1].in[0])[50] = -INFINITY;
    ((float *)team.members[2].in[0])[50] = INFINITY;
    ((float *)team.members[2].in[0])[99] = NAN;
    assert_true(team_form(&team, 1, 1) && team_post_all(&team));
    team_run(&team);
    for (uint32_t i = 0; i < 3; i++) {
        const float *got = (const float *)team.members[i].got[0];
        assert_true(isinf(got[20]) && got[20] > 0 && isnan(got[50]) && isnan(got[99]));
        assert_true(isfinite(got[0]) && isfinite(got[98]));
        assert_memory_equal(got, team.members[0].got[0], 400);
        assert_int_equal(orr_ring_digest(team.members[i].ring),
                         orr_ring_digest(team.members[0].ring));
    }
    team_free(&team);
}

static uint64_t digest_of(uint32_t n, size_t changed, uint32_t bit)
{
    ring_team team;
    const team_op ops[] = {{.dtype = ORR_TEAM_FP64, .n = 100}, {.dtype = ORR_TEAM_FP64, .n = 30}};
    assert_true(team_new(&team, 1, n, &tiny));
    assert_true(team_ops(&team, 5, ops, 2));
    if (changed < 30)
        ((uint64_t *)team.members[n - 1].in[1])[changed] ^= UINT64_C(1) << bit;
    assert_true(team_form(&team, 1, 1));
    assert_int_equal(orr_ring_digest(team.members[0].ring), 0);
    assert_true(team_post_all(&team));
    team_run(&team);
    const uint64_t digest = orr_ring_digest(team.members[0].ring);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(orr_ring_digest(team.members[i].ring), digest);
    team_free(&team);
    return digest;
}

static void digest_tells_a_bit(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 3; n++) {
        const uint64_t digest = digest_of(n, SIZE_MAX, 0);
        assert_int_equal(digest_of(n, SIZE_MAX, 0), digest);
        assert_int_not_equal(digest, 0);
        for (size_t i = 0; i < 30; i += 7)
            assert_int_not_equal(digest_of(n, i, 62), digest);
    }
}

/* What is swapped between places is not the same. */
static void digest_tells_places(void **state)
{
    (void)state;
    uint64_t digests[2];
    for (int swapped = 0; swapped < 2; swapped++) {
        ring_team team;
        const team_op ops[] = {{.dtype = ORR_TEAM_FP64, .n = 8}, {.dtype = ORR_TEAM_FP64, .n = 8}};
        assert_true(team_new(&team, 1, 1, &tiny));
        assert_true(team_ops(&team, 5, ops, 2));
        memset(team.members[0].in[swapped], 1, 64);
        memset(team.members[0].in[!swapped], 2, 64);
        assert_true(team_form(&team, 1, 1) && team_post_all(&team));
        team_run(&team);
        assert_true(team_is_reduced(&team));
        digests[swapped] = orr_ring_digest(team.members[0].ring);
        team_free(&team);
    }
    assert_int_not_equal(digests[0], digests[1]);
}

static int64_t time_of(uint32_t small_bytes)
{
    ring_team team;
    const orr_ring_options options = {.chunk_bytes = 1024, .small_bytes = small_bytes};
    const team_op op = {.dtype = ORR_TEAM_FP32, .n = 256};
    assert_true(team_new(&team, 3, 9, &options));
    assert_true(team_ops(&team, 5, &op, 1));
    assert_true(team_form(&team, 1, 1));
    orr_simnet_run(team.world, 1000000);
    assert_true(team_post_all(&team));
    team_run(&team);
    assert_right(&team, 5);
    for (uint32_t i = 0; i < 9; i++) {
        const orr_ring_progress progress = orr_ring_progress_of(team.members[i].ring);
        assert_int_equal(progress.sent, 16);
        assert_int_equal(progress.received, 16);
        assert_int_equal(progress.posted, 1);
        assert_int_equal(progress.reduced, 1);
    }
    const int64_t took_ns = orr_simnet_now_ns(team.world) - 1000000;
    team_free(&team);
    return took_ns;
}

/* 8 + 4 rounds instead of 8 + 8, and a credit before. */
static void small_operations_gather_both_ways(void **state)
{
    (void)state;
    const double share = (double)time_of(1024) / (double)time_of(8);
    assert_true(share > 0.65 && share < 0.88);
}

/* A member is killed at each of many moments: the survivors form again, and have the sums of what
 * they have. */
static void survivors_reduce_again(void **state)
{
    (void)state;
    const team_op ops[] = {{.dtype = ORR_TEAM_FP32, .n = 700},
                           {.dtype = ORR_TEAM_FP64, .n = 30},
                           {.dtype = ORR_TEAM_FP32, .n = 333}};
    for (uint32_t n = 2; n <= 5; n++)
        for (int64_t when_ns = 0; when_ns < 1500000; when_ns += 37000) {
            ring_team team;
            assert_true(team_new(&team, (uint64_t)when_ns, n, &tiny));
            assert_true(team_ops(&team, 5, ops, 3));
            assert_true(team_form(&team, 1, 1) && team_post_all(&team));
            orr_simnet_run(team.world, when_ns);
            orr_simnet_kill(team.world, 1, false);
            orr_simnet_run(team.world, when_ns + 100000);
            for (uint32_t i = 2; i < n; i++)
                team.hosts[i - 1] = i;
            team.n = n - 1;
            for (uint32_t i = 0; i < n - 1;
                 i++) { /* neighbours were told, once, of the right one */
                ring_member *m = &team.members[team.hosts[i]];
                const bool is_neighbour = m->host == 0 || m->host == 2;
                if (when_ns > 100000) /* all are connected */
                    assert_int_equal(m->broken, is_neighbour);
                assert_true(m->broken <= is_neighbour);
                assert_true(m->broken == 0 || m->about == 1);
            }
            assert_true(team_form(&team, 2, 1));
            team_run(&team);
            assert_right(&team, 5);
            team_free(&team);
        }
}

/* The same members, while connections break and messages are under way. */
static void forms_in_the_middle(void **state)
{
    (void)state;
    const team_op ops[] = {{.dtype = ORR_TEAM_FP32, .n = 700}, {.dtype = ORR_TEAM_FP64, .n = 30}};
    for (uint64_t seed = 0; seed < 40; seed++) {
        ring_team team;
        orr_random random = orr_random_of(seed, 0);
        assert_true(team_new(&team, seed, 4, &tiny));
        assert_true(team_ops(&team, 5, ops, 2));
        for (uint32_t i = 0; i < 4; i++)
            orr_ring_step(team.members[i].ring, 1);
        assert_true(team_post_all(&team)); /* before there is a ring */
        for (uint64_t epoch = 1; epoch < 12; epoch += 1 + orr_random_below(&random, 3)) {
            for (uint32_t i = 0; i < 4;
                 i++) { /* each at its own time, the last one says all there is */
                const uint64_t late_ns = orr_random_below(&random, 120000);
                if (orr_random_below(&random, 4) > 0)
                    assert_int_equal(team_enter(&team, epoch, 1, &team.members[i]), ORR_OK);
                else
                    orr_ring_leave(team.members[i].ring);
                orr_simnet_run(team.world, orr_simnet_now_ns(team.world) + (int64_t)late_ns);
            }
        }
        assert_true(team_form(&team, 100, 1));
        team_run(&team);
        assert_right(&team, 5);
        team_free(&team);
    }
}

static void form_again(ring_member *m)
{
    if (team_enter(m->team, 2, 1, m) != ORR_OK)
        m->broken = 100;
}

/* From the very callback that tells of the break. */
static void forms_in_a_callback(void **state)
{
    (void)state;
    ring_team team;
    const team_op op = {.dtype = ORR_TEAM_FP32, .n = 3000};
    assert_true(team_new(&team, 1, 3, &tiny));
    assert_true(team_ops(&team, 5, &op, 1));
    for (uint32_t i = 0; i < 3; i++)
        team.members[i].on_broken = form_again;
    assert_true(team_form(&team, 1, 1) && team_post_all(&team));
    orr_simnet_run(team.world, 300000);
    orr_simnet_reset(team.world, 0, 1);
    team_run(&team);
    assert_right(&team, 5);
    team_free(&team);
}

static void step_on(ring_member *m, uint32_t op)
{
    if (op + 1 < m->team->n_ops)
        return;
    orr_ring_step(m->ring, 2);
    for (m->posted = 0; m->posted < m->team->n_ops;)
        team_post(m);
    m->reduced = 0;
    m->on_reduced = NULL;
}

/* Each member goes on as soon as it can, while others still reduce: credits of the next step come
 * early. */
static void steps_overlap(void **state)
{
    (void)state;
    const team_op ops[] = {{.dtype = ORR_TEAM_FP32, .n = 700},
                           {.dtype = ORR_TEAM_FP32, .n = 0},
                           {.dtype = ORR_TEAM_FP64, .n = 30}};
    for (uint64_t seed = 0; seed < 30; seed++)
        for (uint32_t n = 1; n <= 5; n++) {
            ring_team team;
            assert_true(team_new(&team, seed, n, &tiny));
            assert_true(team_ops(&team, 5, ops, 3));
            for (uint32_t i = 0; i < n; i++)
                team.members[i].on_reduced = step_on;
            assert_true(team_form(&team, 1, 1) && team_post_all(&team));
            for (uint32_t i = 0; i < n; i++)
                while (team.members[i].on_reduced != NULL)
                    assert_true(orr_simnet_step(team.world, 1000000000));
            team_run(&team);
            assert_right(&team, 5);
            team_free(&team);
        }
}

/* A step with operations that are not reduced ends the attempt: their memory is the caller's again.
 */
static void steps_away(void **state)
{
    (void)state;
    ring_team team;
    const team_op op = {.dtype = ORR_TEAM_FP32, .n = 3000};
    for (int64_t when_ns = 50000; when_ns < 600000; when_ns += 50000) {
        assert_true(team_new(&team, 1, 3, &tiny));
        assert_true(team_ops(&team, 5, &op, 1));
        assert_true(team_form(&team, 1, 1) && team_post_all(&team));
        orr_simnet_run(team.world, when_ns);
        for (uint32_t i = 0; i < 3; i++) {
            orr_ring_step(team.members[i].ring, 2);
            memset(team.members[i].in[0], 0, team_bytes(&op));
            memset(team.members[i].out[0], 1, team_bytes(&op));
        }
        orr_simnet_run(team.world, when_ns + 1000000);
        assert_int_equal(orr_simnet_changed_payloads(team.world), 0);
        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(((char *)team.members[i].out[0])[77], 1);
            team.members[i].posted = 0;
            team_fill(&team, 5, &team.members[i], 0);
        }
        assert_true(team_form(&team, 2, 2) && team_post_all(&team));
        team_run(&team);
        assert_right(&team, 5);
        team_free(&team);
    }
}

static void corruption_breaks(void **state)
{
    (void)state;
    ring_team team;
    const team_op op = {.dtype = ORR_TEAM_FP32, .n = 3000};
    assert_true(team_new(&team, 1, 3, &tiny));
    assert_true(team_ops(&team, 5, &op, 1));
    assert_true(team_form(&team, 1, 1) && team_post_all(&team));
    orr_simnet_run(team.world, 300000);
    orr_simnet_corrupt(team.world, 0, 1);
    orr_simnet_run(team.world, 600000);
    assert_int_equal(team.members[1].broken, 1);
    assert_int_equal(team.members[1].about, 0);
    assert_int_equal(team.members[0].broken, 1);
    assert_int_equal(team.members[0].about, 1);
    assert_int_equal(team.members[2].broken, 0);
    assert_string_equal(team.members[1].why, orr_net_close_reason_text(ORR_NET_CORRUPT));
    team_free(&team);
}

static void nobody_listens(void **state)
{
    (void)state;
    ring_team team;
    assert_true(team_new(&team, 1, 3, &tiny));
    orr_simnet_kill(team.world, 1, false);
    assert_int_equal(team_enter(&team, 1, 1, &team.members[0]), ORR_OK);
    orr_simnet_run(team.world, 1000000);
    assert_int_equal(team.members[0].broken, 1);
    assert_int_equal(team.members[0].about, 1);
    team_free(&team);
}

static void what_is_not_allowed(void **state)
{
    (void)state;
    ring_team team;
    orr_error err;
    orr_ring *ring = NULL;
    float numbers[4];
    uint32_t op;
    const orr_ring_callbacks user = {.reduced = team_reduced, .broken = team_broken};
    assert_true(team_new(&team, 1, 1, &tiny));
    const orr_ring_options wrong[] = {
        {.chunk_bytes = 12}, {.chunk_bytes = UINT32_MAX - 7}, {.window = 5000}, {.streams = 17}};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(
            orr_ring_new(team.members[0].net, "any:0", &wrong[i], NULL, &user, &ring, &err),
            ORR_INVALID);
    orr_ring *good = team.members[0].ring;
    assert_int_equal(orr_ring_post(good, (orr_team_dtype)7, numbers, numbers, 2, &op, &err),
                     ORR_INVALID);
    assert_int_equal(orr_ring_post(good, ORR_TEAM_FP32, numbers, NULL, 2, &op, &err), ORR_INVALID);
    assert_int_equal(orr_ring_post(good, ORR_TEAM_FP32, numbers, numbers, SIZE_MAX / 2, &op, &err),
                     ORR_INVALID);
    assert_true(team_form(&team, 1, 1));
    assert_int_equal(orr_ring_post(good, ORR_TEAM_FP32, NULL, numbers, SIZE_MAX / 8, &op, &err),
                     ORR_LIMIT);
    assert_int_equal(orr_ring_progress_of(good).posted, 0);
    assert_ptr_equal(ring, NULL);
    team_free(&team);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_of_every_size),
        cmocka_unit_test(members_without_input),
        cmocka_unit_test(chunks_larger_than_the_nets_room),
        cmocka_unit_test(streams_and_windows),
        cmocka_unit_test(largest_ring),
        cmocka_unit_test(infinities_and_nans_pass),
        cmocka_unit_test(digest_tells_a_bit),
        cmocka_unit_test(digest_tells_places),
        cmocka_unit_test(small_operations_gather_both_ways),
        cmocka_unit_test(survivors_reduce_again),
        cmocka_unit_test(forms_in_the_middle),
        cmocka_unit_test(forms_in_a_callback),
        cmocka_unit_test(steps_overlap),
        cmocka_unit_test(steps_away),
        cmocka_unit_test(corruption_breaks),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(what_is_not_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
