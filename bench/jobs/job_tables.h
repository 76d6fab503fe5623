/* SPDX-License-Identifier: Apache-2.0 */
#ifndef JOB_TABLES_H
#define JOB_TABLES_H

#include <orrery/model.h>
#include <orrery/plan.h>

#include "job_csv.h"

typedef struct job_kernel job_kernel;

/* Published measurements of whole jobs, read into what a prediction needs: a model, a plan, a
 * workload, as much of a cluster, and the seconds that were measured. What a table does not say is
 * read the same way for all of its rows; the reading is text, and is printed. */

/* What the seconds of a case are. */
typedef enum job_measure {
    JOB_STEP,        /* a training step; NAN: memory alone was measured       */
    JOB_REQUEST,     /* a request, where `batch` of them are served at a time */
    JOB_FIRST_TOKEN, /* from a request to its first token: its prompt's pass  */
    JOB_TOKEN,       /* from one token to the next                            */
    JOB_KERNEL       /* a call of a kernel or a collective: job_kernels.h     */
} job_measure;

typedef struct job_case {
    const char *table; /* file without ".csv"                        */
    size_t row;        /* from 1, the header not counted             */
    const char *group; /* of rows that are judged together           */
    const char *label;
    const orr_model *model; /* NULL: of a kernel                          */
    orr_plan plan;          /* completed                                  */
    orr_workload workload;
    const char *cluster;
    uint8_t measure;         /* job_measure                                */
    double seconds;          /* measured                                   */
    double memory_gib;       /* of a device, measured; NAN                 */
    const char *memory_kind; /* "allocated", "reserved", "not told"; ""    */
    const char *framework;   /* "megatron", "torchtitan", ...; "": unknown */
    double software_year;    /* in which that software was new: 2021.3; NAN: unknown */
    uint32_t batch;          /* REQUEST: requests at a time; 0: as many as the memory holds */
    uint8_t kv_precision;    /* REQUEST: of keys and values, as told; UNKNOWN: not */
    const job_kernel *kernel;
    const char *refused;    /* why the row cannot be read; NULL: it can     */
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

enum { JOB_CASES_MOST = 4096, JOB_LEFT_OUT_MOST = 512, JOB_FILES_MOST = 128 };
typedef struct job_cases {
    job_case *at; /* shape (n) */
    size_t n;
    job_left_out left_out[JOB_LEFT_OUT_MOST];
    size_t n_left_out;
    size_t n_tables;
    job_reading columns[JOB_FILES_MOST]; /* of a file, that no reader asked for */
    size_t n_columns;
    const job_csv *csv; /* of the table that is being read */
    orr_arena *arena;
} job_cases;

bool job_cases_init(orr_arena *arena, job_cases *ret); /* false: out of memory */
/* Adds the rows of all tables of a folder. A table is known by its file's name up to the first
 * point: "famous_runs.dev.csv" is "famous_runs". Told as left out, with the reason: files and
 * columns that no reader knows, tables without a column that their reader needs, rows with a cell
 * that is no number, and rows whose reader refuses them. */
void job_cases_read(const char *folder, job_cases *cases);

/* For the readers. A case with what all share filled in; NULL: no room. */
job_case *job_cases_add(job_cases *cases, const char *table, size_t row, const char *group);
void job_cases_leave_out(job_cases *cases, const char *table, const char *reason);
/* The row is left out by job_cases_done(); the first reason stays. */
void job_refuse(job_case *c, const char *reason);
/* Complete the plan, tell the side. A case that was refused, or whose plan cannot be, is left
 * out. */
void job_cases_done(job_cases *cases, job_case *added);

/* Words of the tables (job_words.c). An unknown word refuses the row, and says the word. */
void job_read_cluster(job_cases *cases, job_case *c, const char *gpu);
uint8_t job_read_precision(job_cases *cases, job_case *c, const char *text);
/* A model of the catalogue or of job_models.c, by its name there or in a table. */
void job_read_model(job_cases *cases, job_case *c, const char *name);
const orr_model *job_model(job_cases *cases, const char *name); /* NULL: there is none */
bool job_has(const char *text, const char *part);
/* The number behind a word: job_number_after("MBS 1 GA 32", "GA ") is 32; NAN: there is none. */
double job_number_after(const char *text, const char *word);
/* The year of "25.04", "v25.04.02", "26.06": 2000 and year, plus the month; NAN. */
double job_year_of_release(const char *text);
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
extern const job_table JOB_TABLES_A100[], JOB_TABLES_NEMO[], JOB_TABLES_OTHERS[],
    JOB_TABLES_FAMOUS[], JOB_TABLES_SERVING[], JOB_TABLES_KERNELS[]; /* end: file NULL */
extern const job_table *const JOB_TABLES[];                          /* all of these; end: NULL */

#endif /* JOB_TABLES_H */
