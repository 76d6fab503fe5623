/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MACHINE_CATALOG_ENTRIES_H
#define ORR_MACHINE_CATALOG_ENTRIES_H

#include "base/array.h"
#include "machine/catalog/schema.h"

/* A catalogue while it is read. The arrays are freed by done; what they point to is the
 * arena's. Later entries hide earlier ones of the same name. */
typedef struct orr_catalog_builder {
    orr_array(const orr_device *) devices;
    orr_array(const orr_memory_tier *) tiers;
    orr_array(const orr_link *) links;
    orr_array(const orr_cluster *) clusters;
    orr_arena *arena;
} orr_catalog_builder;

void orr_catalog_builder_done(orr_catalog_builder *shelf);
/* All that a catalogue has, in front of what is on the shelf. */
orr_status orr_catalog_builder_add_all(orr_catalog_builder *shelf, const orr_catalog *catalog,
                                       orr_error *err) ORR_MUST_CHECK;
orr_status orr_catalog_builder_freeze(const orr_catalog_builder *shelf, const orr_catalog **ret,
                                      orr_error *err) ORR_MUST_CHECK;

/* The sections of a file; clusters by themselves, because they name entries that other files
 * may have. `outer`: what holds for facts unless the file says otherwise. */
orr_status orr_catalog_file_read_parts(const orr_yaml *file, const orr_scope *outer,
                                       orr_catalog_builder *shelf, orr_error *err) ORR_MUST_CHECK;
orr_status orr_catalog_file_read_clusters(const orr_yaml *file, const orr_scope *outer,
                                          orr_catalog_builder *shelf,
                                          orr_error *err) ORR_MUST_CHECK;

/* An entry: a name and what is known under it. */
orr_status orr_device_read(const orr_yaml *name, const orr_yaml *map, const orr_scope *scope,
                           const orr_device **ret, orr_error *err) ORR_MUST_CHECK;
orr_status orr_tier_read(const orr_yaml *name, const orr_yaml *map, const orr_scope *scope,
                         const orr_memory_tier **ret, orr_error *err) ORR_MUST_CHECK;
orr_status orr_link_read(const orr_yaml *name, const orr_yaml *map, const orr_scope *scope,
                         const orr_link **ret, orr_error *err) ORR_MUST_CHECK;
orr_status orr_cluster_read(const orr_yaml *name, const orr_yaml *map, const orr_scope *scope,
                            const orr_catalog *parts, const orr_cluster **ret,
                            orr_error *err) ORR_MUST_CHECK;

/* The device of the catalogue that a value names. */
orr_status orr_device_ref_read(const orr_yaml *value, const orr_catalog *parts, orr_arena *arena,
                               const orr_device **ret, orr_error *err) ORR_MUST_CHECK;

/* What an entry says by key, for whoever prints it all. */
const orr_field *orr_device_fields(size_t *ret_n);
const orr_field *orr_tier_fields(size_t *ret_n);
const orr_field *orr_link_fields(size_t *ret_n);
const orr_field *orr_cluster_fields(size_t *ret_n);
const orr_field *orr_level_fields(size_t *ret_n);
const orr_field *orr_site_fields(size_t *ret_n);
const orr_field *orr_site_link_fields(size_t *ret_n);

/* By name; NULL: none. Names are the same whatever their case, and with '-' for '_'. */
const orr_memory_tier *orr_catalog_tier(const orr_catalog *catalog, const char *name);
const orr_link *orr_catalog_link(const orr_catalog *catalog, const char *name);
/* Any of the four: pointers to structs that begin with their name. */
const void *orr_entry_find(const void *entries, size_t n, const char *name);
/* The names, for a did-you-mean; NULL: out of memory. */
const char *const *orr_entry_names(const void *entries, size_t n, orr_arena *arena);
/* A name with a slash, or ending in .yaml or .yml, is a file. */
bool orr_entry_is_file(const char *name);

#endif /* ORR_MACHINE_CATALOG_ENTRIES_H */
