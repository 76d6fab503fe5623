/* SPDX-License-Identifier: Apache-2.0 */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/models/published_job.h"
#include "cli/command/help.h"
#include "cli/command/session.h"

#define DEFAULT_EXAMPLE "gpt_ddp_gloo_w2"
enum { PATH_ROOM = 4096 };

static bool is_directory(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The folder of the examples, into path: where the environment says, beside the installed
 * command, or in the source tree that the command was built in. */
static bool find_examples(char path[PATH_ROOM])
{
    static const char *const beside[] = {"../share/orrery/examples", "../../../examples/traces"};
    const char *said = getenv("ORRERY_EXAMPLES");
    char self[PATH_ROOM / 2];

    if (said)
        return snprintf(path, PATH_ROOM, "%s", said) < PATH_ROOM && is_directory(path);
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        return false;
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++)
        if (snprintf(path, PATH_ROOM, "%s/%s", self, beside[i]) < PATH_ROOM && is_directory(path))
            return true;
    return false;
}

static int list_examples(const char *root)
{
    char pattern[PATH_ROOM + 8];
    glob_t found;

    snprintf(pattern, sizeof pattern, "%s/*", root);
    if (glob(pattern, 0, NULL, &found) != 0)
        return EXIT_INPUT;
    for (size_t i = 0; i < found.gl_pathc; i++)
        puts(strrchr(found.gl_pathv[i], '/') + 1);
    globfree(&found);
    for (size_t i = 0; orr_published_job_name(i); i++)
        puts(orr_published_job_name(i));
    return EXIT_DONE;
}

int orr_command_demo(const orr_settings *settings)
{
    const char *example = settings->n_args ? settings->args[0] : DEFAULT_EXAMPLE;
    char root[PATH_ROOM], path[PATH_ROOM + 256], canonical[PATH_ROOM];

    if (orr_published_job_known(example))
        return orr_published_job(example, settings);
    if (!find_examples(root)) {
        orr_complain("demo: the bundled examples are not found; say where with ORRERY_EXAMPLES");
        return EXIT_INPUT;
    }
    if (strcmp(example, "list") == 0)
        return list_examples(root);
    snprintf(path, sizeof path, "%s/%s", root, example);
    if (strchr(example, '/') || !is_directory(path) || !realpath(path, canonical)) {
        orr_complain("demo: no example '%s'; orrery demo list lists them", example);
        return EXIT_USAGE;
    }
    orr_settings analyze = *settings;
    const char *const inputs[] = {canonical};
    analyze.args = inputs;
    analyze.n_args = 1;
    if (!settings->quiet)
        orr_complain("analysing %s", canonical);
    return orr_command_analyze(&analyze);
}
