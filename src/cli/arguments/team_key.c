/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/arguments/team_key.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LEAST = 16, MOST = 4096 };

static orr_status read_key(const char *path, int fd, char room[MOST + 1], size_t *ret,
                           orr_error *err)
{
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0)
        return orr_fail(err, ORR_IO, "--key %s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return orr_fail(err, ORR_INVALID, "--key %s: it is no file", path);
    if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return orr_fail(err, ORR_INVALID, "--key %s: others may use it; chmod 600 %s", path, path);
    const ssize_t n = read(fd, room, MOST + 1);
    if (n < 0)
        return orr_fail(err, ORR_IO, "--key %s: %s", path, strerror(errno));
    if (n < LEAST || n > MOST)
        return orr_fail(err, ORR_INVALID,
                        "--key %s: a key has %d to %d bytes; head -c 32 /dev/urandom", path, LEAST,
                        MOST);
    *ret = (size_t)n;
    return ORR_OK;
}

orr_status orr_arguments_team_access(const orr_settings *s, orr_arena *arena, orr_team_access *ret,
                                     orr_error *err)
{
    orr_team_access made = {.insecure = s->insecure,
                            .encrypt_all = s->encrypt != NULL && strcmp(s->encrypt, "all") == 0};
    if (s->key == NULL && s->encrypt != NULL)
        return orr_fail(err, ORR_INVALID, "--encrypt: by which key? Add --key FILE");
    if (s->key != NULL && s->insecure)
        return orr_fail(err, ORR_INVALID, "--key or --insecure");
    if (s->key != NULL) {
        char *key = orr_arena_array(arena, char, MOST + 1);
        if (key == NULL)
            return orr_fail_memory(err);
        const int fd = open(s->key, O_RDONLY | O_CLOEXEC);
        const orr_status status = read_key(s->key, fd, key, &made.key_bytes, err);
        if (fd >= 0)
            close(fd);
        ORR_TRY(status);
        made.key = key;
    }
    *ret = made;
    return ORR_OK;
}
