/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_CHECKPOINT_TABLE_IMAGE_H
#define ORR_ENGINE_CHECKPOINT_TABLE_IMAGE_H

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/table_file.h"

/* Records of a store are visited in blocks of rows. */
enum { ORR_TABLE_BLOCK_ROWS = 512 };
typedef struct orr_record_block {
    orr_row_store *store;
    int64_t first, n;
    char *record[ORR_TABLE_BLOCK_ROWS];
    int64_t row[ORR_TABLE_BLOCK_ROWS];
} orr_record_block;
/* Brings n rows from `first` on to memory; at most ORR_TABLE_BLOCK_ROWS. */
orr_status orr_record_block_fetch(orr_row_store *store, int64_t first, int64_t n,
                                  orr_record_block *ret, orr_error *err) ORR_MUST_CHECK;
void orr_record_block_release(orr_record_block *block, bool changed);

/* A copy of shards as files have them, which is written while training goes on. */
typedef struct orr_table_image orr_table_image;
orr_status orr_table_image_new(const orr_table_part *parts, uint32_t n, orr_table_image **ret,
                               orr_error *err) ORR_MUST_CHECK;
void orr_table_image_free(orr_table_image *image);           /* NULL is allowed */
int64_t orr_table_image_bytes(const orr_table_image *image); /* of NULL: 0 */
orr_status orr_table_image_copy(orr_table_image *image, orr_error *err) ORR_MUST_CHECK;
/* Any thread, while nobody copies. */
orr_status orr_table_image_write(const orr_table_image *image, int64_t step, const char *path,
                                 orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_CHECKPOINT_TABLE_IMAGE_H */
