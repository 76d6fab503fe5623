/* SPDX-License-Identifier: Apache-2.0 */
#include "job_kernels.h"

#include <math.h>

static double collective_ns(const orr_job_rates *rates, const job_kernel *k)
{
    enum { MOST = 1024 };
    uint32_t ranks[MOST];
    orr_span span;
    orr_error err = {0};
    if (k->ranks > MOST)
        return NAN;
    for (uint32_t i = 0; i < k->ranks; i++)
        ranks[i] = i;
    if (orr_cluster_span(rates->cluster, ranks, k->ranks, &span, &err) != ORR_OK)
        return NAN;
    return (double)orr_job_rates_collective(rates, &span, (orr_collective)k->collective, k->bytes)
        .ns;
}

void job_predict_kernel(const job_world *world, const job_case *c,
                        const orr_calibration *calibration, job_prediction *ret)
{
    const job_kernel *k = c->kernel;
    const orr_cluster *cluster = orr_catalog_cluster(world->catalog, c->cluster);
    orr_job_rates rates;
    double ns = 0;
    orr_job_rates_init(cluster, calibration, ORR_ALGORITHM_AUTO, &rates);
    for (size_t i = 0; i < k->n; i++)
        ns += (double)orr_job_rates_kernel(&rates, &k->work[i], false).ns;
    if (k->collective != ORR_COLL_UNKNOWN)
        ns += collective_ns(&rates, k);
    ret->seconds = ns / 1e9;
}
