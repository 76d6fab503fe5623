/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_ARGUMENTS_MACHINE_FILE_H
#define ORR_CLI_ARGUMENTS_MACHINE_FILE_H

#include "base/progress.h"
#include "cli/command/session.h"

/* The file in which the measurements of this machine are kept. */

/* `said`, or machine.yaml in the user's cache ($XDG_CACHE_HOME/orrery, ~/.cache/orrery), in the
 * arena. `make`: its folder is made. Errors: IO. */
orr_status orr_machine_file_path(const char *said, bool make, orr_arena *arena, const char **ret,
                                 orr_error *err) ORR_MUST_CHECK;
/* Measures, with progress, and keeps it. Where no threads stand. */
orr_status orr_machine_measure(orr_session *session, bool quick, const char *path,
                               orr_measured *ret) ORR_MUST_CHECK;
/* Rates of this machine for the planner of embedding tables on so many ranks: of the file, or
 * assumed, with a remark, where nothing was measured. Errors: those of the file. */
orr_status orr_machine_table_costs(orr_session *session, uint32_t ranks,
                                   orr_table_costs *ret) ORR_MUST_CHECK;
/* For orr_measure_options.told; ctx: an orr_progress. */
void orr_machine_progress(void *ctx, const char *what, double done);

#endif /* ORR_CLI_ARGUMENTS_MACHINE_FILE_H */
