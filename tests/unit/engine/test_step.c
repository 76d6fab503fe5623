/* SPDX-License-Identifier: Apache-2.0 */
#include "small_training.h"

#include <math.h>

#include "base/alloc.h"

static orr_parameter *named(small_training *t, const char *name, uint32_t place)
{
    uint32_t n;
    orr_parameter *all = orr_engine_step_parameters(t->step, &n);
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(all[i].name, name) == 0 && all[i].place == place)
            return &all[i];
    fail_msg("no parameter %s of place %u", name, place);
    return NULL;
}

static void a_step_learns(void **state)
{
    (void)state;
    small_training t = small_open("llama2-7b", SMALL_PLAN ",micro_batches=2");
    small_make(&t);
    const orr_step_result first = small_run(&t);
    double last = first.loss;
    for (int i = 0; i < 30; i++)
        last = small_run(&t).loss;
    assert_int_equal(first.tokens, 2 * SMALL_TOKENS);
    assert_true(fabs(first.loss - log(SMALL_VOCAB)) < 0.1); /* nothing known yet */
    assert_true(last < 0.5 * first.loss);
    small_close(&t);
}

static void the_same_bits_again(void **state)
{
    (void)state;
    double losses[2][3];
    for (int run = 0; run < 2; run++) {
        small_training t = small_open("llama2-7b", SMALL_PLAN ",micro_batches=2");
        orr_workers *workers;
        assert_int_equal(orr_workers_new(run + 1, &workers, &t.err), ORR_OK);
        t.source.workers = workers;
        small_make(&t);
        for (int i = 0; i < 3; i++)
            losses[run][i] = small_run(&t).loss;
        small_close(&t);
        orr_workers_free(workers);
    }
    assert_memory_equal(losses[0], losses[1], sizeof losses[0]);
}

static double loss_with(small_training *t, float *number, float by)
{
    float losses[SMALL_MICRO_BATCHES * SMALL_TOKENS];
    const float before = *number;
    double sum = 0;
    const uint32_t n = t->plan.micro_batches * t->plan.micro_batch * SMALL_TOKENS;
    *number = before + by;
    assert_int_equal(orr_engine_step_weights_changed(t->step, &t->err), ORR_OK);
    assert_int_equal(orr_engine_step_score(t->step, t->inputs, losses, &t->err), ORR_OK);
    *number = before;
    for (uint32_t i = 0; i < n; i++)
        sum += losses[i];
    return sum / n;
}

/* A directional derivative of the loss against what the gradients say. */
static void gradients_are_the_loss_s(const char *model, const char *plan)
{
    small_training t = small_open(model, plan);
    small_make(&t);
    t.update.rate = 0;
    (void)small_run(&t);
    uint32_t n;
    orr_parameter *all = orr_engine_step_parameters(t.step, &n);
    for (uint32_t i = 0; i < n; i++) {
        int64_t most = 0;
        for (int64_t k = 1; k < all[i].n; k++)
            if (fabsf(all[i].gradient[k]) > fabsf(all[i].gradient[most]))
                most = k;
        const float h = 0.01F;
        const double seen =
            (loss_with(&t, &all[i].master[most], h) - loss_with(&t, &all[i].master[most], -h)) /
            (2.0 * h);
        const double told = all[i].gradient[most];
        if (fabs(seen - told) > 0.02 * fabs(told) + 2e-4)
            fail_msg("%s %s of place %u, number %lld: %g, by differences %g", model, all[i].name,
                     all[i].place, (long long)most, told, seen);
    }
    small_close(&t);
}

static void gradients_of_all_parameters(void **state)
{
    (void)state;
    gradients_are_the_loss_s("llama2-7b", SMALL_PLAN ",micro_batches=2");
    gradients_are_the_loss_s("mpt-7b", SMALL_PLAN ",micro_batches=2,recompute=full");
    gradients_are_the_loss_s("llama2-7b", SMALL_PLAN ",micro_batches=2,recompute=selective");
}

static orr_status twice(void *ctx, uint32_t micro_batch, const float *loss, int64_t n,
                        float *ret_seed, orr_error *err)
{
    const small_training *t = ctx;
    (void)err;
    for (int64_t i = 0; i < n; i++) {
        assert_true(loss[i] > 0);
        ret_seed[i] = 2 * t->inputs[micro_batch].weights[i];
    }
    return ORR_OK;
}

static void an_objective_sets_the_seeds(void **state)
{
    (void)state;
    small_training plain = small_open("llama2-7b", SMALL_PLAN ",micro_batches=2");
    small_training asked = small_open("llama2-7b", SMALL_PLAN ",micro_batches=2");
    asked.source.objective = twice;
    asked.source.objective_ctx = &asked;
    small_make(&plain);
    small_make(&asked);
    const orr_step_result a = small_run(&plain), b = small_run(&asked);
    assert_true(a.loss == b.loss);
    assert_true(b.gradient_norm == 2 * a.gradient_norm);
    small_close(&plain);
    small_close(&asked);
}

