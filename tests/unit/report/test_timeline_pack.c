/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include "report/timeline/pack.h"

/* [begin, end) of a column, as the meta text says. */
static void column(const char *meta, const char *name, size_t *begin, size_t *end)
{
    char key[32];
    snprintf(key, sizeof key, "\"%s\":[", name);
    const char *at = strstr(meta, key);
    assert_non_null(at);
    assert_int_equal(sscanf(at + strlen(key), "%zu,%zu", begin, end), 2);
}

static uint64_t varint(const uint8_t *bytes, size_t *at)
{
    uint64_t value = 0;
    int shift = 0;
    do
        value |= (uint64_t)(bytes[*at] & 127) << shift, shift += 7;
    while (bytes[(*at)++] > 127);
    return value;
}

static int64_t zigzag(const uint8_t *bytes, size_t *at)
{
    const uint64_t value = varint(bytes, at);
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

typedef struct packed {
    const orr_job *job;
    orr_arena *arena;
    orr_timeline_view timeline;
    orr_blob columns;
    char *meta;
} packed;

static packed pack(const orr_job *job, const orr_critical_path *path)
{
    packed p = {.job = job, .arena = orr_arena_new(0, 0)};
    assert_int_equal(orr_timeline_build(job, 1000, p.arena, &p.timeline, NULL), ORR_OK);
    const orr_timeline_input input = {job, &p.timeline, path, NULL, 0};
    p.meta =
        WRITTEN(out, assert_int_equal(orr_timeline_pack(&input, out, &p.columns, NULL), ORR_OK));
    return p;
}

static void packed_free(packed *p)
{
    free(p->meta);
    orr_blob_done(&p->columns);
    orr_arena_free(p->arena);
    orr_job_free(p->job);
}

static void times_read_back(void **state)
{
    packed p = pack(small_job(), NULL);
    size_t gap, gap_end, duration, duration_end;
    (void)state;
    column(p.meta, "gap", &gap, &gap_end);
    column(p.meta, "duration", &duration, &duration_end);
    for (uint32_t r = 0; r < p.timeline.n_rows; r++) {
        const orr_timeline_row *row = &p.timeline.rows[r];
        uint64_t end = 0;
        for (uint32_t i = row->first; i < row->first + row->count; i++) {
            const orr_node_id node = p.timeline.events[i].node;
            const uint64_t start = end + varint(p.columns.bytes.at, &gap);
            end = start + varint(p.columns.bytes.at, &duration);
            assert_int_equal(start, p.job->graphs[0]->start_ns[node]);
            assert_int_equal(end - start, p.job->graphs[0]->duration_ns[node]);
        }
    }
    assert_int_equal(gap, gap_end);
    assert_int_equal(duration, duration_end);
    packed_free(&p);
}

static void edges_are_those_that_the_lane_does_not_tell(void **state)
{
    packed p = pack(small_job(), NULL);
    const orr_graph *graph = p.job->graphs[0];
    size_t at, end;
    int64_t event = 0;
    int n = 0;
    (void)state;
    column(p.meta, "edge", &at, &end);
    for (; at < end; n++) {
        event += (int64_t)varint(p.columns.bytes.at, &at);
        const int64_t from = event + zigzag(p.columns.bytes.at, &at);
        const uint8_t kind = p.columns.bytes.at[at++];
        const orr_node_id v = p.timeline.events[event].node, u = p.timeline.events[from].node;
        bool found = false;
        assert_true(kind == ORR_DEP_LAUNCH || kind == ORR_DEP_EVENT);
        for (uint32_t d = graph->dep_first[v]; d < graph->dep_first[v + 1]; d++)
            found = found || (graph->dep[d] == u && graph->dep_kind[d] == kind);
        assert_true(found);
    }
    assert_int_equal(n, 2);
    packed_free(&p);
}

static void the_path_is_whole(void **state)
{
    const orr_job *job = small_job();
    const orr_path_piece pieces[] = {
        {0, 0, 1, "aten::linear", ORR_BOUND_CPU, false, 0, 110000},
        {0, 0, 3, "sgemm", ORR_BOUND_LAUNCH, true, 110000, 120000},
        {0, 0, 6, "[memory]", ORR_BOUND_COMPUTE, false, 120000,
         400000}, /* not drawn: named in place */
    };
    const orr_critical_path path = {
        .pieces = pieces, .n_pieces = 3, .start_ns = 0, .end_ns = 400000};
    packed p = pack(job, &path);
    size_t at, end;
    const uint8_t *bytes = p.columns.bytes.at;
    (void)state;
    column(p.meta, "path", &at, &end);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(varint(bytes, &at), 0);
        const uint32_t event = p.timeline.event_of[0][pieces[i].node];
        assert_int_equal(varint(bytes, &at), event == ORR_NONE ? 0 : event + 1);
        assert_int_equal(varint(bytes, &at), pieces[i].bound * 2 + pieces[i].wait);
        assert_int_equal(varint(bytes, &at), pieces[i].to_ns - pieces[i].from_ns);
        if (event == ORR_NONE)
            varint(bytes, &at);
    }
    assert_int_equal(at, end);
    assert_non_null(strstr(p.meta, "\"path_pieces\":3"));
    packed_free(&p);
}

static void the_meta_text_describes_lanes_names_and_arguments(void **state)
{
    packed p = pack(small_job(), NULL);
    (void)state;
    assert_non_null(strstr(p.meta, "\"events\":6,\"thinned\":0,\"untimed\":0"));
    assert_non_null(strstr(p.meta, "{\"label\":\"stream 7\",\"device\":true,\"rows\":[2]}"));
    assert_non_null(strstr(p.meta, "{\"label\":\"thread 42\",\"device\":false,\"rows\":[1,1,1]}"));
    assert_non_null(strstr(p.meta, "[\"</script><b>&\\\"sgemm'\",0,"));
    assert_non_null(strstr(
        p.meta, "collective\\tall_reduce\\ngroup size\\t2\\nin\\t1.000 MiB (1048576 bytes)"));
    packed_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_read_back),
        cmocka_unit_test(edges_are_those_that_the_lane_does_not_tell),
        cmocka_unit_test(the_path_is_whole),
        cmocka_unit_test(the_meta_text_describes_lanes_names_and_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
