/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SMALL_MODULE_H
#define SMALL_MODULE_H

#include "../op/small_tape.h"

#include "model/memory/memory.h"

/* A layer put down by hand: y = x w (a byte tells which tensor: sizes are powers of ten), z =
 * relu(y), and its backward pass: dy = relu'(y, dz), dw = x dy, dx = dy w. */
typedef struct small_module {
    small_tape s;
    orr_module module;
    orr_value x, w, y, z, dz, dy, dw, dx;
} small_module;

enum {
    SMALL_X = 1,
    SMALL_Y = 100,
    SMALL_Z = 1000,
    SMALL_DZ = 1000,
    SMALL_DY = 10000,
    SMALL_DX = 1,
    SMALL_ROWS = 16,
    SMALL_COLUMNS = 8,
    SMALL_W = 2 * SMALL_ROWS * SMALL_COLUMNS
};

static inline orr_value small_matrix(small_tape *s, orr_value_role role, int64_t rows,
                                     int64_t columns, orr_weight_tag tag)
{
    const orr_value v = small_value(s, role, 0);
    s->values[v].type = (orr_type){.dtype = ORR_DTYPE_BF16, .rank = 2, .dim = {rows, columns}};
    s->values[v].tag = tag;
    return v;
}

static inline void small_layer(small_module *m, uint8_t kind, bool trains)
{
    small_tape *s = &m->s;
    small_init(s);
    m->x = small_value(s, ORR_VALUE_INPUT, SMALL_X);
    m->w = small_matrix(s, ORR_VALUE_PARAMETER, SMALL_ROWS, SMALL_COLUMNS, ORR_WEIGHT_DENSE);
    m->y = small_value(s, ORR_VALUE_ACTIVATION, SMALL_Y);
    m->z = small_value(s, ORR_VALUE_ACTIVATION, SMALL_Z);
    small_call(s, ORR_OP_MATMUL, ORR_PASS_FORWARD, m->x, m->w, ORR_NONE, m->y);
    small_call(s, ORR_OP_RELU, ORR_PASS_FORWARD, m->y, ORR_NONE, ORR_NONE, m->z);
    m->dz = m->dy = m->dw = m->dx = ORR_NONE;
    if (trains) {
        m->dz = small_value(s, ORR_VALUE_GRADIENT, SMALL_DZ);
        m->dy = small_value(s, ORR_VALUE_GRADIENT, SMALL_DY);
        m->dw = small_matrix(s, ORR_VALUE_PARAMETER_GRADIENT, SMALL_ROWS, SMALL_COLUMNS,
                             ORR_WEIGHT_DENSE);
        m->dx = small_value(s, ORR_VALUE_GRADIENT, SMALL_DX);
        small_call(s, ORR_OP_ACTIVATION_BACKWARD, ORR_PASS_INPUT, m->y, m->dz, ORR_NONE, m->dy);
        small_call(s, ORR_OP_MATMUL, ORR_PASS_WEIGHT, m->x, m->dy, ORR_NONE, m->dw);
        small_call(s, ORR_OP_MATMUL, ORR_PASS_INPUT, m->dy, m->w, ORR_NONE, m->dx);
    }
    m->module = (orr_module){.kind = kind,
                             .name = "layer",
                             .tape = &s->tape,
                             .in = m->x,
                             .out = m->z,
                             .grad_in = m->dx,
                             .grad_out = m->dz};
}

#endif /* SMALL_MODULE_H */
