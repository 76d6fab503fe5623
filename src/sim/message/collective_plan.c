/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/message/collective_plan.h"

#include <inttypes.h>

#include "sim/message/network.h"

/* Plans of collectives: how ASTRA-sim splits a collective into chunks, phases and messages. The
 * algorithms follow its sources (astra-sim/system/collective/: Ring, AllToAll for direct,
 * HalvingDoubling, DoubleBinaryTreeAllReduce), including their rounding. */

/* Endpoint delay among some ranks, whatever the system file says (MemBus, "Fast"). */
enum { LOCAL_ENDPOINT_NS = 10 };
/* Largest size for which times fit, on the slowest network that is accepted. */
#define MOST_BYTES (INT64_C(1) << 50)

static const char *const KIND_NAMES[] = {"all-reduce", "all-gather", "reduce-scatter",
                                         "all-to-all"};
static const char *const ALGORITHM_NAMES[] = {
#define NAME(name, text) text,
    ORR_ASTRA_ALGORITHM_MAP(NAME)
#undef NAME
};

static bool is_power_of_two(uint32_t n)
{
    return (n & (n - 1)) == 0;
}

/* Time of one write and two reads of the local memory, each rounded down. */
static int64_t reduce_ns(const orr_astra_system *system, int64_t bytes)
{
    return 3 * (int64_t)((double)bytes / system->local_bytes_per_ns);
}

/* Sizes and partners of halvingDoubling, step by step as in the original: halves are rounded
 * down and later doubled again. */
static orr_status plan_halving(const orr_planner *planner, orr_astra_kind kind, int64_t bytes,
                               orr_collective_phase *phase, orr_error *err)
{
    const bool doubling_only = kind == ORR_ASTRA_ALL_GATHER;
    bool up = doubling_only;
    int64_t size = doubling_only ? bytes : bytes / 2;
    uint32_t offset = doubling_only ? phase->n / 2 : 1;
    orr_halving_step *steps = orr_arena_array(planner->arena, orr_halving_step, phase->steps + 1);
    if (steps == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i <= phase->steps; i++) {
        if (size == 0 && i < phase->steps)
            return orr_fail(err, ORR_INVALID,
                            "halvingDoubling among %u ranks: %" PRId64
                            " bytes are too few to be halved so often",
                            phase->n, bytes);
        steps[i] = (orr_halving_step){offset, size, reduce_ns(planner->job->system, size), 0};
        offset = up ? offset / 2 : offset * 2;
        size = up ? size * 2 : size / 2;
        if (!up && offset == phase->n && kind == ORR_ASTRA_ALL_REDUCE) {
            up = true;
            offset /= 2;
            size *= 2;
        }
    }
    phase->halving = steps;
    return ORR_OK;
}

static uint32_t log2_of(uint32_t n)
{
    return 31 - (uint32_t)__builtin_clz(n);
}

static void plan_steps(const orr_astra_implementation *way, orr_astra_kind kind, bool local,
                       orr_collective_phase *phase)
{
    const uint32_t n = phase->n;
    const uint32_t once = phase->algorithm == ORR_ASTRA_HALVING_DOUBLING ? log2_of(n) : n - 1;
    phase->parallel = 1;
    phase->steps = kind == ORR_ASTRA_ALL_REDUCE ? 2 * once : once;
    switch ((orr_astra_algorithm)phase->algorithm) {
    case ORR_ASTRA_RING:
        if (kind == ORR_ASTRA_ALL_TO_ALL)
            phase->steps = (uint32_t)((uint64_t)n * (n - 1) / 2);
        phase->turn = n;
        break;
    case ORR_ASTRA_DIRECT:
        if (way->window < 0 || (uint32_t)way->window > n - 1)
            phase->parallel = n - 1;
        else
            phase->parallel = (uint32_t)way->window;
        phase->turn = (local ? n : 2) * phase->parallel;
        break;
    case ORR_ASTRA_HALVING_DOUBLING:
        phase->turn = once;
        break;
    case ORR_ASTRA_DOUBLE_BINARY_TREE:
        phase->turn = 1;
        break;
    }
}

/* Distances to partners: equal for all ranks of a ring, and in each step of halvingDoubling. */
static void set_distances(const orr_astra_network *network, const orr_line *line,
                          orr_collective_phase *phase)
{
    if (line->dim < 0)
        return;
    const uint32_t dim = (uint32_t)line->dim;
    const uint8_t topology = network->topology[dim];
    orr_halving_step *steps = phase->halving;
    phase->serial_ns = (double)phase->bytes / network->bytes_per_ns[dim];
    phase->near_ns = orr_message_ns(network, dim, orr_hops(topology, line->n, 0, 1), phase->bytes);
    for (uint32_t i = 0; steps != NULL && i < phase->steps; i++)
        steps[i].ns = orr_message_ns(network, dim, orr_hops(topology, line->n, 0, steps[i].offset),
                                     steps[i].bytes);
}

