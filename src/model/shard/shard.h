/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_SHARD_SHARD_H
#define ORR_MODEL_SHARD_SHARD_H

#include <orrery/op.h>
#include <orrery/plan.h>

/* Sharding as a compiler pass over a tape (cf. GSPMD, arXiv 2105.04663). A tape is written for
 * one device, with the shapes of the whole model. Its inputs, its parameters and selected values
 * have a layout; the pass walks the calls, each operator's rule says in which layouts it takes
 * its inputs and in which it gives its outputs, and a collective is inserted wherever a value
 * has another layout. */

/* Tags of parameters on a tape: which ranks hold the same ones, and along which axes their
 * gradients are partial sums. */
typedef enum orr_weight_tag {
    ORR_WEIGHT_DENSE,  /* same on all ranks of GRADIENT */
    ORR_WEIGHT_EXPERT, /* same on all ranks of EDP */
    ORR_WEIGHT_SLICED, /* DENSE, used by slices of tokens on TP: gradient is partial along TP too */
    ORR_WEIGHT_TIED    /* embedding whose weights the head shares: gradient summed over TIED too */
} orr_weight_tag;

/* A set of axes, bit 1 << orr_axis. An axis of size 1 is never a member. */
typedef uint16_t orr_axis_set;
static inline orr_axis_set orr_axis_bit(orr_axis axis)
{
    return (orr_axis_set)(1u << axis);
}

/* Layout of a value on the ranks (the placements of DTensor): which axes shard each dim (of
 * several, the first in orr_axis is the innermost), and over which axes it is a partial sum.
 * Along all other axes it is whole: every rank has the same. */
typedef struct orr_layout {
    orr_axis_set by[ORR_TYPE_DIMS];
    orr_axis_set partial;
    orr_axis_set routed; /* of by[0]: sharded by expert, not by token */
} orr_layout;
static inline orr_axis_set orr_layout_axes(const orr_layout *layout)
{
    orr_axis_set set = 0;
    for (int i = 0; i < ORR_TYPE_DIMS; i++)
        set |= layout->by[i];
    return set;
}

/* Options of the pass. */
typedef struct orr_sharding {
    uint32_t members[ORR_AXES]; /* size of the groups of each axis */
    orr_axis_set overlapped;    /* collectives along these overlap the calls after them */
    orr_axis_set ring;          /* keys and values are exchanged in a ring along these,
                                 * overlapped with attention */
    orr_axis_set summed;        /* gradients of parameters along these are reduced by others */
    orr_axis_set experts, expert_slices; /* EP; and ETP, which shards rows after dispatch */
    bool backward;                       /* gradients will be computed */
} orr_sharding;

/* Layouts by value of the tape. `fixed`: the layout is given: inputs, parameters, and values
 * that the writer chose to fix. */
typedef struct orr_layouts {
    orr_layout *of;
    bool *fixed;
} orr_layouts;

/* Shards a tape: writes the tape of one rank. `layouts`, shape (whole->n_values): on return, of
 * every value. `ret_local`, shape (whole->n_values): the value of `rank` that is its shard.
 * Parameters whose gradients become partial sums over TP are tagged ORR_WEIGHT_SLICED. Errors:
 * INVALID: a size that does not divide; UNSUPPORTED: an operator that cannot be sharded in these
 * layouts; NO_MEMORY. */
orr_status orr_tape_shard(const orr_tape *whole, orr_layouts *layouts, const orr_sharding *how,
                          orr_tape *rank, orr_value *ret_local, orr_error *err) ORR_MUST_CHECK;

/* Name of the calls that merge the partial results of ring attention. */
#define ORR_RING "ring"

#endif /* ORR_MODEL_SHARD_SHARD_H */
