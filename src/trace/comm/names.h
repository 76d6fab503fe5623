/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_COMM_NAMES_H
#define ORR_TRACE_COMM_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <orrery/graph.h>

/* What tracers call a collective -> which it is. Understands PyTorch's names ("allreduce",
 * "_allgather_base", "all_to_allv", "reduce_scatter_tensor_coalesced", "nccl:all_reduce"),
 * and NCCL's and RCCL's kernels ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)",
 * "ncclKernel_SendRecv..."), by what they contain once case and '_' are ignored.
 * *ret_vector: uneven or coalesced. ORR_COLL_UNKNOWN: none of them ("wait", "init",
 * "SendRecv", which serves several). */
orr_collective orr_collective_from_name(const char *name, size_t len, bool *ret_vector);

/* Bytes of one element of a dtype as recorded: "Float", "c10::BFloat16", "long int",
 * "Tensor(float)". 0: not known. */
uint32_t orr_element_bytes(const char *name, size_t len);

/* The bytes that describe a communication by one number, as Chakra's comm_size does: what
 * each rank gives (all-reduce, all-gather, reduce-scatter, all-to-all, reduce, gather,
 * send), gets (receive, scatter), or what goes round (broadcast). Where the recording has only
 * the other side it is worked out with the group's size. -1: not known. */
int64_t orr_comm_size(const orr_comm *comm);

#endif /* ORR_TRACE_COMM_NAMES_H */
