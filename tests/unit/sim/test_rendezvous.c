/* SPDX-License-Identifier: Apache-2.0 */
#include "toy.h"

#include "sim/engine/rendezvous.h"

enum { RANKS = 6 };

/* What orr_engine_init() lays out, for six ranks without folding. */
typedef struct fixture {
    toy *t;
    orr_prepared_program prepared_programs[3];
    orr_actor actors[RANKS];
    orr_fold fold;
    orr_transfer_pricer pricer;
    orr_rendezvous_table table;
} fixture;

/* Groups of three; graph 0 has the ordinals 1 2 3, graph 1 has 2 3 4, graph 2 has none. */
static fixture *begin(void)
{
    fixture *c = orr_calloc(1, sizeof *c);
    assert_non_null(c);
    toy *t = c->t = toy_begin(RANKS);
    const uint32_t pp = toy_grouping(t, "pp", (uint32_t[]){0, 0, 0, 1, 1, ORR_NONE});
    size_t n_calls = 0;
    for (uint32_t g = 0; g < 3; g++) {
        toy_graph(t);
        toy_work(t, ORR_WORK_COMPUTE, 5, 0);
        for (uint32_t i = 0; i < 3 && g < 2; i++)
            toy_communicate(t, 100 + 10 * g + i, 0, pp, 3 + g - i); /* later ordinals first */
        toy_end_graph(t);
        orr_transfer_pricer_init(&c->pricer, t->options.cluster, t->options.algorithm);
        assert_int_equal(orr_prepared_program_make(&t->programs[g], t->rendezvous[g], 1, &c->pricer,
                                                   t->arena, &c->prepared_programs[g], &t->err),
                         ORR_OK);
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        t->graph_of_rank[r] = r % 3;
        c->actors[r] = (orr_actor){.prepared = &c->prepared_programs[r % 3],
                                   .graph = r % 3,
                                   .rank = r,
                                   .first_call = n_calls};
        n_calls += c->prepared_programs[r % 3].n_calls;
    }
    t->graph_of_rank[5] = 2;
    assert_int_equal(orr_fold_none(&t->ensemble, t->arena, &c->fold, &t->err), ORR_OK);
    return c;
}

static void end(fixture *c)
{
    orr_rendezvous_done(&c->table);
    toy_end(c->t);
    orr_free(c);
}

static const orr_rendezvous *rendezvous_of(const fixture *c, uint32_t rank, uint32_t ordinal)
{
    const uint32_t call = orr_prepared_call(c->actors[rank].prepared, 0, ordinal);
    assert_int_not_equal(call, ORR_NONE);
    const uint32_t id = c->table.of_call[c->actors[rank].first_call + call];
    return id == ORR_NONE ? NULL : &c->table.at[id];
}

static void test_who_meets_whom(void **state)
{
    (void)state;
    fixture *c = begin();
    assert_int_equal(orr_rendezvous_find(&c->t->ensemble, &c->fold, c->actors, &c->pricer, false,
                                         &c->table, &c->t->err),
                     ORR_OK);
    assert_int_equal(c->table.n, 8); /* four ordinals in each of two groups */
    assert_int_equal(c->table.n_calls, 12);
    assert_null(c->table.moved);
    for (uint32_t first = 0; first < 6; first += 3) {
        assert_int_equal(rendezvous_of(c, first, 1)->count, 1);
        assert_int_equal(rendezvous_of(c, first + 1, 4)->count, 1);
        for (uint32_t o = 2; o < 4; o++) {
            const orr_rendezvous *m = rendezvous_of(c, first, o);
            assert_ptr_equal(m, rendezvous_of(c, first + 1, o));
            assert_int_equal(m->count, 2);
            assert_int_equal(m->arrived, 0);
            assert_int_equal(m->transfer_ns, 100 + 3 - o); /* the shorter: graph 0's */
            assert_int_equal(m->basis, ORR_BASES);
        }
        assert_int_equal(rendezvous_of(c, first + 1, 4)->transfer_ns, 110);
    }
    assert_ptr_not_equal(rendezvous_of(c, 0, 2), rendezvous_of(c, 3, 2));
    uint32_t seats = 0;
    for (uint32_t i = 0; i < c->table.n; i++) {
        assert_int_equal(c->table.at[i].first_seat, seats);
        seats += c->table.at[i].count;
    }
    assert_int_equal(seats, 12);
    end(c);
}

static void test_a_rank_in_no_group_meets_nobody(void **state)
{
    (void)state;
    fixture *c = begin();
    c->t->graph_of_rank[5] = 1;
    c->actors[5].prepared = &c->prepared_programs[1];
    c->actors[5].graph = 1;
    assert_int_equal(orr_rendezvous_find(&c->t->ensemble, &c->fold, c->actors, &c->pricer, false,
                                         &c->table, &c->t->err),
                     ORR_OK);
    assert_int_equal(c->table.n, 8);
    assert_null(rendezvous_of(c, 5, 2));
    end(c);
}

static void test_every_failed_allocation_is_survived(void **state)
{
    (void)state;
    fixture *c = begin();
    orr_status status = ORR_NO_MEMORY;
    uint64_t nth = 1;
    for (; status != ORR_OK; nth++) {
        orr_alloc_fail_from(nth);
        status = orr_rendezvous_find(&c->t->ensemble, &c->fold, c->actors, &c->pricer, false,
                                     &c->table, NULL);
        orr_alloc_fail_from(0);
        assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
    }
    assert_true(nth > 8);
    end(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_meets_whom),
        cmocka_unit_test(test_a_rank_in_no_group_meets_nobody),
        cmocka_unit_test(test_every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
