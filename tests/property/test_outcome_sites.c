/* SPDX-License-Identifier: Apache-2.0 */
#include "../unit/outcome/catalog_jobs.h"
#include "support/seeds.h"

#include "model/plan/plan.h"

#include <stdio.h>

/* Small models in random plans over two to four sites of unequal size, some of them with other
 * devices:
 *
 *   - the step is the same to the ns for ranks folded and not, and the waterfall adds up to it;
 *   - what crosses the cuts is what axes say they send, as far as it has to leave a site;
 *   - sites that are equal, and joined alike, are the same to the ns as a tree of levels;
 *   - a cut that costs what the level below costs is no cut;
 *   - more bandwidth between sites, or a shorter distance, never makes it longer; a link of a site
 *     at less bandwidth, or a straggler, never shorter;
 *   - a plan that says nothing of sites, and lies on them the same way, is the same;
 *   - sections that deal layers as they are dealt anyway change nothing. */
enum { SEEDS = 120, HOST = 4, HOSTS_MAX = 12, N_DEVICES = 3 };

typedef struct scene {
    plan_world w;
    uint64_t seed;
    orr_random random;
    const orr_model *model;
    orr_calibration plain;
    orr_job_options options;
    char plan[400];
    orr_plan parsed;
    uint32_t n_sites, units[ORR_SITES_MAX], unit_ranks;
    orr_level levels[4];
    uint32_t ends[ORR_SITES_MAX];
    orr_site sites[ORR_SITES_MAX];
    orr_site_link cuts[ORR_SITE_LINKS_MAX];
    orr_cluster cluster;
} scene;

static uint32_t below(scene *s, uint32_t n)
{
    return (uint32_t)orr_random_below(&s->random, n);
}

static void add(scene *s, const char *text)
{
    const size_t n = strlen(s->plan);
    snprintf(s->plan + n, sizeof s->plan - n, "%s%s", n > 0 && *text ? "," : "", text);
}

static void add_number(scene *s, const char *name, uint32_t value)
{
    char text[48];
    snprintf(text, sizeof text, "%s=%u", name, value);
    add(s, text);
}

#define ONE_OF(s, ...)                                                                             \
    ((const char *const[]){__VA_ARGS__})[below((s), sizeof((const char *const[]){__VA_ARGS__}) /   \
                                                        sizeof(const char *))]

/* Units of sites: replicas, or stages. Equal where it is asked for. */
static uint32_t choose_units(scene *s, uint32_t most, bool equal)
{
    uint32_t sum = 0;
    s->n_sites = 2 + below(s, 3);
    for (uint32_t i = 0; i < s->n_sites; i++) {
        s->units[i] = equal && i > 0 ? s->units[0] : 1 + below(s, most);
        sum += s->units[i];
    }
    return sum;
}

static void say_units(scene *s, uint32_t times)
{
    char text[80] = "sites=";
    for (uint32_t t = 0, n = 0; t < times; t++)
        for (uint32_t i = 0; i < s->n_sites; i++, n++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%u", n ? "-" : "",
                     s->units[i]);
    add(s, text);
}

/* Replicas cross: perhaps in outer parts that sites have whole ones of, inside another axis. */
static void cross_with_replicas(scene *s, bool equal)
{
    const uint32_t tp = 1U << below(s, 3), cp = 1U << below(s, 2), pp = 1U << below(s, 2);
    const uint32_t block = below(s, 3) == 0 ? 2 : 1;
    uint32_t dp = choose_units(s, 3, equal) * block;
    for (uint32_t i = 0; i < s->n_sites; i++)
        s->units[i] *= block;
    s->unit_ranks = tp * cp * pp;
    add_number(s, "tp", tp);
    add_number(s, "cp", cp);
    add_number(s, "pp", pp);
    add_number(s, "dp", dp);
    say_units(s, 1);
    if (block > 1) {
        add_number(s, "dp_outer", dp / block);
        add(s, ONE_OF(s, "", "order=tp-cp-dp-pp", "order=dp-pp-tp-cp", "local_steps=5"));
    }
    add_number(s, "micro_batches", pp + below(s, 4));
}

