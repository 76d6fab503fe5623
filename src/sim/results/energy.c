/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/results/energy.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"

/* Energy: the union of the busy intervals of all of a rank's streams at full power, and the rest
 * of the span at idle power. */

#define IDLE_FRAC 0.15

typedef struct stretch {
    int64_t from_ns, to_ns;
} stretch;

static int by_start(const void *a_, const void *b_)
{
    const stretch *a = a_, *b = b_;
    if (a->from_ns != b->from_ns)
        return a->from_ns < b->from_ns ? -1 : 1;
    return (a->to_ns > b->to_ns) - (a->to_ns < b->to_ns);
}

/* Total length of the union of intervals; sorts them. */
static int64_t covered_ns(stretch *at, size_t n)
{
    int64_t sum_ns = 0, until_ns = INT64_MIN;
    if (n > 1)
        qsort(at, n, sizeof *at, by_start);
    for (size_t i = 0; i < n; i++) {
        if (at[i].to_ns <= until_ns)
            continue;
        sum_ns += at[i].to_ns - (at[i].from_ns > until_ns ? at[i].from_ns : until_ns);
        until_ns = at[i].to_ns;
    }
    return sum_ns;
}

static int64_t busy_ns(const orr_engine *engine, const orr_actor *actor, stretch *scratch)
{
    const orr_sim_program *program = actor->prepared->program;
    const int64_t *time_ns = engine->time_ns + actor->first_point;
    size_t n = 0;
    for (uint32_t w = 0; w < program->n_works; w++) {
        const orr_sim_work *work = &program->works[w];
        if (work->device >= 0)
            scratch[n++] = (stretch){time_ns[work->start], time_ns[work->end]};
    }
    return covered_ns(scratch, n);
}

static const orr_device *device_of(const orr_engine *engine, const orr_actor *actor,
                                   const orr_device *otherwise)
{
    const orr_device *const *devices = engine->options->device_of_graph;
    return devices != NULL && devices[actor->graph] != NULL ? devices[actor->graph] : otherwise;
}

static double energy_j(const orr_device *device, double busy_ns, double span_ns)
{
    const double power_w = orr_fact_or(&device->power_w, NAN);
    const double idle_w = orr_fact_or(&device->idle_power_w, IDLE_FRAC * power_w);
    return 1e-9 * (power_w * busy_ns + idle_w * (span_ns - busy_ns));
}

orr_status orr_energy_of(const orr_engine *engine, const orr_device *device,
                         const orr_simulation *simulation, orr_timeline *timelines, orr_error *err)
{
    const double span_ns = (double)(simulation->end_ns - simulation->begin_ns);
    size_t most = 1;
    for (uint32_t a = 0; a < engine->n_actors; a++)
        if (engine->actors[a].prepared->program->n_works > most)
            most = engine->actors[a].prepared->program->n_works;
    stretch *scratch = orr_malloc(most * sizeof *scratch);
    if (scratch == NULL)
        return orr_fail_memory(err);
    for (uint32_t a = 0; a < engine->n_actors; a++) {
        const orr_actor *actor = &engine->actors[a];
        const orr_device *of = device_of(engine, actor, device);
        if (!isnan(orr_fact_or(&of->power_w, NAN)))
            timelines[a].energy_j = energy_j(of, (double)busy_ns(engine, actor, scratch), span_ns);
    }
    orr_free(scratch);
    return ORR_OK;
}
