/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "experts/statistics/passes.h"

/* What one layer says: loads by class of tokens, pairs of experts that a token chose together, and
 * pairs of its experts with those of the next layer. Counters are 32 bits: a token counts at most
 * once in each. */
typedef struct layer_counts {
    uint32_t *class;   /* shape (classes, E) */
    uint32_t *pair;    /* shape (E, E), in the router's order of both; NULL: K = 1 */
    uint32_t *next[2]; /* shape (E, E), of each half of the requests: here, in the next layer; NULL:
                        * the last layer */
    uint64_t *total;   /* shape (E) */
    uint16_t *here, *there;
    double *room; /* shape (2, E) */
} layer_counts;

static void free_counts(layer_counts *c)
{
    orr_free(c->class);
    orr_free(c->pair);
    orr_free(c->next[0]);
    orr_free(c->next[1]);
    orr_free(c->total);
    orr_free(c->here);
    orr_free(c->there);
    orr_free(c->room);
}

static bool make_counts(const orr_expert_layer_pass *p, bool has_next, layer_counts *ret)
{
    const size_t e = p->experts, k = p->routes->top_k;
    *ret = (layer_counts){
        .class = orr_calloc(orr_expert_classes(p->kinds) * e, sizeof(uint32_t)),
        .pair = k > 1 ? orr_calloc(e * e, sizeof(uint32_t)) : NULL,
        .next = {has_next ? orr_calloc(e * e, sizeof(uint32_t)) : NULL,
                 has_next ? orr_calloc(e * e, sizeof(uint32_t)) : NULL},
        .total = orr_calloc(e, sizeof(uint64_t)),
        .here = orr_calloc(ORR_ROUTES_CHUNK * k, sizeof(uint16_t)),
        .there = orr_calloc(ORR_ROUTES_CHUNK * k, sizeof(uint16_t)),
        .room = orr_calloc(2 * e, sizeof(double)),
    };
    return ret->class != NULL && (k == 1 || ret->pair != NULL) &&
           (!has_next || (ret->next[0] != NULL && ret->next[1] != NULL)) && ret->total != NULL &&
           ret->here != NULL && ret->there != NULL && ret->room != NULL;
}

/* --- counting --------------------------------------------------------------------------------- */

static void count_pairs(layer_counts *c, uint32_t experts, uint32_t k, uint64_t n)
{
    for (uint64_t t = 0; t < n; t++) {
        const uint16_t *choice = c->here + t * k;
        for (uint32_t i = 0; i + 1 < k; i++) {
            uint32_t *row = c->pair + (size_t)choice[i] * experts;
            for (uint32_t j = i + 1; j < k; j++)
                row[choice[j]]++;
        }
    }
}

static void count_next(layer_counts *c, const uint16_t *class, uint32_t experts, uint32_t k,
                       uint64_t n)
{
    for (uint64_t t = 0; t < n; t++)
        for (uint32_t i = 0; i < k; i++) {
            uint32_t *row = c->next[class[t] >> 1 & 1] + (size_t)c->here[t * k + i] * experts;
            for (uint32_t j = 0; j < k; j++)
                row[c->there[t * k + j]]++;
        }
}

static void count(const orr_expert_layer_pass *p, uint32_t l, layer_counts *c)
{
    const orr_routes *r = p->routes;
    const uint32_t k = r->top_k, experts = p->experts;
    for (uint64_t first = 0; first < r->tokens; first += ORR_ROUTES_CHUNK) {
        const uint64_t left = r->tokens - first,
                       n = left < ORR_ROUTES_CHUNK ? left : ORR_ROUTES_CHUNK;
        orr_routes_choices(r, l, first, n, c->here);
        for (uint64_t t = 0; t < n; t++) {
            uint32_t *row = c->class + (size_t)p->class[first + t] * experts;
            for (uint32_t i = 0; i < k; i++)
                row[c->here[t * k + i]]++;
        }
        if (c->pair != NULL)
            count_pairs(c, experts, k, n);
        if (c->next[0] != NULL) {
            orr_routes_choices(r, l + 1, first, n, c->there);
            count_next(c, p->class + first, experts, k, n);
        }
    }
}

