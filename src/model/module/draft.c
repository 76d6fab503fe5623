/* SPDX-License-Identifier: Apache-2.0 */
#include "model/module/draft.h"

#include <string.h>

void orr_draft_init(orr_draft *draft, const orr_job_shape *job, orr_arena *arena, orr_error *err)
{
    *draft = (orr_draft){.job = job, .in = ORR_NONE, .out = ORR_NONE, .loss = ORR_NONE, .err = err};
    orr_tape_init(&draft->tape, arena);
}

void orr_draft_fail(orr_draft *draft, orr_status status)
{
    if (draft->status == ORR_OK)
        draft->status = status;
}

/* Makes room for the layouts of all values; the layout of a new value is left to the pass. */
static bool reach(orr_draft *draft)
{
    const uint32_t n = draft->tape.n_values;
    if (n <= draft->room)
        return true;
    const uint32_t room = n + n / 2 + 64;
    orr_layout *of = orr_arena_array(draft->tape.arena, orr_layout, room);
    bool *fixed = orr_arena_array(draft->tape.arena, bool, room);
    orr_packed_dim *forms = orr_arena_array(draft->tape.arena, orr_packed_dim, room);
    if (of == NULL || fixed == NULL || forms == NULL) {
        orr_draft_fail(draft, orr_fail_memory(draft->err));
        return false;
    }
    if (draft->room > 0) {
        memcpy(of, draft->layouts.of, draft->room * sizeof *of);
        memcpy(fixed, draft->layouts.fixed, draft->room * sizeof *fixed);
        memcpy(forms, draft->forms, draft->room * sizeof *forms);
    }
    draft->layouts = (orr_layouts){.of = of, .fixed = fixed};
    draft->forms = forms;
    draft->room = room;
    return true;
}

orr_axis_set orr_draft_axes(const orr_draft *draft, orr_axis a, orr_axis b)
{
    const uint32_t *members = draft->job->how.members;
    orr_axis_set set = 0;
    if (a < ORR_AXES && members[a] > 1)
        set |= orr_axis_bit(a);
    if (b < ORR_AXES && members[b] > 1)
        set |= orr_axis_bit(b);
    return set;
}

orr_layout orr_draft_stream(const orr_draft *draft)
{
    return (orr_layout){
        .by = {0, orr_draft_axes(draft, ORR_AXIS_CP,
                                 draft->job->sequence ? ORR_AXIS_TP : ORR_AXIS_NONE)}};
}

static orr_value value_new(orr_draft *draft, orr_value_role role, const orr_type *type,
                           const orr_layout *layout, const char *name)
{
    orr_value value = ORR_NONE;
    if (draft->status == ORR_OK)
        orr_draft_fail(draft,
                       orr_tape_value_new(&draft->tape, role, type, name, &value, draft->err));
    if (draft->status != ORR_OK || !reach(draft))
        return ORR_NONE;
    draft->layouts.of[value] = *layout;
    draft->layouts.fixed[value] = true;
    return value;
}

static orr_type type_of(orr_dtype dtype, const orr_dims *dims)
{
    orr_type type = {.dtype = (uint8_t)dtype, .rank = (uint8_t)dims->rank};
    memcpy(type.dim, dims->dim, sizeof type.dim);
    return type;
}

orr_value orr_draft_input(orr_draft *draft, orr_dtype dtype, orr_dims dims,
                          const orr_layout *layout, const char *name)
{
    const orr_type type = type_of(dtype, &dims);
    return value_new(draft, ORR_VALUE_INPUT, &type, layout, name);
}

orr_value orr_draft_weight(orr_draft *draft, orr_dims dims, uint32_t dim, orr_axis axis,
                           const char *name)
{
    const orr_type type = type_of(draft->job->stream, &dims);
    orr_layout layout = {0};
    layout.by[dim] = orr_draft_axes(draft, axis, ORR_AXIS_NONE);
    const orr_value value = value_new(draft, ORR_VALUE_PARAMETER, &type, &layout, name);
    if (value != ORR_NONE) {
        draft->tape.values[value].frozen = draft->frozen;
        draft->tape.values[value].tag = draft->tag;
    }
    return value;
}

orr_value orr_draft_scale(orr_draft *draft, const char *name)
{
    const orr_type type = {.dtype = ORR_DTYPE_FP32, .rank = 1, .dim = {1}};
    return value_new(draft, ORR_VALUE_CONSTANT, &type, &(orr_layout){0}, name);
}

void orr_draft_call_all(orr_draft *draft, orr_op op, const orr_op_args *args, const char *name,
                        uint32_t n_in, const orr_value *in, orr_value *ret_out)
{
    static const orr_op_args none = {0};
    for (uint32_t i = 0; i < ORR_CALL_OUT; i++)
        ret_out[i] = ORR_NONE;
    if (draft->status != ORR_OK)
        return;
    orr_draft_fail(draft, orr_tape_call_op(&draft->tape, op, args != NULL ? args : &none, in, n_in,
                                           name, ret_out, draft->err));
    reach(draft);
}

orr_value orr_draft_call(orr_draft *draft, orr_op op, const orr_op_args *args, const char *name,
                         uint32_t n_in, const orr_value *in)
{
    orr_value out[ORR_CALL_OUT];
    orr_draft_call_all(draft, op, args, name, n_in, in, out);
    return draft->status == ORR_OK ? out[0] : ORR_NONE;
}

orr_value orr_draft_set_layout(orr_draft *draft, orr_value value, const orr_layout *layout)
{
    if (draft->status == ORR_OK && reach(draft)) {
        draft->layouts.of[value] = *layout;
        draft->layouts.fixed[value] = true;
    }
    return value;
}

void orr_draft_packed_dim(orr_draft *draft, orr_value value, const orr_packed_dim *form)
{
    if (draft->status == ORR_OK && value != ORR_NONE && reach(draft))
        draft->forms[value] = *form;
}

const orr_type *orr_draft_type(const orr_draft *draft, orr_value value)
{
    static const orr_type none = {0};
    return draft->status == ORR_OK ? &draft->tape.values[value].type : &none;
}
