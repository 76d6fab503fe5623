/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_MODELS_HW_H
#define ORR_CLI_MODELS_HW_H

#include <orrery/report.h>

#include "machine/catalog/entries.h"

/* Something with facts: a device, a link, a memory, a level of a cluster. */
typedef struct orr_hw_entry {
    const char *name;
    const void *object;
    const orr_field *fields; /* shape (n_fields) */
    size_t n_fields;
} orr_hw_entry;

typedef struct orr_hw_fact {
    const char *name, *fact, *text, *unit, *basis, *source, *note;
    double value;
    bool conflict;    /* another source's word on the fact of the row before */
    const char * or ; /* the same for people: "or", or NULL */
} orr_hw_fact;

/* Every fact of the entries, one a row with its basis, source and conflicts; rows are orr_hw_fact.
 * For people without texts and exact values: orrery.hw_facts/1. */
orr_status orr_hw_facts(const orr_hw_entry *entries, size_t n, bool for_people, orr_arena *arena,
                        orr_table *ret, orr_error *err) ORR_MUST_CHECK;
/* One fact a row, one entry a column, for people; of two entries also their ratio:
 * orrery.hw_comparison/1. At most ORR_HW_COMPARED entries, of the same kind. */
enum { ORR_HW_COMPARED = 24 };
orr_status orr_hw_comparison(const orr_hw_entry *entries, size_t n, orr_arena *arena,
                             orr_table *ret, orr_error *err) ORR_MUST_CHECK;

/* The main numbers of all of a kind: orrery.hw_devices/1, hw_links, hw_memory, hw_clusters. */
orr_status orr_hw_list_devices(const orr_catalog *catalog, orr_arena *arena, orr_table *ret,
                               orr_error *err) ORR_MUST_CHECK;
orr_status orr_hw_list_links(const orr_catalog *catalog, orr_arena *arena, orr_table *ret,
                             orr_error *err) ORR_MUST_CHECK;
orr_status orr_hw_list_memory(const orr_catalog *catalog, orr_arena *arena, orr_table *ret,
                              orr_error *err) ORR_MUST_CHECK;
orr_status orr_hw_list_clusters(const orr_catalog *catalog, orr_arena *arena, orr_table *ret,
                                orr_error *err) ORR_MUST_CHECK;
/* The levels of some clusters: orrery.hw_levels/1. */
orr_status orr_hw_list_levels(const orr_cluster *const *clusters, size_t n, orr_arena *arena,
                              orr_table *ret, orr_error *err) ORR_MUST_CHECK;
/* Memory and drives of their hosts: orrery.hw_host_tiers/1; no rows where nobody says how many. */
orr_status orr_hw_list_host_tiers(const orr_cluster *const *clusters, size_t n, orr_arena *arena,
                                  orr_table *ret, orr_error *err) ORR_MUST_CHECK;
/* Their sites, cuts and transports: orrery.hw_sites/1, hw_cuts, hw_transport; no rows where nobody
 * named sites. */
orr_status orr_hw_list_sites(const orr_cluster *const *clusters, size_t n, orr_arena *arena,
                             orr_table *ret, orr_error *err) ORR_MUST_CHECK;
orr_status orr_hw_list_cuts(const orr_cluster *const *clusters, size_t n, orr_arena *arena,
                            orr_table *ret, orr_error *err) ORR_MUST_CHECK;
orr_status orr_hw_list_transports(const orr_cluster *const *clusters, size_t n, orr_arena *arena,
                                  orr_table *ret, orr_error *err) ORR_MUST_CHECK;
/* Calibrations of devices and of the links that their clusters have: orrery.hw_calibration/1; and
 * the error intervals of a device: orrery.hw_intervals/1. */
orr_status orr_hw_calibration(const orr_catalog *catalog, const orr_device *const *devices,
                              size_t n, double software_year, orr_arena *arena, orr_table *ret,
                              orr_error *err) ORR_MUST_CHECK;
orr_status orr_hw_intervals(const orr_device *device, orr_arena *arena, orr_table *ret,
                            orr_error *err) ORR_MUST_CHECK;
/* Sites with names; those of a tree of buildings have none. */
bool orr_hw_has_sites(const orr_cluster *cluster);
/* "north - south"; NULL: out of memory. */
const char *orr_hw_cut_name(const orr_cluster *cluster, const orr_site_link *cut, orr_arena *arena);

#endif /* ORR_CLI_MODELS_HW_H */