/* Stages cross, perhaps twice over. */
static void cross_with_stages(scene *s, bool equal)
{
    const uint32_t tp = 1U << below(s, 3), inner = 1 + below(s, 3);
    const uint32_t pp = choose_units(s, 2, equal);
    const uint32_t outer = s->n_sites < 4 && below(s, 3) == 0 ? 2 : 1;
    s->unit_ranks = tp * inner;
    add_number(s, "tp", tp);
    add_number(s, "pp", pp);
    add_number(s, "dp", inner * outer);
    add_number(s, "dp_outer", outer);
    add(s, "cross=pp");
    say_units(s, outer);
    for (uint32_t i = 0; outer > 1 && i < s->n_sites; i++)
        s->units[i + s->n_sites] = s->units[i];
    s->n_sites *= outer;
    add(s, ONE_OF(s, "", "schedule=gpipe", "schedule=zb_h1"));
    add_number(s, "micro_batches", pp + below(s, 4));
}

static void choose_plan(scene *s, bool equal)
{
    const bool moe = below(s, 3) == 0;
    s->model = world_model(&s->w, moe ? "mixtral-8x7b" : "llama3.2-1b");
    add(s, "layers=8,seq=512");
    if (below(s, 2) == 0)
        cross_with_replicas(s, equal);
    else
        cross_with_stages(s, equal);
    if (moe)
        add(s, ONE_OF(s, "", "ep=2,etp=1", "ep=4,etp=1", "ep=2"));
    add(s, ONE_OF(s, "", "zero=1", "zero=2", "zero=3", "zero=1,shards=2"));
    add(s, ONE_OF(s, "", "recompute=full", "overlap_dp=off", "overlap_pp=off", "overlap_tp=on"));
    add(s, ONE_OF(s, "", "", "dp_algorithm=hierarchical", "dp_chunks=4", "compress=fp8",
                  "wire_dp=qp16,wire_pp=single", "compress=bf16,dp_algorithm=ring"));
}

static const char *const DEVICES[N_DEVICES] = {"h100_sxm_80g", "a100_sxm_80g", "b200_sxm_180g"};

static orr_fact assumed(double value)
{
    return (orr_fact){.value = value, .basis = ORR_FACT_ASSUMED, .source = "test", .note = ""};
}

/* Hosts of four, in sites as large as the plan asks or larger, all pairs alike. */
static void choose_cluster(scene *s, bool mixed, bool larger)
{
    const orr_cluster *like = world_cluster(&s->w, "dgx_h100_pod");
    uint32_t most = 0, end = 0;
    for (uint32_t i = 0; i < s->n_sites; i++) {
        uint32_t devices = s->units[i] * s->unit_ranks;
        devices = larger ? (devices + HOST - 1) / HOST * HOST + HOST * below(s, 2) : devices;
        const char *device = DEVICES[mixed ? below(s, N_DEVICES) : 0];
        s->sites[i] = (orr_site){.name = "",
                                 .region = "",
                                 .devices = devices,
                                 .device = orr_catalog_device(s->w.catalog, device)};
        most = devices > most ? devices : most;
        s->ends[i] = end += devices;
    }
    s->levels[0] = like->levels[0];
    s->levels[0].size = s->levels[0].devices = most < HOST ? most : HOST;
    s->levels[1] = like->levels[1];
    s->levels[1].size = (most - 1) / s->levels[0].devices + 1;
    s->levels[1].devices = most;
    bool regular = s->sites[0].devices % s->levels[0].devices == 0;
    for (uint32_t i = 0; i < s->n_sites; i++)
        regular &= s->sites[i].devices == most;
    s->levels[1].ends = regular ? NULL : s->ends;
    s->levels[2] = s->levels[1];
    s->levels[2].bytes_per_s = assumed(20e9);
    s->levels[2].latency_ns = assumed(100e3);
    s->levels[2].oversubscription = assumed(2);
    s->levels[2].size = s->n_sites;
    s->levels[2].devices = end;
    s->levels[2].ends = NULL;
    for (uint32_t a = 0; a < s->n_sites; a++)
        for (uint32_t b = a + 1; b < s->n_sites; b++)
            s->cuts[s->cluster.n_cuts++] =
                (orr_site_link){.a = a,
                                .b = b,
                                .km = assumed(1),
                                .price_per_gb = assumed(0),
                                .bytes_per_s = s->levels[2].bytes_per_s,
                                .latency_ns = s->levels[2].latency_ns,
                                .oversubscription = s->levels[2].oversubscription};
    s->cluster.name = "sites";
    s->cluster.device = s->sites[0].device;
    s->cluster.n_devices = end;
    s->cluster.n_levels = 3;
    s->cluster.levels = s->levels;
    s->cluster.source = s->cluster.notes = "";
    s->cluster.n_sites = s->n_sites;
    s->cluster.site_level = 1;
    s->cluster.sites = s->sites;
    s->cluster.cuts = s->cuts;
}

