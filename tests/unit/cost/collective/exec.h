/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_COST_EXEC_H
#define TESTS_COST_EXEC_H

/* A collective carried out message by message, as the reference of the closed forms.
 *
 * A machine of up to three levels with every link of its own: ports of devices, up and down
 * links of units, the two directions of rings, each pair of a full mesh. A message takes every
 * link on its way, and its latency after the messages that it waits for. Time is the longest
 * chain of latencies, and, step by step, the bytes of the busiest link over its bandwidth; steps
 * of what is pipelined, and levels that work at the same time, are one step. Written apart from
 * src/cost: it knows no formula. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <orrery/cost.h>

enum { EXEC_DEVICES = 128, EXEC_LEVELS = 3, EXEC_UNITS = 40 };

typedef struct exec_level {
    uint32_t size, used; /* units that it has, and that take part: the first ones */
    uint32_t topology;
    double alpha_ns, bytes_per_ns, oversubscription;
    uint32_t network; /* levels of one number share their ports */
} exec_level;

typedef struct exec {
    uint32_t n_levels, n; /* n devices take part */
    exec_level level[EXEC_LEVELS];
    double chain_ns[EXEC_DEVICES], next_ns[EXEC_DEVICES];
    double port[EXEC_LEVELS][EXEC_DEVICES][2];
    double unit[EXEC_LEVELS][EXEC_DEVICES][2];
    double pair[EXEC_LEVELS][EXEC_DEVICES][EXEC_UNITS];
    double transfer_ns;
} exec;

static inline uint32_t exec_below(const exec *x, uint32_t k)
{
    uint32_t below = 1;
    for (uint32_t j = 0; j < k; j++)
        below *= x->level[j].used;
    return below;
}

static inline void exec_start(exec *x)
{
    memset(x->chain_ns, 0, sizeof x->chain_ns);
    memset(x->next_ns, 0, sizeof x->next_ns);
    memset(x->port, 0, sizeof x->port);
    memset(x->unit, 0, sizeof x->unit);
    memset(x->pair, 0, sizeof x->pair);
    x->transfer_ns = 0;
    x->n = exec_below(x, x->n_levels);
    assert_true(x->n <= EXEC_DEVICES);
}

/* A message within a step, or (`at_once`) after what its sender has received within it. */
static inline void exec_message(exec *x, uint32_t src, uint32_t dst, double bytes, bool at_once)
{
    uint32_t top = 0, hops = 1;
    while (src / exec_below(x, top + 1) != dst / exec_below(x, top + 1))
        top++;
    for (uint32_t k = 0; k <= top; k++) {
        const exec_level *level = &x->level[k];
        const uint32_t below = exec_below(x, k), from = src / below, to = dst / below;
        const bool is_switch = level->topology == ORR_TOPOLOGY_SWITCH || level->size == 2;
        if (k < top && (level->network != x->level[top].network || !is_switch))
            continue;
        x->port[k][src][0] += bytes;
        x->port[k][dst][1] += bytes;
        if (is_switch) {
            x->unit[k][from][0] += bytes;
            x->unit[k][to][1] += bytes;
        } else if (level->topology == ORR_TOPOLOGY_FULLY_CONNECTED) {
            x->pair[k][from][to % level->used] += bytes;
        } else { /* units are side by side; beyond the used ones the ring goes a long way round */
            const int32_t n = (int32_t)level->used, line = level->used < level->size;
            const int32_t a = (int32_t)(from % level->used), b = (int32_t)(to % level->used);
            const int32_t ahead = (b - a + n) % n, back = n - ahead;
            const bool up = line ? b > a : ahead != back ? ahead < back : a % 2 == 0;
            hops = (uint32_t)(line ? abs(b - a) : up ? ahead : back);
            const uint32_t first = from - from % level->used;
            for (int32_t i = 0, at = a; i < (int32_t)hops; i++) {
                x->unit[k][first + (uint32_t)at][up ? 0 : 1] += bytes;
                at = (at + (up ? 1 : n - 1)) % n;
            }
        }
    }
    const double done_ns = x->chain_ns[src] + hops * x->level[top].alpha_ns;
    double *chain = at_once ? x->chain_ns : x->next_ns;
    if (done_ns > chain[dst])
        chain[dst] = done_ns;
}

/* The messages of the step have arrived: later ones may wait for them. */
static inline void exec_arrive(exec *x)
{
    for (uint32_t i = 0; i < x->n; i++)
        if (x->next_ns[i] > x->chain_ns[i])
            x->chain_ns[i] = x->next_ns[i];
}

/* The step has carried its bytes: the busiest link says how long. */
static inline void exec_carry(exec *x)
{
    double most_ns = 0;
    for (uint32_t k = 0; k < x->n_levels; k++) {
        const exec_level *level = &x->level[k];
        const double b = level->bytes_per_ns;
        const double shared = b * exec_below(x, k) / level->oversubscription;
        const bool is_ring = level->topology == ORR_TOPOLOGY_RING && level->size > 2;
        for (uint32_t i = 0; i < x->n; i++)
            for (int way = 0; way < 2; way++) {
                most_ns = fmax(most_ns, x->port[k][i][way] / b);
                most_ns = fmax(most_ns, x->unit[k][i][way] / (is_ring ? shared / 2 : shared));
            }
        for (uint32_t i = 0; i < x->n; i++)
            for (uint32_t j = 0; j < EXEC_UNITS; j++)
                most_ns = fmax(most_ns, x->pair[k][i][j] / (shared / (level->size - 1)));
    }
    x->transfer_ns += most_ns;
    memset(x->port, 0, sizeof x->port);
    memset(x->unit, 0, sizeof x->unit);
    memset(x->pair, 0, sizeof x->pair);
}

static inline void exec_step(exec *x)
{
    exec_arrive(x);
    exec_carry(x);
}

/* All wait for all. */
static inline void exec_meet(exec *x)
{
    double most_ns = 0;
    for (uint32_t i = 0; i < x->n; i++)
        most_ns = fmax(most_ns, x->chain_ns[i]);
    for (uint32_t i = 0; i < x->n; i++)
        x->chain_ns[i] = most_ns;
}

static inline double exec_ns(const exec *x)
{
    double chain_ns = 0;
    for (uint32_t i = 0; i < x->n; i++)
        chain_ns = fmax(chain_ns, x->chain_ns[i]);
    return chain_ns + x->transfer_ns;
}

/* The same machine for the closed forms. */
static inline void exec_network(const exec *x, orr_network *network, orr_span *span)
{
    memset(network, 0, sizeof *network);
    memset(span, 0, sizeof *span);
    network->n_levels = span->n_levels = x->n_levels;
    span->n_ranks = x->n;
    span->even = true;
    for (uint32_t k = 0; k < x->n_levels; k++) {
        const exec_level *level = &x->level[k];
        network->size[k] = level->size;
        network->topology[k] = (uint8_t)level->topology;
        network->scale_up[k] = level->network % 2 == 0; /* neighbours differ if their networks do */
        network->oversubscription[k] = level->oversubscription;
        network->levels[k].alpha_ns[ORR_PROTOCOL_BANDWIDTH] = level->alpha_ns;
        network->levels[k].bytes_per_s[ORR_PROTOCOL_BANDWIDTH] = level->bytes_per_ns * 1e9;
        span->width[k] = level->used;
        span->top = level->used > 1 ? k : span->top;
    }
}

#endif /* TESTS_COST_EXEC_H */
