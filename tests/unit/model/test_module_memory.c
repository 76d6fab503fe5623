/* SPDX-License-Identifier: Apache-2.0 */
#include "small_module.h"

#include "base/alloc.h"
#include "model/tables/load.h"

static orr_module_memory memory_of(const orr_module *module)
{
    orr_module_memory m;
    assert_int_equal(orr_module_memory_of(module, &m, NULL), ORR_OK);
    return m;
}

static void a_layer_keeps_what_its_backward_pass_reads(void **state)
{
    (void)state;
    small_module l;
    small_layer(&l, ORR_MODULE_LAYER, true);
    const orr_module_memory m = memory_of(&l.module);
    assert_int_equal(m.parameters, SMALL_ROWS * SMALL_COLUMNS);
    assert_int_equal(m.weight_bytes, SMALL_W);
    assert_int_equal(m.gather_bytes, SMALL_W);
    assert_int_equal(m.kept_bytes, SMALL_X + SMALL_Y);
    /* z beside x and y; then dz and dy; then dx, once dz and y are gone, which is less. */
    assert_int_equal(m.forward_peak_bytes, SMALL_Z);
    assert_int_equal(m.backward_peak_bytes, SMALL_DZ + SMALL_DY);
    /* dw in a tensor of its own comes after dz and y are gone: no higher. */
    assert_int_equal(m.owned_peak_bytes, SMALL_DZ + SMALL_DY);
}

static void a_backward_pass_in_two_keeps_what_weights_need(void **state)
{
    (void)state;
    small_module l;
    small_layer(&l, ORR_MODULE_LAYER, true);
    const orr_module_memory m = memory_of(&l.module);
    assert_int_equal(m.apart_bytes, SMALL_X + SMALL_DY);
    assert_int_equal(m.input_peak_bytes, SMALL_DZ + SMALL_DY);
    assert_int_equal(m.weight_peak_bytes, 0);
}

static void inference_keeps_nothing(void **state)
{
    (void)state;
    small_module l;
    small_layer(&l, ORR_MODULE_LAYER, false);
    const orr_module_memory m = memory_of(&l.module);
    assert_int_equal(m.kept_bytes, 0);
    assert_int_equal(m.forward_peak_bytes, SMALL_Y + SMALL_Z);
    assert_int_equal(m.backward_peak_bytes, 0);
}

static void an_output_that_is_read_backward_is_the_next_ones_to_keep(void **state)
{
    (void)state;
    small_module l;
    small_layer(&l, ORR_MODULE_LAYER, true);
    l.s.calls[2].in[0] = l.z; /* relu'(z, dz) */
    const orr_module_memory m = memory_of(&l.module);
    assert_int_equal(m.kept_bytes, SMALL_X);
}

static void parameters_are_counted_by_tag(void **state)
{
    (void)state;
    small_module l;
    small_layer(&l, ORR_MODULE_LAYER, true);
    const orr_value expert = small_matrix(&l.s, ORR_VALUE_PARAMETER, 4, 8, ORR_WEIGHT_EXPERT),
                    view = small_matrix(&l.s, ORR_VALUE_PARAMETER, 8, 4, ORR_WEIGHT_EXPERT);
    l.s.values[view].view_of = expert;
    l.s.values[expert].frozen = true;
    const orr_tables_work tables = {.most = {.rows = 3200, .state = 400, .buffers = 77}};
    const int64_t kept = memory_of(&l.module).kept_bytes;
    l.module.tables = &tables;
    const orr_module_memory m = memory_of(&l.module);
    assert_int_equal(m.parameters, SMALL_ROWS * SMALL_COLUMNS);
    assert_int_equal(m.expert_parameters, 32);
    assert_int_equal(m.expert_weight_bytes, 64);
    assert_int_equal(m.frozen_parameters, 32);
    assert_int_equal(m.frozen_expert_parameters, 32);
    assert_int_equal(m.frozen_expert_weight_bytes, 64);
    assert_int_equal(m.table_bytes, 3200);
    assert_int_equal(m.table_state_bytes, 400);
    assert_int_equal(m.kept_bytes, kept + 77);
    assert_int_equal(m.gather_bytes, SMALL_W + 64);
}

