/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PATH_CHECK_H
#define PATH_CHECK_H

#include "small_job.h"

/* What a critical path must look like, piece by piece. */
typedef struct want_piece {
    const char *name;
    orr_bound bound;
    bool wait;
    int64_t from_ns, to_ns;
    uint32_t rank;
} want_piece;

static inline void small_dep(small *s, uint32_t node, uint32_t on, orr_dep_kind kind)
{
    assert_int_equal(orr_builder_dep(s->builder, node, on, kind, &s->err), ORR_OK);
}

/* Without gaps or overlap, in time, and the sums by bound are the whole. */
static inline void check_sound(const orr_critical_path *path)
{
    int64_t at = path->start_ns, bound_ns[ORR_BOUNDS] = {0};
    for (size_t i = 0; i < path->n_pieces; i++) {
        const orr_path_piece *p = &path->pieces[i];
        assert_int_equal(p->from_ns, at);
        assert_true(p->to_ns > p->from_ns);
        assert_true(p->bound < ORR_BOUNDS);
        bound_ns[p->bound] += p->to_ns - p->from_ns;
        at = p->to_ns;
    }
    assert_int_equal(at, path->end_ns);
    for (size_t i = 0; i < ORR_BOUNDS; i++)
        assert_int_equal(bound_ns[i], path->bound_ns[i]);
}

static inline void check_path(const orr_critical_path *path, const want_piece *want, size_t n)
{
    check_sound(path);
    for (size_t i = 0; i < path->n_pieces && i < n; i++) {
        const orr_path_piece *p = &path->pieces[i];
        assert_string_equal(p->name, want[i].name);
        assert_string_equal(orr_bound_name((orr_bound)p->bound), orr_bound_name(want[i].bound));
        assert_int_equal(p->wait, want[i].wait);
        assert_int_equal(p->from_ns, want[i].from_ns);
        assert_int_equal(p->to_ns, want[i].to_ns);
        assert_int_equal(p->rank, want[i].rank);
    }
    assert_int_equal(path->n_pieces, n);
}
#define ON(rank, name, bound, wait, from_ns, to_ns)                                                \
    {                                                                                              \
        (name), ORR_BOUND_##bound, (wait), (from_ns), (to_ns), (rank)                              \
    }
#define PIECE(name, bound, wait, from_ns, to_ns) ON(0, name, bound, wait, from_ns, to_ns)
#define CHECK_PATH(path, ...)                                                                      \
    check_path((path), (const want_piece[]){__VA_ARGS__},                                          \
               sizeof((const want_piece[]){__VA_ARGS__}) / sizeof(want_piece))

static inline orr_critical_path find_path(small *s, const orr_analysis_options *options)
{
    orr_critical_path path;
    if (s->job == NULL)
        small_job(s);
    assert_int_equal(orr_analyze_critical_path(s->job, options, s->arena, &path, &s->err), ORR_OK);
    return path;
}

static inline orr_critical_path find_longest(small *s)
{
    orr_analysis_options options = small_options();
    options.path_hta = true;
    return find_path(s, &options);
}

#endif /* PATH_CHECK_H */
