/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/alloc.h"
#include "fleet/fleet.h"

enum { PLAIN, LEMON, RACK, BUILDING, PLANNED, CLASSES };
#define KILO_DAY_NS (1000 * 86400000000000.0)

/* Failures of a cluster as a superposition of Poisson processes: plain nodes, lemons (nodes that
 * fail again and again; Meta, arXiv 2410.21680), racks, buildings, planned stops. The lemons are
 * drawn without repetition (Fisher and Yates). */
static void choose_lemons(orr_fault_source *s)
{
    for (uint32_t i = 0; i < s->nodes; i++)
        s->lemons[i] = i;
    for (uint32_t i = 0; i < s->n_lemons; i++) {
        const uint32_t j = i + (uint32_t)orr_random_below(&s->random, s->nodes - i);
        const uint32_t node = s->lemons[j];
        s->lemons[j] = s->lemons[i];
        s->lemons[i] = node;
    }
    for (uint32_t i = 0; i < s->nodes; i++)
        s->place[s->lemons[i]] = i;
}

/* The rate of the options is the mean over all nodes, lemons included. */
static void compute_rates(orr_fault_source *s)
{
    const orr_fleet_options *o = s->options;
    const double rate = orr_fleet_number(o, ORR_FLEET_RATE) / KILO_DAY_NS;
    const double share = orr_fleet_number(o, ORR_FLEET_LEMONS);
    const double factor = orr_fact_or(&o->numbers[ORR_FLEET_LEMON_FACTOR], 1);
    const double plain = rate / (1 - share + share * factor);
    s->weight[PLAIN] = plain * (s->nodes - s->n_lemons);
    s->weight[LEMON] = plain * factor * s->n_lemons;
    s->weight[RACK] = orr_fleet_number(o, ORR_FLEET_RACKS) / KILO_DAY_NS * s->racks;
    s->weight[BUILDING] = orr_fleet_number(o, ORR_FLEET_BUILDINGS) / KILO_DAY_NS * s->buildings;
    s->weight[PLANNED] = orr_fleet_number(o, ORR_FLEET_PLANNED) / KILO_DAY_NS * s->nodes;
}

static void sum_shares(orr_fault_source *s)
{
    const orr_failures *f = s->options->failures;
    double sum = 0;
    for (uint32_t i = 0; i < f->n_categories; i++)
        s->shares[i] = sum += f->categories[i].count.value;
}

orr_status orr_fault_source_init(orr_fault_source *s, const orr_fleet_options *options,
                                 uint32_t repetition, orr_error *err)
{
    const uint32_t nodes = orr_fleet_nodes(options);
    *s = (orr_fault_source){
        .options = options,
        .random = orr_random_of(options->seed, 2 * (uint64_t)repetition),
        .nodes = nodes,
        .racks = (nodes + options->nodes_per_rack - 1) / options->nodes_per_rack,
        .n_lemons = (uint32_t)llround(orr_fleet_number(options, ORR_FLEET_LEMONS) * nodes),
        .lemons = orr_calloc(nodes, sizeof *s->lemons),
        .place = orr_calloc(nodes, sizeof *s->place),
        .count = orr_calloc(nodes, sizeof *s->count),
        .evict_after = (uint32_t)orr_fleet_number(options, ORR_FLEET_EVICT_AFTER),
    };
    s->buildings = (s->racks + options->racks_per_building - 1) / options->racks_per_building;
    if (s->lemons == NULL || s->place == NULL || s->count == NULL) {
        orr_fault_source_done(s);
        return orr_fail_memory(err);
    }
    choose_lemons(s);
    compute_rates(s);
    sum_shares(s);
    orr_fault_source_next(s);
    return ORR_OK;
}

void orr_fault_source_done(orr_fault_source *s)
{
    orr_free(s->lemons);
    orr_free(s->place);
    orr_free(s->count);
    s->lemons = s->place = NULL;
    s->count = NULL;
}

static bool is_lemon(const orr_fault_source *s, uint32_t node)
{
    return s->place[node] < s->n_lemons;
}

static uint32_t draw_node(orr_fault_source *s, int class)
{
    const uint32_t from = class == LEMON ? 0 : s->n_lemons;
    const uint32_t n = class == LEMON ? s->n_lemons : s->nodes - s->n_lemons;
    return s->lemons[from + (uint32_t)orr_random_below(&s->random, n)];
}

