/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/closest.h"
#include "experts/placement/build.h"
#include "experts/placement/file.h"
#include "io/json/writer.h"
#include "io/yaml/yaml.h"

/* placement.yaml:
 *
 *   policy: best
 *   experts: 4
 *   ranks: 2
 *   host_ranks: 2
 *   copies: nearest         # tokens take the nearest copy; without: as far as shares say
 *   layers:
 *     1:                    # the layer's number in the model; a list of experts for each rank
 *       - [0, 1@0.25, 2]    # a copy that does not have as much as the others says its share
 *       - [3, 1@0.75]
 *   missing: {1: []}        # experts that have no slot
 */

typedef struct reader {
    const orr_placement_text *text;
    orr_expert_placement head;
    orr_array(uint32_t) slots;   /* shape (L, R) */
    orr_array(uint16_t) expert;  /* shape (slots) */
    orr_array(float) share;      /* shape (slots); -1: not told */
    orr_array(uint32_t) number;  /* shape (L) */
    orr_array(uint32_t) missing; /* shape (n, 2) */
    orr_error *err;
} reader;

enum { POLICY, SOURCE, EXPERTS, RANKS, HOST_RANKS, COPIES, LAYERS, MISSING, KEYS };
static const char *const keys[KEYS] = {"policy",     "source", "experts", "ranks",
                                       "host_ranks", "copies", "layers",  "missing"};

/* --- head ------------------------------------------------------------------------------------- */

static orr_status read_whole(const orr_yaml *value, const char *name, int64_t least, int64_t most,
                             uint32_t *ret, orr_error *err)
{
    int64_t number;
    ORR_TRY(orr_yaml_int(value, &number, err));
    if (number < least || number > most)
        return orr_yaml_fail(value, ORR_INVALID, err, "%s: %lld is not from %lld to %lld", name,
                             (long long)number, (long long)least, (long long)most);
    *ret = (uint32_t)number;
    return ORR_OK;
}

static orr_status read_text(const reader *r, const orr_yaml *value, const char *name,
                            const char **ret)
{
    if (value->kind != ORR_YAML_SCALAR)
        return orr_yaml_fail(value, ORR_INVALID, r->err, "%s is a text", name);
    *ret = value->text;
    return ORR_OK;
}

