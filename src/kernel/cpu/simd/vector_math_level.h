/* SPDX-License-Identifier: Apache-2.0 */
/* Template of vector_math.h for one CPU level: included by vector_math.c once for each level, with
 *
 *   LEVEL    function attributes of the level (__attribute__((target)))
 *   AT(name) the name at that level
 *   LANES    numbers of a vector, a power of two
 *   ROOT(v)  square roots of a vector
 *   LARGER(a, b), SMALLER(a, b)  of two vectors; b where one is NaN
 *
 * In order: loads and stores; exp, logistic, tanh and the normal distribution; elementwise
 * functions; reductions; softmax; norms and their gradients; rotary angles and rotation; Philox;
 * optimizers. */

typedef float AT(vec) __attribute__((vector_size(LANES * 4)));
typedef int32_t AT(int_vec) __attribute__((vector_size(LANES * 4)));
typedef double AT(wide_vec) __attribute__((vector_size(LANES * 4)));
typedef int64_t AT(long_vec) __attribute__((vector_size(LANES * 4)));
#define V    AT(vec)
#define I    AT(int_vec)
#define ONES ((V){0} + 1.0f)
#define HERE static inline __attribute__((always_inline)) LEVEL

HERE V AT(load)(const float *p)
{
    V v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}
HERE void AT(store)(float *p, V v)
{
    __builtin_memcpy(p, &v, sizeof v);
}
/* Loads fewer numbers than a vector; the rest is zero. */
HERE V AT(load_some)(const float *p, int64_t n)
{
    float all[LANES] = {0};
    for (int64_t i = 0; i < n; i++)
        all[i] = p[i];
    return AT(load)(all);
}
HERE void AT(store_some)(float *p, int64_t n, V v)
{
    for (int64_t i = 0; i < n; i++)
        p[i] = v[i];
}

HERE V AT(choose)(I mask, V yes, V no)
{
    return (V)(((I)yes & mask) | ((I)no & ~mask));
}
HERE V AT(magnitude)(V x)
{
    return (V)((I)x & 0x7fffffff);
}
HERE float AT(across)(V v)
{
    float all[LANES];
    AT(store)(all, v);
    for (int n = LANES / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++)
            all[i] += all[i + n];
    return all[0];
}

/* exp(x) = 2^n exp(r), with n the integer nearest x / ln 2 and ln 2 in two parts (Cody and Waite);
 * exp(r) by its Taylor series, whose next term is below 6e-9. Adding 3 * 2^22 leaves n in the low
 * bits. */
HERE V AT(exponential_within)(V x)
{
    const V magic = ONES * 12582912.0f;
    const V shifted = x * 1.44269504f + magic, n = shifted - magic;
    V r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    V p = r * (1.0f / 5040) + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return (V)((I)p + ((I)shifted << 23));
}
HERE V AT(exponential)(V x)
{
    const V made = AT(exponential_within)(SMALLER(ONES * 88.3f, x));
    const V low = AT(choose)(x < -87.3f, ONES * 0.0f, made);
    return AT(choose)(x > 88.3f, ONES * __builtin_inff(), low);
}
/* exp with x clamped to where the result is finite and above 0: as good where 1 is added to it. */
HERE V AT(exponential_held)(V x)
{
    return AT(exponential_within)(LARGER(ONES * -87.3f, SMALLER(ONES * 88.3f, x)));
}

HERE V AT(logistic)(V x)
{
    return 1.0f / (1.0f + AT(exponential_held)(-x));
}

/* The normal distribution function of x and its density: erfc(z) = t (a1 + t (a2 + ...)) exp(-z^2),
 * z = |x| / sqrt(2), t = 1 / (1 + p z) (Abramowitz and Stegun, 7.1.26). */
HERE V AT(normal)(V x, V *ret_density)
{
    const V e = AT(exponential_held)(x * x * -0.5f);
    const V t = 1.0f / (AT(magnitude)(x) * (0.3275911f * 0.70710678f) + 1.0f);
    V p = t * 1.061405429f - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    const V tail = p * t * e * 0.5f;
    *ret_density = e * 0.39894228f;
    return AT(choose)(x < 0.0f, tail, 1.0f - tail);
}

