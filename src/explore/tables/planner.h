/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPLORE_TABLES_PLANNER_H
#define ORR_EXPLORE_TABLES_PLANNER_H

#include <orrery/table_planner.h>

#include "base/clock.h"

/* The planner's problem: every table has candidates; a candidate is a kind of sharding with numbers
 * of parts. One is chosen, and its shards go to different ranks, those of a column part to one host
 * where the kind says so. Makespan scheduling of unrelated jobs, with memory as a second dimension.
 */

/* Parts of a table: shard i has row part i % rows of column part i / rows. */
typedef struct orr_table_split {
    uint8_t kind; /* orr_embedding_sharding */
    uint32_t columns, rows;
} orr_table_split;
static inline uint32_t orr_split_shards(const orr_table_split *split)
{
    return split->kind == ORR_SHARDING_DATA ? 0 : split->columns * split->rows;
}

/* Transfers of a stage that are collectives of their own: the slowest rank of each is another. */
enum {
    ORR_TABLE_TRANSFER_HOST_BAGS,
    ORR_TABLE_TRANSFER_HOST_GRADIENTS,
    ORR_TABLE_TRANSFERS,
};
typedef struct orr_table_price {
    double stage_ns[ORR_TABLE_STAGES];
    double apart_ns[ORR_TABLE_TRANSFERS]; /* of BAGS, of GRADIENTS */
    double bytes;                         /* of memory */
    double touched_bytes, repeated_bytes; /* of rows: looked up for the first time, and again */
} orr_table_price;
static inline double orr_table_price_ns(const orr_table_price *price)
{
    double sum = 0;
    for (int s = 0; s < ORR_TABLE_STAGES; s++)
        sum += price->stage_ns[s];
    return sum;
}
/* Price of shard i of a table on its rank; of what every rank pays alike: by the options' pricing,
 * by stages, and in TorchRec's terms, which are without memory. */
void orr_table_shard_price_of(const orr_table_planner_options *o, uint32_t table,
                              const orr_table_split *split, uint32_t i, orr_table_price *ret);
void orr_table_shared_price_of(const orr_table_planner_options *o, uint32_t table,
                               const orr_table_split *split, orr_table_price *ret);
void orr_table_shard_price(const orr_table_planner_options *o, uint32_t table,
                           const orr_table_split *split, uint32_t i, orr_table_price *ret);
void orr_table_shared_price(const orr_table_planner_options *o, uint32_t table,
                            const orr_table_split *split, orr_table_price *ret);
void orr_torchrec_shard_price(const orr_table_planner_options *o, uint32_t table,
                              const orr_table_split *split, uint32_t i, orr_table_price *ret);
void orr_torchrec_shared_price(const orr_table_planner_options *o, uint32_t table,
                               const orr_table_split *split, orr_table_price *ret);
/* Share of repeated lookups that caches miss, from all that the tables' rows in them take. */
double orr_table_miss_frac(const orr_table_planner_options *o);
/* How much longer lookups take, beside what the mean rank misses, on a rank that touches so many
 * bytes of rows. */
double orr_table_more_misses_ns(const orr_table_costs *costs, double touched_bytes,
                                double repeated_bytes);
/* Latencies of a step's exchanges; of all collectives that tables of some kinds (bit k: kind k)
 * need. */
double orr_table_latency_ns(const orr_table_planner_options *o);
double orr_table_kind_latency_ns(const orr_table_planner_options *o, uint32_t kinds);

typedef struct orr_table_candidate {
    orr_table_split split;
    uint32_t n; /* shards */
    bool in_host;
    const double *ns, *bytes; /* shape (n): of each shard */
    double shared_ns, shared_bytes;
    double sum_ns, sum_bytes, largest_ns, largest_bytes; /* over its shards */
} orr_table_candidate;

