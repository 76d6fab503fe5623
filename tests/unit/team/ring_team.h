/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_RING_TEAM_H
#define TESTS_RING_TEAM_H

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "kernel/format/row.h"
#include "support/simulated/network.h"
#include "team/ring/parts.h"

/* Rings of several members in a simulated world, with input of a seed, and what is to come out,
 * added naively in the order of the ring. */
enum { TEAM_MEMBERS = 16, TEAM_OPS = 12 };

typedef struct team_op {
    orr_team_dtype dtype;
    size_t n;
    uint32_t zeros; /* bit i: the member on host i has no input */
} team_op;

typedef struct ring_team ring_team;
typedef struct ring_member {
    ring_team *team;
    uint32_t host;
    orr_net *net;
    orr_ring *ring;
    char *in[TEAM_OPS], *out[TEAM_OPS], *got[TEAM_OPS];
    uint32_t posted, reduced, broken, about;
    char why[160];
    bool dead;
    void (*on_reduced)(struct ring_member *member, uint32_t op); /* or NULL */
    void (*on_broken)(struct ring_member *member);
} ring_member;

struct ring_team {
    orr_simnet *world;
    uint32_t chunk_bytes;
    ring_member members[TEAM_MEMBERS];
    uint32_t hosts[TEAM_MEMBERS], n; /* who is in, in the order of the ring */
    team_op ops[TEAM_OPS];
    uint32_t n_ops;
    bool scribble; /* over memory that is the caller's again */
};

static inline size_t team_bytes(const team_op *op)
{
    return op->n * orr_ring_dtype_bytes(op->dtype);
}

/* `out` is final, and memory nobody needs. */
static inline void team_reduced(void *ctx, uint32_t op)
{
    ring_member *m = ctx;
    const size_t bytes = team_bytes(&m->team->ops[op]);
    if (op != m->reduced)
        snprintf(m->why, sizeof m->why, "operation %u after %u", op, m->reduced);
    m->reduced++;
    memcpy(m->got[op], m->out[op], bytes);
    if (m->team->scribble) {
        memset(m->out[op], 0xab, bytes);
        memset(m->in[op], 0xcd, bytes);
    }
    if (m->on_reduced != NULL)
        m->on_reduced(m, op);
}

static inline void team_broken(void *ctx, uint32_t member, const char *why)
{
    ring_member *m = ctx;
    m->broken++;
    m->about = member;
    snprintf(m->why, sizeof m->why, "%s", why);
    if (m->on_broken != NULL)
        m->on_broken(m);
}

static inline bool team_new(ring_team *team, uint64_t seed, uint32_t n,
                            const orr_ring_options *options)
{
    memset(team, 0, sizeof *team);
    team->chunk_bytes = options->chunk_bytes;
    if (orr_simnet_new(&(orr_simnet_options){.seed = seed}, &team->world, NULL) != ORR_OK)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        ring_member *m = &team->members[i];
        const orr_ring_callbacks user = {.ctx = m, .reduced = team_reduced, .broken = team_broken};
        m->team = team;
        if (orr_simnet_add_host(team->world, &m->host, NULL) != ORR_OK)
            return false;
        m->net = orr_simnet_host_net(team->world, m->host);
        if (orr_ring_new(m->net, "any:0", options, NULL, &user, &m->ring, NULL) != ORR_OK)
            return false;
        team->hosts[i] = i;
    }
    team->n = n;
    return true;
}

static inline void team_forget_ops(ring_team *team)
{
    for (uint32_t i = 0; i < TEAM_MEMBERS; i++) {
        ring_member *m = &team->members[i];
        for (uint32_t k = 0; k < team->n_ops; k++) {
            orr_free(m->in[k]);
            orr_free(m->out[k]);
            orr_free(m->got[k]);
        }
        m->posted = m->reduced = 0;
    }
    team->n_ops = 0;
}

static inline void team_free(ring_team *team)
{
    for (uint32_t i = 0; i < TEAM_MEMBERS; i++)
        orr_ring_free(team->members[i].ring);
    team_forget_ops(team);
    orr_simnet_free(team->world);
}

