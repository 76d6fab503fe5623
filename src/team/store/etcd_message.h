/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEAM_STORE_ETCD_MESSAGE_H
#define ORR_TEAM_STORE_ETCD_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"
#include "io/json/reader.h"
#include "io/stream/output.h"

/* What is said to etcd's JSON gateway (v3: etcd/api/etcdserverpb/rpc.proto, as etcd 3.4 and later
 * serve it) and what it answers. 64-bit numbers are strings there, bytes are base64, false and 0
 * are left out. Threads: any. */

/* POST /v3/kv/range: one key. */
void orr_etcd_write_range(orr_output *out, const char *key);
/* POST /v3/kv/txn: if the key was last modified at `revision` (0: if there is none) it becomes
 * `value`, else it is read. */
void orr_etcd_write_compare_and_swap(orr_output *out, const char *key, uint64_t revision,
                                     const void *value, size_t bytes);

typedef orr_array(uint8_t) orr_etcd_value;
typedef struct orr_etcd_reply {
    bool swapped;      /* of a swap: the key has the new value, as of `revision` */
    uint64_t revision; /* of the whole store */
    bool found;        /* the key, else: it has `value`, last modified at `modified` */
    uint64_t modified;
} orr_etcd_reply;
/* `value` is appended to, where one was found. Errors: PARSE: it is no answer to these; NO_MEMORY.
 */
orr_status orr_etcd_read_reply(orr_text json, orr_etcd_reply *ret, orr_etcd_value *value,
                               orr_error *err) ORR_MUST_CHECK;
/* The sentence in an answer that is a refusal; what is no JSON is given as it is, cut off. */
void orr_etcd_read_refusal(orr_text json, char *ret, size_t room);

#endif /* ORR_TEAM_STORE_ETCD_MESSAGE_H */
