/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_BASE_WORKERS_H
#define ORR_BASE_WORKERS_H

#include <stddef.h>

#include <orrery/workers.h>

/* Work of microseconds for threads that stand ready, where orr_parallel_for() would spend longer on
 * starting them: body(ctx, i, thread) for every i in [0, count), handed out in order to whoever is
 * free, `thread` below orr_workers_count(). Pieces do not depend on the number of threads. Returns
 * when all are done. Allocates nothing, cannot fail. One caller at a time; not from within a body.
 * Workers NULL: in the caller's thread. */
void orr_workers_run(orr_workers *workers, size_t count,
                     void (*body)(void *ctx, size_t i, int thread), void *ctx);

#endif /* ORR_BASE_WORKERS_H */
