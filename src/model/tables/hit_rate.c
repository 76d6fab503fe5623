/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/hit_rate.h>

#include <math.h>
#include <stddef.h>

/* Every policy has one number that says how much it keeps (an extent): of LRU the lookups that it
 * remembers, of the others the rank, or the count, from which on rows are kept. Rows in the cache
 * and hits both ascend with it, so that a curve is made by going through extents, and a hit rate by
 * bisection over them. */

const char *orr_hit_policy_name(orr_hit_policy policy)
{
    static const char *const names[] = {
#define NAME(name, text) [ORR_HIT_##name] = text,
        ORR_HIT_POLICY_MAP(NAME)
#undef NAME
    };
    return policy < ORR_HIT_POLICIES ? names[policy] : NULL;
}

/* A class of rows: how many, and the share of lookups that each of them has. */
typedef struct row_class {
    double first, n, each;
} row_class;

static row_class class_of(const orr_popularity *p, uint32_t i)
{
    const double first = i > 0 ? (double)p->end[i - 1] : 0, before = i > 0 ? p->share[i - 1] : 0;
    const double n = (double)p->end[i] - first;
    return (row_class){first, n, (p->share[i] - before) / n};
}

/* Chance that a row is in none of so many independent lookups. */
static double absent(const row_class *c, double lookups)
{
    return c->each < 1 ? exp(lookups * log1p(-c->each)) : lookups > 0 ? 0 : 1;
}

/* P(count > least) of a Poisson distribution. */
static double poisson_above(double mean, double least)
{
    double term, sum;
    if (least < 0)
        return 1;
    if (mean > 600) /* normal, with the correction for whole numbers */
        return 0.5 * erfc((least + 0.5 - mean) / sqrt(2 * mean));
    term = sum = exp(-mean);
    for (double k = 1; k <= least && (term > 1e-18 || k < mean); k++) {
        term *= mean / k;
        sum += term;
    }
    return fmax(0, 1 - sum);
}

/* The share of a class's rows that is kept for its popularity. By rank: the first `extent` rows. By
 * counts of a history: rows whose count is above a threshold that falls as the extent ascends, and
 * part of those at it. */
static double kept(const orr_hit_terms *t, const row_class *c, double most, double extent)
{
    if (!(t->history > 0) || t->policy == ORR_HIT_STATIC)
        return fmin(1, fmax(0, (extent - c->first) / c->n));
    const double level = most - extent, whole = ceil(level), mean = c->each * t->history;
    return whole <= 0 ? 1
                      : poisson_above(mean, whole - 1) +
                            (whole - level) *
                                (poisson_above(mean, whole - 2) - poisson_above(mean, whole - 1));
}

/* What a cache has and gives. */
typedef struct cached {
    double rows, hit_frac;
} cached;

/* Of lookups that repeat one of the last `repeated_window`: those whose first one is among the last
 * `lookups`. */
static double remembered(const orr_hit_terms *t, double lookups)
{
    return t->repeated_window > 0 ? fmin(1, lookups / t->repeated_window) : 1;
}

/* LRU that remembers the last `lookups` lookups. */
static cached remember(const orr_popularity *p, const orr_hit_terms *t, double lookups)
{
    const double fresh = 1 - t->repeated_frac;
    cached sum = {0, 0};
    for (uint32_t i = 0; i < p->n; i++) {
        const row_class c = class_of(p, i);
        const double there = 1 - absent(&c, fresh * lookups);
        sum.rows += c.n * there;
        sum.hit_frac += c.n * c.each * there;
    }
    const double again = fmax(sum.hit_frac, remembered(t, lookups));
    sum.hit_frac = fresh * sum.hit_frac + t->repeated_frac * again;
    return sum;
}

/* Batches in flight while one of them is `at` of its way. */
typedef struct in_flight {
    double before, batch, at; /* fresh lookups */
} in_flight;

/* Of rows that the batch before the window had, and that none of the window has: the share of each
 * class that is still in the cache, the most popular ones. They are evicted as the batch goes on
 * and its own rows come in. shape (classes) */
