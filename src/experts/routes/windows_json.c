/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "experts/routes/windows.h"
#include "io/json/reader.h"

/* Reader of loads as JSON: nested lists (L, E) or (windows, L, E), alone or under a key, a value
 * after the other. With physical_to_logical_map, shape (L, P), loads are those of slots, as vLLM
 * counts them, and are added up by expert. */
static const char *const load_keys[] = {"logical_count",      "expert_load_window",
                                        "global_expert_load", "expert_load_pass",
                                        "expert_load",        "load"};

const char *orr_windows_key(uint32_t i)
{
    return i < sizeof load_keys / sizeof *load_keys ? load_keys[i] : NULL;
}

/* Numbers in nested lists, shape (outer, middle, inner). */
typedef struct lists {
    uint32_t leaf; /* depth of the numbers: 2 or 3; 0: none yet */
    uint64_t outer, middle, inner;
    orr_array(double) value;
} lists;

typedef struct reader {
    orr_windows_reading *to;
    orr_json *json;
    lists load, map;
    bool has_map, has_load;
    orr_error *err;
} reader;

static orr_status fail_here(const reader *r, orr_status status)
{
    char place[40];
    (void)snprintf(place, sizeof place, "at byte %llu",
                   (unsigned long long)orr_json_byte_pos(r->json));
    if (r->err != NULL)
        orr_error_prefix(r->err, place);
    return status;
}
#define fail_at(r, status, ...) fail_here((r), orr_fail((r)->err, (status), __VA_ARGS__))

/* The n elements of a list at this depth are as many as those of the lists beside it. */
static orr_status end_list(const reader *r, lists *to, uint32_t depth, uint64_t n)
{
    uint64_t *all = depth == to->leaf ? &to->inner : depth + 1 == to->leaf ? &to->middle : NULL;
    if (to->leaf < 2 || n == 0 || (all != NULL && *all != 0 && *all != n))
        return fail_at(r, ORR_PARSE,
                       "lists of different lengths where (layers, experts) or (windows, layers, "
                       "experts) is wanted");
    if (all != NULL)
        *all = n;
    to->outer += depth + 1 == to->leaf;
    return ORR_OK;
}

static orr_status add_number(const reader *r, lists *to, uint32_t depth, orr_text text)
{
    double value;
    to->leaf = to->leaf == 0 ? depth : to->leaf;
    if (depth != to->leaf || !orr_text_double(text, &value))
        return fail_at(r, ORR_PARSE, "'%.*s' is no load", text.n < 40 ? (int)text.n : 40, text.at);
    return orr_array_push(&to->value, value) ? ORR_OK : orr_fail_memory(r->err);
}

/* Within a list that has been entered; three deep at most. */
static orr_status read_list(const reader *r, lists *to, uint32_t depth)
{
    orr_status status;
    uint64_t n = 0;
    for (; orr_json_next_element(r->json, &status, r->err); n++) {
        orr_json_value value;
        ORR_TRY(orr_json_value_next(r->json, &value, r->err));
        if (value.type == ORR_JSON_ARRAY && depth < 3)
            ORR_TRY(read_list(r, to, depth + 1));
        else if (value.type == ORR_JSON_NUMBER)
            ORR_TRY(add_number(r, to, depth, value.text));
        else
            return fail_at(r, ORR_PARSE, "loads are lists of numbers, up to three deep");
    }
    ORR_TRY(status);
    return end_list(r, to, depth, n);
}

static void empty(lists *l)
{
    l->value.n = 0;
    l->leaf = 0;
    l->outer = l->middle = l->inner = 0;
}

/* The number of experts is one more than the last in the map. */
static orr_status experts_of_map(const reader *r, uint32_t *ret)
{
    const lists *map = &r->map;
    *ret = 0;
    if (map->leaf != 2 || map->middle != r->load.middle || map->inner != r->load.inner)
        return fail_at(r, ORR_PARSE,
                       "physical_to_logical_map is not of the layers and slots of "
                       "the loads");
    for (size_t i = 0; i < map->value.n; i++) {
        const double expert = map->value.at[i];
        if (!(expert >= 0) || expert >= ORR_EXPERTS_MAX || expert != floor(expert))
            return fail_at(r, ORR_PARSE, "%g in physical_to_logical_map is no expert", expert);
        *ret = expert + 1 > *ret ? (uint32_t)expert + 1 : *ret;
    }
    return ORR_OK;
}

