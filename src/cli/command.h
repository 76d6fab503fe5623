/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_COMMAND_H
#define ORR_CLI_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include <orrery/orrery.h>

/* Exit codes of the command. */
enum {
    EXIT_DONE = 0,
    EXIT_CONDITION = 1, /* a --fail-if condition held, or validate found a fault */
    EXIT_USAGE = 2,
    EXIT_INPUT = 3, /* unreadable or invalid input, or an output that could not be written */
    EXIT_INTERRUPTED = 130,
};

/* What the options of the command line say, with their defaults filled in. */
typedef struct orr_settings {
    const char *format, *output, *html, *only, *step, *annotation, *from, *to, *fail_if, *color,
        *op, *path;
    int64_t rank, threads, top;
    bool tolerant, all, normalise, quiet, verbose, help, version;
    /* what is left: the inputs */
    const char *const *args;
    size_t n_args;
} orr_settings;

/* A subcommand: one row of the table in command.c, one file. */
typedef struct orr_command {
    const char *name;
    const char *summary;   /* one line */
    const char *arguments; /* of the usage line: "TRACE..." */
    const char *details;   /* paragraphs of --help and the man page */
    const char *examples;  /* lines, each a command */
    size_t min_args, max_args;
    int (*run)(const orr_settings *settings);
} orr_command;

extern const orr_command orr_commands[];
extern const size_t orr_commands_n;
const orr_command *orr_command_find(const char *name); /* NULL: none */

/* Man page and completions, from the tables. */
int orr_command_completion(const orr_settings *settings);
int orr_command_analyze(const orr_settings *settings);
int orr_command_convert(const orr_settings *settings);
int orr_command_demo(const orr_settings *settings);
int orr_command_diff(const orr_settings *settings);
int orr_command_info(const orr_settings *settings);
int orr_command_validate(const orr_settings *settings);

#endif /* ORR_CLI_COMMAND_H */
