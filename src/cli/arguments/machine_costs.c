/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/arguments/machine_file.h"

/* Rates of this machine for the planner of embedding tables. */

/* Where this machine was never measured: of a core of a server, assumed. Plans depend on how the
 * rates compare more than on what they are. */
static const double MEMORY_BYTES_PER_S = 1e10, EXCHANGE_BYTES_PER_S = 4e9, EXCHANGE_NS = 2e4;
/* Rows that were touched just before come from a cache of the core: so many times as fast as
 * memory, assumed. */
static const double CACHE_FACTOR = 3;

/* Latency and rate of a collective among as many ranks as were measured nearest to `ranks`: the
 * smallest transfer, and what the largest takes beyond it. */
static void rate_of(const orr_measured *m, orr_collective kind, uint32_t ranks, double *ret_ns,
                    double *ret_bytes_per_s)
{
    const orr_measured_collective *small = NULL, *large = NULL;
    for (uint32_t i = 0; i < m->n_transfers; i++) {
        const orr_measured_collective *t = &m->transfers[i];
        const int far = small == NULL
                            ? 0
                            : abs((int)t->ranks - (int)ranks) - abs((int)small->ranks - (int)ranks);
        if (t->collective != kind || far > 0)
            continue;
        if (small == NULL || far < 0 || t->bytes < small->bytes)
            small = t;
        if (large == NULL || large->ranks != small->ranks || t->bytes > large->bytes)
            large = t;
    }
    if (small == NULL || large->ns <= small->ns)
        return;
    *ret_ns = (double)small->ns;
    *ret_bytes_per_s =
        1e9 * (double)(large->bytes - small->bytes) / (double)(large->ns - small->ns);
}

orr_status orr_machine_table_costs(orr_session *session, uint32_t ranks, orr_table_costs *ret)
{
    const char *path;
    orr_measured measured;
    ORR_TRY(orr_machine_file_path(session->settings->machine, false, session->arena, &path,
                                  &session->err));
    *ret = (orr_table_costs){.memory_bytes_per_s = MEMORY_BYTES_PER_S,
                             .exchange_ns = EXCHANGE_NS,
                             .exchange_bytes_per_s = EXCHANGE_BYTES_PER_S,
                             .gather_ns = EXCHANGE_NS,
                             .gather_bytes_per_s = EXCHANGE_BYTES_PER_S,
                             .source = "assumed: this machine was not measured"};
    if (session->settings->machine != NULL || access(path, F_OK) == 0) {
        ORR_TRY(orr_measured_load(path, session->arena, &measured, &session->err));
        ret->memory_bytes_per_s = measured.read_bytes_per_s / ranks;
        rate_of(&measured, ORR_COLL_ALL_TO_ALL, ranks, &ret->exchange_ns,
                &ret->exchange_bytes_per_s);
        rate_of(&measured, ORR_COLL_ALL_GATHER, ranks, &ret->gather_ns, &ret->gather_bytes_per_s);
        ret->source = path;
    } else {
        orr_session_remark(session, "this machine was not measured (orrery bench): its rates "
                                    "are assumed");
    }
    ret->cache_bytes_per_s = CACHE_FACTOR * ret->memory_bytes_per_s;
    return ORR_OK;
}
