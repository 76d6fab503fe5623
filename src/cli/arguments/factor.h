/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_ARGUMENTS_FACTOR_H
#define ORR_CLI_ARGUMENTS_FACTOR_H

#include <orrery/whatif.h>

/* Values of options that are factors, counts, or lists of something and a factor. `option` names
 * the option in errors, all of which are INVALID. */

/* All of text[0..len) as a number from 0 on. */
orr_status orr_parse_factor(const char *option, const char *text, size_t len, double *ret,
                            orr_error *err) ORR_MUST_CHECK;
/* A count from 1 on, as in a plan, where "16k" is 16384: devices, samples and tokens of a sample
 * come in powers of two. */
orr_status orr_parse_power_count(const char *option, const char *text, uint32_t *ret,
                                 orr_error *err) ORR_MUST_CHECK;
/* A share below 1: "2%", "2 %" or "0.02". */
orr_status orr_parse_share(const char *option, const char *text, double *ret,
                           orr_error *err) ORR_MUST_CHECK;
/* --seed. */
orr_status orr_parse_seed(const char *text, uint64_t *ret, orr_error *err) ORR_MUST_CHECK;
/* Items of a list that commas separate. */
uint32_t orr_count_items(const char *list);
/* "3:1.2x,7:2": ranks and their factors, in the arena. */
orr_status orr_parse_stragglers(const char *list, orr_arena *arena, const orr_rank_factor **ret,
                                uint32_t *ret_n, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_CLI_ARGUMENTS_FACTOR_H */
