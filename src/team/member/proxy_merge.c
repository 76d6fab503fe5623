/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "team/member/proxy_parts.h"

/* What the ranks of a replica say, as one. */

bool orr_replica_proxy_all_here(const orr_replica_proxy *hub)
{
    for (uint32_t i = 0; i < hub->n; i++)
        if (!hub->ranks[i].hello)
            return false;
    return true;
}

static uint64_t mix(uint64_t sum, uint64_t x)
{
    sum = (sum ^ x) * UINT64_C(0x9e3779b97f4a7c15);
    return sum ^ sum >> 29;
}

/* A state, if all have one. A rank that has committed already what the others are prepared for
 * heard of it first: they will. */
static void join_steps(const orr_replica_proxy *hub, orr_member_report *r)
{
    for (uint32_t i = 0; i < hub->n; i++) {
        const orr_member_report *one = &hub->ranks[i].report;
        if (one->step == ORR_TEAM_NONE) {
            r->step = ORR_TEAM_NONE;
            r->prepared = false;
            return;
        }
        if (one->step < r->step) {
            const uint64_t epoch = r->epoch;
            *r = *one;
            r->epoch = epoch < one->epoch ? epoch : one->epoch;
        }
    }
    const bool whole_digest = r->carried;
    r->digest = whole_digest ? r->digest : 0;
    for (uint32_t i = 0; i < hub->n; i++) {
        const orr_member_report *one = &hub->ranks[i].report;
        r->prepared &= one->step > r->step ||
                       (one->prepared && one->epoch == r->epoch && one->n_slots == r->n_slots);
        r->carried |= one->step > r->step;
        if (!whole_digest)
            r->digest = mix(r->digest, one->digest);
    }
}

bool orr_replica_proxy_write_hello(const orr_replica_proxy *hub, orr_message_bytes *to)
{
    orr_array(char) text = {0};
    orr_hello hello = {
        .fingerprint = hub->ranks[0].fingerprint, .ranks = hub->n, .report = hub->ranks[0].report};
    bool ok = true;
    join_steps(hub, &hello.report);
    hello.report.id = hub->ranks[0].report.id;
    for (uint32_t i = 0; i < hub->n && ok; i++) {
        const orr_replica_proxy_rank *rank = &hub->ranks[i];
        ok = orr_array_reserve(&text, rank->address_bytes);
        if (ok)
            memcpy(text.at + text.n, rank->addresses, rank->address_bytes);
        text.n += ok ? rank->address_bytes : 0;
    }
    hello.addresses = (orr_addresses){text.at, text.n, hub->n};
    ok = ok && orr_write_hello(to, &hello);
    orr_array_done(&text);
    return ok;
}

bool orr_replica_proxy_merge_ready(const orr_replica_proxy *hub, orr_ready_message *ret)
{
    *ret = (orr_ready_message){.whole = true};
    for (uint32_t i = 0; i < hub->n; i++) {
        const orr_replica_proxy_rank *rank = &hub->ranks[i];
        if (rank->ready_epoch != hub->epoch || rank->ready_step != hub->step)
            return false;
        ret->whole &= rank->ready.whole;
        ret->digest = hub->carried ? rank->ready.digest : mix(ret->digest, rank->ready.digest);
    }
    return true;
}

void orr_replica_proxy_merge_heartbeat(const orr_replica_proxy *hub, orr_heartbeat *ret)
{
    *ret = hub->ranks[0].progress;
    for (uint32_t i = 1; i < hub->n; i++) {
        const orr_heartbeat *one = &hub->ranks[i].progress;
        ret->posted = one->posted < ret->posted ? one->posted : ret->posted;
        ret->reduced = one->reduced < ret->reduced ? one->reduced : ret->reduced;
        ret->sent += one->sent;
        ret->received += one->received;
        ret->fetched += one->fetched;
    }
}
