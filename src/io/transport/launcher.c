/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "io/transport/transport.h"

enum { RANKS_MAX = 4096 };

/* Environment variables by which launchers tell a process its rank: Open MPI's mpirun, those that
 * speak PMI (MPICH, Intel MPI), and Slurm's srun, whose step is asked after since a batch script
 * has a rank too. */
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
    return *end == '\0' && value < RANKS_MAX;
}

bool orr_launcher_ranks(uint32_t *ret_rank, uint32_t *ret_n)
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
