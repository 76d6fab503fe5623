/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_CHECKPOINT_TABLE_IMAGE_H
#define ORR_ENGINE_CHECKPOINT_TABLE_IMAGE_H

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/table_file.h"

/* Rows of a store are visited so many at a time. */
enum { ORR_TABLE_BLOCK_ROWS = 512 };

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
