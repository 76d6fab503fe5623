/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "model/step/module_cost.h"
#include "model/step/table_tasks.h"
#include "op/rules.h"

/* Cost of a module: the calls of its tape, priced, phase by phase. */

/* The collective that a call is; UNKNOWN: none, or the receiving end of a send. */
static orr_collective collective_of(uint8_t op)
{
    return op == ORR_OP_RECV ? ORR_COLL_UNKNOWN : orr_op_collective((orr_op)op);
}

static bool is_product(uint8_t op)
{
    return op == ORR_OP_MATMUL || op == ORR_OP_GROUPED_MATMUL;
}

/* Does a call of this pass belong to the phase? Recomputation goes with input gradients. */
static bool belongs(uint8_t pass, orr_slot_phase phase)
{
    switch (phase) {
    case ORR_SLOT_FORWARD:
        return pass == ORR_PASS_FORWARD;
    case ORR_SLOT_BACKWARD:
        return pass == ORR_PASS_RECOMPUTE || pass == ORR_PASS_INPUT || pass == ORR_PASS_WEIGHT;
    case ORR_SLOT_INPUT:
        return pass == ORR_PASS_RECOMPUTE || pass == ORR_PASS_INPUT;
    case ORR_SLOT_WEIGHT:
        return pass == ORR_PASS_WEIGHT;
    case ORR_SLOT_PHASES:
        break;
    }
    return false;
}

/* Bytes of one member as orr_collective_price() takes them: the whole of what is gathered or
 * scattered. */
static int64_t bytes_of(const orr_tape *tape, const orr_tape_call *call)
{
    int64_t in = 0, out = 0;
    if (call->n_in > 0)
        in = orr_type_bytes(&tape->values[call->in[0]].type);
    if (call->n_out > 0)
        out = orr_type_bytes(&tape->values[call->out[0]].type);
    return call->op == ORR_OP_ALL_GATHER ? out : in;
}

int64_t orr_step_jittered_ns(const orr_step_prices *prices, int64_t ns)
{
    return prices->stretch > 1 ? (int64_t)((double)ns * prices->stretch + 0.5) : ns;
}

orr_price orr_step_transfer(const orr_step_prices *prices, orr_axis axis, orr_collective collective,
                            int64_t bytes)
{
    orr_price price = orr_job_rates_collective(orr_step_rates(prices, axis, collective),
                                               &prices->span[axis], collective, bytes);
    price.ns = orr_step_jittered_ns(prices, price.ns + orr_step_call_ns(prices));
    return price;
}

orr_price orr_step_kernel(const orr_step_prices *prices, const orr_work *work)
{
    orr_price price = orr_job_rates_kernel(prices->kernels, work, prices->eager);
    price.ns = orr_step_jittered_ns(prices, price.ns);
    return price;
}

double orr_step_sent_bytes(orr_collective collective, uint32_t members, int64_t bytes)
{
    const double others = members > 0 ? (double)(members - 1) / members : 0;
    switch (collective) {
    case ORR_COLL_ALL_REDUCE:
        return 2 * others * (double)bytes;
    case ORR_COLL_ALL_GATHER:
    case ORR_COLL_REDUCE_SCATTER:
    case ORR_COLL_ALL_TO_ALL:
        return others * (double)bytes;
    case ORR_COLL_SEND:
    case ORR_COLL_BROADCAST:
        return (double)bytes;
    default:
        return 0;
    }
}

orr_status orr_step_prices_of(const orr_plan *plan, const orr_job_rates *rates,
                              orr_step_prices *ret, orr_error *err)
{
    orr_step_prices prices = {.kernels = rates,
                              .stretch =
                                  orr_job_jitter(rates->calibration, (double)orr_plan_ranks(plan)),
                              .graphs = plan->graphs == ORR_SWITCH_ON,
                              .eager = plan->fusion == ORR_SWITCH_OFF};
    for (int axis = 0; axis < ORR_AXES; axis++) {
        prices.transfers[axis] = rates;
        prices.members[axis] = orr_plan_group_size(plan, (orr_axis)axis);
        if (prices.members[axis] > 1)
            ORR_TRY(orr_plan_span(plan, (orr_axis)axis, rates->cluster, &prices.span[axis], err));
    }
    *ret = prices;
    return ORR_OK;
}

