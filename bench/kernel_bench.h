/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_KERNEL_BENCH_H
#define BENCH_KERNEL_BENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <orrery/orrery.h>

#include <orrery/kernel.h>

/* Calls of the CPU's kernels, timed: the shortest of some repetitions, which others on the machine
 * disturb least; of one thread its own time. */
static bool one_thread = true;
static inline double now_s(void)
{
    struct timespec t;
    clock_gettime(one_thread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline void check(orr_status status, const orr_error *err)
{
    if (status == ORR_OK)
        return;
    fprintf(stderr, "%s\n", err->text);
    exit(1);
}

static inline orr_backend *the_cpu(void)
{
    orr_backend *cpu;
    orr_error err = {0};
    check(orr_backend_cpu(&cpu, &err), &err);
    return cpu;
}

static inline void *bytes_of(size_t bytes)
{
    void *data;
    orr_error err = {0};
    orr_backend *cpu = the_cpu();
    check(cpu->allocate(cpu, bytes > 0 ? bytes : 1, &data, &err), &err);
    memset(data, 0, bytes);
    return data;
}

/* Operands without gaps; dims end at the first 0. */
static inline orr_operand operand_of(orr_dtype dtype, const int64_t *dim)
{
    orr_operand o = {.type.dtype = (uint8_t)dtype};
    for (; o.type.rank < ORR_TYPE_DIMS && dim[o.type.rank] > 0; o.type.rank++)
        o.type.dim[o.type.rank] = dim[o.type.rank];
    orr_operand_contiguous(&o.type, o.stride);
    o.data = bytes_of((size_t)orr_type_bytes(&o.type));
    return o;
}
#define OPERAND(dtype, ...) operand_of(ORR_DTYPE_##dtype, (const int64_t[]){__VA_ARGS__, 0})

static inline uint64_t random_of(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

static inline void fill(const orr_operand *o)
{
    uint64_t state = 88172645463325252u;
    const int64_t n = orr_type_elements(&o->type);
    for (int64_t i = 0; i < n; i++) {
        const float x = (float)(random_of(&state) >> 40) / (float)(1 << 24) - 0.5f;
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        if (o->type.dtype == ORR_DTYPE_FP32)
            ((float *)o->data)[i] = x;
        else
            ((uint16_t *)o->data)[i] = (uint16_t)(bits >> 16);
    }
}

/* Seconds of a call, or -1 where there is no such kernel. */
static inline double time_call(orr_kernel_call *call, int repetitions)
{
    const orr_kernel_entry *entry = &the_cpu()->entries[call->op];
    orr_error err = {0};
    if (entry->run == NULL)
        return -1;
    if (entry->prepare != NULL)
        check(entry->prepare(call, &call->state, &err), &err);
    call->workspace = bytes_of(entry->workspace != NULL ? entry->workspace(call) : 0);
    double least = 1e9;
    for (int i = 0; i <= repetitions; i++) {
        const double begin = now_s();
        check(entry->run(call, &err), &err);
        const double took = now_s() - begin;
        least = i > 0 && took < least ? took : least;
    }
    return least;
}

static inline orr_workers *workers_of(int threads)
{
    orr_workers *workers;
    orr_error err = {0};
    one_thread = threads == 1;
    check(orr_workers_new(threads, &workers, &err), &err);
    return workers;
}

#endif /* BENCH_KERNEL_BENCH_H */
