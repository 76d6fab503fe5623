/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/arguments/team_key.h"
#include "cli/command/session.h"
#include "cli/teams/team_snapshot.h"
#include "report/analyses/registry.h"

#define METRICS_DEFAULT "127.0.0.1:29401"

#define C(field, type) ORR_COL_(orr_member_row, field, type)
static const orr_column member_columns[] = {
    C(replica, TEXT), C(state, TEXT),  C(ranks, U32),  C(step, TEXT),        C(heard_ns, NS),
    C(posted, U64),   C(reduced, U64), C(faults, U32), C(incarnation, TEXT),
};
#undef C

static orr_status look_at(orr_session *session, orr_team_snapshot *ret)
{
    const orr_settings *s = session->settings;
    const char *address = s->n_args > 1 ? s->args[1] : METRICS_DEFAULT;
    const orr_status status = orr_team_snapshot_fetch(address, session->arena, ret, &session->err);
    return status == ORR_IO && s->n_args < 2
               ? orr_fail(
                     &session->err, ORR_IO,
                     "no team shows itself at %s: say where, as the coordinator's --metrics does",
                     address)
               : status;
}

static orr_status print(orr_session *session, const orr_team_snapshot *look)
{
    const orr_table table =
        ORR_TABLE_("orrery.team_members/1", "members", member_columns, look->members, look->n);
    orr_table_style style;
    ORR_TRY(orr_session_output(session, &style));
    style.max_rows = 0;
    if (style.format == ORR_TABLE_JSON) {
        orr_team_snapshot_json(look, session->out);
        return orr_output_finish(session->out, &session->err);
    }
    if (style.format == ORR_TABLE_TEXT) {
        orr_team_snapshot_headline(look, session->out);
        orr_output_text(session->out, look->n > 0 ? "\n" : "");
    }
    if (look->n > 0 || style.format != ORR_TABLE_TEXT)
        orr_table_write(&table, &style, session->out);
    return orr_output_finish(session->out, &session->err);
}

static int fail(orr_session *session, int code)
{
    orr_session_fail(session);
    orr_session_done(session);
    return code;
}

static orr_status show_status(orr_session *session)
{
    orr_team_snapshot look;
    ORR_TRY(look_at(session, &look));
    return print(session, &look);
}

static orr_status forget(orr_session *session)
{
    const orr_settings *s = session->settings;
    const char *at = s->team != NULL ? s->team : ORR_COORDINATOR_ADDRESS_DEFAULT;
    orr_team_access access;
    ORR_TRY(orr_arguments_team_access(s, session->arena, &access, &session->err));
    ORR_TRY(orr_team_forget(at, &access, s->args[1], &session->err));
    orr_session_remark(session, "%s: nobody waits for %s any longer", at, s->args[1]);
    return ORR_OK;
}

int orr_command_team(const orr_settings *settings)
{
    orr_session session;
    if (orr_session_init(&session, settings) != ORR_OK)
        return fail(&session, EXIT_INPUT);
    const bool shows = strcmp(settings->args[0], "status") == 0;
    if (!shows && (strcmp(settings->args[0], "forget") != 0 || settings->n_args != 2)) {
        (void)orr_fail(&session.err, ORR_INVALID,
                       "team: '%.60s' is neither status [HOST:PORT] nor forget REPLICA",
                       settings->args[0]);
        return fail(&session, EXIT_USAGE);
    }
    if ((shows ? show_status(&session) : forget(&session)) != ORR_OK)
        return fail(&session, EXIT_INPUT);
    orr_session_done(&session);
    return EXIT_DONE;
}
