/* SPDX-License-Identifier: Apache-2.0 */
/* Completions of the shells and the man page, all from the tables of commands and options. */
#include <stdio.h>
#include <string.h>

#include "cli/command/help.h"
#include "cli/command/option.h"

/* "a|b|c" as "a b c". */
static void print_words(const char *choices)
{
    for (const char *c = choices; *c; c++)
        putchar(*c == '|' ? ' ' : *c);
}

/* Patterns "train --task|train -t|..." of one option and every command that has it. */
static void print_bash_pattern(const orr_option *o)
{
    bool first = true;

    printf("    ");
    for (size_t i = 0; i < orr_commands_n; i++) {
        if (!orr_option_applies(o, &orr_commands[i]))
            continue;
        printf("%s'%s --%s'", first ? "" : "|", orr_commands[i].name, o->name);
        if (o->letter)
            printf("|'%s -%c'", orr_commands[i].name, o->letter);
        first = false;
    }
}

static void print_bash_values(void)
{
    puts("    case \"$command $prev\" in");
    for (const orr_option *o = orr_options; o < orr_options + orr_options_n; o++) {
        if (!o->choices)
            continue;
        print_bash_pattern(o);
        printf(") COMPREPLY=($(compgen -W '");
        print_words(o->choices);
        puts("' -- \"$cur\")); return ;;");
    }
    puts("    esac");
}

/* Of each command: its options, and its argument where that is one of a few words. */
static void print_bash_commands(void)
{
    const orr_option *options[ORR_OPTION_NAMES_MAX];

    puts("    case $command in");
    for (size_t i = 0; i < orr_commands_n; i++) {
        const size_t n = orr_options_of(&orr_commands[i], options);
        printf("    %s) options='", orr_commands[i].name);
        for (size_t o = 0; o < n; o++)
            printf("--%s ", options[o]->name);
        putchar('\'');
        if (strchr(orr_commands[i].arguments, '|')) {
            printf(" arguments='");
            print_words(orr_commands[i].arguments);
            putchar('\'');
        }
        puts(" ;;");
    }
    puts("    esac");
}

static void print_bash(void)
{
    puts(
        "# bash completion for orrery\n_orrery() {\n"
        "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}\n"
        "    local options arguments");
    print_bash_values();
    printf("    if [ \"$COMP_CWORD\" = 1 ]; then\n        COMPREPLY=($(compgen -W '");
    for (size_t i = 0; i < orr_commands_n; i++)
        printf("%s%s", i ? " " : "", orr_commands[i].name);
    puts("' -- \"$cur\"))\n        return\n    fi");
    print_bash_commands();
    puts(
        "    case $cur in\n    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$cur\")) ;;\n"
        "    *) if [ -n \"$arguments\" ]; then COMPREPLY=($(compgen -W \"$arguments\" -- \"$cur\"))\n"
        "       else COMPREPLY=($(compgen -f -- \"$cur\")); fi ;;\n    esac\n}\n"
        "complete -o filenames -F _orrery orrery");
}

/* Text inside '...' of a shell, with more characters escaped where the shell's own format needs it.
 */
static void print_quoted(const char *text, const char *escape)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", stdout);
        else
            printf(strchr(escape, *text) ? "\\%c" : "%c", *text);
    }
}

static void print_zsh_option(const orr_option *o)
{
    printf("        '");
    if (o->letter)
        printf("(-%c --%s)'{-%c,--%s}'", o->letter, o->name, o->letter, o->name);
    else
        printf("--%s", o->name);
    printf("[");
    print_quoted(o->about, "[]:");
    printf("]");
    if (o->value) {
        printf(":%s:", o->value);
        if (o->choices) {
            putchar('(');
            print_words(o->choices);
            putchar(')');
        } else if (strcmp(o->value, "FILE") == 0) {
            printf("_files");
        }
    }
    puts("' \\");
}

static void print_zsh(void)
{
    const orr_option *options[ORR_OPTION_NAMES_MAX];

    puts("#compdef orrery\n_orrery() {\n    local -a commands=(");
    for (size_t i = 0; i < orr_commands_n; i++) {
        printf("        '%s:", orr_commands[i].name);
        print_quoted(orr_commands[i].summary, ":");
        puts("'");
    }
    puts("    )\n    if (( CURRENT == 2 )); then _describe command commands; return; fi\n"
         "    local command=$words[2]\n    shift words; (( CURRENT-- ))\n    case $command in");
    for (size_t i = 0; i < orr_commands_n; i++) {
        const size_t n = orr_options_of(&orr_commands[i], options);
        printf("    %s) _arguments \\\n", orr_commands[i].name);
        for (size_t o = 0; o < n; o++)
            print_zsh_option(options[o]);
        puts("        '*:input:_files' ;;");
    }
    puts("    esac\n}\n_orrery \"$@\"");
}

