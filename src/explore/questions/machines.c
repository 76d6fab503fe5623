/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "explore/questions/questions.h"
#include "machine/catalog/sites.h"

/* Clusters with one thing changed. Facts that are changed are hypothetical, so that the values of
 * other sources are dropped. */

static const double NS_PER_KM = 5000; /* of light in fibre, as in the catalogue's reader of cuts */

static orr_status copy_cluster(const orr_cluster *from, orr_arena *arena, orr_cluster **ret,
                               orr_level **ret_levels, orr_site **ret_sites,
                               orr_site_link **ret_cuts, orr_error *err)
{
    orr_cluster *to = orr_arena_one(arena, orr_cluster);
    orr_level *levels = orr_arena_array(arena, orr_level, from->n_levels);
    orr_site *sites = orr_arena_array(arena, orr_site, from->n_sites);
    orr_site_link *cuts = orr_arena_array(arena, orr_site_link, from->n_cuts);
    if (to == NULL || levels == NULL || sites == NULL || cuts == NULL)
        return orr_fail_memory(err);
    *to = *from;
    memcpy(levels, from->levels, from->n_levels * sizeof *levels);
    for (uint32_t s = 0; s < from->n_sites; s++)
        sites[s] = from->sites[s];
    for (uint32_t c = 0; c < from->n_cuts; c++)
        cuts[c] = from->cuts[c];
    to->levels = levels;
    to->sites = from->n_sites > 0 ? sites : NULL;
    to->cuts = from->n_cuts > 0 ? cuts : NULL;
    *ret = to;
    *ret_levels = levels;
    *ret_sites = sites;
    *ret_cuts = cuts;
    return ORR_OK;
}

static void set(orr_fact *fact, double value)
{
    if (fact->basis == ORR_FACT_UNKNOWN || fact->value == value)
        return;
    fact->value = value;
    fact->conflict = NULL;
}

/* Levels above sites follow from the cuts. */
static orr_status rebuild_levels(orr_cluster *cluster, orr_arena *arena, orr_error *err)
{
    const uint32_t top = cluster->n_levels - 1, above = cluster->site_level + 1;
    const orr_site_levels levels = {.inner = cluster->levels,
                                    .n_inner = above,
                                    .region = cluster->levels[above < top ? above : top],
                                    .wan = cluster->levels[top]};
    return cluster->n_sites > 1 ? orr_sites_build_levels(cluster, &levels, arena, err) : ORR_OK;
}

/* --- links ----------------------------------------------------------------------------------- */

orr_status orr_machine_with_link(const orr_cluster *cluster, const orr_link_change *change,
                                 orr_arena *arena, const orr_cluster **ret, orr_error *err)
{
    orr_cluster *to;
    orr_level *levels;
    orr_site *sites;
    orr_site_link *cuts;
    ORR_TRY(copy_cluster(cluster, arena, &to, &levels, &sites, &cuts, err));
    for (uint32_t l = 0; change->level && l < to->n_levels; l++) {
        if (l != change->link)
            continue;
        set(&levels[l].bytes_per_s, levels[l].bytes_per_s.value * change->bandwidth);
        set(&levels[l].latency_ns, levels[l].latency_ns.value * change->latency);
    }
    for (uint32_t c = 0; !change->level && c < to->n_cuts; c++) {
        if (change->link != ORR_NONE && c != change->link)
            continue;
        set(&cuts[c].bytes_per_s, cuts[c].bytes_per_s.value * change->bandwidth);
        set(&cuts[c].latency_ns,
            cuts[c].latency_ns.value * change->latency + change->more_km * NS_PER_KM);
        set(&cuts[c].km, cuts[c].km.value + change->more_km);
    }
    if (!change->level)
        ORR_TRY(rebuild_levels(to, arena, err));
    *ret = to;
    return ORR_OK;
}

static double rate_of(const orr_fact *bytes_per_s, const orr_fact *oversubscription)
{
    return orr_fact_or(bytes_per_s, NAN) / orr_fact_or(oversubscription, 1);
}

