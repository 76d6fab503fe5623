/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MACHINE_CATALOG_SITES_H
#define ORR_MACHINE_CATALOG_SITES_H

#include "machine/catalog/schema.h"

/* Sites and site links of a cluster, and the levels that follow from them. */

/* What levels are built from: those inside of a site, and for the two levels above sites what
 * links do not give (name, topology, reduction). */
typedef struct orr_site_levels {
    const orr_level *inner; /* shape (n_inner), up to the level of a site */
    uint32_t n_inner;
    orr_level region, wan;
} orr_site_levels;
/* Builds the levels of a cluster that has its sites and links: sets levels, site_level and
 * n_devices. The highest level inside of a site that the largest site needs is shortened to it
 * and becomes the level of sites. Errors: LIMIT, NO_MEMORY. */
orr_status orr_sites_build_levels(orr_cluster *cluster, const orr_site_levels *from,
                                  orr_arena *arena, orr_error *err) ORR_MUST_CHECK;

/* Removes sites without devices, and their links; `devices` as in orr_cluster_select_sites().
 * Levels are unchanged. */
orr_status orr_sites_select(orr_cluster *cluster, const uint32_t *devices, orr_arena *arena,
                            orr_error *err) ORR_MUST_CHECK;

/* The device of the cluster if some site has it, else that of the first site. */
const orr_device *orr_sites_device(const orr_cluster *cluster);

/* Reads "sites:" and "cuts:" of a cluster whose device and levels are known; the last of the
 * levels is that of a site. Errors: INVALID and LIMIT, with the position. */
orr_status orr_sites_read(const orr_yaml *map, const orr_scope *scope, const orr_catalog *parts,
                          orr_cluster *cluster, orr_error *err) ORR_MUST_CHECK;
/* Reads the links between all pairs of the cluster's sites; names of levels go to *levels where
 * rules have some. `site`: the level whose units are sites. `list` may be NULL: then errors
 * point to `map`. */
orr_status orr_site_links_read(const orr_yaml *map, const orr_yaml *list, const orr_scope *scope,
                               const orr_catalog *parts, orr_cluster *cluster,
                               orr_site_levels *levels, orr_error *err) ORR_MUST_CHECK;
/* Makes sites of a tree that has a level above one called "building", with at most ORR_SITES_MAX
 * buildings: these become sites without names, and the levels stay. */
orr_status orr_sites_of_buildings(orr_cluster *cluster, orr_arena *arena,
                                  orr_error *err) ORR_MUST_CHECK;

/* Reads a "transport:" on top of what *transport has. */
orr_status orr_rdma_transport_read(const orr_yaml *map, const orr_scope *scope,
                                   orr_rdma_transport *transport, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_MACHINE_CATALOG_SITES_H */
