/* SPDX-License-Identifier: Apache-2.0 */

/* A recording, written as a Chakra file and read again, is the recording that it was: node for
 * node, and so in every table of `analyze` and in every prediction. All recordings at hand: those
 * of the folder of real traces, each file and each job of several ranks, and the bundled
 * examples. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <orrery/orrery.h>

#include "io/stream/output.h"
#include "report/table/table.h"
#include "trace/chakra/python_repr.h"
#include "trace/common/writer.h"

static const char *at_hand; /* the recording that is looked at, for messages */

#define ok(call)                                                                                   \
    do {                                                                                           \
        orr_error *const err_ = &err;                                                              \
        if ((call) != ORR_OK)                                                                      \
            fail_msg("%s: %s", at_hand, err_->text);                                               \
    } while (0)

static const orr_graph *again(const orr_graph *g)
{
    orr_error err;
    orr_output *out;
    const orr_graph *et;
    size_t n;
    ok(orr_output_open_memory(&out, &err));
    ok(orr_chakra_write(g, out, &err));
    ok(orr_output_finish(out, &err));
    const void *bytes = orr_output_memory(out, &n);
    ok(orr_trace_read_memory(bytes, n, NULL, &et, NULL, &err));
    orr_output_close(out);
    return et;
}

static void same_text(const orr_graph *a, orr_str x, const orr_graph *b, orr_str y)
{
    assert_string_equal(orr_graph_str(a, x), orr_graph_str(b, y));
}

static void same_lane(const orr_graph *a, const orr_lane *x, const orr_graph *b, const orr_lane *y)
{
    assert_int_equal(x->kind, y->kind);
    assert_int_equal(x->device, y->device);
    assert_int_equal(x->pid, y->pid);
    assert_int_equal(x->tid, y->tid);
    same_text(a, x->process, b, y->process);
    same_text(a, x->name, b, y->name);
}

static void same_comm(const orr_graph *a, const orr_comm *x, const orr_graph *b, const orr_comm *y)
{
    assert_int_equal(x->collective, y->collective);
    assert_int_equal(x->vector, y->vector);
    assert_int_equal(x->peer, y->peer);
    assert_int_equal(x->root, y->root);
    assert_int_equal(x->tag, y->tag);
    assert_int_equal(x->group, y->group);
    assert_int_equal(x->group_size, y->group_size);
    assert_int_equal(x->seq, y->seq);
    assert_int_equal(x->in_bytes, y->in_bytes);
    assert_int_equal(x->out_bytes, y->out_bytes);
    same_text(a, x->dtype, b, y->dtype);
    same_text(a, x->in_splits, b, y->in_splits);
    same_text(a, x->out_splits, b, y->out_splits);
}

static void same_group(const orr_graph *a, const orr_group *x, const orr_graph *b,
                       const orr_group *y)
{
    same_text(a, x->name, b, y->name);
    same_text(a, x->desc, b, y->desc);
    same_text(a, x->backend, b, y->backend);
    assert_int_equal(x->size, y->size);
    for (uint32_t r = 0; r < x->size; r++)
        assert_int_equal(orr_group_rank(x, r), orr_group_rank(y, r));
}

static void same_tensor(const orr_graph *a, const orr_tensor *x, const orr_graph *b,
                        const orr_tensor *y)
{
    assert_int_equal(x->storage, y->storage);
    assert_int_equal(x->offset_bytes, y->offset_bytes);
    assert_int_equal(x->elements, y->elements);
    assert_int_equal(x->element_bytes, y->element_bytes);
    assert_int_equal(x->source_id, y->source_id);
    same_text(a, x->device, b, y->device);
    same_text(a, x->dtype, b, y->dtype);
}

/* JSON in a form in which blanks and the digits of a fraction do not matter. */
static void same_json(const orr_graph *a, orr_str x, const orr_graph *b, orr_str y)
{
    orr_proto_buffer one = {0}, two = {0};
    orr_python_repr(&one, (orr_text){orr_graph_str(a, x), orr_graph_str_len(a, x)});
    orr_python_repr(&two, (orr_text){orr_graph_str(b, y), orr_graph_str_len(b, y)});
    assert_int_equal(one.n, two.n);
    assert_memory_equal(one.at, two.at, one.n);
    orr_proto_buffer_done(&one);
    orr_proto_buffer_done(&two);
}

