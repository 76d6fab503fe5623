/* SPDX-License-Identifier: Apache-2.0 */
#include "csv.h"

#include <ctype.h>
#include <math.h>

#include "machine/catalog/entries.h"

/* The catalogue against the tables that it was made from, number by number: each number of a cell
 * is the fact's value, one that contradicts it, or in a remark on it; and the fact's value is a
 * number of the cell. */

static orr_arena *arena;
static const orr_catalog *catalog;

static int open_catalog(void **state)
{
    (void)state;
    arena = orr_arena_new(0, 0);
    return arena == NULL || orr_catalog_open(arena, &catalog, NULL) != ORR_OK;
}

static int close_catalog(void **state)
{
    (void)state;
    orr_arena_free(arena);
    return 0;
}

static csv table_of(const char *name)
{
    char path[4096];
    csv table = {0};
    const char *shared = getenv("ORRERY_SHARED");
    if (shared == NULL) {
        print_message("ORRERY_SHARED is not set: %s is not compared\n", name);
        skip();
    }
    (void)snprintf(path, sizeof path, "%s/facts/hardware/%s", shared, name);
    if (!csv_open(path, arena, &table))
        fail_msg("%s is not there", path);
    assert_true(table.n_rows > 10);
    return table;
}

/* Numbers of a text that do not belong to a word ("QD16", "p99.999"); each with half of what its
 * last digit counts, because tables round. */
typedef struct number {
    double value, slack;
} number;

static size_t numbers_of(const char *text, number out[16])
{
    size_t n = 0;
    for (const char *at = text; *at != '\0' && n < 16;) {
        if (!isdigit((unsigned char)*at)) {
            at++;
            continue;
        }
        const bool in_word = at > text && isalpha((unsigned char)at[-1]);
        char *end;
        const double value = strtod(at, &end);
        const char *point = memchr(at, '.', (size_t)(end - at));
        const double digit = point != NULL ? pow(10, -(double)(end - point - 1)) : 1;
        if (!in_word)
            out[n++] = (number){value, digit / 2};
        at = end;
    }
    return n;
}

static bool is_in_text(number x, const char *text)
{
    number all[16];
    const size_t n = numbers_of(text, all);
    for (size_t i = 0; i < n; i++)
        if (all[i].value == x.value)
            return true;
    return false;
}

static bool is_value(number x, const orr_fact *fact, const double *scales)
{
    for (; *scales != 0; scales++)
        if (fabs(fact->value / *scales - x.value) < x.slack * 1.001)
            return true;
    return false;
}

static bool is_said(number x, const orr_fact *fact, const double *scales)
{
    for (; fact != NULL; fact = fact->conflict)
        if (is_value(x, fact, scales) || is_in_text(x, fact->note))
            return true;
    return false;
}

static size_t numbers_checked;

/* `facts` ends with NULL; the first is the cell's own. */
static void check_cell(const char *row, const char *cell, const orr_fact *const *facts,
                       const double *scales, bool own)
{
    number all[16];
    const size_t n = numbers_of(cell, all);
    bool found = n == 0;
    for (size_t i = 0; i < n; i++) {
        bool said = false;
        for (const orr_fact *const *fact = facts; *fact != NULL; fact++)
            said |= is_said(all[i], *fact, scales);
        if (!said)
            fail_msg("%s: %g of '%s' is not in the catalogue (%g)", row, all[i].value, cell,
                     facts[0]->value);
        found |= is_value(all[i], facts[0], scales);
        numbers_checked++;
    }
    if (own && !found)
        fail_msg("%s: the catalogue has %g, the table '%s'", row, facts[0]->value, cell);
}

typedef struct cell_rule {
    const char *column;
    size_t offset;
    double scale;
} cell_rule;

