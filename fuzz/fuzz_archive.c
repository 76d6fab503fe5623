/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <orrery/trace.h>

#include "fuzz.h"
#include "io/archive/archive.h"

enum { MOST_BYTES = 1 << 20, MOST_READ = 1 << 22 };

static void check_error(orr_status status, const orr_error *err)
{
    FUZZ_CHECK(status == ORR_OK || (err->text[0] != '\0' && strchr(err->text, '\n') == NULL));
}

/* Members and their contents come out in order until the end or one error. */
static void check_members(const char *path, size_t len)
{
    orr_archive *archive;
    orr_archive_member member;
    orr_error err = {.text = ""};
    uint8_t buffer[4096];
    size_t n = 1, total = 0;
    bool end = false;
    orr_status status = orr_archive_open(path, &archive, &err);
    check_error(status, &err);
    if (status != ORR_OK)
        return;
    for (uint32_t place = 0; total < MOST_READ; place++) {
        status = orr_archive_next(archive, &member, &end, &err);
        if (status != ORR_OK || end)
            break;
        FUZZ_CHECK(member.place == place && strncmp(member.name, "./", 2) != 0);
        FUZZ_CHECK(member.bytes <= (64 << 20) || member.bytes / 500 <= len);
        for (n = 1; n > 0 && total < MOST_READ && !member.encrypted; total += n) {
            n = 0;
            status = orr_archive_read(archive, buffer, sizeof buffer, &n, &err);
            check_error(status, &err);
            FUZZ_CHECK(n <= sizeof buffer);
        }
    }
    check_error(status, &err);
    orr_archive_close(archive);
}

/* As a job: whatever is found has a path behind the archive's, without tricks. */
static void check_job(const char *path)
{
    orr_arena *arena = orr_arena_new(0, 0);
    orr_error err = {.text = ""};
    const char *const *files;
    const orr_job_file *read;
    const orr_job *job = NULL;
    orr_read_options options;
    size_t n = 0;
    orr_read_options_init(&options);
    options.threads = 1;
    FUZZ_CHECK(arena != NULL);
    orr_status status = orr_trace_find(&path, 1, arena, &files, &n, &err);
    check_error(status, &err);
    for (size_t i = 0; status == ORR_OK && i < n; i++) {
        const size_t at = strlen(path);
        FUZZ_CHECK(strncmp(files[i], path, at) == 0);
        FUZZ_CHECK(files[i][at] == '\0' || orr_archive_name_fault(files[i] + at + 1) == NULL);
    }
    if (status == ORR_OK) {
        status = orr_job_read(&path, 1, &options, arena, &job, &read, &n, &err);
        check_error(status, &err);
    }
    orr_job_free(job);
    orr_arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    char path[64];
    if (len > MOST_BYTES)
        return 0;
    const int fd = memfd_create("input", 0);
    FUZZ_CHECK(fd >= 0);
    FUZZ_CHECK(write(fd, bytes, len) == (ssize_t)len);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    check_members(path, len);
    check_job(path);
    (void)close(fd);
    return 0;
}
