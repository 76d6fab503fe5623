/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "engine/data/clicks.h"
#include "model/arch/dlrm.h"
#include "model/tables/popularity.h"

/* Synthetic click data. Rows are looked up as often as those of published batches
 * (src/model/tables/popularity.c). With temporal locality a share of the lookups repeats a lookup
 * of one of the samples before: users and items come in sessions. Every number is a function of
 * seed, sample, table and lookup, so that any range can be read.
 *
 * Dense features are distributed as log(1 + x) leaves them: not negative, most near zero (assumed).
 * A label is 1 with the probability of a hidden model: a weight for each dense feature and each
 * row, and a bias that makes a quarter of labels 1, as in Criteo's Kaggle set (26 %). */
#define BIAS         (-1.3F)
#define DENSE_WEIGHT 0.5F
#define ROW_WEIGHT   1.5F

/* What random bits are for, where they are not for a lookup in a table. */
enum { FOR_LABEL = INT32_MAX, FOR_DENSE = INT32_MAX - 1 };

typedef struct synthetic {
    orr_row_sampler *samplers; /* shape (tables) */
    float *mean_weight;        /* of a lookup in each table, shape (tables) */
    uint32_t window;           /* samples */
    uint64_t repeated;         /* of 2^32 lookups */
} synthetic;

/* Uniform with mean 0 and variance 1; fixed for each feature and each row of a table. */
static float hidden_weight(uint64_t seed, uint64_t kind, uint64_t index)
{
    uint64_t x = (seed ^ (kind << 40)) + (index + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9); /* the finalizer of SplitMix64 */
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return 1.7320508F * ((float)(int32_t)(x >> 32) * 0x1p-31F);
}

/* The mean over lookups, from the rows that make most of it: weights of others cancel out. */
static float mean_weight(uint64_t seed, uint32_t table, const orr_popularity *p)
{
    enum { COUNTED = 256 };
    double sum = 0;
    for (int64_t k = 0; k < COUNTED && k < p->rows; k++)
        sum += (orr_popularity_hit_rate(p, k + 1) - orr_popularity_hit_rate(p, k)) *
               hidden_weight(seed, 1 + table, (uint64_t)orr_popularity_row(p, k));
    return (float)sum;
}

static uint32_t below(uint32_t random, uint32_t bound)
{
    return (uint32_t)((uint64_t)random * bound >> 32);
}

/* The row of lookup k of a sample. A repeated lookup is followed back to the one that it repeats,
 * which may be repeated too. */
static int64_t row_of(const orr_click_data *c, uint32_t table, uint64_t sample, uint32_t k)
{
    const synthetic *s = c->ctx;
    for (;;) {
        uint32_t bits[4];
        orr_click_bits(c, sample, table, k, bits);
        if (bits[3] < s->repeated && sample > 0) {
            const uint32_t most = sample < s->window ? (uint32_t)sample : s->window;
            const uint64_t before = sample - 1 - below(bits[0], most);
            const uint32_t n = (uint32_t)orr_click_bag_length(c, table, before);
            if (n > 0) {
                sample = before;
                k = below(bits[1], n);
                continue;
            }
        }
        return orr_row_sampler_row(&s->samplers[table], bits[0], bits[1] | (uint64_t)bits[2] << 32);
    }
}

/* Bags of a table; adds the weights of their rows to the logits of samples. */
static void read_table(const orr_click_data *c, uint32_t table, uint64_t first,
                       orr_click_batch *ret)
{
    const float mean = ((const synthetic *)c->ctx)->mean_weight[table];
    int64_t *ids = ret->ids.at + ret->first.at[table];
    for (int64_t s = 0; s < ret->samples; s++) {
        const int32_t n = ret->lengths.at[table * ret->samples + s];
        float sum = 0;
        for (int32_t k = 0; k < n; k++) {
            ids[k] = row_of(c, table, first + (uint64_t)s, (uint32_t)k);
            sum += hidden_weight(c->seed, 1 + table, (uint64_t)ids[k]) - mean;
        }
        ids += n;
        if (n > 0)
            ret->labels.at[s] += ROW_WEIGHT * sum / sqrtf((float)n * (float)c->dlrm->n_tables);
    }
}

