/* SPDX-License-Identifier: Apache-2.0 */
#include "model/spec/parameters.h"
#include "model/spec/spec.h"

/* Overrides: a model with another number of layers, width or heads, as a plan asks for it. What
 * depends on the changed size is scaled with it. */

/* Scales `value` by to / from; 0 stays 0. */
static orr_status grow(const char *what, uint32_t value, uint32_t to, uint32_t from, uint32_t *ret,
                       orr_error *err)
{
    const uint64_t scaled = (uint64_t)value * to;
    if (scaled % from != 0 || scaled / from > UINT32_MAX || (value > 0 && scaled < from))
        return orr_fail(err, ORR_INVALID,
                        "a hidden size of %u instead of %u does not give a whole number of %s "
                        "from %u: say it too",
                        to, from, what, value);
    *ret = (uint32_t)(scaled / from);
    return ORR_OK;
}

/* Changes the width, and all sizes in proportion. The width of a head stays. */
static orr_status change_hidden(orr_model *m, const orr_plan *plan, orr_error *err)
{
    const uint32_t was = m->hidden;
    if (plan->hidden == 0 || plan->hidden == was)
        return ORR_OK;
    m->hidden = plan->hidden;
    if (plan->ffn == 0) {
        ORR_TRY(grow("feed-forward columns", m->ffn, m->hidden, was, &m->ffn, err));
        ORR_TRY(grow("an expert's columns", m->moe.expert_ffn, m->hidden, was, &m->moe.expert_ffn,
                     err));
        ORR_TRY(grow("a shared expert's columns", m->moe.shared_ffn, m->hidden, was,
                     &m->moe.shared_ffn, err));
    }
    if (plan->heads == 0) {
        const uint32_t heads = m->heads;
        ORR_TRY(grow("heads", heads, m->hidden, was, &m->heads, err));
        if (m->kv_heads == heads)
            m->kv_heads = m->heads;
    }
    return ORR_OK;
}

/* Changes the number of heads. Where heads made up the hidden size, they still do. */
static orr_status change_heads(orr_model *m, const orr_plan *plan, bool full, orr_error *err)
{
    if (plan->heads == 0)
        return ORR_OK;
    if (m->kv_heads == m->heads)
        m->kv_heads = plan->heads;
    m->heads = plan->heads;
    if (full && m->mla.kv_rank == 0) {
        if (m->hidden % m->heads != 0)
            return orr_fail(err, ORR_INVALID, "a hidden size of %u does not divide into %u heads",
                            m->hidden, m->heads);
        m->head_dim = m->hidden / m->heads;
    }
    return ORR_OK;
}

static bool changes(const orr_model *m, const orr_plan *plan)
{
    return (plan->layers != 0 && plan->layers != m->layers) ||
           (plan->hidden != 0 && plan->hidden != m->hidden) ||
           (plan->ffn != 0 && plan->ffn != (m->ffn > 0 ? m->ffn : m->moe.expert_ffn)) ||
           (plan->heads != 0 && plan->heads != m->heads) ||
           (plan->vocab != 0 && plan->vocab != m->vocab);
}

/* The limits that a model's file has too. */
static orr_status check_size(const orr_plan *plan, orr_error *err)
{
    const struct {
        const char *name;
        uint32_t value, most;
    } sizes[] = {{"layers", plan->layers, ORR_MODEL_MAX_LAYERS},
                 {"hidden", plan->hidden, ORR_MODEL_MAX_WIDTH},
                 {"ffn", plan->ffn, ORR_MODEL_MAX_WIDTH},
                 {"heads", plan->heads, ORR_MODEL_MAX_WIDTH},
                 {"vocab", plan->vocab, ORR_MODEL_MAX_TOKENS}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].value > sizes[i].most)
            return orr_fail(err, ORR_INVALID, "%s=%u is more than %u", sizes[i].name,
                            sizes[i].value, sizes[i].most);
    return ORR_OK;
}

static orr_status check_changed(const orr_model *m, orr_error *err)
{
    orr_parameter_count measure;
    orr_model_size size;
    if (m->kv_heads == 0 || m->heads % m->kv_heads != 0)
        return orr_fail(err, ORR_INVALID,
                        "%u heads cannot share %u heads of keys and values evenly", m->heads,
                        m->kv_heads);
    return orr_parameter_count_model(m, &measure, &size, err);
}

orr_status orr_model_override(const orr_model *model, const orr_plan *plan, orr_arena *arena,
                              const orr_model **ret, orr_error *err)
{
    if (!changes(model, plan)) {
        *ret = model;
        return ORR_OK;
    }
    if (model->kind != ORR_MODEL_TRANSFORMER || model->incomplete)
        return orr_fail(err, ORR_INVALID,
                        "layers, hidden, ffn, heads and vocab are of a transformer whose shape is "
                        "known, which '%s' is not",
                        model->name);
    ORR_TRY(check_size(plan, err));
    orr_model *m = orr_arena_one(arena, orr_model);
    if (m == NULL)
        return orr_fail_memory(err);
    *m = *model;
    const bool full = (uint64_t)m->heads * m->head_dim == m->hidden;
    ORR_TRY(change_hidden(m, plan, err));
    ORR_TRY(change_heads(m, plan, full, err));
    if (plan->layers > 0)
        m->layers = plan->layers;
    if (plan->ffn > 0)
        *(m->ffn > 0 ? &m->ffn : &m->moe.expert_ffn) = plan->ffn;
    if (plan->vocab > 0)
        m->vocab = plan->vocab;
    m->cross_layers = orr_model_cross_layers(m);
    m->published_parameters = m->published_active = 0;
    ORR_TRY(check_changed(m, err));
    *ret = m;
    return ORR_OK;
}
