/* SPDX-License-Identifier: Apache-2.0 */
#include "trace_data.h"

#include "base/alloc.h"
#include "io/protobuf/wire.h"
#include "trace/perfetto/writer.h"

/* A reader of the few fields that we write, which keeps the rules of Perfetto's trace processor:
 * tracks are described before they are used, times of a track never fall, slices nest, interned
 * names are known. */
enum { MOST_TRACKS = 512, DEEPEST = 512 };

typedef struct track {
    uint64_t id;
    uint64_t last_ns, begun_ns[DEEPEST];
    uint32_t depth;
} track;

typedef struct checker {
    track tracks[MOST_TRACKS];
    uint32_t n_tracks, slices, instants, packets;
    uint64_t total_ns, flows_out, flows_in, flow_sum;
    bool named[1 << 20];
} checker;

static track *find_track(checker *c, uint64_t id)
{
    for (uint32_t i = 0; i < c->n_tracks; i++)
        if (c->tracks[i].id == id)
            return &c->tracks[i];
    return NULL;
}

static uint64_t number_in(const orr_proto_field *message, uint32_t number)
{
    orr_proto p = orr_proto_of(message->bytes, message->len);
    for (orr_proto_field f; orr_proto_next(&p, &f);)
        if (f.number == number)
            return f.value;
    return 0;
}

static void check_descriptor(checker *c, const orr_proto_field *f)
{
    const uint64_t id = number_in(f, TRACK_UUID), parent = number_in(f, TRACK_PARENT);
    assert_int_not_equal(id, 0);
    assert_null(find_track(c, id));
    if (parent != 0)
        assert_non_null(find_track(c, parent));
    assert_true(c->n_tracks < MOST_TRACKS);
    c->tracks[c->n_tracks++] = (track){.id = id};
}

static void check_interned(checker *c, const orr_proto_field *data)
{
    orr_proto p = orr_proto_of(data->bytes, data->len);
    for (orr_proto_field f; orr_proto_next(&p, &f);)
        if (f.number == INTERNED_NAMES)
            c->named[number_in(&f, ENTRY_ID)] = true;
}

static void check_event(checker *c, const orr_proto_field *f, uint64_t at_ns)
{
    track *t = find_track(c, number_in(f, EVENT_TRACK));
    const uint64_t type = number_in(f, EVENT_TYPE);
    assert_non_null(t);
    assert_true(at_ns >= t->last_ns);
    t->last_ns = at_ns;
    if (type == SLICE_END) {
        assert_true(t->depth > 0);
        c->total_ns += at_ns - t->begun_ns[--t->depth];
        return;
    }
    assert_true(c->named[number_in(f, EVENT_NAME_ID)]);
    if (type == INSTANT) {
        c->instants++;
    } else {
        assert_true(t->depth < DEEPEST);
        t->begun_ns[t->depth++] = at_ns;
        c->slices++;
    }
    orr_proto p = orr_proto_of(f->bytes, f->len);
    for (orr_proto_field e; orr_proto_next(&p, &e);) {
        if (e.number == EVENT_FLOW_IDS)
            c->flows_out++, c->flow_sum += e.value;
        if (e.number == EVENT_TERMINATING_FLOW_IDS)
            c->flows_in++, c->flow_sum -= e.value;
    }
}

static void check_packet(checker *c, const orr_proto_field *packet)
{
    orr_proto_field event = {0};
    uint64_t at_ns = 0;
    orr_proto p = orr_proto_of(packet->bytes, packet->len);
    c->packets++;
    for (orr_proto_field f; orr_proto_next(&p, &f);) {
        if (f.number == PACKET_TIMESTAMP)
            at_ns = f.value;
        else if (f.number == PACKET_TRACK_DESCRIPTOR)
            check_descriptor(c, &f);
        else if (f.number == PACKET_INTERNED_DATA)
            check_interned(c, &f);
        else if (f.number == PACKET_TRACK_EVENT)
            event = f;
        else if (f.number == PACKET_SEQUENCE_FLAGS)
            assert_int_equal(f.value & SEQUENCE_NEEDS_STATE, SEQUENCE_NEEDS_STATE);
    }
    assert_false(p.failed);
    if (event.number != 0)
        check_event(c, &event, at_ns);
}

