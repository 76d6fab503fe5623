/* SPDX-License-Identifier: Apache-2.0 */
#include "../unit/graph/graphs.h"
#include "support/seeds.h"

/* Random recordings. Each node is an interval between two of 2N distinct moments, so
 * that whatever dependency agrees with the intervals cannot close a cycle; and each dependency
 * is added as a row, so that the tests know what they gave. Letters: N nodes, E rows. */
enum { MAX_N = 64, MAX_E = 256 };

typedef struct dep_row {
    orr_node_id node, on;
    orr_dep_kind kind;
} dep_row;

typedef struct recipe {
    uint32_t n, e;
    int64_t start[MAX_N], end[MAX_N];
    orr_node_id parent[MAX_N];
    dep_row dep[MAX_E];
} recipe;

static bool ends_first(orr_dep_kind kind) /* does the end of `on` come first, or its start? */
{
    return kind != ORR_DEP_CONTROL && kind != ORR_DEP_LAUNCH;
}

static int64_t moment_on(const recipe *r, const dep_row *d)
{
    return ends_first(d->kind) ? r->end[d->on] : r->start[d->on];
}

static int64_t moment_waiting(const recipe *r, const dep_row *d)
{
    return d->kind == ORR_DEP_SYNC ? r->end[d->node] : r->start[d->node];
}

static uint32_t below(orr_random *random, uint32_t bound)
{
    return (uint32_t)orr_random_below(random, bound);
}

static void shuffle(orr_random *random, uint32_t *at, uint32_t n)
{
    for (uint32_t i = n; i > 1; i--) {
        const uint32_t k = below(random, i), swapped = at[k];
        at[k] = at[i - 1];
        at[i - 1] = swapped;
    }
}

static recipe random_recipe(orr_random *random)
{
    recipe r = {.n = 1 + below(random, MAX_N)};
    uint32_t moments[2 * MAX_N];
    for (uint32_t i = 0; i < 2 * r.n; i++)
        moments[i] = i;
    shuffle(random, moments, 2 * r.n);
    for (uint32_t v = 0; v < r.n; v++) {
        const uint32_t a = moments[2 * v], b = moments[2 * v + 1];
        r.start[v] = a < b ? a : b;
        r.end[v] = a < b ? b : a;
    }
    for (uint32_t v = 0; v < r.n; v++) {
        const orr_node_id p = below(random, r.n);
        r.parent[v] = r.start[p] < r.start[v] && r.end[v] < r.end[p] ? p : ORR_NONE;
    }
    const uint32_t tries = below(random, MAX_E + 1);
    for (uint32_t i = 0; i < tries; i++) {
        const dep_row d = {below(random, r.n), below(random, r.n), below(random, ORR_DEP_SYNC + 1)};
        if (moment_on(&r, &d) < moment_waiting(&r, &d))
            r.dep[r.e++] = d;
    }
    return r;
}

/* A builder of this recipe, its dependencies in the order given (NULL: as they are). */
static orr_graph_builder *prepare(const recipe *r, const uint32_t *order)
{
    orr_graph_builder *b = new_builder();
    char name[16];
    for (uint32_t v = 0; v < r->n; v++) {
        snprintf(name, sizeof name, "op%u", v);
        node(b, name, r->start[v], r->end[v] - r->start[v], r->parent[v]);
    }
    for (uint32_t i = 0; i < r->e; i++) {
        const dep_row *d = &r->dep[order ? order[i] : i];
        dep(b, d->node, d->on, d->kind);
    }
    return b;
}

