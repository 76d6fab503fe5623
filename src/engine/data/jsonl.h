/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_DATA_LINES_H
#define ORR_ENGINE_DATA_LINES_H

#include "base/array.h"
#include "engine/data/dataset.h"

/* Lines of JSON as tokens: for the file data_talk.c. */
typedef struct orr_talk {
    int32_t *tokens;
    bool *targets; /* of each token: is it to be learned? */
    int64_t n;
} orr_talk;
typedef orr_array(orr_talk) orr_talks;

/* What a line is. Of pairs, talks stand two and two. */
typedef enum orr_lines_of { ORR_LINES_TALKS, ORR_LINES_PAIRS, ORR_LINES_PROMPTS } orr_lines_of;

/* Tokens in the arena; *ret is the caller's to end. Errors: IO; PARSE and INVALID with file and line. */
orr_status orr_lines_read(const orr_data_options *options, orr_lines_of lines, orr_arena *arena,
                          orr_talks *ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_DATA_LINES_H */
