/* SPDX-License-Identifier: Apache-2.0 */
/* Small cases to proven optimality, by a mixed-integer programme for each layer:
 *
 *   min t:  y(e, r) <= load(e) x(e, r),  sum over r of y(e, r) = load(e),
 *           sum over e of x(e, r) <= slots(r),  sum over e of y(e, r) <= t,  x(e, r) in {0, 1},
 *
 * x(e, r): rank r has a copy of expert e, y(e, r): the load it takes. Loads are in units of the
 * mean rank's, so that t is the imbalance. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "experts/placement/loads.h"
#include "experts/policy/policy.h"
#include "experts/policy/solver.h"

/* TOTAL_S: for all layers; what is left of it is dealt evenly to those that are left. */
enum { MOST_CELLS = 512, MOST_LAYERS = 64, TOTAL_S = 10, LINE_BYTES = 512 };
#define EVEN 1e-6 /* over the mean, that no placement is below */

typedef struct ilp {
    const orr_policy_problem *problem;
    char folder[64], model[80], answer[80];
    uint8_t *holds; /* shape (L, R, E): first those of a placement by loads */
    uint8_t *found; /* shape (R, E): of the solver */
    double bound;   /* of the worst layer; NAN: a layer is not proven */
} ilp;

static uint32_t live_ranks(const orr_policy_problem *p)
{
    uint32_t live = 0;
    for (uint32_t r = 0; r < p->ranks; r++)
        live += p->rank_slots[r] > 0;
    return live;
}

static bool is_kept(const orr_policy_problem *p, uint32_t layer, uint32_t e)
{
    return p->missing == NULL || !p->missing[(size_t)layer * p->experts + e];
}

/* --- the programme ---------------------------------------------------------------------------- */

static void write_expert(FILE *f, const orr_policy_problem *p, uint32_t e, double load)
{
    for (uint32_t r = 0; r < p->ranks; r++)
        if (p->rank_slots[r] > 0)
            fprintf(f, " cut_%u_%u: y_%u_%u - %.9f x_%u_%u <= 0\n", e, r, e, r, load, e, r);
    fprintf(f, " all_%u:", e);
    for (uint32_t r = 0; r < p->ranks; r++)
        if (p->rank_slots[r] > 0)
            fprintf(f, " + y_%u_%u\n", e, r);
    fprintf(f, " = %.9f\n some_%u:", load, e);
    for (uint32_t r = 0; r < p->ranks; r++)
        if (p->rank_slots[r] > 0)
            fprintf(f, " + x_%u_%u\n", e, r);
    fprintf(f, " >= 1\n");
}

static void write_rank(FILE *f, const orr_policy_problem *p, uint32_t layer, uint32_t r)
{
    fprintf(f, " room_%u:", r);
    for (uint32_t e = 0; e < p->experts; e++)
        if (is_kept(p, layer, e))
            fprintf(f, " + x_%u_%u\n", e, r);
    fprintf(f, " <= %u\n load_%u:", p->rank_slots[r], r);
    for (uint32_t e = 0; e < p->experts; e++)
        if (is_kept(p, layer, e))
            fprintf(f, " + y_%u_%u\n", e, r);
    fprintf(f, " - t <= 0\n");
}

static orr_status write_model(const ilp *s, uint32_t layer, double mean, orr_error *err)
{
    const orr_policy_problem *p = s->problem;
    FILE *f = fopen(s->model, "w");
    if (f == NULL)
        return orr_fail(err, ORR_IO, "%s cannot be written", s->model);
    fprintf(f, "Minimize\n obj: t\nSubject To\n");
    for (uint32_t e = 0; e < p->experts; e++)
        if (is_kept(p, layer, e))
            write_expert(f, p, e, p->load[(size_t)layer * p->experts + e] / mean);
    for (uint32_t r = 0; r < p->ranks; r++)
        if (p->rank_slots[r] > 0)
            write_rank(f, p, layer, r);
    fprintf(f, "Binaries\n");
    for (uint32_t e = 0; e < p->experts; e++)
        for (uint32_t r = 0; r < p->ranks; r++)
            if (is_kept(p, layer, e) && p->rank_slots[r] > 0)
                fprintf(f, " x_%u_%u\n", e, r);
    fprintf(f, "End\n");
    const bool failed = ferror(f) != 0;
    return fclose(f) != 0 || failed ? orr_fail(err, ORR_IO, "%s cannot be written", s->model)
                                    : ORR_OK;
}

/* --- the answer ------------------------------------------------------------------------------- */

