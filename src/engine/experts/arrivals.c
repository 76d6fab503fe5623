/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that came for the experts of this rank: sorted by slot, copied out in pieces, and the
 * experts' results put where they are sent back from. */
#include <string.h>

#include "engine/experts/exchange_state.h"
#include "kernel/cpu/simd/vector_math.h"
#include "kernel/format/row.h"

static orr_status check_arrival(const orr_expert_exchange *x, uint32_t source, orr_wire_choice c,
                                orr_error *err)
{
    if (c.slot < x->n_slots && c.row < x->arrived[source].n.rows)
        return ORR_OK;
    return orr_fail(err, ORR_INVALID,
                    "rank %u sent a row for slot %u, of %u: do all ranks have the "
                    "same placement?",
                    source, c.slot, x->n_slots);
}

static orr_status count_slots(orr_expert_exchange *x, orr_error *err)
{
    memset(x->slot_first, 0, (x->n_slots + 1) * sizeof *x->slot_first);
    for (uint32_t r = 0; r < x->n_ranks; r++) {
        const orr_wire_choice *choices = orr_parcel_choices(x->arrived[r].bytes);
        x->first[r + 1] = x->first[r] + x->arrived[r].n.choices;
        for (uint32_t j = 0; j < x->arrived[r].n.choices; j++) {
            ORR_TRY(check_arrival(x, r, choices[j], err));
            x->slot_first[choices[j].slot + 1]++;
        }
    }
    for (uint32_t s = 0; s < x->n_slots; s++)
        x->slot_first[s + 1] += x->slot_first[s];
    return ORR_OK;
}

orr_status orr_expert_arrivals_sort(orr_expert_exchange *x, orr_error *err)
{
    ORR_TRY(count_slots(x, err));
    for (uint32_t r = 0; r < x->n_ranks; r++) {
        const orr_wire_choice *choices = orr_parcel_choices(x->arrived[r].bytes);
        for (uint32_t j = 0; j < x->arrived[r].n.choices; j++)
            x->order[x->slot_first[choices[j].slot]++] =
                (orr_arrival){.source = (uint16_t)r, .choice = j};
    }
    memmove(x->slot_first + 1, x->slot_first, x->n_slots * sizeof *x->slot_first);
    x->slot_first[0] = 0;
    return ORR_OK;
}

/* The product that DISPATCH makes where it has scores: in fp32, rounded once. */
static void scale_row(const orr_expert_exchange *x, const char *from, float score, char *to)
{
    enum { CHUNK = 256 };
    const orr_dtype dtype = x->options.dtype;
    const size_t each = (size_t)orr_dtype_bytes(dtype);
    float numbers[CHUNK];
    for (int64_t at = 0; at < x->options.columns; at += CHUNK) {
        const int64_t left = x->options.columns - at, n = left < CHUNK ? left : CHUNK;
        orr_dtype_to_fp32(dtype, from + (size_t)at * each, n, numbers);
        orr_vector_math_of_cpu()->scale(numbers, score, n, numbers);
        orr_dtype_from_fp32(dtype, numbers, n, to + (size_t)at * each);
    }
}

void orr_expert_exchange_rows(const orr_expert_exchange *x, uint32_t from, uint32_t n,
                              void *ret_rows, int32_t *ret_counts)
{
    const size_t bytes = (size_t)x->format.row_bytes;
    for (uint32_t i = 0; i < n; i++) {
        const orr_arrival a = x->order[from + i];
        const orr_parcel *p = &x->arrived[a.source];
        const char *row =
            orr_parcel_rows(x, p->bytes, p->n) + orr_parcel_choices(p->bytes)[a.choice].row * bytes;
        char *to = (char *)ret_rows + i * bytes;
        if (x->options.scored)
            scale_row(x, row, orr_parcel_scores(p->bytes, p->n)[a.choice], to);
        else
            memcpy(to, row, bytes);
    }
    for (uint32_t s = 0; s < x->n_slots; s++) {
        const uint32_t first = x->slot_first[s] > from ? x->slot_first[s] : from,
                       end = x->slot_first[s + 1] < from + n ? x->slot_first[s + 1] : from + n;
        ret_counts[s] = end > first ? (int32_t)(end - first) : 0;
    }
}

void orr_expert_exchange_results(orr_expert_exchange *x, uint32_t from, uint32_t n,
                                 const void *results)
{
    const size_t bytes = (size_t)x->format.result_bytes;
    for (uint32_t i = 0; i < n; i++) {
        const orr_arrival a = x->order[from + i];
        memcpy(x->results + (x->first[a.source] + a.choice) * bytes,
               (const char *)results + i * bytes, bytes);
    }
}
