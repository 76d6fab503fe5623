/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/philox.h"
#include "store/cache/pool.h"

/* Pools of slots against a model that looks at all slots whenever it evicts one. */
enum { SLOTS = 13, BATCHES = 4, STEPS = 20000 };

typedef struct model_slot {
    orr_cache_slot_state state;
    uint32_t batch, frequency;
    uint64_t since; /* when it became evictable */
} model_slot;

typedef struct model {
    orr_cache_policy policy;
    model_slot slots[SLOTS];
    uint64_t now;
} model;

static uint32_t model_victim(const model *m)
{
    uint32_t best = (uint32_t)ORR_CACHE_NO_SLOT;
    for (uint32_t i = 0; i < SLOTS; i++) {
        const model_slot *s = &m->slots[i];
        if (s->state != ORR_CACHE_EVICTABLE)
            continue;
        const model_slot *b = best < SLOTS ? &m->slots[best] : NULL;
        const bool lfu = m->policy != ORR_CACHE_POLICY_LRU;
        if (b == NULL || (lfu && s->frequency < b->frequency) ||
            ((!lfu || s->frequency == b->frequency) && s->since < b->since))
            best = i;
    }
    return best;
}

static void count(model_slot *s)
{
    s->frequency += s->frequency < 255;
}

/* One of the things that happen to slots, to both. */
static void step(orr_cache_pool *pool, model *m, orr_random *random)
{
    const uint32_t slot = (uint32_t)orr_random_below(random, SLOTS);
    const uint32_t batch = (uint32_t)orr_random_below(random, BATCHES);
    model_slot *s = &m->slots[slot];
    m->now++;
    switch (orr_random_below(random, 8)) {
    case 0:
    case 1: { /* a miss */
        uint32_t victim = orr_cache_pool_victim(pool);
        assert_int_equal(victim, model_victim(m));
        const uint8_t frequency = (uint8_t)orr_random_below(random, 256);
        uint32_t given = orr_cache_pool_take(pool, batch, frequency);
        if (given == (uint32_t)ORR_CACHE_NO_SLOT && victim < SLOTS) {
            orr_cache_pool_release(pool, victim);
            m->slots[victim].state = ORR_CACHE_FREE;
            given = orr_cache_pool_take(pool, batch, frequency);
            assert_int_equal(given, victim);
        }
        if (given < SLOTS) {
            assert_int_equal(m->slots[given].state, ORR_CACHE_FREE);
            m->slots[given] = (model_slot){ORR_CACHE_PINNED, batch, frequency, 0};
            count(&m->slots[given]);
        } else {
            for (uint32_t i = 0; i < SLOTS; i++)
                assert_int_equal(m->slots[i].state, ORR_CACHE_PINNED);
        }
        break;
    }
    case 2:
    case 3: /* a hit */
        if (s->state == ORR_CACHE_FREE)
            break;
        orr_cache_pool_pin(pool, slot, batch);
        s->state = ORR_CACHE_PINNED;
        s->batch = batch;
        count(s);
        break;
    case 4:
    case 5:
    case 6: /* the end of a batch */
        orr_cache_pool_unpin(pool, slot, batch);
        if (s->state == ORR_CACHE_PINNED && s->batch == batch) {
            s->state = ORR_CACHE_EVICTABLE;
            s->since = m->now;
        }
        break;
    default: /* all slots age, in their order */
        if (pool->used < SLOTS || pool->sweep != SLOTS || orr_random_below(random, 20) != 0)
            break;
        orr_cache_pool_age(pool, SLOTS);
        for (uint32_t i = 0; i < SLOTS; i++) {
            m->slots[i].frequency /= 2;
            if (m->policy != ORR_CACHE_POLICY_LRU)
                m->slots[i].since = ++m->now;
        }
        break;
    }
}

static void test_victims(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 9; seed++) {
        orr_error err;
        orr_cache_pool pool = {0};
        orr_random random = orr_random_of(seed, 0);
        model m = {.policy = (orr_cache_policy)(seed % ORR_CACHE_POLICIES)};
        assert_int_equal(orr_cache_pool_init(&pool, 12, 4, SLOTS, false, m.policy, seed % 2, &err),
                         ORR_OK);
        pool.sweep = SLOTS;
        for (int i = 0; i < STEPS; i++)
            step(&pool, &m, &random);
        assert_int_equal(pool.used, SLOTS);
        orr_cache_pool_done(&pool);
    }
}

static void test_records(void **state)
{
    (void)state;
    orr_error err;
    orr_cache_pool pool = {0};
    char record[16];
    assert_int_equal(
        orr_cache_pool_init(&pool, 12, 4, SLOTS, false, ORR_CACHE_POLICY_LRU, false, &err), ORR_OK);
    assert_int_equal((uintptr_t)pool.rows % 64, 0);
    for (uint32_t i = 0; i < SLOTS; i++) {
        memset(record, (int)i, sizeof record);
        orr_cache_pool_put(&pool, i, record);
    }
    for (uint32_t i = 0; i < SLOTS; i++) {
        orr_cache_pool_get(&pool, i, record);
        for (size_t k = 0; k < sizeof record; k++)
            assert_int_equal(record[k], i);
    }
    orr_cache_pool_done(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_victims),
        cmocka_unit_test(test_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
