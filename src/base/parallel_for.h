/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_BASE_PARALLEL_FOR_H
#define ORR_BASE_PARALLEL_FOR_H

#include <stddef.h>

#include <orrery/status.h>

/* Run body(ctx, i) for every i in [0, count), on up to `threads` threads (0: one
 * per core); the caller's is one of them. Work is split by index, so that what a
 * body writes to its own index does not depend on the number of threads. When a body fails
 * the rest is not started, and the failure of the lowest index that failed is passed up.
 * Threads that cannot be started are done without. */
orr_status orr_parallel_for(size_t count, int threads,
                            orr_status (*body)(void *ctx, size_t index, orr_error *err), void *ctx,
                            orr_error *err) ORR_MUST_CHECK;
int orr_core_count(void);

#endif /* ORR_BASE_PARALLEL_FOR_H */
