/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_JSON_NUMBER_H
#define ORR_IO_JSON_NUMBER_H

#include <stddef.h>
#include <stdint.h>

/* Numbers as text, in the C locale whatever the program's is. Each writes no terminating NUL
 * and returns the characters written. */
enum { ORR_INT_CHARS = 21, ORR_DOUBLE_CHARS = 32 };

size_t orr_print_uint64(char out[ORR_INT_CHARS], uint64_t value);
size_t orr_print_int64(char out[ORR_INT_CHARS], int64_t value);
/* ns as decimal microseconds without trailing zeros: 1500 is "1.5". */
size_t orr_print_us(char out[ORR_INT_CHARS + 1], int64_t ns);
/* 15, 16 or 17 digits, as few as read back as the same double, and no trailing zeros. `value` is
 * finite. */
size_t orr_print_double(char out[ORR_DOUBLE_CHARS], double value);

#endif /* ORR_IO_JSON_NUMBER_H */
