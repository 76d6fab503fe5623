/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "support/seeds.h"
#include "sim/flow/state.h"

/* Flows over random networks.
 *
 *   - after every change, each rate is what the definition says (max_min_rates.h), read off it unit
 * by unit over all flows; loads are their sums;
 *   - max-min: no flow gets more without one that has no more getting less, but for what whole
 *     units leave over;
 *   - on random clusters every transfer is told once, not before its bytes can have passed; each
 *     link has carried exactly the bytes of the flows that crossed it; load over time adds up;
 *   - the same flows begun again give the same times;
 *   - nothing is allocated while no more flows are under way than there were. */
enum {
    RATE_SEEDS = 4000,
    CLUSTER_SEEDS = 1500,
    MAX_LINKS = 14,
    MAX_FLOWS = 24,
    MAX_PATH = 5,
    CHANGES = 30,
    MAX_TRANSFERS = 40,
    MAX_DEMANDS = 6
};

typedef struct net {
    orr_random random;
    orr_flow_rates rates;
    uint32_t n_links, n_flows, most_path;
    int64_t capacity[MAX_LINKS];
    uint32_t row[MAX_FLOWS], n_path[MAX_FLOWS], path[MAX_FLOWS][MAX_PATH];
    int64_t want[MAX_FLOWS];
} net;

static uint32_t below(orr_random *random, uint32_t bound)
{
    return (uint32_t)orr_random_below(random, bound);
}

static bool crosses(const net *t, uint32_t f, uint32_t l)
{
    for (uint32_t i = 0; i < t->n_path[f]; i++)
        if (t->path[f][i] == l)
            return true;
    return false;
}

/* Full from w: what its flows below w have, and all others at w + 1, is more than there is. */
static bool is_full(const net *t, uint32_t l, int64_t w)
{
    int64_t need = 0;
    for (uint32_t f = 0; f < t->n_flows; f++)
        if (crosses(t, f, l))
            need += t->want[f] < w ? t->want[f] : w + 1;
    return need > t->capacity[l];
}

/* All rise by one; those with a link that is full from here stop. */
static void brute_force(net *t)
{
    uint32_t rising = t->n_flows;
    for (uint32_t f = 0; f < t->n_flows; f++)
        t->want[f] = INT64_MAX;
    for (int64_t w = 1; rising > 0; w++) {
        bool full[MAX_LINKS];
        for (uint32_t l = 0; l < t->n_links; l++)
            full[l] = is_full(t, l, w);
        for (uint32_t f = 0; f < t->n_flows; f++) {
            bool stops = false;
            for (uint32_t i = 0; i < t->n_path[f]; i++)
                stops |= full[t->path[f][i]];
            if (t->want[f] == INT64_MAX && stops) {
                t->want[f] = w;
                rising--;
            }
        }
    }
}

static void check_rates(net *t, uint64_t seed)
{
    brute_force(t);
    for (uint32_t f = 0; f < t->n_flows; f++) {
        const int64_t rate = t->rates.flows.at[t->row[f]].rate;
        if (rate != t->want[f])
            seed_fail(seed, "flow %u of %u: rate %lld, not %lld", f, t->n_flows, (long long)rate,
                      (long long)t->want[f]);
    }
    for (uint32_t l = 0; l < t->n_links; l++) {
        int64_t load = 0;
        uint32_t n = 0;
        for (uint32_t f = 0; f < t->n_flows; f++) {
            load += crosses(t, f, l) ? t->want[f] : 0;
            n += crosses(t, f, l);
        }
        if (t->rates.links[l].load != load)
            seed_fail(seed, "link %u: load %lld, not %lld", l, (long long)t->rates.links[l].load,
                      (long long)load);
        if (load > t->capacity[l] && load > n)
            seed_fail(seed, "link %u carries %lld of %lld", l, (long long)load,
                      (long long)t->capacity[l]);
    }
}

