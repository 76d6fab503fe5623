/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/command/help.h"
#include "cli/command/session.h"
#include "cli/traces/part.h"

/* The small tools around Chakra files: each the first word of the arguments. */
static int usage(const char *what, const char *given)
{
    orr_complain("chakra: %s '%s'; see orrery chakra --help", what, given);
    return EXIT_USAGE;
}

/* One pattern for all ranks, written to DIR/NAME.RANK.et. */
static orr_status generate(const orr_settings *settings, const char *pattern, orr_error *err)
{
    const orr_chakra_generate_options options = {
        .bytes = (uint64_t)settings->message_size,
        .runtime_ns = (settings->runtime_us > 0 ? settings->runtime_us : 5) * 1000};
    const orr_graph *graph = NULL;
    orr_status status = orr_chakra_generate(pattern, &options, &graph, err);
    for (int64_t rank = 0; status == ORR_OK && rank < settings->ranks; rank++) {
        char path[4096];
        const int n = snprintf(path, sizeof path, "%s/%s.%lld.et", settings->output,
                               orr_chakra_pattern_file(pattern), (long long)rank);
        status = n < 0 || (size_t)n >= sizeof path
                     ? orr_fail(err, ORR_IO, "%s: the path is too long", settings->output)
                     : orr_trace_write(path, ORR_FORMAT_CHAKRA, graph, err);
    }
    orr_graph_free(graph);
    return status;
}

/* --ranks of `generate`, a number; without it, 1. */
static bool count_ranks(const char *text, int64_t *ret)
{
    char *end = NULL;
    *ret = text == NULL ? 1 : strtoll(text, &end, 10);
    return (text == NULL || (end != text && *end == '\0')) && *ret >= 1 && *ret <= 1000000;
}

static int generate_patterns(const orr_settings *given)
{
    orr_error err = {.text = ""};
    orr_settings copy = *given;
    const orr_settings *settings = &copy;
    const char *about, *all = settings->n_args == 0 ? orr_chakra_pattern_name(0, &about) : NULL;

    if (settings->output == NULL)
        return usage("say with -o into which folder to", "generate");
    if (!count_ranks(settings->rank_list, &copy.ranks))
        return usage("--ranks is a number from 1 to 1000000, not", settings->rank_list);
    for (size_t i = 0; i < settings->n_args; i++)
        if (orr_chakra_pattern_file(settings->args[i]) == NULL)
            return usage("no pattern", settings->args[i]);
    orr_status status = mkdir(settings->output, 0777) == 0 || errno == EEXIST
                            ? ORR_OK
                            : orr_fail(&err, ORR_IO, "%s: cannot make the directory: %s",
                                       settings->output, strerror(errno));
    for (size_t i = 0; status == ORR_OK && i < settings->n_args; i++)
        status = generate(settings, settings->args[i], &err);
    for (uint32_t i = 1; status == ORR_OK && all != NULL; i++) {
        status = generate(settings, all, &err);
        all = orr_chakra_pattern_name(i, &about);
    }
    if (status != ORR_OK)
        orr_complain("%s", err.text);
    return status == ORR_OK ? EXIT_DONE : EXIT_INPUT;
}

/* `convert` with a part of the job asked for; Chakra files, unless the output is called otherwise.
 */
static int reduce(orr_settings *rest)
{
    if (!orr_part_asked(rest))
        return usage("say which part with --step, --subtree or --ranks to", "reduce");
    if (rest->output != NULL && orr_format_from_path(rest->output) == ORR_FORMAT_UNKNOWN)
        rest->to = orr_format_name(ORR_FORMAT_CHAKRA);
    return orr_command_convert(rest);
}

int orr_command_chakra(const orr_settings *settings)
{
    orr_settings rest = *settings;
    const char *tool = settings->args[0];

    rest.args++;
    rest.n_args--;
    if (strcmp(tool, "generate") == 0)
        return generate_patterns(&rest);
    if (strcmp(tool, "diff") == 0)
        return rest.n_args == 2 ? orr_command_diff(&rest) : usage("two files follow", tool);
    if (rest.n_args == 0)
        return usage("a file follows", tool);
    if (strcmp(tool, "reduce") == 0)
        return reduce(&rest);
    if (strcmp(tool, "json") == 0 || strcmp(tool, "text") == 0 || strcmp(tool, "dot") == 0 ||
        strcmp(tool, "graphml") == 0)
        rest.to = tool;
    else
        return usage("no tool", tool);
    if (rest.output == NULL)
        rest.output = "-";
    return orr_command_convert(&rest);
}
