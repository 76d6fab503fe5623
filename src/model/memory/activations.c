/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "model/memory/memory.h"
#include "model/plan/plan.h"
#include "model/schedule/schedule.h"

/* Activation memory of a stage. The stage's slots are walked in order: a forward slot adds what
 * its chunk keeps of a micro-batch, the last backward slot of the micro-batch frees it, and each
 * slot needs transient bytes beside what is kept. The peak over slots is the stage's. Two
 * windows are added: gathered weights and pending gradients of FSDP, and layers that are being
 * offloaded or fetched back. Where gradients are sharded but several micro-batches are summed
 * before they are reduced (orr_plan_gradient_group()), a chunk has a whole buffer of them from the
 * first backward slot of the group to the last. */

uint32_t orr_module_at(const orr_stage_memory_input *parts, uint32_t virtual_stage, uint32_t place)
{
    const orr_module_sequence *row = parts->row;
    if (parts->plan->recompute != ORR_RECOMPUTE_BLOCK)
        return row->module_of[place];
    uint32_t layers = 0; /* layers of the virtual stage before this place */
    for (uint32_t i = parts->map->first[virtual_stage]; i < place; i++)
        layers += orr_module_is_fsdp_unit(row->modules[row->module_of[i]].kind);
    return layers < parts->plan->recompute_layers ? row->recomputed_of[place]
                                                  : row->module_of[place];
}

/* Bytes of one micro-batch in one chunk of the stage. Transient: beside what the chunk keeps at
 * the start or the end of the slot. */
typedef struct chunk_bytes {
    int64_t kept, apart, largest_kept;
    int64_t summed, largest_summed; /* gradients before they are sharded: of the chunk, of its
                                     * largest module; 0: they are reduced at once */
    uint32_t left, to_come;         /* micro-batches until the sum is reduced, 0: no sum yet; that
                                     * give gradients still */
    int64_t transient[ORR_SLOT_PHASES];
} chunk_bytes;

/* FSDP: bytes of gathered weights and of pending gradients at a place, beside its tape. */
typedef struct gathered {
    int64_t forward, backward;
} gathered;

/* The root unit's weights (all that is no layer) stay gathered whatever the plan says, as in
 * PyTorch's FSDP2; with reshard=off those of layers stay too. */
static bool stays_gathered(const orr_stage_memory_input *parts, const orr_module *module)
{
    return parts->plan->reshard == ORR_SWITCH_OFF || !orr_module_is_fsdp_unit(module->kind);
}

int64_t orr_stage_gathered_bytes(const orr_stage_memory_input *parts)
{
    int64_t bytes = 0;
    if (parts->plan->zero < 3)
        return 0;
    for (uint32_t c = 0; c < parts->schedule->spec.chunks; c++) {
        const uint32_t k = orr_schedule_virtual_stage_at(&parts->schedule->spec, parts->stage, c);
        for (uint32_t i = parts->map->first[k]; i < parts->map->first[k + 1]; i++) {
            const uint32_t m = parts->row->module_of[i];
            if (stays_gathered(parts, &parts->row->modules[m]))
                bytes += parts->memory[m].gather_bytes;
        }
    }
    return bytes;
}

/* Gathered weights at a place: its own and those that are prefetched. */
static int64_t window_bytes(const orr_stage_memory_input *parts, uint32_t first, uint32_t end,
                            uint32_t at, int step)
{
    int64_t bytes = 0;
    uint32_t ahead = 0;
    for (uint32_t i = at; i >= first && i < end && ahead <= parts->plan->prefetch; i += step) {
        const uint32_t m = parts->row->module_of[i];
        if (!stays_gathered(parts, &parts->row->modules[m])) {
            bytes += parts->memory[m].gather_bytes;
            ahead++;
        }
    }
    return bytes;
}

/* Gradients that wait for reduction or are being reduced while a place runs backward: of the
 * place before it (in the precision of the reduction), and all of the root unit, which are
 * reduced when its backward pass ends. */
static int64_t pending_bytes(const orr_stage_memory_input *parts, uint32_t end, uint32_t at)
{
    const bool wide = parts->plan->gradients == ORR_PRECISION_FP32;
    int64_t bytes = 0;
    for (uint32_t i = at + 1; i < end; i++) {
        const uint32_t m = parts->row->module_of[i];
        const bool root =
            parts->plan->zero >= 3 && !orr_module_is_fsdp_unit(parts->row->modules[m].kind);
        if (root)
            bytes += parts->memory[m].gather_bytes;
        else if (i == at + 1)
            bytes += parts->memory[m].gather_bytes * (wide ? 2 : 1);
    }
    return bytes;
}

