/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_KERNEL_BENCH_H
#define TESTS_KERNEL_BENCH_H

#include "gradient_bench.h"

#include "kernel/cpu/simd/cpu_level.h"
#include "kernel/format/dtype_convert.h"

/* A call of a tape on real bytes, beside the same call in double precision. Values are rounded to
 * their dtype before either reads them; each operand lies among others, with gaps between the
 * indices of its dims, and what lies in the gaps is to stay as it was. */
typedef struct kernel_room { /* a tensor in bytes */
    orr_operand operand;
    unsigned char *bytes, *before; /* shape (size); before: as it was when the call began */
    size_t size;
} kernel_room;

typedef struct kernel_bench {
    orr_backend *backend;
    orr_workers *workers[4]; /* 1, 2, 3, 5 threads */
    bool covered[ORR_OPS], failed[ORR_OPS];
    orr_random random;
    uint64_t seed;
    const char *name;
    const orr_tape *tape;
    uint32_t call;
    orr_kernel_call now;
    orr_operand in[ORR_CALL_IN], out[ORR_CALL_OUT];
    kernel_room rooms[ORR_CALL_IN + ORR_CALL_OUT];
    const double *want[ORR_CALL_OUT];
    orr_arena *arena;
} kernel_bench;

/* Says what is wrong and returns; an operator is told of once. */
#define kernel_fail(k, ...)                                                                        \
    do {                                                                                           \
        kernel_tell((k));                                                                          \
        print_error(__VA_ARGS__);                                                                  \
        print_error("\n");                                                                         \
        (k)->failed[(k)->now.op] = true;                                                           \
        return;                                                                                    \
    } while (0)
static inline void kernel_tell(const kernel_bench *k)
{
    print_error("ORRERY_SEED=%llu: %s: %s in %s at %s: ", (unsigned long long)k->seed, k->name,
                orr_op_of((orr_op)k->now.op)->name,
                orr_dtype_name((orr_dtype)(k->now.n_in > 0 ? k->in : k->out)[0].type.dtype),
                orr_cpu_level_name(orr_cpu_level()));
}

static inline bool kernel_is_integer(uint8_t dtype)
{
    return dtype == ORR_DTYPE_INT8 || dtype == ORR_DTYPE_INT32 || dtype == ORR_DTYPE_INT64;
}
static inline bool kernel_is_small(uint8_t dtype)
{
    return dtype == ORR_DTYPE_FP8 || dtype == ORR_DTYPE_FP4;
}

static inline int64_t kernel_offset(const orr_operand *o, int64_t i)
{
    int64_t at = 0;
    for (uint32_t d = o->type.rank; d-- > 0; i /= o->type.dim[d])
        at += i % o->type.dim[d] * o->stride[d];
    return at * orr_dtype_stride_bytes((orr_dtype)o->type.dtype);
}

static inline double kernel_get(const orr_operand *o, const unsigned char *bytes, int64_t i)
{
    const unsigned char *at = bytes + kernel_offset(o, i);
    float value;
    if (o->type.dtype == ORR_DTYPE_INT64) {
        int64_t wide;
        memcpy(&wide, at, sizeof wide);
        return (double)wide;
    }
    orr_strided_to_fp32((orr_dtype)o->type.dtype, at, 0, 1, &value);
    return (double)value;
}
static inline void kernel_put(const orr_operand *o, unsigned char *bytes, int64_t i, double value)
{
    unsigned char *at = bytes + kernel_offset(o, i);
    const float narrow = (float)value;
    if (o->type.dtype == ORR_DTYPE_INT64) {
        const int64_t wide = (int64_t)value;
        memcpy(at, &wide, sizeof wide);
        return;
    }
    orr_strided_from_fp32((orr_dtype)o->type.dtype, &narrow, 1, 0, at);
}

/* Numbers as their dtype has them. */
static inline void kernel_round(const orr_type *type, double *at)
{
    const orr_operand one = {.type = {.dtype = type->dtype}};
    unsigned char bytes[8];
    for (int64_t i = 0; i < naive_size(type); i++) {
        kernel_put(&one, bytes, 0, at[i]);
        at[i] = kernel_get(&one, bytes, 0);
    }
}

/* Room for a tensor; `gaps`: with others between its rows and columns' ends, as of a slice. */
static inline void kernel_lay(kernel_bench *k, kernel_room *room, const orr_type *type, bool gaps)
{
    int64_t step = 1;
    room->operand = (orr_operand){.type = *type};
    for (uint32_t d = type->rank; d-- > 0;) {
        room->operand.stride[d] = step;
        step *= type->dim[d] + (gaps ? (int64_t)orr_random_below(&k->random, 4) : 0);
    }
    room->size = (size_t)(step * orr_dtype_stride_bytes((orr_dtype)type->dtype)) + 64;
    room->bytes = orr_arena_alloc(k->arena, room->size, 1, 64);
    room->before = orr_arena_alloc(k->arena, room->size, 1, 64);
    assert_non_null(room->bytes);
    assert_non_null(room->before);
    memset(room->before, 0x3a, room->size);
    room->operand.data = room->bytes;
}

