/* SPDX-License-Identifier: Apache-2.0 */
#ifndef JOB_TABLES_H
#define JOB_TABLES_H

#include <orrery/model.h>
#include <orrery/plan.h>

#include "job_csv.h"

/* Published measurements of whole jobs, read into what a prediction needs: a model, a plan, a
 * workload, as much of a cluster, and the seconds that a step took. What a table does not say is
 * read the same way for all of its rows; the reading is text, and is printed. */
typedef struct job_case {
    const char *table; /* file without ".csv"                        */
    size_t row;        /* from 1, the header not counted             */
    const char *group; /* of rows that are judged together           */
    const char *label;
    const orr_model *model;
    orr_plan plan; /* completed                                  */
    orr_workload workload;
    const char *cluster;
    double seconds;         /* of a step, measured             */
    double memory_gib;      /* allocated, measured; NAN        */
    uint64_t configuration; /* hash of all that is predicted from */
    bool fitted;            /* side of the split               */
} job_case;

typedef struct job_left_out {
    const char *table, *reason;
    size_t rows;
} job_left_out;
typedef struct job_reading {
    const char *table, *text;
} job_reading;

enum { JOB_CASES_MOST = 4096, JOB_LEFT_OUT_MOST = 64 };
typedef struct job_cases {
    job_case *at; /* shape (n) */
    size_t n;
    job_left_out left_out[JOB_LEFT_OUT_MOST];
    size_t n_left_out;
    size_t n_tables;
    orr_arena *arena;
} job_cases;

/* All tables of the folder that are known; others are left alone. False: out of memory. */
bool job_cases_read(const char *folder, orr_arena *arena, job_cases *ret);

/* For the readers. A case with what all share filled in; NULL: no room. */
job_case *job_cases_add(job_cases *cases, const char *table, size_t row, const char *group);
void job_cases_leave_out(job_cases *cases, const char *table, const char *reason);
/* Complete the plan, tell the side. A plan that cannot be is left out. */
void job_cases_done(job_cases *cases, job_case *added);
/* A model of the catalogue or of job_models.c; NULL: left out, with the reason. */
const orr_model *job_model(job_cases *cases, const char *table, const char *name);
/* A model of the GPT-2 family by its shape: learned positions, biases, tied embedding, GELU of 4 x
 * hidden. */
const orr_model *job_gpt(job_cases *cases, const char *name, uint32_t layers, uint32_t hidden,
                         uint32_t heads, uint32_t vocab, uint32_t seq);
/* printf into the arena. */
const char *job_text(orr_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* What a reader of one table is. */
typedef struct job_table {
    const char *file; /* without ".csv" */
    const char *reading;
    void (*read)(const job_csv *table, const char *file, job_cases *cases);
} job_table;
extern const job_table JOB_TABLES_A100[], JOB_TABLES_NEMO[],
    JOB_TABLES_OTHERS[]; /* end: file NULL */

#endif /* JOB_TABLES_H */