/* A lemon that is removed for good is replaced by a plain node. */
static void replace_lemon(orr_fault_source *s, uint32_t node)
{
    s->count[node] = 0;
    if (!is_lemon(s, node))
        return;
    const uint32_t last = s->lemons[--s->n_lemons], at = s->place[node];
    s->lemons[at] = last;
    s->place[last] = at;
    s->lemons[s->n_lemons] = node;
    s->place[node] = s->n_lemons;
    compute_rates(s);
}

static void fail_node(orr_fault_source *s, int class, orr_node_fault *f)
{
    const orr_failures *table = s->options->failures;
    f->first = draw_node(s, class);
    f->n = 1;
    f->lemon = class == LEMON;
    f->replace = true;
    if (table->n_categories > 0) {
        const double at = orr_random_unit(&s->random) * s->shares[table->n_categories - 1];
        while (f->category + 1 < table->n_categories && s->shares[f->category] <= at)
            f->category++;
        f->kind = table->categories[f->category].kind;
        f->replace = table->categories[f->category].replace;
    }
    if (s->count[f->first] < UINT16_MAX)
        s->count[f->first]++;
    s->worst = s->count[f->first] > s->worst ? s->count[f->first] : s->worst;
    if (s->evict_after > 0 && s->count[f->first] >= s->evict_after) {
        f->replace = true;
        replace_lemon(s, f->first);
    }
}

/* A rack or a building; the last one may be smaller. */
static void fail_block(orr_fault_source *s, uint32_t blocks, uint64_t size, orr_node_fault *f)
{
    f->first = (uint32_t)(orr_random_below(&s->random, blocks) * size);
    f->n = s->nodes - f->first < size ? s->nodes - f->first : (uint32_t)size;
    f->replace = true;
}

static int draw_class(orr_fault_source *s, double sum)
{
    double at = orr_random_unit(&s->random) * sum;
    int class = CLASSES - 1;
    for (int c = 0; c < CLASSES; c++) {
        if (s->weight[c] <= 0)
            continue;
        class = c;
        if (at < s->weight[c])
            break;
        at -= s->weight[c];
    }
    return class;
}

static void make(orr_fault_source *s, int class, orr_node_fault *f)
{
    const uint32_t n = s->options->failures->n_categories;
    const uint32_t n_categories = n > 0 ? n : 1; /* without a table there is one category */
    switch (class) {
    case RACK:
        fail_block(s, s->racks, s->options->nodes_per_rack, f);
        f->scope = ORR_FAULT_RACK;
        f->category = n_categories;
        break;
    case BUILDING:
        fail_block(s, s->buildings,
                   (uint64_t)s->options->nodes_per_rack * s->options->racks_per_building, f);
        f->scope = ORR_FAULT_BUILDING;
        f->category = n_categories + 1;
        break;
    case PLANNED:
        f->first = (uint32_t)orr_random_below(&s->random, s->nodes);
        f->n = 1;
        f->kind = ORR_FAILURE_PLANNED;
        f->category = n_categories + 2;
        f->replace = true;
        break;
    default:
        fail_node(s, class, f);
    }
}

/* With regular intervals nothing else fails, so that closed forms can be compared with the
 * simulation. */
static void step_regular(orr_fault_source *s)
{
    const double nodes = s->weight[PLAIN] + s->weight[LEMON];
    int class = PLAIN;
    if (nodes > 0 && s->n_lemons > 0)
        class = orr_random_unit(&s->random) * nodes < s->weight[PLAIN] ? PLAIN : LEMON;
    if (class == PLAIN && s->n_lemons == s->nodes)
        class = LEMON;
    s->next = (orr_node_fault){.at_ns = (int64_t)++s->regular * s->options->interval_ns};
    fail_node(s, class, &s->next);
}

void orr_fault_source_next(orr_fault_source *s)
{
    double sum = 0;
    if (s->options->interval_ns > 0) {
        step_regular(s);
        return;
    }
    for (int c = 0; c < CLASSES; c++)
        sum += s->weight[c];
    s->next = (orr_node_fault){.at_ns = INT64_MAX};
    if (sum <= 0)
        return;
    s->now_ns += orr_fleet_exponential(&s->random, 1 / sum);
    const int class = draw_class(s, sum);
    s->next.at_ns = s->now_ns;
    make(s, class, &s->next);
}
