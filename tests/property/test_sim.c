/* SPDX-License-Identifier: Apache-2.0 */
#include "../unit/sim/toy_cluster.h"
#include "cost/collective/transfer.h"
#include "support/seeds.h"

/* Simulations of random jobs: ranks in tensor-parallel, data-parallel and pipeline groups, a
 * graph for each stage (sometimes two), stragglers, late starters, ranks without a graph.
 *
 *   - the times are those of a naive fixed point over all ranks;
 *   - with alike ranks folded they are the same, for every rank and node;
 *   - no lane does two things at once; everything takes its duration; all points are settled;
 *   - the end is no earlier than any chain of one rank alone;
 *   - so they are where the cluster prices transfers, and it matters where a rank lies;
 *   - where computation and communication slow each other down, the times are those of a naive
 *     simulation that goes from ns to ns;
 *   - where ranks meet in different orders, it is a deadlock if, and only if, naively nothing more
 *     can be settled. */
enum {
    SEEDS = 1500,
    PLACED_SEEDS = 1000,
    OVERLAP_SEEDS = 300,
    CROSSED_SEEDS = 1000,
    MAX_RANKS = 48,
    MAX_STEPS = 40
};

typedef struct shape {
    uint32_t tp, dp, pp;
} shape;

typedef struct scene {
    orr_random random;
    toy *t;
    shape shape;
    uint32_t n_ranks;
    int64_t longest_ns;
    bool crossed; /* graphs meet in different orders */
} scene;

static int64_t below(scene *c, int64_t bound)
{
    return (int64_t)orr_random_below(&c->random, (uint64_t)bound);
}

static bool one_in(scene *c, int64_t n)
{
    return below(c, n) == 0;
}

/* Rank = (stage * dp + replica) * tp + shard. */
static void add_groupings(scene *c)
{
    const shape *s = &c->shape;
    uint32_t tp[MAX_RANKS], dp[MAX_RANKS], pp[MAX_RANKS];
    for (uint32_t r = 0; r < c->n_ranks; r++) {
        const uint32_t shard = r % s->tp, replica = r / s->tp % s->dp, stage = r / s->tp / s->dp;
        tp[r] = stage * s->dp + replica;
        dp[r] = stage * s->tp + shard;
        pp[r] = replica * s->tp + shard;
    }
    if (one_in(c, 6)) /* a rank that is in no group */
        dp[below(c, c->n_ranks)] = ORR_NONE;
    toy_grouping(c->t, "tp", tp);
    toy_grouping(c->t, "dp", dp);
    toy_grouping(c->t, "pp", pp);
    if (one_in(c, 4)) /* and one without any order */
        for (uint32_t r = 0; r < c->n_ranks; r++)
            tp[r] = (uint32_t)below(c, 4);
    toy_grouping(c->t, "any", tp);
}

/* All graphs go through one list of steps, each taking part in some: so no two wait crosswise,
 * unless some are exchanged. */
static void add_graph(scene *c, const uint32_t *meets, uint32_t n_steps)
{
    static const orr_work_class classes[] = {ORR_WORK_COMPUTE, ORR_WORK_COMPUTE, ORR_WORK_MEMORY,
                                             ORR_WORK_COMM};
    toy *t = c->t;
    uint32_t step[MAX_STEPS];
    for (uint32_t i = 0; i < n_steps; i++)
        step[i] = i;
    for (uint32_t i = 1; i < n_steps; i++)
        if (c->crossed && one_in(c, 4)) {
            step[i] = step[i - 1];
            step[i - 1] = i;
        }
    toy_graph(t);
    for (uint32_t i = 0; i < n_steps; i++) {
        const uint32_t lane = (uint32_t)below(c, c->crossed ? 2 : 3);
        const int64_t duration = one_in(c, 8) ? 0 : below(c, c->longest_ns);
        if (meets[step[i]] != ORR_NONE && (c->crossed || one_in(c, 2)))
            toy_communicate(t, duration, lane, meets[step[i]], step[i]);
        else
            toy_work(t, classes[below(c, 4)], duration, lane);
        for (uint32_t k = 0; k < 2; k++)
            if (i > 0 && one_in(c, 2))
                toy_wait(t, i, (uint32_t)below(c, i), below(c, 20));
        if (one_in(c, 10))
            t->floors[2 * i] = below(c, 3000);
    }
    toy_end_graph(t);
}

