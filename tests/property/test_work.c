/* SPDX-License-Identifier: Apache-2.0 */
#include "../unit/cost/small_work.h"

#include "cost/roofline/device_rates.h"
#include "support/seeds.h"

/* Whatever a recording says of an operator: its work is finite, its dims are at least 1, and its
 * price is at least the shortest kernel. And no dim makes a kernel of any family cheaper when it
 * grows, on any device of the catalogue. */
static const char *const OPS[] = {"aten::mm",
                                  "aten::addmm",
                                  "aten::linear",
                                  "aten::cudnn_convolution",
                                  "aten::convolution_backward",
                                  "aten::cudnn_convolution_backward_weight",
                                  "aten::_flash_attention_forward",
                                  "aten::_scaled_dot_product_flash_attention_backward",
                                  "aten::embedding",
                                  "aten::_embedding_bag",
                                  "aten::index_select",
                                  "fbgemm::split_embedding_codegen_lookup_sgd_function",
                                  "torch::autograd::CppNode<SplitLookupFunction_sgd_Op>",
                                  "aten::cat",
                                  "aten::copy_",
                                  "aten::fill_",
                                  "aten::index",
                                  "aten::cudnn_batch_norm_backward",
                                  "aten::native_layer_norm",
                                  "aten::native_layer_norm_backward",
                                  "aten::_softmax",
                                  "aten::sum",
                                  "aten::_foreach_add_",
                                  "aten::gelu",
                                  "aten::never_heard_of"};
static const char *const KERNELS[] = {
    "volta_sgemm_128x64_nt",
    "volta_scudnn_winograd_128x128_relu",
    "flash_fwd_kernel",
    "split_embedding_backward_codegen_sgd_unweighted_kernel_warp_per_row_1",
    "void at::native::vectorized_elementwise_kernel<4>",
    "void splitKreduce_kernel",
    "what"};
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Shapes that mostly make sense, and sometimes not. */
static void random_shapes(orr_random *random, char *out, size_t room)
{
    static const char *const DIMS[] = {
        "1", "0", "7", "64", "1024", "99999999999", "18446744073709551616"};
    size_t at = 0;
    const uint32_t n = 1 + orr_random_u32(random) % 14;
    at += (size_t)snprintf(out + at, room - at, "[");
    for (uint32_t i = 0; i < n && at + 200 < room; i++) {
        const bool list = orr_random_u32(random) % 8 == 0;
        const uint32_t dims = orr_random_u32(random) % 6;
        at += (size_t)snprintf(out + at, room - at, "%s%s", i > 0 ? ", " : "", list ? "[[" : "[");
        for (uint32_t d = 0; d < dims; d++)
            at += (size_t)snprintf(out + at, room - at, "%s%s", d > 0 ? ", " : "",
                                   DIMS[orr_random_u32(random) % COUNT(DIMS)]);
        at += (size_t)snprintf(out + at, room - at, list ? "], [3]]" : "]");
    }
    if (orr_random_u32(random) % 16 != 0)
        snprintf(out + at, room - at, "]");
}

static void check_work(uint64_t seed, const orr_work *w, const orr_device *device)
{
    const orr_cost_chain chain = orr_cost_default_chain();
    const orr_price p = orr_cost_price(&chain, device, w);
    bool fine = w->family < ORR_FAMILIES && w->dtype < ORR_DTYPES && isfinite(w->flops) &&
                w->flops >= 0 && isfinite(w->read_bytes) && w->read_bytes >= 0 &&
                isfinite(w->write_bytes) && w->write_bytes >= 0 &&
                (double)p.ns >= orr_device_rates_of(device).floor_ns;
    for (int i = 0; i < w->n_dims; i++)
        fine = fine && w->dims[i] >= 1;
    if (!fine)
        seed_fail(seed, "%s of %s, %s: %g FLOPs, %g and %g bytes, %lld ns",
                  orr_kernel_family_name((orr_kernel_family)w->family), w->op, w->kernel, w->flops,
                  w->read_bytes, w->write_bytes, (long long)p.ns);
}

