/* SPDX-License-Identifier: Apache-2.0 */
#include "../outcome/catalog_jobs.h"

#include <math.h>

#include "cost/calibration/parameters.h"
#include "estimate/order.h"

/* Two plans of one job: tensor slices, which the links between neighbours carry, against replicas
 * whose gradients the network does. */
typedef struct setting {
    plan_world w;
    orr_plan plans[2];
    orr_order_job jobs[2];
    orr_calibration calibration;
    orr_calibration_parameter parameters[ORR_CALIBRATION_FIELDS];
    orr_job_options options;
} setting;

static void open_setting(setting *s)
{
    world_open(&s->w);
    const orr_model *model = world_model(&s->w, "llama3.1-8b");
    const orr_cluster *cluster = world_cluster(&s->w, "dgx_h100_pod");
    static const char *const PLANS[2] = {"tp=8,dp=4,batch=32,seq=4k,zero=1",
                                         "tp=1,dp=32,batch=32,seq=4k,zero=1"};
    for (int i = 0; i < 2; i++) {
        s->plans[i] = world_plan(&s->w, PLANS[i]);
        s->jobs[i] = (orr_order_job){model, &s->plans[i], cluster};
    }
    const orr_calibration *usual;
    world_must(&s->w, orr_calibration_of(cluster->device, 0, s->w.arena, &usual, &s->w.err),
               "calibration");
    s->calibration = *usual;
    s->calibration.links = NULL;
    s->calibration.n_links = 0;
    s->calibration.parameters = s->parameters;
    for (int k = 0; k < ORR_CALIBRATION_FIELDS; k++)
        s->parameters[k] =
            (orr_calibration_parameter){.value = *orr_calibration_number(&s->calibration, k),
                                        .low = NAN,
                                        .high = NAN,
                                        .until = ORR_SOFTWARE_NEWEST};
    orr_job_options_init(&s->options);
    s->options.calibration = &s->calibration;
}

static orr_order order_of(setting *s)
{
    orr_order order;
    world_must(&s->w, orr_order_of(s->jobs, &s->options, s->w.arena, &order, &s->w.err), "order");
    return order;
}

static void without_intervals_nothing_is_told(void **state)
{
    (void)state;
    static setting s;
    open_setting(&s);
    assert_int_equal(order_of(&s).n, 0);
    world_close(&s.w);
}

/* The bandwidth at which both are as fast lies between very slow and very fast links: an interval
 * that holds it turns the order, one on either side does not. */
static void an_interval_around_the_balance_is_a_tie(void **state)
{
    (void)state;
    static setting s;
    open_setting(&s);
    orr_calibration_parameter *p = &s.parameters[ORR_CALIBRATION_scale_out];
    p->low = 0.005;
    p->high = 1;
    orr_order order = order_of(&s);
    assert_int_equal(order.n, 1);
    assert_string_equal(order.rows[0].parameter, "scale_out");
    /* A slow network makes replicas slower: slices take less of their time. */
    assert_true(order.rows[0].turns && order.rows[0].ratio_low > order.rows[0].ratio_high);
    double low = p->low, high = p->high;
    for (int i = 0; i < 20; i++) {
        const double middle = sqrt(low * high);
        p->low = low;
        p->high = middle;
        order = order_of(&s);
        *((order.rows[0].ratio_high - 1) * (order.rows[0].ratio_low - 1) < 0 ? &high : &low) =
            middle;
    }
    p->low = 0.5 * low;
    p->high = 2 * high;
    order = order_of(&s);
    assert_int_equal(order.n_turns, 1);
    /* On the side of the balance where the calibration is, both ends say the same. */
    const bool below = s.parameters[ORR_CALIBRATION_scale_out].value < low;
    p->low = below ? 0.2 * low : 1.1 * high;
    p->high = below ? 0.9 * low : 2 * high;
    order = order_of(&s);
    assert_int_equal(order.n, 1);
    assert_int_equal(order.n_turns, 0);
    world_close(&s.w);
}

static double simulated_ratio(plan_world *w, const orr_order_job *jobs,
                              const orr_calibration *calibration)
{
    orr_job_options options;
    double step[2];
    orr_job_options_init(&options);
    options.detail = ORR_DETAIL_CHUNK;
    options.calibration = calibration;
    for (int i = 0; i < 2; i++) {
        orr_outcome o;
        world_must(w,
                   orr_outcome_of(jobs[i].model, jobs[i].plan, jobs[i].cluster, &options, w->arena,
                                  &o, &w->err),
                   "step");
        step[i] = (double)o.step_ns;
        orr_outcome_free(&o);
    }
    return step[1] / step[0];
}

/* Which of two plans of Llama 3 405B is faster, with the calibration that is built in: the same
 * with every parameter at the ends of its interval, simulated, unless the order was told to turn
 * with it. Within 2 % the estimate does not tell. */
static void no_order_rests_on_a_parameter_in_secret(void **state)
{
    (void)state;
    static const char *const PAIRS[][2] = {
        {"tp=8,pp=16,cp=2,dp=2,batch=32,seq=16k,zero=1",
         "tp=4,pp=16,cp=4,dp=2,batch=32,seq=16k,zero=1"},
        {"tp=8,pp=16,cp=2,dp=2,batch=32,seq=16k,zero=1",
         "tp=8,pp=8,cp=4,dp=2,batch=32,seq=16k,zero=1"},
    };
    plan_world w;
    world_open(&w);
    const orr_model *model = world_model(&w, "llama3.1-405b");
    const orr_cluster *cluster = world_cluster(&w, "h100-24k");
    const orr_calibration *usual;
    orr_job_options options;
    orr_job_options_init(&options);
    world_must(&w, orr_calibration_of(cluster->device, 0, w.arena, &usual, &w.err), "calibration");
    for (size_t i = 0; i < sizeof PAIRS / sizeof *PAIRS; i++) {
        const orr_plan plans[2] = {world_plan(&w, PAIRS[i][0]), world_plan(&w, PAIRS[i][1])};
        const orr_order_job jobs[2] = {{model, &plans[0], cluster}, {model, &plans[1], cluster}};
        orr_order order;
        world_must(&w, orr_order_of(jobs, &options, w.arena, &order, &w.err), "order");
        assert_true(order.n > 10);
        for (uint32_t r = 0; r < order.n; r++)
            for (int k = 0; k < ORR_CALIBRATION_FIELDS && !order.rows[r].turns; k++) {
                if (strcmp(order.rows[r].parameter, orr_calibration_ranges[k].name) != 0)
                    continue;
                orr_calibration moved = *usual;
                *orr_calibration_number(&moved, k) = order.rows[r].high;
                const double ratio = simulated_ratio(&w, jobs, &moved);
                if ((ratio - 1) * (order.ratio - 1) < 0 && fabs(ratio - 1) > 0.02)
                    fail_msg("%s at %g: %g, and %g was told", order.rows[r].parameter,
                             order.rows[r].high, ratio, order.rows[r].ratio_high);
            }
    }
    world_close(&w);
}

static void other_devices_are_calibrated_apart(void **state)
{
    (void)state;
    static setting s;
    orr_order order;
    open_setting(&s);
    s.jobs[1].cluster = world_cluster(&s.w, "a100_superpod");
    assert_int_equal(orr_order_of(s.jobs, &s.options, s.w.arena, &order, &s.w.err), ORR_INVALID);
    world_close(&s.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_intervals_nothing_is_told),
        cmocka_unit_test(an_interval_around_the_balance_is_a_tie),
        cmocka_unit_test(no_order_rests_on_a_parameter_in_secret),
        cmocka_unit_test(other_devices_are_calibrated_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
