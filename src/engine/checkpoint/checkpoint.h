/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_CHECKPOINT_CHECKPOINT_H
#define ORR_ENGINE_CHECKPOINT_CHECKPOINT_H

#include <orrery/team.h>
#include <orrery/weights.h>

#include "engine/checkpoint/table_file.h"
#include "engine/step/step.h"
#include "engine/tables/tables.h"
#include "store/store.h"

/* Training checkpoints: a folder
 *
 *   latest                               "step-00000200 5e1f...": the checkpoint to resume from,
 * and the hash of its manifest step-00000200/manifest               its files and the hashes of
 * their headers (manifest.h) step-00000200/rank-00000.safetensors the state of rank 0, and so on
 *   step-00000200/rank-00000.tables      its rows of embedding tables (table_file.h), if it has
 * some that are in no store
 *
 * A file has for each parameter `place.name.nth` the tensors "/master", "/mean" and "/square", flat
 * fp32: the rank's shard. Its metadata give run, step, seed, plan, model, the next batch ("next",
 * and batches "returned" to a team), the number of ranks, the XXH3 of each tensor, and for each
 * parameter ("own.place.name.nth") which part of the whole tensor the shard is, so that a job can
 * resume with another plan (resharding). Experts of a placement are told one by one (shard_text.h),
 * so that weights and optimizer state go with an expert to wherever it stands next.
 *
 * Rows of embedding tables that live in a store (store/store.h) are committed there as of the same
 * step, and the metadata say in which files. A store keeps that commit until `latest` names a later
 * checkpoint.
 *
 * Files are written under a temporary name and renamed; `latest` is replaced last, when all ranks
 * have written theirs. At any moment it therefore names a complete checkpoint, even after a
 * crash. */
#define ORR_CHECKPOINT_FORMAT "orrery.checkpoint/3"
#define ORR_HASH_KEY          "xxh3.%s" /* of a tensor, in the metadata */
#define ORR_LATEST_FORMAT     "step-%08lld %016llx\n"
typedef struct orr_checkpoint_metadata {
    const char *model, *plan; /* model: its name; plan: text of the completed plan */
    uint64_t run;             /* drawn when it was begun */
    uint64_t seed;
    uint32_t rank, ranks;
    /* Where rows of tables live in stores: */
    const char *rows[ORR_TIERS]; /* their files, by tier; NULL: none */
    const char *tables;          /* text of the sharding plan; NULL: no stores */
    uint32_t group;              /* of the rank (orr_embedding_plan.groups) */
    uint32_t generation;         /* of the files: 1, and 1 more whenever rows were resharded */
} orr_checkpoint_metadata;

/* A shard of an embedding table, to save or to restore. */
typedef struct orr_table_part {
    const orr_embedding *table;
    const orr_embedding_shard *shard;
    orr_row_store *store; /* with optimizer state */
    uint32_t group;       /* of the rank (orr_embedding_plan.groups) */
    bool saved; /* false: another rank saves the same rows (ORR_SHARDING_DATA), or a store does */
} orr_table_part;
/* The shards of a rank; `ret`: shape (orr_tables_n_shards()). */
void orr_table_parts_of(const orr_tables *tables, const orr_embedding_plan *plan, uint32_t rank,
                        orr_table_part *ret);

/* Asynchronous writer: a thread writes from a copy of the state while training goes on. */
typedef struct orr_checkpointer orr_checkpointer;
orr_status orr_checkpointer_new(const char *folder, const orr_checkpoint_metadata *facts,
                                const orr_parameter *parameters, uint32_t n, orr_checkpointer **ret,
                                orr_error *err) ORR_MUST_CHECK;
/* Shards of tables that are saved too; `parts` may go afterwards, stores may not. */
orr_status orr_checkpointer_add_tables(orr_checkpointer *c, const orr_table_part *parts, uint32_t n,
                                       orr_error *err) ORR_MUST_CHECK;
/* Stores that commit with every checkpoint, by tier; NULL: none. They may not go before. */
void orr_checkpointer_add_stores(orr_checkpointer *c, orr_store *const stores[ORR_TIERS]);
/* Lets stores forget commits before a step, whose checkpoint is the latest for all ranks. */
void orr_checkpointer_settle(orr_checkpointer *c, int64_t step);
/* Copies the state and begins to write it, after the previous write has ended. Errors: of that
 * write. */
orr_status orr_checkpointer_save(orr_checkpointer *c, int64_t step,
                                 const orr_team_data_cursor *data, orr_error *err) ORR_MUST_CHECK;
orr_status orr_checkpointer_wait(orr_checkpointer *c, orr_error *err) ORR_MUST_CHECK;
int64_t orr_checkpointer_written(orr_checkpointer *c); /* step of the last complete one; 0: none */
int64_t orr_checkpointer_bytes(const orr_checkpointer *c); /* bytes of its copy; of NULL: 0 */
void orr_checkpointer_free(orr_checkpointer *c); /* NULL is allowed; waits for the write */
/* Commits a step that all ranks have written: it becomes the latest. The one before it is kept,
 * older ones are deleted. */
