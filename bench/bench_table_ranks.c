/* SPDX-License-Identifier: Apache-2.0 */
/* A training step of sharded embedding tables among ranks of this machine, stage by stage: 8 tables
 * of 1M x 64 in fp32, bags of 100 lookups, batch 2048, row-wise Adagrad.
 *
 *   bench_table_ranks RANKS KIND [CODEC] [REPETITIONS]
 *
 * KIND: of sharding, as in plans; CODEC: of bags and gradients. A rank has one thread. Prints a
 * JSON line a repetition: wall and CPU time of rank 0 in each stage, and the bytes that it sent. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/philox.h"
#include "engine/ranks/launch.h"
#include "engine/tables/tables.h"

enum { TABLES = 8, ROWS = 1000000, COLUMNS = 64, POOL = 100, BATCH = 2048, RANKS_MAX = 8 };
enum { IDS, SUM, BAGS, GRADIENTS, UPDATE, STAGES };
static const char *const NAMES[] = {"ids", "sum", "bags", "gradients", "update"};

typedef struct bench {
    uint8_t kind, codec;
    int repetitions;
    orr_embedding tables[TABLES];
} bench;

typedef struct rank {
    orr_transport *transport;
    orr_tables *tables;
    int64_t samples;
    int32_t *lengths;
    int64_t *ids;
    float *bags, *gradient;
} rank;

static double clock_ms(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* Lookups of a rank's samples, drawn by sample: any number of ranks has the same batch. */
static void draw(rank *r, int step)
{
    int64_t *id = r->ids;
    for (uint64_t t = 0; t < TABLES; t++)
        for (int64_t s = 0; s < r->samples; s++) {
            const uint64_t sample = (uint64_t)(r->transport->rank * r->samples + s);
            orr_random random = orr_random_of((uint64_t)step, t << 32 | sample);
            for (int k = 0; k < POOL; k++)
                *id++ = (int64_t)orr_random_below(&random, ROWS);
        }
}

static orr_status run_stage(rank *r, int stage, int step, orr_error *err)
{
    const uint32_t slot = (uint32_t)step % ORR_TABLES_AHEAD;
    const orr_tables_batch batch = {r->lengths, r->ids};
    const orr_update by = {
        .rate = 0.01, .epsilon = 1e-8, .step = step + 1, .gradient_scale = 1.0 / BATCH};
    switch (stage) {
    case IDS:
        return orr_tables_exchange_ids(r->tables, slot, &batch, err);
    case SUM:
        return orr_tables_sum(r->tables, slot, r->bags, err);
    case BAGS:
        return orr_tables_exchange_bags(r->tables, slot, r->bags, err);
    case GRADIENTS:
        return orr_tables_exchange_gradients(r->tables, slot, r->gradient, err);
    default:
        return orr_tables_update(r->tables, slot, &by, err);
    }
}

/* Ranks begin a step together: each sends the next one a byte. */
static orr_status meet(rank *r, orr_error *err)
{
    const uint32_t n = r->transport->ranks, me = r->transport->rank;
    for (uint32_t round = 0; round < n; round++) {
        uint8_t there = 0, here = 1;
        const orr_exchange x = {.channel = 2,
                                .to = (me + 1) % n,
                                .from = (me + n - 1) % n,
                                .out = &here,
                                .in = &there,
                                .out_bytes = 1,
                                .in_bytes = 1};
        ORR_TRY(r->transport->exchange(r->transport, &x, err));
    }
    return ORR_OK;
}

static orr_status time_step(rank *r, int step, orr_error *err)
{
    double wall[STAGES + 1], cpu[STAGES + 1];
    draw(r, step);
    ORR_TRY(meet(r, err));
    for (int i = 0; i <= STAGES; i++) {
        wall[i] = clock_ms(CLOCK_MONOTONIC);
        cpu[i] = clock_ms(CLOCK_PROCESS_CPUTIME_ID);
        if (i < STAGES)
            ORR_TRY(run_stage(r, i, step, err));
    }
    if (r->transport->rank != 0)
        return ORR_OK;
    const orr_tables_traffic sent = orr_tables_traffic_of(r->tables);
    printf("{\"ranks\": %u", r->transport->ranks);
    for (int i = 0; i < STAGES; i++)
        printf(", \"%s_ms\": %.2f, \"%s_cpu_ms\": %.2f", NAMES[i], wall[i + 1] - wall[i], NAMES[i],
               cpu[i + 1] - cpu[i]);
    printf(", \"step_ms\": %.2f, \"step_cpu_ms\": %.2f, \"sent_mb\": [%.2f, %.2f, %.2f, %.2f]}\n",
           wall[STAGES] - wall[0], cpu[STAGES] - cpu[0], 1e-6 * (double)sent.ids,
           1e-6 * (double)sent.bags, 1e-6 * (double)sent.gradients, 1e-6 * (double)sent.squares);
    fflush(stdout);
    return ORR_OK;
}

