/* SPDX-License-Identifier: Apache-2.0 */
#include "store/serve/epochs.h"

void orr_epochs_init(orr_epochs *epochs)
{
    atomic_init(&epochs->now, 1);
    for (int i = 0; i < ORR_EPOCH_PARTICIPANTS; i++) {
        atomic_init(&epochs->participant[i].in, 0);
        atomic_init(&epochs->participant[i].taken, false);
    }
}

int orr_epochs_join(orr_epochs *epochs)
{
    for (int i = 0; i < ORR_EPOCH_PARTICIPANTS; i++) {
        bool taken = false;
        if (atomic_compare_exchange_strong(&epochs->participant[i].taken, &taken, true))
            return i;
    }
    return -1;
}

void orr_epochs_leave(orr_epochs *epochs, int participant)
{
    orr_epoch_exit(epochs, participant);
    atomic_store(&epochs->participant[participant].taken, false);
}

uint64_t orr_epochs_passed(orr_epochs *epochs)
{
    uint64_t least = atomic_load(&epochs->now);
    for (int i = 0; i < ORR_EPOCH_PARTICIPANTS; i++) {
        const uint64_t in = atomic_load(&epochs->participant[i].in);
        if (in != 0 && in < least)
            least = in;
    }
    return least;
}
