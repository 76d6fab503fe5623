/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MACHINE_CATALOG_ENTRIES_H
#define ORR_MACHINE_CATALOG_ENTRIES_H

#include "base/array.h"
#include "machine/catalog/schema.h"

/* Builder of a catalogue, while files are read. The arrays are freed by done; what they point to
 * is in the arena. Later entries hide earlier ones of the same name. */
typedef struct orr_catalog_builder {
    orr_array(const orr_device *) devices;
    orr_array(const orr_memory_tier *) tiers;
    orr_array(const orr_link *) links;
    orr_array(const orr_cluster *) clusters;
    orr_arena *arena;
} orr_catalog_builder;

void orr_catalog_builder_done(orr_catalog_builder *shelf);
/* Adds all entries of a catalogue before those that the builder has. */
orr_status orr_catalog_builder_add_all(orr_catalog_builder *shelf, const orr_catalog *catalog,
                                       orr_error *err) ORR_MUST_CHECK;
orr_status orr_catalog_builder_freeze(const orr_catalog_builder *shelf, const orr_catalog **ret,
                                      orr_error *err) ORR_MUST_CHECK;

/* Readers of a file's sections; clusters come last, because they refer to entries of other
 * files. `outer`: basis and source of facts that the file does not give. */
orr_status orr_catalog_file_read_parts(const orr_yaml *file, const orr_scope *outer,
                                       orr_catalog_builder *shelf, orr_error *err) ORR_MUST_CHECK;
orr_status orr_catalog_file_read_clusters(const orr_yaml *file, const orr_scope *outer,
                                          orr_catalog_builder *shelf,
                                          orr_error *err) ORR_MUST_CHECK;

/* Readers of one entry: a name and its map. */
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

/* The fields of each kind of entry, for printing. */
const orr_field *orr_device_fields(size_t *ret_n);
const orr_field *orr_tier_fields(size_t *ret_n);
const orr_field *orr_link_fields(size_t *ret_n);
const orr_field *orr_cluster_fields(size_t *ret_n);
const orr_field *orr_level_fields(size_t *ret_n);
const orr_field *orr_site_fields(size_t *ret_n);
const orr_field *orr_site_link_fields(size_t *ret_n);

/* Finds an entry by name; NULL: none. Case is ignored, and '-' equals '_'. A link by its name or
 * an alias, without regard to blanks and punctuation. */
const orr_memory_tier *orr_catalog_tier(const orr_catalog *catalog, const char *name);
const orr_link *orr_catalog_link(const orr_catalog *catalog, const char *name);
/* Finds an entry of any kind: arrays of pointers to structs that begin with their name. */
const void *orr_entry_find(const void *entries, size_t n, const char *name);
/* Names for a did-you-mean; NULL: out of memory. */
const char *const *orr_entry_names(const void *entries, size_t n, orr_arena *arena);
/* The entries of one kind, with what else they are called: offsets of texts in an entry, or
 * SIZE_MAX. */
typedef struct orr_entry_list {
    const void *entries; /* as in orr_entry_find() */
    size_t n, aliases, n_aliases, vendor;
} orr_entry_list;
orr_entry_list orr_device_list(const orr_catalog *catalog);
orr_entry_list orr_link_list(const orr_catalog *catalog);
orr_entry_list orr_tier_list(const orr_catalog *catalog);
orr_entry_list orr_cluster_list(const orr_catalog *catalog);
/* How many entries are meant by a name: that of the name; else those of which the name or an alias
 * has the same letters and digits; else, `by_words`, those that have each word of it in their name,
 * aliases or vendor. The first ORR_ENTRY_FITS of them. */
enum { ORR_ENTRY_FITS = 6 };
size_t orr_entry_search(const orr_entry_list *list, const char *name, bool by_words,
                        const void *ret[ORR_ENTRY_FITS]);
/* Fails with "WHAT 'name'; did you mean 'a', 'b' or 'c'?", or with `if_none`. */
orr_status orr_entry_fail(const char *what, const char *name, const orr_entry_list *list,
                          const char *if_none, orr_arena *arena, orr_error *err);
/* Reads the only cluster of a user's file, which is in memory; `path` is what messages call it. */
orr_status orr_cluster_read_text(const orr_catalog *catalog, const char *text, size_t n,
                                 const char *path, orr_arena *arena, const orr_cluster **ret,
                                 orr_error *err) ORR_MUST_CHECK;
/* Is the name a file: has it a slash, or does it end in .yaml or .yml? */
bool orr_entry_is_file(const char *name);

#endif /* ORR_MACHINE_CATALOG_ENTRIES_H */
