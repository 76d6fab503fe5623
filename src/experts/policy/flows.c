/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/policy/flows.h"

#include <string.h>

#include "experts/placement/traffic.h"
#include "experts/routes/count.h"

/* --- rows ------------------------------------------------------------------------------------- */

/* Tokens in a row whose requests are of one group. */
typedef struct run {
    uint64_t first, n;
    uint32_t group;
} run;

static uint32_t group_of_token(const orr_routes *routes, const uint32_t *group_of, uint64_t t)
{
    return group_of != NULL ? group_of[routes->request[t]] : 0;
}

static uint64_t list_runs(const orr_routes *routes, const uint32_t *group_of, run *ret)
{
    uint64_t n = 0;
    for (uint64_t t = 0, next; t < routes->tokens; t = next, n++) {
        const uint32_t group = group_of_token(routes, group_of, t);
        for (next = t + 1; next < routes->tokens; next++)
            if (group_of_token(routes, group_of, next) != group)
                break;
        if (ret != NULL)
            ret[n] = (run){t, next - t, group};
    }
    return n;
}

/* The rows of a layer. A short run is not worth the tables of orr_routes_count(). count: scratch,
 * shape (G, E), zeroed, and zeroed again. */
static void count_layer(const orr_routes *routes, uint32_t layer, const run *runs, uint64_t n,
                        size_t cells, uint32_t experts, uint64_t *count, double *ret)
{
    enum { SHORT = 64 };
    uint16_t choice[SHORT * ORR_ROUTE_CHOICES_MAX];
    for (uint64_t i = 0; i < n; i++) {
        uint64_t *to = count + (size_t)runs[i].group * experts;
        if (runs[i].n >= SHORT) {
            orr_routes_count(routes, layer, runs[i].first, runs[i].n, to);
            continue;
        }
        orr_routes_choices(routes, layer, runs[i].first, runs[i].n, choice);
        for (uint64_t c = 0; c < runs[i].n * routes->top_k; c++)
            to[choice[c]]++;
    }
    for (size_t i = 0; i < cells; i++)
        ret[i] = (double)count[i];
    memset(count, 0, cells * sizeof *count);
}

static orr_status count_rows(orr_flows *f, const uint32_t *group_of, orr_arena *arena,
                             orr_error *err)
{
    const size_t cells = (size_t)f->groups * f->experts;
    double *rows = orr_arena_array(arena, double, f->layers *cells);
    if (rows == NULL)
        return orr_fail_memory(err);
    const orr_arena_mark mark = orr_arena_get_mark(arena);
    const uint64_t n = list_runs(f->routes, group_of, NULL);
    run *runs = orr_arena_array(arena, run, n);
    uint64_t *count = orr_arena_array(arena, uint64_t, cells);
    if (runs == NULL || count == NULL)
        return orr_fail_memory(err);
    list_runs(f->routes, group_of, runs);
    for (uint32_t l = 0; l < f->layers; l++)
        count_layer(f->routes, l, runs, n, cells, f->experts, count, rows + l * cells);
    orr_arena_rewind(arena, mark);
    f->rows = rows;
    return ORR_OK;
}

/* --- sample ----------------------------------------------------------------------------------- */

/* A token has about K^2 / 2 pairs of choices in a layer; the sample keeps their number within a
 * bound. */
static uint32_t sample_size(const orr_flows *f)
{
    static const double STEPS = 1 << 24;
    enum { LEAST = 1024, MOST = 65536 };
    const double n = STEPS / ((double)f->top_k * f->top_k * f->layers);
    const uint32_t size = n < LEAST ? LEAST : n > MOST ? MOST : (uint32_t)n;
    return f->top_k == 1 ? 0 : f->routes->tokens < size ? (uint32_t)f->routes->tokens : size;
}

static orr_status draw_sample(orr_flows *f, orr_arena *arena, orr_error *err)
{
    f->sampled = sample_size(f);
    uint64_t *token = orr_arena_array(arena, uint64_t, f->sampled);
    if (token == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < f->sampled; i++)
        token[i] = (uint64_t)((double)i * (double)f->routes->tokens / f->sampled);
    f->token = token;
    return ORR_OK;
}

/* --- groups ----------------------------------------------------------------------------------- */

/* The requests that have tokens are of groups that there are. */
static orr_status check_requests(const orr_flows *f, const uint32_t *group_of, orr_error *err)
{
    for (uint64_t t = 0; group_of != NULL && t < f->routes->tokens; t++) {
        const uint32_t i = f->routes->request[t];
        if (group_of[i] >= f->groups)
            return orr_fail(err, ORR_INVALID, "request %u is of group %u, and there are %u", i,
                            group_of[i], f->groups);
    }
    return ORR_OK;
}

static orr_status make_groups(orr_flows *f, orr_arena *arena, orr_error *err)
{
    if (f->groups == 0 || f->ranks % f->groups != 0)
        return orr_fail(err, ORR_INVALID, "%u groups of requests do not divide %u ranks", f->groups,
                        f->ranks);
    uint32_t *group = orr_arena_array(arena, uint32_t, f->ranks);
    uint32_t *live = orr_arena_array(arena, uint32_t, f->groups);
    if (group == NULL || live == NULL)
        return orr_fail_memory(err);
    for (uint32_t r = 0; r < f->ranks; r++) {
        group[r] = r / (f->ranks / f->groups);
        live[group[r]] += f->dead == NULL || !f->dead[r];
    }
    for (uint32_t g = 0; g < f->groups; g++)
        if (live[g] == 0)
            return orr_fail(err, ORR_INVALID, "all %u ranks of group %u are dead",
                            f->ranks / f->groups, g);
    f->group = group;
    f->live = live;
    return ORR_OK;
}

orr_status orr_flows_make(const orr_policy_problem *p, orr_arena *arena, orr_flows *ret,
                          orr_error *err)
{
    const orr_expert_options *o = p->options;
    const uint32_t *group_of = o->group_of_request;
    orr_flows f = {.routes = o->routes,
                   .layers = p->layers,
                   .experts = p->experts,
                   .ranks = p->ranks,
                   .groups = orr_expert_request_groups(o),
                   .top_k = o->routes->top_k,
                   .dead = o->dead};
    ORR_TRY(make_groups(&f, arena, err));
    ORR_TRY(check_requests(&f, group_of, err));
    if (f.groups == 1 && p->counted)
        f.rows = p->load;
    else
        ORR_TRY(count_rows(&f, group_of, arena, err));
    ORR_TRY(draw_sample(&f, arena, err));
    *ret = f;
    return ORR_OK;
}