typedef struct pricer {
    const orr_module *module;
    const orr_tape *tape; /* of the module */
    const orr_plan *plan;
    const orr_step_prices *prices;
    const orr_port_skew *ports; /* NULL: even routing */
} pricer;

static void price_transfer(const pricer *p, const orr_tape_call *call, orr_call_cost *task)
{
    task->axis = call->args.axis;
    task->collective = (uint8_t)collective_of(call->op);
    task->bytes = bytes_of(p->tape, call);
    task->beside = call->args.overlap;
    const bool routed = task->axis == ORR_AXIS_EP && task->collective == ORR_COLL_ALL_TO_ALL;
    const orr_price price =
        routed ? orr_step_expert_transfer(p->prices, p->plan, p->module, call, p->ports, task)
               : orr_step_transfer(p->prices, (orr_axis)task->axis,
                                   (orr_collective)task->collective, task->bytes);
    task->ns = price.ns;
    task->basis = price.basis;
    task->sent_bytes = orr_step_sent_bytes((orr_collective)task->collective,
                                           p->prices->members[task->axis], task->bytes);
}

/* Prices one call. False: it takes no time and is no task. */
static bool price_call(const pricer *p, uint32_t at, orr_call_cost *ret)
{
    const orr_tape_call *call = &p->tape->calls[at];
    *ret = (orr_call_cost){.axis = ORR_AXIS_NONE,
                           .call = at,
                           .joins = ORR_NONE,
                           .again = call->pass == ORR_PASS_RECOMPUTE};
    if (collective_of(call->op) != ORR_COLL_UNKNOWN) {
        const bool alone = call->args.axis >= ORR_AXES ||
                           p->prices->members[call->args.axis] <= 1 ||
                           orr_step_scales_travel_along(p->tape, call);
        if (!alone)
            price_transfer(p, call, ret);
        return !alone;
    }
    orr_work work;
    if (!orr_module_work(p->module, at, &work))
        return false;
    const bool uneven = p->module->skew != NULL && call->op == ORR_OP_GROUPED_MATMUL;
    const orr_price price = uneven ? orr_step_expert_product(p->prices, p->module, call, &work)
                                   : orr_step_kernel(p->prices, &work);
    ret->ns = price.ns;
    ret->basis = price.basis;
    /* The rank that has most pairs of attention takes longest; the mean is what is computed. */
    ret->flops = call->args.uneven > 1 ? work.flops / call->args.uneven : work.flops;
    return price.ns > 0 || work.flops > 0;
}

static orr_value viewed(const orr_tape *tape, orr_value v)
{
    while (v != ORR_NONE && tape->values[v].view_of != ORR_NONE)
        v = tape->values[v].view_of;
    return v;
}

static bool reads(const orr_tape *tape, const orr_tape_call *call, orr_value value)
{
    for (uint32_t i = 0; i < call->n_in; i++)
        if (viewed(tape, call->in[i]) == value)
            return true;
    return false;
}

/* The first task that uses the result of a transfer. Calls that are no tasks may stand in
 * between. */
static uint32_t joined_by(const orr_tape *tape, const orr_call_cost *tasks, uint32_t n, uint32_t i)
{
    if (tasks[i].call == ORR_NONE) /* of embedding tables, which say it themselves */
        return tasks[i].joins < n ? tasks[i].joins : n;
    const orr_tape_call *transfer = &tape->calls[tasks[i].call];
    for (uint32_t k = i + 1; k < n && transfer->n_out > 0; k++)
        if (tasks[k].call != ORR_NONE &&
            reads(tape, &tape->calls[tasks[k].call], viewed(tape, transfer->out[0])))
            return k;
    return n;
}

/* Decomposed overlap: a transfer and the product that needs, or makes, its data are cut into t
 * pieces (Wang et al., "Overlap communication with dependent computation via decomposition in large
 * deep learning models", ASPLOS 2023). A product starts after the first piece of a gather, and its
 * last piece waits for the gather's last; of a scatter the other way round. Here all pieces but one
 * are one task, so that a transfer x and a product p take max(x + p / t, p + x / t). */
static void cut(const orr_call_cost *whole, uint32_t t, orr_call_cost *most, orr_call_cost *last)
{
    *most = *last = *whole;
    last->ns = whole->ns / t;
    most->ns = whole->ns - last->ns;
    last->flops = last->sent_bytes = 0;
    last->bytes = 0;
}

