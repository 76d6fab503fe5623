/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command/help.h"

#include <stdarg.h>
#include <string.h>

#include "base/printable.h"
#include "cli/command/option.h"

enum { WIDTH = 80, OPTION_COLUMN = 26 };

/* Words of `text` from column `at`, wrapped at WIDTH, later lines indented to `indent`. */
static void print_wrapped(FILE *to, const char *text, int at, int indent)
{
    while (*text) {
        const int n = (int)strcspn(text, " \n");
        if (at + 1 + n > WIDTH && at > indent) {
            fprintf(to, "\n%*s", indent, "");
            at = indent;
        }
        at += fprintf(to, "%s%.*s", at > indent ? " " : "", n, text);
        text += n;
        if (*text == '\n') {
            fprintf(to, "\n%*s", indent, "");
            at = indent;
        }
        text += *text != '\0';
    }
    fputc('\n', to);
}

static void print_option(const orr_option *o, FILE *to)
{
    int at = o->letter ? fprintf(to, "  -%c, --%s", o->letter, o->name)
                       : fprintf(to, "      --%s", o->name);
    if (o->value)
        at += fprintf(to, " %s", o->value);
    if (at + 2 > OPTION_COLUMN) {
        fprintf(to, "\n");
        at = 0;
    }
    fprintf(to, "%*s", OPTION_COLUMN - at, "");
    char text[512];
    if (o->choices)
        snprintf(text, sizeof text, "%s (%s)", o->about, o->choices);
    else
        snprintf(text, sizeof text, "%s", o->about);
    print_wrapped(to, text, OPTION_COLUMN, OPTION_COLUMN);
}

/* A heading before the first option of each group. */
static const char *heading(const orr_option *o, const orr_command *command)
{
    static const char *const of_group[] = {"Options", "Output", "General"};

    return orr_option_is_common(o, command) ? "Common options"
           : command && o->group == GROUP_COMMAND && command->common[0] != '\0'
               ? "Other options"
               : of_group[o->group];
}

static void print_options(const orr_command *command, FILE *to)
{
    const orr_option *options[ORR_OPTION_NAMES_MAX];
    const size_t n = orr_options_of(command, options);
    const char *last = "";

    for (size_t i = 0; i < n; i++) {
        const char *now = heading(options[i], command);
        if (strcmp(now, last) != 0)
            fprintf(to, "\n%s:\n", now);
        last = now;
        print_option(options[i], to);
    }
    fputc('\n', to);
    print_wrapped(to,
                  "Each option can be set in the environment, e.g. ORRERY_COLOR; the command line "
                  "wins.",
                  0, 0);
}

static void print_examples(const char *examples, FILE *to)
{
    fprintf(to, "\nExamples:\n");
    while (*examples) {
        const int n = (int)strcspn(examples, "\n");
        fprintf(to, "  %.*s\n", n, examples);
        examples += n;
        examples += *examples != '\0';
    }
}

static void print_overview(FILE *to)
{
    fprintf(to,
            "orrery %s: where did the time of an AI job go\n\nUsage: orrery COMMAND [OPTION...]"
            " [INPUT...]\n\nCommands:\n",
            orr_version());
    for (size_t i = 0; i < orr_commands_n; i++)
        fprintf(to, "  %-12s%s\n", orr_commands[i].name, orr_commands[i].summary);
    print_options(NULL, to);
    fprintf(to, "\n`orrery COMMAND --help` tells more. Exit status: 0 done, 1 a condition held,\n"
                "2 usage, 3 unreadable or invalid input, 4 infeasible, 130 interrupted.\n");
}

void orr_help_print(const orr_command *command, FILE *to)
{
    if (!command) {
        print_overview(to);
        return;
    }
    fprintf(to, "Usage: orrery %s [OPTION...]%s%s\n\n", command->name,
            *command->arguments != '\0' ? " " : "", command->arguments);
    print_wrapped(to, command->details, 0, 0);
    print_options(command, to);
    print_examples(command->examples, to);
}

void orr_complain(const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    orr_text_make_printable(text);
    fprintf(stderr, "orrery: %s\n", text);
}

int orr_help_usage(const orr_command *command)
{
    orr_complain("usage: orrery %s%s%s; see orrery %s --help", command->name,
                 *command->arguments != '\0' ? " " : "", command->arguments, command->name);
    return EXIT_USAGE;
}
