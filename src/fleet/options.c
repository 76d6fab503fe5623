/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/closest.h"
#include "base/units.h"
#include "io/yaml/yaml.h"
#include "fleet/fleet.h"

#define DAY_NS             86400000000000.0
#define LONGEST_BETWEEN_NS 3600e9 /* checkpoints of a team that seldom rolls back: assumed */
#define LONGEST_LIFE       ((int64_t)1 << 62) /* limit in replica-ns */
enum { RANKS_A = 16384, RANKS_B = 98304 };

static const char *const TIME_WORDS[] = {
#define NAME_(name, word, about) word,
    ORR_FLEET_TIME_MAP(NAME_)
#undef NAME_
};
static const char *const NUMBER_WORDS[] = {
#define NAME_(name, word, about) word,
    ORR_FLEET_NUMBER_MAP(NAME_)
#undef NAME_
};
static const char *const COUNT_WORDS[] = {"gpus_per_node", "nodes_per_rack", "racks_per_building"};
enum { COUNTS = 3 };

const char *orr_fleet_recovery_name(orr_fleet_recovery way)
{
    static const char *const names[] = {
#define NAME_(name, text) text,
        ORR_FLEET_POLICY_MAP(NAME_)
#undef NAME_
    };
    return names[way];
}

const char *orr_fleet_loss_name(orr_fleet_loss loss)
{
    static const char *const names[] = {
#define NAME_(name, text) text,
        ORR_FLEET_LOSS_MAP(NAME_)
#undef NAME_
    };
    return names[loss];
}

void orr_fleet_options_init(orr_fleet_options *options, const orr_failures *failures,
                            const orr_fleet_timing *timing)
{
    *options = (orr_fleet_options){.struct_bytes = sizeof *options,
                                   .gpus = 98304,
                                   .gpus_per_node = 8,
                                   .nodes_per_rack = 4,
                                   .racks_per_building = 768, /* 24,576 GPUs */
                                   .failures = failures,
                                   .horizon_ns = 90 * (int64_t)DAY_NS,
                                   .tokens_per_step = 16e6,
                                   .repetitions = 20,
                                   .seed = 1};
    memcpy(options->times, timing->times, sizeof options->times);
    for (int i = 0; i < ORR_FLEET_NUMBERS; i++)
        options->numbers[i] = (orr_fact){.value = NAN, .source = "", .note = ""};
    options->numbers[ORR_FLEET_RATE] = failures->rate;
    options->numbers[ORR_FLEET_PLANNED] = failures->planned;
    options->numbers[ORR_FLEET_LEMONS] = failures->lemons;
    options->numbers[ORR_FLEET_LEMON_FACTOR] = failures->lemon_factor;
    options->numbers[ORR_FLEET_RACKS] = failures->racks;
    options->numbers[ORR_FLEET_BUILDINGS] = failures->buildings;
    options->numbers[ORR_FLEET_SLOWDOWN] = timing->slowdown;
    options->numbers[ORR_FLEET_RETRIED] = timing->retried;
}

/* --- "detect=30s,rate=2.3" -------------------------------------------------------------------- */

static const char SAID[] = "said for this run";

static int find(const char *const *words, int n, const char *word)
{
    for (int i = 0; i < n; i++)
        if (strcmp(words[i], word) == 0)
            return i;
    return -1;
}

static orr_status fail_word(const char *word, orr_error *err)
{
    const char *all[ORR_FLEET_TIMES + ORR_FLEET_NUMBERS + COUNTS + 1];
    size_t n = 0;
    for (int i = 0; i < ORR_FLEET_TIMES; i++)
        all[n++] = TIME_WORDS[i];
    for (int i = 0; i < ORR_FLEET_NUMBERS; i++)
        all[n++] = NUMBER_WORDS[i];
    for (int i = 0; i < COUNTS; i++)
        all[n++] = COUNT_WORDS[i];
    all[n++] = "interval";
    const char *close = orr_closest_match(word, all, n);
    return close != NULL
               ? orr_fail(err, ORR_INVALID, "no setting '%.80s'; did you mean '%s'?", word, close)
               : orr_fail(err, ORR_INVALID,
                          "no setting '%.80s'; the table of settings names them all", word);
}