/* --- loads ------------------------------------------------------------------------------------ */

/* The load of the tokens of classes first, first + step, ... below end, as 32-bit counts. */
static void add_classes(const layer_counts *c, uint32_t experts, uint32_t first, uint32_t end,
                        uint32_t step, uint32_t *ret)
{
    memset(ret, 0, experts * sizeof *ret);
    for (uint32_t class = first; class < end; class += step)
        for (uint32_t e = 0; e < experts; e++)
            ret[e] += c->class[(size_t) class * experts + e];
}

static void measure_load(const orr_expert_layer_pass *p, uint32_t l, layer_counts *c,
                         orr_expert_layer_statistics *ret)
{
    const double choices = (double)p->routes->tokens * p->routes->top_k;
    double entropy = 0, *load = p->load + (size_t)l * p->experts;
    uint32_t top = 0;
    for (uint32_t class = 0; class < orr_expert_classes(p->kinds); class ++)
        for (uint32_t e = 0; e < p->experts; e++)
            c->total[e] += c->class[(size_t) class * p->experts + e];
    for (uint32_t e = 0; e < p->experts; e++) {
        load[e] = (double)c->total[e] / choices;
        entropy -= load[e] > 0 ? load[e] * log(load[e]) : 0;
        ret->unused += c->total[e] == 0;
        top = c->total[e] > c->total[top] ? e : top;
    }
    ret->top_expert = top;
    ret->top_frac = (double)c->total[top] / (double)p->routes->tokens;
    ret->concentrated = ret->top_frac > ORR_EXPERT_CONCENTRATED_FRAC;
    ret->effective_experts = exp(entropy);
}

static double distance_of(const uint32_t *a, const uint32_t *b, uint32_t experts)
{
    double of_a = 0, of_b = 0, sum = 0;
    for (uint32_t e = 0; e < experts; e++) {
        of_a += a[e];
        of_b += b[e];
    }
    if (!(of_a > 0 && of_b > 0))
        return NAN;
    for (uint32_t e = 0; e < experts; e++)
        sum += fabs(a[e] / of_a - b[e] / of_b);
    return sum / 2;
}

