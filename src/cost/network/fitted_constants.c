/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/network/fitted_constants.h"

#include <math.h>
#include <string.h>

/* Constants that orr_alpha_beta_fit() finds on the fitted half of the bus bandwidths that
 * stas00/ml-engineering measured with nccl-tests (network/benchmarks: all-reduce of 8 H200, of 8
 * B200, of 4 x 8 B200 with EFA; 16 GiB of each collective on 8 H200). error_frac is the mean
 * absolute error on the held-out half. tests/reference/test_busbw.c computes all of these numbers
 * again: none is tuned by hand.
 *
 * Messages within a host with in-network reduction: orr_alpha_beta_from_reduction(), with rings
 * of NVLink4 as measured; with those of NVLink5, which were not, at the same share of the link.
 * Only rings of 16 GiB were compared: no error is known for smaller ones. */
static const orr_fitted_constants FITS[] = {
    {.technology = "NVLink4",
     .bytes_per_s = 450e9,
     .messages = {.base_ns = {38227.91, 85570.71, 199746},
                  .alpha_ns = {470, 1900, 3400},
                  .bytes_per_s = {2.658496e+11, 3.633528e+11, 3.633528e+11},
                  .error_frac = NAN,
                  .basis = ORR_BASIS_FITTED},
     .reduction = {.base_ns = {38167.91, 85570.71, 198546},
                   .alpha_ns = {500, 1200, 4000},
                   .bytes_per_s = {1.519141e+11, 2.686348e+11, 2.751932e+11},
                   .error_frac = 0.024,
                   .basis = ORR_BASIS_FITTED}},
    {.technology = "NVLink5",
     .bytes_per_s = 900e9,
     .messages = {.base_ns = {45163.69, 98841.06, 839042.6},
                  .alpha_ns = {470, 1900, 3400},
                  .bytes_per_s = {2.098548e+11, 7.267056e+11, 7.267056e+11},
                  .error_frac = NAN,
                  .basis = ORR_BASIS_ASSUMED},
     .reduction = {.base_ns = {45103.69, 98841.06, 837842.6},
                   .alpha_ns = {500, 1200, 4000},
                   .bytes_per_s = {1.19917e+11, 4.252833e+11, 5.032273e+11},
                   .error_frac = 0.080,
                   .basis = ORR_BASIS_FITTED}},
    {.technology = "EFA v4 (P6-B200)",
     .bytes_per_s = 50e9,
     .messages = {.base_ns = {365781.6, 613867.3, 0},
                  .alpha_ns = {2700, 4000, 9600},
                  .bytes_per_s = {2.515142e+10, 4.989516e+10, 0},
                  .error_frac = 0.141,
                  .basis = ORR_BASIS_FITTED}},
};

const orr_fitted_constants *orr_fitted_constants_of(const char *technology)
{
    for (size_t i = 0; technology != NULL && i < sizeof FITS / sizeof *FITS; i++)
        if (strcmp(FITS[i].technology, technology) == 0)
            return &FITS[i];
    return NULL;
}
