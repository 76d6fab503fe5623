/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products by cuBLASLt, which is column-major: a row-major y (M, N) is a column-major y' (N,
 * M), so w is passed first. */
#include <string.h>

#include "base/alloc.h"
#include "kernel/cuda/driver.h"

enum { WORKSPACE_BYTES = 32 << 20 };

typedef struct product {
    cublasLtMatmulDesc_t how;
    cublasLtMatrixLayout_t w, x, y;
    cublasLtMatmulAlgo_t algorithm;
} product;

static bool type_of(uint8_t dtype, cudaDataType *ret)
{
    *ret = dtype == ORR_DTYPE_BF16   ? CUDA_R_16BF
           : dtype == ORR_DTYPE_FP16 ? CUDA_R_16F
                                     : CUDA_R_32F;
    return dtype == ORR_DTYPE_BF16 || dtype == ORR_DTYPE_FP16 || dtype == ORR_DTYPE_FP32 ||
           dtype == ORR_DTYPE_TF32;
}

static void release_product(void *state)
{
    const orr_cuda_api *api = orr_cuda_current()->api;
    product *p = state;
    if (p == NULL)
        return;
    if (p->how != NULL)
        (void)api->cublasLtMatmulDescDestroy(p->how);
    cublasLtMatrixLayout_t layouts[] = {p->w, p->x, p->y};
    for (int i = 0; i < 3; i++)
        if (layouts[i] != NULL)
            (void)api->cublasLtMatrixLayoutDestroy(layouts[i]);
    orr_free(p);
}

/* The matrices of an operand: rows and columns, their number, and the stride between them. Leading
 * dims of x that share one w are rows of one tall matrix. */
typedef struct matrices {
    int64_t rows, columns, ld, n, apart;
} matrices;
static matrices matrices_of(const orr_operand *t, bool tall)
{
    const int r = t->type.rank;
    matrices m = {t->type.dim[r - 2], t->type.dim[r - 1], t->stride[r - 2], 1, 0};
    for (int d = 0; d < r - 2; d++)
        m.n *= t->type.dim[d];
    m.apart = r > 2 ? t->stride[r - 3] : 0;
    if (tall) {
        m.rows *= m.n;
        m.n = 1;
    }
    return m;
}

static bool layout(const orr_cuda_api *api, cublasLtMatrixLayout_t *ret, cudaDataType type,
                   matrices m, int32_t n)
{
    if (api->cublasLtMatrixLayoutCreate(ret, type, (uint64_t)m.columns, (uint64_t)m.rows, m.ld) !=
        CUBLAS_STATUS_SUCCESS)
        return false;
    const int64_t apart = m.n > 1 ? m.apart : 0;
    return n == 1 ||
           (api->cublasLtMatrixLayoutSetAttribute(*ret, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &n,
                                                  sizeof n) == CUBLAS_STATUS_SUCCESS &&
            api->cublasLtMatrixLayoutSetAttribute(*ret, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                  &apart, sizeof apart) == CUBLAS_STATUS_SUCCESS);
}

static bool choose(const orr_cuda *c, product *p)
{
    const orr_cuda_api *api = c->api;
    cublasLtMatmulPreference_t wish;
    cublasLtMatmulHeuristicResult_t found;
    const size_t room = WORKSPACE_BYTES;
    int n = 0;
    if (api->cublasLtMatmulPreferenceCreate(&wish) != CUBLAS_STATUS_SUCCESS)
        return false;
    bool done =
        api->cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                  &room, sizeof room) == CUBLAS_STATUS_SUCCESS &&
        api->cublasLtMatmulAlgoGetHeuristic(c->blas, p->how, p->w, p->x, p->y, p->y, wish, 1,
                                            &found, &n) == CUBLAS_STATUS_SUCCESS &&
        n == 1;
    (void)api->cublasLtMatmulPreferenceDestroy(wish);
    if (done)
        p->algorithm = found.algo;
    return done;
}

static bool build(const orr_kernel_call *call, product *p)
{
    const orr_cuda *c = orr_cuda_current();
    const orr_operand *x = &call->in[0], *w = &call->in[1], *y = &call->out[0];
    const bool tall = w->type.rank == 2 && !call->args->transpose_a;
    const matrices mx = matrices_of(x, tall), mw = matrices_of(w, false), my = matrices_of(y, tall);
    const cublasOperation_t of_w = call->args->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t of_x = call->args->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    cudaDataType tx, tw, ty;
    return type_of(x->type.dtype, &tx) && type_of(w->type.dtype, &tw) &&
           type_of(y->type.dtype, &ty) && x->stride[x->type.rank - 1] == 1 &&
           w->stride[w->type.rank - 1] == 1 &&
           c->api->cublasLtMatmulDescCreate(&p->how, CUBLAS_COMPUTE_32F, CUDA_R_32F) ==
               CUBLAS_STATUS_SUCCESS &&
           c->api->cublasLtMatmulDescSetAttribute(p->how, CUBLASLT_MATMUL_DESC_TRANSA, &of_w,
                                                  sizeof of_w) == CUBLAS_STATUS_SUCCESS &&
           c->api->cublasLtMatmulDescSetAttribute(p->how, CUBLASLT_MATMUL_DESC_TRANSB, &of_x,
                                                  sizeof of_x) == CUBLAS_STATUS_SUCCESS &&
           layout(c->api, &p->w, tw, mw, (int32_t)my.n) &&
           layout(c->api, &p->x, tx, mx, (int32_t)my.n) &&
           layout(c->api, &p->y, ty, my, (int32_t)my.n) && choose(c, p);
}

static orr_status prepare(const orr_kernel_call *call, void **ret_state, orr_error *err)
{
    if (!orr_cuda_current()->api->blas)
        return orr_fail(err, ORR_UNSUPPORTED, "matmul: no cuBLASLt on this machine");
    product *p = orr_calloc(1, sizeof *p);
    if (p == NULL)
        return orr_fail_memory(err);
    if (call->n_in > 2 || call->in[1].rows != NULL || !build(call, p)) {
        release_product(p);
        return orr_fail(err, ORR_UNSUPPORTED, "matmul: cuBLASLt has no product of these operands");
    }
    *ret_state = p;
    return ORR_OK;
}

static size_t workspace(const orr_kernel_call *call)
{
    (void)call;
    return WORKSPACE_BYTES;
}

static orr_status run(const orr_kernel_call *call, orr_error *err)
{
    const orr_cuda *c = orr_cuda_current();
    const product *p = call->state;
    const float one = 1, beta = call->accumulate ? 1 : 0;
    const cublasStatus_t status =
        c->api->cublasLtMatmul(c->blas, p->how, &one, call->in[1].data, p->w, call->in[0].data,
                               p->x, &beta, call->out[0].data, p->y, call->out[0].data, p->y,
                               &p->algorithm, call->workspace, WORKSPACE_BYTES, call->stream);
    return status == CUBLAS_STATUS_SUCCESS
               ? ORR_OK
               : orr_fail(err, ORR_UNSUPPORTED, "matmul: cuBLASLt failed with %d", (int)status);
}

const orr_kernel_entry orr_cuda_matmul_entry = {.run = run,
                                                .workspace = workspace,
                                                .prepare = prepare,
                                                .release = release_product,
                                                .accumulates = true};
