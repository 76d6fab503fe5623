/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_EXPERTS_COSTS_H
#define ORR_MODEL_EXPERTS_COSTS_H

#include <orrery/model.h>

/* orr_expert_costs_of_cluster() of ranks on any devices, shape (ranks), in the cluster. Hosts of
 * the placement are runs of as many ranks as lie on one host each: where the devices of the ranks
 * do not come in equal runs, of the most that do. */
orr_status orr_expert_costs_on(const orr_cluster *cluster,
                               const struct orr_calibration *calibration, const orr_model *model,
                               const uint32_t *devices, uint32_t ranks, double tokens,
                               orr_arena *arena, orr_expert_costs *ret, uint32_t *ret_host_ranks,
                               orr_error *err) ORR_MUST_CHECK;

/* Groups of experts that placements keep on hosts: those of a model that chooses its experts within
 * the best groups, so that a token goes to few hosts; 0: none, or hosts do not divide them. */
uint32_t orr_expert_groups_kept(const orr_model *model, uint32_t ranks, uint32_t host_ranks);

#endif /* ORR_MODEL_EXPERTS_COSTS_H */
