/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include <orrery/cost.h>

#include "estimate/estimate.h"
#include "explore/explore.h"

/* The search space: for every field of a plan, the values that are searched.
 *
 * Values that are dominated, which means never better than another value of the field, are counted
 * but not searched: no sequence parallelism (the same transfers, more activations and elementwise
 * work), attention in many kernels, elementwise work not fused, transfers of gradients or between
 * stages that computation waits for (the same transfers, later), and transports that another one
 * matches in everything (transports.c). Each is searched only where constraints leave nothing else.
 */

static void add(orr_space_list *list, uint32_t value)
{
    for (uint32_t i = 0; i < list->n; i++)
        if (list->at[i] == value)
            return;
    if (list->n < ORR_SPACE_VALUES)
        list->at[list->n++] = value;
}

static void keep_allowed(orr_space *s, uint32_t field)
{
    orr_space_list *list = &s->list[field];
    uint32_t n = 0;
    for (uint32_t i = 0; i < list->n; i++)
        if (orr_space_allows(&s->constraints, field, list->at[i]))
            list->at[n++] = list->at[i];
    list->n = n;
}

/* --- capabilities of the cluster and the model ----------------------------------------------- */

/* Whether all devices that may take part support the dtype. */
static bool supports(const orr_cluster *c, orr_dtype dtype)
{
    bool all = !isnan(orr_fact_or(&c->device->peak_flops[dtype], NAN));
    for (uint32_t s = 0; s < c->n_sites; s++)
        all &= !isnan(orr_fact_or(&c->sites[s].device->peak_flops[dtype], NAN));
    return all;
}

static uint32_t scale_up_of(const orr_cluster *c)
{
    return c->n_levels > 0 ? c->levels[0].size : 1;
}

/* --- values of each field -------------------------------------------------------------------- */

/* Tensor parallelism up to two of the domains with the fastest links. */
static void list_slices(orr_space *s)
{
    orr_space_list *list = &s->list[ORR_AT_tp];
    const uint32_t domain = scale_up_of(s->cluster);
    const bool sliced = s->model->kind == ORR_MODEL_TRANSFORMER;
    add(list, 1);
    for (uint32_t t = 2; sliced && t <= 2 * domain && t <= s->most_devices; t++) {
        const bool power = (t & (t - 1)) == 0, part = t <= domain && domain % t == 0;
        if ((power || part) && s->model->heads % t == 0 &&
            (s->model->ffn == 0 || s->model->ffn % t == 0))
            add(list, t);
    }
}

/* A context slice has at least 1,024 tokens: below, kernels are too small to be efficient
 * (assumed). */
static void list_contexts(orr_space *s)
{
    enum { LEAST_TOKENS = 1024 };
    orr_space_list *list = &s->list[ORR_AT_cp];
    add(list, 1);
    if (s->model->kind == ORR_MODEL_TRANSFORMER)
        for (uint32_t c = 2; s->seq / c >= LEAST_TOKENS && c <= s->most_devices; c *= 2)
            if (s->seq % c == 0)
                add(list, c);
}

static void list_experts(orr_space *s)
{
    orr_space_list *list = &s->list[ORR_AT_ep];
    const uint32_t experts = s->model->moe.experts;
    add(list, 1);
    for (uint32_t e = 2; e <= experts && e <= s->most_devices; e++)
        if (experts % e == 0)
            add(list, e);
}

/* Other precisions change the numerics: they are searched only where they are allowed. */
static void list_precisions(orr_space *s)
{
    orr_space_list *list = &s->list[ORR_AT_precision];
    if (supports(s->cluster, ORR_DTYPE_FP8) && s->constraints.fp8)
        add(list, ORR_PRECISION_FP8);
    if (supports(s->cluster, ORR_DTYPE_FP8) && s->constraints.mxfp8)
        add(list, ORR_PRECISION_MXFP8);
    if (supports(s->cluster, ORR_DTYPE_FP4) && s->constraints.fp4)
        add(list, ORR_PRECISION_FP4);
    add(list, supports(s->cluster, ORR_DTYPE_BF16) || !supports(s->cluster, ORR_DTYPE_FP16)
                  ? ORR_PRECISION_BF16
                  : ORR_PRECISION_FP16);
}

