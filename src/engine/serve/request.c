/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/serve/request.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"

#define TEXT_(name, text) text,
static const char *const KINDS[] = {ORR_ASK_KIND_MAP(TEXT_)};
#undef TEXT_

enum { BAG_MAX = 65535 };

const char *orr_ask_kind_name(orr_ask_kind kind)
{
    return KINDS[kind];
}

void orr_ask_done(orr_ask *ask)
{
    orr_array_done(&ask->ids);
    orr_array_done(&ask->lengths);
    orr_array_done(&ask->lists);
    orr_array_done(&ask->dense);
    orr_array_done(&ask->read);
    orr_array_done(&ask->counts);
    orr_array_done(&ask->first);
}

void orr_ask_clear(orr_ask *ask, orr_ask_kind kind)
{
    ask->kind = (uint8_t)kind;
    ask->samples = 0;
    ask->n_lists = ask->table = 0;
    ask->ids.n = ask->lengths.n = ask->lists.n = ask->dense.n = 0;
    ask->read.n = ask->counts.n = 0;
}

uint32_t orr_ask_lists(const orr_ask *ask, const orr_dlrm *model)
{
    return ask->kind == ORR_ASK_SCORE  ? model->n_tables
           : ask->kind == ORR_ASK_BAGS ? ask->n_lists
                                       : 0;
}

static uint32_t table_of(const orr_ask *ask, uint32_t list)
{
    return ask->kind == ORR_ASK_BAGS ? ask->lists.at[list] : list;
}

int64_t orr_ask_columns(const orr_ask *ask, const orr_dlrm *model)
{
    int64_t columns = 0;
    if (ask->kind == ORR_ASK_SCORE)
        return 1;
    for (uint32_t i = 0; i < ask->n_lists; i++)
        columns += model->tables[ask->lists.at[i]].columns;
    return columns;
}

void orr_ask_bags(const orr_ask *ask, const orr_dlrm *model, float *values, orr_row_bags *ret)
{
    const int64_t *ids = ask->ids.at;
    const int64_t columns = orr_ask_columns(ask, model);
    for (uint32_t i = 0; i < ask->n_lists; i++) {
        const int32_t *lengths = ask->lengths.at + i * ask->samples;
        ret[i] = (orr_row_bags){.table = ask->lists.at[i],
                                .samples = ask->samples,
                                .lengths = lengths,
                                .ids = ids,
                                .ret = values,
                                .ret_stride = columns};
        for (int64_t s = 0; s < ask->samples; s++)
            ids += lengths[s];
        values += model->tables[ask->lists.at[i]].columns;
    }
}

unsigned orr_answer_code(orr_status status)
{
    switch (status) {
    case ORR_OK:
        return 200;
    case ORR_PARSE:
    case ORR_INVALID:
    case ORR_NOT_FOUND:
        return 400;
    case ORR_LIMIT:
        return 413;
    case ORR_UNSUPPORTED:
        return 409;
    case ORR_CANCELED:
        return 503;
    default:
        return 500;
    }
}

orr_answer_header orr_answer_header_of(const orr_ask *ask, const orr_dlrm *model)
{
    const int64_t columns = ask->kind == ORR_ASK_UPDATE ? 0 : orr_ask_columns(ask, model);
    return (orr_answer_header){.magic = ORR_ASK_MAGIC,
                               .code = 200,
                               .samples = (uint32_t)ask->samples,
                               .columns = (uint32_t)columns,
                               .bytes = (uint64_t)(ask->samples * columns) * sizeof(float)};
}

/* --- checks ---------------------------------------------------------------------------------- */

orr_status orr_ask_check_ids(const orr_ask *ask, const orr_dlrm *model, orr_error *err)
{
    const int64_t *id = ask->ids.at;
    for (uint32_t i = 0; i < orr_ask_lists(ask, model); i++) {
        const orr_embedding *t = &model->tables[table_of(ask, i)];
        const int32_t *lengths = ask->lengths.at + i * ask->samples;
        for (int64_t s = 0; s < ask->samples; s++)
            for (int32_t k = 0; k < lengths[s]; k++, id++)
                if (*id < 0 || *id >= t->rows)
                    return orr_fail(err, ORR_INVALID, "table %s, sample %lld: id %lld of %lld rows",
                                    t->name, (long long)s, (long long)*id, (long long)t->rows);
    }
    for (size_t i = 0; i < ask->ids.n && ask->kind == ORR_ASK_UPDATE; i++)
        if (ask->ids.at[i] < 0 || ask->ids.at[i] >= model->tables[ask->table].rows)
            return orr_fail(err, ORR_INVALID, "table %s: row %lld of %lld rows",
                            model->tables[ask->table].name, (long long)ask->ids.at[i],
                            (long long)model->tables[ask->table].rows);
    for (size_t i = 0; i < ask->dense.n; i++)
        if (!isfinite(ask->dense.at[i]))
            return orr_fail(err, ORR_INVALID, "number %zu is not finite", i);
    return ORR_OK;
}

/* Lengths that are to add up to the ids. */
static orr_status check_lengths(const orr_ask *ask, orr_error *err)
{
    uint64_t all = 0;
    for (size_t i = 0; i < ask->lengths.n; i++) {
        if (ask->lengths.at[i] < 0 || ask->lengths.at[i] > BAG_MAX)
            return orr_fail(err, ORR_INVALID, "a bag of %d lookups, of %d at most",
                            ask->lengths.at[i], BAG_MAX);
        all += (uint64_t)ask->lengths.at[i];
    }
    return all == ask->ids.n ? ORR_OK
                             : orr_fail(err, ORR_INVALID, "bags of %llu lookups, and %zu ids",
                                        (unsigned long long)all, ask->ids.n);
}

