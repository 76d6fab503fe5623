/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/simulate_ranks.h"

#include <string.h>

#include "model/plan/groups.h"

/* WRITERS_BACK: how many calls further back the writer of a call's bytes is looked for. */
enum { LANES = ORR_LANES_MAX, RANKS_MAX = 64, WRITERS_BACK = 512 };

/* State of one rank. */
typedef struct rank_state {
    uint32_t next[LANES]; /* place in the lane's list */
    uint32_t n[LANES];
    uint32_t *calls[LANES];  /* of each lane, in order */
    uint32_t *waits, *first; /* of call c: waits[first[c]] .. waits[first[c + 1] - 1] */
    int64_t free_ns[LANES], core_ns;
    uint32_t *collective_index; /* shape (calls): which one of its axis it is */
} rank_state;

typedef struct simulation {
    const orr_plan *plan;
    orr_simulated_rank *ranks;
    rank_state *states;
    uint32_t n;
    bool shared;
    orr_arena *arena;
    orr_error *err;
    uint32_t members[RANKS_MAX];
} simulation;

/* Members that a send goes to and a receive comes from; ORR_NONE. */
static uint32_t call_send_peer(const orr_tape_call *call)
{
    return call->op == ORR_OP_SEND && call->args.begin > 0 ? (uint32_t)call->args.begin - 1
                                                           : ORR_NONE;
}
static uint32_t call_recv_peer(const orr_tape_call *call)
{
    return call->op == ORR_OP_RECV && call->args.count > 0 ? (uint32_t)call->args.count - 1
                                                           : ORR_NONE;
}

static uint8_t lane_of(const orr_program_source *s, uint32_t c)
{
    const orr_tape_call *call = &s->tape->calls[c];
    return s->calls != NULL     ? s->calls[c].lane
           : call->args.overlap ? ORR_LANE_COMM
                                : ORR_LANE_COMPUTE;
}

static bool is_collective(const orr_tape_call *call)
{
    return orr_op_of((orr_op)call->op)->family == ORR_OP_FAMILY_COLLECTIVE &&
           call->args.members > 1 && call->op != ORR_OP_REPLICATE && call->op != ORR_OP_SHARD;
}

static orr_value root_of(const orr_tape *tape, orr_value v)
{
    return tape->values[v].view_of == ORR_NONE ? v : tape->values[v].view_of;
}

/* Bytes at which a value is bound; false: at none. */
static bool bound_bytes(const orr_program_source *s, orr_value v, uintptr_t *ret_begin,
                        uintptr_t *ret_end)
{
    if (s->bindings == NULL || s->bindings[v].data == NULL)
        return false;
    *ret_begin = (uintptr_t)s->bindings[v].data;
    *ret_end = *ret_begin + (uintptr_t)orr_type_bytes(&s->tape->values[v].type);
    return true;
}

/* Whether a call writes bytes that another reads or writes. */
static bool writes_for(const orr_program_source *s, const orr_tape_call *writer,
                       const orr_tape_call *call)
{
    uintptr_t begin, end, from, to;
    for (uint32_t o = 0; o < writer->n_out; o++) {
        if (writer->out[o] == ORR_NONE || !bound_bytes(s, writer->out[o], &begin, &end))
            continue;
        for (uint32_t k = 0; k < (uint32_t)call->n_in + call->n_out; k++) {
            const orr_value v = k < call->n_in ? call->in[k] : call->out[k - call->n_in];
            if (v != ORR_NONE && bound_bytes(s, v, &from, &to) && from < end && begin < to)
                return true;
        }
    }
    return false;
}

/* The last call of each other lane that writes what a call reads or writes, as programs wait by
 * addresses. Lists at most LANES. */
static uint32_t list_writers(const orr_program_source *s, uint32_t c, uint32_t *ret)
{
    const uint8_t own = lane_of(s, c);
    bool found[LANES] = {false};
    uint32_t n = 0;
    for (uint32_t i = c; i-- > 0 && c - i <= WRITERS_BACK;) {
        const uint8_t lane = lane_of(s, i) < LANES ? lane_of(s, i) : 0;
        if (lane == own || found[lane] || !writes_for(s, &s->tape->calls[i], &s->tape->calls[c]))
            continue;
        found[lane] = true;
        ret[n++] = i;
    }
    return n;
}

/* Lists the calls that a call waits for: producers of its inputs, last writers of its bytes in
 * other lanes, and the program's own dependencies. */
