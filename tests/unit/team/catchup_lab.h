/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CATCHUP_LAB_H
#define CATCHUP_LAB_H

#include <stdlib.h>
#include <string.h>

#include "support/simulated/network.h"
#include "team/catchup/catchup.h"

/* Members with a state each, on hosts of a simulated world: which spans it has, what it holds after
 * a step. */
enum { MEMBERS = 8, MIB = 1 << 20, SPANS = 9 };
static const int64_t ms_ns = 1000 * 1000;
static const int64_t silence_ns = INT64_C(100) * 1000 * 1000;

typedef struct member {
    uint32_t host;
    orr_net *net;
    orr_team_span spans[SPANS];
    orr_state_provider *source;
    orr_state_receiver *taker;
    int wholes, losses;
    char why[300];
} member;

typedef struct lab {
    orr_simnet *world;
    member members[MEMBERS];
    const char *addresses[MEMBERS];
} lab;

/* Odd lengths, none at all, chunks that cross many spans, spans of many chunks. */
static const size_t span_bytes[SPANS] = {0, 1, 3 * MIB + 17, 0, 4096, 5 * MIB - 5, 777, MIB / 2, 0};
enum { CHUNKS = 9 }; /* of 8.5 MiB and some */

static inline uint64_t lab_bytes(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < SPANS; i++)
        sum += span_bytes[i];
    return sum;
}

static inline unsigned char byte_of(uint64_t step, int span, size_t at)
{
    return (unsigned char)((step * 0x9e3779b97f4a7c15u + (uint64_t)span * 31 + at * 0xff51afd7u +
                            (at >> 16) * 7) >>
                           13);
}

static inline void fill(const member *m, uint64_t step)
{
    for (int i = 0; i < SPANS; i++)
        for (size_t at = 0; at < m->spans[i].bytes; at++)
            ((unsigned char *)m->spans[i].data)[at] = byte_of(step, i, at);
}

static inline bool holds(const member *m, uint64_t step)
{
    for (int i = 0; i < SPANS; i++)
        for (size_t at = 0; at < m->spans[i].bytes; at++)
            if (((unsigned char *)m->spans[i].data)[at] != byte_of(step, i, at))
                return false;
    return true;
}

static inline void on_whole(void *ctx)
{
    ((member *)ctx)->wholes++;
}

static inline void on_lost(void *ctx, const char *why)
{
    member *m = ctx;
    m->losses++;
    snprintf(m->why, sizeof m->why, "%s", why);
}

static inline void member_init(lab *l, uint32_t i, bool source)
{
    member *m = &l->members[i];
    orr_error err = {0};
    assert_int_equal(orr_simnet_add_host(l->world, &m->host, &err), ORR_OK);
    m->net = orr_simnet_host_net(l->world, m->host);
    for (int k = 0; k < SPANS; k++)
        m->spans[k] = (orr_team_span){.data = span_bytes[k] == 0 ? NULL : calloc(1, span_bytes[k]),
                                      .bytes = span_bytes[k]};
    if (source) {
        assert_int_equal(orr_state_provider_new(m->net, "h:0", m->spans, SPANS, &m->source, &err),
                         ORR_OK);
        l->addresses[i] = orr_state_provider_address(m->source);
        return;
    }
    const orr_state_receiver_callbacks user = {.ctx = m, .whole = on_whole, .lost = on_lost};
    assert_int_equal(orr_state_receiver_new(m->net, m->spans, SPANS, 0, &user, &m->taker, &err),
                     ORR_OK);
}

/* Members 0 ... sources - 1 serve, the next `takers` fetch. 1 MiB takes a millisecond and a bit. */
static inline void lab_init(lab *l, uint32_t sources, uint32_t takers)
{
    const orr_simnet_options options = {.seed = 7, .bytes_per_s = 1e9};
    orr_error err = {0};
    *l = (lab){0};
    assert_int_equal(orr_simnet_new(&options, &l->world, &err), ORR_OK);
    for (uint32_t i = 0; i < sources + takers; i++)
        member_init(l, i, i < sources);
}

static inline void lab_done(lab *l)
{
    for (uint32_t i = 0; i < MEMBERS; i++) {
        member *m = &l->members[i];
        orr_state_provider_free(m->source);
        orr_state_receiver_free(m->taker);
        for (int k = 0; k < SPANS; k++)
            free(m->spans[k].data);
    }
    orr_simnet_free(l->world);
}

static inline void offer(lab *l, uint64_t step, uint32_t takers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        fill(&l->members[i], step);
        orr_state_provider_offer(l->members[i].source, step, takers, i, n);
    }
}

static inline void begin(lab *l, uint32_t taker, uint64_t step, uint32_t n)
{
    orr_error err = {0};
    assert_int_equal(
        orr_state_receiver_begin(l->members[taker].taker, step, l->addresses, n, silence_ns, &err),
        ORR_OK);
}

static inline void run_for(lab *l, int64_t ns)
{
    orr_simnet_run(l->world, orr_simnet_now_ns(l->world) + ns);
}

/* Until so many chunks have arrived. */
static inline void run_until(lab *l, uint32_t taker, uint64_t chunks)
{
    const int64_t until_ns = orr_simnet_now_ns(l->world) + 1000 * ms_ns;
    while (orr_state_receiver_progress_of(l->members[taker].taker).had < chunks)
        assert_true(orr_simnet_step(l->world, until_ns));
}

#endif /* CATCHUP_LAB_H */
