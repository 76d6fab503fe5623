/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "engine/run/program_state.h"

/* Finds the cross-lane dependencies of a program. Calls of one lane run in order. Between lanes a
 * call waits for the hazards on the bytes it touches: the last write of what it reads (RAW), and
 * the last write and all reads of what it writes (WAW, WAR). Hazards are between byte ranges,
 * whatever values they belong to, kept in an ordered list of disjoint spans.
 *
 * It runs twice: before memory is planned, with an address range of its own for each value, to find
 * how long other lanes need a value (`ret_join`); and again with the planned addresses, where
 * values share bytes.
 *
 * Vector clocks (Fidge 1988; Mattern 1989) drop waits that follow from others: `known` holds, for
 * each call, how many calls of every lane are known to be done when it starts. Every wait is for a
 * call of a lower number, so lanes cannot deadlock. */

/* A byte range that one call wrote last, and that calls of several lanes have read since. */
typedef struct span {
    uintptr_t begin, end;
    uint32_t writer;                /* call + 1; 0: none */
    uint32_t reader[ORR_LANES_MAX]; /* by lane: the last reading call + 1 */
} span;

typedef struct hazard_finder {
    orr_program *p;
    orr_array(span) spans; /* by address, disjoint */
    orr_array(orr_lane_wait) waits;
    uint32_t *known; /* shape (n_calls, n_lanes): vector clocks: calls of each lane, + 1, that are
                        done before the call starts */
    uint32_t need[ORR_LANES_MAX]; /* of the current call: call + 1 */
    uint32_t last[ORR_LANES_MAX]; /* call + 1 of each lane visited last */
    bool failed;                  /* out of memory */
} hazard_finder;

