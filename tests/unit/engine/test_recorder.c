/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <unistd.h>

#include <orrery/analysis.h>
#include <orrery/trace.h>

#include "engine/record/recorder.h"
#include "program_fixture.h"

/* A program of a product, its gradient's way and, in a lane of its own, an all-reduce of rank 0 of
 * two, whose partner is a thread. */
typedef struct recorded {
    fixture f, peer;
    orr_communicator *communicators[ORR_AXES], *peers[ORR_AXES];
    bench_world *world;
    orr_recorder *recorder;
    orr_value y;
} recorded;

static void draw(fixture *f)
{
    const orr_value x = given(f, TYPE(4, 6)), w = given(f, TYPE(6, 2));
    const orr_value flat = apply(f, ORR_OP_VIEW, ARGS(.shape = TYPE(2, 2, 6)), x);
    const orr_value product = apply2(f, ORR_OP_MATMUL, NULL, flat, w);
    const orr_value sum = apply(f, ORR_OP_ALL_REDUCE, ARGS(.members = 2, .overlap = true), product);
    f->tape.pass = ORR_PASS_INPUT;
    const orr_value scaled = apply(f, ORR_OP_SCALE, ARGS(.value = 0.5), product);
    const orr_value y = apply2(f, ORR_OP_ADD, NULL, scaled, sum);
    f->bindings[y].kept = true;
    f->calls[1].label = "layer 3 / up";
    f->calls[1].tag = 9;
    f->calls[2].lane = ORR_LANE_COMM;
}

static void begin_recorded(recorded *r)
{
    static const uint32_t everyone[] = {0, 1};
    memset(r, 0, sizeof *r);
    r->world = bench_world_new(2);
    begin(&r->f);
    begin(&r->peer);
    draw(&r->f);
    draw(&r->peer);
    r->f.source.communicators = r->communicators;
    r->peer.source.communicators = r->peers;
    assert_int_equal(orr_communicator_make(&r->world->transports[0], everyone, 2, 0, 0, r->f.arena,
                                           &r->communicators[0], NULL),
                     ORR_OK);
    assert_int_equal(orr_communicator_make(&r->world->transports[1], everyone, 2, 0, 0,
                                           r->peer.arena, &r->peers[0], NULL),
                     ORR_OK);
    make(&r->f);
    make(&r->peer);
}
static void end_recorded(recorded *r)
{
    orr_recorder_free(r->recorder);
    end(&r->f);
    end(&r->peer);
    bench_world_free(r->world);
}

static void *run_peer(void *ctx)
{
    fixture *f = ctx;
    return orr_program_execute(f->program, NULL, &f->err) == ORR_OK ? NULL : f;
}

/* false: the recorder had no room. */
static bool run_step(recorded *r, int64_t number)
{
    orr_program_run how = {0};
    pthread_t peer;
    orr_recorder_step(r->recorder, number);
    orr_recorder_run(r->recorder, r->f.program, &how.start_ns, &how.end_ns);
    assert_int_equal(pthread_create(&peer, NULL, run_peer, &r->peer), 0);
    assert_int_equal(orr_program_execute(r->f.program, &how, &r->f.err), ORR_OK);
    void *failed;
    pthread_join(peer, &failed);
    assert_null(failed);
    orr_recorder_end(r->recorder);
    return how.start_ns != NULL;
}

