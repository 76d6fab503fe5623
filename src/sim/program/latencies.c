/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/sim.h>

#include <stdlib.h>

#include "base/array.h"
#include "sim/program/compile.h"

/* Measures the latencies of a machine from recordings. For each, only those moments count in which
 * nothing but that latency can have mattered, and the lower median of them is taken:
 *
 *   launch_latency  start of the launch call -> start of the work: the stream was idle
 *   copy_launch     the same for copies and sets
 *   kernel_gap      end -> start on a stream: launched in time, predecessor ended last
 *   copy_gap        the same behind copies and sets
 *   event_latency   the same, where work of another stream ended last
 *   sync_return     end of the awaited work -> end of a call that began before that end
 *   handoff         end on one thread -> start on a thread that was idle until then
 *   resume          end on one thread -> end of an annotation or function of one that waited for it
 *
 * Of hand-offs and resumptions it is the lower quartile: few of them are recorded, a thread wakes
 * no sooner than the machine can, and later for whatever else happens.
 *
 * Where fewer than ENOUGH moments show how fast a thread wakes, one of them may have been late for
 * what is not recorded: then no more than the assumed value is taken. Where too few show what
 * copies do, they do as kernels. */
enum { ENOUGH = 2, ENOUGH_COPIES = 3, MANY = 16 };

/* Values where no recording shows any. Assumed: the order of magnitude on V100, A100 and H100. */
static const orr_sim_latencies assumed = {.launch_latency_ns = 6000,
                                          .kernel_gap_ns = 1000,
                                          .sync_return_ns = 5000,
                                          .handoff_ns = 100000,
                                          .event_latency_ns = 2000,
                                          .resume_ns = 100000};

typedef orr_array(int64_t) samples;

typedef struct measurement {
    const orr_graph *g;
    orr_streams streams;
    int64_t launch_latency_ns; /* measured already */
    samples launch, gap, sync, handoff, event, resume, copy_launch, copy_gap;
} measurement;

static bool add(samples *s, int64_t ns)
{
    return ns < 0 || orr_array_push(s, ns);
}

/* Latest recorded end of the predecessors of a row on its stream; INT64_MIN: none. */
static int64_t stream_free(const measurement *m, uint32_t row)
{
    int64_t at = INT64_MIN;
    for (uint32_t k = m->streams.first[row]; k < m->streams.first[row + 1]; k++) {
        const int64_t end = orr_recorded_end(m->g, m->streams.before[k]);
        at = end > at ? end : at;
    }
    return at;
}

/* Latest recorded end of the work that `v` depends on by dependencies of this kind; INT64_MIN:
 * none. */
static int64_t last_of(const orr_graph *g, orr_node_id v, orr_dep_kind kind)
{
    int64_t at = INT64_MIN;
    for (uint32_t k = g->dep_first[v]; k < g->dep_first[v + 1]; k++) {
        const orr_node_id u = g->dep[k];
        if (g->dep_kind[k] == kind && g->start_ns[u] != ORR_TIME_NONE &&
            orr_recorded_end(g, u) > at &&
            !(kind == ORR_DEP_HANDOFF && orr_is_autograd_wakeup(g, u, v)))
            at = orr_recorded_end(g, u);
    }
    return at;
}

static bool is_transfer(const orr_graph *g, orr_node_id v)
{
    return g->kind[v] == ORR_NODE_COPY || g->kind[v] == ORR_NODE_SET;
}

typedef struct arrival {
    int64_t start_ns, called_ns, free_ns, event_ns; /* INT64_MIN where there is none */
} arrival;

static bool find_arrival(const measurement *m, uint32_t row, arrival *ret)
{
    const orr_graph *g = m->g;
    const orr_node_id v = m->streams.node[row], call = m->streams.launch[row];
    if (g->start_ns[v] == ORR_TIME_NONE || call == ORR_NONE || g->start_ns[call] == ORR_TIME_NONE)
        return false;
    *ret = (arrival){g->start_ns[v], g->start_ns[call], stream_free(m, row),
                     last_of(g, v, ORR_DEP_EVENT)};
    return true;
}

