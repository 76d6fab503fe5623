/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cost/network/alpha_beta_fit.h"
#include "cost/network/fitted_constants.h"
#include "csv.h"

/* The constants of collectives against measured bus bandwidths (stas00/ml-engineering, network
 * benchmarks): all-reduce of eight H200, of eight B200 and of four hosts of eight B200, and four
 * single points of 16 GiB.
 *
 * The split, written down before the first fit: of each system the points in order of payload (as
 * they stand where payloads are equal), from 0; even ones are fitted, odd ones judged. This test
 * fits the even ones again, asserts that the constants in the code are what comes out, and asserts
 * and prints the errors on the odd ones.
 *
 * Two bounds were put on the fit after a first look at all errors, neither by them but because
 * constants came out that no network has: bandwidths in the order of the protocols, none above the
 * link's; judged MAPE was 8.0 % before. A third look found a better fit of the fitted half (six
 * orders instead of one): 7.6 % became 7.7 %.
 *
 * Hard: of the four hosts the two smallest payloads took 3 to 6 ms (0.01 and 0.04 GB/s: one
 * digit), ten times longer than payloads of twice to eight times the size. No price that never
 * falls with bytes can have both; they stay in all figures but the one that says otherwise. */
enum { MAX_POINTS = 64 };

typedef struct series {
    const char *system;
    orr_busbw_point all[MAX_POINTS], fitted[MAX_POINTS], judged[MAX_POINTS];
    const char *names[MAX_POINTS], *judged_names[MAX_POINTS];
    size_t n, n_fitted, n_judged;
} series;

/* A network of constants that are yet to be found: the hosts' NVLink, and beyond it EFA. */
static orr_network unknown_network(uint32_t n_levels)
{
    orr_network network = {.n_levels = n_levels, .in_network = {true}};
    for (uint32_t k = 0; k < n_levels; k++) {
        network.oversubscription[k] = 1;
        for (int p = 0; p < ORR_PROTOCOLS; p++) {
            network.levels[k].alpha_ns[p] = k == 0 ? ORR_HOP_NVLINK_NS[p] : ORR_HOP_NET_NS[p];
            network.reduction[k].alpha_ns[p] = ORR_HOP_SWITCH_NS[p];
        }
    }
    return network;
}

static int64_t payload(const char *text)
{
    char *end;
    const int64_t n = strtoll(text, &end, 10);
    const char *const units[] = {"KiB", "MiB", "GiB"};
    for (int u = 0; u < 3; u++)
        if (strcmp(end, units[u]) == 0)
            return n << (10 * (u + 1));
    fail_msg("payload %s", text);
    return 0;
}

static uint8_t collective_of(const char *text)
{
    if (strncmp(text, "all-gather", 10) == 0)
        return ORR_COLL_ALL_GATHER;
    if (strncmp(text, "reduce-scatter", 14) == 0)
        return ORR_COLL_REDUCE_SCATTER;
    return ORR_COLL_ALL_REDUCE;
}

/* What NCCL took: reduction in the switch of hosts that have it, unless the row says otherwise;
 * of several hosts it is not known. */
static uint8_t algorithm_of(const char *text, uint32_t nodes)
{
    if (strstr(text, "ring") != NULL)
        return ORR_ALGORITHM_RING;
    return nodes == 1 ? ORR_ALGORITHM_IN_NETWORK : ORR_ALGORITHM_AUTO;
}

static orr_busbw_point point_of(const csv *table, size_t row)
{
    const uint32_t nodes = (uint32_t)csv_number(table, row, "nodes");
    const char *what = csv_text(table, row, "collective");
    orr_busbw_point point = {.span = {.n_ranks = 8 * nodes,
                                      .n_levels = 2,
                                      .width = {8, nodes},
                                      .top = nodes > 1,
                                      .even = true},
                             .collective = collective_of(what),
                             .algorithm = algorithm_of(what, nodes),
                             .bytes = payload(csv_text(table, row, "payload"))};
    if (nodes == 1)
        point.span.n_levels = 1;
    point.ns = orr_busbw_ns((orr_collective)point.collective, point.span.n_ranks, point.bytes,
                            1e9 * csv_number(table, row, "busbw_gbs"));
    return point;
}

/* The system's rows, stably by payload, and every second of them to one side. */
static void read_series(const csv *table, const char *system, series *ret)
{
    *ret = (series){.system = system};
    for (size_t row = 0; row < table->n_rows; row++) {
        if (strcmp(csv_text(table, row, "system"), system) != 0)
            continue;
        const orr_busbw_point point = point_of(table, row);
        size_t at = ret->n++;
        for (; at > 0 && ret->all[at - 1].bytes > point.bytes; at--) {
            ret->all[at] = ret->all[at - 1];
            ret->names[at] = ret->names[at - 1];
        }
        ret->all[at] = point;
        ret->names[at] = csv_text(table, row, "payload");
    }
    assert_true(ret->n > 0);
    for (size_t i = 0; i < ret->n; i++) {
        if (i % 2 == 0) {
            ret->fitted[ret->n_fitted++] = ret->all[i];
        } else {
            ret->judged_names[ret->n_judged] = ret->names[i];
            ret->judged[ret->n_judged++] = ret->all[i];
        }
    }
}