/* Bytes that leave the phase and enter the next one. */
static int64_t bytes_after(const orr_collective_phase *phase, orr_astra_kind kind, int64_t bytes)
{
    if (phase->algorithm == ORR_ASTRA_DOUBLE_BINARY_TREE)
        return bytes;
    return kind == ORR_ASTRA_ALL_GATHER       ? bytes * phase->n
           : kind == ORR_ASTRA_REDUCE_SCATTER ? bytes / phase->n
                                              : bytes;
}

static orr_status add_phase(const orr_planner *planner, orr_collective_plan *plan, uint32_t line,
                            orr_astra_kind kind, int64_t *bytes, orr_error *err)
{
    const orr_astra_system *system = planner->job->system;
    static const orr_astra_implementation ring = {.algorithm = ORR_ASTRA_RING};
    const bool local = plan->members->local;
    const orr_astra_implementation *way =
        local && system->n_ways[plan->kind] > 1 ? &ring : &system->ways[plan->kind][line];
    orr_collective_phase *phase = &plan->phases[plan->n_phases++];
    *phase = (orr_collective_phase){
        .algorithm = way->algorithm, .line = (uint8_t)line, .n = plan->lines[line].n};
    if ((way->algorithm == ORR_ASTRA_HALVING_DOUBLING ||
         way->algorithm == ORR_ASTRA_DOUBLE_BINARY_TREE) &&
        !is_power_of_two(phase->n))
        return orr_fail(err, ORR_INVALID, "%s among %u ranks: it needs a power of two",
                        ALGORITHM_NAMES[way->algorithm], phase->n);
    if (way->algorithm == ORR_ASTRA_HALVING_DOUBLING && kind == ORR_ASTRA_ALL_TO_ALL)
        return orr_fail(err, ORR_INVALID, "all-to-all cannot go by halvingDoubling");
    if (way->algorithm == ORR_ASTRA_DOUBLE_BINARY_TREE &&
        (local || (line + 1 == plan->n_lines && plan->n_lines < plan->members->n_dims)))
        return orr_fail(err, ORR_INVALID,
                        "doubleBinaryTree among some ranks only, or in the last dimension that is "
                        "named when the network has more");
    plan_steps(way, kind, local, phase);
    phase->reducing = kind == ORR_ASTRA_ALL_REDUCE       ? ORR_REDUCES_EVERY_SECOND
                      : kind == ORR_ASTRA_REDUCE_SCATTER ? ORR_REDUCES_ALWAYS
                                                         : ORR_REDUCES_NEVER;
    phase->endpoint_ns = local ? LOCAL_ENDPOINT_NS : system->endpoint_delay_ns;
    const bool whole =
        kind == ORR_ASTRA_ALL_GATHER || way->algorithm == ORR_ASTRA_DOUBLE_BINARY_TREE;
    phase->bytes = whole ? *bytes : *bytes / phase->n;
    phase->reduce_ns = reduce_ns(system, phase->bytes);
    if (way->algorithm == ORR_ASTRA_HALVING_DOUBLING)
        ORR_TRY(plan_halving(planner, kind, *bytes, phase, err));
    set_distances(planner->job->network, &plan->lines[line], phase);
    *bytes = bytes_after(phase, kind, *bytes);
    if (*bytes > MOST_BYTES)
        return orr_fail(err, ORR_LIMIT, "%s of %" PRId64 " bytes is too large",
                        KIND_NAMES[plan->kind], plan->bytes);
    return ORR_OK;
}

static orr_status add_phases(const orr_planner *planner, orr_collective_plan *plan, int64_t bytes,
                             orr_error *err)
{
    const orr_astra_kind kind = (orr_astra_kind)plan->kind;
    uint32_t walked[ORR_ASTRA_DIMS], n = 0;
    plan->phases = orr_arena_array(planner->arena, orr_collective_phase, 2 * (size_t)plan->n_lines);
    if (plan->phases == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < plan->n_lines; i++)
        if (plan->lines[i].n > 1)
            walked[n++] = i;
    if (kind == ORR_ASTRA_ALL_REDUCE && planner->job->system->local_bw_aware) {
        for (uint32_t i = 0; i + 1 < n; i++)
            ORR_TRY(add_phase(planner, plan, walked[i], ORR_ASTRA_REDUCE_SCATTER, &bytes, err));
        if (n > 0)
            ORR_TRY(add_phase(planner, plan, walked[n - 1], ORR_ASTRA_ALL_REDUCE, &bytes, err));
        for (uint32_t i = n; i-- > 1;)
            ORR_TRY(add_phase(planner, plan, walked[i - 1], ORR_ASTRA_ALL_GATHER, &bytes, err));
        for (uint32_t i = 0; i < plan->n_phases; i++) {
            plan->phases[i].tree = i + 1 < n   ? ORR_TREE_ROOT_LAST
                                   : i + 1 > n ? ORR_TREE_ROOT_FIRST
                                               : ORR_TREE_ALTERNATE;
            plan->phases[i].queues = i < n ? ORR_QUEUES_FIRST : ORR_QUEUES_LAST;
        }
        return ORR_OK;
    }
    for (uint32_t i = 0; i < n; i++)
        ORR_TRY(add_phase(planner, plan, walked[kind == ORR_ASTRA_ALL_GATHER ? n - 1 - i : i], kind,
                          &bytes, err));
    return ORR_OK;
}

