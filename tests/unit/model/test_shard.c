/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/module/module.h"
#include "model/shard/shard.h"

/* A tape of a few calls, its layouts, and what the pass makes of it. */
enum { VALUES = 32 };
typedef struct small {
    orr_arena *arena;
    orr_tape whole, rank;
    orr_layout of[VALUES];
    bool fixed[VALUES];
    orr_value local[VALUES];
    orr_sharding how;
    orr_status status;
    orr_error err;
} small;

static const orr_axis_set TP = 1u << ORR_AXIS_TP, CP = 1u << ORR_AXIS_CP, EP = 1u << ORR_AXIS_EP;

static void begin(small *s)
{
    memset(s, 0, sizeof *s);
    s->arena = orr_arena_new(0, 0);
    orr_tape_init(&s->whole, s->arena);
    orr_tape_init(&s->rank, s->arena);
    for (int axis = 0; axis < ORR_AXES; axis++)
        s->how.members[axis] = 1;
    s->how.members[ORR_AXIS_TP] = s->how.members[ORR_AXIS_EP] = 4;
    s->how.members[ORR_AXIS_CP] = 2;
    s->how.experts = EP;
    s->how.backward = true;
}

static orr_value leaf(small *s, orr_value_role role, orr_layout layout, uint32_t rank,
                      const int64_t *dims)
{
    orr_type type = {.dtype = ORR_DTYPE_BF16, .rank = (uint8_t)rank};
    orr_value value;
    memcpy(type.dim, dims, rank * sizeof *dims);
    assert_int_equal(orr_tape_value_new(&s->whole, role, &type, "leaf", &value, &s->err), ORR_OK);
    s->of[value] = layout;
    s->fixed[value] = true;
    return value;
}
#define DIMS(...)                                                                                  \
    sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[])                                \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define INPUT(s, layout, ...)  leaf((s), ORR_VALUE_INPUT, (layout), DIMS(__VA_ARGS__))
#define WEIGHT(s, layout, ...) leaf((s), ORR_VALUE_PARAMETER, (layout), DIMS(__VA_ARGS__))
#define BY(...)                ((orr_layout){.by = {__VA_ARGS__}})

static orr_value call(small *s, orr_op op, const orr_op_args *args, uint32_t n, const orr_value *in)
{
    orr_value out[ORR_CALL_OUT];
    if (orr_tape_call_op(&s->whole, op, args, in, n, "call", out, &s->err) != ORR_OK)
        fail_msg("%s", s->err.text);
    return out[0];
}
#define CALL(s, op, args, ...)                                                                     \
    call((s), ORR_OP_##op, (args), sizeof((orr_value[]){__VA_ARGS__}) / sizeof(orr_value),         \
         (orr_value[]){__VA_ARGS__})

static void run(small *s)
{
    orr_layouts layouts = {s->of, s->fixed};
    s->status = orr_tape_shard(&s->whole, &layouts, &s->how, &s->rank, s->local, &s->err);
}

/* The rank's calls, by name. */
static void must_be(small *s, const char *want)
{
    char text[400] = "";
    run(s);
    if (s->status != ORR_OK)
        fail_msg("%s", s->err.text);
    for (uint32_t c = 0; c < s->rank.n_calls; c++) {
        const orr_tape_call *at = &s->rank.calls[c];
        const orr_op_row *row = orr_op_of((orr_op)at->op);
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s%s%s", c > 0 ? " " : "", row->name,
                 row->family == ORR_OP_FAMILY_COLLECTIVE ? ":" : "",
                 row->family == ORR_OP_FAMILY_COLLECTIVE ? orr_axis_name((orr_axis)at->args.axis)
                                                         : "");
    }
    assert_string_equal(text, want);
}

static void must_have_dims(const small *s, orr_value whole, uint32_t rank, const int64_t *dims)
{
    const orr_type *type = &s->rank.values[s->local[whole]].type;
    assert_int_equal(type->rank, rank);
    for (uint32_t i = 0; i < rank; i++)
        assert_int_equal(type->dim[i], dims[i]);
}

static void end(small *s)
{
    orr_arena_free(s->arena);
}

static void columns_meet_what_is_whole(void **state)
{
    (void)state;
    small s;
    begin(&s);
    const orr_value x = INPUT(&s, BY(0), 8, 16), w = WEIGHT(&s, BY(0, TP), 16, 32);
    const orr_value y = CALL(&s, MATMUL, NULL, x, w);
    must_be(&s, "replicate:tp matmul");
    must_have_dims(&s, y, DIMS(8, 8));
    assert_int_equal(s.of[y].by[1], TP);
    end(&s);
}

static void slices_of_tokens_are_gathered_once(void **state)
{
    (void)state;
    small s;
    begin(&s);
    const orr_value x = INPUT(&s, BY(TP), 8, 16);
    const orr_value a = WEIGHT(&s, BY(0, TP), 16, 32), b = WEIGHT(&s, BY(0, TP), 16, 32);
    CALL(&s, MATMUL, NULL, x, a);
    CALL(&s, MATMUL, NULL, x, b);
    must_be(&s, "all_gather:tp matmul matmul");
    end(&s);
}

static void rows_give_terms_of_a_sum(void **state)
{
    (void)state;
    for (int sequence = 0; sequence < 2; sequence++) {
        small s;
        begin(&s);
        const orr_value x = INPUT(&s, BY(0, TP), 8, 16), w = WEIGHT(&s, BY(TP), 16, 32);
        const orr_value y = CALL(&s, MATMUL, NULL, x, w);
        s.fixed[y] = true;
        s.of[y] = sequence ? BY(TP) : BY(0);
        must_be(&s, sequence ? "matmul reduce_scatter:tp" : "matmul all_reduce:tp");
        must_have_dims(&s, y, DIMS(sequence ? 2 : 8, 32));
        end(&s);
    }
}

