/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/recover/recover.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static bool is(const char *text, size_t len, const char *word)
{
    return len == strlen(word) && memcmp(text, word, len) == 0;
}

/* The part of the name after the vendor's prefix (cuXyz, cudaXyz, hipXyz); NULL: no such name. */
static const char *after_vendor(const char *name, size_t *len)
{
    static const char *const vendors[] = {"cuda", "hip", "cu"};
    for (size_t i = 0; i < sizeof vendors / sizeof *vendors; i++) {
        const size_t n = strlen(vendors[i]);
        if (*len > n && memcmp(name, vendors[i], n) == 0) {
            *len -= n;
            return name + n;
        }
    }
    return NULL;
}

orr_host_call_role orr_host_call_role_of(const char *name, size_t len)
{
    static const struct {
        const char *word;
        uint8_t role;
    } words[] = {
        {"EventRecord", ORR_HOST_CALL_RECORD_EVENT},
        {"EventRecordWithFlags", ORR_HOST_CALL_RECORD_EVENT},
        {"StreamWaitEvent", ORR_HOST_CALL_STREAM_WAIT_EVENT},
        {"StreamSynchronize", ORR_HOST_CALL_SYNC_STREAM},
        {"DeviceSynchronize", ORR_HOST_CALL_SYNC_DEVICE},
        {"CtxSynchronize", ORR_HOST_CALL_SYNC_DEVICE},
        {"ThreadSynchronize", ORR_HOST_CALL_SYNC_DEVICE},
        {"EventSynchronize", ORR_HOST_CALL_SYNC_EVENT},
        {"MemcpyWithStream", ORR_HOST_CALL_BLOCKING_COPY}, /* HIP: waits for the stream */
    };
    if (is(name, len, "synchronizeStream")) /* MTIA, Meta's accelerator */
        return ORR_HOST_CALL_SYNC_STREAM;
    const char *rest = after_vendor(name, &len);
    if (rest == NULL)
        return ORR_HOST_CALL_NONE;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (is(rest, len, words[i].word))
            return (orr_host_call_role)words[i].role;
    const bool copies = len >= 6 && memcmp(rest, "Memcpy", 6) == 0;
    return copies && memmem(rest, len, "Async", 5) == NULL ? ORR_HOST_CALL_BLOCKING_COPY
                                                           : ORR_HOST_CALL_NONE;
}

static int by_node(const void *a, const void *b)
{
    const orr_sync_record *x = a, *y = b;
    return x->node < y->node ? -1 : x->node > y->node;
}

bool orr_occupies_stream(const orr_graph_builder *b, const orr_recovery *r, orr_node_id node)
{
    const uint8_t kind = b->kind[node];
    if (kind < ORR_NODE_COMPUTE || kind > ORR_NODE_SYNC || b->start_ns[node] == ORR_TIME_NONE)
        return false;
    if (kind != ORR_NODE_SYNC || r->syncs.n == 0)
        return true;
    const orr_sync_record wanted = {.node = node};
    const orr_sync_record *sync = bsearch(&wanted, r->syncs.at, r->syncs.n, sizeof wanted, by_node);
    return sync == NULL || sync->kind == ORR_SYNC_DEVICE_WAIT;
}

uint32_t orr_lane_rows_at(const orr_graph_builder *b, uint32_t lane, int64_t at_ns,
                          uint32_t *ret_last)
{
    const uint32_t end = b->lane_rows.first[lane + 1];
    uint32_t low = b->lane_rows.first[lane], high = end;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (b->start_ns[b->lane_rows.node[middle]] < at_ns)
            low = middle + 1;
        else
            high = middle;
    }
    uint32_t last = low;
    while (last < end && b->start_ns[b->lane_rows.node[last]] == at_ns)
        last++;
    *ret_last = last;
    return low;
}

orr_status orr_recover(orr_graph_builder *b, orr_recovery *r, orr_error *err)
{
    ORR_TRY(orr_builder_sort_lanes(b, err));
    ORR_TRY(orr_recover_nesting(b, r, err));
    ORR_TRY(orr_recover_launches(b, r, err));
    ORR_TRY(orr_recover_streams(b, r, err));
    ORR_TRY(orr_recover_syncs(b, r, err));
    ORR_TRY(orr_recover_autograd_handoffs(b, r, err));
    return orr_recover_thread_resumptions(b, err);
}

void orr_recovery_done(orr_recovery *r)
{
    orr_array_done(&r->syncs);
    orr_array_done(&r->calls);
    orr_array_done(&r->forward);
    orr_array_done(&r->launches);
    orr_array_done(&r->autograd);
    orr_array_done(&r->lane_stream);
    orr_free(r->launch);
    r->launch = NULL;
}
