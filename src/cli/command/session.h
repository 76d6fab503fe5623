/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_COMMAND_SESSION_H
#define ORR_CLI_COMMAND_SESSION_H

#include "cli/command/command.h"
#include "io/stream/output.h"
#include "report/table/table.h"

/* What the subcommands share: a job read with progress, remarks, where and how to print. */
typedef struct orr_session {
    const orr_settings *settings;
    orr_arena *arena;
    const orr_job *job;
    const orr_job_file *files;
    size_t n_files;
    orr_output *out;
    orr_analysis_options analysis;
    orr_error err;
} orr_session;

/* Everything empty but for the arena, the settings and the options of the analyses. */
orr_status orr_session_init(orr_session *session, const orr_settings *settings) ORR_MUST_CHECK;
void orr_session_done(orr_session *session);

/* Print session->err as one line and return the exit code. */
int orr_session_fail(const orr_session *session);

/* Options of the readers, as the settings say; progress on a terminal. */
void orr_session_read_options(const orr_session *session, orr_read_options *ret);
/* Inputs -> session->job. Load also prints remarks on what was read, unless quiet. */
orr_status orr_session_load(orr_session *session, const char *const *paths,
                            size_t n_paths) ORR_MUST_CHECK;
orr_status orr_session_read(orr_session *session, const char *const *paths,
                            size_t n_paths) ORR_MUST_CHECK;
/* Settings -> session->analysis. Errors: INVALID (--step). */
orr_status orr_session_analysis(orr_session *session) ORR_MUST_CHECK;
/* --output or standard output -> session->out, and how tables look there. */
orr_status orr_session_output(orr_session *session, orr_table_style *ret_style) ORR_MUST_CHECK;

/* Tables one after the other, from the `from`th on: in JSON as members of an object that is open,
 * otherwise those that are not empty. */
void orr_session_tables(const orr_session *session, const orr_table_style *style,
                        const orr_named_table *tables, size_t n, size_t from);

/* `text` from outside, harmless for a terminal; in the arena. */
const char *orr_session_printable(const orr_session *session, const char *text);
/* One line on stderr, unless quiet. */
void orr_session_remark(const orr_session *session, const char *format, ...) ORR_PRINTF(2, 3);

#endif /* ORR_CLI_COMMAND_SESSION_H */