/* "0 x_3_1 1 0" of CBC, "x_3_1 1" of HiGHS: the number of the expert, the rank, whether it is 1. */
static bool read_copy(const char *line, uint32_t *e, uint32_t *r, bool *ret)
{
    double value;
    const char *at = strstr(line, "x_");
    if (at == NULL || sscanf(at, "x_%u_%u %lf", e, r, &value) != 3)
        return false;
    *ret = value > 0.5;
    return true;
}

/* Both solvers begin with the word Optimal, CBC in the first line, HiGHS in the second, and name
 * the objective. */
static orr_status read_answer(ilp *s, bool *ret_proven, orr_error *err)
{
    const orr_policy_problem *p = s->problem;
    uint8_t *holds = s->found;
    char line[LINE_BYTES];
    bool proven = false;
    double objective = NAN;
    FILE *f = fopen(s->answer, "r");
    if (f == NULL)
        return orr_fail(err, ORR_IO, "the solver has written no answer");
    for (uint32_t n = 0; n < 100 * MOST_CELLS && fgets(line, sizeof line, f) != NULL; n++) {
        uint32_t e, r;
        bool set;
        const char *value = strstr(line, "bjective");
        if (strncmp(line, "# Dual", 6) == 0)
            break;
        proven |= n < 2 && strncmp(line, "Optimal", 7) == 0;
        if (value != NULL && isnan(objective))
            objective = strtod(value + strcspn(value, "0123456789"), NULL);
        if (read_copy(line, &e, &r, &set) && e < p->experts && r < p->ranks)
            holds[(size_t)r * p->experts + e] = set;
    }
    (void)fclose(f);
    *ret_proven = proven && !isnan(objective);
    s->bound = *ret_proven && !isnan(s->bound) ? fmax(s->bound, objective) : NAN;
    return ORR_OK;
}

/* Whether each expert that is kept has a rank, and none has more than its slots. */
static bool is_placement(const ilp *s, uint32_t layer)
{
    const orr_policy_problem *p = s->problem;
    const uint8_t *holds = s->found;
    for (uint32_t e = 0; e < p->experts; e++) {
        uint32_t copies = 0;
        for (uint32_t r = 0; r < p->ranks; r++)
            copies += holds[(size_t)r * p->experts + e];
        if ((copies > 0) != is_kept(p, layer, e))
            return false;
    }
    for (uint32_t r = 0; r < p->ranks; r++) {
        uint32_t used = 0;
        for (uint32_t e = 0; e < p->experts; e++)
            used += holds[(size_t)r * p->experts + e];
        if (used > p->rank_slots[r])
            return false;
    }
    return true;
}

/* Keeps what the solver found; what it did not prove may be worse than what stands. */
static orr_status solve_layer(ilp *s, uint32_t layer, uint32_t limit_s, orr_error *err)
{
    const orr_policy_problem *p = s->problem;
    const size_t cells = (size_t)p->ranks * p->experts;
    bool proven;
    double sum = 0;
    for (uint32_t e = 0; e < p->experts; e++)
        if (is_kept(p, layer, e))
            sum += p->load[(size_t)layer * p->experts + e];
    memset(s->found, 0, cells);
    ORR_TRY(write_model(s, layer, sum > 0 ? sum / live_ranks(p) : 1, err));
    ORR_TRY(orr_solver_run(s->model, s->answer, limit_s, p->options->stop, err));
    ORR_TRY(read_answer(s, &proven, err));
    if (proven && is_placement(s, layer))
        memcpy(s->holds + layer * cells, s->found, cells);
    return ORR_OK;
}

/* Copies as loads alone place them, in as many slots in every layer. even: shape (L), of layers
 * that need no solver, since all ranks have as much. */
static orr_status begin_with_balance(ilp *s, orr_arena *arena, bool *even, orr_error *err)
{
    orr_expert_options options = *s->problem->options;
    orr_policy_problem p = *s->problem;
    orr_expert_result start;
    options.even_layers = true;
    p.options = &options;
    ORR_TRY(orr_place_balance(&p, arena, &start, err));
    double *rank_load = orr_arena_array(arena, double, p.ranks);
    if (rank_load == NULL)
        return orr_fail_memory(err);
    for (uint32_t l = 0; l < p.layers; l++) {
        orr_layer_rank_loads(&start.placement, l, p.load + (size_t)l * p.experts, rank_load);
        even[l] = orr_loads_imbalance(rank_load, p.ranks, live_ranks(&p)) <= 1 + EVEN;
        for (uint32_t r = 0; r < p.ranks; r++)
            for (uint32_t i = orr_placement_first(&start.placement, l, r);
                 i < orr_placement_first(&start.placement, l, r + 1); i++)
                s->holds[((size_t)l * p.ranks + r) * p.experts + start.placement.expert[i]] = 1;
    }
    return ORR_OK;
}