static orr_status read_head(reader *r, const orr_yaml *file, const orr_yaml *values[KEYS])
{
    if (file->kind != ORR_YAML_MAP)
        return orr_yaml_fail(file, ORR_INVALID, r->err,
                             "a placement of experts has keys: experts, ranks, layers");
    for (uint32_t i = 0; i < file->n; i++) {
        const char *key = file->keys[i]->text != NULL ? file->keys[i]->text : "";
        uint32_t k = 0;
        while (k < KEYS && strcmp(key, keys[k]) != 0)
            k++;
        if (k == KEYS) {
            const char *near = orr_closest_match(key, keys, KEYS);
            return orr_yaml_fail(
                file->keys[i], ORR_INVALID, r->err, "a placement has no '%.80s'%s%s%s", key,
                near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
        }
        values[k] = file->values[i];
    }
    static const int needed[] = {EXPERTS, RANKS, LAYERS};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (values[needed[i]] == NULL)
            return orr_yaml_fail(file, ORR_INVALID, r->err, "a placement of experts needs '%s'",
                                 keys[needed[i]]);
    orr_expert_placement *p = &r->head;
    p->source = r->text->file;
    ORR_TRY(read_whole(values[EXPERTS], "experts", 1, ORR_EXPERTS_MAX, &p->experts, r->err));
    ORR_TRY(read_whole(values[RANKS], "ranks", 1, ORR_PLACEMENT_RANKS_MAX, &p->ranks, r->err));
    if (values[HOST_RANKS] != NULL)
        ORR_TRY(read_whole(values[HOST_RANKS], "host_ranks", 1, ORR_PLACEMENT_RANKS_MAX,
                           &p->host_ranks, r->err));
    if (values[POLICY] != NULL)
        ORR_TRY(read_text(r, values[POLICY], "policy", &p->policy));
    const char *copies = "shares";
    if (values[COPIES] != NULL)
        ORR_TRY(read_text(r, values[COPIES], "copies", &copies));
    p->nearest = strcmp(copies, "nearest") == 0;
    if (!p->nearest && strcmp(copies, "shares") != 0)
        return orr_yaml_fail(values[COPIES], ORR_INVALID, r->err,
                             "copies are taken by 'shares' or 'nearest', not '%.40s'", copies);
    if (r->text->ranks != 0 && r->text->ranks != p->ranks)
        return orr_yaml_fail(values[RANKS], ORR_INVALID, r->err,
                             "a placement over %u ranks, not %u", p->ranks, r->text->ranks);
    if (r->text->host_ranks != 0)
        p->host_ranks = r->text->host_ranks;
    return ORR_OK;
}

/* --- layers ----------------------------------------------------------------------------------- */

/* "17", or "17@0.25". */
static orr_status read_slot(reader *r, const orr_yaml *value)
{
    const char *text = value->kind == ORR_YAML_SCALAR ? value->text : "";
    char *end;
    const unsigned long expert =
        isdigit((unsigned char)*text) ? strtoul(text, &end, 10) : ULONG_MAX;
    double share = -1;
    if (expert == ULONG_MAX || (*end != '\0' && *end != '@'))
        return orr_yaml_fail(value, ORR_INVALID, r->err,
                             "'%.40s' is no expert: write 17, or 17@0.25 with its share", text);
    if (expert >= r->head.experts)
        return orr_yaml_fail(value, ORR_INVALID, r->err, "expert %lu is none of the %u", expert,
                             r->head.experts);
    if (*end == '@') {
        const char *at = end + 1;
        share = strtod(at, &end);
        if (end == at || *end != '\0' || !(share >= 0 && share <= 1))
            return orr_yaml_fail(value, ORR_INVALID, r->err,
                                 "'%.40s': a share is a number from 0 to 1", text);
    }
    return orr_array_push(&r->expert, (uint16_t)expert) && orr_array_push(&r->share, (float)share)
               ? ORR_OK
               : orr_fail_memory(r->err);
}

/* Shares that are not told are even, for all copies of an expert or none. slots: of the layer. */
static orr_status add_shares(reader *r, const orr_yaml *layer, size_t first)
{
    uint32_t copies[ORR_EXPERTS_MAX] = {0}, told[ORR_EXPERTS_MAX] = {0};
    for (size_t s = first; s < r->expert.n; s++) {
        copies[r->expert.at[s]]++;
        told[r->expert.at[s]] += r->share.at[s] >= 0;
    }
    for (size_t s = first; s < r->expert.n; s++) {
        const uint32_t e = r->expert.at[s];
        if (told[e] != 0 && told[e] != copies[e])
            return orr_yaml_fail(layer, ORR_INVALID, r->err,
                                 "expert %u: %u of its %u copies have a share; all or none do", e,
                                 told[e], copies[e]);
        if (told[e] == 0)
            r->share.at[s] = 1.0F / (float)copies[e];
    }
    return ORR_OK;
}

static orr_status read_layer(reader *r, const orr_yaml *key, const orr_yaml *value)
{
    const size_t first = r->expert.n;
    uint32_t number;
    ORR_TRY(read_whole(key, "layer", 0, INT32_MAX, &number, r->err));
    if (r->number.n > 0 && r->number.at[r->number.n - 1] >= number)
        return orr_yaml_fail(key, ORR_INVALID, r->err, "layer %u after layer %u", number,
                             r->number.at[r->number.n - 1]);
    if (value->kind != ORR_YAML_LIST || value->n != r->head.ranks)
        return orr_yaml_fail(value, ORR_INVALID, r->err,
                             "layer %u has %u lists of experts, and there are %u ranks", number,
                             value->kind == ORR_YAML_LIST ? value->n : 0, r->head.ranks);
    for (uint32_t rank = 0; rank < value->n; rank++) {
        const orr_yaml *experts = value->values[rank];
        if (experts->kind != ORR_YAML_LIST)
            return orr_yaml_fail(experts, ORR_INVALID, r->err,
                                 "the experts of a rank are a list: [0, 17]");
        for (uint32_t i = 0; i < experts->n; i++)
            ORR_TRY(read_slot(r, experts->values[i]));
        if (!orr_array_push(&r->slots, experts->n))
            return orr_fail_memory(r->err);
    }
    return orr_array_push(&r->number, number) ? add_shares(r, value, first)
                                              : orr_fail_memory(r->err);
}

static orr_status read_layers(reader *r, const orr_yaml *layers)
{
    if (layers->kind != ORR_YAML_MAP || layers->n == 0)
        return orr_yaml_fail(layers, ORR_INVALID, r->err,
                             "layers are by number: layers: {1: [[0, 1], [2, 3]]}");
    for (uint32_t i = 0; i < layers->n; i++)
        ORR_TRY(read_layer(r, layers->keys[i], layers->values[i]));
    return ORR_OK;
}

static orr_status read_missing(reader *r, const orr_yaml *missing)
{
    if (missing == NULL)
        return ORR_OK;
    if (missing->kind != ORR_YAML_MAP)
        return orr_yaml_fail(missing, ORR_INVALID, r->err,
                             "missing experts are by layer: missing: {1: [17]}");
    for (uint32_t i = 0; i < missing->n; i++) {
        const orr_yaml *experts = missing->values[i];
        uint32_t number, expert, layer = 0;
        ORR_TRY(read_whole(missing->keys[i], "layer", 0, INT32_MAX, &number, r->err));
        while (layer < r->number.n && r->number.at[layer] != number)
            layer++;
        if (layer == r->number.n || experts->kind != ORR_YAML_LIST)
            return orr_yaml_fail(missing->keys[i], ORR_INVALID, r->err,
                                 "missing: layer %u is not there, or what it misses is no list",
                                 number);
        for (uint32_t k = 0; k < experts->n; k++) {
            ORR_TRY(
                read_whole(experts->values[k], "expert", 0, r->head.experts - 1, &expert, r->err));
            if (!orr_array_push(&r->missing, layer) || !orr_array_push(&r->missing, expert))
                return orr_fail_memory(r->err);
        }
    }
    return ORR_OK;
}

/* --- the whole -------------------------------------------------------------------------------- */

static orr_status make_placement(reader *r, orr_arena *arena, orr_expert_placement *ret,
                                 const uint32_t (**ret_missing)[2])
{
    orr_placement_draft draft;
    uint32_t(*missing)[2] =
        orr_arena_alloc(arena, r->missing.n / 2, sizeof *missing, sizeof **missing);
    if (missing == NULL)
        return orr_fail_memory(r->err);
    r->head.layers = (uint32_t)r->number.n;
    r->head.number = r->number.at;
    ORR_TRY(orr_placement_draft_new(&r->head, r->slots.at, true, arena, &draft, r->err));
    for (size_t i = 0; i < r->missing.n; i++)
        missing[i / 2][i % 2] = r->missing.at[i];
    for (size_t s = 0; s < r->expert.n; s++) {
        draft.expert[s] = r->expert.at[s];
        draft.share[s] = r->share.at[s];
    }
    *ret = draft.placement;
    *ret_missing = missing;
    return ORR_OK;
}

orr_status orr_placement_parse_yaml(const orr_placement_text *text, orr_arena *arena,
                                    orr_expert_placement *ret, const uint32_t (**ret_missing)[2],
                                    uint32_t *ret_n, orr_error *err)
{
    orr_arena *tree = orr_arena_new(0, 0);
    const orr_yaml *file, *values[KEYS] = {NULL};
    reader r = {.text = text, .err = err};
    orr_status status = tree != NULL
                            ? orr_yaml_parse(text->at, text->n, text->file, tree, &file, err)
                            : orr_fail_memory(err);
    if (status == ORR_OK)
        status = read_head(&r, file, values);
    if (status == ORR_OK)
        status = read_layers(&r, values[LAYERS]);
    if (status == ORR_OK)
        status = read_missing(&r, values[MISSING]);
    if (status == ORR_OK)
        status = make_placement(&r, arena, ret, ret_missing);
    if (status == ORR_OK)
        *ret_n = (uint32_t)(r.missing.n / 2);
    orr_array_done(&r.slots);
    orr_array_done(&r.expert);
    orr_array_done(&r.share);
    orr_array_done(&r.number);
    orr_array_done(&r.missing);
    orr_arena_free(tree);
    return status;
}

/* --- writing ---------------------------------------------------------------------------------- */

/* Per expert of a layer. */
typedef struct copies {
    uint32_t n;
    bool uneven;
} copies;

static void count_copies(const orr_expert_placement *p, uint32_t layer, copies *ret)
{
    const uint32_t end = orr_placement_first(p, layer, p->ranks);
    memset(ret, 0, p->experts * sizeof *ret);
    for (uint32_t s = orr_placement_first(p, layer, 0); s < end; s++)
        ret[p->expert[s]].n++;
    for (uint32_t s = orr_placement_first(p, layer, 0); s < end; s++) {
        copies *c = &ret[p->expert[s]];
        c->uneven |= p->share[s] != 1.0F / (float)c->n;
    }
}

static void print_layer(const orr_expert_placement *p, uint32_t layer, const copies *of,
                        orr_output *out)
{
    orr_output_printf(out, "  %u:\n", p->number[layer]);
    for (uint32_t r = 0; r < p->ranks; r++) {
        const char *between = "";
        orr_output_text(out, "    - [");
        for (uint32_t s = orr_placement_first(p, layer, r);
             s < orr_placement_first(p, layer, r + 1); s++) {
            orr_output_printf(out, "%s%u", between, p->expert[s]);
            if (of[p->expert[s]].uneven)
                orr_output_printf(out, "@%.9g", (double)p->share[s]);
            between = ", ";
        }
        orr_output_text(out, "]\n");
    }
}

/* Experts of a layer without a slot, after `*lead`, which is printed once. */
static void print_missing(const orr_expert_placement *p, uint32_t layer, const copies *of,
                          const char **lead, orr_output *out)
{
    const char *between = NULL;
    for (uint32_t e = 0; e < p->experts; e++) {
        if (of[e].n > 0)
            continue;
        if (between == NULL)
            orr_output_printf(out, "%s  %u: [", *lead, p->number[layer]);
        orr_output_printf(out, "%s%u", between != NULL ? between : "", e);
        between = ", ";
        *lead = "";
    }
    if (between != NULL)
        orr_output_text(out, "]\n");
}

orr_status orr_placement_print_yaml(const orr_expert_placement *p, orr_output *out, orr_error *err)
{
    copies *of = orr_calloc(p->experts, sizeof *of);
    const char *lead = "missing:\n";
    if (of == NULL)
        return orr_fail_memory(err);
    orr_output_text(out, "# Experts of ranks, by layer.\npolicy: ");
    orr_json_put_string(out, p->policy != NULL ? p->policy : "",
                        p->policy != NULL ? strlen(p->policy) : 0);
    orr_output_text(out, "\nsource: ");
    orr_json_put_string(out, p->source != NULL ? p->source : "",
                        p->source != NULL ? strlen(p->source) : 0);
    orr_output_printf(out, "\nexperts: %u\nranks: %u\nhost_ranks: %u\n%slayers:\n", p->experts,
                      p->ranks, p->host_ranks, p->nearest ? "copies: nearest\n" : "");
    for (uint32_t l = 0; l < p->layers; l++) {
        count_copies(p, l, of);
        print_layer(p, l, of, out);
    }
    for (uint32_t l = 0; l < p->layers; l++) {
        count_copies(p, l, of);
        print_missing(p, l, of, &lead, out);
    }
    orr_free(of);
    return ORR_OK;
}