typedef struct systems {
    series h200, b200, four_hosts, rings;
} systems;

typedef struct error_of {
    double gmae, mape, worst, sum_log, sum;
    size_t n;
} error_of;

static void add_error(error_of *e, double frac)
{
    e->sum += frac;
    e->sum_log += log(fmax(frac, 1e-4)); /* an error of 0 would make any geometric mean 0 */
    e->worst = fmax(e->worst, frac);
    e->n++;
    e->mape = e->sum / (double)e->n;
    e->gmae = exp(e->sum_log / (double)e->n);
}

static orr_price price_of(const orr_network *network, const orr_busbw_point *point)
{
    return orr_collective_price(network, &point->span, (orr_collective)point->collective,
                                (orr_algorithm)point->algorithm, point->bytes);
}

static double frac_of(const orr_network *network, const orr_busbw_point *point)
{
    return (double)price_of(network, point).ns / point->ns - 1;
}

static error_of judge(const orr_network *network, const orr_busbw_point *points,
                      const char *const *names, size_t n, error_of *all, const char *what)
{
    error_of e = {0};
    for (size_t i = 0; i < n; i++) {
        const orr_price price = price_of(network, &points[i]);
        const double frac = frac_of(network, &points[i]);
        if (all != NULL)
            add_error(all, fabs(frac));
        add_error(&e, fabs(frac));
        print_message("  %s %6s: measured %12.1f us, priced %12.1f us (%s), %+.1f %%\n", what,
                      names[i], points[i].ns / 1e3, (double)price.ns / 1e3, price.model,
                      100 * frac);
    }
    return e;
}

static void report(const char *what, error_of e)
{
    print_message("%s: %zu points, GMAE %.1f %%, MAPE %.1f %%, max %.1f %%\n", what, e.n,
                  100 * e.gmae, 100 * e.mape, 100 * e.worst);
}

static void print_constants(const char *what, const orr_alpha_beta *c)
{
    for (int p = 0; p < ORR_PROTOCOLS; p++)
        print_message("  %s[%d]: base %.7g ns, alpha %.7g ns, %.7g bytes/s\n", what, p,
                      c->base_ns[p], c->alpha_ns[p], c->bytes_per_s[p]);
}

static void assert_same(const char *what, const orr_alpha_beta *built_in, const orr_alpha_beta *c)
{
    for (int p = 0; p < ORR_PROTOCOLS; p++) {
        if (fabs(built_in->base_ns[p] - c->base_ns[p]) > 1e-5 * c->base_ns[p] + 1e-3 ||
            fabs(built_in->alpha_ns[p] - c->alpha_ns[p]) > 1e-9 ||
            fabs(built_in->bytes_per_s[p] - c->bytes_per_s[p]) > 1e-5 * c->bytes_per_s[p])
            fail_msg("%s: the constants of protocol %d are not those of the fit", what, p);
    }
}

/* All constants, from the fitted halves. */
typedef struct fitted {
    orr_network h200, b200, four_hosts;
} fitted;

static fitted fit_all(const systems *s)
{
    orr_error err;
    fitted f = {unknown_network(1), unknown_network(1), unknown_network(2)};
    orr_busbw_point h200[MAX_POINTS];
    size_t n = 0;
    for (size_t i = 0; i < s->h200.n_fitted; i++)
        h200[n++] = s->h200.fitted[i];
    double ring = 0;
    for (size_t i = 0; i < s->rings.n_fitted; i++)
        if (s->rings.fitted[i].algorithm == ORR_ALGORITHM_IN_NETWORK)
            h200[n++] = s->rings.fitted[i];
    assert_int_equal(orr_alpha_beta_fit(&f.h200, 0, true, 450e9, h200, n, NULL, &err), ORR_OK);
    f.h200.levels[0] = orr_alpha_beta_from_reduction(&f.h200.reduction[0], 8, 1);
    for (size_t i = 0; i < s->rings.n_fitted; i++)
        if (s->rings.fitted[i].algorithm == ORR_ALGORITHM_RING)
            ring = orr_alpha_beta_ring_bandwidth(&f.h200, 0, &s->rings.fitted[i]);
    f.h200.levels[0] = orr_alpha_beta_from_reduction(&f.h200.reduction[0], 8, ring);

    assert_int_equal(
        orr_alpha_beta_fit(&f.b200, 0, true, 900e9, s->b200.fitted, s->b200.n_fitted, NULL, &err),
        ORR_OK);
    /* no rings were measured there: as large a part of the link as on NVLink4 */
    f.b200.levels[0] = orr_alpha_beta_from_reduction(&f.b200.reduction[0], 8, ring * 900 / 450);

    f.four_hosts.levels[0] = f.b200.levels[0];
    f.four_hosts.reduction[0] = f.b200.reduction[0];
    assert_int_equal(orr_alpha_beta_fit(&f.four_hosts, 1, false, 50e9, s->four_hosts.fitted,
                                        s->four_hosts.n_fitted, NULL, &err),
                     ORR_OK);
    return f;
}