/* The first span that ends after `at` (binary search). */
static size_t find_span(const hazard_finder *f, uintptr_t at)
{
    size_t low = 0, high = f->spans.n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (f->spans.at[middle].end > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void insert(hazard_finder *f, size_t at, span what)
{
    if (!orr_array_reserve(&f->spans, 1)) {
        f->failed = true;
        return;
    }
    memmove(f->spans.at + at + 1, f->spans.at + at, (f->spans.n - at) * sizeof what);
    f->spans.at[at] = what;
    f->spans.n++;
}

/* Splits spans so that none reaches across `at`. */
static void cut(hazard_finder *f, uintptr_t at)
{
    const size_t i = find_span(f, at);
    if (i == f->spans.n || f->spans.at[i].begin >= at)
        return;
    span rest = f->spans.at[i];
    rest.begin = at;
    insert(f, i + 1, rest);
    if (!f->failed)
        f->spans.at[i].end = at;
}

static void want(hazard_finder *f, uint32_t call_and_1)
{
    if (call_and_1 == 0)
        return;
    uint32_t *need = &f->need[f->p->actions[call_and_1 - 1].lane];
    if (call_and_1 > *need)
        *need = call_and_1;
}

static void read_bytes(hazard_finder *f, uintptr_t begin, uintptr_t end, uint32_t call)
{
    const uint32_t lane = f->p->actions[call].lane;
    cut(f, begin);
    cut(f, end);
    size_t i = find_span(f, begin);
    for (uintptr_t at = begin; at < end && !f->failed; i++) {
        const uintptr_t next =
            i < f->spans.n && f->spans.at[i].begin < end ? f->spans.at[i].begin : end;
        if (next > at) { /* bytes not accessed before */
            insert(f, i, (span){.begin = at, .end = next});
            if (f->failed)
                return;
        }
        want(f, f->spans.at[i].writer);
        f->spans.at[i].reader[lane] = call + 1;
        at = f->spans.at[i].end;
    }
}

static void write_bytes(hazard_finder *f, uintptr_t begin, uintptr_t end, uint32_t call)
{
    cut(f, begin);
    cut(f, end);
    const size_t first = find_span(f, begin);
    size_t i = first;
    for (; i < f->spans.n && f->spans.at[i].begin < end; i++) {
        want(f, f->spans.at[i].writer);
        for (uint32_t l = 0; l < f->p->n_lanes; l++)
            want(f, f->spans.at[i].reader[l]);
    }
    if (i > first)
        memmove(f->spans.at + first, f->spans.at + i, (f->spans.n - i) * sizeof *f->spans.at);
    f->spans.n -= i - first;
    if (!f->failed)
        insert(f, first, (span){.begin = begin, .end = end, .writer = call + 1});
}

static void touch(hazard_finder *f, const orr_operand *operand, uint32_t call, bool writes)
{
    if (operand->data == NULL || orr_type_elements(&operand->type) <= 0)
        return;
    const int64_t bits = orr_element_bits(operand->type.dtype);
    int64_t last = 0;
    for (int d = 0; d < operand->type.rank; d++)
        last += (operand->type.dim[d] - 1) * operand->stride[d];
    const uintptr_t begin = (uintptr_t)operand->data;
    const uintptr_t end = begin + (uintptr_t)(((last + 1) * bits + 7) / 8);
    if (writes)
        write_bytes(f, begin, end, call);
    else
        read_bytes(f, begin, end, call);
}

/* Optimizers write all their inputs but the gradient. */
static bool writes_input(const orr_tape_call *call, uint32_t k)
{
    return orr_op_of((orr_op)call->op)->family == ORR_OP_FAMILY_OPTIMIZER && k != 1;
}

/* Communication order: a channel is modelled as bytes at addresses that no value has, written by
 * its collectives. A collective writes the whole channel; a message one way only the bytes of its
 * peer and direction. All members thus communicate in the same order, while messages with different
 * peers need not wait for one another. */
static void touch_channel(hazard_finder *f, uint32_t index)
{
    const orr_tape_call *call = &f->p->tape->calls[index];
    const orr_communicator *c = f->p->actions[index].communicator;
    uintptr_t begin = (UINT64_C(7) << 61) + ((uint64_t)c->channel << 32);
    uintptr_t end = begin + (UINT64_C(1) << 32);
    uint32_t to, from;
    orr_collective_peers(c, call, &to, &from);
    if ((to == ORR_NONE) != (from == ORR_NONE)) {
        begin += to != ORR_NONE ? 2 * (uint64_t)c->members[to] : 2 * (uint64_t)c->members[from] + 1;
        end = begin + 1;
    }
    write_bytes(f, begin, end, index);
}

static void touch_all(hazard_finder *f, uint32_t call)
{
    const orr_action *action = &f->p->actions[call];
    const orr_operand *in = &f->p->operands[action->operands];
    for (uint32_t k = 0; k < action->n_in; k++)
        touch(f, &in[k], call, writes_input(&f->p->tape->calls[call], k));
    for (uint32_t k = 0; k < action->n_out; k++)
        touch(f, &in[action->n_in + k], call, true);
    if (action->kind == ORR_ACTION_COLLECTIVE)
        touch_channel(f, call);
}

static uint32_t *known_of(const hazard_finder *f, uint32_t call)
{
    return f->known + (size_t)call * f->p->n_lanes;
}

/* Of the waits that are still needed, the one with the latest call. */
static uint32_t latest(const hazard_finder *f, const uint32_t *known, uint32_t own)
{
    uint32_t best = ORR_NONE;
    for (uint32_t l = 0; l < f->p->n_lanes; l++)
        if (l != own && f->need[l] > known[l] && (best == ORR_NONE || f->need[l] > f->need[best]))
            best = l;
    return best;
}

static void learn(const hazard_finder *f, uint32_t *known, uint32_t call)
{
    const uint32_t *its = known_of(f, call);
    for (uint32_t l = 0; l < f->p->n_lanes; l++)
        if (its[l] > known[l])
            known[l] = its[l];
    const uint32_t lane = f->p->actions[call].lane;
    if (call + 1 > known[lane])
        known[lane] = call + 1;
}

static void emit_waits(hazard_finder *f, uint32_t call)
{
    orr_action *action = &f->p->actions[call];
    uint32_t *known = known_of(f, call);
    if (f->last[action->lane] > 0)
        learn(f, known, f->last[action->lane] - 1);
    action->waits = (uint32_t)f->waits.n;
    for (uint32_t l; (l = latest(f, known, action->lane)) != ORR_NONE;) {
        if (!orr_array_push(&f->waits, ((orr_lane_wait){l, f->need[l] - 1})))
            f->failed = true;
        f->p->actions[f->need[l] - 1].announced = true;
        learn(f, known, f->need[l] - 1);
    }
    action->n_waits = (uint32_t)f->waits.n - action->waits;
    f->last[action->lane] = call + 1;
}

static void find_joins(const hazard_finder *f, uint32_t *ret_join)
{
    const orr_program *p = f->p;
    uint32_t next[ORR_LANES_MAX] = {0};
    for (uint32_t c = 0; c < p->tape->n_calls; c++)
        ret_join[c] = p->actions[c].lane == 0 ? c + 1 : p->tape->n_calls;
    for (uint32_t c = 0; c < p->tape->n_calls; c++) {
        if (!p->actions[c].runs || p->actions[c].lane != 0)
            continue;
        for (uint32_t l = 1; l < p->n_lanes; l++)
            for (; next[l] < known_of(f, c)[l]; next[l]++)
                if (p->actions[next[l]].lane == l)
                    ret_join[next[l]] = c;
    }
}

static orr_status keep_waits(hazard_finder *f, orr_error *err)
{
    orr_program *p = f->p;
    p->n_waits = (uint32_t)f->waits.n;
    p->waits = orr_arena_array(p->arena, orr_lane_wait, f->waits.n);
    if (p->waits == NULL)
        return orr_fail_memory(err);
    if (f->waits.n > 0)
        memcpy(p->waits, f->waits.at, f->waits.n * sizeof *p->waits);
    return ORR_OK;
}

static orr_status walk(hazard_finder *f, orr_error *err)
{
    const orr_program *p = f->p;
    uint32_t dep = 0;
    for (uint32_t c = 0; c < p->tape->n_calls; c++) {
        memset(f->need, 0, sizeof f->need);
        for (; dep < p->n_deps && p->deps[dep].call == c; dep++)
            want(f, p->deps[dep].on + 1);
        if (!p->actions[c].runs)
            continue;
        touch_all(f, c);
        emit_waits(f, c);
        if (f->failed)
            return orr_fail_memory(err);
    }
    return ORR_OK;
}

orr_status orr_program_find_waits(orr_program *p, uint32_t *ret_join, orr_error *err)
{
    hazard_finder f = {.p = p};
    orr_status status = ORR_OK;
    for (uint32_t c = 0; c < p->tape->n_calls; c++) {
        p->actions[c].waits = p->actions[c].n_waits = 0;
        p->actions[c].announced = false;
        if (ret_join != NULL)
            ret_join[c] = c + 1;
    }
    if (p->n_lanes == 1)
        return ORR_OK;
    f.known = orr_calloc((size_t)p->tape->n_calls + 1, p->n_lanes * sizeof *f.known);
    if (f.known == NULL)
        return orr_fail_memory(err);
    ORR_TRY_OUT(status, walk(&f, err));
    if (ret_join != NULL)
        find_joins(&f, ret_join);
    ORR_TRY_OUT(status, keep_waits(&f, err));
out:
    orr_array_done(&f.spans);
    orr_array_done(&f.waits);
    orr_free(f.known);
    return status;
}
