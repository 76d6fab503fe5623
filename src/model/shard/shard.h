/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_SHARD_SHARD_H
#define ORR_MODEL_SHARD_SHARD_H

#include <orrery/op.h>
#include <orrery/plan.h>

/* Sharding as a pass over a tape. A tape is written for one device, with the shapes of the whole
 * model. Its inputs and parameters, and what the writer cares about, have a layout; the pass walks
 * the calls, and each operator says in which layouts it can take its inputs and in which it then
 * gives its outputs. Where a value is laid out otherwise, a collective is put in between. */

/* Tags of parameters on a tape: who else has the same ones, along which axes their gradients are
 * only partial sums. */
typedef enum orr_weight_tag {
    ORR_WEIGHT_DENSE,  /* same on all of GRADIENT                                              */
    ORR_WEIGHT_EXPERT, /* same on all of EDP                                                   */
    ORR_WEIGHT_SLICED, /* DENSE, used by slices of tokens on TP: gradient partial on TP too      */
    ORR_WEIGHT_TIED,   /* embedding that the head uses: gradient summed over TIED too          */
    ORR_WEIGHT_TABLE   /* a table of embedding bags, whole or a share: on one rank only        */
} orr_weight_tag;

/* A set of axes: bit 1 << orr_axis. Axes of one member are never in a set. */
typedef uint16_t orr_axis_set;
static inline orr_axis_set orr_axis_bit(orr_axis axis)
{
    return (orr_axis_set)(1u << axis);
}

/* How a value lies on the ranks: axes that slice a dim (of several, the one that comes first in
 * orr_axis is the innermost), and axes over which what a rank has is a term of a sum. Along all
 * others it is whole: the same on each rank. */
typedef struct orr_layout {
    orr_axis_set by[ORR_TYPE_DIMS];
    orr_axis_set partial;
    orr_axis_set routed; /* of by[0]: rows are those of a rank's experts, not of its tokens */
} orr_layout;
static inline orr_axis_set orr_layout_axes(const orr_layout *layout)
{
    orr_axis_set set = 0;
    for (int i = 0; i < ORR_TYPE_DIMS; i++)
        set |= layout->by[i];
    return set;
}

/* What a pass goes by. */
typedef struct orr_sharding {
    uint32_t members[ORR_AXES]; /* of the groups of each axis                                */
    orr_axis_set overlapped;    /* collectives along these run beside what follows           */
    orr_axis_set ring;          /* keys and values go round along these, beside attention    */
    orr_axis_set summed;        /* gradients of parameters along these are summed by others  */
    orr_axis_set experts, expert_slices; /* EP; ETP: what rows are sliced by once dispatched     */
    bool backward; /* a gradient will be wanted of it                           */
} orr_sharding;

/* What lies how, by value of the tape. `fixed`: inputs, parameters, and values that shall lie
 * so. */
typedef struct orr_layouts {
    orr_layout *of;
    bool *fixed;
} orr_layouts;

/* The tape of one rank. `layouts`, shape (whole->n_values): on return, of every value. `ret_local`,
 * shape (whole->n_values): the value of `rank` that has a share of it. Parameters whose gradients
 * become partial sums over TP are tagged ORR_WEIGHT_SLICED. Errors: INVALID: a size that does not
 * divide; UNSUPPORTED: an operator that cannot take its inputs as they lie; NO_MEMORY. */
orr_status orr_tape_shard(const orr_tape *whole, orr_layouts *layouts, const orr_sharding *how,
                          orr_tape *rank, orr_value *ret_local, orr_error *err) ORR_MUST_CHECK;

/* Name of the calls that add up what the pieces of a ring give. */
#define ORR_RING "ring"

#endif /* ORR_MODEL_SHARD_SHARD_H */
