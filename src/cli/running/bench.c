/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/arguments/machine_file.h"
#include "cli/arguments/checkpoint.h"

/* Puts what was measured of a folder in the place of what there was of it, or behind the others. */
static orr_status keep_storage(orr_measured *measured, const orr_measured_storage *storage,
                               orr_arena *arena, orr_error *err)
{
    orr_measured_storage *all =
        orr_arena_array(arena, orr_measured_storage, measured->n_storage + (size_t)1);
    if (all == NULL)
        return orr_fail_memory(err);
    uint32_t n = 0;
    for (uint32_t i = 0; i < measured->n_storage; i++)
        if (strcmp(measured->storage[i].path, storage->path) != 0)
            all[n++] = measured->storage[i];
    all[n++] = *storage;
    measured->storage = all;
    measured->n_storage = n;
    return ORR_OK;
}

orr_status orr_machine_measure(orr_session *session, bool quick, const char *path,
                               orr_measured *ret)
{
    const orr_settings *settings = session->settings;
    orr_progress progress;
    orr_measured before = {0};
    const orr_measure_options options = {.threads = (int)settings->threads,
                                         .ranks = (uint32_t)settings->ranks,
                                         .quick = quick,
                                         .told = orr_machine_progress,
                                         .ctx = &progress};
    orr_progress_init(&progress, "measuring", false, STDERR_FILENO, settings->quiet, NULL);
    const orr_status status = orr_measure(&options, session->arena, ret, &session->err);
    orr_progress_done(&progress);
    ORR_TRY(status);
    /* Folders are measured one at a time, and stay; a file that cannot be read is replaced. */
    if (orr_measured_load(path, session->arena, &before, NULL) == ORR_OK) {
        ret->storage = before.storage;
        ret->n_storage = before.n_storage;
    }
    ORR_TRY(orr_measured_save(ret, path, &session->err));
    orr_session_remark(session, "measurements written to %s", path);
    return ORR_OK;
}

/* The device under a folder; the machine, too, where the file has nothing of it. */
static orr_status measure_folder(orr_session *session, const char *path, orr_measured *ret,
                                 bool *ret_machine)
{
    const orr_settings *settings = session->settings;
    orr_measured_storage storage;
    char folder[PATH_MAX];
    if (realpath(settings->storage, folder) == NULL)
        return orr_fail(&session->err, ORR_IO, "%s: %s", settings->storage, strerror(errno));
    *ret_machine = access(path, F_OK) != 0;
    if (*ret_machine)
        ORR_TRY(orr_machine_measure(session, settings->quick, path, ret));
    else
        ORR_TRY(orr_measured_load(path, session->arena, ret, &session->err));
    ORR_TRY(
        orr_measure_storage(folder, 0, settings->quick, session->arena, &storage, &session->err));
    ORR_TRY(keep_storage(ret, &storage, session->arena, &session->err));
    ORR_TRY(orr_measured_save(ret, path, &session->err));
    orr_session_remark(session, "storage under %s measured (%s, sectors of %u bytes): see %s",
                       folder, storage.engine, storage.sector, path);
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
    bool machine = true;
    if (settings->storage != NULL)
        ORR_TRY(measure_folder(session, path, &measured, &machine));
    else
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
    orr_session_tables(session, &style, tables, ORR_MEASURED_TABLES,
                       machine ? 0 : ORR_MEASURED_TABLES - 1);
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
