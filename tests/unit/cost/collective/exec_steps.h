/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_COST_EXEC_STEPS_H
#define TESTS_COST_EXEC_STEPS_H

#include "exec.h"

#include "cost/collective/collective.h"

/* The messages of each step of each algorithm, for exec.h; and the closed form beside them. */

/* Members of a line: devices that differ in their unit of one level. */
typedef struct line {
    exec *x;
    uint32_t k, n, first, stride;
} line;

static inline void send(const line *l, uint32_t from, uint32_t to, double bytes)
{
    exec_message(l->x, l->first + from % l->n * l->stride, l->first + to % l->n * l->stride, bytes,
                 false);
}

static inline void shift(const line *l, uint32_t d, double bytes)
{
    for (uint32_t i = 0; i < l->n; i++)
        send(l, i, i + d, bytes);
}

/* One step of rings: on a mesh n - 1 rings at once send to every other member in each step. */
static inline void around(const line *l, double bytes)
{
    const exec_level *level = &l->x->level[l->k];
    if (level->size > 2 && level->topology == ORR_TOPOLOGY_FULLY_CONNECTED) {
        for (uint32_t d = 1; d < l->n; d++)
            shift(l, d, bytes / (l->n - 1));
    } else if (level->size > 2 && level->topology == ORR_TOPOLOGY_RING &&
               level->used == level->size) {
        shift(l, 1, bytes / 2);
        shift(l, l->n - 1, bytes / 2);
    } else {
        shift(l, 1, bytes);
    }
}

static inline double lesser(double a, double b)
{
    return a < b ? a : b;
}

/* The messages of step `step`; false: there is none. S bytes, the root is member 0. */
static inline bool gather_step(const line *l, orr_algorithm algorithm, double S, uint32_t step)
{
    const uint32_t n = l->n, d = 1u << step;
    switch (algorithm) {
    case ORR_ALGORITHM_RING:
        if (step >= n - 1)
            return false;
        around(l, S / n);
        return true;
    case ORR_ALGORITHM_RECURSIVE_DOUBLING:
    case ORR_ALGORITHM_HALVING_DOUBLING:
        if (d >= n)
            return false;
        shift(l, d, lesser(d, n - d) * S / n);
        return true;
    default: /* direct */
        for (uint32_t e = 1; step == 0 && e < n; e++)
            shift(l, e, S / n);
        return step == 0;
    }
}

static inline bool exchange_step(const line *l, double S, uint32_t step)
{
    uint32_t p = 1, log2p = 0;
    for (; 2 * p <= l->n; p *= 2)
        log2p++;
    const uint32_t rest = l->n - p, fold = rest > 0;
    if (fold && (step == 0 || step == log2p + 1)) {
        for (uint32_t i = 0; i < rest; i++)
            send(l, 2 * i + (step > 0), 2 * i + (step == 0), S);
        return true;
    }
    if (step >= log2p + fold)
        return false;
    for (uint32_t i = 0; i < p; i++) {
        const uint32_t j = i ^ 1u << (step - fold);
        send(l, i < rest ? 2 * i + 1 : i + rest, j < rest ? 2 * j + 1 : j + rest, S);
    }
    return true;
}

static inline bool reduce_all_step(const line *l, orr_algorithm algorithm, double S, uint32_t step)
{
    const uint32_t n = l->n;
    uint32_t steps = algorithm == ORR_ALGORITHM_DIRECT ? 1 : n - 1;
    if (algorithm == ORR_ALGORITHM_RECURSIVE_DOUBLING)
        return exchange_step(l, S, step);
    if (algorithm == ORR_ALGORITHM_HALVING_DOUBLING)
        for (steps = 0; 1u << steps < n; steps++) {
        }
    if (step < steps && algorithm == ORR_ALGORITHM_HALVING_DOUBLING)
        step = steps - 1 - step; /* the reduce-scatter: the gather backwards */
    else if (step >= steps)
        step -= steps;
    return gather_step(l, algorithm, S, step);
}

static inline bool all_to_all_step(const line *l, orr_algorithm algorithm, double S, uint32_t step)
{
    const uint32_t n = l->n, d = 1u << step;
    double blocks = 0;
    switch (algorithm) {
    case ORR_ALGORITHM_RING:
        if (step + 1 >= n)
            return false;
        shift(l, step + 1, S / n);
        return true;
    case ORR_ALGORITHM_RECURSIVE_DOUBLING:
        for (uint32_t i = 0; i < n; i++)
            blocks += (i & d) != 0;
        if (d >= n)
            return false;
        shift(l, d, blocks * S / n);
        return true;
    default:
        return gather_step(l, ORR_ALGORITHM_DIRECT, S, step);
    }
}

