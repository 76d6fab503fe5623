/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_BASE_PATH_H
#define ORR_BASE_PATH_H

#include <stddef.h>

/* The last part of a path, slashes at its end left out: where it begins, and its length.
 * "traces/a.json" and "traces/a.json/" give "a.json", "/" gives "/". */
const char *orr_path_basename(const char *path, size_t *ret_len);

#endif /* ORR_BASE_PATH_H */
