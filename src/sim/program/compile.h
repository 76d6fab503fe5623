/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_PROGRAM_COMPILE_H
#define ORR_SIM_PROGRAM_COMPILE_H

#include "base/array.h"
#include "sim/program/program.h"
#include "sim/program/streams.h"

/* The compiler from execution graphs to programs. Of recorded times it reads these, and nothing
 * else:
 *
 * - the order of the nodes of each lane;
 * - on a thread, the time between neighbouring points. Where the thread waited in between (a call
 * that blocks on a device, a thread that was handed work, a launch into a full queue) that time is
 * not read: a constant for each name takes its place (the median of those calls that did not wait);
 * - durations of device work and of communications;
 * - of a node of a thread, the ratio of its duration to the recorded one: a factor on the time of
 * which it is the innermost node. At 0 it is gone, and waits for no device either;
 * - for a start that nothing known led to: the time since the last event before it. That is an
 * unexplained gap: a thread that begins or wakes without a hand-off, device work without a launch.
 *
 * Recorded ends are also compared with starts, to tell whether a thread waited and to leave out
 * dependencies that the recording contradicts; such a comparison gives a yes or a no, never a lag.
 *
 * A graph without times on its threads (a Chakra file without a device) is a partial order: its
 * threads imply no order, only dependencies and nesting do. */

typedef struct orr_raw_edge {
    orr_point_id from, to;
    int64_t lag_ns;
    uint32_t kind; /* orr_edge_kind */
} orr_raw_edge;

/* A stretch of a thread that ends at `point`, in which a call may have blocked. */
typedef struct orr_blocking_call {
    orr_node_id call;
    orr_point_id point;
    int64_t own_ns; /* recorded length of the stretch if it did not wait; else -1 */
    bool keeps;     /* its own time is as recorded; it is a sample for others only */
    bool waits;     /* for devices, by its name or what is recovered */
    bool queries;   /* it never waits: what takes much longer than most of its name was held up */
} orr_blocking_call;

typedef struct orr_compiler {
    const orr_graph *g;
    const int64_t *duration_ns; /* shape (N) */
    const orr_sim_latencies *constants;
    const orr_recording_costs *costs; /* NULL: recording cost nothing */
    uint32_t queue_depth;
    bool timed;        /* nodes of threads have recorded starts */
    bool free_streams; /* streams imply no order */
    const bool *polls; /* shape (L): threads that take no part */
    orr_streams streams;
    uint32_t n_points;
    uint32_t n_host;                       /* points of threads come first */
    orr_point_id *start_point, *end_point; /* shape (N) */
    int64_t *floor_ns;                     /* shape (points) */
    int64_t *at_ns;                        /* shape (host points): recorded time */
    int64_t *chain_ns;                     /* shape (host points): time since the previous point
                                            * of the thread; -1: first of the thread */
    uint8_t *chain_kind;                   /* shape (host points): orr_edge_kind */
    orr_node_id *inside;                   /* shape (host points): the innermost node of the time
                                            * since the previous point; ORR_NONE */
    uint32_t *host_first;                  /* shape (L + 1): points of each thread */
    orr_lane_id main;                      /* the main thread, which has the most nodes; ORR_NONE */
    orr_array(orr_raw_edge) edges;
    orr_array(orr_sim_work) works;
    orr_array(orr_blocking_call) waits;
    orr_array(orr_point_id) woken; /* points at which threads woke up */
    orr_arena *arena, *scratch;
    orr_error *err;
} orr_compiler;

/* A dependency as an edge. False where it adds nothing or must not be kept: the order of a
 * thread or stream implies it, one of its nodes is not simulated, or recorded times contradict
 * it. */
typedef struct orr_dependency_edge {
    orr_node_id from;
    bool from_end, to_end;
    bool hands_over; /* hands over work to a thread that was idle until then */
    int64_t lag_ns;
    int64_t moment_ns; /* recorded time of the point that it leaves; ORR_TIME_NONE */
} orr_dependency_edge;
bool orr_compile_dependency(const orr_compiler *c, orr_node_id v, uint32_t dep,
                            orr_dependency_edge *ret);
/* From the end of device work to the start of what is queued behind it. */
int64_t orr_compile_gap_after(const orr_compiler *c, orr_node_id before);
/* The factor on the time of a thread inside a node: its duration over the recorded one. */
static inline double orr_compile_host_factor(const orr_compiler *c, orr_node_id v)
{
    const int64_t was_ns = v == ORR_NONE ? 0 : c->g->duration_ns[v];
    return was_ns <= 0 || c->duration_ns[v] < 0 ? 1 : (double)c->duration_ns[v] / (double)was_ns;
}
bool orr_compile_simulates(const orr_compiler *c, orr_node_id v); /* does the node have points of
                                                                   * its own? */
/* Is the dependency a wake-up within autograd's engine? The thread that goes on was waiting
 * inside the engine and only returns from that wait, while a thread that is handed a whole
 * backward pass has yet to begin it. */
bool orr_is_autograd_wakeup(const orr_graph *graph, orr_node_id from, orr_node_id to);

/* The passes, in order: points of threads; points and order of streams; dependencies between lanes;
 * launches into full queues; own time of blocking calls; what recording cost; annotations of
 * devices. */
orr_status orr_compile_threads(orr_compiler *c) ORR_MUST_CHECK;
orr_status orr_compile_devices(orr_compiler *c) ORR_MUST_CHECK;
orr_status orr_compile_dependencies(orr_compiler *c) ORR_MUST_CHECK;
orr_status orr_compile_launch_queues(orr_compiler *c) ORR_MUST_CHECK;
orr_status orr_compile_blocking_calls(orr_compiler *c) ORR_MUST_CHECK;
orr_status orr_compile_recording_costs(orr_compiler *c) ORR_MUST_CHECK;
orr_status orr_compile_device_annotations(orr_compiler *c) ORR_MUST_CHECK;

/* Tail wave: work whose dependencies allowed it to start at `ready_ns`, but which started later,
 * in the last wave of thread blocks of other work that filled the device. Adds an edge from that
 * wave. */
bool orr_compile_tail_wave(orr_compiler *c, orr_lane_id lane, uint32_t row, int64_t ready_ns);

/* Anchors a point that nothing known leads to, and which was recorded at `at_ns`: an edge from
 * the last point before it of the main thread, with the recorded distance as lag; the very first
 * point starts when it did. */
bool orr_compile_anchor(orr_compiler *c, orr_point_id point, int64_t at_ns);

static inline bool orr_compile_edge(orr_compiler *c, orr_point_id from, orr_point_id to,
                                    int64_t lag_ns, orr_edge_kind kind)
{
    const orr_raw_edge edge = {from, to, lag_ns < 0 ? 0 : lag_ns, kind};
    return orr_array_push(&c->edges, edge);
}

#endif /* ORR_SIM_PROGRAM_COMPILE_H */
