/* SPDX-License-Identifier: Apache-2.0 */
/* Pages for test_page.py: make_page OUT.html small | OUT.html large N
 *
 * "small": two ranks of a data-parallel step with hostile names; what the page has to show
 * of it goes to stdout as JSON. "large": N events on eight ranks. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <orrery/orrery.h>

#define ADD_KERNEL                                                                                 \
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "       \
    "at::detail::Array<char*, 3> >(int, at::native::CUDAFunctor_add<float>)"
#define HOSTILE "</script><img src=x onerror=\"window.pwned=1\"><!--"

static orr_error err;

static void must(orr_status status)
{
    if (status != ORR_OK) {
        fprintf(stderr, "make_page: %s\n", err.text);
        exit(1);
    }
}

typedef struct draft {
    orr_graph_builder *builder;
    orr_lane_id host, stream, comm_stream;
    uint32_t n_drawn;
} draft;

static orr_str text(draft *d, const char *t)
{
    orr_str id;
    must(orr_builder_str(d->builder, t, strlen(t), &id, &err));
    return id;
}

static orr_node_id node(draft *d, const char *name, orr_node_kind kind, orr_lane_id lane,
                        int64_t start_ns, int64_t duration_ns, orr_node_id parent)
{
    const orr_node n = {text(d, name), kind, lane, start_ns, duration_ns, parent, 0};
    orr_node_id id;
    must(orr_builder_node(d->builder, &n, &id, &err));
    d->n_drawn += kind != ORR_NODE_MEMORY && kind != ORR_NODE_META;
    return id;
}

static void dep(draft *d, orr_node_id waits, orr_node_id on, orr_dep_kind kind)
{
    must(orr_builder_dep(d->builder, waits, on, kind, &err));
}

static draft begin(void)
{
    draft d = {.builder = orr_graph_builder_new()};
    const orr_lane host = {ORR_LANE_HOST, -1, 100, 200, 0, 0};
    const orr_lane stream = {ORR_LANE_STREAM, 0, 0, 7, 0, 0};
    const orr_lane comm = {ORR_LANE_STREAM, 0, 0, 20, 0, 0};
    if (!d.builder)
        exit(1);
    must(orr_builder_lane(d.builder, &host, &d.host, &err));
    must(orr_builder_lane(d.builder, &stream, &d.stream, &err));
    must(orr_builder_lane(d.builder, &comm, &d.comm_stream, &err));
    return d;
}

static const orr_graph *finish(draft *d)
{
    const orr_graph *graph;
    must(orr_graph_build(d->builder, &graph, &err));
    orr_graph_builder_free(d->builder);
    return graph;
}

/* Operator, launch and kernel; the kernel runs at `at + 40 us`. */
static orr_node_id step_part(draft *d, const char *op, const char *kernel, int64_t at,
                             int64_t kernel_ns, orr_node_id parent)
{
    const orr_node_id host = node(d, op, ORR_NODE_HOST_OP, d->host, at, 30000, parent);
    const orr_node_id call =
        node(d, "cudaLaunchKernel", ORR_NODE_RUNTIME, d->host, at + 8000, 9000, host);
    const orr_node_id work =
        node(d, kernel, ORR_NODE_COMPUTE, d->stream, at + 40000, kernel_ns, ORR_NONE);
    dep(d, work, call, ORR_DEP_LAUNCH);
    return work;
}

static void memory(draft *d, int64_t at, int64_t bytes, int64_t total)
{
    const orr_memory m = {.addr = 0x1000,
                          .bytes = bytes,
                          .allocated_bytes = total,
                          .reserved_bytes = 64 << 20,
                          .device_type = 1,
                          .device = 0};
    const orr_node_id id = node(d, "[memory]", ORR_NODE_MEMORY, d->host, at, 0, ORR_NONE);
    must(orr_builder_memory(d->builder, id, &m, &err));
}

static void add_step(draft *d, int number, int64_t at, orr_group_id group, int64_t late_ns)
{
    char name[32];
    snprintf(name, sizeof name, "ProfilerStep#%d", number);
    const orr_node_id step = node(d, name, ORR_NODE_ANNOTATION, d->host, at, 900000, ORR_NONE);
    memory(d, at + 1000, 8 << 20, 24 << 20);
    step_part(d, "aten::linear", "ampere_sgemm_128x64_tn", at + 10000 + late_ns, 180000, step);
    step_part(d, HOSTILE, ADD_KERNEL, at + 230000 + late_ns, 60000, step);
    const orr_node_id host =
        node(d, "c10d::allreduce_", ORR_NODE_HOST_OP, d->host, at + 300000 + late_ns, 30000, step);
    const orr_node_id call =
        node(d, "cudaLaunchKernel", ORR_NODE_RUNTIME, d->host, at + 305000 + late_ns, 9000, host);
    const int64_t begin_ns = at + 345000 + late_ns;
    const orr_node_id comm =
        node(d, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
             ORR_NODE_COLLECTIVE, d->comm_stream, begin_ns, at + 645000 - begin_ns, ORR_NONE);
    const orr_comm what = {.collective = ORR_COLL_ALL_REDUCE,
                           .peer = -1,
                           .root = -1,
                           .tag = -1,
                           .group = group,
                           .group_size = 2,
                           .seq = number,
                           .in_bytes = 25 << 20,
                           .out_bytes = 25 << 20,
                           .dtype = text(d, "Float")};
    must(orr_builder_comm(d->builder, comm, &what, &err));
    dep(d, comm, call, ORR_DEP_LAUNCH);
    step_part(d, "aten::gelu", "gelu_kernel", at + 420000, 90000, step);
    const orr_node_id sync =
        node(d, "cudaDeviceSynchronize", ORR_NODE_RUNTIME, d->host, at + 600000, 60000, step);
    dep(d, sync, comm, ORR_DEP_SYNC);
    memory(d, at + 700000, -(8 << 20), 16 << 20);
}

