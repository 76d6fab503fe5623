/* SPDX-License-Identifier: Apache-2.0 */
#include "small_module.h"

#include "base/alloc.h"
#include "model/schedule/schedule.h"

/* Six alike layers of two kinds: as they are, and computed again. Kept of a layer: K; computed
 * again: x. */
enum { PLACES = 6, KEPT = SMALL_X + SMALL_Y, BACKWARD = SMALL_DZ + SMALL_DY };

typedef struct row {
    small_module layer, again;
    orr_module modules[2];
    orr_module_memory memory[2];
    uint8_t module_of[PLACES], recomputed_of[PLACES];
    uint32_t first[PLACES + 1];
    orr_module_sequence row;
    orr_stage_map map;
    orr_schedule_plan schedule;
    orr_plan plan;
    orr_arena *arena;
    orr_stage_memory_input parts;
} row;

static void make(row *r, orr_plan plan)
{
    memset(r, 0, sizeof *r);
    r->arena = orr_arena_new(0, 0);
    small_layer(&r->layer, ORR_MODULE_LAYER, true);
    r->modules[0] = r->modules[1] = r->layer.module;
    assert_int_equal(orr_module_memory_of(&r->modules[0], &r->memory[0], NULL), ORR_OK);
    r->memory[1] = r->memory[0];
    r->memory[1].kept_bytes = SMALL_X;
    r->memory[1].backward_peak_bytes += SMALL_Y;
    memset(r->recomputed_of, 1, sizeof r->recomputed_of);
    r->row = (orr_module_sequence){.modules = r->modules,
                                   .n_modules = 2,
                                   .n = PLACES,
                                   .module_of = r->module_of,
                                   .recomputed_of = r->recomputed_of};
    r->plan = orr_plan_with_defaults(&plan);
    const orr_schedule_spec spec = orr_plan_schedule(&r->plan);
    assert_int_equal(orr_schedule_make(&spec, r->arena, &r->schedule, NULL), ORR_OK);
    const uint32_t n = orr_schedule_virtual_stages(&spec);
    for (uint32_t k = 0; k <= n; k++)
        r->first[k] = k * PLACES / n;
    r->map = (orr_stage_map){.stages = n, .chunks = 1, .first = r->first};
    r->parts = (orr_stage_memory_input){.plan = &r->plan,
                                        .task = ORR_TASK_PRETRAIN,
                                        .row = &r->row,
                                        .memory = r->memory,
                                        .map = &r->map,
                                        .schedule = &r->schedule};
}

static orr_stage_memory slots(row *r, uint32_t stage)
{
    orr_stage_memory s = {0};
    r->parts.stage = stage;
    assert_int_equal(orr_stage_activations(&r->parts, r->arena, &s, NULL), ORR_OK);
    return s;
}

static void one_forward_one_backward_keeps_stages_to_come(void **state)
{
    (void)state;
    row r;
    make(&r, (orr_plan){.pp = 3, .micro_batches = 8});
    for (uint32_t stage = 0; stage < 3; stage++) {
        const orr_stage_memory s = slots(&r, stage);
        assert_int_equal(s.n_slots, 16);
        assert_int_equal(s.in_flight, 3 - stage);
        assert_int_equal(s.bytes[ORR_MEMORY_ACTIVATIONS], (3 - stage) * 2 * KEPT);
        assert_int_equal(s.bytes[ORR_MEMORY_TRANSIENT], BACKWARD);
        assert_int_equal(s.activations[0], 2 * KEPT);
        assert_int_equal(s.activations[s.n_slots - 1], 2 * KEPT); /* the last one, before it goes */
        assert_int_equal(s.transient[0], SMALL_Z);
    }
    orr_arena_free(r.arena);
}

static void gpipe_keeps_all_micro_batches(void **state)
{
    (void)state;
    row r;
    make(&r, (orr_plan){.pp = 3, .micro_batches = 8, .schedule = ORR_SCHEDULE_GPIPE});
    const orr_stage_memory s = slots(&r, 2);
    assert_int_equal(s.in_flight, 8);
    assert_int_equal(s.bytes[ORR_MEMORY_ACTIVATIONS], 8 * 2 * KEPT);
    orr_arena_free(r.arena);
}