/* Launches into an idle stream. */
static bool measure_launches(measurement *m)
{
    arrival a;
    for (uint32_t row = 0; row < m->streams.n; row++)
        if (find_arrival(m, row, &a) && a.free_ns <= a.called_ns && a.event_ns <= a.called_ns &&
            !add(is_transfer(m->g, m->streams.node[row]) ? &m->copy_launch : &m->launch,
                 a.start_ns - a.called_ns))
            return false;
    return true;
}

/* Did a copy or a set end last of what the row follows on its stream? */
static bool follows_transfer(const measurement *m, uint32_t row)
{
    const int64_t last = stream_free(m, row);
    for (uint32_t k = m->streams.first[row]; k < m->streams.first[row + 1]; k++)
        if (orr_recorded_end(m->g, m->streams.before[k]) == last)
            return is_transfer(m->g, m->streams.before[k]);
    return false;
}

/* Work that was launched in time and waited for other work, of its own stream or of another. */
static bool measure_gaps(measurement *m)
{
    arrival a;
    for (uint32_t row = 0; row < m->streams.n; row++) {
        if (!find_arrival(m, row, &a))
            continue;
        const int64_t last = a.free_ns > a.event_ns ? a.free_ns : a.event_ns;
        if (last == INT64_MIN || a.called_ns + m->launch_latency_ns > last)
            continue;
        samples *gap = follows_transfer(m, row) ? &m->copy_gap : &m->gap;
        if (!add(a.free_ns >= a.event_ns ? gap : &m->event, a.start_ns - last))
            return false;
    }
    return true;
}

/* Does the end of the node wait for another thread? */
static bool resumes(const orr_graph *g, orr_node_id v)
{
    for (uint32_t k = g->dep_first[v]; k < g->dep_first[v + 1]; k++)
        if (g->dep_kind[k] == ORR_DEP_SYNC && orr_on_thread(g, g->dep[k]) &&
            !orr_communicates(g, g->dep[k]))
            return true;
    return false;
}

/* Synchronising calls that began before the work that they wait for had ended. */
static bool measure_syncs(measurement *m)
{
    const orr_graph *g = m->g;
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        if (g->dep_first[v] == g->dep_first[v + 1] || !orr_on_thread(g, v) ||
            g->start_ns[v] == ORR_TIME_NONE)
            continue;
        const int64_t last = last_of(g, v, ORR_DEP_SYNC);
        samples *to = resumes(g, v) ? &m->resume : &m->sync;
        if (last > g->start_ns[v] && !add(to, orr_recorded_end(g, v) - last))
            return false;
    }
    return true;
}

/* Hand-offs to threads that had been idle. */
static bool measure_handoffs(measurement *m, orr_lane_id lane)
{
    const orr_graph *g = m->g;
    int64_t busy = INT64_MIN;
    for (uint32_t i = g->lane_first[lane]; i < g->lane_first[lane + 1]; i++) {
        const orr_node_id v = g->lane_node[i];
        const int64_t start = g->start_ns[v], end = orr_recorded_end(g, v);
        if (start == ORR_TIME_NONE)
            continue;
        const int64_t last = last_of(g, v, ORR_DEP_HANDOFF);
        if (last > busy && !add(&m->handoff, start - last))
            return false;
        busy = end <= start || i + 1 == g->lane_first[lane + 1] ||
                       end <= g->start_ns[g->lane_node[i + 1]]
                   ? end
                   : start;
    }
    return true;
}

static int compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* The lower quantile of `parts`, or the assumed value; a constant that is given stays. */
static void settle_at(samples *s, size_t parts, int64_t otherwise, int64_t *constant,
                      int64_t *ret_seen)
{
    if (s->n > 1)
        qsort(s->at, s->n, sizeof *s->at, compare);
    if (*constant < 0)
        *constant = s->n > 0 ? s->at[(s->n - 1) / parts] : otherwise;
    *ret_seen = (int64_t)s->n;
}

