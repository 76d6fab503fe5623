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

/* What was published of network technologies beside what this library says of them: each row is
 * computed when asked for, by the formulas of src/cost/network/rdma_transport.h and
 * src/cost/collective/collective.h or by the small simulations of src/sim/{paths,incast}.h, from a
 * fixed seed. Where a constant was taken from the publication that it is shown beside, `how` says
 * so. */
typedef struct orr_published_effect {
    const char *what;      /* "E-ECMP with 4 queue pairs against ECMP"                          */
    const char *published; /* "up to 40 % more": as the source puts it                           */
    double published_low, published_high; /* in `unit`; NAN: no such bound was published    */
    double ours;      /* in `unit`                                                          */
    const char *unit; /* "%", "GB/s", "times", "": a ratio                                  */
    bool direction;   /* ours points the way that was published                            */
    bool within;      /* and is of that size: between half the low and twice the high end;
                       * where no numbers were published, as `direction`                   */
    const char *how;  /* by what: formula, simulation, constant; and for what              */
    const char *source;
} orr_published_effect;
/* All rows, in the arena; well under a second. Errors: NO_MEMORY. Threads: any. */
ORR_API ORR_MUST_CHECK orr_status orr_published_effects(orr_arena *arena,
                                                        const orr_published_effect **ret,
                                                        uint32_t *ret_n, orr_error *err);

#ifdef __cplusplus
}
#endif

#endif /* ORR_EFFECTS_H */