/* Numbers of very different sizes, so that the order of a sum shows in its last bits. */
static inline double team_number(uint64_t seed, uint32_t host, uint32_t op, size_t i)
{
    const uint32_t counter[4] = {(uint32_t)i, op, host, 7};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t drawn[4];
    orr_philox4x32(counter, key, drawn);
    return ((double)drawn[0] - 2147483648.0) / (double)(1u << drawn[1] % 30);
}

/* Numbers of 16 bits are rounded once, from fp32. */
static inline void team_put(const team_op *op, void *at, size_t i, double number)
{
    if (op->dtype == ORR_TEAM_FP64)
        ((double *)at)[i] = number;
    else if (op->dtype == ORR_TEAM_FP32)
        ((float *)at)[i] = (float)number;
    else if (op->dtype == ORR_TEAM_BF16)
        ((uint16_t *)at)[i] = orr_fp32_to_bf16((float)number);
    else
        ((uint16_t *)at)[i] = orr_fp32_to_fp16((float)number);
}

static inline double team_get(const team_op *op, const void *at, size_t i)
{
    if (op->dtype == ORR_TEAM_FP64)
        return ((const double *)at)[i];
    if (op->dtype == ORR_TEAM_FP32)
        return (double)((const float *)at)[i];
    const uint16_t bits = ((const uint16_t *)at)[i];
    return (double)(op->dtype == ORR_TEAM_BF16 ? orr_bf16_to_fp32(bits) : orr_fp16_to_fp32(bits));
}

/* As the member has it: rounded to the dtype. FP16 has no numbers above 65,504. */
static inline double team_input(const team_op *op, uint64_t seed, uint32_t host, uint32_t k,
                                size_t i)
{
    char rounded[8];
    const double scale = op->dtype == ORR_TEAM_FP16 ? 1.0 / (1 << 20) : 1;
    team_put(op, rounded, 0, scale * team_number(seed, host, k, i));
    return team_get(op, rounded, 0);
}

static inline void team_fill(ring_team *team, uint64_t seed, ring_member *m, uint32_t k)
{
    const team_op *op = &team->ops[k];
    for (size_t i = 0; i < op->n; i++)
        team_put(op, m->in[k], i, team_input(op, seed, m->host, k, i));
    memset(m->out[k], 0xee, team_bytes(op));
}

static inline bool team_ops(ring_team *team, uint64_t seed, const team_op *ops, uint32_t n_ops)
{
    team->n_ops = n_ops;
    memcpy(team->ops, ops, n_ops * sizeof *ops);
    for (uint32_t i = 0; i < TEAM_MEMBERS; i++)
        for (uint32_t k = 0; k < n_ops && team->members[i].team != NULL; k++) {
            ring_member *m = &team->members[i];
            m->in[k] = orr_malloc(team_bytes(&ops[k]));
            m->out[k] = orr_malloc(team_bytes(&ops[k]));
            m->got[k] = orr_calloc(1, team_bytes(&ops[k]));
            if (m->in[k] == NULL || m->out[k] == NULL || m->got[k] == NULL)
                return false;
            team_fill(team, seed, m, k);
        }
    return true;
}

/* One member enters a ring of these hosts. */
static inline orr_status team_enter(ring_team *team, uint64_t epoch, uint64_t step, ring_member *m)
{
    const char *addresses[TEAM_MEMBERS];
    uint32_t me = 0;
    for (uint32_t i = 0; i < team->n; i++) {
        addresses[i] = orr_ring_address(team->members[team->hosts[i]].ring);
        if (team->hosts[i] == m->host)
            me = i;
    }
    m->reduced = m->broken = 0;
    m->why[0] = '\0';
    return orr_ring_form(m->ring, epoch, step, addresses, team->n, me, NULL);
}

static inline bool team_form(ring_team *team, uint64_t epoch, uint64_t step)
{
    for (uint32_t i = 0; i < team->n; i++)
        if (team_enter(team, epoch, step, &team->members[team->hosts[i]]) != ORR_OK)
            return false;
    return true;
}

