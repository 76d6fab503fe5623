/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "cost/models/file.h"
#include "fuzz.h"
#include "io/stream/stream.h"

/* A fitted file. What is accepted answers any question without a fault, and is written as text that
 * reads back and is written the same again. */
static orr_status read_model(const void *bytes, size_t len, orr_arena *arena,
                             const orr_cost_file **ret, orr_error *err)
{
    orr_stream *stream;
    FUZZ_CHECK(orr_stream_open_memory(bytes, len, &stream, err) == ORR_OK);
    const orr_status status = orr_cost_file_read(stream, arena, ret, err);
    orr_stream_close(stream);
    return status;
}

static orr_device some_device(void)
{
    orr_device device = {.name = "one", .vendor = "", .kind = "gpu", .notes = ""};
    for (int dtype = 0; dtype < ORR_DTYPES; dtype++)
        device.peak_flops[dtype] =
            (orr_fact){.value = 1e14, .basis = ORR_FACT_ASSUMED, .source = ""};
    device.memory_bytes_per_s = (orr_fact){.value = 1e12, .basis = ORR_FACT_ASSUMED, .source = ""};
    return device;
}

static void check_price(const orr_cost_file *file, const orr_device *device, const orr_work *work)
{
    orr_price price;
    if (!file->model.price(&file->model, device, work, &price))
        return;
    FUZZ_CHECK(price.ns >= 1);
    FUZZ_CHECK(price.basis == ORR_BASIS_TABLE || price.basis == ORR_BASIS_LEARNED);
    FUZZ_CHECK(isnan(price.error_frac) || price.error_frac >= 0);
}

/* The shapes of its points, and between them. */
static void check_prices(const orr_cost_file *file, uint64_t choice)
{
    const orr_device device = some_device();
    const orr_table_series *series = file->table != NULL ? file->table->series : NULL;
    const uint32_t n = file->table != NULL ? file->table->n : 0;

    for (int family = 0; family < ORR_FAMILIES; family++) {
        orr_work work = {.family = (uint8_t)family,
                         .dtype = (uint8_t)(choice % ORR_DTYPES),
                         .n_dims = 4,
                         .dims = {1, (int64_t)(choice % 5000), 64, 64},
                         .flops = (double)(choice % 1000000),
                         .read_bytes = 1e4,
                         .op = "aten::relu",
                         .kernel = ""};
        check_price(file, &device, &work);
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t p = 0; p < series[i].n && p < 8; p++) {
            const orr_table_point *point = &series[i].points[p];
            orr_work work = {.family = series[i].family,
                             .dtype = series[i].dtype,
                             .copy = series[i].copy,
                             .n_dims = series[i].n_dims,
                             .backward = series[i].backward,
                             .flops = point->flops,
                             .read_bytes = point->read_bytes,
                             .write_bytes = point->write_bytes,
                             .op = series[i].label,
                             .kernel = series[i].label};
            memcpy(work.dims, point->dims, sizeof work.dims);
            check_price(file, &device, &work);
            work.flops += 1;
            work.read_bytes = point->read_bytes * 1.5;
            check_price(file, &device, &work);
        }
}

static orr_output *written(const orr_cost_file *file)
{
    orr_output *out;
    FUZZ_CHECK(orr_output_open_memory(&out, NULL) == ORR_OK);
    orr_cost_file_write(file, out);
    return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_cost_file *file, *again;
    orr_error err;
    size_t n[2];

    FUZZ_CHECK(arena != NULL);
    if (read_model(bytes, len, arena, &file, &err) == ORR_OK) {
        check_prices(file, fuzz_choice(bytes, len));
        orr_output *first = written(file);
        const void *text = orr_output_memory(first, &n[0]);
        FUZZ_CHECK(read_model(text, n[0], arena, &again, &err) == ORR_OK);
        orr_output *second = written(again);
        const void *same = orr_output_memory(second, &n[1]);
        FUZZ_CHECK(n[0] == n[1] && memcmp(text, same, n[0]) == 0);
        orr_output_close(first);
        orr_output_close(second);
    } else {
        FUZZ_CHECK(err.text[0] != '\0');
    }
    orr_arena_free(arena);
    return 0;
}
