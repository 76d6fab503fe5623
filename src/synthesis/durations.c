/* SPDX-License-Identifier: Apache-2.0 */
#include "synthesis/durations.h"

#include <math.h>
#include <stdlib.h>

#include "base/array.h"

enum { PER_OCTAVE = 4 };

typedef orr_array(orr_sample) sample_list;

static uint64_t octave(int64_t value, int parts)
{
    return value <= 0 ? 0 : (uint64_t)(1 + floor(parts * log2((double)value)));
}

static const orr_match *match_of(const orr_job *job, uint32_t graph, orr_node_id v)
{
    const uint32_t *row = job->match_of[graph];
    return row == NULL || row[v] == ORR_NONE ? NULL : &job->matches[row[v]];
}

int64_t orr_transfer_ns(const orr_job *job, uint32_t graph, orr_node_id v)
{
    const orr_match *match = match_of(job, graph, v);
    int64_t shortest = job->graphs[graph]->duration_ns[v];
    for (uint32_t i = 0; match != NULL && i < match->count; i++) {
        const orr_member member = job->members[match->first + i];
        const int64_t ns = job->graphs[member.graph]->duration_ns[member.node];
        shortest = ns < shortest ? ns : shortest;
    }
    return shortest;
}

int64_t orr_transfer_bytes(const orr_job *job, uint32_t graph, orr_node_id v)
{
    const orr_match *match = match_of(job, graph, v);
    const orr_member member = match != NULL ? job->members[match->first] : (orr_member){graph, v};
    const orr_comm *comm = orr_graph_comm(job->graphs[member.graph], member.node);
    if (comm == NULL)
        return -1;
    return comm->in_bytes > comm->out_bytes ? comm->in_bytes : comm->out_bytes;
}

/* The class of a node, but for its duration. */
static uint64_t class_of(const orr_samples *s, uint32_t source, const orr_graph *g, orr_node_id v)
{
    const orr_comm *comm = orr_graph_comm(g, v);
    uint64_t digest = g->kind[v];
    if (comm != NULL && orr_synthesis_communicates(g, v)) {
        digest = orr_digest_word(digest, 100u + comm->collective);
        const int64_t bytes = comm->in_bytes > comm->out_bytes ? comm->in_bytes : comm->out_bytes;
        if (!s->blur)
            digest = orr_digest_word(digest, octave(bytes, 1));
    } else if (!s->blur) {
        digest = orr_digest_text(digest, orr_graph_str(g, g->name[v]));
    }
    return s->blur ? orr_digest_word(digest, 7000 + source) : digest;
}

static uint64_t key_of(const orr_samples *s, uint32_t source, const orr_graph *g, orr_node_id v,
                       int64_t value)
{
    const uint64_t digest = class_of(s, source, g, v);
    return s->blur ? digest : orr_digest_word(digest, octave(value, PER_OCTAVE));
}

static uint64_t bytes_key(uint32_t source, const orr_comm *comm)
{
    return orr_digest_word(orr_digest_word(9000 + (uint64_t)source, comm->collective), 77);
}

static int compare(const void *a_, const void *b_)
{
    const orr_sample *a = a_, *b = b_;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->value < b->value ? -1 : a->value > b->value;
}

static bool learn_node(const orr_samples *s, const orr_source *source, uint32_t number,
                       uint32_t role, orr_node_id v, sample_list *to)
{
    const orr_graph *g = source->ranks[role].graph;
    const bool communicates = orr_synthesis_communicates(g, v);
    const int64_t value =
        communicates ? orr_transfer_ns(source->job, role, v) : source->ranks[role].self_ns[v];
    const orr_comm *comm = orr_graph_comm(g, v);
    const int64_t bytes = communicates ? orr_transfer_bytes(source->job, role, v) : -1;
    if (value > 0 && !orr_array_push(to, ((orr_sample){key_of(s, number, g, v, value), value})))
        return false;
    return !s->blur || comm == NULL || bytes <= 0 ||
           orr_array_push(to, ((orr_sample){bytes_key(number, comm), bytes}));
}

