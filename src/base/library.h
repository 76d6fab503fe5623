/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_BASE_LIBRARY_H
#define ORR_BASE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

/* Libraries that are opened by who first needs them, not by everybody at start: nothing is linked
 * with them. Threads: any. */

/* The first of these files (NULL behind the last) that can be opened, its names kept to itself;
 * NULL: none. */
void *orr_library_open(const char *const *files);
/* A function of it; NULL, and the name in *missing, where it has none or there is no library. */
void *orr_library_find(void *library, const char *name, const char **missing);

/* The functions that FUNCTION_MAP(X) lists, as pointers of a static `api`, and find_api(), which
 * fills it from the first of the files that can be opened: false, and what it lacks in
 * `missing_function` (NULL: there is no such file). For one file of source and one library. */
#define ORR_LIBRARY_API(FUNCTION_MAP, ...)                                                         \
    static struct {                                                                                \
        FUNCTION_MAP(ORR_LIBRARY_POINTER_)                                                         \
    } api;                                                                                         \
    static const char *missing_function;                                                           \
    static bool find_api(void)                                                                     \
    {                                                                                              \
        static const char *const files[] = {__VA_ARGS__, NULL};                                    \
        void *library = orr_library_open(files);                                                   \
        if (library == NULL)                                                                       \
            return false;                                                                          \
        FUNCTION_MAP(ORR_LIBRARY_FIND_)                                                            \
        return missing_function == NULL;                                                           \
    }
#define ORR_LIBRARY_POINTER_(name) __typeof__(name) *name;
#define ORR_LIBRARY_FIND_(name)                                                                    \
    api.name = (__typeof__(name) *)orr_library_find(library, #name, &missing_function);

#endif /* ORR_BASE_LIBRARY_H */
