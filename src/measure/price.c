/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/price.h"

#include <math.h>

#include "op/rules.h"

/* A measured point, in logarithms. */
typedef struct point {
    double x, y;
} point;
enum { POINTS_MAX = 64 };

/* Beyond the points: time is a constant and a part in proportion to size, fitted to all of them by
 * least squares of relative errors, neither negative; the curve goes through the nearest point. So
 * time never grows faster than size, nor shrinks faster. */
static double beyond(const point *p, uint32_t n, const point *nearest, double x)
{
    double uu = 0, uv = 0, vv = 0, u1 = 0, v1 = 0;
    for (uint32_t i = 0; i < n; i++) {
        const double u = exp(-p[i].y), v = exp(p[i].x - p[i].y); /* u a + v b = 1 */
        uu += u * u;
        uv += u * v;
        vv += v * v;
        u1 += u;
        v1 += v;
    }
    const double det = uu * vv - uv * uv;
    double a = det > 1e-12 * uu * vv ? (u1 * vv - v1 * uv) / det : 0,
           b = det > 1e-12 * uu * vv ? (v1 * uu - u1 * uv) / det : 1;
    if (a < 0 || b < 0) {
        b = a < 0 ? 1 : 0;
        a = 1 - b;
    }
    return nearest->y + log((a + b * exp(x)) / (a + b * exp(nearest->x)));
}

/* Piecewise linear interpolation between points sorted by x. */
static double between(const point *p, uint32_t n, double x)
{
    uint32_t i = 0;
    if (x < p[0].x || x > p[n - 1].x || n == 1)
        return beyond(p, n, &p[x < p[0].x ? 0 : n - 1], x);
    while (i + 2 < n && p[i + 1].x < x)
        i++;
    const double slope = p[i + 1].x > p[i].x ? (p[i + 1].y - p[i].y) / (p[i + 1].x - p[i].x) : 0;
    return p[i].y + slope * (x - p[i].x);
}

static void insert(point *p, uint32_t *n, double x, double y)
{
    uint32_t i = *n;
    if (i == POINTS_MAX)
        return;
    for (; i > 0 && p[i - 1].x > x; i--)
        p[i] = p[i - 1];
    p[i] = (point){x, y};
    ++*n;
}

static double log_of(double x)
{
    return log(x > 1 ? x : 1);
}

/* Whether the measurement is of this operator, dtype and number of threads. */
static bool speaks(const orr_measured_kernel *k, const orr_kernel_pricer *p, uint8_t op,
                   uint8_t dtype, uint8_t form)
{
    return k->op == op && k->dtype == dtype && k->form == form && k->threads == p->threads;
}

/* One dimension of the grid of matrix products; the grid is complete, so interpolation is
 * trilinear. */
typedef struct axis {
    double at[POINTS_MAX];
    uint32_t n;
} axis;

static void add_to_axis(axis *a, double x)
{
    uint32_t i = 0;
    while (i < a->n && a->at[i] < x)
        i++;
    if ((i < a->n && a->at[i] == x) || a->n == POINTS_MAX)
        return;
    for (uint32_t k = a->n; k > i; k--)
        a->at[k] = a->at[k - 1];
    a->at[i] = x;
    a->n++;
}

typedef struct grid_site {
    const orr_kernel_pricer *pricer;
    uint8_t op, dtype, form;
    int64_t dim[3];
} grid_site;

static const orr_measured_kernel *grid_at(const grid_site *s, double a, double b, double c)
{
    const orr_measured *m = s->pricer->measured;
    for (uint32_t i = 0; i < m->n_kernels; i++) {
        const orr_measured_kernel *k = &m->kernels[i];
        if (speaks(k, s->pricer, s->op, s->dtype, s->form) && !k->cold && (double)k->dim[0] == a &&
            (double)k->dim[1] == b && (double)k->dim[2] == c)
            return k;
    }
    return NULL;
}

/* Position on an axis between two measured values, in logarithms; clamped to the ends. */
static double locate(const axis *a, double x, double *low, double *high)
{
    uint32_t i = 0;
    while (i + 2 < a->n && a->at[i + 1] < x)
        i++;
    *low = a->at[i];
    *high = a->at[a->n > 1 ? i + 1 : i];
    if (*high <= *low)
        return 0;
    const double t = (log_of(x) - log_of(*low)) / (log_of(*high) - log_of(*low));
    return t < 0 ? 0 : t > 1 ? 1 : t;
}

