/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MEASURE_EMBEDDING_TABLES_H
#define ORR_MEASURE_EMBEDDING_TABLES_H

#include <orrery/measure.h>

#include "engine/data/clicks.h"
#include "engine/tables/tables.h"
#include "measure/timing.h"

/* Work on embedding tables: measured, priced. */

/* Sums of bags and updates of rows in small tables and in one that no cache holds, for each format
 * and for tables that are alike in all else. Appends to `ret`, at most ORR_TABLE_RATES_MAX. */
enum { ORR_TABLE_RATES_MAX = 16 };
orr_status orr_measure_table_rates(const orr_timing *timing, bool quick, orr_measured_table *ret,
                                   uint32_t *n, orr_error *err) ORR_MUST_CHECK;

/* The tables of a job on this rank, with batches of its data: medians of what is done with them in
 * rounds that go as a step does, each thing begun by all ranks together. `between` does what a step
 * does between bags and their gradients, which leaves the caches as a step leaves them. `world`: of
 * all ranks; NULL: there is one. *ret_meeting_ns: what an exchange takes more where ranks do not
 * begin it together. */
typedef struct orr_table_job {
    const orr_embedding_plan *plan;
    const orr_click_data *clicks;
    int64_t samples; /* of a rank in a step */
    uint64_t seed;
    orr_transport *transport;
    orr_communicator *world;
    orr_workers *workers;
    orr_status (*between)(void *ctx, orr_error *err);
    void *ctx;
} orr_table_job;
orr_status orr_measure_table_work(const orr_table_job *job, int64_t ret_ns[ORR_TABLE_WORKS],
                                  int64_t *ret_meeting_ns, orr_error *err) ORR_MUST_CHECK;

/* What a call of a step's program does with tables; ORR_TABLE_WORKS: nothing. */
orr_table_work orr_table_work_of(const orr_program_call *call);
/* From the rates of a machine: what a rank does with its shards under a plan. Ids are looked up as
 * if all rows were equally likely. 0: not measured. */
typedef struct orr_table_load {
    const orr_measured *measured;
    uint32_t threads;
    const orr_embedding_plan *plan;
    int64_t samples; /* of a rank in a step */
    uint32_t rank;   /* of a group */
} orr_table_load;
int64_t orr_table_work_ns(const orr_table_load *load, orr_table_work work);

#endif /* ORR_MEASURE_EMBEDDING_TABLES_H */
