/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/kernel.h>

static const char *const NAMES[ORR_ROW_FORMATS] = {
#define NAME_(name, text) text,
    ORR_ROW_FORMAT_MAP(NAME_)
#undef NAME_
};

const char *orr_row_format_name(orr_row_format format)
{
    return NAMES[format];
}

enum { BLOCK = 32 }; /* numbers of a block of Q8_0 and Q4_0 */

int64_t orr_row_format_bytes(orr_row_format format, int64_t columns)
{
    if (columns < 0 || columns > INT64_MAX / 8)
        return -1;
    switch (format) {
    case ORR_ROW_FORMAT_FP32:
        return 4 * columns;
    case ORR_ROW_FORMAT_FP16:
    case ORR_ROW_FORMAT_BF16:
        return 2 * columns;
    case ORR_ROW_FORMAT_Q8_0:
        return columns % BLOCK == 0 ? columns / BLOCK * (2 + BLOCK) : -1;
    case ORR_ROW_FORMAT_Q4_0:
        return columns % BLOCK == 0 ? columns / BLOCK * (2 + BLOCK / 2) : -1;
    case ORR_ROW_FORMAT_INT8:
        return 4 + columns;
    case ORR_ROW_FORMAT_INT4:
        return 8 + (columns + 1) / 2;
    case ORR_ROW_FORMATS:
        break;
    }
    return -1;
}

void orr_operand_contiguous(const orr_type *type, int64_t *ret_stride)
{
    int64_t stride = 1;
    for (uint32_t d = type->rank; d-- > 0;) {
        ret_stride[d] = stride;
        stride *= type->dim[d];
    }
}

bool orr_operand_is_contiguous(const orr_operand *operand)
{
    int64_t stride = 1;
    for (uint32_t d = operand->type.rank; d-- > 0;) {
        if (operand->type.dim[d] != 1 && operand->stride[d] != stride)
            return false;
        stride *= operand->type.dim[d];
    }
    return true;
}
