/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_CHECKPOINT_TABLE_FOLDER_H
#define ORR_ENGINE_CHECKPOINT_TABLE_FOLDER_H

#include "engine/checkpoint/table_file.h"

/* The files *.table of a folder, by name. */
typedef struct orr_table_folder {
    orr_table_file **at; /* shape (n) */
    uint32_t n, room;
} orr_table_folder;
/* Errors: IO; those of orr_table_file_open(). */
orr_status orr_table_folder_open(const char *folder, orr_table_folder *ret,
                                 orr_error *err) ORR_MUST_CHECK;
void orr_table_folder_close(orr_table_folder *folder);

/* Writes the tables of a folder that training exported into another folder, in another format of
 * rows. INVALID: a file that is not one whole table; columns that are no whole number of blocks. */
orr_status orr_tables_convert(const char *folder, orr_row_format format, const char *to,
                              orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_CHECKPOINT_TABLE_FOLDER_H */
