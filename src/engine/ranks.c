/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/ranks.h"

#include <stdlib.h>

#include "engine/ranks_forked.h"

/* Launchers tell their processes by the environment: Open MPI's mpirun, those that speak PMI
 * (MPICH, Intel MPI), and Slurm's srun, whose step is asked after since a batch script has a rank
 * too. */
static const char *const launchers[][2] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                           {"PMI_RANK", "PMI_SIZE"},
                                           {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}};

static bool number_in(const char *name, uint32_t *ret)
{
    const char *text = getenv(name);
    if (text == NULL || *text < '0' || *text > '9')
        return false;
    char *end = NULL;
    const unsigned long value = strtoul(text, &end, 10);
    *ret = (uint32_t)value;
    return *end == '\0' && value < ORR_RANKS_MAX;
}

bool orr_ranks_started(uint32_t *ret_rank, uint32_t *ret_n)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        uint32_t rank = 0, n = 0;
        if (number_in(launchers[i][0], &rank) && number_in(launchers[i][1], &n) && rank < n) {
            *ret_rank = rank;
            *ret_n = n;
            return true;
        }
    }
    return false;
}

static orr_status run_mpi(uint32_t n, int64_t deadline_ns, orr_ranks_body *body, void *ctx,
                          orr_error *err)
{
    orr_transport *transport = NULL;
    ORR_TRY(orr_mpi_connect(deadline_ns, &transport, err));
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
    if (kind == ORR_RANKS_AUTO && orr_ranks_started(&rank, &started) && (started > 1 || n <= 1))
        kind = started > 1 ? ORR_RANKS_MPI : ORR_RANKS_SHM;
    if (kind == ORR_RANKS_MPI)
        return run_mpi(n, deadline_ns, body, ctx, err);
    if (n > ORR_RANKS_MAX)
        return orr_fail(err, ORR_LIMIT, "%u ranks, of at most %d on one machine", n, ORR_RANKS_MAX);
    if (n <= 1)
        return body(ctx, orr_transport_self(), err);
    return orr_ranks_fork(n, kind == ORR_RANKS_TCP, deadline_ns, body, ctx, err);
}
