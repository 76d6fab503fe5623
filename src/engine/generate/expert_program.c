/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of a layer's experts alone, for as many rows as came: pieces of a few sizes, of which
 * the rows that are too many belong to no slot. */
#include "engine/generate/experts.h"

#include <string.h>

#include "engine/generate/writer.h"
#include "op/shape.h"

void orr_expert_program_free(orr_expert_program *program)
{
    orr_cached_program_free(&program->served);
}

/* Maps what the experts read: rows and counts of DISPATCH, and weights. */
typedef struct expert_writer {
    orr_generator *g;
    orr_expert_program *to;
    const orr_tape *from;
    orr_value *map; /* values of the program for the module's; ORR_NONE: not there yet */
    orr_error *err;
} expert_writer;

static orr_status new_value(expert_writer *w, orr_value of, const orr_type *type,
                            const orr_binding *binding)
{
    orr_cached_program *to = &w->to->served;
    const orr_tape_value *like = &w->from->values[of];
    ORR_TRY(orr_tape_value_new(&to->tape, (orr_value_role)like->role, type, like->name, &w->map[of],
                               w->err));
    return orr_array_push(&to->bindings, *binding) ? ORR_OK : orr_fail_memory(w->err);
}

static orr_status place_inputs(expert_writer *w, const orr_expert_part *part)
{
    const orr_expert_parallel *x = w->g->parallel;
    const orr_tape_call *dispatch = &w->from->calls[part->dispatch];
    orr_type rows = w->from->values[dispatch->out[0]].type;
    const int64_t slots = x->slots;
    rows.dim[0] = w->to->rows;
    if (dispatch->out[1] == ORR_NONE)
        return orr_fail(w->err, ORR_UNSUPPORTED, "experts whose rows are not counted");
    const orr_type counts = orr_type_of(ORR_DTYPE_INT32, 1, &slots);
    ORR_TRY(new_value(w, dispatch->out[0], &rows, &(orr_binding){.data = x->rows}));
    return new_value(w, dispatch->out[1], &counts, &(orr_binding){.data = x->counts});
}

static orr_status place_weight(expert_writer *w, orr_value of)
{
    orr_type type = w->from->values[of].type;
    uint32_t i = 0;
    while (i < w->to->n_weights && strcmp(w->to->names[i], w->from->values[of].name) != 0)
        i++;
    if (i == w->to->n_weights || type.rank != 3)
        return orr_fail(w->err, ORR_UNSUPPORTED, "experts with a weight '%s' of %u dims",
                        w->from->values[of].name, type.rank);
    type.dim[0] = w->g->parallel->slots;
    return new_value(w, of, &type, &(orr_binding){.rows = &w->to->weights[i]});
}

static orr_status write_call(expert_writer *w, const orr_tape_call *call)
{
    orr_cached_program *to = &w->to->served;
    orr_value in[ORR_CALL_IN], out[ORR_CALL_OUT];
    for (uint32_t i = 0; i < call->n_in; i++) {
        const orr_value v = call->in[i];
        if (v != ORR_NONE && w->map[v] == ORR_NONE) {
            if (w->from->values[v].role != ORR_VALUE_PARAMETER)
                return orr_fail(w->err, ORR_UNSUPPORTED, "experts that read '%s'",
                                w->from->values[v].name);
            ORR_TRY(place_weight(w, v));
        }
        in[i] = v == ORR_NONE ? ORR_NONE : w->map[v];
    }
    ORR_TRY(orr_tape_call_op(&to->tape, (orr_op)call->op, &call->args, in, call->n_in, call->name,
                             out, w->err));
    for (uint32_t i = 0; i < call->n_out; i++)
        if (call->out[i] != ORR_NONE)
            w->map[call->out[i]] = out[i];
    while (to->bindings.n < to->tape.n_values)
        if (!orr_array_push(&to->bindings, (orr_binding){0}))
            return orr_fail_memory(w->err);
    return ORR_OK;
}

static orr_status write_program(orr_generator *g, orr_expert_program *to, orr_error *err)
{
    const orr_tape *tape = g->parallel->row.modules[to->module].tape;
    orr_arena *arena = to->served.arena;
    expert_writer w = {.g = g,
                       .to = to,
                       .from = tape,
                       .map = orr_arena_array(arena, orr_value, tape->n_values),
                       .err = err};
    orr_expert_part part;
    if (w.map == NULL)
        return orr_fail_memory(err);
    memset(w.map, 0xff, tape->n_values * sizeof *w.map);
    ORR_TRY(orr_expert_part_of(tape, arena, &part, err));
    ORR_TRY(place_inputs(&w, &part));
    for (uint32_t c = 0; c < tape->n_calls; c++)
        if (part.inside[c])
            ORR_TRY(write_call(&w, &tape->calls[c]));
    to->served.bindings.at[w.map[tape->calls[part.combine].in[0]]].data = g->parallel->results;
    return orr_cached_program_finish(g, &to->served, err);
}

