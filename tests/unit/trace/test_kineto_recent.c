/* SPDX-License-Identifier: Apache-2.0 */
#include "kineto_text.h"

#include "base/cpu_level.h"
#include "base/philox.h"

/* The reader remembers keys and values as they stood. An event read after many others is the one
 * that is read from a file of its own, where nothing is remembered. */

enum { EVENTS = 120, RECORDINGS = 60, EVENT_BYTES = 2048 };

#define LONG_LIST "[[1,2],[3,4],[5,6],[7,8],[9,10],[11,12],[13,14],[15,16],[17,18],[19,20],[21,22]]"
static const char *const ids[] = {
    "7",        "71",         "72",          "73",    "12345678902", "'stream 8'",
    "'7'",      "'stream 7'", "12345678901", "-3",    "-0",          "'a\\u0041'",
    "'x\x01y'", "null",       "[1,2]",       "1.5e1", "'\xc3\xa9t'"};
static const char *const cats[] = {
    "'cpu_op'", "'kernel'", "'python_function'", "'cpu_\\u006fp'", "'odd'", "'cpu_op\x01'",
    "5",        "''"};
static const char *const names[] = {
    "'aten::mm'",
    "'aten::add_'",
    "'a'",
    "''",
    "'tab\\t'",
    "'x\x02'",
    "'void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>'"};
static const char *const times[] = {"12", "12.5", "1712195495622655.947", "12.0005", "'15'", "1e3"};
static const char *const lists[] = {"[]",          "[ ]",       "[[3,4]]",          "[1, 2, 3]",
                                    "[1,2,3]",     "['a','b']", "['a\x01','b']",    "[NaN,1]",
                                    "['\\n']",     LONG_LIST,   "[{'a':1},[true]]", "[-1.5,0.25]",
                                    "['float','']"};
static const char *const scalars[] = {"0",
                                      "12",
                                      "-3",
                                      "0.22222222",
                                      "6.0",
                                      "'text'",
                                      "true",
                                      "''",
                                      "null",
                                      "1e-5",
                                      "NaN",
                                      "'0x0'",
                                      "[1]",
                                      "-0",
                                      "123456789012345678",
                                      "9999999999999999999",
                                      "12345678901234.5678",
                                      "72057594037927.945",
                                      "90071992547409.931",
                                      "0.1234567890123456",
                                      "'t\x01'"};
static const char *const spaces[] = {"", "", "", " ", "\n    ", "\t"};
static const char *const args[] = {"Input Dims",  "Input type",  "grid",
                                   "correlation", "External id", "my argument",
                                   "device",      "seq_num",     "Sequence number"};

#define ONE_OF(random, list) list[orr_random_below((random), sizeof(list) / sizeof *(list))]

static size_t put_event(orr_random *r, char *to)
{
    size_t n = (size_t)sprintf(to, "{%s'ph':%s'X','cat':%s%s,%s'name':%s", ONE_OF(r, spaces),
                               ONE_OF(r, spaces), ONE_OF(r, spaces), ONE_OF(r, cats),
                               ONE_OF(r, spaces), ONE_OF(r, names));
    n += (size_t)sprintf(to + n, ",'pid':%s,%s'tid':%s,'ts':%s%s", ONE_OF(r, ids),
                         ONE_OF(r, spaces), ONE_OF(r, ids), ONE_OF(r, spaces), ONE_OF(r, times));
    n += (size_t)sprintf(to + n, ",'dur':%s,'args':%s{", ONE_OF(r, times), ONE_OF(r, spaces));
    const uint64_t n_args = orr_random_below(r, 6);
    for (uint64_t i = 0; i < n_args; i++)
        n += (size_t)sprintf(to + n, "%s%s'%s':%s%s", i > 0 ? "," : "", ONE_OF(r, spaces),
                             ONE_OF(r, args), ONE_OF(r, spaces),
                             orr_random_below(r, 2) == 0 ? ONE_OF(r, lists) : ONE_OF(r, scalars));
    return n + (size_t)sprintf(to + n, "%s}%s}", ONE_OF(r, spaces), ONE_OF(r, spaces));
}