static orr_status set_number(orr_fleet_options *o, int which, const char *text, orr_error *err)
{
    const orr_yaml scalar = {.text = text, .file = ""};
    double value;
    if (orr_yaml_number(&scalar, &value, NULL) != ORR_OK || !(value >= 0 && value <= 1e9))
        return orr_fail(err, ORR_INVALID, "%s: '%.80s' is not a number from 0 on",
                        NUMBER_WORDS[which], text);
    o->numbers[which] =
        (orr_fact){.value = value, .basis = ORR_FACT_ASSUMED, .source = SAID, .note = ""};
    return ORR_OK;
}

static orr_status set_count(orr_fleet_options *o, int which, const char *text, orr_error *err)
{
    uint32_t *const counts[COUNTS] = {&o->gpus_per_node, &o->nodes_per_rack,
                                      &o->racks_per_building};
    uint64_t value;
    ORR_TRY(orr_parse_count(text, &value, err));
    if (value < 1 || value > 1 << 20)
        return orr_fail(err, ORR_INVALID, "%s: %s is not from 1 to 1,048,576", COUNT_WORDS[which],
                        text);
    *counts[which] = (uint32_t)value;
    return ORR_OK;
}

static orr_status set_one(orr_fleet_options *o, const char *word, const char *text, orr_error *err)
{
    const int time = find(TIME_WORDS, ORR_FLEET_TIMES, word);
    const int number = find(NUMBER_WORDS, ORR_FLEET_NUMBERS, word);
    const int count = find(COUNT_WORDS, COUNTS, word);
    orr_fleet_time parsed;
    if (number >= 0)
        return set_number(o, number, text, err);
    if (count >= 0)
        return set_count(o, count, text, err);
    if (time < 0 && strcmp(word, "interval") != 0)
        return fail_word(word, err);
    const orr_status status = orr_fleet_time_parse(text, &parsed, err);
    if (status != ORR_OK) {
        orr_error_prefix(err, word);
        return status;
    }
    if (time >= 0)
        o->times[time] = (orr_fleet_duration){
            .time = parsed, .basis = ORR_FACT_ASSUMED, .source = SAID, .note = ""};
    else if (parsed.shape == ORR_FLEET_CONSTANT)
        o->interval_ns = parsed.a_ns;
    else
        return orr_fail(err, ORR_INVALID, "interval: one time, as 18min");
    return ORR_OK;
}

/* Length of a setting: up to a comma outside of parentheses. */
static size_t item_len(const char *at)
{
    size_t n = 0;
    for (int depth = 0; at[n] != '\0' && (at[n] != ',' || depth > 0); n++)
        depth += (at[n] == '(') - (at[n] == ')');
    return n;
}

orr_status orr_fleet_set(orr_fleet_options *options, const char *text, orr_arena *arena,
                         orr_error *err)
{
    orr_fleet_options made = *options;
    for (const char *at = text; *at != '\0';) {
        const size_t len = item_len(at);
        char *item = orr_arena_strndup(arena, at, len);
        if (item == NULL)
            return orr_fail_memory(err);
        char *equals = strchr(item, '=');
        if (equals == NULL)
            return orr_fail(err, ORR_INVALID, "'%.80s' is no setting: write detect=30s,rate=2.3",
                            item);
        *equals = '\0';
        ORR_TRY(set_one(&made, item, equals + 1, err));
        at += len + (at[len] == ',');
    }
    *options = made;
    return ORR_OK;
}

/* --- derived values -------------------------------------------------------------------------- */

uint32_t orr_fleet_nodes(const orr_fleet_options *options)
{
    return options->gpus / options->gpus_per_node;
}