static void check_cells(const csv *table, size_t row, const void *entry, const cell_rule *rules,
                        size_t n_rules, const orr_fact *also)
{
    for (size_t i = 0; i < n_rules; i++) {
        const orr_fact *fact = (const orr_fact *)((const char *)entry + rules[i].offset);
        const orr_fact *const facts[] = {fact, also, NULL};
        const double scales[] = {rules[i].scale, 0};
        check_cell(csv_text(table, row, "name"), csv_text(table, row, rules[i].column), facts,
                   scales, true);
    }
}

#define COUNT(array)   (sizeof(array) / sizeof *(array))
#define GIB            1073741824.0
#define D(field)       offsetof(orr_device, field)
#define PEAK(dtype)    (D(peak_flops) + ORR_DTYPE_##dtype * sizeof(orr_fact))
#define REACHED(dtype) (D(matmul_flops) + ORR_DTYPE_##dtype * sizeof(orr_fact))

static void devices_are_those_of_the_table(void **state)
{
    (void)state;
    static const cell_rule rules[] = {
        {"fp32_tflops", PEAK(FP32), 1e12},
        {"tf32_tflops", PEAK(TF32), 1e12},
        {"fp16_tflops", PEAK(FP16), 1e12},
        {"bf16_tflops", PEAK(BF16), 1e12},
        {"fp8_tflops", PEAK(FP8), 1e12},
        {"int8_tops", PEAK(INT8), 1e12},
        {"fp4_tflops", PEAK(FP4), 1e12},
        {"mem_gb", D(memory_bytes), GIB}, /* stacks of DRAM count in powers of two */
        {"mem_bw_gbs", D(memory_bytes_per_s), 1e9},
        {"scaleup_uni_gbs", D(scale_up_bytes_per_s), 1e9},
        {"scaleup_p2p_uni_gbs", D(scale_up_pair_bytes_per_s), 1e9},
        {"nic_uni_gbs_per_dev", D(nic_bytes_per_s), 1e9},
        {"tdp_w", D(power_w), 1},
        {"clock_mhz", D(clock_hz), 1e6},
        {"llc_mb", D(l2_bytes), 1048576},
        {"mamf_bf16_tflops", REACHED(BF16), 1e12},
        {"mamf_fp8_tflops", REACHED(FP8), 1e12},
    };
    const csv table = table_of("gpus.csv");
    for (size_t row = 0; row < table.n_rows; row++) {
        const char *name = csv_text(&table, row, "name");
        const orr_device *device = orr_catalog_device(catalog, name);
        if (device == NULL)
            fail_msg("%s is not in the catalogue", name);
        assert_string_equal(device->vendor, csv_text(&table, row, "vendor"));
        assert_string_equal(device->kind, csv_text(&table, row, "kind"));
        check_cells(&table, row, device, rules, COUNT(rules), NULL);
        const char *pcie = csv_text(&table, row, "pcie");
        if (pcie[0] != '\0')
            assert_true(strncmp(device->pcie, "PCIe", 4) == 0 &&
                        strncmp(device->pcie + 4, pcie, strlen(pcie)) == 0);
        const char *type = csv_text(&table, row, "mem_type");
        if (isalpha((unsigned char)type[0]))
            assert_string_equal(device->memory_type, type);
        assert_int_equal(csv_text(&table, row, "scaleup_link")[0] != '\0',
                         device->scale_up[0] != '\0');
        if (csv_text(&table, row, "nic_typical")[0] != '\0')
            assert_true(device->nic[0] != '\0');
    }
    print_message("%zu numbers\n", numbers_checked);
    assert_true(numbers_checked > 250);
}

static size_t row_named(const csv *table, const char *name)
{
    for (size_t row = 0; row < table->n_rows; row++)
        if (strcmp(csv_text(table, row, "name"), name) == 0)
            return row;
    fail_msg("the table has no %s", name);
    return 0;
}