double orr_expert_correlation(const uint32_t *a, const uint32_t *b, uint32_t n)
{
    double of_a = 0, of_b = 0, aa = 0, bb = 0, ab = 0;
    for (uint32_t i = 0; i < n; i++) {
        of_a += a[i];
        of_b += b[i];
    }
    of_a /= n;
    of_b /= n;
    for (uint32_t i = 0; i < n; i++) {
        const double x = a[i] - of_a, y = b[i] - of_b;
        aa += x * x;
        bb += y * y;
        ab += x * y;
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : NAN;
}

/* Kinds whose loads are compared are left in the first rows of their classes: the even half in row
 * 4k, the odd one in row 4k + 2, both in row 4k + 1. */
static void join_phases(const orr_expert_layer_pass *p, layer_counts *c)
{
    for (uint32_t k = 0; k < p->kinds; k++) {
        uint32_t *row = c->class + (size_t)4 * k * p->experts;
        for (uint32_t e = 0; e < p->experts; e++) {
            uint32_t *even = row + e, *both = even + p->experts, *odd = both + p->experts;
            *even += *both;
            *odd += odd[p->experts];
            *both = *even + *odd;
        }
    }
}

static void measure_kinds(const orr_expert_layer_pass *p, uint32_t l, layer_counts *c,
                          orr_expert_layer_statistics *ret)
{
    double *shift = p->shift + (size_t)l * p->n_shift, sum = 0;
    uint32_t at = 0, n = 0;
    if (p->n_shift == 0)
        return;
    join_phases(p, c);
    for (uint32_t a = 0; a < p->kinds; a++)
        for (uint32_t b = a; b < p->kinds; b++) {
            const uint32_t one = a == b ? 4 * a : 4 * a + 1, other = a == b ? 4 * a + 2 : 4 * b + 1;
            shift[at] = distance_of(c->class + (size_t)one * p->experts,
                                    c->class + (size_t)other * p->experts, p->experts);
            if (a != b && !isnan(shift[at])) {
                sum += shift[at];
                n++;
            }
            at++;
        }
    ret->kind_distance = n > 0 ? sum / n : NAN;
}

static void measure_phases(const orr_expert_layer_pass *p, layer_counts *c,
                           orr_expert_layer_statistics *ret)
{
    const uint32_t classes = orr_expert_classes(p->kinds);
    uint32_t *prefill = (uint32_t *)(void *)c->room, *decode = prefill + p->experts;
    add_classes(c, p->experts, 0, classes, 2, prefill);
    add_classes(c, p->experts, 1, classes, 2, decode);
    ret->phase_correlation = orr_expert_correlation(prefill, decode, p->experts);
}

/* --- pairs of a layer ------------------------------------------------------------------------- */

/* Mean absolute deviation of a Poisson variable. */
static double poisson_deviation(double mean)
{
    const double whole = floor(mean);
    return mean > 0 ? 2 * exp(-mean + (whole + 1) * log(mean) - lgamma(whole + 1)) : 0;
}

/* Independent choices of K different experts: a pair's frequency is proportional to the product of
 * both loads, with a factor that makes as many pairs in all. */
static void measure_pairs(const orr_expert_layer_pass *p, const layer_counts *c,
                          orr_expert_layer_statistics *ret)
{
    const double tokens = (double)p->routes->tokens, k = p->routes->top_k;
    const double pairs = tokens * k * (k - 1) / 2;
    double products = 0, apart = 0, noise = 0, most = 0, choices = tokens * k;
    for (uint32_t e = 0; e < p->experts; e++)
        products += (double)c->total[e] * (double)c->total[e];
    const double factor = pairs / ((choices * choices - products) / 2);
    for (uint32_t a = 0; a < p->experts; a++)
        for (uint32_t b = a + 1; b < p->experts; b++) {
            const double seen =
                (double)c->pair[(size_t)a * p->experts + b] + c->pair[(size_t)b * p->experts + a];
            const double expected = factor * (double)c->total[a] * (double)c->total[b];
            apart += fabs(seen - expected);
            noise += poisson_deviation(expected);
            if (seen - expected > most) {
                most = seen - expected;
                ret->pair[0] = a;
                ret->pair[1] = b;
                ret->pair_frac = seen / tokens;
                ret->pair_lift = seen / expected;
            }
        }
    ret->pair_distance = apart / 2 / pairs;
    ret->pair_noise = noise / 2 / pairs;
}

/* --- the next layer --------------------------------------------------------------------------- */

/* Learnt from one half of the requests, tried on the other: counts of n experts that follow, by
 * row and of all rows, which decides between equal ones. Returns the sum of `tried` over the k
 * experts that follow most often. */
static double try_most_frequent(const uint32_t *learnt, const uint64_t *all, const uint32_t *tried,
                                uint32_t n, uint32_t k)
{
    uint32_t best[ORR_ROUTE_CHOICES_MAX], held = 0;
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = held < k ? held : k;
        for (; at > 0; at--) {
            const uint32_t b = best[at - 1];
            if (learnt[b] > learnt[i] || (learnt[b] == learnt[i] && all[b] >= all[i]))
                break;
            if (at < k)
                best[at] = b;
        }
        if (at < k)
            best[at] = i;
        held += held < k;
    }
    for (uint32_t i = 0; i < held; i++)
        sum += tried[best[i]];
    return sum;
}