/* Narayanan et al. 2021, section 2.2: 1 + (p - 1) / (p v) times the activations of 1F1B, and
 * with warm-up of (p - 1) x 2 + (v - 1) p chunks and one more running. */
static void interleaving_keeps_more(void **state)
{
    (void)state;
    row r;
    make(&r, (orr_plan){.pp = 3, .vp = 2, .micro_batches = 9});
    const orr_stage_memory s = slots(&r, 0);
    assert_int_equal(s.in_flight, (3 - 1) * 2 + (2 - 1) * 3 + 1);
    assert_int_equal(s.bytes[ORR_MEMORY_ACTIVATIONS], 8 * KEPT);
    orr_arena_free(r.arena);
}

/* Qi et al., arXiv 2401.10241, section 2.3: ZB-H1 holds no more than 1F1B, but for what weight
 * gradients still wait for. */
static void weight_gradients_that_wait_keep_what_they_read(void **state)
{
    (void)state;
    row r;
    make(&r, (orr_plan){.pp = 3, .micro_batches = 8, .schedule = ORR_SCHEDULE_ZB_H1});
    const orr_stage_memory s = slots(&r, 2);
    const orr_schedule_slot *t = &r.schedule.slots[r.schedule.first[2]];
    int64_t kept = 0;
    bool waited = false;
    for (uint32_t i = 0; i < s.n_slots; i++) {
        if (t[i].phase == ORR_SLOT_FORWARD)
            kept += 2 * KEPT;
        assert_int_equal(s.activations[i], kept);
        if (t[i].phase == ORR_SLOT_BACKWARD)
            kept -= 2 * KEPT;
        if (t[i].phase == ORR_SLOT_INPUT) {
            kept += 2 * (SMALL_X + SMALL_DY) - 2 * KEPT;
            waited = true;
        }
        if (t[i].phase == ORR_SLOT_WEIGHT)
            kept -= 2 * (SMALL_X + SMALL_DY);
    }
    assert_true(waited);
    assert_int_equal(kept, 0);
    orr_arena_free(r.arena);
}

static void some_layers_are_computed_again(void **state)
{
    (void)state;
    row r;
    make(&r, (orr_plan){.pp = 2, .micro_batches = 4, .recompute_layers = 2});
    assert_int_equal(orr_module_at(&r.parts, 0, 0), 1);
    assert_int_equal(orr_module_at(&r.parts, 0, 1), 1);
    assert_int_equal(orr_module_at(&r.parts, 0, 2), 0);
    assert_int_equal(orr_module_at(&r.parts, 1, 3), 1);
    const orr_stage_memory s = slots(&r, 1);
    assert_int_equal(s.bytes[ORR_MEMORY_ACTIVATIONS], 2 * SMALL_X + KEPT);
    orr_arena_free(r.arena);
}

static void sharded_weights_are_gathered_ahead(void **state)
{
    (void)state;
    row r;
    make(&r, (orr_plan){.dp = 4, .zero = 3, .prefetch = 2, .gradients = ORR_PRECISION_FP32});
    orr_stage_memory s = slots(&r, 0);
    /* Of layer 6: itself and two before it are gathered; of layer 5 also the fp32 gradients of
     * layer 6 travel, while the activations of that one have gone. */
    const int64_t gathered = 3 * SMALL_W, of_layer_6 = BACKWARD + gathered,
                  of_layer_5 = of_layer_6 + 2 * SMALL_W - KEPT;
    assert_int_equal(s.bytes[ORR_MEMORY_TRANSIENT],
                     of_layer_5 > of_layer_6 ? of_layer_5 : of_layer_6);
    assert_int_equal(orr_stage_gathered_bytes(&r.parts), 0);
    r.plan.reshard = ORR_SWITCH_OFF;
    assert_int_equal(orr_stage_gathered_bytes(&r.parts), PLACES * SMALL_W);
    s = slots(&r, 0);
    assert_int_equal(s.bytes[ORR_MEMORY_TRANSIENT], BACKWARD + 2 * SMALL_W - KEPT);
    orr_arena_free(r.arena);
}

