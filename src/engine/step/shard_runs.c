/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/step/shard_runs.h"

/* Index in the whole tensor's dim; -1: padding. */
static int64_t whole_index(const orr_dim_pieces *share, int64_t own)
{
    for (uint32_t i = 0; i < share->n; i++)
        if (own >= share->piece[i].own && own < share->piece[i].own + share->piece[i].count)
            return share->piece[i].whole + own - share->piece[i].own;
    return -1;
}

/* Row-major index over all dims but the last; -1: padding. */
static int64_t whole_row(const orr_local_shard *own, const orr_type *type, int64_t row)
{
    int64_t whole = 0, stride = 1;
    for (uint32_t d = type->rank > 0 ? type->rank - 1u : 0; d-- > 0;) {
        const int64_t index = row % type->dim[d];
        const int64_t at = d == 0 && own->rows != NULL ? (int64_t)own->rows[index]
                                                       : whole_index(&own->by[d], index);
        if (at < 0)
            return -1;
        whole += at * stride;
        stride *= own->whole.dim[d];
        row /= type->dim[d];
    }
    return whole;
}

void orr_shard_runs(const orr_local_shard *own, const orr_type *type, int64_t begin, int64_t n,
                    orr_shard_run *run, void *ctx)
{
    const uint32_t last = type->rank > 0 ? type->rank - 1u : 0;
    const int64_t columns = type->rank > 0 ? type->dim[last] : 1, end = begin + n;
    const orr_dim_pieces *share = &own->by[last];
    if (type->rank == 0 && n > 0) {
        run(ctx, 0, 0, 1);
        return;
    }
    for (int64_t row = begin / columns; row * columns < end; row++) {
        const int64_t whole = whole_row(own, type, row), first = row * columns;
        for (uint32_t i = 0; i < share->n && whole >= 0; i++) {
            const int64_t piece = first + share->piece[i].own;
            const int64_t from = piece > begin ? piece : begin;
            const int64_t piece_end = piece + share->piece[i].count;
            const int64_t to = piece_end < end ? piece_end : end;
            if (to > from)
                run(ctx, from, whole * own->whole.dim[last] + share->piece[i].whole + from - piece,
                    to - from);
        }
    }
}
