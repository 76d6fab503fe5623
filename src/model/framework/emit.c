/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "model/framework/framework.h"

/* A plan as a framework's flags or configuration: the options of its table whose conditions hold,
 * and a comment for each field of the plan that no option has. */

typedef struct emitter {
    const orr_framework_table *table;
    const orr_framework_label *label; /* NULL: the framework has no name for the model */
    const orr_model *model;
    const orr_plan *plan;
    double quantities[ORR_QUANTITIES];
    bool mentioned[ORR_QUANTITIES]; /* by any option of the table */
    orr_array(char) text;
    bool out_of_memory;
    char section[64]; /* the last one written; of JSON, the open ones */
    bool first;       /* JSON: no comma before the next member */
} emitter;

static void put(emitter *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(emitter *e, const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof line || !orr_array_reserve(&e->text, (size_t)n)) {
        e->out_of_memory = true;
        return;
    }
    memcpy(e->text.at + e->text.n, line, (size_t)n);
    e->text.n += (size_t)n;
}

/* --- values ---------------------------------------------------------------------------------- */

/* The layers of each stage as Megatron-LM's pipeline layout, "Et*6|t*7|t*6L": embedding,
 * transformer layers, loss. */
static void list_stages(const orr_plan *p, char *ret, size_t room)
{
    size_t len = (size_t)snprintf(ret, room, "E");
    for (uint32_t i = 0, stage = 0; i < ORR_PLAN_PARTS; i++)
        for (uint32_t k = 0; k < p->section_stages[i] && len < room; k++)
            len += (size_t)snprintf(ret + len, room - len, "t*%u%s", p->section_layers[i],
                                    ++stage < p->pp ? "|" : "L");
}

static orr_status value_of(emitter *e, const char *name, size_t len, char *ret, size_t room,
                           orr_error *err)
{
    const uint32_t quantity = orr_quantity_named(name, len);
    if (quantity < ORR_QUANTITIES) {
        e->mentioned[quantity] = true;
        orr_quantity_text(quantity, e->quantities[quantity], ret, room);
        return ORR_OK;
    }
    if (len == 5 && memcmp(name, "label", len) == 0)
        snprintf(ret, room, "%s", e->label != NULL ? e->label->label : "");
    else if (len == 6 && memcmp(name, "stages", len) == 0)
        list_stages(e->plan, ret, room);
    else if (len == 7 && memcmp(name, "variant", len) == 0)
        snprintf(ret, room, "%s", e->label != NULL ? e->label->variant : "");
    else
        return orr_fail(err, ORR_INVALID, "the table of a framework has no quantity '%.*s'",
                        (int)len, name);
    return ORR_OK;
}

/* The template with the values of its quantities. */
static orr_status render(emitter *e, const char *template, char *ret, size_t room, orr_error *err)
{
    size_t len = 0;
    for (const char *at = template; at != NULL && *at != '\0' && len + 1 < room;) {
        const char *end = *at == '{' ? strchr(at, '}') : NULL;
        if (end == NULL) {
            ret[len++] = *at++;
            continue;
        }
        ORR_TRY(value_of(e, at + 1, (size_t)(end - at - 1), ret + len, room - len, err));
        len += strlen(ret + len);
        at = end + 1;
    }
    ret[len] = '\0';
    return ORR_OK;
}

/* --- styles ---------------------------------------------------------------------------------- */

/* Length of the part of a name that says its section: up to the last dot. */
static size_t section_of(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL ? (size_t)(dot - name) : 0;
}

static uint32_t count_dots(const char *text)
{
    uint32_t n = 0;
    for (; *text != '\0'; text++)
        n += *text == '.';
    return n;
}

static uint32_t depth_of(const emitter *e)
{
    return e->section[0] != '\0' ? count_dots(e->section) + 1 : 0;
}

/* Closes sections of JSON until the open one is, or holds, `name`. */
static void close_sections(emitter *e, const char *name)
{
    size_t len;
    while ((len = strlen(e->section)) > 0 &&
           (strncmp(e->section, name, len) != 0 || name[len] != '.')) {
        put(e, "\n%*s}", (int)(2 * depth_of(e)), "");
        e->section[section_of(e->section)] = '\0';
        e->first = false;
    }
}

