/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "team/member/proxy_parts.h"

/* Merges the reports of a replica's ranks into one report. Ranks hear COMMIT one after another, so
 * that they may be one step apart. The merged report is that of the rank that is least far: a state
 * only if all ranks have one; prepared if every rank is prepared for the same step, in the same
 * epoch, or has committed it already. Its digest mixes those of all ranks. */

bool orr_replica_proxy_all_here(const orr_replica_proxy *proxy)
{
    for (uint32_t i = 0; i < proxy->n; i++)
        if (!proxy->ranks[i].hello)
            return false;
    return true;
}

bool orr_replica_proxy_is_apart(const orr_replica_proxy *proxy)
{
    for (uint32_t i = 1; i < proxy->n; i++)
        if (proxy->ranks[i].report.epoch != proxy->ranks[0].report.epoch)
            return true;
    return false;
}

static uint64_t mix(uint64_t sum, uint64_t x)
{
    sum = (sum ^ x) * UINT64_C(0x9e3779b97f4a7c15);
    return sum ^ sum >> 29;
}

/* The replica was in the latest epoch that any of its ranks was in: one that has not heard of it
 * would else go into an epoch of a lower number, which the others refuse. */
static void join_epochs(const orr_replica_proxy *proxy, orr_member_report *r)
{
    for (uint32_t i = 0; i < proxy->n; i++) {
        const orr_member_report *one = &proxy->ranks[i].report;
        if (one->epoch <= r->epoch)
            continue;
        r->epoch = one->epoch;
        r->members = one->members;
        r->base = one->base;
    }
}

/* Merges the steps. A rank that has committed what the others are prepared for has only heard of it
 * first: they will too. */
static void join_steps(const orr_replica_proxy *proxy, orr_member_report *r)
{
    for (uint32_t i = 0; i < proxy->n; i++) {
        const orr_member_report *one = &proxy->ranks[i].report;
        if (one->step == ORR_TEAM_NONE) {
            r->step = ORR_TEAM_NONE;
            r->prepared = false;
            join_epochs(proxy, r);
            return;
        }
        if (one->step < r->step)
            *r = *one;
    }
    join_epochs(proxy, r);
    const bool whole_digest = r->carried;
    r->digest = whole_digest ? r->digest : 0;
    for (uint32_t i = 0; i < proxy->n; i++) {
        const orr_member_report *one = &proxy->ranks[i].report;
        r->prepared &= one->step > r->step ||
                       (one->prepared && one->made == r->made && one->n_slots == r->n_slots);
        r->carried |= one->step > r->step;
        if (!whole_digest)
            r->digest = mix(r->digest, one->digest);
    }
}

bool orr_replica_proxy_write_hello(const orr_replica_proxy *proxy, orr_message_bytes *to)
{
    orr_array(char) text = {0};
    orr_hello hello = {.fingerprint = proxy->ranks[0].fingerprint,
                       .ranks = proxy->n,
                       .report = proxy->ranks[0].report};
    bool ok = true;
    join_steps(proxy, &hello.report);
    hello.report.id = proxy->ranks[0].report.id;
    for (uint32_t i = 0; i < proxy->n && ok; i++) {
        const orr_replica_proxy_rank *rank = &proxy->ranks[i];
        ok = orr_array_reserve(&text, rank->address_bytes);
        if (ok)
            memcpy(text.at + text.n, rank->addresses, rank->address_bytes);
        text.n += ok ? rank->address_bytes : 0;
    }
    hello.addresses = (orr_addresses){text.at, text.n, proxy->n};
    ok = ok && orr_write_hello(to, &hello);
    orr_array_done(&text);
    return ok;
}

bool orr_replica_proxy_merge_ready(const orr_replica_proxy *proxy, orr_ready_message *ret)
{
    *ret = (orr_ready_message){.whole = true};
    for (uint32_t i = 0; i < proxy->n; i++) {
        const orr_replica_proxy_rank *rank = &proxy->ranks[i];
        if (rank->ready_epoch != proxy->epoch || rank->ready_step != proxy->step)
            return false;
        ret->whole &= rank->ready.whole;
        ret->digest = proxy->carried ? rank->ready.digest : mix(ret->digest, rank->ready.digest);
    }
    return true;
}

void orr_replica_proxy_merge_heartbeat(const orr_replica_proxy *proxy, orr_heartbeat *ret)
{
    *ret = proxy->ranks[0].progress;
    for (uint32_t i = 1; i < proxy->n; i++) {
        const orr_heartbeat *one = &proxy->ranks[i].progress;
        ret->posted = one->posted < ret->posted ? one->posted : ret->posted;
        ret->reduced = one->reduced < ret->reduced ? one->reduced : ret->reduced;
        ret->sent += one->sent;
        ret->received += one->received;
        ret->fetched += one->fetched;
    }
}