/* The weights of a layer. */
static uint32_t weights_of(const orr_expert_parallel *x, uint32_t layer,
                           const orr_expert_weight **ret)
{
    uint32_t n = 0;
    for (size_t i = 0; i < x->weights.n && n < ORR_EXPERT_WEIGHTS; i++)
        if (x->weights.at[i].layer == layer)
            ret[n++] = &x->weights.at[i];
    return n;
}

static bool fits(const orr_expert_program *p, uint32_t module, int64_t rows, int64_t slots,
                 const orr_expert_weight *const *weights, uint32_t n)
{
    bool same = p->served.program != NULL && p->module == module && p->rows == rows &&
                p->slots == slots && p->n_weights == n;
    for (uint32_t i = 0; i < n && same; i++)
        same = p->formats[i] == weights[i]->format;
    return same;
}

/* The program for a layer and a number of rows: a cached one, or a new one in place of the least
 * recently used. */
static orr_status program_of(orr_generator *g, uint32_t layer, int64_t rows,
                             orr_expert_program **ret, orr_error *err)
{
    orr_expert_parallel *x = g->parallel;
    const orr_expert_weight *weights[ORR_EXPERT_WEIGHTS];
    const uint32_t module = x->row.module_of[x->place[layer]], n = weights_of(x, layer, weights);
    orr_expert_program *p = &x->programs[0];
    for (int i = 0; i < ORR_EXPERT_PROGRAMS; i++) {
        if (x->programs[i].served.used < p->served.used)
            p = &x->programs[i];
        if (fits(&x->programs[i], module, rows, x->slots, weights, n)) {
            p = &x->programs[i];
            break;
        }
    }
    if (!fits(p, module, rows, x->slots, weights, n)) {
        ORR_TRY(orr_cached_program_retire(g, &p->served, err));
        *p =
            (orr_expert_program){.module = module, .rows = rows, .slots = x->slots, .n_weights = n};
        for (uint32_t i = 0; i < n; i++) {
            p->names[i] = weights[i]->name;
            p->formats[i] = weights[i]->format;
            p->weights[i] = weights[i]->slots;
        }
        orr_status status = orr_cached_program_begin(&p->served, err);
        if (status == ORR_OK)
            status = write_program(g, p, err);
        if (status != ORR_OK) {
            orr_expert_program_free(p);
            return status;
        }
    }
    for (uint32_t i = 0; i < n; i++)
        p->weights[i] = weights[i]->slots;
    p->served.used = ++g->clock;
    *ret = p;
    return ORR_OK;
}

/* Few programs; of many rows, of which those that are too many take time, more. */
static int64_t room_for(uint32_t rows)
{
    int64_t room = 1;
    while (room < rows)
        room *= room < 64 ? 4 : 2;
    return room;
}

static orr_status warm_layer(orr_generator *g, uint32_t layer, orr_error *err)
{
    enum { FEW_ROWS = 128 }; /* of more the work outweighs what the first run takes besides */
    for (int64_t rows = 1; rows <= FEW_ROWS; rows = room_for((uint32_t)rows + 1)) {
        orr_expert_program *p;
        ORR_TRY(program_of(g, layer, rows, &p, err));
        ORR_TRY(orr_program_execute(p->served.program, &(orr_program_run){0}, err));
    }
    return ORR_OK;
}

orr_status orr_generator_warm_experts(orr_generator *g, orr_error *err)
{
    orr_expert_parallel *x = g->parallel;
    uint32_t warm = ORR_NONE, n;
    memset(x->counts, 0, x->slots * sizeof *x->counts);
    for (uint32_t layer = 0; layer < x->placement->layers; layer++) {
        const uint32_t module = x->row.module_of[x->place[layer]];
        (void)orr_generator_experts_of(x, layer, &n);
        if (n > 0 && module != warm)
            ORR_TRY(warm_layer(g, layer, err));
        warm = n > 0 ? module : warm;
    }
    return ORR_OK;
}

orr_status orr_generator_run_experts(orr_generator *g, uint32_t layer, orr_error *err)
{
    orr_expert_parallel *x = g->parallel;
    for (uint32_t from = 0; from < x->arrived;) {
        const uint32_t left = x->arrived - from,
                       n = left < ORR_EXPERT_PIECE_ROWS ? left : ORR_EXPERT_PIECE_ROWS;
        orr_expert_program *p;
        orr_program_run run = {0};
        ORR_TRY(program_of(g, layer, room_for(n), &p, err));
        memset(x->counts, 0, x->slots * sizeof *x->counts);
        orr_expert_exchange_rows(x->exchange, from, n, x->rows, x->counts);
        if (g->recorder != NULL)
            orr_recorder_run(g->recorder, p->served.program, &run.start_ns, &run.end_ns);
        ORR_TRY(orr_program_execute(p->served.program, &run, err));
        orr_expert_exchange_results(x->exchange, from, n, x->results);
        from += n;
    }
    return ORR_OK;
}
