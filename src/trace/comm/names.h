/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_COMM_NAMES_H
#define ORR_TRACE_COMM_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <orrery/graph.h>

/* The collective meant by a tracer's name. Understands PyTorch's names ("allreduce",
 * "_allgather_base", "all_to_allv", "reduce_scatter_tensor_coalesced", "nccl:all_reduce") and
 * NCCL's and RCCL's kernels ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)",
 * "ncclKernel_SendRecv..."), by the words they contain, ignoring case and '_'. *ret_vector: uneven
 * or coalesced. ORR_COLL_UNKNOWN: none ("wait", "init", or "SendRecv", which serves several). */
orr_collective orr_collective_from_name(const char *name, size_t len, bool *ret_vector);

/* Bytes of an element of a recorded dtype: "Float", "c10::BFloat16", "long int", "Tensor(float)".
 * 0: unknown. */
uint32_t orr_element_bytes(const char *name, size_t len);

/* The size of a communication as one number, as in Chakra's comm_size: what each rank sends
 * (all-reduce, all-gather, reduce-scatter, all-to-all, reduce, gather, send), receives (receive,
 * scatter), or the size of the message (broadcast). Computed from the group's size where only the
 * other side is recorded. -1: unknown. */
int64_t orr_comm_size(const orr_comm *comm);

#endif /* ORR_TRACE_COMM_NAMES_H */
