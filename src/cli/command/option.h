/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_COMMAND_OPTION_H
#define ORR_CLI_COMMAND_OPTION_H

#include "base/closest.h"
#include "cli/command/command.h"

/* The one table of options. It drives the command line, the environment, --help, the man
 * page and the completions of the shells. An option that means different things to different
 * commands has a row for each, so that what help says is about the command at hand. */
typedef enum orr_option_kind {
    OPTION_FLAG,
    OPTION_TEXT,
    OPTION_NUMBER,
    OPTION_TEXTS /* may be given several times: const char *[ORR_TEXTS_MAX], NULL after the last */
} orr_option_kind;

/* Help prints the options of a command in these groups. */
typedef enum orr_option_group { GROUP_COMMAND, GROUP_OUTPUT, GROUP_GENERAL } orr_option_group;

enum { ORR_THREADS_MAX = 1024, ORR_OPTION_NAMES_MAX = 160 };

typedef struct orr_option {
    const char *name; /* "format": --format, ORRERY_FORMAT */
    char letter;      /* 'f' for -f, or 0                  */
    orr_option_kind kind;
    size_t offset;        /* of its field in orr_settings      */
    const char *value;    /* how help calls the value          */
    const char *choices;  /* "a|b|c", or NULL: any             */
    const char *commands; /* " analyze diff ", or NULL: all    */
    const char *about;
    orr_option_group group;
    int64_t min, max;     /* of a NUMBER; max 0: INT32_MAX                                */
    const char *old_name; /* still accepted, by the environment too, but not told; or NULL */
} orr_option;

extern const orr_option orr_options[];
extern const size_t orr_options_n;
bool orr_option_applies(const orr_option *option, const orr_command *command);
/* The options of a command in the order of its help: those that most runs give, its others, then
 * output and general ones. Returns how many; ret has room for ORR_OPTION_NAMES_MAX. */
size_t orr_options_of(const orr_command *command, const orr_option **ret);
/* Whether most runs of the command give the option: its row in the table of commands says so. */
bool orr_option_is_common(const orr_option *option, const orr_command *command);
/* "ORRERY_FAIL_IF", into name[0..size). */
void orr_option_environment(const orr_option *option, char *name, size_t size);

/* Defaults, then the environment, then argv[0..argc). Options may stand anywhere; "--" ends
 * them. argv is reordered so that settings->args are its inputs. `command` may be NULL
 * (the options of all commands are then known, but only those of no command apply).
 * Errors: INVALID, with a text for a person. */
orr_status orr_options_parse(int argc, char **argv, const orr_command *command,
                             orr_settings *settings, orr_error *err) ORR_MUST_CHECK;

/* The way back: words of a command line that says the same, in the arena, NULL after the last;
 * NULL: out of memory. For a process whose environment says nothing, see below. */
const char *const *orr_options_to_argv(const orr_command *command, const orr_settings *settings,
                                       orr_arena *arena);
/* Takes out of the environment whatever sets an option. */
void orr_options_unset_environment(void);

#endif /* ORR_CLI_COMMAND_OPTION_H */
