/* SPDX-License-Identifier: Apache-2.0 */
#include "base/path.h"

#include <string.h>

const char *orr_path_basename(const char *path, size_t *ret_len)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/')
        start--;
    if (start == end) /* the root */
        start = 0;
    *ret_len = end - start;
    return path + start;
}
