/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/gemm/gemm.h"

#include <string.h>

#include "base/alloc.h"
#include "base/workers.h"
#include "kernel/cpu/simd/cpu_level.h"
#include "kernel/format/row.h"

/* Blocked GEMM: the loops around the microkernel and how they divide the work.
 *
 *   for each span of the shared operand (16 MiB, packed once by all threads)
 *     for each block of c (m_block x n_block), in parallel: one work item, one thread
 *       for each block of K, in order:
 *         pack the other operand's block into the thread's panels
 *         for each panel of b, for each panel of a: microkernel, c tile += a panel * b panel
 *
 * Of a single product the smaller operand is shared (SHARE_A or SHARE_B) and packed once, since
 * every work item reads it; the other is packed by the work item that needs it. Batched products
 * are small, so each work item packs both blocks (SHARE_NONE).
 *
 * Block sizes follow the caches: a panel of a (8 rows x 512 units: 16 KiB) stays in L1 while it
 * meets all panels of a block of b; those (98 KiB each) stay in L2; packed a streams from L3 at 1.3
 * bytes a cycle.
 *
 * An element of c is summed by one thread, over K in order, and blocks are plan by shape alone: the
 * result is bitwise independent of the number of threads. */
enum {
    M_BLOCK = 256,
    ROWS_BLOCK = 128,        /* columns of c in a block where panels are by rows */
    SHARED_BYTES = 16 << 20, /* of the shared operand packed at once */
    PIECES = 24,             /* work items wanted at min64, to balance the load of threads */
};

typedef enum sharing { SHARE_NONE, SHARE_A, SHARE_B } sharing;

typedef struct plan {
    const orr_gemm_batch *products;
    const orr_gemm_microkernel *tiler;
    sharing shared;
    int64_t m_block, n_block, k_blocks;
    int64_t span; /* rows (of b: columns) of the shared operand that are packed at once */
    int64_t span_from, span_n; /* the current span */
    size_t shared_bytes, a_bytes, b_bytes, c_bytes, thread_bytes;
    char *shared_at, *threads_at;
} plan;

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t round_up(int64_t value, int64_t to)
{
    return (value + to - 1) / to * to;
}

static int64_t pieces_of(int64_t n, int64_t block)
{
    return n == 0 ? 0 : (n - 1) / block + 1;
}

/* K = 0 has one empty block, which stores zeros. */
static int64_t k_blocks_of(const plan *c, int64_t k)
{
    return k == 0 ? 1 : pieces_of(k, c->tiler->k_block);
}

/* The microkernel accumulates straight into c where c is fp32 with contiguous rows. Skinny GEMM
 * adds what is there last, and its bits are those of products by rows. */
static bool sums_in_place(const plan *c, const orr_gemm_problem *p)
{
    return p->c_dtype == ORR_DTYPE_FP32 && p->c_stride_n == 1 &&
           !(c->tiler->by_rows && p->accumulate);
}

static int64_t units_of(const plan *c)
{
    const int64_t k = min64(c->products->like.k, c->tiler->k_block);
    return (k + c->tiler->per_unit - 1) / c->tiler->per_unit;
}

