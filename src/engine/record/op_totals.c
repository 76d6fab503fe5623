/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "engine/record/recorder_state.h"

/* Time totals by operator and pass. */

typedef struct totals {
    orr_recorded_op of[ORR_OPS][ORR_PASSES];
} totals;

static void add_run(const orr_recorder *r, const orr_recorded_run *run, totals *t)
{
    const orr_tape *tape = run->program->tape;
    for (uint32_t c = run->from; c < run->to; c++) {
        const int64_t start = r->start_ns[run->first + c], end = r->end_ns[run->first + c];
        const orr_tape_call *call = &tape->calls[c];
        orr_op_work work;
        if (start < 0)
            continue;
        orr_recorded_op *op = &t->of[call->op][call->pass];
        orr_tape_work(tape, c, &work);
        op->calls++;
        op->ns += end - start;
        op->flops += work.flops;
        op->bytes += work.read_bytes + work.write_bytes;
    }
}

static int longest_first(const void *a_, const void *b_)
{
    const orr_recorded_op *a = a_, *b = b_;
    if (a->ns != b->ns)
        return a->ns > b->ns ? -1 : 1;
    return a->op != b->op ? (a->op > b->op) - (a->op < b->op)
                          : (a->pass > b->pass) - (a->pass < b->pass);
}

static uint32_t collect(const totals *t, orr_recorded_op *ret)
{
    uint32_t n = 0;
    for (uint32_t op = 0; op < ORR_OPS; op++)
        for (uint32_t pass = 0; pass < ORR_PASSES; pass++) {
            if (t->of[op][pass].calls == 0)
                continue;
            ret[n] = t->of[op][pass];
            ret[n].name = orr_op_of((orr_op)op)->name;
            ret[n].op = (uint8_t)op;
            ret[n++].pass = (uint8_t)pass;
        }
    return n;
}

orr_status orr_recorder_ops(const orr_recorder *r, orr_arena *arena, const orr_recorded_op **ret,
                            uint32_t *ret_n, orr_error *err)
{
    orr_recorded_op *ops = orr_arena_array(arena, orr_recorded_op, ORR_OPS * ORR_PASSES);
    const orr_arena_mark mark = orr_arena_get_mark(arena);
    totals *t = orr_arena_one(arena, totals);
    if (ops == NULL || t == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < r->n_runs; i++)
        add_run(r, &r->runs[i], t);
    const uint32_t n = collect(t, ops);
    orr_arena_rewind(arena, mark);
    qsort(ops, n, sizeof *ops, longest_first);
    *ret = ops;
    *ret_n = n;
    return ORR_OK;
}