/* From 0: half the distance in each step. */
static inline bool tree_step(const line *l, double S, bool parts, uint32_t step)
{
    uint32_t log2n = 0;
    while (1u << log2n < l->n)
        log2n++;
    if (step >= log2n)
        return false;
    const uint32_t d = 1u << (log2n - 1 - step);
    for (uint32_t i = 0; i + d < l->n; i += 2 * d)
        send(l, i, i + d, parts ? lesser(d, l->n - i - d) * S / l->n : S);
    return true;
}

static inline bool broadcast_step(const line *l, orr_algorithm algorithm, double S, uint32_t step)
{
    uint32_t log2n = 0;
    while (1u << log2n < l->n)
        log2n++;
    switch (algorithm) {
    case ORR_ALGORITHM_TREE:
        return tree_step(l, S, false, step);
    case ORR_ALGORITHM_HALVING_DOUBLING:
        return step < log2n ? tree_step(l, S, true, step)
                            : gather_step(l, ORR_ALGORITHM_HALVING_DOUBLING, S, step - log2n);
    default: /* direct */
        for (uint32_t i = 1; step == 0 && i < l->n; i++)
            send(l, 0, i, S);
        return step == 0;
    }
}

static inline bool scatter_step(const line *l, orr_algorithm algorithm, double S, uint32_t step)
{
    if (algorithm == ORR_ALGORITHM_TREE)
        return tree_step(l, S, true, step);
    for (uint32_t i = 1; step == 0 && i < l->n; i++)
        send(l, 0, i, S / l->n);
    return step == 0;
}

static inline bool level_step(const line *l, orr_collective collective, orr_algorithm algorithm,
                              double S, uint32_t step)
{
    switch (collective) {
    case ORR_COLL_ALL_REDUCE:
        return reduce_all_step(l, algorithm, S, step);
    case ORR_COLL_ALL_GATHER:
    case ORR_COLL_REDUCE_SCATTER: /* backwards: the same messages the other way */
        return gather_step(l, algorithm, S, step);
    case ORR_COLL_ALL_TO_ALL:
        return all_to_all_step(l, algorithm, S, step);
    case ORR_COLL_BROADCAST:
    case ORR_COLL_REDUCE:
        return broadcast_step(l, algorithm, S, step);
    default:
        return scatter_step(l, algorithm, S, step);
    }
}

static inline bool is_rooted(orr_collective collective)
{
    return collective == ORR_COLL_BROADCAST || collective == ORR_COLL_REDUCE ||
           collective == ORR_COLL_SCATTER || collective == ORR_COLL_GATHER;
}

/* All lines of a level, step by step. */
static inline void on_level(exec *x, uint32_t k, orr_collective collective, orr_algorithm algorithm,
                            double S)
{
    const uint32_t stride = exec_below(x, k), n = x->level[k].used;
    const bool rooted = is_rooted(collective);
    if (n < 2)
        return;
    for (uint32_t step = 0;; step++) {
        bool more = false;
        for (uint32_t first = 0; first < x->n; first++) {
            const line l = {x, k, n, first, stride};
            if (first / stride % n == 0 && (!rooted || first % stride == 0))
                more |= level_step(&l, collective, algorithm, S, step);
        }
        if (!more)
            return;
        exec_step(x);
        /* Who folded, and the root, send one after another though no message waits for another;
         * and on a line the longest way of each step is another member's. */
        const bool is_line = x->level[k].topology == ORR_TOPOLOGY_RING && n < x->level[k].size;
        const bool on_ring = algorithm == ORR_ALGORITHM_RING && collective != ORR_COLL_ALL_TO_ALL;
        if ((algorithm == ORR_ALGORITHM_RECURSIVE_DOUBLING && (n & (n - 1)) != 0) || rooted ||
            (is_line && !on_ring))
            exec_meet(x);
    }
}

static inline double form_ns(const exec *x, orr_collective collective, orr_algorithm algorithm,
                             double S, bool *ret_serves)
{
    orr_network network;
    orr_span span;
    orr_coll_schedule schedule;
    exec_network(x, &network, &span);
    *ret_serves = orr_coll_schedule_of(&network, &span, collective, algorithm, S, &schedule);
    double ns = 0;
    for (uint32_t i = 0; *ret_serves && i < schedule.n; i++)
        ns += orr_coll_phase_ns(&network, &schedule.phases[i], NULL);
    return ns;
}

