/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/array.h"
#include "experts/placement/build.h"
#include "experts/placement/file.h"
#include "io/json/reader.h"
#include "io/json/writer.h"

/* What servers take: lists of the experts of slots, a row a layer.
 *
 * SGLang's --init-expert-location (srt/eplb/expert_location.py) passes the members of the object on
 * as arguments, so that there may be none but physical_to_logical_map, shape (hidden layers, P): it
 * counts layers without experts too. vLLM (distributed/eplb/eplb_state.py) has the tensors
 * physical_to_logical_map, shape (L, P), logical_to_physical_map, shape (L, E, X), -1 where an
 * expert has less than X copies, and logical_replica_count, shape (L, E), over layers with experts
 * alone; `layers`, `ranks` and `host_ranks` are ours, and say what these do not. */

/* --- reading ---------------------------------------------------------------------------------- */

/* Numbers in nested lists, row after row. */
typedef struct tensor {
    orr_array(int32_t) at;
    uint32_t depth, shape[3]; /* depth 0: not there */
} tensor;

typedef struct reader {
    const orr_placement_text *text;
    orr_json *json;
    tensor slots, copies, counts, layers; /* physical_to_logical_map, .. */
    int64_t ranks, host_ranks;            /* 0: not there */
    orr_error *err;
} reader;

static orr_status fail_at(const reader *r, const char *what)
{
    const uint64_t byte = orr_json_byte_pos(r->json);
    return orr_fail_byte(r->err, ORR_PARSE, byte, "%s at byte %llu", what,
                         (unsigned long long)byte);
}

/* One level of a tensor; `level` counts down to 1, which are numbers. */
static orr_status read_level(reader *r, tensor *t, uint32_t level)
{
    const uint32_t axis = t->depth - level;
    orr_status status = ORR_OK;
    uint32_t n = 0;
    ORR_TRY(orr_json_enter_array(r->json, r->err));
    while (orr_json_next_element(r->json, &status, r->err)) {
        int64_t value = 0;
        bool is_whole = true;
        if (level > 1)
            ORR_TRY(read_level(r, t, level - 1));
        else
            ORR_TRY(orr_json_int64(r->json, &value, &is_whole, r->err));
        if (!is_whole || value < -1 || value > INT32_MAX)
            return fail_at(r, "no number of an expert, slot or layer");
        if (level == 1 && !orr_array_push(&t->at, (int32_t)value))
            return orr_fail_memory(r->err);
        n++;
    }
    ORR_TRY(status);
    if (t->shape[axis] != UINT32_MAX && t->shape[axis] != n)
        return fail_at(r, "a list that is not as long as the first one");
    t->shape[axis] = n;
    return n > 0 ? ORR_OK : fail_at(r, "an empty list");
}

static orr_status read_tensor(reader *r, tensor *t, uint32_t depth)
{
    if (t->depth != 0)
        return fail_at(r, "a key that was there before");
    t->depth = depth;
    t->shape[0] = t->shape[1] = t->shape[2] = UINT32_MAX;
    return read_level(r, t, depth);
}

static orr_status read_count(reader *r, int64_t *ret)
{
    bool is_whole;
    ORR_TRY(orr_json_int64(r->json, ret, &is_whole, r->err));
    return is_whole && *ret >= 1 && *ret <= ORR_PLACEMENT_RANKS_MAX
               ? ORR_OK
               : fail_at(r, "no number of ranks");
}

static orr_status read_members(reader *r)
{
    orr_text key;
    orr_status status = ORR_OK;
    ORR_TRY(orr_json_enter_object(r->json, r->err));
    while (orr_json_next_key(r->json, &key, &status, r->err)) {
        if (orr_text_is(key, "physical_to_logical_map"))
            ORR_TRY(read_tensor(r, &r->slots, 2));
        else if (orr_text_is(key, "logical_to_physical_map"))
            ORR_TRY(read_tensor(r, &r->copies, 3));
        else if (orr_text_is(key, "logical_replica_count"))
            ORR_TRY(read_tensor(r, &r->counts, 2));
        else if (orr_text_is(key, "layers"))
            ORR_TRY(read_tensor(r, &r->layers, 1));
        else if (orr_text_is(key, "ranks"))
            ORR_TRY(read_count(r, &r->ranks));
        else if (orr_text_is(key, "host_ranks"))
            ORR_TRY(read_count(r, &r->host_ranks));
        else
            ORR_TRY(orr_json_skip(r->json, r->err));
    }
    ORR_TRY(status);
    return orr_json_end(r->json, r->err);
}

