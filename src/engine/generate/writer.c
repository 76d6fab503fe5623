/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the tape of a program from its modules, with what its values are bound to. */
#include "engine/generate/writer.h"

#include <string.h>

#include "engine/generate/experts.h"
#include "op/tape/tape.h"

orr_status orr_writer_value(orr_program_writer *w, const orr_tape_value *like, orr_value *ret)
{
    ORR_TRY(orr_tape_value_new(&w->to->tape, (orr_value_role)like->role, &like->type, like->name,
                               ret, w->err));
    return orr_array_push(&w->to->bindings, (orr_binding){0}) ? ORR_OK : orr_fail_memory(w->err);
}

static bool named(const orr_tape_value *value, const char *name)
{
    return strcmp(value->name, name) == 0;
}

/* Places an input: a buffer that is fed, or another module's output. */
static orr_status place_input(orr_program_writer *w, const orr_tape_value *value, orr_value *here)
{
    orr_backbone *backbone = w->backbone;
    if (backbone == NULL)
        return orr_fail(w->err, ORR_UNSUPPORTED, "serving: nobody gives '%s' to the head",
                        value->name);
    if (named(value, "tokens"))
        backbone->ids = *here;
    else if (named(value, "positions"))
        backbone->positions = *here;
    else if (named(value, "pixels"))
        backbone->pixels = *here;
    else if (named(value, "pictures") && w->pictures != ORR_NONE)
        *here = w->pictures;
    else if (named(value, "key cache") || named(value, "value cache")) {
        const orr_kv_cache_value cache = {
            .place = w->place, .value = *here, .values = named(value, "value cache")};
        return orr_array_push(&backbone->caches, cache) ? ORR_OK : orr_fail_memory(w->err);
    } else
        return orr_fail(w->err, ORR_UNSUPPORTED, "serving: nobody gives '%s'", value->name);
    return ORR_OK;
}

static uint32_t nth_of_name(const orr_tape *tape, orr_value value)
{
    uint32_t n = 0;
    for (orr_value v = 0; v < value; v++)
        n += tape->values[v].role == ORR_VALUE_PARAMETER &&
             named(&tape->values[v], tape->values[value].name);
    return n;
}

static orr_status place_parameter(orr_program_writer *w, const orr_tape *from, orr_value value,
                                  orr_value here)
{
    const char *name = from->values[value].name;
    const orr_binding *weight =
        orr_generator_weight(w->g, w->place, name, nth_of_name(from, value));
    if (weight == NULL)
        return orr_fail(w->err, ORR_INVALID, "serving: no weights for %s", name);
    w->to->bindings.at[here] = *weight;
    return ORR_OK;
}

/* Copies the values of the module to the tape, but those of experts; its input is the previous
 * output. */
static orr_status copy_values(orr_program_writer *w, const orr_module *module,
                              const orr_expert_part *part)
{
    const orr_tape *from = module->tape;
    for (orr_value v = 0; v < from->n_values; v++) {
        const orr_tape_value *value = &from->values[v];
        w->map[v] = ORR_NONE;
        if (part->hidden != NULL && part->hidden[v])
            continue;
        if (v == module->in && w->last != ORR_NONE) {
            w->map[v] = w->last;
            continue;
        }
        ORR_TRY(orr_writer_value(w, value, &w->map[v]));
        if (value->role == ORR_VALUE_INPUT && v != module->in)
            ORR_TRY(place_input(w, value, &w->map[v]));
        else if (value->role == ORR_VALUE_PARAMETER)
            ORR_TRY(place_parameter(w, from, v, w->map[v]));
    }
    return ORR_OK;
}

static bool choices_are_read(const orr_generator *g)
{
    const orr_expert_parallel *x = g->parallel;
    return g->options.record_experts || (x != NULL && (x->groups != NULL || x->rebalancer != NULL));
}

/* The choice of experts is read after the run, so it gets bytes of its own. */
static orr_status note_choice(orr_program_writer *w, orr_value indices)
{
    const size_t bytes = (size_t)orr_type_bytes(&w->to->tape.values[indices].type);
    const orr_expert_choice choice = {
        .place = w->place, .indices = indices, .data = orr_arena_alloc(w->to->arena, bytes, 1, 64)};
    if (choice.data == NULL || !orr_array_push(&w->backbone->choices, choice))
        return orr_fail_memory(w->err);
    w->to->bindings.at[indices].data = choice.data;
    return ORR_OK;
}

