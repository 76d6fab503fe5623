/* SPDX-License-Identifier: Apache-2.0 */
/* Times that ASTRA-sim's analytical mode (astra-sim 518bd513, 2026-03-25) was seen to print, and
 * the closed forms that 234 of its one-dimensional runs without congestion follow to the ns. */
#include <math.h>

#include <orrery/orrery.h>

#include "../unit/sim/astra_jobs.h"

enum { MIB = 1 << 20 };

static void with_algorithm(astra_job *job, orr_astra_algorithm algorithm)
{
    for (int kind = 0; kind < ORR_ASTRA_KINDS; kind++) {
        job->system.n_ways[kind] = 1;
        job->system.ways[kind][0] =
            (orr_astra_implementation){.algorithm = (uint8_t)algorithm, .window = -1};
    }
}

/* All-reduce of 1 MiB, 50 GB/s, 500 ns, memory 1600 GB/s, 4 chunks, 1 active. */
static void test_printed(void **state)
{
    static const struct {
        const char *topology;
        uint32_t n;
        orr_astra_algorithm algorithm;
        orr_astra_mode mode;
        int64_t endpoint_ns, cycles;
    } printed[] = {
        {"Ring", 8, ORR_ASTRA_RING, ORR_ASTRA_UNAWARE, 10, 64440},
        {"Ring", 8, ORR_ASTRA_RING, ORR_ASTRA_UNAWARE, 1000, 123840},
        {"Ring", 64, ORR_ASTRA_RING, ORR_ASTRA_UNAWARE, 10, 296896},
        {"Ring", 512, ORR_ASTRA_RING, ORR_ASTRA_UNAWARE, 10, 2121712},
        {"Ring", 512, ORR_ASTRA_RING, ORR_ASTRA_AWARE, 10, 2121712},
        {"Ring", 1024, ORR_ASTRA_RING, ORR_ASTRA_UNAWARE, 10, 4206616},
        {"Ring", 1024, ORR_ASTRA_RING, ORR_ASTRA_AWARE, 10, 4206616},
        {"Switch", 512, ORR_ASTRA_HALVING_DOUBLING, ORR_ASTRA_UNAWARE, 10, 112656},
        {"Switch", 1024, ORR_ASTRA_HALVING_DOUBLING, ORR_ASTRA_UNAWARE, 10, 120768},
        {"Switch", 2048, ORR_ASTRA_HALVING_DOUBLING, ORR_ASTRA_UNAWARE, 10, 128864},
        {"Switch", 4096, ORR_ASTRA_HALVING_DOUBLING, ORR_ASTRA_UNAWARE, 10, 136952},
        {"Switch", 4096, ORR_ASTRA_HALVING_DOUBLING, ORR_ASTRA_AWARE, 10, 175968},
        {"Switch", 512, ORR_ASTRA_DIRECT, ORR_ASTRA_UNAWARE, 10, 8192},
        {"Switch", 512, ORR_ASTRA_DIRECT, ORR_ASTRA_AWARE, 10, 44948},
    };
    (void)state;
    for (size_t i = 0; i < sizeof printed / sizeof *printed; i++) {
        astra_job *job = malloc(sizeof *job);
        assert_non_null(job);
        astra_open(job);
        astra_one_dimension(job, printed[i].topology, printed[i].n);
        with_algorithm(job, printed[i].algorithm);
        job->system.endpoint_delay_ns = printed[i].endpoint_ns;
        astra_all_call(job, ORR_COLL_ALL_REDUCE, MIB);
        assert_int_equal(astra_finish_ns(job, printed[i].mode, false), printed[i].cycles);
        assert_int_equal(job->result.n_simulated, printed[i].n);
        assert_int_equal(astra_finish_ns(job, printed[i].mode, true), printed[i].cycles);
        assert_int_equal(job->result.n_simulated, 1);
        astra_close(job);
        free(job);
    }
}

