/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_POLICY_SOLVER_H
#define ORR_EXPERTS_POLICY_SOLVER_H

#include <stdbool.h>
#include <stdint.h>

#include <orrery/status.h>

/* Solvers of mixed-integer programmes as processes: CBC or HiGHS, whichever the PATH has. */

/* Runs one on a file in LP format until it ends, `limit_s` are over, or *stop (may be NULL) is set.
 * It writes what it found into `answer`. Errors: UNSUPPORTED: there is none; IO: it cannot be
 * started, or fails; CANCELED. Threads: any. */
orr_status orr_solver_run(const char *model, const char *answer, uint32_t limit_s,
                          const volatile bool *stop, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_EXPERTS_POLICY_SOLVER_H */
