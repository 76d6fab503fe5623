/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/dtype.h>

static const struct {
    const char *name;
    double bytes;
} DTYPES[] = {
#define NAME_(name, text, bytes) [ORR_DTYPE_##name] = {text, bytes},
    ORR_DTYPE_MAP(NAME_)
#undef NAME_
};

const char *orr_dtype_name(orr_dtype dtype)
{
    return DTYPES[dtype].name;
}

double orr_dtype_bytes(orr_dtype dtype)
{
    return DTYPES[dtype].bytes;
}