static void print_fish(void)
{
    puts("# fish completion for orrery");
    for (size_t i = 0; i < orr_commands_n; i++) {
        printf("complete -c orrery -n __fish_use_subcommand -f -a %s -d '", orr_commands[i].name);
        print_quoted(orr_commands[i].summary, "");
        puts("'");
    }
    for (const orr_option *o = orr_options; o < orr_options + orr_options_n; o++) {
        printf("complete -c orrery");
        if (o->commands)
            printf(" -n '__fish_seen_subcommand_from%.*s'", (int)strlen(o->commands) - 1,
                   o->commands);
        printf(" -l %s", o->name);
        if (o->letter)
            printf(" -s %c", o->letter);
        if (o->choices) {
            printf(" -x -a '");
            print_words(o->choices);
            putchar('\'');
        } else if (o->kind != OPTION_FLAG) {
            printf(" -r");
        }
        printf(" -d '");
        print_quoted(o->about, "");
        puts("'");
    }
}

/* Text of a man page: backslashes, hyphens and leading dots made safe. */
static void print_roff(const char *text)
{
    for (bool line_start = true; *text; text++) {
        if (line_start && (*text == '.' || *text == '\''))
            fputs("\\&", stdout);
        line_start = *text == '\n';
        if (*text == '\\')
            fputs("\\e", stdout);
        else if (*text == '-')
            fputs("\\-", stdout);
        else if (*text == '\n')
            fputs("\n.PP\n", stdout);
        else
            putchar(*text);
    }
    putchar('\n');
}

static void print_man_option(const orr_option *o)
{
    char name[64];

    printf(".TP\n");
    if (o->letter)
        printf("\\fB\\-%c\\fR, ", o->letter);
    printf("\\fB\\-\\-");
    for (const char *c = o->name; *c; c++)
        printf(*c == '-' ? "\\-" : "%c", *c);
    printf("\\fR");
    if (o->value)
        printf(" \\fI%s\\fR", o->value);
    putchar('\n');
    print_roff(o->about);
    if (o->choices)
        printf("(\\fI%s\\fR)\n", o->choices);
    orr_option_environment(o, name, sizeof name);
    printf(".br\nEnvironment: \\fB%s\\fR\n", name);
}

/* Options that say the same of every command that has them stand at the end, once. */
static bool is_shared(const orr_option *o)
{
    return o->group == GROUP_GENERAL && !o->commands;
}

static void print_man_command(const orr_command *c)
{
    printf(".SS orrery %s %s\n", c->name, c->arguments);
    print_roff(c->details);
    printf(".PP\n.nf\n");
    for (const char *line = c->examples; *line;) {
        const int n = (int)strcspn(line, "\n");
        printf(".RS\n");
        for (int i = 0; i < n; i++)
            printf(line[i] == '-' ? "\\-" : line[i] == '\\' ? "\\e" : "%c", line[i]);
        printf("\n.RE\n");
        line += n;
        line += *line != '\0';
    }
    printf(".fi\n");
    const orr_option *options[ORR_OPTION_NAMES_MAX];
    const size_t n = orr_options_of(c, options);
    for (size_t i = 0; i < n; i++)
        if (!is_shared(options[i]))
            print_man_option(options[i]);
}

static void print_man(void)
{
    printf(".TH ORRERY 1 \"\" \"orrery %s\" \"User Commands\"\n", orr_version());
    puts(".SH NAME\norrery \\- where did the time of an AI job go\n.SH SYNOPSIS\n"
         ".B orrery\n.I COMMAND\n[\\fIOPTION\\fR...] [\\fIINPUT\\fR...]\n.SH COMMANDS");
    for (size_t i = 0; i < orr_commands_n; i++)
        print_man_command(&orr_commands[i]);
    puts(".SH OPTIONS OF ALL COMMANDS");
    for (size_t i = 0; i < orr_options_n; i++)
        if (is_shared(&orr_options[i]))
            print_man_option(&orr_options[i]);
    puts(".SH EXIT STATUS\n0 done; 1 a condition held; 2 usage; 3 unreadable or invalid input; "
         "4 infeasible: a plan, a machine or a job that cannot be; 130 interrupted.");
}

int orr_command_completion(const orr_settings *settings)
{
    static const struct {
        const char *name;
        void (*print)(void);
    } kinds[] = {
        {"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}, {"man", print_man}};

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(settings->args[0], kinds[i].name) == 0) {
            kinds[i].print();
            return EXIT_DONE;
        }
    }
    orr_complain("completion: '%s' is not one of bash|zsh|fish|man", settings->args[0]);
    return EXIT_USAGE;
}