static checker *check(const orr_write_set *set)
{
    checker *c = calloc(1, sizeof *c);
    orr_output *out;
    orr_error err;
    size_t n;
    assert_non_null(c);
    assert_int_equal(orr_output_open_memory(&out, &err), ORR_OK);
    assert_int_equal(orr_perfetto_write(set, out, &err), ORR_OK);
    assert_int_equal(orr_output_finish(out, &err), ORR_OK);
    const void *bytes = orr_output_memory(out, &n);
    orr_proto p = orr_proto_of(bytes, n);
    for (orr_proto_field f; orr_proto_next(&p, &f);) {
        assert_int_equal(f.number, TRACE_PACKET);
        check_packet(c, &f);
    }
    assert_false(p.failed);
    orr_output_close(out);
    for (uint32_t i = 0; i < c->n_tracks; i++)
        assert_int_equal(c->tracks[i].depth, 0);
    return c;
}

static checker *check_graph(const orr_graph *g)
{
    const int64_t no_shift = 0;
    const orr_write_set set = {
        .graphs = &g, .shift_ns = &no_shift, .ranks = &g->rank, .n = 1, .base_ns = g->base_ns};
    return check(&set);
}

static void every_node_is_a_slice_or_an_instant(void **state)
{
    (void)state;
    size_t n;
    const char *const *names = all_kineto(&n);
    for (size_t i = 0; i < n; i++) {
        const orr_graph *g = read_data(names[i], NULL);
        checker *c = check_graph(g);
        int64_t total = 0;
        const uint32_t instants = count_kind(g, ORR_NODE_MEMORY);
        for (orr_node_id v = 0; v < g->n_nodes; v++)
            total += g->duration_ns[v];
        assert_int_equal(c->slices, g->n_nodes - instants);
        assert_int_equal(c->instants, instants);
        assert_int_equal(c->total_ns, total); /* nothing was cut short */
        const uint32_t arrows = count_deps(g, ORR_DEP_LAUNCH) + count_deps(g, ORR_DEP_HANDOFF);
        assert_int_equal(c->flows_out, arrows);
        assert_int_equal(c->flows_in, arrows);
        assert_int_equal(c->flow_sum, 0); /* each that begins ends */
        free(c);
        orr_graph_free(g);
    }
}

static void nodes_without_a_time_are_left_out(void **state)
{
    (void)state;
    const orr_graph *g = linked_dlrm(0, NULL);
    checker *c = check_graph(g);
    assert_int_equal(c->slices, g->n_nodes - 3); /* process and threads of the host trace */
    free(c);
    orr_graph_free(g);
}

/* Times of ranks are on one axis, tracks and arrows of each its own. */
static void ranks_keep_apart(void **state)
{
    (void)state;
    const orr_graph *graphs[2] = {read_data("dlrm_v100x8/rank0.device.json.gz", NULL),
                                  read_data("dlrm_v100x8/rank1.device.json.gz", NULL)};
    const int64_t shift_ns[2] = {0, 5000};
    const uint32_t ranks[2] = {0, 1};
    const orr_write_set set = {.graphs = graphs,
                               .shift_ns = shift_ns,
                               .ranks = ranks,
                               .n = 2,
                               .base_ns = graphs[0]->base_ns};
    checker *c = check(&set);
    assert_int_equal(c->slices, graphs[0]->n_nodes + graphs[1]->n_nodes);
    assert_int_equal(c->flow_sum, 0);
    free(c);
    orr_graph_free(graphs[0]);
    orr_graph_free(graphs[1]);
}

static void survives_each_failing_allocation(void **state)
{
    (void)state;
    const orr_graph *g = read_text(
        "{\"schemaVersion\":1,\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"a\","
        "\"pid\":0,\"tid\":7,\"ts\":0,\"dur\":5,\"args\":{\"device\":0,\"stream\":7}},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"b\",\"pid\":0,\"tid\":7,\"ts\":3,\"dur\":5,"
        "\"args\":{\"device\":0,\"stream\":7}}]}");
    const int64_t no_shift = 0;
    const orr_write_set set = {.graphs = &g, .shift_ns = &no_shift, .ranks = &g->rank, .n = 1};
    orr_error err;
    for (uint64_t nth = 1;; nth++) {
        orr_output *out = NULL;
        orr_alloc_fail_from(nth);
        orr_status status = orr_output_open_memory(&out, &err);
        if (status == ORR_OK)
            status = orr_perfetto_write(&set, out, &err);
        if (status == ORR_OK)
            status = orr_chrome_write(&set, out, &err);
        if (status == ORR_OK)
            status = orr_output_finish(out, &err);
        orr_alloc_fail_from(0);
        orr_output_close(out);
        if (status == ORR_OK)
            break;
        assert_int_equal(status, ORR_NO_MEMORY);
    }
    orr_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_node_is_a_slice_or_an_instant),
        cmocka_unit_test(nodes_without_a_time_are_left_out),
        cmocka_unit_test(ranks_keep_apart),
        cmocka_unit_test(survives_each_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
