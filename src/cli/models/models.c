/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/command/session.h"
#include "io/json/writer.h"

typedef struct printer {
    orr_session session;
    orr_table_style style;
} printer;

static orr_status print_list(printer *p)
{
    orr_session *session = &p->session;
    orr_models models;
    orr_table table;
    ORR_TRY(orr_models_open(session->arena, &models, &session->err));
    ORR_TRY(orr_models_table(&models, session->arena, &table, &session->err));
    p->style.max_rows = 0;
    orr_table_write(&table, &p->style, session->out);
    return ORR_OK;
}

static void begin_card(orr_output *out, const char *name, size_t i)
{
    orr_output_text(out, i ? ",\n{\"name\":" : "{\"name\":");
    orr_json_put_string(out, name, strlen(name));
    orr_output_text(out, ",\"tables\":{");
}

static orr_status print_card(printer *p, const char *name, size_t i)
{
    orr_session *session = &p->session;
    orr_named_table tables[ORR_MODEL_TABLES];
    const orr_model *model;
    ORR_TRY(orr_model_load(name, session->arena, &model, &session->err));
    ORR_TRY(orr_model_tables(model, session->arena, tables, &session->err));
    p->style.max_rows = 0;
    if (p->style.format == ORR_TABLE_JSON)
        begin_card(session->out, model->name, i);
    else if (i)
        orr_output_text(session->out, "\n");
    orr_session_tables(session, &p->style, tables, ORR_MODEL_TABLES, 0);
    if (p->style.format == ORR_TABLE_JSON)
        orr_output_text(session->out, "}}");
    return ORR_OK;
}

static orr_status print_cards(printer *p)
{
    orr_session *session = &p->session;
    const orr_settings *settings = session->settings;
    const bool json = p->style.format == ORR_TABLE_JSON;
    if (json)
        orr_output_printf(session->out,
                          "{\"schema\":\"orrery.models/1\",\"version\":\"%s\",\"models\":[",
                          orr_version());
    for (size_t i = 0; i < settings->n_args; i++)
        ORR_TRY(print_card(p, settings->args[i], i));
    if (json)
        orr_output_text(session->out, "]}\n");
    return ORR_OK;
}

static orr_status print(printer *p)
{
    orr_session *session = &p->session;
    ORR_TRY(orr_session_output(session, &p->style));
    ORR_TRY(session->settings->n_args > 0 ? print_cards(p) : print_list(p));
    return orr_output_finish(session->out, &session->err);
}

int orr_command_models(const orr_settings *settings)
{
    printer p = {0};
    int code = EXIT_DONE;
    if (orr_session_init(&p.session, settings) != ORR_OK || print(&p) != ORR_OK)
        code = orr_session_fail(&p.session);
    orr_session_done(&p.session);
    return code;
}
