/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/train/trainer.h"

/* The frozen reference model: a second set of the rank's weights, exchanged with the trained ones
 * to score with. */

orr_status orr_train_swap_weights(orr_trainer *t, const orr_reference_weights *frozen,
                                  orr_error *err)
{
    enum { ROOM = 1024 };
    float room[ROOM];
    uint32_t n;
    const orr_parameter *all = orr_engine_step_parameters(t->step, &n);
    for (uint32_t i = 0; i < n; i++)
        for (int64_t at = 0; at < all[i].shard_n; at += ROOM) {
            const int64_t left = all[i].shard_n - at;
            const size_t bytes = (size_t)(left < ROOM ? left : ROOM) * sizeof *room;
            memcpy(room, all[i].master + at, bytes);
            memcpy(all[i].master + at, frozen->numbers[i] + at, bytes);
            memcpy(frozen->numbers[i] + at, room, bytes);
        }
    return orr_engine_step_weights_changed(t->step, err);
}

orr_status orr_train_load_reference(orr_trainer *t, const char *reference,
                                    orr_reference_weights *ret, orr_error *err)
{
    uint32_t n;
    const orr_parameter *all = orr_engine_step_parameters(t->step, &n);
    ret->numbers = orr_arena_array(t->arena, float *, n);
    if (ret->numbers == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n; i++) {
        ret->numbers[i] = orr_arena_array(t->arena, float, all[i].shard_n);
        if (ret->numbers[i] == NULL)
            return orr_fail_memory(err);
        if (all[i].shard_n > 0)
            memcpy(ret->numbers[i], all[i].master, (size_t)all[i].shard_n * sizeof(float));
    }
    if (reference == NULL)
        return ORR_OK;
    ORR_TRY(orr_train_read_weights(t, reference, err));
    return orr_train_swap_weights(t, ret, err);
}
