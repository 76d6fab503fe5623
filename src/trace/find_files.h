/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_FIND_FILES_H
#define ORR_TRACE_FIND_FILES_H

#include <stdint.h>

/* Size of a regular file; 0 if there is none, or for "-". */
uint64_t orr_file_bytes(const char *path);

#endif /* ORR_TRACE_FIND_FILES_H */
