/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cost/roofline/device_rates.h"

/* The chain of cost models (chain of responsibility), and its last link: a constant for works of
 * which nothing is known. */

/* Assumed: a short kernel, as most of those are of which nothing is known (index arithmetic,
 * helpers of a product). */
#define ASSUMED_NS 5000

static bool assumed_price(const orr_cost_model *self, const orr_device *device,
                          const orr_work *work, orr_price *ret)
{
    (void)device;
    (void)work;
    *ret = (orr_price){
        .ns = ASSUMED_NS, .basis = ORR_BASIS_ASSUMED, .error_frac = NAN, .model = self->name};
    return true;
}

static const orr_cost_model ASSUMED = {.name = "assumed", .price = assumed_price};
static const orr_cost_model *const DEFAULT[] = {&orr_roofline_model, &ASSUMED};

const orr_cost_model *orr_cost_assumed(void)
{
    return &ASSUMED;
}

orr_cost_chain orr_cost_default_chain(void)
{
    return (orr_cost_chain){DEFAULT, sizeof DEFAULT / sizeof *DEFAULT};
}

orr_price orr_cost_price(const orr_cost_chain *chain, const orr_device *device,
                         const orr_work *work)
{
    orr_price price = {.basis = ORR_BASIS_NONE, .error_frac = NAN, .model = ""};
    for (uint32_t i = 0; i < chain->n; i++)
        if (chain->models[i]->price(chain->models[i], device, work, &price))
            break;
    return price;
}

bool orr_cost_price_pair(const orr_cost_chain *chain, orr_priced_work before, orr_priced_work after,
                         orr_price *ret_before, orr_price *ret_after)
{
    for (uint32_t i = 0; i < chain->n; i++) {
        const orr_cost_model *model = chain->models[i];
        orr_price was, is;
        if (model->price(model, before.device, before.work, &was) &&
            model->price(model, after.device, after.work, &is)) {
            *ret_before = was;
            *ret_after = is;
            return true;
        }
    }
    return false;
}
