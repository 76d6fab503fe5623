/* SPDX-License-Identifier: Apache-2.0 */
#include "trace_data.h"

#include "chakra_et.pb-c.h"
#include "io/protobuf/wire.h"

/* Our Chakra files against those of another implementation of protobuf: what we write it decodes to
 * the same, and encodes again to the same bytes; what it encodes we read. */

static Et__Node *next_node(orr_proto *file)
{
    uint64_t len;
    if (!orr_proto_varint(file, &len))
        return NULL;
    Et__Node *node = et__node__unpack(NULL, (size_t)len, file->at);
    assert_non_null(node);

    uint8_t *again = malloc(len + 1);
    assert_non_null(again);
    assert_int_equal(et__node__get_packed_size(node), len);
    assert_int_equal(et__node__pack(node, again), len);
    assert_memory_equal(again, file->at, len);
    free(again);
    file->at += len;
    return node;
}

static Et__GlobalMetadata *read_metadata(orr_proto *file)
{
    uint64_t len;
    assert_true(orr_proto_varint(file, &len));
    Et__GlobalMetadata *metadata = et__global_metadata__unpack(NULL, (size_t)len, file->at);
    assert_non_null(metadata);
    file->at += len;
    return metadata;
}

static const Et__AttributeProto *attr_of(const Et__Node *node, const char *name)
{
    for (size_t i = 0; i < node->n_attr; i++)
        if (strcmp(node->attr[i]->name, name) == 0)
            return node->attr[i];
    return NULL;
}

/* The file as the oracle and as our own reader have it. */
static void compare(const test_bytes *bytes)
{
    const orr_graph *g = read_lowered(bytes->at, bytes->n);
    orr_proto file = orr_proto_of(bytes->at, bytes->n);
    Et__GlobalMetadata *metadata = read_metadata(&file);
    assert_string_equal(metadata->version, "1.0.0");
    et__global_metadata__free_unpacked(metadata, NULL);
    orr_node_id v = 0;
    for (Et__Node *node; (node = next_node(&file)) != NULL; v++) {
        uint32_t data = 0;
        assert_true(v < g->n_nodes);
        assert_int_equal(node->id, g->source_id[v]);
        assert_string_equal(node->name, name_of(g, v));
        for (uint32_t d = g->dep_first[v]; d < g->dep_first[v + 1]; d++)
            if (g->dep_kind[d] == ORR_DEP_DATA)
                assert_int_equal(node->data_deps[data++], g->source_id[g->dep[d]]);
        assert_int_equal(node->n_data_deps, data);
        const Et__AttributeProto *cpu = attr_of(node, "is_cpu_op");
        assert_non_null(cpu);
        assert_int_equal(cpu->value_case, ET__ATTRIBUTE_PROTO__VALUE_BOOL_VAL);
        const Et__AttributeProto *exact = attr_of(node, "duration_ns");
        if (exact != NULL) {
            assert_int_equal(exact->value_case, ET__ATTRIBUTE_PROTO__VALUE_INT64_VAL);
            assert_int_equal(exact->int64_val, g->duration_ns[v]);
        }
        if (node->type == 7) { /* COMM_COLL */
            const Et__AttributeProto *type = attr_of(node, "comm_type");
            const Et__AttributeProto *size = attr_of(node, "comm_size");
            const Et__AttributeProto *group = attr_of(node, "pg_name");
            assert_non_null(type);
            assert_int_equal(type->value_case, ET__ATTRIBUTE_PROTO__VALUE_INT64_VAL);
            assert_true(size == NULL || size->value_case == ET__ATTRIBUTE_PROTO__VALUE_INT64_VAL);
            assert_true(group == NULL ||
                        group->value_case == ET__ATTRIBUTE_PROTO__VALUE_STRING_VAL);
        }
        et__node__free_unpacked(node, NULL);
    }
    assert_int_equal(v, g->n_nodes);
    orr_graph_free(g);
}

static void decodes_what_we_write(void **state)
{
    (void)state;
    static const char *const names[] = {
        "kineto/nsfw-vit_h100.json.gz", "kineto/w128_rank0_noflows.json.gz",
        "kineto/mi250_minitoy.json.gz", "pytorch_et/simple_add_a100.1.0.1.json.gz",
        "dlrm_v100x8/rank4.host.json.gz"};
    for (size_t i = 0; i <= sizeof names / sizeof *names; i++) {
        const orr_graph *g = i == 0 ? linked_dlrm(4, NULL) : read_data(names[i - 1], NULL);
        const test_bytes bytes = chakra_bytes(g);
        compare(&bytes);
        free(bytes.at);
        orr_graph_free(g);
    }
}