static orr_status list_waits(simulation *p, uint32_t r)
{
    const orr_program_source *s = &p->ranks[r].source;
    const orr_tape *tape = s->tape;
    rank_state *w = &p->states[r];
    const size_t most = (size_t)tape->n_calls * (ORR_CALL_IN + LANES) + s->n_deps;
    w->first = orr_arena_array(p->arena, uint32_t, tape->n_calls + 1);
    w->waits = orr_arena_array(p->arena, uint32_t, most);
    uint32_t *maker = orr_arena_array(p->arena, uint32_t, tape->n_values), *dep_at, n = 0;
    dep_at = orr_arena_array(p->arena, uint32_t, tape->n_calls + 1);
    uint32_t *deps = orr_arena_array(p->arena, uint32_t, s->n_deps);
    if (w->first == NULL || w->waits == NULL || maker == NULL || dep_at == NULL || deps == NULL)
        return orr_fail_memory(p->err);
    for (uint32_t i = 0; i < s->n_deps; i++)
        dep_at[s->deps[i].call + 1]++;
    for (uint32_t c = 0; c < tape->n_calls; c++)
        dep_at[c + 1] += dep_at[c];
    for (uint32_t i = s->n_deps; i-- > 0;)
        deps[--dep_at[s->deps[i].call + 1]] = s->deps[i].on;
    for (orr_value v = 0; v < tape->n_values; v++)
        maker[v] = ORR_NONE;
    for (uint32_t c = 0; c < tape->n_calls; c++) {
        const orr_tape_call *call = &tape->calls[c];
        w->first[c] = n;
        for (uint32_t k = 0; k < call->n_in; k++)
            if (maker[root_of(tape, call->in[k])] != ORR_NONE)
                w->waits[n++] = maker[root_of(tape, call->in[k])];
        n += list_writers(s, c, w->waits + n);
        const uint32_t end = c + 1 < tape->n_calls ? dep_at[c + 2] : s->n_deps;
        for (uint32_t i = dep_at[c + 1]; i < end; i++)
            if (deps[i] < c)
                w->waits[n++] = deps[i];
        for (uint32_t k = 0; k < call->n_out; k++)
            maker[root_of(tape, call->out[k])] = c;
    }
    w->first[tape->n_calls] = n;
    return ORR_OK;
}

static orr_status list_lanes(simulation *p, uint32_t r)
{
    const orr_program_source *s = &p->ranks[r].source;
    const uint32_t n = s->tape->n_calls;
    rank_state *w = &p->states[r];
    uint32_t count[ORR_AXES] = {0};
    w->collective_index = orr_arena_array(p->arena, uint32_t, n);
    for (int lane = 0; lane < LANES; lane++) {
        w->calls[lane] = orr_arena_array(p->arena, uint32_t, n);
        if (w->calls[lane] == NULL || w->collective_index == NULL)
            return orr_fail_memory(p->err);
    }
    for (uint32_t c = 0; c < n; c++) {
        const orr_tape_call *call = &s->tape->calls[c];
        const uint8_t lane = lane_of(s, c) < LANES ? lane_of(s, c) : 0;
        if (is_collective(call) && call->args.axis < ORR_AXES && call->op != ORR_OP_RECV &&
            (call->op != ORR_OP_SEND || call_send_peer(call) == ORR_NONE))
            w->collective_index[c] = count[call->args.axis]++;
        w->calls[lane][w->n[lane]++] = c;
        p->ranks[r].end_ns[c] = -1;
    }
    return list_waits(p, r);
}

/* Earliest begin; -1: not known yet. */
static int64_t ready_ns(const simulation *p, uint32_t r, uint8_t lane, uint32_t c)
{
    const rank_state *w = &p->states[r];
    int64_t at = w->free_ns[lane];
    for (uint32_t i = w->first[c]; i < w->first[c + 1]; i++) {
        const int64_t end = p->ranks[r].end_ns[w->waits[i]];
        if (end < 0)
            return -1;
        at = end > at ? end : at;
    }
    return p->shared && w->core_ns > at ? w->core_ns : at;
}

static void finish(simulation *p, uint32_t r, uint8_t lane, uint32_t c, int64_t end, bool works)
{
    rank_state *w = &p->states[r];
    p->ranks[r].end_ns[c] = end;
    w->free_ns[lane] = end;
    w->next[lane]++;
    if (works && end > w->core_ns)
        w->core_ns = end;
    if (end > p->ranks[r].span_ns)
        p->ranks[r].span_ns = end;
}

/* The call of another rank with the same collective_index, if it is next in its lane. */
static bool find_partner(const simulation *p, uint32_t other, const orr_tape_call *call,
                         uint32_t collective_index, uint32_t *ret_call, uint8_t *ret_lane)
{
    const rank_state *w = &p->states[other];
    const orr_tape *tape = p->ranks[other].source.tape;
    for (uint8_t lane = 0; lane < LANES; lane++) {
        if (w->next[lane] >= w->n[lane])
            continue;
        const uint32_t c = w->calls[lane][w->next[lane]];
        const orr_tape_call *theirs = &tape->calls[c];
        if (theirs->op == call->op && theirs->args.axis == call->args.axis &&
            is_collective(theirs) && w->collective_index[c] == collective_index) {
            *ret_call = c;
            *ret_lane = lane;
            return true;
        }
    }
    return false;
}