/* Of a group of micro-batches whose gradients are summed before they are sharded, a chunk has one
 * buffer; the one before it is in transfer for a slot more. With FSDP all chunks have theirs to the
 * end. */
static void gradients_wait_for_their_group(void **state)
{
    (void)state;
    row r;
    make(&r, (orr_plan){.pp = 3, .vp = 2, .micro_batches = 9, .zero = 2});
    r.memory[0].parameters = 100;
    const orr_stage_memory one = slots(&r, 0);
    make(&r, (orr_plan){.pp = 3, .vp = 2, .micro_batches = 9, .zero = 2, .group = 9});
    r.memory[0].parameters = 100;
    const orr_stage_memory all = slots(&r, 0);
    assert_int_equal(one.bytes[ORR_MEMORY_GRADIENTS], 2 * 400);
    assert_int_equal(all.bytes[ORR_MEMORY_GRADIENTS], 400);
    assert_int_equal(all.activations[14], 14 * KEPT); /* the first backward slot */
    assert_int_equal(all.transient[15] - all.transient[13], 400);
    orr_arena_free(r.arena);
    make(&r, (orr_plan){.pp = 3, .vp = 2, .micro_batches = 9, .zero = 3, .dp = 4});
    r.memory[0].parameters = 100;
    const orr_stage_memory sharded = slots(&r, 0);
    assert_int_equal(sharded.bytes[ORR_MEMORY_GRADIENTS], 2 * 200);
    assert_int_equal(orr_stage_gathered_bytes(&r.parts), 2 * SMALL_W);
    orr_arena_free(r.arena);
}

static void offloaded_activations_leave_two_layers(void **state)
{
    (void)state;
    row r;
    make(&r, (orr_plan){.pp = 1, .offload = ORR_OFFLOAD_ACTIVATIONS});
    const orr_stage_memory s = slots(&r, 0);
    assert_int_equal(s.bytes[ORR_MEMORY_ACTIVATIONS], 2 * KEPT);
    assert_int_equal(s.host_bytes, (PLACES - 2) * KEPT);
    orr_arena_free(r.arena);
}

static void inference_runs_forward_alone(void **state)
{
    (void)state;
    row r;
    make(&r, (orr_plan){.pp = 2, .micro_batches = 4});
    r.parts.task = ORR_TASK_PREFILL;
    r.memory[0].kept_bytes = 0;
    const orr_stage_memory s = slots(&r, 0);
    assert_int_equal(s.n_slots, 4);
    assert_int_equal(s.bytes[ORR_MEMORY_ACTIVATIONS], 0);
    orr_arena_free(r.arena);
}

static void failing_allocations_are_told(void **state)
{
    (void)state;
    row r;
    make(&r, (orr_plan){.pp = 2, .micro_batches = 4});
    for (uint64_t i = 1; i <= 2; i++) {
        orr_stage_memory s = {0};
        orr_alloc_fail_from(i);
        const orr_status status = orr_stage_activations(&r.parts, r.arena, &s, NULL);
        orr_alloc_fail_from(0);
        assert_int_equal(status, ORR_NO_MEMORY);
        assert_null(s.activations);
    }
    orr_arena_free(r.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_forward_one_backward_keeps_stages_to_come),
        cmocka_unit_test(gpipe_keeps_all_micro_batches),
        cmocka_unit_test(interleaving_keeps_more),
        cmocka_unit_test(weight_gradients_that_wait_keep_what_they_read),
        cmocka_unit_test(some_layers_are_computed_again),
        cmocka_unit_test(sharded_weights_are_gathered_ahead),
        cmocka_unit_test(gradients_wait_for_their_group),
        cmocka_unit_test(offloaded_activations_leave_two_layers),
        cmocka_unit_test(inference_runs_forward_alone),
        cmocka_unit_test(failing_allocations_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
