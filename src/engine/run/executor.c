/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cpu.h"
#include "engine/run/program_state.h"

/* Runs a program: each lane executes its calls in order, lane 0 in the caller's thread, the others
 * in threads that were started with the program.
 *
 * Lanes synchronize by one progress counter each: the number of calls that are done. A lane that
 * waits spins for a while, then sleeps on a futex. A run begins when the round counter changes. The
 * first call to fail stops all lanes: it sets every progress counter to ORR_LANE_FAILED and aborts
 * the transports, so that peers fail too instead of waiting. Nothing is allocated and no lock is
 * taken. */

enum { SPINS = 2000 };

static void sleep_on(atomic_uint *word, unsigned seen)
{
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}
static void wake_all(atomic_uint *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* Waits until `ready` of the word: spins, then sleeps on it. `sleepers` counts who must be woken
 * when it changes; NULL: waiters are always woken. */
static unsigned await(atomic_uint *word, atomic_uint *sleepers, unsigned than,
                      bool (*ready)(unsigned word, unsigned than))
{
    unsigned seen = atomic_load_explicit(word, memory_order_acquire);
    for (int spins = 0; spins < SPINS && !ready(seen, than); spins++) {
        orr_cpu_relax();
        seen = atomic_load_explicit(word, memory_order_acquire);
    }
    while (!ready(seen, than)) {
        if (sleepers != NULL)
            atomic_fetch_add(sleepers, 1);
        seen = atomic_load(word);
        if (!ready(seen, than))
            sleep_on(word, seen);
        if (sleepers != NULL)
            atomic_fetch_sub(sleepers, 1);
        seen = atomic_load(word);
    }
    return seen;
}

static bool is_beyond(unsigned word, unsigned call)
{
    return (word & ORR_LANE_FAILED) != 0 || word > call;
}
static bool is_other(unsigned word, unsigned than)
{
    return word != than;
}
static bool is_same(unsigned word, unsigned than)
{
    return word == than;
}

static void advance(orr_lane_state *lane, unsigned by)
{
    atomic_fetch_add(&lane->progress, by);
    if (atomic_load(&lane->sleepers) > 0)
        wake_all(&lane->progress);
}

/* Aborts the transports: peers of this rank's other lanes would wait for it forever. */
static void abort_transports(const orr_program *p)
{
    for (uint32_t a = 0; a < ORR_AXES && p->n_lanes > 1; a++) {
        const orr_communicator *c = p->communicators[a];
        if (c != NULL && c->n > 1 && c->transport->abort != NULL)
            c->transport->abort(c->transport);
    }
}

/* Records the first failure and stops all lanes; later failures are consequences. */
static void stop_all(orr_program *p, orr_lane_state *lane)
{
    if (atomic_exchange(&p->failed, true))
        return;
    p->cause = lane;
    for (uint32_t l = 0; l < p->n_lanes; l++) {
        atomic_fetch_or(&p->lanes[l]->progress, ORR_LANE_FAILED);
        wake_all(&p->lanes[l]->progress);
    }
    abort_transports(p);
}

/* False if some lane has failed. */
static bool await_others(orr_program *p, const orr_action *action)
{
    for (uint32_t i = action->waits; i < action->waits + action->n_waits; i++) {
        orr_lane_state *other = p->lanes[p->waits[i].lane];
        const unsigned seen =
            await(&other->progress, &other->sleepers, p->waits[i].call, is_beyond);
        if ((seen & ORR_LANE_FAILED) != 0)
            return false;
    }
    return true;
}

static orr_status await_events(orr_program *p, const orr_lane_state *lane, const orr_action *action,
                               orr_error *err)
{
    for (uint32_t i = action->waits; i < action->waits + action->n_waits; i++)
        if (p->waits[i].call >= p->from)
            ORR_TRY(p->backend->event_wait(p->backend, lane->stream,
                                           p->actions[p->waits[i].call].event, err));
    return ORR_OK;
}

/* Times work that was enqueued on a device by waiting for it. */
static orr_status finish_on_device(orr_program *p, const orr_lane_state *lane, orr_action *action,
                                   orr_error *err)
{
    if (action->announced)
        ORR_TRY(p->backend->event_record(p->backend, lane->stream, &action->event, err));
    return p->run->start_ns != NULL ? p->backend->synchronize(p->backend, lane->stream, err)
                                    : ORR_OK;
}

static orr_status run_call(orr_program *p, orr_lane_state *lane, uint32_t call, orr_error *err)
{
    orr_action *action = &p->actions[call];
    const orr_program_call *how = &p->calls[call];
    if (p->device)
        ORR_TRY(await_events(p, lane, action, err));
    if (how->before != NULL)
        ORR_TRY(how->before(how->hook_ctx, call, err));
    if (action->kind == ORR_ACTION_NONE) {
        lane->end_ns = 0;
        return p->device ? finish_on_device(p, lane, action, err) : ORR_OK;
    }
    /* Without a gap, the end of the previous call is the start of this one: one clock read less. */
    const bool follows = lane->end_ns != 0 && action->n_waits == 0 && how->before == NULL;
    const int64_t start = p->run->start_ns == NULL ? 0
                          : follows                ? lane->end_ns
                                                   : orr_program_now_ns();
    ORR_TRY(orr_program_run_call(p, lane, call, err));
    if (p->device)
        ORR_TRY(finish_on_device(p, lane, action, err));
    if (p->run->start_ns != NULL) {
        p->run->start_ns[call] = start;
        p->run->end_ns[call] = lane->end_ns = orr_program_now_ns();
    }
    if (!p->run->check)
        return ORR_OK;
    lane->end_ns = 0;
    return orr_program_check_finite(p, call, err);
}

/* The lane's first call that is not before `call` (binary search). */
static uint32_t find_call(const orr_lane_state *lane, uint32_t call)
{
    uint32_t low = 0, high = lane->n_calls;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (lane->calls[middle] >= call)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static bool is_named_by_check(const orr_program *p, orr_status status)
{
    return p->run->check && status == ORR_INVALID;
}

static void run_lane(orr_lane_state *lane)
{
    orr_program *p = lane->program;
    uint32_t done = p->from;
    lane->end_ns = 0;
    for (uint32_t i = find_call(lane, p->from); i < lane->n_calls; i++) {
        const uint32_t call = lane->calls[i];
        if (call >= p->to || atomic_load_explicit(&p->failed, memory_order_relaxed) ||
            !await_others(p, &p->actions[call]))
            break;
        lane->status = run_call(p, lane, call, &lane->error);
        if (lane->status != ORR_OK) {
            if (!is_named_by_check(p, lane->status))
                orr_error_prefix(&lane->error, orr_program_label(p, call));
            stop_all(p, lane);
            break;
        }
        advance(lane, call + 1 - done);
        done = call + 1;
    }
    if (p->device && lane->status == ORR_OK) {
        lane->status = p->backend->synchronize(p->backend, lane->stream, &lane->error);
        if (lane->status != ORR_OK)
            stop_all(p, lane);
    }
}

static void *stand_ready(void *ctx)
{
    orr_lane_state *lane = ctx;
    orr_program *p = lane->program;
    for (unsigned seen = 0;;) {
        seen = await(&lane->round, NULL, seen, is_other);
        if (atomic_load(&p->over))
            return NULL;
        run_lane(lane);
        atomic_store(&lane->finished, seen);
        wake_all(&lane->finished);
    }
}

static bool has_work(const orr_lane_state *lane, uint32_t from, uint32_t to)
{
    const uint32_t i = find_call(lane, from);
    return i < lane->n_calls && lane->calls[i] < to;
}

static void begin_round(orr_lane_state *lane)
{
    atomic_fetch_add(&lane->round, 1);
    wake_all(&lane->round);
}

static orr_status outcome(const orr_program *p, orr_error *err)
{
    if (p->cause == NULL)
        return ORR_OK;
    if (err != NULL)
        *err = p->cause->error;
    return p->cause->status;
}

orr_status orr_program_execute(orr_program *p, const orr_program_run *run, orr_error *err)
{
    static const orr_program_run all;
    p->run = run != NULL ? run : &all;
    p->from = p->run->from;
    p->to = p->run->to != 0 ? p->run->to : p->tape->n_calls;
    if (p->from > p->to || p->to > p->tape->n_calls)
        return orr_fail(err, ORR_INVALID, "calls %u to %u of %u", p->from, p->to, p->tape->n_calls);
    for (uint32_t c = p->from; c < p->to && p->run->start_ns != NULL; c++)
        p->run->start_ns[c] = p->run->end_ns[c] = -1;
    atomic_store(&p->failed, false);
    p->cause = NULL;
    for (uint32_t l = 0; l < p->n_lanes; l++) {
        atomic_store(&p->lanes[l]->progress, p->from);
        p->lanes[l]->status = ORR_OK;
    }
    for (uint32_t l = 1; l < p->n_lanes; l++)
        if (has_work(p->lanes[l], p->from, p->to))
            begin_round(p->lanes[l]);
    run_lane(p->lanes[0]);
    for (uint32_t l = 1; l < p->n_lanes; l++)
        await(&p->lanes[l]->finished, NULL, atomic_load(&p->lanes[l]->round), is_same);
    return outcome(p, err);
}

static orr_status list_calls(orr_program *p, orr_error *err)
{
    uint32_t n[ORR_LANES_MAX] = {0};
    for (uint32_t c = 0; c < p->tape->n_calls; c++)
        n[p->actions[c].lane] += p->actions[c].runs;
    for (uint32_t l = 0; l < p->n_lanes; l++) {
        p->lanes[l]->calls = orr_arena_array(p->arena, uint32_t, n[l]);
        if (p->lanes[l]->calls == NULL)
            return orr_fail_memory(err);
    }
    for (uint32_t c = 0; c < p->tape->n_calls; c++) {
        orr_lane_state *lane = p->lanes[p->actions[c].lane];
        if (p->actions[c].runs)
            lane->calls[lane->n_calls++] = c;
    }
    return ORR_OK;
}

orr_status orr_program_start_lanes(orr_program *p, orr_error *err)
{
    if (p->tape->n_calls >= ORR_LANE_FAILED)
        return orr_fail(err, ORR_LIMIT, "a tape of over 2^30 calls");
    ORR_TRY(list_calls(p, err));
    for (uint32_t l = 1; l < p->n_lanes; l++) {
        orr_lane_state *lane = p->lanes[l];
        const int failure = pthread_create(&lane->thread, NULL, stand_ready, lane);
        if (failure != 0)
            return orr_fail(err, ORR_LIMIT, "no thread for lane %u: %s", l, strerror(failure));
        lane->started = true;
    }
    return ORR_OK;
}

void orr_program_stop_lanes(orr_program *p)
{
    atomic_store(&p->over, true);
    for (uint32_t l = 1; l < p->n_lanes; l++)
        if (p->lanes[l]->started) {
            begin_round(p->lanes[l]);
            pthread_join(p->lanes[l]->thread, NULL);
        }
}