static bool read_all(systems *s, orr_arena *arena)
{
    const char *shared = getenv("ORRERY_SHARED");
    char path[4096];
    csv table;
    if (shared == NULL)
        return false;
    snprintf(path, sizeof path, "%s/facts/hardware/measured_busbw.csv", shared);
    if (!csv_open(path, arena, &table))
        return false;
    read_series(&table, "8xH200 NVLink4 (SHARP default)", &s->h200);
    read_series(&table, "8xB200 NVLink5 P6", &s->b200);
    read_series(&table, "4x8xB200 EFAv4 8x400G", &s->four_hosts);
    read_series(&table, "8xH200 16GiB", &s->rings);
    assert_int_equal(s->h200.n + s->b200.n + s->four_hosts.n + s->rings.n, table.n_rows);
    return true;
}

static orr_network built_in(const char *inside, const char *across)
{
    const orr_fitted_constants *fit = orr_fitted_constants_of(inside);
    orr_network network = unknown_network(across != NULL ? 2 : 1);
    assert_non_null(fit);
    network.levels[0] = fit->messages;
    network.reduction[0] = fit->reduction;
    if (across != NULL) {
        fit = orr_fitted_constants_of(across);
        assert_non_null(fit);
        network.levels[1] = fit->messages;
    }
    return network;
}

static void busbw_of_the_judged_half(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    systems *s = orr_arena_one(arena, systems);
    if (!read_all(s, arena)) {
        orr_arena_free(arena);
        skip();
    }
    const fitted f = fit_all(s);
    const orr_network h200 = built_in("NVLink4", NULL), b200 = built_in("NVLink5", NULL),
                      four = built_in("NVLink5", "EFA v4 (P6-B200)");
    error_of all = {0};
    const error_of e_h200 = judge(&f.h200, s->h200.judged, s->h200.judged_names, s->h200.n_judged,
                                  &all, "judged 8xH200");
    const error_of e_rings = judge(&f.h200, s->rings.judged, s->rings.judged_names,
                                   s->rings.n_judged, &all, "judged 8xH200 ring");
    const error_of e_b200 = judge(&f.b200, s->b200.judged, s->b200.judged_names, s->b200.n_judged,
                                  &all, "judged 8xB200");
    const error_of e_four = judge(&f.four_hosts, s->four_hosts.judged, s->four_hosts.judged_names,
                                  s->four_hosts.n_judged, &all, "judged 4x8xB200");
    report("8xH200", e_h200);
    report("8xH200 ring", e_rings);
    report("8xB200", e_b200);
    report("4x8xB200", e_four);
    report("judged", all);
    error_of without = {0};
    for (size_t i = 1; i < s->four_hosts.n_judged; i++)
        add_error(&without, fabs(frac_of(&f.four_hosts, &s->four_hosts.judged[i])));
    report("4x8xB200 but for 64 KiB", without);
    print_constants("NVLink4 reduction", &f.h200.reduction[0]);
    print_constants("NVLink4 messages", &f.h200.levels[0]);
    print_constants("NVLink5 reduction", &f.b200.reduction[0]);
    print_constants("NVLink5 messages", &f.b200.levels[0]);
    print_constants("EFA messages", &f.four_hosts.levels[1]);
    assert_same("NVLink4 reduction", &h200.reduction[0], &f.h200.reduction[0]);
    assert_same("NVLink4 messages", &h200.levels[0], &f.h200.levels[0]);
    assert_same("NVLink5 reduction", &b200.reduction[0], &f.b200.reduction[0]);
    assert_same("NVLink5 messages", &b200.levels[0], &f.b200.levels[0]);
    assert_same("EFA messages", &four.levels[1], &f.four_hosts.levels[1]);

    /* what was measured, rounded up; and what the code says of itself */
    assert_true(all.n == 32 && all.mape < 0.078 && all.gmae < 0.024);
    assert_true(e_h200.worst < 0.121 && e_rings.worst < 0.013 && e_b200.worst < 0.223);
    assert_true(without.worst < 0.179 && without.mape < 0.06);
    assert_true(fabs(h200.reduction[0].error_frac - e_h200.mape) < 0.001);
    assert_true(fabs(b200.reduction[0].error_frac - e_b200.mape) < 0.001);
    assert_true(fabs(four.levels[1].error_frac - e_four.mape) < 0.001);
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(busbw_of_the_judged_half)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
