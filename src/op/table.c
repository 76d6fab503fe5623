/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "op/rules.h"

static const orr_op_row *const ROWS[ORR_OPS] = {
#define ROW_(op, text, family) [ORR_OP_##op] = &orr_row_##op,
    ORR_OP_MAP(ROW_)
#undef ROW_
};

static const char *const FAMILIES[ORR_OP_FAMILIES] = {
#define NAME_(name, text) [ORR_OP_FAMILY_##name] = text,
    ORR_OP_FAMILY_MAP(NAME_)
#undef NAME_
};

static const char *const PASSES[ORR_PASSES] = {
#define NAME_(name, text) [ORR_PASS_##name] = text,
    ORR_PASS_MAP(NAME_)
#undef NAME_
};

const char *orr_op_family_name(orr_op_family family)
{
    return FAMILIES[family];
}

const char *orr_pass_name(orr_pass pass)
{
    return PASSES[pass];
}

const orr_op_row *orr_op_of(orr_op op)
{
    return ROWS[op];
}

const orr_op_row *orr_op_find(const char *name)
{
    for (int op = 0; op < ORR_OPS; op++)
        if (strcmp(ROWS[op]->name, name) == 0)
            return ROWS[op];
    return NULL;
}

static bool is_named(const orr_op_row *row, const char *name)
{
    for (const char *const *at = row->pytorch; at != NULL && *at != NULL; at++)
        if (strcmp(*at, name) == 0)
            return true;
    return false;
}

const orr_op_row *orr_op_find_pytorch(const char *name)
{
    for (int op = 0; op < ORR_OPS; op++)
        if (is_named(ROWS[op], name))
            return ROWS[op];
    return NULL;
}
