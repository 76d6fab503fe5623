/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/command/help.h"
#include "cli/command/interrupt.h"
#include "cli/command/option.h"
#include "io/stream/output.h"

static void catch_signals(void)
{
    orr_interrupt_catch();
    orr_interrupt_ignore_sigpipe();
    signal(SIGXFSZ, SIG_IGN);
}

static int unknown_command(const char *name)
{
    const char *names[32];

    for (size_t i = 0; i < orr_commands_n; i++)
        names[i] = orr_commands[i].name;
    const char *close = orr_closest_match(name, names, orr_commands_n);
    if (close)
        orr_complain("no command '%s'; did you mean '%s'?", name, close);
    else
        orr_complain("no command '%s'; see orrery --help", name);
    return EXIT_USAGE;
}

static int run_command(const orr_command *command, int argc, char **argv)
{
    orr_settings settings;
    orr_error err;

    if (orr_options_parse(argc, argv, command, &settings, &err) != ORR_OK) {
        orr_complain("%s", err.text);
        return EXIT_USAGE;
    }
    if (settings.version) {
        printf("orrery %s\n", orr_version());
        return EXIT_DONE;
    }
    if (!settings.help && !command && settings.n_args) {
        fputs("orrery: the command comes before its options; see orrery --help\n", stderr);
        return EXIT_USAGE;
    }
    if (settings.help || !command) {
        orr_help_print(command, settings.help ? stdout : stderr);
        return settings.help ? EXIT_DONE : EXIT_USAGE;
    }
    if (settings.n_args < command->min_args || settings.n_args > command->max_args)
        return orr_help_usage(command);
    return command->run(&settings);
}

static int run(int argc, char **argv)
{
    if (argc < 2 || argv[1][0] == '-')
        return run_command(NULL, argc - 1, argv + 1);
    if (strcmp(argv[1], "help") == 0) {
        const orr_command *about = argc > 2 ? orr_command_find(argv[2]) : NULL;
        if (argc > 2 && !about)
            return unknown_command(argv[2]);
        orr_help_print(about, stdout);
        return EXIT_DONE;
    }
    const orr_command *command = orr_command_find(argv[1]);
    return command ? run_command(command, argc - 2, argv + 2) : unknown_command(argv[1]);
}

int main(int argc, char **argv)
{
    catch_signals();
    const int code = run(argc, argv);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        const int why = errno;
        orr_interrupt_end_like_sigpipe();
        orr_complain("cannot write the output: %s", strerror(why));
        return EXIT_INPUT;
    }
    return code;
}
