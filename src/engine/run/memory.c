/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "engine/run/program_state.h"
#include "op/tape/live_ranges.h"

/* Static memory plan of a program. The lifetime of a value is from the call that writes it to the
 * last that reads it, in call numbers of lane 0; a read in another lane counts at the call of lane
 * 0 by which it is known to be done (`ret_join` of dependencies.c). Offsets are assigned by
 * op/tape/live_ranges.h, the functions that estimates use; then memory is taken, and that of kept
 * values is zeroed. */

enum { ALIGNMENT = 64 };

static int64_t aligned(int64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static bool is_own(const orr_program *p, orr_value v)
{
    return p->places[v].root == v && orr_binding_is_own(&p->bindings[v]) && !p->bindings[v].kept;
}

/* Gives each of the program's values an address range of its own, far from all others and above
 * user addresses (which end below 2^57), for the first dependency analysis. */
static orr_status assign_unique_addresses(orr_program *p, orr_error *err)
{
    uint64_t at = UINT64_C(1) << 60;
    for (orr_value v = 0; v < p->tape->n_values; v++) {
        p->base[v] = p->bindings[v].data;
        if (p->places[v].root != v || !orr_binding_is_own(&p->bindings[v]))
            continue;
        const int64_t bytes = orr_type_bytes(&p->tape->values[v].type);
        if (bytes < 0 || bytes > INT64_C(1) << 60)
            return orr_fail(err, ORR_LIMIT, "'%s' is a tensor of over 2^60 bytes",
                            p->tape->values[v].name);
        p->base[v] = (char *)(uintptr_t)at; /* never dereferenced */
        if (__builtin_add_overflow(at, (uint64_t)aligned(bytes), &at))
            return orr_fail(err, ORR_LIMIT, "tensors of over 2^63 bytes");
    }
    return ORR_OK;
}

/* An offset stored in place of an address: from ALIGNMENT on, since NULL means no bytes. */
static char *offset_of(int64_t bytes)
{
    return (char *)(uintptr_t)(bytes + ALIGNMENT);
}
static char *address_of(char *memory, const char *offset)
{
    return memory + ((uintptr_t)offset - ALIGNMENT);
}

static void use(const orr_program *p, orr_value root, uint32_t first, uint32_t last,
                orr_live_range *lifetimes)
{
    if (root == ORR_NONE || !is_own(p, root))
        return;
    orr_live_range *lifetime = &lifetimes[root];
    if (lifetime->last <
        lifetime->first) /* first reference; a value that no call writes lives from the start */
        *lifetime = (orr_live_range){.first = p->tape->values[root].made_by == ORR_NONE ? 0 : first,
                                     .last = last,
                                     .bytes = orr_type_bytes(&p->tape->values[root].type)};
    if (last > lifetime->last)
        lifetime->last = last;
    if (first < lifetime->first)
        lifetime->first = first;
}

static void find_lives(const orr_program *p, const uint32_t *join, orr_live_range *lifetimes)
{
    for (orr_value v = 0; v < p->tape->n_values; v++)
        lifetimes[v] = (orr_live_range){.first = 1, .last = 0};
    for (uint32_t c = 0; c < p->tape->n_calls; c++) {
        const orr_action *action = &p->actions[c];
        const uint32_t n = (uint32_t)action->n_in + action->n_out;
        for (uint32_t k = 0; k < n; k++)
            use(p, p->operand_of[action->operands + k], c, join[c] - 1, lifetimes);
        if (!p->calls[c].skip)
            continue;
        for (uint32_t k = 0; k < p->tape->calls[c].n_out; k++) /* bound: it lives from the start */
            if (is_own(p, p->tape->calls[c].out[k]))
                use(p, p->tape->calls[c].out[k], 0, c, lifetimes);
    }
}

/* Assigns offsets to the given lifetimes, whose values are `rows`. */
static orr_status pack_lifetimes(orr_program *p, orr_live_range *lifetimes, uint32_t *rows,
                                 int64_t *offsets, orr_error *err)
{
    uint32_t n = 0;
    for (orr_value v = 0; v < p->tape->n_values; v++)
        if (lifetimes[v].last >= lifetimes[v].first) {
            rows[n] = v;
            lifetimes[n++] = lifetimes[v];
        }
    ORR_TRY(orr_live_ranges_pack(lifetimes, n, ALIGNMENT, offsets, &p->memory.planned_bytes, err));
    for (uint32_t i = 0; i < n; i++) {
        p->base[rows[i]] = offset_of(offsets[i]);
        p->memory.summed_bytes += aligned(lifetimes[i].bytes);
    }
    return ORR_OK;
}

static orr_status assign_kept_offsets(orr_program *p, orr_error *err)
{
    int64_t at = 0;
    for (orr_value v = 0; v < p->tape->n_values; v++) {
        if (!p->bindings[v].kept || !orr_binding_is_own(&p->bindings[v]) || p->places[v].root != v)
            continue;
        p->base[v] = offset_of(at);
        if (__builtin_add_overflow(at, aligned(orr_type_bytes(&p->tape->values[v].type)), &at))
            return orr_fail(err, ORR_LIMIT, "tensors of over 2^63 bytes");
    }
    p->memory.kept_bytes = at;
    return ORR_OK;
}

orr_status orr_program_assign_offsets(orr_program *p, orr_error *err)
{
    const uint32_t n = p->tape->n_values;
    orr_status status = ORR_OK;
    orr_live_range *lifetimes = orr_calloc((size_t)n + 1, sizeof *lifetimes);
    uint32_t *rows = orr_calloc((size_t)n + 1, sizeof *rows);
    int64_t *offsets = orr_calloc((size_t)n + 1, sizeof *offsets);
    uint32_t *join = orr_calloc((size_t)p->tape->n_calls + 1, sizeof *join);
    if (lifetimes == NULL || rows == NULL || offsets == NULL || join == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    ORR_TRY_OUT(status, assign_unique_addresses(p, err));
    orr_program_resolve_addresses(p);
    ORR_TRY_OUT(status, orr_program_find_waits(p, join, err));
    find_lives(p, join, lifetimes);
    for (orr_value v = 0; v < n; v++)
        if (is_own(p, v))
            p->base[v] = NULL;
    ORR_TRY_OUT(status, pack_lifetimes(p, lifetimes, rows, offsets, err));
    ORR_TRY_OUT(status, assign_kept_offsets(p, err));
    for (uint32_t l = 0; l < p->n_lanes; l++)
        p->memory.workspace_bytes += (int64_t)p->lanes[l]->workspace_bytes;
out:
    orr_free(join);
    orr_free(offsets);
    orr_free(rows);
    orr_free(lifetimes);
    return status;
}

static orr_status check_room(const orr_program *p, int64_t need_bytes, orr_error *err)
{
    const double gib = 1024.0 * 1024 * 1024;
    const int64_t free_bytes =
        p->backend->free_bytes != NULL ? p->backend->free_bytes(p->backend) : -1;
    if (free_bytes < 0 || need_bytes <= free_bytes)
        return ORR_OK;
    return orr_fail(err, ORR_LIMIT, "needs %.1f GiB of memory, %.1f GiB are free",
                    (double)need_bytes / gib, (double)free_bytes / gib);
}

/* Zeros device memory by copying zeros from the host, piece by piece. */
static orr_status zero(orr_program *p, char *data, size_t bytes, orr_error *err)
{
    enum { PIECE = 1 << 16 };
    orr_status status = ORR_OK;
    void *zeros = orr_calloc(1, PIECE);
    if (zeros == NULL)
        return orr_fail_memory(err);
    for (size_t at = 0; at < bytes && status == ORR_OK; at += PIECE)
        status =
            p->backend->copy(p->backend, data + at, zeros, bytes - at < PIECE ? bytes - at : PIECE,
                             p->lanes[0]->stream, err);
    if (status == ORR_OK && p->device)
        status = p->backend->synchronize(p->backend, p->lanes[0]->stream, err);
    orr_free(zeros);
    return status;
}

static orr_status allocate(orr_program *p, size_t bytes, char **ret, size_t *ret_room,
                           orr_error *err)
{
    void *data = NULL;
    if (bytes == 0)
        bytes = ALIGNMENT; /* empty tensors have an address too */
    ORR_TRY(p->backend->allocate(p->backend, bytes, &data, err));
    *ret = data;
    *ret_room = bytes;
    return ORR_OK;
}

static orr_status allocate_workspaces(orr_program *p, orr_error *err)
{
    for (uint32_t l = 0; l < p->n_lanes; l++) {
        orr_lane_state *lane = p->lanes[l];
        char *data;
        if (lane->workspace_bytes == 0)
            continue;
        ORR_TRY(allocate(p, lane->workspace_bytes, &data, &lane->workspace_bytes, err));
        lane->workspace = data;
    }
    return ORR_OK;
}

orr_status orr_program_allocate(orr_program *p, orr_error *err)
{
    const orr_program_memory *m = &p->memory;
    int64_t need = 0;
    if (__builtin_add_overflow(m->planned_bytes, m->kept_bytes, &need) ||
        __builtin_add_overflow(need, m->workspace_bytes, &need))
        return orr_fail(err, ORR_LIMIT, "tensors of over 2^63 bytes");
    ORR_TRY(check_room(p, need, err));
    ORR_TRY(allocate(p, (size_t)m->planned_bytes, &p->planned, &p->planned_room, err));
    ORR_TRY(allocate(p, (size_t)m->kept_bytes, &p->kept, &p->kept_room, err));
    ORR_TRY(allocate_workspaces(p, err));
    ORR_TRY(zero(p, p->kept, (size_t)m->kept_bytes, err));
    for (orr_value v = 0; v < p->tape->n_values; v++) {
        if (!orr_binding_is_own(&p->bindings[v]) || p->base[v] == NULL || p->places[v].root != v)
            continue;
        p->base[v] = address_of(p->bindings[v].kept ? p->kept : p->planned, p->base[v]);
    }
    return ORR_OK;
}
