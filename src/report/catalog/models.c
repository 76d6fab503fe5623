/* SPDX-License-Identifier: Apache-2.0 */
#include "report/analyses/registry.h"

#include "report/catalog/model_card.h"

typedef struct list_row {
    const char *name, *family, *kind;
    int64_t parameters, active, bf16_bytes;
    uint32_t layers, hidden, context, experts;
    const char *shape;
} list_row;

static const orr_column list_columns[] = {
    ORR_COL_(list_row, name, TEXT),
    ORR_COL_(list_row, family, TEXT),
    ORR_COL_(list_row, kind, TEXT),
    ORR_COL_(list_row, parameters, I64),
    ORR_COL_AS_(list_row, active, I64, "active_parameters"),
    ORR_COL_(list_row, bf16_bytes, BYTES),
    ORR_COL_(list_row, layers, U32),
    ORR_COL_(list_row, hidden, U32),
    ORR_COL_(list_row, context, U32),
    ORR_COL_(list_row, experts, U32),
    ORR_COL_(list_row, shape, TEXT),
};

static const char *const KINDS[] = {
#define NAME_(name, text) text,
    ORR_MODEL_KIND_MAP(NAME_)
#undef NAME_
};

static const char *shape_of(const orr_model *model)
{
    return model->incomplete ? "not published" : model->unverified ? "not verified" : "published";
}

static uint32_t or_none(uint32_t number)
{
    return number > 0 ? number : ORR_NONE;
}

static orr_status list_one(const orr_model *model, orr_arena *arena, list_row *ret, orr_error *err)
{
    orr_model_size size = {0};
    if (!model->incomplete)
        ORR_TRY(orr_model_count_parameters(model, arena, &size, err));
    *ret = (list_row){.name = model->name,
                      .family = model->family,
                      .kind = KINDS[model->kind],
                      .parameters = size.total,
                      .active = size.active,
                      .bf16_bytes = model->incomplete ? -1 : 2 * size.total,
                      .layers = or_none(model->layers),
                      .hidden = or_none(model->hidden),
                      .context = or_none(model->context),
                      .experts = or_none(model->moe.experts),
                      .shape = shape_of(model)};
    return ORR_OK;
}

orr_status orr_models_table(const orr_models *models, orr_arena *arena, orr_table *ret,
                            orr_error *err)
{
    list_row *rows = orr_arena_array(arena, list_row, models->n);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < models->n; i++)
        ORR_TRY(list_one(models->models[i], arena, &rows[i], err));
    *ret = ORR_TABLE_("orrery.models/1", "models", list_columns, rows, models->n);
    return ORR_OK;
}

typedef struct part_row {
    const char *part;
    uint64_t count;
    int64_t each, parameters, active;
    double of_all_frac;
} part_row;

static const orr_column part_columns[] = {
    ORR_COL_(part_row, part, TEXT),
    ORR_COL_(part_row, count, U64),
    ORR_COL_AS_(part_row, each, I64, "parameters_each"),
    ORR_COL_(part_row, parameters, I64),
    ORR_COL_AS_(part_row, active, I64, "active_parameters"),
    ORR_COL_AS_(part_row, of_all_frac, FRAC, "share_frac"),
};

static orr_status part_table(const orr_model_size *size, orr_arena *arena, orr_table *ret,
                             orr_error *err)
{
    part_row *rows = orr_arena_array(arena, part_row, (size_t)size->n + 2);
    if (rows == NULL)
        return orr_fail_memory(err);
    uint32_t n = 0;
    for (; n < size->n; n++) {
        const orr_model_part *part = &size->parts[n];
        const int64_t all = (int64_t)part->count * part->each;
        rows[n] = (part_row){part->name, part->count,  part->each,
                             all,        part->active, (double)all / (double)size->total};
    }
    if (n > 0)
        rows[n++] = (part_row){"all", 1, size->total, size->total, size->active, 1};
    if (size->mtp > 0)
        rows[n++] = (part_row){"beside: further tokens",
                               1,
                               size->mtp,
                               size->mtp,
                               0,
                               (double)size->mtp / (double)size->total};
    *ret = ORR_TABLE_("orrery.model_parameters/1", "parameters", part_columns, rows, n);
    return ORR_OK;
}

