/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_COMM_HINT_H
#define ORR_TRACE_COMM_HINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <orrery/graph.h>

/* Is it communication, and which? What names of kernels and of host events tell, and what
 * follows from counts of elements. Threads: any; nothing here has state. */
typedef struct orr_comm_hint {
    bool communicates;
    bool vector;        /* uneven or coalesced                                        */
    uint8_t collective; /* orr_collective; UNKNOWN where the name does not tell which */
} orr_comm_hint;

/* Name of a kernel: NCCL in all its spellings, RCCL, MSCCL, HCCL, oneCCL, and the kernels of
 * PyTorch's symmetric memory, vLLM and DeepEP that reach into their peers' memory themselves.
 * "ncclKernel_SendRecv" and "ncclDevKernel_Generic" communicate, but which collective it is the
 * host has to say. */
orr_comm_hint orr_comm_of_kernel(const char *name, size_t len);

/* Name of a host event that stands for a communication: "nccl:all_to_all", "gloo:all_reduce",
 * "c10d::allreduce_", "record_param_comms" (UNKNOWN: its arguments tell). */
orr_comm_hint orr_comm_of_host(const char *name, size_t len);

/* "gloo:..." and "mpi:...": where no device takes part the annotation is the communication. */
bool orr_comm_runs_on_host(const char *name, size_t len);

/* The "Collective name" that PyTorch records. `communicates` is false for wait, init and
 * the like. */
orr_comm_hint orr_comm_of_collective(const char *name, size_t len);

/* Sets in_bytes and out_bytes from this rank's sizes as recorded; -1 is "not known", in and out.
 * Reads collective, vector and group_size (< 1: not known) of the communication. Some
 * tracers state one size for both sides: an all-gather still gets n times what it
 * gives, and a reduce-scatter gives n times what it gets. */
void orr_comm_set_bytes(orr_comm *comm, int64_t in_bytes, int64_t out_bytes);

#endif /* ORR_TRACE_COMM_HINT_H */