static void build(scene *c, uint64_t seed, int64_t width, uint32_t most_steps, int64_t longest_ns)
{
    c->random = orr_random_of(seed, 0);
    c->longest_ns = longest_ns;
    c->shape = (shape){1 + (uint32_t)below(c, width), 1 + (uint32_t)below(c, width),
                       1 + (uint32_t)below(c, 3)};
    c->n_ranks = c->shape.tp * c->shape.dp * c->shape.pp;
    toy *t = c->t = toy_begin(c->n_ranks);
    add_groupings(c);
    uint32_t meets[MAX_STEPS];
    const uint32_t n_steps = 1 + (uint32_t)below(c, most_steps);
    for (uint32_t i = 0; i < n_steps; i++)
        meets[i] = one_in(c, 2) ? (uint32_t)below(c, 4) : ORR_NONE;
    const uint32_t per_stage = one_in(c, 3) ? 2 : 1;
    for (uint32_t d = 0; d < c->shape.pp * per_stage; d++)
        add_graph(c, meets, n_steps);
    for (uint32_t r = 0; r < c->n_ranks; r++) {
        const uint32_t stage = r / c->shape.tp / c->shape.dp;
        t->graph_of_rank[r] = stage * per_stage + r % per_stage;
    }
    if (one_in(c, 2))
        t->slowdown_ppm[below(c, c->n_ranks)] = 1000000 + 100000 * (uint32_t)below(c, 5);
    if (one_in(c, 4))
        t->start_ns[below(c, c->n_ranks)] = below(c, 2000);
    if (one_in(c, 4))
        t->graph_of_rank[below(c, c->n_ranks)] = ORR_NONE;
}

/* The reference: every rank, again and again until no time changes. */
typedef struct naive {
    const toy *t;
    int64_t time_ns[MAX_RANKS][2 * MAX_STEPS];
    bool alone; /* nobody waits for another */
} naive;

static bool plays(const toy *t, uint32_t rank)
{
    return t->graph_of_rank[rank] != ORR_NONE;
}

static const orr_sim_program *program_of(const toy *t, uint32_t rank)
{
    return &t->programs[t->graph_of_rank[rank]];
}

static const orr_rendezvous_id *meeting_of(const toy *t, uint32_t rank, const orr_sim_work *work)
{
    return work->comm == ORR_NONE ? NULL : &t->rendezvous[t->graph_of_rank[rank]][work->comm];
}

static const orr_sim_work *counterpart(const toy *t, uint32_t rank, const orr_rendezvous_id *m)
{
    if (t->graph_of_rank[rank] == ORR_NONE)
        return NULL;
    const orr_sim_program *p = program_of(t, rank);
    for (uint32_t w = 0; w < p->n_works; w++) {
        const orr_rendezvous_id *other = meeting_of(t, rank, &p->works[w]);
        if (other && other->grouping == m->grouping && other->ordinal == m->ordinal)
            return &p->works[w];
    }
    return NULL;
}

static int64_t naive_end_ns(const naive *n, uint32_t rank, const orr_sim_work *work)
{
    const toy *t = n->t;
    const orr_rendezvous_id *m = meeting_of(t, rank, work);
    int64_t start_ns = n->time_ns[rank][work->start], transfer_ns = work->duration_ns;
    const bool slowed = work->work_class == ORR_WORK_COMPUTE || work->work_class == ORR_WORK_MEMORY;
    if (slowed)
        transfer_ns = transfer_ns * t->slowdown_ppm[rank] / 1000000;
    const uint32_t *group_of = m ? t->groupings[m->grouping].group_of : NULL;
    for (uint32_t r = 0; m && group_of[rank] != ORR_NONE && r < t->ensemble.n_ranks; r++) {
        const orr_sim_work *other = group_of[r] == group_of[rank] ? counterpart(t, r, m) : NULL;
        if (other == NULL)
            continue;
        if (other->duration_ns < transfer_ns)
            transfer_ns = other->duration_ns;
        if (!n->alone && n->time_ns[r][other->start] > start_ns)
            start_ns = n->time_ns[r][other->start];
    }
    return start_ns + transfer_ns;
}

static bool raise(int64_t *time_ns, int64_t at_ns)
{
    const bool later = at_ns > *time_ns;
    if (later)
        *time_ns = at_ns;
    return later;
}

