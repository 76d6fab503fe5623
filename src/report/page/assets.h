/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_PAGE_ASSETS_H
#define ORR_REPORT_PAGE_ASSETS_H

#include <stddef.h>

/* The templates, the style sheet and the scripts of the pages, put into the library by
 * tools/embed.py. Scripts are joined there, in the order of meson.build, into two: "page.js" is
 * the scripts of page/, which every page has, and "trace.js" those and the timeline's. */
typedef struct orr_asset {
    const char *name; /* "page.html" */
    const unsigned char *bytes;
    size_t n;
    const char *sha256; /* of a script, in base64: what the page's security policy names */
} orr_asset;
extern const orr_asset orr_assets[];
extern const size_t orr_n_assets;
extern const char orr_assets_version[]; /* of the library: "0.2.0" */

#endif /* ORR_REPORT_PAGE_ASSETS_H */