/* --- what it comes to ------------------------------------------------------------------------- */

static orr_status check_shapes(const reader *r)
{
    const tensor *slots = &r->slots;
    if (slots->depth == 0)
        return orr_fail(r->err, ORR_PARSE, "no physical_to_logical_map");
    const uint32_t layers = slots->shape[0];
    if ((r->copies.depth != 0 && r->copies.shape[0] != layers) ||
        (r->counts.depth != 0 && r->counts.shape[0] != layers) ||
        (r->layers.depth != 0 && r->layers.shape[0] != layers))
        return orr_fail(r->err, ORR_INVALID, "maps of different numbers of layers");
    if (r->copies.depth != 0 && r->counts.depth != 0 && r->copies.shape[1] != r->counts.shape[1])
        return orr_fail(r->err, ORR_INVALID,
                        "logical_to_physical_map of %u experts, logical_replica_count of %u",
                        r->copies.shape[1], r->counts.shape[1]);
    return ORR_OK;
}

/* Experts of a layer: as the other maps have, else up to the last in a slot. */
static orr_status count_experts(const reader *r, uint32_t *ret)
{
    const tensor *slots = &r->slots;
    int32_t most = 0;
    for (size_t i = 0; i < slots->at.n; i++) {
        if (slots->at.at[i] < 0)
            return orr_fail(r->err, ORR_INVALID, "row %zu, slot %zu: no expert",
                            i / slots->shape[1], i % slots->shape[1]);
        most = slots->at.at[i] > most ? slots->at.at[i] : most;
    }
    *ret = r->copies.depth != 0   ? r->copies.shape[1]
           : r->counts.depth != 0 ? r->counts.shape[1]
                                  : (uint32_t)most + 1;
    if (*ret > ORR_EXPERTS_MAX || most >= ORR_EXPERTS_MAX)
        return orr_fail(r->err, ORR_LIMIT, "%u experts: at most %d are possible",
                        *ret > (uint32_t)most ? *ret : (uint32_t)most + 1, ORR_EXPERTS_MAX);
    return ORR_OK;
}

static orr_status count_ranks(const reader *r, uint32_t *ret, uint32_t *ret_host)
{
    const uint32_t asked = r->text->ranks, slots = r->slots.shape[1];
    if (asked == 0 && r->ranks == 0)
        return orr_fail(r->err, ORR_INVALID,
                        "how many ranks the %u slots of a layer lie on is not told: say it", slots);
    if (asked != 0 && r->ranks != 0 && asked != r->ranks)
        return orr_fail(r->err, ORR_INVALID, "a placement over %lld ranks, not %u",
                        (long long)r->ranks, asked);
    *ret = asked != 0 ? asked : (uint32_t)r->ranks;
    *ret_host = r->text->host_ranks != 0 ? r->text->host_ranks : (uint32_t)r->host_ranks;
    if (slots % *ret != 0)
        return orr_fail(r->err, ORR_INVALID, "%u ranks do not divide the %u slots of a layer", *ret,
                        slots);
    return ORR_OK;
}