static void list_transports(orr_space *s)
{
    static const uint32_t FIELDS[] = {ORR_AT_wire_dp, ORR_AT_wire_pp, ORR_AT_wire_cp,
                                      ORR_AT_wire_ep};
    bool said = false; /* any level or link has a transport */
    for (uint32_t l = 0; l < s->cluster->n_levels; l++)
        said |= s->cluster->levels[l].transport != NULL;
    for (uint32_t c = 0; c < s->cluster->n_cuts; c++)
        said |= s->cluster->cuts[c].transport != NULL;
    for (uint32_t i = 0; i < sizeof FIELDS / sizeof *FIELDS; i++) {
        add(&s->list[FIELDS[i]], 0);
        for (uint32_t w = 1; said && w < ORR_RDMA_PRESETS; w++)
            add(&s->list[FIELDS[i]], w);
    }
}

/* Numbers of stages that divide the layers evenly, with embedding and head counted as a layer or
 * not, and a few others. */
static void list_stages(orr_space *s)
{
    enum { MOST = 128 };
    const uint32_t l = s->model->layers, fixed = s->constraints.fixed.pp;
    if (fixed != 0) {
        add(&s->stages, fixed);
        return;
    }
    for (uint32_t p = 1; p <= MOST && p <= s->most_devices && (p == 1 || p <= l + 2); p++) {
        const uint32_t odd = p / (p & -p);
        const bool even = l > 0 && (l % p == 0 || (l + 1) % p == 0 || (l + 2) % p == 0);
        if ((even || odd == 1 || odd == 3) && orr_space_allows(&s->constraints, ORR_AT_pp, p))
            add(&s->stages, p);
    }
}

/* Divisors of the batch, which are the possible numbers of replicas. */
static orr_status list_divisors(orr_space *s, orr_arena *arena, orr_error *err)
{
    const uint32_t batch = s->common.batch;
    uint32_t n = 0;
    for (uint32_t i = 1; (uint64_t)i * i <= batch; i++)
        n += batch % i == 0 ? 1 + (i != batch / i) : 0;
    uint32_t *parts = orr_arena_array(arena, uint32_t, n);
    if (parts == NULL)
        return orr_fail_memory(err);
    uint32_t low = n, high = 0;
    for (uint32_t i = 1; (uint64_t)i * i <= batch; i++)
        if (batch % i == 0) {
            parts[high++] = batch / i;
            if (i != batch / i)
                parts[--low] = i;
        }
    s->parts = parts;
    s->n_parts = n;
    return ORR_OK;
}

