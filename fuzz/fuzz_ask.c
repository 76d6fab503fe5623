/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"
#include "engine/serve/request.h"

/* Requests to a server of tables: JSON of each kind, or binary. What is accepted has ids of its
 * tables alone, bags that add up to them, and an answer of the size that its header says. */
static const orr_embedding TABLES[] = {{.name = "t0", .rows = 10, .columns = 2},
                                       {.name = "user id", .rows = 1000000, .columns = 3}};
static const orr_dlrm MODEL = {.dense_features = 2, .n_tables = 2, .tables = TABLES};
static const orr_ask_limits LIMITS = {.samples = 64, .lookups = 4096};

static void check(const orr_ask *ask)
{
    orr_row_bags bags[2];
    float values[64 * 5];
    int64_t ids = 0;
    FUZZ_CHECK(ask->samples >= 0 && ask->samples <= LIMITS.samples);
    FUZZ_CHECK(ask->ids.n <= (size_t)LIMITS.lookups);
    for (size_t i = 0; i < ask->lengths.n; i++)
        ids += ask->lengths.at[i];
    if (ask->kind == ORR_ASK_UPDATE) {
        FUZZ_CHECK(ask->dense.n == ask->ids.n * TABLES[ask->table].columns);
        return;
    }
    FUZZ_CHECK((size_t)ids == ask->ids.n);
    FUZZ_CHECK(ask->lengths.n == orr_ask_lists(ask, &MODEL) * (size_t)ask->samples);
    if (ask->kind == ORR_ASK_SCORE)
        FUZZ_CHECK(ask->dense.n == 2 * (size_t)ask->samples);
    const orr_answer_header h = orr_answer_header_of(ask, &MODEL);
    FUZZ_CHECK(h.bytes == (uint64_t)h.samples * h.columns * sizeof(float));
    if (ask->kind != ORR_ASK_BAGS || ask->n_lists > 2)
        return;
    orr_ask_bags(ask, &MODEL, values, bags);
    for (uint32_t i = 0; i < ask->n_lists; i++) {
        const int64_t *id = bags[i].ids;
        for (int64_t s = 0; s < ask->samples; s++)
            for (int32_t k = 0; k < bags[i].lengths[s]; k++, id++)
                FUZZ_CHECK(*id >= 0 && *id < TABLES[bags[i].table].rows);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    orr_ask ask = {0};
    orr_error err;
    if (size == 0)
        return 0;
    const uint8_t way = data[0] % (ORR_ASK_KINDS + 1);
    const orr_status status =
        way == ORR_ASK_KINDS
            ? orr_ask_read_binary(data + 1, size - 1, &MODEL, &LIMITS, &ask, &err)
            : orr_ask_read_json((orr_ask_kind)way, data + 1, size - 1, &MODEL, &LIMITS, &ask, &err);
    if (status == ORR_OK)
        check(&ask);
    orr_ask_done(&ask);
    return 0;
}
