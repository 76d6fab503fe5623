/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_JSON_BASE64_H
#define ORR_IO_JSON_BASE64_H

#include <stdbool.h>
#include <stddef.h>

#include "io/json/reader.h"
#include "io/stream/output.h"

/* RFC 4648, section 4. Threads: any. */

/* As a JSON string, quotes and all. */
void orr_base64_put(orr_output *out, const void *bytes, size_t n);
/* To at most text.n / 4 * 3 bytes. false: it is none. */
bool orr_base64_read(orr_text text, void *ret, size_t *ret_bytes);

#endif /* ORR_IO_JSON_BASE64_H */
