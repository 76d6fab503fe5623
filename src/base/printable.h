/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_BASE_PRINTABLE_H
#define ORR_BASE_PRINTABLE_H

#include <stddef.h>

/* Text from outside (file names, names in recordings) that a person reads on a terminal. Control
 * characters would drive the terminal; Unicode's bidirectional controls would show the text in an
 * order that it does not have. Threads: any. */

/* Bytes of the code point at `text`, which is not at its end; 1 where it is no valid UTF-8. */
size_t orr_code_point_bytes(const char *text);
/* Bytes of the code point at `text` if a terminal must not see it: C0 and C1 controls, DEL, a byte
 * that is no UTF-8, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069. 0: it is harmless. */
size_t orr_unprintable_bytes(const char *text);
/* Replaces each of them by '?', in place. */
void orr_text_make_printable(char *text);

#endif /* ORR_BASE_PRINTABLE_H */