static const orr_graph *small_rank(uint32_t rank, uint32_t *n_drawn)
{
    draft d = begin();
    const uint32_t ranks[] = {0, 1};
    const orr_group group = {
        .name = text(&d, "0"), .desc = text(&d, "default_pg"), .size = 2, .ranks = ranks};
    orr_group_id id;
    must(orr_builder_group(d.builder, &group, &id, &err));
    for (int s = 0; s < 3; s++)
        add_step(&d, s, 1000000LL * s, id, rank * 45000);
    *n_drawn += d.n_drawn;
    return finish(&d);
}

static void make_small(const char *path)
{
    uint32_t n_drawn = 0;
    const orr_graph *graphs[] = {small_rank(0, &n_drawn), small_rank(1, &n_drawn)};
    const orr_job *job;
    const orr_trace_html_options page = {.struct_bytes = sizeof page,
                                         .title = "Two ranks " HOSTILE};
    must(orr_job_build(graphs, 2, &job, &err));
    must(orr_trace_html(path, job, NULL, &page, &err));
    printf("{\"events\": %" PRIu32 ", \"ranks\": 2, \"lanes\": 6, \"matches\": %" PRIu32 ",\n"
           " \"hostile\": \"</script><img src=x onerror=\\\"window.pwned=1\\\"><!--\",\n"
           " \"kernel\": \"vectorized_elementwise_kernel<CUDAFunctor_add<float>>\"}\n",
           n_drawn, job->n_matches);
    orr_job_free(job);
}

/* A thread of nested operators over two streams; deterministic. */
static const orr_graph *large_rank(uint32_t rank, uint32_t n)
{
    static const char *const ops[] = {"aten::linear", "aten::addmm", "aten::mul",
                                      "aten::layer_norm",
                                      "autograd::engine::evaluate_function: AddmmBackward0"};
    static const char *const kernels[] = {"ampere_sgemm_128x64_tn", "vectorized_elementwise_kernel",
                                          "reduce_kernel", "layer_norm_kernel"};
    draft d = begin();
    uint64_t random = 0x9E3779B97F4A7C15u + rank;
    int64_t at = 0, busy_until = 0;
    for (uint32_t i = 0; i + 4 <= n; i += 4) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const int64_t jitter = (int64_t)(random >> 52),
                      kernel_ns = 4000 + (int64_t)(random >> 40) % 30000;
        const orr_node_id outer = node(&d, ops[(random >> 33) % 5], ORR_NODE_HOST_OP, d.host, at,
                                       18000 + jitter, ORR_NONE);
        const orr_node_id inner =
            node(&d, ops[(random >> 36) % 5], ORR_NODE_HOST_OP, d.host, at + 2000, 14000, outer);
        const orr_node_id call =
            node(&d, "cudaLaunchKernel", ORR_NODE_RUNTIME, d.host, at + 5000, 6000, inner);
        const int64_t start = busy_until > at + 9000 ? busy_until + 1200 : at + 9000;
        const bool comm = i % 160 == 0;
        const orr_node_id work = node(
            &d, comm ? "ncclDevKernel_AllReduce_Sum_f32_RING_LL" : kernels[(random >> 44) % 4],
            comm ? ORR_NODE_COLLECTIVE : ORR_NODE_COMPUTE, d.stream, start, kernel_ns, ORR_NONE);
        dep(&d, work, call, ORR_DEP_LAUNCH);
        busy_until = start + kernel_ns;
        at += 20000 + jitter;
    }
    return finish(&d);
}

static void make_large(const char *path, uint32_t n)
{
    enum { RANKS = 8 };
    const orr_graph *graphs[RANKS];
    const orr_job *job;
    const orr_trace_html_options page = {.struct_bytes = sizeof page, .title = "Large"};
    for (uint32_t r = 0; r < RANKS; r++)
        graphs[r] = large_rank(r, n / RANKS);
    must(orr_job_build(graphs, RANKS, &job, &err));
    must(orr_trace_html(path, job, NULL, &page, &err));
    printf("{\"events\": %" PRIu32 "}\n", n / RANKS / 4 * 4 * RANKS);
    orr_job_free(job);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[2], "small") == 0)
        make_small(argv[1]);
    else if (argc == 4 && strcmp(argv[2], "large") == 0)
        make_large(argv[1], (uint32_t)strtoul(argv[3], NULL, 10));
    else {
        fprintf(stderr, "usage: make_page OUT.html small | OUT.html large N\n");
        return 2;
    }
    return 0;
}
