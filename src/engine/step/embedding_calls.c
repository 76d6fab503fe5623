/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/step/embedding_tables.h"

/* Writes the calls of embedding tables to a step's tape. Hooks do their work (embedding_tables.c);
 * operators, shapes and bytes are for recordings and prices: what this rank has, for mean lengths
 * of bags. What is not the step's memory is bound to addresses that nothing has, so that lanes wait
 * for one another as data flow: a stage that works on batch i + 2 does not wait for one on i + 1.
 * Stages that prepare batches have lanes of their own; those of the batch itself are in that of
 * computation, since they use its workers. */

/* What a rank has of the tables, and looks up in a step. */
typedef struct rank_load {
    int64_t rows, bags, columns; /* bags: shards; columns: mean of lookups */
    double lookups;              /* by all samples of the group, in this rank's rows */
    double own;                  /* by this rank's samples, in all tables */
} rank_load;

static void add_shard(const orr_step_tables *t, const orr_embedding_shard *shard, rank_load *load,
                      double *numbers)
{
    const orr_embedding *table = &t->plan.tables[shard->table];
    const int64_t rows = orr_embedding_range_begin(table->rows, shard->range_end) -
                         orr_embedding_range_begin(table->rows, shard->range_begin);
    const double lookups =
        (double)t->samples * t->plan.ranks * table->pooling * (double)rows / (double)table->rows;
    load->rows += rows;
    load->bags++;
    load->lookups += lookups;
    *numbers += lookups * (shard->column_end - shard->column_begin);
}

static rank_load load_of(const orr_engine_step *step)
{
    const orr_step_tables *t = step->tables;
    rank_load load = {0};
    double numbers = 0;
    for (uint32_t i = 0; i < t->plan.n_shards; i++)
        if (t->plan.shards[i].rank == step->rank % t->plan.ranks)
            add_shard(t, &t->plan.shards[i], &load, &numbers);
    for (uint32_t i = 0; i < t->plan.n_tables; i++)
        load.own += (double)t->samples * t->plan.tables[i].pooling;
    load.columns = load.lookups > 0 ? (int64_t)(numbers / load.lookups + 0.5) : 1;
    return load;
}

/* Things at addresses that nothing has, up to 2^50 bytes each, for each batch in preparation. */
typedef enum thing {
    OWN_LOOKUPS,
    LOOKUPS,
    READY_LOOKUPS,
    OFFSETS,
    ROWS,
    STATE,
    SUMS,
    GRADIENTS
} thing;

static void *address_of(thing what, uint8_t ahead)
{
    return (void *)(uintptr_t)((UINT64_C(1) << 58) +
                               ((uint64_t)(what * ORR_TABLES_AHEAD + ahead) << 50));
}

typedef struct call_writer {
    orr_step_writer *w;
    orr_step_tables *tables;
    rank_load load;
    int64_t samples; /* of the group, in a step */
} call_writer;

static call_writer begin(orr_step_writer *w)
{
    orr_step_tables *t = w->step->tables;
    return (call_writer){w, t, load_of(w->step), t->samples * t->plan.ranks};
}

static orr_type shape(orr_dtype dtype, uint32_t rank, int64_t a, int64_t b, int64_t c)
{
    return (orr_type){.dtype = (uint8_t)dtype, .rank = (uint8_t)rank, .dim = {a, b, c}};
}

static orr_type type_of(const call_writer *c, thing what)
{
    const rank_load *l = &c->load;
    switch (what) {
    case OWN_LOOKUPS:
        return shape(ORR_DTYPE_INT64, 1, (int64_t)l->own, 0, 0);
    case LOOKUPS:
    case READY_LOOKUPS:
        return shape(ORR_DTYPE_INT64, 1, (int64_t)l->lookups, 0, 0);
    case OFFSETS:
        return shape(ORR_DTYPE_INT64, 2, c->samples, l->bags, 0);
    case ROWS:
        return shape(ORR_DTYPE_FP32, 2, l->rows, l->columns, 0);
    case STATE:
        return shape(ORR_DTYPE_FP32, 1, l->rows, 0, 0);
    default:
        return shape(ORR_DTYPE_FP32, 3, c->samples, l->bags, l->columns);
    }
}

static orr_value value(const call_writer *c, thing what, uint8_t ahead, const char *name)
{
    const orr_type type = type_of(c, what);
    const orr_value_role role = what == ROWS    ? ORR_VALUE_PARAMETER
                                : what == STATE ? ORR_VALUE_STATE
                                                : ORR_VALUE_INPUT;
    return orr_step_value(c->w, role, &type, name, address_of(what, ahead));
}

/* One call, which the hook does `ahead` of the batch that is computed. */
static void write(const call_writer *c, const orr_step_op *op, orr_program_hook *hook,
                  uint8_t ahead)
{
    orr_step_apply(c->w, op);
    if (!orr_step_writer_ok(c->w))
        return;
    orr_program_call *how = &c->w->to->calls.at[orr_step_last(c->w)];
    how->instead = hook;
    how->hook_ctx = &c->tables->hooks[ahead];
    how->label = op->name;
}

static void write_exchange(const call_writer *c, const orr_step_op *op, orr_program_hook *hook,
                           uint8_t ahead)
{
    orr_step_op all = *op;
    const orr_op_args args = {.axis = ORR_AXIS_DP, .members = c->w->step->plan.dp};
    all.op = ORR_OP_ALL_TO_ALL;
    all.n_in = 1;
    all.args = &args;
    write(c, &all, hook, ahead);
}