static orr_status status_of(scene *s, orr_outcome *o)
{
    return orr_outcome_of(s->model, &s->parsed, &s->cluster, &s->options, s->w.arena, o, &s->w.err);
}

static void outcome(scene *s, orr_outcome *o)
{
    if (status_of(s, o) != ORR_OK)
        seed_fail(s->seed, "%.260s: %.300s", s->plan, s->w.err.text);
    if (waterfall_sum(o) != o->step_ns)
        seed_fail(s->seed, "%s: the waterfall does not add up", s->plan);
    for (int part = 0; part < ORR_WATERFALLS; part++)
        if (o->waterfall_ns[part] < 0)
            seed_fail(s->seed, "%s: %s takes %lld ns", s->plan,
                      orr_waterfall_name((orr_waterfall)part), (long long)o->waterfall_ns[part]);
}

static int64_t step_ns(scene *s)
{
    orr_outcome o;
    outcome(s, &o);
    const int64_t ns = o.step_ns;
    orr_outcome_free(&o);
    return ns;
}

/* Some plans cannot be, and say so. */
static bool open_scene(scene *s, uint64_t seed, bool equal, bool mixed, bool larger)
{
    orr_outcome o;
    memset(s, 0, sizeof *s);
    world_open(&s->w);
    s->seed = seed;
    s->random = orr_random_of(seed, 7);
    s->plain = world_plain(&s->w, world_cluster(&s->w, "dgx_h100_pod"));
    choose_plan(s, equal);
    choose_cluster(s, mixed, larger);
    orr_job_options_init(&s->options);
    s->options.calibration = &s->plain;
    s->options.detail = ORR_DETAIL_CHUNK;
    s->parsed = world_plan(&s->w, s->plan);
    const orr_status status = status_of(s, &o);
    if (status == ORR_OK)
        orr_outcome_free(&o);
    else if (status != ORR_UNSUPPORTED && status != ORR_INVALID)
        seed_fail(seed, "%.260s: %.300s", s->plan, s->w.err.text);
    return status == ORR_OK;
}

static void for_all(void (*check)(scene *s), bool equal, bool mixed, bool larger)
{
    const seed_range range = seeds(SEEDS);
    uint64_t were = 0;
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        scene s;
        if (open_scene(&s, seed, equal, mixed, larger)) {
            check(&s);
            were++;
        }
        world_close(&s.w);
    }
    assert_true(range.end - range.begin == 1 || were > SEEDS / 2);
}

/* --- folded ---------------------------------------------------------------------------------- */

static void same_use(const scene *s, const orr_outcome *a, const orr_outcome *b)
{
    if (a->n_axes != b->n_axes || a->n_cuts != b->n_cuts)
        seed_fail(s->seed, "%s: %u axes and %u cuts folded, %u and %u each", s->plan, a->n_axes,
                  a->n_cuts, b->n_axes, b->n_cuts);
    for (uint32_t i = 0; i < a->n_axes; i++)
        if (a->axes[i].busy_ns != b->axes[i].busy_ns ||
            a->axes[i].exposed_ns != b->axes[i].exposed_ns)
            seed_fail(s->seed, "%s: %s is busy and exposed otherwise when folded", s->plan,
                      orr_axis_name((orr_axis)a->axes[i].axis));
    for (uint32_t i = 0; i < a->n_cuts; i++)
        if (a->cuts[i].a != b->cuts[i].a || a->cuts[i].b != b->cuts[i].b ||
            a->cuts[i].axis != b->cuts[i].axis ||
            fabs(a->cuts[i].bytes / b->cuts[i].bytes - 1) > 1e-9 ||
            llabs(a->cuts[i].busy_ns - b->cuts[i].busy_ns) > 1 ||
            llabs(a->cuts[i].exposed_ns - b->cuts[i].exposed_ns) > 1)
            seed_fail(s->seed, "%s: cut %u-%u, %s: %g bytes folded, %g each", s->plan, a->cuts[i].a,
                      a->cuts[i].b, orr_axis_name((orr_axis)a->cuts[i].axis), a->cuts[i].bytes,
                      b->cuts[i].bytes);
}

static uint32_t n_alike; /* seeds with one rank a kind */

