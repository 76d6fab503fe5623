/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_BASE_LIBRARY_H
#define ORR_BASE_LIBRARY_H

/* Libraries that are opened by who first needs them, not by everybody at start: nothing is linked
 * with them. Threads: any. */

/* The first of these files (NULL behind the last) that can be opened, its names kept to itself;
 * NULL: none. */
void *orr_library_open(const char *const *files);
/* A function of it; NULL, and the name in *missing, where it has none or there is no library. */
void *orr_library_find(void *library, const char *name, const char **missing);

#endif /* ORR_BASE_LIBRARY_H */