/* The outputs before the call: numbers, so that something may be added to them. */
static inline void kernel_old(kernel_bench *k, kernel_room *room)
{
    for (int64_t i = 0; i < naive_size(&room->operand.type); i++)
        kernel_put(
            &room->operand, room->before, i,
            kernel_is_integer(room->operand.type.dtype) ? 1 : 2 * orr_random_unit(&k->random) - 1);
}

static inline kernel_room *kernel_out(kernel_bench *k, uint32_t o)
{
    return &k->rooms[ORR_CALL_IN + o];
}

/* Runs it with so many threads from the same bytes as ever. */
static inline orr_status kernel_run(kernel_bench *k, orr_workers *workers, orr_error *err)
{
    const orr_kernel_entry *entry = &k->backend->entries[k->now.op];
    orr_kernel_call call = k->now;
    void *workspace = NULL;
    for (uint32_t r = 0; r < ORR_CALL_IN + ORR_CALL_OUT; r++)
        if (k->rooms[r].bytes != NULL)
            memcpy(k->rooms[r].bytes, k->rooms[r].before, k->rooms[r].size);
    call.in = k->in;
    call.out = k->out;
    call.workers = workers;
    const size_t bytes = entry->workspace != NULL ? entry->workspace(&call) : 0;
    if (bytes > 0) {
        workspace = aligned_alloc(64, (bytes + 63) / 64 * 64);
        assert_non_null(workspace);
        memset(workspace, 0x5a, bytes);
    }
    call.workspace = workspace;
    orr_status status = ORR_OK;
    if (entry->prepare != NULL)
        status = entry->prepare(&call, &call.state, err);
    if (status == ORR_OK)
        status = entry->run(&call, err);
    if (entry->release != NULL)
        entry->release(call.state);
    free(workspace);
    return status;
}

/* How far a number may be from the right one: of itself, and of the largest of its tensor, where
 * sums cancel. fp32: sums of hundreds of products; bf16 and fp16 round what is written to half a
 * unit in the last place (2^-9, 2^-12 of it), and attention what it holds between its two products.
 */
typedef struct kernel_tolerance {
    double of_itself, of_largest;
} kernel_tolerance;
static inline kernel_tolerance kernel_tolerance_of(const kernel_bench *k, uint8_t dtype)
{
    static const bool HOLDS[ORR_OPS] = {
        [ORR_OP_ATTENTION] = true, [ORR_OP_ATTENTION_BACKWARD] = true, [ORR_OP_INTERACTION] = true};
    uint8_t held = ORR_DTYPE_FP32;
    for (uint32_t i = 0; HOLDS[k->now.op] && i < k->now.n_in; i++)
        held = k->in[i].type.dtype == ORR_DTYPE_BF16 || k->in[i].type.dtype == ORR_DTYPE_FP16
                   ? ORR_DTYPE_BF16
                   : held;
    const double last = dtype == ORR_DTYPE_BF16 ? 0x1p-8 : dtype == ORR_DTYPE_FP16 ? 0x1p-11 : 1e-5;
    return (kernel_tolerance){.of_itself = last,
                              .of_largest = held == ORR_DTYPE_BF16 ? 0x1p-7 : 1e-5};
}

static inline void kernel_compare_room(kernel_bench *k, const kernel_room *room, const double *all,
                                       bool added)
{
    const orr_type *type = &room->operand.type;
    const kernel_tolerance near = kernel_tolerance_of(k, type->dtype);
    double largest = added ? 1 : 0.1;
    for (int64_t i = 0; i < naive_size(type); i++)
        largest = isfinite(all[i]) ? fmax(largest, fabs(all[i])) : largest;
    for (int64_t i = 0; i < naive_size(type); i++) {
        const double got = kernel_get(&room->operand, room->bytes, i),
                     old = added ? kernel_get(&room->operand, room->before, i) : 0,
                     want = all[i] + old;
        const double limit = kernel_is_integer(type->dtype)
                                 ? 0
                                 : near.of_itself * fabs(want) + near.of_largest * largest;
        if (got != want && !(fabs(got - want) <= limit))
            kernel_fail(k, "number %lld of tensor %d%s is %.9g and should be %.9g (within %.2g)",
                        (long long)i, (int)(room - k->rooms), added ? ", added to" : "", got, want,
                        limit);
    }
}
static inline void kernel_compare(kernel_bench *k, uint32_t o, bool added)
{
    kernel_compare_room(k, kernel_out(k, o), k->want[o], added);
}