static void cut_gather(const orr_call_cost *gather, const orr_call_cost *product, uint32_t t,
                       uint32_t at, orr_call_cost *ret)
{
    cut(gather, t, &ret[1], &ret[0]);
    cut(product, t, &ret[2], &ret[3]);
    ret[0].beside = false;
    ret[1].beside = true;
    ret[1].joins = at + 3;
}

static void cut_scatter(const orr_call_cost *product, const orr_call_cost *scatter, uint32_t t,
                        uint32_t at, orr_call_cost *ret)
{
    cut(product, t, &ret[2], &ret[0]);
    cut(scatter, t, &ret[1], &ret[3]);
    ret[1].beside = true;
    ret[1].joins = at + 3;
    ret[3].beside = false;
}

/* Which of a task and the next one are cut: a gather and its product, or a product and a scatter.
 */
static bool are_cut(const pricer *p, const orr_call_cost *tasks, uint32_t n, uint32_t i)
{
    if (i + 1 >= n)
        return false;
    const bool first = tasks[i].axis == ORR_AXIS_TP;
    const orr_call_cost *transfer = &tasks[first ? i : i + 1], *product = &tasks[first ? i + 1 : i];
    return transfer->axis == ORR_AXIS_TP && product->axis == ORR_AXIS_NONE &&
           transfer->collective == (first ? ORR_COLL_ALL_GATHER : ORR_COLL_REDUCE_SCATTER) &&
           !(transfer->beside && transfer->joins != i + (first ? 1 : 2)) &&
           product->call != ORR_NONE && is_product(p->tape->calls[product->call].op);
}

/* Cuts what can be cut; a product with one transfer only. */
static orr_status decompose(const pricer *p, const orr_call_cost *tasks, uint32_t n,
                            orr_arena *arena, orr_phase_cost *cost, orr_error *err)
{
    const bool cuts = p->plan->overlap_tp == ORR_SWITCH_ON;
    const uint32_t t = cuts ? p->prices->members[ORR_AXIS_TP] : 1;
    orr_call_cost *ret = orr_arena_array(arena, orr_call_cost, (cuts ? 2 : 1) * (size_t)n + 1);
    uint32_t *place = orr_arena_array(arena, uint32_t, (size_t)n + 1); /* of each task, then */
    if (ret == NULL || place == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n; i++) {
        place[i] = cost->n;
        if (t < 2 || !are_cut(p, tasks, n, i)) {
            ret[cost->n++] = tasks[i];
            continue;
        }
        const bool gather = tasks[i].axis == ORR_AXIS_TP;
        (gather ? cut_gather : cut_scatter)(&tasks[i], &tasks[i + 1], t, cost->n, &ret[cost->n]);
        place[++i] = cost->n + (gather ? 2 : 1);
        cost->n += 4;
    }
    place[n] = cost->n;
    for (uint32_t i = 0; i < n; i++)
        if (t > 1 && are_cut(p, tasks, n, i))
            i++;
        else if (tasks[i].joins <= n)
            ret[place[i]].joins = place[tasks[i].joins];
    cost->tasks = ret;
    return ORR_OK;
}

static void sum_up(orr_phase_cost *cost)
{
    int64_t by_basis[ORR_BASES] = {0};
    for (uint32_t i = 0; i < cost->n; i++) {
        const orr_call_cost *task = &cost->tasks[i];
        by_basis[task->basis] += task->ns;
        cost->flops += task->flops;
        if (task->axis == ORR_AXIS_NONE) {
            cost->compute_ns += task->ns;
            cost->again_ns += task->again ? task->ns : 0;
            cost->again_flops += task->again ? task->flops : 0;
            continue;
        }
        cost->busy_ns[task->axis] += task->ns;
        cost->sent_bytes[task->axis] += task->sent_bytes;
    }
    for (int b = 1; b < ORR_BASES; b++)
        if (by_basis[b] > by_basis[cost->basis])
            cost->basis = (uint8_t)b;
}

int64_t orr_step_launch_wait(const orr_step_prices *prices, const orr_phase_sequence *sequences,
                             uint32_t n, int64_t device_ns)
{
    uint32_t launches = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < sequences[i].n; k++)
            launches += sequences[i].phases[k]->launches;
    return prices->graphs ? 0 : orr_job_rates_launch_wait(prices->kernels, launches, device_ns);
}

