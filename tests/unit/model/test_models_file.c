/* SPDX-License-Identifier: Apache-2.0 */
#include "model_text.h"

#define SMALL                                                                                      \
    "models:\n  a:\n    source: \"a paper\"\n    layers: 2\n    hidden: 64\n    ffn: 256\n"        \
    "    heads: 4\n    vocab: 100\n    context: 128\n"

static void what_is_not_said_follows(void **state)
{
    (void)state;
    const orr_model *m = model_of(SMALL);
    assert_string_equal(m->name, "a");
    assert_string_equal(m->title, "a");
    assert_string_equal(m->source, "a paper");
    assert_int_equal(m->kind, ORR_MODEL_TRANSFORMER);
    assert_int_equal(m->head_dim, 16);
    assert_int_equal(m->kv_heads, 4);
    assert_int_equal(m->moe.every, 1);
    assert_int_equal(m->position, ORR_POSITION_ROTARY);
    assert_int_equal(m->positions, 0);
    assert_true(m->final_norm);
    assert_int_equal(m->n_notes, 0);
    assert_int_equal(model_of(SMALL "    position: learned\n")->positions, 128);
}

static void defaults_come_first(void **state)
{
    (void)state;
    const orr_model *m =
        model_of("sources: {p: \"a paper\", c: \"a card\"}\nsource: p\n"
                 "defaults:\n  family: f\n  hidden: 64\n  heads: 4\n  ffn: 256\n  vocab: 100\n"
                 "  context: 128\n  moe: {experts: 8, top_k: 2, ffn: 32}\n"
                 "  notes: {tokens: [\"1T\", c], batch: [\"4M\"]}\n"
                 "models:\n  a:\n    layers: 2\n    heads: 8\n    moe: {top_k: 1, every: 2}\n"
                 "    notes: {tokens: [\"2T\", \"by word of mouth\"], hours: [\"7\", c]}\n");
    assert_string_equal(m->family, "f");
    assert_int_equal(m->heads, 8);
    assert_int_equal(m->moe.experts, 8);
    assert_int_equal(m->moe.top_k, 1);
    assert_int_equal(m->moe.every, 2);
    assert_int_equal(m->n_notes, 3);
    assert_string_equal(m->notes[0].what, "tokens");
    assert_string_equal(m->notes[0].value, "2T");
    assert_string_equal(m->notes[0].source, "by word of mouth");
    assert_string_equal(m->notes[1].what, "hours");
    assert_string_equal(m->notes[1].source, "a card");
    assert_string_equal(m->notes[2].what, "batch");
    assert_string_equal(m->notes[2].source, "a paper");
}

/* Heads of keys and values are as many as the new model's heads, not as those of the old one. */
static void a_model_like_another_follows_from_its_own_numbers(void **state)
{
    (void)state;
    const orr_model *m =
        model_of(SMALL "    title: An A\n    parameters: 7\n    notes: {x: [\"y\"]}\n"
                       "  b:\n    like: A\n    source: \"another paper\"\n    heads: 8\n");
    assert_string_equal(m->name, "b");
    assert_string_equal(m->title, "b");
    assert_string_equal(m->source, "another paper");
    assert_int_equal(m->hidden, 64);
    assert_int_equal(m->heads, 8);
    assert_int_equal(m->kv_heads, 8);
    assert_int_equal(m->head_dim, 8);
    assert_int_equal(m->n_notes, 0);
    assert_int_equal(m->published_parameters, 0);
    assert_refused(SMALL "  b: {like: c, source: \"s s\"}\n",
                   "t.yaml:10:13: 'c' is no model before this one; did you mean 'a'?");
}

static void defaults_say_nothing_of_what_is_not_published(void **state)
{
    (void)state;
    const orr_model *m = model_of("defaults: {family: f, layers: 2, notes: {x: [\"y\", \"z\"]}}\n"
                                  "models:\n  a: {incomplete: true, source: \"a paper\"}\n");
    assert_true(m->incomplete);
    assert_int_equal(m->layers, 0);
    assert_int_equal(m->n_notes, 0);
    assert_string_equal(m->family, "f");
}