static orr_status make_placement(const reader *r, orr_arena *arena, orr_placement_draft *ret)
{
    const tensor *slots = &r->slots;
    orr_expert_placement like = {.layers = slots->shape[0], .source = r->text->file};
    ORR_TRY(check_shapes(r));
    ORR_TRY(count_experts(r, &like.experts));
    ORR_TRY(count_ranks(r, &like.ranks, &like.host_ranks));
    uint32_t *of_rank = orr_arena_array(arena, uint32_t, like.ranks);
    uint32_t *number = orr_arena_array(arena, uint32_t, like.layers);
    if (of_rank == NULL || number == NULL)
        return orr_fail_memory(r->err);
    for (uint32_t i = 0; i < like.ranks; i++)
        of_rank[i] = slots->shape[1] / like.ranks;
    for (uint32_t l = 0; l < like.layers; l++) {
        number[l] = r->layers.depth != 0 ? (uint32_t)r->layers.at.at[l] : l;
        if (number[l] > INT32_MAX)
            return orr_fail(r->err, ORR_INVALID, "layers: row %u has no number", l);
    }
    like.number = number;
    ORR_TRY(orr_placement_draft_new(&like, of_rank, false, arena, ret, r->err));
    for (size_t i = 0; i < slots->at.n; i++) {
        if ((uint32_t)slots->at.at[i] >= like.experts)
            return orr_fail(r->err, ORR_INVALID, "row %zu, slot %zu: expert %d is none of the %u",
                            i / slots->shape[1], i % slots->shape[1], slots->at.at[i],
                            like.experts);
        ret->expert[i] = (uint16_t)slots->at.at[i];
    }
    orr_placement_even_shares(ret);
    return ORR_OK;
}

/* The two maps and the counts say the same. */
static orr_status check_copies(const reader *r, const orr_expert_placement *p)
{
    const uint32_t slots = r->slots.shape[1], most = r->copies.depth != 0 ? r->copies.shape[2] : 0;
    for (uint32_t l = 0; l < p->layers; l++) {
        uint32_t n[ORR_EXPERTS_MAX] = {0};
        for (uint32_t s = 0; s < slots; s++)
            n[p->expert[l * slots + s]]++;
        for (uint32_t e = 0; e < p->experts; e++) {
            const size_t row = (size_t)l * p->experts + e;
            uint32_t listed = 0;
            for (uint32_t x = 0; x < most; x++) {
                const int32_t s = r->copies.at.at[row * most + x];
                listed += s >= 0;
                if (s >= (int32_t)slots || (s >= 0 && p->expert[l * slots + (uint32_t)s] != e))
                    return orr_fail(r->err, ORR_INVALID,
                                    "row %u: expert %u is not in slot %d, as "
                                    "logical_to_physical_map has it",
                                    l, e, s);
            }
            if ((r->copies.depth != 0 && listed != n[e]) ||
                (r->counts.depth != 0 && r->counts.at.at[row] != (int32_t)n[e]))
                return orr_fail(r->err, ORR_INVALID,
                                "row %u: expert %u has %u slots, and the other maps say otherwise",
                                l, e, n[e]);
        }
    }
    return ORR_OK;
}

orr_status orr_placement_parse_json(const orr_placement_text *text, orr_arena *arena,
                                    orr_expert_placement *ret, orr_error *err)
{
    orr_stream *stream;
    reader r = {.text = text, .err = err};
    orr_placement_draft draft;
    ORR_TRY(orr_stream_open_memory(text->at, text->n, &stream, err));
    orr_status status = orr_json_new(stream, false, &r.json, err);
    if (status == ORR_OK)
        status = read_members(&r);
    if (status == ORR_OK)
        status = make_placement(&r, arena, &draft);
    if (status == ORR_OK)
        status = check_copies(&r, &draft.placement);
    if (status == ORR_OK)
        *ret = draft.placement;
    else if (status != ORR_NO_MEMORY)
        orr_error_prefix(err, text->file);
    orr_array_done(&r.slots.at);
    orr_array_done(&r.copies.at);
    orr_array_done(&r.counts.at);
    orr_array_done(&r.layers.at);
    orr_json_free(r.json);
    orr_stream_close(stream);
    return status;
}

/* --- writing ---------------------------------------------------------------------------------- */