static const orr_graph *graph_of(const recorded *r)
{
    const orr_graph *graph;
    orr_error err;
    if (orr_recorder_graph(r->recorder, 0, 2, &graph, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return graph;
}

static orr_node_id find(const orr_graph *g, const char *name)
{
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        if (strcmp(orr_graph_str(g, g->name[v]), name) == 0)
            return v;
    fail_msg("no node '%s'", name);
    return ORR_NONE;
}

static bool waits(const orr_graph *g, orr_node_id node, orr_node_id on, orr_dep_kind kind)
{
    for (uint32_t i = g->dep_first[node]; i < g->dep_first[node + 1]; i++)
        if (g->dep[i] == on && g->dep_kind[i] == kind)
            return true;
    return false;
}

static const char *attr_text(const orr_graph *g, orr_node_id v, const char *name)
{
    orr_attr attr;
    if (!orr_graph_find_attr(g, v, name, &attr))
        return "";
    return orr_graph_str(g, *(const orr_str *)attr.values);
}

static void test_a_step_as_a_graph(void **state)
{
    (void)state;
    recorded r;
    begin_recorded(&r);
    assert_int_equal(orr_recorder_new(2, 5, &r.recorder, NULL), ORR_OK);
    assert_true(run_step(&r, 7) && run_step(&r, 8));
    assert_false(run_step(&r, 9));
    const orr_graph *g = graph_of(&r);
    assert_int_equal(g->n_nodes, 2 * (1 + 4)); /* a view does not run */
    assert_true(g->rank == 0 && g->world_size == 2);
    const orr_node_id step = find(g, "ProfilerStep#7"), product = find(g, "layer 3 / up"),
                      sum = find(g, "all_reduce"), scale = find(g, "scale"), add = find(g, "add");
    assert_int_equal(g->kind[step], ORR_NODE_ANNOTATION);
    assert_int_equal(g->kind[product], ORR_NODE_HOST_OP);
    assert_true(g->parent[product] == step && g->parent[scale] == step);
    assert_true(g->lane[sum] != g->lane[product]);
    assert_true(waits(g, sum, product, ORR_DEP_DATA) && waits(g, add, sum, ORR_DEP_DATA) &&
                waits(g, add, scale, ORR_DEP_DATA) && waits(g, scale, product, ORR_DEP_THREAD) &&
                waits(g, add, sum, ORR_DEP_HANDOFF));
    assert_true(g->start_ns[add] >= g->start_ns[sum] + g->duration_ns[sum]);
    const orr_comm *comm = orr_graph_comm(g, sum);
    assert_non_null(comm);
    assert_true(comm->collective == ORR_COLL_ALL_REDUCE && comm->in_bytes == 64 &&
                comm->out_bytes == 64 && comm->group_size == 2 && comm->seq == 0);
    assert_int_equal(orr_group_rank(&g->groups[comm->group], 1), 1);
    assert_string_equal(attr_text(g, product, "op"), "matmul");
    assert_string_equal(attr_text(g, product, "pytorch"), "aten::mm");
    assert_string_equal(attr_text(g, product, "inputs.shapes"), "[[2, 2, 6], [6, 2]]");
    assert_string_equal(attr_text(g, product, "inputs.types"),
                        "[\"Tensor(double)\", \"Tensor(double)\"]");
    assert_string_equal(attr_text(g, product, "outputs.strides"), "[[4, 2, 1]]");
    assert_string_equal(attr_text(g, scale, "args"), "{\"value\": 0.5}");
    assert_string_equal(attr_text(g, scale, "pass"), "input gradient");
    const uint32_t first = g->io_first[product];
    assert_int_equal(g->io_out[product] - first, 2);
    assert_int_equal(g->tensors[g->io[first]].elements, 24);
    orr_graph_free(g);
    end_recorded(&r);
}

/* A run in two parts, with another program between them, and bytes that are not the tensors'. */
static void test_parts_of_a_run(void **state)
{
    (void)state;
    recorded r;
    fixture other;
    orr_program_run how = {.to = 2}, between = {0};
    pthread_t peer;
    void *failed;
    begin_recorded(&r);
    begin(&other);
    apply(&other, ORR_OP_RELU, NULL, given(&other, TYPE(3)));
    make(&other);
    assert_int_equal(orr_recorder_new(1, 10, &r.recorder, NULL), ORR_OK);
    orr_recorder_step(r.recorder, 0);
    orr_recorder_run(r.recorder, r.f.program, &how.start_ns, &how.end_ns);
    assert_int_equal(orr_program_execute(r.f.program, &how, &r.f.err), ORR_OK);
    orr_recorder_run(r.recorder, other.program, &between.start_ns, &between.end_ns);
    assert_int_equal(orr_program_execute(other.program, &between, &r.f.err), ORR_OK);
    orr_recorder_resume(r.recorder, r.f.program, 2);
    how.from = 2;
    how.to = 0;
    assert_int_equal(pthread_create(&peer, NULL, run_peer, &r.peer), 0);
    assert_int_equal(orr_program_execute(r.f.program, &how, &r.f.err), ORR_OK);
    orr_recorder_bytes(r.recorder, 2, 40, 24);
    pthread_join(peer, &failed);
    assert_null(failed);
    orr_recorder_end(r.recorder);
    const orr_graph *g = graph_of(&r);
    assert_int_equal(g->n_nodes, 1 + 4 + 1);
    const orr_node_id product = find(g, "layer 3 / up"), relu = find(g, "relu"),
                      scale = find(g, "scale");
    assert_true(waits(g, relu, product, ORR_DEP_THREAD) && waits(g, scale, relu, ORR_DEP_THREAD));
    const orr_comm *comm = orr_graph_comm(g, find(g, "all_reduce"));
    assert_true(comm != NULL && comm->vector && comm->in_bytes == 40 && comm->out_bytes == 24);
    orr_graph_free(g);
    end(&other);
    end_recorded(&r);
}

/* Through a Chakra file: names, times, communications and what waits for what stay. */
static void test_round_trip(void **state)
{
    (void)state;
    recorded r;
    orr_error err;
    const orr_graph *back = NULL;
    char path[] = "/tmp/orr_recorder_XXXXXX.et";
    const int file = mkstemps(path, 3);
    assert_true(file >= 0);
    close(file);
    begin_recorded(&r);
    assert_int_equal(orr_recorder_new(2, 5, &r.recorder, NULL), ORR_OK);
    run_step(&r, 1);
    run_step(&r, 2);
    const orr_graph *g = graph_of(&r);
    if (orr_trace_write(path, ORR_FORMAT_CHAKRA, g, &err) != ORR_OK ||
        orr_trace_read(path, NULL, &back, NULL, &err) != ORR_OK)
        fail_msg("%s", err.text);
    unlink(path);
    assert_int_equal(back->n_nodes, g->n_nodes);
    assert_int_equal(back->n_comms, g->n_comms);
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        uint32_t found = 0;
        for (orr_node_id u = 0; u < back->n_nodes; u++)
            found += g->start_ns[v] == back->start_ns[u] &&
                     g->duration_ns[v] == back->duration_ns[u] && g->kind[v] == back->kind[u] &&
                     strcmp(orr_graph_str(g, g->name[v]), orr_graph_str(back, back->name[u])) == 0;
        assert_int_equal(found, 1);
    }
    const orr_node_id sum = find(back, "all_reduce");
    const orr_comm *comm = orr_graph_comm(back, sum);
    assert_true(comm != NULL && comm->collective == ORR_COLL_ALL_REDUCE && comm->in_bytes == 64);
    assert_string_equal(attr_text(back, find(back, "layer 3 / up"), "op"), "matmul");
    orr_graph_free(back);
    orr_graph_free(g);
    end_recorded(&r);
}

/* The room's own analyses find steps, computation, and communication beside it. */
static void test_analyses_read_it(void **state)
{
    (void)state;
    recorded r;
    orr_error err;
    const orr_job *job;
    begin_recorded(&r);
    r.f.calls[3].emulate_ns = 3000000;
    orr_program_free(r.f.program);
    make(&r.f);
    assert_int_equal(orr_recorder_new(3, 5, &r.recorder, NULL), ORR_OK);
    for (int64_t n = 1; n <= 3; n++)
        run_step(&r, n);
    const orr_graph *g = graph_of(&r);
    assert_int_equal(orr_job_build(&g, 1, &job, &err), ORR_OK);
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_temporal *rows;
    const orr_step_summary *steps;
    size_t n;
    if (orr_analyze_temporal(job, NULL, arena, &rows, &n, &err) != ORR_OK)
        fail_msg("%s", err.text);
    assert_int_equal(n, 1);
    assert_true(rows[0].host_only && rows[0].compute_ns >= 9000000);
    if (orr_analyze_steps(job, NULL, arena, &steps, &n, &err) != ORR_OK)
        fail_msg("%s", err.text);
    assert_int_equal(n, 3);
    assert_true(steps[2].number == 3 && steps[2].compute_ns >= 3000000 &&
                steps[2].compute_ns <= steps[2].duration_ns);
    orr_arena_free(arena);
    orr_job_free(job);
    end_recorded(&r);
}

static void note(orr_recorder *r, uint8_t lane, const char *name, int64_t start_ns, int64_t end_ns)
{
    orr_recorded_annotation n = {.lane = lane,
                                 .name = name,
                                 .start_ns = start_ns,
                                 .end_ns = end_ns,
                                 .epoch = 3,
                                 .step = 8,
                                 .text = "b is silent"};
    orr_recorder_annotate(r, &n);
}

/* Beside the calls, in lanes of their own, through a file; what is forgotten is not there, and what
 * began before begins then. */
static void test_notes(void **state)
{
    (void)state;
    recorded r;
    orr_error err;
    const orr_graph *back = NULL;
    char path[] = "/tmp/orr_recorder_XXXXXX.et";
    const int file = mkstemps(path, 3);
    assert_true(file >= 0);
    close(file);
    begin_recorded(&r);
    assert_int_equal(orr_recorder_new(2, 5, &r.recorder, NULL), ORR_OK);
    note(r.recorder, 2, "before", 5, orr_program_now_ns());
    orr_recorder_drop_annotations(r.recorder);
    const int64_t from_ns = orr_program_now_ns();
    run_step(&r, 8);
    const int64_t to_ns = orr_program_now_ns();
    note(r.recorder, 1, "lost", 7, to_ns);
    note(r.recorder, 4, "commit", from_ns, from_ns + 10);
    note(r.recorder, 4, "commit", to_ns, to_ns);
    const orr_graph *g = graph_of(&r);
    if (orr_trace_write(path, ORR_FORMAT_CHAKRA, g, &err) != ORR_OK ||
        orr_trace_read(path, NULL, &back, NULL, &err) != ORR_OK)
        fail_msg("%s", err.text);
    unlink(path);
    uint32_t commits = 0;
    for (orr_node_id v = 0; v < back->n_nodes; v++) {
        commits += strcmp(orr_graph_str(back, back->name[v]), "commit") == 0;
        assert_string_not_equal(orr_graph_str(back, back->name[v]), "before");
    }
    const orr_node_id lost = find(back, "lost"), commit = find(back, "commit");
    orr_attr epoch, step;
    assert_int_equal(commits, 2);
    assert_int_equal(back->kind[lost], ORR_NODE_ANNOTATION);
    assert_true(back->lane[lost] != back->lane[commit]);
    assert_true(back->lane[lost] != back->lane[find(back, "ProfilerStep#8")]);
    const int64_t lost_ns = back->base_ns + back->start_ns[lost];
    assert_true(lost_ns > 7 && lost_ns <= from_ns && lost_ns + back->duration_ns[lost] == to_ns);
    assert_string_equal(attr_text(back, lost, "text"), "b is silent");
    assert_true(orr_graph_find_attr(back, lost, "epoch", &epoch) &&
                orr_graph_find_attr(back, lost, "step", &step));
    assert_true(*(const uint64_t *)epoch.values == 3 && *(const uint64_t *)step.values == 8);
    orr_graph_free(back);
    orr_graph_free(g);
    end_recorded(&r);
}

static void test_totals_by_operator(void **state)
{
    (void)state;
    recorded r;
    const orr_recorded_op *ops;
    uint32_t n;
    begin_recorded(&r);
    r.f.calls[3].emulate_ns = 5000000;
    orr_program_free(r.f.program);
    make(&r.f);
    assert_int_equal(orr_recorder_new(2, 5, &r.recorder, NULL), ORR_OK);
    run_step(&r, 1);
    run_step(&r, 2);
    assert_int_equal(orr_recorder_ops(r.recorder, r.f.arena, &ops, &n, NULL), ORR_OK);
    assert_int_equal(n, 4);
    assert_true(ops[0].op == ORR_OP_SCALE ||
                ops[1].op == ORR_OP_SCALE); /* or what waits for the peer */
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(ops[i].calls, 2);
        assert_true(i == 0 || ops[i].ns <= ops[i - 1].ns);
        if (ops[i].op == ORR_OP_MATMUL)
            assert_true(ops[i].flops == 2 * 2 * 4 * 6 * 2 && ops[i].pass == ORR_PASS_FORWARD &&
                        ops[i].bytes == 2 * 8 * (24 + 12 + 8));
        if (ops[i].op == ORR_OP_SCALE)
            assert_true(ops[i].ns >= 10000000 && ops[i].pass == ORR_PASS_INPUT);
    }
    end_recorded(&r);
}

