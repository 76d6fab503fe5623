/* SPDX-License-Identifier: Apache-2.0 */
#include "machine_text.h"

static void quantities_are_read_as_people_write_them(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        orr_quantity quantity;
        double value;
    } cases[] = {
        {"132", ORR_QUANTITY_COUNT, 132},
        {"16k", ORR_QUANTITY_COUNT, 16000},
        {"80GiB", ORR_QUANTITY_BYTES, 85899345920.0},
        {"450GB/s", ORR_QUANTITY_BANDWIDTH, 450e9},
        {"400Gbps", ORR_QUANTITY_BANDWIDTH, 50e9},
        {"5us", ORR_QUANTITY_NS, 5000},
        {"0.5us", ORR_QUANTITY_NS, 500},
        {"5us/km", ORR_QUANTITY_NS_PER_KM, 5000},
        {"989TFLOPS", ORR_QUANTITY_FLOPS, 989e12},
        {"494.5TFLOP/s", ORR_QUANTITY_FLOPS, 494.5e12},
        {"1979 TOPS", ORR_QUANTITY_FLOPS, 1979e12},
        {"1410MHz", ORR_QUANTITY_HZ, 1410e6},
        {"700W", ORR_QUANTITY_WATT, 700},
        {"550kIOPS", ORR_QUANTITY_IOPS, 550e3},
        {"0.58", ORR_QUANTITY_NUMBER, 0.58},
        {"1:2.8", ORR_QUANTITY_RATIO, 2.8},
        {"7", ORR_QUANTITY_RATIO, 7},
        {"3km", ORR_QUANTITY_KM, 3},
        {"500m", ORR_QUANTITY_KM, 0.5},
        {"0.02", ORR_QUANTITY_USD, 0.02},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const orr_yaml scalar = {.text = cases[i].text, .file = "t.yaml", .line = 1, .column = 1};
        double value = 0;
        assert_int_equal(orr_quantity_read(&scalar, "key", cases[i].quantity, &value, NULL),
                         ORR_OK);
        if (fabs(value - cases[i].value) > 1e-12 * cases[i].value)
            fail_msg("%s: %.17g", cases[i].text, value);
    }
}

static void a_wrong_unit_is_told_where_it_stands(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        orr_quantity quantity;
        const char *message;
    } cases[] = {
        {"450GB", ORR_QUANTITY_BANDWIDTH,
         "t.yaml:3:7: key: '450GB' is not a bandwidth: write for example 400Gbps or 50GB/s"},
        {"80GB/s", ORR_QUANTITY_BYTES,
         "t.yaml:3:7: key: '80GB/s' is not a size: write for example 80GiB or 64kB"},
        {"5", ORR_QUANTITY_NS,
         "t.yaml:3:7: key: '5' is not a duration: write for example 5us, 2ms or 1h"},
        {"5us", ORR_QUANTITY_NS_PER_KM,
         "t.yaml:3:7: key: '5us' is not a delay by distance: write for example 5us/km"},
        {"989", ORR_QUANTITY_FLOPS,
         "t.yaml:3:7: key: '989' is not a rate of arithmetic: write for example 989TFLOPS"},
        {"1410", ORR_QUANTITY_HZ,
         "t.yaml:3:7: key: '1410' is not a frequency: write for example 1410MHz"},
        {"700", ORR_QUANTITY_WATT, "t.yaml:3:7: key: '700' is not a power: write for example 700W"},
        {"550k", ORR_QUANTITY_IOPS,
         "t.yaml:3:7: key: '550k' is not operations a second: write for example 550kIOPS"},
        {"-1", ORR_QUANTITY_NUMBER, "t.yaml:3:7: key: '-1' is not a number of 0 or more"},
        {"1:0.5", ORR_QUANTITY_RATIO,
         "t.yaml:3:7: key: '1:0.5' is not an oversubscription: write for example 1:7, at "
         "least 1:1"},
        {"3", ORR_QUANTITY_KM,
         "t.yaml:3:7: key: '3' is not a distance: write for example 3km or 500m"},
        {"1e9km", ORR_QUANTITY_KM,
         "t.yaml:3:7: key: '1e9km' is not a distance: write for example 3km or 500m"},
        {"km", ORR_QUANTITY_KM,
         "t.yaml:3:7: key: 'km' is not a distance: write for example 3km or 500m"},
        {"", ORR_QUANTITY_COUNT, "t.yaml:3:7: key: a value is needed here, not nothing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const orr_yaml scalar = {.text = cases[i].text, .file = "t.yaml", .line = 3, .column = 7};
        double value = 42;
        orr_error err = {0};
        assert_int_equal(orr_quantity_read(&scalar, "key", cases[i].quantity, &value, &err),
                         ORR_INVALID);
        assert_string_equal(err.text, cases[i].message);
        assert_true(value == 42);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantities_are_read_as_people_write_them),
        cmocka_unit_test(a_wrong_unit_is_told_where_it_stands),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