static bool run_collective(simulation *p, uint32_t r, uint8_t lane, uint32_t c)
{
    const orr_tape_call *call = &p->ranks[r].source.tape->calls[c];
    const uint32_t n = orr_plan_group_size(p->plan, (orr_axis)call->args.axis);
    uint32_t calls[RANKS_MAX];
    uint8_t lanes[RANKS_MAX];
    int64_t at = 0, ns = 0;
    (void)lane;
    orr_plan_members_of(p->plan, (orr_axis)call->args.axis, r, p->members);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t m = p->members[i];
        if (!find_partner(p, m, call, p->states[r].collective_index[c], &calls[i], &lanes[i]))
            return false;
        const int64_t ready = ready_ns(p, m, lanes[i], calls[i]);
        if (ready < 0)
            return false;
        at = ready > at ? ready : at;
        ns = p->ranks[m].ns[calls[i]] > ns ? p->ranks[m].ns[calls[i]] : ns;
    }
    for (uint32_t i = 0; i < n; i++)
        finish(p, p->members[i], lanes[i], calls[i], at + ns, true);
    return true;
}

/* A receive ends with its send: the sender's next call in some lane that goes to this rank. */
static bool receive(simulation *p, uint32_t r, uint8_t lane, uint32_t c)
{
    const orr_tape_call *call = &p->ranks[r].source.tape->calls[c];
    const uint32_t n = orr_plan_group_size(p->plan, (orr_axis)call->args.axis);
    const int64_t ready = ready_ns(p, r, lane, c);
    uint32_t me = 0;
    orr_plan_members_of(p->plan, (orr_axis)call->args.axis, r, p->members);
    const uint32_t from = call_recv_peer(call) < n ? p->members[call_recv_peer(call)] : ORR_NONE;
    while (me < n && p->members[me] != r)
        me++;
    if (from == ORR_NONE || ready < 0)
        return false;
    for (uint8_t l = 0; l < LANES; l++) {
        const rank_state *w = &p->states[from];
        if (w->next[l] >= w->n[l])
            continue;
        const uint32_t theirs = w->calls[l][w->next[l]];
        const orr_tape_call *send = &p->ranks[from].source.tape->calls[theirs];
        if (call_send_peer(send) != me || send->args.axis != call->args.axis)
            continue;
        const int64_t sent = ready_ns(p, from, l, theirs);
        if (sent < 0)
            return false;
        const int64_t end = (sent > ready ? sent : ready) + p->ranks[from].ns[theirs];
        finish(p, from, l, theirs, end, false);
        finish(p, r, lane, c, end, false);
        return true;
    }
    return false;
}

/* Executes the next call of a lane, if its dependencies are done. */
static bool advance(simulation *p, uint32_t r, uint8_t lane)
{
    const rank_state *w = &p->states[r];
    if (w->next[lane] >= w->n[lane])
        return false;
    const uint32_t c = w->calls[lane][w->next[lane]];
    const orr_tape_call *call = &p->ranks[r].source.tape->calls[c];
    if (is_collective(call) && call->op == ORR_OP_RECV)
        return receive(p, r, lane, c);
    if (is_collective(call) && call_send_peer(call) != ORR_NONE)
        return false; /* executed with its receive */
    if (is_collective(call))
        return run_collective(p, r, lane, c);
    const int64_t ready = ready_ns(p, r, lane, c);
    if (ready < 0)
        return false;
    finish(p, r, lane, c, ready + p->ranks[r].ns[c], true);
    return true;
}

static bool is_over(const simulation *p)
{
    for (uint32_t r = 0; r < p->n; r++)
        for (int lane = 0; lane < LANES; lane++)
            if (p->states[r].next[lane] < p->states[r].n[lane])
                return false;
    return true;
}

orr_status orr_simulate_ranks(const orr_plan *plan, orr_simulated_rank *ranks, uint32_t n,
                              bool shared, orr_arena *arena, orr_error *err)
{
    simulation p = {
        .plan = plan, .ranks = ranks, .n = n, .shared = shared, .arena = arena, .err = err};
    if (n > RANKS_MAX)
        return orr_fail(err, ORR_LIMIT, "more than %d ranks are not played", RANKS_MAX);
    p.states = orr_arena_array(arena, rank_state, n);
    if (p.states == NULL)
        return orr_fail_memory(err);
    for (uint32_t r = 0; r < n; r++) {
        ranks[r].span_ns = 0;
        ORR_TRY(list_lanes(&p, r));
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t r = 0; r < n; r++)
            for (uint8_t lane = 0; lane < LANES; lane++)
                while (advance(&p, r, lane))
                    moved = true;
    }
    return is_over(&p)
               ? ORR_OK
               : orr_fail(err, ORR_INVALID, "the ranks of this plan would wait for one another");
}
