/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/lifetime.h"

#include "graphs.h"

/* Tensor of `elements` floats in a storage. */
static orr_tensor_id tensor(orr_graph_builder *b, int64_t storage, int64_t offset_bytes,
                            int64_t elements, const char *device)
{
    orr_tensor_id id = 0;
    const orr_tensor t = {.storage = storage,
                          .offset_bytes = offset_bytes,
                          .elements = elements,
                          .element_bytes = 4,
                          .device = str(b, device)};
    OK(orr_builder_tensor(b, &t, &id, NULL));
    return id;
}

static void op(orr_graph_builder *b, const orr_tensor_id *in, uint32_t n_in,
               const orr_tensor_id *out, uint32_t n_out)
{
    OK(orr_builder_io(b, node(b, "op", 0, 0, ORR_NONE), in, n_in, out, n_out, NULL));
}

static void test_lives_and_peaks(void **state)
{
    (void)state;
    orr_graph_builder *b = new_builder();
    const orr_tensor_id weight = tensor(b, 1, 0, 10, "cuda:0"), x = tensor(b, 2, 0, 5, "cuda:0");
    const orr_tensor_id y = tensor(b, 3, 0, 100, "cuda:0"), view = tensor(b, 3, 396, 2, "cuda:0");
    const orr_tensor_id host = tensor(b, 9, 0, 7, "cpu"), loss = tensor(b, 4, 0, 1, "cuda:0");
    tensor(b, 77, 0, 1000000, "cuda:0");                /* no node names it */
    op(b, &host, 1, &x, 1);                             /* 0 */
    op(b, (orr_tensor_id[]){x, weight}, 2, &y, 1);      /* 1: weight, x, y: 40 + 20 + 404 */
    op(b, &view, 1, &loss, 1);                          /* 2: weight, y, loss */
    op(b, (orr_tensor_id[]){weight, loss}, 2, NULL, 0); /* 3 */
    const orr_graph *g = built(b);
    orr_arena *arena = orr_arena_new(0, 0);
    orr_lifetimes lives;
    OK(orr_graph_lifetimes(g, arena, &lives, NULL));

    static const struct {
        int64_t id;
        uint64_t bytes;
        orr_node_id first, last;
        bool produced;
    } want[5] = {
        {2, 20, 0, 1, true},  {9, 28, 0, 0, false}, {1, 40, 1, 3, false},
        {3, 404, 1, 2, true}, {4, 4, 2, 3, true},
    };
    assert_int_equal(lives.n_storages, 5);
    for (size_t i = 0; i < 5; i++) {
        const orr_storage *got = &lives.storages[i];
        assert_int_equal(got->id, want[i].id);
        assert_int_equal(got->bytes, want[i].bytes);
        assert_int_equal(got->first, want[i].first);
        assert_int_equal(got->last, want[i].last);
        assert_int_equal(got->produced, want[i].produced);
    }
    assert_int_equal(lives.n_peaks, 2);
    assert_string_equal(orr_graph_str(g, lives.peaks[0].device), "cuda:0");
    assert_int_equal(lives.peaks[0].bytes, 464);
    assert_int_equal(lives.peaks[0].node, 1);
    assert_string_equal(orr_graph_str(g, lives.peaks[1].device), "cpu");
    assert_int_equal(lives.peaks[1].bytes, 28);
    orr_arena_free(arena);
    orr_graph_free(g);
}

static void test_memory_is_free_for_the_next_node(void **state)
{
    (void)state;
    orr_graph_builder *b = new_builder();
    for (int64_t i = 0; i < 4; i++) {
        const orr_tensor_id t = tensor(b, i, 0, 25, "cuda:0");
        op(b, NULL, 0, &t, 1);
    }
    const orr_graph *g = built(b);
    orr_arena *arena = orr_arena_new(0, 0);
    orr_lifetimes lives;
    OK(orr_graph_lifetimes(g, arena, &lives, NULL));
    assert_int_equal(lives.peaks[0].bytes, 100);
    assert_int_equal(lives.peaks[0].node, 0);
    orr_arena_free(arena);
    orr_graph_free(g);
}

static void test_graph_without_tensors(void **state)
{
    (void)state;
    orr_graph_builder *b = new_builder();
    node(b, "x", 0, 0, ORR_NONE);
    const orr_graph *g = built(b);
    orr_arena *arena = orr_arena_new(0, 0);
    orr_lifetimes lives;
    OK(orr_graph_lifetimes(g, arena, &lives, NULL));
    assert_int_equal(lives.n_storages, 0);
    assert_int_equal(lives.n_peaks, 0);
    orr_arena_free(arena);
    orr_graph_free(g);
}

static void test_impossible_tensors(void **state)
{
    (void)state;
    static const int64_t cases[3][2] = {{-4, 1}, {0, -1}, {8, INT64_MAX / 4}};
    for (size_t i = 0; i < 3; i++) {
        orr_graph_builder *b = new_builder();
        tensor(b, 1, cases[i][0], cases[i][1], "cpu");
        const orr_graph *g = built(b);
        orr_arena *arena = orr_arena_new(0, 0);
        orr_lifetimes lives;
        orr_error err;
        assert_int_equal(orr_graph_lifetimes(g, arena, &lives, &err), ORR_INVALID);
        assert_non_null(strstr(err.text, "tensor 0"));
        orr_arena_free(arena);
        orr_graph_free(g);
    }
}

static void test_failed_allocations(void **state)
{
    (void)state;
    orr_graph_builder *b = new_builder();
    for (int64_t i = 0; i < 50; i++) {
        const orr_tensor_id t = tensor(b, i, 0, 25, "cuda:0");
        op(b, NULL, 0, &t, 1);
    }
    const orr_graph *g = built(b);
    orr_arena *arena = orr_arena_new(1024, 0);
    orr_status status = ORR_NO_MEMORY;
    for (uint64_t nth = 1; status != ORR_OK; nth++) {
        orr_lifetimes lives;
        orr_alloc_fail_from(nth);
        status = orr_graph_lifetimes(g, arena, &lives, NULL);
        orr_alloc_fail_from(0);
        assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
    }
    orr_arena_free(arena);
    orr_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lives_and_peaks),
        cmocka_unit_test(test_memory_is_free_for_the_next_node),
        cmocka_unit_test(test_graph_without_tensors),
        cmocka_unit_test(test_impossible_tensors),
        cmocka_unit_test(test_failed_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
