/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_COMM_HINT_H
#define ORR_TRACE_COMM_HINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <orrery/graph.h>

/* Whether a kernel or host event is communication, and which collective, by its name; and sizes by
 * counts of elements. Threads: any; stateless. */
typedef struct orr_comm_hint {
    bool communicates;
    bool vector;        /* uneven or coalesced                                        */
    uint8_t collective; /* orr_collective; UNKNOWN where the name does not tell */
} orr_comm_hint;

/* By a kernel's name: NCCL in all its spellings, RCCL, MSCCL, HCCL, oneCCL, and kernels of
 * PyTorch's symmetric memory, vLLM and DeepEP that access their peers' memory directly.
 * "ncclKernel_SendRecv" and "ncclDevKernel_Generic" communicate, but only the host knows by which
 * collective. */
orr_comm_hint orr_comm_of_kernel(const char *name, size_t len);

/* By the name of a host event: "nccl:all_to_all", "gloo:all_reduce", "c10d::allreduce_",
 * "record_param_comms" (UNKNOWN: its arguments tell). */
orr_comm_hint orr_comm_of_host(const char *name, size_t len);

/* "gloo:..." and "mpi:...": without a device the annotation is the communication itself. */
bool orr_comm_runs_on_host(const char *name, size_t len);

/* By the "Collective name" that PyTorch records. `communicates` is false for wait, init and the
 * like. */
orr_comm_hint orr_comm_of_collective(const char *name, size_t len);

/* Sets in_bytes and out_bytes from this rank's recorded sizes; -1 is "not known", in and out. Reads
 * collective, vector and group_size (< 1: not known). Some tracers record one size for both sides:
 * an all-gather then still gets n times what it gives, and a reduce-scatter gives n times what it
 * gets. */
void orr_comm_set_bytes(orr_comm *comm, int64_t in_bytes, int64_t out_bytes);

#endif /* ORR_TRACE_COMM_HINT_H */
