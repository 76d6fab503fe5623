/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "kernel/cpu/simd/cpu_level.h"
#include "kernel/cpu/simd/vector_math.h"

/* Functions on rows against those of the C library in double precision, at each level. */
enum { N = 4099 };

static void at_each_level(void (*body)(const orr_vector_math *math))
{
    orr_cpu_level_limit(ORR_CPU_LEVELS);
    const int highest = (int)orr_cpu_level();
    for (int level = 0; level <= highest; level++) {
        orr_cpu_level_limit((orr_cpu_level_id)level);
        body(orr_vector_math_of_cpu());
    }
    orr_cpu_level_limit(ORR_CPU_LEVELS);
}

/* N numbers from `least` to `most`. */
static const float *steps(double least, double most)
{
    static float x[N];
    for (int i = 0; i < N; i++)
        x[i] = (float)(least + (most - least) * i / (N - 1));
    return x;
}

static double error_of(double got, double want)
{
    return fabs(got - want) / fabs(want);
}

static void exponentials(const orr_vector_math *math)
{
    float y[N];
    double worst = 0, sum = 0;
    const float *x = steps(-87.2, 88.2);
    (void)math->exp_write(x, 0, N, y);
    for (int i = 0; i < N; i++)
        worst = fmax(worst, error_of((double)y[i], exp((double)x[i])));
    assert_true(worst < 2e-7); /* as vector_math.h says */
    x = steps(-20, 20);
    const float all = math->exp_write(x, 0, N, y);
    for (int i = 0; i < N; i++)
        sum += exp((double)x[i]);
    assert_true(error_of((double)all, sum) < 1e-5);
    assert_true(error_of((double)math->exp_sum(x, 0, N), sum) < 1e-5);
    const float edges[] = {-INFINITY, -88, -1000, 89, INFINITY, NAN, 0};
    (void)math->exp_write(edges, 0, 7, y);
    assert_true(y[0] == 0 && y[1] == 0 && y[2] == 0);
    assert_true(isinf(y[3]) && isinf(y[4]) && isnan(y[5]) && y[6] == 1);
}
static void test_exponentials(void **state)
{
    (void)state;
    at_each_level(exponentials);
}

static void activations(const orr_vector_math *math)
{
    float y[N];
    const float *x = steps(-30, 30);
    math->gelu(x, N, y);
    for (int i = 0; i < N; i++) {
        const double v = (double)x[i], want = v * erfc(-v / sqrt(2)) / 2;
        assert_true(fabs((double)y[i] - want) < 3e-7 * fmax(1, fabs(v)));
    }
    math->silu(x, N, y);
    for (int i = 0; i < N; i++) {
        const double v = (double)x[i];
        assert_true(fabs((double)y[i] - v / (1 + exp(-v))) < 3e-7 * fmax(1e-3, fabs(v)));
    }
    const float edges[] = {-1000, 1000, NAN, -INFINITY, 0};
    math->sigmoid(edges, 5, y);
    assert_true(y[0] >= 0 && y[0] < 1e-37f && y[1] == 1 && isnan(y[2]) && y[4] == 0.5f);
    math->relu(edges, 5, y);
    assert_true(y[0] == 0 && y[1] == 1000 && isnan(y[2]) && y[3] == 0);
}
static void test_activations(void **state)
{
    (void)state;
    at_each_level(activations);
}

/* Positions as far as contexts go, so far that fp32 would have lost the angle. */
static void angles(const orr_vector_math *math)
{
    enum { PAIRS = 67 };
    double frequency[PAIRS];
    float c[PAIRS], s[PAIRS];
    for (int i = 0; i < PAIRS; i++)
        frequency[i] = pow(500000, -(double)i / PAIRS) * (i % 5 == 0 ? -1 : 1);
    for (int64_t p = 0; p < 20000000; p = p * 3 + 1) {
        math->angles((double)p, frequency, PAIRS, c, s);
        for (int i = 0; i < PAIRS; i++) {
            assert_true(fabs((double)c[i] - cos((double)p * frequency[i])) < 3e-7);
            assert_true(fabs((double)s[i] - sin((double)p * frequency[i])) < 3e-7);
        }
    }
}
static void test_angles(void **state)
{
    (void)state;
    at_each_level(angles);
}

static void sums(const orr_vector_math *math)
{
    const float *x = steps(-1, 2);
    for (int n = 0; n < 200; n += n < 70 ? 1 : 37) {
        double sum = 0, square = 0, spread = 0, size = 0;
        float most = -INFINITY;
        for (int i = 0; i < n; i++) {
            const double v = (double)x[i];
            sum += v;
            square += v * v;
            spread += (v - 0.25) * (v - 0.25);
            size = fmax(size, fabs(v));
            most = fmaxf(most, x[i]);
        }
        assert_true(fabs((double)math->sum(x, n) - sum) < 5e-5);
        assert_true(fabs((double)math->dot(x, x, n) - square) < 5e-5);
        assert_true(fabs((double)math->spread(x, 0.25f, n) - spread) < 5e-5);
        assert_true(math->most(x, n) == most);
        assert_true((double)math->size(x, n) == size);
    }
}
static void test_sums(void **state)
{
    (void)state;
    at_each_level(sums);
}

/* Blocks side by side are those of base/philox.h, across the end of the counter's first word. */
static void numbers(const orr_vector_math *math)
{
    const uint32_t key[2] = {7, 9};
    uint32_t words[4 * 77], one[4];
    const uint64_t first = UINT32_MAX - 30ull;
    math->philox(key, first, 77, words);
    for (uint64_t b = 0; b < 77; b++) {
        orr_philox4x32(
            (const uint32_t[]){(uint32_t)(first + b), (uint32_t)((first + b) >> 32), 0, 0}, key,
            one);
        assert_memory_equal(one, words + 4 * b, sizeof one);
    }
}
static void test_numbers(void **state)
{
    (void)state;
    at_each_level(numbers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exponentials), cmocka_unit_test(test_activations),
        cmocka_unit_test(test_angles),       cmocka_unit_test(test_sums),
        cmocka_unit_test(test_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
