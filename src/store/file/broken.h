/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_STORE_FILE_BROKEN_H
#define ORR_STORE_FILE_BROKEN_H

#include <stdbool.h>
#include <stdint.h>

/* Rules of this folder that a test breaks one at a time, to see that it notices. Only where the
 * sources are compiled for that test (ORR_ROW_BREAKABLE); in the library all of them hold and
 * nothing is left of this. */
#define ORR_ROW_BROKEN_MAP(X)                                                                      \
    X(NONE, "none")                                                                                \
    X(NO_SYNC_BEFORE_MARK, "no sync before the record")                                            \
    X(MARK_BEFORE_ROWS, "record before its rows")                                                  \
    X(NO_SYNC_AFTER_MARK, "no sync after the record")                                              \
    X(FAILED_SYNC_TRIED_AGAIN, "failed sync tried again")                                          \
    X(FAILED_WRITE_IGNORED, "failed write ignored")                                                \
    X(ROW_HASH_IGNORED, "hash of rows ignored")                                                    \
    X(LOG_HASH_IGNORED, "hash of the log ignored")                                                 \
    X(GENERATION_IGNORED, "generation ignored")                                                    \
    X(FREED_AT_ONCE, "places freed at once")                                                       \
    X(SETTLE_IGNORED, "freed before settled")                                                      \
    X(WRITING_IGNORED, "written while being written")                                              \
    X(NO_UNDO, "snapshot and record without undo")                                                 \
    X(LATE_ROW_IS_NEXT, "row of a commit counted to the next")                                     \
    X(LATER_KEPT, "undone commits not made void")                                                  \
    X(NO_SYNC_AT_OPEN, "no sync when opened")                                                      \
    X(NO_WRITE_AT_OPEN, "log not written again when opened")                                       \
    X(NO_ZEROS, "end of the log not written")                                                      \
    X(HEAD_BEFORE_SNAPSHOT, "snapshot valid before it is there")                                   \
    X(LOG_REUSED, "unsettled log overwritten")                                                     \
    X(MOVE_FORGOTTEN, "moved rows not in the commit")

typedef enum orr_row_broken_rule {
#define ORR_ROW_BROKEN_ENUM_(name, text) ORR_ROW_BROKEN_##name,
    ORR_ROW_BROKEN_MAP(ORR_ROW_BROKEN_ENUM_)
#undef ORR_ROW_BROKEN_ENUM_
        ORR_ROW_BROKEN_RULES
} orr_row_broken_rule;

#ifdef ORR_ROW_BREAKABLE
extern orr_row_broken_rule orr_row_broken;
const char *orr_row_broken_name(orr_row_broken_rule rule);
/* What numbers of files and first generations are drawn from, so that a seed is the same run again
 * and again. */
extern uint64_t orr_row_drawn;
#define ORR_ROW_IS_BROKEN(rule) (orr_row_broken == ORR_ROW_BROKEN_##rule)
#else
#define ORR_ROW_IS_BROKEN(rule) false
#endif

#endif /* ORR_STORE_FILE_BROKEN_H */
