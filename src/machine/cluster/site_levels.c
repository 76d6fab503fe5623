/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <string.h>

#include "machine/catalog/sites.h"

/* Levels above sites, made from pairwise site links. At most two: one that joins the sites of a
 * region ("region"), and one that joins regions ("wan"). Each is as slow as the slowest of the
 * links that it stands for, fact by fact. If sites are equal and full, and regions have equally
 * many, the tree stays regular; otherwise the levels get `ends`, the prefix sums of the devices
 * of their units. */
typedef struct regions {
    uint32_t n, most_sites, most_devices;
    uint32_t ends[ORR_SITES_MAX];
    bool regular; /* every region has as many sites */
} regions;

static regions regions_of(const orr_cluster *cluster)
{
    regions r = {.regular = true};
    uint32_t sites = 0, devices = 0, first_sites = 0, end = 0;
    for (uint32_t s = 0; s < cluster->n_sites; s++) {
        sites++;
        devices += cluster->sites[s].devices;
        end += cluster->sites[s].devices;
        r.most_sites = sites > r.most_sites ? sites : r.most_sites;
        r.most_devices = devices > r.most_devices ? devices : r.most_devices;
        if (s + 1 < cluster->n_sites &&
            strcmp(cluster->sites[s].region, cluster->sites[s + 1].region) == 0)
            continue;
        r.ends[r.n++] = end;
        first_sites = r.n == 1 ? sites : first_sites;
        r.regular &= sites == first_sites;
        sites = devices = 0;
    }
    return r;
}

static uint32_t largest(const orr_cluster *cluster)
{
    uint32_t most = 0;
    for (uint32_t s = 0; s < cluster->n_sites; s++)
        most = cluster->sites[s].devices > most ? cluster->sites[s].devices : most;
    return most;
}

/* Levels inside of sites: those of which the largest site has more than one unit below,
 * shortened to it. */
static uint32_t lay_inner(const orr_site_levels *from, uint32_t most, orr_level *levels)
{
    uint32_t n = 0, below = 1;
    for (; n < from->n_inner && (n == 0 || most > below); n++) {
        orr_level *level = &levels[n];
        *level = from->inner[n];
        level->ends = NULL;
        level->devices = level->devices < most ? level->devices : most;
        level->size = (level->devices - 1) / below + 1;
        below = level->devices;
    }
    return n;
}

/* Are sites equal, and full to the last inner unit, as units of a regular tree? */
static bool regular(const orr_cluster *cluster, const orr_level *levels, uint32_t n_inner)
{
    const uint32_t devices = cluster->sites[0].devices;
    bool same = true;
    for (uint32_t s = 1; s < cluster->n_sites; s++)
        same &= cluster->sites[s].devices == devices;
    for (uint32_t l = 0; l < n_inner && cluster->n_sites > 1; l++)
        same &= devices % levels[l].devices == 0;
    return same || cluster->n_sites == 1;
}

static orr_status set_ends(const uint32_t *ends, uint32_t n, orr_level *level, orr_arena *arena,
                           orr_error *err)
{
    uint32_t *copy = orr_arena_array(arena, uint32_t, n);
    if (copy == NULL)
        return orr_fail_memory(err);
    memcpy(copy, ends, n * sizeof *copy);
    level->ends = copy;
    return ORR_OK;
}

/* The known one of two facts, or the worse one. */
static const orr_fact *worse(const orr_fact *a, const orr_fact *b, bool less)
{
    if (a == NULL || a->basis == ORR_FACT_UNKNOWN)
        return b;
    if (b->basis == ORR_FACT_UNKNOWN)
        return a;
    return (less ? b->value < a->value : b->value > a->value) ? b : a;
}

/* The link with the worse fact, the first one on a tie; `one` may be NULL. */
static const orr_site_link *worse_cut(const orr_site_link *one, const orr_site_link *other,
                                      size_t fact, bool less)
{
    const orr_fact *b = (const orr_fact *)((const char *)other + fact);
    return one == NULL || worse((const orr_fact *)((const char *)one + fact), b, less) == b ? other
                                                                                            : one;
}

/* The worst of each fact among links within regions, or between them; the transport is that of
 * the longest link that has one. */
static void set_facts(const orr_cluster *cluster, bool between, orr_level *level)
{
    const orr_site_link *slowest = NULL, *longest = NULL, *wired = NULL;
    const orr_fact *over = NULL;
    for (uint32_t i = 0; i < cluster->n_cuts; i++) {
        const orr_site_link *cut = &cluster->cuts[i];
        const bool other =
            strcmp(cluster->sites[cut->a].region, cluster->sites[cut->b].region) != 0;
        if (other != between)
            continue;
        slowest = worse_cut(slowest, cut, offsetof(orr_site_link, bytes_per_s), true);
        longest = worse_cut(longest, cut, offsetof(orr_site_link, latency_ns), false);
        if (cut->transport != NULL)
            wired = worse_cut(wired, cut, offsetof(orr_site_link, latency_ns), false);
        over = worse(over, &cut->oversubscription, false);
    }
    level->bytes_per_s = slowest->bytes_per_s;
    level->technology = slowest->technology != NULL ? slowest->technology : "";
    level->latency_ns = longest->latency_ns;
    level->transport = wired != NULL ? wired->transport : NULL;
    level->oversubscription = *over;
}

static orr_status lay_region(const orr_cluster *cluster, const orr_level *like, const regions *r,
                             bool uneven, orr_level *level, orr_arena *arena, orr_error *err)
{
    *level = *like;
    level->size = r->most_sites;
    level->devices = r->most_devices;
    level->ends = NULL;
    set_facts(cluster, false, level);
    return r->n > 1 && (uneven || !r->regular) ? set_ends(r->ends, r->n, level, arena, err)
                                               : ORR_OK;
}

static orr_status lay_site_ends(const orr_cluster *cluster, orr_level *level, orr_arena *arena,
                                orr_error *err)
{
    uint32_t ends[ORR_SITES_MAX], end = 0;
    for (uint32_t s = 0; s < cluster->n_sites; s++)
        ends[s] = end += cluster->sites[s].devices;
    return set_ends(ends, cluster->n_sites, level, arena, err);
}

orr_status orr_sites_build_levels(orr_cluster *cluster, const orr_site_levels *from,
                                  orr_arena *arena, orr_error *err)
{
    const regions r = regions_of(cluster);
    orr_level *levels = orr_arena_array(arena, orr_level, from->n_inner + 2);
    if (levels == NULL)
        return orr_fail_memory(err);
    uint32_t n = lay_inner(from, largest(cluster), levels);
    const bool even = regular(cluster, levels, n);
    cluster->site_level = n - 1;
    cluster->n_devices = r.ends[r.n - 1];
    if (!even)
        ORR_TRY(lay_site_ends(cluster, &levels[n - 1], arena, err));
    if (r.most_sites > 1)
        ORR_TRY(lay_region(cluster, &from->region, &r, !even, &levels[n++], arena, err));
    if (r.n > 1) {
        levels[n] = from->wan;
        levels[n].size = r.n;
        levels[n].devices = cluster->n_devices;
        levels[n].ends = NULL;
        set_facts(cluster, true, &levels[n++]);
    }
    if (n > ORR_LEVELS_MAX)
        return orr_fail(err, ORR_LIMIT, "cluster '%s' has more than %d levels, with those of sites",
                        cluster->name, ORR_LEVELS_MAX);
    cluster->levels = levels;
    cluster->n_levels = n;
    return ORR_OK;
}
