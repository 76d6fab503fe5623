/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "cli/arguments/machine_file.h"
#include "cli/arguments/checkpoint.h"

orr_status orr_machine_measure(orr_session *session, bool quick, const char *path,
                               orr_measured *ret)
{
    const orr_settings *settings = session->settings;
    orr_progress progress;
    const orr_measure_options options = {.threads = (int)settings->threads,
                                         .ranks = (uint32_t)settings->ranks,
                                         .quick = quick,
                                         .told = orr_machine_progress,
                                         .ctx = &progress};
    orr_progress_init(&progress, "measuring", false, STDERR_FILENO, settings->quiet, NULL);
    const orr_status status = orr_measure(&options, session->arena, ret, &session->err);
    orr_progress_done(&progress);
    ORR_TRY(status);
    ORR_TRY(orr_measured_save(ret, path, &session->err));
    orr_session_remark(session, "measurements written to %s", path);
    return ORR_OK;
}

static orr_status run(orr_session *session)
{
    const orr_settings *settings = session->settings;
    orr_named_table tables[ORR_MEASURED_TABLES];
    orr_table_style style;
    orr_measured measured;
    const char *path;
    ORR_TRY(orr_machine_file_path(settings->output ? settings->output : settings->machine, true,
                                  session->arena, &path, &session->err));
    ORR_TRY(orr_check_output("output", path, false, session->arena, &session->err));
    ORR_TRY(orr_machine_measure(session, settings->quick, path, &measured));
    ORR_TRY(orr_measured_tables(&measured, session->arena, tables, &session->err));
    orr_session printer = *session;
    orr_settings to_stdout = *settings;
    to_stdout.output = NULL; /* that is where the measurements go */
    printer.settings = &to_stdout;
    ORR_TRY(orr_session_output(&printer, &style));
    session->out = printer.out;
    if (style.format == ORR_TABLE_JSON)
        orr_output_printf(session->out,
                          "{\"schema\":\"orrery.bench/1\",\"version\":\"%s\",\"tables\":{",
                          orr_version());
    else if (style.format == ORR_TABLE_TEXT)
        orr_output_printf(session->out, "%s, %s\n\n", measured.cpu, measured.isa);
    orr_session_tables(session, &style, tables, ORR_MEASURED_TABLES, 0);
    if (style.format == ORR_TABLE_JSON)
        orr_output_text(session->out, "}}\n");
    return orr_output_finish(session->out, &session->err);
}

int orr_command_bench(const orr_settings *settings)
{
    orr_session session;
    int code = EXIT_DONE;
    if (orr_session_init(&session, settings) != ORR_OK || run(&session) != ORR_OK)
        code = orr_session_fail(&session);
    orr_session_done(&session);
    return code;
}
