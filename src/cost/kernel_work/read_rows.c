/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/kernel_work/work.h"

/* Readers of arguments: embeddings, row-wise and elementwise operators. */

static void take_dtype(const orr_argument *a, orr_work *work)
{
    work->dtype = a->typed ? a->dtype : ORR_DTYPE_FP32;
}

static double bytes_of(const orr_argument *a, uint8_t otherwise)
{
    return (double)a->elements *
           orr_dtype_bytes(a->typed ? (orr_dtype)a->dtype : (orr_dtype)otherwise);
}

static int64_t columns_of(const orr_argument *a)
{
    return a->n_dims > 0 ? a->dims[a->n_dims - 1] : 1;
}

/* B bags of one row each out of a table (E, D). */
static bool set_rows(const orr_argument *table, int64_t bags, int64_t lookups, orr_work *work)
{
    if (table == NULL || table->n_dims < 1)
        return false;
    const int64_t columns = table->n_dims > 1 ? columns_of(table) : 1;
    if (columns <= 0 || bags <= 0)
        return false;
    take_dtype(table, work);
    ORR_SET_DIMS(work, bags, table->elements / columns, lookups, columns, 1);
    return true;
}

bool orr_read_embedding(const orr_arguments *in, const orr_arguments *out, orr_work *work)
{
    (void)out;
    const orr_argument *indices = orr_tensor_argument(in, 1);
    return indices != NULL && set_rows(orr_tensor_argument(in, 0), indices->elements, 1, work);
}

/* (weight, indices, offsets) */
bool orr_read_embedding_bag(const orr_arguments *in, const orr_arguments *out, orr_work *work)
{
    (void)out;
    const orr_argument *indices = orr_tensor_argument(in, 1), *offsets = orr_tensor_argument(in, 2);
    return indices != NULL && offsets != NULL && offsets->elements > 0 &&
           set_rows(orr_tensor_argument(in, 0), offsets->elements,
                    (indices->elements + offsets->elements - 1) / offsets->elements, work);
}

/* (table, dimension, indices) */
bool orr_read_index_select(const orr_arguments *in, const orr_arguments *out, orr_work *work)
{
    (void)out;
    const orr_argument *indices = orr_tensor_argument(in, 2);
    return indices != NULL && set_rows(orr_tensor_argument(in, 0), indices->elements, 1, work);
}

/* FBGEMM's lookup has a long list of arguments that differs between versions. Its pattern does
 * not: weights first; placements (T), offsets of the tables (T), offsets of the columns (T + 1),
 * sum of the columns; later the indices, followed by their offsets (B * T + 1). */
bool orr_read_split_lookup(const orr_arguments *in, const orr_arguments *out, orr_work *work)
{
    uint32_t at = 0;
    while (at + 3 < in->n &&
           !(in->at[at].elements > 0 && in->at[at].elements == in->at[at + 1].elements &&
             in->at[at].elements + 1 == in->at[at + 2].elements))
        at++;
    if (at + 3 >= in->n)
        return false;
    const int64_t tables = in->at[at].elements;
    int64_t weights = 0, lookups = 0, bags = 0;
    for (uint32_t i = 0; i < at; i++)
        weights += in->at[i].elements;
    for (uint32_t i = at + 4; i < in->n && bags == 0; i++)
        if (in->at[i].elements > tables + 1 && (in->at[i].elements - 1) % tables == 0) {
            bags = (in->at[i].elements - 1) / tables;
            lookups = in->at[i - 1].elements;
        }
    int64_t columns = 0; /* of all tables */
    if (orr_values_ints(in->values, at + 3, &columns, 1) != 1)
        columns = out->n > 0 ? columns_of(&out->at[0]) : 0;
    if (bags <= 0 || columns < tables)
        return false;
    const int64_t pooling = (lookups + bags * tables - 1) / (bags * tables);
    work->dtype = ORR_DTYPE_FP32;
    ORR_SET_DIMS(work, bags, weights / columns, pooling, columns / tables, tables);
    return true;
}

/* Gathering the lower triangle of (B, M, N) is the interaction of DLRM. Any other gather moves
 * what its indices ask for. */
bool orr_read_index(const orr_arguments *in, const orr_arguments *out, orr_work *work)
{
    const orr_argument *a = orr_tensor_argument(in, 0);
    if (a == NULL)
        return false;
    if (a->n_dims == 3 && a->dims[1] == a->dims[2]) {
        take_dtype(a, work);
        ORR_SET_DIMS(work, a->dims[0], a->dims[1], a->dims[2]);
        return true;
    }
    work->family = ORR_FAMILY_OTHER;
    return orr_read_elements(in, out, work);
}

/* (N, C, ...): one row for each channel. */
bool orr_read_channels(const orr_arguments *in, const orr_arguments *out, orr_work *work)
{
    (void)out;
    const orr_argument *a = orr_tensor_argument(in, 0);
    if (a == NULL || a->n_dims < 2 || a->dims[1] <= 0)
        return false;
    take_dtype(a, work);
    ORR_SET_DIMS(work, a->dims[1], a->elements / a->dims[1]);
    return true;
}

