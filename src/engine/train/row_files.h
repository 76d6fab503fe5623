/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_TRAIN_ROW_FILES_H
#define ORR_ENGINE_TRAIN_ROW_FILES_H

#include <orrery/arena.h>
#include <orrery/embedding.h>

/* Files of rows of embedding tables in a folder, one for each rank: rank-00000.rows of tier block,
 * rank-00000.bytes of tier byte. Rows that are sharded anew are written to files of the next
 * generation, rank-00000.2.rows, beside those of the checkpoint that they are read from, which go
 * when a checkpoint names the new ones. */

/* The path of a rank's file; in the arena, NULL: no memory. */
const char *orr_row_file_path(const char *folder, orr_tier tier, uint32_t rank, uint32_t generation,
                              orr_arena *arena);
/* Of the ranks in a folder, rank r of `ranks` looks after those whose number is r modulo `ranks`.
 * INVALID: one of their files has rows that were committed. */
orr_status orr_row_files_check_unused(const char *folder, orr_tier tier, uint32_t rank,
                                      uint32_t ranks, orr_error *err) ORR_MUST_CHECK;
/* Removes their files of generations before this one. What cannot be removed costs space only. */
void orr_row_files_remove_older(const char *folder, orr_tier tier, uint32_t rank, uint32_t ranks,
                                uint32_t generation);

#endif /* ORR_ENGINE_TRAIN_ROW_FILES_H */
