/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzzer's entry point over files and folders of inputs, where libFuzzer is not at hand: the
 * corpus as a test, or one finding again. */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"

static size_t inputs;

static void replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(1);
    }
    size_t n = 0, room = 1 << 16;
    uint8_t *bytes = malloc(room);
    while (bytes != NULL) {
        n += fread(bytes + n, 1, room - n, file);
        if (n < room)
            break;
        bytes = realloc(bytes, room *= 2);
    }
    /* To measure, so that a sanitizer sees a read behind the end. */
    uint8_t *exact = bytes != NULL ? malloc(n > 0 ? n : 1) : NULL;
    if (exact == NULL || ferror(file)) {
        fprintf(stderr, "%s: cannot read\n", path);
        exit(1);
    }
    fclose(file);
    memcpy(exact, bytes, n);
    free(bytes);
    (void)LLVMFuzzerTestOneInput(exact, n);
    free(exact);
    inputs++;
}

static void replay(const char *path)
{
    struct stat about;
    DIR *folder = stat(path, &about) == 0 && S_ISDIR(about.st_mode) ? opendir(path) : NULL;
    if (folder == NULL) {
        replay_file(path);
        return;
    }
    const struct dirent *entry;
    while ((entry = readdir(folder)) != NULL) {
        char inner[4096];
        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        replay(inner);
    }
    closedir(folder);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        replay(argv[i]);
    printf("%zu inputs\n", inputs);
    return inputs > 0 ? 0 : 1;
}
