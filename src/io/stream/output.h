/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_STREAM_OUTPUT_H
#define ORR_IO_STREAM_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

#include <orrery/status.h>

/* Output file that is complete or not there: written under a temporary name beside `path`,
 * renamed by finish, with the mode of the file that it replaces. What is there and is no regular
 * file (a device, a pipe) is written to as it is. "-" is standard output. Compressed when the
 * path ends in .gz or .zst (gzip with no time stamp, so that equal input gives equal bytes).
 * Errors are remembered: writes after the first failure do nothing, and finish tells it.
 * Threads: one. */
typedef struct orr_output orr_output;

orr_status orr_output_open(const char *path, orr_output **ret, orr_error *err) ORR_MUST_CHECK;
/* Grows in memory instead; see orr_output_memory(). */
orr_status orr_output_open_memory(orr_output **ret, orr_error *err) ORR_MUST_CHECK;

void orr_output_write(orr_output *out, const void *bytes, size_t len);
void orr_output_text(orr_output *out, const char *text);
void orr_output_printf(orr_output *out, const char *format, ...) ORR_PRINTF(2, 3);
/* What was written so far is given to the system: for people who watch. */
void orr_output_flush(orr_output *out);

/* Flush, sync, rename into place. The output is still to be closed. */
orr_status orr_output_finish(orr_output *out, orr_error *err) ORR_MUST_CHECK;
/* What was written to memory; valid until close. */
const void *orr_output_memory(const orr_output *out, size_t *ret_len);
/* Without finish, removes the temporary file. NULL is allowed. */
void orr_output_close(orr_output *out);
/* Remove the temporary files of all open outputs (64 at most are known at once);
 * async-signal-safe, for SIGINT. */
void orr_output_remove_temporaries(void);

#endif /* ORR_IO_STREAM_OUTPUT_H */
