/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_STORE_SERVE_EPOCHS_H
#define ORR_STORE_SERVE_EPOCHS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* When memory that was shared may be used again (epoch-based reclamation: K. Fraser, "Practical
 * lock-freedom", 2004). A participant is in an epoch while it follows shared pointers. What has
 * been made unreachable is stamped, and is free once all participants that were in an epoch then
 * have left it. Nobody waits to enter or leave. */
enum { ORR_EPOCH_PARTICIPANTS = 256 };

typedef struct orr_epochs {
    _Alignas(64) _Atomic uint64_t now; /* from 1 on */
    struct orr_epoch_participant {
        _Alignas(64) _Atomic uint64_t in; /* the epoch; 0: none */
        _Atomic bool taken;
    } participant[ORR_EPOCH_PARTICIPANTS];
} orr_epochs;

void orr_epochs_init(orr_epochs *epochs);
/* The number of a participant, -1: there are too many. */
int orr_epochs_join(orr_epochs *epochs);
void orr_epochs_leave(orr_epochs *epochs, int participant);

/* Loads and stores of what is shared are sequentially consistent, here and where pointers are
 * followed: a participant whose entry was not seen by orr_epochs_passed() sees what was made
 * unreachable before. */
static inline void orr_epoch_enter(orr_epochs *epochs, int participant)
{
    atomic_exchange(&epochs->participant[participant].in, atomic_load(&epochs->now));
}
static inline void orr_epoch_exit(orr_epochs *epochs, int participant)
{
    atomic_store_explicit(&epochs->participant[participant].in, 0, memory_order_release);
}
/* The stamp of what was made unreachable before the call. */
static inline uint64_t orr_epoch_stamp(orr_epochs *epochs)
{
    return atomic_fetch_add(&epochs->now, 1);
}
/* What has a stamp below is free. */
uint64_t orr_epochs_passed(orr_epochs *epochs);

#endif /* ORR_STORE_SERVE_EPOCHS_H */