static gathered gathered_of(const orr_stage_memory_input *parts, uint32_t first, uint32_t end,
                            uint32_t at)
{
    gathered g = {0};
    if (parts->plan->zero >= 3) {
        g.forward = window_bytes(parts, first, end, at, 1);
        g.backward = window_bytes(parts, first, end, at, -1);
    }
    if (parts->plan->zero >= 2 && orr_task_trains(parts->task) &&
        orr_plan_gradient_group(parts->plan) == 1)
        g.backward += pending_bytes(parts, end, at);
    return g;
}

static void raise(int64_t *most, int64_t bytes)
{
    if (bytes > *most)
        *most = bytes;
}

static bool offloads_activations(const orr_plan *plan)
{
    return plan->offload == ORR_OFFLOAD_ACTIVATIONS || plan->offload == ORR_OFFLOAD_BOTH;
}

/* Bytes of a chunk. Forward adds a place's kept bytes to those of the places before it; backward
 * runs from the last place to the first and frees them. So while a place runs, the kept bytes of
 * it and of all places before it exist. */
static chunk_bytes chunk_of(const orr_stage_memory_input *parts, uint32_t chunk)
{
    const uint32_t k = orr_schedule_virtual_stage_at(&parts->schedule->spec, parts->stage, chunk);
    const uint32_t first = parts->map->first[k], end = parts->map->first[k + 1];
    chunk_bytes c = {0};
    int64_t kept = 0, apart = 0, total_apart = 0;
    for (uint32_t i = first; i < end; i++) {
        const orr_module_memory *m = &parts->memory[orr_module_at(parts, k, i)];
        c.kept += m->kept_bytes;
        total_apart += m->apart_bytes;
        raise(&c.largest_kept, m->kept_bytes);
        const int64_t summed = orr_summed_gradient_bytes(m, parts->plan);
        c.summed += summed;
        raise(&c.largest_summed, summed);
    }
    c.apart = total_apart;
    for (uint32_t i = first; i < end; i++) {
        const orr_module_memory *m = &parts->memory[orr_module_at(parts, k, i)];
        const gathered g = gathered_of(parts, first, end, i);
        kept += m->kept_bytes;
        apart += m->apart_bytes;
        const int64_t later = offloads_activations(parts->plan) ? 0 : c.kept - kept;
        const int64_t backward =
            parts->plan->zero >= 2 ? m->owned_peak_bytes : m->backward_peak_bytes;
        raise(&c.transient[ORR_SLOT_FORWARD], m->forward_peak_bytes + g.forward - later);
        raise(&c.transient[ORR_SLOT_BACKWARD], backward + g.backward - later);
        raise(&c.transient[ORR_SLOT_INPUT],
              m->input_peak_bytes + g.backward - later + (total_apart - apart));
        raise(&c.transient[ORR_SLOT_WEIGHT],
              m->weight_peak_bytes + g.backward - (total_apart - apart));
    }
    return c;
}

/* Kept bytes during the walk over slots. */
typedef struct walk {
    chunk_bytes *chunks;
    int64_t kept, window; /* window: offloaded activations that are still, or already again, on
                           * the device */
    int64_t summed, in_transfer; /* gradients of chunks that wait for their reduction; of the
                                  * reduction that the slot before started last */
    uint32_t in_flight, group;
} walk;

static bool gives_gradients(const orr_schedule_slot *slot)
{
    return slot->phase == ORR_SLOT_BACKWARD || slot->phase == ORR_SLOT_WEIGHT;
}

/* Adds what the slot keeps. False: over 63 bits. */
static bool before_slot(walk *w, const orr_schedule_slot *slot)
{
    chunk_bytes *c = &w->chunks[slot->chunk];
    if (gives_gradients(slot) && c->left == 0) {
        c->left = c->to_come < w->group ? c->to_come : w->group;
        w->summed += c->summed;
    }
    if (slot->phase != ORR_SLOT_FORWARD)
        return true;
    w->in_flight++;
    return !__builtin_add_overflow(w->kept, w->chunks[slot->chunk].kept, &w->kept) &&
           w->kept < INT64_MAX / 4;
}

