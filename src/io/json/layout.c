/* SPDX-License-Identifier: Apache-2.0 */
#include "io/json/layout.h"

#include "io/json/reader_parts.h"
#include "io/json/scan.h"

/* All vectors of `known` that hold bytes are read, so that up to ORR_JSON_LAYOUT_BYTES behind the
 * window are looked at. */
_Static_assert((int)ORR_JSON_LAYOUT_BYTES <= (int)ORR_STREAM_TAIL_BYTES,
               "readable behind a window");

static inline bool stands_at(const uint8_t *p, const orr_json_known_key *known)
{
#if defined(ORR_JSON_SSE2_)
    for (unsigned i = 0; i < known->n; i += 16) {
        const __m128i a = _mm_loadu_si128((const __m128i *)(p + i));
        const __m128i b = _mm_loadu_si128((const __m128i *)(known->bytes + i));
        const unsigned left = known->n - i;
        const unsigned wanted = left < 16 ? (1u << left) - 1 : 0xffffu;
        if ((~(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(a, b)) & wanted) != 0)
            return false;
    }
    return true;
#else
    return memcmp(p, known->bytes, known->n) == 0;
#endif
}

static inline bool is_next(const orr_json *json, const orr_json_known_key *known)
{
    return known->n > 0 && known->expect == json->expect && json->in_object &&
           (size_t)(json->end - json->at) >= known->n && stands_at(json->at, known);
}

/* Where the bytes of a key that was just read are remembered, now or before; 0: nowhere. */
static uint8_t remember(orr_json_layout *layout, const uint8_t *from, size_t n, uint8_t expect,
                        orr_text key)
{
    for (uint8_t i = 1; i <= layout->n; i++)
        if (layout->keys[i].n == n && layout->keys[i].expect == expect &&
            memcmp(layout->keys[i].bytes, from, n) == 0)
            return i;
    if (layout->n == ORR_JSON_LAYOUT_KEYS - 1)
        return 0;
    orr_json_known_key *known = &layout->keys[++layout->n];
    memcpy(known->bytes, from, n);
    known->n = (uint8_t)n;
    known->key_at = (uint8_t)((const uint8_t *)key.at - from);
    known->key_n = (uint8_t)key.n;
    known->expect = expect;
    return layout->n;
}

/* Only keys of plain letters in one window, with their comma where one belongs: such a key has no
 * faults, which would have to be counted again. */
static bool worth(const orr_json *json, const uint8_t *from, uint8_t expect, orr_text key)
{
    const uint8_t *p = orr_json_skip_space(from, json->at);
    if (expect == ORR_JSON_EXPECT_MORE && *p == ',')
        p = orr_json_skip_space(p + 1, json->at);
    else if (expect != ORR_JSON_EXPECT_FIRST)
        return false;
    const uint8_t *const end = p + 1 + key.n;
    return *p == '"' && (const uint8_t *)key.at == p + 1 && orr_json_plain_end(p + 1, end) >= end;
}

static bool read_slowly(orr_json *json, orr_json_layout *layout, orr_text *ret_key,
                        uint8_t **ret_tag, orr_status *status, orr_error *err)
{
    const uint64_t pos = orr_json_byte_pos(json);
    const uint8_t expect = json->expect, before = layout->last;
    *ret_tag = NULL;
    layout->last = 0;
    if (!orr_json_next_key(json, ret_key, status, err))
        return false;
    const uint64_t n = orr_json_byte_pos(json) - pos;
    if (n > ORR_JSON_LAYOUT_BYTES || n > (size_t)(json->at - json->begin) ||
        !worth(json, json->at - n, expect, *ret_key))
        return true;
    const uint8_t at = remember(layout, json->at - n, n, expect, *ret_key);
    if (at == 0)
        return true;
    orr_json_known_key *previous = &layout->keys[before];
    previous->next[1] = previous->next[0];
    previous->next[0] = at;
    layout->last = at;
    *ret_tag = &layout->keys[at].tag;
    return true;
}

bool orr_json_next_key_of(orr_json *json, orr_json_layout *layout, orr_text *ret_key,
                          uint8_t **ret_tag, orr_status *status, orr_error *err)
{
    orr_json_known_key *previous = &layout->keys[layout->last];
    uint8_t at = previous->next[0];
    if (!is_next(json, &layout->keys[at])) {
        at = previous->next[1];
        if (!is_next(json, &layout->keys[at]))
            return read_slowly(json, layout, ret_key, ret_tag, status, err);
        previous->next[1] = previous->next[0];
        previous->next[0] = at;
    }
    orr_json_known_key *known = &layout->keys[at];
    *ret_key = (orr_text){(const char *)json->at + known->key_at, known->key_n};
    *ret_tag = &known->tag;
    json->at += known->n;
    json->expect = ORR_JSON_EXPECT_VALUE;
    layout->last = at;
    *status = ORR_OK;
    return true;
}