static size_t put_attr(const orr_graph *g, const orr_attr *attr, char *to)
{
    size_t n = (size_t)sprintf(to, " %s/%d=", orr_graph_str(g, attr->name), attr->kind);
    if (attr->kind == ORR_ATTR_STRING || attr->kind == ORR_ATTR_JSON)
        return n + (size_t)sprintf(to + n, "%s", orr_graph_str(g, *(const orr_str *)attr->values));
    if (attr->kind == ORR_ATTR_DOUBLE)
        return n + (size_t)sprintf(to + n, "%a", *(const double *)attr->values);
    return n + (size_t)sprintf(to + n, "%lld",
                               attr->kind == ORR_ATTR_BOOL
                                   ? (long long)*(const uint8_t *)attr->values
                                   : (long long)*(const int64_t *)attr->values);
}

/* All that is kept of an event. */
static void put_node(const orr_graph *g, orr_node_id v, char *to)
{
    const orr_lane *lane = &g->lanes[g->lane[v]];
    const bool by_pid = lane->pid != INT64_MIN, by_tid = lane->tid != INT64_MIN;
    size_t n = (size_t)sprintf(
        to, "%s %d %lld %lld %llu on %d %lld/%s %lld/%s:", orr_graph_str(g, g->name[v]), g->kind[v],
        (long long)(g->base_ns + g->start_ns[v]), (long long)g->duration_ns[v],
        (unsigned long long)g->source_id[v], lane->kind, (long long)lane->pid,
        by_pid ? "" : orr_graph_str(g, lane->process), (long long)lane->tid,
        by_tid ? "" : orr_graph_str(g, lane->name)); /* else any event's of that lane */
    orr_attr_iter it = orr_graph_attrs(g, v);
    orr_attr attr;
    while (orr_attr_next(&it, &attr))
        n += put_attr(g, &attr, to + n);
}

static uint64_t all_faults(const orr_read_report *report)
{
    uint64_t sum = 0;
    for (int i = 0; i < ORR_TRACE_FAULTS; i++)
        sum += report->faults[i];
    return sum;
}

static void check_recording(orr_random *random)
{
    char event[EVENT_BYTES], *all = malloc((size_t)EVENTS * EVENT_BYTES);
    char(*alone)[2 * EVENT_BYTES] = malloc(EVENTS * sizeof *alone), together[2 * EVENT_BYTES];
    size_t n = (size_t)sprintf(all, "[");
    uint64_t faults = 0;
    orr_read_report report;
    const orr_graph *g;
    for (int i = 0; i < EVENTS; i++) {
        event[0] = '[';
        const size_t len = put_event(random, event + 1);
        n += (size_t)sprintf(all + n, "%s%.*s", i > 0 ? ", " : "", (int)len, event + 1);
        strcpy(event + 1 + len, "]");
        assert_int_equal(try_read(event, true, &g, &report, NULL), ORR_OK);
        assert_int_equal(g->n_nodes, 1);
        put_node(g, 0, alone[i]);
        faults += all_faults(&report);
        orr_graph_free(g);
    }
    strcpy(all + n, "]");
    for (int level = ORR_CPU_PLAIN; level <= ORR_CPU_AVX512; level++) {
        orr_cpu_level_limit((orr_cpu_level_id)level);
        assert_int_equal(try_read(all, true, &g, &report, NULL), ORR_OK);
        assert_int_equal(g->n_nodes, EVENTS);
        assert_int_equal(all_faults(&report), faults);
        for (orr_node_id v = 0; v < EVENTS; v++) {
            put_node(g, v, together);
            assert_string_equal(together, alone[v]);
        }
        orr_graph_free(g);
    }
    orr_cpu_level_limit(ORR_CPU_LEVELS);
    free(alone);
    free(all);
}

static void kineto_reads_an_event_as_it_reads_it_alone(void **state)
{
    (void)state;
    enum { SEED = 53 };
    print_message("seed %d\n", SEED);
    for (uint64_t i = 0; i < RECORDINGS; i++) {
        orr_random random = orr_random_of(SEED, i);
        check_recording(&random);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kineto_reads_an_event_as_it_reads_it_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