static void a_slip_is_found_where_it_is(void **state)
{
    (void)state;
    assert_refused("modles: {}\n",
                   "t.yaml:1:1: 'modles' is no section of a file of models; did you mean "
                   "'models'?");
    assert_refused("models:\n  a: {lyers: 2}\n",
                   "t.yaml:2:7: model 'a' has no 'lyers'; did you mean 'layers'?");
    assert_refused("models:\n  a: {moe: {expert: 2}}\n",
                   "t.yaml:2:13: moe has no 'expert'; did you mean 'experts'?");
    assert_refused("models:\n  a: {layers: two}\n", "t.yaml:2:15: 'two' is not a whole number");
    assert_refused("models:\n  a: {layers: -1}\n",
                   "t.yaml:2:15: layers: -1 is not from 0 to 16384");
    assert_refused("models:\n  a: {norm: rsm}\n",
                   "t.yaml:2:13: 'rsm' is no norm; did you mean 'rms'?");
    assert_refused("models:\n  a: {tied: yes}\n", "t.yaml:2:13: 'yes' is neither true nor false");
    assert_refused("models:\n  a: {rope_theta: nan}\n", "t.yaml:2:19: 'nan' is not a number");
    assert_refused("models:\n  a: 7\n", "t.yaml:2:6: model 'a' is a map of what is known about it");
    assert_refused("models: 7\n", "t.yaml:1:9: models: a map is needed here");
    assert_refused("models:\n  a: {layers: 2}\n", "t.yaml:2:6: model 'a' does not say its source");
    assert_refused("sources: {p: \"q\"}\nmodels:\n  a: {source: r}\n",
                   "t.yaml:3:15: 'r' is no source of this file; did you mean 'p'?");
    assert_refused("models:\n  a: {source: \"a b\", notes: {x: y}}\n",
                   "t.yaml:2:33: a note is its text and its source: x: [\"...\", source]");
    assert_refused("models:\n  a: {notes: {x: [y]}}\n", "t.yaml:2:18: the note 'x' has no source");
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    assert_refused(SMALL "    kv_heads: 3\n",
                   "t.yaml:2:3: model 'a': 4 heads cannot share 3 heads of keys and values evenly");
    assert_refused("models:\n  a: {source: \"a b\", layers: 2, hidden: 64, heads: 5, ffn: 1, "
                   "vocab: 1, context: 1}\n",
                   "t.yaml:2:3: model 'a': hidden 64 does not divide into 5 heads; say head_dim");
    assert_refused("models:\n  a: {source: \"a b\", hidden: 64}\n",
                   "t.yaml:2:3: model 'a' does not say how many layers it has");
    assert_refused(SMALL "    moe: {experts: 4, top_k: 5, ffn: 1}\n",
                   "t.yaml:2:3: model 'a': top_k 5 is not from 1 to the 4 experts");
    assert_refused(SMALL "    moe: {experts: 4, top_k: 2, ffn: 1, groups: 3}\n",
                   "t.yaml:2:3: model 'a': 4 experts do not divide into 3 groups");
    assert_refused(SMALL "    cross_attention: {first: 0, every: 1}\n",
                   "t.yaml:2:3: model 'a' has cross_attention, and no vision encoder to attend to");
    assert_refused(SMALL
                   "    cross_attention: {first: 0, every: 1}\n    chunk: 8\n    vision: "
                   "{layers: 1, hidden: 2, heads: 1, ffn: 2, output: 2, image: 2, patch: 1}\n",
                   "t.yaml:2:3: model 'a': chunks and cross_attention do not go together");
    assert_refused(SMALL "    global_every: 2\n",
                   "t.yaml:2:3: model 'a': global_every says which layers see all, and chunk not "
                   "what the others see");
}

static void numbers_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    assert_refused("models:\n  a: {source: \"a b\", layers: 16384, hidden: 16777216, heads: 1, "
                   "vocab: 1, context: 1, moe: {experts: 16777216, top_k: 1, ffn: 16777216}}\n",
                   "t.yaml:2:3: model 'a' has more parameters than 63 bits count");
}