static void test_recording_allocates_nothing(void **state)
{
    (void)state;
    fixture f;
    orr_recorder *recorder;
    begin(&f);
    apply(&f, ORR_OP_SCALE, NULL, given(&f, TYPE(2)));
    make(&f);
    assert_int_equal(orr_recorder_new(4, 1, &recorder, NULL), ORR_OK);
    (void)orr_alloc_count();
    for (int64_t n = 0; n < 4; n++) {
        orr_program_run how = {0};
        orr_recorder_step(recorder, n);
        orr_recorder_run(recorder, f.program, &how.start_ns, &how.end_ns);
        assert_non_null(how.start_ns);
        assert_int_equal(orr_program_execute(f.program, &how, &f.err), ORR_OK);
        orr_recorder_end(recorder);
    }
    assert_int_equal(orr_alloc_count(), 0);
    orr_recorder_free(recorder);
    end(&f);
}

static void test_no_memory(void **state)
{
    (void)state;
    recorded r;
    const orr_graph *graph;
    const orr_recorded_op *ops;
    uint32_t n;
    begin_recorded(&r);
    for (uint64_t nth = 1;; nth++) {
        orr_alloc_fail_from(nth);
        const orr_status status = orr_recorder_new(1, 5, &r.recorder, NULL);
        orr_alloc_fail_from(0);
        if (status == ORR_OK)
            break;
        assert_int_equal(status, ORR_NO_MEMORY);
    }
    run_step(&r, 1);
    for (uint64_t nth = 1;; nth++) {
        orr_alloc_fail_from(nth);
        const orr_status status = orr_recorder_graph(r.recorder, 0, 2, &graph, NULL);
        orr_alloc_fail_from(0);
        if (status == ORR_OK)
            break;
        assert_int_equal(status, ORR_NO_MEMORY);
    }
    orr_graph_free(graph);
    orr_arena *arena = orr_arena_new(0, 1024);
    assert_int_equal(orr_recorder_ops(r.recorder, arena, &ops, &n, NULL), ORR_NO_MEMORY);
    orr_arena_free(arena);
    end_recorded(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_step_as_a_graph),
        cmocka_unit_test(test_parts_of_a_run),
        cmocka_unit_test(test_notes),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_analyses_read_it),
        cmocka_unit_test(test_totals_by_operator),
        cmocka_unit_test(test_recording_allocates_nothing),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