static orr_status solve_layers(ilp *s, const bool *even, orr_error *err)
{
    const orr_clock *const clock = &orr_clock_monotonic;
    const int64_t end_ns = orr_clock_now_ns(clock) + (int64_t)TOTAL_S * 1000000000;
    uint32_t left = 0;
    for (uint32_t l = 0; l < s->problem->layers; l++)
        left += !even[l];
    for (uint32_t l = 0; l < s->problem->layers; l++) {
        if (even[l])
            continue;
        const int64_t left_ns = end_ns - orr_clock_now_ns(clock);
        const int64_t limit_s = left_ns / 1000000000 / left--;
        if (left_ns <= 0)
            s->bound = NAN; /* what loads alone placed stands, and is not proven */
        else
            ORR_TRY(solve_layer(s, l, limit_s > 1 ? (uint32_t)limit_s : 1, err));
        (void)unlink(s->answer);
    }
    return ORR_OK;
}

static orr_status solve(ilp *s, const bool *even, orr_error *err)
{
    const char *base = getenv("TMPDIR");
    (void)snprintf(s->folder, sizeof s->folder, "%s/orrery-XXXXXX",
                   base != NULL && strlen(base) < sizeof s->folder - 20 ? base : "/tmp");
    if (mkdtemp(s->folder) == NULL)
        return orr_fail(err, ORR_IO, "%s cannot be made", s->folder);
    (void)snprintf(s->model, sizeof s->model, "%s/model.lp", s->folder);
    (void)snprintf(s->answer, sizeof s->answer, "%s/answer", s->folder);
    const orr_status status = solve_layers(s, even, err);
    (void)unlink(s->answer);
    (void)unlink(s->model);
    (void)rmdir(s->folder);
    return status;
}

/* The copies that were found, with the shares that are best for them. */
static orr_status make_placement(const ilp *s, orr_arena *arena, orr_expert_placement *ret,
                                 orr_error *err)
{
    const orr_policy_problem *p = s->problem;
    orr_placement_draft draft;
    uint32_t *slots = orr_arena_array(arena, uint32_t, (size_t)p->layers * p->ranks);
    if (slots == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < (size_t)p->layers * p->ranks; i++) {
        slots[i] = 0;
        for (uint32_t e = 0; e < p->experts; e++)
            slots[i] += s->holds[i * p->experts + e];
    }
    ORR_TRY(orr_policy_draft(p, slots, arena, &draft, err));
    uint32_t at = 0;
    for (size_t i = 0; i < (size_t)p->layers * p->ranks * p->experts; i++)
        if (s->holds[i])
            draft.expert[at++] = (uint16_t)(i % p->experts);
    ORR_TRY(orr_placement_split_shares(&draft, p->load, err));
    *ret = draft.placement;
    return ORR_OK;
}

orr_status orr_place_ilp(const orr_policy_problem *p, orr_arena *arena, orr_expert_result *ret,
                         orr_error *err)
{
    const size_t cells = (size_t)p->experts * p->ranks;
    ilp s = {.problem = p, .bound = 1};
    if (cells > MOST_CELLS || p->layers > MOST_LAYERS)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "policy 'ilp' is for small cases: at most %d experts times ranks and %d "
                        "layers, here %zu and %u",
                        MOST_CELLS, MOST_LAYERS, cells, p->layers);
    if (p->grouped)
        return orr_fail(err, ORR_UNSUPPORTED, "policy 'ilp' does not keep groups on hosts");
    bool *even = orr_arena_array(arena, bool, p->layers);
    s.holds = orr_arena_array(arena, uint8_t, p->layers * cells);
    s.found = orr_arena_array(arena, uint8_t, cells);
    if (even == NULL || s.holds == NULL || s.found == NULL)
        return orr_fail_memory(err);
    memset(s.holds, 0, p->layers * cells);
    ORR_TRY(begin_with_balance(&s, arena, even, err));
    ORR_TRY(solve(&s, even, err));
    ORR_TRY(make_placement(&s, arena, &ret->placement, err));
    ret->bound_imbalance = s.bound;
    return ORR_OK;
}