static void naive_play(naive *n)
{
    const toy *t = n->t;
    for (uint32_t r = 0; r < t->ensemble.n_ranks; r++)
        for (uint32_t p = 0; plays(t, r) && p < program_of(t, r)->n_points; p++) {
            const int64_t floor_ns = program_of(t, r)->floor_ns[p];
            n->time_ns[r][p] = t->start_ns[r] + (floor_ns > 0 ? floor_ns : 0);
        }
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t r = 0; r < t->ensemble.n_ranks; r++) {
            if (t->graph_of_rank[r] == ORR_NONE)
                continue;
            const orr_sim_program *p = program_of(t, r);
            for (uint32_t from = 0; from < p->n_points; from++)
                for (uint32_t i = p->edge_first[from]; i < p->edge_first[from + 1]; i++)
                    changed |= raise(&n->time_ns[r][p->edges[i].to],
                                     n->time_ns[r][from] + p->edges[i].lag_ns);
            for (uint32_t w = 0; w < p->n_works; w++)
                changed |= raise(&n->time_ns[r][p->works[w].end], naive_end_ns(n, r, &p->works[w]));
        }
    }
}

static void check_naive(uint64_t seed, const scene *c, naive *n)
{
    const toy *t = c->t;
    *n = (naive){.t = t};
    naive_play(n);
    for (uint32_t r = 0; r < c->n_ranks; r++) {
        if (t->graph_of_rank[r] == ORR_NONE)
            continue;
        for (uint32_t v = 0; v < program_of(t, r)->n_works; v++)
            if (toy_start(t, r, v) != n->time_ns[r][2 * v] ||
                toy_stop(t, r, v) != n->time_ns[r][2 * v + 1])
                seed_fail(seed, "rank %u node %u: [%lld, %lld), naively [%lld, %lld)", r, v,
                          (long long)toy_start(t, r, v), (long long)toy_stop(t, r, v),
                          (long long)n->time_ns[r][2 * v], (long long)n->time_ns[r][2 * v + 1]);
    }
}

static void check_conserved(uint64_t seed, const scene *c)
{
    const toy *t = c->t;
    uint64_t n_points = 0;
    for (uint32_t i = 0; i < t->sim.n_classes; i++)
        n_points += t->programs[t->sim.timelines[i].graph].n_points;
    if (t->sim.n_events != n_points)
        seed_fail(seed, "%llu of %llu points", (unsigned long long)t->sim.n_events,
                  (unsigned long long)n_points);
    for (uint32_t r = 0; r < c->n_ranks; r++) {
        if (t->graph_of_rank[r] == ORR_NONE)
            continue;
        const orr_graph *g = t->graphs[t->graph_of_rank[r]];
        int64_t lane_end[TOY_LANES] = {0};
        for (uint32_t v = 0; v < g->n_nodes; v++) {
            if (toy_start(t, r, v) < lane_end[g->lane[v]])
                seed_fail(seed, "rank %u node %u: starts before the lane is free", r, v);
            if (toy_stop(t, r, v) > t->sim.end_ns || toy_start(t, r, v) < t->sim.begin_ns)
                seed_fail(seed, "rank %u node %u: outside the simulation", r, v);
            lane_end[g->lane[v]] = toy_stop(t, r, v);
        }
    }
}

/* The longest chain of each rank, if it waited for nobody, is no longer than the whole. */
static void check_critical_path(uint64_t seed, const scene *c, naive *n)
{
    *n = (naive){.t = c->t, .alone = true};
    naive_play(n);
    for (uint32_t r = 0; r < c->n_ranks; r++)
        for (uint32_t p = 0; plays(c->t, r) && p < program_of(c->t, r)->n_points; p++)
            if (n->time_ns[r][p] > c->t->sim.end_ns)
                seed_fail(seed, "rank %u: a chain of %lld, the end is at %lld", r,
                          (long long)n->time_ns[r][p], (long long)c->t->sim.end_ns);
}

static void check_same(uint64_t seed, const scene *c, const orr_simulation *a)
{
    const toy *t = c->t;
    const orr_simulation *b = &t->sim;
    if (a->begin_ns != b->begin_ns || a->end_ns != b->end_ns)
        seed_fail(seed, "folded: another begin or end");
    for (uint32_t r = 0; r < c->n_ranks; r++) {
        if (t->graph_of_rank[r] == ORR_NONE)
            continue;
        const orr_timeline *x = &a->timelines[a->class_of_rank[r]];
        const orr_timeline *y = &b->timelines[b->class_of_rank[r]];
        const size_t bytes = t->graphs[x->graph]->n_nodes * sizeof *x->start_ns;
        if (x->graph != y->graph || memcmp(x->start_ns, y->start_ns, bytes) != 0 ||
            memcmp(x->duration_ns, y->duration_ns, bytes) != 0)
            seed_fail(seed, "folded: rank %u has other times", r);
    }
}

