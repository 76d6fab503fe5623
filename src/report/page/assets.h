/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_PAGE_ASSETS_H
#define ORR_REPORT_PAGE_ASSETS_H

#include <stddef.h>

/* The files of page/, put into the library by tools/embed.py. In the order of
 * meson.build, which is the order in which scripts are put into a page. */
typedef struct orr_asset {
    const char *name; /* "page.html" */
    const unsigned char *bytes;
    size_t n;
} orr_asset;
extern const orr_asset orr_assets[];
extern const size_t orr_n_assets;
extern const char orr_assets_version[]; /* of the library: "0.2.0" */

#endif /* ORR_REPORT_PAGE_ASSETS_H */