/* Each flow has a link that is full to within a unit a flow, on which none has more. */
static void check_fair(const net *t, uint64_t seed)
{
    for (uint32_t f = 0; f < t->n_flows; f++) {
        bool held = false;
        for (uint32_t i = 0; i < t->n_path[f]; i++) {
            int64_t load = 0, n = 0, most = 0;
            for (uint32_t g = 0; g < t->n_flows; g++) {
                if (!crosses(t, g, t->path[f][i]))
                    continue;
                load += t->want[g];
                n++;
                most = t->want[g] > most ? t->want[g] : most;
            }
            held |= load + n > t->capacity[t->path[f][i]] && most == t->want[f];
        }
        if (!held)
            seed_fail(seed, "flow %u could have more than %lld", f, (long long)t->want[f]);
    }
}

static void add_flow(net *t)
{
    const uint32_t f = t->n_flows++;
    uint32_t order[MAX_LINKS];
    for (uint32_t l = 0; l < t->n_links; l++)
        order[l] = l;
    t->n_path[f] = 1 + below(&t->random, t->n_links < t->most_path ? t->n_links : t->most_path);
    for (uint32_t i = 0; i < t->n_path[f]; i++) {
        const uint32_t j = i + below(&t->random, t->n_links - i), l = order[j];
        order[j] = order[i];
        t->path[f][i] = l;
    }
    assert_true(orr_flow_rates_reserve(&t->rates, 1, t->n_path[f]));
    t->row[f] = orr_flow_rates_add(&t->rates, t->path[f], NULL, t->n_path[f]);
}

static void remove_flow(net *t, uint32_t f)
{
    const uint32_t last = --t->n_flows;
    orr_flow_rates_remove(&t->rates, t->row[f]);
    t->row[f] = t->row[last];
    t->n_path[f] = t->n_path[last];
    memcpy(t->path[f], t->path[last], sizeof t->path[f]);
}

static void rates_are_those_of_the_definition(void **state)
{
    (void)state;
    const seed_range range = seeds(RATE_SEEDS);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        net t = {.random = orr_random_of(seed, 0)};
        t.n_links = 1 + below(&t.random, MAX_LINKS);
        t.most_path = 1 + below(&t.random, MAX_PATH);  /* short ones leave far parts alone */
        const uint32_t most = seed % 5 == 0 ? 8 : 120; /* often too few units to go round */
        for (uint32_t l = 0; l < t.n_links; l++)
            t.capacity[l] = 1 + below(&t.random, most);
        assert_true(orr_flow_rates_init(&t.rates, t.capacity, t.n_links));
        for (int change = 0; change < CHANGES; change++) {
            for (uint32_t i = 1 + below(&t.random, 3); i > 0; i--) {
                if (t.n_flows < MAX_FLOWS && (t.n_flows == 0 || below(&t.random, 3) > 0))
                    add_flow(&t);
                else
                    remove_flow(&t, below(&t.random, t.n_flows));
            }
            orr_flow_rates_solve(&t.rates);
            check_rates(&t, seed);
            check_fair(&t, seed);
        }
        orr_flow_rates_done(&t.rates);
    }
}

/* Clusters. */

typedef struct scene {
    orr_cluster cluster;
    orr_level levels[3];
    orr_network network;
    orr_flow_demand demands[MAX_TRANSFERS][MAX_DEMANDS];
    uint32_t n_demands[MAX_TRANSFERS], n_transfers;
    int64_t begin_ns[MAX_TRANSFERS], latency_ns[MAX_TRANSFERS], done_ns[MAX_TRANSFERS];
} scene;

static orr_fact fact(double value)
{
    return (orr_fact){.value = value, .basis = ORR_FACT_ASSUMED, .source = "drawn"};
}

