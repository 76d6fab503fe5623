/* SPDX-License-Identifier: Apache-2.0 */
#include "model/experts/arrange.h"

#include <pthread.h>
#include <string.h>

#include <orrery/calibration.h>

#include "base/alloc.h"
#include "experts/placement/build.h"
#include "model/experts/costs.h"
#include "model/plan/groups.h"
#include "model/plan/plan.h"

/* Groups of requests and placements of experts that plans ask for. */

typedef struct key {
    uint32_t ranks, slots, groups, policy, host_ranks, expert_groups;
    double host_bytes_per_s, network_bytes_per_s, row_ns;
} key;

/* What a key came to, once it is ready. */
typedef struct made {
    key key;
    orr_arena *arena; /* of all below */
    bool ready;
    orr_expert_windows windows; /* of groups; windows 0: as the workload has them */
    orr_expert_placement placement;
    bool placed;
    struct made *next;
} made;

struct orr_expert_arrangements {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* one is ready, or is given up */
    made *first;
};

orr_status orr_expert_arrangements_open(orr_expert_arrangements **ret, orr_error *err)
{
    orr_expert_arrangements *a = orr_malloc(sizeof *a);
    if (a == NULL)
        return orr_fail_memory(err);
    (void)pthread_mutex_init(&a->lock, NULL);
    (void)pthread_cond_init(&a->changed, NULL);
    a->first = NULL;
    *ret = a;
    return ORR_OK;
}

void orr_expert_arrangements_close(orr_expert_arrangements *a)
{
    if (a == NULL)
        return;
    for (made *at = a->first, *next; at != NULL; at = next) {
        next = at->next;
        orr_arena_free(at->arena);
    }
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    orr_free(a);
}

/* --- loads of routes -------------------------------------------------------------------------- */

/* The tokens that the task computes: those of prompts, or generated ones, where there are any. */
static orr_status routes_of_task(const orr_routes *routes, uint8_t task, orr_arena *arena,
                                 const orr_routes **ret, orr_error *err)
{
    const int phase = task == ORR_TASK_PREFILL  ? ORR_ROUTE_PREFILL
                      : task == ORR_TASK_DECODE ? ORR_ROUTE_DECODE
                                                : -1;
    *ret = routes;
    if (phase < 0 || memchr(routes->phase, phase, routes->tokens) == NULL)
        return ORR_OK;
    return orr_routes_select(routes, NULL, phase, arena, ret, err);
}

/* --- groups ----------------------------------------------------------------------------------- */

/* Loads of the requests of one group. */
static orr_status load_of_group(const orr_routes *routes, uint8_t task, const uint32_t *group,
                                uint32_t which, bool *keep, orr_arena *room, double *ret,
                                orr_error *err)
{
    const orr_routes *part, *of_task;
    orr_expert_windows window;
    for (uint32_t r = 0; r < routes->requests; r++)
        keep[r] = group[r] == which;
    ORR_TRY(orr_routes_select(routes, keep, -1, room, &part, err));
    ORR_TRY(routes_of_task(part, task, room, &of_task, err));
    ORR_TRY(orr_expert_windows_of_routes(of_task, 1, room, &window, err));
    for (uint32_t l = 0; l < routes->layers; l++)
        memcpy(ret + (size_t)l * routes->experts, window.load + (size_t)l * window.experts,
               window.experts * sizeof *ret);
    return ORR_OK;
}

/* Groups of requests, and the loads of each. group: shape (requests). */
static orr_status group_requests(const orr_routes *routes, uint8_t task, uint32_t groups,
                                 orr_arena *arena, orr_arena *room, uint32_t *group,
                                 orr_expert_windows *ret, orr_error *err)
{
    orr_expert_groups_options options;
    orr_expert_groups *fitted;
    const size_t each = (size_t)routes->layers * routes->experts;
    double *load = orr_arena_array(arena, double, groups *each);
    uint32_t *number = orr_arena_array(arena, uint32_t, routes->layers);
    bool *keep = orr_arena_array(room, bool, routes->requests);
    if (load == NULL || number == NULL || keep == NULL)
        return orr_fail_memory(err);
    memset(load, 0, groups * each * sizeof *load);
    memcpy(number, routes->number, routes->layers * sizeof *number);
    orr_expert_groups_options_init(&options);
    options.groups = groups;
    ORR_TRY(orr_expert_groups_fit(routes, &options, room, &fitted, group, err));
    for (uint32_t g = 0; g < groups; g++)
        ORR_TRY(load_of_group(routes, task, group, g, keep, room, load + g * each, err));
    *ret =
        (orr_expert_windows){groups, routes->layers, routes->experts, number, load, routes->source};
    return ORR_OK;
}

/* --- placements ------------------------------------------------------------------------------- */

