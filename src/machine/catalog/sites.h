/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MACHINE_CATALOG_SITES_H
#define ORR_MACHINE_CATALOG_SITES_H

#include "machine/catalog/schema.h"

/* Sites and cuts of a cluster, and the levels that follow from them. */

/* What levels are made from: those inside of a site, and what is known of the two above besides
 * what cuts say (name, topology, reduction). */
typedef struct orr_site_levels {
    const orr_level *inner; /* shape (n_inner), up to that of a site */
    uint32_t n_inner;
    orr_level region, wan;
} orr_site_levels;
/* Levels, site_level, and n_devices of a cluster that has its sites and cuts. The highest level
 * inside of a site that the largest one needs is cut to it and becomes the level of sites. Errors:
 * LIMIT, NO_MEMORY. */
orr_status orr_sites_build_levels(orr_cluster *cluster, const orr_site_levels *from,
                                  orr_arena *arena, orr_error *err) ORR_MUST_CHECK;

/* Sites whose devices are 0 left out, with their cuts; `devices` as in orr_cluster_select_sites().
 * Levels stay. */
orr_status orr_sites_select(orr_cluster *cluster, const uint32_t *devices, orr_arena *arena,
                            orr_error *err) ORR_MUST_CHECK;

/* The device of the cluster where some site has it, else the first one's. */
const orr_device *orr_sites_device(const orr_cluster *cluster);

/* "sites:" and "cuts:" of a cluster whose device and levels are read; the last of them is that of a
 * site. Errors: INVALID and LIMIT, with the position. */
orr_status orr_sites_read(const orr_yaml *map, const orr_scope *scope, const orr_catalog *parts,
                          orr_cluster *cluster, orr_error *err) ORR_MUST_CHECK;
/* Cuts of all pairs of the cluster's sites; names of levels into *levels where rules have some.
 * `site`: the level whose units sites are. `list` may be NULL: then `map` is where errors point. */
orr_status orr_site_links_read(const orr_yaml *map, const orr_yaml *list, const orr_scope *scope,
                               const orr_catalog *parts, orr_cluster *cluster,
                               orr_site_levels *levels, orr_error *err) ORR_MUST_CHECK;
/* A tree with a level above one called "building", at most ORR_SITES_MAX of these: its buildings
 * are sites without names, its levels stay as they are. */
orr_status orr_sites_of_buildings(orr_cluster *cluster, orr_arena *arena,
                                  orr_error *err) ORR_MUST_CHECK;

/* What a "transport:" says, over what *transport has. */
orr_status orr_rdma_transport_read(const orr_yaml *map, const orr_scope *scope,
                                   orr_rdma_transport *transport, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_MACHINE_CATALOG_SITES_H */
