/* SPDX-License-Identifier: Apache-2.0 */
#include "model/memory/memory.h"

#include <math.h>

#include "base/alloc.h"
#include "model/tables/load.h"
#include "op/tape/live_ranges.h"

const char *orr_memory_kind_name(orr_memory_kind kind)
{
#define NAME(name, text) text,
    static const char *const names[] = {ORR_MEMORY_MAP(NAME)};
#undef NAME
    return kind < ORR_MEMORY_KINDS ? names[kind] : "?";
}

orr_module_memory orr_module_memory_untied(const orr_module_memory *memory)
{
    orr_module_memory m = *memory;
    m.parameters -= m.tied_parameters;
    m.weight_bytes -= m.tied_weight_bytes;
    m.gather_bytes -= m.tied_weight_bytes;
    if (m.tied_frozen) {
        m.frozen_parameters -= m.tied_parameters;
        m.frozen_weight_bytes -= m.tied_weight_bytes;
    }
    m.tied_parameters = m.tied_weight_bytes = 0;
    return m;
}

static void count_parameter(const orr_tape_value *v, orr_module_memory *m)
{
    const int64_t elements = orr_type_elements(&v->type), bytes = orr_type_bytes(&v->type);
    if (v->tag == ORR_WEIGHT_TIED) {
        m->tied_parameters += elements;
        m->tied_weight_bytes += bytes;
        m->tied_frozen = v->frozen;
    }
    const bool expert = v->tag == ORR_WEIGHT_EXPERT;
    *(expert ? &m->expert_parameters : &m->parameters) += elements;
    *(expert ? &m->expert_weight_bytes : &m->weight_bytes) += bytes;
    m->gather_bytes += bytes;
    if (!v->frozen) {
        m->narrow_parameters += orr_dtype_bytes((orr_dtype)v->type.dtype) <= 1 ? elements : 0;
        return;
    }
    m->frozen_parameters += elements;
    m->frozen_weight_bytes += bytes;
    if (expert) {
        m->frozen_expert_parameters += elements;
        m->frozen_expert_weight_bytes += bytes;
    }
}

/* Tables on the rank that has most; ids, sums of bags and their gradients are kept from the forward
 * to the backward pass. */
static void weigh_tables(const orr_tables_work *work, orr_module_memory *m)
{
    m->table_bytes = (int64_t)fmin(work->most.rows, 0x1p62);
    m->table_state_bytes = (int64_t)fmin(work->most.state, 0x1p62);
    m->kept_bytes += (int64_t)fmin(work->most.buffers, 0x1p61);
}

/* How the memory of a backward pass is measured. APART: weight gradients are a pass of their own
 * (zero-bubble schedules). OWNED: each weight gradient has a tensor of its own till the module's
 * backward pass ends. PLAIN: weight gradients are accumulated as they are made (fused
 * accumulation) and need none. */
typedef enum gradient_placement { APART, OWNED, PLAIN, MANNERS } gradient_placement;

/* Do these bytes belong to the micro-batch in this module? Not: model states, the cache, tensors
 * of another module. Inputs of a layer other than its activations are shared by all layers. */
static bool passes(const orr_module *module, const orr_tape_live_range *l, gradient_placement how)
{
    switch (module->tape->values[l->value].role) {
    case ORR_VALUE_INPUT:
        return l->value == module->in || module->in == ORR_NONE ||
               !orr_module_is_layer(module->kind);
    case ORR_VALUE_PARAMETER_GRADIENT:
        return how == OWNED;
    case ORR_VALUE_PARAMETER:
    case ORR_VALUE_STATE:
    case ORR_VALUE_CONSTANT:
        return false;
    default:
        return true;
    }
}

/* Is the value alive on both sides of a border between two passes? */
static bool crosses(const orr_tape_live_range *l, uint32_t border)
{
    return l->life.first < border && l->life.last >= border;
}

static void outlast(orr_live_range *life, uint32_t part_end)
{
    if (part_end > 0 && life->last < part_end - 1)
        life->last = part_end - 1;
}

/* Lifetimes at the module's ends: the output exists to the end of its pass; after that it is the
 * input of the next module, which counts it. */
static void hand_over(const orr_module *module, orr_tape_liveness *lives)
{
    orr_live_range *out = orr_tape_live_range_of(lives, module->out),
                   *grad_in = orr_tape_live_range_of(lives, module->grad_in);
    if (out != NULL) {
        outlast(out, lives->forward_end);
        if (lives->forward_end > 0 && out->last >= lives->forward_end)
            out->last = lives->forward_end - 1;
    }
    if (grad_in != NULL)
        outlast(grad_in, lives->input_end);
}

/* Lifetimes of what a micro-batch makes and reads. Values computed from weights alone, and kept,
 * belong to no micro-batch. */