static inline bool team_post(ring_member *m)
{
    const uint32_t k = m->posted++;
    const team_op *op = &m->team->ops[k];
    const bool zeros = op->zeros >> m->host & 1;
    uint32_t number;
    return orr_ring_post(m->ring, op->dtype, zeros ? NULL : m->in[k], m->out[k], op->n, &number,
                         NULL) == ORR_OK &&
           number == k;
}

static inline bool team_post_all(ring_team *team)
{
    for (uint32_t i = 0; i < team->n; i++)
        while (team->members[team->hosts[i]].posted < team->n_ops)
            if (!team_post(&team->members[team->hosts[i]]))
                return false;
    return true;
}

static inline bool team_is_reduced(const ring_team *team)
{
    for (uint32_t i = 0; i < team->n; i++)
        if (team->members[team->hosts[i]].reduced < team->n_ops)
            return false;
    return true;
}

/* For a minute of the world, at most. */
static inline void team_run(ring_team *team)
{
    const int64_t until_ns = orr_simnet_now_ns(team->world) + INT64_C(60000000000);
    while (!team_is_reduced(team) && orr_simnet_step(team->world, until_ns))
        ;
}

/* Which shard number i of an operation is in: the place in the ring where its sum begins. */
static inline uint32_t team_shard(const ring_team *team, const team_op *op, size_t i)
{
    const size_t each = team->chunk_bytes / orr_ring_sum_bytes(op->dtype) * team->n;
    const size_t begin = i / each * each, at = i - begin;
    const size_t here = op->n - begin < each ? op->n - begin : each;
    const size_t small = here / team->n, large = here % team->n;
    return (uint32_t)(at < large * (small + 1) ? at / (small + 1)
                                               : large + (at - large * (small + 1)) / small);
}

static inline void team_sum(const ring_team *team, uint64_t seed, uint32_t k, size_t i, void *ret)
{
    const team_op *op = &team->ops[k];
    const uint32_t first = team_shard(team, op, i);
    double sum = 0;
    for (uint32_t j = 0; j < team->n; j++) {
        const uint32_t host = team->hosts[(first + j) % team->n];
        if (op->zeros >> host & 1)
            continue;
        const double x = team_input(op, seed, host, k, i);
        if (j == 0) /* -0 stays -0 */
            sum = x;
        else
            sum = op->dtype == ORR_TEAM_FP64 ? sum + x : (double)((float)sum + (float)x);
    }
    team_put(op, ret, 0, sum);
}

/* What is wrong with the result of a member, for a person; NULL: nothing. */
static inline const char *team_wrong_of(const ring_team *team, uint64_t seed, const ring_member *m)
{
    static char text[200];
    const ring_member *one = &team->members[team->hosts[0]];
    if (m->reduced != team->n_ops || m->broken > 0) {
        snprintf(text, sizeof text, "host %u: %u of %u reduced, broken %u: %s", m->host, m->reduced,
                 team->n_ops, m->broken, m->why);
        return text;
    }
    for (uint32_t k = 0; k < team->n_ops; k++) {
        const team_op *op = &team->ops[k];
        const size_t size = team_bytes(op) / (op->n > 0 ? op->n : 1);
        char sum[8];
        for (size_t i = 0; i < op->n; i++) {
            team_sum(team, seed, k, i, sum);
            if (memcmp(m->got[k] + i * size, sum, size) == 0)
                continue;
            snprintf(text, sizeof text, "host %u, operation %u, number %zu", m->host, k, i);
            return text;
        }
    }
    if (orr_ring_digest(m->ring) != orr_ring_digest(one->ring))
        return "digests differ";
    return m->why[0] != '\0' ? m->why : NULL;
}

static inline const char *team_wrong(const ring_team *team, uint64_t seed)
{
    const char *wrong = NULL;
    for (uint32_t i = 0; i < team->n && wrong == NULL; i++)
        wrong = team_wrong_of(team, seed, &team->members[team->hosts[i]]);
    if (wrong == NULL && orr_simnet_changed_payloads(team->world) > 0)
        wrong = "memory was changed before it was sent";
    return wrong;
}

#endif /* TESTS_RING_TEAM_H */