static void test_rows_equal_a_naive_reference(void **state)
{
    (void)state;
    const seed_range range = seeds(300);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_random random = orr_random_of(seed, 1);
        const recipe r = random_recipe(&random);
        const orr_graph *g = built(prepare(&r, NULL));
        uint32_t at = 0;
        for (uint32_t v = 0; v < r.n; v++) {
            if (g->dep_first[v] != at)
                seed_fail(seed, "the row of node %u begins at %u", v, g->dep_first[v]);
            for (uint32_t i = 0; i < r.e; i++) {
                if (r.dep[i].node != v)
                    continue;
                if (g->dep[at] != r.dep[i].on || g->dep_kind[at] != r.dep[i].kind)
                    seed_fail(seed, "dependency %u of node %u differs", at - g->dep_first[v], v);
                at++;
            }
        }
        if (at != r.e || g->dep_first[r.n] != r.e || g->n_deps != r.e)
            seed_fail(seed, "%u dependencies of %u", at, r.e);
        orr_graph_free(g);
    }
}

static void test_dependants_are_the_transpose(void **state)
{
    (void)state;
    const seed_range range = seeds(300);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_random random = orr_random_of(seed, 2);
        const recipe r = random_recipe(&random);
        const orr_graph *g = built(prepare(&r, NULL));
        orr_arena *arena = orr_arena_new(0, 0);
        orr_edges e;
        OK(orr_graph_dependants(g, arena, &e, NULL));
        uint32_t at = 0;
        for (uint32_t u = 0; u < r.n; u++) {
            if (e.first[u] != at)
                seed_fail(seed, "the row of node %u begins at %u", u, e.first[u]);
            for (uint32_t v = 0; v < r.n; v++) {
                for (uint32_t i = g->dep_first[v]; i < g->dep_first[v + 1]; i++) {
                    if (g->dep[i] != u)
                        continue;
                    if (e.node[at] != v || e.kind[at] != g->dep_kind[i])
                        seed_fail(seed, "dependant %u of node %u differs", at - e.first[u], u);
                    at++;
                }
            }
        }
        if (at != r.e || e.first[r.n] != r.e)
            seed_fail(seed, "%u dependants of %u", at, r.e);
        orr_arena_free(arena);
        orr_graph_free(g);
    }
}

/* Shuffled, but the rows of one node stay in their order. */
static void shuffle_between_nodes(orr_random *random, const recipe *r, uint32_t *order)
{
    uint32_t next[MAX_N] = {0};
    for (uint32_t i = 0; i < r->e; i++)
        order[i] = r->dep[i].node;
    shuffle(random, order, r->e);
    for (uint32_t i = 0; i < r->e; i++) {
        const orr_node_id v = order[i];
        while (r->dep[next[v]].node != v)
            next[v]++;
        order[i] = next[v]++;
    }
}

static void test_order_between_nodes_does_not_matter(void **state)
{
    (void)state;
    const seed_range range = seeds(300);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_random random = orr_random_of(seed, 3);
        const recipe r = random_recipe(&random);
        uint32_t order[MAX_E];
        shuffle_between_nodes(&random, &r, order);
        const orr_graph *a = built(prepare(&r, NULL)), *b = built(prepare(&r, order));
        if (r.e > 0 && (memcmp(a->dep, b->dep, r.e * sizeof *a->dep) != 0 ||
                        memcmp(a->dep_kind, b->dep_kind, r.e) != 0))
            seed_fail(seed, "another order of addition gives other dependencies");
        assert_memory_equal(a->dep_first, b->dep_first, (r.n + 1) * sizeof *a->dep_first);
        assert_memory_equal(a->lane_node, b->lane_node, r.n * sizeof *a->lane_node);
        orr_graph_free(a);
        orr_graph_free(b);
    }
}

/* The points that a walk may be at: of one node, its start, its end, or both. */
enum { AT_START = 1, AT_END = 2 };

/* Where a walk that may be at `at` of node u can be after one step to node v. */
static int step(const recipe *r, orr_node_id u, int at, orr_node_id v)
{
    int to = 0;
    if (at & AT_START)
        at |= AT_END; /* a start leads to its own end */
    if ((at & AT_START) && r->parent[v] == u)
        to |= AT_START;
    if ((at & AT_END) && r->parent[u] == v)
        to |= AT_END;
    for (uint32_t i = 0; i < r->e; i++) {
        const dep_row *d = &r->dep[i];
        if (d->node == v && d->on == u && (at & (ends_first(d->kind) ? AT_END : AT_START)))
            to |= d->kind == ORR_DEP_SYNC ? AT_END : AT_START;
    }
    return to;
}