static void test_random_jobs(void **state)
{
    (void)state;
    const seed_range range = seeds(SEEDS);
    naive *n = orr_calloc(1, sizeof *n);
    uint64_t n_ranks = 0, n_classes = 0;
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        scene c = {0};
        build(&c, seed, 4, MAX_STEPS, 500);
        toy_simulate(c.t);
        check_naive(seed, &c, n);
        check_conserved(seed, &c);
        check_critical_path(seed, &c, n);
        const orr_simulation unfolded = c.t->sim;
        c.t->options.fold = true;
        toy_simulate(c.t);
        check_conserved(seed, &c);
        check_same(seed, &c, &unfolded);
        n_ranks += c.n_ranks;
        n_classes += c.t->sim.n_classes;
        toy_end(c.t);
    }
    orr_free(n);
    if (range.end - range.begin > 1) /* folding does happen */
        assert_true(n_classes * 2 < n_ranks);
}

/* A tree of up to four levels that has room for all ranks. */
static const orr_cluster *random_cluster(scene *c, orr_level levels[5], orr_cluster *cluster)
{
    *cluster = *toy_cluster();
    cluster->levels = levels;
    cluster->n_levels = 0;
    for (uint32_t devices = 1; devices < c->n_ranks || cluster->n_levels == 0;) {
        orr_level *level = &levels[cluster->n_levels++];
        *level = toy_cluster()->levels[1];
        level->size = 2 + (uint32_t)below(c, 4);
        if (cluster->n_levels == 4)
            level->size = MAX_RANKS;
        level->devices = devices *= level->size;
        level->bytes_per_s.value = 1e11 / cluster->n_levels;
        cluster->n_devices = devices;
    }
    return cluster;
}

/* The order of a group need not be that of its ranks. */
static void shuffle_groups(scene *c)
{
    for (uint32_t k = 0; k < c->t->ensemble.n_groupings; k++) {
        const orr_grouping *grouping = &c->t->groupings[k];
        uint32_t *members = (uint32_t *)grouping->members;
        for (uint32_t g = 0; g < grouping->n_groups; g++)
            for (uint32_t i = grouping->first[g]; i < grouping->first[g + 1]; i++) {
                const uint32_t j = i + (uint32_t)below(c, grouping->first[g + 1] - i);
                const uint32_t other = members[j];
                members[j] = members[i];
                members[i] = other;
            }
    }
}

/* Leaves every communication to the network. */
static void forget_transfers(toy *t)
{
    for (uint32_t g = 0; g < t->ensemble.n_graphs; g++)
        for (uint32_t w = 0; w < t->programs[g].n_works; w++) {
            orr_sim_work *work = (orr_sim_work *)&t->programs[g].works[w];
            const orr_comm *comm = orr_graph_comm(t->graphs[g], work->node);
            if (comm != NULL && orr_transfer_of(comm).bytes >= 0)
                work->duration_ns = -1;
        }
}

static void test_places(void **state)
{
    (void)state;
    const seed_range range = seeds(PLACED_SEEDS);
    uint64_t n_ranks = 0, n_classes = 0, n_other = 0;
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        scene c = {0};
        orr_cluster cluster;
        orr_level levels[5];
        build(&c, seed, 4, 12, 500);
        if (one_in(&c, 2))
            shuffle_groups(&c);
        c.t->options.fold = true;
        toy_simulate(c.t);
        const uint32_t n_recorded = c.t->sim.n_classes;
        c.t->options.cluster = random_cluster(&c, levels, &cluster);
        forget_transfers(c.t);
        toy_simulate(c.t);
        const orr_simulation folded = c.t->sim;
        c.t->options.fold = false;
        toy_simulate(c.t);
        check_same(seed, &c, &folded);
        n_ranks += c.n_ranks;
        n_classes += folded.n_classes;
        n_other += folded.n_classes != n_recorded;
        toy_end(c.t);
    }
    if (range.end - range.begin > 1) { /* there was something to fold, and places did matter */
        assert_true(n_classes * 3 < n_ranks * 2);
        assert_true(n_other * 20 > range.end - range.begin);
    }
}

/* The reference where rates change: what is left of each work, from ns to ns. */
typedef struct stepper {
    const toy *t;
    int64_t now_ns;
    bool settled[MAX_RANKS][2 * MAX_STEPS];
    int64_t time_ns[MAX_RANKS][2 * MAX_STEPS];
    enum { WAITS, RUNS, OVER } state[MAX_RANKS][MAX_STEPS];
    int64_t left[MAX_RANKS][MAX_STEPS], end_ns[MAX_RANKS][MAX_STEPS];
    int64_t ppm[2]; /* of computation, of communication */
} stepper;

