/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <orrery/replay.h>

#include "recorded.h"

/* linear(8 x 16, 32 x 16) around addmm, a view, an operator that nobody knows (1 ms), relu in
 * place. */
static const orr_graph *small(void)
{
    recorded r;
    recorded_begin(&r);
    const orr_node_id linear = recorded_add(
        &r, &(recorded_call){
                .name = "aten::linear",
                .parent = ORR_NONE,
                .ns = 50000,
                .in = {"[[1,10,0,128,4,\"cpu\"],[2,11,0,512,4,\"cpu\"],\"<None>\"]",
                       "[[8,16],[32,16],[]]", "[\"Tensor(float)\",\"Tensor(float)\",\"None\"]"},
                .out = {"[[3,12,0,256,4,\"cpu\"]]", "[[8,32]]", "[\"Tensor(float)\"]"}});
    recorded_add(&r, &(recorded_call){.name = "aten::addmm", .parent = linear, .ns = 40000});
    recorded_add(&r, &(recorded_call){.name = "aten::view", .parent = ORR_NONE, .ns = 1000});
    recorded_add(&r, &(recorded_call){.name = "mine::mystery", .parent = ORR_NONE, .ns = 1000000});
    recorded_add(&r, &(recorded_call){
                         .name = "aten::relu_",
                         .parent = ORR_NONE,
                         .ns = 5000,
                         .in = {"[[3,12,0,256,4,\"cpu\"]]", "[[8,32]]", "[\"Tensor(float)\"]"}});
    return recorded_end(&r);
}

typedef struct bench {
    orr_arena *arena;
    const orr_graph *graph;
    orr_replay_options options;
    orr_replay_result result;
    orr_error err;
} bench;

static void begin(bench *b, const orr_graph *graph)
{
    *b = (bench){.arena = orr_arena_new(0, 0), .graph = graph};
    assert_non_null(b->arena);
    b->options =
        (orr_replay_options){.graphs = &b->graph, .n_graphs = 1, .iterations = 2, .threads = 2};
}
static orr_status run(bench *b)
{
    return orr_replay(&b->options, b->arena, &b->result, &b->err);
}
static void end(bench *b)
{
    orr_graph_free(b->graph);
    orr_arena_free(b->arena);
}

static const orr_replay_op *class_named(const bench *b, const char *name)
{
    for (uint32_t i = 0; i < b->result.n_ops; i++)
        if (strcmp(b->result.ops[i].name, name) == 0)
            return &b->result.ops[i];
    return NULL;
}

static void outermost_operators_run(void **state)
{
    bench b;
    (void)state;
    begin(&b, small());
    if (run(&b) != ORR_OK)
        fail_msg("%s", b.err.text);
    assert_int_equal(b.result.operators, 4);
    assert_int_equal(b.result.covered, 3);
    assert_int_equal(b.result.operator_ns, 1056000);
    assert_int_equal(b.result.covered_ns, 56000);
    assert_string_equal(class_named(&b, "aten::linear")->how, "kernel");
    assert_null(class_named(&b, "aten::addmm"));
    assert_string_equal(class_named(&b, "aten::view")->how, "view");
    assert_string_equal(class_named(&b, "aten::relu_")->how, "kernel");
    assert_true(b.result.flops >= 2.0 * 8 * 16 * 32);
    end(&b);
}

/* What is not known takes as long as it took. */
static void emulated_operators_take_their_time(void **state)
{
    bench b;
    (void)state;
    begin(&b, small());
    assert_int_equal(run(&b), ORR_OK);
    const orr_replay_op *op = class_named(&b, "mine::mystery");
    assert_string_equal(op->how, "emulated");
    assert_string_equal(op->why, "no kernel");
    assert_true(op->replayed_ns >= 1000000);
    assert_true(b.result.replayed_ns >= 1000000);
    end(&b);
}

static void strict_refuses_them(void **state)
{
    bench b;
    (void)state;
    begin(&b, small());
    b.options.strict = true;
    assert_int_equal(run(&b), ORR_UNSUPPORTED);
    assert_non_null(strstr(b.err.text, "mine::mystery"));
    end(&b);
}