static size_t aligned(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static size_t panels_bytes(const plan *c, int64_t n, int width)
{
    return aligned((size_t)(round_up(n, width) * units_of(c)) * 4);
}

/* Block sizes of a single product, one of whose operands is shared. */
static void plan_single(plan *c)
{
    const orr_gemm_problem *p = &c->products->like;
    const int rows = c->tiler->rows, columns = c->tiler->columns;
    const int64_t column_bytes = p->k * (4 / c->tiler->per_unit);
    const int64_t whole = SHARED_BYTES / (column_bytes > 0 ? column_bytes : 1);
    if (c->shared == SHARE_A) {
        c->m_block = M_BLOCK * 2;
        c->n_block =
            c->tiler->by_rows ? ROWS_BLOCK : columns * (p->n / (PIECES * columns) > 1 ? 2 : 1);
        c->span = round_up(whole > M_BLOCK ? whole : M_BLOCK, rows);
    } else {
        c->m_block = round_up(min64(M_BLOCK, p->m / PIECES + 1), rows);
        c->n_block = columns * 16;
        c->span = round_up(whole > M_BLOCK ? whole : M_BLOCK, columns);
    }
}

static plan plan_of(const orr_gemm_batch *products, const orr_gemm_microkernel *tiler)
{
    const orr_gemm_problem *p = &products->like;
    plan c = {.products = products, .tiler = tiler};
    const int rows = c.tiler->rows, columns = c.tiler->columns;
    c.k_blocks = k_blocks_of(&c, p->k);
    c.shared = products->count > 1 ? SHARE_NONE : p->m <= p->n ? SHARE_A : SHARE_B;
    if (c.shared == SHARE_NONE) {
        c.m_block = round_up(M_BLOCK, rows);
        c.n_block = c.tiler->by_rows ? ROWS_BLOCK : columns * 8;
    } else {
        plan_single(&c);
    }
    c.m_block = round_up(min64(c.m_block, p->m), rows);
    c.n_block = round_up(min64(c.n_block, p->n), columns);
    const int64_t k_units = c.k_blocks * (c.tiler->k_block / c.tiler->per_unit);
    if (c.shared != SHARE_NONE) {
        const int width = c.shared == SHARE_A ? rows : columns;
        const int64_t all = round_up(c.shared == SHARE_A ? p->m : p->n, width);
        c.span = min64(c.span, all);
        c.shared_bytes = aligned((size_t)(c.span * min64(k_units, p->k + 1)) * 4);
    }
    c.a_bytes = c.shared == SHARE_A ? 0 : panels_bytes(&c, c.m_block, rows);
    c.b_bytes = c.shared == SHARE_B ? 0 : panels_bytes(&c, c.n_block, columns);
    c.c_bytes = sums_in_place(&c, p) ? 0 : aligned((size_t)(c.m_block * c.n_block) * sizeof(float));
    c.thread_bytes =
        c.a_bytes + c.b_bytes + c.c_bytes + aligned(orr_gemm_pack_scratch_bytes(c.tiler));
    return c;
}

size_t orr_blocked_gemm_workspace(const orr_gemm_batch *products, const orr_gemm_microkernel *tiler,
                                  const orr_workers *workers)
{
    const plan c = plan_of(products, tiler);
    return c.shared_bytes + (size_t)orr_workers_count(workers) * c.thread_bytes;
}

/* Address of the shared operand's panels: those of K block kb lie after those of the blocks
 * before. */
static char *shared_panels(const plan *c, int64_t kb, int64_t i, int width, int64_t units)
{
    const int64_t before = kb * (c->tiler->k_block / c->tiler->per_unit);
    return c->shared_at + (before * round_up(c->span_n, width) + i * units) * 4;
}

typedef struct block {
    orr_gemm_problem p;
    int64_t m0, n_m, n0, n_n; /* rows and columns of c */
    char *a, *b, *scratch;
    float *sums;
    int64_t sums_stride;
} block;

/* Row i and column j of the block are the first of the tile. */
static void multiply_tile(const plan *c, const block *b, const char *a_panels, const char *b_panels,
                          int64_t units, int64_t i, int64_t j, bool add)
{
    const int rows = c->tiler->rows, columns = c->tiler->columns;
    const int64_t n_i = min64(rows, b->n_m - i), n_j = min64(columns, b->n_n - j);
    const void *a_panel = a_panels + i * units * 4, *b_panel = b_panels + j * units * 4;
    float *to = b->sums + i * b->sums_stride + j;
    if (n_i == rows) {
        c->tiler->tile(units, a_panel, b_panel, to, b->sums_stride, n_j, add);
        return;
    }
    _Alignas(64) float edge[ORR_TILE_ROWS_MAX * ORR_TILE_COLUMNS_MAX];
    c->tiler->tile(units, a_panel, b_panel, edge, ORR_TILE_COLUMNS_MAX, n_j, false);
    for (int64_t r = 0; r < n_i; r++)
        for (int64_t s = 0; s < n_j; s++) {
            float *at = &to[r * b->sums_stride + s];
            const float sum = edge[r * ORR_TILE_COLUMNS_MAX + s];
            *at = add ? *at + sum : sum;
        }
}

/* The wider panel stays in L1 while the others pass. */
static void multiply_panels(const plan *c, const block *b, const char *a_panels,
                            const char *b_panels, int64_t units, bool add)
{
    const int rows = c->tiler->rows, columns = c->tiler->columns;
    if (c->tiler->by_rows) {
        for (int64_t i = 0; i < b->n_m; i += rows)
            for (int64_t j = 0; j < b->n_n; j += columns)
                multiply_tile(c, b, a_panels, b_panels, units, i, j, add);
        return;
    }
    for (int64_t j = 0; j < b->n_n; j += columns)
        for (int64_t i = 0; i < b->n_m; i += rows)
            multiply_tile(c, b, a_panels, b_panels, units, i, j, add);
}

static char *c_at(const orr_gemm_problem *p, int64_t m, int64_t n)
{
    const int64_t bytes = (int64_t)orr_dtype_bytes((orr_dtype)p->c_dtype);
    return (char *)p->c + (m * p->c_stride_m + n * p->c_stride_n) * bytes;
}

void orr_gemm_store_row(const orr_gemm_problem *p, int64_t m, int64_t n0, int64_t n, float *sums)
{
    enum { RUN = 256 };
    float old[RUN];
    const orr_dtype dtype = (orr_dtype)p->c_dtype;
    if (p->c_stride_n != 1) {
        for (int64_t j = 0; j < n; j++) {
            char *at = c_at(p, m, n0 + j);
            if (p->accumulate) {
                orr_dtype_to_fp32(dtype, at, 1, old);
                sums[j] += old[0];
            }
            orr_dtype_from_fp32(dtype, &sums[j], 1, at);
        }
        return;
    }
    for (int64_t j = 0; j < n && p->accumulate; j += RUN) {
        const int64_t run = min64(RUN, n - j);
        orr_dtype_to_fp32(dtype, c_at(p, m, n0 + j), run, old);
        for (int64_t s = 0; s < run; s++)
            sums[j + s] += old[s];
    }
    char *to = c_at(p, m, n0);
#if ORR_X86
    if (dtype == ORR_DTYPE_BF16 && orr_cpu_level() >= ORR_CPU_AVX512_BF16) {
        orr_fp32_to_bf16_avx512(sums, n, (void *)to);
        return;
    }
#endif
    orr_dtype_from_fp32(dtype, sums, n, to);
}

static void compute_block(const plan *c, block *b)
{
    const orr_gemm_microkernel *t = c->tiler;
    const bool in_place = sums_in_place(c, &b->p);
    if (in_place) {
        b->sums = (float *)(void *)c_at(&b->p, b->m0, b->n0);
        b->sums_stride = b->p.c_stride_m;
    } else {
        b->sums_stride = c->n_block;
    }
    for (int64_t kb = 0; kb < k_blocks_of(c, b->p.k); kb++) {
        const int64_t k0 = kb * t->k_block, n_k = min64(t->k_block, b->p.k - k0);
        const int64_t units = (n_k + t->per_unit - 1) / t->per_unit;
        const char *a = b->a, *bs = b->b;
        if (c->shared == SHARE_A)
            a = shared_panels(c, kb, b->m0 - c->span_from, t->rows, units);
        else
            orr_gemm_pack(t, &b->p.a, t->rows, b->m0, b->n_m, k0, n_k, b->scratch, b->a);
        if (c->shared == SHARE_B)
            bs = shared_panels(c, kb, b->n0 - c->span_from, t->columns, units);
        else
            orr_gemm_pack(t, &b->p.b, t->columns, b->n0, b->n_n, k0, n_k, b->scratch, b->b);
        multiply_panels(c, b, a, bs, units, kb > 0 || (in_place && b->p.accumulate));
    }
    for (int64_t i = 0; i < b->n_m && !in_place; i++)
        orr_gemm_store_row(&b->p, b->m0 + i, b->n0, b->n_n, b->sums + i * b->sums_stride);
}

/* The grid of blocks of c in the current span. */
typedef struct grid {
    int64_t m, n, m_blocks, n_blocks;
} grid;

static grid grid_of(const plan *c)
{
    const orr_gemm_problem *p = &c->products->like;
    grid g = {.m = c->shared == SHARE_A ? c->span_n : p->m,
              .n = c->shared == SHARE_B ? c->span_n : p->n};
    g.m_blocks = pieces_of(g.m, c->m_block);
    g.n_blocks = pieces_of(g.n, c->n_block);
    return g;
}

static char *thread_scratch(const plan *c, int thread)
{
    return c->threads_at + (size_t)thread * c->thread_bytes;
}

static void compute_block_item(void *ctx, size_t piece, int thread)
{
    const plan *c = ctx;
    const grid g = grid_of(c);
    const int64_t each = g.m_blocks * g.n_blocks, i = (int64_t)piece % each;
    block b = {.p = c->products->like};
    if (c->products->at != NULL)
        c->products->at(c->products->ctx, (int64_t)piece / each, &b.p);
    const int64_t m = c->shared == SHARE_A ? min64(c->span_n, b.p.m - c->span_from) : b.p.m;
    b.m0 = i % g.m_blocks * c->m_block;
    b.n0 = i / g.m_blocks * c->n_block;
    b.n_m = min64(c->m_block, m - b.m0);
    b.n_n = min64(c->n_block, g.n - b.n0);
    if (b.n_m <= 0)
        return;
    b.m0 += c->shared == SHARE_A ? c->span_from : 0;
    b.n0 += c->shared == SHARE_B ? c->span_from : 0;
    b.a = thread_scratch(c, thread);
    b.b = b.a + c->a_bytes;
    b.sums = (float *)(void *)(b.b + c->b_bytes);
    b.scratch = b.b + c->b_bytes + c->c_bytes;
    compute_block(c, &b);
}

enum { PACK_PANELS = 4 }; /* panels that one work item packs of the shared operand */

static void pack_shared_item(void *ctx, size_t piece, int thread)
{
    const plan *c = ctx;
    const orr_gemm_microkernel *t = c->tiler;
    orr_gemm_problem p = c->products->like;
    if (c->products->at != NULL)
        c->products->at(c->products->ctx, 0, &p);
    const int width = c->shared == SHARE_A ? t->rows : t->columns;
    const int64_t kb = (int64_t)piece % c->k_blocks;
    const int64_t i = (int64_t)piece / c->k_blocks * PACK_PANELS * width;
    const int64_t n_i = min64(PACK_PANELS * width, c->span_n - i);
    const int64_t k0 = kb * t->k_block, n_k = min64(t->k_block, p.k - k0);
    if (n_k <= 0)
        return;
    const int64_t units = (n_k + t->per_unit - 1) / t->per_unit;
    char *scratch = thread_scratch(c, thread) + c->a_bytes + c->b_bytes + c->c_bytes;
    orr_gemm_pack(t, c->shared == SHARE_A ? &p.a : &p.b, width, c->span_from + i, n_i, k0, n_k,
                  scratch, shared_panels(c, kb, i, width, units));
}

static void run_span(plan *c, orr_workers *workers)
{
    if (c->shared != SHARE_NONE) {
        const int width = c->shared == SHARE_A ? c->tiler->rows : c->tiler->columns;
        const int64_t groups = pieces_of(c->span_n, PACK_PANELS * width);
        orr_workers_run(workers, (size_t)(groups * c->k_blocks), pack_shared_item, c);
    }
    const grid g = grid_of(c);
    orr_workers_run(workers, (size_t)(c->products->count * g.m_blocks * g.n_blocks),
                    compute_block_item, c);
}

void orr_blocked_gemm(const orr_gemm_batch *products, const orr_gemm_microkernel *tiler,
                      void *workspace, orr_workers *workers)
{
    plan c = plan_of(products, tiler);
    const orr_gemm_problem *p = &products->like;
    if (p->m == 0 || p->n == 0)
        return;
    c.shared_at = workspace;
    c.threads_at = c.shared_at + c.shared_bytes;
    const int64_t all = c.shared == SHARE_A ? p->m : p->n;
    if (c.shared == SHARE_NONE) {
        run_span(&c, workers);
        return;
    }
    for (c.span_from = 0; c.span_from < all; c.span_from += c.span) {
        c.span_n = min64(c.span, all - c.span_from);
        run_span(&c, workers);
    }
}
