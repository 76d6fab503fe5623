/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_BASE_UNITS_H
#define ORR_BASE_UNITS_H

#include <stdint.h>

#include <orrery/status.h>

/* Quantities as people write and read them. Threads: any; the locale does not matter.
 *
 * Reading: a decimal number, then a unit, with or without a space between. k M G T P are
 * powers of 1000, Ki Mi Gi Ti Pi of 1024; k may be K. Errors: INVALID, with an example of what
 * is right; LIMIT when it does not fit. Negative quantities are refused. */

/* "16k", "1e6", "3". */
orr_status orr_parse_count(const char *text, uint64_t *ret, orr_error *err) ORR_MUST_CHECK;
/* "80GiB", "64 kB", "512", "512B". Rounded to whole bytes. */
orr_status orr_parse_bytes(const char *text, uint64_t *ret_bytes, orr_error *err) ORR_MUST_CHECK;
/* "5us", "2.5 ms", "90s", "3min", "1h", "2d"; a bare 0 too. Rounded to whole ns. */
orr_status orr_parse_duration(const char *text, int64_t *ret_ns, orr_error *err) ORR_MUST_CHECK;
/* "400Gbps" and "400Gbit/s" are bits, "3.35TB/s" and "3.35TBps" bytes. */
orr_status orr_parse_bandwidth(const char *text, double *ret_bytes_per_s,
                               orr_error *err) ORR_MUST_CHECK;
/* "989TFLOPS", "67 TFLOP/s"; "1979TOPS" for integers. */
orr_status orr_parse_flops(const char *text, double *ret_flops_per_s,
                           orr_error *err) ORR_MUST_CHECK;
/* "1410MHz", "2.1GHz". */
orr_status orr_parse_frequency(const char *text, double *ret_hz, orr_error *err) ORR_MUST_CHECK;
/* "700W", "10.2kW". */
orr_status orr_parse_power(const char *text, double *ret_w, orr_error *err) ORR_MUST_CHECK;
/* "550kIOPS": operations of a storage device a second. */
orr_status orr_parse_iops(const char *text, double *ret_per_s, orr_error *err) ORR_MUST_CHECK;

/* Printing for the progress meter, three significant digits: "1.50 GiB", "4.20 M". Both write a
 * NUL-terminated text and return it. Tables are printed by report/humanize/human.h. */
enum { ORR_UNIT_CHARS = 32 };
char *orr_format_bytes(char out[ORR_UNIT_CHARS], uint64_t bytes);
char *orr_format_count(char out[ORR_UNIT_CHARS], uint64_t count);

#endif /* ORR_BASE_UNITS_H */