static void parts_ranges_and_skips(void **state)
{
    bench b;
    (void)state;
    begin(&b, small());
    b.options.skip = "mine::*,aten::view";
    assert_int_equal(run(&b), ORR_OK);
    assert_int_equal(b.result.operators, 2);
    assert_int_equal(b.result.covered, 2);
    b.options.skip = NULL;
    b.options.from = "aten::relu_";
    assert_int_equal(run(&b), ORR_OK);
    assert_int_equal(b.result.operators, 1);
    b.options.from = NULL;
    b.options.to = "#0";
    assert_int_equal(run(&b), ORR_OK);
    assert_int_equal(b.result.operators, 1);
    b.options.to = NULL;
    b.options.subtree = "aten::linear";
    assert_int_equal(run(&b), ORR_OK);
    assert_int_equal(b.result.operators, 1);
    b.options.subtree = "nobody";
    assert_int_equal(run(&b), ORR_INVALID);
    assert_non_null(strstr(b.err.text, "nobody"));
    b.options.subtree = NULL;
    b.options.part = ORR_REPLAY_COMM;
    assert_int_equal(run(&b), ORR_INVALID); /* nothing meets anyone */
    end(&b);
}

/* Shapes that contradict one another are no shapes. */
static void nonsense_is_emulated(void **state)
{
    bench b;
    recorded r;
    (void)state;
    recorded_begin(&r);
    recorded_add(
        &r, &(recorded_call){.name = "aten::mm",
                             .parent = ORR_NONE,
                             .ns = 1000,
                             .in = {"[[1,10,0,6,4,\"cpu\"],[2,11,0,20,4,\"cpu\"]]", "[[2,3],[4,5]]",
                                    "[\"Tensor(float)\",\"Tensor(float)\"]"}});
    recorded_add(
        &r, &(recorded_call){.name = "aten::mul",
                             .parent = ORR_NONE,
                             .ns = 1000,
                             .in = {"[[1,", "[[99999999999999999999999],,", "[\"Tensor(float)\""}});
    begin(&b, recorded_end(&r));
    if (run(&b) != ORR_OK)
        fail_msg("%s", b.err.text);
    assert_int_equal(b.result.covered, 0);
    end(&b);
}

static void an_extract_replays_as_the_whole(void **state)
{
    bench b, again;
    const orr_graph *extract;
    (void)state;
    begin(&b, small());
    assert_int_equal(run(&b), ORR_OK);
    assert_int_equal(orr_replay_extract(&b.options, true, &extract, &b.err), ORR_OK);
    assert_int_equal(orr_graph_find_str(extract, "mine::mystery"), ORR_NONE);
    begin(&again, extract);
    assert_int_equal(run(&again), ORR_OK);
    assert_int_equal(again.result.operators, b.result.operators);
    assert_int_equal(again.result.covered, b.result.covered);
    assert_int_equal(again.result.operator_ns, b.result.operator_ns);
    assert_true(again.result.flops == b.result.flops && again.result.bytes == b.result.bytes);
    end(&again);
    end(&b);
}

/* Two ranks meet in an all-reduce. */
static const orr_graph *meeting(uint32_t rank)
{
    recorded r;
    recorded_begin(&r);
    orr_builder_recording(r.b, &(orr_recording){.rank = rank, .world_size = 2});
    recorded_add(
        &r, &(recorded_call){.name = "c10d::allreduce_",
                             .parent = ORR_NONE,
                             .ns = 1000,
                             .in = {"[[[1,10,0,1000,4,\"cpu\"]],\"<Object>\"]", "[[[1000]],[]]",
                                    "[\"GenericList[Tensor(float)]\",\"Object\"]"}});
    return recorded_end(&r);
}

static void ranks_meet(void **state)
{
    bench b;
    (void)state;
    const orr_graph *const graphs[] = {meeting(0), meeting(1)};
    begin(&b, graphs[0]);
    b.options.graphs = graphs;
    b.options.n_graphs = 2;
    if (run(&b) != ORR_OK)
        fail_msg("%s", b.err.text);
    assert_string_equal(class_named(&b, "c10d::allreduce_")->how, "collective");
    b.options.n_graphs = 1; /* alone it cannot */
    assert_int_equal(run(&b), ORR_OK);
    assert_string_equal(class_named(&b, "c10d::allreduce_")->how, "emulated");
    orr_graph_free(graphs[1]);
    end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outermost_operators_run),
        cmocka_unit_test(emulated_operators_take_their_time),
        cmocka_unit_test(strict_refuses_them),
        cmocka_unit_test(parts_ranges_and_skips),
        cmocka_unit_test(nonsense_is_emulated),
        cmocka_unit_test(an_extract_replays_as_the_whole),
        cmocka_unit_test(ranks_meet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