static void put_json(emitter *e, const char *name, const char *value)
{
    close_sections(e, name);
    for (const char *dot;
         (dot = strchr(name + strlen(e->section) + (e->section[0] != '\0'), '.')) != NULL;) {
        const size_t open = strlen(e->section), from = open + (open > 0);
        put(e, "%s\n%*s\"%.*s\": {", e->first ? "" : ",", (int)(2 * depth_of(e) + 2), "",
            (int)(dot - name - (ptrdiff_t)from), name + from);
        snprintf(e->section, sizeof e->section, "%.*s", (int)(dot - name), name);
        e->first = true;
    }
    put(e, "%s\n%*s\"%s\": %s", e->first ? "" : ",", (int)(2 * depth_of(e) + 2), "",
        name + strlen(e->section) + (e->section[0] != '\0'), value);
    e->first = false;
}

static void put_toml(emitter *e, const char *name, const char *value)
{
    const size_t len = section_of(name);
    if (strlen(e->section) != len || memcmp(e->section, name, len) != 0) {
        snprintf(e->section, sizeof e->section, "%.*s", (int)len, name);
        put(e, "\n[%s]\n", e->section);
    }
    put(e, "%s = %s\n", name + len + (len > 0), value);
}

static void put_option(emitter *e, const char *name, const char *value)
{
    switch (e->table->style) {
    case ORR_FRAMEWORK_TOML:
        put_toml(e, name, value);
        break;
    case ORR_FRAMEWORK_JSON:
        put_json(e, name, value);
        break;
    case ORR_FRAMEWORK_YAML:
        put(e, "%s: %s\n", name, value);
        break;
    default:
        put(e, "%s%s%s\n", name, *value != '\0' ? " " : "", value);
    }
}

/* --- what has no option ---------------------------------------------------------------------- */

static void put_comment(emitter *e, const char *name, const char *value)
{
    if (e->table->style != ORR_FRAMEWORK_JSON) {
        put(e, "# no option: %s=%s\n", name, value);
        return;
    }
    char member[96], text[128];
    snprintf(member, sizeof member, "not_expressed.%s", name);
    snprintf(text, sizeof text, "\"%s\"", value);
    put_json(e, member, text);
}

/* Whether the framework can run one value of the field only, so that it needs no option. */
static bool is_fixed(const orr_framework_table *table, uint32_t field)
{
    for (uint32_t i = 0; i < table->n_rules; i++)
        if (table->rules[i].when == NULL && table->rules[i].allowed != NULL &&
            strcmp(table->rules[i].field, orr_quantity_name(field)) == 0 &&
            strpbrk(table->rules[i].allowed, " -+%/") == NULL)
            return true;
    return false;
}

static orr_status put_unexpressed(emitter *e, orr_error *err)
{
    orr_arena *arena = orr_arena_new(1024, 0);
    if (arena == NULL)
        return orr_fail_memory(err);
    for (uint32_t field = 0; field < ORR_PLAN_FIELDS; field++) {
        const uint32_t value = orr_plan_get(e->plan, field);
        char text[64];
        if (value == 0 || e->mentioned[field] || is_fixed(e->table, field))
            continue;
        orr_quantity_text(field, value, text, sizeof text);
        put_comment(e, orr_quantity_name(field), text);
    }
    orr_plan parts = {0};
    if (!e->mentioned[ORR_QUANTITY_sites])
        memcpy(parts.sites, e->plan->sites, sizeof parts.sites);
    if (!e->mentioned[ORR_QUANTITY_site_micro_batches])
        memcpy(parts.site_micro_batches, e->plan->site_micro_batches,
               sizeof parts.site_micro_batches);
    if (!e->mentioned[ORR_QUANTITY_recompute_modules])
        parts.recompute_modules = e->plan->recompute_modules;
    if (!e->mentioned[ORR_QUANTITY_sections]) {
        memcpy(parts.section_stages, e->plan->section_stages, sizeof parts.section_stages);
        memcpy(parts.section_layers, e->plan->section_layers, sizeof parts.section_layers);
    }
    const char *text = orr_plan_text(&parts, arena);
    if (text != NULL && *text != '\0')
        put_comment(e, "plan", text);
    orr_arena_free(arena);
    return text != NULL ? ORR_OK : orr_fail_memory(err);
}