static void settle(samples *s, int64_t otherwise, int64_t *constant, int64_t *ret_seen)
{
    settle_at(s, 2, otherwise, constant, ret_seen);
}

static void settle_wakeup(samples *s, int64_t otherwise, int64_t *constant, int64_t *ret_seen)
{
    const bool given = *constant >= 0;
    settle_at(s, s->n < MANY ? 4 : 2, otherwise, constant, ret_seen);
    if (!given && s->n<ENOUGH && * constant> otherwise)
        *constant = otherwise;
}

static void settle_copies(samples *s, int64_t of_kernels, int64_t *constant, int64_t *ret_seen)
{
    if (s->n < ENOUGH_COPIES)
        s->n = 0;
    settle(s, of_kernels, constant, ret_seen);
}

typedef bool measure(measurement *m);

static bool measure_threads(measurement *m)
{
    for (orr_lane_id lane = 0; lane < m->g->n_lanes; lane++)
        if (m->g->lanes[lane].kind == ORR_LANE_HOST && !measure_handoffs(m, lane))
            return false;
    return true;
}

static orr_status for_each(const orr_graph *const *graphs, const orr_streams *streams, uint32_t n,
                           measurement *m, measure *what, orr_error *err)
{
    for (uint32_t i = 0; i < n; i++) {
        m->g = graphs[i];
        m->streams = streams[i];
        if (!what(m))
            return orr_fail_memory(err);
    }
    return ORR_OK;
}

orr_status orr_sim_latencies_measure(const orr_graph *const *graphs, uint32_t n,
                                     orr_sim_latencies *constants, orr_sim_latencies *ret_seen,
                                     orr_error *err)
{
    orr_sim_latencies found = *constants, seen;
    measurement m = {0};
    orr_arena *scratch = orr_arena_new(0, 0);
    orr_streams *streams = scratch != NULL ? orr_arena_array(scratch, orr_streams, n) : NULL;
    orr_status status = streams != NULL ? ORR_OK : orr_fail_memory(err);
    for (uint32_t i = 0; i < n && status == ORR_OK; i++)
        status = orr_streams_find(graphs[i], scratch, &streams[i], err);
    if (status != ORR_OK)
        goto out;
    ORR_TRY_OUT(status, for_each(graphs, streams, n, &m, measure_launches, err));
    settle(&m.launch, assumed.launch_latency_ns, &found.launch_latency_ns, &seen.launch_latency_ns);
    m.launch_latency_ns = found.launch_latency_ns;
    ORR_TRY_OUT(status, for_each(graphs, streams, n, &m, measure_gaps, err));
    ORR_TRY_OUT(status, for_each(graphs, streams, n, &m, measure_syncs, err));
    ORR_TRY_OUT(status, for_each(graphs, streams, n, &m, measure_threads, err));
    settle(&m.gap, assumed.kernel_gap_ns, &found.kernel_gap_ns, &seen.kernel_gap_ns);
    settle(&m.event, assumed.event_latency_ns, &found.event_latency_ns, &seen.event_latency_ns);
    settle_copies(&m.copy_launch, found.launch_latency_ns, &found.copy_launch_ns,
                  &seen.copy_launch_ns);
    settle_copies(&m.copy_gap, found.kernel_gap_ns, &found.copy_gap_ns, &seen.copy_gap_ns);
    settle_wakeup(&m.sync, assumed.sync_return_ns, &found.sync_return_ns, &seen.sync_return_ns);
    settle_wakeup(&m.handoff, assumed.handoff_ns, &found.handoff_ns, &seen.handoff_ns);
    settle_wakeup(&m.resume, assumed.resume_ns, &found.resume_ns, &seen.resume_ns);
    *constants = found;
    if (ret_seen != NULL)
        *ret_seen = seen;
out:
    orr_array_done(&m.launch);
    orr_array_done(&m.gap);
    orr_array_done(&m.sync);
    orr_array_done(&m.handoff);
    orr_array_done(&m.event);
    orr_array_done(&m.resume);
    orr_array_done(&m.copy_launch);
    orr_array_done(&m.copy_gap);
    orr_arena_free(scratch);
    return status;
}
