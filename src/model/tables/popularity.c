/* SPDX-License-Identifier: Apache-2.0 */
#include "model/tables/popularity.h"

#include <math.h>
#include <stddef.h>

/* How often rows of embedding tables are looked up. Published are histograms of one batch: how many
 * rows were looked up once, twice, 3 or 4 times, and so on (facebookresearch/dlrm_datasets,
 * locality_stats.txt of 2021, fbgemm_t856_bs65536, and of 2022, fbgemm_t788_bs131072). A row whose
 * expected count is r has a count of Poisson(r), so that the histogram is a mixture of Poisson
 * distributions. Its weights are the mean rows of a table whose expected count is 2^(k + 1/2), and
 * the rest of the table, which shares what is left of the lookups; non-negative least squares over
 * both histograms (of rows and of lookups) gives them. The mixture differs from the histograms by
 * less than 0.2 % of the lookups. */
enum { RATES = 16 };
typedef struct published {
    double lookups;     /* of a batch in a table, mean */
    double rows[RATES]; /* of a table that are looked up 2^(k + 1/2) times in a batch, expected */
} published;
static const published PUBLISHED[] = {
    [ORR_POPULARITY_META_2021] = {1036236,
                                  {82145, 5569.9, 23164, 10536, 4570.0, 1619.2, 661.11, 297.41,
                                   142.99, 70.058, 34.315, 17.158, 7.6845, 2.7689, 1.0267, 0.4239}},
    [ORR_POPULARITY_META_2022] = {1783203,
                                  {66436, 10821, 24621, 16503, 9342.2, 3816.0, 1371.3, 580.56,
                                   265.74, 98.394, 88.597, 39.370, 14.452, 3.2241, 1.3042, 2.9224}},
};
/* Rows of a table of those batches (assumed; they are not published), and the largest share of one
 * row in a table that is scaled down from them (assumed). */
#define PUBLISHED_ROWS 4e6
#define LARGEST_SHARE  0.125
#define ZIPF           0.95

const char *orr_popularity_name(orr_popularity_kind kind)
{
    static const char *const names[] = {
#define NAME(name, text) [ORR_POPULARITY_##name] = text,
        ORR_POPULARITY_MAP(NAME)
#undef NAME
    };
    return kind < ORR_POPULARITIES ? names[kind] : NULL;
}

/* Adds classes of rows that are no whole numbers: what is rounded away goes to the next class. */
typedef struct builder {
    orr_popularity *to;
    double largest;     /* share of a row */
    double rows, share; /* that were added so far */
} builder;

static void add_class(builder *b, double rows, double share)
{
    orr_popularity *p = b->to;
    const int64_t before = p->n > 0 ? p->end[p->n - 1] : 0;
    const double given = p->n > 0 ? p->share[p->n - 1] : 0;
    b->rows += rows;
    b->share += share;
    const int64_t end = b->rows < (double)p->rows ? llround(b->rows) : p->rows;
    if (end <= before)
        return;
    p->end[p->n] = end;
    p->share[p->n++] = fmin(b->share, given + (double)(end - before) * b->largest);
}

/* Rows and lookups that are left are the last class. */
static void end_classes(builder *b)
{
    orr_popularity *p = b->to;
    if (p->n == 0 || p->end[p->n - 1] < p->rows)
        p->end[p->n++] = p->rows;
    p->share[p->n - 1] = 1;
}

static void add_published(builder *b, const published *of)
{
    const double scale = fmin(1, (double)b->to->rows / PUBLISHED_ROWS);
    b->largest = LARGEST_SHARE;
    for (int k = RATES; k-- > 0;)
        add_class(b, of->rows[k] * scale, ldexp(sqrt(2) * of->rows[k], k) / of->lookups);
}

/* A class for each doubling of the rank. */
static void add_zipf(builder *b)
{
    const double rest = 1 - ZIPF, all = pow((double)b->to->rows + 1, rest) - 1;
    for (int64_t first = 1; first <= b->to->rows; first *= 2)
        add_class(b, (double)first,
                  (pow(2 * (double)first, rest) - pow((double)first, rest)) / all);
}

