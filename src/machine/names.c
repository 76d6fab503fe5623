/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include <orrery/machine.h>

static const char *const FACT_BASES[] = {
#define NAME_(name, text) [ORR_FACT_##name] = text,
    ORR_FACT_BASIS_MAP(NAME_)
#undef NAME_
};

static const char *const TOPOLOGIES[] = {
#define NAME_(name, text) [ORR_TOPOLOGY_##name] = text,
    ORR_TOPOLOGY_MAP(NAME_)
#undef NAME_
};

static const char *const BALANCES[] = {
#define NAME_(name, text) [ORR_BALANCE_##name] = text,
    ORR_BALANCE_MAP(NAME_)
#undef NAME_
};

static const char *const CONGESTIONS[] = {
#define NAME_(name, text) [ORR_CONGESTION_##name] = text,
    ORR_CONGESTION_MAP(NAME_)
#undef NAME_
};

static const char *const BUFFERS[] = {
#define NAME_(name, text) [ORR_BUFFERS_##name] = text,
    ORR_BUFFERS_MAP(NAME_)
#undef NAME_
};

const char *orr_balance_name(orr_balance balance)
{
    return BALANCES[balance];
}

const char *orr_congestion_name(orr_congestion congestion)
{
    return CONGESTIONS[congestion];
}

const char *orr_buffers_name(orr_buffers buffers)
{
    return BUFFERS[buffers];
}

const char *orr_topology_name(orr_topology topology)
{
    return TOPOLOGIES[topology];
}

const char *orr_fact_basis_name(orr_fact_basis basis)
{
    return FACT_BASES[basis];
}

double orr_fact_or(const orr_fact *fact, double otherwise)
{
    return fact->basis == ORR_FACT_UNKNOWN || isnan(fact->value) ? otherwise : fact->value;
}