#define UNARY(name, ...)                                                                           \
    HERE V AT(name##_of)(V x)                                                                      \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }                                                                                              \
    static LEVEL void AT(name)(const float *x, int64_t n, float *y)                                \
    {                                                                                              \
        int64_t i = 0;                                                                             \
        for (; i + LANES <= n; i += LANES)                                                         \
            AT(store)(y + i, AT(name##_of)(AT(load)(x + i)));                                      \
        if (i < n)                                                                                 \
            AT(store_some)(y + i, n - i, AT(name##_of)(AT(load_some)(x + i, n - i)));              \
    }
#define BINARY(name, ...)                                                                          \
    HERE V AT(name##_of)(V a, V b)                                                                 \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }                                                                                              \
    static LEVEL void AT(name)(const float *a, const float *b, int64_t n, float *y)                \
    {                                                                                              \
        int64_t i = 0;                                                                             \
        for (; i + LANES <= n; i += LANES)                                                         \
            AT(store)(y + i, AT(name##_of)(AT(load)(a + i), AT(load)(b + i)));                     \
        if (i < n)                                                                                 \
            AT(store_some)                                                                         \
        (y + i, n - i, AT(name##_of)(AT(load_some)(a + i, n - i), AT(load_some)(b + i, n - i)));   \
    }

BINARY(add, return a + b;)
BINARY(mul, return a * b;)
UNARY(gelu, V density; return x * AT(normal)(x, &density);)
/* (1 + tanh(u)) / 2 is the logistic function of 2 u. */
UNARY(gelu_tanh, return x * AT(logistic)(x * (1.595769122f + 0.0713548163f * x * x));)
UNARY(relu, return AT(choose)(x > 0.0f, x, AT(choose)(x == x, ONES * 0.0f, x));)
UNARY(silu, return x / (1.0f + AT(exponential_held)(-x));)
UNARY(sigmoid, return AT(logistic)(x);)
BINARY(gelu_slope, V density; const V p = AT(normal)(b, &density); return a * (p + b * density);)
BINARY(gelu_tanh_slope, const V s = AT(logistic)(b * (1.595769122f + 0.0713548163f * b * b));
       return a * (s + b * s * (1.0f - s) * (1.595769122f + 0.214064449f * b * b));)
BINARY(relu_slope, return AT(choose)(b > 0.0f, a, ONES * 0.0f);)
BINARY(silu_slope, const V s = AT(logistic)(b); return a * s * (1.0f + b * (1.0f - s));)
BINARY(sigmoid_slope, return a * b * (1.0f - b);)
BINARY(swiglu, return a / (1.0f + AT(exponential_held)(-a)) * b;)

HERE void AT(swiglu_gradient_of)(V dy, V gate, V up, V *dgate, V *dup)
{
    const V s = AT(logistic)(gate);
    *dgate = dy * up * s * (1.0f + gate * (1.0f - s));
    *dup = dy * gate * s;
}
static LEVEL void AT(swiglu_gradient)(const float *dy, const float *gate, const float *up,
                                      int64_t n, float *dgate, float *dup)
{
    V a, b;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        AT(swiglu_gradient_of)(AT(load)(dy + i), AT(load)(gate + i), AT(load)(up + i), &a, &b);
        AT(store)(dgate + i, a);
        AT(store)(dup + i, b);
    }
    if (i == n)
        return;
    AT(swiglu_gradient_of)
    (AT(load_some)(dy + i, n - i), AT(load_some)(gate + i, n - i), AT(load_some)(up + i, n - i), &a,
     &b);
    AT(store_some)(dgate + i, n - i, a);
    AT(store_some)(dup + i, n - i, b);
}

/* Loop over a row: `body` for the vector at i, `tail` for the `left` numbers that remain. */
#define ROW(body, tail)                                                                            \
    int64_t i = 0;                                                                                 \
    for (; i + LANES <= n; i += LANES) {                                                           \
        body;                                                                                      \
    }                                                                                              \
    const int64_t left = n - i;                                                                    \
    if (left > 0) {                                                                                \
        tail;                                                                                      \
    }

static LEVEL void AT(scale)(const float *x, float factor, int64_t n, float *y)
{
    ROW(AT(store)(y + i, AT(load)(x + i) * factor),
        AT(store_some)(y + i, left, AT(load_some)(x + i, left) * factor))
}
static LEVEL void AT(add_scaled)(const float *x, float factor, int64_t n, float *y)
{
    ROW(AT(store)(y + i, AT(load)(y + i) + AT(load)(x + i) * factor),
        AT(store_some)(y + i, left,
                       AT(load_some)(y + i, left) + AT(load_some)(x + i, left) * factor))
}
static LEVEL void AT(fill)(float value, int64_t n, float *y)
{
    const V all = ONES * value;
    ROW(AT(store)(y + i, all), AT(store_some)(y + i, left, all))
}

/* Four independent partial sums hide the latency of addition. */
#define SUM(term, tail_term)                                                                       \
    V s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};                                                      \
    int64_t i = 0;                                                                                 \
    for (; i + 4 * LANES <= n; i += 4 * LANES) {                                                   \
        s0 += term(i);                                                                             \
        s1 += term(i + LANES);                                                                     \
        s2 += term(i + 2 * LANES);                                                                 \
        s3 += term(i + 3 * LANES);                                                                 \
    }                                                                                              \
    for (; i + LANES <= n; i += LANES)                                                             \
        s0 += term(i);                                                                             \
    if (i < n)                                                                                     \
        s1 += tail_term(i, n - i);                                                                 \
    return AT(across)((s0 + s1) + (s2 + s3));

static LEVEL float AT(sum)(const float *x, int64_t n)
{
#define TERM(at)            AT(load)(x + (at))
#define TAIL_TERM(at, some) AT(load_some)(x + (at), some)
    SUM(TERM, TAIL_TERM)
#undef TERM
#undef TAIL_TERM
}
static LEVEL float AT(dot)(const float *a, const float *b, int64_t n){
#define TERM(at)            (AT(load)(a + (at)) * AT(load)(b + (at)))
#define TAIL_TERM(at, some) (AT(load_some)(a + (at), some) * AT(load_some)(b + (at), some))
    SUM(TERM, TAIL_TERM)
#undef TERM
#undef TAIL_TERM
} HERE V AT(square)(V x)
{
    return x * x;
}
/* Pads with the mean itself, whose deviation is zero. */
HERE V AT(load_padded)(const float *p, int64_t n, float with)
{
    float all[LANES];
    for (int64_t i = 0; i < LANES; i++)
        all[i] = i < n ? p[i] : with;
    return AT(load)(all);
}
static LEVEL float AT(spread)(const float *x, float mean, int64_t n)
{
#define TERM(at)            AT(square)(AT(load)(x + (at)) - mean)
#define TAIL_TERM(at, some) AT(square)(AT(load_padded)(x + (at), some, mean) - mean)
    SUM(TERM, TAIL_TERM)
#undef TERM
#undef TAIL_TERM
}
static LEVEL float AT(exp_sum)(const float *x, float most, int64_t n){
#define TERM(at) AT(exponential)(AT(load)(x + (at)) - most)
#define TAIL_TERM(at, some)                                                                        \
    AT(exponential)(AT(load_padded)(x + (at), some, -__builtin_inff()) - most)
    SUM(TERM, TAIL_TERM)
#undef TERM
#undef TAIL_TERM
}

HERE V AT(exp_kept)(V x, V *sum)
{
    const V e = AT(exponential)(x);
    *sum += e;
    return e;
}
static LEVEL float AT(exp_write)(const float *x, float most, int64_t n, float *y)
{
    V sum = {0};
    ROW(AT(store)(y + i, AT(exp_kept)(AT(load)(x + i) - most, &sum)),
        AT(store_some)(y + i, left,
                       AT(exp_kept)(AT(load_padded)(x + i, left, -__builtin_inff()) - most, &sum)))
    return AT(across)(sum);
}
static LEVEL void AT(exp_scaled)(const float *x, float minus, float factor, int64_t n, float *y){
    ROW(AT(store)(y + i, AT(exponential)(AT(load)(x + i) - minus) * factor),
        AT(store_some)(y + i, left, AT(exponential)(AT(load_some)(x + i, left) - minus) * factor))}

HERE float AT(most_of)(V v)
{
    float most = v[0];
    for (int i = 1; i < LANES; i++)
        most = v[i] > most ? v[i] : most;
    return most;
}
static LEVEL float AT(most)(const float *x, int64_t n)
{
    V most = ONES * -__builtin_inff();
    ROW(most = LARGER(AT(load)(x + i), most),
        most = LARGER(AT(load_padded)(x + i, left, -__builtin_inff()), most))
    return AT(most_of)(most);
}
static LEVEL float AT(size)(const float *x, int64_t n)
{
    V most = ONES * 0.0f;
    ROW(most = LARGER(AT(magnitude)(AT(load)(x + i)), most),
        most = LARGER(AT(magnitude)(AT(load_some)(x + i, left)), most))
    return AT(most_of)(most);
}

static LEVEL void AT(softmax_gradient)(const float *dy, const float *y, float dot, int64_t n,
                                       float *dx)
{
    ROW(AT(store)(dx + i, AT(load)(y + i) * (AT(load)(dy + i) - dot)),
        AT(store_some)(dx + i, left,
                       AT(load_some)(y + i, left) * (AT(load_some)(dy + i, left) - dot)))
}

static LEVEL void AT(norm)(const float *x, const float *w, const float *b, float m, float r,
                           int64_t n, float *y)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        V h = (AT(load)(x + i) - m) * r;
        h = w != NULL ? h * AT(load)(w + i) : h;
        AT(store)(y + i, b != NULL ? h + AT(load)(b + i) : h);
    }
    for (; i < n; i++)
        y[i] = (x[i] - m) * r * (w != NULL ? w[i] : 1) + (b != NULL ? b[i] : 0);
}

static LEVEL void AT(norm_sums)(const float *dy, const float *x, const float *w, float m, float r,
                                int64_t n, double ret[2])
{
    V e_sum = {0}, product = {0};
    int64_t i = 0;
    float e_left = 0, product_left = 0;
    for (; i + LANES <= n; i += LANES) {
        const V e = w != NULL ? AT(load)(dy + i) * AT(load)(w + i) : AT(load)(dy + i);
        e_sum += e;
        product += e * ((AT(load)(x + i) - m) * r);
    }
    for (; i < n; i++) {
        const float e = w != NULL ? dy[i] * w[i] : dy[i];
        e_left += e;
        product_left += e * ((x[i] - m) * r);
    }
    ret[0] += AT(across)(e_sum) + e_left;
    ret[1] += AT(across)(product) + product_left;
}

static LEVEL void AT(norm_gradient)(const float *dy, const float *x, const float *w, float m,
                                    float r, float mean, float product, int64_t n, float *dx,
                                    float *dw)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        const V d = AT(load)(dy + i), h = (AT(load)(x + i) - m) * r;
        const V e = w != NULL ? d * AT(load)(w + i) : d;
        if (dw != NULL)
            AT(store)(dw + i, AT(load)(dw + i) + d * h);
        AT(store)(dx + i, (e - mean - h * product) * r);
    }
    for (; i < n; i++) {
        const float d = dy[i], h = (x[i] - m) * r, e = w != NULL ? d * w[i] : d;
        if (dw != NULL)
            dw[i] += d * h;
        dx[i] = (e - mean - h * product) * r;
    }
}

/* Range reduction of half a vector of angles in double precision: the rest modulo pi / 2, and the
 * quadrant from the low bits of the multiple. */
HERE void AT(reduce)(double position, const double *frequency, float *ret_rest,
                     int32_t *ret_quarter)
{
    typedef AT(wide_vec) W;
    const double magic = 6755399441055744.0; /* 3 * 2^51 */
    W angle;
    __builtin_memcpy(&angle, frequency, sizeof angle);
    angle = angle * position;
    const W shifted = angle * 0.63661977236758134308 + magic, n = shifted - magic;
    W rest = angle - n * 1.5707963267948966192;
    const AT(long_vec) bits = (AT(long_vec))shifted;
    for (int i = 0; i < LANES / 2; i++) {
        ret_rest[i] = (float)rest[i];
        ret_quarter[i] = (int32_t)bits[i];
    }
}
/* Taylor series within pi / 4 of 0; the next terms are below 4e-9. */
static LEVEL void AT(angles)(double position, const double *frequency, int64_t n, float *cosine,
                             float *sine)
{
    for (int64_t i = 0; i < n; i += LANES) {
        double room[LANES] = {0};
        float rest[LANES];
        int32_t quarter[LANES];
        const int64_t some = n - i < LANES ? n - i : LANES;
        const double *from = frequency + i;
        if (some < LANES) {
            for (int64_t k = 0; k < some; k++)
                room[k] = from[k];
            from = room;
        }
        AT(reduce)(position, from, rest, quarter);
        AT(reduce)(position, from + LANES / 2, rest + LANES / 2, quarter + LANES / 2);
        I q;
        __builtin_memcpy(&q, quarter, sizeof q);
        const V x = AT(load)(rest), s = x * x;
        V sin = s * (1.0f / 362880) - 1.0f / 5040;
        sin = sin * s + 1.0f / 120;
        sin = sin * s - 1.0f / 6;
        sin = sin * s * x + x;
        V cos = s * (-1.0f / 3628800) + 1.0f / 40320;
        cos = cos * s - 1.0f / 720;
        cos = cos * s + 1.0f / 24;
        cos = cos * s - 0.5f;
        cos = cos * s + 1.0f;
        const I odd = -(q & 1);
        const V c = AT(choose)(odd, sin, cos), d = AT(choose)(odd, cos, sin);
        AT(store_some)(cosine + i, some, (V)((I)c ^ ((q + 1) & 2) << 30));
        AT(store_some)(sine + i, some, (V)((I)d ^ (q & 2) << 30));
    }
}

static LEVEL void AT(turn)(const float *a, const float *b, const float *cosine, const float *sine,
                           int64_t n, float *ya, float *yb)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        const V x = AT(load)(a + i), y = AT(load)(b + i), c = AT(load)(cosine + i),
                s = AT(load)(sine + i);
        AT(store)(ya + i, x * c - y * s);
        AT(store)(yb + i, y * c + x * s);
    }
    for (; i < n; i++) {
        const float x = a[i], y = b[i];
        ya[i] = x * cosine[i] - y * sine[i];
        yb[i] = y * cosine[i] + x * sine[i];
    }
}

/* Philox4x32-10 (base/philox.h), one block per lane. */
static LEVEL void AT(philox)(const uint32_t key[2], uint64_t block, int64_t blocks, uint32_t *ret)
{
    enum { BESIDE = 32 };
    for (int64_t b = 0; b < blocks; b += BESIDE) {
        uint32_t c0[BESIDE], c1[BESIDE], c2[BESIDE] = {0}, c3[BESIDE] = {0}, k0 = key[0],
                                         k1 = key[1];
        for (int i = 0; i < BESIDE; i++) {
            c0[i] = (uint32_t)(block + (uint64_t)(b + i));
            c1[i] = (uint32_t)((block + (uint64_t)(b + i)) >> 32);
        }
        for (int round = 0; round < 10; round++, k0 += 0x9e3779b9u, k1 += 0xbb67ae85u)
            for (int i = 0; i < BESIDE; i++) {
                const uint64_t p = (uint64_t)c0[i] * 0xd2511f53u, q = (uint64_t)c2[i] * 0xcd9e8d57u;
                c0[i] = (uint32_t)(q >> 32) ^ c1[i] ^ k0;
                c1[i] = (uint32_t)q;
                c2[i] = (uint32_t)(p >> 32) ^ c3[i] ^ k1;
                c3[i] = (uint32_t)p;
            }
        const int64_t some = blocks - b < BESIDE ? blocks - b : BESIDE;
        for (int64_t i = 0; i < some; i++) {
            ret[4 * (b + i)] = c0[i];
            ret[4 * (b + i) + 1] = c1[i];
            ret[4 * (b + i) + 2] = c2[i];
            ret[4 * (b + i) + 3] = c3[i];
        }
    }
}

static LEVEL void AT(adamw)(const orr_adamw_factors *by, const float *g, int64_t n, float *p,
                            float *m, float *v)
{
    const orr_adamw_factors f = *by;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        const V grad = AT(load)(g + i) * f.gradient;
        const V mean = AT(load)(m + i) * f.beta1 + grad * (1.0f - f.beta1);
        const V square = AT(load)(v + i) * f.beta2 + grad * grad * (1.0f - f.beta2);
        AT(store)(m + i, mean);
        AT(store)(v + i, square);
        AT(store)
        (p + i, AT(load)(p + i) * f.keep - mean * f.rate / (ROOT(square) * f.root + f.epsilon));
    }
    for (; i < n; i++) {
        const float grad = g[i] * f.gradient;
        m[i] = m[i] * f.beta1 + grad * (1.0f - f.beta1);
        v[i] = v[i] * f.beta2 + grad * grad * (1.0f - f.beta2);
        p[i] = p[i] * f.keep - m[i] * f.rate / (__builtin_sqrtf(v[i]) * f.root + f.epsilon);
    }
}
static LEVEL void AT(sgd)(const float *g, float factor, float decay, float momentum, float rate,
                          int64_t n, float *p, float *v)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        const V old = AT(load)(p + i);
        V step = AT(load)(g + i) * factor + old * decay;
        if (v != NULL) {
            step = AT(load)(v + i) * momentum + step;
            AT(store)(v + i, step);
        }
        AT(store)(p + i, old - step * rate);
    }
    for (; i < n; i++) {
        float step = g[i] * factor + p[i] * decay;
        if (v != NULL)
            step = v[i] = v[i] * momentum + step;
        p[i] -= step * rate;
    }
}