static bool try_settle(stepper *s, uint32_t rank, orr_point_id p)
{
    const orr_sim_program *program = program_of(s->t, rank);
    const int64_t floor_ns = program->floor_ns[p] > 0 ? program->floor_ns[p] : 0;
    int64_t time_ns = s->t->start_ns[rank] + floor_ns;
    for (uint32_t from = 0; from < program->n_points; from++)
        for (uint32_t i = program->edge_first[from]; i < program->edge_first[from + 1]; i++) {
            if (program->edges[i].to != p)
                continue;
            if (!s->settled[rank][from])
                return false;
            raise(&time_ns, s->time_ns[rank][from] + program->edges[i].lag_ns);
        }
    if (p % 2 == 1) { /* the end of work p / 2 */
        if (s->state[rank][p / 2] != OVER)
            return false;
        raise(&time_ns, s->end_ns[rank][p / 2]);
    }
    s->settled[rank][p] = true;
    s->time_ns[rank][p] = time_ns;
    return true;
}

/* Who runs together: all members of the meeting, or the rank alone. Calls visit() for each; false
 * as soon as one visit says so. */
static bool together(stepper *s, uint32_t rank, uint32_t w,
                     bool (*visit)(stepper *s, uint32_t rank, uint32_t w))
{
    const orr_rendezvous_id *m = meeting_of(s->t, rank, &program_of(s->t, rank)->works[w]);
    const uint32_t *group_of = m ? s->t->groupings[m->grouping].group_of : NULL;
    if (m == NULL || group_of[rank] == ORR_NONE)
        return visit(s, rank, w);
    for (uint32_t r = 0; r < s->t->ensemble.n_ranks; r++) {
        const orr_sim_work *other = group_of[r] == group_of[rank] ? counterpart(s->t, r, m) : NULL;
        if (other != NULL && !visit(s, r, other->node))
            return false;
    }
    return true;
}

static bool has_arrived(stepper *s, uint32_t rank, uint32_t w)
{
    return s->settled[rank][2 * w] && s->time_ns[rank][2 * w] <= s->now_ns;
}

static uint8_t class_at(const stepper *s, uint32_t rank, uint32_t w)
{
    return program_of(s->t, rank)->works[w].work_class;
}

/* Nobody of the other class runs on the rank's device. */
static bool is_undisturbed(stepper *s, uint32_t rank, uint32_t w)
{
    const uint8_t class = class_at(s, rank, w);
    for (uint32_t v = 0; v < program_of(s->t, rank)->n_works; v++) {
        const uint8_t other = class_at(s, rank, v);
        if (s->state[rank][v] == RUNS && class != other && class != ORR_WORK_MEMORY &&
            other != ORR_WORK_MEMORY)
            return false;
    }
    return true;
}

/* Settle and begin what can be at this ns. */
static void begin_all(stepper *s)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t r = 0; r < s->t->ensemble.n_ranks; r++) {
            for (uint32_t p = 0; plays(s->t, r) && p < program_of(s->t, r)->n_points; p++)
                changed |= !s->settled[r][p] && try_settle(s, r, p);
            for (uint32_t w = 0; plays(s->t, r) && w < program_of(s->t, r)->n_works; w++) {
                if (s->state[r][w] != WAITS || !together(s, r, w, has_arrived))
                    continue;
                const orr_sim_work *work = &program_of(s->t, r)->works[w];
                const naive n = {.t = s->t};
                const int64_t ns = naive_end_ns(&n, r, work); /* of one that starts at 0 */
                s->left[r][w] = ns * s->ppm[work->work_class == ORR_WORK_COMM];
                s->end_ns[r][w] = s->now_ns;
                s->state[r][w] = ns > 0 ? RUNS : OVER;
                changed = true;
            }
        }
    }
}

