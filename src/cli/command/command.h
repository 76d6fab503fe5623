/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_COMMAND_COMMAND_H
#define ORR_CLI_COMMAND_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include <orrery/orrery.h>

/* Exit codes of the command. */
enum {
    EXIT_DONE = 0,
    EXIT_CONDITION = 1, /* a --fail-if condition, a fault that validate found, a search cut short */
    EXIT_USAGE = 2,
    EXIT_INPUT = 3,      /* unreadable or invalid input, or an output that could not be written */
    EXIT_INFEASIBLE = 4, /* a plan, a machine or a job that cannot be: the reason is printed */
};

/* What the options of the command line say, with their defaults filled in. */
enum { ORR_TEXTS_MAX = 17 }; /* of an option that is given several times; NULL after the last */
typedef struct orr_settings {
    const char *format, *output, *html, *only, *step, *annotation, *from, *to, *fail_if, *color,
        *op, *path;
    /* machines and costs */
    const char *kind, *cluster, *cost, *device, *seed, *overheads;
    /* what if */
    const char *gpu, *network, *algorithm, *scale, *remove, *without_stragglers, *overlap,
        *host_speed, *launch_latency, *straggler, *message_bytes, *batch, *traced, *traced_network,
        *plan, *trace, *unprofiled;
    /* jobs nobody has run */
    const char *model, *task, *expert_load, *placement, *detail, *calibration, *framework, *mixed,
        *slow_link, *ranks_as_trace, *documents;
    int64_t prompt, generated, lora_rank, images, software;
    /* ASTRA-sim's inputs */
    const char *astra_system, *astra_network, *astra_mode, *comm_groups, *workload;
    int64_t queues_per_dim;
    /* models that run here */
    const char *data, *tokenizer, *init, *export_to, *save, *record, *rate, *least_rate,
        *rate_schedule, *clip, *decay, *reward, *reference, *machine, *transport, *dpo_beta,
        *ppo_clip, *kl;
    int64_t steps, warmup, save_every, record_steps;
    const char *temperature, *top_p, *quantize, *system, *expert_trace, *group, *routes,
        *move_bytes;
    int64_t top_k, context, concurrent, rebalance;
    /* what failures cost */
    const char *gpus, *failures, *timing, *policy, *replica_counts, *set, *tokens, *tokens_per_step;
    int64_t spares, days, repetitions;
    bool sensitivity;
    bool of_jobs; /* hw: what jobs reach */
    bool new_file, force; /* hw: a cluster of one's own */
    const char *per_host, *link, *buildings, *distance;
    /* the best arrangement */
    const char *starts[ORR_TEXTS_MAX];
    const char *fix, *limit, *no, *allow, *objective, *front, *min_gpus, *seq, *gap, *balance,
        *time_limit, *store, *baselines, *dimensions, *price, *deadline, *step_limit, *solve,
        *within, *against, *what_if, *network_flows;
    int64_t max_buildings, keep, network_draws;
    bool exact, effects;
    /* embedding tables over ranks */
    const char *memory, *kinds, *forward, *backward, *popularity;
    int64_t pipeline, groups, synchronize;
    bool padded_bags;
    /* experts over ranks */
    const char *running, *dead, *horizon, *step_bytes, *placement_format, *hold_out, *phase;
    int64_t slots, expert_groups, windows;
    bool even_layers, keep_warm_up;
    /* rows of embedding tables in storage */
    const char *store_bytes, *table_memory, *byte_store, *cache_policy, *row_writes, *byte_device,
        *tiers;
    int64_t lookahead;
    /* models that serve */
    const char *weights, *count, *queue, *max_samples, *max_lookups, *max_body, *max_connections,
        *qps, *for_time, *request, *pooled_memory, *table_iops, *device_iops, *warm, *frames,
        *drive, *connect;
    bool dequantize;
    /* teams */
    const char *team, *replica, *address, *failure_timeout, *outage_timeout, *rate_policy, *listen, *log, *etcd,
        *metrics, *key, *encrypt;
    int64_t replicas, least, catch_up_steps;
    bool no_shared_memory, stay, insecure, standby;
    /* recordings as benchmarks */
    const char *begin, *end, *subtree, *part, *skip, *extract;
    const char *rank_list; /* ranks of a recorded job; of generated Chakra files, how many */
    const char *storage;   /* a folder whose device is measured */
    int64_t warm_up, iterations;
    int64_t message_size, runtime_us; /* of generated Chakra files */
    bool resume, predict, check, chat, fp32, quick, strict, obfuscate, counters;
    int64_t rank, threads, top, ranks;
    bool tolerant, all, normalise, csv_safe, quiet, verbose, help, version, explain, cuda_graph, compare,
        unfolded, contention, emit;
    /* what is left: the inputs */
    const char *const *args;
    size_t n_args;
} orr_settings;

/* A subcommand: one row of the table in command.c, one file. */
typedef struct orr_command {
    const char *name;
    const char *summary;   /* one line */
    const char *arguments; /* of the usage line: "TRACE..." */
    const char *details;   /* paragraphs of --help and the man page */
    const char *examples;  /* lines, each a command */
    const char *common;    /* " plan cluster ": the options that most runs give, in that order */
    size_t min_args, max_args;
    int (*run)(const orr_settings *settings);
} orr_command;

extern const orr_command orr_commands[];
extern const size_t orr_commands_n;
const orr_command *orr_command_find(const char *name); /* NULL: none */

/* Man page and completions, from the tables. */
int orr_command_completion(const orr_settings *settings);
int orr_command_analyze(const orr_settings *settings);
int orr_command_bench(const orr_settings *settings);
int orr_command_chakra(const orr_settings *settings);
int orr_command_compare(const orr_settings *settings);
int orr_command_convert(const orr_settings *settings);
int orr_command_coordinator(const orr_settings *settings);
int orr_command_demo(const orr_settings *settings);
int orr_command_diff(const orr_settings *settings);
int orr_command_explore(const orr_settings *settings);
int orr_command_experts(const orr_settings *settings);
int orr_command_export(const orr_settings *settings);
int orr_command_fit(const orr_settings *settings);
int orr_command_fleet(const orr_settings *settings);
int orr_command_generate(const orr_settings *settings);
int orr_command_hw(const orr_settings *settings);
int orr_command_info(const orr_settings *settings);
int orr_command_models(const orr_settings *settings);
int orr_command_ops(const orr_settings *settings);
int orr_command_diagnose(const orr_settings *settings);
int orr_command_predict(const orr_settings *settings);
int orr_command_replay(const orr_settings *settings);
int orr_command_score(const orr_settings *settings);
int orr_command_serve_tables(const orr_settings *settings);
int orr_command_simulate(const orr_settings *settings);
int orr_command_sql(const orr_settings *settings);
int orr_command_synthesize(const orr_settings *settings);
int orr_command_tables(const orr_settings *settings);
int orr_command_team(const orr_settings *settings);
int orr_command_train(const orr_settings *settings);
int orr_command_validate(const orr_settings *settings);

#endif /* ORR_CLI_COMMAND_COMMAND_H */