static const orr_vector_math AT(math) = {
    .add = AT(add),
    .mul = AT(mul),
    .scale = AT(scale),
    .add_scaled = AT(add_scaled),
    .fill = AT(fill),
    .gelu = AT(gelu),
    .gelu_tanh = AT(gelu_tanh),
    .relu = AT(relu),
    .silu = AT(silu),
    .sigmoid = AT(sigmoid),
    .gelu_slope = AT(gelu_slope),
    .gelu_tanh_slope = AT(gelu_tanh_slope),
    .relu_slope = AT(relu_slope),
    .silu_slope = AT(silu_slope),
    .sigmoid_slope = AT(sigmoid_slope),
    .swiglu = AT(swiglu),
    .swiglu_gradient = AT(swiglu_gradient),
    .sum = AT(sum),
    .dot = AT(dot),
    .spread = AT(spread),
    .most = AT(most),
    .size = AT(size),
    .exp_sum = AT(exp_sum),
    .exp_write = AT(exp_write),
    .exp_scaled = AT(exp_scaled),
    .softmax_gradient = AT(softmax_gradient),
    .norm = AT(norm),
    .norm_sums = AT(norm_sums),
    .norm_gradient = AT(norm_gradient),
    .angles = AT(angles),
    .turn = AT(turn),
    .philox = AT(philox),
    .adamw = AT(adamw),
    .sgd = AT(sgd),
};

#undef V
#undef I
#undef ONES
#undef HERE
#undef UNARY
#undef BINARY
#undef ROW
#undef SUM
