/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/framework/framework.h"

/* The quantities that tables of frameworks speak of. */

/* The quotient if it is whole, else 0. */
static double share(double what, double by)
{
    return by > 0 && fmod(what, by) == 0 ? what / by : 0;
}

/* Ranks of MaxText's axis fsdp; those of its axes context and expert shard weights as well. */
static double fsdp_axis(const orr_plan *p)
{
    return p->zero == 3 ? fmax(share(p->shards, (double)p->cp * p->ep), 1) : 1;
}

/* Layers of each stage between the first and the last; of two stages that both say theirs, more
 * than either. */
static double middle_layers(const orr_model *m, const orr_plan *p)
{
    if (p->pp == 2 && p->first_layers > 0 && p->last_layers > 0)
        return fmax(p->first_layers, p->last_layers) + 1;
    return share((double)m->layers - p->first_layers - p->last_layers,
                 (double)p->pp - (p->first_layers > 0) - (p->last_layers > 0));
}

/* Layers of a chunk, with the embedding and the head counted as layers; or all chunks alike. */
static double weighted_chunk_layers(const orr_model *m, const orr_plan *p)
{
    const double chunks = (double)p->pp * p->vp, weighted = share(m->layers + 2.0, chunks);
    return weighted > 0 ? weighted : share(m->layers, chunks);
}

static double end_layers(const orr_model *m, const orr_plan *p)
{
    return fmax(share(m->layers + 2.0, (double)p->pp * p->vp) * p->vp - 1, 0);
}

static bool is_order(const orr_plan *p, const uint8_t *order)
{
    const uint32_t degree[ORR_BASE_AXES] = {p->tp, p->cp, p->dp, p->pp};
    uint32_t at = 0;
    for (uint32_t i = 0; i < ORR_BASE_AXES; i++) {
        if (degree[p->order[i] - 1] <= 1)
            continue;
        while (degree[order[at]] <= 1)
            at++;
        if (p->order[i] - 1 != order[at++])
            return false;
    }
    return true;
}

static const char *const ORDERS[] = {"", "tp-cp-dp-pp", "tp-cp-pp-dp", "another"};

static double order_of(const orr_plan *p)
{
    static const uint8_t DATA_FIRST[] = {ORR_AXIS_TP, ORR_AXIS_CP, ORR_AXIS_DP, ORR_AXIS_PP};
    static const uint8_t STAGES_FIRST[] = {ORR_AXIS_TP, ORR_AXIS_CP, ORR_AXIS_PP, ORR_AXIS_DP};
    return is_order(p, DATA_FIRST) ? 1 : is_order(p, STAGES_FIRST) ? 2 : 3;
}

/* JAX's hybrid meshes: the axes, innermost first (experts, tensor, context, FSDP, stages, data),
 * fill the devices of a slice (ICI); what is left of an axis lies across slices (DCN). */
static double hybrid_axis(const orr_plan *p, uint32_t host, uint32_t axis, bool inside)
{
    const double degree[] = {p->ep,        p->tp, p->cp,
                             fsdp_axis(p), p->pp, share(p->dp, (double)p->ep * fsdp_axis(p))};
    int64_t room = host > 0 ? host : INT64_C(1) << 40;
    for (uint32_t i = 0;; i++) {
        const int64_t whole = (int64_t)degree[i], within = orr_gcd(whole, room);
        if (i == axis)
            return inside ? (double)within : share((double)whole, (double)within);
        room /= within > 0 ? within : 1;
    }
}
static double ici(const orr_plan *p, uint32_t host, uint32_t axis)
{
    return hybrid_axis(p, host, axis, true);
}
static double dcn(const orr_plan *p, uint32_t host, uint32_t axis)
{
    return hybrid_axis(p, host, axis, false);
}

static const char *const NAMES[] = {
#define NAME_(name, value) #name,
    ORR_QUANTITY_MAP(NAME_)
#undef NAME_
};

const char *orr_quantity_name(uint32_t quantity)
{
    return quantity < ORR_PLAN_NUMBERS  ? orr_plan_number_at(quantity)->name
           : quantity < ORR_PLAN_FIELDS ? orr_plan_choice_at(quantity - ORR_PLAN_NUMBERS)->name
                                        : NAMES[quantity - ORR_PLAN_FIELDS];
}

uint32_t orr_quantity_named(const char *name, size_t len)
{
    uint32_t i = 0;
    while (i < ORR_QUANTITIES &&
           (strlen(orr_quantity_name(i)) != len || memcmp(orr_quantity_name(i), name, len) != 0))
        i++;
    return i;
}

/* Tokens of a sample where the plan does not say them, as in <orrery/model.h>. */
static double sequence_of(const orr_model *m, const orr_plan *p)
{
    enum { DEFAULT_TOKENS = 8192 };
    return p->seq > 0                                      ? p->seq
           : m->context > 0 && m->context < DEFAULT_TOKENS ? m->context
                                                           : DEFAULT_TOKENS;
}

void orr_quantities(const orr_model *m, const orr_plan *p, uint32_t host, double *ret)
{
    for (uint32_t i = 0; i < ORR_PLAN_FIELDS; i++)
        ret[i] = orr_plan_get(p, i);
    ret[ORR_AT_layers] = m->layers;
    ret[ORR_AT_hidden] = m->hidden;
    ret[ORR_AT_ffn] = m->ffn;
    ret[ORR_AT_heads] = m->heads;
    ret[ORR_AT_vocab] = m->vocab;
    ret[ORR_AT_seq] = sequence_of(m, p);
#define VALUE_(name, value) ret[ORR_QUANTITY_##name] = (double)(value);
    ORR_QUANTITY_MAP(VALUE_)
#undef VALUE_
}

static void list_modules(uint32_t modules, char *ret, size_t room)
{
    size_t len = 0;
    *ret = '\0';
    for (uint32_t i = 0; i < ORR_RECOMPUTE_MODULES && len < room; i++)
        if (modules >> i & 1)
            len += (size_t)snprintf(ret + len, room - len, "%s%s", len > 0 ? " " : "",
                                    orr_recompute_module_name((orr_recompute_module)i));
}

void orr_quantity_text(uint32_t quantity, double value, char *ret, size_t room)
{
    const uint32_t word = value >= 0 && value < UINT32_MAX ? (uint32_t)value : 0;
    const bool choice = quantity >= ORR_PLAN_NUMBERS && quantity < ORR_PLAN_FIELDS;
    if (quantity == ORR_QUANTITY_order)
        snprintf(ret, room, "%s", ORDERS[word]);
    else if (quantity == ORR_QUANTITY_recompute_modules)
        list_modules(word, ret, room);
    else if (choice)
        snprintf(ret, room, "%s", orr_plan_choice_at(quantity - ORR_PLAN_NUMBERS)->words[word]);
    else
        snprintf(ret, room, "%.12g", value);
    char *e = choice || quantity == ORR_QUANTITY_order ? NULL : strstr(ret, "e-");
    if (e != NULL && strchr(ret, '.') == NULL && strlen(ret) + 2 < room) {
        memmove(e + 2, e, strlen(e) + 1); /* YAML 1.1 takes 1e-05 for a word: 1.0e-05 */
        memcpy(e, ".0", 2);
    }
}
