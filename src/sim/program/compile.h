/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_PROGRAM_COMPILE_H
#define ORR_SIM_PROGRAM_COMPILE_H

#include "base/array.h"
#include "sim/program/program.h"
#include "sim/program/streams.h"

/* The compiler of a graph, step by step. What it reads of recorded times, and nothing else:
 *
 *   - the order of the nodes of each lane;
 *   - on a thread, the time between neighbouring points. Where the thread waited in between (a call
 *     that waits for a device, a thread that was handed work, a launch into a full queue) that
 *     time is not read: in its place stands what such a call takes by itself, one constant for each
 *     name in a recording (the median over those calls that did not wait);
 *   - durations of device work and of communications;
 *   - where nothing that is known led to a start: the time since what came last before it. That is
 *     an unexplained gap: a thread that begins or wakes without a hand-off, device work without a
 *     launch.
 *
 * Recorded ends are also compared with starts, to tell whether a thread waited and to leave out
 * dependencies that the recording contradicts; such a comparison gives a yes or a no, never a
 * lag.
 *
 * A graph without times on its threads (a Chakra file without a device) is a partial order: its
 * threads put nothing in order, only dependencies and nesting do. */

typedef struct orr_raw_edge {
    orr_point_id from, to;
    int64_t lag_ns;
    uint32_t host;
} orr_raw_edge;

/* A stretch of a thread, up to `point`, in which a call may have waited. */
typedef struct orr_blocking_call {
    orr_node_id call;
    orr_point_id point;
    int64_t own_ns; /* recorded length of the stretch when it did not wait; else -1 */
    bool keeps;     /* its own time is as recorded; only a sample for others      */
} orr_blocking_call;

typedef struct orr_compiler {
    const orr_graph *g;
    const int64_t *duration_ns; /* shape (N) */
    const orr_sim_latencies *constants;
    uint32_t queue_depth;
    bool timed;        /* nodes of threads have recorded starts */
    bool free_streams; /* streams put nothing in order           */
    orr_streams streams;
    uint32_t n_points;
    uint32_t n_host;                       /* points of threads come first          */
    orr_point_id *start_point, *end_point; /* shape (N)                  */
    int64_t *floor_ns;                     /* shape (points)                         */
    int64_t *at_ns;                        /* shape (host points): recorded time     */
    int64_t *chain_ns;                     /* shape (host points): from the point before it on
                                            * its thread; -1: first of the thread    */
    uint8_t *chain_host;                   /* shape (host points)                    */
    uint32_t *host_first;                  /* shape (L + 1): points of a thread      */
    orr_lane_id main;                      /* the thread with the most nodes; ORR_NONE  */
    orr_array(orr_raw_edge) edges;
    orr_array(orr_sim_work) works;
    orr_array(orr_blocking_call) waits;
    orr_array(orr_point_id) woken; /* points of threads that slept before       */
    orr_arena *arena, *scratch;
    orr_error *err;
} orr_compiler;

/* A dependency as an edge. False where it says nothing: the order of a thread or a stream says it
 * already, one of the two is not simulated, or the recorded times contradict it. */
typedef struct orr_dependency_edge {
    orr_node_id from;
    bool from_end, to_end;
    bool hands_over; /* to a thread that was idle until then */
    int64_t lag_ns;
    int64_t moment_ns; /* recorded time of the point it comes from; ORR_TIME_NONE */
} orr_dependency_edge;
bool orr_compile_dependency(const orr_compiler *c, orr_node_id v, uint32_t dep,
                            orr_dependency_edge *ret);
bool orr_compile_simulates(const orr_compiler *c, orr_node_id v); /* is it simulated by itself? */
/* From one evaluation of autograd's engine to another: the thread that goes on was waiting inside
 * the engine, and only returns from that, while one that is handed a whole backward pass has yet to
 * begin it. */
bool orr_is_autograd_wakeup(const orr_graph *graph, orr_node_id from, orr_node_id to);

/* The steps. */
orr_status orr_compile_threads(orr_compiler *c) ORR_MUST_CHECK; /* points of threads          */
orr_status orr_compile_devices(orr_compiler *c) ORR_MUST_CHECK; /* points and order of streams */
orr_status orr_compile_dependencies(orr_compiler *c) ORR_MUST_CHECK; /* what leads to threads */
orr_status
orr_compile_launch_queues(orr_compiler *c) ORR_MUST_CHECK; /* launches into full queues  */
orr_status orr_compile_blocking_calls(orr_compiler *c) ORR_MUST_CHECK; /* own time of who waited */
orr_status
orr_compile_device_annotations(orr_compiler *c) ORR_MUST_CHECK; /* annotations of devices     */

/* Work that all that leads to it had let start at `ready_ns`, but which began later, in the last
 * wave of blocks of other work that filled the device: it waits for that wave. */
bool orr_compile_tail_wave(orr_compiler *c, orr_lane_id lane, uint32_t row, int64_t ready_ns);

/* Nothing known leads to this point, which was recorded at `at_ns`: tie it to the last point before
 * it of the thread with the most nodes, as far after as it was; the first of all starts when it
 * did. */
bool orr_compile_anchor(orr_compiler *c, orr_point_id point, int64_t at_ns);

static inline bool orr_compile_edge(orr_compiler *c, orr_point_id from, orr_point_id to,
                                    int64_t lag_ns, bool host)
{
    const orr_raw_edge edge = {from, to, lag_ns < 0 ? 0 : lag_ns, host};
    return orr_array_push(&c->edges, edge);
}

#endif /* ORR_SIM_PROGRAM_COMPILE_H */