/* --- the whole text -------------------------------------------------------------------------- */

static const orr_framework_label *label_of(const orr_framework_table *table, const orr_model *m)
{
    for (uint32_t i = 0; i < table->n_labels; i++)
        if (strcmp(table->labels[i].model, m->name) == 0 ||
            strcmp(table->labels[i].model, m->family) == 0)
            return &table->labels[i];
    return NULL;
}

/* Marks the quantities that a text speaks of, in conditions and in templates. */
static void mention(emitter *e, const char *text)
{
    static const char NAME[] = "abcdefghijklmnopqrstuvwxyz_0123456789";
    while (text != NULL && *text != '\0') {
        const size_t len = strspn(text, NAME);
        const uint32_t quantity = len > 0 ? orr_quantity_named(text, len) : ORR_QUANTITIES;
        if (quantity < ORR_QUANTITIES)
            e->mentioned[quantity] = true;
        text += len > 0 ? len : 1;
    }
}

/* Options with a label are for models that the framework has a name for. */
static bool lacks_label(const emitter *e, const char *value)
{
    return e->label == NULL && value != NULL &&
           (strstr(value, "{label}") != NULL || strstr(value, "{variant}") != NULL);
}

static orr_status put_options(emitter *e, orr_error *err)
{
    const orr_framework_table *table = e->table;
    char value[900];
    bool unlabeled = false;
    for (uint32_t i = 0; i < table->n_options; i++) {
        orr_framework_condition when;
        ORR_TRY(orr_framework_condition_parse(table->options[i].when, &when, err));
        mention(e, table->options[i].when);
        const bool lacks = lacks_label(e, table->options[i].value);
        ORR_TRY(render(e, table->options[i].value, value, sizeof value, err));
        if (orr_framework_condition_holds(&when, e->quantities) && !lacks)
            put_option(e, table->options[i].name, value);
        unlabeled |= lacks;
    }
    if (unlabeled)
        put_comment(e, "model", e->model->name);
    return ORR_OK;
}

static orr_status put_all(emitter *e, orr_error *err)
{
    char header[256];
    ORR_TRY(render(e, e->table->header, header, sizeof header, err));
    memset(e->mentioned, 0, sizeof e->mentioned);
    if (e->table->style == ORR_FRAMEWORK_JSON)
        put(e, "{");
    else
        put(e, "# %s\n", header);
    e->first = true;
    mention(e, e->table->implied);
    ORR_TRY(put_options(e, err));
    ORR_TRY(put_unexpressed(e, err));
    if (e->table->style == ORR_FRAMEWORK_JSON) {
        close_sections(e, "");
        put(e, "\n}\n");
    }
    return e->out_of_memory ? orr_fail_memory(err) : ORR_OK;
}

orr_status orr_framework_emit(orr_framework framework, const orr_model *model,
                              const orr_cluster *cluster, const orr_plan *plan, orr_arena *arena,
                              const char **ret, orr_error *err)
{
    emitter e = {.table = orr_framework_table_of(framework), .model = model, .plan = plan};
    const orr_plan whole = orr_plan_with_defaults(plan);
    if (e.table == NULL)
        return orr_fail(err, ORR_INVALID, "of which framework?");
    ORR_TRY(orr_framework_check(framework, model, plan, err));
    e.label = label_of(e.table, model);
    orr_quantities(model, &whole, cluster->n_levels > 0 ? cluster->levels[0].devices : 0,
                   e.quantities);
    orr_status status = put_all(&e, err);
    if (status == ORR_OK) {
        *ret = orr_arena_strndup(arena, e.text.at, e.text.n);
        status = *ret != NULL ? ORR_OK : orr_fail_memory(err);
    }
    orr_array_done(&e.text);
    return status;
}
