/* SPDX-License-Identifier: Apache-2.0 */
#include "failing.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/command/option.h"
#include "leaks.h"

enum { ALL_OF_THE_FIRST = 1000, SAMPLES = 500, TRIES = 4 };

static char folder[] = "/tmp/orrery-no-memory-XXXXXX";

const char *inside(const char *name)
{
    static char paths[2][PATH_ROOM];
    static int turn;
    char *path = paths[turn = !turn];
    snprintf(path, PATH_ROOM, "%s/%s", folder, name);
    return path;
}

static bool slow(void)
{
    const char *said = getenv("ORRERY_SLOW");
    return said && *said && strcmp(said, "0") != 0;
}

/* Take everything out of the folder; how many files that were. */
static unsigned empty_folder(void)
{
    DIR *dir = opendir(folder);
    unsigned n = 0;

    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir));)
        if (entry->d_name[0] != '.') {
            assert_int_equal(unlink(inside(entry->d_name)), 0);
            n++;
        }
    closedir(dir);
    return n;
}

static void must(work body, orr_error *err)
{
    const orr_status status = body(err);
    if (status != ORR_OK)
        fail_msg("%s: %s", orr_status_name(status), err->text);
}

/* Bytes that the nth failing allocation leaks, and *before as it is then. Work that is done again
 * leaks again; what the C library keeps for a thread more that happened to run at once, it keeps
 * once. */
static size_t leaked_by(work body, uint64_t nth, size_t *before)
{
    size_t now = allocated_bytes(), leaked = now - *before;
    for (int again = 0; again < TRIES && leaked != 0; again++) {
        orr_error err = {.text = ""};
        *before = now;
        orr_alloc_fail_from(nth);
        const orr_status status = body(&err);
        orr_alloc_fail_from(0);
        (void)status;
        (void)empty_folder();
        now = allocated_bytes();
        leaked = now - *before;
    }
    *before = now;
    return leaked;
}

void fail_each_allocation(work body)
{
    orr_error err;
    uint64_t survived = 0, tried = 0;

    must(body, &err); /* what is allocated once and kept */
    orr_alloc_fail_from(0);
    must(body, &err);
    const uint64_t n = orr_alloc_count();
    const unsigned n_files = empty_folder();
    size_t before = allocated_bytes();
    const uint64_t step =
        !slow() && n > ALL_OF_THE_FIRST + SAMPLES ? (n - ALL_OF_THE_FIRST) / SAMPLES : 1;

    for (uint64_t nth = 1; nth <= n; nth += nth < ALL_OF_THE_FIRST ? 1 : step, tried++) {
        err = (orr_error){.text = ""};
        orr_alloc_fail_from(nth);
        const orr_status status = body(&err);
        orr_alloc_fail_from(0);
        const unsigned left = empty_folder();
        survived += status == ORR_OK;
        if (status != ORR_OK && status != ORR_NO_MEMORY)
            fail_msg("allocation %llu of %llu: %s: %s", (unsigned long long)nth,
                     (unsigned long long)n, orr_status_name(status), err.text);
        if (status == ORR_OK ? left != n_files : left > n_files - (n_files > 0))
            fail_msg("allocation %llu of %llu: %s and %u files", (unsigned long long)nth,
                     (unsigned long long)n, orr_status_name(status), left);
        const size_t leaked = leaked_by(body, nth, &before);
        if (leaked != 0)
            fail_msg("allocation %llu of %llu: %zd bytes leaked", (unsigned long long)nth,
                     (unsigned long long)n, (ssize_t)leaked);
    }
    assert_true(nothing_leaked());
    print_message("# %llu of %llu allocations failed, %llu times the work was done all the same\n",
                  (unsigned long long)tried, (unsigned long long)n, (unsigned long long)survived);
}

/* A whole command, its standard error caught: status 3 comes with one line that says why. */
orr_status run_command(const char *name, const char *const *argv, int argc, orr_error *err)
{
    static char said[4096];
    const orr_command *row = orr_command_find(name);
    orr_settings settings;
    FILE *catch = tmpfile();
    const int old = dup(STDERR_FILENO);
    char *words[16];

    assert_non_null(catch);
    assert_true(argc <= (int)(sizeof words / sizeof *words));
    memcpy(words, argv, (size_t)argc * sizeof *argv);
    assert_int_equal(orr_options_parse(argc, words, row, &settings, err), ORR_OK);
    dup2(fileno(catch), STDERR_FILENO);
    const int code = row->run(&settings);
    dup2(old, STDERR_FILENO);
    close(old);
    const ssize_t n = pread(fileno(catch), said, sizeof said - 1, 0);
    said[n > 0 ? n : 0] = '\0';
    fclose(catch);
    if (code == EXIT_DONE)
        return ORR_OK;
    const char *end = strchr(said, '\n');
    if (code != EXIT_INPUT || strncmp(said, "orrery: ", 8) != 0 || !end || end[1])
        return orr_fail(err, ORR_INVALID, "%s: exit %d: '%s'", name, code, said);
    return strstr(said, "out of memory") ? ORR_NO_MEMORY
                                         : orr_fail(err, ORR_IO, "%s: '%s'", name, said);
}

int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

int remove_folder(void **state)
{
    (void)state;
    orr_alloc_fail_from(0);
    empty_folder();
    return rmdir(folder);
}