/* Near the golden ratio of the rows and without a common divisor with them: no two ranks of
 * popularity share a row, and the first k ranks are spread evenly over the table for every k. */
static uint64_t stride_of(uint64_t rows)
{
    uint64_t stride = (uint64_t)(0.6180339887498949 * (double)rows);
    for (uint64_t a = 0; a != 1; stride += a != 1) {
        a = rows;
        for (uint64_t b = stride, rest; b != 0; b = rest) {
            rest = a % b;
            a = b;
        }
    }
    return stride;
}

orr_popularity orr_popularity_of(orr_popularity_kind kind, int64_t rows)
{
    orr_popularity p = {.rows = rows, .stride = stride_of((uint64_t)rows)};
    builder b = {.to = &p, .largest = 1};
    if (kind == ORR_POPULARITY_ZIPF)
        add_zipf(&b);
    else if (kind != ORR_POPULARITY_UNIFORM)
        add_published(&b, &PUBLISHED[kind]);
    end_classes(&b);
    return p;
}

/* Rows of a class and the share of lookups that each of them has. */
static int64_t class_rows(const orr_popularity *p, uint32_t i, double *ret_each)
{
    const int64_t n = p->end[i] - (i > 0 ? p->end[i - 1] : 0);
    *ret_each = (p->share[i] - (i > 0 ? p->share[i - 1] : 0)) / (double)n;
    return n;
}

double orr_popularity_distinct(const orr_popularity *p, int64_t lookups)
{
    double sum = 0, each;
    for (uint32_t i = 0; i < p->n && lookups > 0; i++) {
        const int64_t n = class_rows(p, i, &each);
        sum -= (double)n * expm1((double)lookups * log1p(-each));
    }
    return sum;
}

double orr_popularity_hit_rate(const orr_popularity *p, int64_t k)
{
    double sum = 0, each;
    for (uint32_t i = 0; i < p->n && k > 0; i++) {
        const int64_t n = class_rows(p, i, &each), served = k < n ? k : n;
        sum += each * (double)served;
        k -= served;
    }
    return sum;
}

static uint32_t shard_of(const int64_t *begin, uint32_t n, int64_t row)
{
    uint32_t low = 0;
    for (uint32_t high = n; high - low > 1;) {
        const uint32_t mid = low + (high - low) / 2;
        *(begin[mid] <= row ? &low : &high) = mid;
    }
    return low;
}

void orr_popularity_shares(const orr_popularity *p, const int64_t *begin, uint32_t n, double *ret)
{
    enum { COUNTED = 4096 }; /* rows that are counted one by one; others are even over shards */
    int64_t k = 0;
    double rest = 1;
    for (uint32_t i = 0; i < n; i++)
        ret[i] = 0;
    for (uint32_t i = 0; i < p->n && k < COUNTED; i++) {
        double each;
        (void)class_rows(p, i, &each);
        for (; k < p->end[i] && k < COUNTED; k++) {
            const int64_t row = orr_popularity_row(p, k);
            rest -= each;
            if (row >= begin[0] && row < begin[n])
                ret[shard_of(begin, n, row)] += each;
        }
    }
    for (uint32_t i = 0; i < n && k < p->rows; i++)
        ret[i] += rest * (double)(begin[i + 1] - begin[i]) / (double)p->rows;
}

void orr_row_sampler_init(const orr_popularity *p, orr_row_sampler *ret)
{
    ret->popularity = *p;
    for (uint32_t i = 0; i < p->n; i++) {
        const double below = p->share[i] * 0x1p32;
        ret->below[i] = below < UINT32_MAX ? (uint32_t)below : UINT32_MAX;
    }
    for (uint32_t top = 0, i = 0; top < 256; top++) {
        while (i + 1 < p->n && ret->below[i] <= top << 24)
            i++;
        ret->guide[top] = (uint8_t)i;
    }
}