orr_status orr_checkpoint_commit(const char *folder, int64_t step, orr_error *err) ORR_MUST_CHECK;

/* Makes the folder, unless it is there, and keeps all other runs from writing to it, until it is
 * unlocked or this process and those that it forked have ended. What writes that were killed have
 * left is removed. *ret -1: the file system has no locks. INVALID: another run holds it; IO. */
orr_status orr_checkpoint_lock(const char *folder, int *ret, orr_error *err) ORR_MUST_CHECK;
/* -1 is allowed. Also removes the folder where nothing was saved. */
void orr_checkpoint_unlock(const char *folder, int lock);

/* Removes a folder of checkpoints, if it contains nothing else. */
void orr_checkpoint_remove(const char *folder);

/* The latest checkpoint of a folder. NOT_FOUND: there is none. PARSE: `latest`, the manifest or a
 * header is damaged, or a file is not of this checkpoint. Hashes of tensors and of rows of tables
 * are checked as they are read. */
typedef struct orr_checkpoint {
    int64_t step;
    uint64_t run, seed;
    uint32_t ranks;
    orr_team_data_cursor data; /* batches still to be trained */
    const char *plan, *model;
    const char *table_plan; /* orr_checkpoint_metadata.tables */
    uint32_t generation;
    const char *rows_folder[ORR_TIERS]; /* where files of stores are now; NULL: where they were. The
                                         * caller's */
    orr_weights **files;                /* shape (ranks) */
    orr_table_file **tables;            /* shape (ranks); NULL: the rank saved none */
} orr_checkpoint;
orr_status orr_checkpoint_open(const char *folder, orr_checkpoint **ret,
                               orr_error *err) ORR_MUST_CHECK;
void orr_checkpoint_close(orr_checkpoint *checkpoint); /* NULL is allowed */
/* The file that has a rank's rows of a tier, into `ret`. False: there is none. */
enum { ORR_CHECKPOINT_PATH = 4096 };
bool orr_checkpoint_rows_path(const orr_checkpoint *checkpoint, uint32_t rank, orr_tier tier,
                              char ret[ORR_CHECKPOINT_PATH]);
uint32_t orr_checkpoint_group(const orr_checkpoint *checkpoint, uint32_t rank);
/* Reads a rank's masters and moments: from its own file, or, if the plan has changed, put together
 * from all files that have a part (resharding). INVALID: a parameter that is missing or has other
 * dims. */
orr_status orr_checkpoint_restore(const orr_checkpoint *checkpoint,
                                  const orr_checkpoint_metadata *facts,
                                  const orr_parameter *parameters, uint32_t n,
                                  orr_error *err) ORR_MUST_CHECK;
/* Reads all tensors and tables, so that their hashes are checked. Rows of stores are not read.
 * `ret_bytes`: how many bytes were. PARSE: what is damaged. */
orr_status orr_checkpoint_verify(const orr_checkpoint *checkpoint, int64_t *ret_bytes,
                                 orr_error *err) ORR_MUST_CHECK;
/* Reads shards of the tables of a model, whichever shards were saved, from files of tables and from
 * stores. INVALID: tables of another
 * model ("table t3 is 100 x 16 ... and should be 200 x 16 ..."); rows that are in no file. PARSE: a
 * hash differs. */
orr_status orr_checkpoint_restore_tables(const orr_checkpoint *checkpoint,
                                         const orr_embedding *tables, uint32_t n_tables,
                                         const orr_table_part *parts, uint32_t n,
                                         orr_error *err) ORR_MUST_CHECK;
/* The same from files of tables alone, of some tables. */
orr_status orr_checkpoint_restore_table_files(const orr_checkpoint *checkpoint,
                                              const orr_embedding *tables, uint32_t n_tables,
                                              const orr_table_part *parts, uint32_t n,
                                              orr_error *err) ORR_MUST_CHECK;
/* Writes a file of each whole table, NAME.table, without state, from the copies of group 0. */
orr_status orr_checkpoint_export_tables(const orr_checkpoint *checkpoint,
                                        const orr_embedding *tables, uint32_t n_tables,
                                        const char *folder, orr_error *err) ORR_MUST_CHECK;
/* Reads rows of shards from the files *.table of a folder; their state stays as it is. Errors as
 * above. */
orr_status orr_tables_import(const char *folder, const orr_embedding *tables, uint32_t n_tables,
                             const orr_table_part *parts, uint32_t n,
                             orr_error *err) ORR_MUST_CHECK;
/* Reads a whole parameter's "master", "mean" or "square", of `elements` numbers. */
orr_status orr_checkpoint_read_tensor(const orr_checkpoint *checkpoint, const char *parameter,
                                      const char *part, float *ret, int64_t elements,
                                      orr_error *err) ORR_MUST_CHECK;

/* "3.qkv.0" */
enum { ORR_PARAMETER_KEY_CHARS = 96 };
const char *orr_parameter_key(uint32_t place, const char *name, uint32_t nth,
                              char ret[ORR_PARAMETER_KEY_CHARS]);

#endif /* ORR_ENGINE_CHECKPOINT_CHECKPOINT_H */
