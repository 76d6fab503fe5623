/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/ranks/launch.h"

#include "engine/ranks/fork.h"

/* Starts ranks: forked here, or already started by MPI. */

static orr_status run_mpi(uint32_t n, int64_t deadline_ns, orr_ranks_body *body, void *ctx,
                          orr_error *err)
{
    orr_transport *transport = NULL;
    ORR_TRY(orr_transport_mpi_connect(deadline_ns, &transport, err));
    orr_status status = ORR_OK;
    if (n != 0 && n != transport->ranks)
        status =
            orr_fail(err, ORR_INVALID, "%u ranks asked for, %u were started", n, transport->ranks);
    else
        status = body(ctx, transport, err);
    if (status != ORR_OK)
        transport->abort(transport);
    transport->close(transport);
    return status;
}

orr_status orr_ranks_run(uint32_t n, orr_ranks_kind kind, int64_t deadline_ns, orr_ranks_body *body,
                         void *ctx, orr_error *err)
{
    uint32_t rank = 0, started = 0;
    if (kind == ORR_RANKS_AUTO && orr_launcher_ranks(&rank, &started) && (started > 1 || n <= 1))
        kind = started > 1 ? ORR_RANKS_MPI : ORR_RANKS_SHM;
    if (kind == ORR_RANKS_MPI)
        return run_mpi(n, deadline_ns, body, ctx, err);
    if (n > ORR_RANKS_MAX)
        return orr_fail(err, ORR_LIMIT, "%u ranks, of at most %d on one machine", n, ORR_RANKS_MAX);
    if (n <= 1)
        return body(ctx, orr_transport_self(), err);
    return orr_ranks_fork(n, kind == ORR_RANKS_TCP, deadline_ns, body, ctx, err);
}
