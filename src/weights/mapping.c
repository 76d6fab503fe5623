/* SPDX-License-Identifier: Apache-2.0 */
#include "weights/mapping.h"

#include <string.h>

void orr_weight_mapping_begin(orr_weight_mapping *mapping, orr_weight_mapping_kind kind,
                              int64_t matrices, int64_t rows, int64_t columns)
{
    mapping->kind = (uint8_t)kind;
    mapping->matrices = matrices;
    mapping->rows = rows;
    mapping->columns = columns;
}

/* Room for one more element in the arena; the old array is abandoned. */
static void *grow(orr_weight_mapping *mapping, void *old, uint32_t n, uint32_t *room, size_t bytes)
{
    if (n < *room)
        return old;
    const uint32_t more = *room == 0 ? 8 : 2 * *room;
    void *at = orr_arena_alloc(mapping->arena, more, bytes, 16);
    if (at == NULL) {
        mapping->failed = true;
        return NULL;
    }
    if (n > 0)
        memcpy(at, old, n * bytes);
    *room = more;
    return at;
}

static void set_dims(const orr_weight_mapping *mapping, orr_weight_mapping_tensor *t,
                     int64_t matrices)
{
    if (matrices > 0)
        t->dim[t->rank++] = matrices;
    if (mapping->kind == ORR_WEIGHT_MAPPING_VECTOR) {
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
static void hold_against_weights(orr_weight_mapping *mapping, const orr_weight_mapping_tensor *t)
{
    if (mapping->weights != NULL)
        mapping->incomplete |=
            !orr_weight_mapping_matches(t, orr_weights_find(mapping->weights, t->name));
}

uint32_t orr_weight_mapping_add_tensor(orr_weight_mapping *mapping, const char *name,
                                       int64_t matrices, int64_t rows, bool input_major)
{
    if (mapping->incomplete)
        return 0;
    orr_weight_mapping_tensor *list = mapping->failed || name == NULL
                                          ? NULL
                                          : grow(mapping, mapping->tensors, mapping->n_tensors,
                                                 &mapping->room_tensors, sizeof *mapping->tensors);
    if (list == NULL) {
        mapping->failed = true;
        return 0;
    }
    mapping->tensors = list;
    orr_weight_mapping_tensor *t = &list[mapping->n_tensors];
    *t = (orr_weight_mapping_tensor){.name = name,
                                     .rows = rows,
                                     .columns = mapping->columns,
                                     .input_major =
                                         input_major && mapping->kind != ORR_WEIGHT_MAPPING_VECTOR};
    set_dims(mapping, t, matrices);
    hold_against_weights(mapping, t);
    return mapping->n_tensors++;
}

void orr_weight_mapping_add_rows(orr_weight_mapping *mapping, uint32_t tensor, int64_t matrix,
                                 int64_t from, int64_t count)
{
    orr_weight_mapping_rows *list = mapping->failed || mapping->incomplete
                                        ? NULL
                                        : grow(mapping, mapping->ranges, mapping->n_ranges,
                                               &mapping->room_ranges, sizeof *mapping->ranges);
    if (list == NULL)
        return;
    mapping->ranges = list;
    list[mapping->n_ranges++] = (orr_weight_mapping_rows){tensor, matrix, from, count};
}