static void add_all(orr_space *s, uint32_t field, const uint32_t *values, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        add(&s->list[field], values[i]);
}
#define ADD(s, field, ...)                                                                         \
    add_all((s), ORR_AT_##field, (const uint32_t[]){__VA_ARGS__},                                  \
            sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

/* A sample of a language model fills a device; those of recommendation are small, and halves of the
 * batch are tried. */
static void list_micro_batches(orr_space *s)
{
    uint32_t samples = s->common.batch;
    if (s->model->kind != ORR_MODEL_DLRM) {
        ADD(s, micro_batch, 1, 2, 4, 8);
        return;
    }
    for (; samples % 2 == 0; samples /= 2)
        add(&s->list[ORR_AT_micro_batch], samples);
    add(&s->list[ORR_AT_micro_batch], samples);
}

/* Where loads of experts are known, and nobody has placed these: neighbours, and the best places,
 * without copies and with one or two for each rank and layer. */
static void list_placements(orr_space *s)
{
    const orr_workload *w = &s->options->workload;
    const bool known = w->load != NULL || w->windows != NULL || w->routes != NULL;
    ADD(s, expert_slots, 0);
    ADD(s, expert_policy, 0);
    ADD(s, request_groups, 0);
    if (!known || w->placement != NULL || s->model->moe.experts == 0)
        return;
    ADD(s, expert_slots, 1, 2);
    ADD(s, expert_policy, ORR_EXPERT_POLICY_BEST + 1);
}

/* A step takes no longer with more of them, so that of all numbers the largest that may be is the
 * only one beside 1 that can be best: the user's bound, or else 128. */
static void list_local_steps(orr_space *s)
{
    enum { MOST = 128 };
    const uint32_t least = s->constraints.least[ORR_AT_local_steps],
                   bound = s->constraints.most[ORR_AT_local_steps];
    add(&s->list[ORR_AT_local_steps], bound > 0 ? bound : least > MOST ? least : MOST);
}

/* How gradients and weights travel. Of a Pareto front, whose every point would have to be proven
 * for each of them, the defaults. */
static void list_reductions(orr_space *s)
{
    ADD(s, prefetch, 1);
    ADD(s, bucket_bytes, 0);
    ADD(s, dp_algorithm, ORR_ALGORITHM_AUTO);
    ADD(s, dp_chunks, 1);
    if (s->options->second < ORR_OBJECTIVES)
        return;
    ADD(s, prefetch, 2, 4);
    ADD(s, bucket_bytes, 40000000, 640000000, 2560000000);
    for (uint32_t a = ORR_ALGORITHM_AUTO; a < ORR_ALGORITHMS; a++)
        add(&s->list[ORR_AT_dp_algorithm], a);
    ADD(s, dp_chunks, 4, 16, ORR_ESTIMATE_CHUNKS);
}

static void list_choices(orr_space *s)
{
    list_micro_batches(s);
    ADD(s, schedule, ORR_SCHEDULE_INTERLEAVED, ORR_SCHEDULE_ZB_V, ORR_SCHEDULE_ZB_H1,
        ORR_SCHEDULE_DUALPIPE, ORR_SCHEDULE_1F1B, ORR_SCHEDULE_GPIPE);
    ADD(s, recompute, ORR_RECOMPUTE_NONE, ORR_RECOMPUTE_SELECTIVE, ORR_RECOMPUTE_BLOCK,
        ORR_RECOMPUTE_FULL);
    ADD(s, sp, ORR_SWITCH_ON);
    ADD(s, cp_kind, ORR_CONTEXT_RING, ORR_CONTEXT_ALL_GATHER);
    ADD(s, overlap_dp, ORR_SWITCH_ON);
    ADD(s, overlap_tp, ORR_SWITCH_ON, ORR_SWITCH_OFF);
    ADD(s, overlap_pp, ORR_SWITCH_ON);
    ADD(s, overlap_ep, ORR_SWITCH_ON, ORR_SWITCH_OFF);
    ADD(s, dispatcher, ORR_DISPATCHER_FLEX);
    ADD(s, capacity, 0);
    ADD(s, pad_experts, ORR_SWITCH_OFF);
    list_placements(s);
    ADD(s, reshard, ORR_SWITCH_ON, ORR_SWITCH_OFF);
    ADD(s, flash, ORR_SWITCH_ON);
    ADD(s, fusion, ORR_SWITCH_ON);
    ADD(s, graphs, ORR_SWITCH_OFF);
    if (s->constraints.graphs)
        ADD(s, graphs, ORR_SWITCH_ON);
    ADD(s, offload, ORR_OFFLOAD_NONE, ORR_OFFLOAD_OPTIMIZER);
    if (s->constraints.offload)
        ADD(s, offload, ORR_OFFLOAD_ACTIVATIONS, ORR_OFFLOAD_BOTH);
    ADD(s, zero, 1, 2, 0, 3);
    ADD(s, gradients, 0);
    if (s->constraints.gradients)
        ADD(s, gradients, ORR_PRECISION_BF16, ORR_PRECISION_FP32);
    list_reductions(s);
    ADD(s, compress, ORR_COMPRESS_NONE);
    ADD(s, local_steps, 1);
    if (s->cluster->n_sites > 1) {
        ADD(s, cross, ORR_CROSS_DP, ORR_CROSS_PP);
        if (s->constraints.compress)
            ADD(s, compress, ORR_COMPRESS_BF16, ORR_COMPRESS_FP8, ORR_COMPRESS_INT8);
        if (s->constraints.local_steps)
            list_local_steps(s);
    }
}

/* tp is innermost in all orders: it transfers most, and computation hides only part of it. */
static void list_orders(orr_space *s)
{
    static const uint8_t OTHERS[6][3] = {
        {ORR_AXIS_CP, ORR_AXIS_DP, ORR_AXIS_PP}, {ORR_AXIS_CP, ORR_AXIS_PP, ORR_AXIS_DP},
        {ORR_AXIS_DP, ORR_AXIS_PP, ORR_AXIS_CP}, {ORR_AXIS_PP, ORR_AXIS_DP, ORR_AXIS_CP},
        {ORR_AXIS_DP, ORR_AXIS_CP, ORR_AXIS_PP}, {ORR_AXIS_PP, ORR_AXIS_CP, ORR_AXIS_DP}};
    s->n_orders = 1;
    if (orr_plan_has_order(&s->constraints.fixed)) {
        memcpy(s->order[0], s->constraints.fixed.order, sizeof s->order[0]);
        return;
    }
    s->n_orders = 0;
    for (uint32_t k = 0; k < 6; k++) {
        const orr_framework_rules *rules = s->constraints.rules;
        if (rules != NULL && !orr_framework_may(rules, ORR_QUANTITY_order, k < 2 ? k + 1 : 3, NULL))
            continue;
        s->order[s->n_orders][0] = ORR_AXIS_TP + 1;
        for (int i = 0; i < 3; i++)
            s->order[s->n_orders][i + 1] = (uint8_t)(OTHERS[k][i] + 1);
        s->n_orders++;
    }
}

/* --- values that the constraints leave ------------------------------------------------------- */

/* Fields whose values depend on other fields: they are listed during the walk. */
static bool depends_on_others(uint32_t field)
{
    switch (field) {
    case ORR_AT_dp:
    case ORR_AT_pp:
    case ORR_AT_vp:
    case ORR_AT_etp:
    case ORR_AT_group:
    case ORR_AT_batch:
    case ORR_AT_micro_batches:
    case ORR_AT_shards:
    case ORR_AT_recompute_layers:
    case ORR_AT_dp_outer:
    case ORR_AT_first_layers:
    case ORR_AT_last_layers:
    case ORR_AT_layers:
    case ORR_AT_hidden:
    case ORR_AT_ffn:
    case ORR_AT_heads:
    case ORR_AT_seq:
    case ORR_AT_vocab:
        return true;
    default:
        return false;
    }
}

static orr_status apply_constraints(orr_space *s, uint32_t field, orr_error *err)
{
    const uint32_t fixed = orr_plan_get(&s->constraints.fixed, field);
    keep_allowed(s, field);
    if (s->list[field].n > 0)
        return ORR_OK;
    if (fixed != 0 || (s->constraints.pinned >> field & 1))
        add(&s->list[field], fixed);
    else if (field >= ORR_PLAN_NUMBERS)
        for (uint32_t v = 1; v < orr_plan_choice_at(field - ORR_PLAN_NUMBERS)->n; v++)
            add(&s->list[field], v);
    keep_allowed(s, field);
    if (s->list[field].n > 0 || (field == ORR_AT_cross && s->cluster->n_sites < 2))
        return ORR_OK;
    return orr_fail(err, ORR_INVALID, "nothing is left of %s: all of its values are left out",
                    orr_space_field_name(field));
}

/* --- dimensions that are not searched -------------------------------------------------------- */

static bool is_scheduling(uint32_t field)
{
    switch (field) {
    case ORR_AT_schedule:
    case ORR_AT_vp:
    case ORR_AT_group:
    case ORR_AT_micro_batch:
    case ORR_AT_prefetch:
    case ORR_AT_reshard:
    case ORR_AT_recompute:
    case ORR_AT_recompute_layers:
    case ORR_AT_overlap_dp:
    case ORR_AT_overlap_tp:
    case ORR_AT_overlap_pp:
    case ORR_AT_overlap_ep:
    case ORR_AT_offload:
    case ORR_AT_first_layers:
    case ORR_AT_last_layers:
        return true;
    default:
        return false;
    }
}

static bool is_network(uint32_t field)
{
    switch (field) {
    case ORR_AT_dp_algorithm:
    case ORR_AT_dp_chunks:
    case ORR_AT_compress:
    case ORR_AT_wire_dp:
    case ORR_AT_wire_pp:
    case ORR_AT_wire_cp:
    case ORR_AT_wire_ep:
    case ORR_AT_bucket_bytes:
    case ORR_AT_local_steps:
        return true;
    default:
        return false;
    }
}

static uint8_t dimension_of(uint32_t field)
{
    return is_scheduling(field) ? ORR_SEARCH_SCHEDULING
           : is_network(field)  ? ORR_SEARCH_NETWORK
                                : ORR_SEARCH_PLACEMENT;
}

/* Whether a field stays free though its dimension is not searched, since it follows from others. */
static bool is_free(const orr_space_constraints *constraints, uint32_t field)
{
    return (constraints->searched & dimension_of(field)) || field == ORR_AT_batch ||
           field == ORR_AT_micro_batches ||
           (field == ORR_AT_group && (constraints->searched & ORR_SEARCH_PLACEMENT)) ||
           orr_plan_get(&constraints->fixed, field) != 0;
}

/* Fixes all fields of the dimensions that are not searched to what they are in the base plan. */
static void fix_unsearched(orr_space_constraints *constraints, const orr_plan *base)
{
    const orr_plan whole = orr_plan_with_defaults(base);
    for (uint32_t field = 0; field < ORR_PLAN_FIELDS; field++) {
        if (is_free(constraints, field))
            continue;
        orr_plan_put(&constraints->fixed, field, orr_plan_get(&whole, field));
        constraints->pinned |= UINT64_C(1) << field;
    }
    if (constraints->searched & ORR_SEARCH_PLACEMENT)
        return;
    if (!orr_plan_has_order(&constraints->fixed))
        memcpy(constraints->fixed.order, whole.order, sizeof whole.order);
    if (!orr_plan_has_sites(&constraints->fixed))
        memcpy(constraints->fixed.sites, whole.sites, sizeof whole.sites);
    if (!orr_plan_has_sections(&constraints->fixed)) {
        memcpy(constraints->fixed.section_stages, whole.section_stages,
               sizeof whole.section_stages);
        memcpy(constraints->fixed.section_layers, whole.section_layers,
               sizeof whole.section_layers);
    }
}

static orr_status fix_unsearched_dimensions(orr_space *s, orr_error *err)
{
    orr_explored production;
    const orr_plan *base = s->options->base;
    if (s->constraints.searched == ORR_SEARCH_ALL)
        return ORR_OK;
    if (base == NULL) {
        ORR_TRY(orr_baseline_of(ORR_BASELINE_PRODUCTION, s->model, s->cluster, s->options,
                                &production, err));
        base = &production.plan;
    }
    fix_unsearched(&s->constraints, base);
    return ORR_OK;
}

/* Number of plans per searched plan that differ from it in dominated values only. */
static double count_dominated(const orr_space *s)
{
    static const uint8_t SWITCHES[] = {ORR_AT_sp, ORR_AT_flash, ORR_AT_fusion, ORR_AT_overlap_dp,
                                       ORR_AT_overlap_pp};
    double n = 1;
    for (uint32_t i = 0; i < sizeof SWITCHES; i++)
        n *= orr_space_allows(&s->constraints, SWITCHES[i], ORR_SWITCH_ON) +
             orr_space_allows(&s->constraints, SWITCHES[i], ORR_SWITCH_OFF);
    return n;
}

static bool have_uniform_devices(const orr_cluster *c)
{
    bool uniform = true;
    for (uint32_t i = 0; i < c->n_sites; i++)
        uniform &= c->sites[i].device == c->device ||
                   strcmp(c->sites[i].device->name, c->device->name) == 0;
    return uniform;
}

/* --- the whole space ------------------------------------------------------------------------- */

static uint32_t sequence_of(const orr_space *s)
{
    enum { DEFAULT_TOKENS = 8192 }; /* as in <orrery/model.h> */
    const uint32_t said =
        s->options->workload.seq > 0 ? s->options->workload.seq : s->constraints.fixed.seq;
    if (said > 0)
        return said;
    return s->model->context > 0 && s->model->context < DEFAULT_TOKENS ? s->model->context
                                                                       : DEFAULT_TOKENS;
}

static orr_status set_common(orr_space *s, orr_error *err)
{
    const orr_plan *fixed = &s->constraints.fixed;
    if (fixed->batch == 0)
        return orr_fail(err, ORR_INVALID, "a search needs the samples of a step: fix batch=2048");
    s->common = (orr_plan){.batch = fixed->batch,
                           .seq = fixed->seq,
                           .layers = fixed->layers,
                           .hidden = fixed->hidden,
                           .ffn = fixed->ffn,
                           .heads = fixed->heads,
                           .vocab = fixed->vocab,
                           .first_layers = fixed->first_layers,
                           .last_layers = fixed->last_layers};
    s->seq = sequence_of(s);
    return ORR_OK;
}

static orr_status count_devices(orr_space *s, orr_error *err)
{
    const uint32_t all = s->cluster->n_devices, most = s->options->max_devices;
    s->most_devices = most > 0 && most < all ? most : all;
    s->least_devices = s->options->min_devices > 0 ? s->options->min_devices : 1;
    s->max_sites = s->options->max_sites > 0 && s->options->max_sites < s->cluster->n_sites
                       ? s->options->max_sites
                       : s->cluster->n_sites;
    if (s->least_devices <= s->most_devices)
        return ORR_OK;
    return orr_fail(err, ORR_INVALID, "at least %u devices: cluster '%s' has %u%s",
                    s->least_devices, s->cluster->name, all,
                    s->most_devices < all ? ", and fewer may be used" : "");
}

/* The rules of the framework, which the fixed fields have to obey. */
static orr_status read_framework(orr_space *s, orr_arena *arena, orr_error *err)
{
    if (s->options->framework == ORR_FRAMEWORK_NONE)
        return ORR_OK;
    orr_framework_rules *rules = orr_arena_one(arena, orr_framework_rules);
    if (rules == NULL)
        return orr_fail_memory(err);
    ORR_TRY(orr_framework_compile((orr_framework)s->options->framework, rules, err));
    orr_framework_specialize(rules, s->model);
    for (uint32_t field = 0; field < ORR_PLAN_FIELDS; field++) {
        const uint32_t fixed = orr_plan_get(&s->constraints.fixed, field);
        if (fixed != 0 && !orr_framework_may(rules, field, fixed, err))
            return ORR_INVALID;
    }
    s->constraints.rules = rules;
    return ORR_OK;
}

orr_status orr_space_make(const orr_model *model, const orr_cluster *cluster,
                          const orr_explore_options *options, orr_arena *arena, orr_space *ret,
                          orr_error *err)
{
    *ret = (orr_space){.model = model, .cluster = cluster, .options = options};
    ret->fails = options->fleet != NULL && (options->objective == ORR_OBJECTIVE_BUDGET ||
                                            options->second == ORR_OBJECTIVE_BUDGET);
    ORR_TRY(orr_space_read_constraints(options, &ret->constraints, err));
    ORR_TRY(orr_model_override(model, &ret->constraints.fixed, arena, &ret->model, err));
    ORR_TRY(read_framework(ret, arena, err));
    ORR_TRY(fix_unsearched_dimensions(ret, err));
    ORR_TRY(set_common(ret, err));
    ORR_TRY(count_devices(ret, err));
    ret->uniform_devices = have_uniform_devices(cluster);
    list_slices(ret);
    list_contexts(ret);
    list_experts(ret);
    list_precisions(ret);
    list_transports(ret);
    list_choices(ret);
    list_orders(ret);
    list_stages(ret);
    ORR_TRY(list_divisors(ret, arena, err));
    for (uint32_t field = 0; field < ORR_PLAN_FIELDS; field++)
        if (!depends_on_others(field))
            ORR_TRY(apply_constraints(ret, field, err));
    for (uint32_t field = ORR_AT_wire_dp; field <= ORR_AT_wire_ep; field++)
        orr_space_keep_undominated_transports(ret, &ret->list[field]);
    ORR_TRY(orr_space_make_ideal_network(ret, arena, err));
    if (ret->stages.n == 0)
        return orr_fail(err, ORR_INVALID, "nothing is left of pp: all of its values are left out");
    ret->dominated = count_dominated(ret);
    return ORR_OK;
}