typedef struct memory_row {
    const char *precision;
    int64_t weights_bytes, cache_token_bytes, cache_context_bytes;
} memory_row;

static const orr_column memory_columns[] = {
    ORR_COL_(memory_row, precision, TEXT),
    ORR_COL_(memory_row, weights_bytes, BYTES),
    ORR_COL_(memory_row, cache_token_bytes, BYTES),
    ORR_COL_(memory_row, cache_context_bytes, BYTES),
};

/* Layers that see a chunk keep no more than that. */
static double cache_of_context(const orr_model *m, double token_bytes)
{
    uint32_t global = 0, local = 0;
    for (uint32_t i = 0; i < m->layers; i++)
        if (!orr_model_layer_cross(m, i))
            *(orr_model_layer_global(m, i) ? &global : &local) += 1;
    const double chunk = m->chunk < m->context ? m->chunk : m->context;
    const double layers = (double)global + local;
    return layers > 0 ? token_bytes / layers * (global * (double)m->context + local * chunk) : 0;
}

static orr_status memory_table(const orr_model *model, const orr_model_size *size, orr_arena *arena,
                               orr_table *ret, orr_error *err)
{
    static const orr_dtype dtypes[] = {ORR_DTYPE_FP32, ORR_DTYPE_BF16, ORR_DTYPE_FP8,
                                       ORR_DTYPE_FP4};
    enum { N = sizeof dtypes / sizeof *dtypes };
    memory_row *rows = orr_arena_array(arena, memory_row, N);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (int i = 0; i < N && size->n > 0; i++) {
        const double token = orr_model_kv_cache_bytes(model, dtypes[i]);
        rows[i] = (memory_row){
            .precision = orr_dtype_name(dtypes[i]),
            .weights_bytes = (int64_t)((double)size->total * orr_dtype_bytes(dtypes[i])),
            .cache_token_bytes = token > 0 ? (int64_t)token : -1,
            .cache_context_bytes = token > 0 ? (int64_t)cache_of_context(model, token) : -1};
    }
    *ret = ORR_TABLE_("orrery.model_memory/1",
                      "memory: weights, and keys and values of a token and of the whole context",
                      memory_columns, rows, size->n > 0 ? N : 0);
    return ORR_OK;
}

static const orr_column card_columns[] = {
    ORR_COL_(orr_model_note, what, TEXT),
    ORR_COL_(orr_model_note, value, TEXT),
    ORR_COL_(orr_model_note, source, TEXT),
};

orr_status orr_model_tables(const orr_model *model, orr_arena *arena,
                            orr_named_table ret[ORR_MODEL_TABLES], orr_error *err)
{
    orr_model_size size = {0};
    const orr_model_note *lines;
    uint32_t n;
    if (!model->incomplete)
        ORR_TRY(orr_model_count_parameters(model, arena, &size, err));
    ORR_TRY(orr_model_card(model, &size, arena, &lines, &n, err));
    ret[0] = (orr_named_table){
        "card", ORR_TABLE_("orrery.model_card/1", model->title, card_columns, lines, n)};
    ret[1].name = "parameters";
    ret[2].name = "memory";
    ORR_TRY(part_table(&size, arena, &ret[1].table, err));
    ORR_TRY(memory_table(model, &size, arena, &ret[2].table, err));
    ret[3] = (orr_named_table){"published", ORR_TABLE_("orrery.model_published/1",
                                                       "as published, and terms of use",
                                                       card_columns, model->notes, model->n_notes)};
    return ORR_OK;
}
