/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "explore/tables/solve.h"

/* What a plan comes to: the placements, each rank's stages, and why each table went where it is. */

static orr_status make_plan(const orr_table_problem *p, const orr_table_assignment *a,
                            orr_arena *arena, orr_embedding_plan *ret, orr_error *err)
{
    const orr_table_planner_options *o = p->o;
    orr_embedding_plan plan = {.ranks = p->ranks,
                               .host_ranks = o->host_ranks,
                               .groups = 1,
                               .synchronize = 1,
                               .forward = o->forward,
                               .backward = o->backward,
                               .pipeline = o->pipeline,
                               .n_tables = p->n,
                               .tables = o->tables};
    orr_embedding_placement *placements = orr_arena_array(arena, orr_embedding_placement, p->n);
    if (placements == NULL)
        return orr_fail_memory(err);
    for (uint32_t t = 0; t < p->n; t++) {
        const orr_table_candidate *c = &p->candidates[a->choice[t]];
        uint32_t *ranks = orr_arena_array(arena, uint32_t, c->n);
        if (ranks == NULL)
            return orr_fail_memory(err);
        memcpy(ranks, orr_table_ranks_of(p, a, t), c->n * sizeof *ranks);
        placements[t] = (orr_embedding_placement){.sharding = c->split.kind,
                                                  .columns = c->split.columns,
                                                  .ranks = ranks,
                                                  .n_ranks = c->n};
    }
    plan.placements = placements;
    ORR_TRY(orr_embedding_plan_shard(&plan, arena, err));
    *ret = plan;
    return ORR_OK;
}

/* What ranks and tables take, while it is added up. */
typedef struct priced {
    orr_table_rank_cost *ranks; /* shape (ranks) */
    struct {
        double ns[ORR_TABLE_TRANSFERS], touched_bytes, repeated_bytes;
    } * apart;                 /* shape (ranks) */
    orr_table_choice *choices; /* shape (tables) */
} priced;

static void add_price(orr_table_rank_cost *to, const orr_table_price *price)
{
    for (int s = 0; s < ORR_TABLE_STAGES; s++) {
        to->stage_ns[s] += price->stage_ns[s];
        to->ns += price->stage_ns[s];
    }
    to->memory_bytes += (int64_t)price->bytes;
}

static uint8_t most_of(const double stage_ns[ORR_TABLE_STAGES])
{
    uint8_t most = 0;
    for (uint8_t s = 1; s < ORR_TABLE_STAGES; s++)
        if (stage_ns[s] > stage_ns[most])
            most = s;
    return most;
}

static void price_table(const orr_table_problem *p, const orr_table_assignment *a, uint32_t table,
                        orr_table_rank_cost *shared, priced *to)
{
    const orr_table_candidate *c = &p->candidates[a->choice[table]];
    const uint32_t *ranks = orr_table_ranks_of(p, a, table);
    double stage_ns[ORR_TABLE_STAGES];
    orr_table_price price;
    orr_table_shared_price_of(p->o, table, &c->split, &price);
    add_price(shared, &price);
    shared->shards += c->n == 0;
    for (int s = 0; s < ORR_TABLE_STAGES; s++)
        stage_ns[s] = price.stage_ns[s] * p->ranks;
    for (uint32_t i = 0; i < c->n; i++) {
        orr_table_shard_price_of(p->o, table, &c->split, i, &price);
        add_price(&to->ranks[ranks[i]], &price);
        to->ranks[ranks[i]].shards++;
        for (int s = 0; s < ORR_TABLE_STAGES; s++)
            stage_ns[s] += price.stage_ns[s];
        for (int k = 0; k < ORR_TABLE_TRANSFERS; k++)
            to->apart[ranks[i]].ns[k] += price.apart_ns[k];
        to->apart[ranks[i]].touched_bytes += price.touched_bytes;
        to->apart[ranks[i]].repeated_bytes += price.repeated_bytes;
    }
    to->choices[table].bound_by = most_of(stage_ns);
}

