/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/checkpoint/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/checkpoint/manifest.h"
#include "io/stream/output.h"

#define LOCK "lock"

/* The folder of checkpoints as a whole: who may write to it, which checkpoint is the latest, and
 * what is removed. */

static int64_t step_of(const char *name)
{
    return strncmp(name, "step-", 5) == 0 ? strtoll(name + 5, NULL, 10) : -1;
}

/* Names that io/stream/output.c gives to what it has not finished. */
static bool is_unfinished(const char *name)
{
    return strstr(name, ".tmp.") != NULL;
}

/* Unlinks the files of a folder, or only the unfinished ones. */
static void remove_files(const char *folder, bool all)
{
    char file[4096 + 256];
    DIR *entries = opendir(folder);
    if (entries == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        (void)snprintf(file, sizeof file, "%s/%s", folder, entry->d_name);
        if (all || is_unfinished(entry->d_name))
            unlink(file); /* "." and ".." are no files */
    }
    closedir(entries);
}

static void remove_step(const char *folder, const char *name)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    remove_files(path, true);
    rmdir(path);
}

/* --- who may write -----------------------------------------------------------------------------
 */

static void remove_unfinished(const char *folder)
{
    char path[4096];
    DIR *all = opendir(folder);
    remove_files(folder, false);
    if (all == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(all)) != NULL;) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (step_of(entry->d_name) >= 0)
            remove_files(path, false);
    }
    closedir(all);
}

static orr_status fail_locked(int fd, const char *folder, orr_error *err)
{
    char pid[24] = "";
    const ssize_t n = pread(fd, pid, sizeof pid - 1, 0);
    close(fd);
    return orr_fail(err, ORR_INVALID, "%s: another run saves there (process %.*s)", folder,
                    n > 0 ? (int)strcspn(pid, "\n") : 1, n > 0 ? pid : "?");
}

/* Whether the file that is locked is still the one that the name leads to. */
static bool is_there(int fd, const char *path)
{
    struct stat own, there;
    return fstat(fd, &own) == 0 && stat(path, &there) == 0 && own.st_ino == there.st_ino &&
           own.st_dev == there.st_dev;
}

/* -1: a file system without locks. */
static orr_status lock_file(const char *folder, const char *path, int *ret, orr_error *err)
{
    for (;;) {
        const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0)
            return orr_fail(err, ORR_IO, "%s: %s", path, strerror(errno));
        const bool locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
        if (!locked && errno == EWOULDBLOCK)
            return fail_locked(fd, folder, err);
        *ret = locked ? fd : -1;
        if (locked && is_there(fd, path))
            return ORR_OK;
        close(fd);
        if (!locked)
            return ORR_OK;
    }
}

orr_status orr_checkpoint_lock(const char *folder, int *ret, orr_error *err)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/" LOCK, folder);
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return orr_fail(err, ORR_IO, "%s: %s", folder, strerror(errno));
    ORR_TRY(lock_file(folder, path, ret, err));
    if (*ret >= 0 && ftruncate(*ret, 0) == 0)
        (void)dprintf(*ret, "%ld\n", (long)getpid());
    remove_unfinished(folder);
    return ORR_OK;
}

void orr_checkpoint_unlock(const char *folder, int lock)
{
    char path[4096];
    if (lock < 0)
        return;
    (void)snprintf(path, sizeof path, "%s/" LOCK, folder);
    unlink(path);
    close(lock);
    rmdir(folder); /* where nothing was saved */
}

/* --- the latest ----------------------------------------------------------------------------- */

/* A checkpoint that a later one overtook, before all ranks were known to have written it, has no
 * manifest, and can never be resumed from. */
static bool is_committed(const char *folder, const char *name)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s/" ORR_MANIFEST_NAME, folder, name);
    return access(path, F_OK) == 0;
}

/* Deletes all checkpoints but the last two that were committed. Errors are ignored: an undeleted
 * checkpoint costs disk space only. */
static void remove_older(const char *folder, int64_t step)
{
    DIR *all = opendir(folder);
    int64_t before = -1;
    if (all == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(all)) != NULL;) {
        const int64_t at = step_of(entry->d_name);
        before = at < step && at > before && is_committed(folder, entry->d_name) ? at : before;
    }
    rewinddir(all);
    for (struct dirent *entry; (entry = readdir(all)) != NULL;) {
        const int64_t at = step_of(entry->d_name);
        if (at >= 0 && at < step && at != before)
            remove_step(folder, entry->d_name);
    }
    closedir(all);
}

orr_status orr_checkpoint_commit(const char *folder, int64_t step, orr_error *err)
{
    char path[4096];
    orr_output *out;
    uint64_t hash;
    (void)snprintf(path, sizeof path, "%s/step-%08lld", folder, (long long)step);
    ORR_TRY(orr_manifest_write(path, step, &hash, err));
    (void)snprintf(path, sizeof path, "%s/latest", folder);
    ORR_TRY(orr_output_open(path, &out, err));
    orr_output_printf(out, ORR_LATEST_FORMAT, (long long)step, (unsigned long long)hash);
    const orr_status status = orr_output_finish(out, err);
    orr_output_close(out);
    if (status == ORR_OK)
        remove_older(folder, step);
    return status;
}

void orr_checkpoint_remove(const char *folder)
{
    char path[4096];
    DIR *all = opendir(folder);
    if (all == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(all)) != NULL;)
        if (step_of(entry->d_name) >= 0)
            remove_step(folder, entry->d_name);
    closedir(all);
    static const char *const others[] = {"latest", LOCK};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, others[i]);
        unlink(path);
    }
    rmdir(folder);
}