orr_status orr_samples_learn(const orr_source *sources, uint32_t n, bool blur, orr_arena *arena,
                             orr_samples *ret, orr_error *err)
{
    orr_samples s = {.n_sources = n, .blur = blur};
    sample_list list = {0};
    bool done = true;
    for (uint32_t i = 0; i < n && done; i++)
        for (uint32_t r = 0; r < sources[i].n_roles && done; r++)
            for (orr_node_id v = 0; v < sources[i].ranks[r].graph->n_nodes && done; v++)
                if (orr_source_has(&sources[i], r, v))
                    done = learn_node(&s, &sources[i], i, r, v, &list);
    orr_sample *at = done ? orr_arena_array(arena, orr_sample, list.n) : NULL;
    for (size_t i = 0; at != NULL && i < list.n; i++)
        at[i] = list.at[i];
    s.n = list.n;
    orr_array_done(&list);
    if (at == NULL)
        return orr_fail_memory(err);
    if (s.n > 1)
        qsort(at, s.n, sizeof *at, compare);
    s.at = at;
    *ret = s;
    return ORR_OK;
}

static size_t first_from(const orr_samples *s, uint64_t key, int64_t value)
{
    const orr_sample wanted = {key, value};
    size_t low = 0, high = s->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (compare(&s->at[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Value that the share u of the samples lies below, between order statistics. */
static double quantile(const orr_sample *at, size_t n, double u)
{
    const double place = u * (double)(n - 1);
    const size_t below = (size_t)place;
    const double low = (double)at[below].value;
    const double high = (double)at[below + 1 < n ? below + 1 : below].value;
    return low + (place - (double)below) * (high - low);
}

static double reflect(double u)
{
    u = u < 0 ? -u : u;
    return u > 1 ? 2 - u : u;
}

/* `key_in`: the keys of the class in each source. */
static double barycentre(const orr_samples *s, const uint64_t *key_in, double u)
{
    double sum = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_sources; i++) {
        const size_t first = first_from(s, key_in[i], INT64_MIN);
        const size_t end = first_from(s, key_in[i], INT64_MAX);
        if (first == end)
            continue;
        const double value = quantile(s->at + first, end - first, u);
        sum += log(value > 1 ? value : 1);
        n++;
    }
    return n > 0 ? exp(sum / n) : 0;
}

/* The share of the class that lies below the value, moved a little. */
static double blurred_share(const orr_samples *s, uint64_t key, int64_t value, double u, double w)
{
    const size_t first = first_from(s, key, INT64_MIN), end = first_from(s, key, INT64_MAX);
    const size_t below = first_from(s, key, value), above = first_from(s, key, value + 1);
    if (first == end)
        return u;
    const double share =
        ((double)(below - first) + w * (double)(above - below)) / (double)(end - first);
    return reflect(share + ORR_SYNTHESIS_BLUR * (2 * u - 1));
}

int64_t orr_samples_draw(const orr_samples *s, uint32_t source, const orr_graph *g, orr_node_id v,
                         int64_t was_ns, double u, double w)
{
    uint64_t keys[ORR_SYNTHESIS_SOURCES];
    if (was_ns <= 0)
        return 0;
    if (s->blur) {
        for (uint32_t i = 0; i < s->n_sources; i++)
            keys[i] = class_of(s, i, g, v);
        return llround(barycentre(s, keys, blurred_share(s, keys[source], was_ns, u, w)));
    }
    const uint64_t key = key_of(s, source, g, v, was_ns);
    const size_t first = first_from(s, key, INT64_MIN), end = first_from(s, key, INT64_MAX);
    if (end - first < 2)
        return llround((double)was_ns * exp2((u - 0.5) / PER_OCTAVE));
    return llround(quantile(s->at + first, end - first, u));
}

int64_t orr_samples_draw_bytes(const orr_samples *s, uint32_t source, const orr_comm *comm,
                               int64_t was_bytes, double u, double w)
{
    uint64_t keys[ORR_SYNTHESIS_SOURCES];
    if (!s->blur || was_bytes <= 0)
        return was_bytes;
    for (uint32_t i = 0; i < s->n_sources; i++)
        keys[i] = bytes_key(i, comm);
    const double bytes = barycentre(s, keys, blurred_share(s, keys[source], was_bytes, u, w));
    return (int64_t)exp2(round(log2(bytes > 1 ? bytes : 1)));
}