/* Logarithm of ns per FLOP, interpolated among the eight neighbours; NAN: not measured. */
static double grid_rate(const grid_site *s)
{
    axis axes[3] = {{{0}, 0}};
    const orr_measured *m = s->pricer->measured;
    double low[3], high[3], t[3], sum = 0, weights = 0;
    for (uint32_t i = 0; i < m->n_kernels; i++)
        for (int d = 0; d < 3; d++)
            if (speaks(&m->kernels[i], s->pricer, s->op, s->dtype, s->form) && !m->kernels[i].cold)
                add_to_axis(&axes[d], (double)m->kernels[i].dim[d]);
    for (int d = 0; d < 3; d++) {
        if (axes[d].n == 0)
            return NAN;
        t[d] = locate(&axes[d], (double)s->dim[d], &low[d], &high[d]);
    }
    for (int corner = 0; corner < 8; corner++) {
        const bool up[3] = {corner & 1, corner & 2, corner & 4};
        double weight = 1;
        for (int d = 0; d < 3; d++)
            weight *= up[d] ? t[d] : 1 - t[d];
        const orr_measured_kernel *k =
            weight > 0 ? grid_at(s, up[0] ? high[0] : low[0], up[1] ? high[1] : low[1],
                                 up[2] ? high[2] : low[2])
                       : NULL;
        if (k == NULL || k->flops <= 0 || k->ns <= 0)
            continue;
        sum += weight * log((double)k->ns / k->flops);
        weights += weight;
    }
    return weights > 0 ? sum / weights : NAN;
}

/* Logarithm of ns by bytes for the same operator; NAN: not measured. */
static double by_bytes(const orr_kernel_pricer *p, uint8_t op, uint8_t dtype, bool cold,
                       double bytes)
{
    point points[POINTS_MAX];
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->measured->n_kernels; i++) {
        const orr_measured_kernel *k = &p->measured->kernels[i];
        if (speaks(k, p, op, dtype, 0) && k->cold == cold && k->ns > 0)
            insert(points, &n, log_of(k->bytes), log((double)k->ns));
    }
    return n > 0 ? between(points, n, log_of(bytes)) : NAN;
}

/* Between warm and cold time, by the share of bytes that are cold. */
static double row_ns(const orr_kernel_pricer *p, uint8_t op, uint8_t dtype, double bytes,
                     double cold_bytes)
{
    const double warm = by_bytes(p, op, dtype, false, bytes),
                 cold = by_bytes(p, op, dtype, true, bytes);
    const double part = bytes > 0 && cold_bytes < bytes ? cold_bytes / bytes
                        : cold_bytes > 0                ? 1
                                                        : 0;
    if (isnan(warm) || isnan(cold))
        return isnan(warm) ? exp(cold) : exp(warm);
    return exp(warm) * (1 - part) + exp(cold) * part;
}

static bool set_product(const orr_tape *tape, const orr_tape_call *call, grid_site *s)
{
    const orr_type *x = &tape->values[call->in[0]].type, *y = &tape->values[call->out[0]].type;
    const bool grouped = call->op == ORR_OP_GROUPED_MATMUL;
    if ((call->op != ORR_OP_MATMUL && !grouped) || x->rank < 2)
        return false;
    int64_t rows = 1;
    for (int d = 0; d + 2 < x->rank; d++)
        rows *= x->dim[d];
    const bool ta = call->args.transpose_a;
    s->op = ORR_OP_MATMUL;
    s->form = ta ? 2 : call->args.transpose_b ? 1 : 0;
    s->dim[2] = ta ? x->dim[x->rank - 2] * (grouped ? 1 : rows) : x->dim[x->rank - 1];
    s->dim[0] = ta ? x->dim[x->rank - 1] : x->dim[x->rank - 2] * rows;
    s->dim[1] = y->dim[y->rank - 1];
    if (grouped) { /* each expert's part of the rows */
        const orr_type *w = &tape->values[call->in[1]].type;
        const int64_t experts = ta ? y->dim[0] : w->dim[0];
        int64_t *part = ta ? &s->dim[2] : &s->dim[0];
        *part = experts > 0 && *part / experts > 0 ? *part / experts : 1;
    }
    return true;
}

