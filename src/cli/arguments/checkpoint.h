/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_ARGUMENTS_CHECKPOINT_H
#define ORR_CLI_ARGUMENTS_CHECKPOINT_H

#include "cli/command/session.h"

/* A checkpoint as the command line names it: model, weights and tokenizer, of a folder or of a GGUF
 * file. */
typedef struct orr_checkpoint_files {
    orr_weights *weights;
    const orr_model *model;
    orr_tokenizer *tokenizer;
    const orr_tokenizer_info *facts;
} orr_checkpoint_files;
/* `tokenizer`: of another file, or NULL: the one that is there, else bytes. Zeroed is allowed to be
 * closed. */
orr_status orr_checkpoint_files_open(const char *path, const char *tokenizer, orr_arena *arena,
                                     orr_checkpoint_files *ret, orr_error *err) ORR_MUST_CHECK;
void orr_checkpoint_files_close(orr_checkpoint_files *checkpoint);

/* --quantize; ORR_ROW_FORMATS: not said. */
orr_row_format orr_row_format_parse(const char *name);
/* All of a file, or of standard input ("-"), NUL-terminated, in the arena. Errors: IO; LIMIT: over
 * 1 GiB. */
orr_status orr_read_text(const char *path, orr_arena *arena, const char **ret, size_t *ret_len,
                         orr_error *err) ORR_MUST_CHECK;

/* Will PATH be writable, where that can be told beforehand: a folder, which may have to be made, or
 * (not `folder`) a file? NULL: yes. A run of hours should not end for want of it. */
orr_status orr_check_output(const char *option, const char *path, bool folder, orr_arena *arena,
                            orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_CLI_ARGUMENTS_CHECKPOINT_H */
