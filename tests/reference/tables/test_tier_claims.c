/* SPDX-License-Identifier: Apache-2.0 */
#include "../../unit/outcome/catalog_jobs.h"

#include <stdio.h>

#include <orrery/table_planner.h>

/* What is published of tables beyond memory, against what follows from the catalogue: MTrainS needs
 * 4 to 8 times fewer nodes (Kassa et al., arXiv 2305.01515), Software Defined Memory saves 5 to 29
 * % of power (Ardestani et al., arXiv 2110.11489). Of both papers the abstracts alone are known
 * here: hosts, models and targets are assumed, and nothing is fitted. docs/recommendation.md has
 * what comes out; each figure has to move when what it rests on does. */
enum { BATCH = 65536, LOOKAHEAD = 2 };

/* --- MTrainS ---------------------------------------------------------------------------------- */

/* A host of the catalogue, with what is asked of it here: HBM counts as memory of the rank beside
 * its share of the host's. */
typedef struct training_host {
    const orr_cluster *cluster;
    orr_tier_rates tiers[ORR_TIERS]; /* of a rank */
} training_host;

static training_host host_of(plan_world *w, bool storage)
{
    training_host h = {.cluster = world_cluster(w, "mtrains_host")};
    world_must(w, orr_tiers_of_host(h.cluster, 8, w->arena, h.tiers, &w->err), "tiers");
    h.tiers[ORR_TIER_DRAM].bytes += (int64_t)orr_fact_or(&h.cluster->device->memory_bytes, NAN);
    for (int k = ORR_TIER_BYTE; k < ORR_TIERS && !storage; k++)
        h.tiers[k].bytes = 0;
    return h;
}

/* Samples a second of so many hosts; 0: the tables do not fit. Dense layers: three times the FLOPs
 * of a sample at 40 % of TF32's peak (assumed). */
static double rate_of(plan_world *w, const training_host *h, const orr_model *model, uint32_t hosts,
                      orr_table_planning *ret)
{
    const orr_calibration *calibration;
    const uint32_t ranks = 8 * hosts;
    orr_tier_options tiers = {.lookahead = LOOKAHEAD};
    orr_table_planner_options o;
    const double dense_ns = 1e9 * 3 * orr_model_flops(model, 1, false) * BATCH / ranks /
                            (0.4 * h->cluster->device->peak_flops[ORR_DTYPE_TF32].value);
    orr_table_planner_options_init(&o);
    o.tables = model->dlrm.tables;
    o.n_tables = model->dlrm.n_tables;
    o.ranks = ranks;
    o.samples = BATCH / ranks;
    o.nodes = 1000;
    o.gap_frac = 0.05;
    memcpy(tiers.tier, h->tiers, sizeof tiers.tier);
    tiers.hidden_ns = dense_ns;
    world_must(w, orr_calibration_of(h->cluster->device, 0, w->arena, &calibration, &w->err),
               "calibration");
    world_must(w,
               orr_table_costs_of_cluster(h->cluster, calibration, ranks, w->arena, &o.costs,
                                          &o.host_ranks, &w->err),
               "rates");
    world_must(w, orr_tier_options_fill(&o, ORR_POPULARITY_META_2021, w->arena, &tiers, &w->err),
               "curves");
    o.tiers = &tiers;
    world_must(w, orr_plan_tables(&o, w->arena, ret, &w->err), model->name);
    return ret->infeasible != NULL ? 0
                                   : 1e9 * BATCH / (ret->ns + ret->tiering->stall_ns + dense_ns);
}

/* The fewest hosts, a power of two, whose memory or storage holds the tables. */
static uint32_t fewest_hosts(plan_world *w, const training_host *h, const orr_model *model,
                             double *ret_rate)
{
    for (uint32_t hosts = 1; hosts <= 16; hosts *= 2) {
        orr_table_planning planning;
        *ret_rate = rate_of(w, h, model, hosts, &planning);
        if (*ret_rate > 0)
            return hosts;
    }
    return 0;
}