static void draw(scene *s, uint64_t seed)
{
    orr_random random = orr_random_of(seed, 1);
    memset(s, 0, sizeof *s);
    s->cluster =
        (orr_cluster){.name = "drawn", .n_levels = 1 + below(&random, 3), .levels = s->levels};
    uint32_t devices = 1;
    for (uint32_t k = 0; k < s->cluster.n_levels; k++) {
        const uint32_t size = 1 + below(&random, 5);
        devices *= size;
        s->levels[k] = (orr_level){.size = size,
                                   .devices = devices,
                                   .topology = (uint8_t)below(&random, 3),
                                   .bytes_per_s = fact(1e6 * (1 + below(&random, 400))),
                                   .latency_ns = fact(below(&random, 100)),
                                   .oversubscription = fact(1 + below(&random, 4))};
    }
    s->cluster.n_devices = devices;
    orr_network_of_cluster(&s->cluster, &s->network);
    s->n_transfers = 1 + below(&random, MAX_TRANSFERS);
    int64_t now_ns = 0;
    for (uint32_t t = 0; t < s->n_transfers; t++) {
        now_ns += below(&random, 3) == 0 ? 0 : below(&random, 4000000);
        s->begin_ns[t] = now_ns;
        s->latency_ns[t] = below(&random, 2) * below(&random, 100000);
        s->n_demands[t] = below(&random, MAX_DEMANDS + 1);
        for (uint32_t i = 0; i < s->n_demands[t]; i++)
            s->demands[t][i] =
                (orr_flow_demand){below(&random, devices), below(&random, devices),
                                  below(&random, 8) == 0 ? 0 : below(&random, 200000)};
    }
}

static void take_until(scene *s, orr_flows *flows, int64_t until_ns, uint32_t *n_done,
                       uint64_t seed)
{
    int64_t at_ns;
    const uint64_t *done;
    size_t n;
    while (orr_flows_next(flows, &at_ns) && at_ns <= until_ns) {
        orr_flows_advance(flows, at_ns, &done, &n);
        for (size_t i = 0; i < n; i++, ++*n_done) {
            if (s->done_ns[done[i]] != -1)
                seed_fail(seed, "transfer %llu ended twice", (unsigned long long)done[i]);
            s->done_ns[done[i]] = at_ns;
        }
    }
}

static void play(scene *s, orr_flows *flows, int64_t shift_ns, uint64_t seed)
{
    orr_error err;
    uint32_t n_done = 0;
    for (uint32_t t = 0; t < s->n_transfers; t++)
        s->done_ns[t] = -1;
    for (uint32_t t = 0; t < s->n_transfers; t++) {
        take_until(s, flows, shift_ns + s->begin_ns[t], &n_done, seed);
        assert_int_equal(orr_flows_begin(flows, shift_ns + s->begin_ns[t], s->demands[t],
                                         s->n_demands[t], s->latency_ns[t], t, &err),
                         ORR_OK);
    }
    take_until(s, flows, INT64_MAX - 1, &n_done, seed);
    if (n_done != s->n_transfers)
        seed_fail(seed, "%u of %u transfers ended", n_done, s->n_transfers);
}

/* No transfer ends before its bytes can have passed the tightest link of each route. */
static void check_ends(const scene *s, const orr_flows *flows, uint64_t seed)
{
    orr_route route = {0};
    for (uint32_t t = 0; t < s->n_transfers; t++) {
        int64_t least_ns = 0;
        for (uint32_t i = 0; i < s->n_demands[t]; i++) {
            const orr_flow_demand *d = &s->demands[t][i];
            route.n = 0;
            assert_true(orr_fabric_route(&flows->fabric, d->src, d->dst, &route, NULL));
            for (size_t l = 0; l < route.n; l++) {
                const int64_t ns =
                    (d->bytes << ORR_FLOW_UNIT_SHIFT) / flows->fabric.links[route.at[l]].capacity;
                least_ns = ns > least_ns ? ns : least_ns;
            }
        }
        if (s->done_ns[t] < s->begin_ns[t] + least_ns + s->latency_ns[t])
            seed_fail(seed, "transfer %u ends %lld ns after it began", t,
                      (long long)(s->done_ns[t] - s->begin_ns[t]));
    }
    orr_array_done(&route);
}

/* Bytes of each link: to the byte what crossed it; and its load over time, to the ns of each end
 * and the rounding of merged samples. */