static void decodes_every_kind_as_we_do(void **state)
{
    (void)state;
    const test_bytes bytes = slurp(data_path("chakra/generator/one_metadata_node_all_types.0.et"));
    const orr_graph *g = read_bytes(bytes.at, bytes.n, NULL);
    orr_proto file = orr_proto_of(bytes.at, bytes.n);
    et__global_metadata__free_unpacked(read_metadata(&file), NULL);
    Et__Node *node = next_node(&file);
    orr_attr_iter it = orr_graph_attrs(g, 0);
    orr_attr a;
    for (size_t i = 0; i < node->n_attr; i++) {
        const Et__AttributeProto *b = node->attr[i];
        assert_true(orr_attr_next(&it, &a));
        assert_string_equal(orr_graph_str(g, a.name), b->name);
        assert_string_equal(orr_graph_str(g, a.doc), b->doc_string);
        assert_int_equal(b->value_case, 3 + 2 * a.kind + a.list);
        const void *value = a.values;
        switch (b->value_case) {
        case ET__ATTRIBUTE_PROTO__VALUE_DOUBLE_VAL:
            assert_memory_equal(value, &b->double_val, 8);
            break;
        case ET__ATTRIBUTE_PROTO__VALUE_FLOAT_LIST:
            assert_int_equal(a.count, b->float_list->n_values);
            assert_memory_equal(value, b->float_list->values, a.count * 4);
            break;
        case ET__ATTRIBUTE_PROTO__VALUE_SINT32_LIST:
            assert_memory_equal(value, b->sint32_list->values, a.count * 4);
            break;
        case ET__ATTRIBUTE_PROTO__VALUE_SFIXED64_LIST:
            assert_memory_equal(value, b->sfixed64_list->values, a.count * 8);
            break;
        case ET__ATTRIBUTE_PROTO__VALUE_STRING_LIST:
            for (uint32_t k = 0; k < a.count; k++)
                assert_string_equal(orr_graph_str(g, ((const orr_str *)value)[k]),
                                    b->string_list->values[k]);
            break;
        default:
            break;
        }
    }
    assert_false(orr_attr_next(&it, &a));
    et__node__free_unpacked(node, NULL);
    orr_graph_free(g);
    free(bytes.at);
}

static size_t put(uint8_t *to, const ProtobufCMessage *message)
{
    orr_proto_buffer length = {0};
    const size_t n = protobuf_c_message_get_packed_size(message);
    orr_proto_put_varint(&length, n);
    memcpy(to, length.at, length.n);
    const size_t head = length.n;
    orr_proto_buffer_done(&length);
    assert_int_equal(protobuf_c_message_pack(message, to + head), n);
    return head + n;
}

static void reads_what_the_oracle_encodes(void **state)
{
    (void)state;
    Et__GlobalMetadata metadata = ET__GLOBAL_METADATA__INIT;
    Et__Node node = ET__NODE__INIT;
    Et__AttributeProto number = ET__ATTRIBUTE_PROTO__INIT, list = ET__ATTRIBUTE_PROTO__INIT;
    Et__Sint64List values = ET__SINT64_LIST__INIT;
    Et__IOInfo inputs = ET__IOINFO__INIT;
    int64_t numbers[] = {-1, INT64_MIN, INT64_MAX, 0};
    Et__AttributeProto *attrs[] = {&number, &list};
    char version[] = "oracle", least[] = "least", list_name[] = "list", shapes[] = "[[4]]";
    char node_name[] = "n";
    uint8_t bytes[1024];
    metadata.version = version;
    number.name = least;
    number.value_case = ET__ATTRIBUTE_PROTO__VALUE_INT32_VAL;
    number.int32_val = INT32_MIN;
    values.n_values = 4;
    values.values = numbers;
    list.name = list_name;
    list.value_case = ET__ATTRIBUTE_PROTO__VALUE_SINT64_LIST;
    list.sint64_list = &values;
    inputs.shapes = shapes;
    node.id = UINT64_MAX;
    node.name = node_name;
    node.type = 4;
    node.duration_micros = 12;
    node.inputs = &inputs;
    node.n_attr = 2;
    node.attr = attrs;
    size_t n = put(bytes, &metadata.base);
    n += put(bytes + n, &node.base);

    const orr_graph *g = read_bytes(bytes, n, NULL);
    orr_attr a;
    assert_string_equal(orr_graph_str(g, g->source), "chakra oracle");
    assert_int_equal(g->source_id[0], UINT64_MAX);
    assert_int_equal(g->duration_ns[0], 12000);
    assert_true(orr_graph_find_attr(g, 0, "least", &a));
    assert_int_equal(*(const int32_t *)a.values, INT32_MIN);
    assert_true(orr_graph_find_attr(g, 0, "list", &a));
    assert_memory_equal(a.values, numbers, sizeof numbers);
    assert_true(orr_graph_find_attr(g, 0, "inputs.shapes", &a));
    const test_bytes again = chakra_bytes(g);
    assert_int_equal(again.n, n);
    assert_memory_equal(again.at, bytes, n);
    free(again.at);
    orr_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decodes_what_we_write),
        cmocka_unit_test(decodes_every_kind_as_we_do),
        cmocka_unit_test(reads_what_the_oracle_encodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
