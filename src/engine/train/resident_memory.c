/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/train/trainer.h"

/* Resident memory of this process: proc(5), /proc/pid/status and clear_refs. */

static int64_t status_bytes(const char *field)
{
    char text[8192];
    const int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return -1;
    const ssize_t n = read(file, text, sizeof text - 1);
    close(file);
    if (n <= 0)
        return -1;
    text[n] = '\0';
    const char *at = strstr(text, field);
    return at != NULL ? strtoll(at + strlen(field), NULL, 10) * 1024 : -1;
}

int64_t orr_resident_bytes(void)
{
    return status_bytes("VmRSS:");
}

int64_t orr_resident_most_bytes(void)
{
    return status_bytes("VmHWM:");
}

int64_t orr_resident_shared_bytes(void)
{
    return status_bytes("RssFile:") + status_bytes("RssShmem:");
}

void orr_resident_mark(void)
{
    const int file = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return;
    if (write(file, "5", 1) != 1) {
        /* otherwise the peak counts from the start of the process */
    }
    close(file);
}
