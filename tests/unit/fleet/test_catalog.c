/* SPDX-License-Identifier: Apache-2.0 */
#include "small_fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct file {
    char path[64];
    orr_arena *arena;
    orr_failure_catalog catalog;
    orr_error err;
    orr_status status;
} file;

static file opened(const char *text)
{
    file f = {.path = "/tmp/orrery-failures-XXXXXX", .arena = orr_arena_new(0, 0)};
    const int fd = mkstemp(f.path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    f.status = orr_failure_catalog_open(f.path, f.arena, &f.catalog, &f.err);
    return f;
}

static void closed(file *f)
{
    remove(f->path);
    orr_arena_free(f->arena);
}

static void assert_says(const char *text, const char *where_and_what)
{
    file f = opened(text);
    if (f.status == ORR_OK)
        fail_msg("taken: %s", text);
    if (strncmp(f.err.text, f.path, strlen(f.path)) != 0 ||
        strstr(f.err.text, where_and_what) == NULL)
        fail_msg("'%s' does not say '%s'", f.err.text, where_and_what);
    closed(&f);
}

static void check_fact(const char *name, const orr_fact *fact)
{
    if (fact->basis == ORR_FACT_UNKNOWN)
        return;
    if (fact->source == NULL || fact->source[0] == '\0' || !(fact->value >= 0))
        fail_msg("%s: a number without source", name);
}

static void every_number_of_the_catalogue_has_its_source(void **state)
{
    fleet_world w;
    (void)state;
    world_open(&w);
    assert_true(w.catalog.n_failures >= 10 && w.catalog.n_timings >= 2);
    for (uint32_t i = 0; i < w.catalog.n_failures; i++) {
        const orr_failures *f = w.catalog.failures[i];
        const orr_fact *facts[] = {&f->rate,         &f->planned,       &f->lemons,
                                   &f->lemon_factor, &f->gpus,          &f->days,
                                   &f->unexpected,   &f->planned_count, &f->effective};
        assert_true(f->title[0] != '\0');
        for (size_t k = 0; k < sizeof facts / sizeof *facts; k++)
            check_fact(f->name, facts[k]);
        for (uint32_t k = 0; k < f->n_categories; k++)
            check_fact(f->name, &f->categories[k].count);
    }
    for (uint32_t i = 0; i < w.catalog.n_timings; i++)
        for (int k = 0; k < ORR_FLEET_TIMES; k++) {
            assert_int_not_equal(w.catalog.timings[i]->times[k].basis, ORR_FACT_UNKNOWN);
            assert_true(w.catalog.timings[i]->times[k].source[0] != '\0');
        }
    world_close(&w);
}

static void rates_are_those_of_the_events_that_were_counted(void **state)
{
    fleet_world w;
    const orr_failures *llama;
    double sum = 0;
    (void)state;
    world_open(&w);
    assert_int_equal(orr_failures_find(&w.catalog, "llama3_405b", &llama, &w.err), ORR_OK);
    for (uint32_t i = 0; i < llama->n_categories; i++)
        sum += llama->categories[i].count.value;
    const double node_days = llama->gpus.value / llama->gpus_per_node.value * llama->days.value;
    assert_near(sum, llama->unexpected.value, 0);
    assert_near(llama->rate.value, 1000 * llama->unexpected.value / node_days, 0.005);
    assert_near(llama->planned.value, 1000 * llama->planned_count.value / node_days, 0.0005);
    for (uint32_t i = 0; i < w.catalog.n_failures; i++) {
        const orr_failures *f = w.catalog.failures[i];
        const double nodes = f->gpus.value / f->gpus_per_node.value;
        if (f->rate.basis == ORR_FACT_DERIVED && f->days.value > 0 && f->unexpected.value > 0)
            assert_near(f->rate.value, 1000 * f->unexpected.value / nodes / f->days.value, 0.05);
    }
    world_close(&w);
}

static void hardware_is_replaced_and_software_starts_again(void **state)
{
    fleet_world w;
    const orr_failures *f;
    (void)state;
    world_open(&w);
    assert_int_equal(orr_failures_find(&w.catalog, "ft_hsdp_32k", &f, &w.err), ORR_OK);
    for (uint32_t i = 0; i < f->n_categories; i++) {
        const char *layer = f->categories[i].layer;
        const bool hard = strcmp(layer, "gpu") == 0 || strcmp(layer, "host") == 0 ||
                          strcmp(layer, "facility") == 0;
        assert_int_equal(f->categories[i].replace, hard);
        assert_int_equal(f->categories[i].kind,
                         strcmp(f->categories[i].name, "NCCL watchdog timeouts") == 0
                             ? ORR_FAILURE_HANG
                             : ORR_FAILURE_EXPLICIT);
    }
    world_close(&w);
}

static void a_file_of_ones_own_may_be_like_what_is_there(void **state)
{
    const orr_failures *mine, *rsc1;
    const orr_fleet_timing *fast;
    (void)state;
    file f = opened("failures:\n  rsc1:\n    like: rsc1\n    title: ours\n    rate: 4.5\n"
                    "    categories:\n      - {name: a, layer: gpu, count: 3, replace: false}\n"
                    "      - {name: b, layer: software, count: 1, kind: slow, replace: true}\n"
                    "timings:\n  fast:\n    like: ft_hsdp\n    detect: exp(3s)\n"
                    "    load: {value: 5s, basis: measured, source: our logs, note: cold}\n");
    assert_int_equal(f.status, ORR_OK);
    assert_int_equal(orr_failures_find(&f.catalog, "rsc1", &mine, &f.err), ORR_OK);
    assert_string_equal(mine->title, "ours");
    assert_near(mine->rate.value, 4.5, 0);
    assert_int_equal(mine->rate.basis, ORR_FACT_ASSUMED);
    assert_string_equal(mine->rate.source, f.path);
    rsc1 = f.catalog.failures[0];
    for (uint32_t i = 0; strcmp(rsc1->name, "rsc1") != 0; i++)
        rsc1 = f.catalog.failures[i];
    assert_near(mine->lemons.value, rsc1->lemons.value, 0);
    assert_false(mine->categories[0].replace);
    assert_true(mine->categories[1].replace);
    assert_int_equal(mine->categories[1].kind, ORR_FAILURE_SLOW);
    assert_int_equal(orr_fleet_timing_find(&f.catalog, "fast", &fast, &f.err), ORR_OK);
    assert_int_equal(fast->times[ORR_FLEET_DETECT].time.shape, ORR_FLEET_EXPONENTIAL);
    assert_int_equal(fast->times[ORR_FLEET_LOAD].basis, ORR_FACT_MEASURED);
    assert_string_equal(fast->times[ORR_FLEET_LOAD].note, "cold");
    assert_int_equal(fast->times[ORR_FLEET_SCHEDULE].time.a_ns, 120 * (int64_t)SECOND_NS);
    closed(&f);
}

static void a_fault_in_a_file_is_pointed_at(void **state)
{
    (void)state;
    assert_says("failures:\n  x:\n    rat: 3\n",
                ":3:5: failures 'x' has no 'rat'; did you mean 'rate'?");
    assert_says("failures:\n  x:\n    rate: lots\n", ":3:11: rate: 'lots' is not a number");
    assert_says("failures:\n  x:\n    like: rsc2\n",
                ":3:11: no entry 'rsc2' before this one; did you mean 'rsc1'?");
    assert_says(
        "failures:\n  x:\n    categories:\n      - {name: a, layer: gpu, count: 2, kind: hung}\n",
        ":4:47: 'hung' is no kind of failure; did you mean 'hang'?");
    assert_says("failures:\n  x:\n    categories:\n      - {name: a, layer: gpu}\n",
                ":4:9: a category does not say its count");
    assert_says("failures:\n  x:\n    categories:\n      - {name: a, layer: gpu, count: 0}\n",
                ":4:7: categories: none has a count");
    assert_says("failures:\n  x:\n    categories: 3\n", ":3:17: categories: a list of");
    assert_says("failures:\n  x: 3\n", ":2:6: failures 'x' is a map");
    assert_says("failure:\n  x: {}\n",
                ":1:1: 'failure' is no section of a file of failures; did you mean 'failures'?");
    assert_says("timings:\n  x:\n    detect: 1min\n", ":3:5: timings 'x' does not say detect_hang");
    assert_says("timings:\n  x:\n    like: ft_hsdp\n    detect: soon\n",
                ":4:13: detect: 'soon' is not a duration");
    assert_says("timings:\n  x:\n    like: ft_hsdp\n    detect: {valu: 3s}\n",
                ":4:14: 'valu' is no part of a fact");
    assert_says("timings:\n  x:\n    like: ft_hsdp\n    detect: {note: none}\n",
                ":4:13: detect: the value is missing");
    assert_says("- 3\n", ":1:1: a file of failures is a map");
}

static void what_is_not_there_has_a_neighbour(void **state)
{
    fleet_world w;
    const orr_failures *failures = NULL;
    const orr_fleet_timing *timing = NULL;
    (void)state;
    world_open(&w);
    assert_int_equal(orr_failures_find(&w.catalog, "lama3_405b", &failures, &w.err), ORR_NOT_FOUND);
    assert_string_equal(w.err.text, "no failures 'lama3_405b'; did you mean 'llama3_405b'?");
    assert_int_equal(orr_fleet_timing_find(&w.catalog, "orery", &timing, &w.err), ORR_NOT_FOUND);
    assert_string_equal(w.err.text, "no timings 'orery'; did you mean 'orrery'?");
    assert_null(failures);
    assert_null(timing);
    assert_int_equal(orr_failure_catalog_open("/nowhere/at/all.yaml", w.arena, &w.catalog, &w.err),
                     ORR_IO);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_of_the_catalogue_has_its_source),
        cmocka_unit_test(rates_are_those_of_the_events_that_were_counted),
        cmocka_unit_test(hardware_is_replaced_and_software_starts_again),
        cmocka_unit_test(a_file_of_ones_own_may_be_like_what_is_there),
        cmocka_unit_test(a_fault_in_a_file_is_pointed_at),
        cmocka_unit_test(what_is_not_there_has_a_neighbour),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
