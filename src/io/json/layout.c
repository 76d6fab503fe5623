/* SPDX-License-Identifier: Apache-2.0 */
#include "io/json/layout.h"

/* Where the bytes of a key that was just read are remembered, now or before; 0: nowhere. */
static uint16_t remember(orr_json_layout *layout, const orr_json_known_key *key)
{
    for (uint16_t i = 1; i <= layout->n; i++)
        if (layout->keys[i].n == key->n && layout->keys[i].expect == key->expect &&
            memcmp(layout->keys[i].bytes, key->bytes, key->n) == 0)
            return i;
    if (layout->n == ORR_JSON_LAYOUT_KEYS - 1)
        return 0;
    layout->keys[++layout->n] = *key;
    return layout->n;
}

/* Only keys of plain letters in one window, with their comma where one belongs: such a key has no
 * faults, which would have to be counted again. Nor has the end of an object without a comma. */
static bool worth(const orr_json *json, const uint8_t *from, orr_json_expect expect,
                  const orr_text *key)
{
    const uint8_t *p = orr_json_skip_space(from, json->at);
    if (key == NULL)
        return p + 1 == json->at && *p == '}';
    if (expect == ORR_JSON_EXPECT_MORE && *p == ',')
        p = orr_json_skip_space(p + 1, json->at);
    else if (expect != ORR_JSON_EXPECT_FIRST)
        return false;
    const uint8_t *const end = p + 1 + key->n;
    return *p == '"' && (const uint8_t *)key->at == p + 1 && orr_json_plain_end(p + 1, end) >= end;
}

/* What was read from byte `pos` on: a key, or (NULL) the end of the object. Where it is remembered;
 * 0: nowhere. */
static uint16_t learn(const orr_json *json, orr_json_layout *layout, uint64_t pos,
                      orr_json_expect expect, const orr_text *key)
{
    const uint64_t n = orr_json_byte_pos(json) - pos;
    if (n > ORR_JSON_LAYOUT_BYTES || n > (size_t)(json->at - json->begin) ||
        !worth(json, json->at - n, expect, key))
        return 0;
    const uint8_t *const from = json->at - n;
    /* The white space before the value belongs to it. */
    const uint8_t *to = key == NULL ? json->at : orr_json_skip_space(json->at, json->end);
    if (to > json->end || to - from > ORR_JSON_LAYOUT_BYTES)
        to = json->at;
    orr_json_known_key known = {
        .n = (uint8_t)(to - from), .expect = (uint8_t)(expect + 1), .ends = key == NULL};
    memcpy(known.bytes, from, known.n);
    known.mask = (uint16_t)(known.n < 16 ? (1u << known.n) - 1 : 0xffffu);
    if (key != NULL) {
        known.key_at = (uint8_t)((const uint8_t *)key->at - from);
        known.key_n = (uint8_t)key->n;
    }
    return remember(layout, &known);
}

bool orr_json_learn_key(orr_json *json, orr_json_layout *layout, uint8_t **ret_tag,
                        orr_status *status, orr_error *err)
{
    const uint64_t pos = orr_json_byte_pos(json);
    const orr_json_expect expect = json->expect;
    const uint16_t before = layout->last;
    *ret_tag = NULL;
    layout->last = 0;
    const bool found = orr_json_next_key(json, &layout->key, status, err);
    if (*status != ORR_OK)
        return false;
    const uint16_t at = learn(json, layout, pos, expect, found ? &layout->key : NULL);
    if (at == 0)
        return found;
    orr_json_known_key *previous = &layout->keys[before];
    previous->next[1] = previous->next[0];
    previous->next[0] = at;
    if (found) {
        layout->last = at;
        *ret_tag = &layout->keys[at].tag;
    }
    return found;
}
