/* SPDX-License-Identifier: Apache-2.0 */
#include "report/table/renamed.h"

#include <string.h>

const orr_renamed_column orr_renamed_columns[] = {
    {"orrery.benchmark_operators/1", "mode", "how"},
    {"orrery.benchmark_operators/1", "operator", "operator_name"},
    {"orrery.benchmark_operators/1", "reason", "why"},
    {"orrery.expected/1", "measured", "seen"},
    {"orrery.expected_operators/1", "operator", "operator_name"},
    {"orrery.explore_alternatives/1", "break_even", "wins_with"},
    {"orrery.explore_alternatives/1", "differences", "differs"},
    {"orrery.explore_alternatives/1", "excess_frac", "over_best_frac"},
    {"orrery.explore_alternatives/1", "largest_penalty", "pays_for"},
    {"orrery.explore_alternatives/1", "penalty_ns", "pays_ns"},
    {"orrery.explore_alternatives/1", "place", "rank"},
    {"orrery.explore_alternatives/1", "step_change_ns", "slower_ns"},
    {"orrery.explore_baselines/1", "excess_frac", "over_best_frac"},
    {"orrery.explore_baselines/1", "infeasible_reason", "why_not"},
    {"orrery.explore_front/1", "changes_numerics", "other_numerics"},
    {"orrery.explore_front/1", "effective_time_frac", "effective_frac"},
    {"orrery.explore_front/1", "excess_frac", "over_best_frac"},
    {"orrery.explore_front/1", "place", "rank"},
    {"orrery.explore_front/1", "plan_bound_ns", "bound_ns"},
    {"orrery.explore_limits/1", "bottleneck", "limit"},
    {"orrery.explore_needs/1", "factor_value", "at"},
    {"orrery.explore_needs/1", "place", "rank"},
    {"orrery.explore_plans/1", "changes_numerics", "other_numerics"},
    {"orrery.explore_plans/1", "effective_time_frac", "effective_frac"},
    {"orrery.explore_plans/1", "excess_frac", "over_best_frac"},
    {"orrery.explore_plans/1", "place", "rank"},
    {"orrery.explore_plans/1", "plan_bound_ns", "bound_ns"},
    {"orrery.explore_search/1", "space_frac", "of_space_frac"},
    {"orrery.explore_search/1", "stage", "what"},
    {"orrery.findings/1", "property", "what"},
    {"orrery.fit_errors/1", "predicted_samples", "answered"},
    {"orrery.fleet_policies/1", "effective_incl_spares_frac", "with_spares_frac"},
    {"orrery.fleet_policies/1", "p5_days", "days_low"},
    {"orrery.fleet_policies/1", "p5_frac", "low_frac"},
    {"orrery.fleet_policies/1", "p95_days", "days_high"},
    {"orrery.fleet_policies/1", "p95_frac", "high_frac"},
    {"orrery.fleet_policies/1", "policy_kind", "way"},
    {"orrery.fleet_policies/1", "reconfigurations_per_day", "epochs_per_day"},
    {"orrery.fleet_policies/1", "spare_shortages_per_day", "spares_short_per_day"},
    {"orrery.hw_cuts/1", "aggregate_bytes_per_s", "whole_bytes_per_s"},
    {"orrery.hw_devices/1", "fp16_tflops", "half_tflops"},
    {"orrery.hw_transport/1", "level", "where"},
    {"orrery.hw_transport/1", "load_balancing", "balance"},
    {"orrery.measured_kernels/1", "operator", "operator_name"},
    {"orrery.model_parameters/1", "active_parameters", "active"},
    {"orrery.model_parameters/1", "parameters_each", "each"},
    {"orrery.model_parameters/1", "share_frac", "of_all_frac"},
    {"orrery.models/1", "active_parameters", "active"},
    {"orrery.moved/1", "change_ns", "moved_ns"},
    {"orrery.moved/1", "step_frac", "of_step_frac"},
    {"orrery.network_effects/1", "in_published_range", "within"},
    {"orrery.network_effects/1", "method", "how"},
    {"orrery.network_effects/1", "same_direction", "direction"},
    {"orrery.network_effects/1", "simulated", "ours"},
    {"orrery.predicted_links/1", "instance", "unit"},
    {"orrery.recordings/1", "repaired_faults", "faults"},
    {"orrery.recordings/1", "unlaunched_kernels", "orphans"},
    {"orrery.replay_causes/1", "events", "moments"},
    {"orrery.replay_differences/1", "edge", "moment"},
    {"orrery.replay_differences/1", "simulated_gap_ns", "replayed_gap_ns"},
    {"orrery.replay_error/1", "simulated_ns", "replayed_ns"},
    {"orrery.replay_error/1", "worst_event", "worst"},
    {"orrery.run_operators/1", "operator", "operator_name"},
    {"orrery.training/1", "learning_rate", "rate"},
};
const size_t orr_renamed_columns_n = sizeof orr_renamed_columns / sizeof *orr_renamed_columns;

static const struct {
    const char *now, *before;
} tables[] = {
    {"memory_options", "relief"}, {"waterfall_change", "moved"}, {"bottlenecks", "limits"},
    {"break_even", "needs"},      {"pareto_front", "front"},
};

const char *orr_renamed_column_before(const char *schema, const char *now)
{
    for (size_t i = 0; schema != NULL && i < orr_renamed_columns_n; i++)
        if (strcmp(orr_renamed_columns[i].schema, schema) == 0 &&
            strcmp(orr_renamed_columns[i].now, now) == 0)
            return orr_renamed_columns[i].before;
    return NULL;
}

const char *orr_renamed_table_before(const char *now)
{
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (strcmp(tables[i].now, now) == 0)
            return tables[i].before;
    return NULL;
}
