/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_JSON_LAYOUT_H
#define ORR_IO_JSON_LAYOUT_H

#include "io/json/reader_parts.h"
#include "io/json/scan.h"

/* Keys as they stood before. A writer of many like objects repeats a key with the same white
 * space, comma and colon around it, mostly after the same key: then one comparison of bytes reads
 * it. What was read once by the grammar is valid wherever the grammar stands as it did. The end of
 * an object is remembered like a key. */
enum { ORR_JSON_LAYOUT_KEYS = 128, ORR_JSON_LAYOUT_BYTES = 48 };

typedef struct orr_json_known_key {
    _Alignas(16) uint8_t bytes[ORR_JSON_LAYOUT_BYTES]; /* from behind the value before it to the
                                             value, or to behind the object's end */
    uint8_t n;                                         /* of them; 0: none */
    uint8_t key_at, key_n;                             /* the key in them */
    uint8_t expect;   /* what the grammar allowed before them, plus one */
    uint8_t tag;      /* what the caller says that the key means; 0 at first */
    uint16_t next[2]; /* keys that followed it, the later one first */
    bool ends;        /* the object; no key */
    uint16_t mask;    /* of the first 16 bytes, those that are of the n */
} orr_json_known_key;

/* Zero it. `last` is 0 before the first key of an object, which the caller sets. keys[0] is none.
 * Threads: one. */
typedef struct orr_json_layout {
    orr_json_known_key keys[ORR_JSON_LAYOUT_KEYS];
    uint16_t n, last;
    orr_text key; /* the last one, where it is not remembered */
} orr_json_layout;

/* The key that was read last, until the next call on the reader. */
static inline orr_text orr_json_layout_key(const orr_json_layout *layout)
{
    const orr_json_known_key *last = &layout->keys[layout->last];
    return layout->last == 0 ? layout->key
                             : (orr_text){(const char *)last->bytes + last->key_at, last->key_n};
}

/* Up to ORR_JSON_LAYOUT_BYTES behind the window are looked at. */
_Static_assert((int)ORR_JSON_LAYOUT_BYTES <= (int)ORR_STREAM_TAIL_BYTES,
               "readable behind a window");

static inline bool orr_json_stands_at(const uint8_t *p, const orr_json_known_key *known)
{
#if defined(ORR_JSON_SSE2_)
    const unsigned n = known->n;
    const uint8_t *const bytes = known->bytes;
    if ((orr_json_equal_mask(p, bytes) & known->mask) != known->mask)
        return false;
    if (n <= 16)
        return true;
    if (orr_json_equal_mask(p + n - 16, bytes + n - 16) != 0xffff)
        return false;
    return n <= 32 || orr_json_equal_mask(p + 16, bytes + 16) == 0xffff;
#else
    return memcmp(p, known->bytes, known->n) == 0;
#endif
}

static inline bool orr_json_is_next(const orr_json_known_key *known, const uint8_t *p,
                                    const uint8_t *end, orr_json_expect expect)
{
    return known->expect == expect + 1 && orr_json_stands_at(p, known) &&
           (size_t)(end - p) >= known->n;
}

/* The remembered key, or end of the object, that stands at p; NULL: none. */
static inline orr_json_known_key *orr_json_known_next(orr_json_layout *layout, const uint8_t *p,
                                                      const uint8_t *end, orr_json_expect expect)
{
    orr_json_known_key *previous = &layout->keys[layout->last];
    unsigned at = previous->next[0];
    if (!orr_json_is_next(&layout->keys[at], p, end, expect)) {
        at = previous->next[1];
        if (!orr_json_is_next(&layout->keys[at], p, end, expect))
            return NULL;
        previous->next[1] = previous->next[0];
        previous->next[0] = (uint16_t)at;
    }
    layout->last = (uint16_t)at;
    return &layout->keys[at];
}

/* As orr_json_next_key(), where the layout remembers no key. */
bool orr_json_learn_key(orr_json *json, orr_json_layout *layout, uint8_t **ret_tag,
                        orr_status *status, orr_error *err);

/* The reader goes on at p, where a value is next. */
static inline void orr_json_value_at(orr_json *json, const uint8_t *p)
{
    json->at = p;
    json->expect = ORR_JSON_EXPECT_VALUE;
}

/* As orr_json_next_key(), with the same keys, faults and errors, for a caller that keeps the place
 * in the input in a register: *p for json->at, `expect` for json->expect. orr_json_layout_key() is
 * the key and *p its value, which the caller reads by plain.h or, after orr_json_value_at(), by the
 * reader. *ret_tag: where the caller reads and sets the key's tag, until the next call; NULL: the
 * key is not remembered. False: as there, and the reader's own state is that. */
static inline bool orr_json_next_key_at(orr_json *json, orr_json_layout *layout, const uint8_t **p,
                                        orr_json_expect expect, uint8_t **ret_tag,
                                        orr_status *status, orr_error *err)
{
    orr_json_known_key *known = orr_json_known_next(layout, *p, json->end, expect);
    if (__builtin_expect(known == NULL, 0)) {
        json->at = *p;
        json->expect = expect;
        const bool found = orr_json_learn_key(json, layout, ret_tag, status, err);
        *p = json->at;
        return found;
    }
    *p += known->n;
    if (known->ends) {
        orr_json_leave(json, *p);
        *status = ORR_OK;
        return false;
    }
    *ret_tag = &known->tag;
    return true;
}

#endif /* ORR_IO_JSON_LAYOUT_H */