/* What the table's remarks tell in words. */
static void contradictions_stand_beside_each_other(void **state)
{
    (void)state;
    static const struct {
        const char *device;
        size_t offset;
        double value, said, contradicted; /* as the remark writes it */
    } cases[] = {
        {"h100_sxm_80g", D(clock_hz), 1e6, 1830, 1980},
        {"b200_sxm_180g", D(memory_bytes_per_s), 1e12, 7.7, 8.0},
        {"b200_sxm_180g", D(memory_bytes), GIB, 180, 192},
        {"gb200_186g", D(nic_bytes_per_s), 1e9, 50, 100},
        {"b300_sxm_288g", PEAK(INT8), 1e12, 4500, 153.5},
        {"b300_sxm_288g", D(power_w), 1, 1000, 1100},
        {"b300_sxm_288g", PEAK(FP4), 1e12, 12600, 14000},
        {"mi250x_128g", D(power_w), 1, 500, 560},
        {"gaudi2_96g", D(scale_up_pair_bytes_per_s), 1e9, 37.5, 300},
        {"gaudi3_128g", PEAK(BF16), 1e12, 1677, 1835},
        {"gaudi3_128g", D(clock_hz), 1e6, 1600, 1750},
    };
    const csv table = table_of("gpus.csv");
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *notes = csv_text(&table, row_named(&table, cases[i].device), "notes");
        const orr_device *device = orr_catalog_device(catalog, cases[i].device);
        const orr_fact *fact = (const orr_fact *)((const char *)device + cases[i].offset);
        if (!is_in_text((number){cases[i].contradicted, 0}, notes))
            fail_msg("%s: no %g in '%s'", cases[i].device, cases[i].contradicted, notes);
        assert_true(fabs(fact->value / cases[i].value - cases[i].said) < 1e-9 * cases[i].said);
        assert_non_null(fact->conflict);
        assert_true(fabs(fact->conflict->value / cases[i].value - cases[i].contradicted) <
                    1e-9 * cases[i].contradicted);
    }
    const orr_device *tpu = orr_catalog_device(catalog, "tpu_v5p");
    assert_int_equal(tpu->peak_flops[ORR_DTYPE_FP8].conflict->basis, ORR_FACT_UNKNOWN);
    assert_int_equal(orr_catalog_device(catalog, "h800_sxm_80g")->power_w.basis, ORR_FACT_UNKNOWN);
}

/* HW_PARAMS of owensgroup/ml_perf_model 5b2522a: GFLOP/s of FP32, GB/s of DRAM, L2, shared memory,
 * number of SMs, GB/s of PCIe. */
static void fitted_constants_of_the_dlrm_model(void **state)
{
    (void)state;
    static const struct {
        const char *device;
        double fp32, dram, l2, smem, sms, pcie;
    } cases[] = {
        {"a100_sxm_40g", 15026.6, 1391.1, 2270.9, 3773.8, 108, 8.1},
        {"v100_sxm2_32g", 15441.5, 817.0, 2847.5, 3918.9, 80, 8.1},
        {"gv100", 13035.9, 601.0, 2466.7, 3299.5, 80, 5.0},
        {"titan_xp", 10768.6, 438.7, 1406.5, 1831.3, 30, 3.43},
        {"p100", 9343.7, 543.4, 1591.3, 2385.0, 56, 7.62},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const orr_device *d = orr_catalog_device(catalog, cases[i].device);
        const struct {
            const orr_fact *fact;
            double value;
        } facts[] = {{&d->matmul_flops[ORR_DTYPE_FP32], cases[i].fp32 * 1e9},
                     {&d->achievable_memory_bytes_per_s, cases[i].dram * 1e9},
                     {&d->l2_bytes_per_s, cases[i].l2 * 1e9},
                     {&d->shared_memory_bytes_per_s, cases[i].smem * 1e9},
                     {&d->achievable_pcie_bytes_per_s, cases[i].pcie * 1e9}};
        for (size_t f = 0; f < COUNT(facts); f++) {
            assert_true(fabs(facts[f].fact->value - facts[f].value) < 1e-9 * facts[f].value);
            assert_int_equal(facts[f].fact->basis, ORR_FACT_MEASURED);
            assert_non_null(strstr(facts[f].fact->source, "ml_perf_model"));
        }
        assert_true(d->sms.value == cases[i].sms);
    }
}

