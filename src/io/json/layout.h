/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_JSON_LAYOUT_H
#define ORR_IO_JSON_LAYOUT_H

#include "io/json/reader.h"

/* Keys as they stood before. A writer of many like objects repeats a key with the same white
 * space, comma and colon around it, mostly after the same key: then one comparison of bytes reads
 * it. What was read once by the grammar is valid wherever the grammar stands as it did. */
enum { ORR_JSON_LAYOUT_KEYS = 128, ORR_JSON_LAYOUT_BYTES = 48 };

typedef struct orr_json_known_key {
    uint8_t bytes[ORR_JSON_LAYOUT_BYTES]; /* from behind the value before it to behind the colon */
    uint8_t n;                            /* of them; 0: none */
    uint8_t key_at, key_n;                /* the key in them */
    uint8_t expect;                       /* what the grammar allowed before them */
    uint8_t tag;                          /* what the caller says that the key means; 0 at first */
    uint8_t next[2];                      /* keys that followed it, the later one first */
} orr_json_known_key;

/* Zero it. `last` is 0 before the first key of an object, which the caller sets. keys[0] is none.
 * Threads: one. */
typedef struct orr_json_layout {
    orr_json_known_key keys[ORR_JSON_LAYOUT_KEYS];
    uint8_t n, last;
} orr_json_layout;

/* As orr_json_next_key(), with the same keys, faults and errors. *ret_tag: where the caller reads
 * and sets the key's tag, until the next call; NULL: the key is not remembered. */
bool orr_json_next_key_of(orr_json *json, orr_json_layout *layout, orr_text *ret_key,
                          uint8_t **ret_tag, orr_status *status, orr_error *err);

#endif /* ORR_IO_JSON_LAYOUT_H */