double orr_fleet_mtbf_ns(double rate, uint32_t nodes)
{
    return rate > 0 && nodes > 0 ? 1000 * DAY_NS / rate / nodes : INFINITY;
}

int64_t orr_fleet_init_ns(const orr_fleet_options *options, uint32_t ranks)
{
    const double a = (double)orr_fleet_time_mean_ns(&options->times[ORR_FLEET_INIT_16K].time);
    const double b = (double)orr_fleet_time_mean_ns(&options->times[ORR_FLEET_INIT_98K].time);
    if (a <= 0 || b <= 0)
        return (int64_t)(ranks >= RANKS_B ? b : a);
    const double power = log(b / a) / log((double)RANKS_B / RANKS_A);
    const double ns = a * pow((double)ranks / RANKS_A, power);
    return ns < 1e18 ? llround(ns) : (int64_t)1e18;
}

/* Rate of all events that stop a job of one replica, per ns. */
static double stops_per_ns(const orr_fleet_options *o)
{
    const uint32_t nodes = orr_fleet_nodes(o);
    const double rate = o->interval_ns > 0
                            ? 1 / (double)o->interval_ns
                            : 1 / orr_fleet_mtbf_ns(orr_fleet_number(o, ORR_FLEET_RATE), nodes);
    const uint32_t racks = (nodes + o->nodes_per_rack - 1) / o->nodes_per_rack;
    const uint32_t buildings = (racks + o->racks_per_building - 1) / o->racks_per_building;
    return rate + 1 / orr_fleet_mtbf_ns(orr_fleet_number(o, ORR_FLEET_RACKS), racks) +
           1 / orr_fleet_mtbf_ns(orr_fleet_number(o, ORR_FLEET_BUILDINGS), buildings);
}

/* Mean time from a failure to being back in the team. */
static double recovery_ns(const orr_fleet_options *o, uint32_t replicas)
{
    static const orr_fleet_times parts[] = {ORR_FLEET_DETECT, ORR_FLEET_SCHEDULE, ORR_FLEET_START,
                                            ORR_FLEET_REBUILD, ORR_FLEET_FETCH};
    double ns = (double)orr_fleet_init_ns(o, (o->gpus + replicas - 1) / replicas);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        ns += (double)orr_fleet_time_mean_ns(&o->times[parts[i]].time);
    return ns;
}

/* J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM 1974. A team
 * rolls back when one replica fails while all others are recovering, each with probability 1 -
 * exp(-its failures in that time). */
int64_t orr_fleet_checkpoint_ns(const orr_fleet_options *options, const orr_fleet_policy *policy)
{
    const int64_t said = orr_fleet_time_mean_ns(&options->times[ORR_FLEET_CHECKPOINT].time);
    const double save = (double)orr_fleet_time_mean_ns(&options->times[ORR_FLEET_SAVE].time);
    const uint32_t replicas = policy->replicas > 1 ? policy->replicas : 1;
    double restarts = stops_per_ns(options);
    double longest = (double)options->horizon_ns;
    if (said > 0)
        return said;
    if (policy->recovery == ORR_FLEET_FT) {
        const double down = -expm1(-restarts / replicas * recovery_ns(options, replicas));
        restarts *= pow(down, replicas - 1.0);
        longest = fmin(longest, LONGEST_BETWEEN_NS);
    }
    return llround(fmin(sqrt(2 * save / restarts), longest));
}

/* --- checks ---------------------------------------------------------------------------------- */