static bool set_columns(const orr_argument *a, int64_t columns, orr_work *work)
{
    if (a == NULL || columns <= 0)
        return false;
    take_dtype(a, work);
    ORR_SET_DIMS(work, a->elements / columns, columns);
    return true;
}

bool orr_read_rows(const orr_arguments *in, const orr_arguments *out, orr_work *work)
{
    (void)out;
    const orr_argument *a = orr_tensor_argument(in, 0);
    return a != NULL && set_columns(a, columns_of(a), work);
}

/* (input, normalized_shape, weight, ...) */
bool orr_read_layer_norm(const orr_arguments *in, const orr_arguments *out, orr_work *work)
{
    (void)out;
    const orr_argument *a = orr_tensor_argument(in, 0), *weight = orr_tensor_argument(in, 2);
    return a != NULL && set_columns(a, weight != NULL ? weight->elements : columns_of(a), work);
}

/* (grad_output, input, normalized_shape, mean, rstd, weight, ...) */
bool orr_read_layer_norm_backward(const orr_arguments *in, const orr_arguments *out, orr_work *work)
{
    (void)out;
    const orr_argument *a = orr_tensor_argument(in, 0), *weight = orr_tensor_argument(in, 5);
    return a != NULL && set_columns(a, weight != NULL ? weight->elements : columns_of(a), work);
}

bool orr_read_concat(const orr_arguments *in, const orr_arguments *out, orr_work *work)
{
    (void)out;
    const orr_argument *list = orr_tensor_argument(in, 0);
    if (list == NULL)
        return false;
    take_dtype(list, work);
    ORR_SET_DIMS(work, list->elements);
    return true;
}

/* copy_(to, from); clone(from). */
bool orr_read_copy(const orr_arguments *in, const orr_arguments *out, orr_work *work)
{
    (void)out;
    const orr_argument *to = orr_tensor_argument(in, 0), *from = orr_tensor_argument(in, 1);
    if (to == NULL)
        return false;
    take_dtype(to, work);
    work->copy = ORR_COPY_DTOD;
    work->write_bytes = bytes_of(to, work->dtype);
    work->read_bytes = bytes_of(from != NULL ? from : to, work->dtype);
    ORR_SET_DIMS(work, (int64_t)work->write_bytes);
    return true;
}

bool orr_read_fill(const orr_arguments *in, const orr_arguments *out, orr_work *work)
{
    (void)out;
    const orr_argument *to = orr_tensor_argument(in, 0);
    if (to == NULL)
        return false;
    take_dtype(to, work);
    work->copy = ORR_COPY_DTOD;
    work->write_bytes = bytes_of(to, work->dtype);
    ORR_SET_DIMS(work, (int64_t)work->write_bytes);
    return true;
}

bool orr_read_reduction(const orr_arguments *in, const orr_arguments *out, orr_work *work)
{
    const orr_argument *a = orr_tensor_argument(in, 0);
    const orr_argument *to = orr_tensor_argument(out, 0);
    if (a == NULL)
        return false;
    take_dtype(a, work);
    work->read_bytes = bytes_of(a, work->dtype);
    work->write_bytes = to != NULL ? bytes_of(to, work->dtype) : 0;
    ORR_SET_DIMS(work, a->elements);
    return true;
}

/* Lists of tensors of equal shapes: parameters, gradients, moments. All are read; the parameters
 * are written, and the moments where there are four lists (Adam: two of them). */
bool orr_read_lists(const orr_arguments *in, const orr_arguments *out, orr_work *work)
{
    (void)out;
    const orr_argument *list = orr_tensor_argument(in, 0);
    if (list == NULL)
        return false;
    take_dtype(list, work);
    uint32_t lists = 0;
    for (uint32_t i = 0; i < in->n; i++)
        if (in->at[i].elements == list->elements) {
            work->read_bytes += bytes_of(&in->at[i], work->dtype);
            lists++;
        }
    work->write_bytes = bytes_of(list, work->dtype) * (lists >= 4 ? lists - 1 : 1);
    ORR_SET_DIMS(work, list->elements);
    return true;
}

bool orr_read_elements(const orr_arguments *in, const orr_arguments *out, orr_work *work)
{
    const orr_argument *largest = NULL;
    for (uint32_t i = 0; i < in->n; i++)
        if (in->at[i].n_tensors > 0 && (largest == NULL || in->at[i].elements > largest->elements))
            largest = &in->at[i];
    if (largest == NULL)
        return false;
    take_dtype(largest, work);
    for (uint32_t i = 0; i < in->n; i++)
        work->read_bytes += in->at[i].n_tensors > 0 ? bytes_of(&in->at[i], work->dtype) : 0;
    const orr_argument *to = orr_tensor_argument(out, 0);
    work->write_bytes = bytes_of(to != NULL ? to : largest, work->dtype);
    ORR_SET_DIMS(work, largest->elements);
    return true;
}
