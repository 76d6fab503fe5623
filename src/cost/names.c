/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/cost.h>

static const char *const BASES[] = {
#define NAME_(name, text) [ORR_BASIS_##name] = text,
    ORR_BASIS_MAP(NAME_)
#undef NAME_
};

static const char *const FAMILIES[] = {
#define NAME_(name, text) [ORR_FAMILY_##name] = text,
    ORR_FAMILY_MAP(NAME_)
#undef NAME_
};

static const char *const ALGORITHMS[] = {
#define NAME_(name, text) [ORR_ALGORITHM_##name] = text,
    ORR_ALGORITHM_MAP(NAME_)
#undef NAME_
};

static const char *const TRANSFER_BASES[] = {
#define NAME_(name, text) [ORR_TRANSFER_##name] = text,
    ORR_TRANSFER_BASIS_MAP(NAME_)
#undef NAME_
};

const char *orr_transfer_basis_name(orr_transfer_basis basis)
{
    return TRANSFER_BASES[basis];
}

const char *orr_basis_name(orr_basis basis)
{
    return BASES[basis];
}

const char *orr_kernel_family_name(orr_kernel_family family)
{
    return FAMILIES[family];
}

const char *orr_algorithm_name(orr_algorithm algorithm)
{
    return ALGORITHMS[algorithm];
}