static void after_slot(walk *w, const orr_schedule_slot *slot)
{
    chunk_bytes *c = &w->chunks[slot->chunk];
    w->in_transfer = 0;
    if (gives_gradients(slot)) {
        c->to_come--;
        if (--c->left == 0) {
            w->summed -= c->summed;
            w->in_transfer = c->largest_summed;
        }
    }
    switch (slot->phase) {
    case ORR_SLOT_BACKWARD:
        w->kept -= c->kept;
        w->in_flight--;
        break;
    case ORR_SLOT_INPUT:
        w->kept += c->apart - c->kept;
        w->in_flight--;
        break;
    case ORR_SLOT_WEIGHT:
        w->kept -= c->apart;
        break;
    default:
        break;
    }
}

/* Transient bytes of a slot; of two that run at once, the sum. */
static int64_t transient_of(const walk *w, const orr_schedule_slot *slots, uint32_t n, uint32_t t)
{
    int64_t bytes = w->chunks[slots[t].chunk].transient[slots[t].phase];
    if (slots[t].paired && t + 1 < n)
        bytes += w->chunks[slots[t + 1].chunk].transient[slots[t + 1].phase];
    return bytes;
}

/* `transient`: with gradients that wait for their reduction, which are told apart. */
static void take_peak(const walk *w, uint32_t t, int64_t activations, int64_t transient,
                      orr_stage_memory *ret)
{
    int64_t *const bytes = ret->bytes;
    if (t > 0 && activations + transient <= bytes[ORR_MEMORY_ACTIVATIONS] +
                                                bytes[ORR_MEMORY_TRANSIENT] +
                                                bytes[ORR_MEMORY_GRADIENTS])
        return;
    bytes[ORR_MEMORY_ACTIVATIONS] = activations;
    bytes[ORR_MEMORY_GRADIENTS] = w->summed + w->in_transfer;
    bytes[ORR_MEMORY_TRANSIENT] = transient - bytes[ORR_MEMORY_GRADIENTS];
    ret->peak_slot = t;
    ret->in_flight = w->in_flight;
}

static orr_status run_slots(walk *w, const orr_schedule_slot *slots, uint32_t n, bool offloads,
                            int64_t *activations, int64_t *transient, orr_stage_memory *ret,
                            orr_error *err)
{
    for (uint32_t t = 0; t < n; t++) {
        if (!before_slot(w, &slots[t]))
            return orr_fail(err, ORR_LIMIT, "over 2^61 bytes of activations in %u micro-batches",
                            w->in_flight);
        activations[t] = offloads && w->kept > w->window ? w->window : w->kept;
        transient[t] = transient_of(w, slots, n, t) + w->summed + w->in_transfer;
        raise(&ret->host_bytes, w->kept - activations[t]);
        take_peak(w, t, activations[t], transient[t], ret);
        after_slot(w, &slots[t]);
    }
    return ORR_OK;
}

orr_status orr_stage_activations(const orr_stage_memory_input *parts, orr_arena *arena,
                                 orr_stage_memory *ret, orr_error *err)
{
    const orr_schedule_plan *schedule = parts->schedule;
    const uint32_t begin = schedule->first[parts->stage];
    const uint32_t all = schedule->first[parts->stage + 1] - begin;
    const bool offloads = offloads_activations(parts->plan);
    orr_status status = ORR_OK;
    uint32_t n = 0;
    walk w = {0};
    chunk_bytes *chunks = orr_calloc(schedule->spec.chunks, sizeof *chunks);
    orr_schedule_slot *slots = orr_malloc((size_t)all * sizeof *slots + 1);
    int64_t *activations = orr_arena_array(arena, int64_t, all),
            *transient = orr_arena_array(arena, int64_t, all);
    if (chunks == NULL || slots == NULL || activations == NULL || transient == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    for (uint32_t c = 0; c < schedule->spec.chunks; c++) {
        chunks[c] = chunk_of(parts, c);
        /* The layer that runs, and one in transfer. */
        raise(&w.window, 2 * chunks[c].largest_kept);
    }
    w.chunks = chunks;
    w.group = orr_plan_gradient_group(parts->plan);
    for (uint32_t t = 0; t < all; t++)
        if (orr_task_trains(parts->task) || schedule->slots[begin + t].phase == ORR_SLOT_FORWARD)
            slots[n++] = schedule->slots[begin + t];
    for (uint32_t t = 0; t < n; t++)
        chunks[slots[t].chunk].to_come += gives_gradients(&slots[t]);
    ORR_TRY_OUT(status, run_slots(&w, slots, n, offloads, activations, transient, ret, err));
    ret->activations = activations;
    ret->transient = transient;
    ret->n_slots = n;
out:
    orr_free(slots);
    orr_free(chunks);
    return status;
}