static void links_are_those_of_the_table(void **state)
{
    (void)state;
    static const double gb[] = {1e9, 0}, us_or_ns[] = {1e3, 1, 0};
    const csv table = table_of("interconnects.csv");
    for (size_t row = 0; row < table.n_rows; row++) {
        const char *name = csv_text(&table, row, "name");
        const orr_link *link = orr_catalog_link(catalog, name);
        if (link == NULL)
            fail_msg("%s is not in the catalogue", name);
        assert_string_equal(link->kind, csv_text(&table, row, "class"));
        const orr_fact *const rate[] = {&link->bytes_per_s, NULL};
        check_cell(name, csv_text(&table, row, "uni_gbs"), rate, gb, true);
        const char *both = csv_text(&table, row, "duplex_gbs");
        assert_true(both[0] == '\0' || strtod(both, NULL) * 1e9 == 2 * link->bytes_per_s.value);
        const bool by_distance = !isnan(link->latency_ns_per_km.value);
        const orr_fact *const delay[] = {by_distance ? &link->latency_ns_per_km : &link->latency_ns,
                                         NULL};
        const char *latency = csv_text(&table, row, "latency");
        number found[16];
        check_cell(name, latency, delay, us_or_ns, true);
        if (numbers_of(latency, found) == 0)
            assert_true(isnan(delay[0]->value)); /* nothing was invented */
    }
    assert_true(catalog->n_links >= table.n_rows);
}

#define M(field) offsetof(orr_memory_tier, field)

static void storage_is_that_of_the_table(void **state)
{
    (void)state;
    static const cell_rule rules[] = {
        {"read_latency_us", M(read_latency_ns), 1e3},
        {"write_latency_us", M(write_latency_ns), 1e3},
        {"seq_read_gbs", M(read_bytes_per_s), 1e9},
        {"seq_write_gbs", M(write_bytes_per_s), 1e9},
        {"rand_read_kiops_4k", M(read_iops_4k), 1e3},
        {"rand_write_kiops_4k", M(write_iops_4k), 1e3},
        {"endurance_dwpd", M(endurance_dwpd), 1},
        {"power_w", M(power_w), 1},
        {"granule_b", M(granule_bytes), 1},
    };
    const csv table = table_of("storage.csv");
    for (size_t row = 0; row < table.n_rows; row++) {
        const char *name = csv_text(&table, row, "name");
        const orr_memory_tier *tier = orr_catalog_tier(catalog, name);
        if (tier == NULL)
            fail_msg("%s is not in the catalogue", name);
        assert_string_equal(tier->kind, csv_text(&table, row, "class"));
        check_cells(&table, row, tier, rules, COUNT(rules), &tier->idle_power_w);
    }
}

static const orr_fact NO_FACT = {.value = NAN, .source = "", .note = ""};

