/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command/option.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELD(name) offsetof(orr_settings, name)

static const orr_settings defaults = {
    .format = "table", .color = "auto", .rank = -1, .spares = -1, .top = 10, .network_draws = 16};

bool orr_option_applies(const orr_option *option, const orr_command *command)
{
    char word[64];

    if (!option->commands)
        return true;
    if (!command)
        return false;
    snprintf(word, sizeof word, " %s ", command->name);
    return strstr(option->commands, word) != NULL;
}

/* Where the option stands in the list of those that most runs of the command give; NULL: nowhere.
 */
static const char *common_place(const orr_option *option, const orr_command *command)
{
    char word[64];

    if (!command)
        return NULL;
    snprintf(word, sizeof word, " %s ", option->name);
    return strstr(command->common, word);
}

bool orr_option_is_common(const orr_option *option, const orr_command *command)
{
    return common_place(option, command) != NULL;
}

/* Adds the options of one group that are common or not; the common ones in the order of their list.
 */
static size_t add_group(const orr_command *command, orr_option_group group, bool common,
                        const orr_option **ret)
{
    size_t n = 0;

    for (const orr_option *o = orr_options; o < orr_options + orr_options_n; o++) {
        if (!orr_option_applies(o, command) || o->group != group ||
            orr_option_is_common(o, command) != common)
            continue;
        size_t at = n++;
        for (; common && at > 0 && common_place(ret[at - 1], command) > common_place(o, command);
             at--)
            ret[at] = ret[at - 1];
        ret[at] = o;
    }
    return n;
}

size_t orr_options_of(const orr_command *command, const orr_option **ret)
{
    size_t n = add_group(command, GROUP_COMMAND, true, ret);

    for (orr_option_group group = GROUP_COMMAND; group <= GROUP_GENERAL; group++)
        n += add_group(command, group, false, ret + n);
    return n;
}

static void variable_name(const char *option, char *name, size_t size)
{
    snprintf(name, size, "ORRERY_%s", option);
    for (char *c = name; *c; c++)
        *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
}

void orr_option_environment(const orr_option *option, char *name, size_t size)
{
    variable_name(option->name, name, size);
}

static bool is_choice(const char *choices, const char *value)
{
    const size_t len = strlen(value);

    for (const char *at = choices; at;) {
        const char *bar = strchr(at, '|');
        const size_t n = bar ? (size_t)(bar - at) : strlen(at);
        if (n == len && memcmp(at, value, n) == 0)
            return true;
        at = bar ? bar + 1 : NULL;
    }
    return false;
}

static orr_status set_number(const orr_option *option, const char *from, const char *value,
                             int64_t *ret, orr_error *err)
{
    const int64_t max = option->max > 0 ? option->max : INT32_MAX;
    char *end;

    errno = 0;
    const long long number = strtoll(value, &end, 10);
    if (end != value && !*end && !errno && number >= option->min && number <= max)
        return *ret = number, ORR_OK;
    return option->min == 0 && (end == value || *end || number < 0)
               ? orr_fail(err, ORR_INVALID, "%s: '%s' is not a whole number of 0 or more", from,
                          value)
               : orr_fail(err, ORR_INVALID, "%s: '%s' is not a whole number from %lld to %lld",
                          from, value, (long long)option->min, (long long)max);
}

static orr_status add_text(const char *from, const char *value, const char **ret, orr_error *err)
{
    size_t n = 0;
    while (ret[n] != NULL)
        n++;
    if (n + 1 == ORR_TEXTS_MAX)
        return orr_fail(err, ORR_INVALID, "%s: at most %d of them", from, ORR_TEXTS_MAX - 1);
    ret[n] = value;
    return ORR_OK;
}

/* `from` says where the value stood, for the error: "--rank" or "ORRERY_RANK". */
static orr_status set_value(const orr_option *option, const char *from, const char *value,
                            orr_settings *settings, orr_error *err)
{
    char *field = (char *)settings + option->offset;

    switch (option->kind) {
    case OPTION_FLAG:
        *(bool *)field = true;
        return ORR_OK;
    case OPTION_TEXT:
        if (option->choices && !is_choice(option->choices, value))
            return orr_fail(err, ORR_INVALID, "%s: '%s' is not one of %s", from, value,
                            option->choices);
        *(const char **)field = value;
        return ORR_OK;
    case OPTION_NUMBER:
        return set_number(option, from, value, (int64_t *)field, err);
    case OPTION_TEXTS:
        return add_text(from, value, (const char **)field, err);
    }
    return ORR_OK;
}

static orr_status read_environment(const orr_command *command, orr_settings *settings,
                                   orr_error *err)
{
    for (const orr_option *o = orr_options; o < orr_options + orr_options_n; o++) {
        char name[64];
        orr_option_environment(o, name, sizeof name);
        const char *value = getenv(name);
        if (!value && o->old_name) {
            variable_name(o->old_name, name, sizeof name);
            value = getenv(name);
        }
        if (!value || !*value || !orr_option_applies(o, command) || o->offset == FIELD(help) ||
            o->offset == FIELD(version) || (o->kind == OPTION_FLAG && strcmp(value, "0") == 0))
            continue;
        ORR_TRY(set_value(o, name, value, settings, err));
    }
    return ORR_OK;
}

static orr_status unknown_option(const char *word, const orr_command *command, orr_error *err)
{
    const orr_option *known[ORR_OPTION_NAMES_MAX];
    const char *names[ORR_OPTION_NAMES_MAX];
    const size_t n = orr_options_of(command, known);

    for (size_t i = 0; i < n; i++)
        names[i] = known[i]->name;
    const char *close = strncmp(word, "--", 2) == 0 ? orr_closest_match(word + 2, names, n) : NULL;
    return close ? orr_fail(err, ORR_INVALID, "no option %s; did you mean --%s?", word, close)
                 : orr_fail(err, ORR_INVALID, "no option %s here; see --help", word);
}