/* Appends the windows of the value that was read. */
static orr_status take_loads(reader *r)
{
    orr_windows_reading *to = r->to;
    const lists *load = &r->load;
    uint32_t experts = load->inner < ORR_EXPERTS_MAX ? (uint32_t)load->inner : ORR_EXPERTS_MAX + 1;
    if (r->has_map)
        ORR_TRY(experts_of_map(r, &experts));
    if (experts > ORR_EXPERTS_MAX || load->middle > UINT32_MAX)
        return fail_at(r, ORR_LIMIT, "loads of more than %d experts", ORR_EXPERTS_MAX);
    if (to->layers != 0 && (to->layers != load->middle || to->experts != experts))
        return fail_at(r, ORR_PARSE, "%llu layers of %u experts, where others have %u of %u",
                       (unsigned long long)load->middle, experts, to->layers, to->experts);
    to->layers = (uint32_t)load->middle;
    to->experts = experts;
    const size_t n = (size_t)load->outer * load->middle * experts;
    if (!orr_array_reserve(&to->load, n))
        return orr_fail_memory(r->err);
    double *at = to->load.at + to->load.n;
    memset(at, 0, n * sizeof *at);
    for (size_t i = 0; i < load->value.n; i++) {
        const size_t row = i / load->inner, slot = i % load->inner;
        const size_t expert =
            r->has_map ? (size_t)r->map.value.at[row % load->middle * load->inner + slot] : slot;
        at[row * experts + expert] += load->value.at[i];
    }
    to->load.n += n;
    return ORR_OK;
}

static orr_status read_layers(reader *r)
{
    orr_status status;
    r->to->number.n = 0;
    ORR_TRY(orr_json_enter_array(r->json, r->err));
    while (orr_json_next_element(r->json, &status, r->err)) {
        int64_t layer;
        bool is;
        ORR_TRY(orr_json_int64(r->json, &layer, &is, r->err));
        if (!is || layer < 0 || layer > UINT32_MAX / 2)
            return fail_at(r, ORR_PARSE, "a layer is no number");
        if (!orr_array_push(&r->to->number, (uint32_t)layer))
            return orr_fail_memory(r->err);
    }
    return status;
}

static bool is_load_key(orr_text key)
{
    for (uint32_t i = 0; orr_windows_key(i) != NULL; i++)
        if (orr_text_equal(key, orr_windows_key(i), strlen(orr_windows_key(i))))
            return true;
    return false;
}

static orr_status read_object(reader *r)
{
    orr_text key;
    orr_status status;
    r->has_map = r->has_load = false;
    while (orr_json_next_key(r->json, &key, &status, r->err)) {
        const bool map = orr_text_is(key, "physical_to_logical_map");
        if (orr_text_is(key, "layers")) {
            ORR_TRY(read_layers(r));
        } else if (map || is_load_key(key)) {
            lists *to = map ? &r->map : &r->load;
            empty(to);
            ORR_TRY(orr_json_enter_array(r->json, r->err));
            ORR_TRY(read_list(r, to, 1));
            *(map ? &r->has_map : &r->has_load) = true;
        } else {
            ORR_TRY(orr_json_skip(r->json, r->err));
        }
    }
    ORR_TRY(status);
    return r->has_load ? take_loads(r) : ORR_OK;
}

static orr_status read_all(reader *r)
{
    orr_error end = {0};
    orr_json_value value;
    orr_status status;
    while ((status = orr_json_end(r->json, &end)) == ORR_PARSE) {
        ORR_TRY(orr_json_value_next(r->json, &value, r->err));
        if (value.type == ORR_JSON_OBJECT) {
            ORR_TRY(read_object(r));
        } else if (value.type == ORR_JSON_ARRAY) {
            empty(&r->load);
            r->has_map = false;
            ORR_TRY(read_list(r, &r->load, 1));
            ORR_TRY(take_loads(r));
        } else {
            return fail_at(r, ORR_PARSE, "loads are lists, alone or under a key");
        }
    }
    if (status != ORR_OK && r->err != NULL)
        *r->err = end;
    return status;
}

orr_status orr_windows_read_json(orr_windows_reading *to, orr_error *err)
{
    reader r = {.to = to, .err = err};
    orr_status status = orr_json_new(to->stream, false, &r.json, err);
    if (status == ORR_OK)
        status = read_all(&r);
    orr_json_free(r.json);
    orr_array_done(&r.load.value);
    orr_array_done(&r.map.value);
    return status;
}
