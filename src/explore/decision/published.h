/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPLORE_DECISION_PUBLISHED_H
#define ORR_EXPLORE_DECISION_PUBLISHED_H

#include "machine/catalog/embedded_files.h"

/* The files of catalog/plans, embedded into the library by tools/embed.py. */
extern const orr_catalog_file orr_published_files[];
extern const size_t orr_n_published_files;

#endif /* ORR_EXPLORE_DECISION_PUBLISHED_H */