static void price_ranks(const orr_table_problem *p, const orr_table_assignment *a, priced *to)
{
    orr_table_rank_cost shared = {.ns = 0};
    for (uint32_t t = 0; t < p->n; t++)
        price_table(p, a, t, &shared, to);
    for (uint32_t r = 0; r < p->ranks; r++) {
        for (int s = 0; s < ORR_TABLE_STAGES; s++)
            to->ranks[r].stage_ns[s] += shared.stage_ns[s];
        to->ranks[r].ns += shared.ns;
        to->ranks[r].memory_bytes += shared.memory_bytes;
        to->ranks[r].shards += shared.shards;
    }
}

/* The sum over stages, and over transfers of their own, of the most that any rank takes. */
static double synchronous_ns(const orr_table_problem *p, const orr_table_assignment *a,
                             const priced *by)
{
    double most[ORR_TABLE_STAGES + ORR_TABLE_TRANSFERS] = {0}, sum = 0;
    uint32_t kinds = 0;
    for (uint32_t r = 0; r < p->ranks; r++) {
        double own[ORR_TABLE_STAGES + ORR_TABLE_TRANSFERS];
        memcpy(own, by->ranks[r].stage_ns, sizeof by->ranks[r].stage_ns);
        memcpy(own + ORR_TABLE_STAGES, by->apart[r].ns, sizeof by->apart[r].ns);
        own[ORR_TABLE_STAGE_LOOKUP] += orr_table_more_misses_ns(
            &p->o->costs, by->apart[r].touched_bytes, by->apart[r].repeated_bytes);
        own[ORR_TABLE_STAGE_BAGS] -= by->apart[r].ns[ORR_TABLE_TRANSFER_HOST_BAGS];
        own[ORR_TABLE_STAGE_GRADIENTS] -= by->apart[r].ns[ORR_TABLE_TRANSFER_HOST_GRADIENTS];
        for (int s = 0; s < ORR_TABLE_STAGES + ORR_TABLE_TRANSFERS; s++)
            most[s] = fmax(most[s], own[s]);
    }
    for (int s = 0; s < ORR_TABLE_STAGES + ORR_TABLE_TRANSFERS; s++)
        sum += most[s];
    for (uint32_t t = 0; t < p->n; t++)
        kinds |= 1u << p->candidates[a->choice[t]].split.kind;
    return sum + orr_table_kind_latency_ns(p->o, kinds);
}

/* The best candidate by price, of all kinds but one (ORR_SHARDINGS: of all). */
static const orr_table_candidate *best_of(const orr_table_problem *p, uint32_t table, uint8_t but,
                                          double ns_per_byte)
{
    const orr_table_candidate *best = NULL;
    double least = INFINITY;
    for (uint32_t k = p->first[table]; k < p->first[table + 1]; k++) {
        const orr_table_candidate *c = &p->candidates[k];
        const double price = orr_table_mean_ns(p, c) + ns_per_byte * orr_table_mean_bytes(p, c);
        if (c->split.kind != but && price < least) {
            least = price;
            best = c;
        }
    }
    return best;
}

static bool is_required(const orr_table_problem *p, uint32_t table)
{
    const uint8_t kinds = p->o->kinds != NULL ? p->o->kinds[table] : 0;
    return kinds != 0 && (kinds & (kinds - 1)) == 0;
}

static uint8_t reason_of(const orr_table_problem *p, uint32_t table, const orr_table_candidate *c,
                         double ns_per_byte, double step_ns)
{
    const orr_table_candidate *cheapest = best_of(p, table, ORR_SHARDINGS, 0);
    if (is_required(p, table))
        return ORR_TABLE_REASON_REQUIRED;
    if (p->dropped[table].bytes > 0 && p->dropped[table].mean_ns < orr_table_mean_ns(p, c))
        return ORR_TABLE_REASON_MEMORY;
    if (orr_table_mean_ns(p, c) <= orr_table_mean_ns(p, cheapest) * (1 + 1e-9))
        return ORR_TABLE_REASON_TIME;
    if (p->least_shared_ns + cheapest->largest_ns > step_ns * (1 - 1e-9))
        return ORR_TABLE_REASON_BALANCE;
    return orr_table_mean_ns(p, c) + ns_per_byte * orr_table_mean_bytes(p, c) <
                   orr_table_mean_ns(p, cheapest) + ns_per_byte * orr_table_mean_bytes(p, cheapest)
               ? ORR_TABLE_REASON_MEMORY
               : ORR_TABLE_REASON_PACKING;
}