/* Both halves learn for one another. */
static void measure_foresight(const orr_expert_layer_pass *p, layer_counts *c,
                              orr_expert_layer_statistics *ret)
{
    const uint32_t n = p->experts, k = p->routes->top_k;
    uint32_t *after = c->class; /* shape (2, E); counts by class are read no more */
    double hits = 0, base_hits = 0, all[2] = {0, 0};
    memset(after, 0, 2 * n * sizeof *after);
    for (uint32_t half = 0; half < 2; half++)
        for (uint32_t a = 0; a < n; a++)
            for (uint32_t b = 0; b < n; b++) /* each choice is seen from K experts */
                after[half * n + b] += c->next[half][(size_t)a * n + b];
    for (uint32_t half = 0; half < 2; half++) {
        const uint32_t *learnt = after + half * n, *tried = after + !half * n;
        for (uint32_t b = 0; b < n; b++)
            c->total[b] = learnt[b];
        base_hits += try_most_frequent(learnt, c->total, tried, n, k);
        for (uint32_t b = 0; b < n; b++)
            all[half] += learnt[b];
        for (size_t a = 0; a < n; a++)
            hits +=
                try_most_frequent(c->next[half] + a * n, c->total, c->next[!half] + a * n, n, k);
    }
    if (!(all[0] > 0 && all[1] > 0))
        return;
    ret->next_accuracy_frac = hits / (all[0] + all[1]);
    ret->next_baseline_frac = base_hits / (all[0] + all[1]);
}

static double entropy_bits(const double *count, uint32_t n, double all, double *ret_cells)
{
    double bits = 0;
    for (uint32_t i = 0; i < n; i++) {
        bits -= count[i] > 0 ? count[i] / all * log2(count[i] / all) : 0;
        *ret_cells += count[i] > 0;
    }
    return bits;
}

static void measure_information(const orr_expert_layer_pass *p, layer_counts *c,
                                orr_expert_layer_statistics *ret)
{
    const uint32_t n = p->experts, k = p->routes->top_k;
    const double pairs = (double)p->routes->tokens * k * k;
    double joint = 0, cells = 0, rows = 0, columns = 0, *before = c->room, *after = c->room + n;
    memset(c->room, 0, 2 * n * sizeof *c->room);
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = 0; b < n; b++) {
            const size_t at = (size_t)a * n + b;
            const double seen = (double)c->next[0][at] + c->next[1][at];
            before[a] += seen;
            after[b] += seen;
            joint -= seen > 0 ? seen / pairs * log2(seen / pairs) : 0;
            cells += seen > 0;
        }
    const double here = entropy_bits(before, n, pairs, &rows);
    ret->next_bits = entropy_bits(after, n, pairs, &columns);
    const double bias = (cells - rows - columns + 1) / (2 * pairs * log(2));
    ret->mutual_bits = fmax(0, here + ret->next_bits - joint - bias);
}

orr_expert_layer_statistics orr_expert_layer_unknown(uint32_t layer)
{
    return (orr_expert_layer_statistics){.layer = layer,
                                         .phase_correlation = NAN,
                                         .kind_distance = NAN,
                                         .pair_distance = NAN,
                                         .pair_noise = NAN,
                                         .pair = {ORR_NONE, ORR_NONE},
                                         .pair_frac = NAN,
                                         .pair_lift = NAN,
                                         .next_accuracy_frac = NAN,
                                         .next_baseline_frac = NAN,
                                         .mutual_bits = NAN,
                                         .next_bits = NAN};
}

orr_status orr_expert_layer_pass_one(void *pass, size_t l, orr_error *err)
{
    const orr_expert_layer_pass *p = pass;
    const bool has_next = l + 1 < p->routes->layers;
    layer_counts c;
    if (!make_counts(p, has_next, &c)) {
        free_counts(&c);
        return orr_fail_memory(err);
    }
    orr_expert_layer_statistics s = orr_expert_layer_unknown(p->routes->number[l]);
    count(p, (uint32_t)l, &c);
    measure_load(p, (uint32_t)l, &c, &s);
    measure_phases(p, &c, &s);
    measure_kinds(p, (uint32_t)l, &c, &s);
    if (c.pair != NULL && p->experts > p->routes->top_k)
        measure_pairs(p, &c, &s);
    if (has_next) {
        measure_foresight(p, &c, &s);
        measure_information(p, &c, &s);
    }
    p->of_layer[l] = s;
    free_counts(&c);
    return ORR_OK;
}
