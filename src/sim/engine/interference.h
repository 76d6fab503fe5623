/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_ENGINE_INTERFERENCE_H
#define ORR_SIM_ENGINE_INTERFERENCE_H

#include <orrery/graph.h>

#include "base/array.h"
#include "sim/engine/event_queue.h"

/* Interference: computation and communication on one device slow each other down.
 *
 * A computation takes compute_slowdown times as long while any communication runs on its device; a
 * communication takes comm_slowdown times as long while any computation runs on any of its devices
 * (a collective is as fast as its slowest member). Communication here is the transfer: a kernel
 * that waits for other members slows nobody down (assumed: it polls).
 *
 * The arithmetic is exact. Remaining work is counted in units of which a task does slow_ppm a ns
 * when it runs alone and 10^6 a ns when slowed. No division loses anything, whatever the number
 * of changes, and simultaneous changes commute, because no time passes between them. A task ends
 * at the first whole ns at which nothing is left. */
typedef enum orr_task_class { ORR_TASK_COMPUTE, ORR_TASK_COMM, ORR_TASK_CLASSES } orr_task_class;
typedef enum orr_task_state {
    ORR_TASK_DUE,
    ORR_TASK_RUNS,
    ORR_TASK_FLOWS, /* the network says when it ends */
    ORR_TASK_DRAINS /* its flows ended before the length that it has alone */
} orr_task_state;

typedef struct orr_interference_task {
    unsigned __int128 left;
    int64_t since_ns;     /* time of `left` */
    uint32_t rate;        /* units a ns */
    uint32_t n_busy;      /* number of its devices on which the other class runs */
    uint32_t occupant;    /* first of its devices, or ORR_NONE; in a free task the next free task */
    uint32_t actor, work; /* last member to arrive; breaks ties */
    uint32_t rendezvous;  /* or ORR_NONE */
    int64_t duration_ns;  /* when nothing interferes */
    uint8_t class;        /* orr_task_class */
    uint8_t state;        /* orr_task_state */
} orr_interference_task;

/* A task on a device: in a ring of the tasks of its class there, and in a list of the task's
 * devices. */
typedef struct orr_occupant {
    uint32_t task, device;
    uint32_t next_here, previous_here;
    uint32_t next_of_task;
} orr_occupant;

typedef struct orr_shared_device {
    uint32_t n[ORR_TASK_CLASSES];
    uint32_t first[ORR_TASK_CLASSES]; /* occupant, or ORR_NONE */
} orr_shared_device;

typedef struct orr_interference {
    orr_event_queue queue;
    orr_array(orr_interference_task) tasks;
    orr_array(orr_occupant) occupants;
    uint32_t free_task, free_occupant;   /* free lists; ORR_NONE: empty */
    orr_shared_device *devices;          /* shape (n_devices) */
    uint32_t slow_ppm[ORR_TASK_CLASSES]; /* at least 10^6 */
} orr_interference;

/* Free with orr_interference_done(), also after a failure. */
orr_status orr_interference_init(orr_interference *o, size_t n_devices,
                                 const uint32_t slow_ppm[ORR_TASK_CLASSES],
                                 orr_error *err) ORR_MUST_CHECK;
void orr_interference_done(orr_interference *o);

/* Adds a task that is due at at_ns. Returns its number, or ORR_NONE: out of memory. `rank`,
 * `node`: break ties. */
uint32_t orr_interference_add(orr_interference *o, const orr_interference_task *task, int64_t at_ns,
                              uint32_t rank, uint32_t node);
/* Registers a device that the task will run on. False: out of memory. */
bool orr_interference_occupy(orr_interference *o, uint32_t task, uint32_t device);
/* Starts the task on all its devices. Its end goes into the queue, unless its state is FLOWS:
 * the network then says when it ends. */
void orr_interference_start(orr_interference *o, uint32_t task, int64_t now_ns, uint32_t rank,
                            uint32_t node);
/* Ends the task and frees its number. */
void orr_interference_stop(orr_interference *o, uint32_t task, int64_t now_ns);

#endif /* ORR_SIM_ENGINE_INTERFERENCE_H */