/* Tables begin on ranks in turn. */
static orr_status plan_of(const bench *b, uint32_t ranks, orr_arena *arena, orr_embedding_plan *ret,
                          orr_error *err)
{
    static uint32_t rank_of[TABLES][RANKS_MAX];
    static orr_embedding_placement placements[TABLES];
    const bool by_column = b->kind == ORR_SHARDING_COLUMN || b->kind == ORR_SHARDING_GRID;
    for (uint32_t t = 0; t < TABLES; t++) {
        for (uint32_t i = 0; i < ranks; i++)
            rank_of[t][i] = (t + i) % ranks;
        placements[t] =
            (orr_embedding_placement){.sharding = b->kind,
                                      .columns = by_column ? ranks : 1,
                                      .ranks = rank_of[t],
                                      .n_ranks = b->kind == ORR_SHARDING_DATA    ? 0
                                                 : b->kind == ORR_SHARDING_TABLE ? 1
                                                                                 : ranks};
    }
    *ret = (orr_embedding_plan){.ranks = ranks,
                                .groups = 1,
                                .forward = b->codec,
                                .backward = b->codec,
                                .n_tables = TABLES,
                                .tables = b->tables,
                                .placements = placements};
    return orr_embedding_plan_shard(ret, arena, err);
}

static orr_status run_rank(void *ctx, orr_transport *transport, orr_error *err)
{
    const bench *b = ctx;
    rank r = {.transport = transport, .samples = BATCH / transport->ranks};
    orr_arena *arena = orr_arena_new(0, 0);
    const size_t numbers = (size_t)r.samples * TABLES * COLUMNS;
    orr_embedding_plan plan;
    orr_status status;
    ORR_TRY_OUT(status, plan_of(b, transport->ranks, arena, &plan, err));
    const orr_tables_source source = {.plan = &plan,
                                      .transport = transport,
                                      .channels = {0, 1},
                                      .samples = r.samples,
                                      .seed = 1,
                                      .trained = true};
    ORR_TRY_OUT(status, orr_tables_open(&source, &r.tables, err));
    r.lengths = malloc(TABLES * (size_t)r.samples * sizeof *r.lengths);
    r.ids = malloc(TABLES * POOL * (size_t)r.samples * sizeof *r.ids);
    r.bags = malloc(numbers * sizeof *r.bags);
    r.gradient = malloc(numbers * sizeof *r.gradient);
    if (r.lengths == NULL || r.ids == NULL || r.bags == NULL || r.gradient == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    for (int64_t i = 0; i < TABLES * r.samples; i++)
        r.lengths[i] = POOL;
    for (size_t i = 0; i < numbers; i++)
        r.gradient[i] = 0.01f * (float)(i % 101) - 0.5f;
    for (int i = 0; i < b->repetitions && status == ORR_OK; i++)
        status = time_step(&r, i, err);
out:
    orr_tables_close(r.tables);
    orr_arena_free(arena);
    free(r.lengths);
    free(r.ids);
    free(r.bags);
    free(r.gradient);
    return status;
}

static uint8_t kind_of(const char *name)
{
    uint8_t kind = 0;
    while (kind < ORR_SHARDINGS && strcmp(orr_embedding_sharding_name(kind), name) != 0)
        kind++;
    return kind;
}

static uint8_t codec_of(const char *name)
{
    uint8_t codec = 0;
    while (codec < ORR_EMBEDDING_CODECS && strcmp(orr_embedding_codec_name(codec), name) != 0)
        codec++;
    return codec;
}

int main(int argc, char **argv)
{
    static char names[TABLES][8];
    const int ranks = argc > 1 ? atoi(argv[1]) : 1;
    bench b = {.kind = kind_of(argc > 2 ? argv[2] : "table"),
               .codec = codec_of(argc > 3 ? argv[3] : "fp32"),
               .repetitions = argc > 4 ? atoi(argv[4]) : 11};
    orr_error err = {0};
    if (ranks < 1 || ranks > RANKS_MAX || BATCH % ranks != 0 || b.kind == ORR_SHARDINGS ||
        b.codec == ORR_EMBEDDING_CODECS) {
        fprintf(stderr, "bench_table_ranks RANKS KIND [CODEC] [REPETITIONS]\n");
        return 2;
    }
    for (int t = 0; t < TABLES; t++) {
        snprintf(names[t], sizeof names[t], "t%d", t);
        b.tables[t] = (orr_embedding){.name = names[t],
                                      .rows = ROWS,
                                      .columns = COLUMNS,
                                      .pooling = POOL,
                                      .optimizer = ORR_ROW_OPTIMIZER_ROWWISE_ADAGRAD};
    }
    if (orr_ranks_run((uint32_t)ranks, ORR_RANKS_SHM, 0, run_rank, &b, &err) == ORR_OK)
        return 0;
    fprintf(stderr, "%s\n", err.text);
    return 1;
}
