/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a synthetic Kineto trace of about N events to standard output.
 *
 *   synth N [RANK [WORLD]]
 *
 * Each step is what a data-parallel training step looks like to the profiler: a main thread whose
 * operators launch one kernel each, a backward thread, a communication stream with an
 * all-reduce every 50 kernels, ProfilerStep annotations, and the flow events of each launch.
 * The times follow from a small queue model, so that every analysis has work to do.
 * Deterministic: the same arguments give the same bytes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { OPS_PER_STEP = 2000, OPS_PER_BUCKET = 50, STREAM_COMPUTE = 7, STREAM_COMM = 20 };

static const char *const KERNELS[] = {
    ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
     "at::detail::Array<char*, 3> >(int, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3>)"),
    "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn",
    "void cutlass::Kernel<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_nn_align8>(Params)",
    "void layer_norm_cuda_compute_kernel<float, float, 512>(int, float const*, float*)",
    "flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t> >",
};
static const char *const OPS[] = {"aten::add_", "aten::mm", "aten::addmm",
                                  "aten::native_layer_norm", "aten::_flash_attention_forward"};
enum { N_KERNELS = sizeof KERNELS / sizeof *KERNELS };

typedef struct synth {
    uint64_t events, wanted, correlation, external;
    uint32_t random, rank, world;
    int64_t host_ns[2];          /* the clocks of the main and the backward thread */
    int64_t compute_ns, comm_ns; /* when each stream falls idle                    */
} synth;

static uint32_t next_random(synth *s)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 17;
    s->random ^= s->random << 5;
    return s->random;
}

static void begin_event(synth *s)
{
    fputs(s->events++ ? ",\n" : "\n", stdout);
}

static void print_us(int64_t ns)
{
    printf("%" PRId64 ".%03d", ns / 1000, (int)(ns % 1000));
}

static void host_event(synth *s, const char *cat, const char *name, int thread, int64_t start_ns,
                       int64_t duration_ns)
{
    begin_event(s);
    printf(
        "  {\n    \"ph\": \"X\", \"cat\": \"%s\", \"name\": \"%s\", \"pid\": 4000, \"tid\": %d,\n    \"ts\": ",
        cat, name, 4000 + thread);
    print_us(start_ns);
    fputs(", \"dur\": ", stdout);
    print_us(duration_ns);
}

static void flow(synth *s, char phase, int pid, int tid, int64_t at_ns)
{
    begin_event(s);
    printf("  {\n    \"ph\": \"%c\", \"id\": %" PRIu64 ", \"pid\": %d, \"tid\": %d, \"ts\": ",
           phase, s->correlation, pid, tid);
    print_us(at_ns);
    printf(",\n    \"cat\": \"ac2g\", \"name\": \"ac2g\"%s\n  }",
           phase == 'f' ? ", \"bp\": \"e\"" : "");
}

static void kernel(synth *s, const char *name, int stream, int64_t start_ns, int64_t duration_ns,
                   const char *more)
{
    begin_event(s);
    printf(
        "  {\n    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"%s\", \"pid\": 0, \"tid\": %d,\n    \"ts\": ",
        name, stream);
    print_us(start_ns);
    fputs(", \"dur\": ", stdout);
    print_us(duration_ns);
    printf(
        ",\n    \"args\": {\n      \"External id\": %" PRIu64
        ",\n      \"queued\": 0, \"device\": 0, \"context\": 1,\n      \"stream\": %d, \"correlation\": %" PRIu64
        ",\n      \"registers per thread\": 32,\n      \"shared memory\": 0,\n      \"grid\": [%u, 1, 1],\n"
        "      \"block\": [128, 1, 1],\n      \"est. achieved occupancy %%\": 50%s\n    }\n  }",
        s->external, stream, s->correlation, 64u << (s->correlation % 6), more);
    flow(s, 'f', 0, stream, start_ns);
}