/* What no one resolves is resolved by the first operator that is not linear. */
static void terms_are_summed_when_needed(void **state)
{
    (void)state;
    small s;
    begin(&s);
    const orr_value x = INPUT(&s, BY(0, TP), 8, 16), w = WEIGHT(&s, BY(TP), 16, 32);
    const orr_value half =
        CALL(&s, SCALE, (&(orr_op_args){.value = 0.5}), CALL(&s, MATMUL, NULL, x, w));
    CALL(&s, GELU, NULL, half);
    must_be(&s, "matmul scale all_reduce:tp gelu");
    end(&s);
}

static void weights_of_slices_of_tokens_are_told(void **state)
{
    (void)state;
    small s;
    begin(&s);
    const orr_value x = INPUT(&s, BY(CP | TP), 16, 16), w = WEIGHT(&s, BY(0), 16);
    const orr_value only = INPUT(&s, BY(CP), 16, 16), v = WEIGHT(&s, BY(0), 16);
    CALL(&s, RMS_NORM, NULL, x, w);
    CALL(&s, RMS_NORM, NULL, only, v);
    must_be(&s, "rms_norm rms_norm");
    assert_int_equal(s.rank.values[s.local[w]].tag, ORR_WEIGHT_SLICED);
    assert_int_equal(s.rank.values[s.local[v]].tag, ORR_WEIGHT_DENSE);
    must_have_dims(&s, x, DIMS(2, 16));
    end(&s);
}

/* From heads to tokens and back: Ulysses (Jacobs et al., arXiv 2309.14509) is an all-to-all. */
static void another_dim_is_an_exchange(void **state)
{
    (void)state;
    small s;
    begin(&s);
    const orr_value x = INPUT(&s, BY(0, TP), 8, 16, 4);
    const orr_value y = CALL(&s, GELU, NULL, x);
    s.fixed[y] = true;
    s.of[y] = BY(0, 0, TP);
    must_be(&s, "gelu all_to_all:tp");
    must_have_dims(&s, y, DIMS(8, 16, 1));
    end(&s);
}

static void views_carry_slices_with_them(void **state)
{
    (void)state;
    small s;
    begin(&s);
    const orr_type heads = {.rank = 4, .dim = {2, 8, 4, 6}}, flat = {.rank = 2, .dim = {16, 24}};
    const orr_value x = INPUT(&s, BY(0, CP, TP), 2, 8, 24);
    const orr_value y = CALL(&s, VIEW, (&(orr_op_args){.shape = &heads}), x);
    const orr_value z = CALL(&s, VIEW, (&(orr_op_args){.shape = &flat}), y);
    must_be(&s, "view view");
    assert_int_equal(s.of[y].by[1], CP);
    assert_int_equal(s.of[y].by[2], TP);
    must_have_dims(&s, y, DIMS(2, 4, 1, 6));
    assert_int_equal(s.of[z].by[0], CP);
    assert_int_equal(s.of[z].by[1], TP);
    end(&s);
}

static void rows_go_to_their_experts(void **state)
{
    (void)state;
    small s;
    begin(&s);
    const orr_value rows = INPUT(&s, BY(EP), 32, 8), w = WEIGHT(&s, BY(EP), 8, 8, 8);
    const orr_value y = CALL(&s, GROUPED_MATMUL, NULL, rows, w);
    s.fixed[y] = true;
    s.of[y] = BY(EP);
    must_be(&s, "all_to_all:ep grouped_matmul all_to_all:ep");
    must_have_dims(&s, w, DIMS(2, 8, 8));
    end(&s);
}

static void a_vocabulary_in_slices_has_one_loss(void **state)
{
    (void)state;
    small s;
    begin(&s);
    const orr_value x = INPUT(&s, BY(0, TP), 8, 16), ids = INPUT(&s, BY(0), 8);
    s.whole.values[ids].type.dtype = ORR_DTYPE_INT64;
    const orr_value loss = CALL(&s, CROSS_ENTROPY, NULL, x, ids);
    must_be(&s, "cross_entropy view all_gather:tp cross_entropy all_reduce:tp");
    must_have_dims(&s, loss, DIMS(8));
    end(&s);
}

static void what_cannot_be_is_told(void **state)
{
    (void)state;
    small s;
    begin(&s);
    WEIGHT(&s, BY(TP), 6, 4);
    run(&s);
    assert_int_equal(s.status, ORR_INVALID);
    assert_string_equal(s.err.text, "leaf: 6 do not divide into 4 slices");
    end(&s);

    begin(&s);
    const orr_value x = INPUT(&s, BY(TP), 8, 16);
    const orr_value y = CALL(&s, GELU, NULL, x);
    s.fixed[y] = true;
    run(&s);
    assert_int_equal(s.status, ORR_UNSUPPORTED);
    end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_meet_what_is_whole),
        cmocka_unit_test(slices_of_tokens_are_gathered_once),
        cmocka_unit_test(rows_give_terms_of_a_sum),
        cmocka_unit_test(terms_are_summed_when_needed),
        cmocka_unit_test(weights_of_slices_of_tokens_are_told),
        cmocka_unit_test(another_dim_is_an_exchange),
        cmocka_unit_test(views_carry_slices_with_them),
        cmocka_unit_test(rows_go_to_their_experts),
        cmocka_unit_test(a_vocabulary_in_slices_has_one_loss),
        cmocka_unit_test(what_cannot_be_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