/* Is "cycle: 12 'a' -> 40 'b' -> 12" a circle that this recipe has? Returns the number of
 * steps that were verified; 0: it is not. */
static uint32_t verify_cycle(const recipe *r, const char *text, uint64_t seed)
{
    static const char prefix[] = "cycle: ";
    if (strncmp(text, prefix, sizeof prefix - 1) != 0)
        seed_fail(seed, "no cycle is named: %s", text);
    const char *at = text + sizeof prefix - 1;
    char *end;
    const orr_node_id first = (orr_node_id)strtoul(at, &end, 10);
    orr_node_id u = first;
    int points = AT_START | AT_END;
    uint32_t steps = 0;
    bool cut = false;
    for (const char *arrow = end; (arrow = strstr(arrow, " -> ")) != NULL;) {
        arrow += 4;
        if (*arrow == '(') {
            cut = true;
            continue;
        }
        const orr_node_id v = (orr_node_id)strtoul(arrow, &end, 10);
        points = cut ? AT_START | AT_END : step(r, u, points, v);
        steps += !cut;
        cut = false;
        if (points == 0)
            return 0;
        u = v;
        arrow = end;
    }
    return u == first ? steps : 0;
}

/* Walk forward some steps from a point, then tie where we came to back to it. */
static void add_back_edge(orr_random *random, recipe *r)
{
    const orr_node_id from = below(random, r->n);
    const bool from_end = below(random, 2);
    orr_node_id u = from;
    int at = from_end ? AT_END : AT_START;
    for (uint32_t i = below(random, 20); i > 0; i--) {
        const orr_node_id v = below(random, r->n);
        const int to = step(r, u, at, v);
        if (to == 0)
            continue;
        u = v;
        at = to & AT_START ? AT_START : AT_END;
    }
    dep_row d = {.node = from, .on = u};
    if (from_end)
        d.kind = ORR_DEP_SYNC; /* a start leads to its end, too */
    else
        d.kind = at == AT_START && below(random, 2) ? ORR_DEP_CONTROL : ORR_DEP_DATA;
    if (r->e == MAX_E)
        r->e--;
    const uint32_t to = below(random, r->e + 1);
    r->dep[r->e++] = r->dep[to];
    r->dep[to] = d;
}

static void test_acyclic_is_accepted_and_a_back_edge_is_not(void **state)
{
    (void)state;
    const seed_range range = seeds(2000);
    uint32_t long_cycles = 0;
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_random random = orr_random_of(seed, 4);
        recipe r = random_recipe(&random);
        orr_graph_free(built(prepare(&r, NULL)));
        add_back_edge(&random, &r);
        orr_graph_builder *b = prepare(&r, NULL);
        const orr_graph *g = NULL;
        orr_error err = {0};
        if (orr_graph_build(b, &g, &err) != ORR_INVALID)
            seed_fail(seed, "a cycle was not seen");
        const uint32_t steps = verify_cycle(&r, err.text, seed);
        if (steps == 0)
            seed_fail(seed, "no such cycle: %s", err.text);
        long_cycles += steps > 2;
        orr_graph_builder_free(b);
    }
    if (range.end - range.begin > 1)
        assert_true(long_cycles > 100); /* the generator does not only close short circles */
}

/* Lists of random attributes; the values of one are bytes of the generator. */
typedef struct random_attr {
    orr_attr attr;
    uint64_t values[5];
} random_attr;