static void launch(synth *s, int thread, int64_t start_ns)
{
    host_event(s, "cuda_runtime", "cudaLaunchKernel", thread, start_ns, 4200);
    printf(",\n    \"args\": {\n      \"External id\": %" PRIu64
           ", \"cbid\": 211, \"correlation\": %" PRIu64 "\n    }\n  }",
           s->external, s->correlation);
    flow(s, 's', 4000, 4000 + thread, start_ns);
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void all_reduce(synth *s, int64_t launched_ns)
{
    char more[256];

    s->correlation++;
    launch(s, 1, launched_ns);
    snprintf(
        more, sizeof more,
        ",\n      \"Collective name\": \"allreduce\", \"In msg nelems\": 6553600, \"Out msg nelems\": 6553600,\n"
        "      \"Group size\": %u, \"dtype\": \"BFloat16\", \"Process Group Name\": \"0\", \"Process Group Description\": \"default_pg\"",
        s->world);
    const int64_t start_ns = later(later(launched_ns + 5000, s->comm_ns), s->compute_ns);
    const int64_t duration_ns = 180000 + next_random(s) % 60000;
    kernel(s, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
           STREAM_COMM, start_ns, duration_ns, more);
    s->comm_ns = start_ns + duration_ns;
}

static void operator_with_kernel(synth *s, int thread, uint32_t i)
{
    const uint32_t which = i % N_KERNELS;
    const int64_t start_ns = s->host_ns[thread];
    const int64_t op_ns = 9000 + next_random(s) % 6000;

    s->correlation++;
    s->external++;
    host_event(s, "cpu_op", OPS[which], thread, start_ns, op_ns);
    printf(",\n    \"args\": {\n      \"External id\": %" PRIu64
           ", \"Record function id\": %" PRIu64 ", \"Ev Idx\": %" PRIu64
           ",\n      \"Input Dims\": [[%u, 4096], [4096, 4096], []], \"Input type\": "
           "[\"c10::BFloat16\", \"c10::BFloat16\", \"Scalar\"]\n    }\n  }",
           s->external, s->external, s->events, 128u << (i % 5));
    launch(s, thread, start_ns + 3000);
    const int64_t kernel_start_ns = later(start_ns + 9000, s->compute_ns + 800);
    const int64_t kernel_ns = 4000 + next_random(s) % 20000;
    kernel(s, KERNELS[which], STREAM_COMPUTE, kernel_start_ns, kernel_ns, "");
    s->compute_ns = kernel_start_ns + kernel_ns;
    s->host_ns[thread] = start_ns + op_ns + 500 + next_random(s) % 1000;
}

static void step(synth *s, uint32_t number)
{
    char name[32];
    const int64_t start_ns = s->host_ns[0];

    for (uint32_t i = 0; i < OPS_PER_STEP && s->events < s->wanted; i++) {
        const int thread = i >= OPS_PER_STEP / 2;
        if (i == OPS_PER_STEP / 2)
            s->host_ns[1] = s->host_ns[0];
        operator_with_kernel(s, thread, i);
        if (thread && i % OPS_PER_BUCKET == 0)
            all_reduce(s, s->host_ns[1]);
    }
    s->host_ns[0] = later(later(s->host_ns[1], s->compute_ns), s->comm_ns);
    snprintf(name, sizeof name, "ProfilerStep#%u", number);
    host_event(s, "user_annotation", name, 0, start_ns, s->host_ns[0] - start_ns);
    fputs(",\n    \"args\": {\n      \"External id\": 0\n    }\n  }", stdout);
    s->host_ns[0] += 2000;
}

int main(int argc, char **argv)
{
    static char buffer[1 << 20];
    synth s = {.random = 2463534242u, .world = 8};

    if (argc < 2) {
        fputs("usage: synth EVENTS [RANK [WORLD]]\n", stderr);
        return 2;
    }
    s.wanted = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        s.rank = (uint32_t)strtoul(argv[2], NULL, 10);
    if (argc > 3)
        s.world = (uint32_t)strtoul(argv[3], NULL, 10);
    s.random += s.rank * 7919u;
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    printf(
        "{\n\"schemaVersion\": 1, \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": %u, \"world_size\": %u},\n"
        "\"deviceProperties\": [{\"id\": 0, \"name\": \"Synthetic\"}],\n\"traceEvents\": [",
        s.rank, s.world);
    s.host_ns[0] = 1000000000;
    for (uint32_t number = 0; s.events < s.wanted; number++)
        step(&s, number);
    puts("\n]}");
    return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
