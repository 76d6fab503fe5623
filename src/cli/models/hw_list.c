/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "cli/models/hw.h"

#define COLUMN_AS(row, field, type, name)                                                          \
    {                                                                                              \
        name, ORR_COLUMN_##type, offsetof(row, field)                                              \
    }
#define COLUMN(row, field, type) COLUMN_AS(row, field, type, #field)
#define COUNT(array)             (sizeof(array) / sizeof *(array))

typedef struct device_row {
    const char *name, *vendor, *kind;
    int64_t memory_bytes;
    double memory_bandwidth_bytes_per_s, fp32_tflops, half_tflops, fp8_tflops, matmul_bf16_tflops,
        scale_up_bytes_per_s, nic_bytes_per_s, power_w, price_per_hour_usd;
} device_row;

#define C(name, type)         COLUMN(device_row, name, type)
#define AS(field, type, name) COLUMN_AS(device_row, field, type, name)
static const orr_column DEVICE_COLUMNS[] = {
    C(name, TEXT),
    C(vendor, TEXT),
    C(kind, TEXT),
    C(memory_bytes, BYTES),
    C(memory_bandwidth_bytes_per_s, BYTES_PER_S),
    C(fp32_tflops, NUMBER),
    AS(half_tflops, NUMBER, "fp16_tflops"),
    C(fp8_tflops, NUMBER),
    C(matmul_bf16_tflops, NUMBER),
    C(scale_up_bytes_per_s, BYTES_PER_S),
    C(nic_bytes_per_s, BYTES_PER_S),
    C(power_w, NUMBER),
    C(price_per_hour_usd, NUMBER),
};
#undef C
#undef AS

static int64_t bytes_of(const orr_fact *fact)
{
    return isnan(fact->value) ? -1 : (int64_t)fact->value;
}

/* What stands for "not known" in a column of bytes a second is 0. */
static double rate_of(const orr_fact *fact)
{
    return orr_fact_or(fact, 0);
}

static double tflops_of(const orr_fact *fact)
{
    return fact->value / 1e12;
}

/* BF16, and of devices without it FP16: the same units do both. */
static double half_tflops(const orr_device *device)
{
    const orr_fact *bf16 = &device->peak_flops[ORR_DTYPE_BF16];
    return tflops_of(isnan(bf16->value) ? &device->peak_flops[ORR_DTYPE_FP16] : bf16);
}

static device_row row_of_device(const orr_device *device)
{
    return (device_row){
        .name = device->name,
        .vendor = device->vendor,
        .kind = device->kind,
        .memory_bytes = bytes_of(&device->memory_bytes),
        .memory_bandwidth_bytes_per_s = rate_of(&device->memory_bytes_per_s),
        .fp32_tflops = tflops_of(&device->peak_flops[ORR_DTYPE_FP32]),
        .half_tflops = half_tflops(device),
        .fp8_tflops = tflops_of(&device->peak_flops[ORR_DTYPE_FP8]),
        .matmul_bf16_tflops = tflops_of(&device->matmul_flops[ORR_DTYPE_BF16]),
        .scale_up_bytes_per_s = rate_of(&device->scale_up_bytes_per_s),
        .nic_bytes_per_s = rate_of(&device->nic_bytes_per_s),
        .power_w = device->power_w.value,
        .price_per_hour_usd = device->price_per_hour.value,
    };
}

orr_status orr_hw_list_devices(const orr_catalog *catalog, orr_arena *arena, orr_table *ret,
                               orr_error *err)
{
    device_row *rows = orr_arena_array(arena, device_row, catalog->n_devices);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < catalog->n_devices; i++)
        rows[i] = row_of_device(catalog->devices[i]);
    *ret = (orr_table){"orrery.hw_devices/1",
                       "devices: dense peaks; half is bf16, or fp16 where there is no bf16",
                       DEVICE_COLUMNS,
                       COUNT(DEVICE_COLUMNS),
                       rows,
                       sizeof *rows,
                       catalog->n_devices};
    return ORR_OK;
}

typedef struct link_row {
    const char *name, *kind, *reach;
    double bandwidth_bytes_per_s, latency_ns, latency_per_km_ns;
    const char *latency_basis;
} link_row;

#define C(name, type)         COLUMN(link_row, name, type)
#define AS(field, type, name) COLUMN_AS(link_row, field, type, name)
static const orr_column LINK_COLUMNS[] = {
    C(name, TEXT),          C(kind, TEXT),          C(bandwidth_bytes_per_s, BYTES_PER_S),
    C(latency_ns, NS_MEAN), C(latency_basis, TEXT), C(latency_per_km_ns, NS_MEAN),
    C(reach, TEXT),
};
#undef C
#undef AS

/* NULL, so that the cell is empty, where nothing is known. */
static const char *basis_of(const orr_fact *fact)
{
    return fact->basis == ORR_FACT_UNKNOWN ? NULL : orr_fact_basis_name(fact->basis);
}