static orr_status check_cluster(const orr_fleet_options *o, orr_error *err)
{
    if (o->gpus_per_node == 0 || o->nodes_per_rack == 0 || o->racks_per_building == 0)
        return orr_fail(err, ORR_INVALID, "a node, a rack, a building of nothing");
    if (o->gpus < o->gpus_per_node || o->gpus % o->gpus_per_node != 0)
        return orr_fail(err, ORR_INVALID, "%u GPUs are no whole number of nodes of %u", o->gpus,
                        o->gpus_per_node);
    if (o->gpus > 1u << 24)
        return orr_fail(err, ORR_INVALID, "%u GPUs, of at most 16,777,216", o->gpus);
    if (orr_fleet_time_mean_ns(&o->times[ORR_FLEET_STEP].time) < 1000000 ||
        (o->times[ORR_FLEET_STEP].time.shape == ORR_FLEET_UNIFORM &&
         o->times[ORR_FLEET_STEP].time.a_ns == 0))
        return orr_fail(err, ORR_INVALID, "a step of less than 1 ms");
    if (o->interval_ns > 0 && o->interval_ns < 1000000000)
        return orr_fail(err, ORR_INVALID, "failures at a distance of less than 1 s");
    if (o->interval_ns == 0 && o->numbers[ORR_FLEET_RATE].basis == ORR_FACT_UNKNOWN)
        return orr_fail(err, ORR_INVALID,
                        "%s: no rate of failures is known; say one (rate=6.5 per "
                        "1,000 node-days)",
                        o->failures->name);
    return ORR_OK;
}

/* Limits events to 4 a second, so that a simulation ends. */
static orr_status check_rates(const orr_fleet_options *o, orr_error *err)
{
    const uint32_t nodes = orr_fleet_nodes(o);
    const double stops =
        stops_per_ns(o) + 1 / orr_fleet_mtbf_ns(orr_fleet_number(o, ORR_FLEET_PLANNED), nodes);
    if (stops * 1e9 > 4)
        return orr_fail(err, ORR_INVALID, "%.3g failures a second: no job lives so", stops * 1e9);
    if (orr_fleet_number(o, ORR_FLEET_LEMONS) > 1)
        return orr_fail(err, ORR_INVALID, "lemons: a share, up to 1");
    if (orr_fleet_number(o, ORR_FLEET_RETRIED) > 1)
        return orr_fail(err, ORR_INVALID, "retried: a share, up to 1");
    if (orr_fleet_number(o, ORR_FLEET_SLOWDOWN) > 1000)
        return orr_fail(err, ORR_INVALID, "slowdown: more than a thousandfold");
    return ORR_OK;
}

orr_status orr_fleet_check(const orr_fleet_options *o, const orr_fleet_policy *policy,
                           orr_error *err)
{
    ORR_TRY(check_cluster(o, err));
    ORR_TRY(check_rates(o, err));
    if (o->horizon_ns <= 0 ||
        o->horizon_ns > LONGEST_LIFE / (policy->replicas > 0 ? policy->replicas : 1))
        return orr_fail(err, ORR_INVALID,
                        "a job of %u replicas lives for 1 ns to %.0f days: what it "
                        "does is counted in 64 bits",
                        policy->replicas, (double)LONGEST_LIFE / policy->replicas / DAY_NS);
    if (o->tokens < 0 || !isfinite(o->tokens) || (o->tokens > 0 && !(o->tokens_per_step > 0)))
        return orr_fail(err, ORR_INVALID, "tokens, and tokens of a step: above 0");
    if (policy->recovery >= ORR_FLEET_RECOVERIES)
        return orr_fail(err, ORR_INVALID, "no such policy");
    const uint32_t least = policy->recovery == ORR_FLEET_FT ? 2 : 1;
    const uint32_t most = policy->recovery == ORR_FLEET_FT ? ORR_FLEET_REPLICAS : 1;
    if (policy->replicas < least || policy->replicas > most)
        return orr_fail(err, ORR_INVALID, "%s with %u replicas: from %u to %u",
                        orr_fleet_recovery_name((orr_fleet_recovery)policy->recovery),
                        policy->replicas, least, most);
    if (policy->replicas > orr_fleet_nodes(o))
        return orr_fail(err, ORR_INVALID, "%u replicas of %u nodes", policy->replicas,
                        orr_fleet_nodes(o));
    if (policy->spares > 1u << 20)
        return orr_fail(err, ORR_INVALID, "%u spares are too many", policy->spares);
    return ORR_OK;
}