static void check_links(const scene *s, orr_flows *flows, uint64_t seed)
{
    orr_route route = {0};
    double *bytes = calloc(flows->fabric.n_links + 1, sizeof *bytes);
    uint32_t *crossed = calloc(flows->fabric.n_links + 1, sizeof *crossed);
    assert_true(bytes != NULL && crossed != NULL);
    for (uint32_t t = 0; t < s->n_transfers; t++)
        for (uint32_t i = 0; i < s->n_demands[t]; i++) {
            const orr_flow_demand *d = &s->demands[t][i];
            route.n = 0;
            assert_true(orr_fabric_route(&flows->fabric, d->src, d->dst, &route, NULL));
            for (size_t l = 0; l < route.n; l++) {
                bytes[route.at[l]] += (double)d->bytes;
                crossed[route.at[l]] += d->bytes > 0;
            }
        }
    orr_error err;
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_link_use *use;
    uint32_t n, at = 0;
    assert_int_equal(orr_flows_links(flows, 0, arena, &use, &n, &err), ORR_OK);
    for (uint32_t l = 0; l < flows->fabric.n_links; l++) {
        const orr_fabric_link *link = &flows->fabric.links[l];
        if (bytes[l] == 0)
            continue;
        if (at == n || use[at].level != link->level || use[at].unit != link->unit ||
            use[at].up != link->up || use[at].bytes != bytes[l])
            seed_fail(seed, "link %u has not carried %.0f bytes", l, bytes[l]);
        double sum = 0, most = (double)crossed[l] * (double)link->capacity;
        for (uint32_t i = 0; i + 1 < use[at].n_samples; i++) {
            const double ns = (double)(use[at].at_ns[i + 1] - use[at].at_ns[i]);
            assert_true(ns > 0);
            sum += use[at].load_frac[i] * (double)link->capacity * ns;
            most += ns; /* a merged sample is rounded down */
        }
        assert_true(use[at].load_frac[use[at].n_samples - 1] == 0);
        const double want = bytes[l] * (double)(1 << ORR_FLOW_UNIT_SHIFT);
        if (sum > want * (1 + 1e-9) + most || sum < want * (1 - 1e-9) - most)
            seed_fail(seed, "link %u: load over time %.0f, bytes %.0f", l, sum, want);
        at++;
    }
    assert_int_equal(at, n);
    orr_arena_free(arena);
    orr_array_done(&route);
    free(bytes);
    free(crossed);
}

static void every_byte_arrives_once(void **state)
{
    (void)state;
    const seed_range range = seeds(CLUSTER_SEEDS);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        scene s, again;
        orr_flows *flows;
        orr_error err;
        draw(&s, seed);
        assert_int_equal(orr_flows_new(&s.cluster, &s.network, &flows, &err), ORR_OK);
        play(&s, flows, 0, seed);
        check_ends(&s, flows, seed);
        check_links(&s, flows, seed);

        /* once more, later: the same times; now all arrays are as large as they get but for
         * samples */
        const int64_t shift_ns = flows->now_ns;
        again = s;
        play(&again, flows, shift_ns, seed);
        for (uint32_t t = 0; t < s.n_transfers; t++)
            if (again.done_ns[t] != s.done_ns[t] + shift_ns)
                seed_fail(seed, "transfer %u ended elsewhere", t);
        orr_flows_free(flows);
    }
}

static void allocates_nothing_in_the_steady_state(void **state)
{
    (void)state;
    scene s;
    orr_flows *flows;
    orr_error err;
    draw(&s, 6);
    assert_true(s.cluster.n_devices > 1);
    assert_int_equal(orr_flows_new(&s.cluster, &s.network, &flows, &err), ORR_OK);
    for (int round = 0; round < 200; round++) /* until every link has all its samples */
        play(&s, flows, flows->now_ns, 6);
    orr_alloc_fail_from(1);
    play(&s, flows, flows->now_ns, 6);
    orr_alloc_fail_from(0);
    assert_int_equal(orr_alloc_count(), 0);
    orr_flows_free(flows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_those_of_the_definition),
        cmocka_unit_test(every_byte_arrives_once),
        cmocka_unit_test(allocates_nothing_in_the_steady_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
