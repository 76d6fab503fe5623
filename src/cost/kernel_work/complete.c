/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cost/kernel_work/work.h"

/* FLOPs and bytes of a family from its dims. Every tensor counts as read or written once, unless
 * a comment says otherwise. */
typedef struct traffic {
    double flops, read_bytes, write_bytes;
} traffic;

static double dim(const orr_work *w, int i)
{
    return (double)w->dims[i];
}

static traffic of_gemm(const orr_work *w, double bytes)
{
    const double b = dim(w, 0), m = dim(w, 1), n = dim(w, 2), k = dim(w, 3);
    return (traffic){2 * b * m * n * k, b * (m * k + k * n) * bytes, b * m * n * bytes};
}

/* The input size is the output's times the stride: padding is assumed. */
static traffic of_convolution(const orr_work *w, double bytes)
{
    const double n = dim(w, 0), c = dim(w, 1), h = dim(w, 2), wide = dim(w, 3), k = dim(w, 4),
                 filter = dim(w, 5) * dim(w, 6), stride = fmax(1, dim(w, 7));
    const double out = n * k * ceil(h / stride) * ceil(wide / stride);
    return (traffic){2 * out * c * filter, (n * c * h * wide + k * c * filter) * bytes,
                     out * bytes};
}

/* Two products forward, five backward (one of them repeats the forward product): Dao et al.,
 * FlashAttention (2022). The scores never leave the chip. */
static traffic of_attention(const orr_work *w, double bytes)
{
    const double heads = dim(w, 0) * dim(w, 1), q = dim(w, 2), kv = dim(w, 3), d = dim(w, 4);
    const double product = 2 * heads * q * kv * d, query = heads * q * d * bytes,
                 key = heads * kv * d * bytes;
    if (w->backward)
        return (traffic){5 * product, 3 * query + 2 * key, query + 2 * key};
    return (traffic){2 * product, query + 2 * key, query};
}

/* Without a cache, as in the DLRM model's simple form; roofline/embedding.c models the cache. */
static traffic of_embedding(const orr_work *w, double bytes)
{
    const double bags = dim(w, 0) * dim(w, 4), lookups = dim(w, 2), row = dim(w, 3) * bytes;
    if (w->backward)
        return (traffic){2 * bags * lookups * dim(w, 3), bags * (row + lookups * (row + 4)),
                         bags * lookups * row};
    return (traffic){bags * lookups * dim(w, 3), bags * lookups * (row + 4), bags * row};
}

static traffic of_interaction(const orr_work *w, double bytes)
{
    const double kept = dim(w, 0) * dim(w, 1) * (dim(w, 2) - 1) / 2;
    return (traffic){0, kept * (bytes + 16), kept * bytes}; /* two indices of 8 bytes each */
}

/* Norms read twice, for the statistics and to normalise. Backward: input and gradient, twice. 8
 * and 14 FLOPs for each element: assumed. */
static traffic of_norm(const orr_work *w, double bytes)
{
    const double size = dim(w, 0) * dim(w, 1);
    return w->backward ? (traffic){14 * size, 4 * size * bytes, size * bytes}
                       : (traffic){8 * size, 2 * size * bytes, size * bytes};
}

static traffic of_softmax(const orr_work *w, double bytes)
{
    const double size = dim(w, 0) * dim(w, 1);
    return w->backward ? (traffic){4 * size, 2 * size * bytes, size * bytes}
                       : (traffic){174 * size, size * bytes, size * bytes};
}

static double flops_of_element(const orr_work *w)
{
    const orr_op_rule *rule = orr_op_rule_of(w->op != NULL ? w->op : "");
    return rule != NULL && rule->flops > 0 ? rule->flops : 1;
}

static traffic of_family(const orr_work *w, double bytes)
{
    const double size = dim(w, 0);
    switch ((orr_kernel_family)w->family) {
    case ORR_FAMILY_GEMM:
        return of_gemm(w, bytes);
    case ORR_FAMILY_CONVOLUTION:
        return of_convolution(w, bytes);
    case ORR_FAMILY_ATTENTION:
        return of_attention(w, bytes);
    case ORR_FAMILY_EMBEDDING_FORWARD:
    case ORR_FAMILY_EMBEDDING_BACKWARD:
        return of_embedding(w, bytes);
    case ORR_FAMILY_CONCAT:
        return (traffic){0, size * bytes, size * bytes};
    case ORR_FAMILY_COPY:
        return (traffic){0, size, size};
    case ORR_FAMILY_TRANSPOSE:
        return (traffic){0, size * dim(w, 1) * dim(w, 2) * bytes,
                         size * dim(w, 1) * dim(w, 2) * bytes};
    case ORR_FAMILY_INTERACTION:
        return of_interaction(w, bytes);
    case ORR_FAMILY_NORM:
        return of_norm(w, bytes);
    case ORR_FAMILY_SOFTMAX:
        return of_softmax(w, bytes);
    case ORR_FAMILY_REDUCTION:
        return (traffic){flops_of_element(w) * size, size * bytes, 0};
    case ORR_FAMILY_ELEMENTWISE:
        return (traffic){flops_of_element(w) * size, size * bytes, size * bytes};
    case ORR_FAMILY_OPTIMIZER: /* plain SGD: two reads, one write */
        return (traffic){2 * size, 2 * size * bytes, size * bytes};
    case ORR_FAMILY_OTHER:
    case ORR_FAMILIES:
        break;
    }
    return (traffic){0};
}

static uint8_t dims_needed(uint8_t family)
{
    static const uint8_t NEEDED[ORR_FAMILIES] = {
        [ORR_FAMILY_GEMM] = 4,
        [ORR_FAMILY_CONVOLUTION] = 8,
        [ORR_FAMILY_ATTENTION] = 5,
        [ORR_FAMILY_EMBEDDING_FORWARD] = 5,
        [ORR_FAMILY_EMBEDDING_BACKWARD] = 5,
        [ORR_FAMILY_CONCAT] = 1,
        [ORR_FAMILY_COPY] = 1,
        [ORR_FAMILY_TRANSPOSE] = 3,
        [ORR_FAMILY_INTERACTION] = 3,
        [ORR_FAMILY_NORM] = 2,
        [ORR_FAMILY_SOFTMAX] = 2,
        [ORR_FAMILY_REDUCTION] = 1,
        [ORR_FAMILY_ELEMENTWISE] = 1,
        [ORR_FAMILY_OPTIMIZER] = 1,
    };
    return family < ORR_FAMILIES ? NEEDED[family] : 0;
}

void orr_work_complete(orr_work *work)
{
    const uint8_t needed = dims_needed(work->family);
    if (needed == 0 || work->n_dims < needed || work->dtype >= ORR_DTYPES)
        return;
    const traffic t = of_family(work, orr_dtype_bytes((orr_dtype)work->dtype));
    if (work->flops == 0)
        work->flops = t.flops;
    if (work->read_bytes == 0 && work->write_bytes == 0) {
        work->read_bytes = t.read_bytes;
        work->write_bytes = t.write_bytes;
    }
}