/* Weights bound as rows are those of a product (K, N), however the module's tape has them. */
static void use_row_weights(orr_program_writer *w, orr_tape_call *call)
{
    if (call->op != ORR_OP_MATMUL || !call->args.transpose_b ||
        w->to->bindings.at[call->in[1]].rows == NULL)
        return;
    orr_type *type = &w->to->tape.values[call->in[1]].type;
    const int64_t n = type->dim[0];
    type->dim[0] = type->dim[1];
    type->dim[1] = n;
    call->args.transpose_b = false;
}

static orr_status copy_calls(orr_program_writer *w, const orr_module *module,
                             const orr_expert_part *part)
{
    orr_tape *to = &w->to->tape;
    for (uint32_t c = 0; c < module->tape->n_calls; c++) {
        if (c == part->dispatch || (part->inside != NULL && part->inside[c]))
            continue;
        if (c == part->combine)
            ORR_TRY(orr_expert_call_write(w, module->tape, part));
        ORR_TRY(orr_tape_reserve(to, 0, 1, w->err));
        orr_tape_call *call = &to->calls[to->n_calls];
        *call = module->tape->calls[c];
        for (uint32_t i = 0; i < call->n_in; i++)
            call->in[i] = w->map[call->in[i]];
        for (uint32_t i = 0; i < call->n_out; i++)
            call->out[i] = w->map[call->out[i]];
        use_row_weights(w, call);
        orr_tape_commit_call(to);
        if (call->op == ORR_OP_TOP_K && w->backbone != NULL && choices_are_read(w->g))
            ORR_TRY(note_choice(w, call->out[1]));
    }
    return ORR_OK;
}

orr_status orr_writer_copy_module(orr_program_writer *w, const orr_module *module)
{
    orr_expert_part part = {ORR_NONE, ORR_NONE, NULL, NULL};
    w->map = orr_arena_array(w->to->arena, orr_value, module->tape->n_values);
    if (w->map == NULL)
        return orr_fail_memory(w->err);
    if (w->g->parallel != NULL && w->backbone != NULL)
        ORR_TRY(orr_expert_part_of(module->tape, w->to->arena, &part, w->err));
    ORR_TRY(copy_values(w, module, &part));
    ORR_TRY(copy_calls(w, module, &part));
    if (module->out != ORR_NONE)
        w->last = w->map[module->out];
    return ORR_OK;
}

orr_status orr_cached_program_begin(orr_cached_program *served, orr_error *err)
{
    *served = (orr_cached_program){.arena = orr_arena_new(0, 0)};
    if (served->arena == NULL)
        return orr_fail_memory(err);
    orr_tape_init(&served->tape, served->arena);
    return ORR_OK;
}

orr_status orr_cached_program_finish(orr_generator *g, orr_cached_program *served, orr_error *err)
{
    const bool hooks = served->calls.n > 0;
    while (hooks && served->calls.n < served->tape.n_calls)
        if (!orr_array_push(&served->calls, (orr_program_call){0}))
            return orr_fail_memory(err);
    const orr_program_source source = {.tape = &served->tape,
                                       .calls = hooks ? served->calls.at : NULL,
                                       .bindings = served->bindings.at,
                                       .communicators = hooks ? g->parallel->communicators : NULL,
                                       .backend = g->backend,
                                       .workers = g->workers};
    return orr_program_make(&source, &served->program, err);
}

void orr_cached_program_free(orr_cached_program *served)
{
    orr_program_free(served->program);
    orr_array_done(&served->bindings);
    orr_array_done(&served->calls);
    orr_arena_free(served->arena);
    *served = (orr_cached_program){0};
}

orr_status orr_cached_program_retire(orr_generator *g, orr_cached_program *served, orr_error *err)
{
    if (g->recorder == NULL || served->program == NULL) {
        orr_cached_program_free(served);
        return ORR_OK;
    }
    if (!orr_array_push(&g->retired, *served))
        return orr_fail_memory(err);
    *served = (orr_cached_program){0};
    return ORR_OK;
}