/* Loads of all experts of the model, also of those that nobody chose. */
static orr_status all_experts(const orr_workload *w, uint32_t experts, orr_arena *arena,
                              orr_expert_windows *ret, orr_error *err)
{
    orr_expert_windows from = {0};
    if (w->windows != NULL)
        from = *w->windows;
    else if (w->load != NULL)
        from = (orr_expert_windows){
            1, w->load->layers, w->load->experts, w->load->number, w->load->share, w->load->source};
    if (from.windows > 0 && from.number == NULL) {
        uint32_t *number = orr_arena_array(arena, uint32_t, from.layers);
        if (number == NULL)
            return orr_fail_memory(err);
        for (uint32_t l = 0; l < from.layers; l++)
            number[l] = l;
        from.number = number;
    }
    *ret = from;
    if (from.windows == 0 || from.experts >= experts)
        return ORR_OK;
    const size_t rows = (size_t)from.windows * from.layers;
    double *load = orr_arena_array(arena, double, rows *experts);
    if (load == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < rows * experts; i++)
        load[i] =
            i % experts < from.experts ? from.load[i / experts * from.experts + i % experts] : 0;
    ret->load = load;
    ret->experts = experts;
    return ORR_OK;
}

/* Hosts and links that the placement of a plan is for: those of the first ranks that share the
 * experts. Without a cluster all are one host. */
static orr_status set_hosts(const orr_model *model, const orr_plan *plan, const orr_workload *w,
                            orr_arena *arena, key *k, orr_expert_costs *costs, orr_error *err)
{
    enum { TOKENS_OF_RANK = 128 }; /* placements are the same for any number */
    if (w->cluster == NULL || k->policy == 0 || k->ranks <= 1)
        return ORR_OK;
    uint32_t *devices = orr_arena_array(arena, uint32_t, k->ranks);
    if (devices == NULL)
        return orr_fail_memory(err);
    orr_plan_members_of(plan, ORR_AXIS_EP, 0, devices);
    ORR_TRY(orr_expert_costs_on(w->cluster, w->calibration, model, devices, k->ranks,
                                (double)TOKENS_OF_RANK * k->ranks, arena, costs, &k->host_ranks,
                                err));
    if (k->policy == ORR_EXPERT_POLICY_EPLB + 1)
        k->expert_groups = orr_expert_groups_kept(model, k->ranks, k->host_ranks);
    k->host_bytes_per_s = costs->host_bytes_per_s;
    k->network_bytes_per_s = costs->network_bytes_per_s;
    k->row_ns = costs->row_ns;
    return ORR_OK;
}

/* As `orrery experts` places for these hosts and links. */
static orr_status place(const orr_model *model, const orr_workload *w, const key *k,
                        const orr_expert_costs *costs, const uint32_t *group, orr_arena *arena,
                        orr_arena *room, orr_expert_placement *ret, orr_error *err)
{
    orr_expert_options options;
    orr_expert_result result;
    orr_expert_windows window;
    orr_expert_options_init(&options);
    options.policy = (uint8_t)(k->policy - 1);
    if (w->routes != NULL)
        ORR_TRY(routes_of_task(w->routes, w->task, room, &options.routes, err));
    ORR_TRY(all_experts(w, model->moe.experts, arena, &window, err));
    if (window.windows > 0)
        options.windows = &window;
    if (options.routes == NULL && options.windows == NULL)
        return orr_fail(err, ORR_INVALID,
                        "expert_policy, expert_slots: for which loads (--expert-load)?");
    options.ranks = k->ranks;
    options.host_ranks = k->host_ranks;
    options.expert_groups = k->expert_groups;
    options.costs = k->host_ranks > 0 ? costs : NULL;
    options.slots = model->moe.experts + k->slots * k->ranks;
    options.most_choices = ORR_EXPERT_USUAL_CHOICES;
    options.group_of_request = group;
    options.request_groups = group != NULL ? k->groups : 0;
    ORR_TRY(orr_experts_place(&options, arena, &result, err));
    *ret = result.placement;
    /* Transfers are priced here: of shares that are as even, those that keep most rows. */
    return options.policy == ORR_EXPERT_POLICY_BEST && !ret->nearest && window.windows == 1
               ? orr_placement_level(ret, window.load, arena, err)
               : ORR_OK;
}

static orr_status make(const orr_model *model, const orr_workload *w, const key *k,
                       const orr_expert_costs *costs, orr_arena *arena, orr_arena *room, made *ret,
                       orr_error *err)
{
    uint32_t *group = NULL;
    if (k->ranks == 0) {
        const orr_routes *part;
        ORR_TRY(routes_of_task(w->routes, w->task, room, &part, err));
        return orr_expert_windows_of_routes(part, 1, arena, &ret->windows, err);
    }
    if (k->groups > 1) {
        group = orr_arena_array(room, uint32_t, w->routes->requests);
        if (group == NULL)
            return orr_fail_memory(err);
        ORR_TRY(
            group_requests(w->routes, w->task, k->groups, arena, room, group, &ret->windows, err));
    }
    if (k->policy > 0) {
        ORR_TRY(place(model, w, k, costs, group, arena, room, &ret->placement, err));
        ret->placed = true;
    }
    return ORR_OK;
}

