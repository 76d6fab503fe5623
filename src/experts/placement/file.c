/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/placement/file.h"

#include <string.h>

#include "base/array.h"
#include "experts/placement/build.h"
#include "io/stream/stream.h"

enum { MOST_FILE_BYTES = 64 << 20 };

/* --- reading ---------------------------------------------------------------------------------- */

/* What begins with a brace is JSON. */
static bool is_json(const orr_placement_text *text)
{
    static const char mark[] = "\xef\xbb\xbf"; /* of UTF-8 */
    size_t i = text->n >= 3 && memcmp(text->at, mark, 3) == 0 ? 3 : 0;
    while (i < text->n && strchr(" \t\r\n", text->at[i]) != NULL && text->at[i] != '\0')
        i++;
    return i < text->n && text->at[i] == '{';
}

orr_status orr_placement_parse(const orr_placement_text *text, orr_arena *arena,
                               orr_expert_placement *ret, orr_error *err)
{
    orr_expert_placement p;
    const uint32_t(*missing)[2] = NULL;
    uint32_t n_missing = 0;
    if (is_json(text))
        ORR_TRY(orr_placement_parse_json(text, arena, &p, err));
    else
        ORR_TRY(orr_placement_parse_yaml(text, arena, &p, &missing, &n_missing, err));
    const orr_status status = orr_expert_placement_check(&p, missing, n_missing, err);
    if (status != ORR_OK)
        orr_error_prefix(err, text->file);
    else
        *ret = p;
    return status;
}

typedef orr_array(char) bytes_array;

static orr_status read_bytes(orr_stream *stream, bytes_array *ret, orr_error *err)
{
    for (bool end = false; !end;) {
        ORR_TRY(orr_stream_fill(stream, &end, err));
        const orr_window window = orr_stream_window(stream);
        if (window.n > MOST_FILE_BYTES - ret->n)
            return orr_fail(err, ORR_LIMIT, "longer than %d MiB", MOST_FILE_BYTES >> 20);
        if (!orr_array_reserve(ret, window.n))
            return orr_fail_memory(err);
        if (window.n > 0)
            memcpy(ret->at + ret->n, window.bytes, window.n);
        ret->n += window.n;
        orr_stream_consume(stream, window.n);
    }
    return ORR_OK;
}

orr_status orr_expert_placement_read(const char *path, uint32_t ranks, uint32_t host_ranks,
                                     orr_arena *arena, orr_expert_placement *ret, orr_error *err)
{
    orr_stream *stream;
    bytes_array bytes = {0};
    orr_status status = orr_stream_open(path, &stream, err);
    if (status == ORR_OK) {
        status = read_bytes(stream, &bytes, err);
        orr_stream_close(stream);
    }
    if (status == ORR_OK) {
        const orr_placement_text text = {bytes.at, bytes.n, path, ranks, host_ranks};
        status = orr_placement_parse(&text, arena, ret, err);
    }
    orr_array_done(&bytes);
    if (status != ORR_OK && status != ORR_NO_MEMORY && err != NULL &&
        strncmp(err->text, path, strlen(path)) != 0)
        orr_error_prefix(err, path);
    return status;
}

/* --- equally many slots ----------------------------------------------------------------------- */

static uint32_t slots_of(const orr_expert_placement *p, uint32_t layer, uint32_t rank)
{
    return orr_placement_first(p, layer, rank + 1) - orr_placement_first(p, layer, rank);
}

/* The expert with fewest copies that a rank has not; ties to the lowest. UINT32_MAX: it has all. */
static uint32_t next_copy(const uint16_t *has, uint32_t n, const uint32_t *copies, uint32_t experts)
{
    uint32_t ret = UINT32_MAX;
    for (uint32_t e = 0; e < experts; e++) {
        bool taken = ret != UINT32_MAX && copies[e] >= copies[ret];
        for (uint32_t i = 0; i < n && !taken; i++)
            taken = has[i] == e;
        ret = taken ? ret : e;
    }
    return ret;
}

