/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TESTS_FOLDER_H
#define ORR_TESTS_FOLDER_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A folder of its own for a test, as setup and teardown. */
static inline int make_folder(void **state)
{
    const char *parent = getenv("TMPDIR");
    char *path = malloc(4096);
    (void)snprintf(path, 4096, "%s/orrery-test-XXXXXX", parent != NULL ? parent : "/tmp");
    *state = path;
    return mkdtemp(path) != NULL ? 0 : -1;
}

static inline int remove_folder(void **state)
{
    char command[4200];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", (char *)*state);
    const int code = system(command);
    free(*state);
    return code;
}

/* Valid until the next call but three. */
static inline const char *in_folder(void **state, const char *name)
{
    static char paths[4][4200];
    static int next;
    char *path = paths[next++ % 4];
    (void)snprintf(path, sizeof paths[0], "%s/%s", (char *)*state, name);
    return path;
}

#endif