static orr_status make_in(const orr_model *model, const orr_workload *w, const key *k,
                          const orr_expert_costs *costs, orr_arena *arena, made *ret,
                          orr_error *err)
{
    orr_arena *room = orr_arena_new(0, 0);
    if (room == NULL)
        return orr_fail_memory(err);
    const orr_status status = make(model, w, k, costs, arena, room, ret, err);
    orr_arena_free(room);
    return status;
}

static made *find(const orr_expert_arrangements *a, const key *k)
{
    made *at = a->first;
    while (at != NULL && memcmp(&at->key, k, sizeof *k) != 0)
        at = at->next;
    return at;
}

static orr_status add(orr_expert_arrangements *a, const key *k, made **ret, orr_error *err)
{
    orr_arena *arena = orr_arena_new(0, 0);
    made *at = arena != NULL ? orr_arena_one(arena, made) : NULL;
    if (at == NULL) {
        orr_arena_free(arena);
        return orr_fail_memory(err);
    }
    *at = (made){.key = *k, .arena = arena, .next = a->first};
    *ret = a->first = at;
    return ORR_OK;
}

static void give_up(orr_expert_arrangements *a, made *at)
{
    made **link = &a->first;
    while (*link != at)
        link = &(*link)->next;
    *link = at->next;
    orr_arena_free(at->arena);
}

/* Under the lock, but for the time in which one is made: several threads make several. */
static orr_status find_or_make(const orr_model *model, const orr_workload *w, const key *k,
                               const orr_expert_costs *costs, const made **ret, orr_error *err)
{
    orr_expert_arrangements *a = w->arrangements;
    made *at;
    while ((at = find(a, k)) != NULL && !at->ready)
        pthread_cond_wait(&a->changed, &a->lock);
    *ret = at;
    if (at != NULL)
        return ORR_OK;
    ORR_TRY(add(a, k, &at, err));
    pthread_mutex_unlock(&a->lock);
    const orr_status status = make_in(model, w, k, costs, at->arena, at, err);
    pthread_mutex_lock(&a->lock);
    if (status == ORR_OK)
        at->ready = true;
    else
        give_up(a, at);
    pthread_cond_broadcast(&a->changed);
    *ret = at;
    return status;
}

static orr_status look_up(const orr_model *model, const orr_workload *w, const key *k,
                          const orr_expert_costs *costs, orr_arena *arena, made *ret,
                          orr_error *err)
{
    const made *found;
    if (w->arrangements == NULL)
        return make_in(model, w, k, costs, arena, ret, err);
    pthread_mutex_lock(&w->arrangements->lock);
    const orr_status status = find_or_make(model, w, k, costs, &found, err);
    if (status == ORR_OK)
        *ret = *found;
    pthread_mutex_unlock(&w->arrangements->lock);
    return status;
}

static orr_status set_windows(const made *from, uint32_t groups, orr_arena *arena, orr_workload *w,
                              orr_error *err)
{
    orr_expert_windows *windows = orr_arena_one(arena, orr_expert_windows);
    if (windows == NULL)
        return orr_fail_memory(err);
    *windows = from->windows;
    w->windows = windows;
    w->request_groups = groups;
    return ORR_OK;
}

static orr_status check(const orr_workload *w, const key *k, orr_error *err)
{
    if (w->placement != NULL && k->policy > 0)
        return orr_fail(err, ORR_INVALID, "expert_policy and expert_slots: %s places the experts",
                        w->placement->source);
    if (k->groups > 1 && w->routes == NULL)
        return orr_fail(err, ORR_INVALID,
                        "request_groups=%u: of which requests (--expert-load ROUTES)?", k->groups);
    return ORR_OK;
}

orr_status orr_experts_arrange(const orr_model *model, const orr_plan *plan,
                               const orr_workload *workload, orr_arena *arena, orr_workload *ret,
                               orr_error *err)
{
    key k = {.ranks = orr_plan_group_size(plan, ORR_AXIS_EP),
             .slots = plan->expert_slots,
             .groups = plan->request_groups,
             .policy = plan->expert_policy};
    orr_expert_costs costs;
    made found = {.ready = false};
    *ret = *workload;
    if (k.slots > 0 && k.policy == 0)
        k.policy = ORR_EXPERT_POLICY_BEST + 1;
    ORR_TRY(check(workload, &k, err));
    if (workload->routes != NULL && workload->windows == NULL && workload->load == NULL) {
        ORR_TRY(look_up(model, workload, &(key){0}, NULL, arena, &found, err));
        ORR_TRY(set_windows(&found, 0, arena, ret, err));
    }
    if ((k.policy == 0 && k.groups <= 1) || k.ranks <= 1)
        return ORR_OK;
    ORR_TRY(set_hosts(model, plan, ret, arena, &k, &costs, err));
    ORR_TRY(look_up(model, ret, &k, &costs, arena, &found, err));
    if (k.groups > 1)
        ORR_TRY(set_windows(&found, k.groups, arena, ret, err));
    if (found.placed) {
        orr_expert_placement *placement = orr_arena_one(arena, orr_expert_placement);
        if (placement == NULL)
            return orr_fail_memory(err);
        *placement = found.placement;
        ret->placement = placement;
    }
    return ORR_OK;
}
