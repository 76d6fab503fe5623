/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_TABLES_TABLES_H
#define ORR_MODEL_TABLES_TABLES_H

#include <orrery/embedding.h>

#include "io/yaml/yaml.h"

/* Checks of a sharding plan, which the reader of its file makes table by table, so that a message
 * has the line of the table. */

/* Ranks, hosts, groups and transfers of the whole plan. INVALID, with the reason. */
orr_status orr_embedding_plan_check_ranks(const orr_embedding_plan *plan,
                                          orr_error *err) ORR_MUST_CHECK;
/* The placement of one table: INVALID where its kind does not fit its ranks. `seen`: shape (ranks),
 * zeroed before the first table; each table is checked once. */
orr_status orr_embedding_placement_check(const orr_embedding_plan *plan, uint32_t table,
                                         uint32_t *seen, orr_error *err) ORR_MUST_CHECK;

/* orr_embedding_plan_read() of a file that is parsed already. */
orr_status orr_embedding_plan_parse(const orr_yaml *file, const orr_embedding *tables, uint32_t n,
                                    orr_arena *arena, orr_embedding_plan *ret,
                                    orr_error *err) ORR_MUST_CHECK;

/* "22 table, 3 row, 1 data": how many tables have each kind. In the arena; "": no memory. */
const char *orr_embedding_plan_kinds(const orr_embedding_plan *plan, orr_arena *arena);

/* Bytes of a shard, with optimizer state. Saturating. */
int64_t orr_embedding_shard_bytes(const orr_embedding_plan *plan, const orr_embedding_shard *shard);
/* Tiers of tables by rule, where `memory` bytes of each rank are for rows: if all tables fit, all
 * stay in memory. Else the smallest do, as long as each rank has half of its memory left for the
 * row cache of the others, which go to `tier`: *ret_n tables. In the arena. */
orr_status orr_embedding_plan_place_rows(orr_embedding_plan *plan, orr_tier tier, int64_t memory,
                                         orr_arena *arena, uint32_t *ret_n,
                                         orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_MODEL_TABLES_TABLES_H */