static void check_folds(scene *s)
{
    orr_outcome folded, each;
    s->plain.compute_slowdown = 1.07;
    outcome(s, &folded);
    s->options.fold = false;
    outcome(s, &each);
    if (folded.step_ns != each.step_ns)
        seed_fail(s->seed, "%s: %lld folded, %lld each", s->plan, (long long)folded.step_ns,
                  (long long)each.step_ns);
    for (int part = 0; part < ORR_WATERFALLS; part++)
        if (folded.waterfall_ns[part] != each.waterfall_ns[part])
            seed_fail(s->seed, "%s: %s %lld folded, %lld each", s->plan,
                      orr_waterfall_name((orr_waterfall)part), (long long)folded.waterfall_ns[part],
                      (long long)each.waterfall_ns[part]);
    if (memcmp(folded.basis_ns, each.basis_ns, sizeof each.basis_ns) != 0)
        seed_fail(s->seed, "%s: what times rest on differs when folded", s->plan);
    if (fabs(folded.energy_j / each.energy_j - 1) > 1e-9)
        seed_fail(s->seed, "%s: %g J folded, %g each", s->plan, folded.energy_j, each.energy_j);
    same_use(s, &folded, &each);
    n_alike += folded.ensemble->multiplicity != NULL;
    orr_outcome_free(&folded);
    orr_outcome_free(&each);
}

static void the_step_is_the_same_folded(void **state)
{
    (void)state;
    n_alike = 0;
    for_all(check_folds, false, true, true);
    assert_true(n_alike > SEEDS / 4 || getenv("ORRERY_SEED") != NULL);
}

/* --- cuts ------------------------------------------------------------------------------------ */

static const orr_axis_use *use_of(const orr_outcome *o, uint8_t axis)
{
    for (uint32_t i = 0; i < o->n_axes; i++)
        if (o->axes[i].axis == axis)
            return &o->axes[i];
    return NULL;
}

/* No more crosses than is sent, and a group that has members on every site sends so much of it. */
static void check_axis(const scene *s, const orr_outcome *o, uint8_t axis)
{
    const orr_axis_use *use = use_of(o, axis);
    double crosses = 0;
    for (uint32_t i = 0; i < o->n_cuts; i++)
        crosses += o->cuts[i].axis == axis ? o->cuts[i].bytes : 0;
    const double sent = use != NULL ? use->bytes * o->n_ranks : 0;
    if (crosses > sent * (1 + 1e-9))
        seed_fail(s->seed, "%s: %s sends %g bytes, and %g cross", s->plan,
                  orr_axis_name((orr_axis)axis), sent, crosses);
    const bool all = o->plan.cross == ORR_CROSS_DP && o->plan.local_steps <= 1 &&
                     o->plan.compress <= ORR_COMPRESS_NONE && axis == ORR_AXIS_GRADIENT;
    const uint32_t n = o->plan.dp * o->plan.cp;
    const double frac = o->plan.dp_algorithm == ORR_ALGORITHM_HIERARCHICAL
                            ? (s->n_sites - 1.0) / (n - 1.0)
                            : (double)s->n_sites / n;
    if (all && use != NULL && fabs(crosses / (sent * frac) - 1) > 1e-9)
        seed_fail(s->seed, "%s: of %g bytes of gradients %g cross, not %g", s->plan, sent, crosses,
                  sent * frac);
}

/* Each boundary that lies between two sites, there and back, for each micro-batch. */
static double boundary_bytes(const scene *s, const orr_outcome *o)
{
    const orr_plan *p = &o->plan;
    const double tokens = (double)p->seq / p->cp / (p->sp == ORR_SWITCH_ON ? p->tp : 1);
    uint32_t boundaries = 0;
    for (uint32_t i = 0, stage = 0; i < s->n_sites; i++) {
        stage += s->units[i];
        boundaries += stage % p->pp != 0;
    }
    const double pairs = (double)o->n_ranks / p->pp / orr_plan_degree(p->dp_outer);
    return boundaries * pairs * 2 * p->micro_batches * p->micro_batch * tokens * o->model->hidden *
           2;
}

static void check_cuts(scene *s)
{
    orr_outcome o;
    double stages = 0;
    outcome(s, &o);
    for (uint8_t axis = 0; axis < ORR_AXES; axis++)
        check_axis(s, &o, axis);
    for (uint32_t i = 0; i < o.n_cuts; i++) {
        stages += o.cuts[i].axis == ORR_AXIS_PP ? o.cuts[i].bytes : 0;
        if (o.cuts[i].busy_ns <= 0 || o.cuts[i].exposed_ns < 0 || !(o.cuts[i].utilisation_frac > 0))
            seed_fail(s->seed, "%s: a cut that is not used", s->plan);
    }
    const double want = o.plan.cross == ORR_CROSS_PP ? boundary_bytes(s, &o) : 0;
    if (fabs(stages - want) > 1e-6 * want)
        seed_fail(s->seed, "%s: %g bytes between stages cross, not %g", s->plan, stages, want);
    orr_outcome_free(&o);
}

