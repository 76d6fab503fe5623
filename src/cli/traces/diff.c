/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command/session.h"

/* The second job is a session of its own: one owner for each set of graphs. */
int orr_command_diff(const orr_settings *settings)
{
    orr_session before, after;
    orr_table_style style;
    orr_table table;
    int code = EXIT_DONE;

    const orr_status ready = orr_session_init(&before, settings);
    if (orr_session_init(&after, settings) != ORR_OK) {
        code = orr_session_fail(&after);
    } else if (ready != ORR_OK || orr_session_analysis(&before) != ORR_OK ||
               orr_session_load(&before, &settings->args[0], 1) != ORR_OK) {
        code = orr_session_fail(&before);
    } else if (orr_session_load(&after, &settings->args[1], 1) != ORR_OK) {
        code = orr_session_fail(&after);
    } else if (orr_diff_table(before.job, after.job, &before.analysis, settings->normalise,
                              before.arena, &table, &before.err) != ORR_OK ||
               orr_session_output(&before, &style) != ORR_OK) {
        code = orr_session_fail(&before);
    } else {
        orr_table_write(&table, &style, before.out);
        if (orr_output_finish(before.out, &before.err) != ORR_OK)
            code = orr_session_fail(&before);
    }
    orr_session_done(&after);
    orr_session_done(&before);
    return code;
}
