/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command/session.h"

/* Of a terminal: name, family, takes, gives, gradient. */
enum { COLUMNS_THAT_FIT = 5 };

static orr_status print(orr_session *session)
{
    orr_table_style style;
    orr_table table;
    ORR_TRY(orr_operators_table(session->arena, &table, &session->err));
    ORR_TRY(orr_session_output(session, &style));
    style.max_rows = 0;
    if (style.format == ORR_TABLE_TEXT && !session->settings->all)
        table.n_columns = COLUMNS_THAT_FIT;
    orr_table_write(&table, &style, session->out);
    return orr_output_finish(session->out, &session->err);
}

int orr_command_ops(const orr_settings *settings)
{
    orr_session session;
    int code = EXIT_DONE;
    if (orr_session_init(&session, settings) != ORR_OK || print(&session) != ORR_OK)
        code = orr_session_fail(&session);
    orr_session_done(&session);
    return code;
}