static void test_any_shapes(void **state)
{
    (void)state;
    const orr_device device = small_device();
    const seed_range range = seeds(300);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_random random = orr_random_of(seed, 0);
        small s = small_begin();
        const uint32_t cpu = small_thread(&s, 1), gpu = small_stream(&s, 0, 7);
        const uint32_t rounds = 10;
        for (uint32_t i = 0; i < rounds; i++) {
            char shapes[4096];
            random_shapes(&random, shapes, sizeof shapes);
            const char *op = OPS[orr_random_u32(&random) % COUNT(OPS)];
            const char *kernel = KERNELS[orr_random_u32(&random) % COUNT(KERNELS)];
            const uint32_t v = small_node(&s, ORR_NODE_HOST_OP, op, cpu, 100 * i, 50, ORR_NONE);
            small_shapes(&s, v, shapes, "[\"float\", \"c10::Half\"]", "[\"\", \"[2, 2]\", \"8\"]");
            const uint32_t call = small_call(&s, cpu, 100 * i + 10, 5, v);
            small_work(&s, ORR_NODE_COMPUTE, kernel, gpu, 100 * i + 20, 5, call);
        }
        small_job(&s);
        for (orr_node_id v = 0; v < s.graphs[0]->n_nodes; v++) {
            orr_work w;
            if (orr_work_of_node(s.graphs[0], v, &w, NULL) == ORR_OK)
                check_work(seed, &w, &device);
        }
        small_end(&s);
    }
}

static orr_work random_work(orr_random *random, unsigned family)
{
    static const int64_t SIZES[] = {1, 3, 17, 64, 128, 300, 1000};
    orr_work w = {.family = (uint8_t)family,
                  .dtype = (uint8_t)(orr_random_u32(random) % ORR_DTYPES),
                  .n_dims = ORR_WORK_DIMS,
                  .backward = orr_random_u32(random) % 2 == 0,
                  .op = "",
                  .kernel = KERNELS[orr_random_u32(random) % COUNT(KERNELS)]};
    for (int i = 0; i < ORR_WORK_DIMS; i++)
        w.dims[i] = SIZES[orr_random_u32(random) % COUNT(SIZES)];
    return w;
}

/* The stride and the filter of a convolution are left alone: a larger stride is less work, and
 * Winograd's algorithm begins at filters of 3x3. */
static bool may_grow(const orr_work *w, int dim)
{
    return w->family != ORR_FAMILY_CONVOLUTION || dim < 5;
}

static void test_more_never_costs_less(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_catalog *catalog;
    assert_int_equal(orr_catalog_open(arena, &catalog, NULL), ORR_OK);
    const orr_cost_model *roofline = orr_cost_roofline();
    const seed_range range = seeds(400);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_random random = orr_random_of(seed, 1);
        const orr_device *device = catalog->devices[orr_random_u32(&random) % catalog->n_devices];
        for (unsigned family = ORR_FAMILY_GEMM; family < ORR_FAMILIES; family++) {
            const orr_work w = random_work(&random, family);
            const int dim = (int)(orr_random_u32(&random) % ORR_WORK_DIMS);
            orr_work more = w;
            more.dims[dim] += 1 + orr_random_u32(&random) % 200;
            orr_price a, b;
            if (!may_grow(&w, dim) || !roofline->price(roofline, device, &w, &a))
                continue;
            assert_true(roofline->price(roofline, device, &more, &b));
            if (b.ns < a.ns)
                seed_fail(seed, "%s on %s: dim %d of %lld costs %lld ns, of %lld %lld ns",
                          orr_kernel_family_name((orr_kernel_family)family), device->name, dim,
                          (long long)w.dims[dim], (long long)a.ns, (long long)more.dims[dim],
                          (long long)b.ns);
        }
    }
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_shapes),
        cmocka_unit_test(test_more_never_costs_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
