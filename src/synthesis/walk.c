/* SPDX-License-Identifier: Apache-2.0 */
#include "synthesis/walk.h"

#include <math.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/philox.h"

/* A cut that a block may begin with. */
typedef struct entry {
    uint64_t context;
    double progress;
    uint32_t source, cut;
} entry;

typedef struct walker {
    const orr_source *sources;
    uint32_t n;
    bool obfuscate;
    entry *entries; /* by context, then by progress */
    size_t n_entries;
    double **given; /* shape (n)(S): what each step gave so far, in steps */
    double
        *ahead; /* shape (the most ranks of a source): how much further a rank is in its step than
                 * the first one is, against the recordings: the sum over what was gone over */
    uint32_t n_ahead;
    orr_random random;
    orr_array(orr_block_run) runs;
} walker;

static int compare(const void *a_, const void *b_)
{
    const entry *a = a_, *b = b_;
    if (a->context != b->context)
        return a->context < b->context ? -1 : 1;
    if (a->progress != b->progress)
        return a->progress < b->progress ? -1 : 1;
    if (a->source != b->source)
        return a->source < b->source ? -1 : 1;
    return a->cut < b->cut ? -1 : a->cut > b->cut;
}

static orr_status list_entries(walker *w, orr_arena *arena, orr_error *err)
{
    size_t n = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        n += w->sources[i].n_cuts;
        w->n_ahead = w->sources[i].n_roles > w->n_ahead ? w->sources[i].n_roles : w->n_ahead;
    }
    w->ahead = orr_arena_array(arena, double, w->n_ahead);
    w->entries = orr_arena_array(arena, entry, n);
    w->given = orr_arena_array(arena, double *, w->n);
    if (w->entries == NULL || w->given == NULL || w->ahead == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < w->n; i++) {
        const orr_source *s = &w->sources[i];
        w->given[i] = orr_arena_array(arena, double, s->n_steps);
        if (w->given[i] == NULL)
            return orr_fail_memory(err);
        for (uint32_t k = s->step_cut[0]; k < s->step_cut[s->n_steps]; k++)
            w->entries[w->n_entries++] = (entry){s->context[k], orr_source_progress(s, k), i, k};
    }
    if (w->n_entries > 1)
        qsort(w->entries, w->n_entries, sizeof *w->entries, compare);
    return ORR_OK;
}

