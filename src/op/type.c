/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/op.h>

int64_t orr_type_elements(const orr_type *type)
{
    int64_t product = 1;
    for (uint32_t d = 0; d < type->rank; d++)
        if (type->dim[d] < 0 || __builtin_mul_overflow(product, type->dim[d], &product))
            return -1;
    return product;
}

int64_t orr_type_bytes(const orr_type *type)
{
    const int64_t elements = orr_type_elements(type);
    const double each = orr_dtype_bytes((orr_dtype)type->dtype);
    int64_t bytes;
    if (elements < 0)
        return -1;
    if (each < 1) /* two to a byte */
        return elements / 2 + elements % 2;
    return __builtin_mul_overflow(elements, (int64_t)each, &bytes) ? -1 : bytes;
}