static void still_there(const orr_popularity *p, const in_flight *f, const double *in, double *ret)
{
    double room = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const row_class c = class_of(p, i);
        room +=
            c.n * (1 - in[i]) * (absent(&c, f->before + f->at) - absent(&c, f->before + f->batch));
    }
    for (uint32_t i = 0; i < p->n; i++) {
        const row_class c = class_of(p, i);
        const double rows =
            c.n * (1 - in[i]) * absent(&c, f->before + f->at) * (1 - absent(&c, f->batch));
        ret[i] = rows > 0 ? fmin(1, room / rows) : 1;
        room = fmax(0, room - rows);
    }
}

/* Chance that a lookup of a class's row finds it nowhere, over all lookups of a batch. A row misses
 * with its first lookup in the batch, if none of the window has it, nor the batch before it where
 * that row is still there. shape (classes) */
static void missed_of(const orr_popularity *p, in_flight f, const double *in, double *ret)
{
    enum { PARTS = 6 };
    double there[ORR_POPULARITY_CLASSES];
    for (uint32_t i = 0; i < p->n; i++)
        ret[i] = 0;
    for (int part = 0; part < PARTS; part++) {
        f.at = f.batch * (part + 0.5) / PARTS;
        still_there(p, &f, in, there);
        for (uint32_t i = 0; i < p->n; i++) {
            const row_class c = class_of(p, i);
            const double first =
                absent(&c, f.batch * part / PARTS) - absent(&c, f.batch * (part + 1) / PARTS);
            ret[i] += fmin(c.each / PARTS, first / f.batch) * absent(&c, f.before) *
                      (1 - there[i] * (1 - absent(&c, f.batch)));
        }
    }
}

/* Rows kept for their popularity, and beside them those of batches in flight, of which `part` is
 * there: the window of a small cache is shorter. */
static cached keep(const orr_popularity *p, const orr_hit_terms *t, double most, double extent,
                   double part)
{
    const double fresh = 1 - t->repeated_frac;
    const double batch = t->policy == ORR_HIT_STATIC ? 0 : t->batch * part;
    const in_flight f = {.before = fresh * t->window * batch, .batch = fresh * batch};
    double in[ORR_POPULARITY_CLASSES], missed[ORR_POPULARITY_CLASSES];
    cached sum = {0, 0};
    for (uint32_t i = 0; i < p->n; i++) {
        const row_class c = class_of(p, i);
        in[i] = kept(t, &c, most, extent);
        missed[i] = c.each;
    }
    if (f.batch > 0)
        missed_of(p, f, in, missed);
    for (uint32_t i = 0; i < p->n; i++) {
        const row_class c = class_of(p, i);
        sum.rows += c.n * (in[i] + (1 - in[i]) * (1 - absent(&c, f.before + f.batch)));
        sum.hit_frac += c.n * (c.each - (1 - in[i]) * missed[i]);
    }
    const double again =
        batch > 0 ? fmax(sum.hit_frac, remembered(t, (t->window + 0.5) * batch)) : sum.hit_frac;
    sum.hit_frac = fresh * sum.hit_frac + t->repeated_frac * again;
    return sum;
}

/* The largest extent: that of a cache of all rows. */
static double extents_of(const orr_popularity *p, const orr_hit_terms *t)
{
    const row_class first = class_of(p, 0), last = class_of(p, p->n - 1);
    if (t->policy == ORR_HIT_LRU) /* 50 lookups of the least popular row */
        return 50 / fmax(last.each * (1 - t->repeated_frac), 1e-15);
    if (t->policy == ORR_HIT_STATIC || !(t->history > 0))
        return (double)p->rows;
    const double mean = first.each * t->history;
    return ceil(mean + 12 * sqrt(mean) + 12);
}

/* Extents below 0 are those of a cache too small for the window: -1 is none at all. */
static cached cached_of(const orr_popularity *p, const orr_hit_terms *t, double most, double extent)
{
    if (t->policy == ORR_HIT_LRU)
        return remember(p, t, extent);
    return keep(p, t, most, fmax(0, extent), fmin(1, 1 + extent));
}