/* The lane of a stage that prepares batches: of its own, where it runs ahead. */
static uint8_t lane_of(const orr_step_writer *w, orr_batch_stage stage)
{
    static const uint8_t lanes[ORR_BATCH_STAGES] = {ORR_STEP_LANE_READ, ORR_STEP_LANE_IDS,
                                                    ORR_STEP_LANE_FETCH};
    const bool ahead = w->trains && orr_step_batch_stage_ahead(w->step, stage) > 0;
    return ahead ? lanes[stage] : (uint8_t)ORR_LANE_COMPUTE;
}

static uint8_t ahead_of(const orr_step_writer *w, orr_batch_stage stage)
{
    return w->trains ? orr_step_batch_stage_ahead(w->step, stage) : 0;
}

/* Without a pipeline a batch is read between steps. */
static void write_read(const call_writer *c)
{
    const uint8_t ahead = ahead_of(c->w, ORR_BATCH_READ);
    const orr_type own = type_of(c, OWN_LOOKUPS);
    orr_type *filled = orr_arena_one(c->w->step->arena, orr_type);
    if (filled == NULL)
        orr_step_writer_fail(c->w, orr_fail_memory(c->w->err));
    if (filled == NULL || ahead == 0)
        return;
    *filled = own;
    write(c,
          &(orr_step_op){.op = ORR_OP_FILL,
                         .lane = lane_of(c->w, ORR_BATCH_READ),
                         .args = &(orr_op_args){.shape = filled},
                         .out = &own,
                         .data = address_of(OWN_LOOKUPS, ahead),
                         .name = "tables / read"},
          orr_step_read_batch, ahead);
}

static void prepare_batches(const call_writer *c)
{
    const uint8_t ids = ahead_of(c->w, ORR_BATCH_IDS), fetch = ahead_of(c->w, ORR_BATCH_FETCH);
    const orr_type asked = type_of(c, LOOKUPS);
    write_read(c);
    write_exchange(c,
                   &(orr_step_op){.lane = lane_of(c->w, ORR_BATCH_IDS),
                                  .in = {value(c, OWN_LOOKUPS, ids, "ids")},
                                  .out = &asked,
                                  .data = address_of(LOOKUPS, ids),
                                  .name = "tables / ids"},
                   orr_step_exchange_ids, ids);
    write(c,
          &(orr_step_op){.op = ORR_OP_COPY,
                         .lane = lane_of(c->w, ORR_BATCH_FETCH),
                         .n_in = 1,
                         .in = {value(c, LOOKUPS, fetch, "ids")},
                         .out = &asked,
                         .data = address_of(READY_LOOKUPS, fetch),
                         .name = "tables / fetch"},
          orr_step_fetch_rows, fetch);
}

static orr_type bag_type(const orr_step_tables *t)
{
    return shape(ORR_DTYPE_FP32, 2, t->samples, t->columns, 0);
}

void orr_step_write_bags(orr_step_writer *w)
{
    if (w->step->tables == NULL)
        return;
    const call_writer c = begin(w);
    const orr_type sums = type_of(&c, SUMS), bags = bag_type(c.tables);
    prepare_batches(&c);
    write(&c,
          &(orr_step_op){.op = ORR_OP_EMBEDDING_BAG,
                         .n_in = 3,
                         .in = {value(&c, ROWS, 0, "tables"), value(&c, READY_LOOKUPS, 0, "ids"),
                                value(&c, OFFSETS, 0, "offsets")},
                         .out = &sums,
                         .data = address_of(SUMS, 0),
                         .name = "tables / sum"},
          orr_step_sum_bags, 0);
    write_exchange(&c,
                   &(orr_step_op){.in = {value(&c, SUMS, 0, "sums")},
                                  .out = &bags,
                                  .data = c.tables->bags,
                                  .name = "tables / bags"},
                   orr_step_exchange_bags, 0);
}

void orr_step_write_bag_gradients(orr_step_writer *w)
{
    if (w->step->tables == NULL || !w->trains)
        return;
    const call_writer c = begin(w);
    const orr_type bags = bag_type(c.tables), sums = type_of(&c, SUMS);
    const orr_value in = orr_step_value(w, ORR_VALUE_GRADIENT, &bags, "bags", c.tables->gradients);
    write_exchange(&c,
                   &(orr_step_op){.pass = ORR_PASS_INPUT,
                                  .in = {in},
                                  .out = &sums,
                                  .data = address_of(GRADIENTS, 0),
                                  .name = "tables / gradients"},
                   orr_step_exchange_bag_gradients, 0);
}

/* As row-wise Adagrad, whatever the tables' optimizers: a gradient for each lookup. */
void orr_step_write_table_update(orr_step_writer *w)
{
    if (w->step->tables == NULL)
        return;
    const call_writer c = begin(w);
    const orr_type rows = shape(ORR_DTYPE_FP32, 2, (int64_t)c.load.lookups, c.load.columns, 0);
    const orr_value gradients = orr_step_value(w, ORR_VALUE_PARAMETER_GRADIENT, &rows, "gradients",
                                               address_of(GRADIENTS, 0));
    write(&c,
          &(orr_step_op){.op = ORR_OP_ROWWISE_ADAGRAD,
                         .pass = ORR_PASS_OPTIMIZER,
                         .n_in = 4,
                         .in = {value(&c, ROWS, 0, "tables"), gradients,
                                value(&c, STATE, 0, "state"), value(&c, READY_LOOKUPS, 0, "ids")},
                         .name = "tables / update"},
          orr_step_update_tables, 0);
}

orr_value orr_step_bags(orr_step_writer *w, const orr_type *type)
{
    float *at = w->step->tables->bags + w->slot.micro_batch * orr_type_elements(type);
    return orr_step_value(w, ORR_VALUE_INPUT, type, "bags", at);
}

float *orr_step_bag_gradients(const orr_step_writer *w, const orr_type *type)
{
    return w->step->tables->gradients + w->slot.micro_batch * orr_type_elements(type);
}
