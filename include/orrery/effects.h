/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EFFECTS_H
#define ORR_EFFECTS_H

#include <stdbool.h>
#include <stdint.h>

#include <orrery/arena.h>
#include <orrery/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Published effects of network technologies, compared with this library's models: each row is
 * computed on demand from a fixed seed, by the formulas of src/cost/network/rdma_transport.h and
 * src/cost/collective/collective.h or by the small simulations of
 * src/sim/effects/{multipath,incast}.h. Where a constant was taken from the very publication,
 * `how` says so. */
typedef struct orr_published_effect {
    const char *what;      /* "E-ECMP with 4 queue pairs against ECMP"                          */
    const char *published; /* "up to 40 % more": as in the source */
    double published_low, published_high; /* in `unit`; NAN: no such bound was published */
    double ours;      /* in `unit`                                                          */
    const char *unit; /* "%", "GB/s", "times", "": a ratio                                  */
    bool direction;   /* our result has the published direction */
    bool within;      /* and the published size: between half the low and twice the high end;
                       * without published numbers, as `direction` */
    const char *how;  /* formula, simulation or constant; and the use case */
    const char *source;
} orr_published_effect;
/* All rows, in the arena; takes well under a second. Errors: NO_MEMORY. Threads: any. */
ORR_API ORR_MUST_CHECK orr_status orr_published_effects(orr_arena *arena,
                                                        const orr_published_effect **ret,
                                                        uint32_t *ret_n, orr_error *err);

#ifdef __cplusplus
}
#endif

#endif /* ORR_EFFECTS_H */
