/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/routes/cell.h"

#include <assert.h>
#include <string.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "digits are read as words");

static bool is_separator(char c)
{
    return c == ';' || c == '-' || c == ' ';
}

/* A number of up to 4 digits without a branch on how many they are: those lengths are random.
 * Bytes that are no digits have their high bit set in `stop`; the digits are shifted to the end of
 * the word, with zeros before them, and added up by pairs. Returns the number of digits. */
static inline uint32_t scan_number(const char *at, uint32_t *ret)
{
    uint32_t word;
    memcpy(&word, at, sizeof word);
    word ^= 0x30303030U;
    const uint32_t stop = ((word + 0x76767676U) | word) & 0x80808080U;
    const uint32_t n = (uint32_t)__builtin_ctzll(stop | UINT64_C(1) << 39) / 8;
    word = (uint32_t)((uint64_t)word << (32 - 8 * n));
    word = (word * 10 + (word >> 8)) & 0x00ff00ffU;
    *ret = (word * 100 + (word >> 16)) & 0xffff;
    return n;
}

const char *orr_route_cell_scan(orr_route_cells *cells, const char *at, uint16_t *ret)
{
    const uint32_t limit = cells->experts > 0 ? cells->experts : ORR_EXPERTS_MAX;
    const uint64_t cell = ++cells->cell;
    bool twice = false;
    for (uint32_t k = 0;;) {
        uint32_t expert;
        const uint32_t n = scan_number(at, &expert);
        if (n == 0 || expert >= limit)
            return NULL;
        at += n;
        twice |= cells->seen[expert] == cell;
        cells->seen[expert] = cell;
        ret[k] = (uint16_t)expert;
        if (++k == cells->top_k)
            return twice ? NULL : at;
        if (!is_separator(*at++))
            return NULL;
    }
}

bool orr_route_cell_next(orr_text *rest, bool scores, orr_text *ret)
{
    if (rest->at == NULL)
        return false;
    size_t n = 0;
    while (n < rest->n && (!is_separator(rest->at[n]) || (scores && rest->at[n] == '-')))
        n++;
    *ret = (orr_text){rest->at, n};
    *rest = n < rest->n ? (orr_text){rest->at + n + 1, rest->n - n - 1} : (orr_text){NULL, 0};
    return true;
}

void orr_route_cell_begin(orr_route_cells *cells)
{
    cells->cell++;
}

orr_status orr_route_cell_add(orr_route_cells *cells, uint64_t expert, orr_error *err)
{
    const unsigned long long shown = expert;
    if (expert >= ORR_EXPERTS_MAX)
        return orr_fail(err, ORR_LIMIT, "'%llu' is more than there can be: at most %d", shown,
                        ORR_EXPERTS_MAX - 1);
    if (cells->experts > 0 && expert >= cells->experts)
        return orr_fail(err, ORR_INVALID, "expert %llu, and the model has %u", shown,
                        cells->experts);
    if (cells->seen[expert] == cells->cell)
        return orr_fail(err, ORR_PARSE, "expert %llu stands twice in a cell", shown);
    cells->seen[expert] = cells->cell;
    return ORR_OK;
}

orr_status orr_route_cell_read(orr_route_cells *cells, orr_text cell, uint16_t *ret, size_t *ret_at,
                               orr_error *err)
{
    const char *begin = cell.at;
    orr_text part;
    uint32_t k = 0;
    orr_route_cell_begin(cells);
    while (orr_route_cell_next(&cell, false, &part)) {
        uint64_t expert;
        *ret_at = (size_t)(part.at - begin);
        if (!orr_text_uint64(part, &expert))
            return orr_fail(err, ORR_PARSE, "'%.*s' is no expert: a whole number is needed",
                            part.n < 40 ? (int)part.n : 40, part.at);
        ORR_TRY(orr_route_cell_add(cells, expert, err));
        if (k < cells->top_k)
            ret[k] = (uint16_t)expert;
        k++;
    }
    *ret_at = 0;
    return k == cells->top_k ? ORR_OK
                             : orr_fail(err, ORR_PARSE, "%u experts, where the first cell has %u",
                                        k, cells->top_k);
}