double orr_hit_rate(const orr_popularity *p, const orr_hit_terms *t, double rows)
{
    const double most = extents_of(p, t);
    double low = t->policy == ORR_HIT_LRU ? 0 : -1, high = most;
    if (!(rows > 0))
        return 0;
    if (rows >= (double)p->rows)
        return 1;
    for (int i = 0; i < 100; i++) {
        const double middle = low + (high - low) / 2;
        if (middle <= low || middle >= high)
            break;
        *(cached_of(p, t, most, middle).rows <= rows ? &low : &high) = middle;
    }
    const cached a = cached_of(p, t, most, low), b = cached_of(p, t, most, high);
    const double part = b.rows > a.rows ? (rows - a.rows) / (b.rows - a.rows) : 0;
    return fmin(1, a.hit_frac + fmin(1, fmax(0, part)) * (b.hit_frac - a.hit_frac));
}

/* --- curves ---------------------------------------------------------------------------------- */

/* Points ascend in rows and hits; what does not is left out. */
static void add_point(orr_hit_curve *to, double rows, double hit_frac)
{
    const double before = to->n > 0 ? to->rows[to->n - 1] : -1;
    if (!(rows > before) || to->n == ORR_HIT_CURVE_POINTS - 1)
        return;
    to->rows[to->n] = rows;
    to->hit_frac[to->n] = to->n > 0 ? fmax(hit_frac, to->hit_frac[to->n - 1]) : hit_frac;
    to->n++;
}

static void end_curve(orr_hit_curve *to, double rows)
{
    while (to->n > 1 && to->rows[to->n - 1] >= rows)
        to->n--;
    to->rows[to->n] = rows;
    to->hit_frac[to->n++] = 1;
}

/* Rows kept by rank have points at the ends of classes, between which the curve is straight. */
void orr_hit_curve_of(const orr_popularity *p, const orr_hit_terms *t, orr_hit_curve *ret)
{
    enum { SMALL = 40, OTHERS = ORR_HIT_CURVE_POINTS - SMALL - 5 };
    const double most = extents_of(p, t);
    const bool by_rank =
        t->policy != ORR_HIT_LRU && (t->policy == ORR_HIT_STATIC || !(t->history > 0));
    /* LRU that remembers just as long as lookups are repeated. */
    const cached bend = remember(p, t, t->repeated_window);
    ret->n = 0;
    add_point(ret, 0, 0);
    if (t->policy != ORR_HIT_LRU && t->policy != ORR_HIT_STATIC && t->batch > 0)
        for (int i = SMALL; i >= 0; i--) {
            const double lookups = fmax(2, (1 + t->window) * t->batch);
            const cached c = cached_of(p, t, most, pow(lookups, -(double)i / SMALL) - 1);
            add_point(ret, c.rows, c.hit_frac);
        }
    for (uint32_t i = 0; by_rank && i < p->n; i++) {
        const cached c = cached_of(p, t, most, (double)p->end[i]);
        add_point(ret, c.rows, c.hit_frac);
    }
    for (int i = 0; !by_rank && i <= OTHERS; i++) {
        const double part = (double)i / OTHERS, rows = pow((double)p->rows, part);
        const cached c = cached_of(p, t, most, most - pow(most, 1 - part));
        if (t->policy == ORR_HIT_LRU) {
            if (rows > bend.rows && t->repeated_frac > 0)
                add_point(ret, bend.rows, bend.hit_frac);
            add_point(ret, rows, orr_hit_rate(p, t, rows));
        } else {
            add_point(ret, c.rows, c.hit_frac);
        }
    }
    end_curve(ret, (double)p->rows);
}

double orr_hit_curve_at(const orr_hit_curve *curve, double rows)
{
    uint32_t low = 0;
    if (!(rows > curve->rows[0]))
        return curve->hit_frac[0];
    if (rows >= curve->rows[curve->n - 1])
        return curve->hit_frac[curve->n - 1];
    for (uint32_t high = curve->n; high - low > 1;) {
        const uint32_t middle = low + (high - low) / 2;
        *(curve->rows[middle] <= rows ? &low : &high) = middle;
    }
    const double part = (rows - curve->rows[low]) / (curve->rows[low + 1] - curve->rows[low]);
    return curve->hit_frac[low] + part * (curve->hit_frac[low + 1] - curve->hit_frac[low]);
}
