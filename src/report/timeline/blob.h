/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_TIMELINE_BLOB_H
#define ORR_REPORT_TIMELINE_BLOB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"
#include "io/stream/output.h"

/* Bytes on their way into a page. A failed push is remembered, so that a row of pushes
 * needs one check at its end. */
typedef struct orr_blob {
    orr_array(uint8_t) bytes;
    bool failed; /* out of memory */
} orr_blob;

void orr_blob_done(orr_blob *blob);
void orr_blob_put(orr_blob *blob, const void *bytes, size_t n);
/* Seven bits a byte, low first, the high bit set on all but the last (LEB128). */
void orr_blob_varint(orr_blob *blob, uint64_t value);
/* Small negative numbers stay small: 0, -1, 1, -2, 2... */
void orr_blob_zigzag(orr_blob *blob, int64_t value);

/* The bytes deflated (zlib framing) and in base64, to `out`. Errors: NO_MEMORY. */
orr_status orr_blob_write(const void *bytes, size_t n, orr_output *out,
                          orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_REPORT_TIMELINE_BLOB_H */