double orr_machine_bandwidth(const orr_cluster *cluster, bool level, uint32_t link)
{
    double least = INFINITY;
    if (level)
        return rate_of(&cluster->levels[link].bytes_per_s, &cluster->levels[link].oversubscription);
    for (uint32_t c = 0; c < cluster->n_cuts; c++)
        if (link == ORR_NONE || link == c)
            least = fmin(
                least, rate_of(&cluster->cuts[c].bytes_per_s, &cluster->cuts[c].oversubscription));
    return least;
}

double orr_machine_distance(const orr_cluster *cluster, uint32_t cut)
{
    double most = 0;
    for (uint32_t c = 0; c < cluster->n_cuts; c++)
        if (cut == ORR_NONE || cut == c)
            most =
                fmax(most, orr_fact_or(&cluster->cuts[c].km,
                                       orr_fact_or(&cluster->cuts[c].latency_ns, 0) / NS_PER_KM));
    return most;
}

static const char *site_name(const orr_cluster *cluster, uint32_t site, char buf[24])
{
    if (cluster->sites[site].name[0] != '\0')
        return cluster->sites[site].name;
    snprintf(buf, 24, "site %u", site + 1);
    return buf;
}

const char *orr_machine_link_name(const orr_cluster *cluster, bool level, uint32_t link,
                                  orr_arena *arena)
{
    char a[24], b[24];
    if (level)
        return cluster->levels[link].name;
    if (link == ORR_NONE)
        return cluster->n_cuts == 1 ? orr_machine_link_name(cluster, false, 0, arena)
                                    : "all cuts between sites";
    return orr_arena_printf(arena, "%s-%s", site_name(cluster, cluster->cuts[link].a, a),
                            site_name(cluster, cluster->cuts[link].b, b));
}

/* --- devices --------------------------------------------------------------------------------- */

/* What is other of devices. */
typedef struct device_change {
    const orr_device *with;  /* in place of all; or NULL */
    double memory;           /* factor */
    const char *const *name; /* shape (n): price[i] is of those whose names begin so */
    const double *price;
    uint32_t n;
} device_change;

static void set_price(const device_change *change, const orr_device *device, orr_fact *price)
{
    for (uint32_t i = 0; i < change->n; i++)
        if (strncmp(device->name, change->name[i], strlen(change->name[i])) == 0)
            *price = (orr_fact){change->price[i], ORR_FACT_ASSUMED, "as asked", NULL, ""};
}

/* Sites that share a device share its substitute. */
static orr_status replace_devices(const orr_cluster *cluster, const device_change *change,
                                  orr_arena *arena, const orr_cluster **ret, orr_error *err)
{
    const orr_device *from[ORR_SITES_MAX + 1];
    orr_device *to[ORR_SITES_MAX + 1];
    uint32_t n = 0;
    orr_cluster *made;
    orr_level *levels;
    orr_site *sites;
    orr_site_link *cuts;
    ORR_TRY(copy_cluster(cluster, arena, &made, &levels, &sites, &cuts, err));
    for (uint32_t s = 0; s <= cluster->n_sites; s++) {
        const orr_device **at = s == 0 ? &made->device : &sites[s - 1].device;
        uint32_t i = 0;
        while (i < n && from[i] != *at)
            i++;
        if (i == n) {
            from[n] = *at;
            to[n] = orr_arena_one(arena, orr_device);
            if (to[n] == NULL)
                return orr_fail_memory(err);
            *to[n] = **at;
            set(&to[n]->memory_bytes, to[n]->memory_bytes.value * change->memory);
            set_price(change, to[n], &to[n]->price_per_hour);
            n++;
        }
        *at = change->with != NULL ? change->with : to[i];
    }
    for (uint32_t s = 0; s < made->n_sites; s++)
        set_price(change, sites[s].device, &sites[s].price_per_hour);
    *ret = made;
    return ORR_OK;
}

