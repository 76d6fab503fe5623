/* SPDX-License-Identifier: Apache-2.0 */
#include "base/library.h"

#include <dlfcn.h>
#include <stddef.h>

void *orr_library_open(const char *const *files)
{
    void *library = NULL;
    for (; library == NULL && *files != NULL; files++)
        library = dlopen(*files, RTLD_NOW | RTLD_LOCAL);
    return library;
}

void *orr_library_find(void *library, const char *name, const char **missing)
{
    void *function = library != NULL ? dlsym(library, name) : NULL;
    if (function == NULL)
        *missing = name;
    return function;
}
