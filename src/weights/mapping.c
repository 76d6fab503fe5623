/* SPDX-License-Identifier: Apache-2.0 */
#include "weights/mapping.h"

#include <string.h>

void orr_weight_mapping_begin(orr_weight_mapping *recipe, orr_weight_mapping_kind kind,
                              int64_t matrices, int64_t rows, int64_t columns)
{
    recipe->kind = (uint8_t)kind;
    recipe->matrices = matrices;
    recipe->rows = rows;
    recipe->columns = columns;
}

/* Room for one more element in the arena; the old array is abandoned. */
static void *grow(orr_weight_mapping *recipe, void *old, uint32_t n, uint32_t *room, size_t bytes)
{
    if (n < *room)
        return old;
    const uint32_t more = *room == 0 ? 8 : 2 * *room;
    void *at = orr_arena_alloc(recipe->arena, more, bytes, 16);
    if (at == NULL) {
        recipe->failed = true;
        return NULL;
    }
    if (n > 0)
        memcpy(at, old, n * bytes);
    *room = more;
    return at;
}

static void set_dims(const orr_weight_mapping *recipe, orr_weight_mapping_tensor *t,
                     int64_t matrices)
{
    if (matrices > 0)
        t->dim[t->rank++] = matrices;
    if (recipe->kind == ORR_WEIGHT_MAPPING_VECTOR) {
        t->dim[t->rank++] = t->rows;
        return;
    }
    t->dim[t->rank++] = t->input_major ? t->columns : t->rows;
    t->dim[t->rank++] = t->input_major ? t->rows : t->columns;
}

bool orr_weight_mapping_matches(const orr_weight_mapping_tensor *tensor, const orr_weight *weight)
{
    return weight != NULL && tensor->rank == weight->rank &&
           memcmp(tensor->dim, weight->dim, tensor->rank * sizeof *tensor->dim) == 0;
}

/* Metadata of a model may be wrong: nothing as large as they claim is allocated before the tensors
 * agree. */
static void hold_against_weights(orr_weight_mapping *recipe, const orr_weight_mapping_tensor *t)
{
    if (recipe->weights != NULL)
        recipe->incomplete |=
            !orr_weight_mapping_matches(t, orr_weights_find(recipe->weights, t->name));
}

uint32_t orr_weight_mapping_add_tensor(orr_weight_mapping *recipe, const char *name,
                                       int64_t matrices, int64_t rows, bool input_major)
{
    if (recipe->incomplete)
        return 0;
    orr_weight_mapping_tensor *list = recipe->failed || name == NULL
                                          ? NULL
                                          : grow(recipe, recipe->tensors, recipe->n_tensors,
                                                 &recipe->room_tensors, sizeof *recipe->tensors);
    if (list == NULL) {
        recipe->failed = true;
        return 0;
    }
    recipe->tensors = list;
    orr_weight_mapping_tensor *t = &list[recipe->n_tensors];
    *t = (orr_weight_mapping_tensor){.name = name,
                                     .rows = rows,
                                     .columns = recipe->columns,
                                     .input_major =
                                         input_major && recipe->kind != ORR_WEIGHT_MAPPING_VECTOR};
    set_dims(recipe, t, matrices);
    hold_against_weights(recipe, t);
    return recipe->n_tensors++;
}

void orr_weight_mapping_add_rows(orr_weight_mapping *recipe, uint32_t tensor, int64_t matrix,
                                 int64_t from, int64_t count)
{
    orr_weight_mapping_rows *list = recipe->failed || recipe->incomplete
                                        ? NULL
                                        : grow(recipe, recipe->portions, recipe->n_portions,
                                               &recipe->room_portions, sizeof *recipe->portions);
    if (list == NULL)
        return;
    recipe->portions = list;
    list[recipe->n_portions++] = (orr_weight_mapping_rows){tensor, matrix, from, count};
}