static void what_crosses_is_what_is_sent(void **state)
{
    (void)state;
    for_all(check_cuts, false, true, true);
}

/* --- levels ---------------------------------------------------------------------------------- */

/* In a tree the first group of an axis stands for all: no group may be cut by a boundary that
 * others are not cut by. */
static bool all_groups_alike(const scene *s)
{
    const orr_plan p = orr_plan_with_defaults(&s->parsed);
    const uint32_t replicas = p.cross == ORR_CROSS_DP ? s->units[0] : orr_plan_dp_inner(&p);
    const uint32_t experts = p.ep * p.etp, ranks = p.tp * p.cp * replicas;
    const uint32_t shards = p.zero > 0 ? p.shards : 1, gradients = p.cp * replicas;
    return (ranks % experts == 0 || experts % ranks == 0) &&
           (gradients % shards == 0 || shards % gradients == 0);
}

/* The same machine without any word of sites. Cut hosts are no tree; and nothing is compressed
 * where there is no cut. */
static void check_tree(scene *s)
{
    if (s->sites[0].devices % s->levels[0].devices != 0 || !all_groups_alike(s) ||
        s->parsed.compress > ORR_COMPRESS_NONE)
        return;
    const int64_t sites = step_ns(s);
    s->cluster.n_sites = s->cluster.n_cuts = 0;
    s->parsed = orr_plan_with_defaults(&s->parsed);
    s->parsed.cross = 0;
    memset(s->parsed.sites, 0, sizeof s->parsed.sites);
    const int64_t tree = step_ns(s);
    if (sites != tree)
        seed_fail(s->seed, "%s: %lld ns over sites, %lld in a tree", s->plan, (long long)sites,
                  (long long)tree);
}

static void equal_sites_are_a_level(void **state)
{
    (void)state;
    for_all(check_tree, true, false, false);
}

static void set_cuts(scene *s, const orr_level *like, double bandwidth, double latency)
{
    orr_level *level = &s->levels[s->cluster.n_levels - 1];
    level->bytes_per_s = assumed(like->bytes_per_s.value * bandwidth);
    level->latency_ns = assumed(like->latency_ns.value * latency);
    level->oversubscription = like->oversubscription;
    for (uint32_t i = 0; i < s->cluster.n_cuts; i++) {
        s->cuts[i].bytes_per_s = level->bytes_per_s;
        s->cuts[i].latency_ns = level->latency_ns;
        s->cuts[i].oversubscription = level->oversubscription;
    }
}

/* Another level changes where rings and trees turn, and nothing else. */
static void check_free_cut(scene *s)
{
    if (s->parsed.compress > ORR_COMPRESS_NONE || s->parsed.dp_algorithm > 0 ||
        s->parsed.dp_chunks > 1 || s->parsed.wire_pp > 0 ||
        s->sites[0].devices % s->levels[0].devices != 0 || !all_groups_alike(s))
        return;
    set_cuts(s, &s->levels[1], 1, 1);
    const int64_t sites = step_ns(s);
    s->cluster.n_sites = s->cluster.n_cuts = 0;
    s->cluster.n_levels = 2;
    s->levels[1].devices = s->cluster.n_devices;
    s->levels[1].size = s->cluster.n_devices / s->levels[0].devices;
    s->parsed = orr_plan_with_defaults(&s->parsed);
    s->parsed.cross = 0;
    memset(s->parsed.sites, 0, sizeof s->parsed.sites);
    const int64_t one = step_ns(s);
    if (llabs(sites - one) > one / 50)
        seed_fail(s->seed, "%s: %lld ns over sites, %lld in one", s->plan, (long long)sites,
                  (long long)one);
}

static void a_cut_like_the_level_below_is_none(void **state)
{
    (void)state;
    for_all(check_free_cut, true, false, false);
}

