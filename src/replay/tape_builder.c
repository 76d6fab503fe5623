/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/tape_builder.h"

#include <string.h>

void orr_replay_builder_init(orr_replay_builder *b, orr_arena *arena)
{
    *b = (orr_replay_builder){.arena = arena, .ranks = 1, .last_collective = ORR_NONE};
    orr_tape_init(&b->tape, arena);
}

void orr_replay_builder_done(orr_replay_builder *b)
{
    orr_idmap_done(&b->storage_of);
    orr_array_done(&b->storages);
    orr_array_done(&b->places);
    orr_array_done(&b->calls);
    orr_array_done(&b->deps);
    orr_array_done(&b->indices);
}

/* Extends the locations with the tape's values. */
static orr_status reach(orr_replay_builder *b, orr_error *err)
{
    while (b->places.n < b->tape.n_values)
        if (!orr_array_push(&b->places, ((orr_replay_value_location){.storage = ORR_NONE})))
            return orr_fail_memory(err);
    while (b->calls.n < b->tape.n_calls)
        if (!orr_array_push(&b->calls, ((orr_program_call){.lane = b->lane, .tag = b->node})))
            return orr_fail_memory(err);
    return ORR_OK;
}

/* The storage with that id, or a new one. */
static orr_status storage_of(orr_replay_builder *b, int64_t id, uint32_t *ret, orr_error *err)
{
    const orr_replay_storage fresh = {.first = ORR_NONE};
    *ret = id < 0 ? ORR_NONE : orr_idmap_get(&b->storage_of, (uint64_t)id);
    if (*ret != ORR_NONE)
        return ORR_OK;
    *ret = (uint32_t)b->storages.n;
    if (!orr_array_push(&b->storages, fresh))
        return orr_fail_memory(err);
    return id < 0 ? ORR_OK : orr_idmap_set(&b->storage_of, (uint64_t)id, *ret, err);
}

static orr_status place(orr_replay_builder *b, orr_value value, const orr_replay_tensor *t,
                        orr_error *err)
{
    const int64_t bytes = orr_type_bytes(&b->tape.values[value].type);
    const int64_t offset =
        t->offset_bytes > 0 && t->offset_bytes < INT64_MAX / 2 ? t->offset_bytes : 0;
    uint32_t s;
    ORR_TRY(storage_of(b, t->storage, &s, err));
    orr_replay_storage *storage = &b->storages.at[s];
    if (bytes > INT64_MAX / 2 - offset)
        return orr_fail(err, ORR_LIMIT, "a storage of more bytes than there are");
    if (offset + bytes > storage->bytes)
        storage->bytes = offset + bytes;
    b->places.at[value] = (orr_replay_value_location){s, offset};
    return ORR_OK;
}

orr_status orr_replay_new_value(orr_replay_builder *b, const orr_type *type, orr_value *ret,
                                orr_error *err)
{
    ORR_TRY(orr_tape_value_new(&b->tape, ORR_VALUE_INPUT, type, "", ret, err));
    return reach(b, err);
}

orr_status orr_replay_value(orr_replay_builder *b, const orr_replay_tensor *t, const orr_type *type,
                            orr_value *ret, orr_error *err)
{
    ORR_TRY(orr_replay_new_value(b, type, ret, err));
    return place(b, *ret, t, err);
}

bool orr_replay_is_written(const orr_replay_builder *b, const orr_replay_tensor *t)
{
    const uint32_t s =
        t->storage < 0 ? ORR_NONE : orr_idmap_get(&b->storage_of, (uint64_t)t->storage);
    return s != ORR_NONE && b->storages.at[s].written;
}

static bool computes(uint8_t dtype)
{
    return dtype == ORR_DTYPE_FP32 || dtype == ORR_DTYPE_BF16 || dtype == ORR_DTYPE_FP16;
}

orr_status orr_replay_tensor_value(orr_replay_builder *b, const orr_replay_tensor *t,
                                   orr_value *ret, orr_error *err)
{
    return computes(t->type.dtype) ? orr_replay_value(b, t, &t->type, ret, err)
                                   : orr_replay_flat_value(b, t, ret, err);
}

orr_status orr_replay_flat_value(orr_replay_builder *b, const orr_replay_tensor *t, orr_value *ret,
                                 orr_error *err)
{
    orr_type type = {.dtype = t->type.dtype, .rank = 1, .dim = {orr_type_elements(&t->type)}};
    if (!computes(t->type.dtype)) {
        type.dtype = ORR_DTYPE_FP32;
        type.dim[0] = (orr_type_bytes(&t->type) + 3) / 4;
    }
    return orr_replay_value(b, t, &type, ret, err);
}

orr_status orr_replay_random_index_value(orr_replay_builder *b, const orr_type *type, int64_t limit,
                                         bool offsets, orr_value *ret, orr_error *err)
{
    orr_type made = *type;
    made.dtype = ORR_DTYPE_INT64;
    ORR_TRY(orr_replay_new_value(b, &made, ret, err));
    const orr_replay_indices row = {*ret, orr_type_elements(&made), limit, offsets};
    return orr_array_push(&b->indices, row) ? ORR_OK : orr_fail_memory(err);
}

static void touch(orr_replay_builder *b, orr_value value, uint32_t call)
{
    const orr_value root =
        b->tape.values[value].view_of == ORR_NONE ? value : b->tape.values[value].view_of;
    if (b->places.at[root].storage == ORR_NONE)
        return;
    orr_replay_storage *s = &b->storages.at[b->places.at[root].storage];
    if (s->first == ORR_NONE)
        s->first = call;
    s->last = call;
}

orr_status orr_replay_apply(orr_replay_builder *b, orr_op op, const orr_op_args *args,
                            const orr_value *in, uint32_t n_in, const orr_replay_tensor *const *to,
                            uint32_t n_to, orr_value *ret, orr_error *err)
{
    orr_value out[ORR_CALL_OUT];
    const uint32_t before = b->tape.n_calls;
    ORR_TRY(orr_tape_call_op(&b->tape, op, args, in, n_in, "", out, err));
    ORR_TRY(reach(b, err));
    const orr_tape_call *call = &b->tape.calls[before];
    for (uint32_t k = 0; k < n_to && k < call->n_out; k++)
        if (to[k] != NULL && !orr_op_of(op)->shares &&
            orr_type_bytes(&b->tape.values[out[k]].type) <= orr_type_bytes(&to[k]->type)) {
            ORR_TRY(place(b, out[k], to[k], err));
            b->storages.at[b->places.at[out[k]].storage].written = true;
        }
    for (uint32_t k = 0; k < call->n_in; k++)
        touch(b, call->in[k], before);
    for (uint32_t k = 0; k < call->n_out; k++)
        touch(b, call->out[k], before);
    if (ret != NULL)
        memcpy(ret, out, sizeof out);
    return ORR_OK;
}

orr_status orr_replay_emulate(orr_replay_builder *b, int64_t ns, orr_error *err)
{
    const uint32_t call = b->tape.n_calls;
    const orr_op_args alone = {.axis = ORR_AXIS_DP, .members = 1};
    ORR_TRY(orr_replay_apply(b, ORR_OP_BARRIER, &alone, NULL, 0, NULL, 0, NULL, err));
    b->calls.at[call].emulate_ns = ns > 0 ? ns : 1;
    return ORR_OK;
}
