/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cli/models/hw.h"

/* Sites that somebody named, the cuts between them, and how bytes travel. */

#define COLUMN_AS(row, field, type, name)                                                          \
    {                                                                                              \
        name, ORR_COLUMN_##type, offsetof(row, field)                                              \
    }
#define COLUMN(row, field, type) COLUMN_AS(row, field, type, #field)
#define COUNT(array)             (sizeof(array) / sizeof *(array))

bool orr_hw_has_sites(const orr_cluster *cluster)
{
    return cluster->n_sites > 0 && cluster->sites[0].name[0] != '\0';
}

const char *orr_hw_cut_name(const orr_cluster *cluster, const orr_site_link *cut, orr_arena *arena)
{
    return orr_arena_printf(arena, "%s - %s", cluster->sites[cut->a].name,
                            cluster->sites[cut->b].name);
}

typedef struct site_row {
    const char *cluster, *site, *region, *device;
    uint32_t devices;
    double price_per_hour_usd;
} site_row;

#define C(name, type)         COLUMN(site_row, name, type)
#define AS(field, type, name) COLUMN_AS(site_row, field, type, name)
static const orr_column SITE_COLUMNS[] = {
    C(cluster, TEXT), C(site, TEXT),   C(region, TEXT),
    C(devices, U32),  C(device, TEXT), C(price_per_hour_usd, NUMBER),
};
#undef C
#undef AS

orr_status orr_hw_list_sites(const orr_cluster *const *clusters, size_t n, orr_arena *arena,
                             orr_table *ret, orr_error *err)
{
    site_row *rows = orr_arena_array(arena, site_row, n * ORR_SITES_MAX);
    size_t n_rows = 0;
    if (rows == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < n; i++) {
        for (uint32_t s = 0; s < clusters[i]->n_sites && orr_hw_has_sites(clusters[i]); s++) {
            const orr_site *site = &clusters[i]->sites[s];
            rows[n_rows++] = (site_row){.cluster = clusters[i]->name,
                                        .site = site->name,
                                        .region = site->region[0] != '\0' ? site->region : NULL,
                                        .device = site->device->name,
                                        .devices = site->devices,
                                        .price_per_hour_usd = site->price_per_hour.value};
        }
    }
    *ret = (orr_table){"orrery.hw_sites/1",
                       "sites; prices of a device",
                       SITE_COLUMNS,
                       COUNT(SITE_COLUMNS),
                       rows,
                       sizeof *rows,
                       n_rows};
    return ORR_OK;
}

typedef struct cut_row {
    const char *cluster, *between, *technology, *latency_basis;
    double distance_km, bandwidth_bytes_per_s, oversubscription, whole_bytes_per_s, latency_ns,
        price_per_gb_usd;
} cut_row;

#define C(name, type)         COLUMN(cut_row, name, type)
#define AS(field, type, name) COLUMN_AS(cut_row, field, type, name)
static const orr_column CUT_COLUMNS[] = {
    C(cluster, TEXT),
    C(between, TEXT),
    C(distance_km, NUMBER),
    C(technology, TEXT),
    C(bandwidth_bytes_per_s, BYTES_PER_S),
    C(oversubscription, NUMBER),
    AS(whole_bytes_per_s, BYTES_PER_S, "aggregate_bytes_per_s"),
    C(latency_ns, NS_MEAN),
    C(latency_basis, TEXT),
    C(price_per_gb_usd, NUMBER),
};
#undef C
#undef AS

static cut_row row_of_cut(const orr_cluster *cluster, const orr_site_link *cut, const char *between)
{
    const uint32_t a = cluster->sites[cut->a].devices, b = cluster->sites[cut->b].devices;
    const double bytes_per_s = orr_fact_or(&cut->bytes_per_s, 0);
    return (cut_row){
        .cluster = cluster->name,
        .between = between,
        .technology =
            cut->technology != NULL && cut->technology[0] != '\0' ? cut->technology : NULL,
        .latency_basis = orr_fact_basis_name(cut->latency_ns.basis),
        .distance_km = cut->km.value,
        .bandwidth_bytes_per_s = bytes_per_s,
        .oversubscription = cut->oversubscription.value,
        .whole_bytes_per_s = bytes_per_s * (a < b ? a : b) / orr_fact_or(&cut->oversubscription, 1),
        .latency_ns = cut->latency_ns.value,
        .price_per_gb_usd = cut->price_per_gb.value,
    };
}