orr_status orr_hw_list_links(const orr_catalog *catalog, orr_arena *arena, orr_table *ret,
                             orr_error *err)
{
    link_row *rows = orr_arena_array(arena, link_row, catalog->n_links);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < catalog->n_links; i++) {
        const orr_link *link = catalog->links[i];
        rows[i] = (link_row){link->name,
                             link->kind,
                             link->reach,
                             rate_of(&link->bytes_per_s),
                             link->latency_ns.value,
                             link->latency_ns_per_km.value,
                             basis_of(&link->latency_ns)};
    }
    *ret = (orr_table){"orrery.hw_links/1",
                       "links: one way, for one endpoint",
                       LINK_COLUMNS,
                       COUNT(LINK_COLUMNS),
                       rows,
                       sizeof *rows,
                       catalog->n_links};
    return ORR_OK;
}

typedef struct tier_row {
    const char *name, *kind;
    double read_latency_ns, write_latency_ns, read_bytes_per_s, write_bytes_per_s, read_iops,
        write_iops, endurance_dwpd, power_w;
} tier_row;

#define C(name, type)         COLUMN(tier_row, name, type)
#define AS(field, type, name) COLUMN_AS(tier_row, field, type, name)
static const orr_column TIER_COLUMNS[] = {
    C(name, TEXT),
    C(kind, TEXT),
    C(read_latency_ns, NS_MEAN),
    C(write_latency_ns, NS_MEAN),
    C(read_bytes_per_s, BYTES_PER_S),
    C(write_bytes_per_s, BYTES_PER_S),
    C(read_iops, NUMBER),
    C(write_iops, NUMBER),
    C(endurance_dwpd, NUMBER),
    C(power_w, NUMBER),
};
#undef C
#undef AS

orr_status orr_hw_list_memory(const orr_catalog *catalog, orr_arena *arena, orr_table *ret,
                              orr_error *err)
{
    tier_row *rows = orr_arena_array(arena, tier_row, catalog->n_tiers);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < catalog->n_tiers; i++) {
        const orr_memory_tier *tier = catalog->tiers[i];
        rows[i] = (tier_row){tier->name,
                             tier->kind,
                             tier->read_latency_ns.value,
                             tier->write_latency_ns.value,
                             rate_of(&tier->read_bytes_per_s),
                             rate_of(&tier->write_bytes_per_s),
                             tier->read_iops_4k.value,
                             tier->write_iops_4k.value,
                             tier->endurance_dwpd.value,
                             tier->power_w.value};
    }
    *ret = (orr_table){"orrery.hw_memory/1",
                       "memory and storage: one module or drive",
                       TIER_COLUMNS,
                       COUNT(TIER_COLUMNS),
                       rows,
                       sizeof *rows,
                       catalog->n_tiers};
    return ORR_OK;
}

typedef struct cluster_row {
    const char *name, *device, *levels, *outermost;
    uint32_t devices;
    double bandwidth_bytes_per_s, latency_ns, oversubscription;
} cluster_row;

#define C(name, type)         COLUMN(cluster_row, name, type)
#define AS(field, type, name) COLUMN_AS(cluster_row, field, type, name)
static const orr_column CLUSTER_COLUMNS[] = {
    C(name, TEXT),          C(devices, U32),
    C(device, TEXT),        C(levels, TEXT),
    C(outermost, TEXT),     C(bandwidth_bytes_per_s, BYTES_PER_S),
    C(latency_ns, NS_MEAN), C(oversubscription, NUMBER),
};
#undef C
#undef AS

/* "host 8 x rack 2 x pod 192"; where sites are not alike "building 14 + 10 + 8 x region 3". NULL:
 * out of memory. */
static const char *levels_of(const orr_cluster *cluster, orr_arena *arena)
{
    const char *text = "";
    for (uint32_t l = 0; l < cluster->n_levels && text != NULL; l++) {
        const orr_level *level = &cluster->levels[l];
        const uint32_t below = l > 0 ? cluster->levels[l - 1].devices : 1;
        text = orr_arena_printf(arena, "%s%s%s", text, l > 0 ? " x " : "", level->name);
        if (l != cluster->site_level || level->ends == NULL) {
            text = text == NULL ? NULL : orr_arena_printf(arena, "%s %u", text, level->size);
            continue;
        }
        for (uint32_t s = 0; s < cluster->n_sites && text != NULL; s++)
            text = orr_arena_printf(arena, "%s%s%u", text, s > 0 ? " + " : " ",
                                    (cluster->sites[s].devices - 1) / below + 1);
    }
    return text;
}

/* That of each site where they are not all the same. NULL: out of memory. */
static const char *devices_of(const orr_cluster *cluster, orr_arena *arena)
{
    const char *text = cluster->device->name;
    for (uint32_t s = 0; s < cluster->n_sites && text != NULL; s++) {
        bool said = cluster->sites[s].device == cluster->device;
        for (uint32_t i = 0; i < s; i++)
            said |= cluster->sites[i].device == cluster->sites[s].device;
        if (!said)
            text = orr_arena_printf(arena, "%s, %s", text, cluster->sites[s].device->name);
    }
    return text;
}

