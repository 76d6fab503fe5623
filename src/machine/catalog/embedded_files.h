/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MACHINE_CATALOG_EMBEDDED_FILES_H
#define ORR_MACHINE_CATALOG_EMBEDDED_FILES_H

#include <stddef.h>

/* The files of catalog/, embedded into the library at build time by tools/embed.py. */
typedef struct orr_catalog_file {
    const char *name;
    const unsigned char *bytes;
    size_t n;
} orr_catalog_file;

extern const orr_catalog_file orr_catalog_files[];
extern const size_t orr_n_catalog_files;

#endif /* ORR_MACHINE_CATALOG_EMBEDDED_FILES_H */
