/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/attrs.h"

#include "graphs.h"

enum { N_KINDS = ORR_ATTR_NONE + 1, STRINGS = 100 };

static const uint64_t values[9] = {1, UINT64_C(0x0102030405060708), 0, UINT64_MAX, 5, 6, 7, 8, 9};
static const orr_str strings[9] = {1, 0, 99, 4, 5, 6, 7, 8, 9};

static orr_attr attr_of(orr_attr_kind kind, bool list, uint32_t count)
{
    const bool text = kind == ORR_ATTR_STRING || kind == ORR_ATTR_BYTES || kind == ORR_ATTR_JSON ||
                      kind == ORR_ATTR_UNKNOWN;
    return (orr_attr){.name = 3,
                      .doc = kind % 2 ? 9 : 0,
                      .kind = (uint8_t)kind,
                      .list = list,
                      .count = count,
                      .values = text ? (const void *)strings : (const void *)values};
}

static void same_attr(const orr_attr *a, const orr_attr *b)
{
    assert_int_equal(a->name, b->name);
    assert_int_equal(a->doc, b->doc);
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->list, b->list);
    assert_int_equal(a->count, b->count);
    const size_t bytes = orr_attr_value_bytes(a->kind);
    if (bytes > 0) {
        assert_int_equal((uintptr_t)b->values % bytes, 0);
        assert_memory_equal(a->values, b->values, a->count * bytes);
    }
}

static void same_list(const orr_attr_heap *heap, uint32_t list, const orr_attr *attrs, uint32_t n)
{
    orr_attr_iter iter = orr_attr_heap_list(heap, list);
    orr_attr got;
    for (uint32_t i = 0; i < n; i++) {
        assert_true(orr_attr_next(&iter, &got));
        same_attr(&attrs[i], &got);
    }
    assert_false(orr_attr_next(&iter, &got));
}

static void test_every_kind_and_list_comes_back(void **state)
{
    (void)state;
    orr_attr_heap heap = {0};
    orr_attr attrs[N_KINDS * 5];
    uint32_t n = 0;
    for (unsigned kind = 0; kind < N_KINDS; kind++) {
        attrs[n++] = attr_of((orr_attr_kind)kind, false, 1);
        for (uint32_t count = 0; count <= 9; count += 3)
            attrs[n++] = attr_of((orr_attr_kind)kind, true, count);
    }
    uint32_t all = 0, one[N_KINDS * 5];
    OK(orr_attr_heap_add(&heap, attrs, n, STRINGS, &all, NULL));
    for (uint32_t i = 0; i < n; i++)
        OK(orr_attr_heap_add(&heap, &attrs[i], 1, STRINGS, &one[i], NULL));
    orr_attr_heap_freeze(&heap);
    same_list(&heap, all, attrs, n);
    for (uint32_t i = 0; i < n; i++)
        same_list(&heap, one[i], &attrs[i], 1);
    orr_attr_heap_done(&heap);
}

static void test_equal_lists_are_stored_once(void **state)
{
    (void)state;
    orr_attr_heap heap = {0};
    const orr_attr a[2] = {attr_of(ORR_ATTR_INT64, false, 1), attr_of(ORR_ATTR_BOOL, true, 3)};
    uint32_t first = 0, again = 0, other = 0;
    OK(orr_attr_heap_add(&heap, a, 2, STRINGS, &first, NULL));
    const size_t bytes = heap.bytes.n;
    OK(orr_attr_heap_add(&heap, a, 2, STRINGS, &again, NULL));
    assert_int_equal(again, first);
    assert_int_equal(heap.bytes.n, bytes);
    OK(orr_attr_heap_add(&heap, a, 1, STRINGS, &other, NULL));
    assert_int_not_equal(other, first);
    orr_attr_heap_done(&heap);
}

static void test_empty_list_is_number_zero(void **state)
{
    (void)state;
    orr_attr_heap heap = {0};
    uint32_t list = 7;
    OK(orr_attr_heap_add(&heap, NULL, 0, STRINGS, &list, NULL));
    assert_int_equal(list, 0);
    same_list(&heap, 0, NULL, 0);
    assert_int_equal(orr_attr_heap_bytes(&heap), 0);
}