typedef struct orr_table_problem {
    const orr_table_planner_options *o;
    uint32_t n, ranks, host_ranks;
    const orr_table_candidate *candidates; /* by table */
    const uint32_t *first;                 /* shape (n + 1), in candidates */
    const struct orr_table_dropped {
        double mean_ns, bytes; /* bytes 0: none */
        uint8_t kind;
    } * dropped;            /* shape (n): the cheapest candidate that fits no rank's memory */
    uint32_t most_shards;   /* of a candidate */
    double capacity;        /* of memory, bytes; INFINITY: no limit */
    double least_shared_ns; /* sums over tables of the least of any candidate */
    double least_shared_bytes;
    const double *table_shared_ns; /* shape (n): least shared costs of each table */
} orr_table_problem;
orr_status orr_table_candidate_make(const orr_table_planner_options *o, uint32_t table,
                                    const orr_table_split *split, orr_arena *arena,
                                    orr_table_candidate *ret, orr_error *err) ORR_MUST_CHECK;
/* `ret_refused`: table without a candidate that fits any rank, else UINT32_MAX. */
orr_status orr_table_problem_make(const orr_table_planner_options *o, orr_arena *arena,
                                  orr_table_problem *ret, uint32_t *ret_refused, double *ret_bytes,
                                  orr_error *err) ORR_MUST_CHECK;

/* Lower bound of any plan's time, latencies left out. */
typedef struct orr_table_bound {
    double ns;
    double ns_per_byte;     /* dual of memory: what a byte of every rank is worth */
    uint32_t largest_table; /* whose shards alone need as long; UINT32_MAX: the mean of ranks */
    bool infeasible;        /* all ranks together have too little memory */
} orr_table_bound;
orr_table_bound orr_table_bound_of(const orr_table_problem *p);
/* What the mean rank takes at least, of plans whose largest shards fit into `most_ns`, and the
 * price of memory at which it is found. INFINITY: there are none. */
double orr_table_relaxation(const orr_table_problem *p, double most_ns, double *ret_ns_per_byte);
/* The candidate of a table with the least price per rank, memory included, among those whose
 * largest shard fits into `most_ns`; UINT32_MAX: none. */
uint32_t orr_table_cheapest(const orr_table_problem *p, uint32_t table, double most_ns,
                            double ns_per_byte);
/* What a candidate adds to the mean rank. */
static inline double orr_table_mean_ns(const orr_table_problem *p, const orr_table_candidate *c)
{
    return c->shared_ns + c->sum_ns / p->ranks;
}
static inline double orr_table_mean_bytes(const orr_table_problem *p, const orr_table_candidate *c)
{
    return c->shared_bytes + c->sum_bytes / p->ranks;
}

/* An assignment of shards to ranks. Tables are placed and removed one at a time. */
enum { ORR_TABLE_UNPLACED = UINT32_MAX };
typedef struct orr_table_assignment {
    uint32_t *choice;     /* shape (tables): candidate, or ORR_TABLE_UNPLACED */
    uint32_t *rank;       /* shape (tables, most_shards) */
    double *load, *bytes; /* shape (ranks): of shards; shared costs are beside them */
    double shared_ns, shared_bytes;
} orr_table_assignment;
orr_status orr_table_assignment_make(const orr_table_problem *p, orr_arena *arena,
                                     orr_table_assignment *ret, orr_error *err) ORR_MUST_CHECK;
void orr_table_assignment_copy(const orr_table_problem *p, const orr_table_assignment *from,
                               orr_table_assignment *to);
void orr_table_assignment_clear(const orr_table_problem *p, orr_table_assignment *ret);
/* The time of the busiest rank; INFINITY: a table is not placed. */
double orr_table_assignment_ns(const orr_table_problem *p, const orr_table_assignment *a);
static inline uint32_t *orr_table_ranks_of(const orr_table_problem *p,
                                           const orr_table_assignment *a, uint32_t table)
{
    return a->rank + (size_t)table * p->most_shards;
}