static const char *why(const orr_table_problem *p, uint32_t table, const orr_table_choice *choice,
                       orr_arena *arena)
{
    const struct orr_table_dropped *dropped = &p->dropped[table];
    const char *bound = orr_table_stage_name((orr_table_stage)choice->bound_by);
    char other[160] = "";
    if (choice->has_other)
        (void)snprintf(other, sizeof other,
                       "; %s would take %.1f us a rank, its largest shard %.1f us",
                       orr_embedding_sharding_name((orr_embedding_sharding)choice->other),
                       choice->other_ns / 1e3, choice->other_largest_shard_ns / 1e3);
    if (choice->reason == ORR_TABLE_REASON_MEMORY && dropped->bytes > 0)
        return orr_arena_printf(arena,
                                "%.1f us a rank, most of it %s; %s needs %.2f GiB on one rank, and "
                                "there are %.2f GiB%s",
                                choice->ns / 1e3, bound,
                                orr_embedding_sharding_name((orr_embedding_sharding)dropped->kind),
                                dropped->bytes / 0x1p30, p->capacity / 0x1p30, other);
    return orr_arena_printf(arena, "%.1f us a rank, most of it %s%s", choice->ns / 1e3, bound,
                            other);
}

static orr_status explain_table(const orr_table_problem *p, uint32_t table,
                                const orr_table_candidate *c, double ns_per_byte, double step_ns,
                                orr_arena *arena, orr_table_choice *ret, orr_error *err)
{
    const orr_table_candidate *other = best_of(p, table, c->split.kind, ns_per_byte);
    ret->ns = orr_table_mean_ns(p, c);
    ret->largest_shard_ns = c->largest_ns;
    ret->memory_bytes = (int64_t)(orr_table_mean_bytes(p, c) * p->ranks);
    ret->reason = reason_of(p, table, c, ns_per_byte, step_ns);
    if (other != NULL) {
        ret->has_other = true;
        ret->other = other->split.kind;
        ret->other_shards = other->n;
        ret->other_ns = orr_table_mean_ns(p, other);
        ret->other_largest_shard_ns = other->largest_ns;
        ret->other_memory_bytes = (int64_t)(orr_table_mean_bytes(p, other) * p->ranks);
    }
    ret->why = why(p, table, ret, arena);
    return ret->why != NULL ? ORR_OK : orr_fail_memory(err);
}

orr_status orr_table_explain(const orr_table_problem *p, const orr_table_assignment *a,
                             double ns_per_byte, orr_arena *arena, orr_table_planning *ret,
                             orr_error *err)
{
    orr_table_rank_cost *ranks = orr_arena_array(arena, orr_table_rank_cost, p->ranks);
    orr_table_choice *choices = orr_arena_array(arena, orr_table_choice, p->n);
    priced by = {.ranks = ranks, .choices = choices};
    by.apart = orr_arena_alloc(arena, p->ranks, sizeof *by.apart, _Alignof(double));
    if (ranks == NULL || choices == NULL || by.apart == NULL)
        return orr_fail_memory(err);
    price_ranks(p, a, &by);
    double step_ns = 0;
    for (uint32_t r = 0; r < p->ranks; r++)
        step_ns = fmax(step_ns, ranks[r].ns);
    for (uint32_t t = 0; t < p->n; t++)
        ORR_TRY(explain_table(p, t, &p->candidates[a->choice[t]], ns_per_byte, step_ns, arena,
                              &choices[t], err));
    ORR_TRY(make_plan(p, a, arena, &ret->plan, err));
    ret->ns = step_ns + orr_table_latency_ns(p->o);
    ret->synchronous_ns = synchronous_ns(p, a, &by);
    for (uint32_t t = 0; t < p->n; t++)
        ret->shared_ns += p->candidates[a->choice[t]].shared_ns;
    ret->ranks = ranks;
    ret->choices = choices;
    return ORR_OK;
}