/* Nothing was written but the numbers of outputs. */
static inline void kernel_check_gaps(kernel_bench *k)
{
    for (uint32_t r = 0; r < ORR_CALL_IN + ORR_CALL_OUT; r++) {
        kernel_room *room = &k->rooms[r];
        if (room->bytes == NULL)
            continue;
        unsigned char *seen = orr_arena_alloc(k->arena, room->size, 1, 64);
        assert_non_null(seen);
        memcpy(seen, room->bytes, room->size);
        const bool written = r >= ORR_CALL_IN && k->out[r - ORR_CALL_IN].data != NULL;
        const size_t each = (size_t)orr_dtype_stride_bytes((orr_dtype)room->operand.type.dtype);
        for (int64_t i = 0; written && i < naive_size(&room->operand.type); i++)
            memcpy(seen + kernel_offset(&room->operand, i),
                   room->before + kernel_offset(&room->operand, i), each);
        if (memcmp(seen, room->before, room->size) != 0)
            kernel_fail(k, "%s %u was written beside its numbers",
                        r < ORR_CALL_IN ? "input" : "output",
                        r < ORR_CALL_IN ? r : r - ORR_CALL_IN);
    }
}

/* The bytes of all tensors, one behind another. */
static inline unsigned char *kernel_bytes(kernel_bench *k, size_t *ret_size)
{
    size_t size = 0;
    for (uint32_t r = 0; r < ORR_CALL_IN + ORR_CALL_OUT; r++)
        size += k->rooms[r].size;
    unsigned char *all = orr_arena_alloc(k->arena, size + 1, 1, 1);
    assert_non_null(all);
    *ret_size = 0;
    for (uint32_t r = 0; r < ORR_CALL_IN + ORR_CALL_OUT; *ret_size += k->rooms[r++].size)
        if (k->rooms[r].size > 0)
            memcpy(all + *ret_size, k->rooms[r].bytes, k->rooms[r].size);
    return all;
}

/* Any number of threads gives the bits of one. */
static inline void kernel_same_bits(kernel_bench *k)
{
    size_t size, again;
    orr_error err;
    const unsigned char *one = kernel_bytes(k, &size);
    for (size_t w = 1; w < sizeof k->workers / sizeof *k->workers; w++) {
        if (kernel_run(k, k->workers[w], &err) != ORR_OK)
            kernel_fail(k, "%s", err.text);
        if (memcmp(one, kernel_bytes(k, &again), size) != 0)
            kernel_fail(k, "%d threads give other bits than one", orr_workers_count(k->workers[w]));
    }
}

static inline void kernel_go(kernel_bench *k)
{
    orr_error err;
    if (kernel_run(k, NULL, &err) != ORR_OK)
        kernel_fail(k, "%s", err.text);
    for (uint32_t o = 0; o < k->now.n_out; o++)
        if (k->out[o].data != NULL)
            kernel_compare(k, o, false);
    kernel_check_gaps(k);
}

/* Which output is added to. */
static inline uint32_t kernel_added(const kernel_bench *k)
{
    return k->now.op == ORR_OP_RMS_NORM_BACKWARD || k->now.op == ORR_OP_LAYER_NORM_BACKWARD ? 1 : 0;
}

static inline void kernel_accumulate(kernel_bench *k)
{
    const uint32_t to = kernel_added(k);
    orr_error err;
    if (!k->backend->entries[k->now.op].accumulates || to >= k->now.n_out)
        return;
    k->now.accumulate = true;
    if (kernel_run(k, k->workers[1], &err) != ORR_OK)
        kernel_fail(k, "%s", err.text);
    for (uint32_t o = 0; o < k->now.n_out; o++)
        kernel_compare(k, o, o == to);
    k->now.accumulate = false;
}

/* Each output unwanted in turn: of attention not what it is for. */
static inline void kernel_without(kernel_bench *k)
{
    for (uint32_t o = 0; o < k->now.n_out && k->now.n_out > 1 && !k->failed[k->now.op]; o++) {
        if (o == 0 && (k->now.op == ORR_OP_ATTENTION || k->now.op == ORR_OP_ATTENTION_MERGE))
            continue;
        k->out[o].data = NULL;
        kernel_go(k);
        k->out[o].data = kernel_out(k, o)->bytes;
    }
}

/* Levels that this processor has, from the lowest up. */
static inline void kernel_each_level(kernel_bench *k, void (*body)(kernel_bench *k))
{
    orr_cpu_level_limit(ORR_CPU_LEVELS);
    const int highest = (int)orr_cpu_level();
    for (int level = 0; level <= highest; level++) {
        orr_cpu_level_limit((orr_cpu_level_id)level);
        body(k);
    }
    orr_cpu_level_limit(ORR_CPU_LEVELS);
}

static inline void kernel_at_level(kernel_bench *k)
{
    static void (*const LOOKS[])(kernel_bench * k) = {kernel_go, kernel_same_bits,
                                                      kernel_accumulate, kernel_without};
    for (size_t l = 0; l < sizeof LOOKS / sizeof *LOOKS && !k->failed[k->now.op]; l++)
        LOOKS[l](k);
}

#endif /* TESTS_KERNEL_BENCH_H */
