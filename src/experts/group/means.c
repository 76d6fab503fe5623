/* SPDX-License-Identifier: Apache-2.0 */
/* Balanced k-means over unit vectors (spherical k-means with room-limited groups). */
#include "experts/group/groups.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "experts/group/signature.h"

enum { STARTS = 4, ROUNDS = 16 };

typedef struct means {
    const orr_balanced_means *how;
    float *centre;      /* shape (groups, d) */
    uint32_t *group;    /* shape (n) */
    float *similarity;  /* shape (n, groups) */
    uint32_t *capacity; /* shape (groups) */
    orr_similarity_pair *pair;
} means;

static const float *vector(const means *m, uint32_t i)
{
    return m->how->vector + i * m->how->d;
}

/* --- starts ----------------------------------------------------------------------------------- */

/* k-means++: each next centre is a vector drawn with the distance to its nearest centre as weight.
 * nearest: scratch, shape (n). */
static void draw_centres(means *m, orr_random *random, float *nearest)
{
    const uint32_t n = m->how->n;
    const size_t d = m->how->d;
    for (uint32_t i = 0; i < n; i++)
        nearest[i] = 1;
    for (uint32_t g = 0; g < m->how->groups; g++) {
        double sum = 0;
        for (uint32_t i = 0; i < n; i++)
            sum += nearest[i];
        double left = orr_random_unit(random) * sum;
        uint32_t drawn = 0;
        for (uint32_t i = 0; i < n && left >= 0; i++)
            if (nearest[i] > 0) {
                drawn = i;
                left -= nearest[i];
            }
        memcpy(m->centre + g * d, vector(m, drawn), d * sizeof(float));
        for (uint32_t i = 0; i < n; i++)
            nearest[i] = fmaxf(
                fminf(nearest[i], 1 - orr_signature_dot(vector(m, i), m->centre + g * d, d)), 0);
    }
}

/* --- rounds ----------------------------------------------------------------------------------- */

static int by_similarity(const void *a, const void *b)
{
    const orr_similarity_pair *x = a, *y = b;
    if (x->similarity != y->similarity)
        return x->similarity > y->similarity ? -1 : 1;
    if (x->vector != y->vector)
        return x->vector < y->vector ? -1 : 1;
    return x->group < y->group ? -1 : 1;
}

void orr_assign_balanced(const float *similarity, uint32_t n, uint32_t groups, uint32_t *capacity,
                         orr_similarity_pair *pair, uint32_t *ret)
{
    size_t pairs = 0;
    for (uint32_t i = 0; i < n; i++) {
        ret[i] = UINT32_MAX;
        for (uint32_t g = 0; g < groups; g++, pairs++)
            pair[pairs] = (orr_similarity_pair){similarity[pairs], i, g};
    }
    qsort(pair, pairs, sizeof *pair, by_similarity);
    for (size_t p = 0; p < pairs; p++)
        if (ret[pair[p].vector] == UINT32_MAX && capacity[pair[p].group] > 0) {
            ret[pair[p].vector] = pair[p].group;
            capacity[pair[p].group]--;
        }
}

/* Assigns all vectors; returns the sum of products. `changed`: some vector has another group. */
static double assign(means *m, uint32_t *next, bool *changed)
{
    const orr_balanced_means *how = m->how;
    const uint32_t room =
        (uint32_t)fmin(ceil(fmax(how->capacity, 1) * how->n / how->groups), how->n);
    for (uint32_t g = 0; g < how->groups; g++)
        m->capacity[g] = room;
    for (uint32_t i = 0; i < how->n; i++)
        for (uint32_t g = 0; g < how->groups; g++)
            m->similarity[(size_t)i * how->groups + g] =
                orr_signature_dot(vector(m, i), m->centre + g * how->d, how->d);
    orr_assign_balanced(m->similarity, how->n, how->groups, m->capacity, m->pair, next);
    double sum = 0;
    *changed = false;
    for (uint32_t i = 0; i < how->n; i++) {
        *changed |= next[i] != m->group[i];
        m->group[i] = next[i];
        sum += (double)m->similarity[(size_t)i * how->groups + next[i]];
    }
    return sum;
}

/* Centres are the unit vectors of the sums of their groups; one without vectors stays. */
static void update_centres(means *m)
{
    const size_t d = m->how->d;
    for (uint32_t g = 0; g < m->how->groups; g++) {
        float *centre = m->centre + g * d;
        bool any = false;
        for (uint32_t i = 0; i < m->how->n; i++)
            if (m->group[i] == g) {
                const float *v = vector(m, i);
                for (size_t j = 0; j < d; j++)
                    centre[j] = any ? centre[j] + v[j] : v[j];
                any = true;
            }
        const float length = sqrtf(orr_signature_dot(centre, centre, d));
        for (size_t j = 0; j < d && length > 0; j++)
            centre[j] /= length;
    }
}

static double run(means *m, uint64_t start, float *nearest, uint32_t *next)
{
    orr_random random = orr_random_of(m->how->seed, start);
    bool changed = true;
    double sum = 0;
    draw_centres(m, &random, nearest);
    for (uint32_t i = 0; i < m->how->n; i++)
        m->group[i] = UINT32_MAX;
    for (int round = 0; round < ROUNDS && changed; round++) {
        sum = assign(m, next, &changed);
        if (changed)
            update_centres(m);
    }
    return sum;
}

orr_status orr_balanced_means_fit(const orr_balanced_means *how, float *centre, uint32_t *group,
                                  orr_error *err)
{
    const size_t pairs = (size_t)how->n * how->groups, centres = how->groups * how->d;
    means m = {.how = how};
    float *nearest = orr_calloc(how->n, sizeof *nearest);
    uint32_t *next = orr_calloc(how->n, sizeof *next);
    double best = -DBL_MAX;
    m.centre = orr_calloc(centres, sizeof *m.centre);
    m.group = orr_calloc(how->n, sizeof *m.group);
    m.similarity = orr_calloc(pairs, sizeof *m.similarity);
    m.capacity = orr_calloc(how->groups, sizeof *m.capacity);
    m.pair = orr_calloc(pairs, sizeof *m.pair);
    const bool memory = nearest != NULL && next != NULL && m.centre != NULL && m.group != NULL &&
                        m.similarity != NULL && m.capacity != NULL && m.pair != NULL;
    for (uint64_t start = 0; memory && start < STARTS; start++) {
        const double sum = run(&m, start, nearest, next);
        if (sum <= best)
            continue;
        best = sum;
        memcpy(centre, m.centre, centres * sizeof *centre);
        memcpy(group, m.group, how->n * sizeof *group);
    }
    orr_free(m.pair);
    orr_free(m.capacity);
    orr_free(m.similarity);
    orr_free(m.group);
    orr_free(m.centre);
    orr_free(next);
    orr_free(nearest);
    return memory ? ORR_OK : orr_fail_memory(err);
}
