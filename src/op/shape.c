/* SPDX-License-Identifier: Apache-2.0 */
#include "op/shape.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "op/rules.h"

/* Appends formatted text to `buffer`; what does not fit is cut. */
static size_t append(char *buffer, size_t room, size_t used, const char *format, ...)
    ORR_PRINTF(4, 5);
static size_t append(char *buffer, size_t room, size_t used, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const int n = vsnprintf(buffer + used, room - used, format, list);
    va_end(list);
    const size_t end = used + (n > 0 ? (size_t)n : 0);
    return end < room ? end : room - 1;
}

const char *orr_type_text(const orr_type *type, char buffer[ORR_TYPE_TEXT])
{
    size_t used = append(buffer, ORR_TYPE_TEXT, 0, "(");
    for (uint32_t d = 0; d < type->rank && d < ORR_TYPE_DIMS; d++)
        used = append(buffer, ORR_TYPE_TEXT, used, "%s%" PRId64, d > 0 ? ", " : "", type->dim[d]);
    append(buffer, ORR_TYPE_TEXT, used, ")");
    return buffer;
}

/* The next name in "x (..., M, K), w (K, N) or (..., K, N)": a word outside of parentheses other
 * than "or". NULL: no more. */
static const char *next_name(const char *at, int *ret_length)
{
    int depth = 0;
    for (; *at != '\0'; at++) {
        depth += (*at == '(') - (*at == ')');
        if (depth == 0 && (isalpha((unsigned char)*at) || *at == '_')) {
            int n = 1;
            while (isalnum((unsigned char)at[n]) || at[n] == '_')
                n++;
            *ret_length = n;
            if (n != 2 || strncmp(at, "or", 2) != 0)
                return at;
            at++;
        }
    }
    return NULL;
}

orr_status orr_op_shape_error(const orr_op_signature *sig, orr_error *err, const char *format, ...)
{
    const orr_op_row *row = orr_op_of(sig->op);
    char text[sizeof err->text], dims[ORR_TYPE_TEXT];
    size_t used = append(text, sizeof text, 0, "%s: ", row->name);
    const char *name = row->takes;
    for (uint32_t k = 0; k < sig->n_in; k++) {
        int length = 0;
        name = name != NULL ? next_name(name, &length) : NULL;
        const char *joint = k == 0 ? "" : k + 1 < sig->n_in ? ", " : " and ";
        used =
            append(text, sizeof text, used, "%s%.*s%s%s", joint, length, name != NULL ? name : "",
                   length > 0 ? " " : "", orr_type_text(&sig->in[k], dims));
        name = name != NULL ? name + length : NULL;
    }
    used = append(text, sizeof text, used, "%s", sig->n_in > 0 ? ": " : "");
    va_list list;
    va_start(list, format);
    vsnprintf(text + used, sizeof text - used, format, list);
    va_end(list);
    return orr_fail(err, ORR_INVALID, "%s", text);
}

bool orr_type_same_dims(const orr_type *a, const orr_type *b)
{
    return a->rank == b->rank && memcmp(a->dim, b->dim, a->rank * sizeof a->dim[0]) == 0;
}

int64_t orr_type_span(const orr_type *type, uint32_t first, uint32_t end)
{
    int64_t product = 1;
    for (uint32_t d = first; d < end; d++)
        product *= type->dim[d];
    return product;
}

orr_type orr_type_with(const orr_type *type, orr_dtype dtype)
{
    orr_type made = *type;
    made.dtype = (uint8_t)dtype;
    return made;
}

orr_type orr_type_of(orr_dtype dtype, uint32_t rank, const int64_t *dims)
{
    orr_type made = {.dtype = (uint8_t)dtype, .rank = (uint8_t)rank};
    for (uint32_t d = 0; d < rank && d < ORR_TYPE_DIMS; d++)
        made.dim[d] = dims[d];
    return made;
}

orr_type orr_type_absent(void)
{
    return (orr_type){.dtype = ORR_DTYPES};
}

orr_dtype orr_dtype_wider(orr_dtype a, orr_dtype b)
{
    return orr_dtype_bytes(b) > orr_dtype_bytes(a) ? b : a;
}

orr_status orr_op_check_same(const orr_op_signature *sig, uint32_t first, orr_error *err)
{
    for (uint32_t k = first; k < sig->n_in; k++)
        if (!orr_type_same_dims(&sig->in[0], &sig->in[k]))
            return orr_op_shape_error(sig, err, "the dims differ");
    return ORR_OK;
}

orr_status orr_op_check_dim(const orr_op_signature *sig, int32_t dim, orr_error *err)
{
    if (dim < 0 || dim >= sig->in[0].rank)
        return orr_op_shape_error(sig, err, "there is no dim %d", dim);
    return ORR_OK;
}

orr_status orr_op_check_rank(const orr_op_signature *sig, uint32_t k, uint32_t least,
                             orr_error *err)
{
    if (sig->in[k].rank < least)
        return orr_op_shape_error(sig, err, "%u dims are needed, there are %u", least,
                                  sig->in[k].rank);
    return ORR_OK;
}

orr_status orr_op_shape_same(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    (void)err;
    ret_out[0] = sig->in[0];
    return ORR_OK;
}