static void same_attrs(const orr_graph *a, const orr_graph *b, orr_node_id v)
{
    uint32_t n = 0, m = 0;
    orr_attr_iter it = orr_graph_attrs(a, v);
    for (orr_attr x, y; orr_attr_next(&it, &x); n++) {
        const char *name = orr_graph_str(a, x.name);
        if (!orr_graph_find_attr(b, v, name, &y))
            fail_msg("%s: node %u '%s' has lost '%s'", at_hand, v, orr_graph_str(a, a->name[v]),
                     name);
        if (x.kind != y.kind)
            fail_msg("%s: '%s' is of kind %u, was %u", at_hand, name, y.kind, x.kind);
        assert_int_equal(x.count, y.count);
        if (x.kind == ORR_ATTR_JSON)
            same_json(a, *(const orr_str *)x.values, b, *(const orr_str *)y.values);
        else if (x.kind == ORR_ATTR_STRING || x.kind == ORR_ATTR_BYTES)
            same_text(a, *(const orr_str *)x.values, b, *(const orr_str *)y.values);
        else
            assert_memory_equal(x.values, y.values, x.count * (x.kind == ORR_ATTR_BOOL ? 1 : 4));
    }
    it = orr_graph_attrs(b, v);
    for (orr_attr y; orr_attr_next(&it, &y);)
        m++;
    assert_int_equal(n, m);
}

static void same_node(const orr_graph *a, const orr_graph *b, orr_node_id v)
{
    same_text(a, a->name[v], b, b->name[v]);
    assert_int_equal(a->kind[v], b->kind[v]);
    assert_int_equal(a->flags[v], b->flags[v]);
    assert_int_equal(a->lane[v], b->lane[v]);
    assert_int_equal(a->start_ns[v], b->start_ns[v]);
    assert_int_equal(a->duration_ns[v], b->duration_ns[v]);
    assert_int_equal(a->parent[v], b->parent[v]);
    assert_int_equal(a->source_id[v], b->source_id[v]);
    if (orr_graph_comm(a, v) != NULL)
        same_comm(a, orr_graph_comm(a, v), b, orr_graph_comm(b, v));
    if (orr_graph_copy(a, v) != NULL)
        assert_memory_equal(orr_graph_copy(a, v), orr_graph_copy(b, v), sizeof(orr_copy));
    if (orr_graph_memory(a, v) != NULL)
        assert_memory_equal(orr_graph_memory(a, v), orr_graph_memory(b, v), sizeof(orr_memory));
    same_attrs(a, b, v);
    if (a->n_tensors == 0)
        return;
    if (a->io_first[v + 1] - a->io_first[v] != b->io_first[v + 1] - b->io_first[v])
        fail_msg("%s: node %u '%s' has %u tensors, had %u", at_hand, v,
                 orr_graph_str(a, a->name[v]), b->io_first[v + 1] - b->io_first[v],
                 a->io_first[v + 1] - a->io_first[v]);
    assert_int_equal(a->io_out[v] - a->io_first[v], b->io_out[v] - b->io_first[v]);
    for (uint32_t i = 0; i < a->io_first[v + 1] - a->io_first[v]; i++)
        same_tensor(a, &a->tensors[a->io[a->io_first[v] + i]], b,
                    &b->tensors[b->io[b->io_first[v] + i]]);
}

static void same_graph(const orr_graph *a, const orr_graph *b)
{
    assert_int_equal(a->n_nodes, b->n_nodes);
    assert_int_equal(a->n_deps, b->n_deps);
    assert_int_equal(a->n_lanes, b->n_lanes);
    assert_int_equal(a->n_groups, b->n_groups);
    assert_int_equal(a->base_ns, b->base_ns);
    assert_int_equal(a->rank, b->rank);
    assert_int_equal(a->world_size, b->world_size);
    same_text(a, a->source, b, b->source);
    same_text(a, a->device_name, b, b->device_name);
    for (uint32_t l = 0; l < a->n_lanes; l++)
        same_lane(a, &a->lanes[l], b, &b->lanes[l]);
    for (uint32_t i = 0; i < a->n_groups; i++)
        same_group(a, &a->groups[i], b, &b->groups[i]);
    for (orr_node_id v = 0; v < a->n_nodes; v++)
        same_node(a, b, v);
    assert_memory_equal(a->dep_first, b->dep_first, (a->n_nodes + 1) * sizeof *a->dep_first);
    assert_memory_equal(a->dep, b->dep, a->n_deps * sizeof *a->dep);
    assert_memory_equal(a->dep_kind, b->dep_kind, a->n_deps);
    assert_memory_equal(a->lane_node, b->lane_node, a->n_nodes * sizeof *a->lane_node);
    same_attrs(a, b, ORR_NONE);
}

/* The table as JSON, in `out`. */
static void print_table(const orr_analysis *analysis, const orr_job *job, orr_arena *arena,
                        orr_output *out)
{
    orr_error err;
    orr_table table;
    const orr_table_style style = {.format = ORR_TABLE_JSON};
    if (analysis->run(job, NULL, arena, &table, &err) != ORR_OK)
        orr_output_write(out, err.text, strlen(err.text)); /* of both alike */
    else
        orr_table_write(&table, &style, out);
    ok(orr_output_finish(out, &err));
}