static void storage_class_memory_is_that_of_the_table(void **state)
{
    (void)state;
    static const double scales[] = {1, 1e3, 1e6, 1e9, 0};
    static const struct {
        const char *device; /* how the row begins */
        const char *tier, *other;
        size_t fact, second, third; /* of the other where there is one: the third */
        bool condition;             /* whether the row's condition is about this device */
    } rows[] = {
        {"Optane PMem 100 (1", "Optane PMem 100 DIMM", NULL, M(read_latency_ns), 0, 0, true},
        {"Optane PMem 100 (1", "Optane PMem 100 DIMM", NULL, M(read_bytes_per_s), 0, 0, true},
        {"Optane PMem 100 (1", "Optane PMem 100 DIMM", NULL, M(write_bytes_per_s), 0, 0, true},
        {"Optane PMem 100 (6", "Optane PMem 100, 6 DIMMs interleaved", NULL, M(read_bytes_per_s), 0,
         0, true},
        {"Optane PMem 100 (6", "Optane PMem 100, 6 DIMMs interleaved", NULL, M(write_bytes_per_s),
         M(read_bytes_per_s), 0, true},
        {"Optane PMem 100", "Optane PMem 100 DIMM", NULL, M(granule_bytes), M(read_latency_ns), 0,
         true},
        {"Optane PMem", "Optane PMem 100 DIMM", NULL, M(read_latency_ns), 0, 0, false},
        {"Optane SSD P4800X 375GB", "Optane P4800X 375GB", NULL, M(read_iops_4k),
         M(read_latency_ns), 0, true},
        {"Optane SSD P4800X 375GB", "Optane P4800X 375GB", NULL, M(read_iops_4k), 0, 0, true},
        {"Optane SSD P4800X 750GB", "Optane P4800X 750GB", NULL, M(read_iops_4k), M(write_iops_4k),
         0, true},
        {"Optane SSD P4800X 750GB", "Optane P4800X 750GB", NULL, M(endurance_dwpd), 0, 0, true},
        {"Optane SSD P4800X 750GB", "Optane P4800X 750GB", "Optane P4800X 375GB", M(power_w),
         M(idle_power_w), M(power_w), false},
        {"Optane SSD P4800X 750GB", "Optane P4800X 750GB", NULL, M(read_bytes_per_s),
         M(write_bytes_per_s), 0, true},
        {"Intel P3700 800GB", "NVMe MLC Gen3 (Intel P3700 800G)", NULL, M(read_iops_4k),
         M(read_latency_ns), 0, true},
        {"Intel P3700 800GB", "NVMe MLC Gen3 (Intel P3700 800G)", NULL, M(read_iops_4k), 0, 0,
         true},
        {"Micron 9100 MAX", "NVMe MLC Gen3 (Micron 9100 MAX 2.4T)", NULL, M(read_iops_4k),
         M(read_latency_ns), 0, true},
        {"Micron 9100 MAX", "NVMe MLC Gen3 (Micron 9100 MAX 2.4T)", NULL, M(read_iops_4k), 0, 0,
         true},
        {"Optane SSD P5800X", "Optane P5800X", NULL, M(read_iops_4k), 0, 0, true},
    };
    const csv table = table_of("scm_devices_public.csv");
    assert_int_equal(table.n_rows, COUNT(rows));
    for (size_t row = 0; row < table.n_rows; row++) {
        const char *device = csv_text(&table, row, "device");
        if (strncmp(device, rows[row].device, strlen(rows[row].device)) != 0)
            fail_msg("row %zu is of %s", row, device);
        const char *tier = (const char *)orr_catalog_tier(catalog, rows[row].tier);
        const char *other = rows[row].other == NULL
                                ? NULL
                                : (const char *)orr_catalog_tier(catalog, rows[row].other);
        const orr_fact *const facts[] = {
            (const orr_fact *)(tier + rows[row].fact),
            rows[row].second ? (const orr_fact *)(tier + rows[row].second) : &NO_FACT,
            other ? (const orr_fact *)(other + rows[row].third) : &NO_FACT, NULL};
        check_cell(device, csv_text(&table, row, "value"), facts, scales, false);
        if (rows[row].condition)
            check_cell(device, csv_text(&table, row, "condition"), facts, scales, false);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_those_of_the_table),
        cmocka_unit_test(contradictions_stand_beside_each_other),
        cmocka_unit_test(fitted_constants_of_the_dlrm_model),
        cmocka_unit_test(links_are_those_of_the_table),
        cmocka_unit_test(storage_is_that_of_the_table),
        cmocka_unit_test(storage_class_memory_is_that_of_the_table),
    };
    return cmocka_run_group_tests(tests, open_catalog, close_catalog);
}
