/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "machine/catalog/sites.h"

/* Fields of a transport as facts, so that units, bases and sources are read as everywhere. */
typedef struct said {
    orr_fact queue_pairs, outstanding, paths, failed, segment, loss;
    const char *notes;
} said;

#define FACT(key_, quantity_, field)                                                               \
    {                                                                                              \
        .key = (key_), .kind = ORR_FIELD_FACT, .quantity = ORR_QUANTITY_##quantity_,               \
        .offset = offsetof(said, field)                                                            \
    }
static const orr_field FIELDS[] = {
    {.key = "balance", .kind = ORR_FIELD_OTHER},
    {.key = "congestion", .kind = ORR_FIELD_OTHER},
    {.key = "buffers", .kind = ORR_FIELD_OTHER},
    FACT("queue_pairs", COUNT, queue_pairs),
    FACT("outstanding", COUNT, outstanding),
    FACT("segment", BYTES, segment),
    FACT("paths", COUNT, paths),
    FACT("failed", COUNT, failed),
    FACT("loss", NUMBER, loss),
    {.key = "notes", .kind = ORR_FIELD_TEXT, .offset = offsetof(said, notes)},
};
#undef FACT

static const char *const BALANCES[] = {
#define NAME_(name, text) text,
    ORR_BALANCE_MAP(NAME_)
#undef NAME_
};
static const char *const CONGESTIONS[] = {
#define NAME_(name, text) text,
    ORR_CONGESTION_MAP(NAME_)
#undef NAME_
};
static const char *const BUFFERS[] = {
#define NAME_(name, text) text,
    ORR_BUFFERS_MAP(NAME_)
#undef NAME_
};
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* A choice by its word. "unknown" withdraws what was set before. */
static orr_status read_choice(const orr_yaml *map, const char *key, const char *const *names,
                              size_t n, uint8_t *choice, orr_error *err)
{
    const orr_yaml *value = orr_yaml_find(map, key);
    const char *text;
    if (value == NULL)
        return ORR_OK;
    ORR_TRY(orr_text_read(value, key, &text, err));
    for (size_t i = 0; i < n; i++) {
        if (strcmp(text, names[i]) == 0) {
            *choice = (uint8_t)i;
            return ORR_OK;
        }
    }
    return orr_fail_unknown(value, key, text, names, n, err);
}

static orr_status put_count(const orr_yaml *map, const char *key, const orr_fact *fact,
                            uint32_t *count, orr_error *err)
{
    const orr_yaml *value = orr_yaml_find(map, key);
    const double n = orr_fact_or(fact, 0);
    if (value == NULL)
        return ORR_OK;
    if (n > INT32_MAX)
        return orr_yaml_fail(value, ORR_LIMIT, err, "%s: more than 2,147,483,647", key);
    *count = (uint32_t)n;
    return ORR_OK;
}

static orr_status check(const orr_yaml *map, const orr_rdma_transport *transport, orr_error *err)
{
    if (transport->loss_frac >= 1)
        return orr_yaml_fail(map, ORR_INVALID, err,
                             "loss: a share of packets, below 1: 0.001 for one in a thousand");
    if (transport->failed > 0 && transport->failed >= transport->paths)
        return orr_yaml_fail(map, ORR_INVALID, err,
                             "failed: %u of %u paths: one at least has to be left",
                             transport->failed, transport->paths);
    return ORR_OK;
}

orr_status orr_rdma_transport_read(const orr_yaml *map, const orr_scope *scope,
                                   orr_rdma_transport *transport, orr_error *err)
{
    said s = {0};
    orr_scope inner = *scope;
    ORR_TRY(orr_schema_read(map, "transport", FIELDS, COUNT(FIELDS), &inner, &s, err));
    ORR_TRY(read_choice(map, "balance", BALANCES, COUNT(BALANCES), &transport->balance, err));
    ORR_TRY(read_choice(map, "congestion", CONGESTIONS, COUNT(CONGESTIONS), &transport->congestion,
                        err));
    ORR_TRY(read_choice(map, "buffers", BUFFERS, COUNT(BUFFERS), &transport->buffers, err));
    ORR_TRY(put_count(map, "queue_pairs", &s.queue_pairs, &transport->queue_pairs, err));
    ORR_TRY(put_count(map, "outstanding", &s.outstanding, &transport->outstanding, err));
    ORR_TRY(put_count(map, "paths", &s.paths, &transport->paths, err));
    ORR_TRY(put_count(map, "failed", &s.failed, &transport->failed, err));
    if (orr_yaml_find(map, "segment") != NULL)
        transport->segment_bytes = orr_fact_or(&s.segment, 0);
    if (orr_yaml_find(map, "loss") != NULL)
        transport->loss_frac = orr_fact_or(&s.loss, 0);
    return check(map, transport, err);
}