static void make_attr(orr_random *random, orr_graph_builder *b, random_attr *ret)
{
    static const char *const texts[] = {"grid", "block", "stream", "x", "[1, 2]", ""};
    ret->attr = (orr_attr){.name = str(b, texts[below(random, 6)]),
                           .doc = str(b, texts[3 + below(random, 3)]),
                           .kind = (uint8_t)below(random, ORR_ATTR_NONE + 1),
                           .list = below(random, 2)};
    ret->attr.count = ret->attr.list ? below(random, 6) : 1;
    orr_str strings[10];
    for (size_t i = 0; i < 5; i++)
        ret->values[i] = orr_random_u64(random) % 5; /* some are equal */
    for (size_t i = 0; i < 10; i++)
        strings[i] = str(b, texts[below(random, 6)]);
    if (orr_attr_value_bytes(ret->attr.kind) == 4) /* good for strings and numbers alike */
        memcpy(ret->values, strings, sizeof strings);
}

static bool same_attr(const orr_attr *a, const orr_attr *b)
{
    return a->name == b->name && a->doc == b->doc && a->kind == b->kind && a->list == b->list &&
           a->count == b->count &&
           memcmp(a->values, b->values, a->count * orr_attr_value_bytes(a->kind)) == 0;
}

static void test_attributes_come_back(void **state)
{
    (void)state;
    enum { N = 40, MAX_ATTRS = 6 };
    const seed_range range = seeds(200);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_random random = orr_random_of(seed, 5);
        orr_graph_builder *b = new_builder();
        static random_attr given[N + 1][MAX_ATTRS]; /* the last: of the recording */
        uint32_t n_given[N + 1];
        for (uint32_t v = 0; v <= N; v++) {
            orr_attr attrs[MAX_ATTRS];
            n_given[v] = below(&random, MAX_ATTRS + 1);
            for (uint32_t i = 0; i < n_given[v]; i++) {
                make_attr(&random, b, &given[v][i]);
                attrs[i] = given[v][i].attr;
                attrs[i].values = given[v][i].values;
            }
            const orr_node_id id = v < N ? node(b, "x", v, 1, ORR_NONE) : ORR_NONE;
            OK(orr_builder_attrs(b, id, attrs, n_given[v], NULL));
        }
        const orr_graph *g = built(b);
        for (uint32_t v = 0; v <= N; v++) {
            orr_attr_iter iter = orr_graph_attrs(g, v < N ? v : ORR_NONE);
            uint32_t n = 0;
            for (orr_attr attr; orr_attr_next(&iter, &attr); n++) {
                orr_attr want = given[v][n].attr;
                want.values = given[v][n].values;
                if (n >= n_given[v] || !same_attr(&attr, &want))
                    seed_fail(seed, "attribute %u of node %u differs", n, v);
            }
            if (n != n_given[v])
                seed_fail(seed, "%u attributes of %u of node %u", n, n_given[v], v);
        }
        orr_graph_free(g);
    }
}

static void test_at_most_96_bytes_a_node(void **state)
{
    (void)state;
    enum { N = 20000, DEPS = 3 };
    orr_random random = orr_random_of(seeds(1).begin, 6);
    orr_graph_builder *b = new_builder();
    for (uint32_t v = 0; v < N; v++) {
        node(b, "x", v, 1, ORR_NONE);
        for (uint32_t i = 0; i < DEPS && v > 0; i++)
            dep(b, v, below(&random, v), ORR_DEP_DATA);
    }
    const orr_graph *g = built(b);
    assert_true(orr_graph_core_bytes(g) <= N * UINT64_C(96));
    assert_true(orr_graph_core_bytes(g) >= N * UINT64_C(52) + g->n_deps * UINT64_C(5));
    orr_graph_free(g);
}