static void recommendation_and_convolution(void **state)
{
    (void)state;
    const orr_model *m = model_of(
        "models:\n  a:\n    source: \"a b\"\n    kind: dlrm\n    dlrm: {dim: 4, dense_features: 2, "
        "rows: [10, 20], bottom: [8, 4], top: [1]}\n");
    assert_int_equal(m->dlrm.n_tables, 2);
    assert_int_equal(m->dlrm.tables[1].rows, 20);
    assert_true(m->dlrm.tables[1].pooling == 1);
    assert_int_equal(m->dlrm.tables[1].columns, 4);
    assert_int_equal(m->dlrm.n_bottom, 2);
    assert_refused("models:\n  a: {source: \"a b\", kind: dlrm, dlrm: {dim: 4, dense_features: 2, "
                   "rows: [10, 20], pooling: [1], bottom: [8, 4], top: [1]}}\n",
                   "t.yaml:2:93: pooling has 1 numbers, rows has 2");
    assert_refused("models:\n  a: {source: \"a b\", kind: dlrm, dlrm: {dim: 4, dense_features: 2, "
                   "rows: [10, 20], bottom: [8, 5], top: [1]}}\n",
                   "t.yaml:2:3: model 'a': the bottom layers end 5 wide, and dim is 4");
    assert_refused("models:\n  a: {source: \"a b\", kind: convolutional}\n",
                   "t.yaml:2:3: model 'a': resnet needs blocks, width, stem, classes, image and "
                   "expansion");
    assert_refused("models:\n  a: {resnet: {blocks: [1, 2, 3, 4, 5]}}\n",
                   "t.yaml:2:24: blocks: a list of 1 to 4 numbers is needed here");
}

#define GROUPS(before, groups)                                                                     \
    "models:\n  a: {source: \"a b\", kind: dlrm, dlrm: {dim: 4, dense_features: 2, bottom: [4], "  \
    "top: [1], " before "tables: [" groups "]}}\n"

static void groups_of_tables(void **state)
{
    (void)state;
    const orr_model *m = model_of(
        GROUPS("cross_layers: 1, cross_rank: 2, ",
               "{rows: 10, columns: 64, pooling: 20.5, length: geometric, format: fp16, optimizer: "
               "adagrad, count: 3}, {rows: 7}"));
    assert_int_equal(m->dlrm.n_tables, 4);
    const orr_embedding *t = &m->dlrm.tables[2], *last = &m->dlrm.tables[3];
    assert_string_equal(t->name, "t2");
    assert_true(t->rows == 10 && t->columns == 64 && t->pooling == 20.5);
    assert_int_equal(t->length, ORR_BAG_LENGTH_GEOMETRIC);
    assert_int_equal(t->format, ORR_ROW_FORMAT_FP16);
    assert_int_equal(t->optimizer, ORR_ROW_OPTIMIZER_ADAGRAD);
    assert_true(last->rows == 7 && last->columns == 4 && last->pooling == 1);
    assert_int_equal(last->format, ORR_ROW_FORMAT_FP32);
    m = model_of(GROUPS("", "{rows: 10, count: 4096}"));
    assert_int_equal(m->dlrm.n_tables, 4096);
    assert_string_equal(m->dlrm.tables[4095].name, "t4095");
    assert_refused(GROUPS("", "{rows: 10, count: 4097}"),
                   "t.yaml:2:100: count: 4097 is not from 1 to 4096");
    assert_refused(GROUPS("", "{rows: 10, count: 4096}, {rows: 1}"),
                   "t.yaml:2:125: more than 4096 tables");
    assert_refused(GROUPS("", "{columns: 4}"), "t.yaml:2:100: a group of tables needs rows");
    assert_refused(GROUPS("", "{rows: 10, columns: 5}"),
                   "t.yaml:2:3: model 'a': table t0 has 5 columns, and dot products need 4");
    assert_refused(GROUPS("", "{rows: 10, format: fp61}"),
                   "t.yaml:2:119: format: 'fp61' is none; did you mean 'fp16'?");
    assert_refused(GROUPS("", "{rows: 10, pooling: 2.5}"),
                   "t.yaml:2:100: pooling 2.5 of bags of fixed length is not whole; length: "
                   "geometric or uniform has such a mean");
    assert_refused(GROUPS("", "{rows: 10, columms: 5}"),
                   "t.yaml:2:111: 'columms' is nothing that a group of tables has: rows, columns, "
                   "pooling, length, format, optimizer, count");
    assert_refused(GROUPS("rows: [3], ", "{rows: 10}"),
                   "t.yaml:2:97: tables are given as groups, or as lists of rows and pooling");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_said_follows),
        cmocka_unit_test(defaults_come_first),
        cmocka_unit_test(a_model_like_another_follows_from_its_own_numbers),
        cmocka_unit_test(defaults_say_nothing_of_what_is_not_published),
        cmocka_unit_test(a_slip_is_found_where_it_is),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(numbers_that_do_not_fit_are_refused),
        cmocka_unit_test(recommendation_and_convolution),
        cmocka_unit_test(groups_of_tables),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