static bool set_attention(const orr_tape *tape, const orr_tape_call *call, grid_site *s)
{
    const bool backward = call->op == ORR_OP_ATTENTION_BACKWARD;
    if (call->op != ORR_OP_ATTENTION && !backward)
        return false;
    const orr_type *q = &tape->values[call->in[backward ? 1 : 0]].type;
    s->dim[0] = 8; /* the grid has no other: FLOPs count heads and samples */
    s->dim[1] = q->dim[1];
    s->dim[2] = q->dim[3];
    return true;
}

static orr_price price_of(double ns, orr_basis basis)
{
    return (orr_price){.ns = ns > 0 && ns < 9e18 ? (int64_t)(ns + 0.5) : 0,
                       .basis = (uint8_t)basis};
}

orr_price orr_measured_price(const orr_kernel_pricer *p, const orr_tape *tape, uint32_t number,
                             double cold_bytes, bool accumulate)
{
    const orr_tape_call *call = &tape->calls[number];
    const uint8_t dtype =
        call->n_in > 0 ? tape->values[call->in[0]].type.dtype : (uint8_t)ORR_DTYPE_FP32;
    grid_site s = {.pricer = p, .op = call->op, .dtype = dtype};
    orr_op_work work;
    orr_tape_work(tape, number, &work);
    const double bytes = work.read_bytes + work.write_bytes;
    const double memory_ns =
        p->measured->read_bytes_per_s > 0 ? cold_bytes * 1e9 / p->measured->read_bytes_per_s : 0;
    (void)accumulate;
    if (set_product(tape, call, &s) || set_attention(tape, call, &s)) {
        const double rate = grid_rate(&s);
        if (!isnan(rate)) {
            const double ns = exp(rate) * work.flops;
            return price_of(ns > memory_ns ? ns : memory_ns, ORR_BASIS_TABLE);
        }
    }
    if (orr_op_of((orr_op)call->op)->shares || bytes <= 0)
        return price_of(0, ORR_BASIS_NONE);
    const double same = row_ns(p, call->op, dtype, bytes, cold_bytes);
    if (!isnan(same))
        return price_of(same > memory_ns ? same : memory_ns, ORR_BASIS_TABLE);
    const double other = row_ns(p, ORR_OP_COPY, ORR_DTYPE_FP32, bytes, cold_bytes);
    return price_of(isnan(other) ? memory_ns : other, ORR_BASIS_ASSUMED);
}

int64_t orr_measured_collective_ns(const orr_measured *m, orr_collective collective, uint32_t ranks,
                                   int64_t bytes)
{
    point points[POINTS_MAX];
    uint32_t n = 0, next = 0;
    for (uint32_t i = 0; i < m->step.n_transfers; i++) {
        const orr_measured_collective *t = &m->step.transfers[i];
        if (t->collective == collective && t->ranks == ranks && t->bytes == bytes)
            return t->ns;
    }
    const uint8_t kind = collective == ORR_COLL_RECV || collective == ORR_COLL_BROADCAST
                             ? (uint8_t)ORR_COLL_SEND
                         : collective == ORR_COLL_BARRIER ? (uint8_t)ORR_COLL_ALL_REDUCE
                                                          : (uint8_t)collective;
    for (uint32_t i = 0; i < m->n_transfers; i++) /* the measured number of ranks that is enough */
        if (m->transfers[i].ranks > next && (next < ranks))
            next = m->transfers[i].ranks;
    for (uint32_t i = 0; i < m->n_transfers; i++) {
        const orr_measured_collective *t = &m->transfers[i];
        if (t->collective == kind && t->ranks == next && t->ns > 0)
            insert(points, &n, log_of((double)t->bytes), log((double)t->ns));
    }
    const double ns = n > 0 ? exp(between(points, n, log_of((double)bytes))) : 0;
    return ns < 9e18 ? (int64_t)(ns + 0.5) : INT64_MAX;
}

orr_collective orr_collective_of_call(const orr_program_source *program, uint32_t number)
{
    const orr_tape_call *call = &program->tape->calls[number];
    return call->args.members > 1 ? orr_op_collective((orr_op)call->op) : ORR_COLL_UNKNOWN;
}

int64_t orr_travelling_bytes(const orr_tape *tape, uint32_t number)
{
    const orr_tape_call *call = &tape->calls[number];
    int64_t most = 0;
    for (uint32_t k = 0; k < (uint32_t)call->n_in + call->n_out; k++) {
        const orr_value v = k < call->n_in ? call->in[k] : call->out[k - call->n_in];
        const int64_t bytes = orr_type_bytes(&tape->values[v].type);
        most = bytes > most ? bytes : most;
    }
    return most;
}
