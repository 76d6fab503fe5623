/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/routes/load.h"

#include <string.h>

#include <orrery/graph.h>

#include "experts/routes/read.h"
#include "experts/routes/windows.h"

/* Shares of the first window. */
static orr_status make_load(const orr_expert_windows *windows, uint64_t tokens, orr_arena *arena,
                            orr_expert_load *ret, orr_error *err)
{
    const size_t layers = windows->layers, experts = windows->experts;
    double *share = orr_arena_array(arena, double, layers *experts);
    uint32_t *number = orr_arena_array(arena, uint32_t, layers);
    const char *source = orr_arena_strndup(arena, windows->source, strlen(windows->source));
    if (share == NULL || number == NULL || source == NULL)
        return orr_fail_memory(err);
    for (size_t l = 0; l < layers; l++) {
        const double *load = windows->load + l * experts;
        double sum = 0;
        for (size_t e = 0; e < experts; e++)
            sum += load[e];
        for (size_t e = 0; e < experts; e++)
            share[l * experts + e] = load[e] / sum;
        number[l] = windows->number[l];
    }
    *ret = (orr_expert_load){.layers = windows->layers,
                             .experts = windows->experts,
                             .number = number,
                             .share = share,
                             .tokens = tokens,
                             .source = source};
    return ORR_OK;
}

static orr_status load_of_routes(orr_stream *stream, const char *path, int phase, orr_arena *room,
                                 orr_arena *arena, orr_expert_load *ret, orr_error *err)
{
    const orr_routes *routes;
    orr_expert_windows windows;
    orr_routes_options options;
    orr_routes_options_init(&options);
    options.phase = phase;
    ORR_TRY(orr_routes_read_stream(stream, path, &options, room, &routes, err));
    ORR_TRY(orr_expert_windows_of_routes(routes, 1, room, &windows, err));
    return make_load(&windows, routes->tokens, arena, ret, err);
}

/* Windows are added up. How many tokens they are of is not known: `tokens` is the load of the first
 * layer. */
static orr_status load_of_windows(orr_stream *stream, const char *path, orr_arena *room,
                                  orr_arena *arena, orr_expert_load *ret, orr_error *err)
{
    orr_expert_windows windows;
    ORR_TRY(orr_windows_read_stream(stream, path, room, &windows, err));
    const size_t n = (size_t)windows.layers * windows.experts;
    double *load = orr_arena_array(room, double, n), sum = 0;
    if (load == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < windows.windows * n; i++)
        load[i % n] += windows.load[i];
    for (uint32_t e = 0; e < windows.experts; e++)
        sum += load[e];
    windows.load = load;
    return make_load(&windows, sum < 1e18 ? (uint64_t)sum : 0, arena, ret, err);
}

static orr_status load_of_either(orr_stream *stream, const char *path, int phase, orr_arena *room,
                                 orr_arena *arena, orr_expert_load *ret, orr_error *err)
{
    bool windows;
    ORR_TRY(orr_windows_look(stream, &windows, err));
    if (!windows)
        return load_of_routes(stream, path, phase, room, arena, ret, err);
    return phase < 0 ? load_of_windows(stream, path, room, arena, ret, err)
                     : orr_fail(err, ORR_INVALID, "a phase is asked for, and loads have none");
}

orr_status orr_expert_load_from(orr_stream *stream, const char *path, const char *phase,
                                orr_arena *arena, orr_expert_load *ret, orr_error *err)
{
    if (phase != NULL && strcmp(phase, "p") != 0 && strcmp(phase, "d") != 0)
        return orr_fail(err, ORR_INVALID, "phase '%.20s': p or d", phase);
    orr_arena *room = orr_arena_new(0, 0);
    if (room == NULL)
        return orr_fail_memory(err);
    const orr_status status =
        load_of_either(stream, path, phase == NULL ? -1 : *phase == 'd', room, arena, ret, err);
    orr_arena_free(room);
    return status;
}

orr_status orr_expert_load_read(const char *path, const char *phase, orr_arena *arena,
                                orr_expert_load *ret, orr_error *err)
{
    orr_stream *stream;
    orr_status status = orr_stream_open(path, &stream, err);
    if (status == ORR_OK) {
        status = orr_expert_load_from(stream, path, phase, arena, ret, err);
        orr_stream_close(stream);
    }
    return orr_route_name_file(path, status, err);
}

static double imbalance_of(const orr_expert_load *load, uint32_t layer, uint32_t ranks)
{
    const double *share = load->share + (size_t)layer * load->experts;
    double most = 0, sum = 0;
    uint64_t rank = 0;
    for (uint32_t e = 0; e < load->experts; e++) {
        const uint64_t holder = (uint64_t)e * ranks / load->experts;
        sum = holder == rank ? sum + share[e] : share[e];
        rank = holder;
        most = sum > most ? sum : most;
    }
    return most * ranks;
}

double orr_expert_imbalance(const orr_expert_load *load, uint32_t layer, uint32_t ranks)
{
    double sum = 0;
    if (ranks <= 1)
        return 1;
    if (layer != ORR_NONE)
        return imbalance_of(load, layer, ranks);
    for (uint32_t l = 0; l < load->layers; l++)
        sum += imbalance_of(load, l, ranks);
    return sum / load->layers;
}
