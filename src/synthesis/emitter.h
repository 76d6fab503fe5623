/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SYNTHESIS_EMITTER_H
#define ORR_SYNTHESIS_EMITTER_H

#include "base/array.h"
#include "base/philox.h"
#include "graph/builder.h"
#include "synthesis/emit_comm.h"

/* A generated rank in the making, as emit.c and emit_times.c see it. */

/* Lane of the generated rank. */
typedef struct orr_emitted_lane {
    uint8_t kind;    /* orr_lane_kind */
    uint32_t number; /* as orr_source_rank.lane_of */
    orr_lane_id id;
    orr_node_id last,
        last_before; /* last node that is in no other; the same when the block began */
    int64_t end_ns;
    /* Of a thread: how much later than in the recording it is, counted from where the block began;
     * its last point so far; and the last node that was copied, with its recorded times. */
    int64_t shift_ns, point_ns;
    orr_node_id latest;
    int64_t latest_start_ns, latest_end_ns;
} orr_emitted_lane;

/* Where the nodes of a source are in the generated rank. */
typedef struct orr_copies {
    orr_node_id *node; /* shape (N) */
    uint32_t *run;     /* shape (N): 1 + number of the run in which it was copied */
} orr_copies;

typedef struct orr_emitter {
    const orr_emission *e;
    uint32_t rank;
    orr_arena *arena; /* scratch */
    orr_graph_builder *builder;
    orr_copies *copies; /* shape (n) */
    orr_array(orr_emitted_lane) lanes;
    orr_array(int64_t) duration_ns;   /* of each node so far, to be simulated; -1: by factor */
    orr_array(double) factor;         /* of each node so far, on the time in it and in no other */
    orr_array(orr_node_id) of_run;    /* nodes of the source that the run copied */
    orr_array(orr_node_id) transfers; /* those of them that communicate */
    orr_random random;
    orr_comm_numbers numbers;
    int64_t now_ns;  /* where the run begins */
    int64_t next_ns; /* where the next one does, as far as the nodes so far tell */
    int64_t last_ns; /* recorded end of the node that next_ns was told by */
    orr_node_id step;
    orr_error *err;
} orr_emitter;

/* The run at work: what a rank did between two cuts of a source. */
typedef struct orr_emitted_run {
    const orr_source *source;
    const orr_source_rank *rank;
    uint32_t number, source_number, role;
    int64_t from_ns, to_ns;
} orr_emitted_run;

/* The copy of v that this run made, or ORR_NONE. */
orr_node_id orr_emitted_copy(const orr_emitter *m, const orr_emitted_run *r, orr_node_id v);
/* A dependency whose other end was recorded before the block: what ran last on its lane before the
 * block, or ORR_NONE. */
orr_node_id orr_emitted_stand_in(const orr_emitter *m, const orr_emitted_run *r, orr_node_id u,
                                 orr_dep_kind kind);

/* The times of v in the generated rank. Work of devices begins when it was launched, its stream is
 * free and its events are done. A thread keeps its recorded pace but where it waited: there it goes
 * on when what it waited for is done, sooner or later than in the recording. `parent`: the node
 * that it is nested in. Moves what stands around v along. */
orr_node orr_emitted_times(orr_emitter *m, const orr_emitted_run *r, orr_node_id v,
                           orr_emitted_lane *lane, orr_node_id parent);
/* Once v has become node `made`. */
void orr_emitted_note(orr_emitter *m, const orr_emitted_run *r, orr_node_id v,
                      orr_emitted_lane *lane, orr_node_id made);

#endif /* ORR_SYNTHESIS_EMITTER_H */