/* A graph with something of everything; ORR_NO_MEMORY anywhere ends it. */
static orr_status build_everything(const orr_graph **ret, orr_random random)
{
    orr_graph_builder *b = orr_graph_builder_new();
    if (b == NULL)
        return ORR_NO_MEMORY;
    orr_status status = ORR_OK;
    orr_str s, text;
    orr_lane_id l = 0;
    orr_group_id group;
    const uint32_t ranks[3] = {0, 1, 3};
    ORR_TRY_OUT(status, orr_builder_str(b, "name", 4, &s, NULL));
    ORR_TRY_OUT(status, orr_builder_group(b, &(orr_group){.name = s, .size = 3, .ranks = ranks},
                                          &group, NULL));
    for (uint32_t v = 0; v < 600; v++) {
        char name[20];
        const size_t len = (size_t)snprintf(name, sizeof name, "name %u", v);
        const orr_lane where = {.kind = ORR_LANE_HOST, .pid = 1, .tid = v % 70};
        const orr_tensor tensor = {.storage = v, .elements = 1, .element_bytes = 4};
        const int64_t value = v;
        orr_node_id id;
        orr_tensor_id t;
        orr_comm comm = no_comm;
        comm.group = group;
        ORR_TRY_OUT(status, orr_builder_str(b, name, len, &text, NULL));
        ORR_TRY_OUT(status, orr_builder_lane(b, &where, &l, NULL));
        const orr_node n = {.name = text,
                            .lane = l,
                            .start_ns = below(&random, 1000),
                            .parent = v > 0 && v % 3 == 0 ? v - 1 : ORR_NONE};
        const orr_attr attr = {.name = s, .kind = ORR_ATTR_INT64, .count = 1, .values = &value};
        ORR_TRY_OUT(status, orr_builder_node(b, &n, &id, NULL));
        ORR_TRY_OUT(status, orr_builder_tensor(b, &tensor, &t, NULL));
        ORR_TRY_OUT(status, orr_builder_io(b, id, &t, 1, &t, v % 2, NULL));
        ORR_TRY_OUT(status, orr_builder_attrs(b, id, &attr, 1, NULL));
        if (v > 0)
            ORR_TRY_OUT(status, orr_builder_dep(b, v % 5 ? v : v - 1, below(&random, v - v / 2),
                                                ORR_DEP_CONTROL, NULL));
        if (v % 3 == 0)
            ORR_TRY_OUT(status, orr_builder_comm(b, id, &comm, NULL));
        else if (v % 3 == 1)
            ORR_TRY_OUT(status, orr_builder_copy(b, id, &(orr_copy){.bytes = v}, NULL));
        else
            ORR_TRY_OUT(status, orr_builder_memory(b, id, &(orr_memory){.addr = v}, NULL));
    }
    ORR_TRY_OUT(status, orr_builder_sort_lanes(b, NULL));
    b->start_ns[5] = -5; /* so that the rows are made a second time */
    ORR_TRY_OUT(status, orr_graph_build(b, ret, NULL));
out:
    orr_graph_builder_free(b);
    return status;
}

static void test_every_failed_allocation_is_survived(void **state)
{
    (void)state;
    const uint64_t seed = seeds(1).begin;
    uint64_t nth = 0;
    orr_status status = ORR_NO_MEMORY;
    while (status == ORR_NO_MEMORY) {
        const orr_graph *g = NULL;
        orr_alloc_fail_from(++nth);
        status = build_everything(&g, orr_random_of(seed, 7));
        orr_alloc_fail_from(0);
        if (status == ORR_OK)
            assert_int_equal(g->n_nodes, 600);
        else
            assert_null(g);
        orr_graph_free(g);
    }
    assert_int_equal(status, ORR_OK);
    assert_true(nth > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_equal_a_naive_reference),
        cmocka_unit_test(test_dependants_are_the_transpose),
        cmocka_unit_test(test_order_between_nodes_does_not_matter),
        cmocka_unit_test(test_acyclic_is_accepted_and_a_back_edge_is_not),
        cmocka_unit_test(test_attributes_come_back),
        cmocka_unit_test(test_at_most_96_bytes_a_node),
        cmocka_unit_test(test_every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