/* 16 x 16 x 16 is printed as 82,999, but bandwidths and latencies of the run were not kept. These
 * were found by a search of some 5,000 usual ones, and two close to them give it too: what this
 * shows is that it can be had, not that it was had so. */
static void test_printed_3d(void **state)
{
    astra_job *job = malloc(sizeof *job);
    static const orr_astra_algorithm ways[] = {ORR_ASTRA_RING, ORR_ASTRA_HALVING_DOUBLING,
                                               ORR_ASTRA_DIRECT};
    (void)state;
    assert_non_null(job);
    astra_open(job);
    astra_network(job, "topology: [ Ring, Switch, FullyConnected ]\nnpus_count: [ 16, 16, 16 ]\n"
                       "bandwidth: [ 400, 100, 50 ]\nlatency: [ 500, 1000, 2000 ]\n");
    job->system.n_ways[ORR_ASTRA_ALL_REDUCE] = 3;
    for (int d = 0; d < 3; d++)
        job->system.ways[ORR_ASTRA_ALL_REDUCE][d] =
            (orr_astra_implementation){.algorithm = (uint8_t)ways[d], .window = -1};
    astra_all_call(job, ORR_COLL_ALL_REDUCE, MIB);
    assert_int_equal(astra_finish_ns(job, ORR_ASTRA_UNAWARE, false), 82999);
    assert_int_equal(astra_finish_ns(job, ORR_ASTRA_UNAWARE, true), 82999);
    astra_close(job);
    free(job);
}

/* The closed forms. Letters: n ranks, m = chunk / n. */
typedef struct form {
    uint32_t n, hops_near;
    const char *topology;
    int64_t ep, chunk;
    double latency, bytes_per_ns, memory;
} form;

static int64_t message(const form *f, double hops, int64_t bytes)
{
    return (int64_t)(hops * f->latency + (double)bytes / f->bytes_per_ns);
}

static int64_t reduction(const form *f, int64_t bytes)
{
    return 3 * (int64_t)((double)bytes / f->memory);
}

static int64_t ring_form(const form *f, orr_collective kind)
{
    const int64_t n = f->n, m = f->chunk / n;
    const int64_t msg = message(f, f->hops_near, m), red = reduction(f, m);
    switch (kind) {
    case ORR_COLL_ALL_REDUCE:
        return 2 * (n - 1) * msg + (2 * (n - 1) + 1) * f->ep + (n - 1) * red;
    case ORR_COLL_REDUCE_SCATTER:
        return (n - 1) * msg + n * f->ep + (n - 1) * red;
    case ORR_COLL_ALL_GATHER:
        return (n - 1) * message(f, f->hops_near, f->chunk) + n * f->ep;
    default:
        return n * (n - 1) / 2 * msg + (n * (n - 1) / 2 + 1) * f->ep;
    }
}

/* Switch and fully connected: every peer is as far. */
static int64_t direct_form(const form *f, orr_collective kind)
{
    const int64_t m = f->chunk / f->n, msg = message(f, f->hops_near, m), red = reduction(f, m);
    switch (kind) {
    case ORR_COLL_ALL_REDUCE:
        return 2 * msg + 3 * f->ep + red;
    case ORR_COLL_REDUCE_SCATTER:
        return msg + 2 * f->ep + red;
    case ORR_COLL_ALL_GATHER:
        return message(f, f->hops_near, f->chunk) + 2 * f->ep;
    default:
        return msg + 2 * f->ep;
    }
}

static int64_t halving_form(const form *f)
{
    int64_t sum = 0, levels = 0;
    for (uint32_t left = f->n; left > 1; left /= 2) {
        const int64_t size = f->chunk >> ++levels;
        sum += 2 * message(f, f->hops_near, size) + (levels > 1 ? reduction(f, size) : 0);
    }
    return sum + (2 * levels + 1) * f->ep;
}