static size_t entry_from(const walker *w, uint64_t context, double progress)
{
    const entry wanted = {context, progress, 0, 0};
    size_t low = 0, high = w->n_entries;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (compare(&w->entries[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Where the walk is. */
typedef struct place {
    uint32_t source, cut, end; /* end: the cut at which the step ends */
} place;

static uint32_t step_of(const orr_source *s, uint32_t cut)
{
    uint32_t low = 0, high = s->n_steps;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (s->step_cut[middle] <= cut)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static double given_by(const walker *w, uint32_t source)
{
    double given = 0;
    for (uint32_t k = 0; k < w->sources[source].n_steps; k++)
        given += w->given[source][k];
    return given;
}

/* A source, of those that gave least or up to two blocks more: were it always the one that gave
 * least, two would take turns, and where one begins would tell all. */
static uint32_t draw_source(walker *w)
{
    double least = INFINITY;
    uint64_t near = 0;
    uint32_t drawn = 0;
    for (uint32_t i = 0; i < w->n; i++)
        least = fmin(least, given_by(w, i));
    for (uint32_t i = 0; i < w->n; i++)
        if (given_by(w, i) <= least + 2.0 / ORR_SYNTHESIS_BLOCKS &&
            orr_random_below(&w->random, ++near) == 0)
            drawn = i;
    return drawn;
}

/* A step of the source, of those that gave least. */
static uint32_t draw_step(walker *w, uint32_t source)
{
    const uint32_t n = w->sources[source].n_steps;
    double least = w->given[source][0];
    uint64_t ties = 0;
    uint32_t drawn = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (w->given[source][i] < least) {
            least = w->given[source][i];
            ties = 0;
        }
        if (w->given[source][i] == least && orr_random_below(&w->random, ++ties) == 0)
            drawn = i;
    }
    return drawn;
}

/* What of its step the rank would do twice, or never, were `to` to follow. */
static double gap_of(const walker *w, place at, uint32_t source, uint32_t cut, uint32_t rank)
{
    const orr_source *s = &w->sources[at.source], *to = &w->sources[source];
    return to->issued[(size_t)cut * to->n_roles + rank % to->n_roles] -
           s->issued[(size_t)at.cut * s->n_roles + rank % s->n_roles];
}

/* Ranks need not be at the same place of their step where the first one is. */
static bool agrees(const walker *w, place at, const entry *e)
{
    for (uint32_t r = 1; r < w->n_ahead; r++)
        if (fabs(w->ahead[r] + gap_of(w, at, e->source, e->cut, r)) > 2 * ORR_SYNTHESIS_NEAR)
            return false;
    return true;
}

/* Among the cuts of the same context and about the same progress. */
static place draw_matched(walker *w, place at, double done, double elapsed)
{
    const uint64_t context = w->sources[at.source].context[at.cut];
    const size_t first = entry_from(w, context, done - ORR_SYNTHESIS_NEAR);
    const size_t end = entry_from(w, context, done + ORR_SYNTHESIS_NEAR);
    if (end <= first)
        return at;
    size_t drawn = SIZE_MAX;
    double least = INFINITY;
    uint64_t ties = 0;
    for (size_t i = first; i < end; i++) {
        const entry *e = &w->entries[i];
        const orr_source *s = &w->sources[e->source];
        const double given = w->given[e->source][step_of(s, e->cut)];
        if (fabs(s->elapsed[e->cut] - elapsed) > 2 * ORR_SYNTHESIS_NEAR || !agrees(w, at, e))
            continue;
        if (given < least) {
            least = given;
            ties = 0;
        }
        if (given == least && orr_random_below(&w->random, ++ties) == 0)
            drawn = i;
    }
    if (drawn == SIZE_MAX)
        return at;
    const entry *e = &w->entries[drawn];
    for (uint32_t r = 0; r < w->n_ahead; r++)
        w->ahead[r] += gap_of(w, at, e->source, e->cut, r);
    const orr_source *s = &w->sources[e->source];
    return (place){e->source, e->cut, s->step_cut[step_of(s, e->cut) + 1]};
}

/* The cut of a step drawn from a source drawn that is nearest to the progress, if it is near. */
static place draw_any(walker *w, place at, double done)
{
    const uint32_t source = draw_source(w);
    const orr_source *s = &w->sources[source];
    const uint32_t step = draw_step(w, source);
    uint32_t low = s->step_cut[step], high = s->step_cut[step + 1];
    const uint32_t first = low, end = high;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (orr_source_progress(s, middle) < done)
            low = middle + 1;
        else
            high = middle;
    }
    const uint32_t above = low < end ? low : end - 1, below = above > first ? above - 1 : above;
    const uint32_t nearest =
        fabs(orr_source_progress(s, below) - done) < fabs(orr_source_progress(s, above) - done)
            ? below
            : above;
    if (fabs(orr_source_progress(s, nearest) - done) > ORR_SYNTHESIS_NEAR_BY)
        return at;
    return (place){source, nearest, end};
}

static double progress_at(const orr_source *s, uint32_t cut, uint32_t end)
{
    return cut == end ? 1 : orr_source_progress(s, cut);
}

static bool emit(walker *w, place at, uint32_t to, uint32_t step)
{
    orr_block_run *last = w->runs.n > 0 ? &w->runs.at[w->runs.n - 1] : NULL;
    if (to == at.cut)
        return true;
    if (last != NULL && last->source == at.source && last->to_cut == at.cut && last->step == step) {
        last->to_cut = to;
        return true;
    }
    return orr_array_push(&w->runs, ((orr_block_run){at.source, at.cut, to, step}));
}

static double elapsed_at(const orr_source *s, uint32_t cut, uint32_t end)
{
    return cut == end ? 1 : s->elapsed[cut];
}

static bool walk_step(walker *w, place at, uint32_t step)
{
    double done = 0, elapsed = 0;
    int drawn = 0; /* blocks */
    for (uint32_t r = 0; r < w->n_ahead; r++)
        w->ahead[r] = 0;
    while (at.cut < at.end) {
        const orr_source *s = &w->sources[at.source];
        const uint32_t from = at.cut;
        const double begun = progress_at(s, from, at.end);
        const double until = (double)(drawn + 1) / ORR_SYNTHESIS_BLOCKS;
        uint32_t to = from + 1;
        while (to < at.end && done + progress_at(s, to, at.end) - begun < until)
            to++;
        if (!emit(w, at, to, step))
            return false;
        const double part = progress_at(s, to, at.end) - begun;
        w->given[at.source][step_of(s, from)] += part;
        done += part;
        elapsed += elapsed_at(s, to, at.end) - elapsed_at(s, from, at.end);
        drawn = (int)(done * ORR_SYNTHESIS_BLOCKS + 1e-9);
        at.cut = to;
        if (at.cut < at.end && done < 1)
            at = w->obfuscate ? draw_any(w, at, done) : draw_matched(w, at, done, elapsed);
    }
    return true;
}

/* Obfuscated, as many steps as the sources have on average: their number tells nothing of one. */
static uint32_t steps_of(const walker *w, uint32_t follows)
{
    uint64_t sum = 0;
    if (!w->obfuscate)
        return w->sources[follows].n_steps;
    for (uint32_t i = 0; i < w->n; i++)
        sum += w->sources[i].n_steps;
    return (uint32_t)((sum + w->n / 2) / w->n);
}

static orr_status walk(walker *w, uint32_t n_steps, orr_walk *ret, orr_error *err)
{
    ret->follows = (uint32_t)orr_random_below(&w->random, w->n);
    ret->n_steps = n_steps > 0 ? n_steps : steps_of(w, ret->follows);
    for (uint32_t i = 0; i < ret->n_steps; i++) {
        const uint32_t source = w->obfuscate && i > 0 ? draw_source(w) : ret->follows;
        const orr_source *s = &w->sources[source];
        const uint32_t step = draw_step(w, source);
        if (!walk_step(w, (place){source, s->step_cut[step], s->step_cut[step + 1]}, i))
            return orr_fail_memory(err);
    }
    return ORR_OK;
}

orr_status orr_walk_draw(const orr_source *sources, uint32_t n, uint32_t n_steps, uint64_t seed,
                         bool obfuscate, orr_arena *arena, orr_walk *ret, orr_error *err)
{
    walker w = {
        .sources = sources, .n = n, .obfuscate = obfuscate, .random = orr_random_of(seed, 0)};
    orr_walk made = {0};
    ORR_TRY(list_entries(&w, arena, err));
    orr_status status = walk(&w, n_steps, &made, err);
    orr_block_run *runs = status == ORR_OK ? orr_arena_array(arena, orr_block_run, w.runs.n) : NULL;
    if (status == ORR_OK && runs == NULL)
        status = orr_fail_memory(err);
    for (size_t i = 0; runs != NULL && i < w.runs.n; i++)
        runs[i] = w.runs.at[i];
    made.runs = runs;
    made.n_runs = (uint32_t)w.runs.n;
    orr_array_done(&w.runs);
    if (status == ORR_OK)
        *ret = made;
    return status;
}
