/* SPDX-License-Identifier: Apache-2.0 */
/* What bench_collectives is held against: MPI_Allreduce of the same numbers, timed the same way.
 *
 *   mpirun -np 2 mpi_collectives [BYTES]     (of that size alone) */
#include <stdio.h>
#include <stdlib.h>

#include <mpi.h>

enum { LARGEST = 128 << 20, ROUNDS_MIN = 11, ROUNDS_MAX = 2001, WARM = 3 };
static const size_t sizes[] = {8,       1 << 10, 8 << 10, 64 << 10, 256 << 10,
                               1 << 20, 2 << 20, 8 << 20, 32 << 20, LARGEST};

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static double times_us[ROUNDS_MAX];
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const size_t only = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    float *in = calloc(LARGEST, 1), *out = calloc(LARGEST, 1);
    for (size_t i = 0; i < LARGEST / sizeof *in; i++)
        in[i] = (float)(i % 1000); /* memory never written is one page of zeros, in the cache */
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        if (only != 0 && only != sizes[s])
            continue;
        const size_t most = ((size_t)1 << 30) / (sizes[s] + 64);
        const int rounds = most < ROUNDS_MIN   ? ROUNDS_MIN
                           : most > ROUNDS_MAX ? ROUNDS_MAX
                                               : (int)most;
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = -WARM; i < rounds; i++) {
            const double begin_s = MPI_Wtime();
            MPI_Allreduce(in, out, (int)(sizes[s] / sizeof *in), MPI_FLOAT, MPI_SUM,
                          MPI_COMM_WORLD);
            if (i >= 0)
                times_us[i] = 1e6 * (MPI_Wtime() - begin_s);
        }
        qsort(times_us, (size_t)rounds, sizeof *times_us, by_value);
        const double us = times_us[rounds / 2];
        if (rank == 0)
            printf(
                "{\"transport\": \"MPI_Allreduce\", \"ranks\": %d, \"bytes\": %zu, \"us\": %.2f, "
                "\"GB_per_s\": %.3f}\n",
                ranks, sizes[s], us, 1e-3 * (double)sizes[s] / us);
    }
    free(in);
    free(out);
    MPI_Finalize();
    return 0;
}