orr_status orr_hw_list_cuts(const orr_cluster *const *clusters, size_t n, orr_arena *arena,
                            orr_table *ret, orr_error *err)
{
    cut_row *rows = orr_arena_array(arena, cut_row, n * ORR_SITE_LINKS_MAX);
    size_t n_rows = 0;
    if (rows == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < n; i++) {
        for (uint32_t c = 0; c < clusters[i]->n_cuts && orr_hw_has_sites(clusters[i]); c++) {
            const orr_site_link *cut = &clusters[i]->cuts[c];
            const char *between = orr_hw_cut_name(clusters[i], cut, arena);
            if (between == NULL)
                return orr_fail_memory(err);
            rows[n_rows++] = row_of_cut(clusters[i], cut, between);
        }
    }
    *ret = (orr_table){"orrery.hw_cuts/1",
                       "cuts between sites; bandwidth one way, per device of the smaller site, and "
                       "of the whole cut",
                       CUT_COLUMNS,
                       COUNT(CUT_COLUMNS),
                       rows,
                       sizeof *rows,
                       n_rows};
    return ORR_OK;
}

typedef struct wire_row {
    const char *cluster, *where, *balance, *congestion, *buffers;
    double queue_pairs, outstanding, paths, failed, loss_frac;
    int64_t segment_bytes;
} wire_row;

#define C(name, type)         COLUMN(wire_row, name, type)
#define AS(field, type, name) COLUMN_AS(wire_row, field, type, name)
static const orr_column WIRE_COLUMNS[] = {
    C(cluster, TEXT),        AS(where, TEXT, "level"), AS(balance, TEXT, "load_balancing"),
    C(congestion, TEXT),     C(buffers, TEXT),         C(paths, NUMBER),
    C(failed, NUMBER),       C(queue_pairs, NUMBER),   C(outstanding, NUMBER),
    C(segment_bytes, BYTES), C(loss_frac, NUMBER),
};
#undef C
#undef AS

/* What nobody said is an empty cell. */
static double or_nan(double value)
{
    return value > 0 ? value : NAN;
}

static wire_row row_of_wire(const char *cluster, const char *where,
                            const orr_rdma_transport *transport)
{
    return (wire_row){
        .cluster = cluster,
        .where = where,
        .balance = transport->balance ? orr_balance_name(transport->balance) : NULL,
        .congestion = transport->congestion ? orr_congestion_name(transport->congestion) : NULL,
        .buffers = transport->buffers ? orr_buffers_name(transport->buffers) : NULL,
        .paths = or_nan(transport->paths),
        .failed = or_nan(transport->failed),
        .queue_pairs = or_nan(transport->queue_pairs),
        .outstanding = or_nan(transport->outstanding),
        .segment_bytes = transport->segment_bytes > 0 ? (int64_t)transport->segment_bytes : -1,
        .loss_frac = or_nan(transport->loss_frac),
    };
}

orr_status orr_hw_list_transports(const orr_cluster *const *clusters, size_t n, orr_arena *arena,
                                  orr_table *ret, orr_error *err)
{
    wire_row *rows = orr_arena_array(arena, wire_row, n * (ORR_LEVELS_MAX + ORR_SITE_LINKS_MAX));
    size_t n_rows = 0;
    if (rows == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < n; i++) {
        const orr_cluster *c = clusters[i];
        const bool sites = orr_hw_has_sites(c);
        for (uint32_t l = 0; l < (sites ? c->site_level + 1 : c->n_levels); l++)
            if (c->levels[l].transport != NULL)
                rows[n_rows++] = row_of_wire(c->name, c->levels[l].name, c->levels[l].transport);
        for (uint32_t k = 0; sites && k < c->n_cuts; k++) {
            const char *where = orr_hw_cut_name(c, &c->cuts[k], arena);
            if (where == NULL)
                return orr_fail_memory(err);
            if (c->cuts[k].transport != NULL)
                rows[n_rows++] = row_of_wire(c->name, where, c->cuts[k].transport);
        }
    }
    *ret = (orr_table){"orrery.hw_transport/1",
                       "how bytes travel; what is empty loses nothing",
                       WIRE_COLUMNS,
                       COUNT(WIRE_COLUMNS),
                       rows,
                       sizeof *rows,
                       n_rows};
    return ORR_OK;
}