static bool is_called(const orr_option *option, const char *name, size_t len)
{
    const char *old = option->old_name;

    return (strlen(option->name) == len && memcmp(option->name, name, len) == 0) ||
           (old && strlen(old) == len && memcmp(old, name, len) == 0);
}

static const orr_option *find_long(const char *name, size_t len, const orr_command *command)
{
    for (const orr_option *o = orr_options; o < orr_options + orr_options_n; o++)
        if (is_called(o, name, len) && orr_option_applies(o, command))
            return o;
    return NULL;
}

static const orr_option *find_letter(char letter, const orr_command *command)
{
    for (const orr_option *o = orr_options; o < orr_options + orr_options_n; o++)
        if (letter && o->letter == letter && orr_option_applies(o, command))
            return o;
    return NULL;
}

/* One word that begins with '-': "--name", "--name=value", "-x", "-xvalue"; *at moves past a value
 * that is the next word. */
static orr_status parse_option(int argc, char **argv, int *at, const orr_command *command,
                               orr_settings *settings, orr_error *err)
{
    const char *word = argv[*at], *value = NULL;
    const bool is_long = word[1] == '-';
    const char *equals = is_long ? strchr(word, '=') : NULL;
    const orr_option *o;

    if (is_long)
        o = find_long(word + 2, equals ? (size_t)(equals - word - 2) : strlen(word + 2), command);
    else
        o = find_letter(word[1], command);
    if (!o)
        return unknown_option(word, command, err);
    if (equals)
        value = equals + 1;
    else if (!is_long && word[2])
        value = word + 2;
    if (o->kind == OPTION_FLAG && value)
        return orr_fail(err, ORR_INVALID, "--%s takes no value", o->name);
    if (o->kind != OPTION_FLAG && !value) {
        if (*at + 1 >= argc)
            return orr_fail(err, ORR_INVALID, "--%s needs a %s", o->name, o->value);
        value = argv[++*at];
    }
    return set_value(o, word, value, settings, err);
}

orr_status orr_options_parse(int argc, char **argv, const orr_command *command,
                             orr_settings *settings, orr_error *err)
{
    int n_inputs = 0;

    *settings = defaults;
    ORR_TRY(read_environment(command, settings, err));
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            while (++i < argc)
                argv[n_inputs++] = argv[i];
        } else if (argv[i][0] == '-' && argv[i][1]) {
            ORR_TRY(parse_option(argc, argv, &i, command, settings, err));
        } else {
            argv[n_inputs++] = argv[i];
        }
    }
    settings->args = (const char *const *)argv;
    settings->n_args = (size_t)n_inputs;
    return ORR_OK;
}

/* NULL and *failed as it was: the option is at its default. */
static const char *word_of(const orr_option *o, const orr_settings *settings, orr_arena *arena,
                           bool *failed)
{
    const char *field = (const char *)settings + o->offset;
    const char *usual = (const char *)&defaults + o->offset;
    const char *word = NULL;
    const char *text = o->kind == OPTION_TEXT ? *(const char *const *)field : NULL;
    if (o->kind == OPTION_FLAG && *(const bool *)field)
        word = orr_arena_printf(arena, "--%s", o->name);
    else if (text != NULL && text != *(const char *const *)usual)
        word = orr_arena_printf(arena, "--%s=%s", o->name, text);
    else if (o->kind == OPTION_NUMBER && *(const int64_t *)field != *(const int64_t *)usual)
        word = orr_arena_printf(arena, "--%s=%lld", o->name, (long long)*(const int64_t *)field);
    else
        return NULL;
    *failed |= word == NULL;
    return word;
}

/* Options that are given several times. Returns how many words they are. */
static size_t words_of_texts(const orr_command *command, const orr_settings *settings,
                             orr_arena *arena, const char **words, bool *failed)
{
    size_t n = 0;
    for (size_t i = 0; i < orr_options_n; i++) {
        const orr_option *o = &orr_options[i];
        const char *const *texts = (const char *const *)((const char *)settings + o->offset);
        if (o->kind != OPTION_TEXTS || !orr_option_applies(o, command))
            continue;
        for (; *texts != NULL; texts++, n++)
            *failed |= (words[n] = orr_arena_printf(arena, "--%s=%s", o->name, *texts)) == NULL;
    }
    return n;
}

const char *const *orr_options_to_argv(const orr_command *command, const orr_settings *settings,
                                       orr_arena *arena)
{
    const char **words =
        orr_arena_array(arena, const char *, orr_options_n + ORR_TEXTS_MAX + settings->n_args + 4);
    size_t n = 0;
    bool failed = false;

    if (words == NULL)
        return NULL;
    words[n++] = "orrery";
    words[n++] = command->name;
    for (size_t i = 0; i < orr_options_n; i++)
        if (orr_option_applies(&orr_options[i], command) &&
            (words[n] = word_of(&orr_options[i], settings, arena, &failed)) != NULL)
            n++;
    n += words_of_texts(command, settings, arena, words + n, &failed);
    words[n++] = "--";
    for (size_t i = 0; i < settings->n_args; i++)
        words[n++] = settings->args[i];
    words[n] = NULL;
    return failed ? NULL : words;
}

void orr_options_unset_environment(void)
{
    for (size_t i = 0; i < orr_options_n; i++) {
        char name[64];
        orr_option_environment(&orr_options[i], name, sizeof name);
        unsetenv(name);
        if (orr_options[i].old_name) {
            variable_name(orr_options[i].old_name, name, sizeof name);
            unsetenv(name);
        }
    }
}