orr_status orr_machine_with_memory(const orr_cluster *cluster, double factor, orr_arena *arena,
                                   const orr_cluster **ret, orr_error *err)
{
    return replace_devices(cluster, &(device_change){.memory = factor}, arena, ret, err);
}

orr_status orr_machine_of_device(const orr_cluster *cluster, const orr_device *device,
                                 orr_arena *arena, const orr_cluster **ret, orr_error *err)
{
    return replace_devices(cluster, &(device_change){.with = device, .memory = 1}, arena, ret, err);
}

orr_status orr_cluster_with_prices(const orr_cluster *cluster, const char *const *name,
                                   const double *price, uint32_t n, orr_arena *arena,
                                   const orr_cluster **ret, orr_error *err)
{
    const device_change change = {.memory = 1, .name = name, .price = price, .n = n};
    return replace_devices(cluster, &change, arena, ret, err);
}

/* --- sizes ----------------------------------------------------------------------------------- */

static uint32_t devices_below(const orr_cluster *cluster, uint32_t level)
{
    return level > 0 ? cluster->levels[level - 1].devices : 1;
}

orr_status orr_machine_grown(const orr_cluster *cluster, uint32_t times, orr_arena *arena,
                             const orr_cluster **ret, orr_error *err)
{
    orr_cluster *to;
    orr_level *levels;
    orr_site *sites;
    orr_site_link *cuts;
    if ((uint64_t)cluster->n_devices * times > INT32_MAX)
        return orr_fail(err, ORR_LIMIT, "%u times the devices of '%s' are too many", times,
                        cluster->name);
    ORR_TRY(copy_cluster(cluster, arena, &to, &levels, &sites, &cuts, err));
    orr_level *level = &levels[to->n_sites > 1 ? to->site_level : to->n_levels - 1];
    level->size *= times;
    level->devices *= times;
    level->ends = NULL;
    for (uint32_t s = 0; s < to->n_sites; s++)
        sites[s].devices *= times;
    to->n_devices *= times;
    ORR_TRY(rebuild_levels(to, arena, err));
    *ret = to;
    return ORR_OK;
}

static bool has_one_device(const orr_cluster *cluster)
{
    bool one = true;
    for (uint32_t s = 0; s < cluster->n_sites; s++)
        one &= cluster->sites[s].device == cluster->device;
    return one;
}

orr_status orr_machine_in_one_place(const orr_cluster *cluster, orr_arena *arena,
                                    const orr_cluster **ret, orr_error *err)
{
    orr_cluster *to;
    orr_level *levels;
    orr_site *sites;
    orr_site_link *cuts;
    *ret = cluster;
    if (cluster->n_sites <= 1)
        return ORR_OK;
    ORR_TRY(copy_cluster(cluster, arena, &to, &levels, &sites, &cuts, err));
    orr_level *place = &levels[cluster->site_level];
    if (has_one_device(cluster)) {
        const uint32_t below = devices_below(cluster, cluster->site_level);
        place->size = (cluster->n_devices - 1) / below + 1;
        place->devices = to->n_devices = place->size * below;
        place->ends = NULL;
        to->n_levels = cluster->site_level + 1;
        to->n_sites = to->n_cuts = to->site_level = 0;
        to->sites = NULL;
        to->cuts = NULL;
    } else {
        for (uint32_t c = 0; c < to->n_cuts; c++) {
            cuts[c].bytes_per_s = place->bytes_per_s;
            cuts[c].latency_ns = place->latency_ns;
            cuts[c].oversubscription = place->oversubscription;
            cuts[c].transport = place->transport;
            set(&cuts[c].km, 0);
            set(&cuts[c].price_per_gb, 0);
        }
        ORR_TRY(rebuild_levels(to, arena, err));
    }
    to->name = orr_arena_printf(arena, "%s in one place", cluster->name);
    if (to->name == NULL)
        return orr_fail_memory(err);
    *ret = to;
    return ORR_OK;
}
