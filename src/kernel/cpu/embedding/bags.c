/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/embedding/bags.h"

#include "kernel/format/row.h"

static int format_of(orr_dtype dtype)
{
    switch (dtype) {
    case ORR_DTYPE_FP32:
    case ORR_DTYPE_TF32:
        return ORR_ROW_FORMAT_FP32;
    case ORR_DTYPE_FP16:
        return ORR_ROW_FORMAT_FP16;
    case ORR_DTYPE_BF16:
        return ORR_ROW_FORMAT_BF16;
    default:
        return -1;
    }
}

orr_status orr_embedding_table_of(const orr_operand *operand, const char *op,
                                  orr_embedding_table *ret, orr_error *err)
{
    const orr_dtype dtype = (orr_dtype)operand->type.dtype;
    *ret = (orr_embedding_table){
        .base = operand->data, .rows = operand->type.dim[0], .columns = operand->type.dim[1]};
    if (operand->rows != NULL) {
        const orr_weight_rows *segments = operand->rows;
        ret->base = segments->n_segments == 1 ? (char *)segments->segments[0].data : NULL;
        ret->segments = segments;
        ret->row_bytes = segments->row_bytes;
        ret->format = (orr_row_format)segments->format;
        return ORR_OK;
    }
    const int format = format_of(dtype);
    if (format < 0 || operand->stride[1] != 1)
        return orr_fail(err, ORR_UNSUPPORTED, "%s: a table of %s%s", op, orr_dtype_name(dtype),
                        format < 0 ? "" : " with gaps between columns");
    ret->format = (orr_row_format)format;
    ret->row_bytes = operand->stride[0] * (int64_t)orr_dtype_bytes(dtype);
    return ORR_OK;
}

static orr_status check_offsets(const orr_bags *bags, const char *op, orr_error *err)
{
    int64_t before = 0;
    for (int64_t b = 0; b < bags->bags; b++) {
        const int64_t begin = orr_indices_at(&bags->offsets, b);
        if (b == 0 ? begin != 0 : begin < before || begin > bags->ids.n)
            return orr_fail(err, ORR_INVALID, "%s: bag %lld begins at id %lld of %lld, behind %lld",
                            op, (long long)b, (long long)begin, (long long)bags->ids.n,
                            (long long)before);
        before = begin;
    }
    return ORR_OK;
}

orr_status orr_bags_of(const orr_operand *ids, bool listed, const char *op, orr_bags *ret,
                       orr_error *err)
{
    orr_bags bags = {.ids = orr_indices_of(ids)};
    if (listed) {
        bags.offsets = orr_indices_of(ids + 1);
        bags.bags = bags.offsets.n;
        ORR_TRY(check_offsets(&bags, op, err));
    } else {
        bags.bags = 1;
        for (uint32_t d = 0; d + 1 < ids->type.rank; d++)
            bags.bags *= ids->type.dim[d];
        bags.each = ids->type.dim[ids->type.rank - 1];
    }
    *ret = bags;
    return ORR_OK;
}

int64_t orr_bags_begin(const orr_bags *bags, int64_t bag)
{
    if (bag >= bags->bags)
        return bags->ids.n;
    return bags->offsets.n > 0 ? orr_indices_at(&bags->offsets, bag) : bag * bags->each;
}

int64_t orr_bags_per_range(const orr_bags *bags)
{
    const int64_t mean = bags->bags > 0 ? bags->ids.n / bags->bags : 0;
    return mean > 4096 ? 1 : 4096 / (mean > 0 ? mean : 1);
}

void orr_invalid_id_note(orr_invalid_id *stray, int64_t at)
{
    int64_t seen = atomic_load(&stray->at);
    while ((seen < 0 || at < seen) && !atomic_compare_exchange_weak(&stray->at, &seen, at))
        continue;
}

orr_status orr_invalid_id_check(const orr_invalid_id *stray, const orr_indices *ids, int64_t rows,
                                const char *op, orr_error *err)
{
    const int64_t at = atomic_load(&stray->at);
    if (at < 0)
        return ORR_OK;
    return orr_fail(err, ORR_INVALID, "%s: id %lld, number %lld of %lld: the table has %lld rows",
                    op, (long long)orr_indices_at(ids, at), (long long)at, (long long)ids->n,
                    (long long)rows);
}

void orr_embedding_table_rows(const orr_embedding_table *table, const orr_indices *ids,
                              int64_t from, int64_t n, orr_invalid_id *stray, const char **ret)
{
    const int64_t *wide = (const int64_t *)ids->of->data + from;
    const int32_t *narrow = (const int32_t *)ids->of->data + from;
    for (int64_t i = 0; i < n; i++) {
        int64_t id = !ids->dense ? orr_indices_at(ids, from + i) : ids->wide ? wide[i] : narrow[i];
        if ((uint64_t)id >= (uint64_t)table->rows) {
            orr_invalid_id_note(stray, from + i);
            id = 0;
        }
        ret[i] = table->base != NULL ? table->base + id * table->row_bytes
                                     : orr_row_at(table->segments, id);
    }
}