static orr_status fill_layer(const orr_expert_placement *p, uint32_t layer, uint32_t slots,
                             uint16_t *to, uint32_t *copies, orr_error *err)
{
    memset(copies, 0, p->experts * sizeof *copies);
    for (uint32_t s = orr_placement_first(p, layer, 0); s < orr_placement_first(p, layer, p->ranks);
         s++)
        copies[p->expert[s]]++;
    for (uint32_t e = 0; e < p->experts; e++)
        if (copies[e] == 0)
            return orr_fail(err, ORR_UNSUPPORTED,
                            "layer %u: expert %u has no slot, which only yaml can say",
                            p->number[layer], e);
    for (uint32_t r = 0; r < p->ranks; r++, to += slots) {
        uint32_t n = slots_of(p, layer, r);
        memcpy(to, p->expert + orr_placement_first(p, layer, r), n * sizeof *to);
        for (; n < slots; n++) {
            const uint32_t e = next_copy(to, n, copies, p->experts);
            if (e == UINT32_MAX)
                return orr_fail(err, ORR_UNSUPPORTED,
                                "layer %u: rank %u has all experts, and other ranks more slots: "
                                "only yaml has ranks with different numbers of them",
                                p->number[layer], r);
            to[n] = (uint16_t)e;
            copies[e]++;
        }
    }
    return ORR_OK;
}

/* The same placement with as many slots on every rank and layer as the fullest has. */
static orr_status make_even(const orr_expert_placement *p, orr_arena *arena,
                            orr_expert_placement *ret, orr_error *err)
{
    uint32_t most = 0;
    uint32_t *slots = orr_arena_array(arena, uint32_t, p->ranks);
    uint32_t *copies = orr_arena_array(arena, uint32_t, p->experts);
    orr_placement_draft draft;
    if (slots == NULL || copies == NULL)
        return orr_fail_memory(err);
    for (uint32_t r = 0; r < p->ranks; r++) {
        uint32_t own = 0;
        for (uint32_t l = 0; l < p->layers; l++)
            own = slots_of(p, l, r) > own ? slots_of(p, l, r) : own;
        if (own == 0)
            return orr_fail(err, ORR_UNSUPPORTED,
                            "rank %u has no experts: only yaml has ranks without", r);
        most = own > most ? own : most;
    }
    for (uint32_t r = 0; r < p->ranks; r++)
        slots[r] = most;
    ORR_TRY(orr_placement_draft_new(p, slots, false, arena, &draft, err));
    for (uint32_t l = 0; l < p->layers; l++)
        ORR_TRY(fill_layer(p, l, most, draft.expert + (size_t)l * p->ranks * most, copies, err));
    orr_placement_even_shares(&draft);
    *ret = draft.placement;
    return ORR_OK;
}

/* --- writing ---------------------------------------------------------------------------------- */

static orr_status print_json(const orr_expert_placement *placement, orr_placement_format format,
                             orr_arena *arena, orr_output *out, orr_error *err)
{
    orr_expert_placement even;
    orr_copy_index index;
    if (placement->number[placement->layers - 1] >= ORR_PLACEMENT_LAYERS_MAX)
        return orr_fail(err, ORR_LIMIT, "layer %u: up to %d are written",
                        placement->number[placement->layers - 1], ORR_PLACEMENT_LAYERS_MAX - 1);
    ORR_TRY(make_even(placement, arena, &even, err));
    ORR_TRY(orr_copy_index_new(&even, arena, &index, err));
    if (format == ORR_PLACEMENT_FORMAT_SGLANG)
        orr_placement_print_sglang(&even, out);
    else
        orr_placement_print_vllm(&even, &index, out);
    return ORR_OK;
}

orr_status orr_placement_print(const orr_expert_placement *placement, orr_placement_format format,
                               orr_output *out, orr_error *err)
{
    if (format == ORR_PLACEMENT_FORMAT_YAML)
        return orr_placement_print_yaml(placement, out, err);
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_status status =
        arena != NULL ? print_json(placement, format, arena, out, err) : orr_fail_memory(err);
    orr_arena_free(arena);
    return status;
}

orr_status orr_expert_placement_write(const orr_expert_placement *placement,
                                      orr_placement_format format, const char *path, orr_error *err)
{
    orr_output *out;
    ORR_TRY(orr_output_open(path, &out, err));
    orr_status status = orr_placement_print(placement, format, out, err);
    if (status == ORR_OK)
        status = orr_output_finish(out, err);
    orr_output_close(out);
    return status;
}
