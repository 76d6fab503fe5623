/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_COST_NETWORK_FITTED_CONSTANTS_H
#define ORR_COST_NETWORK_FITTED_CONSTANTS_H

#include <orrery/cost.h>

/* Constants fitted to measurements, by technology of a level. Method: alpha_beta_fit.h. */
typedef struct orr_fitted_constants {
    const char *technology;             /* as a cluster names it */
    double bytes_per_s;                 /* one way, per device, of the measured machine */
    orr_alpha_beta messages, reduction; /* bandwidths of 0: not fitted */
} orr_fitted_constants;
/* NULL: no measurements. `technology` may be NULL. */
const orr_fitted_constants *orr_fitted_constants_of(const char *technology);

#endif /* ORR_COST_NETWORK_FITTED_CONSTANTS_H */
