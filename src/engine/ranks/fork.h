/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_RANKS_FORK_H
#define ORR_ENGINE_RANKS_FORK_H

#include "engine/ranks/launch.h"

enum { ORR_RANKS_MAX = 4096 };

/* Runs ranks as n - 1 forked processes beside this one; see orr_ranks_run(). */
orr_status orr_ranks_fork(uint32_t n, bool tcp, int64_t deadline_ns, orr_ranks_body *body,
                          void *ctx, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_RANKS_FORK_H */
