/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_GRAPH_DEVICE_WORK_H
#define ORR_GRAPH_DEVICE_WORK_H

#include <orrery/graph.h>

/* Was the rank recorded with a device: does any node run on one (orr_graph_on_device())? O(N) where
 * none does. */
bool orr_graph_has_device_work(const orr_graph *graph);

#endif /* ORR_GRAPH_DEVICE_WORK_H */