static uint32_t gather_lives(const orr_module *module, orr_tape_liveness *lives,
                             gradient_placement how, const orr_plan *plan, orr_live_range *ret)
{
    hand_over(module, lives);
    uint32_t n = orr_memory_adjust_lifetimes(module->tape, plan, lives, ret);
    for (uint32_t i = 0; i < lives->n; i++) {
        orr_tape_live_range *l = &lives->lives[i];
        if (!passes(module, l, how) || (l->derived && crosses(l, lives->forward_end)))
            continue;
        if (module->tape->values[l->value].role == ORR_VALUE_PARAMETER_GRADIENT)
            outlast(&l->life, lives->n_steps);
        ret[n++] = l->life;
    }
    return n;
}

static int64_t above(int64_t peak, int64_t kept)
{
    return peak > kept ? peak - kept : 0;
}

static int64_t crossing_bytes(const orr_live_range *lives, uint32_t n, uint32_t border)
{
    int64_t bytes = 0;
    for (uint32_t i = 0; i < n; i++)
        if (lives[i].first < border && lives[i].last >= border)
            bytes += lives[i].bytes;
    return bytes;
}

static orr_status peaks_of(const orr_module *module, orr_tape_liveness *all, gradient_placement how,
                           const orr_plan *plan, orr_live_range *lives, orr_module_memory *m,
                           orr_error *err)
{
    const uint32_t n = gather_lives(module, all, how, plan, lives);
    int64_t forward, backward, weight;
    ORR_TRY(orr_live_ranges_peak(lives, n, 0, all->forward_end, &forward, NULL, err));
    ORR_TRY(orr_live_ranges_peak(lives, n, all->forward_end, all->input_end, &backward, NULL, err));
    ORR_TRY(orr_live_ranges_peak(lives, n, all->input_end, all->n_steps, &weight, NULL, err));
    m->kept_bytes = crossing_bytes(lives, n, all->forward_end);
    m->forward_peak_bytes = above(forward, m->kept_bytes);
    if (how == APART) {
        m->apart_bytes = crossing_bytes(lives, n, all->input_end);
        m->input_peak_bytes = above(backward, m->kept_bytes);
        m->weight_peak_bytes = above(weight, m->apart_bytes);
    } else {
        *(how == OWNED ? &m->owned_peak_bytes : &m->backward_peak_bytes) =
            above(backward, m->kept_bytes);
    }
    return ORR_OK;
}

static int64_t derived_bytes(const orr_tape_liveness *lives)
{
    int64_t bytes = 0;
    for (uint32_t i = 0; i < lives->n; i++)
        if (lives->lives[i].derived && crosses(&lives->lives[i], lives->forward_end))
            bytes += lives->lives[i].life.bytes;
    return bytes;
}

/* A limit far above any device, so that sums over layers and micro-batches stay within 63 bits. */
static orr_status check_size(const orr_module *module, const orr_module_memory *m, orr_error *err)
{
    const int64_t limit = INT64_C(1) << 44;
    const int64_t bytes[] = {m->weight_bytes,       m->expert_weight_bytes, m->table_bytes,
                             m->derived_bytes,      m->kept_bytes,          m->apart_bytes,
                             m->forward_peak_bytes, m->backward_peak_bytes, m->owned_peak_bytes,
                             m->input_peak_bytes,   m->weight_peak_bytes};
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
        if (bytes[i] > limit)
            return orr_fail(err, ORR_LIMIT, "%s: %lld bytes on one rank are more than 2^44",
                            module->name, (long long)bytes[i]);
    return ORR_OK;
}

orr_status orr_module_memory_of(const orr_module *module, orr_module_memory *ret, orr_error *err)
{
    static const orr_plan usual = {.fusion = ORR_SWITCH_ON};
    return orr_module_memory_of_plan(module, &usual, ret, err);
}

orr_status orr_module_memory_of_plan(const orr_module *module, const orr_plan *plan,
                                     orr_module_memory *ret, orr_error *err)
{
    const orr_tape *tape = module->tape;
    orr_module_memory m = {0};
    orr_status status = ORR_OK;
    orr_arena *arena = orr_arena_new(0, 0);
    orr_live_range *lives =
        orr_malloc(((size_t)tape->n_values + tape->n_calls) * sizeof *lives + 1);
    if (arena == NULL || lives == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    for (uint32_t v = 0; v < tape->n_values; v++)
        if (tape->values[v].role == ORR_VALUE_PARAMETER && tape->values[v].view_of == ORR_NONE)
            count_parameter(&tape->values[v], &m);
    for (gradient_placement how = APART; how < MANNERS; how++) {
        orr_tape_liveness all;
        ORR_TRY_OUT(status, orr_tape_liveness_of(tape, how == APART, arena, &all, err));
        m.derived_bytes = derived_bytes(&all);
        ORR_TRY_OUT(status, peaks_of(module, &all, how, plan, lives, &m, err));
    }
    if (module->tables != NULL)
        weigh_tables(module->tables, &m);
    ORR_TRY_OUT(status, check_size(module, &m, err));
    *ret = m;
out:
    orr_free(lives);
    orr_arena_free(arena);
    return status;
}