/* Lines on which the system file's implementations run. */
static orr_status set_lines(const orr_planner *planner, orr_collective_plan *plan, orr_error *err)
{
    const orr_astra_system *system = planner->job->system;
    const orr_message_group *members = plan->members;
    plan->n_lines = system->n_ways[plan->kind];
    if (plan->n_lines == 0)
        return orr_fail(err, ORR_INVALID, "the system file has no %s-implementation",
                        KIND_NAMES[plan->kind]);
    if (members->local) {
        plan->n_lines = 1;
        plan->lines[0] = members->dims[0];
        return ORR_OK;
    }
    if (system->ways[plan->kind][0].one) {
        plan->n_lines = 1;
        plan->lines[0] = (orr_line){
            .n = members->n, .stride = 1, .dim = planner->job->network->n_dims == 1 ? 0 : -1};
        return members->n == planner->job->network->n_ranks
                   ? ORR_OK
                   : orr_fail(err, ORR_UNSUPPORTED, "\"one...\" among some dimensions only");
    }
    if (plan->n_lines > planner->job->network->n_dims)
        return orr_fail(err, ORR_INVALID,
                        "%s-implementation names %u dimensions; the network has %u",
                        KIND_NAMES[plan->kind], plan->n_lines, planner->job->network->n_dims);
    for (uint32_t i = 0; i < plan->n_lines; i++)
        plan->lines[i] = members->dims[i];
    return ORR_OK;
}

/* Chunk size: size / splits, but at least a byte a rank (except for an all-gather, whose size is
 * per rank). */
static orr_status set_chunks(const orr_planner *planner, orr_collective_plan *plan,
                             int64_t *ret_chunk_bytes, orr_error *err)
{
    const int64_t splits = planner->job->system->splits;
    const int64_t ranks = planner->job->network->n_ranks;
    int64_t size = plan->bytes, chunk = size / splits;
    if (plan->kind != ORR_ASTRA_ALL_GATHER && ranks > chunk) {
        chunk = ranks;
        size = splits * chunk;
    }
    if (chunk == 0)
        return orr_fail(err, ORR_INVALID,
                        "%s of %" PRId64 " bytes cannot be split into %" PRId64 " chunks",
                        KIND_NAMES[plan->kind], plan->bytes, splits);
    const int64_t n = (size + chunk - 1) / chunk;
    if (n > UINT16_MAX - 1)
        return orr_fail(err, ORR_LIMIT, "%s in %" PRId64 " chunks: at most %d",
                        KIND_NAMES[plan->kind], n, UINT16_MAX - 1);
    plan->n_chunks = (uint32_t)n;
    *ret_chunk_bytes = chunk;
    return ORR_OK;
}

static void finish_plan(const orr_astra_network *network, orr_collective_plan *plan)
{
    plan->symmetric = plan->symmetric_links = true;
    for (uint32_t i = 0; i < plan->n_phases; i++) {
        const orr_collective_phase *phase = &plan->phases[i];
        const bool tree = phase->algorithm == ORR_ASTRA_DOUBLE_BINARY_TREE;
        const int32_t dim = plan->lines[phase->line].dim;
        if (tree || dim < 0)
            plan->symmetric = plan->symmetric_links = false;
        else if (phase->algorithm == ORR_ASTRA_HALVING_DOUBLING && phase->n > 2 &&
                 network->topology[dim] == ORR_TOPOLOGY_RING)
            plan->symmetric_links = false;
        /* A tree has one edge less than ranks, and each is used up and down. */
        const uint64_t members = plan->members->n;
        plan->messages += plan->n_chunks *
                          (tree ? members / phase->n * 2 * (phase->n - 1) : members * phase->steps);
    }
}

orr_status orr_planner_plan(orr_planner *planner, orr_message_group *members, orr_astra_kind kind,
                            int64_t bytes, const orr_collective_plan **ret, orr_error *err)
{
    int64_t chunk_bytes;
    for (const orr_collective_plan *old = members->plans; old != NULL; old = old->next)
        if (old->kind == kind && old->bytes == bytes) {
            *ret = old;
            return ORR_OK;
        }
    orr_collective_plan *plan = orr_arena_one(planner->arena, orr_collective_plan);
    if (plan == NULL)
        return orr_fail_memory(err);
    plan->members = members;
    plan->kind = (uint8_t)kind;
    plan->bytes = bytes;
    ORR_TRY(set_lines(planner, plan, err));
    ORR_TRY(set_chunks(planner, plan, &chunk_bytes, err));
    ORR_TRY(add_phases(planner, plan, chunk_bytes, err));
    finish_plan(planner->job->network, plan);
    plan->next = members->plans;
    members->plans = plan;
    *ret = plan;
    return ORR_OK;
}