/* Workspace of placing. */
typedef struct orr_table_placer {
    uint64_t *taken; /* shape (ranks): when a table last took the rank */
    uint64_t now;
    struct orr_table_rank_key {
        double key;
        uint32_t rank;
    } * order;       /* shape (ranks) */
    uint32_t *shard; /* shape (most_shards) */
    double load_ns;  /* of a rank, to weigh time against memory; 0: time alone counts */
} orr_table_placer;
orr_status orr_table_placer_make(const orr_table_problem *p, orr_arena *arena,
                                 orr_table_placer *ret, orr_error *err) ORR_MUST_CHECK;
/* Places a table's shards on the ranks of least load that have room, the largest first. False: no
 * room; nothing is changed. */
bool orr_table_place(const orr_table_problem *p, orr_table_assignment *a, orr_table_placer *placer,
                     uint32_t table, uint32_t candidate);
void orr_table_remove(const orr_table_problem *p, orr_table_assignment *a, uint32_t table);
/* Puts a removed table back where it was: `candidate` on `ranks`, shape (its shards). */
void orr_table_restore(const orr_table_problem *p, orr_table_assignment *a, uint32_t table,
                       uint32_t candidate, const uint32_t *ranks);

/* Whether the shard of a slot, table * most_shards + shard, may go to another rank, beside those
 * that its table has. */
bool orr_table_may_go(const orr_table_problem *p, const orr_table_assignment *a, uint32_t slot,
                      uint32_t from, uint32_t to);

/* Longest processing time first (Graham, SIAM J. Appl. Math. 17(2), 1969): tables of `choice`,
 * shape (tables), in an order. The first `n_heavy` go to the rank whose share of memory or of
 * `load_ns`, the larger of both, is least; the others to that of least load. False: one found no
 * room. */
bool orr_table_pack(const orr_table_problem *p, const uint32_t *choice, orr_table_placer *placer,
                    const uint32_t *order, uint32_t n_heavy, double load_ns,
                    orr_table_assignment *ret);

/* The differencing method (Karmarkar and Karp, 1982; of R numbers at once: Korf, IJCAI 2009), for
 * the tables of one shard; the others stay where `a` has them. False: that is no better, exceeds
 * memory, or there are too many tables; `a` is then as it was. */
bool orr_table_difference(const orr_table_problem *p, orr_table_assignment *a,
                          orr_table_assignment *spare);

/* Local search from an assignment: shards of the busiest rank are moved or swapped, and its tables
 * are given other candidates, as long as that shortens the step. Stops at `enough_ns`. */
typedef struct orr_table_budget {
    int64_t until_ns;          /* of the monotonic clock; INT64_MAX: no limit */
    const volatile bool *stop; /* or NULL */
    uint64_t moves, nodes;
} orr_table_budget;
static inline bool orr_table_budget_is_over(const orr_table_budget *budget)
{
    return (budget->stop != NULL && *budget->stop) ||
           orr_clock_now_ns(&orr_clock_monotonic) >= budget->until_ns;
}
orr_status orr_table_improve(const orr_table_problem *p, orr_table_placer *placer, double enough_ns,
                             orr_table_budget *budget, orr_table_assignment *a,
                             orr_error *err) ORR_MUST_CHECK;

/* Local search for stages that are balanced: no rank becomes busier than `most_ns`, shared costs
 * included. */
orr_status orr_table_balance(const orr_table_problem *p, double most_ns, orr_table_budget *budget,
                             orr_table_assignment *a, orr_error *err) ORR_MUST_CHECK;

/* Branch and bound, depth first, from an incumbent that it improves. `ret_exhausted`: no plan is
 * better. Plans of thousands of shards are left as they are. */
orr_status orr_table_branch(const orr_table_problem *p, orr_table_budget *budget, orr_arena *arena,
                            orr_table_assignment *incumbent, bool *ret_exhausted,
                            orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_EXPLORE_TABLES_PLANNER_H */