static void test_an_integer_costs_sixteen_bytes(void **state)
{
    (void)state;
    orr_attr_heap heap = {0};
    orr_attr attrs[2] = {attr_of(ORR_ATTR_INT64, false, 1), attr_of(ORR_ATTR_STRING, false, 1)};
    attrs[0].doc = attrs[1].doc = 0;
    uint32_t list;
    OK(orr_attr_heap_add(&heap, &attrs[0], 1, STRINGS, &list, NULL));
    assert_int_equal(heap.bytes.n, 8 + 16);
    OK(orr_attr_heap_add(&heap, &attrs[1], 1, STRINGS, &list, NULL));
    assert_int_equal(heap.bytes.n, 8 + 16 + 8 + 12 + 4);
    orr_attr_heap_done(&heap);
}

static void test_refuses_what_does_not_exist(void **state)
{
    (void)state;
    orr_attr_heap heap = {0};
    uint32_t list = 7;
    orr_attr attr = attr_of(ORR_ATTR_INT32, false, 2);
    assert_int_equal(orr_attr_heap_add(&heap, &attr, 1, STRINGS, &list, NULL), ORR_INVALID);
    attr = attr_of((orr_attr_kind)N_KINDS, false, 1);
    assert_int_equal(orr_attr_heap_add(&heap, &attr, 1, STRINGS, &list, NULL), ORR_INVALID);
    attr = attr_of(ORR_ATTR_STRING, true, 3);
    assert_int_equal(orr_attr_heap_add(&heap, &attr, 1, 99, &list, NULL), ORR_INVALID);
    attr = attr_of(ORR_ATTR_BOOL, false, 1);
    assert_int_equal(orr_attr_heap_add(&heap, &attr, 1, 3, &list, NULL), ORR_INVALID);
    attr = attr_of(ORR_ATTR_INT64, true, UINT32_C(1) << 30); /* never looked at: too long */
    assert_int_equal(orr_attr_heap_add(&heap, &attr, 1, STRINGS, &list, NULL), ORR_LIMIT);
    assert_int_equal(list, 7);
    assert_int_equal(heap.list.n, 0);
    orr_attr_heap_done(&heap);
}

static void test_through_a_graph(void **state)
{
    (void)state;
    orr_graph_builder *b = new_builder();
    const orr_node_id v = node(b, "v", 0, 1, ORR_NONE), w = node(b, "w", 0, 1, ORR_NONE);
    const int32_t first = 11, second = 22, third = 33;
    const orr_attr of_node[] = {
        {.name = str(b, "blocks"), .kind = ORR_ATTR_INT32, .count = 1, .values = &first},
        {.name = str(b, "grid"), .kind = ORR_ATTR_INT32, .count = 1, .values = &second},
        {.name = str(b, "blocks"), .kind = ORR_ATTR_INT32, .count = 1, .values = &second}};
    const orr_attr of_all = {
        .name = str(b, "version"), .kind = ORR_ATTR_INT32, .count = 1, .values = &third};
    OK(orr_builder_attrs(b, v, of_node, 2, NULL));
    OK(orr_builder_attrs(b, v, of_node, 3, NULL)); /* instead of those before */
    OK(orr_builder_attrs(b, ORR_NONE, &of_all, 1, NULL));
    const orr_graph *g = built(b);
    orr_attr got;
    assert_true(orr_graph_find_attr(g, v, "blocks", &got));
    assert_int_equal(*(const int32_t *)got.values, 11);
    assert_true(orr_graph_find_attr(g, v, "grid", &got));
    assert_int_equal(*(const int32_t *)got.values, 22);
    assert_false(orr_graph_find_attr(g, v, "version", &got));
    assert_false(orr_graph_find_attr(g, v, "never said", &got));
    assert_false(orr_graph_find_attr(g, w, "blocks", &got));
    assert_true(orr_graph_find_attr(g, ORR_NONE, "version", &got));
    assert_int_equal(*(const int32_t *)got.values, 33);
    orr_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind_and_list_comes_back),
        cmocka_unit_test(test_equal_lists_are_stored_once),
        cmocka_unit_test(test_empty_list_is_number_zero),
        cmocka_unit_test(test_an_integer_costs_sixteen_bytes),
        cmocka_unit_test(test_refuses_what_does_not_exist),
        cmocka_unit_test(test_through_a_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