static void check_form(const form *f, orr_astra_algorithm algorithm, orr_collective kind,
                       uint32_t active, int64_t want)
{
    astra_job *job = malloc(sizeof *job);
    char yaml[200];
    assert_non_null(job);
    astra_open(job);
    snprintf(yaml, sizeof yaml,
             "topology: [%s]\nnpus_count: [%u]\nbandwidth: [37.5]\nlatency: [%.1f]\n", f->topology,
             f->n, f->latency);
    astra_network(job, yaml);
    with_algorithm(job, algorithm);
    job->system.endpoint_delay_ns = f->ep;
    job->system.active_chunks = active;
    job->system.local_bytes_per_ns = f->memory;
    astra_all_call(job, kind, f->chunk * 4);
    const int64_t rounds = (4 + active - 1) / active;
    assert_int_equal(astra_finish_ns(job, ORR_ASTRA_UNAWARE, false), rounds * want);
    assert_int_equal(astra_finish_ns(job, ORR_ASTRA_UNAWARE, true), rounds * want);
    astra_close(job);
    free(job);
}

static void test_closed_forms(void **state)
{
    static const struct {
        const char *name;
        uint32_t hops;
    } topologies[] = {{"Ring", 1}, {"Switch", 2}, {"FullyConnected", 1}};
    static const orr_collective kinds[] = {ORR_COLL_ALL_REDUCE, ORR_COLL_ALL_GATHER,
                                           ORR_COLL_REDUCE_SCATTER, ORR_COLL_ALL_TO_ALL};
    static const int64_t delays[] = {0, 10, 333};
    (void)state;
    for (int t = 0; t < 3; t++)
        for (uint32_t n = 2; n <= 16; n = n < 4 ? n + 1 : n + 4)
            for (int k = 0; k < 4; k++)
                for (int e = 0; e < 3; e++) {
                    const form f = {.n = n,
                                    .hops_near = topologies[t].hops,
                                    .ep = delays[e],
                                    .topology = topologies[t].name,
                                    .chunk = 100003 + 7 * n,
                                    .latency = 412.5,
                                    .bytes_per_ns = 37.5 * (1 << 30) / 1e9,
                                    .memory = 777};
                    const uint32_t active = 1 + (uint32_t)(k + e) % 4;
                    check_form(&f, ORR_ASTRA_RING, kinds[k], active, ring_form(&f, kinds[k]));
                    if (t > 0)
                        check_form(&f, ORR_ASTRA_DIRECT, kinds[k], active,
                                   direct_form(&f, kinds[k]));
                    if (k == 0 && t > 0 && (n & (n - 1)) == 0) {
                        form even = f;
                        even.chunk = 1 << 16;
                        check_form(&even, ORR_ASTRA_HALVING_DOUBLING, kinds[k], active,
                                   halving_form(&even));
                    }
                }
}

/* The traces of ASTRA-sim's own example, through the readers of the library. */
static void test_example_traces(void **state)
{
    const char *shared = getenv("ORRERY_SHARED");
    char path[512];
    (void)state;
    if (shared == NULL)
        skip();
    astra_job *job = malloc(sizeof *job);
    assert_non_null(job);
    astra_open(job);
    for (uint32_t rank = 0; rank < 8; rank++) {
        snprintf(path, sizeof path, "%s/data/traces/chakra/astra_all_reduce/all_reduce.%u.et",
                 shared, rank);
        if (orr_trace_read(path, NULL, &job->graphs[rank], NULL, &job->err) != ORR_OK)
            fail_msg("%s", job->err.text);
    }
    assert_int_equal(astra_finish_ns(job, ORR_ASTRA_UNAWARE, false), 64440);
    assert_int_equal(astra_finish_ns(job, ORR_ASTRA_AWARE, false), 64440);
    assert_int_equal(astra_finish_ns(job, ORR_ASTRA_UNAWARE, true), 64440);
    assert_int_equal(job->result.n_simulated, 1);
    astra_close(job);
    free(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_printed),
        cmocka_unit_test(test_printed_3d),
        cmocka_unit_test(test_closed_forms),
        cmocka_unit_test(test_example_traces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