static void simulate_alone(const pricer *p, orr_phase_cost *cost)
{
    const orr_phase_cost *const alone[] = {cost};
    const orr_phase_sequence sequence = {alone, 1};
    orr_phase_simulation played;
    orr_simulate_phases(&sequence, 1, p->prices->kernels->calibration->compute_slowdown, NULL, NULL,
                        &played);
    memcpy(cost->transfer_ns, played.waited_ns, sizeof cost->transfer_ns);
    cost->device_ns = played.span_ns;
    cost->span_ns = played.span_ns + orr_step_launch_wait(p->prices, &sequence, 1, played.span_ns);
    cost->compute_ns += cost->span_ns - cost->device_ns;
}

/* Tasks of the tape's calls, with those of embedding tables in between. */
static orr_status price_tasks(const pricer *p, orr_slot_phase phase, orr_call_cost *tasks,
                              uint32_t *ret_n, orr_error *err)
{
    const bool forward = phase == ORR_SLOT_FORWARD, back = belongs(ORR_PASS_INPUT, phase);
    const orr_module *module = p->module;
    const orr_value gradient = viewed(p->tape, module->grad_in);
    orr_table_tasks tables;
    uint32_t n = 0;
    ORR_TRY(orr_table_tasks_open(module, p->plan, p->prices, &tables, err));
    const bool looks_up = forward && tables.work != NULL,
               updates = back && tables.work != NULL && gradient != ORR_NONE;
    bool taken = !looks_up;
    if (looks_up)
        orr_table_tasks_look_up(&tables, tasks, &n);
    for (uint32_t i = 0; i < p->tape->n_calls; i++) {
        orr_call_cost task;
        if (!belongs(p->tape->calls[i].pass, phase) || !price_call(p, i, &task))
            continue;
        if (!taken && reads(p->tape, &p->tape->calls[i], module->in)) {
            orr_table_tasks_take_bags(&tables, tasks, &n);
            taken = true;
        }
        tasks[n++] = task;
        if (updates && p->tape->values[gradient].made_by == i)
            orr_table_tasks_send_gradients(&tables, tasks, &n);
    }
    if (updates)
        orr_table_tasks_update(&tables, tasks, &n);
    *ret_n = n;
    return ORR_OK;
}

static orr_status price_phase(const pricer *p, orr_slot_phase phase, orr_call_cost *tasks,
                              orr_arena *arena, orr_phase_cost *ret, orr_error *err)
{
    orr_phase_cost cost = {0};
    uint32_t n = 0;
    ORR_TRY(price_tasks(p, phase, tasks, &n, err));
    for (uint32_t i = 0; i < n; i++)
        if (tasks[i].beside)
            tasks[i].joins = joined_by(p->tape, tasks, n, i);
    cost.launches = n;
    ORR_TRY(decompose(p, tasks, n, arena, &cost, err));
    sum_up(&cost);
    simulate_alone(p, &cost);
    *ret = cost;
    return ORR_OK;
}

orr_status orr_module_cost_at(const orr_module *module, const orr_plan *plan,
                              const orr_step_prices *prices, orr_arena *arena, orr_module_cost *ret,
                              orr_error *err)
{
    orr_port_skew ports;
    const pricer p = {module, module->tape, plan, prices, module->skew != NULL ? &ports : NULL};
    orr_call_cost *scratch =
        orr_arena_array(arena, orr_call_cost, (size_t)module->tape->n_calls + 1 + ORR_TABLE_TASKS);
    orr_module_cost cost;
    if (scratch == NULL)
        return orr_fail_memory(err);
    if (module->skew != NULL)
        ports = orr_step_port_skew(prices, plan, module->skew);
    for (int phase = 0; phase < ORR_SLOT_PHASES; phase++)
        ORR_TRY(price_phase(&p, (orr_slot_phase)phase, scratch, arena, &cost.phase[phase], err));
    ORR_TRY(orr_table_tasks_fetch(module, prices, arena, &cost.fetch, err));
    *ret = cost;
    return ORR_OK;
}

orr_status orr_module_cost_of(const orr_module *module, const orr_plan *plan,
                              const orr_job_rates *rates, orr_arena *arena, orr_module_cost *ret,
                              orr_error *err)
{
    orr_step_prices prices;
    ORR_TRY(orr_step_prices_of(plan, rates, &prices, err));
    return orr_module_cost_at(module, plan, &prices, arena, ret, err);
}
