/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "model/step/module_cost.h"

/* Grouped products of experts whose rows are uneven. */

/* A product for as many slots as there are, each with `rows` rows: the call's work with other
 * sizes. */
typedef struct slot_work {
    orr_work work;
    double all_rows, slots, weight_bytes, row_bytes;
    uint32_t rows_dim; /* of work.dims */
} slot_work;

static slot_work slot_work_of(const orr_tape *tape, const orr_tape_call *call, const orr_work *work)
{
    slot_work ret = {.work = *work,
                     .all_rows = (double)tape->values[call->in[0]].type.dim[0],
                     .slots = (double)work->dims[0],
                     .row_bytes = work->read_bytes + work->write_bytes,
                     .rows_dim = work->backward ? 3 : 1};
    const orr_value weights = call->args.transpose_a ? call->out[0] : call->in[1];
    ret.weight_bytes = fmin((double)orr_type_bytes(&tape->values[weights].type), ret.row_bytes);
    ret.row_bytes -= ret.weight_bytes;
    return ret;
}

static double alike_ns(const orr_step_prices *prices, const slot_work *of, uint32_t slots,
                       double rows)
{
    orr_work work = of->work;
    const double frac = rows * slots / of->all_rows;
    work.dims[0] = slots;
    work.dims[of->rows_dim] = (int64_t)ceil(rows - 1e-6);
    work.flops *= frac;
    work.read_bytes = of->weight_bytes * slots / of->slots + of->row_bytes * frac;
    work.write_bytes = 0;
    return (double)orr_step_kernel(prices, &work).ns;
}

/* A rank's time: the mean over its slots of what the product takes if all have as many rows, which
 * is what it takes where the tiles of one expert follow those of another; no less than with as many
 * rows spread evenly. */
static double rank_ns(const orr_step_prices *prices, const slot_work *of,
                      const orr_layer_skew *skew, const orr_rank_skew *rank)
{
    const double mean = of->all_rows * rank->rows / skew->rows / rank->slots;
    double sum = 0;
    for (uint32_t b = 0; b < rank->n; b++)
        sum += rank->bucket[b].slots_frac *
               alike_ns(prices, of, rank->slots, mean * rank->bucket[b].rows);
    return fmax(sum, alike_ns(prices, of, rank->slots, mean));
}

orr_price orr_step_expert_product(const orr_step_prices *prices, const orr_module *module,
                                  const orr_tape_call *call, const orr_work *work)
{
    const orr_layer_skew *skew = module->skew;
    const slot_work of = slot_work_of(module->tape, call, work);
    orr_price price = orr_step_kernel(prices, work);
    double ns = 0;
    if (!(of.all_rows > 0) || !(skew->rows > 0))
        return price;
    for (uint32_t i = 0; i < skew->n_priced; i++)
        if (skew->priced[i].slots > 0)
            ns = fmax(ns, rank_ns(prices, &of, skew, &skew->priced[i]));
    price.ns = (int64_t)(ns + 0.5);
    return price;
}