static void print_row(orr_json_writer *w, const orr_expert_placement *p, uint32_t layer)
{
    orr_json_write_newline(w);
    orr_json_write_array(w);
    for (uint32_t s = orr_placement_first(p, layer, 0); s < orr_placement_first(p, layer, p->ranks);
         s++)
        orr_json_write_uint(w, p->expert[s]);
    orr_json_write_array_end(w);
}

/* A layer without experts gets the row that SGLang gives every layer by default. */
static void print_default_row(orr_json_writer *w, const orr_expert_placement *p)
{
    const uint32_t slots = orr_placement_first(p, 0, p->ranks);
    orr_json_write_newline(w);
    orr_json_write_array(w);
    for (uint32_t s = 0; s < slots; s++)
        orr_json_write_uint(w, s % p->experts);
    orr_json_write_array_end(w);
}

void orr_placement_print_sglang(const orr_expert_placement *p, orr_output *out)
{
    orr_json_writer w;
    orr_json_write_init(&w, out);
    orr_json_write_object(&w);
    orr_json_write_key(&w, "physical_to_logical_map");
    orr_json_write_array(&w);
    for (uint32_t l = 0, number = 0; l < p->layers; number++)
        if (number == p->number[l])
            print_row(&w, p, l++);
        else
            print_default_row(&w, p);
    orr_json_write_array_end(&w);
    orr_json_write_object_end(&w);
    orr_output_text(out, "\n");
}

/* Both maps by expert: rows of `most` slots, from 0 in the layer, -1 where there are no more; or,
 * where most is 0, of how many there are. */
static void print_copies(orr_json_writer *w, const orr_expert_placement *p, orr_copy_index *index,
                         uint32_t most)
{
    orr_json_write_array(w);
    for (uint32_t l = 0; l < p->layers; l++) {
        orr_copy_index_set(index, p, l);
        orr_json_write_newline(w);
        orr_json_write_array(w);
        for (uint32_t e = 0; e < p->experts; e++) {
            const uint32_t n = index->begin[e + 1] - index->begin[e];
            if (most == 0) {
                orr_json_write_uint(w, n);
                continue;
            }
            orr_json_write_array(w);
            for (uint32_t i = 0; i < most; i++)
                orr_json_write_int(w, i < n ? (int64_t)index->slot[index->begin[e] + i] -
                                                  orr_placement_first(p, l, 0)
                                            : -1);
            orr_json_write_array_end(w);
        }
        orr_json_write_array_end(w);
    }
    orr_json_write_array_end(w);
}

static uint32_t most_copies(const orr_expert_placement *p, orr_copy_index *index)
{
    uint32_t ret = 1;
    for (uint32_t l = 0; l < p->layers; l++) {
        orr_copy_index_set(index, p, l);
        for (uint32_t e = 0; e < p->experts; e++)
            ret = index->begin[e + 1] - index->begin[e] > ret
                      ? index->begin[e + 1] - index->begin[e]
                      : ret;
    }
    return ret;
}

void orr_placement_print_vllm(const orr_expert_placement *p, orr_copy_index *index, orr_output *out)
{
    orr_json_writer w;
    orr_json_write_init(&w, out);
    orr_json_write_object(&w);
    orr_json_member_uint(&w, "ranks", p->ranks);
    orr_json_member_uint(&w, "host_ranks", p->host_ranks);
    orr_json_write_key(&w, "layers");
    orr_json_write_array(&w);
    for (uint32_t l = 0; l < p->layers; l++)
        orr_json_write_uint(&w, p->number[l]);
    orr_json_write_array_end(&w);
    orr_json_write_key(&w, "physical_to_logical_map");
    orr_json_write_array(&w);
    for (uint32_t l = 0; l < p->layers; l++)
        print_row(&w, p, l);
    orr_json_write_array_end(&w);
    orr_json_write_key(&w, "logical_to_physical_map");
    print_copies(&w, p, index, most_copies(p, index));
    orr_json_write_key(&w, "logical_replica_count");
    print_copies(&w, p, index, 0);
    orr_json_write_object_end(&w);
    orr_output_text(out, "\n");
}