static void check_monotone(scene *s)
{
    const orr_level cut = s->levels[2];
    const int64_t before = step_ns(s);
    set_cuts(s, &cut, 2, 1);
    const int64_t wider = step_ns(s);
    set_cuts(s, &cut, 1, 0.5);
    const int64_t nearer = step_ns(s);
    if (wider > before || nearer > before)
        seed_fail(s->seed, "%s: %lld ns, %lld with twice the bandwidth, %lld at half the distance",
                  s->plan, (long long)before, (long long)wider, (long long)nearer);
}

static uint32_t n_slowed; /* seeds with which the slow link showed */

/* A site whose links out of it have four fifths of their bandwidth (less would make them a network
 * of its own to cost/collective/collective.h), and a rank that is slow. */
static void check_odd(scene *s)
{
    const int64_t before = step_ns(s);
    const orr_slow_link slow = {.level = 1, .unit = below(s, s->n_sites), .bandwidth_frac = 0.8};
    const orr_heterogeneous_ranks heterogeneous = {
        .first = below(s, s->unit_ranks), .count = 1, .slowdown = 1.3};
    s->options.slow = &slow;
    s->options.n_slow = 1;
    const int64_t slowed = step_ns(s);
    n_slowed += slowed > before;
    s->options.heterogeneous = &heterogeneous;
    s->options.n_heterogeneous = 1;
    const int64_t both = step_ns(s);
    s->options.fold = false;
    const int64_t each = step_ns(s);
    if (slowed < before || both < slowed || each != both)
        seed_fail(s->seed, "%s: %lld ns, %lld with a slow link, %lld with a straggler, %lld each",
                  s->plan, (long long)before, (long long)slowed, (long long)both, (long long)each);
}

static void odd_ranks_and_links_never_help(void **state)
{
    (void)state;
    n_slowed = 0;
    for_all(check_odd, false, true, false);
    assert_true(n_slowed > SEEDS / 4 || getenv("ORRERY_SEED") != NULL);
}

static void wider_and_nearer_never_hurt(void **state)
{
    (void)state;
    for_all(check_monotone, false, true, true);
}

/* --- sections -------------------------------------------------------------------------------- */

/* A plan that says nothing of sites, and lies on all of them the same way. */
static void check_unsaid(scene *s)
{
    orr_outcome said, unsaid;
    outcome(s, &said);
    s->parsed = orr_plan_with_defaults(&s->parsed);
    s->parsed.cross = 0;
    memset(s->parsed.sites, 0, sizeof s->parsed.sites);
    outcome(s, &unsaid);
    if (said.step_ns != unsaid.step_ns)
        seed_fail(s->seed, "%s: %lld ns, %lld with sites unsaid", s->plan, (long long)said.step_ns,
                  (long long)unsaid.step_ns);
    same_use(s, &said, &unsaid);
    orr_outcome_free(&said);
    orr_outcome_free(&unsaid);
}

static void sites_may_be_left_unsaid(void **state)
{
    (void)state;
    for_all(check_unsaid, false, true, false);
}

/* One section a stage, with the layers that the stage has anyway. */
static void check_sections(scene *s)
{
    const orr_plan plan = orr_plan_with_defaults(&s->parsed);
    const uint32_t pp = plan.pp, rest = plan.layers % pp, first = (pp - rest + 1) / 2;
    if (pp > ORR_PLAN_PARTS)
        return;
    s->parsed.first_layers = plan.layers / pp + (first == 0); /* as evenly as the sections below */
    s->parsed.last_layers = pp > 1 ? plan.layers / pp + (first + rest >= pp) : 0;
    const int64_t before = step_ns(s);
    s->parsed.first_layers = s->parsed.last_layers = 0;
    for (uint32_t i = 0; i < pp; i++) {
        s->parsed.section_stages[i] = 1;
        s->parsed.section_layers[i] =
            (uint16_t)(plan.layers / pp + (i >= first && i < first + rest));
    }
    const int64_t after = step_ns(s);
    if (after != before)
        seed_fail(s->seed, "%s: %lld ns, with sections that say the same %lld", s->plan,
                  (long long)before, (long long)after);
}

static void sections_as_dealt_change_nothing(void **state)
{
    (void)state;
    for_all(check_sections, false, true, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_step_is_the_same_folded),
        cmocka_unit_test(what_crosses_is_what_is_sent),
        cmocka_unit_test(equal_sites_are_a_level),
        cmocka_unit_test(a_cut_like_the_level_below_is_none),
        cmocka_unit_test(wider_and_nearer_never_hurt),
        cmocka_unit_test(odd_ranks_and_links_never_help),
        cmocka_unit_test(sites_may_be_left_unsaid),
        cmocka_unit_test(sections_as_dealt_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