orr_status orr_hw_list_clusters(const orr_catalog *catalog, orr_arena *arena, orr_table *ret,
                                orr_error *err)
{
    cluster_row *rows = orr_arena_array(arena, cluster_row, catalog->n_clusters);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < catalog->n_clusters; i++) {
        const orr_cluster *cluster = catalog->clusters[i];
        const orr_level *outer = &cluster->levels[cluster->n_levels - 1];
        rows[i] = (cluster_row){
            cluster->name,           devices_of(cluster, arena),   levels_of(cluster, arena),
            outer->technology,       cluster->n_devices,           rate_of(&outer->bytes_per_s),
            outer->latency_ns.value, outer->oversubscription.value};
        if (rows[i].device == NULL || rows[i].levels == NULL)
            return orr_fail_memory(err);
    }
    *ret = (orr_table){"orrery.hw_clusters/1",
                       "clusters, with their outermost level",
                       CLUSTER_COLUMNS,
                       COUNT(CLUSTER_COLUMNS),
                       rows,
                       sizeof *rows,
                       catalog->n_clusters};
    return ORR_OK;
}

typedef struct level_row {
    const char *cluster, *level, *topology, *technology;
    uint32_t size, devices;
    double bandwidth_bytes_per_s, latency_ns, oversubscription;
    const char *latency_basis;
    bool in_network_reduction;
} level_row;

#define C(name, type)         COLUMN(level_row, name, type)
#define AS(field, type, name) COLUMN_AS(level_row, field, type, name)
static const orr_column LEVEL_COLUMNS[] = {
    C(cluster, TEXT),
    C(level, TEXT),
    C(size, U32),
    C(devices, U32),
    C(topology, TEXT),
    C(technology, TEXT),
    C(bandwidth_bytes_per_s, BYTES_PER_S),
    C(latency_ns, NS_MEAN),
    C(latency_basis, TEXT),
    C(oversubscription, NUMBER),
    C(in_network_reduction, BOOL),
};
#undef C
#undef AS

static level_row row_of_level(const orr_cluster *cluster, const orr_level *level)
{
    return (level_row){
        .cluster = cluster->name,
        .level = level->name,
        .topology = orr_topology_name(level->topology),
        .technology = level->technology,
        .size = level->size,
        .devices = level->devices,
        .bandwidth_bytes_per_s = rate_of(&level->bytes_per_s),
        .latency_ns = level->latency_ns.value,
        .oversubscription = level->oversubscription.value,
        .latency_basis = basis_of(&level->latency_ns),
        .in_network_reduction = level->in_network_reduction,
    };
}

orr_status orr_hw_list_levels(const orr_cluster *const *clusters, size_t n, orr_arena *arena,
                              orr_table *ret, orr_error *err)
{
    level_row *rows = orr_arena_array(arena, level_row, n * ORR_LEVELS_MAX);
    size_t n_rows = 0;
    if (rows == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < n; i++)
        for (uint32_t l = 0; l < clusters[i]->n_levels; l++)
            rows[n_rows++] = row_of_level(clusters[i], &clusters[i]->levels[l]);
    *ret = (orr_table){"orrery.hw_levels/1",
                       "levels, from the inside out; bandwidth one way, per device",
                       LEVEL_COLUMNS,
                       COUNT(LEVEL_COLUMNS),
                       rows,
                       sizeof *rows,
                       n_rows};
    return ORR_OK;
}

typedef struct host_tier_row {
    const char *cluster, *memory, *kind;
    uint32_t count;
    int64_t capacity_bytes; /* -1: unknown */
} host_tier_row;

static const orr_column HOST_TIER_COLUMNS[] = {
    COLUMN(host_tier_row, cluster, TEXT),
    COLUMN(host_tier_row, memory, TEXT),
    COLUMN(host_tier_row, kind, TEXT),
    COLUMN(host_tier_row, count, U32),
    COLUMN(host_tier_row, capacity_bytes, BYTES),
};

/* Of hosts that say how many of each they have. */
orr_status orr_hw_list_host_tiers(const orr_cluster *const *clusters, size_t n, orr_arena *arena,
                                  orr_table *ret, orr_error *err)
{
    size_t most = 0, n_rows = 0;
    for (size_t i = 0; i < n; i++)
        most += clusters[i]->n_tiers;
    host_tier_row *rows = orr_arena_array(arena, host_tier_row, most);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < n; i++)
        for (uint32_t t = 0; t < clusters[i]->n_tiers; t++) {
            const orr_memory_tier *tier = clusters[i]->tiers[t];
            const uint32_t count = clusters[i]->tier_counts[t];
            if (count > 0)
                rows[n_rows++] = (host_tier_row){
                    clusters[i]->name, tier->name, tier->kind, count,
                    (int64_t)fmax(-1, count * orr_fact_or(&tier->capacity_bytes, -1))};
        }
    *ret = (orr_table){"orrery.hw_host_tiers/1",
                       "memory and drives of a host",
                       HOST_TIER_COLUMNS,
                       COUNT(HOST_TIER_COLUMNS),
                       rows,
                       sizeof *rows,
                       n_rows};
    return ORR_OK;
}