static inline void agree(const exec *x, orr_collective collective, orr_algorithm algorithm,
                         double S)
{
    bool serves;
    const double want = exec_ns(x), ns = form_ns(x, collective, algorithm, S, &serves);
    if (serves && fabs(ns - want) <= 1e-9 * want)
        return;
    fail_msg("%s %s, %u levels of %u %u %u (of %u %u %u), topology %u %u %u, %.0f bytes: "
             "%s %.6f ns, executed %.6f ns",
             orr_collective_name(collective), orr_algorithm_name(algorithm), x->n_levels,
             x->level[0].used, x->level[1].used, x->level[2].used, x->level[0].size,
             x->level[1].size, x->level[2].size, x->level[0].topology, x->level[1].topology,
             x->level[2].topology, S, serves ? "closed form" : "not served", ns, want);
}

typedef struct served {
    orr_collective collective;
    orr_algorithm algorithm;
    bool switch_only, power_of_two_on_rings;
} served;

/* What goes step by step and level by level; the pipelined ones follow below. */
static const served SERVED[] = {
    {ORR_COLL_ALL_REDUCE, ORR_ALGORITHM_RING, false, false},
    {ORR_COLL_ALL_REDUCE, ORR_ALGORITHM_RECURSIVE_DOUBLING, false, true},
    {ORR_COLL_ALL_REDUCE, ORR_ALGORITHM_HALVING_DOUBLING, false, false},
    {ORR_COLL_ALL_REDUCE, ORR_ALGORITHM_DIRECT, false, false},
    {ORR_COLL_ALL_GATHER, ORR_ALGORITHM_RING, false, false},
    {ORR_COLL_ALL_GATHER, ORR_ALGORITHM_RECURSIVE_DOUBLING, false, false},
    {ORR_COLL_REDUCE_SCATTER, ORR_ALGORITHM_HALVING_DOUBLING, false, false},
    {ORR_COLL_REDUCE_SCATTER, ORR_ALGORITHM_DIRECT, false, false},
    {ORR_COLL_ALL_TO_ALL, ORR_ALGORITHM_RING, false, false},
    {ORR_COLL_ALL_TO_ALL, ORR_ALGORITHM_RECURSIVE_DOUBLING, false, false},
    {ORR_COLL_ALL_TO_ALL, ORR_ALGORITHM_DIRECT, false, false},
    {ORR_COLL_BROADCAST, ORR_ALGORITHM_TREE, true, false},
    {ORR_COLL_BROADCAST, ORR_ALGORITHM_HALVING_DOUBLING, true, false},
    {ORR_COLL_BROADCAST, ORR_ALGORITHM_DIRECT, false, false},
    {ORR_COLL_REDUCE, ORR_ALGORITHM_TREE, true, false},
    {ORR_COLL_SCATTER, ORR_ALGORITHM_TREE, true, false},
    {ORR_COLL_SCATTER, ORR_ALGORITHM_DIRECT, false, false},
    {ORR_COLL_GATHER, ORR_ALGORITHM_DIRECT, false, false},
};
enum { N_SERVED = sizeof SERVED / sizeof *SERVED };

static inline bool applies(const served *s, const exec_level *level)
{
    const bool is_switch = level->topology == ORR_TOPOLOGY_SWITCH || level->size == 2;
    if (s->switch_only && !is_switch)
        return false;
    return !s->power_of_two_on_rings || is_switch || level->topology != ORR_TOPOLOGY_RING ||
           (level->used & (level->used - 1)) == 0;
}

/* Several levels. Units and topologies; links of each level four times slower than below unless
 * they are one network. */
static const uint32_t SHAPES[][3] = {{4, 2, 1}, {3, 4, 1}, {8, 4, 1}, {5, 3, 1}, {3, 2, 2},
                                     {4, 3, 2}, {3, 3, 3}, {4, 2, 5}, {4, 4, 4}};
enum { N_SHAPES = sizeof SHAPES / sizeof *SHAPES };

static inline exec levels_of(int shape, uint32_t topologies, bool one_network)
{
    exec x = {.n_levels = SHAPES[shape][2] > 1 ? 3 : 2};
    double bytes_per_ns = 450;
    for (uint32_t k = 0; k < 3; k++, topologies /= 3) {
        const uint32_t used = SHAPES[shape][k];
        x.level[k] = (exec_level){.size = used,
                                  .used = used,
                                  .topology = topologies % 3,
                                  .alpha_ns = 700 * (k + 1),
                                  .bytes_per_ns = bytes_per_ns,
                                  .oversubscription = k > 0 ? k + 0.5 : 1,
                                  .network = one_network ? 0 : k};
        bytes_per_ns /= one_network ? 1 : 5;
    }
    return x;
}

#endif /* TESTS_COST_EXEC_STEPS_H */
