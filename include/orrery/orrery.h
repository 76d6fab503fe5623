/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ORRERY_H
#define ORR_ORRERY_H

#include <orrery/analysis.h>
#include <orrery/arena.h>
#include <orrery/astra.h>
#include <orrery/calibration.h>
#include <orrery/cost.h>
#include <orrery/dtype.h>
#include <orrery/embedding.h>
#include <orrery/engine.h>
#include <orrery/ensemble.h>
#include <orrery/feeder.h>
#include <orrery/fit.h>
#include <orrery/fleet.h>
#include <orrery/graph.h>
#include <orrery/hit_rate.h>
#include <orrery/kernel.h>
#include <orrery/machine.h>
#include <orrery/measure.h>
#include <orrery/memory_plan.h>
#include <orrery/model.h>
#include <orrery/op.h>
#include <orrery/outcome.h>
#include <orrery/plan.h>
#include <orrery/replay.h>
#include <orrery/report.h>
#include <orrery/rescale.h>
#include <orrery/sim.h>
#include <orrery/status.h>
#include <orrery/step.h>
#include <orrery/table_planner.h>
#include <orrery/table_tiers.h>
#include <orrery/text.h>
#include <orrery/trace.h>
#include <orrery/weights.h>
#include <orrery/whatif.h>
#include <orrery/workers.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the library in use: "0.2.0". Static storage. */
ORR_API const char *orr_version(void);

#ifdef __cplusplus
}
#endif

#endif /* ORR_ORRERY_H */