static void clipping_bounds_the_update(void **state)
{
    (void)state;
    small_training t = small_open("llama2-7b", SMALL_PLAN);
    small_make(&t);
    orr_step_result r;
    t.update.epsilon = 1; /* then an update grows with its gradient */
    orr_parameter *p = named(&t, "down", 1);
    const float before = p->master[0];
    assert_int_equal(orr_engine_step_run(t.step, t.inputs, &t.update, 1e-6, NULL, &r, &t.err),
                     ORR_OK);
    assert_true(r.gradient_norm > 1e-3);
    assert_true(fabsf(p->master[0] - before) < 1e-7F);
    small_close(&t);
}

static void a_loss_that_is_none_names_its_origin(void **state)
{
    (void)state;
    small_training t = small_open("llama2-7b", SMALL_PLAN);
    orr_step_result r;
    small_make(&t);
    orr_parameter *p = named(&t, "down", 2), *q = named(&t, "qkv", 1);
    const float before = q->master[3];
    p->master[5] = NAN;
    assert_int_equal(orr_engine_step_run(t.step, t.inputs, &t.update, 1, NULL, &r, &t.err),
                     ORR_INVALID);
    if (strstr(t.err.text, "down of layer 1 made NaN") == NULL)
        fail_msg("%s", t.err.text);
    assert_true(q->master[3] == before); /* nothing has been updated */
    small_close(&t);
}

static int64_t little(orr_backend *self)
{
    (void)self;
    return 1000;
}
static orr_status forbidden(orr_backend *self, size_t bytes, void **ret, orr_error *err)
{
    (void)self;
    (void)bytes;
    (void)ret;
    (void)err;
    fail_msg("memory was taken");
    return ORR_NO_MEMORY;
}

static void too_much_is_refused_before_any_is_taken(void **state)
{
    (void)state;
    small_training t = small_open("llama2-7b", SMALL_PLAN);
    orr_backend poor = *t.source.backend;
    poor.free_bytes = little;
    poor.allocate = forbidden;
    t.source.backend = &poor;
    assert_int_equal(small_try(&t), ORR_LIMIT);
    assert_non_null(strstr(t.err.text, "are free"));
    small_close(&t);
}

static void what_is_measured_is_what_is_made(void **state)
{
    (void)state;
    small_training t = small_open("llama2-7b", SMALL_PLAN ",micro_batches=4");
    orr_step_memory told, held;
    small_make(&t);
    assert_int_equal(orr_engine_step_measure(&t.source, &told, &t.err), ORR_OK);
    held = orr_engine_step_memory_of(t.step);
    assert_memory_equal(&told, &held, sizeof told);
    int64_t numbers = 0;
    uint32_t n;
    orr_parameter *all = orr_engine_step_parameters(t.step, &n);
    for (uint32_t i = 0; i < n; i++)
        numbers += all[i].n;
    assert_int_equal(held.weights, 4 * numbers);
    assert_int_equal(held.gradients, 4 * numbers);
    assert_int_equal(held.optimizer, 8 * numbers);
    small_close(&t);
}

static void half_precision_keeps_masters(void **state)
{
    (void)state;
    small_training t = small_open("llama2-7b", "layers=2,hidden=32,ffn=64,heads=4,vocab=64,seq=16,"
                                               "precision=bf16,micro_batches=2");
    small_make(&t);
    for (int i = 0; i < 5; i++)
        (void)small_run(&t);
    const orr_parameter *p = named(&t, "qkv", 1);
    for (int64_t k = 0; k < p->n; k++) {
        uint32_t bits = (uint32_t)((const uint16_t *)p->copy)[k] << 16;
        float rounded;
        memcpy(&rounded, &bits, sizeof rounded);
        assert_true(fabsf(rounded - p->master[k]) <= fabsf(p->master[k]) / 256);
    }
    small_close(&t);
}

static void what_cannot_run_says_so(void **state)
{
    (void)state;
    small_training t = small_open("llama2-7b", SMALL_PLAN ",micro_batches=8,pp=2,vp=2,"
                                                          "schedule=dualpipe");
    assert_int_equal(small_try(&t), ORR_UNSUPPORTED);
    assert_non_null(strstr(t.err.text, "dualpipe"));
    small_close(&t);
}

/* Making a step with the n-th allocation failing, for as many as there are. */
static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    small_training t = small_open("llama2-7b", SMALL_PLAN ",micro_batches=2");
    uint64_t nth = 1;
    orr_status status = ORR_NO_MEMORY;
    for (; status != ORR_OK && nth < 100000; nth += nth < 40 ? 1 : 1 + nth / 16) {
        orr_alloc_fail_from(nth);
        status = small_try(&t);
        orr_alloc_fail_from(0);
        if (status != ORR_OK && status != ORR_NO_MEMORY)
            fail_msg("allocation %llu: %s", (unsigned long long)nth, t.err.text);
    }
    assert_int_equal(status, ORR_OK);
    assert_true(nth > 20);
    small_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_learns),
        cmocka_unit_test(the_same_bits_again),
        cmocka_unit_test(gradients_of_all_parameters),
        cmocka_unit_test(an_objective_sets_the_seeds),
        cmocka_unit_test(clipping_bounds_the_update),
        cmocka_unit_test(a_loss_that_is_none_names_its_origin),
        cmocka_unit_test(too_much_is_refused_before_any_is_taken),
        cmocka_unit_test(what_is_measured_is_what_is_made),
        cmocka_unit_test(half_precision_keeps_masters),
        cmocka_unit_test(what_cannot_run_says_so),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