orr_status orr_ask_check_size(uint64_t samples, uint64_t lookups, const orr_ask_limits *limits,
                              orr_error *err)
{
    if (samples > (uint64_t)limits->samples)
        return orr_fail(err, ORR_LIMIT, "%llu samples, of %lld at most",
                        (unsigned long long)samples, (long long)limits->samples);
    if (lookups > (uint64_t)limits->lookups)
        return orr_fail(err, ORR_LIMIT, "%llu lookups, of %lld at most",
                        (unsigned long long)lookups, (long long)limits->lookups);
    return ORR_OK;
}

/* --- binary ---------------------------------------------------------------------------------- */

typedef struct part {
    const char *at;
    size_t left;
} part;

/* The next `count` elements. */
#define take(part_, array, count)                                                                  \
    (orr_array_reserve((array), (count) + 1) &&                                                    \
     copy((part_), (array)->at, (count) * sizeof *(array)->at, &(array)->n, (count)))
static bool copy(part *p, void *to, size_t bytes, size_t *ret_n, size_t n)
{
    if (bytes > 0)
        memcpy(to, p->at, bytes);
    p->at += bytes;
    p->left -= bytes;
    *ret_n = n;
    return true;
}

/* Bytes behind the header; samples, lists and ids are within limits. */
static uint64_t body_bytes(const orr_ask_header *h, const orr_dlrm *model)
{
    const uint64_t samples = h->samples, lists = h->lists, ids = h->n_ids * 8;
    switch (h->kind) {
    case ORR_ASK_SCORE:
        return ids + samples * (model->dense_features + model->n_tables) * 4;
    case ORR_ASK_BAGS:
        return ids + lists * 4 + lists * samples * 4;
    default:
        return ids + h->n_ids * model->tables[h->lists].columns * 4;
    }
}

static orr_status check_header(const orr_ask_header *h, size_t n, const orr_dlrm *model,
                               const orr_ask_limits *limits, orr_error *err)
{
    if (h->magic != ORR_ASK_MAGIC || h->kind >= ORR_ASK_KINDS)
        return orr_fail_byte(err, ORR_PARSE, 0, "byte 0: no request begins here");
    ORR_TRY(orr_ask_check_size(h->samples, h->n_ids, limits, err));
    if (h->kind == ORR_ASK_BAGS && (h->lists > model->n_tables || h->lists == 0))
        return orr_fail(err, ORR_INVALID, "lookups in %u tables, and the model has %u", h->lists,
                        model->n_tables);
    if (h->kind == ORR_ASK_UPDATE && h->lists >= model->n_tables)
        return orr_fail(err, ORR_INVALID, "table %u of %u", h->lists, model->n_tables);
    const uint64_t want = sizeof *h + body_bytes(h, model);
    return n == want ? ORR_OK
                     : orr_fail_byte(err, ORR_PARSE, n,
                                     "a request of %zu bytes, and its header "
                                     "says %llu",
                                     n, (unsigned long long)want);
}

static bool take_arrays(part *p, const orr_ask_header *h, const orr_dlrm *model, orr_ask *ask)
{
    const size_t samples = h->samples, lists = h->lists;
    if (!take(p, &ask->ids, (size_t)h->n_ids))
        return false;
    switch (h->kind) {
    case ORR_ASK_SCORE:
        return take(p, &ask->dense, samples * model->dense_features) &&
               take(p, &ask->lengths, samples * model->n_tables);
    case ORR_ASK_BAGS:
        return take(p, &ask->lists, lists) && take(p, &ask->lengths, lists * samples);
    default:
        return take(p, &ask->dense, (size_t)h->n_ids * model->tables[h->lists].columns);
    }
}

orr_status orr_ask_read_binary(const void *bytes, size_t n, const orr_dlrm *model,
                               const orr_ask_limits *limits, orr_ask *ask, orr_error *err)
{
    orr_ask_header h;
    if (n < sizeof h)
        return orr_fail_byte(err, ORR_PARSE, n, "a request of %zu bytes has no header", n);
    memcpy(&h, bytes, sizeof h);
    ORR_TRY(check_header(&h, n, model, limits, err));
    orr_ask_clear(ask, (orr_ask_kind)h.kind);
    ask->samples = h.kind == ORR_ASK_UPDATE ? 0 : (int64_t)h.samples;
    part p = {(const char *)bytes + sizeof h, n - sizeof h};
    if (!take_arrays(&p, &h, model, ask))
        return orr_fail_memory(err);
    if (h.kind == ORR_ASK_UPDATE)
        ask->table = h.lists;
    if (h.kind == ORR_ASK_BAGS)
        ask->n_lists = h.lists;
    for (size_t i = 0; i < ask->lists.n; i++)
        if (ask->lists.at[i] >= model->n_tables)
            return orr_fail(err, ORR_INVALID, "table %u of %u", ask->lists.at[i], model->n_tables);
    if (h.kind != ORR_ASK_UPDATE)
        ORR_TRY(check_lengths(ask, err));
    return orr_ask_check_ids(ask, model, err);
}
