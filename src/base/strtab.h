/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_BASE_STRTAB_H
#define ORR_BASE_STRTAB_H

#include <stddef.h>
#include <stdint.h>

/* Interned strings: equal text, equal number. Number 0 is "".
 * Threads: one while adding; any number of readers once it no longer grows. */
typedef struct orr_strtab orr_strtab;

orr_strtab *orr_strtab_new(void); /* NULL: out of memory */
void orr_strtab_free(orr_strtab *tab);

/* Number of text[0..len), adding it if new; UINT32_MAX when out of memory or
 * when 2^32 - 2 strings or 2^40 bytes are held. The text is copied. */
uint32_t orr_strtab_add(orr_strtab *tab, const char *text, size_t len);
/* UINT32_MAX if it is not there. */
uint32_t orr_strtab_find(const orr_strtab *tab, const char *text, size_t len);

const char *orr_strtab_text(const orr_strtab *tab, uint32_t id); /* NUL-terminated */
size_t orr_strtab_len(const orr_strtab *tab, uint32_t id);
uint32_t orr_strtab_count(const orr_strtab *tab);
size_t orr_strtab_held_bytes(const orr_strtab *tab);

#endif /* ORR_BASE_STRTAB_H */