static void quantised_weights_are_kept_once_and_for_no_micro_batch(void **state)
{
    (void)state;
    small_module l;
    small_layer(&l, ORR_MODULE_LAYER, true);
    const orr_value w8 = small_value(&l.s, ORR_VALUE_ACTIVATION, 128);
    const orr_tape_call first = l.s.calls[0];
    memmove(l.s.calls + 1, l.s.calls, l.s.tape.n_calls * sizeof *l.s.calls);
    l.s.calls[0] = first;
    l.s.calls[0].op = ORR_OP_QUANTIZE;
    l.s.calls[0].n_in = 1;
    l.s.calls[0].in[0] = l.w;
    l.s.calls[0].out[0] = w8;
    l.s.tape.n_calls++;
    for (uint32_t v = 0; v < l.s.tape.n_values; v++)
        if (l.s.values[v].made_by != ORR_NONE)
            l.s.values[v].made_by++;
    l.s.values[w8].made_by = 0;
    l.s.calls[1].in[1] = l.s.calls[5].in[1] = w8;
    const orr_module_memory m = memory_of(&l.module);
    assert_int_equal(m.derived_bytes, 128);
    assert_int_equal(m.kept_bytes, SMALL_X + SMALL_Y);
}

static void layers_share_what_they_are_given_beside_the_stream(void **state)
{
    (void)state;
    small_module l;
    small_layer(&l, ORR_MODULE_LAYER, true);
    l.s.calls[0].in[l.s.calls[0].n_in++] = small_value(&l.s, ORR_VALUE_INPUT, 5000);
    const orr_module_memory m = memory_of(&l.module);
    assert_int_equal(m.forward_peak_bytes, SMALL_Z);
    l.module.kind = ORR_MODULE_HEAD;
    assert_int_equal(memory_of(&l.module).forward_peak_bytes, 5000);
}

static void tied_weights_can_be_left_out(void **state)
{
    (void)state;
    small_module l;
    small_layer(&l, ORR_MODULE_HEAD, true);
    l.s.values[small_matrix(&l.s, ORR_VALUE_PARAMETER, 4, 8, ORR_WEIGHT_TIED)].frozen = true;
    const orr_module_memory m = memory_of(&l.module), rest = orr_module_memory_untied(&m);
    assert_int_equal(m.parameters, SMALL_ROWS * SMALL_COLUMNS + 32);
    assert_int_equal(m.frozen_parameters, 32);
    assert_int_equal(rest.parameters, SMALL_ROWS * SMALL_COLUMNS);
    assert_int_equal(rest.weight_bytes, SMALL_W);
    assert_int_equal(rest.gather_bytes, SMALL_W);
    assert_int_equal(rest.frozen_parameters, 0);
    assert_int_equal(rest.frozen_weight_bytes, 0);
}

static void sizes_that_no_device_has_are_told(void **state)
{
    (void)state;
    small_module l;
    orr_module_memory m = {.parameters = -1};
    orr_error err;
    small_layer(&l, ORR_MODULE_LAYER, true);
    l.s.values[l.y].type.dim[0] = INT64_C(1) << 45;
    assert_int_equal(orr_module_memory_of(&l.module, &m, &err), ORR_LIMIT);
    assert_string_equal(err.text, "layer: 35184372088833 bytes on one rank are more than 2^44");
    l.s.values[l.y].type.dim[0] = INT64_MAX;
    assert_int_equal(orr_module_memory_of(&l.module, &m, &err), ORR_LIMIT);
    assert_int_equal(m.parameters, -1);
}

static void failing_allocations_are_told(void **state)
{
    (void)state;
    small_module l;
    small_layer(&l, ORR_MODULE_LAYER, true);
    orr_module_memory m = {.parameters = -1};
    orr_alloc_count();
    assert_int_equal(orr_module_memory_of(&l.module, &m, NULL), ORR_OK);
    const uint64_t n = orr_alloc_count();
    assert_true(n > 2);
    m.parameters = -1;
    for (uint64_t i = 1; i <= n; i++) {
        orr_alloc_fail_from(i);
        const orr_status status = orr_module_memory_of(&l.module, &m, NULL);
        orr_alloc_fail_from(0);
        assert_int_equal(status, ORR_NO_MEMORY);
        assert_int_equal(m.parameters, -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layer_keeps_what_its_backward_pass_reads),
        cmocka_unit_test(a_backward_pass_in_two_keeps_what_weights_need),
        cmocka_unit_test(inference_keeps_nothing),
        cmocka_unit_test(an_output_that_is_read_backward_is_the_next_ones_to_keep),
        cmocka_unit_test(parameters_are_counted_by_tag),
        cmocka_unit_test(quantised_weights_are_kept_once_and_for_no_micro_batch),
        cmocka_unit_test(layers_share_what_they_are_given_beside_the_stream),
        cmocka_unit_test(tied_weights_can_be_left_out),
        cmocka_unit_test(sizes_that_no_device_has_are_told),
        cmocka_unit_test(failing_allocations_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
