/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_STREAM_STREAM_TEST_H
#define ORR_IO_STREAM_STREAM_TEST_H

#include <stdbool.h>
#include <stddef.h>

/* Test seam: streams opened from now on begin with a window of `bytes` and grow by at
 * most that with each fill, so that every token meets the end of a window. Plain memory is
 * then copied like a file. 0: as usual. Threads: none. */
void orr_stream_test_step(size_t bytes);

/* Test seam: streams opened from now on inflate by zlib, also where there is ISA-L. */
void orr_stream_test_zlib(bool only);

#endif /* ORR_IO_STREAM_STREAM_TEST_H */
