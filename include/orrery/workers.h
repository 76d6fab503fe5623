/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_WORKERS_H
#define ORR_WORKERS_H

#include <orrery/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Threads that stand ready to share the work of a kernel: they spin for a moment after each piece
 * of work, then sleep. One user at a time. */
typedef struct orr_workers orr_workers;
/* `threads` 0: one per core; the caller's is one of them. Threads that cannot be started are done
 * without. Errors: NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_workers_new(int threads, orr_workers **ret, orr_error *err);
ORR_API void orr_workers_free(orr_workers *workers);       /* NULL is allowed */
ORR_API int orr_workers_count(const orr_workers *workers); /* of NULL: 1 */

#ifdef __cplusplus
}
#endif

#endif /* ORR_WORKERS_H */