/* Dense features; logits begin with them. */
static void read_dense(const orr_click_data *c, uint64_t first, orr_click_batch *ret)
{
    const uint32_t features = c->dlrm->dense_features;
    float *dense = ret->dense.at;
    for (int64_t s = 0; s < ret->samples; s++, dense += features) {
        float logit = BIAS;
        uint32_t bits[4];
        for (uint32_t i = 0; i < features; i++) {
            if (i % 4 == 0)
                orr_click_bits(c, first + (uint64_t)s, FOR_DENSE, i, bits);
            dense[i] = -logf(((float)(bits[i % 4] >> 8) + 0.5F) * 0x1p-24F);
            logit += DENSE_WEIGHT * hidden_weight(c->seed, 0, i) * (dense[i] - 1) /
                     sqrtf((float)features);
        }
        ret->labels.at[s] = logit;
    }
}

static orr_status read(const orr_click_data *c, uint64_t first, orr_click_batch *ret,
                       orr_error *err)
{
    (void)err;
    read_dense(c, first, ret);
    for (uint32_t t = 0; t < c->dlrm->n_tables; t++)
        read_table(c, t, first, ret);
    for (int64_t s = 0; s < ret->samples; s++) {
        uint32_t bits[4];
        orr_click_bits(c, first + (uint64_t)s, FOR_LABEL, 0, bits);
        const double chance = 1 / (1 + exp(-(double)ret->labels.at[s]));
        ret->labels.at[s] = bits[0] < chance * 0x1p32;
    }
    return ORR_OK;
}

/* Options of the data, as --data has them after "synthetic:". */
typedef struct options {
    orr_popularity_kind popularity;
    double locality;
    int64_t window;
} options;

static bool read_option(const char *word, options *ret)
{
    char *end;
    for (int i = 0; i < ORR_POPULARITIES; i++)
        if (strcmp(word, orr_popularity_name((orr_popularity_kind)i)) == 0) {
            ret->popularity = (orr_popularity_kind)i;
            return true;
        }
    if (strncmp(word, "locality=", 9) == 0) {
        ret->locality = strtod(word + 9, &end);
        return end > word + 9 && *end == '\0' && ret->locality >= 0 && ret->locality <= 0.99;
    }
    if (strncmp(word, "window=", 7) == 0) {
        ret->window = strtoll(word + 7, &end, 10);
        return end > word + 7 && *end == '\0' && ret->window >= 1 && ret->window <= INT32_MAX;
    }
    return false;
}

static orr_status read_options(const char *text, options *ret, orr_error *err)
{
    *ret = (options){.popularity = ORR_POPULARITY_META_2021, .window = 1024};
    for (const char *at = text; at != NULL && *at != '\0';) {
        const size_t n = strcspn(at, ",");
        char word[32];
        snprintf(word, sizeof word, "%.*s", (int)n, at);
        if (n >= sizeof word || !read_option(word, ret))
            return orr_fail(err, ORR_INVALID,
                            "synthetic data '%.*s': 2021, 2022, zipf, uniform, locality=0 to 0.99 "
                            "or window=SAMPLES",
                            n < 80 ? (int)n : 80, at);
        at += n + (at[n] == ',');
    }
    return ORR_OK;
}

orr_status orr_click_data_synthetic(const char *text, const orr_dlrm *dlrm, uint64_t seed,
                                    orr_click_data **ret, orr_error *err)
{
    orr_click_data *c;
    options o;
    ORR_TRY(read_options(text, &o, err));
    ORR_TRY(orr_click_data_new("synthetic", dlrm, seed, &c, err));
    synthetic *s = orr_arena_one(c->arena, synthetic);
    orr_row_sampler *samplers =
        orr_arena_array(c->arena, orr_row_sampler, (size_t)dlrm->n_tables + 1);
    float *means = orr_arena_array(c->arena, float, (size_t)dlrm->n_tables + 1);
    if (s == NULL || samplers == NULL || means == NULL) {
        orr_click_data_free(c);
        return orr_fail_memory(err);
    }
    *s = (synthetic){.samplers = samplers,
                     .mean_weight = means,
                     .window = (uint32_t)o.window,
                     .repeated = (uint64_t)(o.locality * 0x1p32)};
    for (uint32_t t = 0; t < dlrm->n_tables; t++) {
        const orr_popularity p = orr_popularity_of(o.popularity, dlrm->tables[t].rows);
        orr_row_sampler_init(&p, &samplers[t]);
        means[t] = mean_weight(seed, t, &p);
    }
    c->ctx = s;
    c->read = read;
    *ret = c;
    return ORR_OK;
}
