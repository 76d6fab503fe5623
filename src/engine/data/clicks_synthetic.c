/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "engine/data/clicks.h"
#include "model/arch/dlrm.h"

/* Synthetic click data. The k-th most popular row of a table is looked up in proportion to k^-0.95
 * (Zipf): of exponents from 0.85 to 1.3, with and without a shift, the one closest to a published
 * batch (facebookresearch/dlrm_datasets, 2021, 856 tables, batch of 65,536: 887 million lookups of
 * 128 million rows). The distribution of lookups by the popularity of their rows (17 classes, from
 * once to over 32,768 times) then differs for 13 % of lookups, and unique rows are 15 % more; for
 * the set of 2022 18 % and 57 %. Popularity and row number are unrelated.
 *
 * Dense features are distributed as log(1 + x) leaves them: not negative, most near zero (assumed).
 * A label is 1 with the probability of a hidden model: a weight for each dense feature and each
 * row, and a bias that makes a quarter of labels 1, as in Criteo's Kaggle set (26 %). */
#define EXPONENT     0.95
#define BIAS         (-1.3)
#define DENSE_WEIGHT 0.5
#define ROW_WEIGHT   1.5

static int64_t wanted_row(orr_random *random, int64_t rows)
{
    const double rest = 1 - EXPONENT, u = orr_random_unit(random);
    const double k = pow(u * (pow((double)rows + 1, rest) - 1) + 1, 1 / rest);
    const int64_t rank = (int64_t)k - 1 < rows ? (int64_t)k - 1 : rows - 1;
    /* A prime larger than all tables: no two ranks of popularity share a row. */
    return (int64_t)((uint64_t)rank * UINT64_C(2654435761) % (uint64_t)rows);
}

/* Uniform with mean 0 and variance 1; fixed for each feature and each row of a table. */
static double hidden(const orr_click_data *c, uint32_t kind, uint64_t index)
{
    const uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), kind, 0x68696464};
    const uint32_t key[2] = {(uint32_t)c->seed, (uint32_t)(c->seed >> 32)};
    uint32_t bits[4];
    orr_philox4x32(counter, key, bits);
    return sqrt(3) * (2 * (bits[0] + 0.5) * 0x1p-32 - 1);
}

static orr_status read(const orr_click_data *self, uint64_t first, orr_click_batch *ret,
                       orr_error *err)
{
    const orr_dlrm *d = self->dlrm;
    int64_t at[ORR_TABLES_MAX];
    (void)err;
    memcpy(at, ret->first.at, d->n_tables * sizeof *at);
    for (int64_t s = 0; s < ret->samples; s++) {
        orr_random random = orr_random_of(self->seed, first + (uint64_t)s);
        double logit = BIAS;
        for (uint32_t i = 0; i < d->dense_features; i++) {
            const double x = -log(1 - orr_random_unit(&random));
            ret->dense.at[s * d->dense_features + i] = (float)x;
            logit += DENSE_WEIGHT * hidden(self, 0, i) * (x - 1) / sqrt(d->dense_features);
        }
        for (uint32_t i = 0; i < d->n_tables; i++) {
            const int64_t lookups = ret->lengths.at[i * ret->samples + s];
            for (int64_t k = 0; k < lookups; k++) {
                const int64_t row = wanted_row(&random, d->tables[i].rows);
                logit += ROW_WEIGHT * hidden(self, i + 1, (uint64_t)row) /
                         sqrt((double)lookups * d->n_tables);
                ret->ids.at[at[i]++] = row;
            }
        }
        ret->labels.at[s] = orr_random_unit(&random) < 1 / (1 + exp(-logit));
    }
    return ORR_OK;
}

orr_status orr_click_data_synthetic(const orr_dlrm *dlrm, uint64_t seed, orr_click_data **ret,
                                    orr_error *err)
{
    ORR_TRY(orr_click_data_new("synthetic", dlrm, seed, ret, err));
    (*ret)->read = read;
    return ORR_OK;
}