static void same_tables(const orr_job *a, const orr_job *b)
{
    size_t n_analyses;
    const orr_analysis *analyses = orr_analyses(&n_analyses);
    for (size_t i = 0; i < n_analyses; i++) {
        orr_error err;
        orr_output *one, *two;
        size_t n, m;
        orr_arena *arena = orr_arena_new(0, 0);
        ok(orr_output_open_memory(&one, &err));
        ok(orr_output_open_memory(&two, &err));
        print_table(&analyses[i], a, arena, one);
        print_table(&analyses[i], b, arena, two);
        const void *x = orr_output_memory(one, &n), *y = orr_output_memory(two, &m);
        if (n != m || memcmp(x, y, n) != 0)
            fail_msg("%s: the table %s is another", at_hand, analyses[i].name);
        orr_output_close(one);
        orr_output_close(two);
        orr_arena_free(arena);
    }
}

/* The replay, and one with the hosts twice as fast and the kernels half as long. */
static int64_t predicted_ns(const orr_job *job, bool changed)
{
    static const orr_name_factor half = {"", 0.5};
    orr_error err;
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_ensemble *ensemble;
    orr_sim_options options;
    orr_simulation simulation;
    orr_whatif what;
    orr_whatif_report report;
    orr_whatif_init(&what);
    orr_sim_options_init(&options);
    if (changed) {
        what.scales = &half;
        what.n_scales = 1;
        options.host_speed = 2;
    }
    ok(orr_ensemble_of_job(job, arena, &ensemble, &err));
    ok(orr_whatif_apply(ensemble, &what, arena, &ensemble, &report, &err));
    ok(orr_sim_latencies_measure(job->graphs, job->n_graphs, &options.constants, NULL, &err));
    ok(orr_simulate(ensemble, &options, arena, &simulation, &err));
    const int64_t ns = simulation.end_ns - simulation.begin_ns;
    orr_arena_free(arena);
    return ns;
}

static void check(const char *path)
{
    orr_error err;
    orr_read_options options;
    const orr_graph *graphs[16];
    const orr_job *job, *read_again;
    const orr_job_file *files;
    size_t n_files;
    orr_arena *arena = orr_arena_new(0, 0);
    at_hand = path;
    orr_read_options_init(&options);
    options.tolerant = true;
    ok(orr_job_read(&path, 1, &options, arena, &job, &files, &n_files, &err));
    assert_true(job->n_graphs <= sizeof graphs / sizeof *graphs);
    for (uint32_t i = 0; i < job->n_graphs; i++) {
        graphs[i] = again(job->graphs[i]);
        same_graph(job->graphs[i], graphs[i]);
    }
    ok(orr_job_build(graphs, job->n_graphs, &read_again, &err));
    same_tables(job, read_again);
    for (int changed = 0; changed < 2; changed++)
        assert_int_equal(predicted_ns(job, changed), predicted_ns(read_again, changed));
    orr_job_free(job);
    orr_job_free(read_again);
    orr_arena_free(arena);
}

static void the_bundled_examples(void **state)
{
    (void)state;
    static const char *const names[] = {"dlrm_gloo_w2", "gpt_ddp_gloo_w2", "mlp_ddp_gloo_w2",
                                        "moe_gloo_w2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/examples/traces/%s", getenv("ORRERY_SOURCE"), names[i]);
        check(path);
    }
}

static void every_file_at_hand(void **state)
{
    (void)state;
    static const char *const folders[] = {"kineto", "dlrm_v100x8", "pytorch_et"};
    const char *shared = getenv("ORRERY_SHARED");
    size_t n_checked = 0;
    if (shared == NULL) {
        print_message("ORRERY_SHARED is not set: no recording is written and read again\n");
        skip();
    }
    for (size_t f = 0; f < sizeof folders / sizeof *folders; f++) {
        char path[1024];
        const char *paths[] = {path};
        const char *const *files;
        size_t n;
        orr_error err;
        orr_arena *arena = orr_arena_new(0, 0);
        at_hand = path;
        snprintf(path, sizeof path, "%s/data/traces/%s", shared, folders[f]);
        ok(orr_trace_find(paths, 1, arena, &files, &n, &err));
        for (size_t i = 0; i < n; i++)
            check(files[i]);
        n_checked += n;
        orr_arena_free(arena);
    }
    assert_true(n_checked > 35);
}

static void a_job_of_eight_ranks(void **state)
{
    (void)state;
    char path[1024];
    if (getenv("ORRERY_SHARED") == NULL)
        skip();
    snprintf(path, sizeof path, "%s/data/traces/dlrm_v100x8", getenv("ORRERY_SHARED"));
    check(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bundled_examples),
        cmocka_unit_test(every_file_at_hand),
        cmocka_unit_test(a_job_of_eight_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