static void fewer_nodes_train_larger_tables(void **state)
{
    (void)state;
    static const char *const models[] = {"dlrm-a", "dlrm-f"};
    for (size_t m = 0; m < 2; m++) {
        plan_world w;
        world_open(&w);
        const orr_model *model = world_model(&w, models[m]);
        const training_host memory = host_of(&w, false);
        training_host storage = host_of(&w, true);
        double rate, target;
        const uint32_t before = fewest_hosts(&w, &memory, model, &target);
        const uint32_t after = fewest_hosts(&w, &storage, model, &rate);
        print_message("%s: %u hosts by memory alone, %.3g M samples/s; %u with storage, %.3g M\n",
                      model->name, before, target / 1e6, after, rate / 1e6);
        assert_true(after > 0 && (before == 0 || after <= before));
        for (uint32_t hosts = after; hosts <= 16; hosts *= 2) {
            orr_table_planning p;
            const double r = rate_of(&w, &storage, model, hosts, &p);
            print_message("  %2u hosts: %.3g M samples/s, fetch %.3g ms, stall %.3g ms; %.1f times "
                          "fewer hosts, %.3g of the rate\n",
                          hosts, r / 1e6, p.tiering->fetch_ns / 1e6, p.tiering->stall_ns / 1e6,
                          (double)before / hosts, target > 0 ? r / target : 0);
            assert_true(r > 0);
        }
        /* Slower drives stall more; half of them may not hold the tables. */
        orr_table_planning fast, slow;
        (void)rate_of(&w, &storage, model, after, &fast);
        for (int k = ORR_TIER_BYTE; k < ORR_TIERS; k++) {
            storage.tiers[k].read_iops /= 4;
            storage.tiers[k].read_bytes_per_s /= 4;
            storage.tiers[k].write_iops /= 4;
            storage.tiers[k].write_bytes_per_s /= 4;
            storage.tiers[k].request_ns *= 4;
        }
        (void)rate_of(&w, &storage, model, after, &slow);
        if (fast.tiering->fetch_ns > 0)
            assert_true(slow.tiering->fetch_ns > 2 * fast.tiering->fetch_ns);
        world_close(&w);
    }
}

/* --- Software Defined Memory ------------------------------------------------------------------ */

static orr_host_serving serving_of(plan_world *w, const char *host, double memory_gib,
                                   const orr_model *model)
{
    orr_tier_rates tiers[ORR_TIERS];
    const orr_cluster *cluster = world_cluster(w, host);
    orr_host_serving v;
    world_must(w, orr_tiers_of_host(cluster, 1, w->arena, tiers, &w->err), host);
    tiers[ORR_TIER_DRAM].bytes = (int64_t)(memory_gib * 0x1p30);
    const orr_host_serving_question q = {.model = model, .cluster = cluster, .tiers = tiers};
    world_must(w, orr_host_serving_of(&q, w->arena, &v, &w->err), host);
    return v;
}

/* How many times as many hosts memory has to ask for as samples do, so that drives save this share
 * of power: hosts without drives that are idle for the rest of the time, against as many hosts with
 * drives as samples ask for. */
static double hosts_to_save(const orr_host_serving *whole, const orr_host_serving *v,
                            double saved_frac)
{
    const double per_sample = v->power_w / v->samples_per_s;
    const double busy = (whole->power_w - whole->idle_w) / whole->samples_per_s;
    return (per_sample / (1 - saved_frac) - busy) * whole->samples_per_s / whole->idle_w;
}

static void drives_save_power_where_memory_sets_the_hosts(void **state)
{
    (void)state;
    static const char *const hosts[] = {"sdm_nand_host", "sdm_optane_host"};
    plan_world w;
    world_open(&w);
    const orr_model *model = world_model(&w, "dlrm-dcnv2");
    /* 98 GB of tables on hosts of 64 GiB: two hosts by memory, one with drives. */
    const orr_host_serving whole = serving_of(&w, "sdm_dram_host", 256, model);
    assert_null(whole.infeasible);
    for (size_t h = 0; h < 2; h++) {
        const orr_host_serving v = serving_of(&w, hosts[h], 64, model);
        assert_null(v.infeasible);
        const double none = hosts_to_save(&whole, &v, 0), low = hosts_to_save(&whole, &v, 0.05),
                     high = hosts_to_save(&whole, &v, 0.29);
        print_message(
            "%s: %.0f samples/s by the %s (%.0f in memory), hit rate %.4f, %.2f J per 1000 "
            "samples (%.2f); 5 to 29 %% of power saved where memory asks for %.2f to %.2f "
            "times the hosts that samples ask for, nothing below %.2f\n",
            hosts[h], v.samples_per_s, orr_serving_limit_name((orr_serving_limit)v.bound_by),
            whole.samples_per_s, v.hit_frac, v.joules_per_1k, whole.joules_per_1k, low, high, none);
        assert_true(none > 1); /* as many hosts, and drives beside: more power */
        assert_true(low > none && high > low && high < 3);
        assert_true(v.hit_frac > 0.5 && v.hit_frac < 1);
        assert_true(v.samples_per_s < whole.samples_per_s);
    }
    /* Less memory means more reads, and fewer samples. */
    const orr_host_serving some = serving_of(&w, hosts[0], 64, model),
                           less = serving_of(&w, hosts[0], 16, model);
    assert_null(less.infeasible);
    assert_true(less.reads[ORR_TIER_BLOCK] > some.reads[ORR_TIER_BLOCK]);
    assert_true(less.samples_per_s <= some.samples_per_s);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fewer_nodes_train_larger_tables),
        cmocka_unit_test(drives_save_power_where_memory_sets_the_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
