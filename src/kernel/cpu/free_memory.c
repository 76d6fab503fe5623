/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/free_memory.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t available_bytes(const char *proc)
{
    char path[PATH_MAX], line[256];
    long long kib = -1;
    (void)snprintf(path, sizeof path, "%s/meminfo", proc);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return -1;
    while (kib < 0 && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "MemAvailable: %lld", &kib) != 1)
            kib = -1;
    (void)fclose(file);
    return kib < 0 ? -1 : kib * 1024;
}

/* The number that a file holds; -1: none, as when memory.max is "max". */
static int64_t number_in(const char *folder, const char *name)
{
    char path[PATH_MAX];
    long long value;
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return -1;
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return -1;
    const int n = fscanf(file, "%lld", &value);
    (void)fclose(file);
    return n == 1 && value >= 0 ? value : -1;
}

/* File pages charged to a control group that would be reclaimed first. */
static int64_t inactive_file_bytes(const char *folder)
{
    char path[PATH_MAX], line[256];
    long long bytes = 0;
    if (snprintf(path, sizeof path, "%s/memory.stat", folder) >= (int)sizeof path)
        return 0;
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return 0;
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "inactive_file %lld", &bytes) == 1)
            break;
    (void)fclose(file);
    return bytes;
}

/* Bytes that a control group (version 1 or 2) has left; -1: it has no limit. */
static int64_t left_by_group(const char *folder)
{
    int64_t most = number_in(folder, "memory.max"), now = number_in(folder, "memory.current");
    if (most < 0) {
        most = number_in(folder, "memory.limit_in_bytes");
        now = number_in(folder, "memory.usage_in_bytes");
    }
    if (most < 0 || now < 0)
        return -1;
    const int64_t left = most - now + inactive_file_bytes(folder);
    return left > 0 ? left : 0;
}

/* This process's control group: the path of the line "0::/path" (version 2) or "7:memory:/path". */
static bool find_group(const char *proc, bool *ret_unified, char *ret, size_t size)
{
    char path[PATH_MAX], line[PATH_MAX];
    bool found = false;
    (void)snprintf(path, sizeof path, "%s/self/cgroup", proc);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return false;
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        const char *of_memory = strstr(line, ":memory:");
        const bool unified = strncmp(line, "0::", 3) == 0;
        if (of_memory == NULL && !(unified && !found))
            continue;
        (void)snprintf(ret, size, "%s", of_memory != NULL ? of_memory + 8 : line + 3);
        *ret_unified = of_memory == NULL;
        found = true;
    }
    (void)fclose(file);
    return found;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < 0 ? b : b < 0 || a < b ? a : b;
}

int64_t orr_memory_free_bytes(const char *proc, const char *cgroup)
{
    char group[PATH_MAX], folder[2 * PATH_MAX];
    bool unified = true;
    int64_t left = available_bytes(proc);
    if (!find_group(proc, &unified, group, sizeof group))
        return left;
    /* Limits of all parent groups apply too. Inside a container the path may not be visible; the
     * root that is visible is then the container's own group. */
    for (;;) {
        (void)snprintf(folder, sizeof folder, "%s%s%s", cgroup, unified ? "" : "/memory", group);
        left = least(left, left_by_group(folder));
        char *last = strrchr(group, '/');
        if (last == NULL)
            return left;
        *last = '\0';
    }
}