/* One ns passes. Those of a meeting count down the same, each for itself. */
static bool step_once(stepper *s)
{
    static bool disturbed[MAX_RANKS][MAX_STEPS];
    bool any = false;
    for (uint32_t r = 0; r < s->t->ensemble.n_ranks; r++)
        for (uint32_t w = 0; plays(s->t, r) && w < program_of(s->t, r)->n_works; w++) {
            any |= s->state[r][w] != OVER;
            if (s->state[r][w] == RUNS)
                disturbed[r][w] = !together(s, r, w, is_undisturbed);
        }
    s->now_ns++;
    for (uint32_t r = 0; r < s->t->ensemble.n_ranks; r++)
        for (uint32_t w = 0; plays(s->t, r) && w < program_of(s->t, r)->n_works; w++) {
            if (s->state[r][w] != RUNS)
                continue;
            s->left[r][w] -= disturbed[r][w] ? 1000000 : s->ppm[class_at(s, r, w) == ORR_WORK_COMM];
            if (s->left[r][w] > 0)
                continue;
            s->state[r][w] = OVER;
            s->end_ns[r][w] = s->now_ns;
        }
    return any;
}

static void test_overlap(void **state)
{
    (void)state;
    const seed_range range = seeds(OVERLAP_SEEDS);
    stepper *s = orr_calloc(1, sizeof *s);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        scene c = {0};
        build(&c, seed, 2, 14, 60);
        toy *t = c.t;
        const int64_t ppm[2] = {1000000 + 50000 * below(&c, 10), 1000000 + 70001 * below(&c, 10)};
        for (uint32_t r = 0; r < c.n_ranks; r++)
            t->start_ns[r] /= 10;
        *s = (stepper){.t = t, .ppm = {ppm[0], ppm[1]}};
        do
            begin_all(s);
        while (step_once(s));
        t->options.compute_slowdown = 1e-6 * (double)ppm[0];
        t->options.comm_slowdown = 1e-6 * (double)ppm[1];
        for (int fold = 0; fold < 2; fold++) {
            t->options.fold = fold;
            toy_simulate(t);
            for (uint32_t r = 0; r < c.n_ranks; r++)
                for (uint32_t v = 0; plays(t, r) && v < program_of(t, r)->n_works; v++)
                    if (toy_start(t, r, v) != s->time_ns[r][2 * v] ||
                        toy_stop(t, r, v) != s->time_ns[r][2 * v + 1])
                        seed_fail(seed,
                                  "fold %d rank %u node %u: [%lld, %lld), by steps [%lld, "
                                  "%lld)",
                                  fold, r, v, (long long)toy_start(t, r, v),
                                  (long long)toy_stop(t, r, v), (long long)s->time_ns[r][2 * v],
                                  (long long)s->time_ns[r][2 * v + 1]);
        }
        toy_end(t);
    }
    orr_free(s);
}

static uint32_t count_unsettled(const stepper *s)
{
    uint32_t n = 0;
    for (uint32_t r = 0; r < s->t->ensemble.n_ranks; r++)
        for (uint32_t p = 0; plays(s->t, r) && p < program_of(s->t, r)->n_points; p++)
            n += !s->settled[r][p];
    return n;
}

/* Can all points be settled? Only whether, not when: in steps longer than any lag or floor. */
static bool can_finish(stepper *s)
{
    for (uint32_t before = UINT32_MAX; count_unsettled(s) < before;) {
        before = count_unsettled(s);
        s->now_ns += 10000;
        begin_all(s);
    }
    return count_unsettled(s) == 0;
}

static void test_deadlocks(void **state)
{
    (void)state;
    const seed_range range = seeds(CROSSED_SEEDS);
    stepper *s = orr_calloc(1, sizeof *s);
    uint64_t n_stuck = 0;
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        scene c = {.crossed = true};
        build(&c, seed, 2, 30, 1); /* all durations 0: all that can end does so at once */
        toy *t = c.t;
        *s = (stepper){.t = t};
        const bool finishes = can_finish(s);
        n_stuck += !finishes;
        for (int mode = 0; mode < 4; mode++) {
            t->options.fold = mode & 1;
            t->options.comm_slowdown = mode & 2 ? 1.5 : 1;
            const orr_status status = toy_try(t);
            if (status != (finishes ? ORR_OK : ORR_INVALID))
                seed_fail(seed, "mode %d: %s, naively %s", mode, orr_status_name(status),
                          finishes ? "it finishes" : "it does not");
            if (!finishes && strncmp(t->err.text, "deadlock: rank ", 15) != 0)
                seed_fail(seed, "mode %d: %s", mode, t->err.text);
            if (!finishes && strstr(t->err.text, "itself") != NULL)
                seed_fail(seed, "mode %d: %s", mode, t->err.text);
        }
        toy_end(t);
    }
    orr_free(s);
    if (range.end - range.begin > 1)
        assert_in_range(n_stuck, CROSSED_SEEDS / 20, CROSSED_SEEDS / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_jobs),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_deadlocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
