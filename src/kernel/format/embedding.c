/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/embedding.h>

#include <orrery/kernel.h>

/* Sizes of embedding rows and bounds of shards: include/orrery/embedding.h. */

#define TEXT_(name, text) text,
static const char *const OPTIMIZERS[] = {ORR_ROW_OPTIMIZER_MAP(TEXT_)};
static const char *const LENGTHS[] = {ORR_BAG_LENGTH_MAP(TEXT_)};
static const char *const SHARDINGS[] = {ORR_SHARDING_MAP(TEXT_)};
static const char *const CODECS[] = {ORR_EMBEDDING_CODEC_MAP(TEXT_)};
static const char *const TIERS[] = {ORR_TIER_MAP(TEXT_)};
#undef TEXT_

const char *orr_row_optimizer_name(orr_row_optimizer optimizer)
{
    return OPTIMIZERS[optimizer];
}

const char *orr_bag_length_name(orr_bag_length length)
{
    return LENGTHS[length];
}

const char *orr_embedding_sharding_name(orr_embedding_sharding sharding)
{
    return SHARDINGS[sharding];
}

const char *orr_tier_name(orr_tier tier)
{
    return TIERS[tier];
}

const char *orr_embedding_codec_name(orr_embedding_codec codec)
{
    return CODECS[codec];
}

int64_t orr_row_optimizer_bytes(orr_row_optimizer optimizer, int64_t columns)
{
    const int64_t number = sizeof(float);
    switch (optimizer) {
    case ORR_ROW_OPTIMIZER_ROWWISE_ADAGRAD:
        return number;
    case ORR_ROW_OPTIMIZER_ADAGRAD:
        return number * columns;
    case ORR_ROW_OPTIMIZER_ROWWISE_ADAM:
        return number * (columns + 1);
    case ORR_ROW_OPTIMIZER_SGD:
    case ORR_ROW_OPTIMIZERS:
        break;
    }
    return 0;
}

int64_t orr_embedding_row_bytes(const orr_embedding *table)
{
    return orr_row_format_bytes((orr_row_format)table->format, table->columns) +
           orr_row_optimizer_bytes((orr_row_optimizer)table->optimizer, table->columns);
}

int64_t orr_embedding_bytes(const orr_embedding *table)
{
    int64_t bytes;
    return __builtin_mul_overflow(table->rows, orr_embedding_row_bytes(table), &bytes) ? INT64_MAX
                                                                                       : bytes;
}

/* Range k begins at floor(k rows / ranges). */
int64_t orr_embedding_range_begin(int64_t rows, uint32_t range)
{
    return (int64_t)((unsigned __int128)rows * range / ORR_EMBEDDING_RANGES);
}

/* The last range that begins at the row or before: the largest k with floor(k rows / ranges) <=
 * row, which is k rows < (row + 1) ranges. */
uint32_t orr_embedding_range_of(int64_t rows, int64_t row)
{
    const unsigned __int128 end = ((unsigned __int128)row + 1) * ORR_EMBEDDING_RANGES;
    return (uint32_t)((end - 1) / (unsigned __int128)rows);
}

/* Bounds are multiples of a quarter of a part rounded down to a power of two, so that a part is a
 * few subtrees. */
uint32_t orr_embedding_range_split(uint32_t n, uint32_t i)
{
    uint32_t parts = 1;
    while (parts < n)
        parts *= 2;
    const uint32_t quarter = ORR_EMBEDDING_RANGES / parts / 4, unit = quarter > 0 ? quarter : 1;
    const uint64_t n_units = (uint64_t)n * unit;
    return (uint32_t)((2 * (uint64_t)i * ORR_EMBEDDING_RANGES + n_units) / (2 * n_units)) * unit;
}

uint32_t orr_embedding_column_split(uint32_t columns, uint32_t n, uint32_t i)
{
    const uint64_t blocks = ((uint64_t)columns + ORR_EMBEDDING_BLOCK - 1) / ORR_EMBEDDING_BLOCK;
    const uint64_t column = blocks * i / n * ORR_EMBEDDING_BLOCK;
    return column < columns ? (uint32_t)column : columns;
}
